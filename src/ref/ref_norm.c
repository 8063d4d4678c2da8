/* norm: layer norm (Ba et al. 2016, Layer normalization) and root mean square norm (Zhang and Sennrich 2019). */
#include "ref/reproducible.h"
#include "ref/internal.h"

/* One row, exactly: y = x + residual, its mean (0 for RMS) and mean square about it. */
typedef struct row_state {
  const float *x, *residual;
  uint32_t width;
  double mean, variance;
} row_state;

static double y_at(const row_state *s, uint32_t i) {
  return (double)s->x[i] + (s->residual ? (double)s->residual[i] : 0);
}

static void exact_moments(row_state *s, vkf_norm_kind kind) {
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < s->width; i++) sum += y_at(s, i);
  s->mean = kind == VKF_NORM_LAYER ? sum / s->width : 0;
  for (uint32_t i = 0; i < s->width; i++) {
    double c = y_at(s, i) - s->mean;
    squares += c * c;
  }
  s->variance = squares / s->width;
}

/* Errors of the computed row: the shift that all elements share, and the relative error of 1/sqrt(var + eps). */
typedef struct row_error {
  double mean, scale;
  double y_u;       /* u where y itself is a rounded sum, else 0 */
  double magnitude; /* the largest of the sums on the way: of y and of the squares */
} row_error;

/* Bounds the rounding of one centred element, without the shared shift. */
static double element_error(const row_state *s, const row_error *e, uint32_t i, vkf_norm_kind kind,
                            const vkf_rounding *r) {
  double y = y_at(s, i), own = e->y_u * fabs(y);
  return kind == VKF_NORM_LAYER ? own + r->u * (fabs(y - s->mean) + e->mean + own) + r->tiny : own;
}

static row_error bound_moments(const row_state *s, const vkf_norm_params *p, const vkf_rounding *r) {
  row_error e = {.y_u = s->residual ? r->u : 0};
  double chain = vkf_ref_depth(r, s->width) + 1 + ceil(2 * r->div_ulp); /* the sum, then a division by the width */
  if (p->kind == VKF_NORM_LAYER) {
    double magnitude = 0;
    for (uint32_t i = 0; i < s->width; i++) magnitude += fabs(y_at(s, i));
    e.mean = vkf_ref_gamma(chain + (s->residual ? 1 : 0), r->u) * magnitude / s->width + s->width * r->tiny;
  }
  /* Computed c = c + shift + own: the shared shift drops out of the first order, since the c sum to zero. */
  double first = 0, second = 0;
  for (uint32_t i = 0; i < s->width; i++) {
    double own = element_error(s, &e, i, p->kind, r);
    first += 2 * fabs(y_at(s, i) - s->mean) * own;
    second += (e.mean + own) * (e.mean + own);
  }
  double off = (first + second) / s->width;
  double eps = (double)p->eps, total = s->variance + eps;
  off += vkf_ref_gamma(chain + 1, r->u) * (s->variance + off) + r->u * (total + off) + r->tiny;
  double low = VKF_MAX(total - off, eps * (1 - 4 * r->u)), high = total + off;
  double spread = low > 0 ? VKF_MAX(sqrt(total / low) - 1, 1 - sqrt(total / high)) : INFINITY;
  double sum = 0;
  for (uint32_t i = 0; i < s->width; i++) sum += fabs(y_at(s, i));
  e.magnitude = VKF_MAX(sum, s->width * s->variance) * (1 + 1e-3);
  e.scale = (1 + spread) * (1 + 2 * r->u * r->rsqrt_ulp) - 1;
  return e;
}

/* Norms columns [first, first + width) of a row. */
static void norm_group(const vkf_call *call, const row_state *s, size_t to, uint32_t first) {
  const vkf_norm_params *p = &call->params->norm;
  const float *weight = call->in[VKF_NORM_WEIGHT].data, *bias = call->in[VKF_NORM_BIAS].data;
  double scale = 1 / sqrt(s->variance + (double)p->eps);
  row_error e = {0};
  if (vkf_ref_wants_bounds(call)) e = bound_moments(s, p, call->rounding);
  for (uint32_t i = 0; i < p->width; i++) {
    double c = y_at(s, i) - s->mean, w = weight ? (double)weight[first + i] : 1, result = c * scale * w;
    double shift = bias ? (double)bias[first + i] : 0, bound = 0;
    if (vkf_ref_wants_bounds(call)) {
      double off = e.mean + element_error(s, &e, i, p->kind, call->rounding);
      double high = (fabs(c) + off) * scale * (1 + e.scale) * (1 + vkf_ref_gamma(2, call->rounding->u));
      bound = fabs(w) * (high - fabs(c) * scale) + 2 * call->rounding->tiny * (1 + fabs(w));
      if (bias) bound += call->rounding->u * (fabs(result + shift) + bound);
    }
    if (vkf_ref_wants_bounds(call)) bound = vkf_ref_unless_overflow(e.magnitude, bound);
    vkf_ref_store(call, 0, to + first + i, result + shift, bound);
  }
}

static float reproducible_y(const row_state *s, uint32_t i) {
  return s->residual ? s->x[i] + s->residual[i] : s->x[i];
}

static void reproducible_group(const vkf_call *call, const row_state *s, size_t to, uint32_t first) {
  const vkf_norm_params *p = &call->params->norm;
  const float *weight = call->in[VKF_NORM_WEIGHT].data, *bias = call->in[VKF_NORM_BIAS].data;
  float part[VKF_ROW_PARTIALS] = {0}, mean = 0;
  if (p->kind == VKF_NORM_LAYER) {
    for (uint32_t i = 0; i < p->width; i++) part[i % VKF_ROW_PARTIALS] += reproducible_y(s, i);
    mean = quotient(reproducible_total(part), (float)p->width);
    for (uint32_t i = 0; i < VKF_ROW_PARTIALS; i++) part[i] = 0;
  }
  for (uint32_t i = 0; i < p->width; i++) {
    float c = reproducible_y(s, i) - mean, *sum = &part[i % VKF_ROW_PARTIALS];
    *sum = mad(c, c, *sum);
  }
  float factor = quotient(
      1, vkf_reproducible_root(quotient(reproducible_total(part), (float)p->width) + vkf_reproducible_flush(p->eps)));
  for (uint32_t i = 0; i < p->width; i++) {
    float y = mul(reproducible_y(s, i) - mean, factor);
    if (weight) y = mul(y, weight[first + i]);
    if (bias) y += bias[first + i];
    vkf_ref_store_same(call, 0, to + first + i, y);
  }
}

/* Stores y in the columns behind the groups. */
static void pass_rest(const vkf_call *call, const float *x, const float *residual, size_t to, uint32_t first) {
  const vkf_norm_params *p = &call->params->norm;
  for (uint32_t i = first; i < first + p->rest; i++) {
    if (residual)
      vkf_ref_store_same(call, 0, to + i, x[i] + residual[i]);
    else
      vkf_ref_store_same(call, 0, to + i, x[i]);
  }
}

vkf_status vkf_ref_norm(vkf_env *env, const vkf_call *call) {
  (void)env;
  const vkf_norm_params *p = &call->params->norm;
  const vkf_view *residual_view = &call->in[VKF_NORM_RESIDUAL];
  uint32_t n = VKF_MAX(p->groups, 1u) * p->width;
  for (uint32_t row = 0; row < call->dims->v[p->rows]; row++) {
    const float *x = vkf_ref_row(&call->in[VKF_NORM_X], row);
    const float *residual = residual_view->data ? vkf_ref_row(residual_view, row) : NULL;
    size_t to = row * call->out[0].stride[0];
    for (uint32_t first = 0; first < n; first += p->width) {
      row_state s = {.x = x + first, .residual = residual ? residual + first : NULL, .width = p->width};
      if (call->reproducible) {
        reproducible_group(call, &s, to, first);
        continue;
      }
      exact_moments(&s, p->kind);
      norm_group(call, &s, to, first);
    }
    pass_rest(call, x, residual, to, n);
  }
  return VKF_OK;
}
