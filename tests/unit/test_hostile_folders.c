/* Model folders made to break a reader, and output files whose writer dies. Both give a message at once, never a crash,
 * a wait or half a file. Everything runs on ref, because nothing here depends on a driver. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/tiny_model.h"
#include "support/sessions.h"

/* The alarm kills a test that waits for a FIFO. A request for more than MOST_BYTES at once fails. */
enum { ALARM_SECONDS = 60, MOST_BYTES = 64 << 20 };

static vkf_context *context;
static vkf_device *device;
static tiny_tensors tensors;
static char folder[64];
static size_t peak_bytes;

static void *limited(void *user, void *old, size_t size) {
  (void)user;
  if (size > peak_bytes) peak_bytes = size;
  if (size == 0) {
    free(old);
    return NULL;
  }
  return size > MOST_BYTES ? NULL : realloc(old, size);
}

static const char *in_folder(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/vkf-hostile-XXXXXX");
  alarm(ALARM_SECONDS);
  const vkf_allocator allocator = {limited, NULL};
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .allocator = &allocator};
  peak_bytes = 0;
  if (!mkdtemp(folder) || vkf_context_create(&params, &context) != VKF_OK) return -1;
  if (vkf_device_open(context, "ref", &device) != VKF_OK) return -1;
  tiny_tensors_init(&tensors);
  if (tiny_put_tensors(context, folder, &tensors) != VKF_OK) return -1;
  return tiny_put(folder, "config.json", tiny_config, strlen(tiny_config)) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return folder_remove(folder, "config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json",
                       "generation_config.json", "out.safetensors");
}

static char said[1024]; /* the message of a model's last use, for expect_words() */

static vkf_status open_and_close(void) {
  vkf_model *model = NULL;
  vkf_status st = vkf_model_open(device, folder, &model);
  assert_int_equal(st == VKF_OK, model != NULL);
  snprintf(said, sizeof said, "%s", last_message(context));
  close_model(&model);
  return st;
}

static void expect_words(vkf_status st, vkf_status want, const char *words) {
  const char *message = said[0] ? said : vkf_context_message(context);
  if (st != want || !strstr(message, words) || peak_bytes > MOST_BYTES)
    fail_msg("expected \"%s\" and \"%s\", found \"%s\": %s; %zu bytes wanted at once", vkf_status_name(want), words,
             vkf_status_name(st), message, peak_bytes);
  said[0] = 0;
}

static void expect_refused(vkf_status want, const char *words) {
  expect_words(open_and_close(), want, words);
}

/* Writes config.json with `from` replaced by `to`. */
static void put_config(const char *from, const char *to) {
  char text[2 * sizeof tiny_config];
  const char *at = strstr(tiny_config, from);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - tiny_config), tiny_config, to, at + strlen(from));
  assert_true(tiny_put(folder, "config.json", text, strlen(text)));
}

/* ---- not the files that they seem -------------------------------------------------------------------------------- */

static void the_tiny_model_opens(void **state) {
  (void)state;
  expect_refused(VKF_OK, "");
}

static void special_files(void **state) {
  (void)state;
  static const struct {
    const char *name;
    vkf_status as_folder, as_fifo, as_device;
  } rows[] = {
      {"config.json", VKF_ERROR_FILE, VKF_ERROR_FILE, VKF_ERROR_FILE},
      {"model.safetensors", VKF_ERROR_FILE, VKF_ERROR_FILE, VKF_ERROR_FILE},
      {"generation_config.json", VKF_ERROR_FILE, VKF_ERROR_FILE, VKF_ERROR_FILE},
      {"tokenizer.json", VKF_ERROR_FILE, VKF_ERROR_FILE, VKF_ERROR_FILE},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s", in_folder(rows[i].name));
    const char *words = rows[i].as_folder ? rows[i].name : "";
    remove(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(rows[i].as_folder, words);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(rows[i].as_fifo, words);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(path, path), 0);
    expect_refused(rows[i].as_folder, words);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    expect_refused(rows[i].as_device, words);
    assert_int_equal(unlink(path), 0);
    if (i == 0) put_config("{", "{");
    if (i == 1) assert_int_equal(tiny_put_tensors(context, folder, &tensors), VKF_OK);
  }
}

static void huge_sparse_files(void **state) {
  (void)state;
  static const char *const names[] = {"model.safetensors", "tokenizer.json", "config.json"};
  for (size_t i = 0; i < 3; i++) {
    int fd = open(in_folder(names[i]), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    bool is_huge = ftruncate(fd, (off_t)1 << 40) == 0;
    close(fd);
    if (is_huge) expect_refused(VKF_ERROR_FORMAT, names[i]);
    unlink(in_folder(names[i]));
    if (i == 0) assert_int_equal(tiny_put_tensors(context, folder, &tensors), VKF_OK);
  }
}

static void an_index_that_points_outside(void **state) {
  (void)state;
  static const char *const shards[] = {"../../etc/passwd", "/etc/passwd", "..", "sub/../../x.safetensors", ""};
  unlink(in_folder("model.safetensors"));
  for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
    char text[128];
    snprintf(text, sizeof text, "{\"weight_map\": {\"embed.weight\": \"%s\"}}", shards[i]);
    assert_true(tiny_put(folder, "model.safetensors.index.json", text, strlen(text)));
    expect_refused(VKF_ERROR_FORMAT, shards[i]);
    assert_non_null(strstr(last_message(context), "in the same folder"));
  }
  static const char own[] = "{\"weight_map\": {\"embed.weight\": \"model.safetensors.index.json\"}}";
  assert_true(tiny_put(folder, "model.safetensors.index.json", own, strlen(own)));
  expect_refused(VKF_ERROR_FORMAT, "expected a safetensors file, found JSON");
}

/* ---- numbers that no model has ----------------------------------------------------------------------------------- */

static void absurd_configs(void **state) {
  (void)state;
  static const struct {
    const char *from, *to, *words;
  } rows[] = {
      {"\"d_model\": 8", "\"d_model\": 2147483648", "d_model"},
      {"\"d_model\": 8", "\"d_model\": 16777216", "embed.weight"},
      {"\"d_model\": 8", "\"d_model\": -8", "d_model"},
      {"\"d_model\": 8", "\"d_model\": 8.5", "d_model"},
      {"\"d_model\": 8", "\"d_model\": 99999999999999999999",
       "\"d_model\": expected an integer, found a number of more"},
      {"\"num_encoder_layers\": 1", "\"num_encoder_layers\": 1000000000", "num_encoder_layers"},
      {"\"num_encoder_layers\": 1", "\"num_encoder_layers\": 16777216", "16777216"},
      {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 16777216", "16777216"},
      {"\"num_encoder_layers\": 1", "\"num_encoder_layers\": 0", "num_encoder_layers"},
      {"\"nhead\": 2", "\"nhead\": 0", "nhead"},
      {"\"nhead\": 2", "\"nhead\": 3", "nhead"},
      {"\"nhead\": 2", "\"nhead\": 16777216", "nhead"},
      {"\"dim_feedforward\": 8", "\"dim_feedforward\": 16777216", "linear1"},
      {"\"vocab_size\": 16", "\"vocab_size\": 16777216", "embed.weight"},
      {"\"vocab_size\": 16", "\"vocab_size\": null", "vocab_size"},
      {"\"model_type\": \"transformer\"", "\"model_type\": \"../transformer\"", "../transformer"},
      {"{\"model_type\"", "[{\"model_type\"", "config.json"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    put_config(rows[i].from, rows[i].to);
    vkf_status st = open_and_close();
    expect_words(st, st == VKF_ERROR_UNSUPPORTED ? st : VKF_ERROR_FORMAT, rows[i].words);
  }
}

static void deep_json(void **state) {
  (void)state;
  enum { DEPTH = 1000000 };
  static const char *const names[] = {"tokenizer.json", "config.json"};
  char *text = malloc(DEPTH);
  memset(text, '[', DEPTH);
  for (size_t i = 0; i < 2; i++) {
    assert_true(tiny_put(folder, names[i], text, DEPTH));
    expect_refused(VKF_ERROR_FORMAT, names[i]);
    unlink(in_folder(names[i]));
  }
  free(text);
}

static void empty_tensors(void **state) {
  (void)state;
  tensors.arrays[0].shape[0] = 0;
  assert_int_equal(tiny_put_tensors(context, folder, &tensors), VKF_OK);
  expect_refused(VKF_ERROR_FORMAT, "embed.weight");
  put_config("\"vocab_size\": 16", "\"vocab_size\": 0");
  expect_refused(VKF_ERROR_FORMAT, "vocab_size");
}

static vkf_status generate(const char *config) {
  static int32_t ids[] = {3, 4, 5};
  const vkf_array input = {"input_ids", VKF_I32, 2, {1, 3}, ids};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config};
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  assert_int_equal(vkf_model_open(device, folder, &model), VKF_OK);
  vkf_status st = vkf_session_generate(session_of(model), &input, 1, &params, &result);
  assert_int_equal(st == VKF_OK, result != NULL);
  snprintf(said, sizeof said, "%s", last_message(context));
  vkf_result_destroy(&result);
  close_model(&model);
  return st;
}

static void weights_that_are_no_numbers(void **state) {
  (void)state;
  static const float values[] = {NAN, INFINITY, -INFINITY, 3e38f};
  for (size_t i = 0; i < 4; i++) {
    for (size_t t = 0; t < tensors.n; t++) {
      if (strcmp(tensors.names[t], "core.decoder.layers.0.norm3.weight") != 0) continue;
      for (size_t k = 0; k < TINY_WIDTH; k++) tensors.data[t][k] = values[i];
    }
    assert_int_equal(tiny_put_tensors(context, folder, &tensors), VKF_OK);
    expect_words(generate("{\"num_beams\": 1, \"max_new_tokens\": 3}"), VKF_ERROR_NUMERIC, "finite");
    expect_words(generate("{\"num_beams\": 2, \"max_new_tokens\": 3}"), VKF_ERROR_NUMERIC, "finite");
  }
}

/* The tiny model has any number of positions, so only the caller limits a length. */
static void absurd_generation(void **state) {
  (void)state;
  static const char *const configs[] = {
      "{\"num_beams\": 2000000000, \"max_new_tokens\": 3}",
      "{\"num_beams\": 1000000, \"max_new_tokens\": 3}",
      "{\"max_new_tokens\": 2147483647}",
      "{\"max_new_tokens\": 2000000000}",
      "{\"max_length\": 2147483647, \"num_beams\": 4}",
      "{\"no_repeat_ngram_size\": 2, \"max_length\": 1000000000}",
      "{\"suppress_tokens\": [16], \"max_length\": 4}",
      "{\"length_penalty\": 1e999}",
  };
  for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
    vkf_status st = generate(configs[i]);
    if (st == VKF_OK || said[0] == 0) fail_msg("%s: %s: %s", configs[i], vkf_status_name(st), said);
  }
  peak_bytes = 0; /* more than any machine has, so nothing is allocated */
  expect_words(generate("{\"num_beams\": 2000000000, \"max_new_tokens\": 100000}"), VKF_ERROR_MEMORY,
               "expected a request that fits into this machine's memory, ");
  /* three copies of these beams' ids take 0.6 of the memory, their log-probabilities as much again */
  char half[96];
  const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  snprintf(half, sizeof half, "{\"num_beams\": %d, \"max_new_tokens\": 1000000}", (int)(bytes * 0.6 / 12e6));
  expect_words(generate(half), VKF_ERROR_MEMORY, "expected a request that fits into this machine's memory, ");
}

/* ---- output files ------------------------------------------------------------------------------------------------ */

enum { BIG = 1 << 20 };

static void write_out(vkf_context *c, float *data, const char *path, vkf_status want) {
  const vkf_array array = {"x", VKF_F32, 1, {BIG}, data};
  vkf_status st = vkf_arrays_write(c, path, &array, 1);
  if (st != want) _exit(3);
}

/* Removes the temporary files that killed writers left. */
static void remove_leftovers(void) {
  char command[160];
  snprintf(command, sizeof command, "rm -f %s.*.tmp", in_folder("out.safetensors"));
  assert_int_equal(system(command), 0);
}

/* A child writes a file of ones, then of twos, and so on, until it is killed. */
static void killed_while_writing(void **state) {
  (void)state;
  float *data = malloc(BIG * sizeof(float));
  char path[128];
  snprintf(path, sizeof path, "%s", in_folder("out.safetensors"));
  for (size_t i = 0; i < BIG; i++) data[i] = 1;
  write_out(context, data, path, VKF_OK);
  for (int round = 0; round < 25; round++) {
    pid_t child = fork();
    if (child == 0) {
      for (float value = 2;; value++) {
        for (size_t i = 0; i < BIG; i++) data[i] = value;
        write_out(context, data, path, VKF_OK);
      }
    }
    assert_true(child > 0);
    struct timespec delay = {0, (long)(round * 7919 % 100) * 1000000};
    nanosleep(&delay, NULL);
    int status = 0;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    vkf_result *result = NULL;
    assert_int_equal(vkf_arrays_read(context, path, &result), VKF_OK);
    const vkf_array *x = vkf_result_find(result, "x");
    assert_int_equal(x->shape[0], BIG);
    for (size_t i = 1; i < BIG; i++) assert_true(((float *)x->data)[i] == ((float *)x->data)[0]);
    vkf_result_destroy(&result);
  }
  remove_leftovers();
  free(data);
}

static void outputs_that_cannot_be_written(void **state) {
  (void)state;
  static float x[4];
  const vkf_array array = {"x", VKF_F32, 1, {4}, x};
  char missing[160], below[160];
  snprintf(missing, sizeof missing, "%s", in_folder("nosuch/out.safetensors"));
  snprintf(below, sizeof below, "%s", in_folder("config.json/out.safetensors"));
  const char *const paths[] = {missing, below, folder, "/dev/full", "/proc/vkformer.safetensors", ""};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    expect_words(vkf_arrays_write(context, paths[i], &array, 1), VKF_ERROR_FILE, paths[i]);
}

/* The disk becomes full during a write, imitated by a limit on the size of files. */
static void a_full_disk(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s", in_folder("out.safetensors"));
  float *data = calloc(BIG, sizeof(float));
  write_out(context, data, path, VKF_OK);
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit limit = {BIG, BIG};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(4);
    data[0] = 1;
    write_out(context, data, path, VKF_ERROR_FILE);
    _exit(strstr(last_message(context), "out.safetensors") ? 0 : 5);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  vkf_result *result = NULL;
  assert_int_equal(vkf_arrays_read(context, path, &result), VKF_OK);
  assert_true(*(float *)vkf_result_find(result, "x")->data == 0);
  vkf_result_destroy(&result);
  free(data); /* remove_folder() fails if a temporary file was left */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(the_tiny_model_opens),
      TEST(special_files),
      TEST(huge_sparse_files),
      TEST(an_index_that_points_outside),
      TEST(absurd_configs),
      TEST(deep_json),
      TEST(empty_tensors),
      TEST(weights_that_are_no_numbers),
      TEST(absurd_generation),
      TEST(killed_while_writing),
      TEST(outputs_that_cannot_be_written),
      TEST(a_full_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
