/* With a file of 16-bit numbers a pass gives the same bits whether the device stores them as in the file or as float32.
 *
 * The folders: combined tensors (llama), rows in groups (gpt-neox), columns that become rows (gpt2).
 */
#include <vkformer/lab.h>

#include "support/folder.h"
#include "support/golden.h"
#include "support/sessions.h"

static const struct stored {
  vkf_dtype dtype;
  vkf_storage format;
} stored[] = {{VKF_F16, VKF_STORAGE_F16}, {VKF_BF16, VKF_STORAGE_BF16}};

static void make(driver *d, const char *folder, vkf_dtype dtype, const char *target) {
  char path[GOLDEN_PATH];
  const vkf_make_params params = {VKF_MAKE_PARAMS_INIT, .seed = 5, .dtype = dtype};
  driver_ok(d, vkf_model_make_folder(d->context, golden_path(path, folder, "config.json"), target, &params));
}

static void run(driver *d, const char *target, vkf_storage weights, const vkf_result *expected, vkf_result **found) {
  vkf_model *model = NULL;
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .hidden_states = 1};
  const vkf_model_params how = {VKF_MODEL_PARAMS_INIT, .weights = weights, .kv_cache = VKF_STORAGE_F32};
  driver_ok(d, vkf_model_open_with(d->device, target, &how, &model));
  driver_ok(d, vkf_session_run(session_of(model), inputs, golden_inputs(expected, inputs), &params, found));
  close_model(&model);
}

static void same(const char *what, const vkf_result *one, const vkf_result *other) {
  assert_true(vkf_result_count(one) > 0);
  assert_int_equal(vkf_result_count(one), vkf_result_count(other));
  for (size_t i = 0; i < vkf_result_count(one); i++) {
    const vkf_array *a = vkf_result_at(one, i), *b = vkf_result_at(other, i);
    size_t bytes = 4;
    for (size_t j = 0; j < a->rank; j++) bytes *= a->shape[j];
    assert_int_equal(a->dtype, VKF_F32);
    const float *x = a->data, *y = b->data;
    for (size_t j = 0; j < bytes / 4; j++)
      if (memcmp(&x[j], &y[j], 4)) fail_msg("%s: %s[%zu] is %.9g and %.9g", what, a->name, j, x[j], y[j]);
  }
}

/* Makes the head of a llama in bf16 2^-101 everywhere. */
static void make_head_tiny(const char *target) {
  static char header[1 << 16];
  char path[GOLDEN_PATH];
  uint8_t size[8];
  size_t begin = 0, end = 0;
  snprintf(path, sizeof path, "%s/model.safetensors", target);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fread(size, 1, sizeof size, file), sizeof size);
  const size_t n = size[0] | (size_t)size[1] << 8;
  assert_int_equal(fread(header, 1, n, file), n);
  const char *at = strstr(strstr(header, "\"lm_head.weight\""), "data_offsets");
  assert_int_equal(sscanf(at, "data_offsets\":[%zu,%zu", &begin, &end), 2);
  assert_int_equal(fseek(file, (long)(8 + n + begin), SEEK_SET), 0);
  for (size_t i = begin; i < end; i += 2) assert_int_equal(fwrite("\x00\x0d", 1, 2, file), 2);
  assert_int_equal(fclose(file), 0);
}

static void visit(driver *d, const char *folder, const struct stored *s, bool has_tiny_head) {
  char made[] = "/tmp/vkf_stored_XXXXXX", path[GOLDEN_PATH];
  vkf_result *expected = NULL, *copied = NULL, *widened = NULL;
  assert_non_null(mkdtemp(made));
  make(d, folder, s->dtype, made);
  if (has_tiny_head) make_head_tiny(made);
  driver_ok(d, vkf_arrays_read(d->context, golden_path(path, folder, "expected.safetensors"), &expected));
  run(d, made, s->format, expected, &copied);
  run(d, made, VKF_STORAGE_F32, expected, &widened);
  same(folder, copied, widened);
  vkf_result_destroy(&widened);
  vkf_result_destroy(&copied);
  vkf_result_destroy(&expected);
  assert_int_equal(folder_remove(made, "config.json", "model.safetensors"), 0);
}

static void test_halves_that_are_copied_give_the_bits_of_float32(void **state) {
  static const char *const folders[] = {"llama", "gpt-neox", "gpt2"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    for (size_t j = 0; j < sizeof stored / sizeof *stored; j++) visit(*state, folders[i], &stored[j], false);
}

/* That mode changes tiny numbers after they were read, so it copies nothing. */
static void test_the_reproducible_mode_lets_in_what_a_file_stores(void **state) {
  visit(*state, "llama", &stored[0], false);
  visit(*state, "llama", &stored[1], false);
  visit(*state, "llama", &stored[1], true);
}

/* If a device's memory is not mapped, weights get there through the ring of uploads. */
static void test_weights_that_are_uploaded_are_those_that_are_mapped(void **state) {
  static const vkf_storage formats[] = {VKF_STORAGE_F32, VKF_STORAGE_F16, VKF_STORAGE_INT8};
  static const char *const folders[] = {"llama", "gpt2"};
  driver *mapped = *state, ring = {NULL};
  char path[GOLDEN_PATH];
  char limits[] = "/tmp/vkf_limits_XXXXXX";
  static const char text[] = "{\"host_visible\": false}";
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .limits = limits,
                                     .batch_invariant = getenv("VKF_TEST_BATCH_INVARIANT") != NULL};
  const int file = mkstemp(limits);
  assert_int_equal(write(file, text, sizeof text - 1), sizeof text - 1);
  close(file);
  assert_int_equal(vkf_context_create(&params, &ring.context), VKF_OK);
  driver_ok(&ring, vkf_device_open(ring.context, NULL, &ring.device));
  unlink(limits);
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    vkf_result *expected = NULL;
    driver_ok(mapped,
              vkf_arrays_read(mapped->context, golden_path(path, folders[i], "expected.safetensors"), &expected));
    golden_path(path, folders[i], "");
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
      vkf_result *one = NULL, *other = NULL;
      run(mapped, path, formats[f], expected, &one);
      run(&ring, path, formats[f], expected, &other);
      same(vkf_storage_name(formats[f]), one, other);
      vkf_result_destroy(&one);
      vkf_result_destroy(&other);
    }
    vkf_result_destroy(&expected);
  }
  driver_close(&ring);
}

DRIVER_MAIN(DRIVER_TEST(test_halves_that_are_copied_give_the_bits_of_float32),
            DRIVER_TEST_REPRODUCIBLE(test_the_reproducible_mode_lets_in_what_a_file_stores),
            DRIVER_TEST(test_weights_that_are_uploaded_are_those_that_are_mapped))
