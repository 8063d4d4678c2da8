/* A block with each matmul variant that reads panels: its activations are written as panels by one kernel (norm,
 * attention, matmul) and read as such by the next, with rows that do not fill the last panel. Every node within its
 * bound. The kernels are for 16 lanes, so a software driver is asked for vectors of 512 bits.
 */
#include <math.h>

#include "kern/kern.h"
#include "support/driver.h"

enum { T = 45, D = 40, F = 72, MAX_ARRAYS = 16 };

static void add(vkf_array *inputs, size_t *n, const char *name, size_t rows, size_t width, float sigma) {
  float *data = test_malloc(rows * width * sizeof *data);
  for (size_t i = 0; i < rows * width; i++) data[i] = sigma * (float)vkf_rng_normal(3, *n, i);
  inputs[(*n)++] = (vkf_array){name, VKF_F32, 2, {rows, width}, data};
}

/* Of all intermediates that are traced; the ones that end in .exact and .bound judge the rest. */
static void judge(const vkf_result *result, const char *variant) {
  size_t n_judged = 0;
  for (size_t i = 0; i < vkf_result_count(result); i++) {
    const vkf_array *a = vkf_result_at(result, i);
    char exact_name[64], bound_name[64];
    snprintf(exact_name, sizeof exact_name, "%s.exact", a->name);
    snprintf(bound_name, sizeof bound_name, "%s.bound", a->name);
    const vkf_array *exact = vkf_result_find(result, exact_name), *bound = vkf_result_find(result, bound_name);
    if (!exact || !bound) continue;
    size_t n = 1;
    for (size_t k = 0; k < a->rank; k++) n *= a->shape[k];
    for (size_t k = 0; k < n; k++) {
      double got = (double)((const float *)a->data)[k], want = ((const double *)exact->data)[k];
      if (!(fabs(got - want) <= ((const double *)bound->data)[k]))
        fail_msg("%s, %s, element %zu: %.9g, expected %.9g", variant, a->name, k, got, want);
    }
    n_judged++;
  }
  assert_true(n_judged >= 8);
}

static void a_block_in_panels(void **state) {
  driver *d = *state;
  vkf_array inputs[MAX_ARRAYS];
  size_t n = 0, n_variants = 0, n_ran = 0;
  add(inputs, &n, "x", T, D, 1);
  add(inputs, &n, "wq", D, D, 0.2f);
  add(inputs, &n, "wk", D, D, 0.2f);
  add(inputs, &n, "wv", D, D, 0.2f);
  add(inputs, &n, "wo", D, D, 0.2f);
  add(inputs, &n, "w1", F, D, 0.2f);
  add(inputs, &n, "w2", D, F, 0.2f);
  const vkf_variant *variants = vkf_kern_variants(&n_variants);
  for (size_t i = 0; i < n_variants; i++) {
    char name[96];
    vkf_result *result = NULL;
    if (variants[i].op != VKF_OP_MATMUL || variants[i].x_layout != VKF_LAYOUT_PANELS) continue;
    vkf_kern_name(&variants[i], name, sizeof name);
    vkf_status status =
        vkf_device_run_op(d->device, "encoder_block", "{\"heads\": 2, \"trace\": true}", inputs, n, name, &result);
    if (status == VKF_ERROR_ARGUMENT) { /* it does not fit this device */
      print_message("  %s does not run here\n", name);
      continue;
    }
    driver_ok(d, status);
    judge(result, name);
    vkf_result_destroy(&result);
    n_ran++;
  }
  for (size_t i = 0; i < n; i++) test_free(inputs[i].data);
  assert_true(n_ran > 0);
}

DRIVER_MAIN(DRIVER_TEST(a_block_in_panels))
