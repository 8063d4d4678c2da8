/* Generates over the golden folders: every entry of generation.json and of generation-more.json (make_generation.py)
 * must have its exact ids, and its scores.
 *
 * An entry is {"options": keys of generation_config.json, "rows": n, "sequences": ids, "scores": numbers or null}, for
 * the first n rows of the inputs in expected.safetensors or for the input_ids, attention_mask and decoder_input_ids
 * that it brings.
 */
#include "support/golden.h"
#include "support/range.h"

#include <jansson.h>
#include "support/sessions.h"

/* The inputs of an entry that brings its own, in memory of the caller's. */
typedef struct own_inputs {
  int32_t *ids, *mask, *prefix;
} own_inputs;

/* Returns a list of rows of one length as int32; the caller frees it. */
static int32_t *rows_of(const json_t *lists, size_t *rows, size_t *length) {
  *rows = json_array_size(lists);
  assert_true(*rows > 0);
  *length = json_array_size(json_array_get(lists, 0));
  int32_t *ids = malloc(*rows * *length * sizeof *ids);
  assert_non_null(ids);
  for (size_t r = 0; r < *rows; r++) {
    const json_t *row = json_array_get(lists, r);
    assert_int_equal(json_array_size(row), *length);
    for (size_t i = 0; i < *length; i++) ids[r * *length + i] = (int32_t)json_integer_value(json_array_get(row, i));
  }
  return ids;
}

static void bring(const json_t *entry, const char *name, vkf_array *array, int32_t **memory) {
  size_t rows, length;
  *memory = rows_of(json_object_get(entry, name), &rows, &length);
  *array = (vkf_array){.name = name, .dtype = VKF_I32, .rank = 2, .shape = {rows, length}, .data = *memory};
}

/* Leaves out the decoder's ids in expected.safetensors, which are for the forward pass. */
static size_t entry_inputs(const json_t *entry, const vkf_result *expected, vkf_array inputs[GOLDEN_MAX_INPUTS],
                           own_inputs *own) {
  size_t n = 0, rows = (size_t)json_integer_value(json_object_get(entry, "rows"));
  vkf_array all[GOLDEN_MAX_INPUTS];
  if (json_object_get(entry, "input_ids")) {
    bring(entry, "input_ids", &inputs[n++], &own->ids);
    if (json_object_get(entry, "attention_mask")) bring(entry, "attention_mask", &inputs[n++], &own->mask);
    if (json_object_get(entry, "decoder_input_ids")) bring(entry, "decoder_input_ids", &inputs[n++], &own->prefix);
  } else {
    size_t n_all = golden_inputs(expected, all);
    for (size_t i = 0; i < n_all; i++)
      if (strncmp(all[i].name, "decoder_", 8)) inputs[n++] = all[i];
  }
  for (size_t i = 0; i < n; i++) {
    assert_between(rows, 1, inputs[i].shape[0]);
    inputs[i].shape[0] = rows;
  }
  return n;
}

static void compare_scores(const char *what, const vkf_array *found, const json_t *scores) {
  if (!json_is_array(scores)) return;
  assert_non_null(found);
  assert_int_equal(found->dtype, VKF_F32);
  assert_int_equal(found->shape[0], json_array_size(scores));
  for (size_t i = 0; i < found->shape[0]; i++)
    golden_expect_score(what, i, ((const float *)found->data)[i], json_number_value(json_array_get(scores, i)));
}

static void run_entry(driver *d, const char *folder, vkf_model *model, const vkf_result *expected,
                      const json_t *entry) {
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  own_inputs own = {NULL, NULL, NULL};
  vkf_result *found = NULL;
  char what[512];
  size_t rows, length;
  json_t *given = json_object_get(entry, "options"), *options = json_deep_copy(given);
  /* transformers' generate is greedy without a key; the folder's own num_beams must not count. */
  if (!json_object_get(options, "num_beams")) json_object_set_new(options, "num_beams", json_integer(1));
  char *config = json_dumps(options, JSON_COMPACT);
  int32_t *ids = rows_of(json_object_get(entry, "sequences"), &rows, &length);
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config,
                                      .scores = json_is_array(json_object_get(entry, "scores"))};
  snprintf(what, sizeof what, "%s %s", folder, config);
  size_t n = entry_inputs(entry, expected, inputs, &own);
  driver_ok(d, vkf_session_generate(session_of(model), inputs, n, &params, &found));
  golden_expect_ids(what, vkf_result_find(found, "sequences"), ids, rows, length);
  compare_scores(what, vkf_result_find(found, "sequences_scores"), json_object_get(entry, "scores"));
  vkf_result_destroy(&found);
  free(ids);
  free(own.ids);
  free(own.mask);
  free(own.prefix);
  free(config);
  json_decref(options);
}

/* Runs up to `max` entries of one file. Returns false if the folder has none. */
static bool run_entries(driver *d, const char *folder, const char *file, size_t max) {
  vkf_model *model = NULL;
  vkf_result *expected = NULL;
  char path[GOLDEN_PATH];
  json_t *entries = json_load_file(golden_path(path, folder, file), 0, NULL);
  if (!entries) {
    assert_null(fopen(path, "rb"));
    return false;
  }
  golden_open(d, folder, &model, &expected);
  assert_true(json_array_size(entries) > 0);
  for (size_t i = 0; i < json_array_size(entries) && i < max; i++) {
    const json_t *entry = json_array_get(entries, i);
    if (json_is_true(json_object_get(json_object_get(entry, "options"), "do_sample"))) continue; /* drawn by chance */
    run_entry(d, folder, model, expected, entry);
  }
  json_decref(entries);
  vkf_result_destroy(&expected);
  close_model(&model);
  return true;
}

static unsigned n_more; /* folders with a second file */

static void visit_all(driver *d, const char *folder) {
  run_entries(d, folder, "generation.json", SIZE_MAX); /* none: the folder's model does not generate */
  n_more += run_entries(d, folder, "generation-more.json", SIZE_MAX);
}

static void visit_some(driver *d, const char *folder) {
  run_entries(d, folder, "generation.json",
              4); /* greedy, with edits of logits, and with beams: the others have the same commands */
}

static void test_every_entry(void **state) {
  n_more = 0;
  golden_each(*state, visit_all);
  if (!getenv("VKF_GOLDEN") && !getenv("VKF_GOLDEN_DIR") && !getenv("VKF_GOLDEN_SHARE")) assert_true(n_more > 0);
}

static void test_under_the_layer(void **state) {
  golden_each(*state, visit_some);
}

DRIVER_MAIN(DRIVER_TEST(test_under_the_layer), DRIVER_TEST_PLAIN(test_every_entry))
