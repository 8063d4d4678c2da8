/* crew: see crew.h.
 *
 * The first worker runs on the caller's thread. All contexts are created on that thread, too, because creating one may
 * change the environment; each worker opens the rest of its session on its own thread when it gets a job. Invariant: a
 * job's flag is set if its result is there, whichever worker did it.
 */
#define _POSIX_C_SOURCE 200809L

#include "crew.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DRIVER_THREADS "LP_NUM_THREADS"
/* Bytes of weights. Above it, a dispatch is long enough for several threads, and one copy per worker takes too much
 * memory. */
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
  const char *device;      /* as --device takes it; NULL: the first worker's */
  bool is_out, is_told_of; /* it failed and gets no more jobs; a line said so */
  bool has_thread;
  pthread_t thread;
};

static bool is_small(const char *folder) {
  char path[4200];
  struct stat found;
  /* A model in shards has no such file, so it counts as large. */
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  return stat(path, &found) == 0 && found.st_size <= SMALL_MODEL;
}

/* ---- how many workers, and where --------------------------------------------------------------------------------- */

const tool_option_group tool_crew_options = TOOL_GROUP(
    "Workers", ((const tool_option[]){
                   {"workers", 0, TOOL_SIZE, offsetof(tool_args, workers), "N",
                    "run N batches at the same time on each device; the output is\nthe same. Default: one per core, at "
                    "most 8, on lavapipe and ref;\none on other devices, for models over 128 MB, and if all "
                    "prompts\nof generate are one batch. --device all, or D,D..., uses several\ndevices"},
                   {"driver-threads", 0, TOOL_TEXT, offsetof(tool_args, driver_threads), "N",
                    "threads of lavapipe; 0: the worker's own thread computes.\nDefault: $LP_NUM_THREADS, else 0 for "
                    "models up to 128 MB with\nseveral workers or one text, else one per core"},
               }));

static size_t default_workers(const tool_crew *crew) {
  const size_t cores = vkf_core_count();
  if (!is_small(crew->folder) || crew->args->profile) return 1;
  return cores < crew->limit ? cores : crew->limit;
}

/* Returns how many workers an open device gets. */
static size_t device_workers(const tool_crew *crew, const vkf_device *device) {
  const vkf_device_info *info = vkf_device_get_info(device);
  /* SwiftShader uses all cores with one worker, and has no setting to use fewer. */
  const bool by_caller =
      info->kind == VKF_DEVICE_REF || (info->kind == VKF_DEVICE_CPU && strcmp(info->alias, "lavapipe") == 0);
  return crew->args->workers ? crew->args->workers : by_caller ? default_workers(crew) : 1;
}

static int check_options(const tool_args *args) {
  const char *threads = args->driver_threads, *command = args->command->name;
  if (args->workers > MAX_WORKERS)
    return tool_usage_error(command, "--workers: expected at most %d, found %zu", MAX_WORKERS, args->workers);
  if (args->workers > 1 && args->profile)
    return tool_usage_error(command, "--profile: expected one worker, which is the one measured, found --workers %zu",
                            args->workers);
  if (threads && (strspn(threads, "0123456789") != strlen(threads) || !threads[0] || strlen(threads) > 3))
    return tool_usage_error(command, "--driver-threads: expected a whole number from 0 to 999, found '%s'", threads);
  return TOOL_OK;
}

/* Sets the driver's number of threads in the environment, where the driver reads it. */
static int choose_threads(const tool_crew *crew, tool_workload load) {
  const char *threads = crew->args->driver_threads;
  const size_t workers = crew->args->workers ? crew->args->workers : default_workers(crew);
  /* Threads of the driver help if batches are large and some cores are not used by other workers. */
  const bool helps = load != TOOL_ONE_AT_A_TIME && workers == 1 && vkf_core_count() > 1;
  if (!threads && !getenv(DRIVER_THREADS) && is_small(crew->folder) && !helps) threads = "0";
  return !threads || setenv(DRIVER_THREADS, threads, 1) == 0 ? TOOL_OK : tool_error(DRIVER_THREADS " cannot be set");
}

static int add_device(tool_crew *crew, const char *selector, size_t length) {
  if (length == 0 && crew->args->device && crew->args->device[0])
    return tool_usage_error(crew->args->command->name, "--device: expected a device between commas, found '%s'",
                            crew->args->device);
  char **devices = realloc(crew->devices, (crew->n_devices + 1) * sizeof *devices);
  if (devices) crew->devices = devices;
  if (devices) devices[crew->n_devices] = strndup(selector, length);
  if (!devices || !devices[crew->n_devices]) return tool_error("out of memory");
  crew->n_devices++;
  return TOOL_OK;
}

/* Lists the devices of --device. "all" are all that Vulkan lists, or ref. */
static int list_devices(tool_crew *crew) {
  const char *rest = crew->args->device ? crew->args->device : "";
  int exit_code = TOOL_OK;
  if (strcmp(rest, "all") == 0) {
    size_t n = 0;
    const vkf_status status = vkf_context_list_devices(crew->first->context, &n);
    if (status != VKF_OK) return tool_session_fail(crew->first, status, NULL);
    for (size_t i = 0; i < (n > 1 ? n - 1 : 1) && exit_code == TOOL_OK; i++) {
      char index[24];
      exit_code = add_device(crew, index, (size_t)snprintf(index, sizeof index, "%zu", i));
    }
    return exit_code;
  }
  for (bool more = true; more && exit_code == TOOL_OK;) { /* a comma with a space after it belongs to a name */
    const char *end = strchr(rest, ',');
    while (end && end[1] == ' ') end = strchr(end + 1, ',');
    more = end != NULL;
    exit_code = add_device(crew, rest, more ? (size_t)(end - rest) : strlen(rest));
    if (more) rest = end + 1;
  }
  return exit_code;
}

/* Opens the devices after the first, because the kind of a device decides how many workers it gets. */
static int open_devices(tool_crew *crew) {
  tool_crew_worker *others = calloc((crew->n_devices + 1) * MAX_WORKERS, sizeof *others);
  if (!others) return tool_error("out of memory");
  crew->others = others;
  for (size_t d = 1; d < crew->n_devices; d++) {
    tool_crew_worker *w = &others[crew->most - 1];
    vkf_status status = tool_session_begin_copy(&w->session, crew->first, crew->args);
    if (status == VKF_OK) status = vkf_device_open(w->session.context, crew->devices[d], &w->session.device);
    crew->most++; /* it is closed either way */
    if (status != VKF_OK) return tool_session_fail(&w->session, status, "--device");
    const size_t more = device_workers(crew, w->session.device);
    for (size_t i = 0; i < more; i++) w[i].device = crew->devices[d];
    crew->most += more - 1;
  }
  return TOOL_OK;
}

static void say_choice(const tool_crew *crew) {
  const bool is_lavapipe = strcmp(vkf_device_get_info(crew->first->device)->alias, "lavapipe") == 0;
  const char *threads = getenv(DRIVER_THREADS);
  fprintf(stderr, "vkformer: at most %zu worker%s", crew->most, crew->most == 1 ? "" : "s");
  if (is_lavapipe) fprintf(stderr, "; threads of the driver for each: %s", threads ? threads : "one a core");
  fprintf(stderr, "\n");
}

int tool_crew_open(tool_crew *crew, const tool_args *args, tool_session *first, const char *folder,
                   tool_workload load) {
  *crew = (tool_crew){.args = args, .folder = folder, .first = first, .most = 1};
  crew->limit = load == TOOL_ONE_BATCH ? 1 : MAX_CHOSEN;
  if (check_options(args) != TOOL_OK) return TOOL_USAGE;
  int exit_code = choose_threads(crew, load);
  if (exit_code == TOOL_OK) exit_code = tool_session_open_context(first, args);
  if (exit_code == TOOL_OK) exit_code = list_devices(crew);
  if (exit_code == TOOL_OK && args->profile && crew->n_devices > 1)
    exit_code =
        tool_usage_error(args->command->name,
                         "--profile: expected one device, which is the one measured, found --device %s", args->device);
  if (exit_code == TOOL_OK) exit_code = tool_session_open_device(first, crew->devices[0]);
  if (exit_code == TOOL_OK) exit_code = tool_session_open_model(first, folder);
  if (exit_code != TOOL_OK) return exit_code;
  crew->shares_model = vkf_device_get_info(first->device)->kind != VKF_DEVICE_CPU;
  crew->most = device_workers(crew, first->device);
  if (crew->n_devices > 1) exit_code = open_devices(crew);
  if (args->verbose && exit_code == TOOL_OK) say_choice(crew);
  return exit_code;
}

/* ---- one worker -------------------------------------------------------------------------------------------------- */

static bool take(crew_work *work, size_t *i) {
  pthread_mutex_lock(&work->lock);
  const bool is_there = !work->has_failed && work->next < work->n;
  if (is_there) *i = work->next++;
  pthread_mutex_unlock(&work->lock);
  return is_there;
}

/* Whether it runs the first worker's model. */
static bool is_sharing(const tool_crew_worker *w) {
  return w->crew->shares_model && !w->device;
}

static vkf_status open_worker(tool_crew_worker *w) {
  const tool_crew *crew = w->crew;
  if (w->session.run) return VKF_OK;
  if (is_sharing(w)) return vkf_session_create(crew->first->model, &crew->first->run_how, &w->session.run);
  const char *device = w->device ? w->device : crew->n_devices ? crew->devices[0] : "";
  return tool_session_open_copy(&w->session, crew->first->model, device, crew->folder);
}

static void *do_jobs(void *user) {
  tool_crew_worker *w = user;
  vkf_status status = open_worker(w);
  size_t i;
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
    if (!w->session.context && !w->is_out && !is_sharing(w))
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
      const char *why = w->session.context || w->session.run ? tool_session_message(&w->session) : "out of memory";
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
  for (size_t i = 0; i < crew->n_devices; i++) free(crew->devices[i]);
  free(crew->devices);
  free(crew->others);
  *crew = (tool_crew){0};
}
