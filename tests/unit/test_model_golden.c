/* Compares the plans of golden folders, run on the scalar path, with what PyTorch computed: all states, attentions and
 * logits of a full pass, and the logits of cached steps. Capacities are larger than the sizes, so a wrong stride shows.
 * Some folders are also rewritten in other forms (head not tied, separate embeddings, stored sinusoids, biases of
 * zeros), which must give the same numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/map.h"
#include "file/safetensors.h"
#include "file/write.h"
#include "model/internal.h"
#include "ref/ref.h"
#include "shared/constants.h"
#include "support/folder.h"
#include "support/ok.h"
#include "support/tolerance.h"

#define GOLDEN VKF_SOURCE_DIR "/tests/golden/"

static vkf_env env;

typedef struct side {
  vkf_plan *plan;
  vkf_program *program;
} side;

typedef struct model {
  vkf_net *net;
  const vkf_net_info *info;
  vkf_file_tensors *expected;
  vkf_backend *backend;
  vkf_weights *weights;
  vkf_state *state;
  side encode, decode;
  vkf_sizes sizes; /* of the full pass */
  const int32_t *mask, *source, *target;
  double tolerance; /* relative to the largest number of a tensor */
} model;

/* ---- a model made ready ------------------------------------------------------------------------------------------ */

static const int32_t *ids(const model *m, const char *name, uint32_t *rows, uint32_t *length) {
  const vkf_file_tensor *t = NULL;
  ok(&env, vkf_file_tensors_get(m->expected, name, &t));
  assert_int_equal(t->dtype, VKF_I32);
  assert_int_equal(t->rank, 2);
  *rows = (uint32_t)t->shape[0];
  *length = (uint32_t)t->shape[1];
  return t->data;
}

static void make_side(model *m, vkf_stage stage, vkf_sizes capacity, side *s) {
  bool is_last = stage == VKF_STAGE_DECODE || m->info->architecture == VKF_ARCHITECTURE_ENCODER;
  vkf_plan_request request = {.stage = stage,
                              .capacity = capacity,
                              .hidden_states = true,
                              .attentions = true,
                              .mask = true,
                              .logits = is_last && m->info->has_head};
  ok(&env, vkf_model_plan_build(m->net, &env, &request, &s->plan));
}

/* Opens the model in `folder` (NULL: in the golden folder) and the numbers that are expected of `golden`. */
static void open_model(model *m, const char *golden, const char *folder) {
  char path[256];
  *m = (model){0};
  vkf_env_init(&env, NULL);
  m->tolerance = golden_tolerance(golden);
  snprintf(path, sizeof path, GOLDEN "%s", golden);
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder ? folder : path}, &m->net));
  m->info = vkf_model_net_info(m->net);
  assert_int_equal(m->info->n_unused, 0);
  snprintf(path, sizeof path, GOLDEN "%s/expected.safetensors", golden);
  ok(&env, vkf_file_tensors_open(&env, path, &m->expected));
  vkf_sizes *z = &m->sizes;
  bool is_pair = m->info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  if (m->info->architecture == VKF_ARCHITECTURE_DECODER) {
    m->target = ids(m, "input_ids", &z->R, &z->T);
    z->B = z->R;
  } else {
    m->source = ids(m, "input_ids", &z->B, &z->S);
    m->mask = ids(m, "attention_mask", &z->B, &z->S);
  }
  if (is_pair) m->target = ids(m, "decoder_input_ids", &z->R, &z->T);
  vkf_sizes capacity = {.B = z->B + 1, .S = z->S + 3, .R = z->R + 1, .T = z->T + 2, .past = 4};
  ok(&env, vkf_ref_backend_create(&env, &m->backend));
  const vkf_backend_table *t = m->backend->table;
  vkf_weight_source weights;
  vkf_model_net_weights(m->net, &weights);
  ok(&env, t->weights_create(m->backend, &weights, NULL, &m->weights));
  if (m->source) make_side(m, VKF_STAGE_ENCODE, capacity, &m->encode);
  if (m->target) make_side(m, VKF_STAGE_DECODE, capacity, &m->decode);
  if (m->target) ok(&env, t->state_create(m->backend, m->decode.plan, NULL, &m->state));
  if (m->source)
    ok(&env, t->program_create(m->backend, m->encode.plan, m->weights, m->state, NULL, &m->encode.program));
  if (m->target)
    ok(&env, t->program_create(m->backend, m->decode.plan, m->weights, m->state, NULL, &m->decode.program));
}

static void close_model(model *m) {
  const vkf_backend_table *t = m->backend->table;
  t->program_destroy(&m->encode.program);
  t->program_destroy(&m->decode.program);
  t->state_destroy(&m->state);
  t->weights_destroy(&m->weights);
  t->destroy(&m->backend);
  vkf_model_plan_destroy(&m->encode.plan);
  vkf_model_plan_destroy(&m->decode.plan);
  vkf_file_tensors_close(&m->expected);
  vkf_model_net_close(&m->net);
  assert_int_equal(env.live_bytes, 0);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void write_input(model *m, side *s, vkf_input input, const vkf_dims *dims, const int32_t *data) {
  uint32_t slot = vkf_plan_find_index(s->plan, VKF_SLOT_INPUT, input);
  if (slot != VKF_NO_SLOT) ok(&env, m->backend->table->write(s->program, slot, dims, data));
}

/* Writes the mask of the source with the strides of the capacity. The rest is garbage that nothing may read. */
static void write_mask(model *m, side *s, const vkf_dims *dims) {
  uint32_t slot = vkf_plan_find_index(s->plan, VKF_SLOT_INPUT, VKF_INPUT_MASK);
  if (slot == VKF_NO_SLOT) return;
  const vkf_sizes *z = &m->sizes;
  if (s == &m->encode) { /* its rows are packed */
    write_input(m, s, VKF_INPUT_MASK, dims, m->mask);
    return;
  }
  uint32_t stride = s->plan->slots[slot].extent[1].cap;
  int32_t *wide = malloc(vkf_slot_elements(&s->plan->slots[slot]) * sizeof *wide);
  memset(wide, 0x55, vkf_slot_elements(&s->plan->slots[slot]) * sizeof *wide);
  for (uint32_t b = 0; b < z->B; b++) memcpy(wide + b * stride, m->mask + b * z->S, z->S * sizeof *wide);
  ok(&env, m->backend->table->write(s->program, slot, dims, wide));
  free(wide);
}

/* Writes the spans of the rectangle as a packed batch. Its pads are rows, which the mask takes out. */
static void write_spans(model *m, side *s, const vkf_dims *dims, const vkf_sizes *sizes) {
  int32_t spans[4][64][VKF_SPAN_FIELDS];
  const int32_t S = (int32_t)sizes->S, T = (int32_t)sizes->T, past = (int32_t)sizes->past;
  assert_true(sizes->B <= 64 && sizes->R <= 64);
  for (int32_t b = 0; b < (int32_t)sizes->B; b++) {
    memcpy(spans[0][b], (int32_t[]){b * S, S, 0, S, 0, b * S}, sizeof spans[0][b]);
    memcpy(spans[1][b], (int32_t[]){b * S, S, 0, S, b, 0}, sizeof spans[1][b]);
  }
  for (int32_t r = 0; r < (int32_t)sizes->R; r++) {
    const int32_t beams = (int32_t)(sizes->R / sizes->B);
    memcpy(spans[2][r], (int32_t[]){r * T, T, past, past + T, r, 0}, sizeof spans[2][r]);
    memcpy(spans[3][r], (int32_t[]){r * T, T, 0, S, r / beams, 0}, sizeof spans[3][r]);
  }
  write_input(m, s, VKF_INPUT_SPANS, dims, spans[0][0]);
  write_input(m, s, VKF_INPUT_CROSS_PLACES, dims, spans[1][0]);
  write_input(m, s, VKF_INPUT_TARGET_SPANS, dims, spans[2][0]);
  write_input(m, s, VKF_INPUT_CROSS_SPANS, dims, spans[3][0]);
}

static void run_side(model *m, side *s, bool is_target, vkf_sizes sizes, const int32_t *rows_ids) {
  vkf_dims dims = vkf_dims_make(&sizes);
  uint32_t rows = is_target ? sizes.R : sizes.B, length = is_target ? sizes.T : sizes.S;
  int32_t *positions = malloc((size_t)rows * length * sizeof *positions);
  const vkf_model_tokens tokens = {.stage = is_target ? VKF_STAGE_DECODE : VKF_STAGE_ENCODE,
                                   .rows = rows,
                                   .length = length,
                                   .past = is_target ? sizes.past : 0,
                                   .ids = rows_ids};
  vkf_model_positions(m->net, &tokens, positions);
  ok(&env, m->backend->table->poison(s->program));
  write_input(m, s, is_target ? VKF_INPUT_TARGET_IDS : VKF_INPUT_IDS, &dims, rows_ids);
  write_input(m, s, is_target ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS, &dims, positions);
  write_mask(m, s, &dims);
  write_spans(m, s, &dims, &sizes);
  ok(&env, m->backend->table->run(s->program, &dims, 0, s->plan->n_blocks));
  free(positions);
}

/* Returns the larger of two errors; NaN is larger than any number. */
static double larger(double a, double b) {
  return isnan(a) || a > b ? a : b;
}

/* Returns the largest error of n numbers. */
static double compare_row(const float *got, const float *expected, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) worst = larger(worst, fabs((double)got[i] - expected[i]));
  return worst;
}

/* Compares the outputs with the expected tensors of their names and second names, and returns how many there were. Rows
 * of the source's pads are left out. */
static size_t compare_side(model *m, side *s, bool is_source) {
  vkf_sizes sizes = m->sizes;
  vkf_dims dims = vkf_dims_make(&sizes);
  size_t n_compared = 0;
  for (uint32_t i = 0; i < s->plan->n_slots; i++) {
    const char *name = s->plan->slots[i].output;
    if (name == NULL) continue;
    float *got = malloc(vkf_slot_elements(&s->plan->slots[i]) * sizeof *got);
    ok(&env, m->backend->table->read(s->program, i, &dims, got));
    const char *names[2] = {name, vkf_model_second_name(m->net, name)};
    for (int k = 0; k < 2; k++) {
      const vkf_file_tensor *t = names[k] ? vkf_file_tensors_find(m->expected, names[k]) : NULL;
      if (t == NULL) continue; /* not every golden folder has attentions */
      const float *expected = t->data;
      size_t width = t->shape[t->rank - 1], length = t->shape[t->rank - 2], rows = t->n_elements / width;
      double largest = 0, worst = 0;
      for (size_t e = 0; e < t->n_elements; e++) largest = fmax(largest, fabs(expected[e]));
      for (size_t r = 0; r < rows; r++) {
        size_t sentence = r / (rows / t->shape[0]);
        if (is_source && !m->mask[sentence * length + r % length]) continue;
        worst = larger(worst, compare_row(got + r * width, expected + r * width, width));
      }
      if (!(worst <= m->tolerance * largest)) print_error("%s: error %g of %g\n", names[k], worst, largest);
      assert_true(worst <= m->tolerance * largest);
      n_compared++;
    }
    free(got);
  }
  return n_compared;
}

static size_t expected_floats(const model *m) {
  size_t n = 0;
  for (size_t i = 0; i < vkf_file_tensors_count(m->expected); i++)
    n += vkf_file_tensors_at(m->expected, i)->dtype == VKF_F32;
  return n;
}

/* Teacher forcing, one token at a time over the cache, gives the logits of the full pass. */
static void compare_steps(model *m) {
  const vkf_file_tensor *logits = NULL;
  ok(&env, vkf_file_tensors_get(m->expected, "logits", &logits));
  const vkf_sizes full = m->sizes;
  uint32_t slot = vkf_plan_find_output(m->decode.plan, "logits");
  assert_int_not_equal(slot, VKF_NO_SLOT);
  size_t width = logits->shape[2];
  int32_t *column = malloc(full.R * sizeof *column);
  float *got = malloc(full.R * width * sizeof *got);
  double largest = 0;
  for (size_t e = 0; e < logits->n_elements; e++) largest = fmax(largest, fabs(((const float *)logits->data)[e]));
  for (uint32_t t = 0; t < full.T; t++) {
    vkf_sizes sizes = full;
    sizes.T = 1;
    sizes.past = t;
    for (uint32_t r = 0; r < full.R; r++) column[r] = m->target[r * full.T + t];
    run_side(m, &m->decode, true, sizes, column);
    vkf_dims dims = vkf_dims_make(&sizes);
    ok(&env, m->backend->table->read(m->decode.program, slot, &dims, got));
    for (uint32_t r = 0; r < full.R; r++) {
      const float *expected = (const float *)logits->data + (r * full.T + t) * width;
      assert_true(compare_row(got + r * width, expected, width) <= m->tolerance * largest);
    }
  }
  free(column);
  free(got);
}

static void compare(const char *golden, const char *folder) {
  model m;
  open_model(&m, golden, folder);
  size_t n = 0;
  if (m.source) {
    run_side(&m, &m.encode, false, m.sizes, m.source);
    n += compare_side(&m, &m.encode, true);
  }
  if (m.target) {
    run_side(&m, &m.decode, true, m.sizes, m.target);
    n += compare_side(&m, &m.decode, false);
    compare_steps(&m);
  }
  assert_int_equal(n, expected_floats(&m));
  close_model(&m);
}

static void golden(void **state) {
  compare(*state, NULL);
}

/* ---- rewritten folders ------------------------------------------------------------------------------------------- */

/* A tensor to add, with the numbers of `copy_of` or, if that is NULL, with `data`. */
typedef struct addition {
  const char *name, *copy_of;
  float *data;
  size_t rank, shape[2];
} addition;

/* Writes a golden folder with the first `from` of its config.json replaced by `to`, without the tensor `drop` (NULL:
 * with all), and with others added. */
static void put_form(const char *folder, const char *golden_name, const char *from, const char *to, const char *drop,
                     const addition *additions, size_t n_additions) {
  char path[256];
  vkf_file_map map;
  vkf_array arrays[128];
  vkf_file_tensors *tensors = NULL;
  size_t n = 0;
  snprintf(path, sizeof path, GOLDEN "%s/config.json", golden_name);
  ok(&env, vkf_file_map_open(&env, path, &map));
  char *text = malloc(map.bytes + 1);
  memcpy(text, map.data, map.bytes);
  text[map.bytes] = 0;
  char *at = strstr(text, from);
  assert_non_null(at);
  vkf_file_part parts[3] = {
      {text, (size_t)(at - text)}, {to, strlen(to)}, {at + strlen(from), strlen(at + strlen(from))}};
  snprintf(path, sizeof path, "%s/config.json", folder);
  ok(&env, vkf_file_write(&env, path, parts, 3));
  snprintf(path, sizeof path, GOLDEN "%s", golden_name);
  ok(&env, vkf_file_tensors_open(&env, path, &tensors));
  for (size_t i = 0; i < vkf_file_tensors_count(tensors); i++) {
    const vkf_file_tensor *t = vkf_file_tensors_at(tensors, i);
    vkf_array a = {.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = (void *)(uintptr_t)t->data};
    memcpy(a.shape, t->shape, sizeof a.shape);
    if (drop == NULL || strcmp(drop, t->name) != 0) arrays[n++] = a;
    for (size_t k = 0; k < n_additions; k++) {
      if (additions[k].copy_of == NULL || strcmp(additions[k].copy_of, t->name) != 0) continue;
      a.name = additions[k].name;
      arrays[n++] = a;
    }
  }
  for (size_t k = 0; k < n_additions; k++) {
    const addition *add = &additions[k];
    if (add->copy_of != NULL) continue;
    arrays[n++] = (vkf_array){add->name, VKF_F32, add->rank, {add->shape[0], add->shape[1]}, add->data};
  }
  assert_true(n < VKF_COUNT(arrays));
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  ok(&env, vkf_file_tensors_write(&env, path, arrays, n));
  vkf_file_tensors_close(&tensors);
  vkf_file_map_close(&map);
  free(text);
}
#define FORM(golden_name, from, to, drop, ...)                                      \
  do {                                                                              \
    const addition additions[] = {__VA_ARGS__};                                     \
    put_form(folder, golden_name, from, to, drop, additions, VKF_COUNT(additions)); \
    compare(golden_name, folder);                                                   \
  } while (0)

static void rewritten(void **state) {
  (void)state;
  char folder[] = "/tmp/vkf-golden-XXXXXX";
  assert_non_null(mkdtemp(folder));
  vkf_env_init(&env, NULL);
  const char *tied = "\"tie_word_embeddings\": true", *apart = "\"tie_word_embeddings\": false";
  FORM("transformer-postln-relu", tied, apart, NULL, {"lm_head.weight", "embed.weight", NULL, 0, {0}});
  FORM("marian", tied, apart, NULL, {"lm_head.weight", "model.shared.weight", NULL, 0, {0}});
  FORM("marian", "\"share_encoder_decoder_embeddings\": true", "\"share_encoder_decoder_embeddings\": false",
       "model.shared.weight", {"model.encoder.embed_tokens.weight", "model.shared.weight", NULL, 0, {0}},
       {"model.decoder.embed_tokens.weight", "model.shared.weight", NULL, 0, {0}});
  static float sines[64 * 64], zeros[1000], ones[32];
  vkf_model_sinusoids(VKF_POSITION_HALVES, 64, 64, sines);
  FORM("marian", "\"marian\"", "\"marian\"", NULL, {"model.encoder.embed_positions.weight", NULL, sines, 2, {64, 64}},
       {"model.decoder.embed_positions.weight", NULL, sines, 2, {64, 64}});
  FORM("transformer-lm-postln", "\"attention_bias\": false", "\"attention_bias\": true", NULL,
       {"layers.0.self_attn.in_proj_bias", NULL, zeros, 1, {192, 0}},
       {"layers.1.self_attn.in_proj_bias", NULL, zeros, 1, {192, 0}},
       {"layers.2.self_attn.in_proj_bias", NULL, zeros, 1, {192, 0}},
       {"layers.3.self_attn.in_proj_bias", NULL, zeros, 1, {192, 0}},
       {"layers.0.self_attn.out_proj.bias", NULL, zeros, 1, {64, 0}},
       {"layers.1.self_attn.out_proj.bias", NULL, zeros, 1, {64, 0}},
       {"layers.2.self_attn.out_proj.bias", NULL, zeros, 1, {64, 0}},
       {"layers.3.self_attn.out_proj.bias", NULL, zeros, 1, {64, 0}});
  for (size_t i = 0; i < VKF_COUNT(ones); i++) ones[i] = 1;
  FORM("transformer-block-plain", "\"norm_affine\": false", "\"norm_affine\": true", NULL,
       {"layers.0.norm1.weight", NULL, ones, 1, {32, 0}}, {"layers.0.norm1.bias", NULL, zeros, 1, {32, 0}},
       {"layers.0.norm2.weight", NULL, ones, 1, {32, 0}}, {"layers.0.norm2.bias", NULL, zeros, 1, {32, 0}});
  FORM("transformer-block-plain", "\"ffn_bias\": false", "\"ffn_bias\": true", NULL,
       {"layers.0.linear1.bias", NULL, zeros, 1, {128, 0}}, {"layers.0.linear2.bias", NULL, zeros, 1, {32, 0}});
  vkf_model_sinusoids(VKF_POSITION_INTERLEAVED, 64, 32, sines);
  FORM("transformer-block-plain", "\"sinusoidal\"", "\"learned\"", NULL,
       {"positions.weight", NULL, sines, 2, {64, 32}});
  /* A head that the golden folder does not have: the states stay the same, and the plan has logits, too. */
  FORM("transformer-block-plain", "\"lm_head\": false", "\"lm_head\": true", NULL,
       {"lm_head.weight", "embed.weight", NULL, 0, {0}}, {"lm_head.bias", NULL, zeros, 1, {50, 0}});
  assert_int_equal(folder_remove(folder, "config.json", "model.safetensors"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(golden, "bart"),
      cmocka_unit_test_prestate(golden, "families/blenderbot"),
      cmocka_unit_test_prestate(golden, "families/blenderbot-small"),
      cmocka_unit_test_prestate(golden, "families/gemma"),
      cmocka_unit_test_prestate(golden, "families/granite"),
      cmocka_unit_test_prestate(golden, "families/mpnet"),
      cmocka_unit_test_prestate(golden, "families/olmo"),
      cmocka_unit_test_prestate(golden, "families/pegasus"),
      cmocka_unit_test_prestate(golden, "families/phi"),
      cmocka_unit_test_prestate(golden, "families/phi3"),
      cmocka_unit_test_prestate(golden, "families/phi3-longrope"),
      cmocka_unit_test_prestate(golden, "families/stablelm"),
      cmocka_unit_test_prestate(golden, "families/starcoder2"),
      cmocka_unit_test_prestate(golden, "families/t5-encoder"),
      cmocka_unit_test_prestate(golden, "families/umt5"),
      cmocka_unit_test_prestate(golden, "gpt-neox"),
      cmocka_unit_test_prestate(golden, "gpt2"),
      cmocka_unit_test_prestate(golden, "llama"),
      cmocka_unit_test_prestate(golden, "llama-linear-rope"),
      cmocka_unit_test_prestate(golden, "llama-yarn"),
      cmocka_unit_test_prestate(golden, "llama3-rope"),
      cmocka_unit_test_prestate(golden, "m2m100"),
      cmocka_unit_test_prestate(golden, "marian"),
      cmocka_unit_test_prestate(golden, "mbart"),
      cmocka_unit_test_prestate(golden, "mistral-sliding"),
      cmocka_unit_test_prestate(golden, "opt"),
      cmocka_unit_test_prestate(golden, "qwen2"),
      cmocka_unit_test_prestate(golden, "qwen3"),
      cmocka_unit_test_prestate(golden, "t5"),
      cmocka_unit_test_prestate(golden, "t5-v1.1-gated"),
      cmocka_unit_test_prestate(golden, "transformer-block-plain"),
      cmocka_unit_test_prestate(golden, "transformer-block-sentence"),
      cmocka_unit_test_prestate(golden, "transformer-encoder-learned"),
      cmocka_unit_test_prestate(golden, "transformer-lm-postln"),
      cmocka_unit_test_prestate(golden, "transformer-postln-relu"),
      cmocka_unit_test_prestate(golden, "transformer-preln-gelu"),
      cmocka_unit_test(rewritten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
