/* For tests that compare bits of attention: the result of a program of one node, and loops over all variants of order
 * class ascending and over the scalar path in both its modes. */
#ifndef VKF_TESTS_SUPPORT_ATTENTION_BITS_H
#define VKF_TESTS_SUPPORT_ATTENTION_BITS_H

#include "kern/kern.h"
#include "op/case_program.h"
#include "ref/ref.h"
#include "support/driver.h"
#include "support/half.h"

/* Returns the data of an input; NULL: it is absent. */
static inline void *data_of(const vkf_case_run *run, uint32_t input) {
  const uint32_t slot = run->plan.nodes[0].in[input];
  return slot == VKF_NO_SLOT ? NULL : (void *)(uintptr_t)run->plan.slots[slot].data;
}

/* Returns extent i of an input. */
static inline uint32_t extent_of(const vkf_case_run *run, uint32_t input, uint32_t i) {
  return run->plan.slots[run->plan.nodes[0].in[input]].extent[i].cap;
}

/* Runs a variant. Returns the result, dense, for the caller to free; NULL: the variant does not fit. */
static inline float *result_of(driver *d, vkf_backend *backend, vkf_case_program *p, const char *variant) {
  driver_ok(d, vkf_case_program_ready(p, backend, variant));
  if (!p->program) return NULL;
  const uint32_t slot = p->run.plan.nodes[0].out[0];
  float *out = malloc(vkf_slot_elements(&p->run.plan.slots[slot]) * sizeof *out);
  assert_non_null(out);
  driver_ok(d, backend->table->run(p->program, &p->run.dims, 0, 1));
  driver_ok(d, backend->table->read(p->program, slot, &p->run.dims, out));
  return out;
}

/* Fails the test if bits differ; variant NULL: the scalar path. Returns false if the variant does not fit. */
typedef bool attention_compare(driver *d, vkf_backend *backend, const vkf_case *shape, const char *variant);

/* Returns whether a kernel runs shape i. With VKF_OP_HALF it runs half of the shapes, and its neighbour in the table
 * the others. Kernels that any driver can run are left to SwiftShader, which compiles them in half the time. On
 * lavapipe with 512 bits the kernels that no other driver runs run all shapes. */
static inline bool attention_is_mine(const vkf_variant *v, size_t i) {
  if (getenv("VKF_OP_HALF") && !is_mine(v)) return false;
  return !takes_half() || own_subgroup() || (i % 2 == 0 && !runs_elsewhere(v, 0));
}

static inline void attention_every_variant(driver *d, const vkf_case *shapes, size_t n_shapes,
                                           attention_compare *compare) {
  size_t n = 0, n_compared = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    char name[96];
    size_t n_fits = 0, n_tried = 0;
    if (variants[i].op != VKF_OP_ATTENTION || variants[i].order != VKF_ORDER_ASCENDING) continue;
    vkf_kern_name(&variants[i], name, sizeof name);
    for (size_t s = 0; s < n_shapes; s++) {
      if (!attention_is_mine(&variants[i], i + s)) continue;
      n_fits += compare(d, d->device->backend, &shapes[s], name);
      n_tried++;
    }
    print_message("  %s: %zu of %zu shapes\n", name, n_fits, n_tried);
    n_compared += n_fits;
  }
  assert_true(n_compared >= n_shapes);
}

static inline void attention_scalar_path(driver *d, const vkf_case *shapes, size_t n_shapes,
                                         attention_compare *compare) {
  vkf_backend *ref = NULL;
  driver_ok(d, vkf_ref_backend_create(&d->context->env, &ref));
  for (int exact = 0; exact < 2; exact++) {
    ref->reproducible = exact;
    for (size_t s = 0; s < n_shapes; s++) assert_true(compare(d, ref, &shapes[s], NULL));
  }
  ref->table->destroy(&ref);
}

/* Defines main() of a test that runs these two loops over its shapes. */
#define ATTENTION_MAIN(shapes, compare)                                  \
  static void test_every_variant(void **state) {                         \
    attention_every_variant(*state, shapes, VKF_COUNT(shapes), compare); \
  }                                                                      \
  static void test_the_scalar_path(void **state) {                       \
    attention_scalar_path(*state, shapes, VKF_COUNT(shapes), compare);   \
  }                                                                      \
  DRIVER_MAIN(DRIVER_TEST(test_every_variant), DRIVER_TEST(test_the_scalar_path))

#endif
