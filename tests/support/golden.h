/* The golden folders. Each has a model, expected.safetensors (inputs and what PyTorch computed from them) and, if the
 * model generates, generation.json. A directory walk finds all of them; no names are listed here. Environment variables
 * choose some: VKF_GOLDEN=NAME one folder, VKF_GOLDEN_SHARE=STRIDE,FIRST every STRIDE-th from FIRST on, and
 * VKF_GOLDEN_DIR=DIR the folders of another place. */
#ifndef VKF_TESTS_SUPPORT_GOLDEN_H
#define VKF_TESTS_SUPPORT_GOLDEN_H

#include <dirent.h>

#include "support/driver.h"
#include "support/range.h"
#include "support/tolerance.h"

enum { GOLDEN_MAX_INPUTS = 8, GOLDEN_PATH = 512 };

static inline const char *golden_dir(void) {
  const char *asked = getenv("VKF_GOLDEN_DIR");
  return asked ? asked : VKF_SOURCE_DIR "/tests/golden";
}

static inline const char *golden_path(char path[GOLDEN_PATH], const char *folder, const char *file) {
  assert_true(snprintf(path, GOLDEN_PATH, "%s/%s/%s", golden_dir(), folder, file) < GOLDEN_PATH);
  return path;
}

static inline int golden_is_folder(const struct dirent *entry) {
  char path[GOLDEN_PATH];
  const char *asked = getenv("VKF_GOLDEN");
  if (asked && strcmp(asked, entry->d_name)) return 0;
  FILE *file = entry->d_name[0] == '.' ? NULL : fopen(golden_path(path, entry->d_name, "expected.safetensors"), "rb");
  if (file) fclose(file);
  return file != NULL;
}

/* Returns whether folder or sentence i is in VKF_GOLDEN_SHARE. */
static inline bool golden_is_in_share(size_t i) {
  const char *share = getenv("VKF_GOLDEN_SHARE");
  size_t stride = 1, first = 0;
  if (share && (sscanf(share, "%zu,%zu", &stride, &first) != 2 || first >= stride))
    fail_msg("VKF_GOLDEN_SHARE: expected STRIDE,FIRST with FIRST below STRIDE, found \"%s\"", share);
  return i % stride == first;
}

/* Calls visit for each folder, in the order of names; there is at least one. */
static inline void golden_each(driver *d, void (*visit)(driver *d, const char *folder)) {
  struct dirent **entries = NULL;
  int n = scandir(golden_dir(), &entries, golden_is_folder, alphasort);
  assert_between(n, 1, 1000);
  for (int i = 0; i < n; i++) {
    if (golden_is_in_share((size_t)i)) {
      print_message("  %s\n", entries[i]->d_name);
      visit(d, entries[i]->d_name);
    }
    free(entries[i]);
  }
  free(entries);
}

/* Opens a model as PyTorch computed it: in float32, on every device. */
static inline void golden_open_model(driver *d, const char *folder, vkf_model **model) {
  const vkf_model_params how = {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_F32, .kv_cache = VKF_STORAGE_F32};
  driver_ok(d, vkf_model_open_with(d->device, folder, &how, model));
}

static inline void golden_open(driver *d, const char *folder, vkf_model **model, vkf_result **expected) {
  char path[GOLDEN_PATH];
  golden_open_model(d, golden_path(path, folder, "."), model);
  driver_ok(d, vkf_arrays_read(d->context, golden_path(path, folder, "expected.safetensors"), expected));
}

/* Returns whether an array is an output, by transformers' names; all else in expected.safetensors is an input. */
static inline bool golden_is_output(const char *name) {
  static const char *const pieces[] = {"hidden_state", "attentions", "logits", "pooler_output", "generated_"};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
    if (strstr(name, pieces[i])) return true;
  return false;
}

/* Lists the inputs; the result still owns their data. */
static inline size_t golden_inputs(const vkf_result *expected, vkf_array inputs[GOLDEN_MAX_INPUTS]) {
  size_t n = 0;
  for (size_t i = 0; i < vkf_result_count(expected); i++) {
    const vkf_array *a = vkf_result_at(expected, i);
    if (golden_is_output(a->name)) continue;
    assert_between(n, 0, GOLDEN_MAX_INPUTS - 1);
    inputs[n++] = *a;
  }
  return n;
}

static inline void golden_expect_ids(const char *what, const vkf_array *found, const int32_t *expected, size_t rows,
                                     size_t length) {
  assert_non_null(found);
  assert_int_equal(found->dtype, VKF_I32);
  if (found->rank != 2 || found->shape[0] != rows || found->shape[1] != length)
    fail_msg("%s: expected ids of shape [%zu,%zu], found [%zu,%zu]", what, rows, length, found->shape[0],
             found->shape[1]);
  const int32_t *ids = found->data;
  for (size_t i = 0; i < rows * length; i++)
    if (ids[i] != expected[i])
      fail_msg("%s: row %zu, id %zu: expected %d, found %d", what, i / length, i % length, (int)expected[i],
               (int)ids[i]);
}

static inline void golden_expect_score(const char *what, size_t row, double found, double expected) {
  double difference = found - expected;
  if (!(difference <= GOLDEN_SCORE_TOLERANCE && difference >= -GOLDEN_SCORE_TOLERANCE))
    fail_msg("%s: score of row %zu: expected %.6f, found %.6f", what, row, expected, found);
}

/* Asserts that both results have the same arrays of 4-byte numbers, in any order. */
static inline void same_arrays(const vkf_result *expected, const vkf_result *found) {
  assert_true(vkf_result_count(expected) > 0 && vkf_result_count(expected) == vkf_result_count(found));
  for (size_t a = 0; a < vkf_result_count(expected); a++) {
    const vkf_array *x = vkf_result_at(expected, a), *y = vkf_result_find(found, x->name);
    size_t n = 1;
    assert_non_null(y);
    assert_int_equal(x->rank, y->rank);
    for (size_t k = 0; k < x->rank; n *= x->shape[k++]) assert_int_equal(x->shape[k], y->shape[k]);
    assert_memory_equal(x->data, y->data, 4 * n);
  }
}

#endif
