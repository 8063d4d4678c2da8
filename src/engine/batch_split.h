/* batch_split: splits a batch in two, recursively, while one of its tensors exceeds a device limit.
 *
 * The result of a sentence does not depend on the batch around it (orders of sums do not), so only the time changes. A
 * single sentence that is too large is an error.
 */
#ifndef VKF_ENGINE_BATCH_SPLIT_H
#define VKF_ENGINE_BATCH_SPLIT_H

#include "engine/opened.h"

typedef struct vkf_batch_split {
  vkf_session *session;
  /* Runs some of the sentences of the batch. */
  vkf_status (*run)(void *user, const vkf_array *inputs, size_t n_inputs, vkf_result **out);
  void *user;
} vkf_batch_split;

/* Whether the failure is that of a tensor larger than the device takes, in a batch that can be split. If so, the
 * failure is cleared. */
bool vkf_engine_split_helps(vkf_session *session, vkf_status status, size_t batch);
/* Runs all of the inputs. The first axis of inputs and of results is the batch. */
vkf_status vkf_engine_split_batch(const vkf_batch_split *split, const vkf_array *inputs, size_t n_inputs,
                                  vkf_result **out);

#endif
