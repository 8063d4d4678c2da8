/* append: copies key and value columns of rows to head-major caches; turns keys and queries if rotary > 0. */
#include "ref/internal.h"

/* Rows that columns are copied from: x, or x with its heads turned, and the exact value and bound of each number. */
typedef struct source {
  vkf_view rows;
  const double *exact, *bound; /* laid out as rows; NULL: the numbers are exact */
} source;

/* Stores the number in row `row`, column `column`, in the output's format. */
static void store_number(const vkf_call *call, uint32_t o, size_t at, const source *from, size_t row, size_t column) {
  const vkf_view *out = &call->out[o];
  const vkf_format_row *format = vkf_format_get(out->format);
  const size_t i = row * from->rows.stride[0] + column;
  const float kept = vkf_format_cached(out->format, ((const float *)from->rows.data)[i]);
  if (!from->exact || !(from->bound[i] > 0)) {
    vkf_ref_store_same(call, o, at, kept);
    return;
  }
  double exact = from->exact[i], bound = from->bound[i];
  if (out->format != VKF_FORMAT_F32) { /* rounded once more; what is too large is NaN */
    const double most = fabs(exact) + bound, refused = (double)format->refused;
    bound += most * format->unit + 0x1p-25;
    if (most >= refused) bound = VKF_BOUND_ANY;
    if (fabs(exact) - from->bound[i] >= refused) exact = NAN;
  }
  ((float *)out->data)[at] = kept;
  if (call->exact[o]) call->exact[o][at] = exact;
  if (call->bound[o]) call->bound[o][at] = bound;
}

static void append_one(const vkf_call *call, uint32_t o, const source *from, uint32_t column, uint32_t width) {
  const vkf_append_params *p = &call->params->append;
  const vkf_view *out = &call->out[o];
  const uint32_t tokens = call->dims->v[p->tokens];
  for (uint32_t seq = 0; seq < call->dims->v[p->seqs]; seq++) {
    const vkf_span whole = {.row = seq * tokens, .queries = tokens, .past = call->dims->v[p->past], .slot = seq};
    const vkf_span span = vkf_ref_span_of(&call->in[VKF_APPEND_SPANS], seq, &whole);
    for (uint32_t t = 0; t < span.queries; t++) {
      for (uint32_t i = 0; i < p->n_heads * width; i++) {
        size_t at = span.slot * out->stride[0] + i / width * out->stride[1] +
                    ((size_t)span.first + span.past + t) * out->stride[2] + i % width;
        store_number(call, o, at, from, (size_t)span.row + t, column + i);
      }
    }
  }
}

/* Stores the queries of all rows. */
static void take_queries(const vkf_call *call, const source *from) {
  const vkf_append_params *p = &call->params->append;
  const vkf_view *out = &call->out[VKF_APPEND_Q];
  for (size_t r = 0; r < call->dims->v[vkf_op_rows(p->seqs, p->tokens)]; r++)
    for (size_t i = 0; i < (size_t)p->n_q_heads * p->key_width; i++)
      store_number(call, VKF_APPEND_Q, r * out->stride[0] + i, from, r, p->q_column + i);
}

vkf_params vkf_ref_append_rope(const vkf_append_params *p) {
  const uint32_t k_end = p->k_column + p->n_heads * p->key_width, q_end = p->q_column + p->n_q_heads * p->key_width,
                 v_end = p->v_column + p->n_heads * p->value_width;
  return (vkf_params){.rope = {.rows = vkf_op_rows(p->seqs, p->tokens),
                               .width = VKF_MAX(VKF_MAX(k_end, q_end), v_end),
                               .n_heads = p->n_q_heads,
                               .q_column = p->q_column,
                               .n_kv_heads = p->n_heads,
                               .k_column = p->k_column,
                               .head_width = p->key_width,
                               .rotary = p->rotary,
                               .n_positions = p->n_positions,
                               .pairs = p->pairs}};
}

/* Turns the heads of x as the op rope does. The caller frees out->rows.data and out->exact in any case. */
static vkf_status turn(vkf_env *env, const vkf_call *call, source *out) {
  const vkf_params params = vkf_ref_append_rope(&call->params->append);
  const uint32_t rows = call->dims->v[params.rope.rows], width = params.rope.width;
  const size_t n = VKF_MAX((size_t)rows * width, 1);
  float *numbers = vkf_env_alloc(env, n, sizeof *numbers);
  out->rows = (vkf_view){.data = numbers, .rank = 2, .extent = {rows, width}, .stride = {width, 1}};
  double *exact = vkf_ref_wants_bounds(call) ? vkf_env_alloc(env, n, 2 * sizeof *exact) : NULL;
  out->exact = exact;
  out->bound = exact ? exact + n : NULL;
  if (!numbers || (!exact && vkf_ref_wants_bounds(call))) return VKF_ERROR_MEMORY;
  vkf_call rope = {.op = VKF_OP_ROPE,
                   .name = call->name,
                   .params = &params,
                   .dims = call->dims,
                   .reproducible = call->reproducible,
                   .rounding = call->rounding,
                   .in = {[VKF_ROPE_X] = call->in[VKF_APPEND_X],
                          [VKF_ROPE_POSITIONS] = call->in[VKF_APPEND_POSITIONS],
                          [VKF_ROPE_TABLE] = call->in[VKF_APPEND_TABLE]},
                   .out = {out->rows},
                   .exact = {exact},
                   .bound = {exact ? exact + n : NULL}};
  return vkf_ref_rope(env, &rope);
}

vkf_status vkf_ref_append(vkf_env *env, const vkf_call *call) {
  const vkf_append_params *p = &call->params->append;
  const vkf_view *spans = &call->in[VKF_APPEND_SPANS];
  const vkf_span most = {.queries = call->dims->v[p->tokens], .keys = UINT32_MAX};
  const vkf_view *cache = &call->out[call->out[VKF_APPEND_K].data ? VKF_APPEND_K : VKF_APPEND_V];
  const source plain = {.rows = call->in[VKF_APPEND_X]};
  source turned = {0};
  vkf_status st = VKF_OK;
  VKF_TRY(vkf_ref_check_spans(env, call, spans, call->dims->v[vkf_op_rows(p->seqs, p->tokens)], &most, cache, true));
  if (p->rotary) {
    VKF_TRY(turn(env, call, &turned));
    take_queries(call, &turned);
  }
  append_one(call, VKF_APPEND_K, p->rotary ? &turned : &plain, p->k_column, p->key_width);
  append_one(call, VKF_APPEND_V, &plain, p->v_column, p->value_width);
done:
  vkf_env_free(env, (void *)(uintptr_t)turned.exact);
  vkf_env_free(env, turned.rows.data);
  return st;
}
