/* logprobs: see logprobs.h. */
#include "decode/logprobs.h"

#include <math.h>
#include <string.h>

vkf_status vkf_decode_logprobs_init(vkf_logprobs *l, vkf_env *env, uint32_t n_rows, uint32_t n_vocab, uint32_t n_top,
                                    uint32_t steps) {
  size_t n = 0, n_all = 0;
  *l = (vkf_logprobs){env, n_vocab, VKF_MIN(n_top, n_vocab), steps, 0, NULL, NULL, NULL, NULL};
  if (!vkf_size_mul(n_rows, steps, &n) || !vkf_size_mul(n, l->n_top, &n_all)) n = n_all = SIZE_MAX;
  l->lengths = vkf_env_alloc(env, n_rows, sizeof *l->lengths);
  l->chosen = vkf_env_alloc(env, n, sizeof *l->chosen);
  l->ids = vkf_env_alloc(env, n_all, sizeof *l->ids);
  l->values = vkf_env_alloc(env, n_all, sizeof *l->values);
  return l->lengths && l->chosen && l->ids && l->values ? VKF_OK : VKF_ERROR_MEMORY;
}

void vkf_decode_logprobs_finish(vkf_logprobs *l) {
  if (!l->env) return;
  vkf_env_free(l->env, l->lengths);
  vkf_env_free(l->env, l->chosen);
  vkf_env_free(l->env, l->ids);
  vkf_env_free(l->env, l->values);
}

double vkf_decode_log_sum(const float *x, size_t n, float *top) {
  double sum = 0;
  *top = x[0];
  for (size_t i = 1; i < n; i++) *top = VKF_MAX(*top, x[i]);
  for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - *top);
  return log(sum);
}

void vkf_decode_logprobs_add(vkf_logprobs *l, uint32_t row, int32_t id, const float *logits) {
  if (l->lengths[row] == l->capacity) return;
  size_t at = (size_t)row * l->capacity + l->lengths[row]++;
  int32_t *ids = l->ids + at * l->n_top;
  float top;
  const double all = vkf_decode_log_sum(logits, l->n_vocab, &top) + (double)top;
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n_vocab; i++) { /* ids[n]: the best so far, descending */
    uint32_t to = n;
    while (to > 0 && logits[i] > logits[ids[to - 1]]) to--;
    if (to == l->n_top) continue;
    n = VKF_MIN(n + 1, l->n_top);
    memmove(ids + to + 1, ids + to, (n - to - 1) * sizeof *ids);
    ids[to] = (int32_t)i;
  }
  for (uint32_t i = 0; i < n; i++) l->values[at * l->n_top + i] = (float)(logits[ids[i]] - all);
  l->chosen[at] = (float)(logits[id] - all);
  l->longest = VKF_MAX(l->longest, l->lengths[row]);
}
