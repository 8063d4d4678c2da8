/* How far a result moves if its inputs do. In every case with finite data, the inputs are moved by known amounts: no
 * exact result may move further than vkf_ref_propagate_error() says, and in every op some come near. logit_edit is left
 * out, because no chain carries it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/cases.h"
#include "support/calls.h"

enum { MAX_SLOTS = 16 };

static vkf_env env;

/* Values, errors and moved values of all slots of a case, at capacity. */
typedef struct moved {
  void *bases[MAX_SLOTS], *moved[MAX_SLOTS], *errors[MAX_SLOTS];
} moved;

static uint64_t elements_of(const vkf_case_run *run, uint32_t slot) {
  return vkf_slot_elements(&run->plan.slots[slot]);
}

/* Moves every float input by up to `part` of itself, up or down. Call finish(). */
static void move_inputs(const vkf_case_run *run, double part, moved *m) {
  assert_true(run->plan.n_slots <= MAX_SLOTS);
  for (uint32_t i = 0; i < run->plan.n_slots; i++) {
    const vkf_slot *s = &run->plan.slots[i];
    uint64_t n = elements_of(run, i);
    float *value = test_calloc(n, 4), *there = test_calloc(n, 4), *error = test_calloc(n, 4);
    if (s->kind == VKF_SLOT_WEIGHT)
      run->weights.load(run->weights.user, s->index, 0, run->weights.infos[s->index].shape[0], value);
    else if (s->data)
      memcpy(value, s->data, n * 4);
    memcpy(there, value, n * 4);
    for (uint64_t k = 0; s->dtype == VKF_F32 && k < n; k++) {
      if (!isfinite(value[k])) continue; /* elements that no op reads, and masked keys */
      there[k] = (float)((double)value[k] * (1 + part * (2 * vkf_rng_unit(31, i, k) - 1)));
      error[k] = nextafterf(fabsf(there[k] - value[k]), INFINITY);
    }
    m->bases[i] = value;
    m->moved[i] = there;
    m->errors[i] = error;
  }
}

static void finish(const vkf_case_run *run, moved *m) {
  for (uint32_t i = 0; i < run->plan.n_slots; i++) {
    test_free(m->bases[i]);
    test_free(m->moved[i]);
    test_free(m->errors[i]);
  }
}

/* Computes the exact results of the node for these values; bound is -1 where it writes none. The caller frees both. */
static void compute(const vkf_case_run *run, void *const *bases, double **exact, double **bound) {
  vkf_rounding rounding = vulkan_rounding(1, 64);
  vkf_call call;
  assert_int_equal(vkf_call_from_plan(&env, &run->plan, 0, &run->dims, bases, &call), VKF_OK);
  call.rounding = &rounding;
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    uint32_t slot = run->plan.nodes[0].out[o];
    if (slot == VKF_NO_SLOT) continue;
    uint64_t n = elements_of(run, slot);
    call.exact[o] = exact[o] = test_calloc(n, sizeof **exact);
    call.bound[o] = bound[o] = test_calloc(n, sizeof **bound);
    for (uint64_t i = 0; i < n; i++) bound[o][i] = -1;
  }
  assert_int_equal(vkf_ref_run(&env, &call), VKF_OK);
}

/* Calls vkf_ref_propagate_error() for these values and errors of the slots. The caller frees moved_by. */
static void propagated(const vkf_case_run *run, void *const *bases, void *const *slots, float **moved_by) {
  vkf_call call, errors;
  assert_int_equal(vkf_call_from_plan(&env, &run->plan, 0, &run->dims, bases, &call), VKF_OK);
  assert_int_equal(vkf_call_from_plan(&env, &run->plan, 0, &run->dims, slots, &errors), VKF_OK);
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
    uint32_t slot = run->plan.nodes[0].in[i];
    if (slot != VKF_NO_SLOT && run->plan.slots[slot].dtype != VKF_F32) errors.in[i].data = NULL;
  }
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    uint32_t slot = run->plan.nodes[0].out[o];
    if (slot != VKF_NO_SLOT) moved_by[o] = test_calloc(elements_of(run, slot), sizeof **moved_by);
  }
  assert_int_equal(vkf_ref_propagate_error(&env, &call, errors.in, moved_by), VKF_OK);
}

/* Returns the largest move divided by what is allowed, and fails if it is over 1. An op that is defined with roundings
 * (embed) rounds again at the moved inputs, so what it propagates there from errors of 0 is also allowed. */
static double check(const vkf_case *c, double part) {
  vkf_case_run run;
  moved m = {0};
  void *zeros[MAX_SLOTS] = {NULL};
  double *before[VKF_MAX_OUTPUTS] = {NULL}, *after[VKF_MAX_OUTPUTS] = {NULL}, *bound[VKF_MAX_OUTPUTS] = {NULL},
         *unused[VKF_MAX_OUTPUTS] = {NULL}, nearest = 0;
  float *moved_by[VKF_MAX_OUTPUTS] = {NULL}, *own[VKF_MAX_OUTPUTS] = {NULL};
  assert_int_equal(vkf_case_make(&env, c, &run), VKF_OK);
  move_inputs(&run, part, &m);
  for (uint32_t i = 0; i < run.plan.n_slots; i++) zeros[i] = test_calloc(elements_of(&run, i), sizeof(float));
  compute(&run, m.bases, before, bound);
  compute(&run, m.moved, after, unused);
  propagated(&run, m.bases, m.errors, moved_by);
  propagated(&run, m.moved, zeros, own);
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    if (!before[o] || vkf_call_is_integer(c->op, o)) continue;
    for (uint64_t i = 0; i < elements_of(&run, run.plan.nodes[0].out[o]); i++) {
      double off = fabs(after[o][i] - before[o][i]), allowed = (double)moved_by[o][i] + (double)own[o][i];
      if (bound[o][i] < 0 || off == 0) continue;
      if (off < 0x1p-126) continue; /* weights that are too small for float32 */
      if (!(off <= allowed))
        fail_msg("%s, %s, element %llu: moved by %.9g, allowed %.9g", vkf_op_name(c->op), c->name,
                 (unsigned long long)i, off, allowed);
      nearest = fmax(nearest, off / allowed);
    }
  }
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    if (!before[o]) continue;
    test_free(before[o]);
    test_free(after[o]);
    test_free(bound[o]);
    test_free(unused[o]);
    test_free(moved_by[o]);
    test_free(own[o]);
  }
  for (uint32_t i = 0; i < run.plan.n_slots; i++) test_free(zeros[i]);
  finish(&run, &m);
  vkf_case_finish(&run);
  return nearest;
}

static void no_result_moves_further(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
    size_t n;
    const vkf_case *cases = vkf_op_cases(op, &n);
    double nearest = 0;
    for (size_t i = 0; i < n && op != VKF_OP_LOGIT_EDIT; i++) {
      if (cases[i].data == VKF_DATA_SPECIAL) continue; /* not finite */
      nearest = fmax(nearest, check(&cases[i], 1e-3));
      nearest = fmax(nearest, check(&cases[i], 0.5));
    }
    if (op != VKF_OP_LOGIT_EDIT && nearest < 0.05)
      fail_msg("%s: moved by %.3g of what is allowed", vkf_op_name(op), nearest);
  }
}

/* exp(-800) is 0 in double. If -800 moves up by 900, it outweighs the other, and the sum's logarithm grows by 100. */
static void what_underflows_may_grow(void **state) {
  (void)state;
  float x[2] = {0, -800}, error[2] = {0, 900}, out[2] = {0};
  vkf_params params = {.log_softmax = {.rows = VKF_DIM_OUT, .width = 2}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.out = 1});
  vkf_call call = {.op = VKF_OP_LOG_SOFTMAX, .name = "underflow", .params = &params, .dims = &dims};
  vkf_view errors[VKF_MAX_INPUTS] = {[VKF_LOG_SOFTMAX_X] = VIEW(error, 1, 2)};
  call.in[VKF_LOG_SOFTMAX_X] = VIEW(x, 1, 2);
  call.out[0] = VIEW(out, 1, 2);
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_ref_propagate_error(&env, &call, errors, (float *[VKF_MAX_OUTPUTS]){out}), VKF_OK);
  assert_true(out[0] >= 100 && out[0] < 100.001f);
  assert_true(out[1] >= 1000 && out[1] < 1000.01f);
}

/* If positive factors all move up, the sum of products moves by all of the first order. */
static void one_sign_uses_all_of_it(void **state) {
  (void)state;
  enum { K = 64 };
  float x[K], w[K], error[K], out = 0;
  double moved_sum = 0, sum = 0;
  for (int i = 0; i < K; i++) {
    x[i] = 0.5f + (float)i / K;
    w[i] = 1 + (float)(i % 7);
    error[i] = 0x1p-10f;
    sum += (double)x[i] * w[i];
    moved_sum += ((double)x[i] + (double)error[i]) * ((double)w[i] + (double)error[i]);
  }
  vkf_params params = {.matmul = {.rows = VKF_DIM_BS, .n = 1, .k = K}};
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = 1});
  vkf_call call = {.op = VKF_OP_MATMUL, .name = "one sign", .params = &params, .dims = &dims};
  vkf_view errors[VKF_MAX_INPUTS] = {[VKF_MATMUL_X] = VIEW(error, 1, K), [VKF_MATMUL_W] = VIEW(error, 1, K)};
  call.in[VKF_MATMUL_X] = VIEW(x, 1, K);
  call.in[VKF_MATMUL_W] = VIEW(w, 1, K);
  call.out[0] = VIEW(&out, 1, 1);
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_ref_propagate_error(&env, &call, errors, (float *[VKF_MAX_OUTPUTS]){&out}), VKF_OK);
  assert_true(moved_sum - sum <= (double)out);
  assert_true(moved_sum - sum >= 0.9999 * (double)out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_result_moves_further),
                                     cmocka_unit_test(what_underflows_may_grow),
                                     cmocka_unit_test(one_sign_uses_all_of_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
