/* case_spans: see case_spans.h. */
#include "op/case_spans.h"

#include "shared/constants.h"

/* Sequences of rows or of keys: the rows of all, the length of each, and where it begins. They are side by side in
 * another order. */
typedef struct packed {
  uint32_t rows, *length, *begin;
} packed;

enum { LENGTHS = 60, ORDER = 61, PASTS = 62, SOURCES = 63, SLOTS = 64, FIRSTS = 65 }; /* streams of random numbers */

/* Returns the numbers 0 to n-1 in another order; NULL: there is no memory. */
static uint32_t *shuffled(vkf_arena *arena, const vkf_case *c, uint64_t stream, uint32_t n) {
  uint32_t *order = vkf_arena_alloc(arena, VKF_MAX(n, 1u), sizeof *order);
  for (uint32_t i = 0; order && i < n; i++) order[i] = n - 1 - i;
  for (uint32_t i = n; order && i > 2; i--) {
    const uint32_t k = vkf_case_below(c, stream, i, i), swap = order[i - 1];
    order[i - 1] = order[k];
    order[k] = swap;
  }
  return order;
}

/* Draws lengths: `longest` for the first sequence, anything up to it for the others. False: there is no memory. */
static bool pack(vkf_arena *arena, const vkf_case *c, uint64_t stream, uint32_t n, uint32_t longest, packed *out) {
  const uint32_t *order = shuffled(arena, c, ORDER + stream, n);
  *out = (packed){.length = vkf_arena_alloc(arena, VKF_MAX(n, 1u), sizeof *out->length),
                  .begin = vkf_arena_alloc(arena, VKF_MAX(n, 1u), sizeof *out->begin)};
  if (!order || !out->length || !out->begin) return false;
  for (uint32_t i = 0; i < n; i++) out->length[i] = i ? vkf_case_below(c, LENGTHS + stream, i, longest + 1) : longest;
  for (uint32_t i = 0; i < n; i++) {
    out->begin[order[i]] = out->rows;
    out->rows += out->length[order[i]];
  }
  return true;
}

static void put(int32_t *spans, uint32_t seq, const uint32_t fields[VKF_SPAN_FIELDS]) {
  for (uint32_t i = 0; i < VKF_SPAN_FIELDS; i++) spans[seq * VKF_SPAN_FIELDS + i] = (int32_t)fields[i];
}

bool vkf_case_has_spans(const vkf_case *c, uint32_t input) {
  if (c->op == VKF_OP_APPEND) return c->params.append.packed && input == VKF_APPEND_SPANS;
  return vkf_op_is_attention(c->op) && c->params.attention.packed && input == VKF_ATTENTION_SPANS;
}

const int32_t *vkf_case_spans(vkf_arena *arena, const vkf_case *c, vkf_sizes *sizes) {
  const bool append = c->op == VKF_OP_APPEND;
  const vkf_dim seqs = append ? c->params.append.seqs : c->params.attention.seqs;
  const bool source = seqs == VKF_DIM_B, cross = !append && !source && c->params.attention.keys == VKF_DIM_S;
  const vkf_sizes *capacity = c->capacity.R ? &c->capacity : &c->sizes;
  const uint32_t n = source ? sizes->B : sizes->R, T = source ? sizes->S : sizes->T;
  packed queries, keys = {0};
  int32_t *spans = vkf_arena_alloc(arena, (size_t)VKF_MAX(n, 1u) * VKF_SPAN_FIELDS, sizeof *spans);
  const uint32_t *slots = shuffled(arena, c, SLOTS, capacity->R), *backwards = shuffled(arena, c, SLOTS, n);
  if (!spans || !slots || !backwards || !pack(arena, c, 0, n, T, &queries)) return NULL;
  if ((source || cross) && !pack(arena, c, SOURCES, sizes->B, sizes->S, &keys)) return NULL;
  for (uint32_t i = 0; source && i < n; i++) keys.length[i] = queries.length[i];
  if (source) { /* as many keys as rows, in an order of their own */
    const uint32_t *order = shuffled(arena, c, SOURCES, n);
    if (!order) return NULL;
    keys.rows = 0;
    for (uint32_t i = 0; i < n; i++) {
      keys.begin[order[i]] = keys.rows;
      keys.rows += keys.length[order[i]];
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t length = queries.length[i], most = sizes->past + T - length;
    const uint32_t past = i ? vkf_case_below(c, PASTS, i, most + 1) : most,
                   from = vkf_case_below(c, SOURCES, i, sizes->B);
    put(spans, i,
        append && c->params.append.to_slots ? (const uint32_t[]){queries.begin[i], length, 0, length, backwards[i],
                                                                 vkf_case_below(c, PASTS, i, T - length + 1)}
        : source ? (const uint32_t[]){queries.begin[i], length, 0, keys.length[i], 0, keys.begin[i]}
        : cross  ? (const uint32_t[]){queries.begin[i], length, 0, keys.length[from], from,
                                      vkf_case_below(c, FIRSTS, from, sizes->S - keys.length[from] + 1)}
                 : (const uint32_t[]){queries.begin[i], length, past, past + length, slots[i], 0});
  }
  if (source) sizes->source_rows = keys.rows;
  if (!source) sizes->target_rows = queries.rows;
  return spans;
}
