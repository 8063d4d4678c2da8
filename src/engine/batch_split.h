/* batch_split: splits a batch in two, recursively, while it is too large for the device (env->too_large).
 *
 * The result of a sentence does not depend on the batch around it (orders of sums do not), so only the time changes. A
 * single sentence that is too large is an error.
 */
#ifndef VKF_ENGINE_BATCH_SPLIT_H
#define VKF_ENGINE_BATCH_SPLIT_H

#include "engine/opened.h"

typedef struct vkf_batch_split {
  vkf_session *session;
  /* Runs a part of the batch. */
  vkf_status (*run)(void *user, const vkf_array *inputs, size_t n_inputs, vkf_result **out);
  void *user;
} vkf_batch_split;

/* Returns whether to split: a batch of two or more failed and env->too_large is set. If so, logs and clears the
 * failure. */
bool vkf_engine_split_helps(vkf_session *session, vkf_status status, size_t batch);
/* Runs all inputs. The batch is the first axis of inputs and results. */
vkf_status vkf_engine_split_batch(const vkf_batch_split *split, const vkf_array *inputs, size_t n_inputs,
                                  vkf_result **out);

#endif
