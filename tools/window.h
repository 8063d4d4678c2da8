/* window: the lines of a corpus that are on their way.
 *
 * Lines come in their order, up to so many behind the oldest one that is not done. Workers take the longest of those
 * that wait; whoever is idle reads more of them. What is printed for a line waits until those before it are done.
 * Everything here may be called by several threads.
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
  /* Sets entry->out for an entry that is not worked on: empty or skipped. */
  int (*render)(void *user, tool_entry *entry);
  void *user;
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
  int exit_code;        /* not TOOL_OK: the run is over */
  size_t n_done, lines; /* lines that are done; up to which line of the source, */
  uint64_t hash;        /* and its hash there */
  tool_counts counts;
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
/* Takes in lines, before there are workers. waits: for one, where there is none to work on. */
void tool_window_fill(tool_window *window, bool waits);
/* vkf_text_queue.next: the next line to work on, whose tag is its tool_entry. */
int tool_window_next(tool_window *window, bool busy, vkf_queued_text *out);
/* Whether the library skipped it; then e->skipped, fails and is_long say so. TOOL_OK, or out of memory. */
int tool_window_note_skip(tool_window *window, tool_entry *entry, const vkf_result *result);
/* It is done: out and n_out are set, or (exit_code) that failed after a message. */
void tool_window_done(tool_window *window, tool_entry *entry, size_t n_tokens, bool is_cut, int exit_code);
/* What this thread took and is not done is another worker's to take. */
void tool_window_return(tool_window *window);
/* Whether the run has ended early. */
bool tool_window_is_over(tool_window *window);
/* Does job(user, session, i) on so many workers, each of which takes lines until none is left; then writes what is left
 * and says what was skipped. A worker that fails leaves its lines to the others. */
int tool_window_run(tool_window *window, tool_crew *crew, size_t n_workers,
                    vkf_status (*job)(void *user, vkf_session *session, size_t i), void *user);
void tool_window_finish(tool_window *window);

#endif
