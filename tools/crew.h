/* crew: workers that do the batches of a command side by side, and the threads of a software driver.
 *
 * On a CPU a dispatch of a small model is over before the driver's threads have woken up. So the driver computes on the
 * thread that submits, and where there are many batches, as many workers as there are cores take them: threads, each
 * with a context, a device and a model of its own. A batch gives the same results whoever does it.
 */
#ifndef VKFORMER_TOOLS_CREW_H
#define VKFORMER_TOOLS_CREW_H

#include <pthread.h>

#include "program.h"

typedef struct tool_crew_worker tool_crew_worker;

typedef struct tool_crew {
  const tool_args *args; /* --workers, --driver-threads */
  const char *folder;    /* of the model */
  tool_session *first;   /* the command's own session, the first worker's */
  tool_crew_worker *others;
  size_t most; /* workers, the first one included */
} tool_crew;

#define TOOL_CREW_OPTIONS                                                                                             \
  {"workers",                                                                                                         \
   0,                                                                                                                 \
   TOOL_SIZE,                                                                                                         \
   offsetof(tool_args, workers),                                                                                      \
   "N",                                                                                                               \
   "batches that run at the same time, each worker with a copy of\nthe model; default: on lavapipe and ref a core "   \
   "each, "                                                                                                           \
   "at most\n8; else, and for a model over 128 MB, 1; the output is the same"},                                       \
  {                                                                                                                   \
    "driver-threads", 0, TOOL_TEXT, offsetof(tool_args, driver_threads), "N",                                         \
        "threads of lavapipe (LP_NUM_THREADS); 0: it computes where\na worker submits, the default for models up to " \
        "128 MB with\nseveral workers or one text"                                                                    \
  }

/* Before the session is opened: chooses the driver's threads and puts them into the environment, where drivers read
 * them. is_batched: batches may have more than one text. TOOL_OK, or another exit code after a message. */
int tool_crew_begin(tool_crew *crew, const tool_args *args, tool_session *first, const char *folder, bool is_batched);
/* When it is open: how many workers there may be. */
void tool_crew_choose(tool_crew *crew);
/* Calls job(user, model, i) for every i < n, at the same time on several threads, each i once; a worker whose job fails
 * gets no more, and the first worker does that job again. What the first worker fails in is the result, with the
 * message in its session; some jobs are not done then. */
vkf_status tool_crew_run(tool_crew *crew, size_t n, vkf_status (*job)(void *user, vkf_session *session, size_t i),
                         void *user);
void tool_crew_finish(tool_crew *crew);

#endif
