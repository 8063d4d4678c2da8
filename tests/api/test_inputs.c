/* What run, generate and translate refuse: each message names the input, what was expected and what was found, and the
 * model can be used as before. Also default lengths, pads and masks.
 */
#include "support/golden.h"

#define GOLDEN VKF_SOURCE_DIR "/tests/golden/marian"
#define SHIPPED VKF_SOURCE_DIR "/models/en-es"
enum { N_ARRAYS = 4 };

static int32_t ids[130] = {5, 6, 7, 8, 9, 10}, outside[] = {5, 6, 7, 150, 9, 10}, negative[] = {5, -1, 7, 8, 9, 10},
               second_empty[] = {1, 0, 1, 0, 0, 0};
static int64_t large[] = {5, 6, (int64_t)1 << 31, 8, 9, 10};
static float numbers[6];

#define IDS(name, rows, length, data) \
  { name, VKF_I32, 2, {rows, length}, data }
#define SOURCE IDS("input_ids", 2, 3, ids)
#define TARGET IDS("decoder_input_ids", 2, 3, ids)

typedef struct row {
  vkf_array inputs[N_ARRAYS]; /* end at the first without a name */
  vkf_status status;
  const char *words;
} row;

/* Refused by run and generate. */
static const row of_both[] = {
    {{TARGET}, VKF_ERROR_ARGUMENT, "expected an input called input_ids, found none"},
    {{IDS("input_ids", 2, 3, outside), TARGET},
     VKF_ERROR_ARGUMENT,
     "input_ids[1,0] is 150, expected an id of the vocabulary, 0 to 149"},
    {{IDS("input_ids", 2, 3, negative), TARGET}, VKF_ERROR_ARGUMENT, "input_ids[0,1] is -1, expected an id"},
    {{{"input_ids", VKF_I64, 2, {2, 3}, large}, TARGET},
     VKF_ERROR_ARGUMENT,
     "input_ids[0,2] is 2147483648, expected a number of 32 bits"},
    {{{"input_ids", VKF_F32, 2, {2, 3}, numbers}, TARGET},
     VKF_ERROR_ARGUMENT,
     "input_ids: expected I32 or I64, found F32"},
    {{{"input_ids", VKF_I32, 1, {6}, ids}, TARGET},
     VKF_ERROR_ARGUMENT,
     "input_ids: expected 2 dimensions [batch, length], found 1"},
    {{IDS("input_ids", 0, 3, ids), TARGET}, VKF_ERROR_ARGUMENT, "at least one token, found shape [0, 3]"},
    {{IDS("input_ids", 2, 3, NULL), TARGET}, VKF_ERROR_ARGUMENT, "input_ids: expected data, found NULL"},
    {{IDS("input_ids", 2, 65, ids), TARGET},
     VKF_ERROR_ARGUMENT,
     "input_ids: expected at most 64 tokens, the model's positions, found 65"},
    {{SOURCE, IDS("attention_mask", 2, 2, ids), TARGET},
     VKF_ERROR_ARGUMENT,
     "attention_mask: expected shape [2, 3], found [2, 2]"},
    {{SOURCE, {"attention_mask", VKF_F32, 2, {2, 3}, numbers}, TARGET}, VKF_ERROR_ARGUMENT, "attention_mask: expected"},
};
static const row of_run[] = {
    {{SOURCE}, VKF_ERROR_ARGUMENT, "expected an input called decoder_input_ids, found none"},
    {{SOURCE, IDS("decoder_input_ids", 1, 3, ids)},
     VKF_ERROR_ARGUMENT,
     "decoder_input_ids: expected 2 rows, as input_ids has, found 1"},
    {{SOURCE, IDS("decoder_input_ids", 2, 3, outside)}, VKF_ERROR_ARGUMENT, "decoder_input_ids[1,0] is 150"},
    {{SOURCE, IDS("decoder_input_ids", 2, 65, ids)}, VKF_ERROR_ARGUMENT, "decoder_input_ids: expected at most 64"},
    {{SOURCE, TARGET, IDS("decoder_attention_mask", 2, 4, ids)},
     VKF_ERROR_ARGUMENT,
     "decoder_attention_mask: expected shape [2, 3], found [2, 4]"},
    {{SOURCE, TARGET, IDS("pixel_values", 2, 3, ids)}, VKF_ERROR_ARGUMENT, "no input called pixel_values"},
    {{SOURCE, TARGET, IDS("input_ids, attention_mask", 2, 3, ids)},
     VKF_ERROR_ARGUMENT,
     "called input_ids, attention_mask;"},
    {{SOURCE, TARGET, SOURCE}, VKF_ERROR_ARGUMENT, "run: expected each input once, found two called input_ids"},
    {{IDS("input_ids", 1, (size_t)1 << 32, ids), TARGET},
     VKF_ERROR_ARGUMENT,
     "input_ids: expected at most 4294967295 numbers in all, found shape [1, 4294967296]"},
};

/* Refused by generate. */
static const row of_generate[] = {
    {{SOURCE, IDS("decoder_input_ids", 1, 3, ids)},
     VKF_ERROR_ARGUMENT,
     "decoder_input_ids: expected 2 rows, as input_ids has, found 1"},
    {{SOURCE, IDS("decoder_input_ids", 2, 3, outside)}, VKF_ERROR_ARGUMENT, "decoder_input_ids[1,0] is 150"},
    {{SOURCE, TARGET, IDS("decoder_attention_mask", 2, 3, ids)},
     VKF_ERROR_ARGUMENT,
     "generate: this model has no input called decoder_attention_mask; expected input_ids, attention_mask, "
     "decoder_input_ids"},
    {{SOURCE, IDS("attention_masks", 2, 3, ids)}, VKF_ERROR_ARGUMENT, "no input called attention_masks"},
    {{SOURCE, TARGET, TARGET},
     VKF_ERROR_ARGUMENT,
     "generate: expected each input once, found two called decoder_input_ids"},
    {{SOURCE, IDS("input", 2, 3, ids)}, VKF_ERROR_ARGUMENT, "no input called input;"},
    {{SOURCE, IDS("attention_mask", 2, 3, second_empty)},
     VKF_ERROR_ARGUMENT,
     "row 1: expected at least one token, found an attention_mask of zeros"},
    {{IDS("input_ids", 2, 3, second_empty)}, VKF_ERROR_ARGUMENT, "row 1: expected at least one token, found"},
};

static void expect(const driver *d, const char *who, vkf_status found, vkf_status expected, const char *words,
                   const vkf_result *result) {
  const char *message = last_message(d->context);
  if (found != expected || !strstr(message, words))
    fail_msg("%s: expected %s and '%s', found %s and '%s'", who, vkf_status_name(expected), words,
             vkf_status_name(found), message);
  assert_null(result);
}

static size_t count(const row *r) {
  size_t n = 0;
  while (n < N_ARRAYS && r->inputs[n].name) n++;
  return n;
}

static void refuse_in_run(driver *d, vkf_model *model, const row *rows, size_t n) {
  for (size_t i = 0; i < n; i++) {
    vkf_result *result = NULL;
    vkf_status status = vkf_session_run(session_of(model), rows[i].inputs, count(&rows[i]), NULL, &result);
    expect(d, "run", status, rows[i].status, rows[i].words, result);
  }
}

static void test_run_and_generate(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  const vkf_array good[] = {SOURCE, TARGET};
  driver_ok(d, vkf_model_open(d->device, GOLDEN, &model));
  refuse_in_run(d, model, of_both, VKF_COUNT(of_both));
  refuse_in_run(d, model, of_run, VKF_COUNT(of_run));
  for (size_t i = 0; i < VKF_COUNT(of_both); i++) {
    vkf_status status = vkf_session_generate(session_of(model), of_both[i].inputs, count(&of_both[i]), NULL, &result);
    expect(d, "generate", status, of_both[i].status, of_both[i].words, result);
  }
  for (size_t i = 0; i < VKF_COUNT(of_generate); i++) {
    vkf_status status =
        vkf_session_generate(session_of(model), of_generate[i].inputs, count(&of_generate[i]), NULL, &result);
    expect(d, "generate", status, of_generate[i].status, of_generate[i].words, result);
  }
  driver_ok(d, vkf_session_run(session_of(model), good, 2, NULL, &result)); /* the refusals have no effect */
  assert_int_equal(vkf_result_count(result), 2);                            /* encoder_last_hidden_state and logits */
  assert_string_equal(last_message(d->context), "");
  vkf_result_destroy(&result);
  close_model(&model);
}

static void test_more_images_than_a_grid_has(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  driver_ok(d, vkf_model_open(d->device, VKF_SOURCE_DIR "/tests/golden/vit", &model));
  const vkf_array many = {"pixel_values", VKF_F32, 4, {65536, 3, 32, 32}, numbers};
  const vkf_status status = vkf_session_run(session_of(model), &many, 1, NULL, &result);
  expect(d, "run", status, VKF_ERROR_ARGUMENT, "expected F32 of shape [1 to 65535,3,32,32], found F32 of [65536",
         result);
  close_model(&model);
}

static void test_generation_keys(void **state) {
  static const struct {
    const char *config;
    vkf_status status;
    const char *words;
  } rows[] = {
      {"{\"num_beams\": 0}", VKF_ERROR_FORMAT, "key \"num_beams\": expected 1 to 2147483647, found 0"},
      {"{\"num_beams\": \"two\"}", VKF_ERROR_FORMAT, "num_beams"},
      {"{\"num_beams\": 2, \"num_return_sequences\": 3}", VKF_ERROR_ARGUMENT, "num_return_sequences"},
      {"{\"do_sample\": true, \"num_beams\": 2}", VKF_ERROR_UNSUPPORTED, "do_sample"},
      {"{\"no_such_key\": 1}", VKF_ERROR_UNSUPPORTED, "no_such_key"},
      {"{\"eos_token_id\": 150}", VKF_ERROR_ARGUMENT, "eos_token_id"},
      {"[1]", VKF_ERROR_FORMAT, "expected"},
      {"{", VKF_ERROR_FORMAT, "line 1"},
  };
  driver *d = *state;
  vkf_model *model = NULL;
  const vkf_array source = SOURCE;
  driver_ok(d, vkf_model_open(d->device, GOLDEN, &model));
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_result *result = NULL;
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = rows[i].config};
    vkf_status status = vkf_session_generate(session_of(model), &source, 1, &params, &result);
    expect(d, rows[i].config, status, rows[i].status, rows[i].words, result);
  }
  close_model(&model);
}

/* Length limits of a decoder with 96 positions; the prompts have pads. */
static void test_prompts_and_length_limits(void **state) {
  enum { LENGTH = 90 };
  static int32_t prompt[2 * LENGTH], mask[2 * LENGTH];
  static const struct {
    const char *config;
    uint32_t top_logprobs;
    const char *words;
  } rows[] = {
      {"{\"max_length\": 5}", 0, "expected a length limit over the 90 ids to start from, found 5"},
      {"{\"max_length\": 1000000000, \"repetition_penalty\": 1.5}", 0, "the length limit is 1000000000"},
      {"{\"max_length\": 1000000000}", 5, "the length limit is 1000000000"},
  };
  driver *d = *state;
  vkf_model *model = NULL;
  for (int i = 0; i < 2 * LENGTH; i++) prompt[i] = 5, mask[i] = i > 3;
  driver_ok(d, vkf_model_open(d->device, VKF_SOURCE_DIR "/tests/golden/gpt2", &model));
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_result *result = NULL;
    const vkf_array inputs[] = {IDS("input_ids", 2, LENGTH, prompt), IDS("attention_mask", 2, LENGTH, mask)};
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = rows[i].config,
                                        .top_logprobs = rows[i].top_logprobs};
    vkf_status status = vkf_session_generate(session_of(model), inputs, 2, &params, &result);
    expect(d, rows[i].config, status, VKF_ERROR_ARGUMENT, rows[i].words, result);
  }
  close_model(&model);
}

/* Without a limit generation adds 20 ids to the prompt, as transformers does, or fewer where the model's positions end,
 * but one id even if the prompt fills them. */
static void test_default_lengths(void **state) {
  static const size_t lengths[][2] = {{9, 29}, {90, 96}, {95, 96}, {96, 97}}; /* of a prompt, of the sequences */
  static int32_t prompt[96];
  driver *d = *state;
  vkf_model *model = NULL;
  for (size_t i = 0; i < VKF_COUNT(prompt); i++) prompt[i] = 5;
  driver_ok(d, vkf_model_open(d->device, VKF_SOURCE_DIR "/tests/golden/gpt2", &model));
  for (size_t i = 0; i < VKF_COUNT(lengths); i++) {
    vkf_result *result = NULL;
    const vkf_array input = IDS("input_ids", 1, lengths[i][0], prompt);
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"eos_token_id\": null}"};
    driver_ok(d, vkf_session_generate(session_of(model), &input, 1, &params, &result));
    assert_int_equal(vkf_result_find(result, "sequences")->shape[1], lengths[i][1]);
    vkf_result_destroy(&result);
  }
  close_model(&model);
}

static float score_of(driver *d, vkf_model *model, const vkf_array *inputs, size_t n, const char *config) {
  vkf_result *result = NULL;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config, .scores = 1};
  driver_ok(d, vkf_session_generate(session_of(model), inputs, n, &params, &result));
  const float score = ((const float *)vkf_result_find(result, "sequences_scores")->data)[0];
  vkf_result_destroy(&result);
  return score;
}

/* If no mask is given, the pads of input_ids are masked, in decoders and encoder-decoders. If the pad is an end token,
 * too, it counts as a token like others. */
static void test_pads_without_a_mask(void **state) {
  static int32_t padded[] = {2, 2, 5, 6, 7}, mask[] = {0, 0, 1, 1, 1}, all[] = {1, 1, 1, 1, 1};
  static const char usual[] = "{\"pad_token_id\": 2, \"eos_token_id\": 9, \"max_new_tokens\": 4}",
                    same[] = "{\"pad_token_id\": 2, \"eos_token_id\": [9, 2], \"max_new_tokens\": 4}";
  static const char *const folders[] = {GOLDEN, VKF_SOURCE_DIR "/tests/golden/gpt2"};
  driver *d = *state;
  for (size_t i = 0; i < VKF_COUNT(folders); i++) {
    vkf_model *model = NULL;
    driver_ok(d, vkf_model_open(d->device, folders[i], &model));
    const vkf_array with[] = {IDS("input_ids", 1, 5, padded), IDS("attention_mask", 1, 5, mask)};
    const vkf_array full[] = {IDS("input_ids", 1, 5, padded), IDS("attention_mask", 1, 5, all)};
    assert_true(score_of(d, model, with, 1, usual) == score_of(d, model, with, 2, usual));
    assert_true(score_of(d, model, with, 1, usual) != score_of(d, model, full, 2, usual));
    assert_true(score_of(d, model, with, 1, same) == score_of(d, model, full, 2, same));
    close_model(&model);
  }
}

/* A pooled head reads its token even if the mask excludes it, as transformers does: in an encoder the first token, in a
 * decoder the last that is no pad, or the first if all others are pads. */
static void test_a_masked_token_is_read(void **state) {
  enum { PAD = 0 };
  static const struct {
    const char *folder, *output;
    int32_t tokens[2][4], masked[4];
  } rows[] = {
      {"bert-model-pooled", "pooler_output", {{5, 7, 8, 9}, {6, 7, 8, 9}}, {0, 1, 1, 1}},
      {"families/qwen3-sequence-classification", "logits", {{9, 7, 8, 5}, {9, 7, 8, 6}}, {1, 1, 0, 0}},
      {"families/qwen3-sequence-classification", "logits", {{5, PAD, PAD, PAD}, {6, PAD, PAD, PAD}}, {0, 1, 1, 1}}};
  driver *d = *state;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    char path[GOLDEN_PATH];
    vkf_model *model = NULL;
    vkf_result *results[2] = {NULL};
    size_t n = 0;
    driver_ok(d, vkf_model_open(d->device, golden_path(path, rows[r].folder, "."), &model));
    for (int i = 0; i < 2; i++) {
      const vkf_array inputs[] = {IDS("input_ids", 1, 4, (void *)rows[r].tokens[i]),
                                  IDS("attention_mask", 1, 4, (void *)rows[r].masked)};
      driver_ok(d, vkf_session_run(session_of(model), inputs, 2, NULL, &results[i]));
    }
    const float *a = vkf_result_f32(results[0], rows[r].output, &n),
                *b = vkf_result_f32(results[1], rows[r].output, &n);
    assert_true(a && b && n > 0 && memcmp(a, b, n * sizeof *a) != 0);
    for (int i = 0; i < 2; i++) vkf_result_destroy(&results[i]);
    close_model(&model);
  }
}

/* A classifier with encoder and decoder: without decoder_input_ids the decoder gets the start id and then the source.
 * The head reads the last end token of the source. */
static void test_classes_behind_an_encoder(void **state) {
  enum { PAD = 1, EOS = 2 };
  static const int32_t source[4] = {5, 7, EOS, PAD}, target[4] = {EOS, 5, 7, EOS}, mask[4] = {1, 1, 1, 0},
                       twice[4] = {5, EOS, 7, EOS}, last[2][4] = {{EOS, 5, EOS, 7}, {EOS, 5, EOS, 8}},
                       none[4] = {5, 7, 8, 9};
  driver *d = *state;
  char path[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_result *results[4] = {NULL}, *refused = NULL;
  const float *logits[4];
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "families/bart-sequence-classification", "."), &model));
  driver_ok(d, vkf_model_get_info(model, &info));
  assert_int_equal(info.n_labels, 3);
  assert_false(info.can_generate);
  const vkf_array inputs[4][3] = {
      {IDS("input_ids", 1, 4, (void *)source), IDS("attention_mask", 1, 4, (void *)mask)},
      {IDS("input_ids", 1, 4, (void *)source), IDS("attention_mask", 1, 4, (void *)mask),
       IDS("decoder_input_ids", 1, 4, (void *)target)},
      {IDS("input_ids", 1, 4, (void *)twice), IDS("decoder_input_ids", 1, 4, (void *)last[0])},
      {IDS("input_ids", 1, 4, (void *)twice), IDS("decoder_input_ids", 1, 4, (void *)last[1])}};
  for (int i = 0; i < 4; i++) {
    size_t n = 0;
    driver_ok(d, vkf_session_run(session_of(model), inputs[i], i == 1 ? 3 : 2, NULL, &results[i]));
    logits[i] = vkf_result_f32(results[i], "logits", &n);
    assert_true(logits[i] && n == 3);
  }
  assert_memory_equal(logits[0], logits[1], 3 * sizeof **logits);
  assert_true(memcmp(logits[2], logits[3], 3 * sizeof **logits) != 0); /* reads the last of two end tokens */
  const vkf_array endless[] = {IDS("input_ids", 1, 4, (void *)none)},
                  longer[] = {IDS("input_ids", 1, 3, (void *)source), IDS("decoder_input_ids", 1, 4, (void *)target)};
  assert_int_equal(vkf_session_run(session_of(model), endless, 1, NULL, &refused), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(vkf_session_message(session_of(model)), "row 0: expected the eos_token_id, 2"));
  assert_int_equal(vkf_session_run(session_of(model), longer, 2, NULL, &refused), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(vkf_session_message(session_of(model)), "expected 3 a row, as input_ids has, found 4"));
  for (int i = 0; i < 4; i++) vkf_result_destroy(&results[i]);
  close_model(&model);
}

/* A token that the mask excludes between others changes only its own row. */
static void test_a_hole_is_not_seen(void **state) {
  static const struct {
    const char *folder, *ids, *mask;
  } rows[] = {{"llama", "input_ids", "attention_mask"}, {"bart", "decoder_input_ids", "decoder_attention_mask"}};
  static const int32_t tokens[2][4] = {{5, 7, 8, 9}, {5, 6, 8, 9}}, masked[4] = {1, 0, 1, 1};
  driver *d = *state;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    char path[GOLDEN_PATH];
    vkf_model *model = NULL;
    vkf_result *results[2] = {NULL};
    const float *logits[2];
    size_t n = 0;
    driver_ok(d, vkf_model_open(d->device, golden_path(path, rows[r].folder, "."), &model));
    for (int i = 0; i < 2; i++) {
      const vkf_array inputs[] = {IDS(rows[r].ids, 1, 4, (void *)tokens[i]), IDS(rows[r].mask, 1, 4, (void *)masked),
                                  IDS("input_ids", 1, 4, (void *)tokens[0])};
      driver_ok(d, vkf_session_run(session_of(model), inputs, r ? 3 : 2, NULL, &results[i]));
      logits[i] = vkf_result_f32(results[i], "logits", &n);
    }
    for (size_t t = 0; t < 4; t++) {
      const size_t width = n / 4, bytes = width * sizeof(float);
      assert_int_equal(memcmp(logits[0] + t * width, logits[1] + t * width, bytes) != 0, t == 1);
    }
    for (int i = 0; i < 2; i++) vkf_result_destroy(&results[i]);
    close_model(&model);
  }
}

static void test_texts(void **state) {
  static char many[4096];
  const char *const second_empty[] = {"I am here.", " \t"}, *const second_null[] = {"I am here.", NULL},
                    *const not_utf8[] = {"I am here.", "We \xff it."}, *const too_long[] = {many};
  const struct {
    const char *const *texts;
    size_t n;
    const char *words;
  } rows[] = {
      {NULL, 1, "expected at least one text, found none"},
      {second_empty, 0, "expected at least one text, found none"},
      {second_empty, 2, "text 2: expected at least one word, found none"},
      {second_null, 2, "expected a text as text 2, found NULL"},
      {not_utf8, 2, "text 2: the text should be UTF-8, and is not from byte 3 on"},
      {too_long, 1, "expected at most 128 tokens, the model's positions"},
  };
  driver *d = *state;
  vkf_model *model = NULL;
  for (size_t i = 0; i + 5 < sizeof many; i += 5) memcpy(many + i, "word ", 6);
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_result *result = NULL;
    vkf_status status = vkf_session_translate(session_of(model), rows[i].texts, rows[i].n, NULL, &result);
    expect(d, "translate", status, VKF_ERROR_ARGUMENT, rows[i].words, result);
  }
  close_model(&model);
}

DRIVER_MAIN(DRIVER_TEST(test_run_and_generate), DRIVER_TEST(test_more_images_than_a_grid_has),
            DRIVER_TEST(test_generation_keys), DRIVER_TEST(test_prompts_and_length_limits),
            DRIVER_TEST(test_default_lengths), DRIVER_TEST(test_pads_without_a_mask),
            DRIVER_TEST(test_a_masked_token_is_read), DRIVER_TEST(test_classes_behind_an_encoder),
            DRIVER_TEST(test_a_hole_is_not_seen), DRIVER_TEST(test_texts))
