/* awake: keeps the host's cores from sleeping while the threads of a CPU driver compute.
 *
 * lavapipe's threads wait for each other after each dispatch. A core without work goes to sleep, and in some virtual
 * machines it wakes slowly: matmuls took up to twice as long (docs/SPEED.md, "Cores that stay awake"). There each core
 * gets a thread that spins, at a priority (SCHED_IDLE) that gives way to every other thread. These threads spin from a
 * submit until shortly after the host has waited for it, and sleep otherwise.
 *
 * On other machines a core that spins responds later than one that sleeps, and prompts took twice as long. So a device
 * that has computed for TRIAL_BEHIND_NS tries both, and keeps these threads only if they help.
 *
 * Owns these threads. Starts none if they would take time from somebody: with fewer driver threads than cores, if the
 * system limits the time of the process (a quota of its cgroup), or if the process itself has a low priority.
 * Invariant: none is left when destroy() returns.
 */
#define _GNU_SOURCE /* SCHED_IDLE, pthread_setaffinity_np, gettid */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "gpu/vk.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_CORES = 32 /* lavapipe has at most that many threads */ };
#define LINGER_NS (UINT64_C(1000) * 1000) /* between the submits of two steps */
enum { LOOKS = 64 /* pauses between two reads of the clock */ };
#define TRIAL_BEHIND_NS (UINT64_C(100) * 1000 * 1000) /* of computing */
enum { TRIALS = 3 };
#define GAIN 0.95 /* rounds with them take at most this part of the time without */

typedef struct spinner {
  struct vkf_gpu_awake *awake;
  pthread_t thread;
  _Atomic pid_t id; /* 0: it has not begun, or could not run at SCHED_IDLE and has ended */
  int core;
} spinner;

struct vkf_gpu_awake {
  vkf_env *env;
  cpu_set_t cores;
  _Atomic bool is_decided;    /* whether to have spinners was decided, or is being decided */
  _Atomic uint64_t begin_ns;  /* of the submits that are pending */
  _Atomic uint64_t busy_ns;   /* time with submits pending, before begin_ns */
  _Atomic uint64_t until_ns;  /* of vkf_clock_ns(): they spin until then */
  _Atomic uint32_t n_pending; /* submits that nobody has waited for */
  _Atomic uint32_t n_asleep;
  _Atomic bool ends;
  pthread_mutex_t lock; /* of `rise` */
  pthread_cond_t rise;
  spinner spinners[MAX_CORES];
  uint32_t n_spinners;
};

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void *spin(void *user) {
  spinner *own = user;
  vkf_gpu_awake *a = own->awake;
  const struct sched_param none = {0};
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(own->core, &core);
  own->id = gettid(); /* before its priority is low: then a busy core may delay the next line by a second */
  if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) != 0 ||
      pthread_setaffinity_np(pthread_self(), sizeof core, &core) != 0) {
    own->id = 0;
    return NULL;
  }
  while (!a->ends) {
    while (vkf_clock_ns() < a->until_ns)
      for (int i = 0; i < LOOKS; i++) pause_core();
    pthread_mutex_lock(&a->lock);
    a->n_asleep++; /* before it reads until_ns: who sets that later sees that somebody sleeps */
    while (!a->ends && vkf_clock_ns() >= a->until_ns) pthread_cond_wait(&a->rise, &a->lock);
    a->n_asleep--;
    pthread_mutex_unlock(&a->lock);
  }
  return NULL;
}

/* Whether this file of a cgroup limits its time: "max 100000" and -1 do not. */
static bool has_quota(const char *path) {
  char text[64] = "";
  FILE *f = fopen(path, "r");
  if (!f) return false;
  const bool was_read = fgets(text, sizeof text, f) != NULL;
  fclose(f);
  return was_read && text[0] >= '0' && text[0] <= '9';
}

/* Whether the process's cgroup or one above it, if visible, limits its time. */
static bool is_limited(void) {
  char line[PATH_MAX], path[PATH_MAX + 64];
  FILE *f = fopen("/proc/self/cgroup", "r");
  bool limited = has_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") || has_quota("/sys/fs/cgroup/cpu.max");
  while (f && !limited && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    char *group = strchr(line, '/'); /* "4:cpu:/system.slice/ssh.service", "0::/" */
    for (char *end; group && !limited && (end = strrchr(group, '/')) != NULL; *end = 0) {
      snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
      limited = has_quota(path);
      snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group);
      limited = limited || has_quota(path);
    }
  }
  if (f) fclose(f);
  return limited;
}

/* Whether the driver's threads, which inherit the caller's priority, are far above SCHED_IDLE. Linux shares a core by
 * weights: 1024 at nice 0, 110 at nice 10, 15 at nice 19, 3 for SCHED_IDLE. */
static bool is_above(void) {
  enum { NICEST = 10 };
  errno = 0; /* -1 is a priority, too */
  const int nice = getpriority(PRIO_PROCESS, 0);
  return sched_getscheduler(0) != SCHED_IDLE && errno == 0 && nice <= NICEST;
}

/* Whether to have spinners here, if they help. lavapipe reads LP_NUM_THREADS, too. */
static bool is_wanted(const vkf_caps *caps, const cpu_set_t *cores) {
  const char *threads = getenv("LP_NUM_THREADS"), *asked = getenv("VKF_KEEP_AWAKE");
  const int n = CPU_COUNT(cores);
  if (caps->kind != VKF_DEVICE_CPU || caps->driver_id != VKF_DRIVER_ID_LAVAPIPE) return false;
  if ((asked && strcmp(asked, "0") == 0) || n < 2 || n > MAX_CORES) return false;
  return (!threads || atoi(threads) >= n) && is_above() && !is_limited();
}

/* Starts a thread for each core. */
static void start(vkf_gpu_awake *a) {
  for (int core = 0; core < CPU_SETSIZE; core++) {
    spinner *s = &a->spinners[a->n_spinners];
    if (!CPU_ISSET(core, &a->cores)) continue;
    *s = (spinner){.awake = a, .core = core};
    if (vkf_thread_start(&s->thread, spin, s) != 0) break;
    a->n_spinners++;
  }
}

static void spin_until(vkf_gpu_awake *a, uint64_t ns) {
  a->until_ns = ns;
  if (a->n_asleep == 0) return;
  pthread_mutex_lock(&a->lock);
  pthread_cond_broadcast(&a->rise);
  pthread_mutex_unlock(&a->lock);
}

/* Moves all spinners to this thread's core, which is free while this thread waits for their end: on a core that others
 * keep busy they would take a second or more to end. Also raises them to the usual priority if the system allows it. */
static void come_here(vkf_gpu_awake *a) {
  const struct sched_param usual = {0};
  cpu_set_t here;
  const int core = sched_getcpu();
  if (core < 0) return;
  CPU_ZERO(&here);
  CPU_SET(core, &here);
  for (uint32_t i = 0; i < a->n_spinners; i++) {
    const pid_t id = a->spinners[i].id;
    if (id == 0) continue;
    sched_setaffinity(id, sizeof here, &here);
    sched_setscheduler(id, SCHED_OTHER, &usual);
  }
}

static void stop(vkf_gpu_awake *a) {
  come_here(a); /* while all threads with an id are alive */
  a->ends = true;
  spin_until(a, 0);
  for (uint32_t i = 0; i < a->n_spinners; i++) pthread_join(a->spinners[i].thread, NULL);
  a->n_spinners = 0;
}

/* ---- whether they gain something --------------------------------------------------------------------------------- */

/* Compares the least times, which other processes disturbed least. */
void vkf_gpu_awake_decide(vkf_gpu_awake *a, vkf_env *env, uint64_t (*round_ns)(void)) {
  uint64_t without = UINT64_MAX, with = UINT64_MAX;
  for (int i = 0; i < TRIALS; i++) {
    const uint64_t before = round_ns();
    if (i == 0) start(a);
    spin_until(a, vkf_clock_ns() + VKF_GPU_WAIT_SLICE_NS);
    const uint64_t behind = round_ns();
    if (a->n_pending == 0) a->until_ns = 0;
    without = VKF_MIN(without, before);
    with = VKF_MIN(with, behind);
  }
  const bool gains = (double)with <= GAIN * (double)without;
  vkf_env_log(env, VKF_LOG_INFO,
              "threads that wait for each other take %.0f us a round, %.0f while cores are kept awake: %s",
              (double)without / 1e3, (double)with / 1e3, gains ? "they are" : "they are not");
  if (!gains) stop(a);
}

/* ---- a device's -------------------------------------------------------------------------------------------------- */

vkf_status vkf_gpu_awake_create(vkf_env *env, const vkf_caps *caps, vkf_gpu_awake **out) {
  const char *asked = getenv("VKF_KEEP_AWAKE");
  cpu_set_t cores;
  *out = NULL;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0 || !is_wanted(caps, &cores)) return VKF_OK;
  vkf_gpu_awake *a = vkf_env_alloc(env, 1, sizeof *a);
  if (!a) return VKF_ERROR_MEMORY;
  a->env = env;
  a->cores = cores;
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->rise, NULL);
  a->is_decided = asked && strcmp(asked, "1") == 0;
  if (a->is_decided) start(a);
  *out = a;
  return VKF_OK;
}

void vkf_gpu_awake_submit(vkf_gpu_awake *a) {
  if (!a) return;
  const uint64_t now = vkf_clock_ns();
  if (a->n_pending++ == 0) a->begin_ns = now;
  spin_until(a, now + VKF_GPU_WAIT_SLICE_NS);
}

void vkf_gpu_awake_wait(vkf_gpu_awake *a) {
  if (a) spin_until(a, vkf_clock_ns() + VKF_GPU_WAIT_SLICE_NS);
}

void vkf_gpu_awake_done(vkf_gpu_awake *a, vkf_env *env) {
  if (!a || --a->n_pending != 0) return;
  const uint64_t now = vkf_clock_ns();
  a->until_ns = now + LINGER_NS;
  a->busy_ns += now - a->begin_ns;
  if (a->busy_ns >= TRIAL_BEHIND_NS && !atomic_exchange(&a->is_decided, true))
    vkf_gpu_awake_decide(a, env, vkf_gpu_lockstep_ns);
}

void vkf_gpu_awake_destroy(vkf_gpu_awake **awake) {
  vkf_gpu_awake *a = *awake;
  *awake = NULL;
  if (!a) return;
  stop(a);
  pthread_cond_destroy(&a->rise);
  pthread_mutex_destroy(&a->lock);
  vkf_env_free(a->env, a);
}

#else

vkf_status vkf_gpu_awake_create(vkf_env *env, const vkf_caps *caps, vkf_gpu_awake **out) {
  (void)env;
  (void)caps;
  *out = NULL;
  return VKF_OK;
}

void vkf_gpu_awake_submit(vkf_gpu_awake *a) {
  (void)a;
}

void vkf_gpu_awake_wait(vkf_gpu_awake *a) {
  (void)a;
}

void vkf_gpu_awake_done(vkf_gpu_awake *a, vkf_env *env) {
  (void)a;
  (void)env;
}

void vkf_gpu_awake_destroy(vkf_gpu_awake **awake) {
  (void)awake;
}

#endif
