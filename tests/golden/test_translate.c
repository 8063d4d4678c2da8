/* translate with the shipped model: the ids, texts and scores that PyTorch gives for the sentences of golden.jsonl,
 * greedy and with 4 beams, and those of translate.jsonl (make_translate.py) with lists of the best and with prefixes.
 * golden.generate has the validation layer look at the same programs.
 */
#include "support/golden.h"
#include "support/range.h"

#include <math.h>

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

static void compare_all(driver *d, const char *config, const char *ids_key, const char *text_key,
                        const char *score_key) {
  static lines l;
  vkf_model *model = NULL;
  vkf_result *found = NULL;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config};
  read_lines(&l, MODEL "/golden.jsonl");
  driver_ok(d, vkf_model_open(d->device, MODEL, &model));
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

/* The sum of the log-probabilities of a translation is what transformers' beam search divided by its length. */
static void test_scores(void **state) {
  static lines l;
  driver *d = *state;
  const char *targets[MAX_LINES];
  vkf_model *model = NULL;
  vkf_result *found = NULL;
  size_t n_same = 0;
  read_lines(&l, MODEL "/golden.jsonl");
  for (size_t i = 0; i < l.n; i++) targets[i] = json_string_value(json_object_get(l.entries[i], "beam4_text"));
  driver_ok(d, vkf_model_open(d->device, MODEL, &model));
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
    if (!is_same) continue; /* the text has other ids, too */
    n_same++;
    assert_true(fabs(sum - vkf_result_f64(found, "scores", NULL)[i]) < 1e-4);
    golden_expect_score(l.sources[i], i, sum / (double)n,
                        json_real_value(json_object_get(l.entries[i], "beam4_score")));
  }
  assert_between(n_same, l.n - 4, l.n);
  vkf_result_destroy(&found);
  close_model(&model);
  for (size_t i = 0; i < l.n; i++) json_decref(l.entries[i]);
}

/* The n best of each line of translate.jsonl, some with a beginning that is given, together and one after another. */
static void compare_lists(driver *d, const char *config, const char *key, size_t each) {
  static lines l;
  const char *prefixes[MAX_LINES];
  vkf_model *model = NULL;
  vkf_result *found = NULL;
  read_lines(&l, VKF_SOURCE_DIR "/tests/golden/translate.jsonl");
  for (size_t i = 0; i < l.n; i++) prefixes[i] = json_string_value(json_object_get(l.entries[i], "prefix"));
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config, .target_prefixes = prefixes,
                                      .batch_size = 3};
  driver_ok(d, vkf_model_open(d->device, MODEL, &model));
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

DRIVER_MAIN(DRIVER_TEST_PLAIN(test_lists), DRIVER_TEST_PLAIN(test_greedy), DRIVER_TEST_PLAIN(test_four_beams),
            DRIVER_TEST_PLAIN(test_scores))
