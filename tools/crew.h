/* crew: workers that process the batches of a command side by side, and the choice of threads for a software driver.
 *
 * On a CPU a dispatch of a small model is over before the driver's threads have woken up. So the driver computes on the
 * thread that submits, and there is one worker per core, a thread with its own session, to share many batches. A single
 * batch gets one worker and the driver's threads, because two workers would both read all weights. A device of a
 * software driver has one queue, so each worker has its own context, device and model, which reads the weights of the
 * first worker's model. On other drivers the workers of a device share its model. A batch gives the same results
 * whichever worker processes it.
 */
#ifndef VKFORMER_TOOLS_CREW_H
#define VKFORMER_TOOLS_CREW_H

#include <pthread.h>

#include "program.h"

typedef struct tool_crew_worker tool_crew_worker;

typedef struct tool_crew {
  const tool_args *args; /* --workers, --driver-threads, --device */
  const char *folder;    /* of the model */
  tool_session *first;   /* the command's own session, the first worker's, on the first of the devices */
  bool shares_model;     /* the other workers of this device use it, too */
  tool_crew_worker *others;
  size_t limit; /* of workers per device if --workers is not given */
  size_t most;  /* workers, the first one included */
  char **devices;
  size_t n_devices;
} tool_crew;

extern const tool_option_group tool_crew_options;

/* What there is to do. */
typedef enum tool_workload {
  TOOL_ONE_AT_A_TIME,
  TOOL_ONE_BATCH,   /* faster on one worker */
  TOOL_MANY_BATCHES /* of several texts */
} tool_workload;

/* Opens `first` and chooses the driver's threads and the workers; close both either way. TOOL_OK, or another exit code
 * after a message. */
int tool_crew_open(tool_crew *crew, const tool_args *args, tool_session *first, const char *folder, tool_workload load);
/* Calls job(user, session, i) for every i < n, on several threads at the same time, each i once. A worker whose job
 * fails gets no more, and the first worker repeats that job. If the first worker fails, its status is the result, the
 * message is in its session, and some jobs are not done. */
vkf_status tool_crew_run(tool_crew *crew, size_t n, vkf_status (*job)(void *user, vkf_session *session, size_t i),
                         void *user);
void tool_crew_finish(tool_crew *crew);

#endif
