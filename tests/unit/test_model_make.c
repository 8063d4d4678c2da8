/* Folders of random weights. For each golden configuration, the tensors must have the names and shapes of its
 * model.safetensors, which transformers wrote. Also: the numbers, and what is refused. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <vkformer/lab.h>

#include "file/safetensors.h"
#include "model/internal.h"
#include "support/ok.h"
#include "support/range.h"

#define GOLDEN VKF_SOURCE_DIR "/tests/golden/"
static char folder[64];
static const char llama[] = GOLDEN "llama/config.json";

static const char *join(const char *dir, const char *file, char path[512]) {
  assert_true(snprintf(path, 512, "%s/%s", dir, file) < 512);
  return path;
}

static void empty(const char *dir) {
  char path[512];
  unlink(join(dir, "config.json", path));
  unlink(join(dir, "model.safetensors", path));
}

/* Returns the number of files and folders in `dir`. */
static int count(const char *dir) {
  int n = -2;
  DIR *d = opendir(dir);
  assert_non_null(d);
  while (readdir(d) != NULL) n++;
  closedir(d);
  return n;
}

static int prepare(void **state) {
  (void)state;
  strcpy(folder, "/tmp/vkformer-make-XXXXXX");
  return mkdtemp(folder) != NULL ? 0 : -1;
}

static int clean(void **state) {
  (void)state;
  empty(folder);
  return rmdir(folder);
}

/* ---- names and shapes -------------------------------------------------------------------------------------------- */

static void check_family(const char *golden) {
  char path[512], config[512];
  vkf_env env;
  vkf_net *net = NULL;
  vkf_file_tensors *expected = NULL, *found = NULL;
  vkf_env_init(&env, NULL);
  ok(&env, vkf_file_tensors_open(&env, join(GOLDEN, golden, path), &expected));
  join(path, "config.json", config);
  ok(&env, vkf_model_folder_make(&env, config, folder, &(vkf_make_params){VKF_MAKE_PARAMS_INIT, .seed = 1}));
  ok(&env, vkf_file_tensors_open(&env, folder, &found));
  for (size_t i = 0; i < vkf_file_tensors_count(expected); i++) {
    const vkf_file_tensor *e = vkf_file_tensors_at(expected, i), *f = vkf_file_tensors_find(found, e->name);
    if (f == NULL) fail_msg("%s: expected a tensor %s", golden, e->name);
    if (f->rank != e->rank || memcmp(f->shape, e->shape, e->rank * sizeof *e->shape) != 0)
      fail_msg("%s: %s has another shape", golden, e->name);
    const size_t n = strlen(e->name), n_bytes = f->n_elements * vkf_dtype_bytes(f->dtype);
    if (n < 4 || strcmp(e->name + n - 4, "bias") != 0) continue;
    for (size_t k = 0; k < n_bytes; k++)
      if (((const char *)f->data)[k] != 0) fail_msg("%s: %s is not 0", golden, e->name);
  }
  for (size_t i = 0; i < vkf_file_tensors_count(found); i++)
    if (vkf_file_tensors_find(expected, vkf_file_tensors_at(found, i)->name) == NULL)
      fail_msg("%s: did not expect %s", golden, vkf_file_tensors_at(found, i)->name);
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net));
  assert_int_equal(vkf_model_net_info(net)->n_unused, 0);
  vkf_model_net_close(&net);
  vkf_file_tensors_close(&found);
  vkf_file_tensors_close(&expected);
  empty(folder);
  assert_int_equal(env.live_bytes, 0);
}

static const char *within; /* the folder of GOLDEN in which is_model() looks: "" or "families/" */

static int is_model(const struct dirent *entry) {
  char path[512];
  assert_true(snprintf(path, sizeof path, GOLDEN "%s%s/config.json", within, entry->d_name) < 512);
  return entry->d_name[0] != '.' && access(path, R_OK) == 0;
}

static void check_families(const char *where, int least) {
  struct dirent **entries = NULL;
  char name[512];
  within = where;
  int n = scandir(join(GOLDEN, where, name), &entries, is_model, alphasort);
  assert_between(n, least, 1000);
  for (int i = 0; i < n; i++) {
    assert_true(snprintf(name, sizeof name, "%s%s", where, entries[i]->d_name) < 512);
    check_family(name);
    free(entries[i]);
  }
  free(entries);
}

static void test_families(void **state) {
  (void)state;
  check_families("", 20);
  check_families("families/", 8);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void make(vkf_env *env, uint64_t seed, vkf_dtype dtype, vkf_file_tensors **out) {
  empty(folder);
  ok(env,
     vkf_model_folder_make(env, llama, folder, &(vkf_make_params){VKF_MAKE_PARAMS_INIT, .seed = seed, .dtype = dtype}));
  ok(env, vkf_file_tensors_open(env, folder, out));
}

/* The mean is 0 and the deviation 0.02 (initializer_range), within 5 standard errors; the scales of norms are 1. BF16
 * has the same numbers, rounded. The seed decides the numbers. */
static void test_numbers(void **state) {
  (void)state;
  static float table[160 * 64], again[160 * 64], scale[64];
  vkf_env env;
  vkf_file_tensors *tensors = NULL;
  const vkf_file_tensor *t = NULL;
  vkf_env_init(&env, NULL);
  make(&env, 7, VKF_F32, &tensors);
  ok(&env, vkf_file_tensors_get_shaped(tensors, "model.embed_tokens.weight", 2, (size_t[]){160, 64}, &t));
  assert_true(vkf_file_numbers_to_f32(t->dtype, t->data, t->n_elements, table));
  double sum = 0, squares = 0, n = 160 * 64;
  for (size_t i = 0; i < 160 * 64; i++) {
    sum += table[i];
    squares += table[i] * table[i];
  }
  assert_true(fabs(sum / n) < 5 * 0.02 / sqrt(n));
  assert_true(fabs(sqrt(squares / n) / 0.02 - 1) < 5 / sqrt(2 * n));
  ok(&env, vkf_file_tensors_get_shaped(tensors, "model.norm.weight", 1, (size_t[]){64}, &t));
  assert_true(vkf_file_numbers_to_f32(t->dtype, t->data, t->n_elements, scale));
  for (size_t i = 0; i < 64; i++) assert_true(scale[i] == 1);
  vkf_file_tensors_close(&tensors);

  make(&env, 7, VKF_BF16, &tensors);
  ok(&env, vkf_file_tensors_get(tensors, "model.embed_tokens.weight", &t));
  assert_int_equal(t->dtype, VKF_BF16);
  assert_true(vkf_file_numbers_to_f32(t->dtype, t->data, t->n_elements, again));
  for (size_t i = 0; i < 160 * 64; i++) assert_true(again[i] == vkf_bf16_to_f32(vkf_bf16_from_f32(table[i])));
  vkf_file_tensors_close(&tensors);

  make(&env, 8, VKF_F32, &tensors);
  ok(&env, vkf_file_tensors_get(tensors, "model.embed_tokens.weight", &t));
  assert_memory_not_equal(t->data, table, sizeof table);
  vkf_file_tensors_close(&tensors);
  make(&env, 7, VKF_F32, &tensors);
  ok(&env, vkf_file_tensors_get(tensors, "model.embed_tokens.weight", &t));
  assert_memory_equal(t->data, table, sizeof table);
  vkf_file_tensors_close(&tensors);
  empty(folder);
}

/* Gemma's norms add 1 to the stored scales: the scales that are read must be 1. */
static void test_norms_that_add(void **state) {
  (void)state;
  vkf_env env;
  vkf_net *net = NULL;
  uint32_t n_norms = 0;
  vkf_env_init(&env, NULL);
  ok(&env, vkf_model_folder_make(&env, GOLDEN "families/gemma/config.json", folder,
                                 &(vkf_make_params){VKF_MAKE_PARAMS_INIT, .seed = 1}));
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net));
  for (uint32_t i = 0; i < net->n_weights; i++) {
    static float scale[4096];
    if (strstr(net->infos[i].name, "norm") == NULL) continue;
    assert_between(net->infos[i].shape[0], 1, VKF_COUNT(scale));
    vkf_model_load_weight(net, i, 0, net->infos[i].shape[0], scale);
    for (uint32_t k = 0; k < net->infos[i].shape[0]; k++) assert_true(scale[k] == 1);
    n_norms++;
  }
  assert_between(n_norms, 3, 1000);
  vkf_model_net_close(&net);
  empty(folder);
  assert_int_equal(env.live_bytes, 0);
}

/* ---- refusals and failures --------------------------------------------------------------------------------------- */

static void refuse(const char *config, const char *target, vkf_dtype dtype, vkf_status status, const char *words) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_status st = vkf_model_folder_make(&env, config, target, &(vkf_make_params){VKF_MAKE_PARAMS_INIT, .dtype = dtype});
  if (st != status || strstr(env.message, words) == NULL)
    fail_msg("expected %d and '%s', found %d and '%s'", status, words, st, env.message);
  assert_int_equal(env.live_bytes, 0);
}

static void test_refusals(void **state) {
  (void)state;
  char path[512], inner[600];
  FILE *file = fopen(join(folder, "config.json", path), "w");
  assert_non_null(file);
  fputs("{\"model_type\": \"mamba\"}", file);
  fclose(file);
  snprintf(inner, sizeof inner, "%s/no/such", folder);
  refuse(llama, folder, VKF_F32, VKF_ERROR_FILE, "expected a new or empty folder, found files in it (config.json)");
  refuse(llama, path, VKF_F32, VKF_ERROR_FILE, "expected a new or empty folder");
  refuse(llama, inner, VKF_F32, VKF_ERROR_FILE, "No such file or directory");
  refuse(llama, folder, VKF_I32, VKF_ERROR_ARGUMENT, "expected F32, F16 or BF16");
  snprintf(inner, sizeof inner, "%s/new", folder);
  refuse(path, inner, VKF_F32, VKF_ERROR_UNSUPPORTED, "found \"mamba\"");
  file = fopen(path, "w");
  fputs(
      "{\"model_type\": \"gpt2\", \"n_embd\": 1000000, \"n_layer\": 1000, \"n_head\": 1, \"vocab_size\": 1000000,"
      "\"n_positions\": 1}",
      file);
  fclose(file);
  refuse(path, inner, VKF_F32, VKF_ERROR_FILE, "expected room for");
  refuse(inner, inner, VKF_F32, VKF_ERROR_FILE, "cannot be opened");
  assert_int_equal(count(folder), 1);
  empty(folder);
}

static int stop_early(void *user, uint64_t done, uint64_t all) {
  (void)user;
  assert_between(done, 1, all);
  return 2 * done > all;
}

/* If making a folder is stopped or fails, no folder is left. */
static void test_whole_or_nothing(void **state) {
  (void)state;
  vkf_env env;
  char inner[600];
  snprintf(inner, sizeof inner, "%s/new", folder);
  vkf_env_init(&env, NULL);
  vkf_make_params params = {VKF_MAKE_PARAMS_INIT, .on_progress = stop_early};
  assert_int_equal(vkf_model_folder_make(&env, llama, inner, &params), VKF_ERROR_STOPPED);
  assert_int_equal(count(folder), 0);
  params.on_progress = NULL;
  vkf_status st = VKF_ERROR_MEMORY;
  for (uint64_t at = 1; st != VKF_OK; at++) {
    vkf_env_init(&env, NULL);
    env.fail_at = at;
    st = vkf_model_folder_make(&env, llama, inner, &params);
    assert_int_equal(env.live_bytes, 0);
    if (st == VKF_OK) break;
    assert_int_equal(st, VKF_ERROR_MEMORY);
    assert_int_equal(count(folder), 0);
  }
  assert_int_equal(count(inner), 2);
  empty(inner);
  assert_int_equal(rmdir(inner), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_families), cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_norms_that_add), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_whole_or_nothing)};
  return cmocka_run_group_tests(tests, prepare, clean);
}
