/* The public functions of tokenizers: languages that apply to one call, special ids, tokenizers of sessions, models
 * without one. Also the progress of loading. */
#include <unistd.h>

#include "support/golden.h"

#define SHIPPED VKF_SOURCE_DIR "/models/en-es"

/* Two languages; that of the template follows the text. */
static const char json[] =
    "{\"version\": \"1.0\", \"added_tokens\": ["
    "{\"id\": 2, \"content\": \"</s>\", \"special\": true}, {\"id\": 3, \"content\": \"eng_Latn\", \"special\": true},"
    "{\"id\": 4, \"content\": \"zho_Hans\", \"special\": true}],"
    "\"pre_tokenizer\": {\"type\": \"Whitespace\"},"
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}},"
    "{\"SpecialToken\": {\"id\": \"</s>\"}}, {\"SpecialToken\": {\"id\": \"eng_Latn\"}}],"
    "\"special_tokens\": {\"</s>\": {\"ids\": [2]}, \"eng_Latn\": {\"ids\": [3]}}},"
    "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"<unk>\": 0, \"a\": 1}, \"unk_token\": \"<unk>\"}}";

static void expect_ids(driver *d, vkf_tokenizer *tokenizer, const vkf_encode_params *params, const int32_t *ids,
                       size_t n) {
  vkf_result *result = NULL;
  driver_ok(d, vkf_tokenizer_encode(tokenizer, "a", params, &result));
  const vkf_array *found = vkf_result_find(result, "ids");
  assert_int_equal(found->shape[0], n);
  assert_memory_equal(found->data, ids, n * sizeof *ids);
  assert_int_equal(vkf_result_text_count(result), n);
  vkf_result_destroy(&result);
}

/* A language applies to one call; the next call has that of the folder again. */
static void test_languages_end_with_the_call(void **state) {
  driver *d = *state;
  static const int32_t plain[] = {1, 2, 3}, chinese[] = {1, 2, 4}, bare[] = {1};
  const vkf_encode_params of_chinese = {VKF_ENCODE_PARAMS_INIT, .source_language = "zho_Hans"},
                          no_special = {VKF_ENCODE_PARAMS_INIT, .no_special_tokens = true},
                          wrong = {VKF_ENCODE_PARAMS_INIT, .source_language = "zho_Hans", .target_language = "xx"};
  vkf_tokenizer *tokenizer = NULL;
  vkf_result *result = NULL;
  char folder[] = "/tmp/vkf_tokenizer_XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  driver_ok(d, vkf_bytes_write(d->context, path, json, sizeof json - 1));
  driver_ok(d, vkf_tokenizer_open(d->context, folder, &tokenizer));
  unlink(path);
  rmdir(folder);
  expect_ids(d, tokenizer, NULL, plain, 3);
  expect_ids(d, tokenizer, &of_chinese, chinese, 3);
  expect_ids(d, tokenizer, NULL, plain, 3);
  assert_int_equal(vkf_tokenizer_encode(tokenizer, "a", &wrong, &result), VKF_ERROR_ARGUMENT);
  expect_ids(d, tokenizer, NULL, plain, 3);
  expect_ids(d, tokenizer, &no_special, bare, 1);
  vkf_tokenizer_close(&tokenizer);
  assert_null(tokenizer);
}

/* Results of a session's tokenizer outlive the session, also those that were made in a callback of the session. */
typedef struct in_callback {
  vkf_session *session;
  vkf_result *ids, *words;
} in_callback;

static int on_token(void *user, size_t row, int32_t token) {
  in_callback *c = user;
  vkf_tokenizer *tokenizer = vkf_session_tokenizer(c->session);
  (void)row;
  if (c->ids) return 0;
  assert_int_equal(vkf_tokenizer_encode(tokenizer, "cat", NULL, &c->ids), VKF_OK);
  assert_int_equal(vkf_tokenizer_decode(tokenizer, &token, 1, NULL, &c->words), VKF_OK);
  return 0;
}

static void test_a_tokenizer_of_a_session(void **state) {
  driver *d = *state;
  const char *const text = "I am here.";
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *ids = NULL, *words = NULL, *translation = NULL;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  driver_ok(d, vkf_session_create(model, NULL, &session));
  vkf_tokenizer *tokenizer = vkf_session_tokenizer(session);
  in_callback c = {.session = session};
  driver_ok(d, vkf_tokenizer_encode(tokenizer, "cat", NULL, &ids));
  driver_ok(d, vkf_tokenizer_decode(tokenizer, vkf_result_i32(ids, "ids", NULL), 1, NULL, &words));
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json = "{\"num_beams\": 1, \"max_new_tokens\": 3}", .on_token = on_token,
                                      .user = &c};
  driver_ok(d, vkf_session_translate(session, &text, 1, &params, &translation));
  assert_int_equal(vkf_tokenizer_encode(tokenizer, "cat", NULL, NULL), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(vkf_session_message(session), "out"));
  assert_int_equal(vkf_session_translate(session, &text, 1, NULL, NULL), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(vkf_session_message(session), "out"));
  assert_ptr_equal(ids->env, &d->context->env); /* which frees them */
  assert_ptr_equal(c.words->env, &d->context->env);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  assert_true(vkf_result_text_count(ids) > 0 && vkf_result_text(words, 0)[0]);
  assert_int_equal(vkf_result_text_count(c.ids), vkf_result_text_count(ids));
  assert_true(vkf_result_text(c.words, 0)[0]);
  vkf_result_destroy(&c.words);
  vkf_result_destroy(&c.ids);
  vkf_result_destroy(&translation);
  vkf_result_destroy(&words);
  vkf_result_destroy(&ids);
}

static void test_special_ids(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *ids = NULL, *text = NULL;
  vkf_special_ids of_model = {VKF_SPECIAL_IDS_INIT}, of_tokenizer = {VKF_SPECIAL_IDS_INIT};
  const vkf_decode_params keep = {VKF_DECODE_PARAMS_INIT, .keep_special_tokens = true};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  vkf_tokenizer *tokenizer = vkf_model_tokenizer(model), *same = tokenizer;
  driver_ok(d, vkf_model_get_special_ids(model, &of_model));
  driver_ok(d, vkf_tokenizer_get_special_ids(tokenizer, &of_tokenizer));
  assert_true(of_model.eos >= 0 && of_model.decoder_start >= 0 && of_tokenizer.unk >= 0);
  assert_int_equal(of_tokenizer.decoder_start, -1);
  assert_int_equal(vkf_tokenizer_find(tokenizer, vkf_tokenizer_piece(tokenizer, of_model.eos)), of_model.eos);
  driver_ok(d, vkf_tokenizer_encode(tokenizer, "I am here.", NULL, &ids));
  const vkf_array *array = vkf_result_find(ids, "ids");
  size_t n = 7;
  assert_ptr_equal(vkf_result_i32(ids, "ids", &n), array->data);
  assert_int_equal(n, array->shape[0]);
  assert_null(vkf_result_f32(ids, "ids", &n)); /* another type */
  assert_int_equal(n, 0);
  assert_null(vkf_result_f64(ids, "ids", NULL));
  assert_null(vkf_result_i32(ids, "logits", &n));
  assert_null(vkf_result_i32(NULL, "ids", &n));
  assert_int_equal(((const int32_t *)array->data)[array->shape[0] - 1], of_model.eos);
  driver_ok(d, vkf_tokenizer_decode(tokenizer, array->data, array->shape[0], NULL, &text));
  assert_null(strstr(vkf_result_text(text, 0), "</s>"));
  vkf_result_destroy(&text);
  driver_ok(d, vkf_tokenizer_decode(tokenizer, array->data, array->shape[0], &keep, &text));
  assert_non_null(strstr(vkf_result_text(text, 0), "</s>"));
  vkf_tokenizer_close(&same); /* the model keeps it */
  assert_null(same);
  assert_ptr_equal(vkf_model_tokenizer(model), tokenizer);
  vkf_result_destroy(&text);
  vkf_result_destroy(&ids);
  vkf_model_close(&model);
}

typedef struct loading {
  uint64_t done, all, stop_at; /* calls of the callback until it stops; 0: never */
  unsigned n;
} loading;

static int on_progress(void *user, uint64_t done, uint64_t all) {
  loading *l = user;
  assert_true(done > l->done && done <= all && (!l->all || all == l->all));
  l->done = done;
  l->all = all;
  return ++l->n == l->stop_at;
}

/* Loading reports its progress up to all bytes. If the callback stops it, all memory is freed. */
static void test_loading_is_watched(void **state) {
  driver *d = *state;
  loading l = {0};
  const vkf_model_params params = {VKF_MODEL_PARAMS_INIT, .on_progress = on_progress, .user = &l};
  vkf_model *model = NULL;
  uint64_t before = 0, now = 0, peak = 0;
  vkf_device_memory(d->device, &before, &peak);
  driver_ok(d, vkf_model_open_with(d->device, SHIPPED, &params, &model));
  assert_true(l.n > 1 && l.done == l.all);
  vkf_model_close(&model);
  l = (loading){.stop_at = 2};
  assert_int_equal(vkf_model_open_with(d->device, SHIPPED, &params, &model), VKF_ERROR_STOPPED);
  assert_null(model);
  assert_int_equal(l.n, 2);
  vkf_device_memory(d->device, &now, &peak);
  assert_int_equal(now, before);
}

/* The tokenizer of a model without one is NULL. Functions that get this NULL report an error and do not crash. */
static void test_no_tokenizer(void **state) {
  driver *d = *state;
  char path[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  const int32_t id = 1;
  vkf_special_ids ids = {VKF_SPECIAL_IDS_INIT};
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "bert", "."), &model));
  driver_ok(d, vkf_model_get_special_ids(model, &ids)); /* of config.json */
  assert_int_equal(ids.pad, 0);
  vkf_tokenizer *none = vkf_model_tokenizer(model);
  assert_null(none);
  assert_int_equal(vkf_tokenizer_encode(none, "w5", NULL, &result), VKF_ERROR_ARGUMENT);
  assert_int_equal(vkf_tokenizer_decode(none, &id, 1, NULL, &result), VKF_ERROR_ARGUMENT);
  assert_null(vkf_tokenizer_piece(none, 1));
  assert_int_equal(vkf_tokenizer_find(none, "w5"), -1);
  assert_non_null(strstr(vkf_context_message(d->context), "tokenizer"));
  vkf_model_close(&model);
}

DRIVER_MAIN(DRIVER_TEST(test_languages_end_with_the_call), DRIVER_TEST(test_special_ids),
            DRIVER_TEST(test_a_tokenizer_of_a_session), DRIVER_TEST(test_loading_is_watched),
            DRIVER_TEST(test_no_tokenizer))
