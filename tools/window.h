/* window: the lines of a corpus that are being processed.
 *
 * Lines enter in order, at most `capacity` of them from the oldest unfinished one on. Workers take the longest of those
 * that wait; an idle worker reads more. The result of a line is printed when all lines before it are done. Every
 * function here may be called by several threads.
 */
#ifndef VKFORMER_TOOLS_WINDOW_H
#define VKFORMER_TOOLS_WINDOW_H

#include <pthread.h>

#include "lines.h"
#include "sink.h"

typedef enum tool_entry_state { TOOL_ENTRY_WAITS, TOOL_ENTRY_RUNS, TOOL_ENTRY_DONE } tool_entry_state;

typedef struct tool_entry {
  tool_entry_state state;
  size_t number;      /* from 1 */
  char *line;         /* as it was read, bytes that are not UTF-8 replaced */
  char *field;        /* part of it that is the text; NULL: all of it */
  json_t *json;       /* of a line of JSON */
  const char *text;   /* to be processed; points into one of the three */
  const char *prefix; /* beginning of its translation, in line or json; NULL: any */
  char *skipped;      /* why; NULL: it was not */
  bool is_long;       /* it was skipped because it has too many tokens */
  bool fails;         /* the run ends here */
  char *out;          /* what is printed for it, [n_out] */
  size_t n_out;
  uint64_t source;  /* hash of the source up to here */
  pthread_t worker; /* that has it */
} tool_entry;

/* Totals over the lines. */
typedef struct tool_counts {
  size_t empty, cut; /* lines */
  size_t tokens;     /* of the results */
} tool_counts;

typedef struct tool_window {
  tool_session *session;
  const tool_args *args;
  tool_source source;
  tool_sink sink;
  tool_shard shard;
  tool_skips skips;
  const char *noun; /* "text" or "line" */
  /* Sets entry->text, which is entry->line, or entry->skipped. TOOL_OK, or out of memory. NULL: the text is the line.
   */
  int (*prepare)(void *user, tool_entry *entry);
  /* Runs the texts of a queue in a worker's session: a vkf_session_..._queue(). */
  vkf_status (*run)(void *user, vkf_session *session, const vkf_text_queue *queue);
  /* Sets entry->out; n_tokens grows by those of the result. result NULL: the line is empty, or was skipped. */
  int (*render)(void *user, tool_entry *entry, const vkf_result *result, size_t *n_tokens);
  void *user;         /* of these three, which run on the threads of all workers */
  size_t capacity;    /* lines in the window */
  bool works_blanks;  /* blank lines are processed, too */
  bool mixes_lengths; /* take the longest and the shortest in turns, else the longest first */
  /* window.c's own */
  tool_entry *ring; /* [capacity]: lines [first, end) */
  size_t first, end;
  tool_entry **waiting; /* [n_waiting], the shortest first */
  size_t n_waiting, n_taken;
  bool ended; /* no more lines come */
  bool sink_failed;
  int exit_code; /* not TOOL_OK: the run is over */
  int broken;    /* the exit code if the source could not be read to its end; lines before that are processed */
  size_t n_done; /* lines that are done */
  size_t lines;  /* so many lines at the beginning of the source are done */
  uint64_t hash; /* of these lines */
  tool_counts counts;
  size_t n_steps;                /* of tool_window_step() */
  double start, told;            /* in seconds */
  double share, share_begin;     /* of the source */
  pthread_mutex_t lock, reading; /* for all of this; for the source */
  pthread_cond_t moved;
} tool_window;

/* Parses --shard; TOOL_USAGE after a message. */
int tool_shard_parse(const tool_args *args, tool_shard *out);
/* Allocates, and skips the lines of the source that a resumed run has done. Source and sink must be open. Finish it in
 * every case. */
int tool_window_init(tool_window *window);
/* Checks, if an earlier run did everything, that the source is what that run read. Source and sink must be open.
 * TOOL_FAILED after a message. */
int tool_window_check_done(tool_window *window);
/* Reads lines before there are workers. waits: wait for one if there is none to process. */
void tool_window_fill(tool_window *window, bool waits);
/* Lets n_workers workers take lines until none is left, then writes the rest and reports skipped lines. The others take
 * the lines of a worker that fails. */
int tool_window_run(tool_window *window, tool_crew *crew, size_t n_workers);
/* Counts progress within a line: a token, or with beams a step. Shows it on a terminal if no line was finished for a
 * second, because a text that is split into many parts takes long. */
void tool_window_step(tool_window *window, bool is_token);
void tool_window_finish(tool_window *window);

#endif
