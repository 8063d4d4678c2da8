/* Ops that know positions: rotary positions (Su et al. 2021, RoFormer) and the relative bias of T5 (Raffel et al.
 * 2020).
 */
#include "ref/reproducible.h"
#include "ref/internal.h"

/* ---- rope -------------------------------------------------------------------------------------------------------- */

/* Turns the pair (a, b) of columns i and k to a cos - b sin and b cos + a sin: two products and a sum each. */
static void turn(const vkf_call *call, const float *x, size_t to, uint32_t i, uint32_t k, double cosine, double sine) {
  if (call->reproducible) {
    float c = (float)cosine, s = (float)sine;
    vkf_ref_store_same(call, 0, to + i, mad(x[i], c, -mul(x[k], s)));
    vkf_ref_store_same(call, 0, to + k, mad(x[k], c, mul(x[i], s)));
    return;
  }
  double a = (double)x[i], b = (double)x[k], bound_a = 0, bound_b = 0;
  if (vkf_ref_wants_bounds(call)) {
    double two = vkf_ref_gamma(2, call->rounding->u);
    bound_a = two * (fabs(a * cosine) + fabs(b * sine)) + 3 * call->rounding->tiny;
    bound_b = two * (fabs(b * cosine) + fabs(a * sine)) + 3 * call->rounding->tiny;
    bound_a = vkf_ref_unless_overflow(fabs(a * cosine) + fabs(b * sine), bound_a);
    bound_b = vkf_ref_unless_overflow(fabs(b * cosine) + fabs(a * sine), bound_b);
  }
  vkf_ref_store(call, 0, to + i, a * cosine - b * sine, bound_a);
  vkf_ref_store(call, 0, to + k, b * cosine + a * sine, bound_b);
}

/* Turns the heads of a row from `column` on. */
static void turn_heads(const vkf_call *call, const float *x, size_t to, const float *angles, uint32_t column,
                       uint32_t n_heads) {
  const vkf_rope_params *p = &call->params->rope;
  uint32_t half = p->rotary / 2;
  for (uint32_t h = 0; h < n_heads; h++) {
    uint32_t first = column + h * p->head_width;
    for (uint32_t pair = 0; pair < half; pair++) {
      bool interleaved = p->pairs == VKF_ROPE_INTERLEAVED;
      uint32_t i = first + (interleaved ? 2 * pair : pair), k = i + (interleaved ? 1 : half);
      turn(call, x, to, i, k, (double)angles[2 * pair], (double)angles[2 * pair + 1]);
    }
  }
}

vkf_status vkf_ref_rope(vkf_env *env, const vkf_call *call) {
  const vkf_rope_params *p = &call->params->rope;
  const int32_t *positions = call->in[VKF_ROPE_POSITIONS].data;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    VKF_CALL(vkf_ref_check_index(env, call, "position", r, positions[r], p->n_positions));
    const float *x = vkf_ref_row(&call->in[VKF_ROPE_X], r);
    const float *angles = vkf_ref_row(&call->in[VKF_ROPE_TABLE], (size_t)positions[r]);
    size_t to = r * call->out[0].stride[0];
    for (uint32_t i = 0; i < p->width; i++) vkf_ref_store_same(call, 0, to + i, x[i]);
    turn_heads(call, x, to, angles, p->q_column, p->n_heads);
    turn_heads(call, x, to, angles, p->k_column, p->n_kv_heads);
  }
  return VKF_OK;
}

/* ---- relative bias ----------------------------------------------------------------------------------------------- */

vkf_status vkf_ref_relative_bias(vkf_env *env, const vkf_call *call) {
  const vkf_relative_bias_params *p = &call->params->relative_bias;
  const int32_t *buckets = call->in[VKF_RELATIVE_BIAS_BUCKETS].data;
  const vkf_view *out = &call->out[0];
  for (uint32_t d = 0; d < p->n_distances; d++) {
    VKF_CALL(vkf_ref_check_index(env, call, "bucket", d, buckets[d], p->n_buckets));
    const float *biases = vkf_ref_row(&call->in[VKF_RELATIVE_BIAS_TABLE], (size_t)buckets[d]);
    for (uint32_t h = 0; h < p->n_heads; h++) vkf_ref_store_same(call, 0, h * out->stride[0] + d, biases[h]);
  }
  return VKF_OK;
}
