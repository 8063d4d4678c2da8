/* Error propagation of attention: how far the result can move if the inputs move by their errors. */
#include "ref/attention.h"

/* Returns the relative error of a parameter that was rounded to float32; 0 if it is a power of two. */
static double rounded(float x) {
  int exponent;
  return fabs(frexp((double)x, &exponent)) == 0.5 ? 0 : 0x1p-24;
}

/* Bounds how far the scores can move; e: the same query over the errors. */
static void propagate_scores(vkf_ref_query *q, const vkf_ref_query *e) {
  const vkf_attention_params *p = q->p;
  const vkf_view *bias = &e->call->in[VKF_ATTENTION_BIAS];
  size_t row = vkf_ref_query_row(q), column = p->q_column + (size_t)q->head * p->key_width;
  const float *x = vkf_ref_row(&q->call->in[VKF_ATTENTION_Q], row) + column;
  const float *x_error = vkf_ref_row(&e->call->in[VKF_ATTENTION_Q], row) + column;
  double scale_error = rounded(p->scale);
  for (uint32_t s = 0; s < q->n_keys; s++) {
    const float *k = vkf_ref_kv_row(q, VKF_ATTENTION_K, s), *k_error = vkf_ref_kv_row(e, VKF_ATTENTION_K, s);
    double sum = 0, error = 0;
    for (uint32_t i = 0; i < p->key_width; i++) {
      sum += (double)x[i] * k[i];
      error += fabs((double)x[i]) * (double)k_error[i] + (double)x_error[i] * (fabs((double)k[i]) + (double)k_error[i]);
    }
    q->score_error[s] = fabs((double)p->scale) * (error + scale_error * (fabs(sum) + error));
    q->score_error[s] += (double)p->softcap * rounded(p->softcap); /* its slope is at most 1 */
    if (bias->data) q->score_error[s] += vkf_ref_bias_of(q, bias, s);
  }
}

/* Returns whether a key is not masked out. Its weight may be 0, too small for a double, and still grow. */
static bool is_key(const vkf_ref_query *q, uint32_t s) {
  return q->seen[s] && q->score[s] != -INFINITY;
}

/* Returns log(sum of exp(score + sign * error)) over the keys. */
static double log_sum_moved(const vkf_ref_query *q, double sign) {
  double max = -INFINITY, sum = 0;
  for (uint32_t s = 0; s < q->n_keys; s++)
    if (is_key(q, s)) max = VKF_MAX(max, q->score[s] + sign * q->score_error[s]);
  for (uint32_t s = 0; s < q->n_keys; s++)
    if (is_key(q, s)) sum += exp(q->score[s] + sign * q->score_error[s] - max);
  return max + log(sum);
}

/* A weight is exp(a) / sum(exp(a)); its scores a move by at most their errors, and the values move as well. */
void vkf_ref_query_propagate(vkf_ref_query *q, vkf_ref_query *e, bool any, bool values, double *acc, float *out) {
  const vkf_call *call = q->call;
  const vkf_view *to = &call->out[0];
  e->span = q->span, e->seq = q->seq, e->t = q->t, e->head = q->head;
  propagate_scores(q, e);
  double high = any ? log_sum_moved(q, 1) : 0, low = any ? log_sum_moved(q, -1) : 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    double w = any ? q->weight[s] / q->sum : 0, most = VKF_MIN(exp(q->score[s] + q->score_error[s] - low), 1),
           least = exp(q->score[s] - q->score_error[s] - high);
    q->weight_error[s] = is_key(q, s) ? VKF_MAX(most - w, w - least) : 0;
    if (!values)
      out[q->seq * to->stride[0] + q->head * to->stride[1] + q->t * to->stride[2] + s] = vkf_ref_up(q->weight_error[s]);
  }
  if (!values) return;
  uint32_t width = q->p->value_width;
  for (uint32_t i = 0; i < width; i++) acc[i] = 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    if (!is_key(q, s)) continue; /* its error may be anything */
    const float *v = vkf_ref_kv_row(q, VKF_ATTENTION_V, s), *v_error = vkf_ref_kv_row(e, VKF_ATTENTION_V, s);
    for (uint32_t i = 0; i < width; i++)
      acc[i] +=
          q->weight_error[s] * fabs((double)v[i]) + (q->weight[s] / q->sum + q->weight_error[s]) * (double)v_error[i];
  }
  size_t at = vkf_ref_query_row(q) * to->stride[0] + (size_t)q->head * width;
  for (uint32_t i = 0; i < width; i++) out[at + i] = vkf_ref_up(acc[i]);
}
