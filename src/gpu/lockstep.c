/* lockstep: times threads that wait for each other, as lavapipe's do after each dispatch.
 *
 * The caller starts a round, and a thread on each core computes for a while, half of them a fifth less. The last one to
 * end wakes the caller, which starts the next round. What a round takes beyond the longest computation is the time that
 * threads need to wake. Each thread is bound to a core, because two new ones may share a core for a tenth of a second
 * before the system separates them. Invariant: no thread is left when the call returns.
 */
#define _GNU_SOURCE /* pthread_setaffinity_np */
#include <stdlib.h>

#include "base/threads.h"
#include "gpu/vk.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 8, MAX_THREADS = 64 };
#define LONG_NS (UINT64_C(200) * 1000)
#define SHORT_NS (UINT64_C(160) * 1000)

typedef struct lockstep {
  pthread_mutex_t lock; /* of the numbers below */
  pthread_cond_t begins, ended;
  int round; /* 0: none yet; negative: no more */
  uint32_t n_left;
  cpu_set_t cores;  /* those that have no thread yet */
  uint32_t n_bound; /* threads that have a core */
} lockstep;

/* Binds this thread to a core that has none yet, if the system allows it. */
static void take_core(lockstep *l) {
  int core = 0;
  while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &l->cores)) core++;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  CPU_CLR(core, &l->cores);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *compute(void *user) {
  lockstep *l = user;
  pthread_mutex_lock(&l->lock);
  const uint64_t ns = l->n_bound++ % 2 == 0 ? LONG_NS : SHORT_NS;
  take_core(l);
  for (int done = 0;;) {
    while (l->round == done) pthread_cond_wait(&l->begins, &l->lock);
    if (l->round < 0) break;
    done = l->round;
    pthread_mutex_unlock(&l->lock);
    for (const uint64_t begin = vkf_clock_ns(); vkf_clock_ns() - begin < ns;) continue;
    pthread_mutex_lock(&l->lock);
    if (--l->n_left == 0) pthread_cond_signal(&l->ended);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t time_round(lockstep *l, int round, uint32_t n) {
  const uint64_t begin = vkf_clock_ns();
  pthread_mutex_lock(&l->lock);
  l->n_left = n;
  l->round = round;
  pthread_cond_broadcast(&l->begins);
  while (l->n_left > 0) pthread_cond_wait(&l->ended, &l->lock);
  pthread_mutex_unlock(&l->lock);
  return vkf_clock_ns() - begin;
}

uint64_t vkf_gpu_lockstep_ns(void) {
  lockstep l = {
      .lock = PTHREAD_MUTEX_INITIALIZER, .begins = PTHREAD_COND_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
  pthread_t threads[MAX_THREADS];
  uint64_t ns[ROUNDS];
  uint32_t n = 0;
  if (sched_getaffinity(0, sizeof l.cores, &l.cores) != 0) return 0;
  const uint32_t wanted = VKF_MIN((uint32_t)CPU_COUNT(&l.cores), MAX_THREADS);
  while (n < wanted && vkf_thread_start(&threads[n], compute, &l) == 0) n++;
  for (int i = 0; i < ROUNDS; i++) ns[i] = time_round(&l, i + 1, n);
  pthread_mutex_lock(&l.lock);
  l.round = -1;
  pthread_cond_broadcast(&l.begins);
  pthread_mutex_unlock(&l.lock);
  for (uint32_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
  qsort(ns, ROUNDS, sizeof ns[0], compare);
  return ns[ROUNDS / 2];
}

#endif
