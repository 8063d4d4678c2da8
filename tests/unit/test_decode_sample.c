/* Sampling: the frequencies of drawn ids compared with exact probabilities, the ids that each rule keeps, and searches
 * that draw the same ids alone and in a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "decode/sample.h"
#include "support/closed_batch.h"
#include "support/range.h"

enum { V = 8, N_DRAWS = 20000, T = 6 };

static vkf_env env;

/* Sorted: 0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0. */
static const double exact[V] = {0.1, 0.4, 0.05, 0.1, 0.2, 0.0, 0.1, 0.05};

static void row_of(float *scores) {
  for (uint32_t i = 0; i < V; i++) scores[i] = exact[i] > 0 ? (float)log(exact[i]) : -INFINITY;
}

static void configure(vkf_generation_config *c, const char *options) {
  vkf_env_clear(&env);
  vkf_decode_generation_init(c, &env);
  assert_int_equal(vkf_decode_generation_apply(c, "options", options), VKF_OK);
  assert_int_equal(vkf_decode_generation_check(c, V), VKF_OK);
}

/* Draws N_DRAWS ids. Fails if one has probability 0 or Pearson's statistic is over its 0.999 quantile. */
static void compare(const char *options, const double *weights) {
  static const double quantile[] = {0, 10.83, 13.82, 16.27, 18.47, 20.52, 22.46};
  vkf_generation_config c;
  vkf_sample_candidate scratch[V];
  float scores[V];
  double total = 0, statistic = 0, log_prob = 0;
  uint32_t counts[V] = {0}, kept = 0;
  for (uint32_t i = 0; i < V; i++) total += weights[i];
  row_of(scores);
  configure(&c, options);
  for (uint32_t i = 0; i < N_DRAWS; i++) {
    int32_t id = vkf_decode_sample(&c, scores, V, vkf_decode_sample_unit(7, i % 100, 0, i / 100), scratch, &log_prob);
    assert_between(id, 0, V - 1);
    if (!(fabs(log_prob - log(weights[id] / total)) < 1e-6)) /* scores are float32 */
      fail_msg("%s: id %d has the log-probability %g", options, id, log_prob);
    counts[id]++;
  }
  for (uint32_t i = 0; i < V; i++) {
    double expected = N_DRAWS * weights[i] / total;
    if (expected == 0 && counts[i] > 0) fail_msg("%s: id %u was drawn %u times", options, i, counts[i]);
    if (expected == 0) continue;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    kept++;
  }
  if (statistic > quantile[kept - 1]) fail_msg("%s: chi-square %g of %u ids", options, statistic, kept);
  vkf_decode_generation_finish(&c);
}

static void frequencies(void **state) {
  (void)state;
  double squared[V], cut[V] = {0};
  for (uint32_t i = 0; i < V; i++) squared[i] = exact[i] * exact[i];
  compare("{\"do_sample\":true,\"top_k\":0}", exact);
  compare("{\"do_sample\":true}", exact); /* there are fewer ids than the default top_k, 50 */
  compare("{\"do_sample\":true,\"temperature\":0.5}", squared);
  cut[1] = 0.4;
  compare("{\"do_sample\":true,\"top_k\":1}", cut);
  compare("{\"do_sample\":true,\"top_p\":0.0}", cut);
  compare("{\"do_sample\":true,\"top_p\":0.39}", cut);
  compare("{\"do_sample\":true,\"temperature\":1e-30}", cut);
  cut[4] = 0.2;
  compare("{\"do_sample\":true,\"top_k\":2}", cut);
  compare("{\"do_sample\":true,\"top_p\":0.59}", cut);
  compare("{\"do_sample\":true,\"min_p\":0.4}", cut);
  cut[0] = 0.1;
  compare("{\"do_sample\":true,\"top_p\":0.61}", cut); /* of a tie the lower id */
  cut[3] = cut[6] = 0.1;
  compare("{\"do_sample\":true,\"top_k\":3}", cut); /* ties with the third are kept */
  compare("{\"do_sample\":true,\"min_p\":0.2}", cut);
}

/* What the LogitsWarper classes of transformers 5.12.1 keep of `exact`. Our top_h differs in two points: of a tie it
 * keeps the lower id, theirs any one; 1 keeps all ids, while theirs may drop the last one because of rounding. */
static void rules_of_the_entropy(void **state) {
  (void)state;
  double cut[V] = {0};
  cut[1] = 0.4;
  compare("{\"do_sample\":true,\"top_h\":0.4}", cut);
  compare("{\"do_sample\":true,\"epsilon_cutoff\":0.3}", cut);
  compare("{\"do_sample\":true,\"epsilon_cutoff\":0.5}", cut); /* the best id stays */
  cut[4] = 0.2;
  compare("{\"do_sample\":true,\"top_h\":0.5}", cut);
  compare("{\"do_sample\":true,\"epsilon_cutoff\":0.11}", cut);
  compare("{\"do_sample\":true,\"eta_cutoff\":0.3}", cut); /* sqrt(0.3) e^-1.67 = 0.103 */
  compare("{\"do_sample\":true,\"eta_cutoff\":0.9}", cut);
  cut[0] = 0.1;
  compare("{\"do_sample\":true,\"top_h\":0.6}", cut);
  cut[3] = 0.1;
  compare("{\"do_sample\":true,\"top_h\":0.8}", cut);
  cut[6] = 0.1;
  compare("{\"do_sample\":true,\"top_h\":0.9}", cut);
  compare("{\"do_sample\":true,\"typical_p\":0.59}", cut);
  compare("{\"do_sample\":true,\"typical_p\":0.85}", cut);
  compare("{\"do_sample\":true,\"epsilon_cutoff\":0.06}", cut);
  compare("{\"do_sample\":true,\"eta_cutoff\":0.1}", cut);
  compare("{\"do_sample\":true,\"top_h\":1}", exact);
  compare("{\"do_sample\":true,\"typical_p\":0.95}", exact);
  compare("{\"do_sample\":true,\"epsilon_cutoff\":0.01}", exact);
  compare("{\"do_sample\":true,\"eta_cutoff\":0.05}", exact); /* sqrt(0.05) e^-1.67 = 0.042 */
  cut[1] = 0;
  compare("{\"do_sample\":true,\"typical_p\":0.25}", cut); /* the best id is not typical */
  compare("{\"do_sample\":true,\"typical_p\":0.45}", cut);
  cut[0] = cut[3] = cut[6] = 0;
  compare("{\"do_sample\":true,\"typical_p\":0.19}", cut);
}

/* top_h reads only the best 100 candidates. */
static void many_candidates(void **state) {
  (void)state;
  enum { MANY = 150 };
  static const char *const options[] = {"{\"do_sample\":true,\"top_k\":0,\"top_h\":1}",
                                        "{\"do_sample\":true,\"top_k\":0,\"top_h\":1,\"typical_p\":0.1}",
                                        "{\"do_sample\":true,\"top_k\":0}"};
  static const int32_t last[] = {99, 99, 149};
  static float scores[MANY]; /* all equal */
  static vkf_sample_candidate scratch[MANY];
  for (size_t i = 0; i < VKF_COUNT(options); i++) {
    vkf_generation_config c;
    double log_prob = 0;
    configure(&c, options[i]);
    assert_int_equal(vkf_decode_sample(&c, scores, MANY, 0.9999, scratch, &log_prob), last[i]);
    vkf_decode_generation_finish(&c);
  }
}

/* The rules apply in the order of transformers 5.12.1: temperature before top_p, top_k before top_p, and so on. */
static void order_of_rules(void **state) {
  (void)state;
  double hot[V] = {0}, cut[V] = {0};
  for (uint32_t i = 0; i < V; i++) hot[i] = i != 2 && i != 7 ? sqrt(exact[i]) : 0;
  compare("{\"do_sample\":true,\"temperature\":2.0,\"min_p\":0.45}", hot); /* sqrt(0.1/0.4) = 0.5 */
  cut[1] = 0.4;
  compare("{\"do_sample\":true,\"top_k\":2,\"top_p\":0.6}", cut); /* 0.4 of 0.6 is 0.67 */
  compare("{\"do_sample\":true,\"top_p\":0.59,\"min_p\":0.6}", cut);
  compare("{\"do_sample\":true,\"top_h\":0.5,\"top_k\":1}", cut);
  cut[4] = 0.2;
  compare("{\"do_sample\":true,\"top_h\":0.6,\"top_k\":2}", cut);
  compare("{\"do_sample\":true,\"top_p\":0.65,\"typical_p\":0.3,\"epsilon_cutoff\":0.2}", cut);
  cut[1] = 0;
  compare("{\"do_sample\":true,\"typical_p\":0.19,\"epsilon_cutoff\":0.22}", cut);
  cut[0] = cut[3] = cut[6] = sqrt(0.1);
  cut[4] = sqrt(0.2);
  compare(
      "{\"do_sample\":true,\"temperature\":2,\"top_h\":0.9,\"top_k\":4,\"top_p\":0.95,\"min_p\":0.2,"
      "\"typical_p\":0.5,\"epsilon_cutoff\":0.2,\"eta_cutoff\":0.5}",
      cut);
}

static void nothing_is_left(void **state) {
  (void)state;
  vkf_generation_config c;
  vkf_sample_candidate scratch[V];
  float scores[V];
  double log_prob = 0;
  for (uint32_t i = 0; i < V; i++) scores[i] = -INFINITY;
  configure(&c, "{\"do_sample\":true}");
  assert_int_equal(vkf_decode_sample(&c, scores, V, 0.5, scratch, &log_prob), VKF_NO_TOKEN);
  vkf_decode_generation_finish(&c);
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

/* Generates out [n_rows][T + 1]. All rows have the same scores, but no id may follow itself. */
static void generate(const char *options, uint32_t B, const uint64_t *lines, int32_t *out) {
  static const int32_t starts[8] = {5, 5, 5, 5, 5, 5, 5, 5};
  static float scores[16][V];
  vkf_generation_config c;
  vkf_generated g;
  vkf_batch batch;
  configure(&c, options);
  const uint32_t n_rows = vkf_decode_batch_slots(&c, B);
  const closed_batch input = {
      .config = &c, .B = B, .n_vocab = V, .prompt = starts, .n_prompt = 1, .max_length = T + 1, .lines = lines};
  assert_int_equal(closed_batch_begin(&batch, &env, &input), VKF_OK);
  while (!closed_batch_is_done(&batch)) {
    vkf_batch_step step;
    assert_int_equal(vkf_decode_batch_ask(&batch, &step), VKF_OK);
    assert_int_equal(batch.searches[0].k, 0);
    assert_int_equal(step.n_rows, n_rows);
    for (uint32_t r = 0; r < n_rows; r++) {
      row_of(scores[r]);
      scores[r][step.rows[r].ids[step.rows[r].n - 1]] = -INFINITY;
    }
    vkf_decode_batch_take(&batch, scores[0], NULL);
    for (uint32_t seat = 0; seat < B; seat++) assert_null(vkf_decode_batch_failure(&batch, seat));
  }
  assert_int_equal(vkf_decode_batch_result(&batch, 0, B, &g), VKF_OK);
  assert_int_equal(g.n_rows, n_rows);
  assert_int_equal(g.length, T + 1);
  memcpy(out, g.sequences, (size_t)g.n_rows * g.length * sizeof *out);
  vkf_decode_generated_finish(&g);
  vkf_decode_batch_finish(&batch);
  vkf_decode_generation_finish(&c);
}

static void alone_and_in_a_batch(void **state) {
  (void)state;
  static const char options[] = "{\"do_sample\":true,\"seed\":5}";
  static const uint64_t lines[4] = {3, 0, 9, 1};
  int32_t batch[4][T + 1], alone[T + 1], copies[2 * 4][T + 1];
  generate(options, 4, lines, batch[0]);
  generate("{\"do_sample\":true,\"seed\":5,\"num_return_sequences\":2}", 4, lines, copies[0]);
  for (uint32_t i = 0; i < 4; i++) {
    generate(options, 1, &lines[i], alone);
    assert_memory_equal(alone, batch[i], sizeof alone);
    assert_memory_equal(alone, copies[2 * i], sizeof alone);
    assert_memory_not_equal(alone, copies[2 * i + 1], sizeof alone);
    for (uint32_t j = 0; j < i; j++) assert_memory_not_equal(batch[i], batch[j], sizeof alone);
  }
  generate("{\"do_sample\":true,\"seed\":6}", 1, &lines[0], alone);
  assert_memory_not_equal(alone, batch[0], sizeof alone);
  generate(options, 2, NULL, batch[2]); /* lines 0 and 1 */
  assert_memory_equal(batch[2], batch[1], sizeof alone);
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *options;
    vkf_status status;
    const char *words;
  } rows[] = {
      {"{\"do_sample\":true,\"temperature\":0}", VKF_ERROR_ARGUMENT, "\"temperature\": expected a number over 0"},
      {"{\"do_sample\":true,\"top_k\":1.5}", VKF_ERROR_ARGUMENT, "\"top_k\": expected a whole number"},
      {"{\"do_sample\":true,\"top_k\":-1}", VKF_ERROR_ARGUMENT, "\"top_k\": expected a whole number"},
      {"{\"do_sample\":true,\"top_p\":1.1}", VKF_ERROR_ARGUMENT, "\"top_p\": expected a number from 0 to 1, found 1.1"},
      {"{\"do_sample\":true,\"min_p\":-0.1}", VKF_ERROR_ARGUMENT, "\"min_p\": expected a number from 0 to 1"},
      {"{\"do_sample\":true,\"num_beams\":2}", VKF_ERROR_UNSUPPORTED, "\"do_sample\" with num_beams 2"},
      {"{\"do_sample\":true,\"top_h\":1.5}", VKF_ERROR_ARGUMENT, "\"top_h\": expected a number from 0 to 1"},
      {"{\"do_sample\":true,\"typical_p\":0}", VKF_ERROR_ARGUMENT, "\"typical_p\": expected a number over 0, up to 1"},
      {"{\"do_sample\":true,\"typical_p\":1.1}", VKF_ERROR_ARGUMENT, "\"typical_p\": expected a number over 0"},
      {"{\"do_sample\":true,\"epsilon_cutoff\":1}", VKF_ERROR_ARGUMENT, "\"epsilon_cutoff\": expected a number from 0"},
      {"{\"do_sample\":true,\"eta_cutoff\":-1}", VKF_ERROR_ARGUMENT, "\"eta_cutoff\": expected a number from 0"},
      {"{\"temperature\":0,\"top_k\":-1,\"top_p\":2,\"typical_p\":3}", VKF_OK, ""}, /* unused, so not checked */
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_generation_config c;
    vkf_env_clear(&env);
    vkf_decode_generation_init(&c, &env);
    assert_int_equal(vkf_decode_generation_apply(&c, "options", rows[i].options), VKF_OK);
    assert_int_equal(vkf_decode_generation_check(&c, V), rows[i].status);
    if (!strstr(env.message, rows[i].words)) fail_msg("%s: %s", rows[i].options, env.message);
    vkf_decode_generation_finish(&c);
  }
}

/* Two equal ids, to check on which side of its border each rule includes the border itself. */
static void borders(void **state) {
  (void)state;
  static const struct {
    const char *options;
    double unit;
    int32_t id;
  } rows[] = {{"{\"do_sample\":true}", 0.49, 0},
              {"{\"do_sample\":true}", 0.5, 1},
              {"{\"do_sample\":true,\"top_p\":0.5}", 0.99, 0}, /* the first id has half, which is enough */
              {"{\"do_sample\":true,\"top_p\":0}", 0.99, 0},
              {"{\"do_sample\":true,\"top_p\":0.51}", 0.99, 1},
              {"{\"do_sample\":true,\"min_p\":1}", 0.99, 1}, /* as likely as the best */
              {"{\"do_sample\":true,\"top_k\":1}", 0.99, 1}, /* ties are kept */
              {"{\"do_sample\":true,\"top_h\":0.5}", 0.99, 0},
              {"{\"do_sample\":true,\"top_h\":1}", 0.99, 1},
              {"{\"do_sample\":true,\"typical_p\":0.5}", 0.99, 1},
              {"{\"do_sample\":true,\"epsilon_cutoff\":0.5}", 0.99, 1},
              {"{\"do_sample\":true,\"epsilon_cutoff\":0.9}", 0.99, 1},
              {"{\"do_sample\":true,\"eta_cutoff\":0.9}", 0.99, 1}};
  const float scores[2] = {0, 0};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_generation_config c;
    vkf_sample_candidate scratch[2];
    configure(&c, rows[i].options);
    double log_prob = 1;
    const int32_t id = vkf_decode_sample(&c, scores, 2, rows[i].unit, scratch, &log_prob);
    if (id != rows[i].id || !(log_prob <= 0)) fail_msg("%s", rows[i].options);
    vkf_decode_generation_finish(&c);
  }
}

int main(void) {
  vkf_env_init(&env, NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(frequencies),          cmocka_unit_test(borders),
                                     cmocka_unit_test(rules_of_the_entropy), cmocka_unit_test(many_candidates),
                                     cmocka_unit_test(order_of_rules),       cmocka_unit_test(nothing_is_left),
                                     cmocka_unit_test(alone_and_in_a_batch), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
