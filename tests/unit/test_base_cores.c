/* Work on several cores: each part runs once, also if threads cannot be made; the cores that the process may use. */
#define _GNU_SOURCE /* sched_setaffinity, RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

/* Replaces the C library's function, also for a shared library: makes `n_allowed` threads and then fails. */
static int n_allowed, n_created;
__attribute__((visibility("default"))) int pthread_create(pthread_t *restrict thread,
                                                          const pthread_attr_t *restrict attr, void *(*start)(void *),
                                                          void *restrict arg) {
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  void *found = dlsym(RTLD_NEXT, "pthread_create");
  memcpy(&real, &found, sizeof real);
  if (n_created >= n_allowed) return EAGAIN;
  n_created++;
  return real(thread, attr, start, arg);
}

enum { N = 5000, THREADS = 4 };

typedef struct counts {
  uint32_t calls[N];    /* of a part */
  uint32_t by[THREADS]; /* parts of a thread */
  pthread_t thread[THREADS];
  sigset_t blocked[THREADS];
} counts;

static void count(void *user, uint32_t thread, size_t i) {
  counts *c = user;
  c->calls[i]++;
  c->by[thread]++; /* no other thread has this index now */
  c->thread[thread] = pthread_self();
  pthread_sigmask(SIG_SETMASK, NULL, &c->blocked[thread]);
}

static void run(size_t n, uint32_t most, int allowed) {
  static counts c;
  memset(&c, 0, sizeof c);
  n_allowed = allowed;
  n_created = 0;
  vkf_parallel(n, most, count, &c);
  uint32_t all = 0;
  for (size_t i = 0; i < N; i++) assert_int_equal(c.calls[i], i < n);
  for (uint32_t t = 0; t < THREADS; t++) all += c.by[t];
  assert_int_equal(all, n);
  for (uint32_t t = 0; t < THREADS; t++) /* only the caller's thread takes signals */
    if (c.by[t] > 0) assert_int_equal(sigismember(&c.blocked[t], SIGUSR1), t > 0);
  if (c.by[0] > 0) assert_true(pthread_equal(c.thread[0], pthread_self()));
  if (allowed == 0) assert_int_equal(c.by[0], n);
}

static void each_part_is_done_once(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) run(N, THREADS, THREADS);
  assert_int_equal(n_created, THREADS - 1);
  run(1, THREADS, THREADS);
  assert_int_equal(n_created, 0); /* one part needs no thread */
  run(0, THREADS, THREADS);
  run(N, 1, THREADS);
  run(N, 0, THREADS);
  assert_int_equal(n_created, 0);
}

static void threads_that_cannot_be_had_are_done_without(void **state) {
  (void)state;
  run(N, THREADS, 1);
  assert_int_equal(n_created, 1);
  run(N, THREADS, 0);
}

static void cores_are_those_that_the_process_may_use(void **state) {
  (void)state;
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  assert_int_equal(vkf_cores(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(vkf_cores(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_part_is_done_once),
      cmocka_unit_test(threads_that_cannot_be_had_are_done_without),
      cmocka_unit_test(cores_are_those_that_the_process_may_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
