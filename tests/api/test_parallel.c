/* Contexts side by side: eight threads, each with its own context, on ref and on the device under test, and two
 * processes. All get the ids of a single run. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/missing.h"
#include "support/tiny_model.h"
#include "support/sessions.h"

enum { N_THREADS = 8, N_PROCESSES = 2, ROWS = 2, IDS = 8 };

static char folder[] = "/tmp/vkf-parallel-XXXXXX";

typedef struct worker {
  const char *device; /* NULL: the one under test */
  vkf_status status;
  char message[512];
  int32_t ids[ROWS * IDS];
  size_t n;
} worker;

static vkf_status generate(vkf_model *model, worker *w) {
  static const int32_t ids[] = {3, 4, 5, 2, 6, 2, 7, 2};
  const vkf_array input = {"input_ids", VKF_I32, 2, {2, 4}, (void *)(uintptr_t)ids};
  const vkf_generate_params params = {
      VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 2, \"max_new_tokens\": 7, \"min_new_tokens\": 7}"};
  vkf_result *result = NULL;
  vkf_status st = vkf_session_generate(session_of(model), &input, 1, &params, &result);
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  w->n = sequences ? sequences->shape[0] * sequences->shape[1] : 0;
  if (w->n <= ROWS * IDS && sequences) memcpy(w->ids, sequences->data, w->n * sizeof *w->ids);
  vkf_result_destroy(&result);
  return st;
}

/* Creates everything from the context on and generates twice; the second time everything is recorded already. */
static void *work(void *user) {
  worker *w = user;
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_status st = vkf_context_create(NULL, &context);
  if (!st) st = vkf_device_open(context, w->device, &device);
  if (!st) st = vkf_model_open(device, folder, &model);
  for (int i = 0; i < 2 && !st; i++) st = generate(model, w);
  if (st) snprintf(w->message, sizeof w->message, "%s", last_message(context));
  w->status = st;
  close_model(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return NULL;
}

static void expect_same(const worker *got, const worker *expected) {
  if (got->status != VKF_OK) fail_msg("%s: %s", vkf_status_name(got->status), got->message);
  assert_true(got->n > ROWS && got->n <= ROWS * IDS);
  assert_int_equal(got->n, expected->n);
  assert_memory_equal(got->ids, expected->ids, got->n * sizeof *got->ids);
}

/* Half of the threads on ref, half on the device under test. */
static void threads(void **state) {
  (void)state;
  static worker workers[N_THREADS], alone[2] = {{.device = "ref"}, {.device = NULL}};
  pthread_t handles[N_THREADS];
  for (int i = 0; i < 2; i++) {
    work(&alone[i]);
    expect_same(&alone[i], &alone[0]);
  }
  for (int i = 0; i < N_THREADS; i++) {
    workers[i].device = alone[i % 2].device;
    assert_int_equal(pthread_create(&handles[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_join(handles[i], NULL), 0);
  for (int i = 0; i < N_THREADS; i++) expect_same(&workers[i], &alone[0]);
}

/* Each process writes its ids to a pipe. It is forked before this process loads a driver. */
static void processes(void **state) {
  (void)state;
  int pipes[N_PROCESSES][2];
  pid_t children[N_PROCESSES];
  static worker alone = {.device = "ref"}, other;
  work(&alone);
  expect_same(&alone, &alone);
  for (int i = 0; i < N_PROCESSES; i++) {
    assert_int_equal(pipe(pipes[i]), 0);
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] > 0) {
      close(pipes[i][1]);
      continue;
    }
    work(&other);
    bool is_written = write(pipes[i][1], &other, sizeof other) == (ssize_t)sizeof other;
    _exit(is_written ? 0 : 1);
  }
  for (int i = 0; i < N_PROCESSES; i++) {
    int status = 0;
    memset(&other, 0, sizeof other);
    assert_int_equal(read(pipes[i][0], &other, sizeof other), sizeof other);
    close(pipes[i][0]);
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
    expect_same(&other, &alone);
  }
}

static int make_folder(void **state) {
  (void)state;
  return tiny_folder_make(folder);
}

static int remove_folder(void **state) {
  (void)state;
  return tiny_folder_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(processes), cmocka_unit_test(threads)};
  /* A child looks for a driver, so that this process has loaded none when it forks the others. */
  pid_t child = fork();
  if (child == 0) _exit(driver_missing());
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  if (status != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
