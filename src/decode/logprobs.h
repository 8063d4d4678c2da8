/* logprobs: the most likely ids in each step of a row, with their log-probabilities.
 *
 * Computed on the host as a log-softmax in double of the raw logits (before penalties, temperature and every other
 * processor). Ties: the lower id first. Invariant: a row has one record per generated id, up to `capacity`.
 */
#ifndef VKF_DECODE_LOGPROBS_H
#define VKF_DECODE_LOGPROBS_H

#include "base/base.h"

typedef struct vkf_logprobs {
  vkf_env *env;
  uint32_t n_vocab, n_top;
  uint32_t capacity, longest; /* records that a row has room for; records of the longest row */
  uint32_t *lengths;          /* [n_rows]: records of each row */
  float *chosen;              /* [n_rows][capacity]: log-probability of the generated id */
  int32_t *ids;               /* [n_rows][capacity][n_top], most likely first */
  float *values;              /* [n_rows][capacity][n_top]: their log-probabilities */
} vkf_logprobs;

/* Returns log sum exp(x[i] - *top) and *top, the largest of x [n], n > 0. The log-probability of i is x[i] - *top - the
 * result. */
double vkf_decode_log_sum(const float *x, size_t n, float *top);

/* steps: capacity of each row. n_top is limited to n_vocab. Call finish even if this fails. */
vkf_status vkf_decode_logprobs_init(vkf_logprobs *logprobs, vkf_env *env, uint32_t n_rows, uint32_t n_vocab,
                                    uint32_t n_top, uint32_t steps);
void vkf_decode_logprobs_finish(vkf_logprobs *logprobs);

/* Adds a record: the row got `id` from logits [n_vocab]. Does nothing if the row is full. */
void vkf_decode_logprobs_add(vkf_logprobs *logprobs, uint32_t row, int32_t id, const float *logits);

#endif
