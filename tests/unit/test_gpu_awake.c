/* The threads that keep cores awake: at the lowest priority, running while a submit is pending, asleep otherwise, and
 * none where they are not wanted. */
#define _GNU_SOURCE /* SCHED_IDLE */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/vk.h"

enum { MAX_TASKS = 64, TRIES = 2000 /* of 5 ms: a busy machine lets idle threads wait */ };

/* The other threads of this process. */
static size_t list_tasks(int ids[MAX_TASKS]) {
  size_t n = 0;
  DIR *all = opendir("/proc/self/task");
  assert_non_null(all);
  for (struct dirent *e; (e = readdir(all)) != NULL;)
    if (atoi(e->d_name) > 0 && atoi(e->d_name) != getpid() && n < MAX_TASKS) ids[n++] = atoi(e->d_name);
  closedir(all);
  return n;
}

/* 'R': runs or could, 'S': sleeps. */
static char state_of(int task) {
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", task);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  assert_non_null(fgets(line, sizeof line, f));
  fclose(f);
  const char *end = strrchr(line, ')');
  assert_non_null(end);
  return end[2];
}

/* Whether all threads come into this state. */
static bool come_to(const int *tasks, size_t n, char state) {
  const struct timespec pause = {.tv_nsec = 5000000};
  for (int i = 0; i < TRIES; i++) {
    size_t there = 0;
    for (size_t t = 0; t < n; t++) there += state_of(tasks[t]) == state;
    if (there == n) return true;
    nanosleep(&pause, NULL);
  }
  return false;
}

static vkf_caps lavapipe(void) {
  return (vkf_caps){.kind = VKF_DEVICE_CPU, .driver_id = VKF_DRIVER_ID_LAVAPIPE};
}

static vkf_gpu_awake *create(vkf_env *env) {
  const vkf_caps caps = lavapipe();
  vkf_gpu_awake *awake = NULL;
  assert_int_equal(vkf_gpu_awake_create(env, &caps, &awake), VKF_OK);
  return awake;
}

static void runs_while_a_submit_is_pending(void **state) {
  (void)state;
  vkf_env env;
  int tasks[MAX_TASKS];
  vkf_env_init(&env, NULL);
  assert_int_equal(list_tasks(tasks), 0);
  vkf_gpu_awake *awake = create(&env);
  if (!awake) skip(); /* one core, or a quota */
  const size_t n = list_tasks(tasks);
  assert_int_equal(n, vkf_cores());
  assert_true(come_to(tasks, n, 'S'));
  for (size_t i = 0; i < n; i++) assert_int_equal(sched_getscheduler(tasks[i]), SCHED_IDLE);
  vkf_gpu_awake_submit(awake);
  vkf_gpu_awake_submit(awake);
  assert_true(come_to(tasks, n, 'R'));
  vkf_gpu_awake_done(awake);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  assert_true(come_to(tasks, n, 'R')); /* for the second one */
  vkf_gpu_awake_wait(awake);
  assert_true(come_to(tasks, n, 'R'));
  vkf_gpu_awake_done(awake);
  assert_true(come_to(tasks, n, 'S'));
  vkf_gpu_awake_submit(awake);
  vkf_gpu_awake_destroy(&awake);
  assert_null(awake);
  assert_int_equal(list_tasks(tasks), 0);
}

static void none_where_they_are_not_wanted(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  static const char *const off[][2] = {{"VKF_KEEP_AWAKE", "0"}, {"LP_NUM_THREADS", "0"}, {"LP_NUM_THREADS", "1"}};
  for (size_t i = 0; i < VKF_COUNT(off); i++) {
    assert_int_equal(setenv(off[i][0], off[i][1], 1), 0);
    vkf_gpu_awake *awake = create(&env);
    assert_null(awake);
    assert_int_equal(unsetenv(off[i][0]), 0);
  }
  vkf_caps others[] = {lavapipe(), lavapipe()};
  others[0].kind = VKF_DEVICE_DISCRETE;
  others[1].driver_id = 0;
  for (size_t i = 0; i < VKF_COUNT(others); i++) {
    vkf_gpu_awake *awake = NULL;
    assert_int_equal(vkf_gpu_awake_create(&env, &others[i], &awake), VKF_OK);
    assert_null(awake);
  }
  vkf_gpu_awake *none = NULL; /* all calls take that */
  vkf_gpu_awake_submit(none);
  vkf_gpu_awake_wait(none);
  vkf_gpu_awake_done(none);
  vkf_gpu_awake_destroy(&none);
}

int main(void) {
  unsetenv("VKF_KEEP_AWAKE");
  unsetenv("LP_NUM_THREADS");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_while_a_submit_is_pending),
      cmocka_unit_test(none_where_they_are_not_wanted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
