/* Every op over its cases and every variant that fits: within the derived bound, and exact where sums of half-integers
 * are exact in any order. A variant that never ran says why.
 */
#include <math.h>

#include "kern/kern.h"
#include "op/cases.h"
#include "ref/ref.h"
#include "support/driver.h"

enum { MAX_ROWS = 256 };

typedef struct rows {
  char variants[MAX_ROWS][96];
  size_t n;
  bool ops[VKF_OP_COUNT];
} rows;

static void on_row(void *user, const vkf_validate_row *row) {
  rows *r = user;
  vkf_op op = vkf_op_find(row->name);
  assert_string_equal(row->scope, "op");
  assert_true(op < VKF_OP_COUNT && row->n_cases > 0 && r->n < MAX_ROWS);
  if (!(row->ratio <= 1)) fail_msg("%s, %s: err/bound is %g", row->name, row->variant, row->ratio);
  r->ops[op] = true;
  snprintf(r->variants[r->n++], sizeof r->variants[0], "%s", row->variant);
}

static bool reached(const rows *r, const char *name) {
  for (size_t i = 0; i < r->n; i++)
    if (!strcmp(r->variants[i], name)) return true;
  return false;
}

/* A variant that did not run must have a reason that a plain problem shows. */
static void explain(const vkf_variant *v, const char *name, const vkf_caps *caps) {
  vkf_problem problem = {.op = v->op, .m = 32, .n = 64, .k = 64, .v = 64, .batch = 1, .heads = 1, .order = v->order};
  char why[256] = "";
  problem.packing = vkf_kern_weight_packing(caps, 64, 64, v);
  if (v->op == VKF_OP_TOP_K) problem.v = 4;
  const char *reason = vkf_kern_fit(v, &problem, caps, why, sizeof why);
  if (!reason) fail_msg("%s fits a plain problem and no case reached it", name);
  print_message("  %s does not run here: %s\n", name, reason);
}

static void test_every_case_and_variant(void **state) {
  driver *d = *state;
  static rows r;
  double worst = -1;
  size_t n = 0;
  char name[96];
  const vkf_variant *variants = vkf_kern_variants(&n);
  memset(&r, 0, sizeof r);
  driver_ok(d, vkf_device_validate(d->device, NULL, on_row, &r, &worst));
  assert_true(worst >= 0 && worst <= 1);
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++)
    if (!r.ops[op]) fail_msg("no variant of %s ran", vkf_op_name(op));
  for (size_t i = 0; i < n; i++)
    if (!reached(&r, vkf_kern_name(&variants[i], name, sizeof name)))
      explain(&variants[i], name, vkf_gpu_device_caps(d->device->gpu));
}

/* Runs a case and returns its first output, dense, for the caller to free; NULL: the variant does not fit. */
static float *run_case(driver *d, vkf_backend *backend, const vkf_case *c, const char *variant, size_t *n) {
  vkf_case_run run = {0};
  vkf_weights *weights = NULL;
  vkf_program *program = NULL;
  const vkf_backend_table *b = backend->table;
  const vkf_program_options options = {.variant = variant};
  float *out = NULL;
  driver_ok(d, vkf_case_make(&d->context->env, c, &run));
  if (run.weights.n_weights) driver_ok(d, b->weights_create(backend, &run.weights, variant, &weights));
  vkf_status status = b->program_create(backend, &run.plan, weights, NULL, &options, &program);
  if (status == VKF_ERROR_ARGUMENT && variant) {
    vkf_env_clear(&d->context->env);
  } else {
    driver_ok(d, status);
    uint32_t slot = run.plan.nodes[0].out[0];
    *n = 1;
    for (uint32_t i = 0; i < run.plan.slots[slot].rank; i++) *n *= vkf_slot_extent(&run.plan.slots[slot], i, &run.dims);
    out = malloc(*n * sizeof *out);
    assert_non_null(out);
    driver_ok(d, b->poison(program));
    driver_ok(d, b->run(program, &run.dims, 0, run.plan.n_blocks));
    driver_ok(d, b->read(program, slot, &run.dims, out));
    b->program_destroy(&program);
  }
  if (weights) b->weights_destroy(&weights);
  vkf_case_finish(&run);
  return out;
}

static void compare_exactly(driver *d, vkf_backend *ref, const vkf_case *c, const vkf_variant *variants, size_t n) {
  size_t n_expected = 0, n_found = 0, n_ran = 0;
  float *expected = run_case(d, ref, c, NULL, &n_expected);
  for (size_t i = 0; i < n; i++) {
    char name[96];
    if (variants[i].op != c->op) continue;
    float *found = run_case(d, d->device->backend, c, vkf_kern_name(&variants[i], name, sizeof name), &n_found);
    if (!found) continue;
    n_ran++;
    assert_int_equal(n_found, n_expected);
    for (size_t e = 0; e < n_found; e++)
      if (!(found[e] == expected[e]))
        fail_msg("%s, case \"%s\": element %zu is %.9g, expected exactly %.9g", name, c->name, e, found[e],
                 expected[e]);
    free(found);
  }
  assert_true(n_ran > 0);
  free(expected);
}

static void test_half_integers_are_exact(void **state) {
  driver *d = *state;
  vkf_backend *ref = NULL;
  size_t n = 0, n_variants = 0, n_compared = 0;
  const vkf_variant *variants = vkf_kern_variants(&n_variants);
  const vkf_case *cases = vkf_op_cases(VKF_OP_MATMUL, &n);
  driver_ok(d, vkf_ref_backend_create(&d->context->env, &ref));
  for (size_t i = 0; i < n; i++) {
    vkf_activation a = cases[i].params.matmul.activation;
    if (cases[i].data != VKF_DATA_HALVES || (a != VKF_ACT_NONE && a != VKF_ACT_RELU)) continue;
    compare_exactly(d, ref, &cases[i], variants, n_variants);
    n_compared++;
  }
  assert_true(n_compared >= 5);
  ref->table->destroy(&ref);
}

DRIVER_MAIN(DRIVER_TEST(test_every_case_and_variant), DRIVER_TEST(test_half_integers_are_exact))
