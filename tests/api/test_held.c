/* What sessions hold on the device: plans of all sizes use the same memory in turn, every byte is counted under a kind,
 * and the kinds add up to what the device counts.
 */
#include "support/driver.h"

#define SHIPPED VKF_SOURCE_DIR "/models/en-es"
enum { MOST_LENGTH = 96, MOST_ROWS = 4 };

static bool has_device(const driver *d) {
  return d->device->gpu != NULL;
}

/* Runs `rows` sources of `length` ids and returns their logits; destroy the result. */
static vkf_result *run(vkf_session *session, size_t rows, size_t length) {
  int32_t ids[MOST_ROWS * MOST_LENGTH], target[MOST_ROWS * MOST_LENGTH];
  vkf_result *result = NULL;
  for (size_t i = 0; i < rows * length; i++) {
    ids[i] = (int32_t)(3 + (i * 37) % 500);
    target[i] = (int32_t)(5 + (i * 11) % 400);
  }
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {rows, length}, ids},
                              {"decoder_input_ids", VKF_I32, 2, {rows, length}, target}};
  const vkf_status st = vkf_session_run(session, inputs, 2, NULL, &result);
  if (st) fail_msg("%s", vkf_session_message(session));
  return result;
}

static vkf_session_info info_of(vkf_session *session) {
  vkf_session_info info = {VKF_SESSION_INFO_INIT};
  assert_int_equal(vkf_session_get_info(session, &info), VKF_OK);
  return info;
}

static void expect_same(const vkf_result *a, const vkf_result *b) {
  size_t n = 0, n_again = 0;
  const float *numbers = vkf_result_f32(a, "logits", &n), *again = vkf_result_f32(b, "logits", &n_again);
  assert_true(n > 0 && n == n_again);
  assert_memory_equal(numbers, again, n * sizeof *numbers);
}

static void expect_counted(const driver *d, vkf_model *model, vkf_session *session) {
  const vkf_session_info info = info_of(session);
  vkf_model_info weights = {VKF_MODEL_INFO_INIT};
  uint64_t now = 0, peak = 0;
  driver_ok(d, vkf_model_get_info(model, &weights));
  vkf_device_memory(d->device, &now, &peak);
  const uint64_t kinds = info.cache_bytes + info.step_bytes + info.plan_bytes;
  assert_int_equal(info.run_bytes + info.slots_bytes, kinds);
  if (has_device(d)) /* the device has staging, too, if the weights were copied through it */
    assert_int_equal(weights.device_bytes + kinds + info.staging_bytes + vkf_gpu_device_staging(d->device->gpu), now);
}

/* A plan for few rows still gives its results after larger memory has replaced the one that it was recorded with, and
 * after other plans have written to it. */
static void test_sizes_take_turns(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  driver_ok(d, vkf_session_create(model, NULL, &session));
  vkf_result *small = run(session, 1, 8), *large = run(session, MOST_ROWS, MOST_LENGTH);
  const vkf_session_info most = info_of(session);
  expect_counted(d, model, session);
  static const size_t sizes[][2] = {{1, 8}, {2, 40}, {1, 64}, {4, 30}, {1, 8}, {4, 96}, {2, 40}};
  for (size_t i = 0; i < VKF_COUNT(sizes); i++) {
    vkf_result *again = run(session, sizes[i][0], sizes[i][1]);
    if (sizes[i][1] == 8) expect_same(small, again);
    if (sizes[i][1] == MOST_LENGTH) expect_same(large, again);
    vkf_result_destroy(&again);
  }
  const vkf_session_info now = info_of(session);
  if (has_device(d)) {
    assert_int_equal(now.cache_bytes, most.cache_bytes);
    assert_int_equal(now.step_bytes, most.step_bytes);
    assert_true(now.plan_bytes < most.step_bytes / 8);
  }
  expect_counted(d, model, session);
  vkf_result_destroy(&small);
  vkf_result_destroy(&large);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
}

/* Slots keep their contents while other plans use the shared memory. */
static void test_slots_beside_runs(void **state) {
  driver *d = *state;
  static const int32_t source[] = {5, 6, 7, 1}, ids[] = {0, 9, 11, 12};
  vkf_model *model = NULL;
  vkf_session *sessions[2] = {NULL};
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 2, .slot_tokens = 16, .source_tokens = 16};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  for (size_t s = 0; s < 2; s++) {
    driver_ok(d, vkf_session_create(model, &params, &sessions[s]));
    assert_int_equal(vkf_session_encode(sessions[s], 1, source, 4), VKF_OK);
    for (size_t i = 0; i < VKF_COUNT(ids); i++) {
      vkf_result *between = s ? run(sessions[s], MOST_ROWS, MOST_LENGTH / 8 * (i + 1)) : NULL;
      assert_int_equal(vkf_session_feed(sessions[s], 1, ids + i, 1, 1), VKF_OK);
      assert_int_equal(vkf_session_step(sessions[s]), VKF_OK);
      vkf_result_destroy(&between);
    }
  }
  size_t n = 0;
  const float *alone = vkf_session_logits(sessions[0], 1, &n), *beside = vkf_session_logits(sessions[1], 1, &n);
  assert_int_equal(n, 1);
  assert_memory_equal(alone, beside, 8000 * sizeof *alone);
  vkf_session_destroy(&sessions[0]);
  expect_counted(d, model, sessions[1]);
  vkf_session_destroy(&sessions[1]);
  vkf_model_close(&model);
}

/* Returns the number after `kind` in the text that `vkformer info --plan` prints. */
static uint64_t printed(const char *text, const char *kind) {
  const char *at = strstr(text, kind);
  if (!at) fail_msg("expected a line \"%s\" in\n%s", kind, text);
  return strtoull(at + strlen(kind), NULL, 10);
}

static void test_printed_by_kind(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *plan = NULL;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  driver_ok(d, vkf_model_describe_plan(model, 2, 24, &plan));
  const char *text = vkf_result_text(plan, 0);
  static const char *const kinds[] = {"  weights", "  keys and values", "  inputs, activations, results",
                                      "  constants and sizes of plans", "  staging"};
  uint64_t all = 0;
  for (size_t i = 0; i < VKF_COUNT(kinds); i++) {
    const uint64_t bytes = printed(text, kinds[i]);
    assert_true(bytes > 0 || i > 2 || !has_device(d));
    all += bytes;
  }
  assert_int_equal(all, printed(text, "  all of these"));
  if (has_device(d)) assert_int_equal(all, printed(text, "  as the device counts"));
  assert_true(printed(text, "  host memory of this library") > 0);
  vkf_result_destroy(&plan);
  vkf_model_close(&model);
}

/* Returns the kB of this process's memory that are pages of the weights' file; -1: unknown. */
static long resident_of_file(void) {
  char line[4096];
  long kilobytes = -1, found;
  bool is_file = false;
  FILE *maps = fopen("/proc/self/smaps", "r");
  if (!maps) return -1;
  while (fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) is_file = strstr(line, "en-es/model.safetensors") != NULL;
    if (is_file && sscanf(line, "Rss: %ld", &found) == 1) kilobytes = (kilobytes < 0 ? 0 : kilobytes) + found;
  }
  fclose(maps);
  return kilobytes;
}

static int watch_file(void *user, uint64_t done, uint64_t all) {
  (void)done;
  (void)all;
  long *most = user;
  *most = VKF_MAX(*most, resident_of_file());
  return 0;
}

/* Once weights are on the device, their part of the file (15 MB) no longer takes memory. The largest tensor has 4 MB.
 * The system may map 2 MB around a byte that is read again, so half of the file is allowed. While weights are loaded,
 * only ref can show it, because drivers take 64 MB at a time. */
static void test_the_file_leaves_memory(void **state) {
  driver *d = *state;
  long most = 0;
  const vkf_model_params params = {VKF_MODEL_PARAMS_INIT, .on_progress = watch_file, .user = &most};
  vkf_model *model = NULL;
  driver_ok(d, vkf_model_open_with(d->device, SHIPPED, &params, &model));
  const long kilobytes = resident_of_file();
  if (kilobytes > 7500) fail_msg("expected at most 7500 kB of model.safetensors, found %ld", kilobytes);
  if (most > 7500 && !has_device(d)) fail_msg("expected at most 7500 kB while it is loaded, found %ld", most);
  vkf_model_close(&model);
}

DRIVER_MAIN(DRIVER_TEST(test_sizes_take_turns), DRIVER_TEST(test_slots_beside_runs), DRIVER_TEST(test_printed_by_kind),
            DRIVER_TEST(test_the_file_leaves_memory))
