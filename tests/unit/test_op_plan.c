/* Names, dimensions, shapes, costs, and everything that the check of a plan refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/compare.h"
#include "op/shape.h"
#include "support/calls.h"

static void names_are_found(void **state) {
  (void)state;
  for (int op = 0; op < VKF_OP_COUNT; op++) assert_int_equal(vkf_op_find(vkf_op_name((vkf_op)op)), op);
  assert_string_equal(vkf_op_name(VKF_OP_LOG_SOFTMAX), "log_softmax");
  assert_int_equal(vkf_op_find("conv"), VKF_OP_COUNT);
  assert_string_equal(vkf_activation_name(VKF_ACT_GELU_TANH), "gelu_tanh");
}

static void dimensions_are_products(void **state) {
  (void)state;
  vkf_dims d = vkf_dims_make(&(vkf_sizes){.B = 3, .S = 5, .R = 12, .T = 2, .past = 7, .out = 4});
  const uint32_t want[VKF_DIM_COUNT] = {1, 0, 3, 5, 15, 12, 2, 24, 7, 9, 4, 4};
  assert_memory_equal(d.v, want, sizeof(want));
}

/* x [BS=12,8] > h = relu(x w^T + b) [12,6] > y = norm(h): two blocks. */
typedef struct small {
  vkf_env env;
  vkf_plan plan;
  vkf_slot slots[6];
  vkf_node nodes[2];
  vkf_block blocks[2];
} small;

static void make_small(small *p) {
  memset(p, 0, sizeof(*p));
  vkf_env_init(&p->env, NULL);
  vkf_extent rows = {VKF_DIM_BS, 12};
  p->slots[0] = (vkf_slot){"x", VKF_SLOT_STATE, VKF_F32, 2, {rows, {VKF_DIM_ONE, 8}}, 0, NULL, NULL, VKF_FORMAT_F32};
  p->slots[1] =
      (vkf_slot){"w", VKF_SLOT_WEIGHT, VKF_F32, 2, {{VKF_DIM_ONE, 6}, {VKF_DIM_ONE, 8}}, 0, NULL, NULL, VKF_FORMAT_F32};
  p->slots[2] = (vkf_slot){"b", VKF_SLOT_WEIGHT, VKF_F32, 1, {{VKF_DIM_ONE, 6}}, 1, NULL, NULL, VKF_FORMAT_F32};
  p->slots[3] = (vkf_slot){"h", VKF_SLOT_TEMP, VKF_F32, 2, {rows, {VKF_DIM_ONE, 6}}, 0, NULL, NULL, VKF_FORMAT_F32};
  p->slots[4] = (vkf_slot){"y", VKF_SLOT_TEMP, VKF_F32, 2, {rows, {VKF_DIM_ONE, 6}}, 0, NULL, "y", VKF_FORMAT_F32};
  for (int n = 0; n < 2; n++) {
    for (int i = 0; i < VKF_MAX_INPUTS; i++) p->nodes[n].in[i] = VKF_NO_SLOT;
    for (int o = 1; o < VKF_MAX_OUTPUTS; o++) p->nodes[n].out[o] = VKF_NO_SLOT;
    p->blocks[n] = (vkf_block){n ? "norm" : "linear", (uint32_t)n, 1, 0};
  }
  p->nodes[0].op = VKF_OP_MATMUL;
  p->nodes[0].name = "linear.h";
  p->nodes[0].params.matmul = (vkf_matmul_params){.rows = VKF_DIM_BS, .n = 6, .k = 8, .activation = VKF_ACT_RELU};
  p->nodes[0].in[VKF_MATMUL_X] = 0;
  p->nodes[0].in[VKF_MATMUL_W] = 1;
  p->nodes[0].in[VKF_MATMUL_BIAS] = 2;
  p->nodes[0].out[0] = 3;
  p->nodes[1].op = VKF_OP_NORM;
  p->nodes[1].name = "norm.y";
  p->nodes[1].params.norm = (vkf_norm_params){.rows = VKF_DIM_BS, .width = 6, .eps = 1e-5f};
  p->nodes[1].in[VKF_NORM_X] = 3;
  p->nodes[1].out[0] = 4;
  p->plan = (vkf_plan){p->slots, 5, p->nodes, 2, p->blocks, 2, {.B = 3, .S = 4}};
}

static void a_good_plan_passes(void **state) {
  (void)state;
  small p;
  make_small(&p);
  if (vkf_plan_check(&p.env, &p.plan) != VKF_OK) fail_msg("%s", p.env.message);
  assert_int_equal(p.env.live_bytes, 0);
  assert_int_equal(vkf_plan_find_index(&p.plan, VKF_SLOT_WEIGHT, 1), 2);
  assert_int_equal(vkf_plan_find_index(&p.plan, VKF_SLOT_WEIGHT, 2), VKF_NO_SLOT);
  assert_int_equal(vkf_slot_elements(&p.slots[3]), 72);
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 2, .S = 3});
  assert_int_equal(vkf_slot_extent(&p.slots[3], 0, &dims), 6);
  assert_int_equal(vkf_slot_extent(&p.slots[3], 1, &dims), 6);
}

typedef struct fault {
  void (*damage)(small *);
  const char *message;
} fault;

static void no_name(small *p) {
  p->slots[2].name = NULL;
}
static void same_name(small *p) {
  p->slots[2].name = "h";
}
static void bad_dtype(small *p) {
  p->slots[2].dtype = VKF_F16;
}
static void bad_rank(small *p) {
  p->slots[2].rank = 5;
}
static void no_capacity(small *p) {
  p->slots[2].extent[0].cap = 0;
}
static void no_data(small *p) {
  p->slots[0].kind = VKF_SLOT_CONSTANT;
}
static void bad_input(small *p) {
  p->slots[0].kind = VKF_SLOT_INPUT;
  p->slots[0].index = 99;
}
static void huge(small *p) {
  p->slots[1].extent[0].cap = p->slots[1].extent[1].cap = 70000;
}
static void wrong_width(small *p) {
  p->slots[1].extent[1].cap = 7;
}
static void wrong_rows(small *p) {
  p->slots[4].extent[0].dim = VKF_DIM_RT;
}
static void missing_input(small *p) {
  p->nodes[0].in[VKF_MATMUL_W] = VKF_NO_SLOT;
}
static void extra_input(small *p) {
  p->nodes[1].in[5] = 0;
}
static void missing_output(small *p) {
  p->nodes[1].out[0] = VKF_NO_SLOT;
}
static void extra_output(small *p) {
  p->nodes[1].out[1] = 3;
}
static void read_early(small *p) {
  p->slots[0].kind = VKF_SLOT_TEMP;
}
static void written_twice(small *p) {
  p->nodes[1].out[0] = 3;
}
static void write_weight(small *p) {
  p->slots[4].kind = VKF_SLOT_WEIGHT;
}
static void no_such_slot(small *p) {
  p->nodes[0].in[VKF_MATMUL_BIAS] = 7;
}
static void gap(small *p) {
  p->blocks[1].first_node = 0;
}
static void uncovered(small *p) {
  p->plan.n_blocks = 1;
}
static void bad_op(small *p) {
  p->nodes[1].op = (vkf_op)77;
}
static void zero_k(small *p) {
  p->nodes[0].params.matmul.k = 0;
}
static void bad_eps(small *p) {
  p->nodes[1].params.norm.eps = NAN;
}
static void unwritten(small *p) {
  p->plan.n_nodes = 1;
  p->plan.n_blocks = 1;
}

static const fault faults[] = {
    {no_name, "slot 2 has no name"},
    {same_name, "two slots have the name h"},
    {bad_dtype, "slot b: expected F32 or I32, found F16"},
    {bad_rank, "slot b: expected a rank from 1 to 4, found 5"},
    {no_capacity, "slot b: extent 0 has the capacity 0"},
    {no_data, "slot x: a constant without data"},
    {bad_input, "slot x: expected an input below 18, found 99"},
    {huge, "slot w: more than 4294967295 elements at capacity"},
    {wrong_width, "node linear.h (matmul), w in slot w: expected exactly F32[6,8], found F32[6,7]"},
    {wrong_rows, "node norm.y (norm), out in slot y: expected exactly F32[BS=12,6], found F32[RT=12,6]"},
    {missing_input, "node linear.h (matmul): its input w is missing"},
    {extra_input, "node norm.y (norm): expected no input 5, found slot 0"},
    {missing_output, "node norm.y (norm): its output out is missing"},
    {extra_output, "node norm.y (norm): expected no output 1, found slot 3"},
    {read_early, "node linear.h (matmul): x reads slot x before any node has written it"},
    {written_twice, "node norm.y (norm): slot h is written a second time"},
    {write_weight, "node norm.y (norm): out goes to slot y, which no node may write"},
    {no_such_slot, "node linear.h (matmul): bias is slot 7 of 5"},
    {gap, "block norm: expected nodes from 1 to at most 2, found 1 nodes from 0"},
    {uncovered, "the blocks hold 1 of 2 nodes"},
    {bad_op, "node norm.y: there is no op 77"},
    {zero_k, "node linear.h: expected a positive K, found 0"},
    {bad_eps, "node norm.y: expected an eps of 0 or more, found nan"},
    {unwritten, "slot y is the output y, but no node writes it"},
};

static void every_fault_is_named(void **state) {
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(faults); i++) {
    small p;
    make_small(&p);
    faults[i].damage(&p);
    assert_int_equal(vkf_plan_check(&p.env, &p.plan), VKF_ERROR_ARGUMENT);
    assert_string_equal(p.env.message, faults[i].message);
    assert_int_equal(p.env.live_bytes, 0);
  }
}

/* Finds the shape and type of output o by the op's rule. */
static vkf_status output_shape(vkf_env *env, const vkf_plan *plan, const vkf_node *node, uint32_t o, uint32_t *rank,
                               vkf_extent extent[VKF_MAX_SLOT_RANK], vkf_dtype *dtype) {
  vkf_op_shapes all;
  vkf_status st = VKF_OK;
  VKF_TRY(vkf_op_shapes_of(env, plan, node, &all));
  if (o >= VKF_MAX_OUTPUTS || !all.out[o].name) {
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "node %s: op %s has no output %u", node->name, vkf_op_name(node->op), o);
  }
  *rank = all.out[o].rank;
  *dtype = all.out[o].dtype;
  for (uint32_t i = 0; i < VKF_MAX_SLOT_RANK; i++) extent[i] = all.out[o].extent[i];
done:
  return st;
}

static void attention_parameters_are_checked(void **state) {
  (void)state;
  small p;
  vkf_attention_params good = {.seqs = VKF_DIM_R,
                               .queries = VKF_DIM_T,
                               .keys = VKF_DIM_KEYS,
                               .past = VKF_DIM_PAST,
                               .shared = VKF_DIM_ONE,
                               .n_heads = 4,
                               .n_kv_heads = 2,
                               .key_width = 3,
                               .value_width = 5,
                               .causal = true};
  make_small(&p);
  p.plan.capacity = (vkf_sizes){.B = 1, .R = 2, .T = 3, .past = 4};
  vkf_node node = {.op = VKF_OP_ATTENTION, .name = "a", .params = {.attention = good}};
  uint32_t rank;
  vkf_extent e[VKF_MAX_SLOT_RANK];
  vkf_dtype dtype;
  assert_int_equal(output_shape(&p.env, &p.plan, &node, 0, &rank, e, &dtype), VKF_OK);
  assert_true(rank == 2 && dtype == VKF_F32 && e[0].dim == VKF_DIM_RT && e[0].cap == 6 && e[1].cap == 20);
  assert_int_equal(output_shape(&p.env, &p.plan, &node, 1, &rank, e, &dtype), VKF_ERROR_ARGUMENT);
  node.op = VKF_OP_ATTENTION_WEIGHTS;
  vkf_env_clear(&p.env);
  assert_int_equal(output_shape(&p.env, &p.plan, &node, 0, &rank, e, &dtype), VKF_OK);
  assert_true(rank == 4 && e[0].cap == 2 && e[1].cap == 4 && e[2].cap == 3 && e[3].dim == VKF_DIM_KEYS &&
              e[3].cap == 7);
  node.params.attention.n_kv_heads = 3;
  assert_int_equal(output_shape(&p.env, &p.plan, &node, 0, &rank, e, &dtype), VKF_ERROR_ARGUMENT);
  assert_string_equal(p.env.message, "node a: 4 heads cannot be shared out among 3 key and value heads");
  node.params.attention = good;
  node.params.attention.causal = false;
  node.params.attention.window = 2;
  vkf_env_clear(&p.env);
  assert_int_equal(output_shape(&p.env, &p.plan, &node, 0, &rank, e, &dtype), VKF_ERROR_ARGUMENT);
  assert_string_equal(p.env.message, "node a: a window of 2 keys needs a causal mask");
}

/* The flops of attention do not depend on the number of heads; causal attention has about half. */
static void costs_are_counted(void **state) {
  (void)state;
  small p;
  make_small(&p);
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 2, .S = 4});
  vkf_cost cost = vkf_op_cost(&p.plan, &p.nodes[0], &dims);
  assert_true(cost.flops == 2 * 8 * 6 * 8);
  assert_true(cost.bytes == 4 * (8 * 8 + 6 * 8 + 6 + 8 * 6));
  vkf_node node = {.op = VKF_OP_ATTENTION, .name = "a"};
  for (int i = 0; i < VKF_MAX_INPUTS; i++) node.in[i] = VKF_NO_SLOT;
  double flops[4];
  for (int i = 0; i < 4; i++) {
    uint32_t heads = 1u << (i % 3);
    node.params.attention = plain_attention(VKF_DIM_B, VKF_DIM_S, heads, 64 / heads, 64 / heads, 1);
    node.params.attention.causal = i == 3;
    flops[i] = vkf_op_cost(&p.plan, &node, &dims).flops;
  }
  assert_true(flops[0] == 2.0 * 2 * 4 * 4 * 128 && flops[1] == flops[0] && flops[2] == flops[0]);
  assert_true(flops[3] == 2.0 * 2 * 10 * 128);
}

/* stored: the format of a table, or of keys and values; F32: these have no slot. */
static void expect_cost(vkf_op op, vkf_params params, vkf_format stored, double flops, double bytes) {
  small p;
  make_small(&p);
  vkf_node node = {.op = op, .name = "a", .params = params};
  for (int i = 0; i < VKF_MAX_INPUTS; i++) node.in[i] = VKF_NO_SLOT;
  for (int o = 0; o < VKF_MAX_OUTPUTS; o++) node.out[o] = VKF_NO_SLOT;
  p.slots[1].format = stored;
  if (op == VKF_OP_ATTENTION || op == VKF_OP_ATTENTION_WEIGHTS)
    node.in[VKF_ATTENTION_K] = node.in[VKF_ATTENTION_V] = stored ? 1 : VKF_NO_SLOT;
  if (op == VKF_OP_APPEND) node.out[VKF_APPEND_K] = node.out[VKF_APPEND_V] = stored ? 1 : VKF_NO_SLOT;
  if (op == VKF_OP_EMBED) node.in[VKF_EMBED_TABLE] = stored ? 1 : VKF_NO_SLOT;
  const vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 2, .S = 4, .R = 6, .T = 3, .past = 5, .out = 6});
  const vkf_cost cost = vkf_op_cost(&p.plan, &node, &dims);
  if (cost.flops != flops || cost.bytes != bytes)
    fail_msg("%s: expected %g flops and %g bytes, found %g and %g", vkf_op_name(op), flops, bytes, cost.flops,
             cost.bytes);
}
#define COST_IN(FORMAT, NAME, name, flops, bytes, ...) \
  expect_cost(VKF_OP_##NAME, (vkf_params){.name = {__VA_ARGS__}}, VKF_FORMAT_##FORMAT, flops, bytes)
#define COST(NAME, name, flops, bytes, ...) COST_IN(F32, NAME, name, flops, bytes, __VA_ARGS__)

/* Costs counted by hand, for 2 sequences of 4 tokens and 6 of 3 tokens after 5. Missing operands cost nothing. */
static void costs_of_every_op(void **state) {
  (void)state;
#define CACHED                                                                                                        \
  .seqs = VKF_DIM_R, .queries = VKF_DIM_T, .keys = VKF_DIM_KEYS, .past = VKF_DIM_PAST, .n_heads = 2, .n_kv_heads = 1, \
  .key_width = 4, .value_width = 2, .causal = true
  /* the queries see 6 + 7 + 8 keys, or 3 times 4 with a window of 4 */
  COST(ATTENTION, attention, 2 * 12 * 21 * 6, 4 * (36 * 6 + 48 * 6), CACHED, .shared = VKF_DIM_ONE);
  COST(ATTENTION, attention, 2 * 12 * 12 * 6, 4 * (36 * 6 + 48 * 6), CACHED, .shared = VKF_DIM_ONE, .window = 4);
  COST(ATTENTION, attention, 2 * 12 * 21 * 6, 4 * (36 * 6 + 16 * 6), CACHED, .shared = VKF_DIM_BEAMS);
  COST(ATTENTION_WEIGHTS, attention_weights, 2 * 12 * 21 * 4, 4 * (36 * 4 + 48 * 4 + 36 * 8), CACHED,
       .shared = VKF_DIM_ONE);
  COST_IN(F16, ATTENTION, attention, 2 * 12 * 21 * 6, 4 * 36 * 6 + 2 * 48 * 6, CACHED, .shared = VKF_DIM_ONE);
  COST_IN(F16, ATTENTION_WEIGHTS, attention_weights, 2 * 12 * 21 * 4, 4 * (36 * 4 + 36 * 8) + 2 * 48 * 4, CACHED,
          .shared = VKF_DIM_ONE);
  COST_IN(BF16, EMBED, embed, 32, 4 * (32 + 8) + 2 * 32, .rows = VKF_DIM_BS, .width = 4, .n_ids = 10);
  COST_IN(INT8, EMBED, embed, 32, 4 * (32 + 8) + 32 + 4 * 8, .rows = VKF_DIM_BS, .width = 4, .n_ids = 10);
  COST_IN(F16, APPEND, append, 0, (4 + 2) * 18 * 2 * 6, .seqs = VKF_DIM_R, .tokens = VKF_DIM_T, .past = VKF_DIM_PAST,
          .n_heads = 2, .key_width = 4, .value_width = 2);
  COST(EMBED, embed, 32, 4 * (32 * 2 + 8), .rows = VKF_DIM_BS, .width = 4, .n_ids = 10);
  COST(EMBED, embed, 96, 4 * (32 * 4 + 24), .rows = VKF_DIM_BS, .width = 4, .n_ids = 10, .n_positions = 9,
       .n_types = 2);
  COST(APPEND, append, 0, 8 * 18 * 2 * 6, .seqs = VKF_DIM_R, .tokens = VKF_DIM_T, .past = VKF_DIM_PAST, .n_heads = 2,
       .key_width = 4, .value_width = 2);
  COST(GATHER, gather, 0, 4 * 6 * 9, .rows = VKF_DIM_OUT, .x_rows = VKF_DIM_RT, .width = 4);
  COST(LOGIT_EDIT, logit_edit, 0, 8 * 24, .rows = VKF_DIM_OUT, .width = 4, .max_edits = 5);
  COST(ROPE, rope, 3 * 18 * 12, 4 * 18 * (24 + 5), .rows = VKF_DIM_RT, .width = 12, .n_heads = 2, .n_kv_heads = 1,
       .head_width = 4, .rotary = 4);
  COST(MATMUL, matmul, 2 * 18 * 6 * 4, 0, .rows = VKF_DIM_RT, .n = 6, .k = 4);
  COST(MATMUL, matmul, 2 * 18 * 6 * 4 + 2 * 18 * 3, 0, .rows = VKF_DIM_RT, .n = 6, .k = 4, .is_gated = true);
  COST(GATE, gate, 2 * 72, 12 * 72, .rows = VKF_DIM_RT, .width = 4);
  COST(LOG_SOFTMAX, log_softmax, 5 * 24, 0, .rows = VKF_DIM_OUT, .width = 4);
  COST(TOP_K, top_k, 24, 0, .rows = VKF_DIM_OUT, .width = 4, .k = 2);
  COST(NORM, norm, 5 * 72, 0, .rows = VKF_DIM_RT, .width = 4, .kind = VKF_NORM_LAYER);
  COST(NORM, norm, 3 * 144, 0, .rows = VKF_DIM_RT, .width = 4, .kind = VKF_NORM_RMS, .groups = 2);
  COST(PATCHES, patches, 0, 0, .channels = 3);
  COST(RELATIVE_BIAS, relative_bias, 0, 0, .n_heads = 2);
  small p;
  make_small(&p);
  p.slots[1].format = VKF_FORMAT_INT8; /* a byte for each number and a scale for each row */
  const vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 2, .S = 4});
  assert_true(vkf_op_cost(&p.plan, &p.nodes[0], &dims).bytes == 4 * (8 * 8 + 6 + 8 * 6) + 6 * 8 + 4 * 6);
}

static void refuse_shape(vkf_op op, vkf_params params, const char *words) {
  small p;
  make_small(&p);
  vkf_node node = {.op = op, .name = "a", .params = params};
  vkf_op_shapes shapes;
  assert_int_equal(vkf_op_shapes_of(&p.env, &p.plan, &node, &shapes), VKF_ERROR_ARGUMENT);
  if (strstr(p.env.message, words) == NULL) fail_msg("expected \"%s\", found \"%s\"", words, p.env.message);
}
#define REFUSE_SHAPE(NAME, name, words, ...) refuse_shape(VKF_OP_##NAME, (vkf_params){.name = {__VA_ARGS__}}, words)

static void parameters_are_checked(void **state) {
  (void)state;
#define HEADS .n_heads = 2, .n_kv_heads = 1, .key_width = 4, .value_width = 2
  REFUSE_SHAPE(ATTENTION, attention, "expected the past to be PAST or ZERO", .seqs = VKF_DIM_R, .queries = VKF_DIM_T,
               .keys = VKF_DIM_KEYS, .past = VKF_DIM_B, .shared = VKF_DIM_ONE, HEADS);
  REFUSE_SHAPE(ATTENTION, attention, "keys are shared by BEAMS", .seqs = VKF_DIM_B, .queries = VKF_DIM_S,
               .keys = VKF_DIM_S, .past = VKF_DIM_ZERO, .shared = VKF_DIM_BEAMS, HEADS);
  REFUSE_SHAPE(ATTENTION, attention, "expected B sequences of S queries", .seqs = VKF_DIM_B, .queries = VKF_DIM_T,
               .keys = VKF_DIM_S, .past = VKF_DIM_ZERO, .shared = VKF_DIM_ONE, HEADS);
  REFUSE_SHAPE(ATTENTION, attention, "the spans of a packed batch", .seqs = VKF_DIM_R, .queries = VKF_DIM_T,
               .keys = VKF_DIM_KEYS, .past = VKF_DIM_PAST, .shared = VKF_DIM_BEAMS, .packed = true, HEADS);
  static const float caps[] = {-1, 0x1p-101f, INFINITY, NAN};
  for (size_t i = 0; i < VKF_COUNT(caps); i++)
    REFUSE_SHAPE(ATTENTION, attention, "a finite soft cap from 2^-100 up", .seqs = VKF_DIM_R, .queries = VKF_DIM_T,
                 .keys = VKF_DIM_KEYS, .past = VKF_DIM_PAST, .shared = VKF_DIM_ONE, .softcap = caps[i], HEADS);
  REFUSE_SHAPE(ROPE, rope, "heads end at column 12", .rows = VKF_DIM_BS, .width = 8, .n_heads = 1, .n_kv_heads = 1,
               .k_column = 8, .head_width = 4, .rotary = 4, .n_positions = 9);
  REFUSE_SHAPE(APPEND, append, "expected the past to be ZERO, or PAST", .seqs = VKF_DIM_B, .tokens = VKF_DIM_S,
               .past = VKF_DIM_PAST, .n_heads = 2, .key_width = 4, .value_width = 2);
  REFUSE_SHAPE(APPEND, append, "expected B sequences of S tokens", .seqs = VKF_DIM_B, .tokens = VKF_DIM_T,
               .past = VKF_DIM_ZERO, .n_heads = 2, .key_width = 4, .value_width = 2);
  REFUSE_SHAPE(TOP_K, top_k, "expected k from 1", .rows = VKF_DIM_BS, .width = 4, .k = 0);
  REFUSE_SHAPE(TOP_K, top_k, "expected k from 1", .rows = VKF_DIM_BS, .width = 4, .k = 5);
  REFUSE_SHAPE(MATMUL, matmul, "there is no activation", .rows = VKF_DIM_BS, .n = 4, .k = 4,
               .activation = VKF_ACT_COUNT);
  REFUSE_SHAPE(NORM, norm, "expected an eps of 0 or more", .rows = VKF_DIM_BS, .width = 4, .eps = -1);
  REFUSE_SHAPE(NORM, norm, "expected an eps of 0 or more", .rows = VKF_DIM_BS, .width = 4, .eps = NAN);
}

/* ---- calls and comparisons-------------------------------------------------------------------------------------- */

static void calls_take_strides_from_capacity(void **state) {
  (void)state;
  small p;
  vkf_call call;
  void *bases[5] = {0};
  make_small(&p);
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 2, .S = 3});
  assert_int_equal(vkf_call_from_plan(&p.env, &p.plan, 0, &dims, bases, &call), VKF_OK);
  assert_true(call.in[VKF_MATMUL_X].extent[0] == 6 && call.in[VKF_MATMUL_X].stride[0] == 8);
  assert_true(call.out[0].extent[1] == 6 && vkf_view_elements(&call.out[0]) == 36);
  dims = vkf_dims_make(&(vkf_sizes){.B = 4, .S = 4});
  assert_int_equal(vkf_call_from_plan(&p.env, &p.plan, 0, &dims, bases, &call), VKF_ERROR_ARGUMENT);
  assert_string_equal(p.env.message, "node linear.h, slot x: extent 0 is 16, over its capacity of 12");
}

static double compared(float got, double exact, double bound) {
  vkf_call call = {.op = VKF_OP_MATMUL, .out = {{.rank = 1, .extent = {1}, .stride = {1}}}};
  vkf_comparison j = {0};
  vkf_compare(&call, 0, &got, &exact, &bound, &j);
  assert_int_equal(j.n, bound < 0 ? 0 : 1);
  return j.ratio;
}

static void the_comparison_lets_nothing_through(void **state) {
  (void)state;
  assert_true(compared(1, 1, 0) == 0);
  assert_true(compared(1.5f, 1, 1) == 0.5);
  assert_true(compared(3, 1, 1) == 2);
  assert_true(isinf(compared(1.5f, 1, 0)));
  assert_true(isinf(compared(NAN, 1, 1)));
  assert_true(isinf(compared(NAN, 1, INFINITY)));
  assert_true(compared(NAN, NAN, 0) == 0);
  assert_true(isinf(compared(1, NAN, 1)));
  assert_true(isinf(compared(1.5f, 1, NAN)));
  assert_true(compared(INFINITY, INFINITY, 1) == 0);
  assert_true(isinf(compared(-INFINITY, INFINITY, 1)));
  assert_true(isinf(compared(INFINITY, 1, 1)));
  assert_true(compared(INFINITY, 1e39, 1) == 0);
  assert_true(isinf(compared(-INFINITY, 1e39, 1)));
  assert_true(compared(5, 1, -1) == 0);
}

static void integers_must_be_equal(void **state) {
  (void)state;
  vkf_call call = {.op = VKF_OP_TOP_K};
  call.out[VKF_TOP_K_IDS] = (vkf_view){.rank = 1, .extent = {2}, .stride = {1}};
  const int32_t got[2] = {16777217, 4};
  double exact[2] = {16777217, 4}, bound[2] = {0};
  vkf_comparison j = {0};
  vkf_compare(&call, VKF_TOP_K_IDS, got, exact, bound, &j);
  assert_true(j.ratio == 0 && j.n == 2);
  exact[0] = 16777216;
  vkf_compare(&call, VKF_TOP_K_IDS, got, exact, bound, &j);
  assert_true(isinf(j.ratio) && j.worst == 0 && j.worst_out == VKF_TOP_K_IDS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_found),
      cmocka_unit_test(dimensions_are_products),
      cmocka_unit_test(a_good_plan_passes),
      cmocka_unit_test(every_fault_is_named),
      cmocka_unit_test(attention_parameters_are_checked),
      cmocka_unit_test(costs_are_counted),
      cmocka_unit_test(costs_of_every_op),
      cmocka_unit_test(parameters_are_checked),
      cmocka_unit_test(calls_take_strides_from_capacity),
      cmocka_unit_test(the_comparison_lets_nothing_through),
      cmocka_unit_test(integers_must_be_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
