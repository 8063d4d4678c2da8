/* attention in the reproducible mode: float32, each operation rounded, in the order of the kernels. */
#include "ref/attention.h"
#include "ref/reproducible.h"

static float reproducible_score(const vkf_ref_query *q, const float *x, uint32_t s) {
  const vkf_view *bias = &q->call->in[VKF_ATTENTION_BIAS];
  float score = reproducible_dot(x, vkf_ref_kv_row(q, VKF_ATTENTION_K, s), q->p->key_width);
  float factor = vkf_reproducible_flush(q->p->scale);
  if (q->p->softcap > 0) {
    score = tanh_f32(quotient(mul(score, factor), q->p->softcap));
    factor = q->p->softcap;
  }
  return bias->data ? mad(score, factor, (float)vkf_ref_bias_of(q, bias, s)) : mul(score, factor);
}

/* Computes the scores of all keys, and sets q->seen of those that have one. */
static void reproducible_scores(vkf_ref_query *q, float *score) {
  const float *x = vkf_ref_row(&q->call->in[VKF_ATTENTION_Q], vkf_ref_query_row(q));
  for (uint32_t s = 0; s < q->n_keys; s++) {
    q->seen[s] = vkf_ref_sees(q, s);
    if (q->seen[s]) score[s] = reproducible_score(q, x + q->p->q_column + (size_t)q->head * q->p->key_width, s);
    if (q->seen[s] && score[s] == -INFINITY) q->seen[s] = false;
  }
}

/* Returns the first key that the mask has, at which the first block of keys begins. */
static uint32_t first_key(const vkf_ref_query *q) {
  uint32_t first = 0;
  while (first < q->n_keys && !vkf_ref_has_key(q, first)) first++;
  return first;
}

/* The online softmax of shaders/attention.comp. sum: room for value_width numbers. */
static void reproducible_values(const vkf_ref_query *q, const float *score, float *sum) {
  uint32_t width = q->p->value_width;
  float top = -FLT_MAX, total = 0;
  for (uint32_t i = 0; i < width; i++) sum[i] = 0;
  for (uint32_t first = first_key(q); first < q->n_keys; first += VKF_KEY_BLOCK) {
    uint32_t end = VKF_MIN(first + VKF_KEY_BLOCK, q->n_keys);
    float risen = top;
    for (uint32_t s = first; s < end; s++) risen = q->seen[s] && score[s] > risen ? score[s] : risen;
    float factor = risen == top ? 1 : exp_below(top - risen);
    top = risen;
    total = mul(total, factor);
    for (uint32_t i = 0; i < width; i++) sum[i] = mul(sum[i], factor);
    for (uint32_t s = first; s < end; s++) {
      if (!q->seen[s]) continue;
      const float *v = vkf_ref_kv_row(q, VKF_ATTENTION_V, s);
      float e = exp_below(score[s] - top);
      total += e;
      for (uint32_t i = 0; i < width; i++) sum[i] = mad(e, v[i], sum[i]);
    }
  }
  size_t at = vkf_ref_query_row(q) * q->call->out[0].stride[0] + (size_t)q->head * width;
  for (uint32_t i = 0; i < width; i++) vkf_ref_store_same(q->call, 0, at + i, total == 0 ? 0 : quotient(sum[i], total));
}

static void reproducible_weights(const vkf_ref_query *q, const float *score) {
  const vkf_view *out = &q->call->out[0];
  size_t at = q->seq * out->stride[0] + q->head * out->stride[1] + q->t * out->stride[2];
  float top = -FLT_MAX, total = 0;
  for (uint32_t s = 0; s < q->n_keys; s++) top = q->seen[s] && score[s] > top ? score[s] : top;
  for (uint32_t s = 0; s < q->n_keys; s++) total += q->seen[s] ? exp_below(score[s] - top) : 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    bool any = q->seen[s] && total != 0;
    vkf_ref_store_same(q->call, 0, at + s, any ? quotient(exp_below(score[s] - top), total) : 0);
  }
}

void vkf_ref_query_reproducible(vkf_ref_query *q, bool values, float *numbers) {
  reproducible_scores(q, numbers);
  if (values)
    reproducible_values(q, numbers, numbers + q->n_keys);
  else
    reproducible_weights(q, numbers);
}
