/* The table of storage formats: rounding to nearest even, what is refused, what is kept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/backend.h"

enum { N = 7, K = 33 };

static void fill(float *rows) {
  for (uint64_t i = 0; i < N * K; i++) rows[i] = (float)vkf_rng_normal(3, 1, i);
  for (uint32_t c = 0; c < K; c++) rows[2 * K + c] = 0;          /* a row of zeros */
  for (uint32_t c = 0; c < K; c++) rows[3 * K + c] *= 1e-7f;     /* subnormal as f16 */
  for (uint32_t c = 0; c < K; c++) rows[4 * K + c] *= 0x1p-130f; /* subnormal as float32 */
}

static void names(void **state) {
  (void)state;
  char text[64];
  for (uint32_t f = 0; f < VKF_FORMAT_COUNT; f++)
    assert_int_equal(vkf_format_find(vkf_format_get((vkf_format)f)->name), f);
  assert_int_equal(vkf_format_find("f8"), VKF_FORMAT_COUNT);
  assert_string_equal(vkf_format_names(false, text, sizeof text), "f32, f16, bf16, int8 or q8");
  assert_string_equal(vkf_format_names(true, text, sizeof text), "f32 or f16");
}

/* A stored number differs from the original by no more than the table says, and storing it again changes nothing. */
static void rounding_is_within_the_unit(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  for (uint32_t f = 0; f < VKF_FORMAT_COUNT; f++) {
    const vkf_format_row *row = vkf_format_get((vkf_format)f);
    float exact[N * K], stored[N * K], again[N * K];
    fill(exact);
    memcpy(stored, exact, sizeof exact);
    assert_int_equal(vkf_format_round(&env, "w", (vkf_format)f, 0, stored, N, K), VKF_OK);
    memcpy(again, stored, sizeof again);
    assert_int_equal(vkf_format_round(&env, "w", (vkf_format)f, 0, again, N, K), VKF_OK);
    assert_memory_equal(stored, again, sizeof again);
    size_t changed = 0;
    for (int r = 0; r < N; r++) {
      double largest = 0;
      for (int c = 0; c < K; c++) largest = fmax(largest, fabs((double)exact[r * K + c]));
      for (int c = 0; c < K; c++) {
        double x = exact[r * K + c], error = fabs(x - stored[r * K + c]);
        double smallest = f == VKF_FORMAT_F16 ? 0x1p-25 : 0x1p-110; /* half a step of the subnormal numbers */
        assert_true(error <= row->unit * (row->block ? largest : fabs(x)) + smallest);
        changed += error > 0;
      }
    }
    assert_true(f == VKF_FORMAT_F32 ? changed == 0 : changed > N * K / 2);
  }
}

/* A number halfway between two neighbours is rounded to the even one. */
static void halfway_goes_to_even(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  float f16[] = {1 + 0x1p-11f, 1 + 3 * 0x1p-11f, -(1 + 0x1p-11f)}, bf16[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f};
  float int8[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
  static const float f16_want[] = {1, 1 + 0x1p-9f, -1}, bf16_want[] = {1, 1 + 0x1p-6f};
  static const float int8_want[] = {127, 0, 2, 2, 0, -2};
  assert_int_equal(vkf_format_round(&env, "w", VKF_FORMAT_F16, 0, f16, 1, 3), VKF_OK);
  assert_int_equal(vkf_format_round(&env, "w", VKF_FORMAT_BF16, 0, bf16, 1, 2), VKF_OK);
  assert_int_equal(vkf_format_round(&env, "w", VKF_FORMAT_INT8, 0, int8, 1, 6), VKF_OK);
  for (int i = 0; i < 3; i++) assert_true(f16[i] == f16_want[i]);
  for (int i = 0; i < 2; i++) assert_true(bf16[i] == bf16_want[i]);
  for (int i = 0; i < 6; i++) assert_true(int8[i] == int8_want[i]);
}

/* The vector loops of int8 give the same integers as nearbyint() of the quotient in double: halfway between integers,
 * next to halfway, and at every place of a block. */
static void int8_rounds_as_nearbyint(void **state) {
  (void)state;
  enum { MIDDLES = 254, NEAR = 5, MANY = MIDDLES * NEAR + 700 };
  static float x[MANY];
  static int8_t got[MANY];
  const vkf_format_row *f = vkf_format_get(VKF_FORMAT_INT8);
  for (uint64_t s = 0; s < 300; s++) {
    const float largest = (float)ldexp(1 + vkf_rng_unit(4, 1, s), (int)(s % 220) - 100), scale = f->scale(&largest, 1);
    size_t n = 0;
    for (int m = 0; m < MIDDLES; m++) {
      float at = (float)((m - 126.5) * (double)scale);
      for (int i = 0; i < NEAR / 2; i++) at = nextafterf(at, -INFINITY);
      for (int i = 0; i < NEAR; i++, at = nextafterf(at, INFINITY)) x[n++] = at;
    }
    while (n < MANY) x[n] = (float)(2 * vkf_rng_unit(4, 2 + s, n) - 1) * largest, n++;
    const size_t skip = s % 70, count = n - skip;
    f->encode(x + skip, count, scale, got);
    for (size_t i = 0; i < count; i++) assert_int_equal(got[i], (int8_t)nearbyint((double)x[skip + i] / (double)scale));
  }
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* vkf_format_holds() looks at the bits of a number. Around every limit it must agree with what encoding keeps. */
static void what_is_held_is_what_storing_keeps(void **state) {
  (void)state;
  for (uint32_t format = 0; format < VKF_FORMAT_COUNT; format++) {
    const vkf_format_row *f = vkf_format_get((vkf_format)format);
    const float limits[] = {(float)f->largest, f->refused, INFINITY, 0x1.fffffep127f, 1};
    for (size_t l = 0; l < VKF_COUNT(limits); l++)
      for (uint32_t i = 0; i < 4096; i++) {
        uint32_t bits;
        memcpy(&bits, &limits[l], sizeof bits);
        const float x = float_of((bits + i - 2048) ^ (i & 1) << 31);
        float kept = 0, row[3] = {1, 2, x};
        char element[4];
        if (!f->block) {
          f->encode(&x, 1, 0, element);
          f->decode(element, 1, 0, &kept);
        }
        const bool holds = f->block ? isfinite(x) && fabs((double)x) <= f->largest : !isfinite(x) || isfinite(kept);
        assert_int_equal(vkf_format_holds((vkf_format)format, row, 3), holds);
      }
  }
}

/* Packing encodes rows that were not rounded; the scalar path rounds them first. The elements must be the same. */
static void rounding_first_changes_no_element(void **state) {
  (void)state;
  for (uint32_t format = 0; format < VKF_FORMAT_COUNT; format++) {
    const vkf_format_row *f = vkf_format_get((vkf_format)format);
    float exact[N * K], stored[N * K];
    uint32_t a[K], b[K];
    fill(exact);
    memcpy(stored, exact, sizeof exact);
    vkf_format_round_held((vkf_format)format, stored, N, K);
    for (int r = 0; r < N; r++) {
      const float s = f->block ? f->scale(exact + r * K, K) : 0, t = f->block ? f->scale(stored + r * K, K) : 0;
      assert_true(s == t);
      f->encode(exact + r * K, K, s, a);
      f->encode(stored + r * K, K, t, b);
      assert_memory_equal(a, b, K * f->bits / 8);
    }
  }
}

static void refused(vkf_format format, float value, const char *part) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  float rows[6] = {1, 2, 3, 4, value, 5};
  assert_int_equal(vkf_format_round(&env, "decoder.weight", format, 7, rows, 2, 3), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message, "\"decoder.weight\": element [8,1]"));
  if (!strstr(env.message, part)) fail_msg("%s does not say %s", env.message, part);
}

static void out_of_range_is_refused(void **state) {
  (void)state;
  refused(VKF_FORMAT_F16, 65520, "65504");
  refused(VKF_FORMAT_F16, -1e30f, "65504");
  refused(VKF_FORMAT_BF16, 0x1.fffffep127f, "bf16");
  refused(VKF_FORMAT_INT8, INFINITY, "finite numbers");
  refused(VKF_FORMAT_INT8, NAN, "finite numbers");
}

/* f16 and bf16 keep infinities, NaN, the sign of zero and the largest number. */
static void special_values_are_kept(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  for (uint32_t f = VKF_FORMAT_F16; f <= VKF_FORMAT_BF16; f++) {
    float rows[] = {NAN, INFINITY, -INFINITY, -0.0f, f == VKF_FORMAT_F16 ? 65519 : 0x1.fep127f};
    assert_int_equal(vkf_format_round(&env, "w", (vkf_format)f, 0, rows, 1, 5), VKF_OK);
    assert_true(isnan(rows[0]) && rows[1] == INFINITY && rows[2] == -INFINITY && rows[3] == 0 && signbit(rows[3]));
    assert_true((double)rows[4] == vkf_format_get((vkf_format)f)->largest);
  }
}

/* A cache of f16 turns infinity into NaN, because an infinite score would only take a key out. */
static void caches_keep_no_infinity(void **state) {
  (void)state;
  assert_true(vkf_format_cached(VKF_FORMAT_F16, 65519) == 65504);
  assert_true(isnan(vkf_format_cached(VKF_FORMAT_F16, 65520)) && isnan(vkf_format_cached(VKF_FORMAT_F16, -INFINITY)));
  assert_true(vkf_format_cached(VKF_FORMAT_F16, 1 + 0x1p-11f) == 1);
  assert_true(vkf_format_cached(VKF_FORMAT_F32, -INFINITY) == -INFINITY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),
      cmocka_unit_test(rounding_is_within_the_unit),
      cmocka_unit_test(halfway_goes_to_even),
      cmocka_unit_test(int8_rounds_as_nearbyint),
      cmocka_unit_test(what_is_held_is_what_storing_keeps),
      cmocka_unit_test(rounding_first_changes_no_element),
      cmocka_unit_test(out_of_range_is_refused),
      cmocka_unit_test(special_values_are_kept),
      cmocka_unit_test(caches_keep_no_infinity),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
