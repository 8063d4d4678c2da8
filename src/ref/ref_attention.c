/* attention: softmax(cap(q k^T scale) + masks) v (Vaswani et al. 2017, equation 1), and the softmax alone.
 *
 * One query of one head at a time: its scores, their softmax, the weighted sum of the values. A key that is masked out,
 * or whose score is minus infinity, is no key; a query without any key gives zeros.
 */
#include "ref/reproducible.h"
#include "ref/internal.h"

#include <float.h>

/* One query of one head. Arrays over the keys. */
typedef struct query {
  const vkf_call *call;
  const vkf_attention_params *p;
  vkf_span span; /* of sequence seq */
  uint32_t seq, t, head, n_keys;
  double *score, *score_error; /* error bounds, where they are wanted */
  double *weight;              /* exp(score - max) */
  double *weight_error;        /* relative, of the computed weight */
  bool *seen;
  double max, max_error, sum, sum_error;
  double magnitude; /* the largest of what a score adds up */
} query;

static uint32_t slot_of(const query *q, uint32_t key) {
  const vkf_view *ancestry = &q->call->in[VKF_ATTENTION_ANCESTRY];
  return ancestry->data ? (uint32_t)vkf_ref_ints(ancestry, q->seq)[key] : q->span.slot;
}

static const float *kv_row(const query *q, int input, uint32_t key) {
  const vkf_view *v = &q->call->in[input];
  uint32_t head = q->head / (q->p->n_heads / q->p->n_kv_heads);
  return (const float *)v->data + slot_of(q, key) * v->stride[0] + head * v->stride[1] +
         (q->span.first + key) * v->stride[2];
}

/* The row of q and of the result. */
static size_t row_of(const query *q) {
  return (size_t)q->span.row + q->t;
}

/* Does the mask have this key? */
static bool has_key(const query *q, uint32_t key) {
  const vkf_view *mask = &q->call->in[VKF_ATTENTION_MASK];
  return !mask->data || vkf_ref_ints(mask, q->span.slot)[q->span.first + key] != 0;
}

/* The additive bias of a key; `bias` may be that of the errors. */
static double bias_of(const query *q, const vkf_view *bias, uint32_t key) {
  const vkf_attention_params *p = q->p;
  const float *plane = (const float *)bias->data + (p->bias_per_head ? q->head : 0) * bias->stride[0];
  if (!p->bias_by_distance) return (double)plane[q->t * bias->stride[1] + key * bias->stride[2]];
  int64_t before = p->bias_before, after = p->bias_after, distance = (int64_t)key - q->span.past - q->t;
  return (double)plane[VKF_MIN(VKF_MAX(distance, -before), after) + before];
}

static bool sees(const query *q, uint32_t key) {
  const vkf_attention_params *p = q->p;
  uint32_t last = q->span.past + q->t;
  if (p->causal && key > last) return false;
  if (p->causal && p->window > 0 && key + p->window <= last) return false;
  return has_key(q, key);
}

/* cap tanh(x / cap) of an x that is off by at most `error`. */
static double softcap_bound(double cap, double x, double error, const vkf_rounding *r) {
  double of_tanh = (error + vkf_ref_div_error(r) * (fabs(x) + error)) / cap + r->tiny;
  double bound = vkf_ref_activate_bound(VKF_ACT_TANH, x / cap, of_tanh, r);
  return cap * (bound + r->u * (fabs(tanh(x / cap)) + bound)) + r->tiny;
}

/* The error of the sum of products x k, before it is scaled; *magnitude: of the terms. */
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

/* score = cap(scale (q . k)) + bias, and its error. */
static void find_scores(query *q) {
  const vkf_call *call = q->call;
  const vkf_attention_params *p = q->p;
  const vkf_view *bias = &call->in[VKF_ATTENTION_BIAS];
  const float *x = vkf_ref_row(&call->in[VKF_ATTENTION_Q], row_of(q));
  x += p->q_column + (size_t)q->head * p->key_width;
  q->magnitude = 0;
  for (uint32_t s = 0; s < q->n_keys; s++) {
    q->seen[s] = sees(q, s);
    if (!q->seen[s]) continue;
    const float *k = kv_row(q, VKF_ATTENTION_K, s);
    double sum = 0, magnitude = 0, scale = (double)p->scale;
    for (uint32_t i = 0; i < p->key_width; i++) sum += (double)x[i] * k[i];
    const double plain = scale * sum;
    q->score[s] = p->softcap > 0 ? (double)p->softcap * tanh(plain / (double)p->softcap) : plain;
    if (bias->data) q->score[s] += bias_of(q, bias, s);
    if (!vkf_ref_wants_bounds(call)) continue;
    const vkf_rounding *r = call->rounding;
    double error = fabs(scale) * products_error(r, x, k, p->key_width, &magnitude) + (p->key_width + 2) * r->tiny;
    if (p->softcap > 0) error = softcap_bound((double)p->softcap, plain, error, r);
    if (bias->data) error += r->u * (fabs(q->score[s]) + error);
    q->score_error[s] = isfinite(q->score[s]) ? error : 0;
    if (isfinite(q->score[s])) q->magnitude = VKF_MAX(q->magnitude, magnitude * VKF_MAX(fabs(scale), 1));
  }
}

/* weight = exp(score - max) and their sum. false: no key. */
static bool find_weights(query *q) {
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

/* What a weight may lose beside its relative error, where it is rounded to f16 after a product with VKF_HALF_WEIGHT. */
static double lost_weight(const query *q, uint32_t s) {
  const double least = 0x1p-14 / (double)VKF_HALF_WEIGHT;
  if (!q->call->rounding->x_f16) return 0;
  return VKF_MIN(q->weight[s] * (1 + q->weight_error[s]), least) + least * 0x1p-10;
}

/* Relative errors of the computed weights, and the absolute one of their sum: docs/numerics.md, attention. */
static void bound_weights(query *q) {
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

static void store_weights(const query *q, bool any) {
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
static void store_values(const query *q, bool any, double *acc, double *acc_error, double *largest, double *moved) {
  const vkf_call *call = q->call;
  uint32_t width = q->p->value_width;
  size_t at = row_of(q) * call->out[0].stride[0] + (size_t)q->head * width;
  for (uint32_t i = 0; i < width; i++) acc[i] = acc_error[i] = largest[i] = moved[i] = 0;
  double gamma =
      vkf_ref_wants_bounds(call) ? vkf_ref_gamma(vkf_ref_depth(call->rounding, q->n_keys) + 2, call->rounding->u) : 0;
  for (uint32_t s = 0; any && s < q->n_keys; s++) {
    if (!q->seen[s] || q->score[s] == -INFINITY) continue;
    const float *v = kv_row(q, VKF_ATTENTION_V, s);
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

/* ---- errors passed on
 * ------------------------------------------------------------------------------------------------------ */

/* The relative error of a parameter, a number rounded to float32 and exact where it is a power of two. */
static double rounded(float x) {
  int exponent;
  return fabs(frexp((double)x, &exponent)) == 0.5 ? 0 : 0x1p-24;
}

/* How far the scores move: e is the same query over the errors. */
static void propagate_scores(query *q, const query *e) {
  const vkf_attention_params *p = q->p;
  const vkf_view *bias = &e->call->in[VKF_ATTENTION_BIAS];
  size_t row = row_of(q), column = p->q_column + (size_t)q->head * p->key_width;
  const float *x = vkf_ref_row(&q->call->in[VKF_ATTENTION_Q], row) + column;
  const float *x_error = vkf_ref_row(&e->call->in[VKF_ATTENTION_Q], row) + column;
  double scale_error = rounded(p->scale);
  for (uint32_t s = 0; s < q->n_keys; s++) {
    const float *k = kv_row(q, VKF_ATTENTION_K, s), *k_error = kv_row(e, VKF_ATTENTION_K, s);
    double sum = 0, error = 0;
    for (uint32_t i = 0; i < p->key_width; i++) {
      sum += (double)x[i] * k[i];
      error += fabs((double)x[i]) * (double)k_error[i] + (double)x_error[i] * (fabs((double)k[i]) + (double)k_error[i]);
    }
    q->score_error[s] = fabs((double)p->scale) * (error + scale_error * (fabs(sum) + error));
    q->score_error[s] += (double)p->softcap * rounded(p->softcap); /* its slope is at most 1 */
    if (bias->data) q->score_error[s] += bias_of(q, bias, s);
  }
}

/* Not masked out: its weight may be too small for a double and still grow. */
static bool is_key(const query *q, uint32_t s) {
  return q->seen[s] && q->score[s] != -INFINITY;
}

/* log(sum of exp(score + sign * error)) over the keys. */
static double log_sum_moved(const query *q, double sign) {
  double max = -INFINITY, sum = 0;
  for (uint32_t s = 0; s < q->n_keys; s++)
    if (is_key(q, s)) max = VKF_MAX(max, q->score[s] + sign * q->score_error[s]);
  for (uint32_t s = 0; s < q->n_keys; s++)
    if (is_key(q, s)) sum += exp(q->score[s] + sign * q->score_error[s] - max);
  return max + log(sum);
}

/* A weight exp(a) / sum(exp(a)) whose scores a move by at most their errors; the values move as well. */
static void propagate_query(query *q, query *e, bool values, double *acc, float *out) {
  const vkf_call *call = q->call;
  const vkf_view *to = &call->out[0];
  e->span = q->span, e->seq = q->seq, e->t = q->t, e->head = q->head;
  propagate_scores(q, e);
  bool any = find_weights(q);
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
    const float *v = kv_row(q, VKF_ATTENTION_V, s), *v_error = kv_row(e, VKF_ATTENTION_V, s);
    for (uint32_t i = 0; i < width; i++)
      acc[i] +=
          q->weight_error[s] * fabs((double)v[i]) + (q->weight[s] / q->sum + q->weight_error[s]) * (double)v_error[i];
  }
  size_t at = row_of(q) * to->stride[0] + (size_t)q->head * width;
  for (uint32_t i = 0; i < width; i++) out[at + i] = vkf_ref_up(acc[i]);
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* ---- the reproducible mode --------------------------------------------------------------------------------------- */

static float reproducible_score(const query *q, const float *x, uint32_t s) {
  const vkf_view *bias = &q->call->in[VKF_ATTENTION_BIAS];
  float score = reproducible_dot(x, kv_row(q, VKF_ATTENTION_K, s), q->p->key_width);
  float factor = vkf_reproducible_flush(q->p->scale);
  if (q->p->softcap > 0) {
    score = tanh_f32(quotient(mul(score, factor), q->p->softcap));
    factor = q->p->softcap;
  }
  return bias->data ? mad(score, factor, (float)bias_of(q, bias, s)) : mul(score, factor);
}

/* The scores of all keys into score; whether a key has none into seen. */
static void reproducible_scores(query *q, float *score) {
  const float *x = vkf_ref_row(&q->call->in[VKF_ATTENTION_Q], row_of(q));
  for (uint32_t s = 0; s < q->n_keys; s++) {
    q->seen[s] = sees(q, s);
    if (q->seen[s]) score[s] = reproducible_score(q, x + q->p->q_column + (size_t)q->head * q->p->key_width, s);
    if (q->seen[s] && score[s] == -INFINITY) q->seen[s] = false;
  }
}

/* The first key that the mask has: the first block of keys begins there. */
static uint32_t first_key(const query *q) {
  uint32_t first = 0;
  while (first < q->n_keys && !has_key(q, first)) first++;
  return first;
}

/* The online softmax of shaders/attention.comp. out [V] holds the sums. */
static void reproducible_values(const query *q, const float *score, float *sum) {
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
      const float *v = kv_row(q, VKF_ATTENTION_V, s);
      float e = exp_below(score[s] - top);
      total += e;
      for (uint32_t i = 0; i < width; i++) sum[i] = mad(e, v[i], sum[i]);
    }
  }
  size_t at = row_of(q) * q->call->out[0].stride[0] + (size_t)q->head * width;
  for (uint32_t i = 0; i < width; i++) vkf_ref_store_same(q->call, 0, at + i, total == 0 ? 0 : quotient(sum[i], total));
}

static void reproducible_weights(const query *q, const float *score) {
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

/* numbers: room for the scores and the sums of the values. */
static void reproducible_query(query *q, bool values, float *numbers) {
  reproducible_scores(q, numbers);
  if (values)
    reproducible_values(q, numbers, numbers + q->n_keys);
  else
    reproducible_weights(q, numbers);
}

/* ---- both modes -------------------------------------------------------------------------------------------------- */

/* Of a packed batch: the weights of a sequence at all that is none of its queries or keys. */
static void store_zeros(const query *q, uint32_t most, float *moved) {
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

/* Both ops; with values: attention, without: attention_weights. errors, if not NULL: the call over the errors of the
 * inputs; then only how far the result moves is computed, into `moved`. */
static vkf_status run(vkf_env *env, const vkf_call *call, const vkf_attention_params *p, bool values,
                      const vkf_call *errors, float *moved) {
  vkf_status st = VKF_OK;
  const uint32_t T = call->dims->v[p->queries], most = call->dims->v[p->keys];
  query q = {.call = call, .p = p}, e = {.call = errors, .p = p};
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
      for (q.head = 0; q.head < p->n_heads; q.head++) {
        if (call->reproducible) {
          reproducible_query(&q, values, (float *)numbers);
          continue;
        }
        find_scores(&q);
        if (errors) {
          propagate_query(&q, &e, values, acc, moved);
          continue;
        }
        bool any = find_weights(&q);
        if (any && vkf_ref_wants_bounds(call)) bound_weights(&q);
        if (values) {
          store_values(&q, any, acc, acc + p->value_width, acc + 2 * p->value_width, acc + 3 * p->value_width);
        } else {
          store_weights(&q, any);
        }
      }
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
