/* The reproducible mode: every output of a forward pass has the bits that the scalar path gives in that mode, so two
 * devices that pass have the same. Some folders, with an op of every kind among them.
 */
#include "support/golden.h"

/* A device of its own, in a context of the reproducible mode, and what the folder's model computes on it. */
typedef struct side {
  vkf_context *context;
  vkf_device *device;
  vkf_model *model;
  vkf_result *expected, *found;
} side;

static void side_ok(const side *s, vkf_status status) {
  if (status != VKF_OK) fail_msg("%s: %s", vkf_status_name(status), vkf_context_message(s->context));
}

static void side_run(side *s, const char *folder, const char *device, int deterministic) {
  char path[GOLDEN_PATH];
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  memset(s, 0, sizeof *s);
  assert_int_equal(vkf_context_create(&(vkf_context_params){.deterministic = deterministic}, &s->context), VKF_OK);
  side_ok(s, vkf_device_open(s->context, device, &s->device));
  side_ok(s, vkf_model_open(s->device, golden_path(path, folder, "."), &s->model));
  side_ok(s, vkf_arrays_read(s->context, golden_path(path, folder, "expected.safetensors"), &s->expected));
  size_t n = golden_inputs(s->expected, inputs);
  side_ok(s, vkf_model_run(s->model, inputs, n, &(vkf_run_params){.hidden_states = 1, .attentions = 1}, &s->found));
}

static void side_close(side *s) {
  vkf_result_destroy(&s->found);
  vkf_result_destroy(&s->expected);
  vkf_model_close(&s->model);
  vkf_device_close(&s->device);
  vkf_context_destroy(&s->context);
}

/* Elements whose bits differ, over all outputs. */
static size_t count_differences(const char *folder, const side *a, const side *b) {
  size_t different = 0;
  assert_true(vkf_result_count(a->found) > 0);
  assert_int_equal(vkf_result_count(a->found), vkf_result_count(b->found));
  for (size_t i = 0; i < vkf_result_count(a->found); i++) {
    const vkf_array *x = vkf_result_at(a->found, i), *y = vkf_result_find(b->found, x->name);
    size_t n = 1, before = different;
    if (!y) fail_msg("%s: no %s on the other device", folder, x->name);
    for (size_t j = 0; j < x->rank; j++) n *= x->shape[j];
    for (size_t j = 0; j < n; j++) different += ((const uint32_t *)x->data)[j] != ((const uint32_t *)y->data)[j];
    if (different > before) print_message("  %s: %s: %zu of %zu\n", folder, x->name, different - before, n);
  }
  return different;
}

static void test_bits_of_the_scalar_path(void **state) {
  (void)state;
  static const char *const folders[] = {"marian",        "gpt-neox",          "llama-yarn",
                                        "t5-v1.1-gated", "bert-model-pooled", "vit"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    side own, ref;
    side_run(&own, folders[i], NULL, 1);
    side_run(&ref, folders[i], "ref", 1);
    if (count_differences(folders[i], &own, &ref) > 0) fail_msg("%s: the bits differ", folders[i]);
    side_close(&own);
    side_close(&ref);
  }
}

/* The mode changes what is computed: else the test above would compare a device with itself. */
static void test_the_mode_is_another(void **state) {
  (void)state;
  side plain, exact;
  side_run(&plain, "marian", NULL, 0);
  side_run(&exact, "marian", NULL, 1);
  assert_true(count_differences("marian", &plain, &exact) > 0);
  side_close(&plain);
  side_close(&exact);
}

DRIVER_MAIN(cmocka_unit_test(test_bits_of_the_scalar_path), cmocka_unit_test(test_the_mode_is_another))
