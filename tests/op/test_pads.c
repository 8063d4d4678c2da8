/* Attention with pads: a sentence has the same bits alone as with any number of pads before and after it, in every
 * variant of order class ascending and on the scalar path in both its modes. Nothing here has a tolerance.
 *
 * One run has PADS + 1 sequences of LENGTH + PADS keys: sequence r holds the sentence after r pads. The pads contain
 * noise.
 */
#include "support/attention_bits.h"

enum { LENGTH = 20, PADS = 33, HEADS = 4, BEAMS = 2, QUERIES = 3 };

#define SELF(NAME, KEY, VALUE, INPUTS, ...)                                                                \
  {                                                                                                        \
    .name = NAME, .op = VKF_OP_ATTENTION, .data = VKF_DATA_NORMAL, .inputs = INPUTS, .params.attention = { \
      .seqs = VKF_DIM_B,                                                                                   \
      .queries = VKF_DIM_S,                                                                                \
      .keys = VKF_DIM_S,                                                                                   \
      .past = VKF_DIM_ZERO,                                                                                \
      .shared = VKF_DIM_ONE,                                                                               \
      .n_heads = HEADS,                                                                                    \
      .n_kv_heads = 2,                                                                                     \
      .key_width = KEY,                                                                                    \
      .value_width = VALUE,                                                                                \
      .scale = 0.25f,                                                                                      \
      __VA_ARGS__                                                                                          \
    }                                                                                                      \
  }
enum { mask = 1 << VKF_ATTENTION_MASK, bias = 1 << VKF_ATTENTION_BIAS, ancestry = 1 << VKF_ATTENTION_ANCESTRY };
static const vkf_case shapes[] = {
    SELF("bias by distance", 16, 16, mask | bias, .bias_per_head = true),
    SELF("window of 6", 16, 16, mask, .causal = true, .window = 6),
    SELF("odd widths, ancestry", 5, 7, mask | ancestry, .causal = true),
    {.name = "cross, beams",
     .op = VKF_OP_ATTENTION,
     .data = VKF_DATA_NORMAL,
     .inputs = mask,
     .params.attention = {.seqs = VKF_DIM_R,
                          .queries = VKF_DIM_T,
                          .keys = VKF_DIM_S,
                          .past = VKF_DIM_ZERO,
                          .shared = VKF_DIM_BEAMS,
                          .n_heads = HEADS,
                          .n_kv_heads = HEADS,
                          .key_width = 8,
                          .value_width = 8,
                          .scale = 0.35f}},
};

static bool is_cross(const vkf_case *c) {
  return c->params.attention.shared == VKF_DIM_BEAMS;
}

static vkf_case sized(const vkf_case *shape, uint32_t n, uint32_t keys) {
  vkf_case c = *shape;
  c.seed = keys;
  c.sizes =
      is_cross(shape) ? (vkf_sizes){.B = n, .R = n * BEAMS, .T = QUERIES, .S = keys} : (vkf_sizes){.B = n, .S = keys};
  return c;
}

/* Copies n rows of `from`, the first of which is from_row, to to_row... of `to`. */
static void copy_rows(float *to, size_t to_row, const float *from, size_t from_row, size_t n, size_t width) {
  memcpy(to + to_row * width, from + from_row * width, n * width * sizeof *to);
}

/* Fills the inputs that depend on the places of keys: the mask of the sentence after r pads, a bias by distance, and
 * an ancestry in which each sequence is its own ancestor. */
static void fill_places(vkf_case_run *run, uint32_t n_seqs, uint32_t keys) {
  int32_t *m = data_of(run, VKF_ATTENTION_MASK), *a = data_of(run, VKF_ATTENTION_ANCESTRY);
  float *b = data_of(run, VKF_ATTENTION_BIAS);
  for (uint32_t r = 0; r < n_seqs; r++)
    for (uint32_t s = 0; s < keys; s++) {
      m[r * keys + s] = s >= r && s < r + LENGTH;
      if (a) a[r * keys + s] = (int32_t)r;
    }
  for (uint32_t h = 0; b && h < HEADS; h++)
    for (uint32_t t = 0; t < keys; t++)
      for (uint32_t s = 0; s < keys; s++)
        b[(h * keys + t) * keys + s] = (float)vkf_rng_normal(3, h, 1000 + s - (uint64_t)t);
}

/* Copies the sentence of `one` into every sequence of `wide`, into sequence r after r pads. */
static void fill_sentences(const vkf_case *c, const vkf_case_run *one, vkf_case_run *wide) {
  const uint32_t keys = LENGTH + PADS, kv_heads = c->params.attention.n_kv_heads;
  const uint32_t q_width = extent_of(one, VKF_ATTENTION_Q, 1);
  for (uint32_t r = 0; r <= PADS; r++) {
    if (is_cross(c))
      copy_rows(data_of(wide, VKF_ATTENTION_Q), (size_t)r * BEAMS * QUERIES, data_of(one, VKF_ATTENTION_Q), 0,
                BEAMS * QUERIES, q_width);
    else
      copy_rows(data_of(wide, VKF_ATTENTION_Q), (size_t)r * keys + r, data_of(one, VKF_ATTENTION_Q), 0, LENGTH,
                q_width);
    for (uint32_t i = VKF_ATTENTION_K; i <= VKF_ATTENTION_V; i++)
      for (uint32_t h = 0; h < kv_heads; h++)
        copy_rows(data_of(wide, i), (size_t)(r * kv_heads + h) * keys + r, data_of(one, i), (size_t)h * LENGTH, LENGTH,
                  extent_of(one, i, 3));
  }
}

/* Compares bits (attention_compare). */
static bool compare(driver *d, vkf_backend *backend, const vkf_case *shape, const char *variant) {
  const vkf_case one_case = sized(shape, 1, LENGTH), wide_case = sized(shape, PADS + 1, LENGTH + PADS);
  const size_t row = HEADS * shape->params.attention.value_width, keys = LENGTH + PADS;
  const size_t n_rows = is_cross(shape) ? BEAMS * QUERIES : LENGTH;
  vkf_case_program one = {0}, wide = {0};
  driver_ok(d, vkf_case_make(&d->context->env, &one_case, &one.run));
  driver_ok(d, vkf_case_make(&d->context->env, &wide_case, &wide.run));
  fill_places(&one.run, 1, LENGTH);
  fill_places(&wide.run, PADS + 1, LENGTH + PADS);
  fill_sentences(shape, &one.run, &wide.run);
  float *alone = result_of(d, backend, &one, variant), *padded = result_of(d, backend, &wide, variant);
  assert_true(!alone == !padded);
  for (size_t r = 0; alone && r <= PADS; r++) {
    const size_t first = is_cross(shape) ? r * n_rows : r * keys + r;
    for (size_t i = 0; i < n_rows * row; i++)
      if (memcmp(&padded[first * row + i], &alone[i], sizeof *alone))
        fail_msg("%s, \"%s\": with %zu pads before and %zu behind, element %zu is %.9g, alone %.9g",
                 variant ? variant : "ref", shape->name, r, PADS - r, i, padded[first * row + i], alone[i]);
  }
  const bool fits = alone;
  free(alone);
  free(padded);
  vkf_case_program_finish(&one);
  vkf_case_program_finish(&wide);
  return fits;
}

ATTENTION_MAIN(shapes, compare)
