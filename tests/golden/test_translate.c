/* Translates with the shipped model: compares ids, texts and scores with PyTorch's for the sentences of golden.jsonl,
 * greedy and with 4 beams, and for those of translate.jsonl (make_translate.py) with lists of the best and with
 * prefixes. golden.generate runs the same programs with the validation layer. */
#include "support/golden.h"
#include "support/range.h"

#include <math.h>
#include <unistd.h>

#include <jansson.h>
#include "support/sessions.h"

#define MODEL VKF_SOURCE_DIR "/models/en-es"
enum { MAX_LINES = 256 };

typedef struct lines {
  json_t *entries[MAX_LINES];
  const char *sources[MAX_LINES];
  size_t n;
} lines;

static void read_lines(lines *l, const char *path) {
  static char text[1 << 16];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  for (l->n = 0; fgets(text, sizeof text, file); l->n++) {
    assert_between(l->n, 0, MAX_LINES - 1);
    l->entries[l->n] = json_loads(text, 0, NULL);
    assert_non_null(l->entries[l->n]);
    l->sources[l->n] = json_string_value(json_object_get(l->entries[l->n], "source"));
  }
  fclose(file);
  assert_true(l->n > 0);
}

/* ids: without the start token, the end included. A row of `sequences` begins with the start and is padded. */
static void compare_ids(const char *source, const int32_t *row, size_t length, const json_t *ids) {
  size_t n = json_array_size(ids);
  assert_true(n > 0 && n < length);
  for (size_t i = 0; i < n; i++) {
    int expected = (int)json_integer_value(json_array_get(ids, i));
    if (row[1 + i] != expected) fail_msg("%s: id %zu: expected %d, found %d", source, i, expected, (int)row[1 + i]);
  }
  int pad = row[0]; /* Marian starts with the padding id */
  for (size_t i = n + 1; i < length; i++)
    if (row[i] != pad) fail_msg("%s: expected %zu ids, found %d after them", source, n, (int)row[i]);
}

/* Reads the sentences of golden.jsonl, or VKF_GOLDEN_SHARE of them. */
static void read_golden(lines *l) {
  static lines all;
  read_lines(&all, MODEL "/golden.jsonl");
  l->n = 0;
  for (size_t i = 0; i < all.n; i++) {
    if (golden_is_in_share(i)) {
      l->entries[l->n] = all.entries[i];
      l->sources[l->n++] = all.sources[i];
    } else {
      json_decref(all.entries[i]);
    }
  }
}

static void compare_all(driver *d, const char *config, const char *ids_key, const char *text_key,
                        const char *score_key) {
  static lines l;
  vkf_model *model = NULL;
  vkf_result *found = NULL;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config};
  read_golden(&l);
  golden_open_model(d, MODEL, &model);
  driver_ok(d, vkf_session_translate(session_of(model), l.sources, l.n, &params, &found));
  const vkf_array *sequences = vkf_result_find(found, "sequences"),
                  *scores = vkf_result_find(found, "sequences_scores");
  assert_non_null(sequences);
  assert_int_equal(sequences->shape[0], l.n);
  assert_int_equal(vkf_result_text_count(found), l.n);
  for (size_t i = 0; i < l.n; i++) {
    const json_t *entry = l.entries[i];
    compare_ids(l.sources[i], (const int32_t *)sequences->data + i * sequences->shape[1], sequences->shape[1],
                json_object_get(entry, ids_key));
    const char *text = json_string_value(json_object_get(entry, text_key)); /* as PyTorch's tokenizer leaves it */
    assert_string_equal(vkf_result_text(found, i), text + strspn(text, " "));
    if (!score_key) continue;
    assert_non_null(scores);
    golden_expect_score(l.sources[i], i, ((const float *)scores->data)[i],
                        json_real_value(json_object_get(entry, score_key)));
  }
  vkf_result_destroy(&found);
  close_model(&model);
  for (size_t i = 0; i < l.n; i++) json_decref(l.entries[i]);
}

static void test_greedy(void **state) {
  compare_all(*state, "{\"num_beams\": 1}", "greedy", "greedy_text", NULL);
}

static void test_four_beams(void **state) {
  compare_all(*state, "{\"num_beams\": 4}", "beam4", "beam4_text", "beam4_score");
}

/* The sum of a translation's log-probabilities, divided by its length, is the score of transformers' beam search. */
static void test_scores(void **state) {
  static lines l;
  driver *d = *state;
  const char *targets[MAX_LINES];
  vkf_model *model = NULL;
  vkf_result *found = NULL;
  size_t n_same = 0;
  read_golden(&l);
  for (size_t i = 0; i < l.n; i++) targets[i] = json_string_value(json_object_get(l.entries[i], "beam4_text"));
  golden_open_model(d, MODEL, &model);
  driver_ok(d, vkf_session_score(session_of(model), l.sources, targets, l.n, NULL, &found));
  const vkf_array *ids = vkf_result_find(found, "ids");
  for (size_t i = 0; i < l.n; i++) {
    const json_t *beam = json_object_get(l.entries[i], "beam4");
    const size_t n = json_array_size(beam), length = ids->shape[1];
    const int32_t *row = (const int32_t *)ids->data + i * length;
    const float *logprobs = vkf_result_f32(found, "logprobs", NULL) + i * length;
    bool is_same = n <= length && (n == length || row[n] == -1);
    double sum = 0;
    for (size_t t = 0; t < n && is_same; t++) {
      is_same = row[t] == (int32_t)json_integer_value(json_array_get(beam, t));
      sum += logprobs[t];
    }
    if (!is_same) continue; /* the text also has other ids */
    n_same++;
    assert_true(fabs(sum - vkf_result_f64(found, "scores", NULL)[i]) < 2e-6); /* 3.3e-7 at most */
    golden_expect_score(l.sources[i], i, sum / (double)n,
                        json_real_value(json_object_get(l.entries[i], "beam4_score")));
  }
  assert_between(n_same, l.n - 4, l.n);
  vkf_result_destroy(&found);
  close_model(&model);
  for (size_t i = 0; i < l.n; i++) json_decref(l.entries[i]);
}

/* Compares the n best of each line of translate.jsonl, some with a given beginning, together and one after another. */
static void compare_lists(driver *d, const char *config, const char *key, size_t each) {
  static lines l;
  const char *prefixes[MAX_LINES];
  vkf_model *model = NULL;
  vkf_result *found = NULL;
  read_lines(&l, VKF_SOURCE_DIR "/tests/golden/translate.jsonl");
  for (size_t i = 0; i < l.n; i++) prefixes[i] = json_string_value(json_object_get(l.entries[i], "prefix"));
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config, .target_prefixes = prefixes,
                                      .batch_size = 3};
  golden_open_model(d, MODEL, &model);
  driver_ok(d, vkf_session_translate(session_of(model), l.sources, l.n, &params, &found));
  const vkf_array *sequences = vkf_result_find(found, "sequences");
  const float *scores = vkf_result_f32(found, "sequences_scores", NULL);
  assert_int_equal(sequences->shape[0], each * l.n);
  for (size_t i = 0; i < each * l.n; i++) {
    const json_t *entry = l.entries[i / each], *ids = json_object_get(entry, key);
    compare_ids(l.sources[i / each], (const int32_t *)sequences->data + i * sequences->shape[1], sequences->shape[1],
                each > 1 ? json_array_get(ids, i % each) : ids);
    if (each > 1)
      golden_expect_score(l.sources[i / each], i, scores[i],
                          json_real_value(json_array_get(json_object_get(entry, "scores"), i % each)));
  }
  vkf_result_destroy(&found);
  close_model(&model);
  for (size_t i = 0; i < l.n; i++) json_decref(l.entries[i]);
}

static void test_lists(void **state) {
  compare_lists(*state, "{\"num_beams\": 4, \"num_return_sequences\": 4}", "best", 4);
  compare_lists(*state, "{\"num_beams\": 1}", "greedy", 1);
}

/* ---- short lists ------------------------------------------------------------------------------------------------- */

enum { N_TEXTS = 2, FIRST = 40, BEST = 3, VOCAB = 8000 };
static const char *const texts[N_TEXTS] = {"Yes.", "I am here."};

/* Returns target i of a source id. Targets with lower i are more probable. */
static int32_t target_of(int32_t source, int i) {
  return (source * 37 + i * 1009 + 400) % VOCAB;
}

static void write_table(vkf_tokenizer *tokenizer, const char *path) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  for (int32_t source = 0; source < VOCAB; source++)
    for (int i = BEST; i >= 0; i--) /* one more than is taken */
      fprintf(file, "%s %s %g\n", vkf_tokenizer_piece(tokenizer, target_of(source, i)),
              vkf_tokenizer_piece(tokenizer, source), 0.5 / (1 + i));
  fclose(file);
}

/* Returns a configuration that suppresses what a list of the first `first` ids and `best` targets does not allow for
 * text i; free() it. */
static char *suppressed_by(vkf_tokenizer *tokenizer, size_t i, int first, int best, const char *config) {
  static bool allowed[VOCAB];
  vkf_result *ids = NULL;
  assert_int_equal(vkf_tokenizer_encode(tokenizer, texts[i], NULL, &ids), VKF_OK);
  const vkf_array *source = vkf_result_find(ids, "ids");
  for (int id = 0; id < VOCAB; id++) allowed[id] = id < first;
  for (size_t t = 0; t < source->shape[0]; t++) {
    const int32_t id = ((const int32_t *)source->data)[t];
    allowed[id] = true;
    for (int b = 0; b < best; b++) allowed[target_of(id, b)] = true;
  }
  json_t *all = json_loads(config, 0, NULL), *suppressed = json_array();
  for (int id = 0; id < VOCAB; id++)
    if (!allowed[id]) json_array_append_new(suppressed, json_integer(id));
  json_object_set_new(all, "suppress_tokens", suppressed);
  char *text = json_dumps(all, JSON_COMPACT);
  json_decref(all);
  vkf_result_destroy(&ids);
  return text;
}

/* Compares two results of a text: alone, or in a result where its translations begin with row `first`. */
static void same_rows(const vkf_result *a, const vkf_result *b, size_t first, size_t n, float most) {
  const vkf_array *x = vkf_result_find(a, "sequences"), *y = vkf_result_find(b, "sequences");
  const float *x_scores = vkf_result_f32(a, "token_scores", NULL), *y_scores = vkf_result_f32(b, "token_scores", NULL);
  for (size_t r = 0; r < n; r++)
    for (size_t t = 0; t < x->shape[1]; t++) {
      const size_t i = r * x->shape[1] + t, j = (first + r) * y->shape[1] + t;
      assert_int_equal(((const int32_t *)x->data)[i], ((const int32_t *)y->data)[j]);
      if (fabsf(x_scores[i] - y_scores[j]) > most)
        fail_msg("row %zu, id %zu: expected the score %.9g, found %.9g", r, t, (double)x_scores[i],
                 (double)y_scores[j]);
    }
}

/* Checks that pads behind the source change no generated ids. */
static void pads_allow_nothing(driver *d, vkf_model *model, const vkf_shortlist *list) {
  static int32_t ids[] = {385, 262, 16, 1, 0, 0}, mask[] = {1, 1, 1, 1, 0, 0};
  vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, 6}, ids}, {"attention_mask", VKF_I32, 2, {1, 6}, mask}};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json =
                                          "{\"num_beams\": 1, \"max_new_tokens\": 3, "
                                          "\"forced_bos_token_id\": 999}",
                                      .scores = true, .shortlist = list};
  vkf_result *padded = NULL, *alone = NULL;
  driver_ok(d, vkf_session_generate(session_of(model), inputs, 2, &params, &padded));
  inputs[0].shape[1] = 4;
  driver_ok(d, vkf_session_generate(session_of(model), inputs, 1, &params, &alone));
  same_rows(alone, padded, 0, 1, 0);
  assert_int_equal(vkf_result_i32(alone, "sequences", NULL)[1], 999); /* which no id of the source allows */
  vkf_result_destroy(&padded);
  vkf_result_destroy(&alone);
}

/* If there are more beams, or alternatives, than ids in the list, there are fewer sequences: as many as if all other
 * ids were suppressed. The special ids are 0 to 2. */
static void few_ids_give_few_sequences(driver *d, vkf_model *model, const char *path) {
  enum { ASKED = 16, SPECIAL = 3 };
  static const char *const configs[] = {
      "{\"num_beams\": 16, \"num_return_sequences\": 16, \"max_new_tokens\": 1, \"renormalize_logits\": true}",
      "{\"num_beams\": 2, \"num_return_sequences\": 16, \"max_new_tokens\": 2, \"renormalize_logits\": true, "
      "\"return_alternatives\": true}",
      "{\"num_beams\": 1, \"num_return_sequences\": 16, \"max_new_tokens\": 2, \"return_alternatives\": true}"};
  vkf_shortlist *list = NULL;
  driver_ok(d, vkf_shortlist_open(model, path, 0, 1, &list));
  for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
    vkf_result *few = NULL, *suppressed = NULL;
    size_t n_absent = 0;
    vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = configs[c], .shortlist = list};
    driver_ok(d, vkf_session_translate(session_of(model), texts, 1, &params, &few));
    char *config = suppressed_by(vkf_model_tokenizer(model), 0, SPECIAL, 1, configs[c]);
    params.config_json = config;
    params.shortlist = NULL;
    driver_ok(d, vkf_session_translate(session_of(model), texts, 1, &params, &suppressed));
    same_rows(few, suppressed, 0, ASKED, 2e-5f);
    const float *scores = vkf_result_f32(few, "sequences_scores", NULL),
                *wanted = vkf_result_f32(suppressed, "sequences_scores", NULL);
    for (size_t i = 0; i < ASKED; i++) {
      assert_int_equal(isinf(scores[i]), isinf(wanted[i]));
      n_absent += isinf(scores[i]) != 0;
    }
    assert_true(n_absent > 4 && n_absent < ASKED - 2);
    free(config);
    vkf_result_destroy(&few);
    vkf_result_destroy(&suppressed);
  }
  vkf_shortlist_close(&list);
}

/* Only the rows of the list are computed. The results are as if all others were suppressed before the log-softmax, and
 * have the same bits whatever else is in the batch. */
static void test_short_lists(void **state) {
  driver *d = *state;
  static const char *const configs[] = {
      "{\"num_beams\": 3, \"num_return_sequences\": 2, \"max_new_tokens\": 5, \"no_repeat_ngram_size\": 1, "
      "\"renormalize_logits\": true}",
      "{\"num_beams\": 1, \"do_sample\": true, \"top_k\": 0, \"seed\": 5, \"max_new_tokens\": 4, \"min_new_tokens\": "
      "3}",
  };
  char path[] = "/tmp/vkformer-shortlist-XXXXXX";
  vkf_model *model = NULL;
  vkf_shortlist *list = NULL;
  close(mkstemp(path));
  golden_open_model(d, MODEL, &model);
  write_table(vkf_model_tokenizer(model), path);
  driver_ok(d, vkf_shortlist_open(model, path, FIRST, BEST, &list));
  for (size_t c = 0; c < 2; c++) {
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = configs[c], .scores = true,
                                        .shortlist = list};
    vkf_result *together = NULL;
    driver_ok(d, vkf_session_translate(session_of(model), texts, N_TEXTS, &params, &together));
    const size_t each = vkf_result_find(together, "sequences")->shape[0] / N_TEXTS;
    for (size_t i = 0; i < N_TEXTS; i++) {
      vkf_result *alone = NULL, *suppressed = NULL;
      vkf_generate_params own = params;
      own.first_line = i;
      driver_ok(d, vkf_session_translate(session_of(model), &texts[i], 1, &own, &alone));
      same_rows(alone, together, i * each, each, 0);
      own.shortlist = NULL;
      char *config = suppressed_by(vkf_model_tokenizer(model), i, FIRST, BEST, configs[c]);
      own.config_json = config;
      driver_ok(d, vkf_session_translate(session_of(model), &texts[i], 1, &own, &suppressed));
      same_rows(alone, suppressed, 0, each, 2e-5f);
      free(config);
      vkf_result_destroy(&alone);
      vkf_result_destroy(&suppressed);
    }
    vkf_result_destroy(&together);
  }
  pads_allow_nothing(d, model, list);
  few_ids_give_few_sequences(d, model, path);
  vkf_shortlist_close(&list);
  close_model(&model);
  unlink(path);
}

DRIVER_MAIN(DRIVER_TEST_PLAIN(test_short_lists), DRIVER_TEST_PLAIN(test_lists), DRIVER_TEST_PLAIN(test_greedy),
            DRIVER_TEST_PLAIN(test_four_beams), DRIVER_TEST_PLAIN(test_scores))
