/* cores: starts threads, spreads work over the host's cores, and says how many cores and how much memory there are.
 *
 * The threads of vkf_parallel() end before it returns. If the system starts none, the caller's thread does all the
 * work. Invariant: every part is called exactly once, and all calls have returned when vkf_parallel() returns.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/base.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/threads.h"

uint32_t vkf_cores(void) {
#ifdef CPU_COUNT
  cpu_set_t allowed; /* a container or taskset may allow fewer than are online */
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0)
    return (uint32_t)CPU_COUNT(&allowed);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

uint64_t vkf_host_bytes(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

int vkf_thread_start(pthread_t *thread, void *(*run)(void *user), void *user) {
#ifdef _WIN32 /* has no signals */
  return pthread_create(thread, NULL, run, user);
#else
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits the mask */
  const int failed = pthread_create(thread, NULL, run, user);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed;
#endif
}

/* Shared by the threads, each of which takes the next part until none is left. */
typedef struct work {
  vkf_part_fn *part;
  void *user;
  size_t n, next;
  pthread_mutex_t lock; /* guards `next` */
} work;

typedef struct worker {
  work *work;
  uint32_t index;
  pthread_t thread;
} worker;

static void *take_parts(void *user) {
  const worker *own = user;
  work *w = own->work;
  for (;;) {
    pthread_mutex_lock(&w->lock);
    const size_t i = w->next++;
    pthread_mutex_unlock(&w->lock);
    if (i >= w->n) return NULL;
    w->part(w->user, own->index, i);
  }
}

void vkf_parallel(size_t n, uint32_t most, vkf_part_fn *part, void *user) {
  worker workers[VKF_MAX_THREADS];
  work w = {.part = part, .user = user, .n = n};
  const uint32_t wanted = (uint32_t)VKF_MIN(n, (size_t)VKF_MIN(most, (uint32_t)VKF_MAX_THREADS));
  uint32_t started = 1; /* the caller's thread is the first */
  pthread_mutex_init(&w.lock, NULL);
  for (uint32_t i = 0; i < VKF_MAX_THREADS; i++) workers[i] = (worker){.work = &w, .index = i};
  while (started < wanted && vkf_thread_start(&workers[started].thread, take_parts, &workers[started]) == 0) started++;
  take_parts(&workers[0]);
  while (started > 1) pthread_join(workers[--started].thread, NULL);
  pthread_mutex_destroy(&w.lock);
}
