/* The encoder computes no pads. In a batch with pads before, after and between tokens it runs the tokens of each
 * sentence from the first to the last. There vkf_session_run() gives the bits of the sentence alone, elsewhere zeros. A
 * decoder is not fed the pads of a prompt. */
#include <vkformer/lab.h>

#include "support/golden.h"
#include "support/sessions.h"

enum { B = 4, S = 9, N_SPAN = 9 + 3 + 5 + 1 };

/* A whole sentence, one after two pads, one with a hole, and an empty one, which has a row for one token. T5 uses only
 * distances, so pads before a sentence do not change it. */
static const struct { uint32_t first, length; } spans[B] = {{0, 9}, {2, 3}, {0, 5}, {0, 1}};
static const int32_t mask[B][S] = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 1, 1, 1}, {1, 1, 0, 1, 1}, {0}};

static void fill(int32_t ids[B][S]) {
  for (uint32_t i = 0; i < B * S; i++) ids[i / S][i % S] = (int32_t)(3 + i * 7 % 50);
}

static void run(driver *d, vkf_model *model, const int32_t *ids, const int32_t *keep, size_t rows, size_t length,
                vkf_result **out) {
  static const int32_t start[B] = {0};
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .hidden_states = 1, .attentions = 1};
  const vkf_array in[] = {{"input_ids", VKF_I32, 2, {rows, length}, (void *)(uintptr_t)ids},
                          {"attention_mask", VKF_I32, 2, {rows, length}, (void *)(uintptr_t)keep},
                          {"decoder_input_ids", VKF_I32, 2, {rows, 1}, (void *)(uintptr_t)start}};
  driver_ok(d, vkf_session_run(session_of(model), in, 3, &params, out));
}

/* Checks that the rows of sentence b in `all` are those of `one`, [length][width], and all others are zeros. */
static void compare_rows(const vkf_array *all, const vkf_array *one, uint32_t b) {
  const size_t width = all->shape[2];
  const float *rows = (const float *)all->data + b * S * width;
  assert_memory_equal(rows + spans[b].first * width, one->data, spans[b].length * width * sizeof *rows);
  for (size_t i = 0; i < S * width; i++)
    if (i / width - spans[b].first >= spans[b].length) assert_true(rows[i] == 0);
}

static void compare_weights(const vkf_array *all, const vkf_array *one, uint32_t b) {
  for (size_t h = 0; h < all->shape[1]; h++)
    for (size_t t = 0; t < S; t++)
      for (size_t s = 0; s < S; s++) {
        const size_t query = t - spans[b].first, key = s - spans[b].first, n = spans[b].length;
        const float found = ((const float *)all->data)[((b * all->shape[1] + h) * S + t) * S + s];
        assert_true(found == (query < n && key < n ? ((const float *)one->data)[(h * n + query) * n + key] : 0));
      }
}

static void test_run(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *all = NULL;
  int32_t ids[B][S];
  char path[GOLDEN_PATH];
  fill(ids);
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "t5", "."), &model));
  run(d, model, ids[0], mask[0], B, S, &all);
  for (uint32_t b = 0; b < B; b++) {
    vkf_result *one = NULL;
    run(d, model, ids[b] + spans[b].first, mask[b] + spans[b].first, 1, spans[b].length, &one);
    static const char *const names[] = {"encoder_hidden_states.0", "encoder_hidden_states.1",
                                        "encoder_last_hidden_state"};
    for (size_t i = 0; i < VKF_COUNT(names); i++)
      compare_rows(vkf_result_find(all, names[i]), vkf_result_find(one, names[i]), b);
    compare_weights(vkf_result_find(all, "encoder_attentions.1"), vkf_result_find(one, "encoder_attentions.1"), b);
    const vkf_array *logits = vkf_result_find(all, "logits");
    assert_memory_equal((const float *)logits->data + b * logits->shape[2], vkf_result_find(one, "logits")->data,
                        logits->shape[2] * sizeof(float));
    vkf_result_destroy(&one);
  }
  /* No other token sees the id in the hole of sentence 2. */
  vkf_result *other = NULL;
  ids[2][2]++;
  run(d, model, ids[0], mask[0], B, S, &other);
  const vkf_array *before = vkf_result_find(all, "encoder_last_hidden_state"),
                  *after = vkf_result_find(other, "encoder_last_hidden_state");
  const size_t width = before->shape[2];
  for (size_t t = 0; t < spans[2].length; t++) {
    const size_t at = (2 * S + t) * width;
    const bool same = !memcmp((const float *)before->data + at, (const float *)after->data + at, width * sizeof(float));
    assert_int_equal(same, mask[2][t]);
  }
  vkf_result_destroy(&other);
  vkf_result_destroy(&all);
  close_model(&model);
}

static void on_pass(void *user, const vkf_pass_info *pass) {
  if (pass->stage == VKF_STAGE_ENCODE) *(uint32_t *)user = pass->n_tokens;
}

static void test_rows(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  int32_t ids[B][S];
  uint32_t n_rows = 0;
  char path[GOLDEN_PATH];
  fill(ids);
  const int32_t start[B] = {0};
  const vkf_array in[] = {{"input_ids", VKF_I32, 2, {B, S}, ids},
                          {"attention_mask", VKF_I32, 2, {B, S}, (void *)(uintptr_t)mask},
                          {"decoder_input_ids", VKF_I32, 2, {B, 1}, (void *)(uintptr_t)start}};
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "t5", "."), &model));
  driver_ok(d, vkf_model_verify(model, in, 3, NULL, on_pass, &n_rows));
  assert_int_equal(n_rows, N_SPAN);
  close_model(&model);
}

static int32_t kept_id(int kind, int t) {
  return 3 + (kind * 11 + t) * 7 % 50;
}

/* The model is fed only the ids of a prompt that the mask keeps, wherever the pads are. The ids that follow are those
 * that follow the kept ids alone, also beside prompts of other lengths and with more rows than a submit has. */
static void test_prompts(void **state) {
  enum { LENGTH = 19, NEW = 9 };
  static const int32_t keeps[][LENGTH] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                          {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                          {1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                          {0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                                          {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
  static const char *const configs[] = {
      "{\"max_new_tokens\": 9, \"num_beams\": 1, \"eos_token_id\": null, \"repetition_penalty\": 0.2}",
      "{\"max_new_tokens\": 9, \"num_beams\": 3, \"eos_token_id\": null, \"no_repeat_ngram_size\": 2}"};
  enum { KINDS = VKF_COUNT(keeps), ROWS = 15 * KINDS };
  driver *d = *state;
  vkf_model *model = NULL;
  int32_t ids[ROWS][LENGTH], keep[ROWS][LENGTH];
  char path[GOLDEN_PATH];
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "llama", "."), &model));
  for (size_t c = 0; c < VKF_COUNT(configs); c++) {
    /* Penalties see pads, as in transformers, so these pads are chosen to change nothing. The first submit
     * ends within a row, with 12 of 14 ids without beams, with 10 of 16 with beams. */
    for (int i = 0; i < ROWS * LENGTH; i++) {
      const int r = i / LENGTH, t = i % LENGTH, kind = (r + 2) % KINDS, pad = c ? 1 : kept_id(kind, 6);
      keep[r][t] = keeps[kind][t];
      ids[r][t] = keeps[kind][t] ? kept_id(kind, t) : pad;
    }
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = configs[c]};
    const vkf_array in[] = {{"input_ids", VKF_I32, 2, {ROWS, LENGTH}, ids},
                            {"attention_mask", VKF_I32, 2, {ROWS, LENGTH}, keep}};
    vkf_result *all = NULL;
    driver_ok(d, vkf_session_generate(session_of(model), in, 2, &params, &all));
    const vkf_array *found = vkf_result_find(all, "sequences");
    assert_int_equal(found->shape[1], LENGTH + NEW);
    for (size_t r = 0; r < KINDS; r++) {
      int32_t own[LENGTH];
      size_t n = 0;
      vkf_result *one = NULL;
      for (size_t t = 0; t < LENGTH; t++)
        if (keep[r][t]) own[n++] = ids[r][t];
      const vkf_array alone = {"input_ids", VKF_I32, 2, {1, n}, own};
      driver_ok(d, vkf_session_generate(session_of(model), &alone, 1, &params, &one));
      const int32_t *expected = vkf_result_find(one, "sequences")->data;
      for (size_t same = r; same < ROWS; same += KINDS)
        assert_memory_equal((const int32_t *)found->data + same * (LENGTH + NEW) + LENGTH, expected + n,
                            NEW * sizeof *own);
      vkf_result_destroy(&one);
    }
    vkf_result_destroy(&all);
  }
  close_model(&model);
}

DRIVER_MAIN(DRIVER_TEST(test_run), DRIVER_TEST(test_rows), DRIVER_TEST(test_prompts))
