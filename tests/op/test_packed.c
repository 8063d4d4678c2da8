/* Attention in packed batches: a sequence has the same bits among sequences of other lengths as alone in a rectangle,
 * in every variant of order class ascending and on the scalar path in both its modes. Nothing here has a tolerance.
 */
#include "shared/constants.h"
#include "support/attention_bits.h"

enum { HEADS = 4, KV_HEADS = 2 };
enum { mask = 1 << VKF_ATTENTION_MASK, bias = 1 << VKF_ATTENTION_BIAS };

#define SHAPE(NAME, SEED, SIZES, INPUTS, SEQS, QUERIES, KEYS, PAST, WIDTH, ...)                                    \
  {                                                                                                                \
    .name = NAME, .op = VKF_OP_ATTENTION, .data = VKF_DATA_NORMAL, .seed = SEED, .inputs = INPUTS, .sizes = SIZES, \
    .params.attention = {                                                                                          \
      .seqs = VKF_DIM_##SEQS,                                                                                      \
      .queries = VKF_DIM_##QUERIES,                                                                                \
      .keys = VKF_DIM_##KEYS,                                                                                      \
      .past = VKF_DIM_##PAST,                                                                                      \
      .n_heads = HEADS,                                                                                            \
      .n_kv_heads = KV_HEADS,                                                                                      \
      .key_width = WIDTH,                                                                                          \
      .value_width = WIDTH,                                                                                        \
      .scale = 0.25f,                                                                                              \
      .packed = true,                                                                                              \
      __VA_ARGS__                                                                                                  \
    }                                                                                                              \
  }
#define SIZES(...) \
  { __VA_ARGS__ }
static const vkf_case shapes[] = {
    SHAPE("self, bias by distance", 3, SIZES(.B = 5, .S = 37), bias, B, S, S, ZERO, 16, .bias_per_head = true,
          .bias_by_distance = true, .bias_before = 7, .bias_after = 5),
    SHAPE("self, mask, odd width", 4, SIZES(.B = 4, .S = 40), mask, B, S, S, ZERO, 5, .causal = false),
    SHAPE("prompts and tokens, window", 5, SIZES(.B = 1, .R = 5, .T = 9, .past = 50), 0, R, T, KEYS, PAST, 16,
          .causal = true, .window = 20),
    SHAPE("single tokens", 6, SIZES(.B = 1, .R = 6, .T = 1, .past = 70), 0, R, T, KEYS, PAST, 32, .causal = true),
    SHAPE("cross", 7, SIZES(.B = 3, .R = 5, .T = 3, .S = 45), 0, R, T, S, ZERO, 8, .causal = false),
};

/* Makes the case of one sequence alone, in a rectangle, with its data of the packed batch. */
static void make_alone(driver *d, const vkf_case *shape, const vkf_case_run *packed, const int32_t *span,
                       vkf_case_run *out) {
  const vkf_attention_params *p = &shape->params.attention;
  const uint32_t queries = (uint32_t)span[VKF_SPAN_QUERIES], keys = (uint32_t)span[VKF_SPAN_KEYS];
  vkf_case c = *shape;
  c.params.attention.packed = false;
  c.sizes = p->seqs == VKF_DIM_B   ? (vkf_sizes){.B = 1, .S = queries}
            : p->keys == VKF_DIM_S ? (vkf_sizes){.B = 1, .R = 1, .T = queries, .S = keys}
                                   : (vkf_sizes){.B = 1, .R = 1, .T = queries, .past = keys - queries};
  driver_ok(d, vkf_case_make(&d->context->env, &c, out));
  const uint32_t q_width = extent_of(out, VKF_ATTENTION_Q, 1);
  memcpy(data_of(out, VKF_ATTENTION_Q),
         (const float *)data_of(packed, VKF_ATTENTION_Q) + (size_t)span[VKF_SPAN_ROW] * q_width,
         (size_t)queries * q_width * sizeof(float));
  for (uint32_t i = VKF_ATTENTION_K; i <= VKF_ATTENTION_V; i++) {
    const uint32_t width = extent_of(out, i, 3), capacity = extent_of(packed, i, 2);
    for (uint32_t h = 0; h < KV_HEADS; h++)
      memcpy((float *)data_of(out, i) + (size_t)h * keys * width,
             (const float *)data_of(packed, i) +
                 (((size_t)span[VKF_SPAN_SLOT] * KV_HEADS + h) * capacity + (size_t)span[VKF_SPAN_FIRST]) * width,
             (size_t)keys * width * sizeof(float));
  }
  if (shape->inputs & bias)
    memcpy(data_of(out, VKF_ATTENTION_BIAS), data_of(packed, VKF_ATTENTION_BIAS),
           (size_t)HEADS * extent_of(out, VKF_ATTENTION_BIAS, 1) * sizeof(float));
  if (shape->inputs & mask)
    memcpy(data_of(out, VKF_ATTENTION_MASK),
           (const int32_t *)data_of(packed, VKF_ATTENTION_MASK) +
               (size_t)span[VKF_SPAN_SLOT] * extent_of(packed, VKF_ATTENTION_MASK, 1) + span[VKF_SPAN_FIRST],
           keys * sizeof(int32_t));
}

/* Compares bits (attention_compare). */
static bool compare(driver *d, vkf_backend *backend, const vkf_case *shape, const char *variant) {
  const size_t row = (size_t)HEADS * shape->params.attention.value_width;
  vkf_case_program packed = {0};
  driver_ok(d, vkf_case_make(&d->context->env, shape, &packed.run));
  const int32_t *spans = data_of(&packed.run, VKF_ATTENTION_SPANS);
  float *all = result_of(d, backend, &packed, variant);
  uint32_t n_compared = 0;
  for (uint32_t seq = 0; all && seq < packed.run.dims.v[shape->params.attention.seqs]; seq++) {
    const int32_t *span = spans + (size_t)seq * VKF_SPAN_FIELDS;
    vkf_case_program one = {0};
    if (!span[VKF_SPAN_QUERIES] || !span[VKF_SPAN_KEYS]) continue;
    make_alone(d, shape, &packed.run, span, &one.run);
    float *alone = result_of(d, backend, &one, variant);
    assert_non_null(alone);
    for (size_t i = 0; i < (size_t)span[VKF_SPAN_QUERIES] * row; i++)
      if (memcmp(&all[(size_t)span[VKF_SPAN_ROW] * row + i], &alone[i], sizeof *alone))
        fail_msg("%s, \"%s\", sequence %u: element %zu is %.9g, alone %.9g", variant ? variant : "ref", shape->name,
                 seq, i, all[(size_t)span[VKF_SPAN_ROW] * row + i], alone[i]);
    free(alone);
    vkf_case_program_finish(&one);
    n_compared++;
  }
  assert_true(!all || n_compared > 1);
  const bool fits = all;
  free(all);
  vkf_case_program_finish(&packed);
  return fits;
}

ATTENTION_MAIN(shapes, compare)
