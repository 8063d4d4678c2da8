/* Compares 1,000 continuations drawn for one prompt with their exact probabilities: the softmax of the logits of
 * forward passes, after temperature, top_k, top_p and min_p. Two ids are drawn, so the second one's probability depends
 * on the first. Pearson's statistic must be under its 0.999 quantile; the seed is fixed, so every run draws the same.
 */
#include <math.h>

#include "support/golden.h"

enum { N_DRAWS = 1000, PROMPT = 1, V = 160, LENGTH = PROMPT + 2 };

static int32_t prompt[PROMPT] = {5};

typedef struct rules {
  double temperature, top_p, min_p;
  int top_k; /* 0: all */
} rules;

/* Computes the probabilities of ids after the rules: the shares of those that are kept, 0 for the others. */
static void exact_of(const float *logits, const rules *r, double p[V]) {
  int order[V];
  double total = 0, before = 0, kept = 0, most = 0;
  for (int i = 0; i < V; i++) {
    int rank = 0;
    for (int j = 0; j < V; j++) rank += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
    order[rank] = i;
  }
  for (int i = 0; i < V; i++) {
    const int id = order[i];
    p[id] = r->top_k == 0 || i < r->top_k ? exp((logits[id] - (double)logits[order[0]]) / r->temperature) : 0;
    total += p[id];
  }
  for (int i = 0; i < V; i++) {
    const double weight = p[order[i]];
    most = i == 0 ? weight : most;
    if ((i > 0 && before >= r->top_p * total) || weight < r->min_p * most) p[order[i]] = 0;
    before += weight;
    kept += p[order[i]];
  }
  for (int i = 0; i < V; i++) p[i] /= kept;
}

/* Checks Pearson's statistic of counts [n] against probabilities; outcomes expected fewer than 5 times count as one. */
static void expect_fit(const char *what, const double *p, const unsigned *counts, size_t n) {
  double statistic = 0, rest = 0, n_rest = 0;
  int cells = 0;
  for (size_t i = 0; i < n; i++) {
    const double expected = N_DRAWS * p[i];
    if (expected == 0 && counts[i] > 0) fail_msg("%s: outcome %zu has probability 0, but was drawn", what, i);
    if (expected < 5) {
      rest += expected;
      n_rest += counts[i];
      continue;
    }
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    cells++;
  }
  if (rest >= 5) statistic += (n_rest - rest) * (n_rest - rest) / rest, cells++;
  assert_true(cells > 1);
  const double df = cells - 1, term = 2 / (9 * df); /* Wilson and Hilferty 1931; 3.09: 0.999 of the normal */
  const double quantile = df * pow(1 - term + 3.09 * sqrt(term), 3);
  print_message("  %s: chi-square %.1f of %d cells, bound %.1f\n", what, statistic, cells, quantile);
  if (!(statistic <= quantile)) fail_msg("%s: chi-square %g of %d cells is over %g", what, statistic, cells, quantile);
}

/* Returns the logits after the prompt or, with_each, after the prompt and each id. */
static vkf_result *logits_after(driver *d, vkf_model *model, bool with_each) {
  vkf_result *result = NULL;
  static int32_t ids[V][PROMPT + 1];
  const size_t rows = with_each ? V : 1, n = with_each ? PROMPT + 1 : PROMPT;
  for (size_t r = 0; r < rows; r++) {
    memcpy((int32_t *)ids + r * n, prompt, sizeof prompt);
    if (with_each) ids[r][PROMPT] = (int32_t)r;
  }
  const vkf_array input = {"input_ids", VKF_I32, 2, {rows, n}, ids};
  driver_ok(d, vkf_session_run(session_of(model), &input, 1, NULL, &result));
  const vkf_array *logits = vkf_result_find(result, "logits");
  assert_non_null(logits);
  assert_int_equal(logits->shape[2], V);
  return result;
}

static vkf_result *draw(driver *d, vkf_model *model, const rules *r) {
  char json[256];
  vkf_result *result = NULL;
  snprintf(json, sizeof json,
           "{\"do_sample\": true, \"num_return_sequences\": %d, \"max_new_tokens\": 2, \"eos_token_id\": null, "
           "\"temperature\": %g, \"top_k\": %d, \"top_p\": %g, \"min_p\": %g, \"seed\": 11}",
           N_DRAWS, r->temperature, r->top_k, r->top_p, r->min_p);
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = json};
  const vkf_array input = {"input_ids", VKF_I32, 2, {1, PROMPT}, prompt};
  driver_ok(d, vkf_session_generate(session_of(model), &input, 1, &params, &result));
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  assert_int_equal(sequences->shape[0], N_DRAWS);
  assert_int_equal(sequences->shape[1], LENGTH);
  return result;
}

static const int32_t *ids_of(const vkf_result *result) {
  return vkf_result_find(result, "sequences")->data;
}

static void draws_have_their_probabilities(void **state) {
  static const rules all[] = {{1, 1, 0, 0}, {0.5, 0.5, 0, 0}, {0.7, 0.8, 0.1, 6}};
  static double p[V * V], first[V], second[V];
  static unsigned firsts[V], pairs[V * V];
  driver *d = *state;
  vkf_model *model = NULL;
  char path[GOLDEN_PATH], what[80];
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "llama", "."), &model));
  vkf_result *start = logits_after(d, model, false), *each = logits_after(d, model, true);
  const float *start_logits = vkf_result_f32(start, "logits", NULL),
              *each_logits = vkf_result_f32(each, "logits", NULL);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const rules *r = &all[i];
    vkf_result *drawn = draw(d, model, r);
    memset(firsts, 0, sizeof firsts);
    memset(pairs, 0, sizeof pairs);
    for (size_t row = 0; row < N_DRAWS; row++) {
      const int32_t *ids = ids_of(drawn) + row * LENGTH;
      assert_memory_equal(ids, prompt, sizeof prompt);
      firsts[ids[PROMPT]]++;
      pairs[ids[PROMPT] * V + ids[PROMPT + 1]]++;
    }
    exact_of(start_logits + (size_t)(PROMPT - 1) * V, r, first);
    for (size_t a = 0; a < V; a++) {
      exact_of(each_logits + (a * (PROMPT + 1) + PROMPT) * V, r, second);
      for (size_t b = 0; b < V; b++) p[a * V + b] = first[a] * second[b];
    }
    snprintf(what, sizeof what, "temperature %g, top_k %d, top_p %g, min_p %g", r->temperature, r->top_k, r->top_p,
             r->min_p);
    expect_fit(what, first, firsts, V);
    if (i > 0) expect_fit(what, p, pairs, (size_t)V * V); /* without a rule no pair is expected 5 times */
    if (i == 2) {                                         /* the same seed, the same ids */
      vkf_result *again = draw(d, model, r);
      assert_memory_equal(ids_of(drawn), ids_of(again), (size_t)N_DRAWS * LENGTH * sizeof(int32_t));
      vkf_result_destroy(&again);
    }
    vkf_result_destroy(&drawn);
  }
  vkf_result_destroy(&start);
  vkf_result_destroy(&each);
  close_model(&model);
}

DRIVER_MAIN(DRIVER_TEST_PLAIN(draws_have_their_probabilities))
