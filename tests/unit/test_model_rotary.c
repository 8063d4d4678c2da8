/* Frequencies of rotary positions with the scaling of Llama 3.1, which a small model does not show: with few
 * frequencies none may lie where short and long waves are blended. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/internal.h"

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
  vkf_env env;
  vkf_file_json *config = NULL;
  vkf_model_stack stack = {.key_width = 32};
  vkf_env_init(&env, NULL);
  vkf_net net = {.env = &env, .config_path = "config.json", .info = {.max_positions = 131072}};
  vkf_arena_init(&net.arena, &env);
  assert_int_equal(vkf_file_json_parse(&env, "config.json", config_text, strlen(config_text), &config), VKF_OK);
  assert_int_equal(vkf_model_find_rotary(&net, vkf_file_json_root(config), 10000, 1, &stack), VKF_OK);
  assert_int_equal(stack.rotary.width, 32);
  for (size_t i = 0; i < VKF_COUNT(expected); i++)
    if (!(fabs(stack.rotary.frequencies[i] - expected[i]) <= (2 + 0.5 + 4 * 0.5) * 0x1p-23 * expected[i]))
      fail_msg("frequency %zu: %.9g, expected %.9g", i, stack.rotary.frequencies[i], expected[i]);
  vkf_file_json_destroy(&config);
  vkf_arena_finish(&net.arena);
  assert_int_equal(env.live_bytes, 0);
}

/* transformers 5 wrote rope_parameters, and somebody adds what documentation of 4 says: that counts, and the base of
 * the other is not looked at. */
static void a_scaling_goes_before_parameters(void **state) {
  (void)state;
  static const struct {
    const char *scaling;
    double expected; /* of pair 1 of 2 */
  } rows[] = {{"{\"type\": \"linear\", \"factor\": 4.0}", 0.01 / 4},
              {"{\"type\": \"dynamic\", \"factor\": 4.0}", 0.01},
              {"{}", 0.1},
              {"null", 0.1}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    char text[256];
    vkf_env env;
    vkf_file_json *config = NULL;
    vkf_model_stack stack = {.key_width = 4};
    snprintf(text, sizeof text,
             "{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 100}, \"rope_scaling\": %s}",
             rows[i].scaling);
    vkf_env_init(&env, NULL);
    vkf_net net = {.env = &env, .config_path = "config.json", .info = {.max_positions = 64}};
    vkf_arena_init(&net.arena, &env);
    assert_int_equal(vkf_file_json_parse(&env, "config.json", text, strlen(text), &config), VKF_OK);
    assert_int_equal(vkf_model_find_rotary(&net, vkf_file_json_root(config), 10000, 1, &stack), VKF_OK);
    assert_true(fabs(stack.rotary.frequencies[1] - rows[i].expected) <= 0x1p-50);
    vkf_file_json_destroy(&config);
    vkf_arena_finish(&net.arena);
    assert_int_equal(env.live_bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_transformers_has_them),
                                     cmocka_unit_test(a_scaling_goes_before_parameters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
