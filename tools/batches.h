/* batches: sorts the texts of one call into batches of similar length, which the workers of a crew process.
 *
 * The result of a text depends neither on the batches nor on the worker.
 */
#ifndef VKFORMER_TOOLS_BATCHES_H
#define VKFORMER_TOOLS_BATCHES_H

#include "crew.h"

/* Works on texts [n]. Runs on the thread of any worker. */
typedef vkf_status tool_batch_fn(void *user, vkf_session *session, const char *const *texts, size_t n,
                                 vkf_result **out);

typedef struct tool_batches {
  tool_batch_fn *run;
  void *user;
  size_t size;      /* texts of a batch; 0: all of the call */
  bool keeps_order; /* texts are not sorted by length */
  /* batches.c's own: the texts of the call in the order of batches, the place of each there, and the results of the
   * batches of `each` texts */
  struct tool_batch_text *sorted;
  size_t *found, n, each, n_results;
  vkf_result **results;
} tool_batches;

/* Runs all batches of a call, as tool_crew_run() runs jobs. Frees the results of the previous call. */
vkf_status tool_batches_run(tool_batches *b, tool_crew *crew, const char *const *texts, size_t n);
/* Returns the result of the batch with text i of the call, and the text's row there; NULL: the call failed before that
 * batch was done. */
const vkf_result *tool_batches_find(const tool_batches *b, size_t i, size_t *row);
void tool_batches_finish(tool_batches *b);

#endif
