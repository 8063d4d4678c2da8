/* A sentence gives the same bits alone, in a batch of 32, beside padding, and step by step from the cache as in one
 * full pass, and it generates the same. Software drivers sum in one order for every shape (docs/architecture.md), so
 * nothing here has a tolerance; a GPU does so if batch invariance is requested. */
#include "engine/opened.h"
#include "support/golden.h"

enum { S = 9, WIDE = 21, T = 6, BATCH = 32, ROW = 13 };

static const char *const folders[] = {VKF_SOURCE_DIR "/models/en-es", VKF_SOURCE_DIR "/tests/golden/marian"};

/* Returns any id; those of row ROW are the sentence's in every batch. */
static int32_t id_at(uint32_t row, uint32_t i, uint32_t vocab) {
  return (int32_t)(3 + vkf_rng_u64(11, row, i) % (vocab - 3));
}

typedef struct batch {
  uint32_t rows, width; /* of the source */
  uint32_t at;          /* the sentence's row */
  int32_t ids[BATCH * WIDE], mask[BATCH * WIDE], target[BATCH * T];
} batch;

/* Puts the sentence at row `at`. The other rows have their own lengths; what is behind a length is padding. */
static void fill(batch *b, uint32_t rows, uint32_t width, uint32_t at, uint32_t vocab) {
  *b = (batch){.rows = rows, .width = width, .at = at};
  for (uint32_t r = 0; r < rows; r++) {
    uint32_t seed = r == at ? ROW : 100 + r, length = r == at ? S : 1 + r * 7 % width;
    for (uint32_t i = 0; i < width; i++) {
      b->ids[r * width + i] = id_at(seed, i, vocab);
      b->mask[r * width + i] = i < length;
    }
    for (uint32_t t = 0; t < T; t++) b->target[r * T + t] = id_at(seed, 1000 + t, vocab);
  }
}

static vkf_result *run(driver *d, vkf_model *model, batch *b) {
  vkf_result *result = NULL;
  const vkf_array inputs[] = {
      {.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {b->rows, b->width}, .data = b->ids},
      {.name = "attention_mask", .dtype = VKF_I32, .rank = 2, .shape = {b->rows, b->width}, .data = b->mask},
      {.name = "decoder_input_ids", .dtype = VKF_I32, .rank = 2, .shape = {b->rows, T, 0}, .data = b->target}};
  driver_ok(d, vkf_session_run(session_of(model), inputs, 3, NULL, &result));
  return result;
}

static void expect_bits(const char *what, const float *found, const float *expected, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (memcmp(&found[i], &expected[i], sizeof *found))
      fail_msg("%s: element %zu is %.9g, expected %.9g, bit for bit", what, i, found[i], expected[i]);
}

/* Compares the sentence's row of an array [rows, length, width], of which `keep` positions are its own. */
static void expect_row(const char *what, const batch *b, const vkf_result *found, const vkf_result *alone,
                       const char *name, size_t keep) {
  const vkf_array *f = vkf_result_find(found, name), *a = vkf_result_find(alone, name);
  assert_true(f && a && f->rank == 3 && f->shape[2] == a->shape[2]);
  expect_bits(what, (const float *)f->data + b->at * f->shape[1] * f->shape[2], a->data, keep * f->shape[2]);
}

static void test_batch_and_padding(void **state) {
  static batch one, other;
  static const struct {
    const char *what;
    uint32_t rows, width, at;
  } batches[] = {{"beside padding", 1, WIDE, 0},
                 {"in a batch of 32", BATCH, S, ROW},
                 {"in a wide batch of 32", BATCH, WIDE, ROW},
                 {"last of three", 3, S + 1, 2}};
  driver *d = *state;
  for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
    vkf_model *model = NULL;
    vkf_model_info info = {VKF_MODEL_INFO_INIT};
    driver_ok(d, vkf_model_open(d->device, folders[f], &model));
    vkf_model_get_info(model, &info);
    fill(&one, 1, S, 0, info.vocab);
    vkf_result *alone = run(d, model, &one);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
      fill(&other, batches[i].rows, batches[i].width, batches[i].at, info.vocab);
      vkf_result *found = run(d, model, &other);
      expect_row(batches[i].what, &other, found, alone, "encoder_last_hidden_state", S);
      expect_row(batches[i].what, &other, found, alone, "logits", T);
      vkf_result_destroy(&found);
    }
    vkf_result_destroy(&alone);
    close_model(&model);
  }
}

/* Runs the target one id at a time, in a slot. */
static void run_steps(driver *d, vkf_model *model, const batch *b, float *logits, uint32_t vocab) {
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = T,
                                     .source_tokens = b->width};
  vkf_session *session = NULL;
  driver_ok(d, vkf_session_create(model, &params, &session));
  assert_int_equal(vkf_session_encode(session, 0, b->ids, b->width), VKF_OK);
  for (uint32_t t = 0; t < T; t++) {
    size_t rows = 0;
    assert_int_equal(vkf_session_feed(session, 0, &b->target[t], 1, 1), VKF_OK);
    assert_int_equal(vkf_session_step(session), VKF_OK);
    const float *found = vkf_session_logits(session, 0, &rows);
    assert_true(found && rows == 1);
    memcpy(logits + (size_t)t * vocab, found, vocab * sizeof *logits);
  }
  vkf_session_destroy(&session);
}

static void test_cached_steps_and_full_pass(void **state) {
  static batch one;
  driver *d = *state;
  for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
    vkf_model *model = NULL;
    vkf_model_info info = {VKF_MODEL_INFO_INIT};
    driver_ok(d, vkf_model_open(d->device, folders[f], &model));
    vkf_model_get_info(model, &info);
    fill(&one, 1, S, 0, info.vocab);
    float *logits = malloc((size_t)T * info.vocab * sizeof *logits);
    assert_non_null(logits);
    vkf_result *full = run(d, model, &one);
    run_steps(d, model, &one, logits, info.vocab);
    const vkf_array *expected = vkf_result_find(full, "logits");
    assert_true(expected && expected->shape[1] == T && expected->shape[2] == info.vocab);
    expect_bits("cached steps", logits, expected->data, (size_t)T * info.vocab);
    vkf_result_destroy(&full);
    free(logits);
    close_model(&model);
  }
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

enum { NEW = 14, ROWS = 9 };

/* A sentence of `generate`: the new ids of a row, and its score. */
typedef struct generated {
  size_t n;
  int32_t ids[4 * NEW];
  float scores[4];
} generated;

/* Generates for ROWS rows (alone: one) of different lengths. Row `at` is the sentence; pads are before or behind the
 * others. */
static generated generate(driver *d, vkf_model *model, const vkf_model_info *info, const char *config, bool alone,
                          uint32_t at, bool pads_before) {
  const uint32_t rows = alone ? 1 : ROWS, width = alone ? S : WIDE;
  int32_t ids[ROWS * WIDE], mask[ROWS * WIDE];
  uint64_t lines[ROWS];
  vkf_result *result = NULL;
  generated out = {0};
  for (uint32_t r = 0; r < rows; r++) {
    const uint32_t seed = r == at || alone ? ROW : 100 + r, n = seed == ROW ? S : 1 + r * 8 % width;
    lines[r] = seed;
    for (uint32_t i = 0; i < width; i++) {
      const uint32_t own = pads_before ? i - (width - n) : i;
      mask[r * width + i] = own < n;
      ids[r * width + i] = own < n ? id_at(seed, own, info->vocab) : 0;
    }
  }
  const vkf_array inputs[] = {
      {.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {rows, width}, .data = ids},
      {.name = "attention_mask", .dtype = VKF_I32, .rank = 2, .shape = {rows, width}, .data = mask}};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config, .lines = lines, .scores = true};
  driver_ok(d, vkf_session_generate(session_of(model), inputs, 2, &params, &result));
  const vkf_array *sequences = vkf_result_find(result, "sequences"),
                  *scores = vkf_result_find(result, "sequences_scores");
  const size_t each = sequences->shape[0] / rows, first = info->architecture == VKF_ARCHITECTURE_DECODER ? width : 1,
               row = alone ? 0 : at;
  assert_true(scores && each <= VKF_COUNT(out.scores) && sequences->shape[1] - first <= NEW);
  for (size_t i = 0; i < each; i++) {
    const int32_t *from = (const int32_t *)sequences->data + (row * each + i) * sequences->shape[1] + first;
    for (size_t t = 0; t < NEW; t++) out.ids[i * NEW + t] = first + t < sequences->shape[1] ? from[t] : 0;
    out.scores[i] = ((const float *)scores->data)[row * each + i];
  }
  out.n = each;
  vkf_result_destroy(&result);
  return out;
}

static void test_generate(void **state) {
  driver *d = *state;
  static const struct {
    const char *folder;
    bool pads_before; /* its positions do not count them */
  } models[] = {{VKF_SOURCE_DIR "/tests/golden/marian", false},
                {VKF_SOURCE_DIR "/tests/golden/t5", false},
                {VKF_SOURCE_DIR "/tests/golden/t5", true},
                {VKF_SOURCE_DIR "/tests/golden/gpt2", true}};
  static const char *const searches[] = {
      "\"num_beams\":1", "\"num_beams\":3,\"num_return_sequences\":2,\"early_stopping\":true",
      "\"num_beams\":1,\"do_sample\":true,\"num_return_sequences\":3,\"repetition_penalty\":1.5"};
  for (size_t m = 0; m < VKF_COUNT(models); m++) {
    vkf_model *model = NULL;
    vkf_model_info info = {VKF_MODEL_INFO_INIT};
    if (!golden_is_in_share(m)) continue;
    driver_ok(d, vkf_model_open(d->device, models[m].folder, &model));
    vkf_model_get_info(model, &info);
    for (size_t i = 0; i < VKF_COUNT(searches); i++) {
      char config[512];
      int n = snprintf(config, sizeof config, "{\"max_new_tokens\":%d,\"pad_token_id\":0,%s,\"eos_token_id\":[1", NEW,
                       searches[i]);
      for (uint32_t id = 7; id < info.vocab && n < 480; id += 9) /* so that sentences end at different steps */
        n += snprintf(config + n, sizeof config - (size_t)n, ",%u", id);
      snprintf(config + n, sizeof config - (size_t)n, "]}");
      const generated alone = generate(d, model, &info, config, true, 0, false);
      for (uint32_t at = 0; at < ROWS; at += 4) {
        const generated found = generate(d, model, &info, config, false, at, models[m].pads_before);
        if (found.n != alone.n || memcmp(found.ids, alone.ids, sizeof alone.ids) != 0 ||
            memcmp(found.scores, alone.scores, sizeof alone.scores) != 0)
          fail_msg("%s%s, %s: row %u has other ids or another score (%.9g) than alone (%.9g)", models[m].folder,
                   models[m].pads_before ? ", pads before" : "", config, at, found.scores[0], alone.scores[0]);
      }
    }
    close_model(&model);
  }
}

/* On a GPU batch invariance is an option. */
static int setup(void **state) {
  setenv("VKF_TEST_BATCH_INVARIANT", "1", 1);
  return driver_setup(state);
}

DRIVER_MAIN(cmocka_unit_test_setup_teardown(test_batch_and_padding, setup, driver_teardown),
            cmocka_unit_test_setup_teardown(test_generate, setup, driver_teardown),
            cmocka_unit_test_setup_teardown(test_cached_steps_and_full_pass, setup, driver_teardown))
