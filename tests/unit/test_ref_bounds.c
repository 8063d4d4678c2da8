/* The derived bounds, compared with float32 as a device computes it: it stays within them, they are not loose, and real
 * faults exceed them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ref/internal.h"
#include "shared/constants.h"
#include "shared/math.h"
#include "support/calls.h"

static vkf_env env;

/* ---- a device that uses up what it is allowed -------------------------------------------------------------------- */

static float sign_of_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return (bits ^ bits >> 7) & 1 ? 1.0f : -1.0f;
}

/* exp with an error of up to 3 + 2|x| ulp, as Vulkan allows. */
static float worst_exp(float x) {
  double off = 0x1p-24 * (3 + 2 * fabs((double)x)); /* in the middle of a binade: an ulp is 2^-24 .. 2^-23 of it */
  return (float)(exp((double)x) * (1 + (double)sign_of_bits(x) * 0.98 * off));
}

static float worst_erf(float x) {
  return (float)(erf((double)x) + (double)sign_of_bits(x) * 0.6 * VKF_ERF_ABS);
}

typedef struct result {
  float *y; /* of the reference, then of the float32 computation */
  double *exact, *bound;
  size_t n;
} result;

/* Runs the reference, which fills y, exact and bound. Call finish(). */
static result compare_call(vkf_call *call, const vkf_rounding *rounding) {
  result r = {.n = vkf_view_elements(&call->out[0])};
  r.y = calloc(r.n, sizeof(float));
  r.exact = calloc(r.n, sizeof(double));
  r.bound = calloc(r.n, sizeof(double));
  call->out[0].data = r.y;
  call->exact[0] = r.exact;
  call->bound[0] = r.bound;
  call->rounding = rounding;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_ref_run(&env, call), VKF_OK);
  return r;
}

static double ratio_of(const vkf_call *call, const result *r) {
  vkf_comparison j = {0};
  vkf_compare(call, 0, r->y, r->exact, r->bound, &j);
  assert_int_equal(j.n, r->n);
  return j.ratio;
}

static void finish(result *r) {
  free(r->y);
  free(r->exact);
  free(r->bound);
}

static float *random_floats(size_t n, uint64_t stream, double mean, double sigma) {
  float *x = calloc(n, sizeof(*x));
  for (size_t i = 0; i < n; i++) x[i] = (float)(mean + sigma * vkf_rng_normal(7, stream, i));
  return x;
}

/* Numbers from 0.5 to 1, whose products all have the same sign. */
static float *positive_floats(size_t n, uint64_t stream) {
  float *x = calloc(n, sizeof(*x));
  for (size_t i = 0; i < n; i++) x[i] = (float)(0.5 + vkf_rng_unit(7, stream, i) / 2);
  return x;
}

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

enum { M = 12, N = 20 };

/* Returns a sum of products in float32, made of `partial` sums that take `together` products in turns. */
static float float_sums(const float *x, const float *w, uint32_t k, uint32_t partial, uint32_t together) {
  float total = 0;
  for (uint32_t p = 0; p < partial; p++) {
    float sum = 0;
    for (uint32_t from = p * together; from < k; from += partial * together)
      for (uint32_t i = from; i < VKF_MIN(from + together, k); i++) sum += x[i] * w[i];
    total += sum;
  }
  return total;
}

static float float_dot(const float *x, const float *w, uint32_t k, uint32_t partial) {
  return float_sums(x, w, k, partial, 1);
}

/* tanh as in shaders/shared/functions.h. */
static float float_tanh(float x, float (*exp_of)(float)) {
  static const float p[] = {0.0214706827f, -0.0539334677f, 0.133332253f, -0.333333313f};
  const float e = exp_of(-2 * fabsf(x)), s = x * x;
  float y = -0.00694294181f;
  if (fabsf(x) >= 0.5f) return copysignf((1 - e) / (1 + e), x);
  for (size_t i = 0; i < VKF_COUNT(p); i++) y = y * s + p[i];
  return y * s * x + x;
}

static float float_activation(vkf_activation act, float x) {
  switch (act) {
    case VKF_ACT_RELU:
      return x < 0 ? 0 : x;
    case VKF_ACT_GELU:
      return 0.5f * x * (1 + worst_erf(x * 0.707106781f));
    case VKF_ACT_GELU_TANH:
      return x / (1 + worst_exp(fminf(-1.59576912f * (x + 0.044715f * x * x * x), 80)));
    case VKF_ACT_SWISH:
      return x / (1 + worst_exp(fminf(-x, 80)));
    case VKF_ACT_TANH:
      return float_tanh(x, worst_exp);
    case VKF_ACT_SIGMOID:
      return 1 / (1 + worst_exp(fminf(-x, 80)));
    case VKF_ACT_QUICK_GELU:
      return x / (1 + worst_exp(fminf(-1.702f * x, 80)));
    case VKF_ACT_RELU2:
      return x < 0 ? 0 : x * x;
    default:
      return x;
  }
}

static vkf_call matmul_call(const float *x, const float *w, const float *bias, const float *residual, uint32_t k,
                            vkf_activation act, vkf_params *params, vkf_dims *dims) {
  *params = (vkf_params){.matmul = {.rows = VKF_DIM_BS, .n = N, .k = k, .activation = act}};
  *dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = M});
  vkf_call call = {.op = VKF_OP_MATMUL, .name = "matmul", .params = params, .dims = dims};
  call.in[VKF_MATMUL_X] = VIEW(x, M, k);
  call.in[VKF_MATMUL_W] = VIEW(w, N, k);
  call.in[VKF_MATMUL_BIAS] = VIEW(bias, N);
  call.in[VKF_MATMUL_RESIDUAL] = VIEW(residual, M, N);
  call.out[0] = VIEW(NULL, M, N);
  return call;
}

/* Returns the largest err/bound of the float32 computation. */
static double matmul_ratio(uint32_t k, bool one_sign, vkf_activation act, uint32_t partial, double sigma) {
  float *x = one_sign ? positive_floats(M * k, 1) : random_floats(M * k, 1, 0, sigma);
  float *w = one_sign ? positive_floats(N * k, 2) : random_floats(N * k, 2, 0, 1);
  float *bias = random_floats(N, 3, 0, 1), *residual = random_floats(M * N, 4, 0, 1);
  vkf_params params;
  vkf_dims dims;
  vkf_rounding rounding = vulkan_rounding(partial, 32);
  vkf_call call = matmul_call(x, w, bias, residual, k, act, &params, &dims);
  result r = compare_call(&call, &rounding);
  for (uint32_t i = 0; i < M * N; i++) {
    float sum = float_dot(x + i / N * k, w + i % N * k, k, partial) + bias[i % N];
    r.y[i] = float_activation(act, sum) + residual[i];
  }
  double ratio = ratio_of(&call, &r);
  finish(&r);
  free(x);
  free(w);
  free(bias);
  free(residual);
  return ratio;
}

/* All cores share the work on many products. The numbers are the same as row by row, which one core computes. */
static void many_products_are_shared_out(void **state) {
  (void)state;
  enum { K = 70000 };
  float *x = random_floats(M * K, 1, 0, 1), *w = random_floats(N * K, 2, 0, 1), *bias = random_floats(N, 3, 0, 1),
        *residual = random_floats(M * N, 4, 0, 1);
  vkf_params params;
  vkf_dims dims;
  vkf_rounding rounding = vulkan_rounding(1, 32);
  rounding.x_f16 = true;
  rounding.at_once = 16;
  assert_true((uint64_t)M * N * K >= 1u << 24 && (uint64_t)N * K < 1u << 24);
  vkf_call call = matmul_call(x, w, bias, residual, K, VKF_ACT_GELU, &params, &dims);
  result all = compare_call(&call, &rounding);
  dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 1});
  for (uint32_t m = 0; m < M; m++) {
    call.in[VKF_MATMUL_X] = VIEW(x + m * K, 1, K);
    call.in[VKF_MATMUL_RESIDUAL] = VIEW(residual + m * N, 1, N);
    call.out[0] = VIEW(NULL, 1, N);
    result one = compare_call(&call, &rounding);
    assert_memory_equal(all.exact + m * N, one.exact, N * sizeof *one.exact);
    assert_memory_equal(all.bound + m * N, one.bound, N * sizeof *one.bound);
    finish(&one);
  }
  finish(&all);
  free(x);
  free(w);
  free(bias);
  free(residual);
}

static void matmul_in_float_is_within_its_bound(void **state) {
  (void)state;
  static const uint32_t widths[] = {1, 5, 64, 512, 2048};
  assert_true(matmul_ratio(65537, false, VKF_ACT_NONE, 1, 1) <= 1);
  assert_true(matmul_ratio(65537, true, VKF_ACT_NONE, 1, 1) <= 1);
  for (int act = 0; act < VKF_ACT_COUNT; act++) {
    for (size_t i = 0; i < VKF_COUNT(widths); i++) {
      for (uint32_t partial = 1; partial <= 32; partial *= 8) {
        assert_true(matmul_ratio(widths[i], false, (vkf_activation)act, partial, 1) <= 1);
        assert_true(matmul_ratio(widths[i], false, (vkf_activation)act, partial, 0.05) <= 1);
        assert_true(matmul_ratio(widths[i], true, (vkf_activation)act, partial, 1) <= 1);
      }
    }
  }
}

/* Returns err/bound of float32 sums whose x is rounded by dropped_bits bits (13: to f16, without subnormal numbers).
 * The bound is that of cooperative matrices. */
static double rounded_ratio(float scale_of_x, uint32_t dropped_bits) {
  enum { K = 64 };
  float *x = random_floats(M * K, 1, 0, scale_of_x), *w = random_floats(N * K, 2, 0, 1);
  vkf_params params;
  vkf_dims dims;
  vkf_rounding rounding = vulkan_rounding(1, 32);
  rounding.x_f16 = true;
  rounding.u = 0x1p-23;
  rounding.at_once = 16;
  assert_int_equal(vkf_format_round(NULL, "w", VKF_FORMAT_F16, 0, w, N, K), VKF_OK);
  vkf_call call = matmul_call(x, w, NULL, NULL, K, VKF_ACT_NONE, &params, &dims);
  result r = compare_call(&call, &rounding);
  for (uint32_t i = 0; i < M * N; i++) {
    float sum = 0;
    for (uint32_t k = 0; k < K; k++) {
      uint32_t bits;
      float rounded = x[i / N * K + k];
      memcpy(&bits, &rounded, sizeof bits);
      bits = (bits + (1u << (dropped_bits - 1)) - 1 + (bits >> dropped_bits & 1)) >> dropped_bits << dropped_bits;
      memcpy(&rounded, &bits, sizeof rounded);
      sum += fabsf(rounded) < 0x1p-14f ? 0 : rounded * w[i % N * K + k];
    }
    r.y[i] = sum;
  }
  double ratio = ratio_of(&call, &r);
  finish(&r);
  free(x);
  free(w);
  return ratio;
}

static void rounding_of_x_is_within_its_bound(void **state) {
  (void)state;
  assert_true(rounded_ratio(1, 13) <= 1 && rounded_ratio(1, 13) >= 0.1);
  assert_true(rounded_ratio(0x1p-14f, 13) <= 1);
  assert_true(rounded_ratio(1, 16) > 1); /* as bf16 */
}

static void matmul_bound_is_not_loose(void **state) {
  (void)state;
  assert_true(matmul_ratio(64, true, VKF_ACT_NONE, 1, 1) >= 0.05);
  assert_true(matmul_ratio(512, true, VKF_ACT_NONE, 1, 1) >= 0.02);
  assert_true(matmul_ratio(2048, true, VKF_ACT_NONE, 1, 1) >= 0.01);
  assert_true(matmul_ratio(2048, true, VKF_ACT_NONE, 32, 1) >= 0.01);
}

/* One product of an integer and half an integer: the sum is exact, so the bound is that of the activation alone. */
static void activations_are_within_their_bound(void **state) {
  (void)state;
  for (int act = VKF_ACT_GELU; act < VKF_ACT_COUNT; act++) {
    float x[M], w[N];
    vkf_params params;
    vkf_dims dims;
    vkf_rounding rounding = vulkan_rounding(1, 32);
    for (int i = 0; i < N; i++) w[i] = 0.5f * (float)(i + 1);
    for (int i = 0; i < M; i++) x[i] = (float)(i % 2 ? i : -i);
    vkf_call call = matmul_call(x, w, NULL, NULL, 1, (vkf_activation)act, &params, &dims);
    result r = compare_call(&call, &rounding);
    for (int i = 0; i < M * N; i++) r.y[i] = float_activation((vkf_activation)act, x[i / N] * w[i % N]);
    assert_true(ratio_of(&call, &r) <= 1);
    assert_true(act == VKF_ACT_RELU2 || ratio_of(&call, &r) >= 0.05); /* squares of small halves are exact */
    for (int i = 0; i < M * N; i++) r.y[i] = float_activation((vkf_activation)act, x[i / N] * w[i % N] * 1.0001f);
    assert_true(ratio_of(&call, &r) > 1);
    finish(&r);
  }
}

/* kind 0: one sum; 1: sums of the lanes of a subgroup; 2: splits of K; 3: steps of 16 products of numbers in f16. */
static vkf_rounding kind_of_sums(uint32_t kind, uint32_t k) {
  vkf_rounding r = vulkan_rounding(1, 32);
  if (kind == 1) r.n_partial = 128, r.together = 4;
  if (kind == 2) r.n_partial = 16, r.together = VKF_ROUND_UP(VKF_CEIL_DIV(k, 16), 16);
  if (kind == 3) r.x_f16 = true, r.u = 0x1p-23, r.at_once = 16;
  return r;
}

/* Sums of many products, in the order that the rounding states, of numbers of both signs and of one. */
static void long_sums_are_within_their_bound(void **state) {
  (void)state;
  enum { K = 65537, ROWS_OF_X = 2 };
  for (uint32_t kind = 0; kind < 3; kind++)
    for (int one_sign = 0; one_sign < 2; one_sign++) {
      float *x = one_sign ? positive_floats(ROWS_OF_X * K, 1) : random_floats(ROWS_OF_X * K, 1, 0, 1);
      float *w = one_sign ? positive_floats(N * K, 2) : random_floats(N * K, 2, 0, 1);
      vkf_params params;
      vkf_dims dims;
      const vkf_rounding r = kind_of_sums(kind, K);
      vkf_call call = matmul_call(x, w, NULL, NULL, K, VKF_ACT_NONE, &params, &dims);
      dims.v[VKF_DIM_BS] = ROWS_OF_X;
      call.out[0] = VIEW(NULL, ROWS_OF_X, N);
      result y = compare_call(&call, &r);
      for (uint32_t i = 0; i < ROWS_OF_X * N; i++)
        y.y[i] = float_sums(x + i / N * K, w + i % N * K, K, r.n_partial, VKF_MAX(r.together, 1u));
      const double ratio = ratio_of(&call, &y);
      print_message("  kind %u, %s: %.3f of the bound\n", (unsigned)kind, one_sign ? "one sign" : "both signs", ratio);
      assert_true(ratio <= 1 && ratio > 0.001);
      finish(&y);
      free(x);
      free(w);
    }
}

/* Returns the share of elements that exceed their bound if one of their products is left out. */
static double share_of_dropped(uint32_t k, const vkf_rounding *rounding) {
  const uint32_t n_rows = k < 1000 ? 300 : 3; /* rows of N elements */
  float *x = random_floats((size_t)n_rows * k, 1, 0, 1), *w = random_floats((size_t)N * k, 2, 0, 1);
  vkf_params params;
  vkf_dims dims;
  vkf_call call = matmul_call(x, w, NULL, NULL, k, VKF_ACT_NONE, &params, &dims);
  dims.v[VKF_DIM_BS] = n_rows;
  call.out[0] = VIEW(NULL, n_rows, N);
  result r = compare_call(&call, rounding);
  double seen = 0;
  for (uint32_t i = 0; i < n_rows * N; i++) {
    const uint32_t row = i / N, column = i % N, gone = (uint32_t)((uint64_t)k * i / (n_rows * N));
    seen += fabs((double)x[row * k + gone] * (double)w[column * k + gone]) > r.bound[i];
  }
  finish(&r);
  free(x);
  free(w);
  return seen / (n_rows * N);
}

static void a_dropped_product_is_over_the_bound(void **state) {
  (void)state;
  static const uint32_t widths[] = {512, 8192, 65537};
  static const double shares[4][3] = {{0.98, 0.9, 0.4}, {0.98, 0.9, 0.75}, {0.98, 0.9, 0.65}, {0.95, 0.7, 0.15}};
  for (uint32_t kind = 0; kind < 4; kind++)
    for (size_t i = 0; i < VKF_COUNT(widths); i++) {
      const vkf_rounding rounding = kind_of_sums(kind, widths[i]);
      const double share = share_of_dropped(widths[i], &rounding);
      print_message("  sums of kind %u of %u products without one: %.2f are over the bound\n", (unsigned)kind,
                    (unsigned)widths[i], share);
      assert_true(share >= shares[kind][i]);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { KEYS = 150, WIDTH = 24, VALUE = 10 };

/* The relative error of tanh must be small for small numbers, too: a soft cap c multiplies tanh(x / c) by c. */
static void tanh_of_small_numbers(void **state) {
  (void)state;
  const vkf_rounding rounding = vulkan_rounding(1, 1);
  double largest = 0;
  for (float x = 1e-30f; x < 9; x *= 1.0001f) {
    const double bound = vkf_ref_activate_bound(VKF_ACT_TANH, (double)x, 0, &rounding),
                 ratio = fabs((double)float_tanh(x, expf) - tanh((double)x)) / bound;
    if (x < 0.5f) assert_true(bound < 2e-7 * tanh((double)x) + 1e-37);
    if (x < 0.5f) largest = fmax(largest, ratio);
    assert_true(ratio <= 1);
  }
  print_message("  tanh below 0.5: %.2f of its bound\n", largest);
  assert_true(largest > 0.4);
}

/* Computes one query by the online softmax in blocks (Milakov and Gimelshein 2018). weights: the factor of the weights
 * before they are rounded to f16; 0: they are not rounded. */
static void float_attention(const float *q, const float *k, const float *v, float scale, float softcap, uint32_t block,
                            float (*exp_of)(float), float weights, float *out) {
  float o[VALUE] = {0}, score[KEYS], top = -3.4e38f, total = 0;
  for (uint32_t s0 = 0; s0 < KEYS; s0 += block) {
    uint32_t end = VKF_MIN(s0 + block, (uint32_t)KEYS);
    float risen = top;
    for (uint32_t s = s0; s < end; s++) {
      score[s] = float_dot(q, k + s * WIDTH, WIDTH, 1) * scale;
      if (softcap > 0) score[s] = softcap * float_tanh(score[s] / softcap, exp_of);
      risen = fmaxf(risen, score[s]);
    }
    float factor = exp_of(top - risen);
    top = risen;
    total *= factor;
    for (int i = 0; i < VALUE; i++) o[i] *= factor;
    for (uint32_t s = s0; s < end; s++) {
      const float weight = exp_of(score[s] - top), e = weights > 0 ? vkf_ref_halved(weight * weights) : weight;
      total += e;
      for (int i = 0; i < VALUE; i++) o[i] += e * v[s * VALUE + i];
    }
  }
  for (int i = 0; i < VALUE; i++) out[i] = o[i] / total;
}

static void halve(float *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = vkf_ref_halved(x[i]);
}

/* Returns the largest err/bound over 30 queries. factor: a fault in the scale (1: none); good_exp: exp has an error of
 * at most one ulp; f16: inputs and weights are rounded to it. */
static double attention_ratio_in(bool f16, double mean, double sigma, bool one_sign, uint32_t block, float factor,
                                 bool good_exp, float softcap) {
  enum { QUERIES = 30 };
  float *q = random_floats(QUERIES * WIDTH, 1, mean, sigma), *k = random_floats(KEYS * WIDTH, 2, mean, sigma);
  float *v = one_sign ? positive_floats(KEYS * VALUE, 3) : random_floats(KEYS * VALUE, 3, 0, 1);
  vkf_params params = {.attention = plain_attention(VKF_DIM_R, VKF_DIM_T, 1, WIDTH, VALUE, 0.2f)};
  params.attention.softcap = softcap;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .R = 1, .T = QUERIES, .S = KEYS});
  vkf_rounding rounding = vulkan_rounding(1, block);
  if (good_exp) rounding.exp_ulp_base = 1;
  if (good_exp) rounding.exp_ulp_slope = 0;
  rounding.x_f16 = f16;
  vkf_call call = {.op = VKF_OP_ATTENTION, .name = "attention", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(q, QUERIES, WIDTH);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, 1, KEYS, WIDTH);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, KEYS, VALUE);
  call.out[0] = VIEW(NULL, QUERIES, VALUE);
  result r = compare_call(&call, &rounding);
  if (f16) {
    halve(q, QUERIES * WIDTH);
    halve(k, KEYS * WIDTH);
    halve(v, KEYS * VALUE);
  }
  for (int t = 0; t < QUERIES; t++)
    float_attention(q + t * WIDTH, k, v, 0.2f * factor, softcap, block, good_exp ? expf : worst_exp,
                    f16 ? VKF_HALF_WEIGHT : 0, r.y + t * VALUE);
  double ratio = ratio_of(&call, &r);
  finish(&r);
  free(q);
  free(k);
  free(v);
  return ratio;
}

static double attention_ratio(double mean, double sigma, bool one_sign, uint32_t block, float factor, bool good_exp,
                              float softcap) {
  return attention_ratio_in(false, mean, sigma, one_sign, block, factor, good_exp, softcap);
}

/* As by cooperative matrices: most of the error is the rounding to f16, above all of the values and their weights. */
static void attention_in_halves_is_within_its_bound(void **state) {
  (void)state;
  static const double sigmas[] = {0.1, 1, 3, 10, 100};
  for (size_t i = 0; i < VKF_COUNT(sigmas); i++) {
    assert_true(attention_ratio_in(true, 0, sigmas[i], false, 32, 1, false, 0) <= 1);
    assert_true(attention_ratio_in(true, 0, sigmas[i], true, 32, 1, true, 3) <= 1);
  }
  assert_true(attention_ratio_in(true, 20, 0.1, false, 32, 1, true, 0) <= 1);
  assert_true(attention_ratio_in(true, 0, 1, false, 32, 1, true, 0) >= 0.1);
  assert_true(attention_ratio_in(true, 0, 1, false, 32, 1.01f, true, 0) > 1);
}

static void attention_in_float_is_within_its_bound(void **state) {
  (void)state;
  static const double sigmas[] = {0.1, 1, 3, 10, 100};
  static const uint32_t blocks[] = {1, 16, 32, 1024};
  for (size_t i = 0; i < VKF_COUNT(sigmas); i++) {
    for (size_t b = 0; b < VKF_COUNT(blocks); b++) {
      assert_true(attention_ratio(0, sigmas[i], false, blocks[b], 1, false, 0) <= 1);
      assert_true(attention_ratio(0, sigmas[i], true, blocks[b], 1, false, 0) <= 1);
      assert_true(attention_ratio(0, sigmas[i], false, blocks[b], 1, true, 0) <= 1);
    }
  }
}

/* Scores near 2000 that differ by little: most of the error is the rounding of the scores themselves. */
static void large_scores_are_within_their_bound(void **state) {
  (void)state;
  assert_true(attention_ratio(20, 0.1, false, 1024, 1, true, 0) <= 1);
  assert_true(attention_ratio(20, 0.1, true, 32, 1, true, 0) <= 1);
}

/* The unluckiest dot products that a device may have: every operation is off by u, up for even keys and down for odd
 * ones, whose values are opposite. The weights follow, and the errors of the scores are nearly all of the bound. */
static void unlucky_scores_use_up_the_bound(void **state) {
  (void)state;
  enum { N_KEYS = 16, K = 64 };
  float q[K], k[N_KEYS * K], v[N_KEYS], weights[N_KEYS];
  double total = 0, out = 0;
  for (int i = 0; i < K; i++) q[i] = 4 + (float)(i % 5);
  for (int i = 0; i < N_KEYS * K; i++) k[i] = 5;
  for (int s = 0; s < N_KEYS; s++) v[s] = s % 2 ? -1 : 1;
  vkf_params params = {.attention = plain_attention(VKF_DIM_R, VKF_DIM_T, 1, K, 1, 1)};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .R = 1, .T = 1, .S = N_KEYS});
  vkf_rounding rounding = vulkan_rounding(1, 1024);
  vkf_call call = {.op = VKF_OP_ATTENTION, .name = "attention", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(q, 1, K);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, 1, N_KEYS, K);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, N_KEYS, 1);
  call.out[0] = VIEW(NULL, 1, 1);
  result r = compare_call(&call, &rounding);
  for (int s = 0; s < N_KEYS; s++) {
    double sum = 0, off = 1 + (s % 2 ? -1 : 1) * 0.99 * 0x1p-24;
    for (int i = 0; i < K; i++) sum = (sum + (double)q[i] * (double)k[s * K + i] * off) * off;
    weights[s] = (float)exp(sum - 1910); /* 1910: the exact sum */
  }
  for (int s = 0; s < N_KEYS; s++) {
    total += (double)weights[s];
    out += (double)weights[s] * (double)v[s];
  }
  r.y[0] = (float)(out / total);
  double ratio = ratio_of(&call, &r);
  assert_true(ratio <= 1 && ratio > 0.1);
  finish(&r);
}

static void capped_scores_are_within_their_bound(void **state) {
  (void)state;
  static const float caps[] = {0.5f, 5, 50};
  for (size_t i = 0; i < VKF_COUNT(caps); i++) {
    for (double sigma = 0.1; sigma < 200; sigma *= 10) {
      assert_true(attention_ratio(0, sigma, false, 16, 1, false, caps[i]) <= 1);
      assert_true(attention_ratio(0, sigma, true, 16, 1, true, caps[i]) <= 1);
    }
    assert_true(attention_ratio(0, 1, false, 16, 1.001f, true, caps[i]) > 1);
  }
}

static void attention_bound_is_not_loose(void **state) {
  (void)state;
  assert_true(attention_ratio(0, 1, true, 32, 1, true, 0) >= 0.002);
}

static void a_wrong_scale_is_over_the_bound(void **state) {
  (void)state;
  assert_true(attention_ratio(0, 1, false, 32, 1.001f, false, 0) > 1);
  assert_true(attention_ratio(0, 1, false, 1, 1.01f, false, 0) > 1);
}

/* ---- norm -------------------------------------------------------------------------------------------------------- */

enum { ROWS = 20 };

static float norm_element(const float *x, uint32_t i, const float *residual) {
  return residual ? x[i] + residual[i] : x[i];
}

/* Norm in two passes with one accumulator. fault: the variance is the mean square minus the squared mean. */
static void float_norm(const float *x, const float *residual, const float *w, const float *b, uint32_t width, bool rms,
                       bool fault, float *y) {
  float sum = 0, squares = 0;
  for (uint32_t i = 0; i < width; i++) sum += norm_element(x, i, residual);
  float mean = rms ? 0 : sum / (float)width;
  for (uint32_t i = 0; i < width; i++) {
    float d = norm_element(x, i, residual) - (fault ? 0 : mean);
    squares += d * d;
  }
  float variance = squares / (float)width - (fault ? mean * mean : 0);
  float factor = 1 / sqrtf(variance + 1e-5f);
  for (uint32_t i = 0; i < width; i++) y[i] = (norm_element(x, i, residual) - mean) * factor * w[i] + b[i];
}

static double norm_ratio(uint32_t width, double mean, bool rms, bool with_residual, bool fault) {
  float *x = random_floats(ROWS * width, 1, mean, 1), *w = random_floats(width, 2, 1, 0.3);
  float *b = random_floats(width, 3, 0, 1), *residual = with_residual ? random_floats(ROWS * width, 4, 0, 1) : NULL;
  vkf_params params = {.norm = {.rows = VKF_DIM_BS, .width = width, .eps = 1e-5f}};
  params.norm.kind = rms ? VKF_NORM_RMS : VKF_NORM_LAYER;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = ROWS});
  vkf_rounding rounding = vulkan_rounding(1, 32);
  vkf_call call = {.op = VKF_OP_NORM, .name = "norm", .params = &params, .dims = &dims};
  call.in[VKF_NORM_X] = VIEW(x, ROWS, width);
  call.in[VKF_NORM_RESIDUAL] = VIEW(residual, ROWS, width);
  call.in[VKF_NORM_WEIGHT] = VIEW(w, width);
  call.in[VKF_NORM_BIAS] = VIEW(b, width);
  call.out[0] = VIEW(NULL, ROWS, width);
  result r = compare_call(&call, &rounding);
  for (uint32_t row = 0; row < ROWS; row++) {
    const float *rest = residual ? residual + row * width : NULL;
    float_norm(x + row * width, rest, w, b, width, rms, fault, r.y + row * width);
  }
  double ratio = ratio_of(&call, &r);
  finish(&r);
  free(x);
  free(w);
  free(b);
  free(residual);
  return ratio;
}

static void norm_in_float_is_within_its_bound(void **state) {
  (void)state;
  static const uint32_t widths[] = {1, 3, 64, 511, 2048};
  static const double means[] = {0, 1, 10000};
  for (size_t i = 0; i < VKF_COUNT(widths); i++) {
    for (size_t m = 0; m < VKF_COUNT(means); m++) {
      for (int kind = 0; kind < 4; kind++) {
        assert_true(norm_ratio(widths[i], means[m], kind & 1, kind & 2, false) <= 1);
      }
    }
  }
  assert_true(norm_ratio(64, 0, false, true, false) >= 0.01);
}

/* E[x^2] - E[x]^2 at mean 10000 and sigma 1 loses all digits, which must exceed the bound. */
static void the_wrong_variance_is_over_the_bound(void **state) {
  (void)state;
  assert_true(norm_ratio(64, 10000, false, false, true) > 1);
}

/* ---- log-softmax ------------------------------------------------------------------------------------------------- */

static double log_softmax_ratio(uint32_t width, double mean, double sigma, float fault) {
  float *x = random_floats(ROWS * width, 1, mean, sigma);
  vkf_params params = {.log_softmax = {.rows = VKF_DIM_OUT, .width = width}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.out = ROWS});
  vkf_rounding rounding = vulkan_rounding(1, 32);
  vkf_call call = {.op = VKF_OP_LOG_SOFTMAX, .name = "log-softmax", .params = &params, .dims = &dims};
  call.in[0] = VIEW(x, ROWS, width);
  call.out[0] = VIEW(NULL, ROWS, width);
  result r = compare_call(&call, &rounding);
  for (uint32_t row = 0; row < ROWS; row++) {
    const float *from = x + row * width;
    float top = from[0], sum = 0;
    for (uint32_t i = 1; i < width; i++) top = fmaxf(top, from[i]);
    for (uint32_t i = 0; i < width; i++) sum += worst_exp(from[i] - top);
    float shift = logf(sum * (1 + fault));
    for (uint32_t i = 0; i < width; i++) r.y[row * width + i] = from[i] - top - shift;
  }
  double ratio = ratio_of(&call, &r);
  finish(&r);
  free(x);
  return ratio;
}

static void log_softmax_in_float_is_within_its_bound(void **state) {
  (void)state;
  static const uint32_t widths[] = {1, 2, 33, 1000, 8192};
  for (size_t i = 0; i < VKF_COUNT(widths); i++) {
    assert_true(log_softmax_ratio(widths[i], 0, 1, 0) <= 1);
    assert_true(log_softmax_ratio(widths[i], 10000, 1, 0) <= 1);
    assert_true(log_softmax_ratio(widths[i], 0, 30, 0) <= 1);
  }
  assert_true(log_softmax_ratio(33, 0, 1, 0) >= 0.01);
  assert_true(log_softmax_ratio(33, 0, 1, 1e-4f) > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tanh_of_small_numbers),
      cmocka_unit_test(many_products_are_shared_out),
      cmocka_unit_test(matmul_in_float_is_within_its_bound),
      cmocka_unit_test(matmul_bound_is_not_loose),
      cmocka_unit_test(rounding_of_x_is_within_its_bound),
      cmocka_unit_test(activations_are_within_their_bound),
      cmocka_unit_test(long_sums_are_within_their_bound),
      cmocka_unit_test(a_dropped_product_is_over_the_bound),
      cmocka_unit_test(attention_in_float_is_within_its_bound),
      cmocka_unit_test(attention_in_halves_is_within_its_bound),
      cmocka_unit_test(large_scores_are_within_their_bound),
      cmocka_unit_test(capped_scores_are_within_their_bound),
      cmocka_unit_test(attention_bound_is_not_loose),
      cmocka_unit_test(unlucky_scores_use_up_the_bound),
      cmocka_unit_test(a_wrong_scale_is_over_the_bound),
      cmocka_unit_test(norm_in_float_is_within_its_bound),
      cmocka_unit_test(the_wrong_variance_is_over_the_bound),
      cmocka_unit_test(log_softmax_in_float_is_within_its_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
