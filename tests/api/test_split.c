/* Tensors that are larger than a storage binding or an allocation: weights are stored in parts, pools in several
 * allocations, and batches are split. The bits are the same as without, in every storage format.
 */
#include <jansson.h>
#include <unistd.h>

#include "support/golden.h"
#include "support/range.h"
#include "support/sessions.h"

enum { B = 2, S = 9, T = 7, ANY = 1 << 30 };

typedef struct row {
  const char *folder;
  unsigned range; /* bytes of one binding */
  vkf_storage weights;
  unsigned bytes; /* of an element of them */
} row;

static const row rows[] = {
    {"tests/golden/bart", 36864, VKF_STORAGE_F32, 4},
    {"tests/golden/transformer-lm-postln", 140000, VKF_STORAGE_F32, 4},
    {"models/en-es", 600000, VKF_STORAGE_F32, 4}, /* the vocabulary and the inner layers */
    {"models/en-es", 600000, VKF_STORAGE_INT8, 1},
};

static unsigned n_split; /* batches that were split, from the log */

static void on_log(void *user, vkf_log_level level, const char *line) {
  n_split += strstr(line, "is split in two") != NULL;
  if (level <= VKF_LOG_WARNING) driver_print(user, level, line);
}

/* Opens the device under test with limits on the bytes of a binding and of an allocation, and on the workgroups of a
 * dispatch. 0: no limit beyond the device's own or that of VKF_TEST_LIMITS. */
static void open_limited(driver *d, unsigned range, unsigned allocation, unsigned groups) {
  char path[] = "/tmp/vkf-split-XXXXXX";
  const char *given = getenv("VKF_TEST_LIMITS");
  json_t *limits = given ? json_load_file(given, 0, NULL) : json_object();
  int file = mkstemp(path);
  memset(d, 0, sizeof *d);
  json_object_set_new(limits, "max_storage_range_bytes", json_integer(range ? range : ANY));
  json_object_set_new(limits, "max_allocation_bytes", json_integer(allocation ? allocation : ANY));
  json_object_set_new(limits, "max_workgroup_count", json_integer(groups ? groups : ANY));
  assert_true(file >= 0 && json_dumpfd(limits, file, 0) == 0);
  close(file);
  json_decref(limits);
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT,
                                     .log = on_log,
                                     .log_user = d,
                                     .log_level = VKF_LOG_INFO,
                                     .batch_invariant = getenv("VKF_TEST_BATCH_INVARIANT") != NULL,
                                     .limits = given || range || allocation || groups ? path : NULL};
  driver_ok(d, vkf_context_create(&params, &d->context));
  driver_ok(d, vkf_device_open(d->context, NULL, &d->device));
  unlink(path);
}

static void run(driver *d, const row *r, vkf_result **out) {
  char folder[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  int32_t ids[B * S], target_ids[B * T];
  for (int i = 0; i < B * S; i++) ids[i] = 5 + 37 * i % 140;
  for (int i = 0; i < B * T; i++) target_ids[i] = 5 + 53 * i % 140;
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {B, S}, ids},
                              {"decoder_input_ids", VKF_I32, 2, {B, T}, target_ids}};
  snprintf(folder, sizeof folder, "%s/%s", VKF_SOURCE_DIR, r->folder);
  driver_ok(d, vkf_model_open_with(d->device, folder, &(vkf_model_params){VKF_MODEL_PARAMS_INIT, .weights = r->weights},
                                   &model));
  vkf_model_get_info(model, &info);
  assert_true((uint64_t)info.vocab * info.d_model * r->bytes > r->range);
  driver_ok(
      d, vkf_session_run(session_of(model), inputs, info.architecture != VKF_ARCHITECTURE_DECODER ? 2 : 1, NULL, out));
  close_model(&model);
}

static void test_same_bits(void **state) {
  (void)state;
  driver whole, cut;
  open_limited(&whole, 0, 0, 0);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_result *expected = NULL, *found = NULL;
    open_limited(&cut, rows[i].range, 0, 0);
    print_message("  %s, %s\n", rows[i].folder, vkf_storage_name(rows[i].weights));
    run(&whole, &rows[i], &expected);
    run(&cut, &rows[i], &found);
    same_arrays(expected, found);
    vkf_result_destroy(&expected);
    vkf_result_destroy(&found);
    driver_close(&cut);
  }
  driver_close(&whole);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

typedef struct told {
  unsigned n[8]; /* tokens of each row */
} told;

static int on_token(void *user, size_t row, int32_t token) {
  assert_between(row, 0, 7);
  ((told *)user)->n[row] += token >= 0;
  return 0;
}

enum { ROWS = 7, LENGTH = 12 };

/* Runs seven sentences in four ways: a forward pass, greedy search with log-probabilities, sampling by line, beams. */
static void use(driver *d, const char *name, vkf_result *out[4], told *tokens) {
  static const char *const configs[] = {
      "{\"max_new_tokens\": 9, \"num_beams\": 1}",
      "{\"max_new_tokens\": 9, \"num_beams\": 1, \"do_sample\": true, \"num_return_sequences\": 1, \"seed\": 5}",
      "{\"max_new_tokens\": 9, \"num_beams\": 3}"};
  static int32_t ids[ROWS * LENGTH], mask[ROWS * LENGTH];
  static const uint64_t lines[ROWS] = {3, 1, 4, 15, 9, 2, 6};
  char folder[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  for (int i = 0; i < ROWS * LENGTH; i++) ids[i] = 5 + 37 * i % 110, mask[i] = i % LENGTH >= i / LENGTH;
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {ROWS, LENGTH}, ids},
                              {"attention_mask", VKF_I32, 2, {ROWS, LENGTH}, mask},
                              {"decoder_input_ids", VKF_I32, 2, {ROWS, LENGTH}, ids}};
  driver_ok(d, vkf_model_open(d->device, golden_path(folder, name, "."), &model));
  vkf_model_get_info(model, &info);
  const vkf_run_params all = {VKF_RUN_PARAMS_INIT, .hidden_states = 1, .attentions = 1};
  driver_ok(d, vkf_session_run(session_of(model), inputs, info.architecture != VKF_ARCHITECTURE_DECODER ? 3 : 2, &all,
                               &out[0]));
  for (int i = 0; i < 3; i++) {
    const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,       .config_json = configs[i], .lines = lines,
                                        .top_logprobs = i == 0 ? 2 : 0, .on_token = on_token,      .user = tokens};
    driver_ok(d, vkf_session_generate(session_of(model), inputs, 2, &params, &out[1 + i]));
  }
  close_model(&model);
}

static void test_batches_are_split(void **state) {
  static const struct {
    const char *folder;
    unsigned most;   /* limit in bytes; one sentence fits into it */
    unsigned groups; /* or in workgroups, more than its rows */
    unsigned split;  /* batches that are split, at least */
  } folders[] = {{"bart", 66048, 0, 3}, {"gpt2", 98560, 0, 1}, {"bart", 0, 64, 1}};
  (void)state;
  driver whole, cut;
  open_limited(&whole, 0, 0, 0);
  for (size_t i = 0; i < VKF_COUNT(folders); i++) {
    vkf_result *expected[4] = {NULL}, *found[4] = {NULL};
    told tokens[2] = {{{0}}, {{0}}};
    print_message("  %s\n", folders[i].folder);
    open_limited(&cut, folders[i].most, folders[i].most, folders[i].groups);
    use(&whole, folders[i].folder, expected, &tokens[0]);
    n_split = 0;
    use(&cut, folders[i].folder, found, &tokens[1]);
    assert_true(n_split >= folders[i].split);
    for (int k = 0; k < 4; k++) same_arrays(expected[k], found[k]);
    assert_memory_equal(&tokens[0], &tokens[1], sizeof tokens[0]);
    for (int k = 0; k < 4; k++) vkf_result_destroy(&expected[k]);
    for (int k = 0; k < 4; k++) vkf_result_destroy(&found[k]);
    driver_close(&cut);
  }
  driver_close(&whole);
}

/* What cannot be split is refused with its name. */
static void test_refused(void **state) {
  static const struct {
    const char *folder;
    unsigned range, groups;
    vkf_status status;
    const char *words;
  } refused[] = {
      {"bert", 12288, 0, VKF_ERROR_UNSUPPORTED, "storage binding of"}, /* a table of positions */
      {"t5", 36864, 0, VKF_ERROR_DEVICE_MEMORY, "encoder.0.self.qkv takes"},
      {"bart", 512, 0, VKF_ERROR_UNSUPPORTED, "one storage binding"},
      {"bart", 0, 2, VKF_ERROR_UNSUPPORTED, "workgroups in dimension 0, the device allows 2"},
  };
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(refused); i++) {
    driver d;
    char path[GOLDEN_PATH];
    vkf_model *model = NULL;
    vkf_result *inputs = NULL, *result = NULL;
    vkf_array given[GOLDEN_MAX_INPUTS];
    open_limited(&d, refused[i].range, 0, refused[i].groups);
    vkf_status status = vkf_model_open(d.device, golden_path(path, refused[i].folder, "."), &model);
    if (!status) {
      driver_ok(&d, vkf_arrays_read(d.context, golden_path(path, refused[i].folder, "expected.safetensors"), &inputs));
      size_t n = golden_inputs(inputs, given);
      status = vkf_session_run(session_of(model), given, n, NULL, &result);
    }
    if (status != refused[i].status || !strstr(last_message(d.context), refused[i].words))
      fail_msg("%s: expected '%s', found %s and '%s'", refused[i].folder, refused[i].words, vkf_status_name(status),
               last_message(d.context));
    assert_null(result);
    vkf_result_destroy(&inputs);
    close_model(&model);
    driver_close(&d);
  }
}

DRIVER_MAIN(cmocka_unit_test(test_same_bits), cmocka_unit_test(test_batches_are_split), cmocka_unit_test(test_refused))
