/* Models from memory give the results of the folder, copy no file and share weights; their errors name the file. */
#include <sys/resource.h>
#include <unistd.h>

#include "support/golden.h"

#define SHIPPED VKF_SOURCE_DIR "/models/en-es"
#define CLASSIFIER VKF_SOURCE_DIR "/tests/golden/bert-sequence-classification"

enum { MAX_FILES = 8 };

static const char *const shipped[] = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                                      "tokenizer_config.json"};
static const char *const classifier[] = {"config.json", "model.safetensors"};

typedef struct folder {
  vkf_result *read[MAX_FILES];
  vkf_memory_file files[MAX_FILES];
  size_t n;
} folder;

static void read_folder(const driver *d, const char *path, const char *const *names, size_t n, folder *out) {
  *out = (folder){.n = n};
  for (size_t i = 0; i < n; i++) {
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, names[i]);
    driver_ok(d, vkf_bytes_read(d->context, file, &out->read[i]));
    const vkf_array *bytes = vkf_result_find(out->read[i], "bytes");
    out->files[i] = (vkf_memory_file){names[i], bytes->data, bytes->shape[0]};
  }
}

static void finish_folder(folder *f) {
  for (size_t i = 0; i < f->n; i++) vkf_result_destroy(&f->read[i]);
}

static void test_the_ids_of_the_folder(void **state) {
  driver *d = *state;
  static const char *const texts[] = {"The cat sat on the mat because it was tired.", "I am here."};
  folder f;
  vkf_model *models[2] = {NULL};
  vkf_session *sessions[2] = {NULL};
  vkf_result *results[2] = {NULL};
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &models[0]));
  driver_ok(d, vkf_model_open_memory(d->device, f.files, f.n, NULL, &models[1]));
  for (int m = 0; m < 2; m++) {
    driver_ok(d, vkf_session_create(models[m], NULL, &sessions[m]));
    assert_int_equal(vkf_session_translate(sessions[m], texts, 2, NULL, &results[m]), VKF_OK);
  }
  size_t n = 0, n_again = 0;
  const int32_t *ids = vkf_result_i32(results[0], "sequences", &n);
  const int32_t *again = vkf_result_i32(results[1], "sequences", &n_again);
  assert_true(n > 0 && n == n_again);
  assert_memory_equal(ids, again, n * sizeof *ids);
  for (size_t i = 0; i < 2; i++) assert_string_equal(vkf_result_text(results[0], i), vkf_result_text(results[1], i));
  for (int m = 0; m < 2; m++) {
    vkf_result_destroy(&results[m]);
    vkf_session_destroy(&sessions[m]);
    vkf_model_close(&models[m]);
  }
  finish_folder(&f);
}

/* Labels are read from config.json only when they are needed, after the model was opened. */
static void test_files_that_are_read_later(void **state) {
  driver *d = *state;
  static const char json[] =
      "{\"version\": \"1.0\", \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"model\": {\"type\": "
      "\"WordLevel\", \"vocab\": {\"<unk>\": 0, \"a\": 1}, \"unk_token\": \"<unk>\"}}";
  folder f;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  read_folder(d, CLASSIFIER, classifier, VKF_COUNT(classifier), &f);
  f.files[f.n] = (vkf_memory_file){"tokenizer.json", json, sizeof json - 1};
  driver_ok(d, vkf_model_open_memory(d->device, f.files, f.n + 1, NULL, &model));
  driver_ok(d, vkf_session_create(model, NULL, &session));
  assert_int_equal(vkf_session_classify(session, (const char *const[]){"a"}, 1, NULL, &result), VKF_OK);
  assert_true(vkf_result_text_count(result) > 0);
  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  finish_folder(&f);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *counted(void *user, void *old, size_t size) {
  *(size_t *)user += size;
  if (size > 0) return realloc(old, size);
  free(old);
  return NULL;
}

/* Returns the host bytes that opening allocates. A copy of a file would show, because files of a folder are mapped. */
static size_t bytes_of(const folder *f, const char *path) {
  size_t bytes = 0;
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  const vkf_allocator allocator = {.user = &bytes, .reallocate = counted};
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .allocator = &allocator};
  assert_int_equal(vkf_context_create(&params, &context), VKF_OK);
  assert_int_equal(vkf_device_open(context, NULL, &device), VKF_OK);
  const size_t before = bytes;
  assert_int_equal(
      path ? vkf_model_open(device, path, &model) : vkf_model_open_memory(device, f->files, f->n, NULL, &model),
      VKF_OK);
  const size_t opened = bytes - before;
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return opened;
}

static void test_no_file_is_copied(void **state) {
  driver *d = *state;
  folder f;
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  const size_t of_folder = bytes_of(NULL, SHIPPED), of_memory = bytes_of(&f, NULL);
  if (of_memory > of_folder) fail_msg("%zu bytes from a folder, %zu from memory", of_folder, of_memory);
  finish_folder(&f);
}

static long minor_faults(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

/* Weights are in large pages if the system has them; without them page faults took most of the time of loading. */
static void test_weights_take_large_pages(void **state) {
  if (driver_is_gpu()) skip(); /* a GPU's weights are not in this process's memory */
  driver *d = *state;
  folder f;
  vkf_model *model = NULL;
  vkf_model_info info;
  char setting[64] = "[never]";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file && !fgets(setting, sizeof setting, file)) fail_msg("the setting of large pages cannot be read");
  if (file) fclose(file);
  if (strstr(setting, "[never]")) skip();
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  const long before = minor_faults();
  driver_ok(d, vkf_model_open_memory(d->device, f.files, f.n, NULL, &model));
  const long n = minor_faults() - before;
  vkf_model_info_init(&info);
  driver_ok(d, vkf_model_get_info(model, &info));
  const long most = (long)(info.device_bytes / (uint64_t)sysconf(_SC_PAGESIZE) / 2);
  if (n > most)
    fail_msg("expected at most %ld page faults for %zu bytes, found %ld", most, (size_t)info.device_bytes, n);
  vkf_model_close(&model);
  finish_folder(&f);
}

/* Returns the resident pages of this process; 0: unknown. */
static long resident(void) {
  long size = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
  if (file) fclose(file);
  return pages;
}

/* Returns the pages that the weights of a model take. */
static long weight_pages(const vkf_model *model) {
  vkf_model_info info;
  vkf_model_info_init(&info);
  assert_int_equal(vkf_model_get_info(model, &info), VKF_OK);
  return (long)(info.device_bytes / (uint64_t)sysconf(_SC_PAGESIZE));
}

static void test_weights_leave_with_the_model(void **state) {
  enum { TURNS = 4 };
  driver *d = *state;
  vkf_model *model = NULL;
  long pages[TURNS], weights = 0;
  for (int i = 0; i < TURNS; i++) {
    driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
    weights = weight_pages(model);
    vkf_model_close(&model);
    pages[i] = resident();
  }
  if (pages[0] == 0) skip();
  if (pages[TURNS - 1] - pages[0] > weights)
    fail_msg("%ld pages are resident after one turn and %ld after %d; the weights take %ld", pages[0], pages[TURNS - 1],
             TURNS, weights);
}

/* Writes the translation of a sentence to `text` [size]. */
static void translate(vkf_model *model, char *text, size_t size) {
  static const char *const texts[] = {"The cat sat on the mat because it was tired."};
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  assert_int_equal(vkf_session_create(model, NULL, &session), VKF_OK);
  assert_int_equal(vkf_session_translate(session, texts, 1, NULL, &result), VKF_OK);
  snprintf(text, size, "%s", vkf_result_text(result, 0));
  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
}

/* Opens a model with weights_of = first; checks by the resident pages that it shares them, or (shares false) not. */
static vkf_model *open_beside(driver *d, const vkf_model *first, const folder *f, bool shares) {
  vkf_model *model = NULL;
  const vkf_model_params params = {VKF_MODEL_PARAMS_INIT, .weights_of = first};
  const long weights = weight_pages(first), before = resident();
  driver_ok(d, vkf_model_open_memory(d->device, f->files, f->n, &params, &model));
  const long taken = resident() - before;
  if (before > 0 && (taken < weights / 2) != shares)
    fail_msg("%ld pages for a second model, whose weights take %ld", taken, weights);
  return model;
}

/* A model on a device of another context shares the weights of the first, and keeps them after the first is closed. */
static void test_weights_are_shared(void **state) {
  driver *d = *state;
  driver other;
  folder f;
  vkf_model *first = NULL, *second = NULL;
  char expected[256], found[256];
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  driver_open(&other);
  driver_ok(d, vkf_model_open_memory(d->device, f.files, f.n, NULL, &first));
  translate(first, expected, sizeof expected);
  second = open_beside(&other, first, &f, true);
  vkf_model_close(&first);
  translate(second, found, sizeof found);
  assert_string_equal(found, expected);
  vkf_model_close(&second);
  driver_close(&other);
  finish_folder(&f);
}

/* Weights are not shared if a single bit in the file differs. */
static void test_weights_of_another_model_are_not(void **state) {
  if (driver_is_gpu()) skip(); /* a GPU's weights are not in this process's memory */
  driver *d = *state;
  folder f;
  vkf_model *first = NULL, *second = NULL;
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  vkf_memory_file *file = &f.files[2];
  assert_string_equal(file->name, "model.safetensors");
  unsigned char *changed = malloc(file->bytes);
  assert_non_null(changed);
  memcpy(changed, file->data, file->bytes);
  changed[file->bytes / 2] ^= 1;
  driver_ok(d, vkf_model_open_memory(d->device, f.files, f.n, NULL, &first));
  file->data = changed;
  second = open_beside(d, first, &f, false);
  vkf_model_close(&first);
  vkf_model_close(&second);
  free(changed);
  finish_folder(&f);
}

/* Nor with a device in the reproducible mode, which stores tiny numbers as they are. */
static void test_weights_of_another_mode_are_not(void **state) {
  if (driver_is_gpu()) skip(); /* a GPU's weights are not in this process's memory */
  driver *d = *state;
  driver other = {0};
  folder f;
  vkf_model *first = NULL, *second = NULL;
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .deterministic = true};
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  driver_ok(d, vkf_model_open_memory(d->device, f.files, f.n, NULL, &first));
  assert_int_equal(vkf_context_create(&params, &other.context), VKF_OK);
  driver_ok(&other, vkf_device_open(other.context, NULL, &other.device));
  second = open_beside(&other, first, &f, false);
  vkf_model_close(&first);
  vkf_model_close(&second);
  vkf_device_close(&other.device);
  vkf_context_destroy(&other.context);
  finish_folder(&f);
}

/* Nor in another format, even if it has as many bytes. */
static void test_weights_in_another_format_are_not(void **state) {
  driver *d = *state;
  vkf_model *halves = NULL, *model = NULL;
  char text[2][256];
  driver_ok(d, vkf_model_open_with(d->device, SHIPPED,
                                   &(vkf_model_params){VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_F16}, &halves));
  for (int i = 0; i < 2; i++) {
    const vkf_model_params params = {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_BF16,
                                     .weights_of = i ? halves : NULL};
    driver_ok(d, vkf_model_open_with(d->device, SHIPPED, &params, &model));
    translate(model, text[i], sizeof text[i]);
    vkf_model_close(&model);
  }
  vkf_model_close(&halves);
  assert_string_equal(text[1], text[0]);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void expect(const driver *d, const vkf_memory_file *files, size_t n, vkf_status status, const char *words) {
  vkf_model *model = NULL;
  assert_int_equal(vkf_model_open_memory(d->device, files, n, NULL, &model), status);
  assert_null(model);
  if (!strstr(vkf_context_message(d->context), words))
    fail_msg("expected '%s' in '%s'", words, vkf_context_message(d->context));
}

static void test_errors_name_the_file(void **state) {
  driver *d = *state;
  folder f;
  read_folder(d, SHIPPED, shipped, VKF_COUNT(shipped), &f);
  vkf_memory_file *config = &f.files[0], *weights = &f.files[2], whole;
  assert_string_equal(weights->name, "model.safetensors");
  expect(d, NULL, 0, VKF_ERROR_ARGUMENT, "expected a model folder or files, found NULL");
  expect(d, f.files, 0, VKF_ERROR_FILE, "config.json: expected a file of this name in memory, found none among 0");
  expect(d, f.files + 1, f.n - 1, VKF_ERROR_FILE, "config.json: expected a file of this name in memory");
  expect(d, f.files, 2, VKF_ERROR_FILE, "memory: expected model.safetensors or model.safetensors.index.json");

  whole = *weights;
  weights->bytes /= 2;
  expect(d, f.files, f.n, VKF_ERROR_FORMAT, "model.safetensors: tensor \"");
  expect(d, f.files, f.n, VKF_ERROR_FORMAT, "the file may be truncated");
  weights->bytes = 4;
  expect(d, f.files, f.n, VKF_ERROR_FORMAT, "model.safetensors: expected a safetensors file of at least 8 bytes");
  weights->name = "pytorch_model.bin";
  expect(d, f.files, f.n, VKF_ERROR_FILE, "in memory, found pytorch_model.bin, which is not read");
  *weights = whole;

  whole = *config;
  config->bytes /= 2;
  expect(d, f.files, f.n, VKF_ERROR_FORMAT, "config.json: expected JSON, found at line");
  config->bytes = 0;
  expect(d, f.files, f.n, VKF_ERROR_FORMAT, "config.json: expected JSON, found at line");
  config->data = NULL;
  expect(d, f.files, f.n, VKF_ERROR_ARGUMENT, "files[0] (config.json): expected a name and data, found NULL");
  *config = whole;
  config->name = NULL;
  expect(d, f.files, f.n, VKF_ERROR_ARGUMENT, "files[0] (no name): expected a name and data, found NULL");
  *config = whole;
  char same[] = "config.json";
  f.files[1].name = same;
  expect(d, f.files, f.n, VKF_ERROR_ARGUMENT, "files[1] (config.json): expected a name that no other file has");
  finish_folder(&f);
}

DRIVER_MAIN(DRIVER_TEST(test_the_ids_of_the_folder), DRIVER_TEST(test_files_that_are_read_later),
            DRIVER_TEST(test_no_file_is_copied), DRIVER_TEST(test_weights_take_large_pages),
            DRIVER_TEST(test_weights_leave_with_the_model), DRIVER_TEST(test_weights_are_shared),
            DRIVER_TEST(test_weights_of_another_model_are_not), DRIVER_TEST(test_weights_of_another_mode_are_not),
            DRIVER_TEST(test_weights_in_another_format_are_not), DRIVER_TEST(test_errors_name_the_file))
