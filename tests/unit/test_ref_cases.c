/* Every case of every op on the scalar path: the result is within the narrow bound of ref's own rounding, a damaged
 * result exceeds even the wider bound of a device, and the padding around the result is not written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/cases.h"
#include "support/calls.h"

/* A case with its weights, its result and its bounds, all on the host. */
typedef struct fixture {
  vkf_env env;
  vkf_case_run run;
  vkf_backend *backend;
  vkf_weights *weights;
  vkf_program *program;
  void *bases[VKF_MAX_INPUTS + VKF_MAX_OUTPUTS];
  vkf_call call;
  size_t n[VKF_MAX_OUTPUTS];
} fixture;

static uint32_t weight_elements(const vkf_weight_info *info) {
  return info->shape[0] * (info->rank == 2 ? info->shape[1] : 1);
}

static void open_case(fixture *f, const vkf_case *c, const vkf_rounding *rounding) {
  memset(f, 0, sizeof(*f));
  vkf_env_init(&f->env, NULL);
  if (vkf_case_make(&f->env, c, &f->run) != VKF_OK) fail_msg("%s: %s", c->name, f->env.message);
  for (uint32_t s = 0; s < f->run.plan.n_slots; s++) {
    const vkf_slot *slot = &f->run.plan.slots[s];
    f->bases[s] = (void *)slot->data;
    if (slot->kind == VKF_SLOT_WEIGHT) {
      f->bases[s] = calloc(weight_elements(&f->run.weights.infos[slot->index]), 4);
      f->run.weights.load(f->run.weights.user, slot->index, 0, f->run.weights.infos[slot->index].shape[0], f->bases[s]);
    } else if (slot->kind == VKF_SLOT_TEMP) {
      f->bases[s] = calloc(vkf_slot_elements(slot), 4);
      memset(f->bases[s], 0xff, vkf_slot_elements(slot) * 4);
    }
  }
  assert_int_equal(vkf_call_from_plan(&f->env, &f->run.plan, 0, &f->run.dims, f->bases, &f->call), VKF_OK);
  f->call.rounding = rounding;
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    uint32_t s = f->run.plan.nodes[0].out[o];
    if (s == VKF_NO_SLOT) continue;
    f->n[o] = vkf_slot_elements(&f->run.plan.slots[s]);
    f->call.exact[o] = calloc(f->n[o], sizeof(double));
    f->call.bound[o] = calloc(f->n[o], sizeof(double));
    for (size_t i = 0; i < f->n[o]; i++) f->call.bound[o][i] = -1;
  }
  if (vkf_ref_run(&f->env, &f->call) != VKF_OK) fail_msg("%s: %s", c->name, f->env.message);
}

static void close_case(fixture *f) {
  for (uint32_t s = 0; s < f->run.plan.n_slots; s++) {
    vkf_slot_kind kind = f->run.plan.slots[s].kind;
    if (kind == VKF_SLOT_WEIGHT || kind == VKF_SLOT_TEMP) free(f->bases[s]);
  }
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    free(f->call.exact[o]);
    free(f->call.bound[o]);
  }
  vkf_case_finish(&f->run);
  assert_int_equal(f->env.live_bytes, 0);
}

static uint64_t written_elements(const fixture *f, uint32_t o) {
  uint64_t n = 0;
  for (size_t i = 0; i < f->n[o]; i++) n += f->call.bound[o][i] >= 0 || isnan(f->call.bound[o][i]);
  return n;
}

static void check_padding(const fixture *f, const vkf_case *c, uint32_t o) {
  const uint32_t *words = f->call.out[o].data;
  for (size_t i = 0; i < f->n[o]; i++) {
    if (f->call.bound[o][i] < 0 && words[i] != 0xffffffffu) fail_msg("%s: wrote padding element %zu", c->name, i);
  }
}

static void each_case(void (*check)(fixture *, const vkf_case *), const vkf_rounding *rounding) {
  for (int op = 0; op < VKF_OP_COUNT; op++) {
    size_t n;
    const vkf_case *cases = vkf_op_cases((vkf_op)op, &n);
    assert_true(n >= 15);
    for (size_t i = 0; i < n; i++) {
      fixture f;
      assert_int_equal(cases[i].op, op);
      open_case(&f, &cases[i], rounding);
      check(&f, &cases[i]);
      close_case(&f);
    }
  }
}

static void check_itself(fixture *f, const vkf_case *c) {
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS && f->n[o] > 0; o++) {
    vkf_comparison j = {0};
    vkf_compare(&f->call, o, f->call.out[o].data, f->call.exact[o], f->call.bound[o], &j);
    if (!(j.ratio <= 1)) {
      fail_msg("%s %s: ratio %g at %zu: got %.9g, exact %.9g, bound %.3g", vkf_op_name(c->op), c->name, j.ratio,
               (size_t)j.worst, j.worst_got, j.worst_exact, j.worst_bound);
    }
    assert_int_equal(j.n, written_elements(f, o));
    assert_true(j.n > 0);
    check_padding(f, c, o);
  }
}

static void every_case_is_within_its_bound(void **state) {
  (void)state;
  vkf_rounding narrow = {.u = 0x1p-24,
                         .n_partial = 1,
                         .key_block = 1024,
                         .exp_ulp_base = 1,
                         .log_abs = 0x1p-24,
                         .log_ulp = 1,
                         .div_ulp = 0.5,
                         .rsqrt_ulp = 1,
                         .tiny = 0x1p-126};
  each_case(check_itself, &narrow);
}

/* Returns err/bound of the case with `value` as element i, and puts the right value back. */
static double ratio_with(fixture *f, uint32_t o, size_t i, double value) {
  float *floats = f->call.out[o].data;
  int32_t *ints = f->call.out[o].data;
  const int32_t kept = ints[i];
  vkf_comparison j = {0};
  if (vkf_call_is_integer(f->call.op, o))
    ints[i] = (int32_t)value;
  else
    floats[i] = (float)value;
  vkf_compare(&f->call, o, f->call.out[o].data, f->call.exact[o], f->call.bound[o], &j);
  ints[i] = kept;
  return j.ratio;
}

/* Moves element i up and down by DAMAGE of the largest of the output, integers and elements whose bound is 0 by the
 * least step: all must exceed the bound. Layer norm of equal numbers has the loosest bound, 1.7e-3 of its result:
 * 1/sqrt(eps) times the error of the mean. */
#define DAMAGE 4e-3
static void damage_element(fixture *f, const vkf_case *c, uint32_t o, size_t i, double largest) {
  const double exact = f->call.exact[o][i], off = largest * DAMAGE;
  const bool integer = vkf_call_is_integer(c->op, o);
  for (int sign = -1; sign <= 1; sign += 2) {
    double value = exact + sign * off;
    if (integer) value = exact + sign;
    if (!integer && f->call.bound[o][i] == 0) value = (double)nextafterf((float)exact, (float)sign * INFINITY);
    if (!(ratio_with(f, o, i, value) > 1))
      fail_msg("%s %s: element %zu is %.9g in the place of %.9g, largest %.3g, and within the bound of %.3g",
               vkf_op_name(c->op), c->name, i, value, exact, largest, f->call.bound[o][i]);
  }
  if (!integer) assert_true(isinf(ratio_with(f, o, i, (double)NAN)));
}

/* Damages the first and the last element that are written and finite. */
static void check_damage(fixture *f, const vkf_case *c) {
  if (c->data == VKF_DATA_OFFSET || c->data == VKF_DATA_LARGE || c->data == VKF_DATA_SPECIAL) return;
  if (c->data == VKF_DATA_FEW) return; /* their bounds are wide; one_of_few_is_missed() checks them */
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS && f->n[o] > 0; o++) {
    size_t first = SIZE_MAX, last = 0;
    double largest = 0;
    for (size_t i = 0; i < f->n[o]; i++) {
      if (!(f->call.bound[o][i] >= 0) || !isfinite(f->call.exact[o][i])) continue;
      largest = fmax(largest, fabs(f->call.exact[o][i]));
      first = VKF_MIN(first, i);
      last = i;
    }
    if (first == SIZE_MAX) { /* rows filled with minus infinity */
      assert_true(isinf(ratio_with(f, o, 0, 0)));
      continue;
    }
    largest = fmax(largest, 0.01); /* 0 if all are logarithms of a probability of 1 */
    damage_element(f, c, o, first, largest);
    damage_element(f, c, o, last, largest);
  }
}

/* Leaves out each column or key that counts, one at a time: the result must exceed the bound. */
static void check_few(fixture *f, const vkf_case *c) {
  if (c->data != VKF_DATA_FEW) return;
  const bool keys = c->op == VKF_OP_ATTENTION || c->op == VKF_OP_ATTENTION_WEIGHTS;
  const vkf_view *view = &f->call.in[keys ? VKF_ATTENTION_K : 0];
  const uint32_t n = view->extent[view->rank - (keys ? 2 : 1)], step = keys ? view->stride[view->rank - 2] : 1;
  const float far = keys ? -1 : c->op == VKF_OP_NORM ? 0 : -200;
  float *x = (float *)(uintptr_t)view->data;
  vkf_call call = f->call;
  size_t n_left_out = 0;
  call.rounding = NULL;
  memset(call.exact, 0, sizeof call.exact);
  for (uint32_t i = 0; i < n; i++) {
    const float kept = x[(size_t)i * step];
    double worst = 0;
    if (kept == far) continue;
    for (uint32_t k = 0; k < (keys ? c->params.attention.key_width : 1); k++) x[(size_t)i * step + k] = far;
    assert_int_equal(vkf_ref_run(&f->env, &call), VKF_OK);
    for (uint32_t o = 0; o < VKF_MAX_OUTPUTS && f->n[o] > 0; o++) {
      vkf_comparison j = {0};
      vkf_compare(&f->call, o, f->call.out[o].data, f->call.exact[o], f->call.bound[o], &j);
      worst = j.ratio <= worst ? worst : j.ratio;
    }
    if (worst <= 1)
      fail_msg("%s %s: without %u of %u it is %.3g of the bound", vkf_op_name(c->op), c->name, i, n, worst);
    for (uint32_t k = 0; k < (keys ? c->params.attention.key_width : 1); k++) x[(size_t)i * step + k] = kept;
    n_left_out++;
  }
  assert_true(n_left_out > 20 && x[(size_t)(n - 1) * step] != far);
}

static void one_of_few_is_missed(void **state) {
  (void)state;
  vkf_rounding rounding = vulkan_rounding(1, 32);
  each_case(check_few, &rounding);
}

static void damage_is_seen_in_every_case(void **state) {
  (void)state;
  vkf_rounding rounding = vulkan_rounding(1, 32);
  each_case(check_damage, &rounding);
}

/* Checks that no sum has 0 as its last product, so that a kernel that ends too early is noticed. */
static void check_last_products(const fixture *f, const vkf_case *c) {
  const uint32_t k = c->params.matmul.k;
  const vkf_view *x = &f->call.in[VKF_MATMUL_X], *w = &f->call.in[VKF_MATMUL_W];
  for (uint32_t m = 0; m < x->extent[0]; m++)
    for (uint32_t n = 0; n < c->params.matmul.n; n++) {
      const float *row = (const float *)x->data + m * x->stride[0], *column = (const float *)w->data + n * w->stride[0];
      if (row[k - 1] * column[k - 1] == 0) fail_msg("%s: the last product of %u, %u is 0", c->name, m, n);
    }
}

/* Half-integers: no rounding anywhere, so the bound of a sum of products is 0. */
static void halves_are_exact(void **state) {
  (void)state;
  vkf_rounding rounding = vulkan_rounding(1, 32);
  size_t n, seen = 0, n_large = 0;
  const vkf_case *cases = vkf_op_cases(VKF_OP_MATMUL, &n);
  for (size_t i = 0; i < n; i++) {
    if (cases[i].data != VKF_DATA_HALVES || cases[i].params.matmul.is_gated) continue; /* gates are rounded */
    fixture f;
    open_case(&f, &cases[i], &rounding);
    for (size_t e = 0; e < f.n[0]; e++) assert_true(f.call.bound[0][e] <= 0);
    if (cases[i].params.matmul.k > 65535) {
      check_last_products(&f, &cases[i]);
      n_large++;
    }
    close_case(&f);
    seen++;
  }
  assert_true(seen >= 5 && n_large >= 3);
}

static void moves_have_bound_zero(void **state) {
  (void)state;
  static const vkf_op ops[] = {VKF_OP_EMBED, VKF_OP_APPEND,        VKF_OP_GATHER,
                               VKF_OP_TOP_K, VKF_OP_RELATIVE_BIAS, VKF_OP_PATCHES};
  vkf_rounding rounding = vulkan_rounding(1, 32);
  for (size_t k = 0; k < VKF_COUNT(ops); k++) {
    size_t n;
    const vkf_case *cases = vkf_op_cases(ops[k], &n);
    for (size_t i = 0; i < n; i++) {
      fixture f;
      open_case(&f, &cases[i], &rounding);
      for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
        const bool turned = ops[k] == VKF_OP_APPEND && cases[i].params.append.rotary && o != VKF_APPEND_V;
        for (size_t e = 0; e < f.n[o] && !turned; e++) assert_true(f.call.bound[o][e] <= 0);
      }
      close_case(&f);
    }
  }
}

static void names_are_unique(void **state) {
  (void)state;
  for (int op = 0; op < VKF_OP_COUNT; op++) {
    size_t n;
    const vkf_case *cases = vkf_op_cases((vkf_op)op, &n);
    for (size_t i = 0; i < n; i++) {
      for (size_t k = 0; k < i; k++) assert_string_not_equal(cases[i].name, cases[k].name);
    }
  }
}

/* The same row twice gives the same data; another seed gives others. */
static void data_depend_on_the_row_alone(void **state) {
  (void)state;
  size_t n;
  vkf_case c = vkf_op_cases(VKF_OP_MATMUL, &n)[8];
  fixture a, b, other;
  open_case(&a, &c, NULL);
  open_case(&b, &c, NULL);
  assert_memory_equal(a.call.out[0].data, b.call.out[0].data, a.n[0] * 4);
  c.seed++;
  open_case(&other, &c, NULL);
  assert_memory_not_equal(a.call.out[0].data, other.call.out[0].data, a.n[0] * 4);
  close_case(&a);
  close_case(&b);
  close_case(&other);
}

static void every_allocation_of_a_case_may_fail(void **state) {
  (void)state;
  size_t n;
  const vkf_case *c = vkf_op_cases(VKF_OP_ATTENTION, &n) + 14;
  vkf_env env;
  vkf_case_run run;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_case_make(&env, c, &run), VKF_OK);
  vkf_case_finish(&run);
  uint64_t last = env.n_allocations;
  for (uint64_t at = 1; at <= last; at++) {
    vkf_env_init(&env, NULL);
    env.fail_at = at;
    assert_int_equal(vkf_case_make(&env, c, &run), VKF_ERROR_MEMORY);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* The last case of each op gives the same bits by its plan on the backend as by the op alone. */
static void backend_runs_every_case(void **state) {
  (void)state;
  for (int op = 0; op < VKF_OP_COUNT; op++) {
    size_t n;
    const vkf_case *c = vkf_op_cases((vkf_op)op, &n) + n - 1;
    fixture f;
    open_case(&f, c, NULL);
    assert_int_equal(vkf_ref_backend_create(&f.env, &f.backend), VKF_OK);
    const vkf_backend_table *t = f.backend->table;
    assert_int_equal(t->weights_create(f.backend, &f.run.weights, NULL, &f.weights), VKF_OK);
    assert_int_equal(t->program_create(f.backend, &f.run.plan, f.weights, NULL, NULL, &f.program), VKF_OK);
    assert_int_equal(t->poison(f.program), VKF_OK);
    assert_int_equal(t->run(f.program, &f.run.dims, 0, 1), VKF_OK);
    for (uint32_t o = 0; o < VKF_MAX_OUTPUTS && f.n[o] > 0; o++) {
      const vkf_view *view = &f.call.out[o];
      uint32_t *dense = calloc(vkf_view_elements(view), 4), index[VKF_MAX_SLOT_RANK] = {0};
      assert_int_equal(t->read(f.program, f.run.plan.nodes[0].out[o], &f.run.dims, dense), VKF_OK);
      size_t at = 0;
      do {
        assert_int_equal(dense[at++], ((const uint32_t *)view->data)[vkf_view_offset(view, index)]);
      } while (vkf_view_next(view, index));
      assert_int_equal(at, vkf_view_elements(view));
      free(dense);
    }
    t->program_destroy(&f.program);
    t->weights_destroy(&f.weights);
    t->destroy(&f.backend);
    close_case(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_case_is_within_its_bound), cmocka_unit_test(one_of_few_is_missed),
      cmocka_unit_test(damage_is_seen_in_every_case),   cmocka_unit_test(halves_are_exact),
      cmocka_unit_test(moves_have_bound_zero),          cmocka_unit_test(names_are_unique),
      cmocka_unit_test(data_depend_on_the_row_alone),   cmocka_unit_test(every_allocation_of_a_case_may_fail),
      cmocka_unit_test(backend_runs_every_case),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
