/* Plans: the blocks, names, fusions, caches and inputs of each request, and requests that are refused. Sinusoids are
 * compared with a worked example. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/internal.h"
#include "support/ok.h"

#define GOLDEN VKF_SOURCE_DIR "/tests/golden/"

static vkf_env env;

static vkf_net *open_net(const char *path) {
  vkf_net *net = NULL;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_model_net_open(&env, &(vkf_file_source){.folder = path}, &net), VKF_OK);
  return net;
}

static vkf_plan *build(const vkf_net *net, const vkf_plan_request *request) {
  vkf_plan *plan = NULL;
  ok(&env, vkf_model_plan_build(net, &env, request, &plan));
  return plan;
}

static const vkf_slot *slot_named(const vkf_plan *plan, const char *name) {
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (strcmp(plan->slots[i].name, name) == 0) return &plan->slots[i];
  fail_msg("no slot %s", name);
  return NULL;
}

static const vkf_node *node_named(const vkf_plan *plan, const char *name) {
  for (uint32_t i = 0; i < plan->n_nodes; i++)
    if (strcmp(plan->nodes[i].name, name) == 0) return &plan->nodes[i];
  fail_msg("no node %s", name);
  return NULL;
}

/* Checks the names of the blocks, with blanks between them, and that the blocks have every node once. */
static void expect_blocks(const vkf_plan *plan, const char *expected) {
  char names[1024] = "";
  uint32_t next = 0;
  for (uint32_t i = 0; i < plan->n_blocks; i++) {
    if (i > 0) strcat(names, " ");
    strcat(names, plan->blocks[i].name);
    assert_int_equal(plan->blocks[i].first_node, next);
    assert_true(plan->blocks[i].n_nodes > 0);
    next += plan->blocks[i].n_nodes;
  }
  assert_int_equal(next, plan->n_nodes);
  assert_string_equal(names, expected);
}

/* Checks the outputs in the order of the slots, with blanks between them. */
static void expect_outputs(const vkf_plan *plan, const char *expected) {
  char names[1024] = "";
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    if (plan->slots[i].output == NULL) continue;
    if (names[0] != 0) strcat(names, " ");
    strcat(names, plan->slots[i].output);
  }
  assert_string_equal(names, expected);
}

static void expect_extents(const vkf_slot *slot, const vkf_extent *expected, uint32_t rank) {
  assert_int_equal(slot->rank, rank);
  for (uint32_t i = 0; i < rank; i++) {
    assert_int_equal(slot->extent[i].dim, expected[i].dim);
    assert_int_equal(slot->extent[i].cap, expected[i].cap);
  }
}

static bool has_input(const vkf_plan *plan, vkf_input input) {
  return vkf_plan_find_index(plan, VKF_SLOT_INPUT, input) != VKF_NO_SLOT;
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

static void sinusoids(void **state) {
  (void)state;
  static const double worked[4][4] = {{0, 1, 0, 1},
                                      {0.841471, 0.540302, 0.0099998, 0.99995},
                                      {0.909297, -0.416147, 0.0199987, 0.9998},
                                      {0.14112, -0.989992, 0.0299955, 0.99955}};
  float table[4][4], halves[4][4];
  vkf_model_sinusoids(VKF_POSITION_INTERLEAVED, 4, 4, &table[0][0]);
  vkf_model_sinusoids(VKF_POSITION_HALVES, 4, 4, &halves[0][0]);
  for (int p = 0; p < 4; p++) {
    for (int c = 0; c < 4; c++) {
      assert_true(fabs(table[p][c] - worked[p][c]) < 1e-6);
      assert_true(halves[p][c % 2 * 2 + c / 2] == table[p][c]);
    }
  }
  /* A row's norm is sqrt(D/2), and the dot product of two rows depends on their distance alone. */
  static float wide[40][16];
  vkf_model_sinusoids(VKF_POSITION_INTERLEAVED, 40, 16, &wide[0][0]);
  double at_distance[40] = {0};
  for (int p = 0; p < 40; p++) {
    for (int q = p; q < 40; q++) {
      double dot = 0;
      for (int c = 0; c < 16; c++) dot += (double)wide[p][c] * wide[q][c];
      if (p == 0) at_distance[q] = dot;
      assert_true(fabs(dot - at_distance[q - p]) < 1e-6);
    }
  }
  assert_true(fabs(at_distance[0] - 8) < 1e-6);
  /* An odd width has one more sine. */
  float odd[2][5], odd_halves[2][5];
  vkf_model_sinusoids(VKF_POSITION_INTERLEAVED, 2, 5, &odd[0][0]);
  vkf_model_sinusoids(VKF_POSITION_HALVES, 2, 5, &odd_halves[0][0]);
  assert_true(fabs(odd[1][4] - sin(pow(10000, -4.0 / 5))) < 1e-7);
  assert_true(odd_halves[1][2] == odd[1][4] && odd_halves[1][3] == odd[1][1]);
}

static void position_ids(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "marian");
  int32_t ids[6];
  vkf_model_positions(net, &(vkf_model_tokens){.rows = 2, .length = 3, .past = 5, .ids = ids}, ids);
  for (int i = 0; i < 6; i++) assert_int_equal(ids[i], 5 + i % 3);
  vkf_model_net_close(&net);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void encoder_decoder_stages(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "transformer-preln-gelu");
  vkf_plan_request request = {.stage = VKF_STAGE_ENCODE, .capacity = {2, 12, 0, 0, 0, 0}, .mask = true};
  vkf_plan *plan = build(net, &request);
  expect_blocks(plan, "embed encoder.0 encoder.1 encoder.norm cross");
  expect_outputs(plan, "");
  assert_true(has_input(plan, VKF_INPUT_MASK) && has_input(plan, VKF_INPUT_IDS) &&
              has_input(plan, VKF_INPUT_POSITIONS));
  const vkf_slot *cross = slot_named(plan, "state.decoder.1.cross.v");
  assert_int_equal(cross->index, VKF_STATE_INDEX(1, VKF_STATE_CROSS_V));
  assert_int_equal(cross->kind, VKF_SLOT_STATE);
  expect_extents(cross, (vkf_extent[]){{VKF_DIM_ONE, 2}, {VKF_DIM_ONE, 4}, {VKF_DIM_S, 12}, {VKF_DIM_ONE, 16}}, 4);
  vkf_model_plan_destroy(&plan);
  request.hidden_states = true;
  plan = build(net, &request);
  expect_outputs(plan, "encoder_hidden_states.0 encoder_hidden_states.1 encoder_last_hidden_state");
  assert_string_equal(slot_named(plan, "encoder.norm")->output, "encoder_last_hidden_state");
  vkf_model_plan_destroy(&plan);
  assert_string_equal(vkf_model_second_name(net, "encoder_last_hidden_state"), "encoder_hidden_states.2");
  assert_null(vkf_model_second_name(net, "encoder_hidden_states.1"));

  vkf_plan_request decode = {.stage = VKF_STAGE_DECODE, .capacity = {2, 12, 6, 1, 19, 6}, .logits = true};
  decode.hidden_states = decode.attentions = true;
  plan = build(net, &decode);
  expect_blocks(plan, "embed decoder.0 decoder.1 head");
  expect_outputs(plan,
                 "decoder_hidden_states.0 decoder_attentions.0 cross_attentions.0 decoder_hidden_states.1 "
                 "decoder_attentions.1 cross_attentions.1 decoder_hidden_states.2 logits");
  assert_false(has_input(plan, VKF_INPUT_MASK) || has_input(plan, VKF_INPUT_TARGET_MASK) ||
               has_input(plan, VKF_INPUT_ANCESTRY) || has_input(plan, VKF_INPUT_OUT_ROWS));
  const vkf_slot *self = slot_named(plan, "state.decoder.0.self.k");
  assert_int_equal(self->index, VKF_STATE_INDEX(0, VKF_STATE_SELF_K));
  expect_extents(self, (vkf_extent[]){{VKF_DIM_ONE, 6}, {VKF_DIM_ONE, 4}, {VKF_DIM_KEYS, 20}, {VKF_DIM_ONE, 16}}, 4);
  expect_extents(slot_named(plan, "sinusoids"), (vkf_extent[]){{VKF_DIM_ONE, 20}, {VKF_DIM_ONE, 64}}, 2);
  const vkf_attention_params *causal = &node_named(plan, "decoder.0.self.attention")->params.attention;
  assert_true(causal->causal && causal->past == VKF_DIM_PAST && causal->keys == VKF_DIM_KEYS);
  const vkf_attention_params *shared = &node_named(plan, "decoder.0.cross.attention")->params.attention;
  assert_true(!shared->causal && shared->shared == VKF_DIM_ONE && shared->keys == VKF_DIM_S);
  assert_true(shared->scale == 0.25f);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
  assert_int_equal(env.live_bytes, 0);
}

static void candidates(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "marian");
  vkf_plan_request request = {.stage = VKF_STAGE_DECODE,
                              .capacity = {2, 12, 6, 4, 16, 6},
                              .mask = true,
                              .target_mask = true,
                              .ancestry = true,
                              .gather_out = true,
                              .log_softmax = true,
                              .max_edits = 9,
                              .top_k = 8};
  vkf_plan *plan = build(net, &request);
  vkf_model_net_close(&net); /* a plan does not need its net */
  expect_outputs(plan, "top_values top_ids");
  for (int i = VKF_INPUT_TARGET_IDS; i < VKF_INPUT_COUNT; i++)
    assert_int_equal(has_input(plan, (vkf_input)i), i < VKF_INPUT_SHORT_HEAD);
  expect_extents(slot_named(plan, "head.top_k.ids"), (vkf_extent[]){{VKF_DIM_OUT, 6}, {VKF_DIM_ONE, 8}}, 2);
  const vkf_node *head = node_named(plan, "head.logits");
  assert_string_equal(plan->slots[head->in[VKF_MATMUL_W]].name, "embed.weight");
  assert_string_equal(plan->slots[head->in[VKF_MATMUL_BIAS]].name, "head.bias");
  const vkf_node *edit = node_named(plan, "head.edit");
  assert_string_equal(plan->slots[edit->in[VKF_LOGIT_EDIT_X]].name, "head.log_softmax");
  assert_string_equal(plan->slots[node_named(plan, "head.top_k")->in[0]].name, "head.edit");
  const vkf_slot *cross = slot_named(plan, "state.decoder.1.cross.v");
  expect_extents(cross, (vkf_extent[]){{VKF_DIM_ONE, 2}, {VKF_DIM_ONE, 4}, {VKF_DIM_S, 12}, {VKF_DIM_ONE, 16}}, 4);
  assert_true(node_named(plan, "decoder.1.cross.attention")->params.attention.packed &&
              node_named(plan, "decoder.1.self.attention")->params.attention.packed &&
              node_named(plan, "decoder.1.self.append")->params.append.packed);
  vkf_model_plan_destroy(&plan);

  net = open_net(GOLDEN "marian");
  request.renormalize = true; /* what is left of the edited scores sums to one again */
  plan = build(net, &request);
  assert_string_equal(plan->slots[node_named(plan, "head.renormalize")->in[0]].name, "head.edit");
  assert_string_equal(plan->slots[node_named(plan, "head.top_k")->in[0]].name, "head.renormalize");
  vkf_model_plan_destroy(&plan);

  request.short_head = 64; /* all that follows has 64 columns */
  plan = build(net, &request);
  head = node_named(plan, "head.logits");
  assert_string_equal(plan->slots[head->in[VKF_MATMUL_W]].name, "input.short_head");
  assert_string_equal(plan->slots[head->in[VKF_MATMUL_RESIDUAL]].name, "input.short_mask");
  assert_int_equal(head->in[VKF_MATMUL_BIAS], VKF_NO_SLOT);
  expect_extents(&plan->slots[head->in[VKF_MATMUL_RESIDUAL]], (vkf_extent[]){{VKF_DIM_OUT, 6}, {VKF_DIM_ONE, 64}}, 2);
  assert_int_equal(node_named(plan, "head.top_k")->params.top_k.width, 64);
  vkf_model_plan_destroy(&plan);
  request.short_head = 0;

  request.top_k = 0;
  request.gather_out = false;
  plan = build(net, &request);
  expect_outputs(plan, "scores");
  assert_int_equal(plan->capacity.out, 24);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
}

/* A layer of a step has eight dispatches. A request for the projections adds a ninth, which rotates them. */
static void rotary_layers(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "llama");
  vkf_plan_request request = {.stage = VKF_STAGE_DECODE, .capacity = {1, 0, 1, 1, 24, 1}};
  vkf_plan *plan = build(net, &request);
  assert_string_equal(plan->blocks[1].name, "decoder.0");
  assert_int_equal(plan->blocks[1].n_nodes, 8);
  assert_true(node_named(plan, "decoder.0.ffn.in")->params.matmul.is_gated);
  assert_int_equal(node_named(plan, "decoder.0.self.append")->params.append.rotary,
                   node_named(plan, "decoder.0.self.append")->params.append.key_width);
  vkf_model_plan_destroy(&plan);
  request.projections = true;
  plan = build(net, &request);
  assert_int_equal(plan->blocks[1].n_nodes, 9);
  assert_int_equal(node_named(plan, "decoder.0.self.append")->params.append.rotary, 0);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
}

/* Keys and values, also an encoder's, have 16 bits by default if no matrix has more. */
static void formats_of_keys_and_values(void **state) {
  (void)state;
  static const struct {
    vkf_format weights, caches, expected;
  } rows[] = {{VKF_FORMAT_F16, VKF_FORMAT_COUNT, VKF_FORMAT_F16},  {VKF_FORMAT_BF16, VKF_FORMAT_COUNT, VKF_FORMAT_F16},
              {VKF_FORMAT_INT8, VKF_FORMAT_COUNT, VKF_FORMAT_F16}, {VKF_FORMAT_F32, VKF_FORMAT_COUNT, VKF_FORMAT_F32},
              {VKF_FORMAT_F16, VKF_FORMAT_F32, VKF_FORMAT_F32},    {VKF_FORMAT_F32, VKF_FORMAT_F16, VKF_FORMAT_F16},
              {VKF_FORMAT_COUNT, VKF_FORMAT_COUNT, VKF_FORMAT_F32}}; /* as in the file: float32 */
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_net *net = open_net(GOLDEN "marian");
    assert_int_equal(vkf_model_net_store(net, rows[i].weights, rows[i].caches), rows[i].expected);
    vkf_plan_request request = {.stage = VKF_STAGE_ENCODE, .capacity = {1, 7, 1, 0, 0, 0}};
    vkf_plan *plan = build(net, &request);
    const vkf_node *append = node_named(plan, "encoder.0.self.append");
    assert_int_equal(plan->slots[append->out[VKF_APPEND_K]].format, rows[i].expected);
    assert_int_equal(plan->slots[append->out[VKF_APPEND_V]].format, rows[i].expected);
    assert_int_equal(slot_named(plan, "state.decoder.0.cross.k")->format, rows[i].expected);
    vkf_model_plan_destroy(&plan);
    vkf_model_net_close(&net);
  }
}

/* One matmul has queries, keys and values; bias, activation and residual are in the matmul; the norm is before or after
 * it. */
static void fusions(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "transformer-postln-relu");
  vkf_plan_request request = {.stage = VKF_STAGE_ENCODE, .capacity = {1, 7, 0, 0, 0, 0}};
  vkf_plan *plan = build(net, &request);
  assert_int_equal(plan->blocks[1].n_nodes, 8);
  assert_int_equal(node_named(plan, "encoder.0.self.qkv")->params.matmul.n, 3 * 64);
  assert_int_equal(node_named(plan, "encoder.0.ffn.in")->params.matmul.activation, VKF_ACT_RELU);
  const vkf_node *out = node_named(plan, "encoder.1.self.out");
  assert_string_equal(plan->slots[out->in[VKF_MATMUL_RESIDUAL]].name, "encoder.0.ffn.norm");
  assert_int_equal(node_named(plan, "cross.0.kv")->params.matmul.n, 2 * 64);
  assert_true(node_named(plan, "embed")->params.embed.scale == 8);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
  net = open_net(GOLDEN "transformer-preln-gelu");
  plan = build(net, &request);
  const vkf_node *qkv = node_named(plan, "encoder.1.self.qkv");
  assert_string_equal(plan->slots[qkv->in[VKF_MATMUL_X]].name, "encoder.1.self.norm");
  out = node_named(plan, "encoder.1.self.out");
  assert_string_equal(plan->slots[out->in[VKF_MATMUL_RESIDUAL]].name, "encoder.0.ffn.out");
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
  net = open_net(GOLDEN "transformer-block-plain");
  plan = build(net, &request);
  assert_int_equal(node_named(plan, "encoder.0.self.norm")->in[VKF_NORM_WEIGHT], VKF_NO_SLOT);
  assert_int_equal(node_named(plan, "encoder.0.ffn.in")->in[VKF_MATMUL_BIAS], VKF_NO_SLOT);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
}

static void one_stack(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "transformer-encoder-learned");
  vkf_plan_request request = {.stage = VKF_STAGE_ENCODE, .capacity = {1, 7, 0, 0, 0, 0}, .last_hidden_state = true};
  vkf_plan *plan = build(net, &request);
  expect_blocks(plan, "embed encoder.0 encoder.1 encoder.2 encoder.norm");
  expect_outputs(plan, "last_hidden_state");
  const vkf_node *embed = node_named(plan, "embed");
  assert_int_equal(embed->params.embed.n_positions, 64);
  assert_string_equal(plan->slots[embed->in[VKF_EMBED_POSITION_TABLE]].name, "positions.weight");
  assert_string_equal(vkf_model_second_name(net, "last_hidden_state"), "hidden_states.3");
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
  net = open_net(GOLDEN "transformer-lm-postln");
  vkf_plan_request decode = {.stage = VKF_STAGE_DECODE, .capacity = {0, 0, 1, 20, 0, 0}, .last_hidden_state = true};
  plan = build(net, &decode);
  expect_blocks(plan, "embed decoder.0 decoder.1 decoder.2 decoder.3"); /* without logits there is no head */
  expect_outputs(plan, "last_hidden_state");
  vkf_model_plan_destroy(&plan);
  decode.logits = true;
  plan = build(net, &decode);
  expect_blocks(plan, "embed decoder.0 decoder.1 decoder.2 decoder.3 head");
  expect_extents(slot_named(plan, "head.logits"), (vkf_extent[]){{VKF_DIM_RT, 20}, {VKF_DIM_ONE, 1000}}, 2);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
}

/* ---- refusals and memory ----------------------------------------------------------------------------------------- */

static void expect_refusal(const vkf_net *net, const vkf_plan_request *request, const char *part) {
  vkf_plan *plan = NULL;
  vkf_env_clear(&env);
  assert_int_equal(vkf_model_plan_build(net, &env, request, &plan), VKF_ERROR_ARGUMENT);
  assert_null(plan);
  if (strstr(env.message, part) == NULL) print_error("\"%s\" lacks \"%s\"\n", env.message, part);
  assert_non_null(strstr(env.message, part));
}

static void refused_requests(void **state) {
  (void)state;
  vkf_net *net = open_net(GOLDEN "marian");
  vkf_plan_request good = {.stage = VKF_STAGE_DECODE, .capacity = {1, 4, 2, 3, 0, 6}, .logits = true};
  vkf_plan_request bad = good;
  bad.capacity.S = 0;
  expect_refusal(net, &bad, "S 0");
  bad = good;
  bad.capacity.T = UINT32_MAX;
  expect_refusal(net, &bad, "2^31");
  bad = good;
  bad.gather_out = true;
  bad.capacity.out = 7;
  expect_refusal(net, &bad, "1 .. 6 rows of the head, found 7");
  bad = good;
  bad.top_k = 151;
  expect_refusal(net, &bad, "150");
  bad = good;
  bad.stage = VKF_STAGE_ENCODE;
  expect_refusal(net, &bad, "no head");
  vkf_model_net_close(&net);
  net = open_net(GOLDEN "transformer-block-plain");
  expect_refusal(net, &good, "architecture encoder has no such stage");
  good.stage = VKF_STAGE_ENCODE;
  expect_refusal(net, &good, "no head");
  vkf_model_net_close(&net);
  assert_int_equal(env.live_bytes, 0);
}

/* *state: the name of a golden folder with a decoder. */
static void no_allocation_is_missed(void **state) {
  char path[256];
  snprintf(path, sizeof path, GOLDEN "%s", (const char *)*state);
  vkf_net *net = open_net(path);
  uint64_t before = env.live_bytes;
  vkf_plan_request request = {.stage = VKF_STAGE_DECODE, .capacity = {1, 4, 2, 3, 0, 6}, .logits = true, .top_k = 3};
  for (uint64_t n = 1;; n++) {
    assert_true(n < 100000);
    vkf_env_clear(&env);
    uint64_t start = env.n_allocations;
    env.fail_at = start + n;
    vkf_plan *plan = NULL;
    vkf_status st = vkf_model_plan_build(net, &env, &request, &plan);
    bool is_through = env.n_allocations < start + n;
    assert_int_equal(st, is_through ? VKF_OK : VKF_ERROR_MEMORY);
    vkf_model_plan_destroy(&plan);
    assert_int_equal(env.live_bytes, before);
    if (is_through) break;
  }
  env.fail_at = 0;
  vkf_model_net_close(&net);
  assert_int_equal(env.live_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sinusoids),
      cmocka_unit_test(position_ids),
      cmocka_unit_test(encoder_decoder_stages),
      cmocka_unit_test(candidates),
      cmocka_unit_test(rotary_layers),
      cmocka_unit_test(formats_of_keys_and_values),
      cmocka_unit_test(fusions),
      cmocka_unit_test(one_stack),
      cmocka_unit_test(refused_requests),
      cmocka_unit_test_prestate(no_allocation_is_missed, "transformer-preln-gelu"),
      cmocka_unit_test_prestate(no_allocation_is_missed, "gpt2"),
      cmocka_unit_test_prestate(no_allocation_is_missed, "qwen3"),
      cmocka_unit_test_prestate(no_allocation_is_missed, "t5"),
      cmocka_unit_test_prestate(no_allocation_is_missed, "m2m100"),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
