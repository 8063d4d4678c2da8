/* The threads that keep cores awake: they have the lowest priority, run while a submit is pending, sleep otherwise, and
 * are not made where they would do harm. */
#define _GNU_SOURCE /* SCHED_IDLE */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/vk.h"

enum { MAX_TASKS = 64, TRIES = 2000 /* of 5 ms: idle threads wait long on a busy machine */ };

/* Lists the other threads of this process and returns their number. */
static size_t list_tasks(int ids[MAX_TASKS]) {
  size_t n = 0;
  DIR *all = opendir("/proc/self/task");
  assert_non_null(all);
  for (struct dirent *e; (e = readdir(all)) != NULL;)
    if (atoi(e->d_name) > 0 && atoi(e->d_name) != getpid() && n < MAX_TASKS) ids[n++] = atoi(e->d_name);
  closedir(all);
  return n;
}

/* Returns a thread's state, 'R' (runs or could) or 'S' (sleeps), or 0 if it has ended. */
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

/* Waits until all threads are in this state. Returns false if they are not within TRIES. */
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

/* Creates one that has its threads from the start. */
static vkf_gpu_awake *create_started(vkf_env *env) {
  assert_int_equal(setenv("VKF_KEEP_AWAKE", "1", 1), 0);
  vkf_gpu_awake *awake = create(env);
  assert_int_equal(unsetenv("VKF_KEEP_AWAKE"), 0);
  return awake;
}

static void runs_while_a_submit_is_pending(void **state) {
  (void)state;
  vkf_env env;
  int tasks[MAX_TASKS];
  vkf_env_init(&env, NULL);
  assert_int_equal(list_tasks(tasks), 0);
  vkf_gpu_awake *awake = create_started(&env);
  if (!awake) skip(); /* one core, or a quota */
  const size_t n = list_tasks(tasks);
  assert_int_equal(n, vkf_cores());
  assert_true(come_to(tasks, n, 'S'));
  for (size_t i = 0; i < n; i++) assert_int_equal(sched_getscheduler(tasks[i]), SCHED_IDLE);
  vkf_gpu_awake_submit(awake);
  vkf_gpu_awake_submit(awake);
  assert_true(come_to(tasks, n, 'R'));
  vkf_gpu_awake_done(awake, &env);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  assert_true(come_to(tasks, n, 'R')); /* the second submit is pending */
  vkf_gpu_awake_wait(awake);
  assert_true(come_to(tasks, n, 'R'));
  vkf_gpu_awake_done(awake, &env);
  assert_true(come_to(tasks, n, 'S'));
  vkf_gpu_awake_submit(awake);
  vkf_gpu_awake_destroy(&awake);
  assert_null(awake);
  assert_int_equal(list_tasks(tasks), 0);
}

static double round_of_two; /* a round's time with cores kept awake, over that without */
static size_t n_rounds;

static uint64_t invented_round(void) {
  int tasks[MAX_TASKS];
  const size_t n_tasks = list_tasks(tasks);
  assert_int_equal(n_tasks, n_rounds == 0 ? 0 : vkf_cores());
  const bool is_awake = n_rounds++ % 2 == 1;
  if (n_tasks > 0) assert_true(come_to(tasks, n_tasks, is_awake ? 'R' : 'S'));
  return is_awake ? (uint64_t)(round_of_two * 1e6) : 1000000;
}

/* The threads are kept only if they make rounds more than 5% shorter. */
static void a_trial_decides(void **state) {
  (void)state;
  vkf_env env;
  int tasks[MAX_TASKS];
  vkf_env_init(&env, NULL);
  static const double rounds[] = {0.5, 0.94, 0.96, 1, 4};
  for (size_t i = 0; i < VKF_COUNT(rounds); i++) {
    vkf_gpu_awake *awake = create(&env);
    if (!awake) skip();
    assert_int_equal(list_tasks(tasks), 0);
    n_rounds = 0;
    round_of_two = rounds[i];
    vkf_gpu_awake_decide(awake, &env, invented_round);
    assert_int_equal(n_rounds, 6);
    const size_t n = list_tasks(tasks);
    assert_int_equal(n, rounds[i] < 0.95 ? vkf_cores() : 0);
    vkf_gpu_awake_submit(awake);
    assert_true(come_to(tasks, n, 'R'));
    vkf_gpu_awake_done(awake, &env);
    vkf_gpu_awake_destroy(&awake);
    assert_int_equal(list_tasks(tasks), 0);
  }
}

static size_t n_lines;

static void count_line(void *user, vkf_log_level level, const char *line) {
  (void)user;
  (void)level;
  n_lines += strstr(line, "kept awake") != NULL;
}

/* A trial costs time, so it is made once, after the device has computed for 0.1 s. */
static void the_trial_waits_for_work(void **state) {
  (void)state;
  vkf_env env;
  int tasks[MAX_TASKS];
  const vkf_context_params params = {.size = sizeof params, .log = count_line, .log_level = VKF_LOG_INFO};
  vkf_env_init(&env, &params);
  vkf_gpu_awake *awake = create(&env);
  if (!awake) skip();
  vkf_gpu_awake_submit(awake);
  vkf_gpu_awake_done(awake, &env);
  assert_int_equal(n_lines, 0);
  nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL); /* no work */
  for (int i = 0; i < 4; i++) {
    vkf_gpu_awake_submit(awake);
    nanosleep(&(struct timespec){.tv_nsec = 40000000}, NULL);
    vkf_gpu_awake_submit(awake);
    vkf_gpu_awake_done(awake, &env);
    if (i < 1) assert_int_equal(n_lines, 0);
    vkf_gpu_awake_done(awake, &env);
    if (i < 1) assert_int_equal(n_lines, 0);
  }
  assert_int_equal(n_lines, 1);
  const size_t n = list_tasks(tasks);
  assert_true(n == 0 || n == vkf_cores());
  vkf_gpu_awake_destroy(&awake);
}

/* A round takes as long as the longest computation in it, and the time that threads need to wake. */
static void a_round_waits_for_all(void **state) {
  (void)state;
  int tasks[MAX_TASKS];
  assert_true(vkf_gpu_lockstep_ns() >= 200000);
  assert_int_equal(list_tasks(tasks), 0);
}

static void *run_rounds(void *user) {
  const _Atomic bool *ends = user;
  while (!*ends) vkf_gpu_lockstep_ns();
  return NULL;
}

/* Returns whether a thread blocks a signal, or -1 if it has ended. */
static int has_blocked(int task, int number) {
  char path[64], line[256];
  unsigned long long blocked = 0;
  bool was_read = false;
  snprintf(path, sizeof path, "/proc/self/task/%d/status", task);
  FILE *f = fopen(path, "r");
  while (f && !was_read && fgets(line, sizeof line, f)) was_read = sscanf(line, "SigBlk: %llx", &blocked) == 1;
  if (f) fclose(f);
  return was_read ? (int)(blocked >> (number - 1) & 1) : -1;
}

/* The threads of a round block the host's signals. */
static void rounds_leave_signals_to_the_host(void **state) {
  (void)state;
  enum { WANTED = 20 };
  int tasks[MAX_TASKS];
  pthread_t thread;
  _Atomic bool ends = false;
  assert_int_equal(list_tasks(tasks), 0);
  assert_int_equal(pthread_create(&thread, NULL, run_rounds, &ends), 0);
  while (list_tasks(tasks) == 0) continue;
  const int caller = tasks[0]; /* the first that began */
  for (size_t n_seen = 0; n_seen < WANTED;) {
    const size_t n = list_tasks(tasks);
    for (size_t i = 0; i < n; i++) {
      const int blocked = tasks[i] == caller ? -1 : has_blocked(tasks[i], SIGUSR1);
      n_seen += blocked == 1;
      assert_int_not_equal(blocked, 0);
    }
  }
  ends = true;
  pthread_join(thread, NULL);
}

static volatile sig_atomic_t n_signals;

static void count_signal(int number) {
  (void)number;
  n_signals++;
}

/* A signal to the process waits for a thread of the host, even if all of these block it. */
static void signals_are_left_to_the_host(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  const struct sigaction counts = {.sa_handler = count_signal};
  struct sigaction before;
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  vkf_gpu_awake *awake = create_started(&env);
  if (!awake) skip();
  assert_int_equal(sigaction(SIGUSR1, &counts, &before), 0);
  assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
  vkf_gpu_awake_submit(awake);
  assert_int_equal(kill(getpid(), SIGUSR1), 0);
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  assert_int_equal(n_signals, 0);
  assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
  assert_int_equal(n_signals, 1);
  vkf_gpu_awake_destroy(&awake);
  assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
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
  vkf_gpu_awake *none = NULL; /* all calls accept NULL */
  vkf_gpu_awake_submit(none);
  vkf_gpu_awake_wait(none);
  vkf_gpu_awake_done(none, &env);
  vkf_gpu_awake_destroy(&none);
}

static cpu_set_t moved_to[MAX_TASKS];
static size_t n_moved;

/* Replaces the system's function, to record its calls. */
__attribute__((visibility("default"))) int sched_setaffinity(pid_t id, size_t size, const cpu_set_t *cores) {
  if (n_moved < MAX_TASKS) moved_to[n_moved++] = *cores;
  return syscall(SYS_sched_setaffinity, id, size, cores) < 0 ? -1 : 0;
}

static size_t n_raised;

/* The same. pthread_setschedparam() does not call it. */
__attribute__((visibility("default"))) int sched_setscheduler(pid_t id, int policy, const struct sched_param *param) {
  n_raised += policy == SCHED_OTHER;
  return syscall(SYS_sched_setscheduler, id, policy, param) < 0 ? -1 : 0;
}

/* To end, the threads are moved to the caller's core and get its priority, because busy cores would not run them. */
static void ends_on_the_core_of_the_caller(void **state) {
  (void)state;
  vkf_env env;
  int tasks[MAX_TASKS], last = 0;
  cpu_set_t all, one;
  vkf_env_init(&env, NULL);
  vkf_gpu_awake *awake = create_started(&env);
  if (!awake) skip();
  const size_t n = list_tasks(tasks);
  assert_true(come_to(tasks, n, 'S')); /* they have begun */
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all)) last = core;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  n_moved = n_raised = 0;
  vkf_gpu_awake_destroy(&awake);
  assert_int_equal(n_moved, n);
  assert_int_equal(n_raised, n);
  for (size_t i = 0; i < n; i++) assert_true(CPU_EQUAL(&moved_to[i], &one));
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

/* Returns whether a process of this priority makes the threads. */
static bool has_threads(bool is_idle, int nice) {
  const struct sched_param none = {0};
  int status = 0;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    vkf_env env;
    vkf_gpu_awake *awake = NULL;
    const vkf_caps caps = lavapipe();
    vkf_env_init(&env, NULL);
    if (setpriority(PRIO_PROCESS, 0, nice) != 0 || (is_idle && sched_setscheduler(0, SCHED_IDLE, &none) != 0)) _exit(2);
    if (vkf_gpu_awake_create(&env, &caps, &awake) != VKF_OK) _exit(3);
    const bool has = awake != NULL;
    vkf_gpu_awake_destroy(&awake);
    _exit(has);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
  return WEXITSTATUS(status) == 1;
}

static void none_in_a_process_of_low_priority(void **state) {
  (void)state;
  const int nice = getpriority(PRIO_PROCESS, 0);
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_gpu_awake *awake = create(&env);
  if (!awake || nice > 10) skip();
  vkf_gpu_awake_destroy(&awake);
  assert_true(has_threads(false, 10));
  assert_false(has_threads(false, 11));
  assert_false(has_threads(false, 19));
  assert_false(has_threads(true, nice));
}

int main(void) {
  unsetenv("VKF_KEEP_AWAKE");
  unsetenv("LP_NUM_THREADS");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_while_a_submit_is_pending),    cmocka_unit_test(signals_are_left_to_the_host),
      cmocka_unit_test(none_where_they_are_not_wanted),    cmocka_unit_test(ends_on_the_core_of_the_caller),
      cmocka_unit_test(none_in_a_process_of_low_priority), cmocka_unit_test(a_trial_decides),
      cmocka_unit_test(the_trial_waits_for_work),          cmocka_unit_test(a_round_waits_for_all),
      cmocka_unit_test(rounds_leave_signals_to_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
