/* rope, relative bias, patches, gate and norm in groups: what they are for, and bounds compared with float32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/calls.h"

static vkf_env env;

static void fill(float *x, size_t n, uint64_t stream) {
  for (size_t i = 0; i < n; i++) x[i] = (float)vkf_rng_normal(11, stream, i);
}

static void run(vkf_call *call) {
  vkf_env_init(&env, NULL);
  if (vkf_ref_run(&env, call) != VKF_OK) fail_msg("%s", env.message);
}

/* Returns the largest err/bound of `got`, n numbers, by the reference's results and bounds for the call. */
static double ratio_of(const vkf_call *given, const float *got, size_t n) {
  vkf_rounding rounding = vulkan_rounding(1, 32);
  vkf_comparison j = {0};
  vkf_call call = *given;
  float *y = calloc(n, sizeof(*y));
  call.exact[0] = calloc(n, sizeof(double));
  call.bound[0] = calloc(n, sizeof(double));
  call.out[0].data = y;
  call.rounding = &rounding;
  run(&call);
  vkf_compare(&call, 0, got, call.exact[0], call.bound[0], &j);
  assert_int_equal(j.n, n);
  free(y);
  free(call.exact[0]);
  free(call.bound[0]);
  return j.ratio;
}

/* ---- rope -------------------------------------------------------------------------------------------------------- */

enum { K = 8, POSITIONS = 40 };

static void make_table(float *table, uint32_t rotary, double factor) {
  for (uint32_t p = 0; p < POSITIONS; p++) {
    for (uint32_t i = 0; i < rotary / 2; i++) {
      double angle = p * pow(10000, -2.0 * i / rotary);
      table[p * rotary + 2 * i] = (float)(factor * cos(angle));
      table[p * rotary + 2 * i + 1] = (float)(factor * sin(angle));
    }
  }
}

/* Rotates one head of one row at a position. */
static void turned(const float *x, int32_t position, vkf_rope_pairs pairs, uint32_t rotary, float *out) {
  float table[POSITIONS * K];
  make_table(table, rotary, 1);
  vkf_params params = {.rope = {.rows = VKF_DIM_BS,
                                .width = K,
                                .n_heads = 1,
                                .head_width = K,
                                .rotary = rotary,
                                .n_positions = POSITIONS,
                                .pairs = pairs}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 1});
  vkf_call call = {.op = VKF_OP_ROPE, .name = "rope", .params = &params, .dims = &dims};
  call.in[VKF_ROPE_X] = VIEW(x, 1, K);
  call.in[VKF_ROPE_POSITIONS] = VIEW(&position, 1);
  call.in[VKF_ROPE_TABLE] = VIEW(table, POSITIONS, rotary);
  call.out[0] = VIEW(out, 1, K);
  run(&call);
}

static double dot(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < K; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

/* A dot product of K pairs of numbers of about one, each off by gamma(2) of two: 4 u K is some 2e-6. */
#define NEAR 2e-6
static void scores_depend_on_distance_alone(void **state) {
  (void)state;
  for (int pairs = VKF_ROPE_HALVES; pairs <= VKF_ROPE_INTERLEAVED; pairs++) {
    for (uint32_t rotary = 4; rotary <= K; rotary += 4) {
      float q[K], k[K], a[K], b[K];
      fill(q, K, 1);
      fill(k, K, 2);
      double first = 0, elsewhere = 0;
      for (int shift = 0; shift <= 30; shift += 6) {
        turned(q, 7 + shift, (vkf_rope_pairs)pairs, rotary, a);
        turned(k, 2 + shift, (vkf_rope_pairs)pairs, rotary, b);
        assert_true(fabs(dot(a, a) - dot(q, q)) < NEAR); /* lengths are kept */
        if (shift == 0) first = dot(a, b);
        assert_true(fabs(dot(a, b) - first) < NEAR);
      }
      turned(k, 3, (vkf_rope_pairs)pairs, rotary, b);
      turned(q, 7, (vkf_rope_pairs)pairs, rotary, a);
      elsewhere = dot(a, b);
      assert_true(fabs(elsewhere - first) > 1e-3);
    }
  }
}

/* The two layouts are the same rotation with columns in another order. Columns that are not rotated keep their bits. */
static void layouts_agree(void **state) {
  (void)state;
  float x[K], y[K], a[K], b[K];
  fill(x, K, 3);
  for (int i = 0; i < K / 2; i++) {
    y[2 * i] = x[i];
    y[2 * i + 1] = x[i + K / 2];
  }
  turned(x, 9, VKF_ROPE_HALVES, K, a);
  turned(y, 9, VKF_ROPE_INTERLEAVED, K, b);
  for (int i = 0; i < K / 2; i++) {
    assert_true(a[i] == b[2 * i] && a[i + K / 2] == b[2 * i + 1]);
  }
  turned(x, 9, VKF_ROPE_HALVES, 4, a);
  assert_memory_equal(a + 4, x + 4, 4 * sizeof(float));
  assert_true(fabs((double)a[0] - ((double)x[0] * cos(9) - (double)x[2] * sin(9))) < 1e-6);
  assert_true(fabs((double)a[2] - ((double)x[2] * cos(9) + (double)x[0] * sin(9))) < 1e-6);
  turned(x, 0, VKF_ROPE_HALVES, K, a);
  assert_memory_equal(a, x, sizeof a);
}

static void rope_in_float_is_within_its_bound(void **state) {
  (void)state;
  enum { ROWS = 30, WIDTH = 3 * K };
  float x[ROWS * WIDTH], table[POSITIONS * K], y[ROWS * WIDTH];
  int32_t positions[ROWS];
  fill(x, ROWS * WIDTH, 4);
  make_table(table, K, 1.1);
  for (int r = 0; r < ROWS; r++) positions[r] = r;
  vkf_params params = {.rope = {.rows = VKF_DIM_BS,
                                .width = WIDTH,
                                .n_heads = 1,
                                .n_kv_heads = 1,
                                .k_column = K,
                                .head_width = K,
                                .rotary = K,
                                .n_positions = POSITIONS}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = ROWS});
  vkf_call call = {.op = VKF_OP_ROPE, .name = "rope", .params = &params, .dims = &dims};
  call.in[VKF_ROPE_X] = VIEW(x, ROWS, WIDTH);
  call.in[VKF_ROPE_POSITIONS] = VIEW(positions, ROWS);
  call.in[VKF_ROPE_TABLE] = VIEW(table, POSITIONS, K);
  call.out[0] = VIEW(NULL, ROWS, WIDTH);
  memcpy(y, x, sizeof y);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < 2 * K; i++) {
      int first = i / K * K, c = i % K, pair = c % (K / 2);
      float cosine = table[r * K + 2 * pair], sine = table[r * K + 2 * pair + 1];
      float a = x[r * WIDTH + first + pair], b = x[r * WIDTH + first + pair + K / 2];
      y[r * WIDTH + i] = c < K / 2 ? a * cosine - b * sine : b * cosine + a * sine;
    }
  }
  assert_true(ratio_of(&call, y, ROWS * WIDTH) <= 1);
  assert_true(ratio_of(&call, y, ROWS * WIDTH) >= 0.3);
  y[5 * WIDTH + 3] += 1e-6f;
  assert_true(ratio_of(&call, y, ROWS * WIDTH) > 1);
  positions[3] = POSITIONS;
  call.out[0].data = y;
  assert_int_equal(vkf_ref_run(&env, &call), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "node rope: position 40 of row 3, expected 0 to 39");
}

/* ---- relative bias ----------------------------------------------------------------------------------------------- */

/* Each head has a bias for each distance. Attention takes that of a key's distance; beyond an end, that of the end. */
static void bias_is_that_of_the_distance(void **state) {
  (void)state;
  enum { KEYS = 9, HEADS = 2, BUCKETS = 6, BEFORE = 3, AFTER = 2, N = BEFORE + 1 + AFTER };
  float table[BUCKETS * HEADS], biases[HEADS * N];
  const int32_t buckets[N] = {4, 1, 2, 0, 5, 3};
  fill(table, BUCKETS * HEADS, 5);
  const vkf_params params = {.relative_bias = {.n_heads = HEADS, .n_buckets = BUCKETS, .n_distances = N}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1});
  vkf_call call = {.op = VKF_OP_RELATIVE_BIAS, .name = "bias", .params = &params, .dims = &dims};
  call.in[VKF_RELATIVE_BIAS_TABLE] = VIEW(table, BUCKETS, HEADS);
  call.in[VKF_RELATIVE_BIAS_BUCKETS] = VIEW(buckets, N);
  call.out[0] = VIEW(biases, HEADS, N);
  run(&call);
  for (int h = 0; h < HEADS; h++)
    for (int d = 0; d < N; d++) assert_true(biases[h * N + d] == table[buckets[d] * HEADS + h]);
  /* A query after 5 tokens; keys of 0, so that its scores are the biases. */
  float q[HEADS] = {0}, k[HEADS * KEYS] = {0}, weights[HEADS * KEYS], expected[HEADS * KEYS];
  const vkf_params attention = {.attention_weights = {.seqs = VKF_DIM_R,
                                                      .queries = VKF_DIM_T,
                                                      .keys = VKF_DIM_S,
                                                      .past = VKF_DIM_PAST,
                                                      .n_heads = HEADS,
                                                      .n_kv_heads = HEADS,
                                                      .key_width = 1,
                                                      .value_width = 1,
                                                      .bias_per_head = true,
                                                      .bias_by_distance = true,
                                                      .bias_before = BEFORE,
                                                      .bias_after = AFTER,
                                                      .scale = 1}};
  dims = vkf_dims_make(&(vkf_sizes){.B = 1, .R = 1, .T = 1, .S = KEYS, .past = 5});
  call = (vkf_call){.op = VKF_OP_ATTENTION_WEIGHTS, .name = "weights", .params = &attention, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(q, 1, HEADS);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, HEADS, KEYS, 1);
  call.in[VKF_ATTENTION_BIAS] = VIEW(biases, HEADS, N);
  call.out[0] = VIEW(weights, 1, HEADS, 1, KEYS);
  run(&call);
  for (int h = 0; h < HEADS; h++) {
    double sum = 0;
    for (int s = 0; s < KEYS; s++) {
      const int distance = s - 5 < -BEFORE ? -BEFORE : s - 5 > AFTER ? AFTER : s - 5;
      expected[h * KEYS + s] = biases[h * N + distance + BEFORE];
      sum += exp((double)expected[h * KEYS + s]);
    }
    for (int s = 0; s < KEYS; s++)
      assert_true(fabs((double)weights[h * KEYS + s] - exp((double)expected[h * KEYS + s]) / sum) < 1e-7);
  }
}

/* ---- patches ----------------------------------------------------------------------------------------------------- */

/* Patches times the flattened weight of a convolution are that convolution with its own width as stride. */
static void patches_times_weight_are_a_convolution(void **state) {
  (void)state;
  enum { B = 2, C = 3, Y = 4, X = 9, PY = 2, PX = 3, N = 6, S = N + 2, COLUMNS = C * PY * PX };
  float image[B * C * Y * X], w[COLUMNS], rows[B * S * COLUMNS];
  fill(image, B * C * Y * X, 6);
  fill(w, COLUMNS, 7);
  vkf_params params = {.patches = {C, Y, X, PY, PX, 1}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = B, .S = S});
  vkf_call call = {.op = VKF_OP_PATCHES, .name = "patches", .params = &params, .dims = &dims};
  call.in[VKF_PATCHES_X] = VIEW(image, B, C * Y * X);
  call.out[0] = VIEW(rows, B * S, COLUMNS);
  run(&call);
  for (int r = 0; r < B * S; r++) {
    int patch = r % S - 1;
    double want = 0, got = 0;
    for (int c = 0; c < C && patch >= 0 && patch < N; c++) {
      for (int i = 0; i < PY * PX; i++) {
        int y = patch / 3 * PY + i / PX, x = patch % 3 * PX + i % PX;
        want += (double)image[((r / S * C + c) * Y + y) * X + x] * (double)w[c * PY * PX + i];
      }
    }
    for (int i = 0; i < COLUMNS; i++) got += (double)rows[r * COLUMNS + i] * (double)w[i];
    assert_true(fabs(got - want) < 1e-12);
    assert_true((want != 0) == (patch >= 0 && patch < N));
  }
}

/* ---- gate -------------------------------------------------------------------------------------------------------- */

static void gate_in_float_is_within_its_bound(void **state) {
  (void)state;
  enum { ROWS = 40, F = 25 };
  float x[ROWS * 2 * F], y[ROWS * F];
  fill(x, ROWS * 2 * F, 8);
  vkf_params params = {.gate = {.rows = VKF_DIM_BS, .width = F, .gate_column = F, .activation = VKF_ACT_SWISH}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = ROWS});
  vkf_call call = {.op = VKF_OP_GATE, .name = "gate", .params = &params, .dims = &dims};
  call.in[VKF_GATE_X] = VIEW(x, ROWS, 2 * F);
  call.out[0] = VIEW(NULL, ROWS, F);
  for (int i = 0; i < ROWS * F; i++) {
    float g = x[i / F * 2 * F + F + i % F], up = x[i / F * 2 * F + i % F];
    y[i] = g / (1 + expf(-g)) * up;
  }
  double ratio = ratio_of(&call, y, ROWS * F);
  assert_true(ratio <= 1 && ratio >= 0.02);
  y[77] *= 1.00001f;
  assert_true(ratio_of(&call, y, ROWS * F) > 1);
}

/* ---- norm in groups ---------------------------------------------------------------------------------------------- */

/* The groups of a row are normed as if each were a row with a weight of its own. The rest of the row keeps its bits. */
static void groups_are_rows_of_their_own(void **state) {
  (void)state;
  enum { ROWS = 3, WIDTH = 5, GROUPS = 4, REST = 3, ALL = GROUPS * WIDTH + REST };
  float x[ROWS * ALL], w[GROUPS * WIDTH], y[ROWS * ALL], alone[WIDTH];
  fill(x, ROWS * ALL, 9);
  fill(w, GROUPS * WIDTH, 10);
  vkf_params params = {
      .norm = {.rows = VKF_DIM_BS, .width = WIDTH, .kind = VKF_NORM_RMS, .eps = 1e-6f, .groups = GROUPS, .rest = REST}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = ROWS});
  vkf_call call = {.op = VKF_OP_NORM, .name = "norm", .params = &params, .dims = &dims};
  call.in[VKF_NORM_X] = VIEW(x, ROWS, ALL);
  call.in[VKF_NORM_WEIGHT] = VIEW(w, GROUPS * WIDTH);
  call.out[0] = VIEW(y, ROWS, ALL);
  run(&call);
  for (int r = 0; r < ROWS; r++) {
    for (int g = 0; g < GROUPS; g++) {
      vkf_params own = {.norm = {.rows = VKF_DIM_ONE, .width = WIDTH, .kind = VKF_NORM_RMS, .eps = 1e-6f}};
      vkf_call one = {.op = VKF_OP_NORM, .name = "norm", .params = &own, .dims = &dims};
      one.in[VKF_NORM_X] = VIEW(x + r * ALL + g * WIDTH, 1, WIDTH);
      one.in[VKF_NORM_WEIGHT] = VIEW(w + g * WIDTH, WIDTH);
      one.out[0] = VIEW(alone, 1, WIDTH);
      run(&one);
      assert_memory_equal(alone, y + r * ALL + g * WIDTH, sizeof alone);
    }
    assert_memory_equal(x + r * ALL + GROUPS * WIDTH, y + r * ALL + GROUPS * WIDTH, REST * sizeof(float));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scores_depend_on_distance_alone),        cmocka_unit_test(layouts_agree),
      cmocka_unit_test(rope_in_float_is_within_its_bound),      cmocka_unit_test(bias_is_that_of_the_distance),
      cmocka_unit_test(patches_times_weight_are_a_convolution), cmocka_unit_test(gate_in_float_is_within_its_bound),
      cmocka_unit_test(groups_are_rows_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
