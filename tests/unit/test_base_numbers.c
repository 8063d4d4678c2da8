/* Numbers: conversions compared with their definitions, checked sizes, random numbers, hashes, UTF-8. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The smallest numbers that round to infinity, and NaNs of which rounding would cut off every set bit. */
static void borders_of_narrow_numbers(void **state) {
  (void)state;
  assert_int_equal(vkf_f16_from_f32(65519.996f), 0x7bff);
  assert_int_equal(vkf_f16_from_f32(65520), 0x7c00);
  assert_int_equal(vkf_f16_from_f32(-65520), 0xfc00);
  assert_true((vkf_f16_from_f32(of_bits(0x7f800001)) & 0x7fff) > 0x7c00);
  assert_true((vkf_bf16_from_f32(of_bits(0x7f800001)) & 0x7fff) > 0x7f80);
  assert_true((vkf_bf16_from_f32(of_bits(0xff800001)) & 0xffff) > 0xff80);
  assert_int_equal(vkf_bf16_from_f32(of_bits(0x3f808000)), 0x3f80); /* a tie rounds to even */
  assert_int_equal(vkf_bf16_from_f32(of_bits(0x3f818000)), 0x3f82);
}

static void checked_sizes(void **state) {
  (void)state;
  size_t out = 1;
  assert_true(vkf_size_mul(SIZE_MAX / 3, 3, &out));
  assert_true(out == SIZE_MAX / 3 * 3);
  assert_false(vkf_size_mul(SIZE_MAX / 3 + 1, 3, &out));
  assert_true(vkf_size_mul(SIZE_MAX, 0, &out));
  assert_int_equal(out, 0);
  assert_true(vkf_size_mul(0, SIZE_MAX, &out));
  assert_true(vkf_size_add(SIZE_MAX - 1, 1, &out));
  assert_false(vkf_size_add(SIZE_MAX, 1, &out));
}

static void dtypes(void **state) {
  (void)state;
  assert_int_equal(vkf_dtype_bytes(VKF_BF16), 2);
  assert_int_equal(vkf_dtype_bytes(VKF_I64), 8);
  assert_int_equal(vkf_dtype_bytes(VKF_DTYPE_COUNT), 0);
  assert_string_equal(vkf_name_of_dtype(VKF_F32), "F32");
  assert_string_equal(vkf_name_of_dtype(VKF_BOOL), "BOOL");
  for (int d = 0; d < VKF_DTYPE_COUNT; d++) assert_true(vkf_dtype_bytes((vkf_dtype)d) > 0);
}

/* Returns the value of a finite half by the definition in IEEE 754. */
static double half_value(uint32_t h) {
  int exponent = (int)(h >> 10 & 31);
  double magnitude = exponent == 0 ? ldexp(h & 1023, -24) : ldexp(1024 + (h & 1023), exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

static void every_half(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    float f = vkf_f16_to_f32((uint16_t)h);
    uint16_t back = vkf_f16_from_f32(f);
    if ((h & 0x7c00) == 0x7c00) {
      if ((h & 1023) != 0 ? !(isnan(f) && (back & 0x7fff) > 0x7c00) : !(isinf(f) && back == h))
        fail_msg("half %04x: not finite, but gives %g and %04x", h, (double)f, back);
    } else if ((double)f != half_value(h) || back != h) {
      fail_msg("half %04x: %g and %04x", h, (double)f, back);
    }
  }
}

/* Between two neighbouring halves, numbers round down below the middle, up above it, and to the even one at it. */
static void halves_round_to_nearest_even(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x7c00; h++) {
    double lower = half_value(h), upper = h == 0x7bff ? 65536.0 : half_value(h + 1);
    float middle = (float)((lower + upper) / 2);
    uint16_t even = (uint16_t)(h + (h & 1));
    if (vkf_f16_from_f32(middle) != even) fail_msg("middle above %04x is not even", h);
    if (vkf_f16_from_f32(nextafterf(middle, 0)) != h) fail_msg("below the middle above %04x", h);
    if (vkf_f16_from_f32(nextafterf(middle, INFINITY)) != h + 1) fail_msg("above the middle above %04x", h);
    if (vkf_f16_from_f32(-middle) != (even | 0x8000)) fail_msg("negative middle above %04x", h);
  }
  assert_int_equal(vkf_f16_from_f32(1e30f), 0x7c00);
  assert_int_equal(vkf_f16_from_f32(-INFINITY), 0xfc00);
  assert_int_equal(vkf_f16_from_f32(-0.0f), 0x8000);
}

static void bfloats(void **state) {
  (void)state;
  assert_int_equal(vkf_bf16_from_f32(1.0f), 0x3f80);
  assert_int_equal(vkf_bf16_from_f32(1.0f + 0x1p-8f), 0x3f80);            /* a tie rounds to even */
  assert_int_equal(vkf_bf16_from_f32(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);  /* this one, too */
  assert_int_equal(vkf_bf16_from_f32(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81); /* above the middle */
  assert_int_equal(vkf_bf16_from_f32(3.4028235e38f), 0x7f80);             /* rounds to infinity */
  assert_true(isnan(vkf_bf16_to_f32(vkf_bf16_from_f32(NAN))));
  for (uint32_t b = 0; b < 0x7f80; b++) assert_int_equal(vkf_bf16_from_f32(vkf_bf16_to_f32((uint16_t)b)), b);
}

/* Rounds to half by the definition: to the nearest multiple of the step between halves at this exponent. */
static uint16_t half_of(float f) {
  const double a = fabs((double)f);
  const uint16_t sign = signbit(f) ? 0x8000 : 0;
  if (a >= 65520) return sign | 0x7c00;
  const int exponent = a < 0x1p-14 ? -14 : ilogb(a);
  return (uint16_t)(sign | ((unsigned)(exponent + 14) * 1024 + (unsigned)nearbyint(ldexp(a, 10 - exponent))));
}

/* Numbers of every exponent and sign: at and around each middle between two halves, and elsewhere. */
static void dense_numbers_round_by_the_definition(void **state) {
  (void)state;
  static const uint32_t low[] = {0, 1, 0x123, 0xfff, 0x1000, 0x1001, 0x1abc, 0x1fff}; /* the 13 bits that are cut off */
  for (uint32_t high = 0; high < 1u << 19; high++) {
    for (size_t i = 0; i < VKF_COUNT(low); i++) {
      const float f = of_bits(high << 13 | low[i]);
      if (isnan(f) || vkf_f16_from_f32(f) == half_of(f)) continue;
      fail_msg("%a: expected %04x, found %04x", (double)f, half_of(f), vkf_f16_from_f32(f));
    }
  }
}

/* Conversions keep as many of a NaN's bits as fit; those to half make it quiet. */
static void nan_keeps_its_bits(void **state) {
  (void)state;
  for (uint32_t h = 0x7c01; h < 0x8000; h++) {
    const float f = vkf_f16_to_f32((uint16_t)h);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    assert_int_equal(bits, 0x7f800000 | (h & 1023) << 13);
    assert_int_equal(vkf_f16_from_f32(f), h | 0x200);
    assert_int_equal(vkf_f16_from_f32(of_bits(bits | 0x80001fff)), h | 0x8200);
  }
}

enum { MANY = 65536 + 37 };

/* Checks that n numbers are converted as one at a time, and that nothing after them is written. */
static void check_all(const uint8_t *halves, const float *floats, size_t n) {
  static uint8_t narrow[2 * MANY + 3], brain[2 * MANY + 3];
  static float wide[MANY + 1], wide_brain[MANY + 1];
  uint16_t half;
  memset(narrow, 0xa5, sizeof narrow);
  memset(brain, 0xa5, sizeof brain);
  wide[n] = wide_brain[n] = 77;
  vkf_f16_to_f32_all(halves, n, wide);
  vkf_bf16_to_f32_all(halves, n, wide_brain);
  vkf_f16_from_f32_all(floats, n, narrow + 1);
  vkf_bf16_from_f32_all(floats, n, brain + 1);
  for (size_t i = 0; i < n; i++) {
    memcpy(&half, halves + 2 * i, sizeof half);
    const float f16 = vkf_f16_to_f32(half), bf16 = vkf_bf16_to_f32(half);
    assert_memory_equal(&wide[i], &f16, sizeof f16);
    assert_memory_equal(&wide_brain[i], &bf16, sizeof bf16);
    memcpy(&half, narrow + 1 + 2 * i, sizeof half);
    assert_int_equal(half, vkf_f16_from_f32(floats[i]));
    memcpy(&half, brain + 1 + 2 * i, sizeof half);
    assert_int_equal(half, vkf_bf16_from_f32(floats[i]));
  }
  assert_true(wide[n] == 77 && wide_brain[n] == 77 && narrow[1 + 2 * n] == 0xa5 && brain[1 + 2 * n] == 0xa5);
}

/* All halves, at an odd address, and numbers from all of float32; then every length up to two blocks. */
static void arrays_convert_as_single_numbers(void **state) {
  (void)state;
  static uint8_t bytes[2 * MANY + 1];
  static float floats[MANY];
  for (uint32_t i = 0; i < MANY; i++) {
    const uint16_t half = (uint16_t)i;
    memcpy(bytes + 1 + 2 * i, &half, sizeof half);
    floats[i] = of_bits(i * 65521u);
  }
  check_all(bytes + 1, floats, MANY);
  for (size_t n = 0; n < 34; n++) check_all(bytes + 1 + 2 * 0x3ff0, floats + 0x7000, n);
}

static void random_numbers(void **state) {
  (void)state;
  assert_true(vkf_rng_u64(1, 2, 3) == vkf_rng_u64(1, 2, 3));
  assert_true(vkf_rng_u64(1, 2, 3) != vkf_rng_u64(1, 2, 4));
  assert_true(vkf_rng_u64(1, 2, 3) != vkf_rng_u64(1, 3, 3));
  assert_true(vkf_rng_u64(1, 2, 3) != vkf_rng_u64(2, 2, 3));
  enum { N = 20000 };
  double sum = 0, squares = 0, unit = 0;
  for (uint64_t i = 0; i < N; i++) {
    double u = vkf_rng_unit(5, 6, i), n = vkf_rng_normal(5, 6, i);
    assert_true(u >= 0 && u < 1);
    unit += u;
    sum += n;
    squares += n * n;
  }
  /* Each mean may deviate by five standard errors. */
  assert_true(fabs(unit / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
  assert_true(fabs(sum / N) < 5 * sqrt(1.0 / N));
  assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
}

static void clock_moves_forward(void **state) {
  (void)state;
  uint64_t start = vkf_clock_ns(), now = start;
  for (int i = 0; i < 100000000 && now == start; i++) now = vkf_clock_ns();
  assert_true(now > start);
}

static void utf8(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    int bad; /* -1: well-formed */
  } cases[] = {
      {"", -1},
      {"plain", -1},
      {"\xc3\xb1\xe2\x82\xac\xf0\x9f\x98\x80", -1},
      {"a\x80", 1},            /* a lone continuation byte */
      {"ab\xc0\xaf", 2},       /* overlong */
      {"\xe0\x80\x80", 0},     /* overlong */
      {"x\xed\xa0\x80", 1},    /* a surrogate */
      {"\xf4\x90\x80\x80", 0}, /* over U+10FFFF */
      {"ok\xe2\x82", 2},       /* cut off */
      {"ok\xff", 2},
  };
  for (size_t i = 0; i < VKF_COUNT(cases); i++) {
    size_t bad = 99;
    bool good = vkf_utf8_check(cases[i].bytes, strlen(cases[i].bytes), &bad);
    assert_int_equal(good, cases[i].bad < 0);
    if (!good) assert_int_equal(bad, cases[i].bad);
  }
}

/* Each byte and the number of bytes change the hash. */
static void hashes_of_many_bytes(void **state) {
  (void)state;
  uint8_t bytes[77];
  uint64_t seen[2 * sizeof bytes];
  size_t n_seen = 0;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37);
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] ^= 0x80;
    seen[n_seen++] = vkf_hash_words(VKF_HASH_START, bytes, sizeof bytes);
    bytes[i] ^= 0x80;
    seen[n_seen++] = vkf_hash_words(VKF_HASH_START, bytes, i);
  }
  for (size_t i = 0; i < n_seen; i++)
    for (size_t k = 0; k < i; k++) assert_true(seen[i] != seen[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(borders_of_narrow_numbers),
      cmocka_unit_test(checked_sizes),
      cmocka_unit_test(dtypes),
      cmocka_unit_test(every_half),
      cmocka_unit_test(halves_round_to_nearest_even),
      cmocka_unit_test(bfloats),
      cmocka_unit_test(dense_numbers_round_by_the_definition),
      cmocka_unit_test(nan_keeps_its_bits),
      cmocka_unit_test(arrays_convert_as_single_numbers),
      cmocka_unit_test(random_numbers),
      cmocka_unit_test(clock_moves_forward),
      cmocka_unit_test(hashes_of_many_bytes),
      cmocka_unit_test(utf8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
