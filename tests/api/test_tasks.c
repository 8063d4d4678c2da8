/* The library's functions for embedding, classifying, filling masks, generating and translating, on models whose tokens
 * are words (support/word_models.h): compares results with forward passes and batches with single texts, checks what is
 * refused, and lets every allocation of a call fail once.
 */
#include <math.h>

#include "support/driver.h"
#include "support/small_spm.h"
#include "support/softmax.h"
#include "support/word_models.h"

enum { N_TEXTS = 9, MAX_WORDS = 64 };

/* Texts of words; the lengths are far from sorted, so that batches change the order of texts. */
static const int lengths[N_TEXTS] = {3, 20, 1, 9, 3, 60, 2, 33, 10};
static char texts[N_TEXTS][512];
static const char *list[N_TEXTS];

static void make_texts(const char *last) {
  for (int i = 0; i < N_TEXTS; i++) {
    size_t n = 0;
    for (int k = 0; k < lengths[i]; k++)
      n += (size_t)snprintf(texts[i] + n, sizeof texts[i] - n, "w%d ", 5 + (7 * i + 3 * k) % 90);
    snprintf(texts[i] + n, sizeof texts[i] - n, "%s", last);
    list[i] = texts[i];
  }
}

typedef struct bench {
  driver d;
  vkf_model *model;
} bench;

static void bench_open(bench *b, const char *model) {
  char path[512];
  driver_open(&b->d);
  snprintf(path, sizeof path, "%s/%s", program_folder, model);
  driver_ok(&b->d, vkf_model_open(b->d.device, path, &b->model));
}

static void bench_close(bench *b) {
  close_model(&b->model);
  driver_close(&b->d);
}

/* Runs a forward pass over the ids of a text and sets *data to one output, [*n] numbers a row; destroy the result. */
static vkf_result *forward(bench *b, const char *text, const char *output, const float **data, size_t *n) {
  vkf_result *tokens = NULL, *pass = NULL;
  driver_ok(&b->d, vkf_tokenizer_encode(vkf_model_tokenizer(b->model), text, NULL, &tokens));
  const vkf_array *ids = vkf_result_find(tokens, "ids");
  const vkf_array input = {"input_ids", VKF_I32, 2, {1, ids->shape[0]}, ids->data};
  driver_ok(&b->d, vkf_session_run(session_of(b->model), &input, 1, NULL, &pass));
  const vkf_array *found = vkf_result_find(pass, output);
  assert_non_null(found);
  *data = found->data;
  *n = found->shape[found->rank - 1];
  vkf_result_destroy(&tokens);
  return pass;
}

static const void *array_of(const vkf_result *result, const char *name, vkf_dtype dtype, size_t rank, size_t n) {
  const vkf_array *a = vkf_result_find(result, name);
  if (!a || a->dtype != dtype || a->rank != rank || a->shape[0] != n) fail_msg("%s is not as documented", name);
  return a->data;
}

/* Checks that a call was refused with these words. */
static void refused(const bench *b, vkf_status status, vkf_status wanted, const char *words) {
  if (status != wanted || !strstr(last_message(b->d.context), words))
    fail_msg("expected '%s', found %s: %s", words, vkf_status_name(status), last_message(b->d.context));
}

static void expect_skipped(const vkf_result *result, size_t text, vkf_skip_reason reason, const char *words) {
  const char *why = "";
  assert_int_equal(vkf_result_skipped(result, text, &why), reason);
  if (reason == VKF_SKIP_NONE ? why != NULL : !strstr(why, words)) fail_msg("text %zu: found '%s'", text, why);
}

static void expect_near(const char *what, double found, double wanted) {
  if (!(fabs(found - wanted) <= 1e-9)) fail_msg("%s: expected %.12g, found %.12g", what, wanted, found);
}

/* ---- embed ------------------------------------------------------------------------------------------------------- */

/* Texts in a batch have the same vectors as alone, and a vector is the mean of the last hidden states. */
static void embed_in_batches(void **state) {
  (void)state;
  bench b;
  vkf_result *all = NULL, *one = NULL;
  size_t width = 0;
  const float *states = NULL;
  bench_open(&b, "bert");
  make_texts("");
  driver_ok(&b.d, vkf_session_embed(session_of(b.model), list, N_TEXTS, NULL, &all));
  const double *vectors = array_of(all, "embeddings", VKF_F64, 2, N_TEXTS);
  const int32_t *n_tokens = array_of(all, "n_tokens", VKF_I32, 1, N_TEXTS);
  for (size_t i = 0; i < N_TEXTS; i++) {
    vkf_result *pass = forward(&b, list[i], "last_hidden_state", &states, &width);
    assert_int_equal(n_tokens[i], lengths[i] + 2);
    for (size_t d = 0; d < width; d++) {
      double sum = 0;
      for (int t = 0; t < n_tokens[i]; t++) sum += states[(size_t)t * width + d];
      expect_near(list[i], vectors[i * width + d], sum / n_tokens[i]);
    }
    vkf_result_destroy(&pass);
    driver_ok(&b.d, vkf_session_embed(session_of(b.model), &list[i], 1, NULL, &one));
    assert_memory_equal(vectors + i * width, vkf_result_find(one, "embeddings")->data, width * sizeof *vectors);
    vkf_result_destroy(&one);
  }
  vkf_result_destroy(&all);
  bench_close(&b);
}

/* If the device has no memory for a batch, the batch is split. */
static void embed_without_device_memory(void **state) {
  (void)state;
  enum { SAME = 8, FAILURES = 3 };
  bench b;
  vkf_result *wanted = NULL, *found = NULL;
  const char *same[SAME];
  for (size_t i = 0; i < SAME; i++) same[i] = i % 2 ? "w5 w6 w7" : "w9 w8 w6";
  for (uint64_t at = 1; at <= FAILURES; at++) {
    bench_open(&b, "bert");
    vkf_gpu_inject(b.d.device->gpu, &(vkf_gpu_faults){.fail_allocation = at});
    driver_ok(&b.d, vkf_session_embed(session_of(b.model), same, SAME, NULL, &found));
    vkf_gpu_inject(b.d.device->gpu, &(vkf_gpu_faults){0});
    driver_ok(&b.d, vkf_session_embed(session_of(b.model), same, SAME, NULL, &wanted));
    const vkf_array *vectors = vkf_result_find(wanted, "embeddings");
    assert_memory_equal(vkf_result_find(found, "embeddings")->data, vectors->data,
                        SAME * vectors->shape[1] * sizeof(double));
    vkf_result_destroy(&found);
    vkf_result_destroy(&wanted);
    bench_close(&b);
  }
}

static void embed_what_is_refused(void **state) {
  (void)state;
  bench b;
  vkf_result *result = NULL, *parts = NULL;
  vkf_embedding_params params;
  char text[1024] = "";
  for (int i = 0; i < 75; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), i % 25 ? "w%d " : "w%d. ", 6 + i);
  const char *three[] = {"w5", text, "w6\xff"};
  bench_open(&b, "bert");
  vkf_embedding_params_init(&params);
  refused(&b, vkf_session_embed(session_of(b.model), three, 3, &params, &result), VKF_ERROR_ARGUMENT,
          "text 2: expected at most 64 tokens, the model's positions, found 77");
  refused(&b, vkf_session_embed(session_of(b.model), three, 0, &params, &result), VKF_ERROR_ARGUMENT, "found none");
  params.long_texts = VKF_LONG_TRUNCATE;
  refused(&b, vkf_session_embed(session_of(b.model), three, 3, &params, &result), VKF_ERROR_ARGUMENT,
          "text 3: the text should be UTF-8");
  params.long_texts = VKF_LONG_REFUSE;
  params.skip_refused = true;
  driver_ok(&b.d, vkf_session_embed(session_of(b.model), three, 3, &params, &result));
  const vkf_array *vectors = vkf_result_find(result, "embeddings");
  const double *first = vectors->data;
  const size_t width = vectors->shape[1];
  expect_skipped(result, 0, VKF_SKIP_NONE, "");
  expect_skipped(result, 1, VKF_SKIP_LONG, "found 77");
  expect_skipped(result, 2, VKF_SKIP_INVALID, "UTF-8");
  for (size_t d = 0; d < width; d++)
    assert_true(isfinite(first[d]) && isnan(first[width + d]) && isnan(first[2 * width + d]));
  vkf_result_destroy(&result);
  /* A text in parts is pooled as one. */
  params.long_texts = VKF_LONG_SPLIT;
  params.similarity = true;
  driver_ok(&b.d, vkf_session_embed(session_of(b.model), three, 2, &params, &result));
  const int32_t *used = array_of(result, "n_used", VKF_I32, 1, 2);
  assert_int_equal(used[1], 75 + 2 * 2);
  char *behind = strstr(text, "w56."); /* the first part ends with this word */
  assert_non_null(behind);
  char head[1024];
  snprintf(head, sizeof head, "%.*sw56.", (int)(behind - text), text);
  const char *two[] = {head, behind + 5};
  driver_ok(&b.d, vkf_session_embed(session_of(b.model), two, 2, NULL, &parts));
  const double *whole = (const double *)vkf_result_find(result, "embeddings")->data + width,
               *part = vkf_result_find(parts, "embeddings")->data;
  const int32_t *n = vkf_result_find(parts, "n_used")->data;
  for (size_t d = 0; d < width; d++)
    expect_near("a split text", whole[d], (n[0] * part[d] + n[1] * part[width + d]) / (n[0] + n[1]));
  const double *similarity = array_of(result, "similarity", VKF_F64, 2, 2);
  expect_near("a text and itself", similarity[0], 1);
  assert_true(similarity[1] == similarity[2] && similarity[1] < 0.999999);
  vkf_result_destroy(&parts);
  vkf_result_destroy(&result);
  bench_close(&b);
}

/* Params of an older header are shorter; those without a size were not initialized and are refused. */
static void params_that_grow(void **state) {
  (void)state;
  bench b;
  vkf_result *result = NULL;
  vkf_embedding_params params = {.pooling = VKF_POOLING_CLS};
  const char *text = "w5 w6";
  size_t width = 0;
  const float *states = NULL;
  bench_open(&b, "bert");
  refused(&b, vkf_session_embed(session_of(b.model), &text, 1, &params, &result), VKF_ERROR_ARGUMENT,
          "vkf_embedding_params.size: expected sizeof");
  params.size = offsetof(vkf_embedding_params, normalize);
  params.normalize = true; /* beyond `size`, so it is ignored */
  driver_ok(&b.d, vkf_session_embed(session_of(b.model), &text, 1, &params, &result));
  vkf_result *pass = forward(&b, text, "last_hidden_state", &states, &width);
  for (size_t d = 0; d < width; d++)
    expect_near("cls", ((const double *)vkf_result_find(result, "embeddings")->data)[d], states[d]);
  vkf_result_destroy(&pass);
  vkf_result_destroy(&result);
  bench_close(&b);
}

/* ---- classify ---------------------------------------------------------------------------------------------------- */

static void classify_texts_with(const char *model) {
  bench b;
  vkf_result *all = NULL, *one = NULL;
  vkf_classify_params params;
  size_t n_labels = 0;
  const float *logits = NULL;
  char name[32];
  bench_open(&b, model);
  make_texts("");
  vkf_classify_params_init(&params);
  params.top_k = 2;
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), list, N_TEXTS, &params, &all));
  const int32_t *labels = array_of(all, "labels", VKF_I32, 2, N_TEXTS);
  const double *scores = array_of(all, "scores", VKF_F64, 2, N_TEXTS);
  for (size_t i = 0; i < N_TEXTS; i++) {
    vkf_result *pass = forward(&b, list[i], "logits", &logits, &n_labels);
    for (size_t k = 0; k < 2; k++) {
      const size_t label = (size_t)labels[2 * i + k];
      size_t above = 0;
      for (size_t l = 0; l < n_labels; l++) above += logits[l] > logits[label];
      assert_int_equal(above, k);
      expect_near(list[i], scores[2 * i + k], softmax_of(logits, n_labels, label));
      snprintf(name, sizeof name, "LABEL_%zu", label);
      assert_string_equal(vkf_result_text(all, label), name);
    }
    vkf_result_destroy(&pass);
    driver_ok(&b.d, vkf_session_classify(session_of(b.model), &list[i], 1, &params, &one));
    assert_memory_equal(scores + 2 * i, vkf_result_find(one, "scores")->data, 2 * sizeof *scores);
    vkf_result_destroy(&one);
  }
  assert_int_equal(vkf_result_text_count(all), n_labels);
  vkf_result_destroy(&all);
  bench_close(&b);
}

static void classify_texts(void **state) {
  (void)state;
  classify_texts_with("labels");
  classify_texts_with("verdicts");
}

/* Runs a forward pass over the ids of a pair; destroy the result. */
static vkf_result *forward_pair(bench *b, const char *first, const char *second, bool has_types) {
  vkf_result *tokens = NULL, *pass = NULL;
  const vkf_encode_params params = {VKF_ENCODE_PARAMS_INIT, .text_pair = second};
  driver_ok(&b->d, vkf_tokenizer_encode(vkf_model_tokenizer(b->model), first, &params, &tokens));
  vkf_array inputs[2] = {*vkf_result_find(tokens, "ids"), *vkf_result_find(tokens, "token_type_ids")};
  for (int i = 0; i < 2; i++)
    inputs[i] = (vkf_array){i ? "token_type_ids" : "input_ids", VKF_I32, 2, {1, inputs[i].shape[0]}, inputs[i].data};
  driver_ok(&b->d, vkf_session_run(session_of(b->model), inputs, has_types ? 2 : 1, NULL, &pass));
  vkf_result_destroy(&tokens);
  return pass;
}

/* Pairs of any lengths in a batch have the scores of a pass over each pair alone. */
static void classify_pairs_with(const char *model, bool has_types) {
  enum { N = 5 };
  static const char *const first[N] = {"w5 w6", "w7", "w8 w9 w10 w11 w12", "w5", "w5 w6"}, *const second[N] = {
                                                                                               "w7", "w8 w9 w10", "w5",
                                                                                               "w6 w5 w6 w7", "w7 w8"};
  bench b;
  vkf_result *all = NULL;
  vkf_classify_params params;
  bench_open(&b, model);
  vkf_classify_params_init(&params);
  params.text_pairs = second;
  params.top_k = 99; /* all labels */
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), first, N, &params, &all));
  const vkf_array *labels = vkf_result_find(all, "labels");
  const size_t n = labels->shape[1];
  assert_int_equal(n, vkf_result_text_count(all));
  const double *scores = array_of(all, "scores", VKF_F64, 2, N);
  for (size_t i = 0; i < N; i++) {
    vkf_result *pass = forward_pair(&b, first[i], second[i], has_types);
    const float *logits = vkf_result_f32(pass, "logits", NULL);
    for (size_t k = 0; k < n; k++)
      expect_near(first[i], scores[i * n + k],
                  softmax_of(logits, n, (size_t)((const int32_t *)labels->data)[i * n + k]));
    vkf_result_destroy(&pass);
  }
  assert_true(fabs(scores[0] - scores[4 * n]) > 1e-6);
  vkf_result_destroy(&all);
  bench_close(&b);
}

static void classify_pairs(void **state) {
  (void)state;
  classify_pairs_with("labels", true);
  classify_pairs_with("inference", false);
  bench b;
  vkf_result *result = NULL;
  vkf_classify_params params;
  make_texts("");
  const char *const first[] = {texts[5], texts[5]}, *second[] = {"w5", texts[7]}, *cut[3];
  bench_open(&b, "inference"); /* 40 positions */
  vkf_classify_params_init(&params);
  params.text_pairs = second;
  refused(&b, vkf_session_classify(session_of(b.model), first, 2, &params, &result), VKF_ERROR_ARGUMENT,
          "text 1: expected at most 40 tokens, the model's positions, found 65");
  params.skip_refused = true;
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), first, 2, &params, &result));
  expect_skipped(result, 1, VKF_SKIP_LONG, "found 97");
  vkf_result_destroy(&result);
  params.long_texts = VKF_LONG_TRUNCATE; /* 36 of the 40 are words: 35 and 1, 18 and 18 */
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), first, 2, &params, &result));
  char shorter[3][512];
  static const int words[3] = {35, 18, 18};
  for (int i = 0; i < 3; i++) {
    snprintf(shorter[i], sizeof shorter[i], "%s", i == 2 ? texts[7] : texts[5]);
    char *end = shorter[i];
    for (int w = 0; w < words[i]; w++) end = strchr(end, ' ') + 1;
    *end = 0;
    cut[i] = shorter[i];
  }
  const double *scores = vkf_result_find(result, "scores")->data;
  const int32_t *labels = vkf_result_find(result, "labels")->data;
  for (int i = 0; i < 2; i++) {
    vkf_result *pass = forward_pair(&b, cut[i], i ? cut[2] : "w5", false);
    expect_near("cut", scores[3 * i], softmax_of(vkf_result_f32(pass, "logits", NULL), 3, (size_t)labels[3 * i]));
    vkf_result_destroy(&pass);
  }
  vkf_result_destroy(&result);
  params.long_texts = VKF_LONG_SPLIT;
  refused(&b, vkf_session_classify(session_of(b.model), first, 2, &params, &result), VKF_ERROR_ARGUMENT, "found split");
  params.long_texts = VKF_LONG_REFUSE;
  second[1] = NULL;
  refused(&b, vkf_session_classify(session_of(b.model), first, 2, &params, &result), VKF_ERROR_ARGUMENT,
          "expected a text as text 2, found NULL");
  bench_close(&b);
  bench_open(&b, "words");
  refused(&b, vkf_session_classify(session_of(b.model), first, 1, &params, &result), VKF_ERROR_UNSUPPORTED,
          "found one that labels words");
  bench_close(&b);
}

enum { CANDIDATES = 3 };
static const char *const candidates[CANDIDATES] = {"w21 w22", "w20", "w23"};

/* Checks the scores of candidates against the logits of each pair alone. entails, denies: labels of the model. */
static void expect_candidates(bench *b, const char *text, const vkf_result *result, size_t row, bool multi,
                              size_t entails, size_t denies) {
  const int32_t *labels = (const int32_t *)vkf_result_find(result, "labels")->data + row * CANDIDATES;
  const double *scores = (const double *)vkf_result_find(result, "scores")->data + row * CANDIDATES;
  double alone[CANDIDATES], sum = 0;
  float logits[CANDIDATES][3];
  for (size_t i = 0; i < CANDIDATES; i++) {
    char hypothesis[64];
    snprintf(hypothesis, sizeof hypothesis, "w9 %s w8", candidates[i]);
    vkf_result *pass = forward_pair(b, text, hypothesis, false);
    memcpy(logits[i], vkf_result_f32(pass, "logits", NULL), sizeof logits[i]);
    vkf_result_destroy(&pass);
    sum += exp((double)logits[i][entails]);
  }
  for (size_t i = 0; i < CANDIDATES; i++) {
    const double yes = exp((double)logits[i][entails]), no = exp((double)logits[i][denies]);
    alone[i] = multi ? yes / (yes + no) : yes / sum;
  }
  for (size_t i = 0; i < CANDIDATES; i++) {
    expect_near(text, scores[i], alone[labels[i]]);
    if (i > 0) assert_true(scores[i] <= scores[i - 1] && labels[i] != labels[i - 1]);
    assert_string_equal(vkf_result_text(result, (size_t)labels[i]), candidates[labels[i]]);
  }
}

static void classify_candidates(void **state) {
  (void)state;
  bench b;
  vkf_result *result = NULL;
  vkf_classify_params params;
  make_texts("");
  const char *const list[] = {"w5 w6", texts[7], "w7 w5 w10"}, /* the second is too long with its first candidate */
      *const empty[] = {"w20", ""};
  program_must(
      "cp -r $T/inference $T/judge && sed -i s/LABEL_0/no/\\;s/LABEL_2/Entailment/ $T/judge/config.json && "
      "cp -r $T/inference $T/turned && sed -i s/LABEL_0/entails/ $T/turned/config.json",
      0, "", "");
  for (size_t k = 0; k < 2; k++) {
    bench_open(&b, k ? "turned" : "judge");
    vkf_classify_params_init(&params);
    params.candidate_labels = candidates;
    params.n_candidate_labels = CANDIDATES;
    params.hypothesis_template = "w9 {} w8";
    refused(&b, vkf_session_classify(session_of(b.model), list, 3, &params, &result), VKF_ERROR_ARGUMENT,
            "text 2: expected at most 40 tokens, the model's positions, found ");
    params.skip_refused = true;
    for (int multi = 0; multi < 2; multi++) {
      params.multi_label = multi;
      driver_ok(&b.d, vkf_session_classify(session_of(b.model), list, 3, &params, &result));
      expect_candidates(&b, list[0], result, 0, multi, k ? 0 : 2, k ? 2 : 0);
      expect_candidates(&b, list[2], result, 2, multi, k ? 0 : 2, k ? 2 : 0);
      expect_skipped(result, 1, VKF_SKIP_LONG, "expected at most 40 tokens");
      assert_int_equal(((const int32_t *)vkf_result_find(result, "labels")->data)[CANDIDATES], -1);
      assert_int_equal(vkf_result_text_count(result), CANDIDATES);
      vkf_result_destroy(&result);
    }
    params.hypothesis_template = "w9";
    refused(&b, vkf_session_classify(session_of(b.model), list, 1, &params, &result), VKF_ERROR_ARGUMENT,
            "expected {} in it, found \"w9\"");
    params.hypothesis_template = NULL;
    params.candidate_labels = empty;
    params.n_candidate_labels = 2;
    refused(&b, vkf_session_classify(session_of(b.model), list, 1, &params, &result), VKF_ERROR_ARGUMENT,
            "found an empty one");
    params.n_candidate_labels = 0;
    refused(&b, vkf_session_classify(session_of(b.model), list, 1, &params, &result), VKF_ERROR_ARGUMENT,
            "expected at least one, found none");
    params.n_candidate_labels = 1;
    params.text_pairs = candidates;
    refused(&b, vkf_session_classify(session_of(b.model), list, 1, &params, &result), VKF_ERROR_UNSUPPORTED,
            "expected no pairs of texts");
    bench_close(&b);
  }
  bench_open(&b, "inference");
  params.text_pairs = NULL;
  refused(&b, vkf_session_classify(session_of(b.model), list, 1, &params, &result), VKF_ERROR_UNSUPPORTED,
          "begins with \"entail\", found none");
  bench_close(&b);
}

/* The scores of a text that was split are the mean of the scores of its parts, weighted by their tokens. */
static void classify_parts(void **state) {
  (void)state;
  bench b;
  vkf_result *whole = NULL, *parts = NULL;
  vkf_classify_params params;
  make_texts("");
  char text[2 * sizeof texts[0] + 8];
  snprintf(text, sizeof text, "%s. %s", texts[5], texts[1]); /* 60 and 20 words */
  const char *one = text;
  bench_open(&b, "labels");
  vkf_classify_params_init(&params);
  params.long_texts = VKF_LONG_SPLIT;
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), &one, 1, &params, &whole));
  text[strlen(texts[5]) + 1] = 0;
  const char *two[] = {text, texts[1]};
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), two, 2, NULL, &parts));
  const vkf_array *labels = vkf_result_find(whole, "labels");
  const size_t n = labels->shape[1];
  const double *found = vkf_result_find(whole, "scores")->data, *scores = vkf_result_find(parts, "scores")->data;
  const int32_t *of = vkf_result_find(parts, "labels")->data, *label = labels->data;
  for (size_t i = 0; i < n; i++) {
    double wanted = 0; /* 60 words, a full stop and two special tokens; 20 words and two */
    for (size_t k = 0; k < n; k++)
      wanted += (of[k] == label[i]) * scores[k] * 63 + (of[n + k] == label[i]) * scores[n + k] * 22;
    expect_near("parts", found[i], wanted / 85);
  }
  vkf_result_destroy(&whole);
  vkf_result_destroy(&parts);
  bench_close(&b);
}

/* Classification follows problem_type and id2label of config.json. */
static void classify_as_the_folder_says(void **state) {
  (void)state;
  static const char *const types[] = {"regression", "multi_label_classification"};
  const char *text = "w5 w6 w7";
  for (size_t i = 0; i < 2; i++) {
    bench b;
    vkf_result *result = NULL;
    size_t n = 0;
    const float *logits = NULL;
    char command[512];
    snprintf(command, sizeof command,
             "sed 's/\"id2label\": {/\"problem_type\": \"%s\", &/; s/\"LABEL_1\"/\"good\"/; /\"0\": \"LABEL_0\"/d' "
             "$G/bert-sequence-classification/config.json > $T/labels/config.json",
             types[i]);
    assert_int_equal(program_run(command), 0);
    bench_open(&b, "labels");
    driver_ok(&b.d, vkf_session_classify(session_of(b.model), &text, 1, NULL, &result));
    const int32_t *labels = vkf_result_find(result, "labels")->data;
    const double *scores = vkf_result_find(result, "scores")->data;
    vkf_result *pass = forward(&b, text, "logits", &logits, &n);
    for (size_t l = 0; l < n; l++)
      expect_near(types[i], scores[l], i ? 1 / (1 + exp(-(double)logits[labels[l]])) : logits[labels[l]]);
    assert_string_equal(vkf_result_text(result, 1), "good");
    assert_string_equal(vkf_result_text(result, 0), "LABEL_0");
    vkf_result_destroy(&pass);
    vkf_result_destroy(&result);
    bench_close(&b);
  }
  assert_int_equal(program_run("cp $G/bert-sequence-classification/config.json $T/labels"), 0);
}

static void classify_words(void **state) {
  (void)state;
  bench b;
  vkf_result *all = NULL;
  size_t n_labels = 0, w = 0;
  const float *logits = NULL;
  bench_open(&b, "words");
  make_texts("");
  driver_ok(&b.d, vkf_session_classify(session_of(b.model), list, N_TEXTS, NULL, &all));
  const size_t n_words = vkf_result_find(all, "texts")->shape[0];
  const int32_t *of = array_of(all, "texts", VKF_I32, 1, n_words),
                *labels = array_of(all, "labels", VKF_I32, 1, n_words);
  const double *scores = array_of(all, "scores", VKF_F64, 1, n_words);
  for (size_t i = 0; i < N_TEXTS; i++) {
    vkf_result *pass = forward(&b, list[i], "logits", &logits, &n_labels);
    for (int k = 0; k < lengths[i]; k++, w++) {
      const float *row = logits + (size_t)(k + 1) * n_labels; /* after [CLS] */
      char word[16];
      snprintf(word, sizeof word, "w%d", 5 + (7 * (int)i + 3 * k) % 90);
      assert_int_equal(of[w], i);
      assert_string_equal(vkf_result_text(all, w), word);
      expect_near(word, scores[w], softmax_of(row, n_labels, (size_t)labels[w]));
      for (size_t l = 0; l < n_labels; l++) assert_true(row[l] <= row[labels[w]]);
    }
    vkf_result_destroy(&pass);
  }
  assert_int_equal(n_words, w);
  assert_string_equal(vkf_result_text(all, n_words + 1), "LABEL_1");
  vkf_result_destroy(&all);
  bench_close(&b);
}

static void classify_images(void **state) {
  (void)state;
  bench b;
  vkf_result *all = NULL, *one = NULL;
  enum { N = 17 }; /* one more than a batch has */
  const char *paths[N], *other = VKF_SOURCE_DIR "/tests/images/rgb.png";
  for (size_t i = 0; i < N; i++) paths[i] = i + 1 < N ? VKF_SOURCE_DIR "/tests/images/chroma.jpg" : other;
  assert_int_equal(program_run("printf '{\"size\": 32}' > $T/vit/preprocessor_config.json"), 0);
  bench_open(&b, "vit");
  vkf_status status = vkf_session_classify_images(session_of(b.model), paths, N, NULL, &all);
  const bool without = status == VKF_ERROR_UNSUPPORTED;
  if (!without) {
    driver_ok(&b.d, status);
    const double *scores = array_of(all, "scores", VKF_F64, 2, N);
    driver_ok(&b.d, vkf_session_classify_images(session_of(b.model), &other, 1, NULL, &one));
    const vkf_array *alone = vkf_result_find(one, "scores");
    assert_memory_equal(scores + (N - 1) * alone->shape[1], alone->data, alone->shape[1] * sizeof *scores);
    vkf_result_destroy(&one);
    refused(&b, vkf_session_classify(session_of(b.model), paths, 1, NULL, &one), VKF_ERROR_UNSUPPORTED, "tokenizer");
  }
  vkf_result_destroy(&one);
  vkf_result_destroy(&all);
  bench_close(&b);
  if (without) skip();
}

/* ---- fill-mask --------------------------------------------------------------------------------------------------- */

static void fill_masks(void **state) {
  (void)state;
  enum { TOP = 3 };
  bench b;
  vkf_result *all = NULL;
  vkf_fill_mask_params params;
  size_t n = 0, m = 0;
  const float *logits = NULL;
  char text[512], wanted[512];
  bench_open(&b, "bert");
  make_texts("[MASK] w7 [MASK]");
  list[3] = "w5 w6"; /* no mask */
  vkf_fill_mask_params_init(&params);
  params.top_k = TOP;
  refused(&b, vkf_session_fill_mask(session_of(b.model), list, 5, &params, &all), VKF_ERROR_ARGUMENT,
          "text 4: expected the tokenizer's mask");
  params.skip_refused = true;
  driver_ok(&b.d, vkf_session_fill_mask(session_of(b.model), list, N_TEXTS, &params, &all));
  const size_t n_masks = vkf_result_find(all, "texts")->shape[0];
  const int32_t *of = array_of(all, "texts", VKF_I32, 1, n_masks),
                *positions = array_of(all, "positions", VKF_I32, 1, n_masks),
                *ids = array_of(all, "ids", VKF_I32, 2, n_masks);
  const double *scores = array_of(all, "scores", VKF_F64, 2, n_masks);
  expect_skipped(all, 3, VKF_SKIP_INVALID, "found no [MASK]");
  for (size_t i = 0; i < N_TEXTS; i++) {
    if (i == 3 || i == 5) continue; /* 5 is too long with its masks */
    vkf_result *pass = forward(&b, list[i], "logits", &logits, &n);
    for (int k = 0; k < 2; k++, m++) {
      const float *row = logits + (size_t)positions[m] * n;
      assert_int_equal(of[m], i);
      assert_int_equal(positions[m], lengths[i] + 1 + 2 * k);
      for (size_t j = 0; j < TOP; j++) {
        const int32_t id = ids[m * TOP + j];
        size_t above = 0;
        for (size_t v = 0; v < n; v++) above += row[v] > row[id];
        assert_int_equal(above, j);
        expect_near(list[i], scores[m * TOP + j], softmax_of(row, n, (size_t)id));
        if (id < 5) continue; /* a special token, whose text is empty */
        snprintf(text, sizeof text, "%.*s", (int)(strlen(list[i]) - strlen("[MASK] w7 [MASK]")), list[i]);
        snprintf(wanted, sizeof wanted, k ? "%s[MASK] w7 w%d" : "%sw%d w7 [MASK]", text, (int)id);
        assert_string_equal(vkf_result_text(all, 2 * (m * TOP + j) + 1), wanted);
      }
    }
    vkf_result_destroy(&pass);
  }
  assert_int_equal(n_masks, m);
  vkf_result_destroy(&all);
  bench_close(&b);

  const char *masked = "[MASK] w7";
  bench_open(&b, "words"); /* its logits are those of labels */
  refused(&b, vkf_session_fill_mask(session_of(b.model), &masked, 1, NULL, &all), VKF_ERROR_UNSUPPORTED,
          "expected a model with a masked language model head");
  bench_close(&b);
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

typedef struct pieces {
  char text[4][256];
  size_t n_calls, stop_at; /* 0: never */
} pieces;

static int on_text(void *user, size_t prompt, const char *text, size_t n) {
  pieces *p = user;
  assert_true(n > 0 && prompt < 4 && vkf_utf8_check(text, n, NULL));
  strncat(p->text[prompt], text, n);
  return ++p->n_calls == p->stop_at;
}

/* The pieces that on_text gets make up the text; prompts in a batch give what each gives alone; stop strings end a text
 * and its ids. */
static void generate_texts(void **state) {
  (void)state;
  static const char *const prompts[] = {"w5 w6 w7", "w9", "w8 w7 w6", "w5 w6 w7"};
  static const char *const stops[] = {"w30 w30", "0 w9999"}; /* "w30" may begin the first, its "0" the second */
  static const char *const configs[] = {"{\"max_new_tokens\": 6}",
                                        "{\"max_new_tokens\": 6, \"do_sample\": true, \"seed\": 4}"};
  bench b;
  vkf_generate_text_params params;
  bench_open(&b, "gpt2");
  for (size_t c = 0; c < 3; c++) {
    pieces p = {0};
    vkf_result *all = NULL, *one = NULL;
    vkf_generate_text_params_init(&params);
    params.config_json = configs[c % 2];
    params.on_text = on_text;
    params.user = &p;
    params.scores = true;
    params.stops = stops;
    params.n_stops = c == 2 ? 2 : 0;
    driver_ok(&b.d, vkf_session_generate_text(session_of(b.model), prompts, 4, &params, &all));
    const vkf_array *ids = vkf_result_find(all, "sequences");
    assert_int_equal(ids->shape[0], 4);
    params.on_text = NULL;
    for (size_t i = 0; i < 4; i++) {
      const uint64_t line = i;
      assert_string_equal(p.text[i], vkf_result_text(all, i));
      params.lines = &line;
      driver_ok(&b.d, vkf_session_generate_text(session_of(b.model), &prompts[i], 1, &params, &one));
      assert_string_equal(vkf_result_text(one, 0), vkf_result_text(all, i));
      vkf_result_destroy(&one);
    }
    if (c != 1) assert_string_equal(vkf_result_text(all, 0), c ? " w125 " : " w125 w30 w30 w30 w30 w30");
    const int32_t *row = ids->data;
    for (size_t t = 0; c != 1 && t < ids->shape[1]; t++)
      assert_int_equal(row[t], t == 0 ? 125 : c == 0 || t < 3 ? 30 : -1);
    const float score = ((const float *)vkf_result_find(all, "sequences_scores")->data)[0];
    assert_true(c == 2 ? isnan(score) : score < 0);
    vkf_result_destroy(&all);
  }
  bench_close(&b);
}

/* Only w5 may follow, and only if the prompt does not have it. The message says which search failed, once. */
static void generate_what_fails(void **state) {
  (void)state;
  static const char *const prompts[] = {"w9 w8", "w9 w5"};
  static int32_t ids[] = {9, 8, 9, 5};
  static const vkf_array rows = {"input_ids", VKF_I32, 2, {2, 2}, ids};
  char config[2048], *at = config;
  bench b;
  vkf_result *result = NULL;
  at +=
      sprintf(at, "{\"max_new_tokens\": 1, \"do_sample\": true, \"no_repeat_ngram_size\": 1, \"suppress_tokens\": [0");
  for (int id = 1; id < 160; id++)
    if (id != 5) at += sprintf(at, ", %d", id);
  sprintf(at, "]}");
  bench_open(&b, "gpt2");
  const vkf_generate_text_params params = {VKF_GENERATE_TEXT_PARAMS_INIT, .config_json = config};
  const vkf_generate_params of_rows = {VKF_GENERATE_PARAMS_INIT, .config_json = config};
  assert_int_not_equal(vkf_session_generate_text(session_of(b.model), prompts, 2, &params, &result), VKF_OK);
  assert_string_equal(vkf_session_message(session_of(b.model)),
                      "text 2: step 0: expected an id with a finite score, but every id is forbidden");
  assert_int_not_equal(vkf_session_generate(session_of(b.model), &rows, 1, &of_rows, &result), VKF_OK);
  assert_string_equal(vkf_session_message(session_of(b.model)),
                      "row 1: step 0: expected an id with a finite score, but every id is forbidden");
  bench_close(&b);
}

/* Prompts that come one by one; two run at a time. */
typedef struct arrivals {
  const char *const *prompts;
  size_t n, n_come, n_done, n_running, most_running, stop_after; /* 0: never */
  char texts[4][256];
  bool is_skipped[4];
} arrivals;

static int next_prompt(void *user, bool busy, vkf_queued_text *out) {
  arrivals *a = user;
  assert_int_equal(busy, a->n_running > 0);
  if (a->n_come == a->n) return 0;
  out->text = a->prompts[a->n_come];
  out->line = a->n_come;
  out->tag = a->texts[a->n_come++];
  if (++a->n_running > a->most_running) a->most_running = a->n_running;
  return 0;
}

static int prompt_done(void *user, void *tag, const vkf_result *result) {
  arrivals *a = user;
  assert_int_equal(vkf_result_text_count(result), 1);
  strncat(tag, vkf_result_text(result, 0), sizeof a->texts[0] - 1);
  for (size_t i = 0; i < 4; i++)
    if (tag == a->texts[i]) a->is_skipped[i] = vkf_result_skipped(result, 0, NULL) != VKF_SKIP_NONE;
  a->n_running--;
  return ++a->n_done == a->stop_after;
}

static int next_with_prefix(void *user, bool busy, vkf_queued_text *out) {
  (void)user;
  (void)busy;
  out->text = "w5";
  out->target_prefix = "w6";
  return 0;
}

/* Prompts from a queue get what they get in a batch: greedy, sampled by their lines, and with beams. */
static void generate_texts_that_come(void **state) {
  (void)state;
  static const char *const prompts[] = {"w5 w6 w7", "\xff", "w8 w7 w6", "w5 w6 w7"};
  static const char *const configs[] = {"{\"max_new_tokens\": 6}",
                                        "{\"max_new_tokens\": 6, \"do_sample\": true, \"seed\": 4}",
                                        "{\"max_new_tokens\": 6, \"num_beams\": 3}"};
  for (size_t c = 0; c < 6; c++) {
    bench b;
    pieces p = {0};
    arrivals a = {.prompts = prompts, .n = 4}, few = {.prompts = prompts, .n = 4, .stop_after = 2};
    vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = next_prompt, .done = prompt_done, .user = &a};
    vkf_result *all = NULL;
    vkf_generate_text_params params;
    bench_open(&b, c < 3 ? "gpt2" : "marian");
    vkf_generate_text_params_init(&params);
    params.config_json = configs[c % 3];
    params.batch_size = 2;
    params.skip_refused = true;
    driver_ok(&b.d, vkf_session_generate_text(session_of(b.model), prompts, 4, &params, &all));
    params.on_text = on_text;
    params.user = &p;
    driver_ok(&b.d, vkf_session_generate_text_queue(session_of(b.model), &queue, &params));
    assert_int_equal(a.n_done, 4);
    assert_int_equal(a.most_running, 2);
    for (size_t i = 0; i < 4; i++) {
      assert_string_equal(a.texts[i], vkf_result_text(all, i));
      assert_string_equal(p.text[i], c % 3 == 2 ? "" : a.texts[i]); /* beams are not shown as they grow */
      assert_int_equal(a.is_skipped[i], i == 1);
    }
    assert_string_not_equal(a.texts[2], "");
    queue.user = &few;
    assert_int_equal(vkf_session_generate_text_queue(session_of(b.model), &queue, &params), VKF_ERROR_STOPPED);
    assert_int_equal(few.n_done, 2); /* the skipped one and one more; the one that ran beside it has no result */
    for (size_t stop_at = 0, last = 0; c == 0 && stop_at <= last; stop_at++) { /* on_text stops at each of its calls */
      static const char *const stops[] = {"w30 w9"}; /* text that may begin it is held back up to the end */
      pieces alone = {.stop_at = stop_at};
      arrivals one = {.prompts = prompts, .n = 1};
      vkf_generate_text_params watched = params;
      watched.stops = stops;
      watched.n_stops = 1;
      watched.user = &alone;
      queue.user = &one;
      const vkf_status st = vkf_session_generate_text_queue(session_of(b.model), &queue, &watched);
      if (stop_at == 0) last = alone.n_calls;
      assert_int_equal(st, stop_at ? VKF_ERROR_STOPPED : VKF_OK);
      assert_int_equal(one.n_done, stop_at == 0);
    }
    queue.next = next_with_prefix;
    assert_int_equal(vkf_session_generate_text_queue(session_of(b.model), &queue, &params), VKF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(vkf_session_message(session_of(b.model)), "target_prefix"));
    queue.done = NULL;
    assert_int_equal(vkf_session_generate_text_queue(session_of(b.model), &queue, &params), VKF_ERROR_ARGUMENT);
    vkf_result_destroy(&all);
    bench_close(&b);
  }
}

/* A prompt that leaves no position is refused alone; one that leaves a few gets as many ids as fit. */
static void generate_up_to_the_positions(void **state) {
  (void)state;
  enum { POSITIONS = 96 };
  char longest[4 * POSITIONS] = "", little[4 * POSITIONS] = "";
  for (size_t i = 0; i <= POSITIONS; i++) strcat(longest, "w5 ");
  for (size_t i = 0; i < POSITIONS - 2; i++) strcat(little, i + 1 < POSITIONS - 2 ? "w5 " : "w5");
  const char *const prompts[] = {"w8 w7", longest, little};
  bench b;
  vkf_result *result = NULL;
  vkf_generate_text_params params;
  bench_open(&b, "gpt2");
  vkf_generate_text_params_init(&params);
  params.config_json = "{\"max_new_tokens\": 6, \"min_new_tokens\": 6}";
  params.skip_refused = params.scores = true;
  driver_ok(&b.d, vkf_session_generate_text(session_of(b.model), prompts, 3, &params, &result));
  const vkf_array *ids = vkf_result_find(result, "sequences");
  const int32_t *row = ids->data;
  size_t n[3] = {0};
  for (size_t i = 0; i < 3 * ids->shape[1]; i++) n[i / ids->shape[1]] += row[i] >= 0;
  assert_int_equal(n[0], 6);
  assert_int_equal(n[1], 0);
  assert_int_equal(n[2], 3); /* two more positions, and one id that is not fed to the model */
  const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
  assert_true(scores[0] < 0 && isnan(scores[1]) && scores[2] < 0);
  assert_int_equal(vkf_result_skipped(result, 1, NULL), VKF_SKIP_LONG);
  vkf_result_destroy(&result);
  params.long_texts = VKF_LONG_TRUNCATE;
  driver_ok(&b.d, vkf_session_generate_text(session_of(b.model), prompts, 3, &params, &result));
  assert_int_equal(vkf_result_skipped(result, 1, NULL), VKF_SKIP_NONE);
  row = vkf_result_find(result, "sequences")->data;
  for (size_t i = 0; i < 3 * 6; i++) assert_true(row[i] >= 0);
  vkf_result_destroy(&result);
  bench_close(&b);
}

static void generate_until_told(void **state) {
  (void)state;
  static const char *const prompts[] = {"w5 w6 w7", "w9"};
  bench b;
  pieces p = {.stop_at = 3};
  vkf_result *result = NULL;
  vkf_generate_text_params params;
  bench_open(&b, "gpt2");
  vkf_generate_text_params_init(&params);
  params.config_json = "{\"max_new_tokens\": 9}";
  params.on_text = on_text;
  params.user = &p;
  params.batch_size = 1;
  /* runs the first one in the caller's order; the other does not start */
  assert_int_equal(vkf_session_generate_text(session_of(b.model), prompts, 2, &params, &result), VKF_ERROR_STOPPED);
  assert_non_null(strstr(vkf_session_message(session_of(b.model)), "asked to stop"));
  assert_int_equal(p.n_calls, 3);
  assert_string_equal(vkf_result_text(result, 0), p.text[0]);
  assert_true(p.text[0][0] && !p.text[1][0]);
  assert_string_equal(vkf_result_text(result, 1), "");
  assert_int_equal(vkf_result_find(result, "sequences")->shape[1], 3);
  vkf_result_destroy(&result);
  params.long_texts = VKF_LONG_SPLIT;
  refused(&b, vkf_session_generate_text(session_of(b.model), prompts, 2, &params, &result), VKF_ERROR_ARGUMENT,
          "what follows a part");
  const char *empty = "";
  vkf_generate_text_params_init(&params);
  params.stops = &empty;
  params.n_stops = 1;
  refused(&b, vkf_session_generate_text(session_of(b.model), prompts, 2, &params, &result), VKF_ERROR_ARGUMENT,
          "stop string 1");
  const char *half = "\xc3"; /* of a character */
  params.stops = &half;
  refused(&b, vkf_session_generate_text(session_of(b.model), prompts, 2, &params, &result), VKF_ERROR_ARGUMENT,
          "expected UTF-8 as stop string 1");
  bench_close(&b);
}

/* ---- translate --------------------------------------------------------------------------------------------------- */

/* A text that is split has a row of `sequences` for each part, and their texts are joined; a skipped one has no row. */
static void translate_parts(void **state) {
  (void)state;
  bench b;
  vkf_result *result = NULL;
  char text[2048] = "";
  for (int i = 0; i < 150; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "w%d ", 40 + i % 100);
  const char *three[] = {"w41", text, "w42\xff"};
  vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"max_new_tokens\": 3, \"num_beams\": 1}",
                                .skip_refused = true};
  bench_open(&b, "marian");
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), three, 3, &params, &result));
  expect_skipped(result, 1, VKF_SKIP_LONG, "found 150");
  expect_skipped(result, 2, VKF_SKIP_INVALID, "UTF-8");
  assert_int_equal(vkf_result_find(result, "sequences")->shape[0], 1);
  vkf_result_destroy(&result);
  const char *blank[] = {"w41", " ", "w42"}, *prefixes[] = {"w43", NULL, "w44\xff"};
  params.target_prefixes = prefixes;
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), blank, 3, &params, &result));
  expect_skipped(result, 1, VKF_SKIP_INVALID, "at least one word");
  expect_skipped(result, 2, VKF_SKIP_INVALID, "the beginning of its translation is not UTF-8");
  assert_int_equal(vkf_result_find(result, "sequences")->shape[0], 1);
  vkf_result_destroy(&result);
  params.target_prefixes = NULL;
  params.long_texts = VKF_LONG_SPLIT;
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), three, 2, &params, &result));
  const vkf_array *of = vkf_result_find(result, "texts");
  assert_true(of->shape[0] >= 3 && ((const int32_t *)of->data)[0] == 0 && ((const int32_t *)of->data)[1] == 1 &&
              ((const int32_t *)of->data)[2] == 1);
  assert_int_equal(vkf_result_text_count(result), 2);
  const int32_t *n_tokens = array_of(result, "n_tokens", VKF_I32, 1, 2);
  assert_int_equal(n_tokens[0], 1);
  assert_int_equal(n_tokens[1], 150);
  vkf_result_destroy(&result);
  bench_close(&b);
}

/* force_words of the call are added to those of the configuration. */
static void translate_with_words(void **state) {
  (void)state;
  static const char *const text = "w41 w42", *const words[] = {"w45 w46"};
  bench b;
  vkf_result *result = NULL;
  const vkf_generate_params params = {
      VKF_GENERATE_PARAMS_INIT,
      .config_json = "{\"max_new_tokens\": 6, \"num_beams\": 4, \"force_words_ids\": [[47, 48]]}", .force_words = words,
      .n_force_words = 1};
  bench_open(&b, "marian");
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), &text, 1, &params, &result));
  const char *found = vkf_result_text(result, 0);
  if (!strstr(found, "w45 w46") || !strstr(found, "w47 w48")) fail_msg("found '%s'", found);
  vkf_result_destroy(&result);
  bench_close(&b);
}

static int has_token(void *user, size_t row, int32_t token) {
  (void)user, (void)row;
  assert_true(token >= 0);
  return 0;
}

enum { ALTERNATIVES = 5, KEPT = 2 };

/* Asks for alternatives that begin with a probability of at least `least`: of a translation with a prefix, or of a
 * prompt. */
static vkf_result *alternatives(bench *b, bool encodes, unsigned beams, double least) {
  static const char *const text = "w41 w42", *const prefix = "w45 w46";
  vkf_result *result = NULL;
  char config[256];
  snprintf(config, sizeof config,
           "{\"num_beams\": %u, \"num_return_sequences\": %d, \"return_alternatives\": true, \"max_new_tokens\": 3, "
           "\"min_alternative_expansion_prob\": %.9g}",
           beams, ALTERNATIVES, least);
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config, .target_prefixes = &prefix,
                                      .on_token = beams == 1 ? has_token : NULL};
  const vkf_generate_text_params of_text = {VKF_GENERATE_TEXT_PARAMS_INIT, .config_json = config,
                                            .top_logprobs = beams == 1};
  driver_ok(&b->d, encodes ? vkf_session_translate(session_of(b->model), &text, 1, &params, &result)
                           : vkf_session_generate_text(session_of(b->model), &text, 1, &of_text, &result));
  return result;
}

/* Alternatives that begin with too little probability are absent; the others are as if all were there. */
static void absent_alternatives(void **state) {
  (void)state;
  static const int32_t prefix[] = {0, 45, 46};
  for (unsigned i = 0; i < 4; i++) {
    bench b;
    const bool encodes = i / 2;
    const size_t n_before = encodes ? VKF_COUNT(prefix) : 0;
    bench_open(&b, encodes ? "marian" : "gpt2");
    vkf_result *all = alternatives(&b, encodes, 1 + i % 2, 0);
    const int32_t *all_ids = array_of(all, "sequences", VKF_I32, 2, ALTERNATIVES);
    const float *all_scores = array_of(all, "sequences_scores", VKF_F32, 1, ALTERNATIVES),
                *logprobs = array_of(all, "token_scores", VKF_F32, 2, ALTERNATIVES);
    const size_t T = vkf_result_find(all, "sequences")->shape[1];
    assert_true(logprobs[T + n_before] > logprobs[2 * T + n_before]);
    vkf_result *some =
        alternatives(&b, encodes, 1 + i % 2, exp((double)(logprobs[T + n_before] + logprobs[2 * T + n_before]) / 2));
    const int32_t *ids = array_of(some, "sequences", VKF_I32, 2, ALTERNATIVES);
    const float *scores = array_of(some, "sequences_scores", VKF_F32, 1, ALTERNATIVES);
    const size_t length = vkf_result_find(some, "sequences")->shape[1];
    for (size_t row = 0; row < ALTERNATIVES; row++) {
      assert_string_equal(vkf_result_text(some, row), row < KEPT ? vkf_result_text(all, row) : "");
      assert_true(row < KEPT ? scores[row] == all_scores[row] : scores[row] == -INFINITY);
      for (size_t t = 0; t < length; t++)
        assert_int_equal(ids[row * length + t], row < KEPT     ? all_ids[row * T + t]
                                                : t < n_before ? prefix[t]
                                                               : (encodes ? 0 : -1));
    }
    if (i == 0)
      assert_int_equal(((const int32_t *)array_of(some, "top_ids", VKF_I32, 3, ALTERNATIVES))[KEPT * length], -1);
    vkf_result_destroy(&some);
    vkf_result_destroy(&all);
    bench_close(&b);
  }
}

static void write_bytes(const char *folder, const char *name, const void *data, size_t n) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s/%s", program_folder, folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}

/* With Marian's older files target.spm tokenizes target prefixes and the targets to score. */
static void targets_of_marian(void **state) {
  (void)state;
  bench b;
  vkf_result *result = NULL;
  bytes source = small_spm(unigram, 2), target = small_spm(unigram, 2);
  char vocab[4096] = "{\"<pad>\":0,\"<unk>\":1,\"" MARK "\":2,\"ab\":3,\"" MARK "ab\":4,\"</s>\":36";
  for (int i = 5; i < 150; i++)
    if (i != 36) snprintf(vocab + strlen(vocab), sizeof vocab - strlen(vocab), ",\"w%d\":%d", i, i);
  strcat(vocab, "}");
  put_piece(&target, MARK "ab", 0, NORMAL);
  program_must("mkdir $T/spm && cp $T/marian/*.safetensors $T/marian/config.json $T/spm", 0, "", "");
  write_bytes("spm", "source.spm", source.data, source.n);
  write_bytes("spm", "target.spm", target.data, target.n);
  write_bytes("spm", "vocab.json", vocab, strlen(vocab));
  const char *text = "ab", *prefix = "ab ab";
  bench_open(&b, "spm");
  driver_ok(&b.d, vkf_session_score(session_of(b.model), &text, &text, 1, NULL, &result));
  assert_memory_equal(array_of(result, "ids", VKF_I32, 2, 1), ((const int32_t[]){4, 36}), 2 * sizeof(int32_t));
  vkf_result_destroy(&result);
  const vkf_generate_params params = {
      VKF_GENERATE_PARAMS_INIT, .config_json = "{\"max_new_tokens\": 5, \"num_beams\": 1}", .target_prefixes = &prefix};
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), &text, 1, &params, &result));
  assert_memory_equal(array_of(result, "sequences", VKF_I32, 2, 1), ((const int32_t[]){0, 4, 4}), 3 * sizeof(int32_t));
  vkf_result_destroy(&result);
  bench_close(&b);
  write_tokenizer("marian", 200, (const char *const[]){"0 <pad>", "36 <eos>"}, 2, NULL, NULL); /* of 150 */
  bench_open(&b, "marian");
  text = "w41", prefix = "w42 w150";
  refused(&b, vkf_session_score(session_of(b.model), &text, &prefix, 1, NULL, &result), VKF_ERROR_ARGUMENT,
          "target text 1: expected ids below the vocabulary's size 150, found 150");
  refused(&b, vkf_session_score(session_of(b.model), &text, &text, 1, "{\"forced_bos_token_id\": 42}", &result),
          VKF_ERROR_UNSUPPORTED, "expected a model without languages");
  const vkf_generate_params pulled = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"prefix_bias_beta\": 0.5}",
                                      .target_prefixes = &prefix};
  refused(&b, vkf_session_translate(session_of(b.model), &text, 1, &pulled, &result), VKF_ERROR_ARGUMENT,
          "prefix[0,1] is 150");
  bench_close(&b);
  write_tokenizer("marian", 150, (const char *const[]){"0 <pad>", "36 <eos>"}, 2, NULL, NULL);
}

/* Splits a text at spaces, in place. Returns how many words it has. */
static size_t split_words(char *text, char *words[MAX_WORDS]) {
  size_t n = 0;
  for (char *word = strtok(text, " "); word && n < MAX_WORDS; word = strtok(NULL, " ")) words[n++] = word;
  return n;
}

/* An unknown token is replaced by the source word that has most of its attention, without the comma after it. Some of
 * the words have no token of their own. */
static void unknown_tokens(void **state) {
  (void)state;
  enum { UNKNOWN = 3, N = 3 };
  static const char *const sources[N] = {
      "w30 Stra\xc3\x9f"
      "e w31 w32",
      "Zo\xc3\xab", "w40 w41, w42 x-y w43 w44"};
  bench b;
  vkf_result *result = NULL, *plain = NULL;
  size_t n_replaced = 0;
  vkf_generate_params params = {
      VKF_GENERATE_PARAMS_INIT,
      .config_json = "{\"max_new_tokens\": 6, \"num_beams\": 4, \"force_words_ids\": [[3, 3]]}", .alignments = true};
  bench_open(&b, "mbart");
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), sources, N, &params, &plain));
  params.replace_unknowns = true;
  driver_ok(&b.d, vkf_session_translate(session_of(b.model), sources, N, &params, &result));
  const vkf_array *ids = vkf_result_find(result, "sequences"), *weights = vkf_result_find(result, "alignments");
  assert_memory_equal(ids->data, vkf_result_find(plain, "sequences")->data, ids->shape[0] * ids->shape[1] * 4);
  for (size_t i = 0; i < N; i++) {
    char copy[128], expected[512] = "", *words[MAX_WORDS];
    snprintf(copy, sizeof copy, "%s", sources[i]);
    const size_t n_words = split_words(copy, words), S = weights->shape[2];
    for (size_t t = 1; t < ids->shape[1]; t++) {
      const int32_t id = ((const int32_t *)ids->data)[i * ids->shape[1] + t];
      const float *its = (const float *)weights->data + (i * ids->shape[1] + t) * S;
      size_t best = 0;
      for (size_t s = 1; s < n_words; s++)
        if (its[s] > its[best]) best = s;
      if (id != UNKNOWN && (id < 4 || id == 17 || id == 18)) continue; /* special */
      size_t at = strlen(expected);
      if (id == UNKNOWN)
        snprintf(expected + at, sizeof expected - at, " %.*s", (int)strcspn(words[best], ","), words[best]);
      else
        snprintf(expected + at, sizeof expected - at, " w%d", id);
      n_replaced += id == UNKNOWN;
    }
    assert_string_equal(vkf_result_text(result, i), expected + 1);
    assert_null(strstr(vkf_result_text(plain, i), words[0]));
  }
  assert_true(n_replaced >= 2 * N);
  vkf_result_destroy(&plain);
  vkf_result_destroy(&result);
  bench_close(&b);
}

/* ---- examples ---------------------------------------------------------------------------------------------------- */

static void examples(void **state) {
  (void)state;
  if (program_run("test -x " VKF_BINARY_DIR "/example_embed") != 0) skip(); /* VKF_BUILD_EXAMPLES is off */
  program_must(VKF_BINARY_DIR "/example_embed $T/bert 'w5 w6' 'w5 w6' w9", 0, " 1.0000 1.0000", "");
  program_must(VKF_BINARY_DIR "/example_stream " VKF_SOURCE_DIR "/models/en-es 'I am here.'", 0, "Estoy aquí.\n", "");
  program_must("printf 'w5 w6\\n\\nw7\\n' | " VKF_BINARY_DIR "/example_chat $T/gpt2 | wc -l", 0, "2\n", "");
  program_must(VKF_BINARY_DIR "/example_threads " VKF_SOURCE_DIR
                              "/models/en-es 'I am here.' Yes. 'Good morning.' > $T/x && "
                              "$V translate 'I am here.' Yes. 'Good morning.' | cmp - $T/x",
               0, "", "");
  program_must(VKF_BINARY_DIR "/example_classify $T/labels 'w5 w6' w9 | grep -c LABEL_", 0, "6\n", "");
  program_must(VKF_BINARY_DIR "/example_classify $T/words w5", 0, "", "found one that labels words");
  program_must(VKF_BINARY_DIR "/example_classify $T/bert w5", 1, "", "expected a model with a classification head");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static vkf_status call(vkf_model *const models[4], size_t which, vkf_result **out) {
  static const char *const two[] = {"w5 w6 [MASK]", "w7 [MASK]"}, *const stops[] = {"w999"};
  arrivals a = {.prompts = two, .n = 2};
  const vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = next_prompt, .done = prompt_done, .user = &a};
  vkf_generate_text_params params;
  vkf_embedding_params similar;
  vkf_generate_text_params_init(&params);
  params.config_json = "{\"max_new_tokens\": 2}";
  params.stops = stops;
  params.n_stops = 1;
  params.top_logprobs = 2;
  vkf_embedding_params_init(&similar);
  similar.similarity = true;
  return which == 0   ? vkf_session_embed(session_of(models[0]), two, 2, &similar, out)
         : which == 1 ? vkf_session_fill_mask(session_of(models[0]), two, 2, NULL, out)
         : which == 2 ? vkf_session_classify(session_of(models[1]), two, 2, NULL, out)
         : which == 3 ? vkf_session_classify(session_of(models[2]), two, 2, NULL, out)
         : which == 4 ? vkf_session_generate_text(session_of(models[3]), two, 2, &params, out)
                      : vkf_session_generate_text_queue(session_of(models[3]), &queue, &params);
}

/* Each allocation fails once, on the scalar path: the call returns an error and frees everything. */
static void every_allocation(void **state) {
  (void)state;
  static const char *const names[] = {"bert", "labels", "words", "gpt2"};
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *models[4] = {0};
  char path[512];
  program_ok(NULL, vkf_context_create(NULL, &context));
  program_ok(context, vkf_device_open(context, "ref", &device));
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", program_folder, names[i]);
    program_ok(context, vkf_model_open(device, path, &models[i]));
  }
  for (size_t which = 0; which < 6; which++) {
    vkf_result *result = NULL;
    program_ok(context, call(models, which, &result)); /* plans are made */
    vkf_result_destroy(&result);
    const uint64_t before = context->env.n_allocations, bytes = context->env.live_bytes;
    program_ok(context, call(models, which, &result));
    vkf_result_destroy(&result);
    const uint64_t n = context->env.n_allocations - before;
    assert_true(n > 20 && n < 5000);
    for (uint64_t at = 1; at <= n; at++) {
      context->env.fail_at = context->env.n_allocations + at;
      const vkf_status status = call(models, which, &result);
      context->env.fail_at = 0;
      if (status != VKF_ERROR_MEMORY || result) fail_msg("call %zu, allocation %u: %d", which, (unsigned)at, status);
    }
    assert_int_equal(context->env.live_bytes, bytes);
  }
  for (size_t i = 0; i < 4; i++) close_model(&models[i]);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
}

PROGRAM_MAIN(word_models, cmocka_unit_test(embed_in_batches), cmocka_unit_test(embed_without_device_memory),
             cmocka_unit_test(embed_what_is_refused), cmocka_unit_test(params_that_grow),
             cmocka_unit_test(classify_texts), cmocka_unit_test(classify_pairs), cmocka_unit_test(classify_candidates),
             cmocka_unit_test(classify_parts), cmocka_unit_test(classify_as_the_folder_says),
             cmocka_unit_test(classify_words), cmocka_unit_test(classify_images), cmocka_unit_test(fill_masks),
             cmocka_unit_test(generate_texts), cmocka_unit_test(generate_what_fails),
             cmocka_unit_test(generate_texts_that_come), cmocka_unit_test(generate_up_to_the_positions),
             cmocka_unit_test(generate_until_told), cmocka_unit_test(translate_parts),
             cmocka_unit_test(translate_with_words), cmocka_unit_test(absent_alternatives),
             cmocka_unit_test(targets_of_marian), cmocka_unit_test(unknown_tokens), cmocka_unit_test(examples),
             cmocka_unit_test(every_allocation))
