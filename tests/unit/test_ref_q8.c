/* q8 by its definition: the whole numbers and scales of blocks, the reference's sums of them, and a bound that float32
 * stays within and a number that is off by 1 exceeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ref/q8.h"
#include "shared/constants.h"
#include "support/calls.h"

enum { K = 75, N = 3, M = 5, BLOCKS = (K + VKF_Q8_BLOCK - 1) / VKF_Q8_BLOCK };

/* Returns the scale of a block: the least number of 17 bits that, times 127, is no less than the largest number. */
static double scale_of(const float *x, int n) {
  double most = 0;
  int exponent;
  for (int i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
  frexp(most / 127, &exponent);
  for (double unit = ldexp(1, exponent - 17), scale = floor(most / 127 / unit) * unit;; scale += unit)
    if (127 * scale >= most) return scale;
}

static void blocks_are_as_defined(void **state) {
  (void)state;
  float got[VKF_Q8_BLOCK];
  const float ties[] = {127, 0.5f, 1.5f, -2.5f, -0.5f, 126.5f, -127}, want[] = {127, 0, 2, -2, 0, 126, -127};
  vkf_ref_q8_round(ties, 7, got);
  for (int i = 0; i < 7; i++) assert_true(got[i] == want[i]);
  const float largest = 0x1.fcp127f, one[] = {1, -largest}, over[] = {1, nextafterf(largest, INFINITY)};
  vkf_ref_q8_round(one, 2, got);
  assert_true(got[0] == 0 && got[1] == -largest);
  vkf_ref_q8_round(over, 2, got);
  assert_true(isnan(got[0]) && isnan(got[1]));
  const float tiny[] = {0x1p-100f, 0x1p-107f, 0x1p-149f};
  vkf_ref_q8_round(tiny, 3, got);
  assert_true(got[0] >= tiny[0] && got[0] < 0x1.0001p-100f && got[1] == got[0] / 127 && got[2] == 0);
  vkf_ref_q8_round(tiny + 1, 2, got);
  assert_true(got[0] == 0 && got[1] == 0);
  const float odd[] = {1, INFINITY}, nan[] = {NAN, 1};
  vkf_ref_q8_round(odd, 2, got);
  assert_true(isnan(got[0]) && isnan(got[1]));
  vkf_ref_q8_round(nan, 2, got);
  assert_true(isnan(got[0]) && isnan(got[1]));
  for (uint64_t s = 0; s < 2000; s++) {
    float x[VKF_Q8_BLOCK], again[VKF_Q8_BLOCK];
    for (uint64_t i = 0; i < VKF_Q8_BLOCK; i++) x[i] = ldexpf((float)vkf_rng_normal(7, s, i), (int)(s % 200) - 90);
    const double scale = scale_of(x, VKF_Q8_BLOCK);
    vkf_ref_q8_round(x, VKF_Q8_BLOCK, got);
    for (int i = 0; i < VKF_Q8_BLOCK; i++) assert_true((double)got[i] == nearbyint((double)x[i] / scale) * scale);
    vkf_ref_q8_round(got, VKF_Q8_BLOCK, again); /* rounding again changes nothing */
    assert_memory_equal(again, got, sizeof got);
  }
}

typedef struct sums {
  float x[M * K], w[N * K], y[M * N];
  double exact[M * N], bound[M * N];
} sums;

static void reference_of(sums *s, const vkf_rounding *rounding) {
  static const vkf_params params = {.matmul = {.rows = VKF_DIM_BS, .n = N, .k = K}};
  const vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = M});
  vkf_env env;
  vkf_call call = {.op = VKF_OP_MATMUL, .name = "q8", .params = &params, .dims = &dims, .rounding = rounding};
  vkf_env_init(&env, NULL);
  call.in[VKF_MATMUL_X] = (vkf_view){.data = s->x, .rank = 2, .extent = {M, K}, .stride = {K, 1}};
  call.in[VKF_MATMUL_W] =
      (vkf_view){.data = s->w, .rank = 2, .extent = {N, K}, .stride = {K, 1}, .format = VKF_FORMAT_Q8};
  call.out[0] = (vkf_view){.data = s->y, .rank = 2, .extent = {M, N}, .stride = {N, 1}};
  call.exact[0] = s->exact;
  call.bound[0] = s->bound;
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

/* Returns the sum in float32, blocks ascending, as whole numbers times scales. Number `at` of x is off by `off`. */
static float in_float32(const sums *s, int m, int n, int at, int off) {
  int8_t w[K];
  float x[K];
  const vkf_format_row *f = vkf_format_get(VKF_FORMAT_Q8);
  const float row_scale = f->scale(s->w + n * K, K);
  float sum = 0;
  f->encode(s->w + n * K, K, row_scale, w);
  vkf_ref_q8_round(s->x + m * K, K, x);
  for (int from = 0; from < K; from += VKF_Q8_BLOCK) {
    const int end = VKF_MIN(from + VKF_Q8_BLOCK, K);
    const float scale = (float)scale_of(s->x + m * K + from, end - from);
    int32_t whole = 0;
    for (int i = from; i < end; i++) whole += ((int32_t)(x[i] / scale) + (i == at ? off : 0)) * w[i];
    sum += scale * (float)whole;
  }
  return sum * row_scale;
}

static void bounds_hold_and_show_a_step(void **state) {
  (void)state;
  static sums s;
  const vkf_rounding rounding = {.u = 0x1p-24,
                                 .n_partial = 1,
                                 .at_once = VKF_Q8_BLOCK,
                                 .exact_steps = true,
                                 .scaled_rows = true,
                                 .tiny = 0x1p-126};
  for (uint64_t seed = 0; seed < 200; seed++) {
    for (uint64_t i = 0; i < M * K; i++) s.x[i] = (float)vkf_rng_normal(8, seed, i);
    for (uint64_t i = 0; i < N * K; i++) s.w[i] = (float)vkf_rng_normal(9, seed, i);
    vkf_format_round_held(VKF_FORMAT_Q8, s.w, N, K);
    reference_of(&s, &rounding);
    for (int e = 0; e < M * N; e++) {
      const int m = e / N, n = e % N, at = (int)(seed * 7 + (uint64_t)e * 11) % K;
      assert_true(fabs((double)in_float32(&s, m, n, -1, 0) - s.exact[e]) <= s.bound[e]);
      if (s.w[n * K + at] == 0) continue;
      assert_true(fabs((double)in_float32(&s, m, n, at, 1) - s.exact[e]) > s.bound[e]);
    }
  }
}

/* Each rounded activation differs from the one before by at most half a scale (docs/numerics.md). */
static void rounding_of_activations_is_within_half_a_step(void **state) {
  (void)state;
  static sums s;
  for (uint64_t i = 0; i < M * K; i++) s.x[i] = (float)vkf_rng_normal(10, 1, i);
  for (uint64_t i = 0; i < N * K; i++) s.w[i] = (float)vkf_rng_normal(11, 1, i);
  vkf_format_round_held(VKF_FORMAT_Q8, s.w, N, K);
  reference_of(&s, NULL);
  int n_changed = 0;
  for (int e = 0; e < M * N; e++) {
    double plain = 0, most = 0;
    for (int i = 0; i < K; i++) {
      const float *block = s.x + e / N * K + i / VKF_Q8_BLOCK * VKF_Q8_BLOCK;
      double largest = 0;
      for (int c = 0; c < VKF_MIN(K - i / VKF_Q8_BLOCK * VKF_Q8_BLOCK, VKF_Q8_BLOCK); c++)
        largest = fmax(largest, fabs((double)block[c]));
      plain += (double)s.x[e / N * K + i] * (double)s.w[e % N * K + i];
      most += largest / 254 * (1 + 0x1p-16) * fabs((double)s.w[e % N * K + i]);
    }
    assert_true(fabs(s.exact[e] - plain) <= most);
    n_changed += fabs(s.exact[e] - plain) > most / 1000;
  }
  assert_true(n_changed > M * N / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_as_defined),
      cmocka_unit_test(bounds_hold_and_show_a_step),
      cmocka_unit_test(rounding_of_activations_is_within_half_a_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
