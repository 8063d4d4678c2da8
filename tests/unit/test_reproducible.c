/* The reproducible mode's functions (shaders/shared/reproducible.h) against double, and its way with tiny numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shared/reproducible.h"

/* Units in the last place of the true value. */
static double ulps(float found, double exact) {
  return fabs((double)found - exact) / ldexp(1, ilogb(exact) - 23);
}

static void test_exp(void **state) {
  (void)state;
  double worst = 0;
  for (float x = -69.3f; x < 88.7f; x += 3e-5f) worst = fmax(worst, ulps(vkf_reproducible_exp(x), exp((double)x)));
  assert_true(worst > 0.5 && worst <= VKF_REPRODUCIBLE_EXP_ULP);
  assert_true(vkf_reproducible_exp(0) == 1);
  assert_true(vkf_reproducible_exp(-70) == 0 && vkf_reproducible_exp(-INFINITY) == 0);
  assert_true(vkf_reproducible_exp(89) == INFINITY);
}

static void test_log(void **state) {
  (void)state;
  double worst = 0;
  for (int32_t bits = 0x0d800000; bits < 0x7f000000; bits += 1009) {
    const double exact = log((double)vkf_reproducible_float(bits));
    if (exact != 0) worst = fmax(worst, ulps(vkf_reproducible_log(vkf_reproducible_float(bits)), exact));
  }
  assert_true(worst > 0.5 && worst <= VKF_REPRODUCIBLE_LOG_ULP);
  assert_true(vkf_reproducible_log(1) == 0);
}

static void test_tiny_numbers(void **state) {
  (void)state;
  assert_true(vkf_reproducible_mul(0x1p-50f, 0x1p-50f) == 0x1p-100f);
  assert_true(vkf_reproducible_mul(0x1p-50f, -0x1p-51f) == 0);
  assert_true(vkf_reproducible_div(0x1p-60f, 0x1p41f) == 0);
  assert_true(vkf_reproducible_mad(0x1p-60f, 0x1p-60f, 3) == 3);
  assert_true(isnan(vkf_reproducible_mul(NAN, 1)) && vkf_reproducible_mul(INFINITY, 2) == INFINITY);
}

/* Two roundings: a fused multiply-add would keep the low part. */
static void test_not_fused(void **state) {
  (void)state;
  const float a = 1 + 0x1p-20f;
  assert_true(vkf_reproducible_mad(a, a, -1) != fmaf(a, a, -1));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exp), cmocka_unit_test(test_log),
                                     cmocka_unit_test(test_tiny_numbers), cmocka_unit_test(test_not_fused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
