/* batches: the texts of one call in batches, which a crew of workers does: of texts of like length, or, where each
 * worker has one batch, with the same work for each.
 *
 * Whatever the batches are and whoever does them, a text has the same result.
 */
#ifndef VKFORMER_TOOLS_BATCHES_H
#define VKFORMER_TOOLS_BATCHES_H

#include "crew.h"

/* Works on texts [n], which are the lines numbers [n], counted from 0. Runs on the thread of any worker. */
typedef vkf_status tool_batch_fn(void *user, vkf_session *session, const char *const *texts, const uint64_t *numbers,
                                 size_t n, vkf_result **out);

typedef struct tool_batches {
  tool_batch_fn *run;
  void *user;
  size_t size;      /* texts of a batch; 0: all of the call */
  bool keeps_order; /* texts are not sorted by length */
  bool spreads;     /* every worker gets a batch, even if all texts would fit into one */
  /* batches.c's own: whether long and short texts share a batch, the texts of the call in the order of batches, where
   * each of them is, and what the batches of `each` texts gave */
  bool deals;
  struct tool_batch_text *sorted;
  size_t *found, n, each, n_results;
  vkf_result **results;
} tool_batches;

/* As tool_crew_run(). What the call before gave is gone. */
vkf_status tool_batches_run(tool_batches *b, tool_crew *crew, const char *const *texts, const uint64_t *numbers,
                            size_t n);
/* The result of the batch that has text i of the call, and the text's row there; NULL: it was not done, since the call
 * failed. */
const vkf_result *tool_batches_find(const tool_batches *b, size_t i, size_t *row);
void tool_batches_finish(tool_batches *b);

#endif
