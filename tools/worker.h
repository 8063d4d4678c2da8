/* worker: a child process that measures kernels, so that a kernel that hangs or crashes does not end the program. */
#ifndef VKFORMER_TOOLS_WORKER_H
#define VKFORMER_TOOLS_WORKER_H

#include "child.h"

typedef enum tool_outcome {
  TOOL_MEASURE_DONE,
  TOOL_MEASURE_WRONG,  /* over its bound: not timed */
  TOOL_MEASURE_FAILED, /* the library said why: message */
  TOOL_MEASURE_HUNG,   /* no answer within the limit */
  TOOL_MEASURE_DIED    /* the child ended */
} tool_outcome;

typedef struct tool_measure {
  const char *kernel; /* asked for; the caller's */
  tool_outcome outcome;
  double ns, min_ns, ratio; /* median, least; err/bound */
  double flops, bytes;      /* of one run */
  char message[256];
} tool_measure;

/* How long to measure. */
typedef struct tool_patience {
  double seconds;    /* of timing a kernel */
  double limit;      /* seconds for a whole request; a child that takes longer counts as hung */
  double give_up_ns; /* a kernel whose first run takes longer is not run again; 0: none */
} tool_patience;

typedef struct tool_worker {
  const tool_args *args;
  char device[24]; /* index */
  tool_child child;
  char line[1024]; /* read so far */
  size_t n_line;
} tool_worker;

/* Prepares a worker whose child will open the session's device. Starts no child yet. */
int tool_worker_init(tool_worker *worker, tool_session *session, const tool_args *args);
/* Measures kernels in turns. Starts the child if none runs; one that hangs or died is gone afterwards. TOOL_FAILED
 * after a message if no child can be started. */
int tool_worker_measure(tool_worker *worker, const char *problem, tool_measure *kernels, size_t n,
                        tool_patience patience);
/* Ends the child. */
void tool_worker_finish(tool_worker *worker);

/* The child's side: answers standard input line by line on standard output. */
int tool_worker_serve(tool_session *session);

#endif
