/* attention: softmax(cap(q k^T scale) + masks) v (Vaswani et al. 2017, equation 1), and the softmax alone.
 *
 * One query of one head at a time: its scores, their softmax, the weighted sum of the values. A key that is masked out,
 * or whose score is minus infinity, is no key; a query without any key gives zeros.
 */
#include "ref/attention.h"
#include "shared/constants.h"

/* Bounds the error of cap tanh(x / cap) for an x that is off by at most `error`. */
static double softcap_bound(double cap, double x, double error, const vkf_rounding *r) {
  double of_tanh = (error + vkf_ref_div_error(r) * (fabs(x) + error)) / cap + r->tiny;
  double bound = vkf_ref_activate_bound(VKF_ACT_TANH, x / cap, of_tanh, r);
  return cap * (bound + r->u * (fabs(tanh(x / cap)) + bound)) + r->tiny;
}

/* Bounds the error of the sum of products x k, before it is scaled; *magnitude: the sum of |terms|. */
static double products_error(const vkf_rounding *r, const float *x, const float *k, uint32_t n, double *magnitude) {
  double rounded = 0, unknown = 0, terms = 0;
  *magnitude = 0;
  for (uint32_t i = 0; i < n; i++) {
    const double product = (double)x[i] * k[i];
    *magnitude += fabs(product);
    if (!r->x_f16) continue;
    const vkf_ref_half a = vkf_ref_half_of(x[i]), b = vkf_ref_half_of(k[i]);
    rounded += a.value * b.value - product;
    unknown += a.off * fabs(b.value) + fabs(a.value) * b.off + a.off * b.off;
    terms += fabs(a.value * b.value);
  }
  const double lost = fabs(rounded) + unknown;
  return lost + vkf_ref_gamma(n + 1, r->u) * (r->x_f16 ? terms + unknown : *magnitude);
}

/* Computes score = cap(scale (q . k)) + bias, and its error. */
static void find_scores(vkf_ref_query *q) {
  const vkf_call *call = q->call;
  const vkf_attention_params *p = q->p;
  const vkf_view *bias = &call->in[VKF_ATTENTION_BIAS];
  const float *x = vkf_ref_row(&call->in[VKF_ATTENTION_Q], vkf_ref_query_row(q));
  x += p->q_column + (size_t)q->head * p->key_width;
  q->magnitude = 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    q->seen[s] = vkf_ref_sees(q, s);
    if (!q->seen[s]) continue;
    const float *k = vkf_ref_kv_row(q, VKF_ATTENTION_K, s);
    double sum = 0, magnitude = 0, scale = (double)p->scale;
    for (uint32_t i = 0; i < p->key_width; i++) sum += (double)x[i] * k[i];
    const double plain = scale * sum;
    q->score[s] = p->softcap > 0 ? (double)p->softcap * tanh(plain / (double)p->softcap) : plain;
    if (bias->data) q->score[s] += vkf_ref_bias_of(q, bias, s);
    if (!vkf_ref_wants_bounds(call)) continue;
    const vkf_rounding *r = call->rounding;
    double error = fabs(scale) * products_error(r, x, k, p->key_width, &magnitude) + (p->key_width + 2) * r->tiny;
    if (p->softcap > 0) error = softcap_bound((double)p->softcap, plain, error, r);
    if (bias->data) error += r->u * (fabs(q->score[s]) + error);
    q->score_error[s] = isfinite(q->score[s]) ? error : 0;
    if (isfinite(q->score[s])) q->magnitude = VKF_MAX(q->magnitude, magnitude * VKF_MAX(fabs(scale), 1));
  }
}

/* Computes weight = exp(score - max), and the sum of the weights. False: no key. */
static bool find_weights(vkf_ref_query *q) {
  bool any = false;
  q->max = -INFINITY;
  q->max_error = q->sum = 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    q->weight[s] = 0;
    if (!q->seen[s] || q->score[s] == -INFINITY) continue;
    any = true; /* a NaN, too: it must not be lost */
    if (q->score[s] > q->max) q->max = q->score[s];
  }
  for (uint32_t s = 0; any && s < q->n_keys; s++) {
    if (!q->seen[s] || q->score[s] == -INFINITY) continue;
    q->weight[s] = exp(q->score[s] - q->max);
    q->sum += q->weight[s];
  }
  return any;
}

/* Returns what a weight may lose beside its relative error if its product with VKF_HALF_WEIGHT is rounded to f16. */
static double lost_weight(const vkf_ref_query *q, uint32_t s) {
  const double least = 0x1p-14 / (double)VKF_HALF_WEIGHT;
  if (!q->call->rounding->x_f16) return 0;
  return VKF_MIN(q->weight[s] * (1 + q->weight_error[s]), least) + least * 0x1p-10;
}

/* Bounds the relative errors of the computed weights and the absolute one of their sum: docs/numerics.md, attention. */
static void bound_weights(vkf_ref_query *q) {
  const vkf_rounding *r = q->call->rounding;
  double rescalings = ceil((double)q->n_keys / VKF_MAX(r->key_block, 1u)) + VKF_MAX(r->n_partial, 1u) - 1;
  /* The computed maximum is between that of score - error and that of score + error. */
  for (uint32_t s = 0; s < q->n_keys; s++) {
    if (!q->seen[s]) continue;
    double off = q->score[s] == q->max ? q->score_error[s] : q->score[s] + q->score_error[s] - q->max;
    q->max_error = VKF_MAX(q->max_error, off);
  }
  double sum = 0, error = 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    q->weight_error[s] = 0;
    if (q->weight[s] == 0) continue;
    double t = q->max - q->score[s] + q->score_error[s] + q->max_error;
    double logarithm =
        q->score_error[s] + r->u * t + vkf_ref_exp_error(r, t) + rescalings * (2 * r->u * r->exp_ulp_base + r->u);
    q->weight_error[s] = expm1(logarithm * (1 + 1e-4)); /* 1e-4: terms of the second order in u */
    if (r->x_f16) q->weight_error[s] += 0x1p-11 * (1 + q->weight_error[s]);
    error += q->weight[s] * q->weight_error[s] + lost_weight(q, s) + (rescalings + 2) * r->tiny;
    sum += q->weight[s] * (1 + q->weight_error[s]) + lost_weight(q, s);
  }
  q->sum_error = error + vkf_ref_gamma(vkf_ref_depth(r, q->n_keys) + 1, r->u) * sum;
}

static void store_weights(const vkf_ref_query *q, bool any) {
  const vkf_call *call = q->call;
  const vkf_view *out = &call->out[0];
  size_t at = q->seq * out->stride[0] + q->head * out->stride[1] + q->t * out->stride[2];
  for (uint32_t s = 0; s < q->n_keys; s++) {
    double value = any ? q->weight[s] / q->sum : 0, bound = 0;
    if (value != 0 && vkf_ref_wants_bounds(call)) {
      double left = q->sum - q->sum_error;
      double off = q->weight[s] * q->weight_error[s] + value * q->sum_error + call->rounding->tiny;
      bound = left > 0 ? off / left + vkf_ref_div_error(call->rounding) * (value + off / left) : 2;
      bound = VKF_MIN(bound + call->rounding->tiny, 1 + 1e-3); /* both are in [0, 1], but for roundings */
      bound = vkf_ref_unless_overflow(q->magnitude, bound);
    }
    vkf_ref_store(call, 0, at + s, value, bound);
  }
}

/* out = sum(weight v) / sum(weight); acc [V]: exact; acc_error [V]: absolute error of the computed numerator;
 * largest [V]: of |v|, which bounds any weighted mean; moved [V]: how far rounding the values moves the numerator. */
static void store_values(const vkf_ref_query *q, bool any, double *acc, double *acc_error, double *largest,
                         double *moved) {
  const vkf_call *call = q->call;
  uint32_t width = q->p->value_width;
  size_t at = vkf_ref_query_row(q) * call->out[0].stride[0] + (size_t)q->head * width;
  for (uint32_t i = 0; i < width; i++) acc[i] = acc_error[i] = largest[i] = moved[i] = 0;
  double gamma =
      vkf_ref_wants_bounds(call) ? vkf_ref_gamma(vkf_ref_depth(call->rounding, q->n_keys) + 2, call->rounding->u) : 0;
  for (uint32_t s = 0; any && s < q->n_keys; s++) {
    if (!q->seen[s] || q->score[s] == -INFINITY) continue;
    const float *v = vkf_ref_kv_row(q, VKF_ATTENTION_V, s);
    for (uint32_t i = 0; i < width; i++) acc[i] += q->weight[s] * (double)v[i];
    if (!vkf_ref_wants_bounds(call)) continue;
    double own = q->weight[s] * (q->weight_error[s] + gamma * (1 + q->weight_error[s])) +
                 (1 + gamma) * lost_weight(q, s) + 4 * call->rounding->tiny;
    for (uint32_t i = 0; i < width; i++) {
      const vkf_ref_half half = call->rounding->x_f16 ? vkf_ref_half_of(v[i]) : (vkf_ref_half){(double)v[i], 0};
      moved[i] += q->weight[s] * (half.value - (double)v[i]);
      acc_error[i] += own * (fabs(half.value) + half.off) + q->weight[s] * half.off + 4 * call->rounding->tiny;
      largest[i] = VKF_MAX(largest[i], fabs(half.value) + half.off);
    }
  }
  for (uint32_t i = 0; i < width; i++) {
    double value = any ? acc[i] / q->sum : 0, bound = 0;
    if (any && vkf_ref_wants_bounds(call)) {
      double left = q->sum - q->sum_error;
      double off = left > 0 ? (acc_error[i] + fabs(moved[i]) + fabs(value) * q->sum_error) / left : INFINITY;
      bound =
          off + (vkf_ref_div_error(call->rounding) + call->rounding->u) * (fabs(value) + off) + call->rounding->tiny;
      bound = VKF_MIN(bound, 2 * largest[i] * (1 + 1e-3) + call->rounding->tiny);
      bound = vkf_ref_unless_overflow(VKF_MAX(q->magnitude, q->n_keys * largest[i]), bound);
    }
    vkf_ref_store(call, 0, at + i, value, bound);
  }
}

/* ---- all queries ------------------------------------------------------------------------------------------------- */

/* In a packed batch, stores 0 for the weights of a sequence outside its own queries and keys. */
static void store_zeros(const vkf_ref_query *q, uint32_t most, float *moved) {
  const vkf_view *out = &q->call->out[0];
  for (uint32_t head = 0; q->call->in[VKF_ATTENTION_SPANS].data && head < q->p->n_heads; head++)
    for (uint32_t t = 0; t < q->call->dims->v[q->p->queries]; t++)
      for (uint32_t s = t < q->span.queries ? q->span.keys : 0; s < most; s++) {
        size_t at = q->seq * out->stride[0] + head * out->stride[1] + t * out->stride[2] + s;
        if (moved)
          moved[at] = 0;
        else
          vkf_ref_store(q->call, 0, at, 0, 0);
      }
}

static vkf_status check_inputs(vkf_env *env, const vkf_call *call, const vkf_attention_params *p) {
  const vkf_span most = {.queries = call->dims->v[p->queries], .keys = call->dims->v[p->keys]};
  const vkf_view *ancestry = &call->in[VKF_ATTENTION_ANCESTRY];
  for (uint32_t r = 0; ancestry->data && r < call->dims->v[p->seqs]; r++) {
    for (uint32_t s = 0; s < call->dims->v[p->keys]; s++) {
      VKF_CALL(vkf_ref_check_index(env, call, "ancestor", r, vkf_ref_ints(ancestry, r)[s],
                                   p->packed ? call->in[VKF_ATTENTION_K].extent[0] : call->dims->v[p->seqs]));
    }
  }
  return vkf_ref_check_spans(env, call, &call->in[VKF_ATTENTION_SPANS], call->dims->v[vkf_op_rows(p->seqs, p->queries)],
                             &most, &call->in[VKF_ATTENTION_K], p->causal);
}

/* Computes one query of one head; arguments as in run(). acc: room for 4 p->value_width numbers. */
static void run_query(vkf_ref_query *q, vkf_ref_query *e, bool values, double *acc, float *moved) {
  const size_t width = q->p->value_width;
  if (q->call->reproducible) {
    vkf_ref_query_reproducible(q, values, (float *)q->score);
    return;
  }
  find_scores(q);
  const bool any = find_weights(q);
  if (e->call) {
    vkf_ref_query_propagate(q, e, any, values, acc, moved);
    return;
  }
  if (any && vkf_ref_wants_bounds(q->call)) bound_weights(q);
  if (values) {
    store_values(q, any, acc, acc + width, acc + 2 * width, acc + 3 * width);
  } else {
    store_weights(q, any);
  }
}

/* Computes attention, or without `values` attention_weights. errors: NULL, or the call over the errors of the inputs;
 * then it only computes how far the result can move, into `moved`. */
static vkf_status run(vkf_env *env, const vkf_call *call, const vkf_attention_params *p, bool values,
                      const vkf_call *errors, float *moved) {
  vkf_status st = VKF_OK;
  const uint32_t T = call->dims->v[p->queries], most = call->dims->v[p->keys];
  vkf_ref_query q = {.call = call, .p = p}, e = {.call = errors, .p = p};
  double *numbers = vkf_env_alloc(env, 4 * (size_t)most + 4 * (size_t)p->value_width, sizeof(double));
  bool *seen = vkf_env_alloc(env, most, sizeof(bool));
  if (!numbers || !seen) {
    st = VKF_ERROR_MEMORY;
    goto done;
  }
  q.score = numbers;
  q.score_error = q.score + most;
  q.weight = q.score_error + most;
  q.weight_error = q.weight + most;
  q.seen = seen;
  double *acc = q.weight_error + most;
  VKF_TRY(check_inputs(env, call, p));
  for (q.seq = 0; q.seq < call->dims->v[p->seqs]; q.seq++) {
    const vkf_span whole = {.row = q.seq * T,
                            .queries = T,
                            .past = call->dims->v[p->past],
                            .keys = most,
                            .slot = q.seq / VKF_MAX(call->dims->v[p->shared], 1u)};
    q.span = vkf_ref_span_of(&call->in[VKF_ATTENTION_SPANS], q.seq, &whole);
    q.n_keys = e.n_keys = q.span.keys;
    if (!values) store_zeros(&q, most, moved);
    for (q.t = 0; q.t < q.span.queries; q.t++) {
      for (q.head = 0; q.head < p->n_heads; q.head++) run_query(&q, &e, values, acc, moved);
    }
  }
done:
  vkf_env_free(env, seen);
  vkf_env_free(env, numbers);
  return st;
}

vkf_status vkf_ref_attention(vkf_env *env, const vkf_call *call) {
  return run(env, call, &call->params->attention, true, NULL, NULL);
}

vkf_status vkf_ref_attention_weights(vkf_env *env, const vkf_call *call) {
  return run(env, call, &call->params->attention_weights, false, NULL, NULL);
}

vkf_status vkf_ref_attention_propagate_error(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *out) {
  vkf_call plain = *call, e = *call;
  plain.rounding = NULL;
  e.in[VKF_ATTENTION_Q] = errors[VKF_ATTENTION_Q];
  e.in[VKF_ATTENTION_K] = errors[VKF_ATTENTION_K];
  e.in[VKF_ATTENTION_V] = errors[VKF_ATTENTION_V];
  e.in[VKF_ATTENTION_BIAS] = errors[VKF_ATTENTION_BIAS];
  return run(env, &plain, &call->params->attention, call->op == VKF_OP_ATTENTION, &e, out);
}
