/* The functions of the reproducible mode (shaders/shared/reproducible.h): errors against double, tiny numbers, and
 * quotients and roots on a device that rounds badly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/reproducible.h"

/* Returns the error in units in the last place of the exact value. */
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

/* ---- quotients and roots from those of a device that rounds badly --------------------------------------------------
 */

/* Returns the number that is ulps_away units in the last place from x. */
static float away(float x, int32_t ulps_away) {
  return vkf_reproducible_float(vkf_reproducible_bits(x) + ulps_away);
}

static void expect_bits(const char *what, float a, float b, float found, float expected) {
  const bool same = isnan(expected) ? isnan(found) : !memcmp(&found, &expected, sizeof found);
  if (!same)
    fail_msg("%s of %a and %a: expected %a, found %a", what, (double)a, (double)b, (double)expected, (double)found);
}

/* Checks m / n with 1 <= m / n < 2, computed from a device's quotient that is `wrong` units off. */
static void expect_quotient(uint32_t m, uint32_t n, int32_t wrong) {
  const float a = (float)m, b = (float)n;
  const int bits = vkf_own_quotient_of(m, n, away(a / b, wrong), 127);
  expect_bits("quotient", a, b, vkf_reproducible_float(bits), a / b);
}

/* Quotients as near as possible to halfway between two numbers: q of 25 bits with q n = m 2^24 + 1 or - 1. */
static void test_quotients_of_a_bad_device(void **state) {
  (void)state;
  size_t n_tried = 0;
  for (uint32_t n = 0x800001; n < 0x1000000; n += 14) {
    uint32_t inverse = n; /* of n modulo 2^32, by Newton; 3 bits are right at first */
    for (int i = 0; i < 4; i++) inverse *= 2 - n * inverse;
    for (int sign = -1; sign <= 1; sign += 2) {
      const uint64_t q = 0x1000000 | (((uint32_t)sign * inverse) & 0xffffff);
      const uint32_t m = (uint32_t)((q * n - (uint64_t)(int64_t)sign) >> 24);
      assert_true(((uint64_t)m << 24) + (uint64_t)(int64_t)sign == q * n);
      if (m < n || m >= 2 * n || (m >= 0x1000000 && m % 2)) continue;
      n_tried++;
      for (int32_t wrong = -5; wrong <= 5; wrong += 5) expect_quotient(m, n, wrong);
    }
    for (int32_t wrong = -5; wrong <= 5; wrong += 5) { /* the least, the largest, and an exact one */
      expect_quotient(n, n, wrong);
      expect_quotient(2 * n - 2, n, wrong);
      expect_quotient((n & ~3u) / 4 * 6, n & ~3u, wrong);
    }
  }
  assert_true(n_tried > 500000);
}

/* Every mantissa, of even and odd exponents. */
static void test_roots_of_a_bad_device(void **state) {
  (void)state;
  for (uint32_t m = 0x800000; m < 0x2000000; m += m < 0x1000000 ? 1 : 2) {
    const float x = (float)m * 0x1p-23f, root = sqrtf(x);
    const float found = vkf_reproducible_float(vkf_own_root_of(m, away(root, (int32_t)(m / 2 % 11) - 5), 127));
    if (memcmp(&found, &root, sizeof root)) expect_bits("root", x, 0, found, root);
  }
}

/* All exponents and signs, zeros, infinities and NaN. */
static void test_exponents(void **state) {
  (void)state;
  float numbers[600];
  size_t n = 0;
  for (int32_t exponent = 1; exponent < 255; exponent++) {
    numbers[n++] = vkf_reproducible_float(exponent << 23 | (exponent * 0x8765 & 0x7fffff));
    numbers[n++] = -vkf_reproducible_float(exponent << 23 | (exponent % 2 ? 0 : 0x7fffff));
  }
  const float others[] = {0, -0.0f, INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) numbers[n++] = others[i];
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < n; k++) {
      const float found = vkf_reproducible_flush(vkf_own_quotient(numbers[i], numbers[k]));
      expect_bits("quotient", numbers[i], numbers[k], found, vkf_reproducible_flush(numbers[i] / numbers[k]));
    }
    expect_bits("root", numbers[i], 0, vkf_own_root(numbers[i]), sqrtf(numbers[i]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exp),
                                     cmocka_unit_test(test_log),
                                     cmocka_unit_test(test_tiny_numbers),
                                     cmocka_unit_test(test_not_fused),
                                     cmocka_unit_test(test_quotients_of_a_bad_device),
                                     cmocka_unit_test(test_roots_of_a_bad_device),
                                     cmocka_unit_test(test_exponents)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
