/* Ops on rows: embed, gather, log-softmax, logit edit, top-k. What moves or selects gives the same bits
 * everywhere.
 */
#include "ref/reproducible.h"
#include "ref/internal.h"

#include <float.h>
#include <string.h>

/* Finds the row of a table that in[index][r] names; *row is NULL if the op has no such table. */
static vkf_status table_row(vkf_env *env, const vkf_call *call, int index, uint32_t r, uint32_t height,
                            const char *what, const float **row) {
  *row = NULL;
  if (height == 0) return VKF_OK;
  int32_t id = ((const int32_t *)call->in[index].data)[r];
  vkf_status st = vkf_ref_check_index(env, call, what, r, id, height);
  if (st == VKF_OK) *row = vkf_ref_row(&call->in[index + 1], (size_t)id);
  return st;
}

/* Each step is a float32 operation: the result is defined to the bit. */
vkf_status vkf_ref_embed(vkf_env *env, const vkf_call *call) {
  const vkf_embed_params *p = &call->params->embed;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *token, *place, *type;
    VKF_CALL(table_row(env, call, VKF_EMBED_IDS, r, p->n_ids, "id", &token));
    if (p->by_row) token = vkf_ref_row(&call->in[VKF_EMBED_TABLE], r);
    VKF_CALL(table_row(env, call, VKF_EMBED_POSITIONS, r, p->n_positions, "position", &place));
    VKF_CALL(table_row(env, call, VKF_EMBED_TYPES, r, p->n_types, "type", &type));
    for (uint32_t i = 0; i < p->width; i++) {
      float y = token ? token[i] * p->scale : 0;
      if (call->reproducible && token) y = mul(token[i], vkf_reproducible_flush(p->scale));
      if (place) y = token ? y + place[i] : place[i];
      if (type) y = token || place ? y + type[i] : type[i];
      vkf_ref_store_same(call, 0, r * call->out[0].stride[0] + i, y);
    }
  }
  return VKF_OK;
}

vkf_status vkf_ref_gather(vkf_env *env, const vkf_call *call) {
  const vkf_gather_params *p = &call->params->gather;
  const int32_t *index = call->in[VKF_GATHER_INDEX].data;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    VKF_CALL(vkf_ref_check_index(env, call, "index", r, index[r], call->dims->v[p->x_rows]));
    const float *x = vkf_ref_row(&call->in[VKF_GATHER_X], (size_t)index[r]);
    for (uint32_t i = 0; i < p->width; i++) vkf_ref_store_same(call, 0, r * call->out[0].stride[0] + i, x[i]);
  }
  return VKF_OK;
}

/* ---- log-softmax ------------------------------------------------------------------------------------------------- */

/* Bounds the error of log(z), z = sum of exp(x - max), by the relative errors of its terms. */
static double bound_log_sum(const vkf_rounding *r, const float *x, uint32_t width, double max, double z) {
  double error = 0, sum = 0;
  for (uint32_t i = 0; i < width; i++) {
    double t = max - (double)x[i];
    if (!(t < INFINITY)) continue; /* exp(-inf) is exact */
    /* exp(x - m) exp(m - max), m the part's maximum: errors of two exp, whose arguments add up to t, and a product. */
    double scaled = r->scaled_parts ? vkf_ref_exp_error(r, 0) + r->u : 0;
    double own = expm1((r->u * t + vkf_ref_exp_error(r, t) + scaled) * (1 + 1e-4)), w = exp(-t);
    error += w * own + (r->scaled_parts ? 4 : 2) * r->tiny;
    sum += w * (1 + own);
  }
  double relative = (error + vkf_ref_gamma(vkf_ref_depth(r, width), r->u) * sum) / z;
  if (!(relative < 1)) return INFINITY;
  double through = -log1p(-relative), y = log(z) + through;
  double near_one = z * (1 - relative) <= 2 ? r->log_abs : 0; /* the computed sum may be in [0.5, 2] */
  return through + VKF_MAX(near_one, 2 * r->u * r->log_ulp * y);
}

static void reproducible_log_softmax(const vkf_call *call, uint32_t r) {
  uint32_t width = call->params->log_softmax.width;
  const float *x = vkf_ref_row(&call->in[VKF_LOG_SOFTMAX_X], r);
  float part[VKF_ROW_PARTIALS] = {0}, max = -FLT_MAX;
  for (uint32_t i = 0; i < width; i++) max = x[i] > max ? x[i] : max; /* not a NaN */
  for (uint32_t i = 0; i < width; i++) part[i % VKF_ROW_PARTIALS] += exp_below(x[i] - max);
  float shift = log_of(reproducible_total(part));
  for (uint32_t i = 0; i < width; i++) vkf_ref_store_same(call, 0, r * call->out[0].stride[0] + i, x[i] - max - shift);
}

/* out = (x - max) - log(sum of exp(x - max)). */
vkf_status vkf_ref_log_softmax(vkf_env *env, const vkf_call *call) {
  (void)env;
  const vkf_log_softmax_params *p = &call->params->log_softmax;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    if (call->reproducible) {
      reproducible_log_softmax(call, r);
      continue;
    }
    const float *x = vkf_ref_row(&call->in[VKF_LOG_SOFTMAX_X], r);
    double max = -INFINITY, sum = 0, log_error = 0;
    for (uint32_t i = 0; i < p->width; i++) {
      if ((double)x[i] > max) max = (double)x[i];
    }
    for (uint32_t i = 0; i < p->width; i++) sum += exp((double)x[i] - max);
    double log_sum = log(sum);
    if (vkf_ref_wants_bounds(call)) log_error = bound_log_sum(call->rounding, x, p->width, max, sum);
    for (uint32_t i = 0; i < p->width; i++) {
      double t = (double)x[i] - max, result = t - log_sum, bound = 0;
      if (vkf_ref_wants_bounds(call)) {
        bound = call->rounding->u * fabs(t) + log_error;
        bound += call->rounding->u * (fabs(result) + bound) + call->rounding->tiny;
      }
      vkf_ref_store(call, 0, r * call->out[0].stride[0] + i, result, bound);
    }
  }
  return VKF_OK;
}

/* ---- edit -------------------------------------------------------------------------------------------------------- */

/* Adds a value with an error of its own to x. */
static void add_edit(double value, double error, const vkf_rounding *r, double *x, double *bound) {
  const double u = r ? r->u : 0;
  *x += value;
  *bound = vkf_ref_unless_overflow(fabs(*x), *bound + error);
  if (*bound == VKF_BOUND_ANY) return;
  *bound += u * (fabs(*x) + *bound) + (r ? r->tiny : 0);
}

/* Edits a value and the bound of its error: SET and FILL are exact, GROW rounds twice, the others once. */
static void edit_value(vkf_logit_edit_kind kind, double value, const vkf_rounding *r, double *x, double *bound) {
  double u = r ? r->u : 0, by = fabs(value);
  switch (kind) {
    case VKF_LOGIT_EDIT_ADD:
      add_edit(value, 0, r, x, bound);
      break;
    case VKF_LOGIT_EDIT_GROW: {
      const double part = fabs(*x) * value, error = *bound * by + u * (fabs(part) + *bound * by) + (r ? r->tiny : 0);
      add_edit(part, vkf_ref_unless_overflow(fabs(part), error), r, x, bound);
      break;
    }
    case VKF_LOGIT_EDIT_PENALTY:
      if (*x < 0) {
        *x *= value;
        *bound = *bound * by + u * (fabs(*x) + *bound * by) + (r ? r->tiny : 0);
      } else {
        *x /= value;
        *bound = *bound / by + (r ? vkf_ref_div_error(r) * (fabs(*x) + *bound / by) + r->tiny : 0);
      }
      break;
    default: /* SET and FILL */
      *x = value;
      *bound = 0;
  }
}

/* Applies the edits of a row in order. x [width], bound [width]: the row and its bounds. */
static vkf_status edit_row(vkf_env *env, const vkf_call *call, uint32_t row, double *x, double *bound) {
  const vkf_logit_edit_params *p = &call->params->logit_edit;
  const int32_t *offsets = call->in[VKF_LOGIT_EDIT_OFFSETS].data;
  if (p->row_edits)
    VKF_CALL(vkf_ref_check_index(env, call, "edits", row, offsets[row + 1] - offsets[row], p->row_edits + 1));
  for (int32_t e = offsets[row]; e < offsets[row + 1]; e++) {
    VKF_CALL(vkf_ref_check_index(env, call, "edit", row, e, p->max_edits));
    const int32_t *edit = vkf_ref_ints(&call->in[VKF_LOGIT_EDIT_EDITS], (size_t)e);
    VKF_CALL(vkf_ref_check_index(env, call, "kind of edit", row, edit[0], VKF_LOGIT_EDIT_GROW + 1));
    float value;
    memcpy(&value, &edit[2], sizeof(value));
    if (call->reproducible) value = vkf_reproducible_flush(value);
    if (edit[0] == VKF_LOGIT_EDIT_FILL) {
      for (uint32_t i = 0; i < p->width; i++)
        edit_value(VKF_LOGIT_EDIT_FILL, (double)value, call->rounding, &x[i], &bound[i]);
      continue;
    }
    VKF_CALL(vkf_ref_check_index(env, call, "edited id", row, edit[1], p->width));
    vkf_logit_edit_kind kind = (vkf_logit_edit_kind)edit[0];
    /* An operation of floats in double, rounded, is that operation in float. GROW is two. */
    if (call->reproducible && kind == VKF_LOGIT_EDIT_GROW) {
      value = vkf_reproducible_flush((float)(fabs(x[edit[1]]) * (double)value));
      kind = VKF_LOGIT_EDIT_ADD;
    }
    edit_value(kind, (double)value, call->rounding, &x[edit[1]], &bound[edit[1]]);
    if (call->reproducible) x[edit[1]] = (double)vkf_reproducible_flush((float)x[edit[1]]);
  }
  return VKF_OK;
}

vkf_status vkf_ref_logit_edit(vkf_env *env, const vkf_call *call) {
  const vkf_logit_edit_params *p = &call->params->logit_edit;
  vkf_status st = VKF_OK;
  double *x = vkf_env_alloc(env, 2 * (size_t)p->width, sizeof(double));
  if (!x) return VKF_ERROR_MEMORY;
  double *bound = x + p->width;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *row = vkf_ref_row(&call->in[VKF_LOGIT_EDIT_X], r);
    for (uint32_t i = 0; i < p->width; i++) {
      x[i] = (double)row[i];
      bound[i] = 0;
    }
    VKF_TRY(edit_row(env, call, r, x, bound));
    for (uint32_t i = 0; i < p->width; i++) vkf_ref_store(call, 0, r * call->out[0].stride[0] + i, x[i], bound[i]);
  }
done:
  vkf_env_free(env, x);
  return st;
}

/* ---- top-k ------------------------------------------------------------------------------------------------------- */

/* Returns whether a is before b: larger, NaN largest of all, equal values by the lower id. */
static bool before(const float *x, uint32_t a, uint32_t b) {
  bool nan_a = isnan(x[a]), nan_b = isnan(x[b]);
  if (nan_a != nan_b) return nan_a;
  if (!nan_a && x[a] != x[b]) return x[a] > x[b];
  return a < b;
}

/* Keeps the best k so far in order; most elements fail the first comparison. */
vkf_status vkf_ref_top_k(vkf_env *env, const vkf_call *call) {
  const vkf_top_k_params *p = &call->params->top_k;
  uint32_t *best = vkf_env_alloc(env, p->k, sizeof(*best));
  if (!best) return VKF_ERROR_MEMORY;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *x = vkf_ref_row(&call->in[VKF_TOP_K_X], r);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->width; i++) {
      if (n == p->k && !before(x, i, best[n - 1])) continue;
      uint32_t at = n < p->k ? n++ : n - 1;
      for (; at > 0 && before(x, i, best[at - 1]); at--) best[at] = best[at - 1];
      best[at] = i;
    }
    for (uint32_t i = 0; i < p->k; i++) {
      size_t at = r * call->out[VKF_TOP_K_IDS].stride[0] + i;
      vkf_ref_store_same(call, VKF_TOP_K_VALUES, r * call->out[VKF_TOP_K_VALUES].stride[0] + i, x[best[i]]);
      ((int32_t *)call->out[VKF_TOP_K_IDS].data)[at] = (int32_t)best[i];
      if (call->exact[VKF_TOP_K_IDS]) call->exact[VKF_TOP_K_IDS][at] = best[i];
      if (call->bound[VKF_TOP_K_IDS]) call->bound[VKF_TOP_K_IDS][at] = 0;
    }
  }
  vkf_env_free(env, best);
  return VKF_OK;
}
