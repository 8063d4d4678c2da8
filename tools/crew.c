/* crew: see crew.h.
 *
 * The caller's thread is the first worker's. Contexts are made on it, because that may change the environment; devices
 * and models are opened by the workers' own threads, when they have a job. Invariant: a job's flag says that its result
 * is there, whoever did it.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "crew.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER_THREADS "LP_NUM_THREADS"
/* Bytes of weights. Above, a dispatch is long enough for several threads, and a copy a worker is too much memory. */
#define SMALL_MODEL (INT64_C(128) << 20)
enum { MAX_WORKERS = 64, MAX_CHOSEN = 8 };

typedef struct crew_work {
  size_t n, next;
  bool *is_done; /* [n] */
  bool has_failed;
  vkf_status (*job)(void *user, vkf_session *session, size_t i);
  void *user;
  pthread_mutex_t lock; /* of next, has_failed */
} crew_work;

struct tool_crew_worker {
  tool_crew *crew;
  crew_work *work;
  tool_session session;
  bool is_out, is_told_of; /* it failed and gets no more jobs; a line said so */
  bool has_thread;
  pthread_t thread;
};

static size_t count_cores(void) {
#ifdef CPU_COUNT
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0)
    return (size_t)CPU_COUNT(&allowed);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (size_t)online : 1;
}

static bool is_small(const char *folder) {
  char path[4200];
  struct stat found;
  snprintf(path, sizeof path, "%s/model.safetensors", folder); /* a model in shards has no such file: it is large */
  return stat(path, &found) == 0 && found.st_size <= SMALL_MODEL;
}

static size_t default_workers(const tool_crew *crew) {
  const size_t cores = count_cores();
  return is_small(crew->folder) && !crew->args->profile ? cores < MAX_CHOSEN ? cores : MAX_CHOSEN : 1;
}

int tool_crew_begin(tool_crew *crew, const tool_args *args, tool_session *first, const char *folder, bool is_batched) {
  *crew = (tool_crew){.args = args, .folder = folder, .first = first, .most = 1};
  const char *threads = args->driver_threads, *command = args->command->name;
  if (args->workers > MAX_WORKERS)
    return tool_usage_error(command, "--workers: expected at most %d, found %zu", MAX_WORKERS, args->workers);
  if (args->workers > 1 && args->profile)
    return tool_usage_error(command, "--profile: expected one worker, which is the one measured, found --workers %zu",
                            args->workers);
  if (threads && (strspn(threads, "0123456789") != strlen(threads) || !threads[0] || strlen(threads) > 3))
    return tool_usage_error(command, "--driver-threads: expected a whole number from 0 to 999, found '%s'", threads);
  const size_t workers = args->workers ? args->workers : default_workers(crew);
  /* Threads of the driver help where batches are large, cores are idle and nobody else uses them. */
  const bool helps = is_batched && workers == 1 && count_cores() > 1;
  if (!threads && !getenv(DRIVER_THREADS) && is_small(folder) && !helps) threads = "0";
  if (threads && setenv(DRIVER_THREADS, threads, 1) != 0) return tool_error(DRIVER_THREADS " cannot be set");
  return TOOL_OK;
}

void tool_crew_choose(tool_crew *crew) {
  enum { MESA_LLVMPIPE = 13 }; /* VkDriverId */
  const vkf_device_info *info = vkf_device_get_info(crew->first->device);
  /* SwiftShader has all cores at work with one worker, and cannot be told to use fewer. */
  const bool by_caller =
      info->kind == VKF_DEVICE_REF || (info->kind == VKF_DEVICE_CPU && info->driver_id == MESA_LLVMPIPE);
  crew->most = crew->args->workers ? crew->args->workers : by_caller ? default_workers(crew) : 1;
}

/* ---- one worker -------------------------------------------------------------------------------------------------- */

static bool take(crew_work *work, size_t *i) {
  pthread_mutex_lock(&work->lock);
  const bool is_there = !work->has_failed && work->next < work->n;
  if (is_there) *i = work->next++;
  pthread_mutex_unlock(&work->lock);
  return is_there;
}

static void *do_jobs(void *user) {
  tool_crew_worker *w = user;
  vkf_status status = VKF_OK;
  size_t i;
  if (!w->session.run) status = tool_session_open_copy(&w->session, w->crew->args, w->crew->folder);
  while (status == VKF_OK && take(w->work, &i)) {
    status = w->work->job(w->work->user, w->session.run, i);
    w->work->is_done[i] = status == VKF_OK;
  }
  w->is_out = status != VKF_OK;
  return NULL;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Starts threads for up to `wanted` others that have not failed. */
static void begin_others(tool_crew *crew, crew_work *work, size_t wanted) {
  if (wanted > 0 && !crew->others) crew->others = calloc(crew->most - 1, sizeof *crew->others);
  for (size_t i = 0; crew->others && i < wanted; i++) {
    tool_crew_worker *w = &crew->others[i];
    w->crew = crew;
    w->work = work;
    if (!w->session.context && !w->is_out)
      w->is_out = tool_session_begin_copy(&w->session, crew->first, crew->args) != VKF_OK;
    w->has_thread = !w->is_out && pthread_create(&w->thread, NULL, do_jobs, w) == 0;
  }
}

static void end_others(tool_crew *crew) {
  for (size_t i = 0; crew->others && i + 1 < crew->most; i++) {
    tool_crew_worker *w = &crew->others[i];
    if (w->has_thread) pthread_join(w->thread, NULL);
    w->has_thread = false;
    if (w->is_out && !w->is_told_of) {
      const char *why = w->session.context ? tool_session_message(&w->session) : "out of memory";
      tool_progress_end(crew->first);
      fprintf(stderr, "vkformer: worker %zu ends, and the others do its work: %s\n", i + 2, why);
      w->is_told_of = true;
    }
  }
}

vkf_status tool_crew_run(tool_crew *crew, size_t n, vkf_status (*job)(void *user, vkf_session *session, size_t i),
                         void *user) {
  vkf_status status = VKF_OK;
  size_t i;
  crew_work work = {.n = n, .job = job, .user = user, .is_done = calloc(n + 1, sizeof *work.is_done)};
  if (!work.is_done) return VKF_ERROR_MEMORY;
  pthread_mutex_init(&work.lock, NULL);
  if (n > 1 && crew->most > 1) begin_others(crew, &work, (n < crew->most ? n : crew->most) - 1);
  while (status == VKF_OK && take(&work, &i)) {
    status = job(user, crew->first->run, i);
    work.is_done[i] = status == VKF_OK;
  }
  pthread_mutex_lock(&work.lock);
  work.has_failed = status != VKF_OK;
  pthread_mutex_unlock(&work.lock);
  end_others(crew);
  for (i = 0; i < n && status == VKF_OK; i++)
    if (!work.is_done[i]) status = job(user, crew->first->run, i);
  pthread_mutex_destroy(&work.lock);
  free(work.is_done);
  return status;
}

void tool_crew_finish(tool_crew *crew) {
  for (size_t i = 0; crew->others && i + 1 < crew->most; i++) tool_session_close(&crew->others[i].session, TOOL_OK);
  free(crew->others);
  crew->others = NULL;
}
