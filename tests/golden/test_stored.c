/* A file of 16-bit numbers: a pass gives the same bits whether the device stores them as they are in the file or as
 * float32.
 *
 * The folders: combined tensors (llama), rows in groups (gpt-neox), columns that become rows (gpt2).
 */
#include <unistd.h>
#include <vkformer/lab.h>

#include "support/golden.h"

static const struct stored {
  vkf_dtype dtype;
  const char *format;
} stored[] = {{VKF_F16, "f16"}, {VKF_BF16, "bf16"}};

static void make(driver *d, const char *folder, vkf_dtype dtype, const char *target) {
  char path[GOLDEN_PATH];
  const vkf_make_params params = {.seed = 5, .dtype = dtype};
  driver_ok(d, vkf_model_make_folder(d->context, golden_path(path, folder, "config.json"), target, &params));
}

static void removed(const char *target) {
  static const char *const files[] = {"config.json", "model.safetensors"};
  char path[GOLDEN_PATH];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", target, files[i]);
    unlink(path);
  }
  assert_int_equal(rmdir(target), 0);
}

static void run(driver *d, const char *target, const char *weights, const vkf_result *expected, vkf_result **found) {
  vkf_model *model = NULL;
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  const vkf_run_params params = {.hidden_states = 1};
  driver_ok(d, vkf_model_open_with(d->device, target, &(vkf_model_params){.weights = weights}, &model));
  driver_ok(d, vkf_model_run(model, inputs, golden_inputs(expected, inputs), &params, found));
  vkf_model_close(&model);
}

static void same(const char *what, const vkf_result *one, const vkf_result *other) {
  assert_true(vkf_result_count(one) > 0);
  assert_int_equal(vkf_result_count(one), vkf_result_count(other));
  for (size_t i = 0; i < vkf_result_count(one); i++) {
    const vkf_array *a = vkf_result_at(one, i), *b = vkf_result_at(other, i);
    size_t bytes = 4;
    for (size_t j = 0; j < a->rank; j++) bytes *= a->shape[j];
    assert_int_equal(a->dtype, VKF_F32);
    if (memcmp(a->data, b->data, bytes)) fail_msg("%s: %s differs", what, a->name);
  }
}

static void visit(driver *d, const char *folder, const struct stored *s) {
  char made[] = "/tmp/vkf_stored_XXXXXX", path[GOLDEN_PATH];
  vkf_result *expected = NULL, *copied = NULL, *widened = NULL;
  assert_non_null(mkdtemp(made));
  make(d, folder, s->dtype, made);
  driver_ok(d, vkf_arrays_read(d->context, golden_path(path, folder, "expected.safetensors"), &expected));
  run(d, made, s->format, expected, &copied);
  run(d, made, "f32", expected, &widened);
  same(folder, copied, widened);
  vkf_result_destroy(&widened);
  vkf_result_destroy(&copied);
  vkf_result_destroy(&expected);
  removed(made);
}

static void test_halves_that_are_copied_give_the_bits_of_float32(void **state) {
  static const char *const folders[] = {"llama", "gpt-neox", "gpt2"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    for (size_t j = 0; j < sizeof stored / sizeof *stored; j++) visit(*state, folders[i], &stored[j]);
}

/* That mode changes tiny numbers after they were read, so it copies nothing. */
static void test_the_reproducible_mode_lets_in_what_a_file_stores(void **state) {
  (void)state;
  driver d = {NULL};
  assert_int_equal(vkf_context_create(&(vkf_context_params){.deterministic = 1}, &d.context), VKF_OK);
  driver_ok(&d, vkf_device_open(d.context, NULL, &d.device));
  visit(&d, "llama", &stored[0]);
  visit(&d, "llama", &stored[1]);
  driver_close(&d);
}

DRIVER_MAIN(DRIVER_TEST(test_halves_that_are_copied_give_the_bits_of_float32),
            cmocka_unit_test(test_the_reproducible_mode_lets_in_what_a_file_stores))
