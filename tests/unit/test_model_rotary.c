/* Frequencies of rotary positions with scalings. That of Llama 3.1 has the numbers of a real model, because a small
 * model has few frequencies, perhaps none in the range where short and long waves are blended. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/internal.h"

static const vkf_model_rotary_rules llama = {10000, 1, true, false, false}, phi3 = {10000, 1, false, true, false};

/* A config.json, and the stack whose rotary positions are read from it. */
typedef struct reading {
  vkf_env env;
  vkf_net net;
  vkf_model_stack stack;
  vkf_file_json *config;
} reading;

/* Reads the rotary positions of a config.json. Call finish() even if this fails. */
static vkf_status read_config(reading *r, const char *text, const vkf_model_rotary_rules *rules, uint32_t positions,
                              uint32_t head_width) {
  *r = (reading){.stack.key_width = head_width};
  vkf_env_init(&r->env, NULL);
  r->net = (vkf_net){.env = &r->env, .config_path = "config.json", .info.max_positions = positions};
  vkf_arena_init(&r->net.arena, &r->env);
  assert_int_equal(vkf_file_json_parse(&r->env, "config.json", text, strlen(text), &r->config), VKF_OK);
  return vkf_model_find_rotary(&r->net, vkf_file_json_root(r->config), rules, &r->stack);
}

static void finish(reading *r) {
  vkf_file_json_destroy(&r->config);
  vkf_arena_finish(&r->net.arena);
  assert_int_equal(r->env.live_bytes, 0);
}

/* inv_freq of transformers 5.12, which computes it in float32: a power (2 ulp), a division, and four roundings where
 * it blends; an ulp is at most 2^-23 of a number. */
static void as_transformers_has_them(void **state) {
  (void)state;
  static const char config_text[] =
      "{\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
      "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192, \"rope_theta\": 500000.0}}";
  static const double expected[] = {1.0,
                                    0.44036662578582764,
                                    0.193922758102417,
                                    0.08539710193872452,
                                    0.03760603070259094,
                                    0.016560440883040428,
                                    0.00729266507551074,
                                    0.0032114461064338684,
                                    0.0005248460220173001, /* blended */
                                    7.784655463183299e-05,
                                    3.428102354519069e-05,
                                    1.5096217794052791e-05,
                                    6.647869668086059e-06,
                                    2.927499735960737e-06,
                                    1.289173155782919e-06,
                                    5.677088097399974e-07};
  reading r;
  assert_int_equal(read_config(&r, config_text, &llama, 131072, 32), VKF_OK);
  assert_int_equal(r.stack.rotary.width, 32);
  for (size_t i = 0; i < VKF_COUNT(expected); i++)
    if (!(fabs(r.stack.rotary.frequencies[i] - expected[i]) <= (2 + 0.5 + 4 * 0.5) * 0x1p-23 * expected[i]))
      fail_msg("frequency %zu: %.9g, expected %.9g", i, r.stack.rotary.frequencies[i], expected[i]);
  finish(&r);
}

typedef struct row {
  const vkf_model_rotary_rules *rules;
  const char *config;
  double frequency, factor; /* frequency: of pair 1 of 2; factor: of sines and cosines */
  uint32_t positions;       /* config.json has 64 */
} row;

static void is_computed(const row *expected) {
  reading r;
  if (read_config(&r, expected->config, expected->rules, 64, 4) != VKF_OK)
    fail_msg("%s: %s", expected->config, r.env.message);
  const vkf_model_rotary *found = &r.stack.rotary;
  const uint32_t positions = r.net.info.max_positions;
  if (fabs(found->frequencies[1] - expected->frequency) > 0x1p-50 || fabs(found->factor - expected->factor) > 0x1p-50 ||
      positions != expected->positions)
    fail_msg("%s: frequency %.17g, factor %.17g, %u positions; expected %.17g, %.17g, %u", expected->config,
             found->frequencies[1], found->factor, positions, expected->frequency, expected->factor,
             expected->positions);
  finish(&r);
}

/* Transformers 5 wrote rope_parameters, and somebody added rope_scaling, as the documentation of version 4 says.
 * If rope_scaling is not empty, it takes precedence and the base of rope_parameters is ignored. */
static void a_scaling_goes_before_parameters(void **state) {
  (void)state;
#define BEFORE "{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 100}, \"rope_scaling\": "
  static const row rows[] = {{&llama, BEFORE "{\"type\": \"linear\", \"factor\": 4.0}}", 0.01 / 4, 1, 64},
                             {&llama, BEFORE "{\"type\": \"dynamic\", \"factor\": 4.0}}", 0.01, 1, 64},
                             {&llama, BEFORE "{}}", 0.1, 1, 64},
                             {&llama, BEFORE "null}", 0.1, 1, 64}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) is_computed(&rows[i]);
}

/* LongRoPE has the frequencies of short texts, for as many positions as they were made for. Phi-3 takes that number
 * from a key of the model, else 4096, and never from the scaling. It also calls the scaling su and yarn. */
static void longrope_has_the_original_positions(void **state) {
  (void)state;
#define SHORT "\"short_factor\": [1, 1.5], \"long_factor\": [3, 4], \"original_max_position_embeddings\": 32"
#define MODEL_HAS_16 "{\"original_max_position_embeddings\": 16, "
  const double ratio_2 = sqrt(1 + log(2) / log(32)), ratio_4 = sqrt(1 + log(4) / log(16));
  const row rows[] = {
      {&llama, "{\"rope_parameters\": {\"rope_type\": \"longrope\", " SHORT "}}", 0.01 / 1.5, ratio_2, 32},
      {&llama, MODEL_HAS_16 "\"rope_scaling\": {\"rope_type\": \"longrope\", " SHORT "}}", 0.01 / 1.5, ratio_4, 16},
      {&llama, "{\"rope_scaling\": {\"type\": \"longrope\", \"factor\": 1, " SHORT "}}", 0.01 / 1.5, 1, 32},
      {&llama, "{\"rope_scaling\": {\"type\": \"longrope\", \"attention_factor\": 3, " SHORT "}}", 0.01 / 1.5, 3, 32},
      {&phi3, "{\"rope_scaling\": {\"type\": \"longrope\", " SHORT "}}", 0.01 / 1.5, 1, 64},
      {&phi3, MODEL_HAS_16 "\"rope_scaling\": {\"type\": \"su\", " SHORT "}}", 0.01 / 1.5, ratio_4, 16},
      {&phi3, MODEL_HAS_16 "\"rope_scaling\": {\"type\": \"yarn\", " SHORT "}}", 0.01 / 1.5, ratio_4, 16},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) is_computed(&rows[i]);
}

static void wrong_factors_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *factors, *message;
  } rows[] = {{"[1]", "expected 2 numbers as rope_scaling.short_factor, found 1"},
              {"[1, 2, 3]", "expected 2 numbers as rope_scaling.short_factor, found 3"},
              {"[1, 0]", "expected numbers over 0 as rope_scaling.short_factor, found 0"},
              {"[1, \"a\"]", "rope_scaling.short_factor"}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    char text[160];
    reading r;
    snprintf(text, sizeof text, "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": %s}}", rows[i].factors);
    assert_int_equal(read_config(&r, text, &phi3, 64, 4), VKF_ERROR_FORMAT);
    if (!strstr(r.env.message, rows[i].message)) fail_msg("expected '%s', found '%s'", rows[i].message, r.env.message);
    finish(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_transformers_has_them), cmocka_unit_test(a_scaling_goes_before_parameters),
      cmocka_unit_test(longrope_has_the_original_positions), cmocka_unit_test(wrong_factors_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
