/* The public interface from inside a program, on the device that VKF_DEVICE names: single ops against numbers worked
 * out by hand, callbacks that stop, alignments, two contexts, results that outlive their model. After each test the
 * device must have no memory in use.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <vkformer/lab.h>

#include "support/missing.h"
#include "support/worked.h"
#include "support/sessions.h"

#define MODEL VKF_SOURCE_DIR "/models/en-es"
static const char *const cat = "The cat sat on the mat because it was tired.";

typedef struct fixture {
  vkf_context *context;
  vkf_device *device;
} fixture;

#define OK(call)                                                    \
  do {                                                              \
    if ((call) != VKF_OK) fail_msg("%s", last_message(f->context)); \
  } while (0)

/* Opens one device for all tests, so that SwiftShader compiles each kernel once. */
static int open_device(void **state) {
  static fixture f;
  memset(&f, 0, sizeof f);
  *state = &f;
  if (vkf_context_create(NULL, &f.context) != VKF_OK) return -1;
  if (vkf_device_open(f.context, NULL, &f.device) != VKF_OK) {
    fprintf(stderr, "%s\n", last_message(f.context));
    return -1;
  }
  return 0;
}

/* Checks after each test that closing everything has freed all device memory. */
static int is_empty(void **state) {
  fixture *f = *state;
  uint64_t now = 0, peak = 0;
  vkf_device_memory(f->device, &now, &peak);
  if (now != 0)
    fprintf(stderr, "expected 0 bytes on the device after everything was closed, found %llu\n",
            (unsigned long long)now);
  return now == 0 ? 0 : -1;
}

static int close_device(void **state) {
  fixture *f = *state;
  vkf_device_close(&f->device);
  vkf_context_destroy(&f->context);
  return f->device || f->context ? -1 : 0;
}

/* Attention with one head over three words of width 4 gives the worked numbers, within their digits and the error that
 * is reported. An error of an input adds to this error and changes no other number. */
static void test_attention_by_hand(void **state) {
  fixture *f = *state;
  float q[12], k[12], v[12], off[12];
  const worked want = worked_get("attention", "output"), values = worked_get("qkv", "V");
  worked_input("scores", "Q", q, 12);
  worked_input("scores", "K", k, 12);
  for (int i = 0; i < 12; i++) v[i] = (float)values.value[i], off[i] = 0.01f;
  const vkf_array inputs[] = {{"q", VKF_F32, 4, {1, 3, 1, 4}, q},
                              {"k", VKF_F32, 4, {1, 3, 1, 4}, k},
                              {"v", VKF_F32, 4, {1, 3, 1, 4}, v},
                              {"v.error", VKF_F32, 4, {1, 3, 1, 4}, off}};
  const float *errors[2];
  vkf_result *results[2] = {NULL, NULL};
  for (size_t i = 0; i < 2; i++) {
    OK(vkf_device_run_op(f->device, "attention", "{\"scale\": 0.5, \"trace\": true}", inputs, 3 + i, NULL,
                         &results[i]));
    const float *out = vkf_result_find(results[i], "out")->data;
    errors[i] = vkf_result_find(results[i], "out.error")->data;
    for (int e = 0; e < 12; e++)
      if (!(fabs((double)out[e] - want.value[e]) <= want.half[e] + (double)errors[i][e]))
        fail_msg("element %d: %.9g, expected %.9g", e, (double)out[e], want.value[e]);
  }
  for (int e = 0; e < 12; e++) { /* the weights of a row sum to one */
    double added = (double)errors[1][e] - (double)errors[0][e];
    assert_true((double)errors[0][e] < 1e-4 && added > 0.0099 && added < 0.0101);
  }
  vkf_result_destroy(&results[0]);
  vkf_result_destroy(&results[1]);
}

/* Keys 0 and 4 under a soft cap of 2 differ by 2 tanh(2). */
static void test_attention_with_a_soft_cap(void **state) {
  fixture *f = *state;
  static float q[] = {1}, k[] = {0, 4}, v[] = {0, 1};
  const vkf_array inputs[] = {
      {"q", VKF_F32, 4, {1, 1, 1, 1}, q}, {"k", VKF_F32, 4, {1, 2, 1, 1}, k}, {"v", VKF_F32, 4, {1, 2, 1, 1}, v}};
  vkf_result *result = NULL;
  OK(vkf_device_run_op(f->device, "attention", "{\"softcap\": 2}", inputs, 3, NULL, &result));
  const float *out = vkf_result_find(result, "out")->data;
  assert_true(fabs((double)out[0] - 1 / (1 + exp(-2 * tanh(2)))) < 1e-6);
  vkf_result_destroy(&result);
  assert_int_equal(vkf_device_run_op(f->device, "attention", "{\"softcap\": -1}", inputs, 3, NULL, &result),
                   VKF_ERROR_ARGUMENT);
}

static void test_inputs_of_no_use(void **state) {
  fixture *f = *state;
  static float numbers[] = {1, 2};
  vkf_array inputs[] = {{"x", VKF_F32, 2, {1, 1}, numbers},
                        {"w1", VKF_F32, 2, {2, 1}, numbers},
                        {"w2", VKF_F32, 2, {1, 2}, numbers},
                        {"bg", VKF_F32, 1, {2}, numbers}};
  vkf_result *result = NULL;
  OK(vkf_device_run_op(f->device, "ffn", NULL, inputs, 3, NULL, &result));
  vkf_result_destroy(&result);
  assert_int_equal(vkf_device_run_op(f->device, "ffn", NULL, inputs, 4, NULL, &result), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(last_message(f->context), "bg: expected wg as well"));
  inputs[3].name = "w1 b1"; /* names are not split at spaces */
  assert_int_equal(vkf_device_run_op(f->device, "ffn", NULL, inputs, 4, NULL, &result), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(last_message(f->context), "no input called w1 b1"));
}

static void test_matmul_is_exact_on_halves(void **state) {
  fixture *f = *state;
  static float x[] = {1, 2.5f, -3, 0.5f, 0, 4}, w[] = {2, 0, 1, -1, 1, 0.5f}, bias[] = {0.5f, -7};
  /* x w^T + bias, then relu */
  static const float expected[] = {0, 0, 5.5f, 0};
  const vkf_array inputs[] = {
      {"x", VKF_F32, 2, {2, 3}, x}, {"w", VKF_F32, 2, {2, 3}, w}, {"bias", VKF_F32, 1, {2}, bias}};
  vkf_result *result = NULL;
  OK(vkf_device_run_op(f->device, "matmul", "{\"activation\": \"relu\"}", inputs, 3, NULL, &result));
  assert_memory_equal(vkf_result_find(result, "out")->data, expected, sizeof expected);
  vkf_result_destroy(&result);
}

static void expect_refused(fixture *f, vkf_status status, const char *words) {
  assert_int_not_equal(status, VKF_OK);
  if (!strstr(last_message(f->context), words)) fail_msg("'%s' is not in '%s'", words, last_message(f->context));
}

/* Rotates half of a head, by a quarter turn where the table says so: (x0, x1) becomes (-x1, x0). */
static void test_rope_by_a_given_table(void **state) {
  fixture *f = *state;
  static float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, cosines[] = {0, 1}, sines[] = {1, 0};
  static int32_t positions[] = {1, 0};
  static const float expected[] = {1, 2, 3, 4, -6, 5, 7, 8};
  const vkf_array inputs[] = {{"x", VKF_F32, 2, {2, 4}, x},
                              {"positions", VKF_I32, 1, {2}, positions},
                              {"sin", VKF_F32, 2, {2, 1}, sines},
                              {"cos", VKF_F32, 2, {2, 1}, cosines}};
  vkf_result *result = NULL;
  OK(vkf_device_run_op(f->device, "rope", NULL, inputs, 4, NULL, &result));
  assert_memory_equal(vkf_result_find(result, "out")->data, expected, sizeof expected);
  vkf_result_destroy(&result);
  expect_refused(f, vkf_device_run_op(f->device, "rope", NULL, inputs, 3, NULL, &result), "cos");
  expect_refused(f, vkf_device_run_op(f->device, "rope", "{\"base\": 100}", inputs, 4, NULL, &result), "base");
  positions[0] = 2;
  expect_refused(f, vkf_device_run_op(f->device, "rope", NULL, inputs, 4, NULL, &result), "positions[0] is 2");
  positions[0] = 1;
  assert_null(result);
}

/* A pre-norm block whose output projections are zero returns its input, bit by bit; the trace has the values inside. */
static void test_a_block_with_its_trace(void **state) {
  fixture *f = *state;
  static float x[] = {1, 2, -3, 0.5f, 0, 4, 7, -1}, w[16] = {1, 2, 3, 4, -1}, zero[16];
  const vkf_array inputs[] = {{"x", VKF_F32, 2, {2, 4}, x},     {"wq", VKF_F32, 2, {4, 4}, w},
                              {"wk", VKF_F32, 2, {4, 4}, w},    {"wv", VKF_F32, 2, {4, 4}, w},
                              {"wo", VKF_F32, 2, {4, 4}, zero}, {"w1", VKF_F32, 2, {4, 4}, w},
                              {"w2", VKF_F32, 2, {4, 4}, zero}};
  static const char params[] = "{\"heads\": 2, \"norm\": \"pre\", \"trace\": true}";
  vkf_result *result = NULL;
  OK(vkf_device_run_op(f->device, "encoder_block", params, inputs, 7, NULL, &result));
  assert_memory_equal(vkf_result_find(result, "out")->data, x, sizeof x);
  const vkf_array *weights = vkf_result_find(result, "weights");
  assert_int_equal(weights->rank, 4);
  for (int row = 0; row < 4; row++) {
    const float *at = (const float *)weights->data + 2 * row;
    if (!(fabsf(at[0] + at[1] - 1) < 1e-6f)) fail_msg("row %d: %g and %g", row, at[0], at[1]);
  }
  assert_int_equal(vkf_result_find(result, "weights.exact")->dtype, VKF_F64);
  assert_int_equal(vkf_result_find(result, "weights.bound")->dtype, VKF_F64);
  assert_int_equal(vkf_result_find(result, "weights.error")->dtype, VKF_F32);
  vkf_result_destroy(&result);
}

static void test_ops_are_refused_by_name(void **state) {
  fixture *f = *state;
  static float x[6], w[8];
  const vkf_array inputs[] = {{"x", VKF_F32, 2, {2, 3}, x}, {"w", VKF_F32, 2, {2, 4}, w}};
  vkf_result *result = NULL;
  expect_refused(f, vkf_device_run_op(f->device, "nosuch", NULL, inputs, 2, NULL, &result), "nosuch");
  expect_refused(f, vkf_device_run_op(f->device, "matmul", NULL, inputs, 2, NULL, &result), "w");
  expect_refused(f, vkf_device_run_op(f->device, "matmul", NULL, inputs, 1, NULL, &result), "w");
  const vkf_array attention[] = {{"x", VKF_F32, 2, {2, 3}, x},
                                 {"wq", VKF_F32, 2, {2, 3}, x},
                                 {"wk", VKF_F32, 2, {2, 3}, x},
                                 {"wv", VKF_F32, 2, {2, 3}, x},
                                 {"wo", VKF_F32, 2, {2, 2}, w}};
  static const char *const name = "multi_head_attention";
  expect_refused(f, vkf_device_run_op(f->device, name, "{\"heads\": 3}", attention, 5, NULL, &result), "wq has 2 rows");
  expect_refused(f, vkf_device_run_op(f->device, name, "{\"head\": 3}", attention, 5, NULL, &result), "called head");
  static float negative[] = {0, 0, -1, 0, 0, 0};
  const vkf_array errors[] = {{"x", VKF_F32, 2, {2, 3}, x}, {"x.error", VKF_F32, 2, {2, 3}, negative}};
  const vkf_array narrow[] = {{"x", VKF_F32, 2, {2, 3}, x}, {"x.error", VKF_F32, 2, {2, 2}, negative}};
  static const char *const trace = "{\"trace\": true}";
  expect_refused(f, vkf_device_run_op(f->device, "norm", NULL, errors, 2, NULL, &result), "no input called x.error");
  expect_refused(f, vkf_device_run_op(f->device, "norm", trace, errors, 2, NULL, &result), "at least 0, found -1");
  expect_refused(f, vkf_device_run_op(f->device, "norm", trace, narrow, 2, NULL, &result), "of the shape of x");
  expect_refused(f, vkf_device_run_op(f->device, "top_k", "{\"k\": 4}", attention, 1, NULL, &result), "found 4");
  assert_null(result);
}

typedef struct counter {
  int calls, stop_at;
} counter;

static int count(void *user, size_t row, int32_t token) {
  counter *c = user;
  (void)row;
  (void)token;
  return ++c->calls == c->stop_at;
}

static void test_the_callback_sees_every_token_and_stops(void **state) {
  fixture *f = *state;
  vkf_model *model = NULL;
  vkf_result *whole = NULL, *part = NULL;
  counter all = {0, -1}, three = {0, 3};
  vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}", .on_token = count,
                                .user = &all};
  OK(vkf_model_open(f->device, MODEL, &model));
  OK(vkf_session_translate(session_of(model), &cat, 1, &params, &whole));
  const vkf_array *ids = vkf_result_find(whole, "sequences");
  assert_int_equal(all.calls, ids->shape[1] - 1); /* all but the start token */
  params.user = &three;
  assert_int_equal(vkf_session_translate(session_of(model), &cat, 1, &params, &part), VKF_ERROR_STOPPED);
  assert_int_equal(three.calls, 3);
  const vkf_array *some = vkf_result_find(part, "sequences");
  assert_int_equal(some->shape[1], 4);
  assert_memory_equal(some->data, ids->data, 4 * sizeof(int32_t));
  close_model(&model);
  /* Results outlive their model. */
  assert_string_equal(vkf_result_text(whole, 0), "El gato se sent\xc3\xb3 en la mata porque estaba cansado.");
  vkf_result_destroy(&part);
  vkf_result_destroy(&whole);
}

/* Texts for vkf_session_translate_queue(): two at first, then another one whenever one is done. */
enum { N_COME = 5 };
static const char *const come[N_COME] = {"I am here.", "The cat sat on the mat because it was tired.", "We like it.",
                                         "Tom and Mary have three children and a dog.", "Yes."};
typedef struct arrivals {
  size_t n_may, n_come, n_done, n_running, most_running, stop_after, n_tokens[N_COME];
  char texts[N_COME][128];
} arrivals;

static int next_text(void *user, bool busy, vkf_queued_text *out) {
  arrivals *a = user;
  assert_int_equal(out->size, sizeof *out);
  assert_int_equal(busy, a->n_running > 0);
  if (a->n_come == N_COME || a->n_come == a->n_may) return 0;
  out->text = come[a->n_come];
  out->tag = a->texts[a->n_come++];
  if (++a->n_running > a->most_running) a->most_running = a->n_running;
  return 0;
}

static int text_done(void *user, void *tag, const vkf_result *result) {
  arrivals *a = user;
  assert_int_equal(vkf_result_text_count(result), 1);
  snprintf(tag, sizeof a->texts[0], "%s", vkf_result_text(result, 0));
  a->n_running--;
  a->n_may++;
  return ++a->n_done == a->stop_after;
}

static int token_came(void *user, size_t text, int32_t token) {
  arrivals *a = user;
  (void)token;
  assert_true(text < N_COME);
  a->n_tokens[text]++;
  return 0;
}

static void test_texts_that_come(void **state) {
  fixture *f = *state;
  vkf_model *model = NULL;
  vkf_result *together = NULL;
  arrivals a = {.n_may = 2}, at_once = {0}, stopped = {.n_may = 2, .stop_after = 2};
  vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = next_text, .done = text_done, .user = &a};
  vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}", .batch_size = 3};
  OK(vkf_model_open(f->device, MODEL, &model));
  params.on_token = token_came;
  params.user = &at_once;
  OK(vkf_session_translate(session_of(model), come, N_COME, &params, &together));
  params.user = &a;
  OK(vkf_session_translate_queue(session_of(model), &queue, &params));
  params.on_token = NULL;
  assert_int_equal(a.n_done, N_COME);
  assert_int_equal(a.most_running, 2);
  for (size_t i = 0; i < N_COME; i++) {
    assert_string_equal(a.texts[i], vkf_result_text(together, i));
    assert_int_equal(a.n_tokens[i], at_once.n_tokens[i]);
  }
  queue.user = &stopped;
  assert_int_equal(vkf_session_translate_queue(session_of(model), &queue, &params), VKF_ERROR_STOPPED);
  assert_true(stopped.n_done >= 2 && stopped.n_come <= 3);
  close_model(&model);
  vkf_result_destroy(&together);
}

/* The token scores of a translation are those of vkf_session_score() for the same tokens. */
static void test_token_scores(void **state) {
  fixture *f = *state;
  static const char text[] = "Yes.", *const configs[] = {"{\"num_beams\": 1}", "{\"num_beams\": 3}"};
  const char *const source = text;
  vkf_model *model = NULL;
  OK(vkf_model_open(f->device, MODEL, &model));
  for (size_t c = 0; c < 2; c++) {
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = configs[c], .scores = true};
    vkf_result *found = NULL, *scored = NULL;
    OK(vkf_session_translate(session_of(model), &source, 1, &params, &found));
    const char *const target = vkf_result_text(found, 0);
    OK(vkf_session_score(session_of(model), &source, &target, 1, NULL, &scored));
    size_t n = 0;
    const float *expected = vkf_result_f32(scored, "logprobs", &n), *its = vkf_result_f32(found, "token_scores", NULL);
    assert_true(n > 1 && vkf_result_find(found, "token_scores")->shape[1] == n + 1 && its[0] == 0);
    assert_memory_equal(vkf_result_i32(scored, "ids", NULL), vkf_result_i32(found, "sequences", NULL) + 1,
                        n * sizeof(int32_t));
    for (size_t i = 0; i < n; i++) assert_true(fabsf(its[i + 1] - expected[i]) < 1e-4f);
    vkf_result_destroy(&found);
    vkf_result_destroy(&scored);
  }
  close_model(&model);
}

/* Alignments are the weights of the last layer in a forward pass over the translation, and asking for them changes no
 * id. In float32, because matrix cores read f16, and a pass may use them where a step of one row does not. */
static void test_alignments(void **state) {
  fixture *f = *state;
  /* of different lengths: some are done and aligned while others run */
  static const char *const texts[] = {"Yes.",
                                      "The cat sleeps on the table.",
                                      "I have never seen such a large house in my whole life, and neither has she.",
                                      "Happiness depends, not so much on circumstances, as on one's way of looking at "
                                      "one's life.",
                                      "No.",
                                      "Where do you live?",
                                      "If it rains tomorrow, we will stay at home and read the books that he gave us.",
                                      "History is like a long chain of wars."};
  enum { N = sizeof texts / sizeof texts[0] };
  vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                .config_json = "{\"num_beams\": 3, \"num_return_sequences\": 2}"};
  const vkf_model_params how = {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_F32, .kv_cache = VKF_STORAGE_F32};
  vkf_model *model = NULL;
  vkf_result *plain = NULL, *found = NULL, *pass = NULL, *encoded = NULL;
  OK(vkf_model_open_with(f->device, MODEL, &how, &model));
  OK(vkf_session_translate(session_of(model), texts, N, &params, &plain));
  params.alignments = true;
  OK(vkf_session_translate(session_of(model), texts, N, &params, &found));
  const vkf_array *ids = vkf_result_find(found, "sequences"), *all = vkf_result_find(found, "alignments");
  const int32_t *n_sources = vkf_result_i32(found, "n_sources", NULL);
  const size_t row = 3, length = ids->shape[1], width = all->shape[2], S = (size_t)n_sources[row];
  assert_true(vkf_result_find(plain, "sequences")->shape[1] == length);
  assert_memory_equal(ids->data, vkf_result_find(plain, "sequences")->data, 2 * N * length * sizeof(int32_t));
  assert_null(vkf_result_find(plain, "alignments"));
  assert_true(all->rank == 3 && all->shape[0] == 2 * N && all->shape[1] == length);
  OK(vkf_tokenizer_encode(vkf_session_tokenizer(session_of(model)), texts[1], NULL, &encoded));
  const vkf_array *source = vkf_result_find(encoded, "ids");
  assert_true(source->shape[0] == S && S < width && (size_t)n_sources[0] < S);
  const vkf_array inputs[] = {
      {"input_ids", VKF_I32, 2, {1, S}, source->data},
      {"decoder_input_ids", VKF_I32, 2, {1, length}, (int32_t *)ids->data + row * length},
  };
  OK(vkf_session_run(session_of(model), inputs, 2, &(vkf_run_params){VKF_RUN_PARAMS_INIT, .attentions = true}, &pass));
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  OK(vkf_model_get_info(model, &info));
  char name[64];
  snprintf(name, sizeof name, "cross_attentions.%u", info.decoder_layers - 1);
  const float *weights = vkf_result_f32(pass, name, NULL), *its = (const float *)all->data + row * length * width;
  size_t n = 0; /* rows that have weights */
  for (size_t t = 0; t < length; t++) {
    double sum = 0;
    for (size_t s = 0; s < S; s++) sum += its[t * width + s];
    n += sum > 0;
    if (sum == 0) continue;
    assert_true(t > 0 && fabs(sum - 1) < 1e-5);
    for (size_t s = 0; s < S; s++) {
      double mean = 0;
      for (size_t h = 0; h < info.n_heads; h++) mean += weights[(h * length + t - 1) * S + s] / info.n_heads;
      assert_true(fabs(mean - its[t * width + s]) < 1e-5);
    }
  }
  assert_true(n > 3);
  vkf_result_destroy(&plain);
  vkf_result_destroy(&found);
  vkf_result_destroy(&pass);
  vkf_result_destroy(&encoded);
  close_model(&model);
}

/* Counts how often each head's largest weight is at the twin of a token, the source token with the same id. Only tokens
 * that occur once on both sides count; returns how many there are. */
static size_t count_followed(const fixture *f, vkf_model *model, const char *text, const int32_t *target, size_t length,
                             size_t layers, size_t heads, size_t *followed) {
  vkf_result *encoded = NULL, *pass = NULL;
  size_t n_links = 0;
  OK(vkf_tokenizer_encode(vkf_session_tokenizer(session_of(model)), text, NULL, &encoded));
  const vkf_array *ids = vkf_result_find(encoded, "ids");
  const int32_t *source = ids->data;
  const size_t S = ids->shape[0];
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, S}, ids->data},
                              {"decoder_input_ids", VKF_I32, 2, {1, length}, (int32_t *)target}};
  OK(vkf_session_run(session_of(model), inputs, 2, &(vkf_run_params){VKF_RUN_PARAMS_INIT, .attentions = true}, &pass));
  for (size_t t = 1; t < length && target[t] != 1; t++) {
    size_t in_source = 0, in_target = 0, twin = 0;
    for (size_t s = 0; s < S; s++)
      if (source[s] == target[t]) twin = s, in_source++;
    for (size_t o = 1; o < length; o++) in_target += target[o] == target[t];
    if (in_source != 1 || in_target != 1) continue;
    n_links++;
    for (size_t layer = 0; layer < layers; layer++) {
      char name[64];
      snprintf(name, sizeof name, "cross_attentions.%zu", layer);
      const float *weights = vkf_result_f32(pass, name, NULL);
      for (size_t head = 0; head < heads; head++) {
        const float *its = weights + (head * length + t - 1) * S;
        size_t best = 0;
        for (size_t s = 1; s < S; s++)
          if (its[s] > its[best]) best = s;
        followed[layer * heads + head] += best == twin;
      }
    }
  }
  vkf_result_destroy(&encoded);
  vkf_result_destroy(&pass);
  return n_links;
}

/* vkf_session_align_heads() counts as count_followed() does, and the mean of the heads that it chooses follows at least
 * as many twins as the best single head. */
static void test_heads_that_align(void **state) {
  fixture *f = *state;
  static const char *const texts[] = {"Tom, Mary and Peter live in Madrid.", "He was born in 1974, in Paris!",
                                      "(Yes) \"No\": 12 - 7 = 5.", "Anna said: I love you, Tom.", "Tom Tom Tom."};
  enum { N = sizeof texts / sizeof texts[0], MAX = 64 };
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}"};
  vkf_model *model = NULL;
  vkf_result *translated = NULL, *found = NULL;
  size_t followed[MAX] = {0}, n_links = 0, best = 0;
  OK(vkf_model_open(f->device, MODEL, &model));
  OK(vkf_session_translate(session_of(model), texts, N, &params, &translated));
  OK(vkf_session_align_heads(session_of(model), texts, N, &params, &found));
  const vkf_array *ids = vkf_result_find(translated, "sequences"), *of = vkf_result_find(found, "followed");
  const size_t layers = of->shape[0], heads = of->shape[1];
  assert_true(layers * heads <= MAX);
  for (size_t i = 0; i < N; i++)
    n_links += count_followed(f, model, texts[i], (int32_t *)ids->data + i * ids->shape[1], ids->shape[1], layers,
                              heads, followed);
  assert_int_equal(vkf_result_i32(found, "n_links", NULL)[0], n_links);
  assert_true(n_links > 10);
  for (size_t head = 0; head < layers * heads; head++) {
    assert_true(fabs(((const float *)of->data)[head] - (double)followed[head] / (double)n_links) < 1e-6);
    if (followed[head] > followed[best]) best = head;
  }
  char first[32];
  snprintf(first, sizeof first, "%zu:%zu", best / heads, best % heads);
  assert_true(!strncmp(vkf_result_text(found, 0), first, strlen(first)));
  assert_true(vkf_result_f32(found, "chosen", NULL)[0] >= (float)followed[best] / (float)n_links);
  vkf_result_destroy(&translated);
  vkf_result_destroy(&found);
  static const char *const none[] = {"Yes."};
  assert_int_equal(
      vkf_session_align_heads(
          session_of(model), none, 1,
          &(vkf_generate_params){VKF_GENERATE_PARAMS_INIT, .config_json = "{\"max_new_tokens\": 1}"}, &found),
      VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(last_message(f->context), "found none in 1 texts"));
  const vkf_generate_params behind = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"max_new_tokens\": 1}",
                                      .alignments = true, .align_heads = "2:4"};
  assert_int_equal(vkf_session_translate(session_of(model), none, 1, &behind, &found), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(last_message(f->context), "expected layers 0 to 2 and heads 0 to 3, found 2:4"));
  close_model(&model);
}

/* If a callback stops at the first row of a step, the step's other rows still have their ids and log-probabilities. */
static void test_a_stop_within_a_step(void **state) {
  fixture *f = *state;
  static int32_t ids[] = {5, 6, 7, 8, 9, 1, 10, 11, 12, 13, 14, 1};
  const vkf_array source = {"input_ids", VKF_I32, 2, {2, 6}, ids};
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  counter third = {0, 3};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}", .on_token = count,
                                      .user = &third, .top_logprobs = 1};
  OK(vkf_model_open(f->device, MODEL, &model));
  assert_int_equal(vkf_session_generate(session_of(model), &source, 1, &params, &result), VKF_ERROR_STOPPED);
  assert_int_equal(third.calls, 3);
  const vkf_array *sequences = vkf_result_find(result, "sequences"), *top = vkf_result_find(result, "top_ids");
  assert_true(sequences->shape[0] == 2 && sequences->shape[1] == 3 && top->shape[1] == 2);
  for (size_t r = 0; r < 2; r++) /* greedy: the likeliest is what was taken */
    for (size_t t = 0; t < 2; t++)
      assert_int_equal(((int32_t *)top->data)[r * 2 + t], ((int32_t *)sequences->data)[r * 3 + 1 + t]);
  vkf_result_destroy(&result);
  close_model(&model);
}

static void test_models_side_by_side(void **state) {
  fixture *f = *state;
  vkf_model *models[2] = {NULL, NULL};
  vkf_result *results[2] = {NULL, NULL};
  uint64_t now = 0, peak = 0;
  for (int i = 0; i < 2; i++) OK(vkf_model_open(f->device, MODEL, &models[i]));
  for (int i = 0; i < 2; i++) OK(vkf_session_translate(session_of(models[i]), &cat, 1, NULL, &results[i]));
  assert_string_equal(vkf_result_text(results[0], 0), vkf_result_text(results[1], 0));
  vkf_device_memory(f->device, &now, &peak);
  if (vkf_device_get_info(f->device)->kind != VKF_DEVICE_REF) assert_true(now > 0 && peak >= now);
  for (int i = 0; i < 2; i++) {
    vkf_result_destroy(&results[i]);
    close_model(&models[i]);
  }
}

static void test_contexts_are_independent(void **state) {
  fixture *f = *state;
  vkf_context *other = NULL;
  vkf_device *device = NULL;
  char before[1024];
  snprintf(before, sizeof before, "%s", last_message(f->context));
  assert_int_equal(vkf_context_create(NULL, &other), VKF_OK);
  assert_int_equal(vkf_device_open(other, "no such device", &device), VKF_ERROR_NO_DEVICE);
  assert_null(device);
  assert_true(strstr(last_message(other), "no such device") != NULL);
  assert_string_equal(last_message(f->context), before);
  vkf_context_destroy(&other);
}

static void test_nothing_is_destroyed_twice(void **state) {
  (void)state;
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  vkf_result_destroy(&result);
  close_model(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  assert_string_equal(vkf_version(), "0.1.0");
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, is_empty)
  const struct CMUnitTest tests[] = {
      TEST(test_attention_by_hand),
      TEST(test_attention_with_a_soft_cap),
      TEST(test_inputs_of_no_use),
      TEST(test_matmul_is_exact_on_halves),
      TEST(test_rope_by_a_given_table),
      TEST(test_a_block_with_its_trace),
      TEST(test_ops_are_refused_by_name),
      TEST(test_the_callback_sees_every_token_and_stops),
      TEST(test_texts_that_come),
      TEST(test_token_scores),
      TEST(test_alignments),
      TEST(test_heads_that_align),
      TEST(test_a_stop_within_a_step),
      TEST(test_models_side_by_side),
      TEST(test_contexts_are_independent),
      cmocka_unit_test(test_nothing_is_destroyed_twice),
  };
  int missing = driver_missing();
  return missing ? missing : cmocka_run_group_tests(tests, open_device, close_device);
}
