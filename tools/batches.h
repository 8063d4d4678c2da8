/* batches: sorts the texts of one call into batches of similar length, which the workers of a crew process.
 *
 * A text has the same result whatever the batches are and whichever worker processes them.
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
  /* batches.c's own: the texts of the call in the order of batches, where each of them is, and what the batches of
   * `each` texts gave */
  struct tool_batch_text *sorted;
  size_t *found, n, each, n_results;
  vkf_result **results;
} tool_batches;

/* As tool_crew_run(). Frees the results of the call before. */
vkf_status tool_batches_run(tool_batches *b, tool_crew *crew, const char *const *texts, size_t n);
/* The result of the batch that has text i of the call, and the text's row there; NULL: it was not done, since the call
 * failed. */
const vkf_result *tool_batches_find(const tool_batches *b, size_t i, size_t *row);
void tool_batches_finish(tool_batches *b);

#endif
