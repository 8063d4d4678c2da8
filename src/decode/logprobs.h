/* logprobs: the most likely ids of every generated token, with their log-probabilities.
 *
 * Computed on the host from the raw logits (before penalties, temperature and every other processor): log-softmax in
 * double. Equal logits: the lower id first. Invariant: a row has as many records as ids were generated for it.
 */
#ifndef VKF_DECODE_LOGPROBS_H
#define VKF_DECODE_LOGPROBS_H

#include "base/base.h"

typedef struct vkf_logprobs {
  vkf_env *env;
  uint32_t n_vocab, n_top;
  uint32_t capacity, longest; /* steps that there is room for, and of the longest row */
  uint32_t *lengths;          /* [n_rows] */
  float *chosen;              /* [n_rows][capacity]: of the generated id */
  int32_t *ids;               /* [n_rows][capacity][n_top], most likely first */
  float *values;              /* their log-probabilities */
} vkf_logprobs;

/* log sum exp(x[i] - *top), where *top is the largest of x [n], n > 0: x[i] has the log-probability x[i] - *top - this.
 */
double vkf_decode_log_sum(const float *x, size_t n, float *top);

/* steps: of the longest sequence. n_top ids of n_vocab; fewer where the vocabulary is smaller. */
vkf_status vkf_decode_logprobs_init(vkf_logprobs *logprobs, vkf_env *env, uint32_t n_rows, uint32_t n_vocab,
                                    uint32_t n_top, uint32_t steps);
void vkf_decode_logprobs_finish(vkf_logprobs *logprobs);

/* The row got `id` from these logits [n_vocab]. */
void vkf_decode_logprobs_add(vkf_logprobs *logprobs, uint32_t row, int32_t id, const float *logits);

#endif
