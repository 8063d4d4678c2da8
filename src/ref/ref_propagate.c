/* propagate_error: how far the exact result of a node can move if its inputs are off by known errors.
 *
 * With the derived bound of the node this carries an error bound from node to node (docs/numerics.md, chains).
 * Errors are float32, laid out as the values, and rounded up.
 */
#include "ref/internal.h"
#include "ref/q8.h"
#include "shared/constants.h"

/* What an operation may lose if its result is below the normal numbers (devices may flush them). */
#define TINY 0x1p-126

/* Returns row `row` of the errors of input i. */
static const float *error_row(const vkf_view *errors, int i, size_t row) {
  return vkf_ref_row(&errors[i], row);
}

/* Bounds the error of a product a b whose factors are both off. */
static double product(double a, double a_error, double b, double b_error) {
  return fabs(a) * b_error + a_error * fabs(b) + a_error * b_error;
}

/* Rounds a row of x to q8 as a matmul does, and bounds how far its numbers can move: by their errors and by the
 * roundings before and after the move, half a scale each. A scale is at most 1/127 (1 + 2^-16) of the largest number.
 */
static void round_to_q8(const float *x, const float *x_error, uint32_t k, float *rounded, float *error) {
  vkf_ref_q8_round(x, k, rounded);
  for (uint32_t from = 0; from < k; from += VKF_Q8_BLOCK) {
    const uint32_t n = VKF_MIN(k - from, (uint32_t)VKF_Q8_BLOCK);
    double largest = 0, largest_error = 0;
    for (uint32_t i = from; i < from + n; i++) {
      largest = VKF_MAX(largest, fabs((double)x[i]));
      largest_error = VKF_MAX(largest_error, (double)x_error[i]);
    }
    const double steps = (largest + largest_error / 2) / 127 * (1 + 0x1p-16) + 0x1p-99;
    for (uint32_t i = 0; i < n; i++) error[from + i] = vkf_ref_up((double)x_error[from + i] + steps);
  }
}

/* Returns scale x dot + bias for row n of w; *error: how far it can move. x, x_error: a row as it is multiplied. */
static double moved_sum(const vkf_call *call, const vkf_view *errors, const float *x, const float *x_error, uint32_t n,
                        double *error) {
  const vkf_matmul_params *p = &call->params->matmul;
  const float *bias = call->in[VKF_MATMUL_BIAS].data, *w = vkf_ref_row(&call->in[VKF_MATMUL_W], n);
  const float *w_error = error_row(errors, VKF_MATMUL_W, n);
  const double scale = p->scale == 0 ? 1 : (double)p->scale;
  double sum = 0, moved = 0;
  for (uint32_t i = 0; i < p->k; i++) {
    sum += (double)x[i] * w[i];
    moved += product((double)x[i], (double)x_error[i], (double)w[i], (double)w_error[i]);
  }
  *error = fabs(scale) * moved + (bias ? (double)((const float *)errors[VKF_MATMUL_BIAS].data)[n] : 0);
  return scale * sum + (bias ? (double)bias[n] : 0);
}

static vkf_status propagate_matmul(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_matmul_params *p = &call->params->matmul;
  float *q8 = NULL; /* a row and its errors */
  if (vkf_format_get(call->in[VKF_MATMUL_W].format)->q8 && !(q8 = vkf_env_alloc(env, p->k, 2 * sizeof *q8)))
    return VKF_ERROR_MEMORY;
  for (uint32_t m = 0; m < call->dims->v[p->rows]; m++) {
    const float *x = vkf_ref_row(&call->in[VKF_MATMUL_X], m), *x_error = error_row(errors, VKF_MATMUL_X, m);
    if (q8) {
      round_to_q8(x, x_error, p->k, q8, q8 + p->k);
      x = q8;
      x_error = q8 + p->k;
    }
    for (uint32_t n = 0; n < vkf_matmul_width(p); n++) {
      double error, up_error;
      const double sum = moved_sum(call, errors, x, x_error, p->is_gated ? 2 * n : n, &error);
      error = vkf_ref_activate_error(p->activation, sum, error);
      if (p->is_gated) {
        const double up = moved_sum(call, errors, x, x_error, 2 * n + 1, &up_error);
        error = product(vkf_ref_activate(p->activation, sum), error, up, up_error);
      }
      if (call->in[VKF_MATMUL_RESIDUAL].data) error += (double)error_row(errors, VKF_MATMUL_RESIDUAL, m)[n];
      out[m * call->out[0].stride[0] + n] = vkf_ref_up(error);
    }
  }
  vkf_env_free(env, q8);
  return VKF_OK;
}

/* Returns the error of element i of a row to be normed, with its residual. */
static double norm_error(const float *x_error, const float *residual_error, uint32_t i) {
  return (double)x_error[i] + (residual_error ? (double)residual_error[i] : 0);
}

/* The result is c / s with c = y - mean and s = sqrt(mean(c^2) + eps), a length of c: if c moves by d, s moves by at
 * most the length of d. x: value, residual and their errors. */
static void propagate_norm_group(const vkf_call *call, const vkf_view *errors, const float *x[4], uint32_t first,
                                 float *out) {
  const vkf_norm_params *p = &call->params->norm;
  const float *weight = call->in[VKF_NORM_WEIGHT].data, *weight_error = errors[VKF_NORM_WEIGHT].data;
  const float *bias_error = errors[VKF_NORM_BIAS].data;
  double mean = 0, mean_error = 0, square = 0, square_error = 0;
  for (uint32_t i = first; i < first + p->width && p->kind == VKF_NORM_LAYER; i++) {
    mean += ((double)x[0][i] + (x[1] ? (double)x[1][i] : 0)) / p->width;
    mean_error += norm_error(x[2], x[3], i) / p->width;
  }
  for (uint32_t i = first; i < first + p->width; i++) {
    double c = (double)x[0][i] + (x[1] ? (double)x[1][i] : 0) - mean, error = norm_error(x[2], x[3], i) + mean_error;
    square += c * c / p->width;
    square_error += error * error / p->width;
  }
  double s = sqrt(square + (double)p->eps); /* eps is a number rounded to float32 */
  double s_error = sqrt(square_error) + (s > 0 ? 0x1p-24 * (double)p->eps / s : 0);
  double low = VKF_MAX(s - s_error, sqrt((double)p->eps));
  for (uint32_t i = first; i < first + p->width; i++) {
    double c = (double)x[0][i] + (x[1] ? (double)x[1][i] : 0) - mean, normed = s > 0 ? c / s : 0;
    double error = norm_error(x[2], x[3], i) + mean_error > 0 || s_error > 0
                       ? (norm_error(x[2], x[3], i) + mean_error + fabs(normed) * s_error) / low
                       : 0;
    if (weight) error = product(normed, error, (double)weight[i], (double)weight_error[i]);
    out[i] = vkf_ref_up(error + (bias_error ? (double)bias_error[i] : 0));
  }
}

static void propagate_norm(const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_norm_params *p = &call->params->norm;
  bool residual = call->in[VKF_NORM_RESIDUAL].data != NULL;
  uint32_t n = VKF_MAX(p->groups, 1u) * p->width;
  for (uint32_t row = 0; row < call->dims->v[p->rows]; row++) {
    const float *x[4] = {
        vkf_ref_row(&call->in[VKF_NORM_X], row), residual ? vkf_ref_row(&call->in[VKF_NORM_RESIDUAL], row) : NULL,
        error_row(errors, VKF_NORM_X, row), residual ? error_row(errors, VKF_NORM_RESIDUAL, row) : NULL};
    float *to = out + row * call->out[0].stride[0];
    for (uint32_t first = 0; first < n; first += p->width) propagate_norm_group(call, errors, x, first, to);
    for (uint32_t i = n; i < n + p->rest; i++) { /* defined as one float32 operation */
      double error = norm_error(x[2], x[3], i), y = residual ? (double)x[0][i] + (double)x[1][i] : 0;
      to[i] = vkf_ref_up(error + 0x1p-24 * (fabs(y) + (residual ? error : 0)));
    }
  }
}

/* The op is defined in float32, step by step: each step rounds. */
static void propagate_embed(const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_embed_params *p = &call->params->embed;
  const bool has[3] = {p->n_ids > 0 || p->by_row, p->n_positions > 0, p->n_types > 0};
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    for (uint32_t i = 0; i < p->width; i++) {
      double y = 0, error = 0;
      bool first = true;
      for (int table = 0; table < 3; table++) {
        if (!has[table]) continue;
        size_t row = table == 0 && p->by_row ? r : (size_t)((const int32_t *)call->in[2 * table].data)[r];
        double scale = table == 0 ? (double)p->scale : 1;
        y += scale * (double)vkf_ref_row(&call->in[2 * table + 1], row)[i];
        error += fabs(scale) * (double)error_row(errors, 2 * table + 1, row)[i];
        if (!first || scale != 1) error += 0x1p-24 * (fabs(y) + error) + TINY;
        first = false;
      }
      out[r * call->out[0].stride[0] + i] = vkf_ref_up(error);
    }
  }
}

/* Returns log(sum of exp(x + sign * error)). */
static double log_sum_moved(const float *x, const float *error, double sign, uint32_t width) {
  double max = -INFINITY, sum = 0;
  for (uint32_t i = 0; i < width; i++) max = VKF_MAX(max, (double)x[i] + sign * (double)error[i]);
  for (uint32_t i = 0; i < width; i++) sum += exp((double)x[i] + sign * (double)error[i] - max);
  return max + log(sum);
}

/* The log of the sum moves most if all terms move in the same direction. */
static void propagate_log_softmax(const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_log_softmax_params *p = &call->params->log_softmax;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *x = vkf_ref_row(&call->in[VKF_LOG_SOFTMAX_X], r), *error = error_row(errors, VKF_LOG_SOFTMAX_X, r);
    double middle = log_sum_moved(x, error, 0, p->width);
    double shift =
        VKF_MAX(log_sum_moved(x, error, 1, p->width) - middle, middle - log_sum_moved(x, error, -1, p->width));
    for (uint32_t i = 0; i < p->width; i++) out[r * call->out[0].stride[0] + i] = vkf_ref_up((double)error[i] + shift);
  }
}

/* The n-th largest moves by no more than the largest error. */
static void propagate_top_k(const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_top_k_params *p = &call->params->top_k;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *error = error_row(errors, VKF_TOP_K_X, r);
    float largest = 0;
    for (uint32_t i = 0; i < p->width; i++) largest = VKF_MAX(largest, error[i]);
    for (uint32_t i = 0; i < p->k; i++) out[r * call->out[VKF_TOP_K_VALUES].stride[0] + i] = largest;
  }
}

static void propagate_gate(const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_gate_params *p = &call->params->gate;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *x = vkf_ref_row(&call->in[VKF_GATE_X], r), *error = error_row(errors, VKF_GATE_X, r);
    for (uint32_t i = 0; i < p->width; i++) {
      uint32_t g = p->gate_column + i, h = p->up_column + i;
      double act = vkf_ref_activate(p->activation, (double)x[g]);
      double act_error = vkf_ref_activate_error(p->activation, (double)x[g], (double)error[g]);
      out[r * call->out[0].stride[0] + i] = vkf_ref_up(product(act, act_error, (double)x[h], (double)error[h]));
    }
  }
}

/* Returns the column with which column i of a head turns, and their *pair; i itself if it does not turn. */
static uint32_t partner(const vkf_rope_params *p, uint32_t i, uint32_t *pair) {
  uint32_t half = p->rotary / 2;
  if (i >= p->rotary) return i;
  *pair = p->pairs == VKF_ROPE_HALVES ? i % half : i / 2;
  return p->pairs == VKF_ROPE_HALVES ? (i + half) % p->rotary : i ^ 1;
}

static uint32_t head_begin(const vkf_rope_params *p, uint32_t column) {
  const uint32_t begin[2] = {p->q_column, p->k_column}, n[2] = {p->n_heads, p->n_kv_heads};
  for (int i = 0; i < 2; i++)
    if (column >= begin[i] && column < begin[i] + n[i] * p->head_width)
      return column - (column - begin[i]) % p->head_width;
  return UINT32_MAX;
}

static void propagate_rope(const vkf_call *call, const vkf_view *errors, float *out) {
  const vkf_rope_params *p = &call->params->rope;
  const int32_t *positions = call->in[VKF_ROPE_POSITIONS].data;
  for (uint32_t r = 0; r < call->dims->v[p->rows]; r++) {
    const float *x = vkf_ref_row(&call->in[VKF_ROPE_X], r), *error = error_row(errors, VKF_ROPE_X, r);
    const float *table = vkf_ref_row(&call->in[VKF_ROPE_TABLE], (size_t)positions[r]);
    const float *table_error = error_row(errors, VKF_ROPE_TABLE, (size_t)positions[r]);
    for (uint32_t c = 0; c < p->width; c++) {
      uint32_t begin = head_begin(p, c), pair = 0,
               other = begin == UINT32_MAX ? c : begin + partner(p, c - begin, &pair);
      double moved = (double)error[c];
      if (other != c)
        moved = product((double)x[c], (double)error[c], (double)table[2 * pair], (double)table_error[2 * pair]) +
                product((double)x[other], (double)error[other], (double)table[2 * pair + 1],
                        (double)table_error[2 * pair + 1]);
      out[r * call->out[0].stride[0] + c] = vkf_ref_up(moved);
    }
  }
}

/* An op that only moves numbers moves their errors in the same way. */
static vkf_status propagate_moves(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *const *out) {
  vkf_call moves = *call;
  moves.rounding = NULL;
  for (int i = 0; i < VKF_MAX_INPUTS; i++)
    if (errors[i].data) moves.in[i] = errors[i];
  for (int o = 0; o < VKF_MAX_OUTPUTS; o++) {
    moves.out[o].data = out[o];
    moves.exact[o] = moves.bound[o] = NULL;
  }
  VKF_CALL(vkf_ref_run(env, &moves));
  for (int o = 0; o < VKF_MAX_OUTPUTS; o++) {
    uint32_t index[VKF_MAX_SLOT_RANK] = {0};
    if (!out[o] || vkf_view_elements(&moves.out[o]) == 0) continue;
    do {
      float *at = out[o] + vkf_view_offset(&moves.out[o], index);
      *at = vkf_ref_up((double)*at);
    } while (vkf_view_next(&moves.out[o], index));
  }
  return VKF_OK;
}

/* Propagates errors through the rotary positions, then moves them. */
static vkf_status propagate_append(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *const *out) {
  const vkf_append_params *p = &call->params->append;
  const vkf_params rope = vkf_ref_append_rope(p);
  const uint32_t rows = call->dims->v[rope.rope.rows], width = rope.rope.width;
  vkf_params plain = *call->params;
  vkf_view moved[VKF_MAX_INPUTS] = {{0}};
  vkf_call turns = *call, moves = *call;
  vkf_status st = VKF_OK;
  if (!p->rotary) return propagate_moves(env, call, errors, out);
  float *turned = vkf_env_alloc(env, VKF_MAX((size_t)rows * width, 1), sizeof *turned);
  if (!turned) return VKF_ERROR_MEMORY;
  turns.op = VKF_OP_ROPE;
  turns.params = &rope;
  turns.in[VKF_ROPE_POSITIONS] = call->in[VKF_APPEND_POSITIONS];
  turns.in[VKF_ROPE_TABLE] = call->in[VKF_APPEND_TABLE];
  turns.out[0] = (vkf_view){.data = turned, .rank = 2, .extent = {rows, width}, .stride = {width, 1}};
  moved[VKF_ROPE_X] = errors[VKF_APPEND_X];
  moved[VKF_ROPE_TABLE] = errors[VKF_APPEND_TABLE];
  propagate_rope(&turns, moved, turned);
  plain.append.rotary = 0;
  moves.params = &plain;
  moved[VKF_APPEND_X] = turns.out[0];
  for (int i = VKF_APPEND_SPANS; i < VKF_MAX_INPUTS; i++) moved[i] = (vkf_view){0};
  float *const caches[VKF_MAX_OUTPUTS] = {out[VKF_APPEND_K], out[VKF_APPEND_V]};
  VKF_TRY(propagate_moves(env, &moves, moved, caches));
  for (size_t r = 0; r < rows && out[VKF_APPEND_Q]; r++)
    for (size_t i = 0; i < (size_t)p->n_q_heads * p->key_width; i++)
      out[VKF_APPEND_Q][r * call->out[VKF_APPEND_Q].stride[0] + i] = turned[r * width + p->q_column + i];
done:
  vkf_env_free(env, turned);
  return st;
}

vkf_status vkf_ref_propagate_error(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *const *out) {
  switch (call->op) {
    case VKF_OP_MATMUL:
      return propagate_matmul(env, call, errors, out[0]);
    case VKF_OP_NORM:
      return propagate_norm(call, errors, out[0]), VKF_OK;
    case VKF_OP_ATTENTION:
    case VKF_OP_ATTENTION_WEIGHTS:
      return vkf_ref_attention_propagate_error(env, call, errors, out[0]);
    case VKF_OP_EMBED:
      return propagate_embed(call, errors, out[0]), VKF_OK;
    case VKF_OP_LOG_SOFTMAX:
      return propagate_log_softmax(call, errors, out[0]), VKF_OK;
    case VKF_OP_TOP_K:
      return propagate_top_k(call, errors, out[VKF_TOP_K_VALUES]), VKF_OK;
    case VKF_OP_GATE:
      return propagate_gate(call, errors, out[0]), VKF_OK;
    case VKF_OP_APPEND:
      return propagate_append(env, call, errors, out);
    case VKF_OP_ROPE:
      return propagate_rope(call, errors, out[0]), VKF_OK;
    case VKF_OP_LOGIT_EDIT:
      return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "node %s: errors are not carried through edits", call->name);
    default:
      return propagate_moves(env, call, errors, out);
  }
}
