/* session: opens what a command works with. On standard error it reports failures, choices and progress.
 *
 * Invariant: one failure gives one sentence. The library's log lines are printed here, too; a progress line is cleared
 * before them.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vkformer/lab.h>

#include "program.h"
#include "wide_vectors.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void print_message(const char *fmt, va_list args) {
  fflush(stdout); /* results and messages keep their order if both go to one place */
  fputs("vkformer: ", stderr);
  vfprintf(stderr, fmt, args);
  fputc('\n', stderr);
}

int tool_error(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  print_message(fmt, args);
  va_end(args);
  return TOOL_FAILED;
}

int tool_usage_error(const char *command, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  print_message(fmt, args);
  va_end(args);
  fprintf(stderr, "See `vkformer %s%s--help`.\n", command ? command : "", command ? " " : "");
  return TOOL_USAGE;
}

const char *tool_session_message(const tool_session *session) {
  const char *message = vkf_session_message(session->run);
  return message[0] ? message : vkf_context_message(session->context);
}

int tool_session_fail(tool_session *session, vkf_status status, const char *where) {
  tool_progress_end(session);
  const char *message = tool_session_message(session);
  if (!message[0]) message = vkf_status_name(status);
  tool_error("%s%s%s", where ? where : "", where ? ": " : "", message);
  return tool_exit_code(status);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

void tool_progress(tool_session *session, const char *fmt, ...) {
  if (!session->terminal) return;
  va_list args;
  va_start(args, fmt);
  fputs("\r\033[K", stderr);
  vfprintf(stderr, fmt, args);
  fflush(stderr);
  va_end(args);
  session->line_is_open = true;
}

int tool_progress_bytes(void *user, uint64_t done, uint64_t all) {
  enum { BAR = 30, STEP = 1 << 20 };
  static const char full[] = "##############################";
  const int n = all ? (int)(BAR * (double)done / (double)all) : BAR;
  if (done % (16 * STEP) < STEP || done == all)
    tool_progress(user, "[%-*.*s] %.0f of %.0f MB", BAR, n, full, (double)done / 1e6, (double)all / 1e6);
  return 0;
}

void tool_progress_end(tool_session *session) {
  if (session->line_is_open) fputs("\r\033[K", stderr);
  session->line_is_open = false;
}

double tool_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- context, device, model -------------------------------------------------------------------------------------- */

/* tool_session_fail() reports failures, so the library's own lines about them are not printed. */
static void on_log(void *user, vkf_log_level level, const char *line) {
  if (level == VKF_LOG_ERROR) return;
  tool_progress_end(user);
  fprintf(stderr, "vkformer: %s\n", line);
}

/* Sets the vector width and Mesa's cache folder for it; bits 0: the driver's own width and cache. Turns the cache off
 * if its disk has no room, or if a width is given and no folder is known. */
static bool set_vector_width(unsigned bits) {
  char parent[4096], folder[4096], text[16];
  const bool is_known = tool_vectors_cache(bits, getenv(TOOL_MESA_CACHE), getenv("XDG_CACHE_HOME"), getenv("HOME"),
                                           parent, folder, sizeof folder);
  if (is_known) mkdir(parent, 0700); /* Mesa makes the last one; if it cannot, it keeps nothing */
  const bool is_off = is_known ? !tool_cache_has_room(parent) : bits != 0;
  if (is_off && setenv("MESA_SHADER_CACHE_DISABLE", "true", 1) != 0) return false;
  if (!bits) return true;
  snprintf(text, sizeof text, "%u", bits);
  return setenv(TOOL_VECTOR_WIDTH, text, 0) == 0 && (is_off || setenv(TOOL_MESA_CACHE, folder, 1) == 0);
}

/* word: the value of --weights or --kv-cache; NULL: auto. VKF_STORAGE_Q8 is not one of them: see --activations. */
static int find_storage(const char *command, const char *option, const char *word, vkf_storage *out) {
  char names[64] = "";
  *out = VKF_STORAGE_AUTO;
  for (int i = 0; word; i++) {
    const char *name = i < VKF_STORAGE_Q8 ? vkf_storage_name((vkf_storage)i) : NULL;
    const char *next = i + 1 < VKF_STORAGE_Q8 ? vkf_storage_name((vkf_storage)(i + 1)) : NULL;
    *out = (vkf_storage)i;
    if (!name) return tool_usage_error(command, "--%s: expected %s, found '%s'", option, names, word);
    if (strcmp(name, word) == 0) break;
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", !i ? "" : next ? ", " : " or ", name);
  }
  return TOOL_OK;
}

/* Changes *weights, as --weights set it, to VKF_STORAGE_Q8 (int8 weights with rounded activations) for --activations
 * q8. */
static int find_activations(const char *command, const char *word, vkf_storage *weights) {
  if (!word || strcmp(word, "f32") == 0) return TOOL_OK;
  if (strcmp(word, "q8") != 0) return tool_usage_error(command, "--activations: expected f32 or q8, found '%s'", word);
  if (*weights != VKF_STORAGE_INT8)
    return tool_usage_error(command, "--activations q8: expected --weights int8, found --weights %s",
                            vkf_storage_name(*weights));
  *weights = VKF_STORAGE_Q8;
  return TOOL_OK;
}

static vkf_status create_context(tool_session *session, const tool_args *args, bool logs) {
  vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT};
  params.log = logs ? on_log : NULL;
  params.log_user = session;
  params.log_level = args->verbose > 1 ? VKF_LOG_DEBUG : args->verbose ? VKF_LOG_INFO : VKF_LOG_WARNING;
  params.icd_files = args->icd_files.at;
  params.n_icd_files = args->icd_files.n;
  params.deterministic = args->deterministic;
  params.batch_invariant = args->batch_invariant;
  params.limits = args->limits;
  vkf_status status = vkf_context_create(&params, &session->context);
  if (status == VKF_OK && args->no_checks) vkf_context_skip_checks(session->context);
  return status;
}

int tool_session_open_context(tool_session *session, const tool_args *args) {
  memset(session, 0, sizeof *session);
  session->profile = args->profile;
  session->tells_of_cpu = !args->command || !args->command->computes_nothing;
  vkf_model_params_init(&session->how);
  vkf_session_params_init(&session->run_how);
  session->run_how.kv_cache_bytes = args->kv_cache_bytes;
  const char *command = args->command ? args->command->name : NULL;
  if (find_storage(command, "weights", args->weights, &session->how.weights) != TOOL_OK ||
      find_activations(command, args->activations, &session->how.weights) != TOOL_OK ||
      find_storage(command, "kv-cache", args->kv_cache, &session->how.kv_cache) != TOOL_OK)
    return TOOL_USAGE;
  session->terminal = isatty(STDERR_FILENO) == 1;
  /* before the driver is loaded, which reads the variable */
  const unsigned bits = tool_vector_width(tool_cpu_has_avx512(), getenv(TOOL_VECTOR_WIDTH), args->no_wide_vectors);
  if (tool_args_check_files(args) != TOOL_OK) return TOOL_FAILED;
  if (!set_vector_width(bits)) return tool_error("%s and %s cannot be set", TOOL_VECTOR_WIDTH, TOOL_MESA_CACHE);
  vkf_status status = create_context(session, args, true);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

int tool_session_check_limits(const tool_args *args) {
  tool_session session = {0};
  if (!args->limits) return TOOL_OK;
  vkf_status status = create_context(&session, args, false);
  if (status == VKF_OK) status = vkf_device_open(session.context, "ref", &session.device);
  return tool_session_close(&session, status == VKF_OK ? TOOL_OK : tool_session_fail(&session, status, NULL));
}

bool tool_device_is_chosen(const char *device) {
  const char *by_environment = getenv("VKF_DEVICE");
  return (device && device[0]) || (by_environment && by_environment[0]);
}

int tool_session_open_device(tool_session *session, const char *device) {
  vkf_status status = vkf_device_open(session->context, device && device[0] ? device : NULL, &session->device);
  if (status == VKF_OK && !tool_device_is_chosen(device) && session->tells_of_cpu &&
      vkf_device_get_info(session->device)->kind == VKF_DEVICE_CPU)
    fprintf(stderr, "vkformer: no GPU was found: computing on the CPU with %s\n",
            vkf_device_get_info(session->device)->name);
  if (status == VKF_OK && session->profile)
    status = vkf_device_profile_begin(session->device, session->profile[0] != 0);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

int tool_session_each_device(tool_session *session, const char *selector,
                             int (*work)(void *user, tool_session *session, const char *device), void *user) {
  if (!selector || strcmp(selector, "all") != 0) return work(user, session, selector);
  size_t n = 0;
  const vkf_status status = vkf_context_list_devices(session->context, &n);
  int exit_code = status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
  for (size_t i = 0; status == VKF_OK && i < n; i++) {
    char index[24];
    snprintf(index, sizeof index, "%zu", i);
    exit_code = tool_both_exit_codes(exit_code, work(user, session, index));
  }
  return exit_code;
}

int tool_session_open_model(tool_session *session, const char *folder) {
  vkf_model_params how = session->how;
  how.on_progress = tool_progress_bytes;
  how.user = session;
  vkf_status status = vkf_model_open_with(session->device, folder, &how, &session->model);
  tool_progress_end(session);
  if (status == VKF_OK) status = vkf_session_create(session->model, &session->run_how, &session->run);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

int tool_session_open(tool_session *session, const tool_args *args, const char *device, const char *folder) {
  int exit_code = tool_session_open_context(session, args);
  if (exit_code == TOOL_OK) exit_code = tool_session_open_device(session, device);
  if (exit_code == TOOL_OK && folder) exit_code = tool_session_open_model(session, folder);
  return exit_code;
}

vkf_status tool_session_begin_copy(tool_session *copy, const tool_session *first, const tool_args *args) {
  *copy = (tool_session){.how = first->how, .run_how = first->run_how};
  return create_context(copy, args, false);
}

vkf_status tool_session_open_copy(tool_session *copy, const vkf_model *first, const char *device, const char *folder) {
  vkf_status status = VKF_OK;
  vkf_model_params how = copy->how;
  how.weights_of = first;
  if (!copy->device) status = vkf_device_open(copy->context, device[0] ? device : NULL, &copy->device);
  if (status == VKF_OK) status = vkf_model_open_with(copy->device, folder, &how, &copy->model);
  if (status == VKF_OK) status = vkf_session_create(copy->model, &copy->run_how, &copy->run);
  return status;
}

int tool_session_close_device(tool_session *session, int exit_code) {
  tool_progress_end(session);
  vkf_session_destroy(&session->run);
  vkf_model_close(&session->model);
  if (session->profile && session->device) {
    int written = tool_profile_write(session->device, session->profile);
    if (exit_code == TOOL_OK) exit_code = written;
  }
  vkf_device_close(&session->device);
  return exit_code;
}

int tool_session_close(tool_session *session, int exit_code) {
  exit_code = tool_session_close_device(session, exit_code);
  vkf_context_destroy(&session->context);
  return exit_code;
}

/* ---- the shipped model ------------------------------------------------------------------------------------------- */

/* Writes the folder of this executable to `path`; false if the system does not say. */
static bool executable_folder(char *path, size_t size) {
  ssize_t n = readlink("/proc/self/exe", path, size - 1);
  if (n <= 0) return false;
  path[n] = 0;
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = 0;
  return true;
}

int tool_find_shipped(const char *name, const char *probe, char *path, size_t size) {
  char folder[2048];
  if (!executable_folder(folder, sizeof folder)) folder[0] = 0;
  /* beside the build folder, in the share folder of the same prefix, in the prefix of the build, in its sources */
  static const char *const beside[] = {"/..", "/../share/vkformer"};
  static const char *const fixed[] = {VKF_DATA_DIR, VKF_SOURCE_DIR};
  for (int i = 0; i < 4; i++) {
    char file[4096];
    int n = snprintf(path, size, "%s%s/%s", i < 2 ? folder : "", i < 2 ? beside[i] : fixed[i - 2], name);
    if (n >= (int)size || (i < 2 && !folder[0])) continue;
    snprintf(file, sizeof file, "%s%s", path, probe);
    if (access(file, R_OK) == 0) return TOOL_OK;
  }
  return TOOL_FAILED;
}

int tool_find_model(const tool_args *args, char *path, size_t size) {
  if (args->model)
    return snprintf(path, size, "%s", args->model) < (int)size ? TOOL_OK : tool_error("--model: too long a name");
  if (tool_find_shipped("models/en-es", "/config.json", path, size) == TOOL_OK) return TOOL_OK;
  return tool_error(
      "expected the model that comes with vkformer next to the program or in %s, found none: name a folder "
      "with --model DIR",
      VKF_DATA_DIR "/models/en-es");
}
