/* window: the lines of a corpus that are being processed.
 *
 * Lines enter in their order, at most so many behind the oldest one that is not done. Workers take the longest of
 * those that wait; a worker that is idle reads more of them. The result of a line is printed when all lines before it
 * are done. Every function here may be called by several threads.
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
  char *line;         /* as it came, mended where it is no UTF-8 */
  char *field;        /* of it; NULL: the text is all of it */
  json_t *json;       /* of a line of JSON */
  const char *text;   /* what is worked on, in one of the three */
  const char *prefix; /* its translation begins so, in line or json; NULL: with anything */
  char *skipped;      /* why; NULL: it was not */
  bool is_long;       /* it was skipped because it has too many tokens */
  bool fails;         /* the run ends here */
  char *out;          /* what is printed for it, [n_out] */
  size_t n_out;
  uint64_t source;  /* hash of the source up to here */
  pthread_t worker; /* that has it */
} tool_entry;

/* What came of the lines. */
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
  size_t capacity;    /* lines on their way */
  bool works_blanks;  /* blank lines are worked on, too */
  bool mixes_lengths; /* the longest and the shortest are taken in turns, else the longest first */
  /* window.c's own */
  tool_entry *ring; /* [capacity]: lines [first, end) */
  size_t first, end;
  tool_entry **waiting; /* [n_waiting], the shortest first */
  size_t n_waiting, n_taken;
  bool ended; /* no more lines come */
  bool sink_failed;
  int exit_code; /* not TOOL_OK: the run is over */
  int broken;    /* the exit code where the source could not be read to its end; what is before that is worked on */
  size_t n_done; /* lines that are done */
  size_t lines;  /* the last line of the source that is done and has all lines before it done */
  uint64_t hash; /* of the source up to that line */
  tool_counts counts;
  size_t n_steps;                /* of tool_window_step() */
  double start, told;            /* in seconds */
  double share, share_begin;     /* of the source */
  pthread_mutex_t lock, reading; /* of all this; of the source */
  pthread_cond_t moved;
} tool_window;

/* --shard; TOOL_USAGE after a message. */
int tool_shard_parse(const tool_args *args, tool_shard *out);
/* Source and sink are open. Allocates, and passes over the lines of the source that a resumed run has done. Finish it
 * in every case. */
int tool_window_init(tool_window *window);
/* Source and sink are open, and an earlier run did all: whether the source is what it read. TOOL_FAILED after a
 * message. */
int tool_window_check_done(tool_window *window);
/* Takes in lines, before there are workers. waits: for one, where there is none to work on. */
void tool_window_fill(tool_window *window, bool waits);
/* Has so many workers take lines until none is left; then writes what is left and says what was skipped. A worker that
 * fails leaves its lines to the others. */
int tool_window_run(tool_window *window, tool_crew *crew, size_t n_workers);
/* Something was done, although it ended no line: a token, or with beams a step. Says so on a terminal where no line was
 * done for a second: a text that is split into many parts takes long. */
void tool_window_step(tool_window *window, bool is_token);
void tool_window_finish(tool_window *window);

#endif
