/* Keys and values that attention's parameters share or reorder give the same bits as those written out in full. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/constants.h"
#include "support/calls.h"

enum { R = 6, B = 2, T = 2, S = 5, H = 4, K = 3, V = 2 };

static vkf_env env;
static float q[R * T][H * K], k[R][H][S][K], v[R][H][S][V];

static int setup(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  for (uint64_t i = 0; i < R * T * H * K; i++) q[i / (H * K)][i % (H * K)] = (float)vkf_rng_normal(1, 1, i);
  for (uint64_t i = 0; i < R * H * S * K; i++) (&k[0][0][0][0])[i] = (float)vkf_rng_normal(1, 2, i);
  for (uint64_t i = 0; i < R * H * S * V; i++) (&v[0][0][0][0])[i] = (float)vkf_rng_normal(1, 3, i);
  return 0;
}

/* R sequences of T queries against S keys. */
static vkf_attention_params base_params(void) {
  return plain_attention(VKF_DIM_R, VKF_DIM_T, H, K, V, 0.5f);
}

static void run(const vkf_attention_params *p, vkf_view keys, vkf_view values, vkf_view mask, vkf_view ancestry,
                float out[R * T][H * V]) {
  vkf_params params = {.attention = *p};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = B, .S = S, .R = R, .T = T});
  vkf_call call = {.op = VKF_OP_ATTENTION, .name = "attention", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(q, R * T, H * K);
  call.in[VKF_ATTENTION_K] = keys;
  call.in[VKF_ATTENTION_V] = values;
  call.in[VKF_ATTENTION_MASK] = mask;
  call.in[VKF_ATTENTION_ANCESTRY] = ancestry;
  call.out[0] = VIEW(out, R * T, H * V);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

static const vkf_view absent;

static void shared_key_heads_equal_repeated_ones(void **state) {
  (void)state;
  static float few_k[R][2][S][K], few_v[R][2][S][V], many_k[R][H][S][K], many_v[R][H][S][V];
  float shared[R * T][H * V], repeated[R * T][H * V];
  for (int r = 0; r < R; r++) {
    memcpy(few_k[r], k[r], sizeof(few_k[r]));
    memcpy(few_v[r], v[r], sizeof(few_v[r]));
    for (int h = 0; h < H; h++) {
      memcpy(many_k[r][h], k[r][h / 2], sizeof(k[r][h]));
      memcpy(many_v[r][h], v[r][h / 2], sizeof(v[r][h]));
    }
  }
  vkf_attention_params p = base_params();
  run(&p, VIEW(many_k, R, H, S, K), VIEW(many_v, R, H, S, V), absent, absent, repeated);
  p.n_kv_heads = 2;
  run(&p, VIEW(few_k, R, 2, S, K), VIEW(few_v, R, 2, S, V), absent, absent, shared);
  assert_memory_equal(shared, repeated, sizeof(shared));
}

/* Beams share the keys and the mask of their sentence. */
static void beams_share_their_sentence(void **state) {
  (void)state;
  static float many_k[R][H][S][K], many_v[R][H][S][V];
  const int32_t mask[B][S] = {{1, 1, 0, 1, 0}, {0, 1, 1, 1, 1}};
  int32_t many_mask[R][S];
  float shared[R * T][H * V], repeated[R * T][H * V];
  for (int r = 0; r < R; r++) {
    memcpy(many_k[r], k[r / (R / B)], sizeof(k[0]));
    memcpy(many_v[r], v[r / (R / B)], sizeof(v[0]));
    memcpy(many_mask[r], mask[r / (R / B)], sizeof(mask[0]));
  }
  vkf_attention_params p = base_params();
  run(&p, VIEW(many_k, R, H, S, K), VIEW(many_v, R, H, S, V), VIEW(many_mask, R, S), absent, repeated);
  p.shared = VKF_DIM_BEAMS;
  run(&p, VIEW(k, B, H, S, K), VIEW(v, B, H, S, V), VIEW(mask, B, S), absent, shared);
  assert_memory_equal(shared, repeated, sizeof(shared));
}

/* Scores of 1 and 3 with a soft cap of 2, and then a bias, which is not capped. Compared with the formula. */
static void a_soft_cap_is_before_the_bias(void **state) {
  (void)state;
  float x[] = {1}, keys[] = {1, 3}, values[] = {0, 1}, bias[] = {10, 9}, out;
  vkf_params params = {.attention = base_params()};
  params.attention.n_heads = params.attention.n_kv_heads = 1;
  params.attention.key_width = params.attention.value_width = 1;
  params.attention.scale = 1;
  params.attention.softcap = 2;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 2, .R = 1, .T = 1});
  vkf_call call = {.op = VKF_OP_ATTENTION, .name = "attention", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(x, 1, 1);
  call.in[VKF_ATTENTION_K] = VIEW(keys, 1, 1, 2, 1);
  call.in[VKF_ATTENTION_V] = VIEW(values, 1, 1, 2, 1);
  call.in[VKF_ATTENTION_BIAS] = VIEW(bias, 1, 1, 2);
  call.out[0] = VIEW(&out, 1, 1);
  for (int mode = 0; mode < 2; mode++) {
    call.reproducible = mode;
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    const double expected = 1 / (1 + exp(2 * tanh(0.5) + 10 - (2 * tanh(1.5) + 9)));
    assert_true(fabs((double)out - expected) < 1e-6);
  }
}

/* Caches that are read through a table of ancestors give the same bits as caches that were moved. */
static void ancestry_equals_moved_caches(void **state) {
  (void)state;
  static float moved_k[R][H][S][K], moved_v[R][H][S][V];
  int32_t ancestry[R][S];
  float by_table[R * T][H * V], moved[R * T][H * V];
  for (int r = 0; r < R; r++) {
    for (int s = 0; s < S; s++) {
      int from = ancestry[r][s] = (int32_t)(vkf_rng_u64(2, (uint64_t)r, (uint64_t)s) % R);
      for (int h = 0; h < H; h++) {
        memcpy(moved_k[r][h][s], k[from][h][s], sizeof(k[0][0][0]));
        memcpy(moved_v[r][h][s], v[from][h][s], sizeof(v[0][0][0]));
      }
    }
  }
  vkf_attention_params p = base_params();
  run(&p, VIEW(moved_k, R, H, S, K), VIEW(moved_v, R, H, S, V), absent, absent, moved);
  run(&p, VIEW(k, R, H, S, K), VIEW(v, R, H, S, V), absent, VIEW(ancestry, R, S), by_table);
  assert_memory_equal(by_table, moved, sizeof(moved));
  ancestry[1][2] = R;
  vkf_params params = {.attention = p};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = B, .S = S, .R = R, .T = T});
  vkf_call call = {.op = VKF_OP_ATTENTION, .name = "a", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_ANCESTRY] = VIEW(ancestry, R, S);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "node a: ancestor 6 of row 1, expected 0 to 5");
}

/* A head gives the same bits alone as among others. */
static void heads_do_not_see_each_other(void **state) {
  (void)state;
  float all[R * T][H * V], one[R * T][V];
  vkf_attention_params p = base_params();
  run(&p, VIEW(k, R, H, S, K), VIEW(v, R, H, S, V), absent, absent, all);
  for (uint32_t h = 0; h < H; h++) {
    static float own_k[R][1][S][K], own_v[R][1][S][V];
    for (int r = 0; r < R; r++) {
      memcpy(own_k[r][0], k[r][h], sizeof(k[r][h]));
      memcpy(own_v[r][0], v[r][h], sizeof(v[r][h]));
    }
    vkf_params params = {.attention = base_params()};
    params.attention.n_heads = params.attention.n_kv_heads = 1;
    params.attention.q_column = h * K;
    vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = B, .S = S, .R = R, .T = T});
    vkf_call call = {.op = VKF_OP_ATTENTION, .name = "one", .params = &params, .dims = &dims};
    call.in[VKF_ATTENTION_Q] = VIEW(q, R * T, H * K);
    call.in[VKF_ATTENTION_K] = VIEW(own_k, R, 1, S, K);
    call.in[VKF_ATTENTION_V] = VIEW(own_v, R, 1, S, V);
    call.out[0] = VIEW(one, R * T, V);
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    for (int row = 0; row < R * T; row++) assert_memory_equal(one[row], &all[row][h * V], sizeof(one[row]));
  }
}

/* A span must name rows, keys and slots that exist. In causal attention its queries must be among its keys. */
static void spans_that_lead_out_are_refused(void **state) {
  (void)state;
  enum { N = 10 };
  static const struct {
    int field;
    int32_t value;
    const char *words;
  } rows[] = {{VKF_SPAN_QUERIES, T + 1, "queries up to 2, found 3"},
              {VKF_SPAN_ROW, R * T - 1, "rows up to 12, found 13"},
              {VKF_SPAN_ROW, -1, "rows up to 12, found 4294967297"},
              {VKF_SPAN_KEYS, S + 1, "keys up to 5, found 6"},
              {VKF_SPAN_SLOT, 1, "a slot up to 0, found 1"},
              {VKF_SPAN_FIRST, N - S + 1, "keys in its slot up to 10, found 11"},
              {VKF_SPAN_PAST, S - 1, NULL}};
  float out[R * T][H * V];
  vkf_params params = {.attention = base_params()};
  params.attention.packed = true;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = B, .S = S, .R = R, .T = T});
  vkf_call call = {.op = VKF_OP_ATTENTION, .name = "a", .params = &params, .dims = &dims};
  call.in[VKF_ATTENTION_Q] = VIEW(q, R * T, H * K);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, H, N, K);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, H, N, V);
  call.out[0] = VIEW(out, R * T, H * V);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    int32_t spans[R][VKF_SPAN_FIELDS] = {{0}};
    for (int r = 0; r < R; r++) {
      spans[r][VKF_SPAN_ROW] = r * T;
      spans[r][VKF_SPAN_QUERIES] = T;
      spans[r][VKF_SPAN_KEYS] = S;
    }
    call.in[VKF_ATTENTION_SPANS] = VIEW(spans, R, VKF_SPAN_FIELDS);
    assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
    spans[4][rows[i].field] = rows[i].value;
    vkf_env_clear(&env);
    assert_int_equal(vkf_ref_run(&env, &call), rows[i].words ? VKF_ERROR_ARGUMENT : VKF_OK);
    if (!rows[i].words) continue;
    if (!strstr(env.message, "node a: span 4: ") || !strstr(env.message, rows[i].words))
      fail_msg("expected \"%s\", found \"%s\"", rows[i].words, env.message);
  }
  vkf_env_clear(&env); /* in causal attention the queries are among the keys */
  int32_t spans[1][VKF_SPAN_FIELDS] = {{0, T, S - 1, S, 0, 0}};
  params.attention.causal = true;
  dims = vkf_dims_make(&(vkf_sizes){.B = B, .S = S, .R = 1, .T = T});
  call.in[VKF_ATTENTION_SPANS] = VIEW(spans, 1, VKF_SPAN_FIELDS);
  assert_int_equal(vkf_ref_run(&env, &call), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "node a: span 0: expected past and queries up to 5, found 6");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(shared_key_heads_equal_repeated_ones, setup),
      cmocka_unit_test_setup(beams_share_their_sentence, setup),
      cmocka_unit_test_setup(a_soft_cap_is_before_the_bias, setup),
      cmocka_unit_test_setup(ancestry_equals_moved_caches, setup),
      cmocka_unit_test_setup(heads_do_not_see_each_other, setup),
      cmocka_unit_test_setup(spans_that_lead_out_are_refused, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
