/* No derived bound is larger than it must be. For every op the test imagines a device that is as unlucky as its
 * rounding allows: each operation has the largest error (u for a sum or a product, what Vulkan allows for exp, log,
 * division and root), always in the direction that moves the result further, and the first term of a sum is by far the
 * largest, so that it goes through all roundings of the sum. Such a device must stay within the bound (1 + SECOND, for
 * terms of the second order in u) and use at least the share of it that is in its row below: a bound that is 1/share
 * times as large fails. What is missing to 1 are roundings that only some kernels have (docs/numerics.md). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"
#include "shared/math.h"
#include "support/calls.h"

#define SECOND 1e-3
#define U 0x1p-24
#define UP(x) ((x) * (1 + U))
#define DOWN(x) ((x) * (1 - U))

enum { MAX_ELEMENTS = 64 };

static vkf_env env;
static float stored[MAX_ELEMENTS];
static double exact[MAX_ELEMENTS], bound[MAX_ELEMENTS];
static vkf_dims dims;
static vkf_params params;
static vkf_rounding rounding;

/* Returns a call of an op on these static arrays. The caller adds its inputs and the output's shape. */
static vkf_call call_of(vkf_op op, vkf_sizes sizes) {
  rounding = vulkan_rounding(1, 1024);
  dims = vkf_dims_make(&sizes);
  memset(bound, 0, sizeof bound);
  return (vkf_call){.op = op,
                    .name = "tight",
                    .params = &params,
                    .dims = &dims,
                    .rounding = &rounding,
                    .exact = {exact},
                    .bound = {bound}};
}

/* Fills exact and bound. */
static void compare(vkf_call *call) {
  vkf_env_init(&env, NULL);
  assert_true(vkf_view_elements(&call->out[0]) <= MAX_ELEMENTS);
  assert_int_equal(vkf_ref_run(&env, call), VKF_OK);
}

static double used(uint32_t i, double unlucky) {
  assert_true(bound[i] > 0);
  return fabs(unlucky - exact[i]) / bound[i];
}

static double exp_error(double x) {
  return 2 * U * (rounding.exp_ulp_base + rounding.exp_ulp_slope * fabs(x));
}

static double div_error(void) {
  return 2 * U * rounding.div_ulp;
}

/* Fills x with a first term that outweighs the others. */
static void one_large(float *x, uint32_t n, float large) {
  for (uint32_t i = 0; i < n; i++) x[i] = i == 0 ? large : 0x1.3p-9f + 0x1p-20f * (float)i;
}

/* Returns the sum of n terms, each addition rounded up (away from 0) or down. */
static double unlucky_sum(const double *terms, uint32_t n, bool up) {
  double sum = terms[0];
  for (uint32_t i = 1; i < n; i++) sum = up ? UP(sum + terms[i]) : DOWN(sum + terms[i]);
  return sum;
}

/* cancels: products of both signs, whose partial sums stay small; each operation is off upward. */
static double matmul_of(bool cancels) {
  enum { K = 64 };
  float x[K], w[K];
  params = (vkf_params){.matmul = {.rows = VKF_DIM_BS, .n = 1, .k = K}};
  vkf_call call = call_of(VKF_OP_MATMUL, (vkf_sizes){.B = 1, .S = 1});
  one_large(x, K, 1.1f);
  for (int i = 0; i < K; i++) w[i] = 0.7f;
  for (int i = 0; cancels && i < K; i++) x[i] = i % 2 ? -1.1f : 1.1f;
  call.in[VKF_MATMUL_X] = VIEW(x, 1, K);
  call.in[VKF_MATMUL_W] = VIEW(w, 1, K);
  call.out[0] = VIEW(stored, 1, 1);
  compare(&call);
  double sum = 0;
  for (int i = 0; i < K; i++) {
    const double product = (double)x[i] * w[i];
    sum += product + U * fabs(product);
    if (i > 0) sum += U * fabs(sum);
  }
  return used(0, sum);
}

static double matmul(void) {
  return matmul_of(false);
}
static double matmul_of_both_signs(void) {
  return matmul_of(true);
}

/* One head, whose values have one column. */
static void attention_params(uint32_t key_width) {
  params = (vkf_params){.attention = plain_attention(VKF_DIM_R, VKF_DIM_T, 1, key_width, 1, 1)};
}

/* One query over KEYS keys whose scores are all `score`. Key 0 gets a weight that is too large, the others weights that
 * are too small, and so is their sum. Only key 0 has a value. */
static double attention_of(vkf_op op, float score) {
  enum { KEYS = 16, K = 64 };
  float q[K], k[KEYS * K], v[KEYS] = {1};
  double weights[KEYS], terms[K];
  attention_params(K);
  vkf_call call = call_of(op, (vkf_sizes){.B = 1, .R = 1, .T = 1, .S = KEYS});
  for (int i = 0; i < K; i++) q[i] = score == 0 ? 0 : i == 0 ? score : 0x1p-12f;
  for (int i = 0; i < KEYS * K; i++) k[i] = 1;
  call.in[VKF_ATTENTION_Q] = VIEW(q, 1, K);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, 1, KEYS, K);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, KEYS, 1);
  call.out[0] = op == VKF_OP_ATTENTION ? VIEW(stored, 1, 1) : VIEW(stored, 1, 1, 1, KEYS);
  compare(&call);
  double exact_score = 0, low = 0;
  for (int i = 0; i < K; i++) exact_score += (double)q[i];
  for (int s = 0; s < KEYS; s++) {
    const bool up = s == 0;
    for (int i = 0; i < K; i++) terms[i] = up ? UP((double)q[i]) : DOWN((double)q[i]);
    double a = up ? UP(unlucky_sum(terms, K, true)) : DOWN(unlucky_sum(terms, K, false)); /* and the scale */
    double relative = exp_error(0) + exp_error(0) + U; /* exp of the key, exp of the rescaling and its product */
    weights[s] = exp(a - exact_score) * (up ? 1 + relative : 1 - relative);
    low = s == 0 ? weights[0] : DOWN(low + weights[s]);
  }
  double numerator = weights[0];
  for (int s = 0; op == VKF_OP_ATTENTION && s < KEYS; s++) numerator = UP(numerator); /* product and sums */
  return used(0, numerator / low * (1 + div_error()));
}

/* Numbers that f16 rounds by nearly as much as it may: up where this favours key 0, the only one with a value, and down
 * in all others. The same for the weights. */
static double attention_of_halves(void) {
  enum { KEYS = 16, K = 64 };
  const float rises = 1 + 0x1.02p-11f, falls = 1 + 0x1.fcp-12f;
  float q[K], k[KEYS * K], v[KEYS] = {rises};
  attention_params(K);
  vkf_call call = call_of(VKF_OP_ATTENTION, (vkf_sizes){.B = 1, .R = 1, .T = 1, .S = KEYS});
  rounding.x_f16 = true;
  for (int i = 0; i < K; i++) q[i] = 0.25f;
  for (int i = 0; i < KEYS * K; i++) k[i] = i < K ? rises : falls;
  call.in[VKF_ATTENTION_Q] = VIEW(q, 1, K);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, 1, KEYS, K);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, KEYS, 1);
  call.out[0] = VIEW(stored, 1, 1);
  compare(&call);
  const double score = K * 0.25, first = exp(score * 0x1p-10) * (1 + 0x1p-11), other = 1 - 0x1p-11;
  return used(0, first * (1 + 0x1p-10) / (first + (KEYS - 1) * other));
}

/* Two keys with the scores 0 and `score`. Only the second has a value, and f16 loses it, or its weight. */
static double lost_half(float score, float value) {
  float q = 1, k[] = {0, score}, v[] = {0, value};
  attention_params(1);
  vkf_call call = call_of(VKF_OP_ATTENTION, (vkf_sizes){.B = 1, .R = 1, .T = 1, .S = 2});
  rounding.x_f16 = true;
  call.in[VKF_ATTENTION_Q] = VIEW(&q, 1, 1);
  call.in[VKF_ATTENTION_K] = VIEW(k, 1, 1, 2, 1);
  call.in[VKF_ATTENTION_V] = VIEW(v, 1, 1, 2, 1);
  call.out[0] = VIEW(stored, 1, 1);
  compare(&call);
  return used(0, 0);
}
static double lost_weight(void) {
  return lost_half(-21, 60000);
}
static double lost_value(void) {
  return lost_half(0, 0x1p-15f);
}

/* One key. Its value is rounded up, its weight up in the sum of values and down in that of weights. */
static double rounded_value(void) {
  float q = 0, k = 0, v = 1 + 0x1.02p-11f;
  attention_params(1);
  vkf_call call = call_of(VKF_OP_ATTENTION, (vkf_sizes){.B = 1, .R = 1, .T = 1, .S = 1});
  rounding.x_f16 = true;
  call.in[VKF_ATTENTION_Q] = VIEW(&q, 1, 1);
  call.in[VKF_ATTENTION_K] = VIEW(&k, 1, 1, 1, 1);
  call.in[VKF_ATTENTION_V] = VIEW(&v, 1, 1, 1, 1);
  call.out[0] = VIEW(stored, 1, 1);
  compare(&call);
  return used(0, (1 + 0x1p-10) * (1 + 0x1p-11) / (1 - 0x1p-11));
}

static double attention_of_scores(void) {
  return attention_of(VKF_OP_ATTENTION, 50);
}
static double attention_of_sums(void) {
  return attention_of(VKF_OP_ATTENTION, 0);
}
static double weights_of_scores(void) {
  return attention_of(VKF_OP_ATTENTION_WEIGHTS, 50);
}
static double weights_of_sums(void) {
  return attention_of(VKF_OP_ATTENTION_WEIGHTS, 0);
}

/* Everything in the variance is too small, so the scale is too large; the mean is too small, so the first element is
 * too large. */
static double norm_of(vkf_norm_kind kind) {
  enum { D = 32 };
  float x[D], w[D], b[D];
  double terms[D], mean = 0;
  params = (vkf_params){.norm = {.rows = VKF_DIM_BS, .width = D, .eps = 1e-5f, .kind = kind}};
  vkf_call call = call_of(VKF_OP_NORM, (vkf_sizes){.B = 1, .S = 1});
  one_large(x, D, 3);
  for (int i = 0; i < D; i++) w[i] = 0.7f, b[i] = 0.1f;
  call.in[VKF_NORM_X] = VIEW(x, 1, D);
  call.in[VKF_NORM_WEIGHT] = VIEW(w, D);
  call.in[VKF_NORM_BIAS] = VIEW(b, D);
  call.out[0] = VIEW(stored, 1, D);
  compare(&call);
  for (int i = 0; i < D; i++) terms[i] = (double)x[i];
  if (kind == VKF_NORM_LAYER) mean = unlucky_sum(terms, D, false) / D * (1 - div_error());
  for (int i = 0; i < D; i++) {
    double c = kind == VKF_NORM_LAYER ? DOWN((double)x[i] - mean) : (double)x[i];
    terms[i] = DOWN(c * c);
  }
  double variance = unlucky_sum(terms, D, false) / D * (1 - div_error());
  double scale = (1 + 2 * U * rounding.rsqrt_ulp) / sqrt(DOWN(variance + (double)params.norm.eps));
  double c = kind == VKF_NORM_LAYER ? UP((double)x[0] - mean) : (double)x[0];
  return used(0, UP(UP(UP(c * scale) * (double)w[0]) + (double)b[0]));
}

static double layer_norm(void) {
  return norm_of(VKF_NORM_LAYER);
}
static double rms_norm(void) {
  return norm_of(VKF_NORM_RMS);
}

static double log_softmax(void) {
  enum { V = 32 };
  float x[V];
  double terms[V];
  params = (vkf_params){.log_softmax = {.rows = VKF_DIM_OUT, .width = V}};
  vkf_call call = call_of(VKF_OP_LOG_SOFTMAX, (vkf_sizes){.out = 1});
  for (int i = 0; i < V; i++) x[i] = i == 0 ? 2 : -1.3f - 0.01f * (float)i;
  call.in[0] = VIEW(x, 1, V);
  call.out[0] = VIEW(stored, 1, V);
  compare(&call);
  for (int i = 0; i < V; i++) {
    double t = DOWN((double)x[0] - (double)x[i]);
    terms[i] = exp(-t) * (1 + exp_error(t));
  }
  double total = unlucky_sum(terms, V, true);
  double shift = total <= 2 ? log(total) + rounding.log_abs : log(total) * (1 + 2 * U * rounding.log_ulp);
  return used(V - 1, UP(UP((double)x[V - 1] - (double)x[0]) - shift));
}

/* Runs one edit of each kind that rounds, on elements 0 to 3. */
static void edit(float *x) {
  static const float values[] = {0.3f, 1.7f, 1.7f, 1.7f};
  static int32_t offsets[] = {0, 4};
  int32_t edits[4][4] = {
      {VKF_LOGIT_EDIT_ADD, 0}, {VKF_LOGIT_EDIT_PENALTY, 1}, {VKF_LOGIT_EDIT_PENALTY, 2}, {VKF_LOGIT_EDIT_GROW, 3}};
  params = (vkf_params){.logit_edit = {.rows = VKF_DIM_OUT, .width = 4, .max_edits = 4}};
  vkf_call call = call_of(VKF_OP_LOGIT_EDIT, (vkf_sizes){.out = 1});
  for (int i = 0; i < 4; i++) {
    edits[i][1] = i;
    memcpy(&edits[i][2], &values[i], 4);
  }
  call.in[VKF_LOGIT_EDIT_X] = VIEW(x, 1, 4);
  call.in[VKF_LOGIT_EDIT_OFFSETS] = VIEW(offsets, 2);
  call.in[VKF_LOGIT_EDIT_EDITS] = VIEW(edits, 4, 4);
  call.out[0] = VIEW(stored, 1, 4);
  compare(&call);
}

static double edit_adds(void) {
  edit((float[]){1, 1, -1, 1});
  return used(0, UP(exact[0]));
}
static double edit_divides(void) {
  edit((float[]){1, 1, -1, 1});
  return used(1, exact[1] * (1 + div_error()));
}
static double edit_multiplies(void) {
  edit((float[]){1, 1, -1, 1});
  return used(2, UP(exact[2]));
}
static double edit_grows(void) {
  edit((float[]){1, 1, -1, 1});
  return used(3, UP(1 + UP(exact[3] - 1)));
}

static double rope(void) {
  float x[2] = {0.9f, -1.1f}, table[2] = {0.8f, 0.6f};
  int32_t position = 0;
  params = (vkf_params){
      .rope = {.rows = VKF_DIM_BS, .width = 2, .n_heads = 1, .head_width = 2, .rotary = 2, .n_positions = 1}};
  vkf_call call = call_of(VKF_OP_ROPE, (vkf_sizes){.B = 1, .S = 1});
  call.in[VKF_ROPE_X] = VIEW(x, 1, 2);
  call.in[VKF_ROPE_POSITIONS] = VIEW(&position, 1);
  call.in[VKF_ROPE_TABLE] = VIEW(table, 1, 2);
  call.out[0] = VIEW(stored, 1, 2);
  compare(&call);
  return used(0, UP(UP((double)x[0] * table[0]) - UP((double)x[1] * table[1])));
}

/* x through an activation, times the other half; `unlucky` is the activation as the device computes it. */
static double gate(vkf_activation activation, float x, double unlucky) {
  float halves[2] = {x, 0.9f};
  params = (vkf_params){.gate = {.rows = VKF_DIM_BS, .width = 1, .up_column = 1, .activation = activation}};
  vkf_call call = call_of(VKF_OP_GATE, (vkf_sizes){.B = 1, .S = 1});
  call.in[VKF_GATE_X] = VIEW(halves, 1, 2);
  call.out[0] = VIEW(stored, 1, 1);
  compare(&call);
  return used(0, UP(unlucky * (double)halves[1]));
}

/* 1 / (1 + exp(-x)), where x has been rounded n times more. */
static double unlucky_logistic(double x, int n) {
  call_of(VKF_OP_GATE, (vkf_sizes){.B = 1, .S = 1}); /* sets the rounding */
  for (int i = 0; i < n; i++) x = UP(x);
  return 1 / DOWN(1 + exp(-x) * (1 - exp_error(x))) * (1 + div_error());
}

/* The two products behind the gate of an activation x g(x). */
static double twice(double product) {
  return UP(UP(product));
}

static double swish(void) {
  const float x = 1.3f;
  return gate(VKF_ACT_SWISH, x, twice((double)x * unlucky_logistic((double)x, 0)));
}

static double sigmoid(void) {
  const float x = 1.3f;
  return gate(VKF_ACT_SIGMOID, x, unlucky_logistic((double)x, 0));
}

/* Here and below x is where the roundings of the argument move the result most. */
static double quick_gelu(void) {
  const float x = 0.907f;
  return gate(VKF_ACT_QUICK_GELU, x, twice((double)x * unlucky_logistic(1.702 * (double)x, 2)));
}

static double gelu_by_tanh(void) {
  const float x = 0.9346f;
  const double w = 2 * 0.79788456080286535588 * ((double)x + 0.044715 * pow((double)x, 3));
  return gate(VKF_ACT_GELU_TANH, x, twice((double)x * unlucky_logistic(w, 8)));
}

/* x (1 + erf(x / sqrt 2)) / 2 */
static double gelu(void) {
  const float x = 1;
  const double sum = UP(1 + erf(UP(UP((double)x * sqrt(0.5)))) + VKF_ERF_ABS);
  return gate(VKF_ACT_GELU, x, twice((double)x * sum / 2));
}

/* (1 - q) / (1 + q), q = exp(-2x) */
static double hyperbolic(void) {
  const float x = 0.7f;
  call_of(VKF_OP_GATE, (vkf_sizes){.B = 1, .S = 1});
  const double q = exp(-2 * (double)x) * (1 - exp_error(2 * (double)x));
  return gate(VKF_ACT_TANH, x, UP(1 - q) / DOWN(1 + q) * (1 + div_error()));
}

static double squared_relu(void) {
  const float x = 0.7f;
  return gate(VKF_ACT_RELU2, x, UP((double)x * (double)x));
}

/* Ops that move or select numbers: their bound is 0 (unit.ref_cases). */
#define MOVES                                                                                                         \
  (1u << VKF_OP_EMBED | 1u << VKF_OP_APPEND | 1u << VKF_OP_GATHER | 1u << VKF_OP_TOP_K | 1u << VKF_OP_RELATIVE_BIAS | \
   1u << VKF_OP_PATCHES)

static void every_bound_is_used_up(void **state) {
  (void)state;
  static const struct {
    vkf_op op;
    const char *what;
    double share;
    double (*run)(void);
  } rows[] = {
      {VKF_OP_MATMUL, "sum of products", 0.9, matmul},
      {VKF_OP_MATMUL, "products that cancel", 0.9, matmul_of_both_signs},
      {VKF_OP_ATTENTION, "large scores", 0.9, attention_of_scores},
      {VKF_OP_ATTENTION, "scores 0", 0.75, attention_of_sums},
      {VKF_OP_ATTENTION, "rounded to f16", 0.9, attention_of_halves},
      {VKF_OP_ATTENTION, "a value rounded to f16", 0.95, rounded_value},
      {VKF_OP_ATTENTION, "a weight that f16 loses", 0.95, lost_weight},
      {VKF_OP_ATTENTION, "a value that f16 loses", 0.95, lost_value},
      {VKF_OP_ATTENTION_WEIGHTS, "large scores", 0.9, weights_of_scores},
      {VKF_OP_ATTENTION_WEIGHTS, "scores 0", 0.75, weights_of_sums},
      {VKF_OP_NORM, "layer norm", 0.9, layer_norm},
      {VKF_OP_NORM, "rms norm", 0.9, rms_norm},
      {VKF_OP_LOG_SOFTMAX, "log_softmax", 0.85, log_softmax},
      {VKF_OP_LOGIT_EDIT, "add", 0.99, edit_adds},
      {VKF_OP_LOGIT_EDIT, "divide", 0.99, edit_divides},
      {VKF_OP_LOGIT_EDIT, "grow", 0.99, edit_grows},
      {VKF_OP_LOGIT_EDIT, "multiply", 0.99, edit_multiplies},
      {VKF_OP_ROPE, "rope", 0.99, rope},
      {VKF_OP_GATE, "swish", 0.99, swish},
      {VKF_OP_GATE, "sigmoid", 0.99, sigmoid},
      {VKF_OP_GATE, "quick gelu", 0.99, quick_gelu},
      {VKF_OP_GATE, "gelu by tanh", 0.99, gelu_by_tanh},
      {VKF_OP_GATE, "gelu", 0.96, gelu},
      {VKF_OP_GATE, "tanh", 0.99, hyperbolic},
      {VKF_OP_GATE, "squared relu", 0.99, squared_relu},
  };
  uint32_t seen = MOVES;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    double share = rows[i].run();
    print_message("  %s, %s: %.3f of the bound\n", vkf_op_name(rows[i].op), rows[i].what, share);
    if (!(share >= rows[i].share && share <= 1 + SECOND))
      fail_msg("%s, %s: expected %g to %g of the bound, found %.4f", vkf_op_name(rows[i].op), rows[i].what,
               rows[i].share, 1 + SECOND, share);
    seen |= 1u << rows[i].op;
  }
  assert_int_equal(seen, (1u << VKF_OP_COUNT) - 1); /* a new op needs a row */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_bound_is_used_up)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
