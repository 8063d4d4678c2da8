/* The scalar path against worked numbers and properties: norm, softmax, attention by hand, masks, seeded weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/calls.h"
#include "support/worked.h"

static vkf_env env;

static int setup(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  return 0;
}

static void assert_near(const float *got, const double *want, size_t n, double within) {
  for (size_t i = 0; i < n; i++) {
    if (!(fabs((double)got[i] - want[i]) <= within)) fail_msg("element %zu: %.9g, expected %.9g", i, got[i], want[i]);
  }
}

/* Layer norm of rows x width without residual; scale and shift may be NULL. */
static void layer_norm(const float *x, uint32_t rows, uint32_t width, const float *scale, const float *shift,
                       float *y) {
  vkf_params params = {.norm = {.rows = VKF_DIM_BS, .width = width, .eps = 1e-5f}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = rows});
  vkf_call call = {.op = VKF_OP_NORM, .name = "norm", .params = &params, .dims = &dims};
  call.in[VKF_NORM_X] = VIEW(x, rows, width);
  call.in[VKF_NORM_WEIGHT] = VIEW(scale, width);
  call.in[VKF_NORM_BIAS] = VIEW(shift, width);
  call.out[0] = VIEW(y, rows, width);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

static void layer_norm_of_123(void **state) {
  (void)state;
  float x[6], y[6];
  worked_input("norm", "x", x, 6);
  layer_norm(x, 2, 3, NULL, NULL, y);
  assert_worked("norm", "y", y, 6);
}

static void a_constant_row_gives_beta(void **state) {
  (void)state;
  float x[3], scale[3], beta[3], y[3];
  worked_input("norm", "constant", x, 3);
  worked_input("norm", "gamma", scale, 3);
  worked_input("norm", "beta", beta, 3);
  layer_norm(x, 1, 3, scale, beta, y);
  assert_memory_equal(y, beta, sizeof(beta));
}

/* Computes the softmax of any row by attention: the scores are keys of width 1, and the query is 1. */
static void softmax(const float *scores, uint32_t n, float *weights) {
  const float one = 1;
  vkf_params params = {.attention_weights = plain_attention(VKF_DIM_R, VKF_DIM_T, 1, 1, 1, 1)};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .R = 1, .T = 1, .S = n});
  vkf_call call = {.op = VKF_OP_ATTENTION_WEIGHTS, .name = "softmax", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(&one, 1, 1);
  call.in[VKF_ATTENTION_K] = VIEW(scores, 1, 1, n, 1);
  call.out[0] = VIEW(weights, 1, 1, 1, n);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

static void softmax_is_stable_and_shift_invariant(void **state) {
  (void)state;
  float x[6], y[6], steep[3], s[3];
  worked_input("softmax", "x", x, 6);
  softmax(x, 3, y);
  softmax(x + 3, 3, y + 3);
  assert_worked("softmax", "w", y, 6);
  worked_input("softmax", "steep", steep, 3);
  softmax(steep, 3, s);
  assert_worked("softmax", "s", s, 3);
}

static void log_softmax_is_the_log_of_softmax(void **state) {
  (void)state;
  const float x[] = {100, 101, 102, 0, -3, 5};
  float y[6], weights[3];
  vkf_params params = {.log_softmax = {.rows = VKF_DIM_OUT, .width = 3}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.out = 2});
  vkf_call call = {.op = VKF_OP_LOG_SOFTMAX, .name = "log-softmax", .params = &params, .dims = &dims};
  call.in[0] = VIEW(x, 2, 3);
  call.out[0] = VIEW(y, 2, 3);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
  for (int row = 0; row < 2; row++) {
    softmax(x + 3 * row, 3, weights);
    for (int i = 0; i < 3; i++) assert_near(&(float){expf(y[3 * row + i])}, (double[]){weights[i]}, 1, 3e-7);
  }
}

/* ---- attention by hand ------------------------------------------------------------------------------------------- */

/* Computes X W^T of the worked example. */
static void project(const char *name, float out[3][4]) {
  float x[3][4], w[4][4];
  worked_input("qkv", "X", *x, 12);
  worked_input("qkv", name, *w, 16);
  vkf_params params = {.matmul = {.rows = VKF_DIM_BS, .n = 4, .k = 4}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 3});
  vkf_call call = {.op = VKF_OP_MATMUL, .name = "project", .params = &params, .dims = &dims};
  call.in[VKF_MATMUL_X] = VIEW(x, 3, 4);
  call.in[VKF_MATMUL_W] = VIEW(w, 4, 4);
  call.out[0] = VIEW(out, 3, 4);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

/* Computes attention of one head over n tokens: the output [n][width] or, if v is NULL, the weights [n][n]. mask may be
 * NULL. */
static void attend(uint32_t n, uint32_t width, const float *q, const float *k, const float *v, const int32_t *mask,
                   bool causal, float scale, float *out) {
  vkf_params params = {.attention = plain_attention(VKF_DIM_B, VKF_DIM_S, 1, width, width, scale)};
  params.attention.causal = causal;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = n});
  vkf_call call = {.op = v ? VKF_OP_ATTENTION : VKF_OP_ATTENTION_WEIGHTS, .name = "attend", .params = &params};
  call.dims = &dims;
  call.in[VKF_ATTENTION_Q] = VIEW(q, n, width);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, 1, n, width);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, n, width);
  call.in[VKF_ATTENTION_MASK] = VIEW(mask, 1, n);
  call.out[0] = v ? VIEW(out, n, width) : VIEW(out, 1, 1, n, n);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

static void attention_by_hand(void **state) {
  (void)state;
  float q[3][4], k[3][4], v[3][4], got[12];
  project("W_Q", q);
  project("W_K", k);
  project("W_V", v);
  assert_worked("qkv", "Q", *q, 12);
  assert_worked("qkv", "K", *k, 12);
  assert_worked("qkv", "V", *v, 12);
  attend(3, 4, *q, *k, NULL, NULL, false, 0.5f, got);
  assert_worked("scores", "weights", got, 9);
  attend(3, 4, *q, *k, *v, NULL, false, 0.5f, got);
  assert_worked("attention", "output", got, 12);
  attend(3, 4, *q, *k, NULL, NULL, false, 1, got);
  assert_worked("scores", "unscaled_weights", got, 3);
}

static void every_row_of_weights_sums_to_one(void **state) {
  (void)state;
  float x[7][5], weights[7][7];
  const int32_t mask[7] = {1, 1, 0, 1, 1, 0, 1};
  for (int i = 0; i < 35; i++) x[i / 5][i % 5] = (float)vkf_rng_normal(3, 1, (uint64_t)i);
  attend(7, 5, *x, *x, NULL, mask, false, 1, *weights);
  for (int t = 0; t < 7; t++) {
    double sum = 0;
    for (int s = 0; s < 7; s++) sum += (double)weights[t][s];
    assert_true(fabs(sum - 1) < 1e-6);
    assert_true(weights[t][2] == 0 && weights[t][5] == 0);
    assert_true(weights[t][0] > 0);
  }
}

static void causal_weights_are_lower_triangular(void **state) {
  (void)state;
  float x[4][3], weights[4][4];
  for (int i = 0; i < 12; i++) x[i / 3][i % 3] = (float)vkf_rng_normal(4, 1, (uint64_t)i);
  attend(4, 3, *x, *x, NULL, NULL, true, 1, *weights);
  for (int t = 0; t < 4; t++) {
    for (int s = 0; s < 4; s++) assert_true(s > t ? weights[t][s] == 0 : weights[t][s] > 0);
  }
  assert_true(weights[0][0] == 1);
}

/* Query t sees keys t - window + 1 .. t. */
static void a_window_sees_the_last_keys(void **state) {
  (void)state;
  float x[5][2], weights[5][5];
  for (int i = 0; i < 10; i++) x[i / 2][i % 2] = (float)vkf_rng_normal(8, 1, (uint64_t)i);
  for (int window = 1; window <= 5; window++) {
    vkf_params params = {.attention_weights = plain_attention(VKF_DIM_B, VKF_DIM_S, 1, 2, 2, 1)};
    params.attention_weights.causal = true;
    params.attention_weights.window = (uint32_t)window;
    vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 5});
    vkf_call call = {.op = VKF_OP_ATTENTION_WEIGHTS, .name = "window", .params = &params, .dims = &dims};
    call.in[VKF_ATTENTION_Q] = VIEW(x, 5, 2);
    call.in[VKF_ATTENTION_K] = VIEW(x, 1, 1, 5, 2);
    call.out[0] = VIEW(weights, 1, 1, 5, 5);
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    for (int t = 0; t < 5; t++) {
      for (int s = 0; s < 5; s++) assert_true((weights[t][s] > 0) == (s <= t && s > t - window));
    }
  }
}

/* Additive -1e9, additive -inf and a 0/1 mask agree. If no key is left, the output is 0. */
static void the_three_kinds_of_mask_agree(void **state) {
  (void)state;
  float x[4][3], v[4][3], by_mask[12], by_bias[12];
  const int32_t mask[4] = {1, 0, 1, 0}, nothing[4] = {0};
  for (int i = 0; i < 12; i++) {
    x[i / 3][i % 3] = (float)vkf_rng_normal(5, 1, (uint64_t)i);
    v[i / 3][i % 3] = (float)vkf_rng_normal(5, 2, (uint64_t)i);
  }
  attend(4, 3, *x, *x, *v, mask, false, 1, by_mask);
  for (int kind = 0; kind < 2; kind++) {
    float bias[16];
    for (int i = 0; i < 16; i++) bias[i] = mask[i % 4] ? 0 : kind ? -INFINITY : -1e9f;
    vkf_params params = {.attention = plain_attention(VKF_DIM_B, VKF_DIM_S, 1, 3, 3, 1)};
    vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 4});
    vkf_call call = {.op = VKF_OP_ATTENTION, .name = "bias", .params = &params, .dims = &dims};
    call.in[VKF_ATTENTION_Q] = VIEW(x, 4, 3);
    call.in[VKF_ATTENTION_K] = VIEW(x, 1, 1, 4, 3);
    call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, 4, 3);
    call.in[VKF_ATTENTION_BIAS] = VIEW(bias, 1, 4, 4);
    call.out[0] = VIEW(by_bias, 4, 3);
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    assert_memory_equal(by_mask, by_bias, sizeof(by_mask));
    for (int i = 0; i < 16; i++) bias[i] = -INFINITY;
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    for (int i = 0; i < 12; i++) assert_true(by_bias[i] == 0);
  }
  attend(4, 3, *x, *x, *v, nothing, false, 1, by_mask);
  for (int i = 0; i < 12; i++) assert_true(by_mask[i] == 0);
}

/* Without positions self-attention commutes with a permutation of the tokens. */
static void attention_commutes_with_permutation(void **state) {
  (void)state;
  static const int order[5] = {3, 0, 4, 1, 2};
  float x[5][4], shuffled[5][4], y[5][4], z[5][4];
  for (int i = 0; i < 20; i++) x[i / 4][i % 4] = (float)vkf_rng_normal(6, 1, (uint64_t)i);
  for (int r = 0; r < 5; r++) memcpy(shuffled[r], x[order[r]], sizeof(x[0]));
  attend(5, 4, *x, *x, *x, NULL, false, 0.5f, *y);
  attend(5, 4, *shuffled, *shuffled, *shuffled, NULL, false, 0.5f, *z);
  for (int r = 0; r < 5; r++) {
    for (int i = 0; i < 4; i++) assert_near(&z[r][i], (double[]){(double)y[order[r]][i]}, 1, 1e-6);
  }
}

/* Q and K of numpy.random.seed(42), randn(6, 8) each. */
static void seeded_weights(void **state) {
  (void)state;
  float q[6][8], k[6][8], full[6][6], causal[6][6];
  worked_input("masks", "Q", *q, 48);
  worked_input("masks", "K", *k, 48);
  attend(6, 8, *q, *k, NULL, NULL, false, 0.35355339f, *full);
  attend(6, 8, *q, *k, NULL, NULL, true, 0.35355339f, *causal);
  assert_worked("masks", "full_2", full[1], 6);
  assert_worked("masks", "causal_2", causal[1], 6);
  assert_worked("masks", "full_6", full[5], 6);
  assert_worked("masks", "causal_6", causal[5], 6);
}

/* ---- selection --------------------------------------------------------------------------------------------------- */

static void top_k_orders_ties_and_nan(void **state) {
  (void)state;
  const float x[7] = {2, 5, NAN, 5, 1, 2, NAN};
  const int32_t want[7] = {2, 6, 1, 3, 0, 5, 4};
  float values[7];
  int32_t ids[7];
  for (uint32_t k = 1; k <= 7; k++) {
    vkf_params params = {.top_k = {.rows = VKF_DIM_OUT, .width = 7, .k = k}};
    vkf_dims dims = vkf_dims_make(&(vkf_sizes){.out = 1});
    vkf_call call = {.op = VKF_OP_TOP_K, .name = "top-k", .params = &params, .dims = &dims};
    call.in[0] = VIEW(x, 1, 7);
    call.out[VKF_TOP_K_VALUES] = VIEW(values, 1, k);
    call.out[VKF_TOP_K_IDS] = VIEW(ids, 1, k);
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    assert_memory_equal(ids, want, k * sizeof(*ids));
    assert_true(isnan(values[0]));
    for (uint32_t i = 2; i < k; i++) assert_true(values[i] == x[ids[i]]);
  }
}

static void edits_apply_in_order(void **state) {
  (void)state;
  const float x[4] = {1, -2, 3, 4};
  const float two = 2, half = 0.5f, low = -INFINITY;
  int32_t edits[7][4] = {{VKF_LOGIT_EDIT_PENALTY, 0},
                         {VKF_LOGIT_EDIT_PENALTY, 1},
                         {VKF_LOGIT_EDIT_ADD, 0},
                         {VKF_LOGIT_EDIT_SET, 3},
                         {VKF_LOGIT_EDIT_GROW, 1},
                         {VKF_LOGIT_EDIT_GROW, 2},
                         {0}};
  const int32_t offsets[2] = {0, 6};
  const float want[4] = {1, -2, 4.5f, -INFINITY};
  float y[4];
  memcpy(&edits[0][2], &two, 4);
  memcpy(&edits[1][2], &two, 4);
  memcpy(&edits[2][2], &half, 4);
  memcpy(&edits[3][2], &low, 4);
  memcpy(&edits[4][2], &half, 4);
  memcpy(&edits[5][2], &half, 4);
  vkf_params params = {.logit_edit = {.rows = VKF_DIM_OUT, .width = 4, .max_edits = 7}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.out = 1});
  vkf_call call = {.op = VKF_OP_LOGIT_EDIT, .name = "edit", .params = &params, .dims = &dims};
  call.in[VKF_LOGIT_EDIT_X] = VIEW(x, 1, 4);
  call.in[VKF_LOGIT_EDIT_OFFSETS] = VIEW(offsets, 2);
  call.in[VKF_LOGIT_EDIT_EDITS] = VIEW(edits, 7, 4);
  call.out[0] = VIEW(y, 1, 4);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
  assert_memory_equal(y, want, sizeof(want));
  edits[3][1] = 4;
  assert_int_equal(vkf_ref_run(&env, &call), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "node edit: edited id 4 of row 0, expected 0 to 3");
}

/* The looked-up row is scaled and the position's row added. A position outside its table is named. */
static void embed_looks_up_scales_and_adds(void **state) {
  (void)state;
  const float table[3][2] = {{1, 2}, {3, 4}, {5, 6}}, places[2][2] = {{0.5f, 0.25f}, {-1, 1}};
  int32_t ids[2] = {2, 0}, positions[2] = {1, 0};
  const float want[4] = {9, 13, 2.5f, 4.25f};
  float y[4];
  vkf_params params = {.embed = {.rows = VKF_DIM_BS, .width = 2, .n_ids = 3, .n_positions = 2, .scale = 2}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 2});
  vkf_call call = {.op = VKF_OP_EMBED, .name = "embed", .params = &params, .dims = &dims};
  call.in[VKF_EMBED_IDS] = VIEW(ids, 2);
  call.in[VKF_EMBED_TABLE] = VIEW(table, 3, 2);
  call.in[VKF_EMBED_POSITIONS] = VIEW(positions, 2);
  call.in[VKF_EMBED_POSITION_TABLE] = VIEW(places, 2, 2);
  call.out[0] = VIEW(y, 2, 2);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
  assert_memory_equal(y, want, sizeof(want));
  positions[1] = 2;
  assert_int_equal(vkf_ref_run(&env, &call), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "node embed: position 2 of row 1, expected 0 to 1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(layer_norm_of_123, setup),
      cmocka_unit_test_setup(a_constant_row_gives_beta, setup),
      cmocka_unit_test_setup(softmax_is_stable_and_shift_invariant, setup),
      cmocka_unit_test_setup(log_softmax_is_the_log_of_softmax, setup),
      cmocka_unit_test_setup(attention_by_hand, setup),
      cmocka_unit_test_setup(every_row_of_weights_sums_to_one, setup),
      cmocka_unit_test_setup(causal_weights_are_lower_triangular, setup),
      cmocka_unit_test_setup(a_window_sees_the_last_keys, setup),
      cmocka_unit_test_setup(the_three_kinds_of_mask_agree, setup),
      cmocka_unit_test_setup(attention_commutes_with_permutation, setup),
      cmocka_unit_test_setup(seeded_weights, setup),
      cmocka_unit_test_setup(top_k_orders_ties_and_nan, setup),
      cmocka_unit_test_setup(edits_apply_in_order, setup),
      cmocka_unit_test_setup(embed_looks_up_scales_and_adds, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
