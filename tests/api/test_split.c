/* Weights that are larger than one storage binding lie in parts: the same bits as in one, whatever they are stored in.
 */
#include <unistd.h>

#include "support/golden.h"

enum { B = 2, S = 9, T = 7 };

typedef struct row {
  const char *folder;
  unsigned range; /* bytes of one binding */
  const char *weights;
  unsigned bytes; /* of an element of them */
} row;

static const row rows[] = {
    {"tests/golden/bart", 36864, "f32", 4},
    {"tests/golden/transformer-lm-postln", 140000, "f32", 4},
    {"models/en-es", 600000, "f32", 4}, /* the vocabulary and the inner layers */
    {"models/en-es", 600000, "int8", 1},
};

/* The device of the test, taken for one with such bindings. */
static void open_limited(driver *d, unsigned range) {
  char path[] = "/tmp/vkf-split-XXXXXX";
  int file = mkstemp(path);
  memset(d, 0, sizeof *d);
  assert_true(file >= 0 && dprintf(file, "{\"max_storage_range_bytes\": %u}", range) > 0);
  close(file);
  const vkf_context_params params = {
      .log = driver_print, .log_user = d, .log_level = VKF_LOG_WARNING, .limits = range ? path : NULL};
  driver_ok(d, vkf_context_create(&params, &d->context));
  driver_ok(d, vkf_device_open(d->context, NULL, &d->device));
  unlink(path);
}

static void run(driver *d, const row *r, vkf_result **out) {
  char folder[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_model_info info;
  int32_t ids[B * S], target_ids[B * T];
  for (int i = 0; i < B * S; i++) ids[i] = 5 + 37 * i % 140;
  for (int i = 0; i < B * T; i++) target_ids[i] = 5 + 53 * i % 140;
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {B, S}, ids},
                              {"decoder_input_ids", VKF_I32, 2, {B, T}, target_ids}};
  snprintf(folder, sizeof folder, "%s/%s", VKF_SOURCE_DIR, r->folder);
  driver_ok(d, vkf_model_open_with(d->device, folder, &(vkf_model_params){.weights = r->weights}, &model));
  vkf_model_get_info(model, &info);
  assert_true((uint64_t)info.vocab * info.d_model * r->bytes > r->range);
  driver_ok(d, vkf_model_run(model, inputs, strcmp(info.architecture, "decoder") ? 2 : 1, NULL, out));
  vkf_model_close(&model);
}

static void test_same_bits(void **state) {
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    driver whole, cut;
    vkf_result *expected = NULL, *found = NULL;
    open_limited(&whole, 0);
    open_limited(&cut, rows[i].range);
    print_message("  %s, %s\n", rows[i].folder, rows[i].weights);
    run(&whole, &rows[i], &expected);
    run(&cut, &rows[i], &found);
    assert_true(vkf_result_count(expected) > 0 && vkf_result_count(expected) == vkf_result_count(found));
    for (size_t a = 0; a < vkf_result_count(expected); a++) {
      const vkf_array *x = vkf_result_at(expected, a), *y = vkf_result_find(found, x->name);
      size_t n = 1;
      for (size_t k = 0; k < x->rank; k++) n *= x->shape[k];
      assert_non_null(y);
      assert_memory_equal(x->data, y->data, 4 * n);
    }
    vkf_result_destroy(&expected);
    vkf_result_destroy(&found);
    driver_close(&whole);
    driver_close(&cut);
  }
}

/* What is not split is refused by name. */
static void test_refused(void **state) {
  static const struct {
    const char *folder;
    unsigned range;
    vkf_status status;
    const char *words;
  } refused[] = {
      {"bert", 12288, VKF_ERROR_UNSUPPORTED, "storage binding of"}, /* a table of positions */
      {"t5", 36864, VKF_ERROR_DEVICE_MEMORY, "embed.relative takes"},
      {"bart", 512, VKF_ERROR_UNSUPPORTED, "one storage binding"},
  };
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(refused); i++) {
    driver d;
    char path[GOLDEN_PATH];
    vkf_model *model = NULL;
    vkf_result *inputs = NULL, *result = NULL;
    vkf_array given[GOLDEN_MAX_INPUTS];
    open_limited(&d, refused[i].range);
    vkf_status status = vkf_model_open(d.device, golden_path(path, refused[i].folder, "."), &model);
    if (!status) {
      driver_ok(&d, vkf_arrays_read(d.context, golden_path(path, refused[i].folder, "expected.safetensors"), &inputs));
      size_t n = golden_inputs(inputs, given);
      status = vkf_model_run(model, given, n, NULL, &result);
    }
    if (status != refused[i].status || !strstr(vkf_context_message(d.context), refused[i].words))
      fail_msg("%s: expected '%s', found %s and '%s'", refused[i].folder, refused[i].words, vkf_status_name(status),
               vkf_context_message(d.context));
    assert_null(result);
    vkf_result_destroy(&inputs);
    vkf_model_close(&model);
    driver_close(&d);
  }
}

DRIVER_MAIN(cmocka_unit_test(test_same_bits), cmocka_unit_test(test_refused))
