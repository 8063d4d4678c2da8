/* doctor: checks everything that vkformer needs from a machine, and says in plain words what is missing. */
#define _POSIX_C_SOURCE 200809L

#include "doctor.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vkformer/lab.h>

#include "wide_vectors.h"

static const char *const healths[] = {"ok", "note", "warning", "fault"};

void tool_add_finding(tool_visit *d, tool_health health, const char *area, const char *advice, const char *fmt, ...) {
  char text[2048];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  json_array_append_new(d->findings, json_pack("{s:s, s:s, s:o, s:s?}", "area", area, "state", healths[health], "text",
                                               tool_json_text(text, strlen(text)), "advice", advice));
}

/* ---- what is looked at ------------------------------------------------------------------------------------------- */

static void look_at_build(tool_visit *d) {
  tool_add_finding(d, TOOL_HEALTH_OK, "build", NULL, "vkformer %s (%s)", vkf_version(), tool_commit);
  if (tool_has_coopmat)
    tool_add_finding(d, TOOL_HEALTH_OK, "build", NULL, "kernels for matrix cores are built in");
  else
    tool_add_finding(
        d, TOOL_HEALTH_NOTE, "build",
        "for GPUs with matrix cores: build with Vulkan headers 1.3.255 or newer and a glslang of that time",
        "kernels for matrix cores were left out: the glslang or the Vulkan headers of the build are too old");
  const unsigned bits = tool_vector_width(tool_cpu_has_avx512(), getenv(TOOL_VECTOR_WIDTH), d->args->no_wide_vectors);
  if (bits)
    tool_add_finding(d, TOOL_HEALTH_OK, "processor", NULL, "%u cores; lavapipe is asked for vectors of %u bits",
                     vkf_core_count(), bits);
  else
    tool_add_finding(d, TOOL_HEALTH_OK, "processor", NULL, "%u cores; lavapipe has its usual vector width",
                     vkf_core_count());
}

static void look_at_environment(tool_visit *d) {
  static const char *const names[] = {"VK_DRIVER_FILES",    "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES",
                                      "VKF_DEVICE",         "VKF_CACHE_DIR",    "VKF_VALIDATION",
                                      "VK_INSTANCE_LAYERS", TOOL_VECTOR_WIDTH,  "VK_LOADER_LAYERS_ENABLE"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    if (value) tool_add_finding(d, TOOL_HEALTH_NOTE, "environment", NULL, "%s is set: \"%s\"", names[i], value);
  }
}

/* Returns whether there is a loader. */
static bool look_at_loader(tool_visit *d) {
  char why[512];
  json_t *answer = tool_doctor_ask(d->args, NULL, true, why, sizeof why);
  const char *reason = json_string_value(json_object_get(answer, "why"));
  const size_t n = json_array_size(json_object_get(answer, "devices"));
  const bool has_none = reason && strstr(reason, "Vulkan loader"); /* the library's sentences about it */
  if (!answer)
    tool_add_finding(d, TOOL_HEALTH_FAULT, "loader", "repair or remove the drivers that are at fault below",
                     "the devices cannot be listed, so no command works: %.*s", (int)strcspn(why, ";"), why);
  else if (n)
    tool_add_finding(d, TOOL_HEALTH_OK, "loader", NULL, "the Vulkan loader lists %zu device%s", n, n == 1 ? "" : "s");
  else if (has_none)
    tool_add_finding(d, TOOL_HEALTH_FAULT, "loader",
                     "install it: Debian and Ubuntu: apt install libvulkan1; Fedora: dnf install vulkan-loader", "%s",
                     reason);
  else
    tool_add_finding(d, TOOL_HEALTH_WARNING, "loader", NULL, "the Vulkan loader is there and lists no device");
  d->is_stuck = !answer;
  d->n_listed = n;
  json_decref(answer);
  return !has_none;
}

/* Looks whether the kernel of this system offers a GPU and this user may open it. */
static void look_at_nodes(tool_visit *d) {
  DIR *folder = opendir("/dev/dri");
  size_t n = 0, n_open = 0;
  char path[300];
  for (const struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder)) {
    if (strncmp(e->d_name, "renderD", 7) != 0) continue;
    snprintf(path, sizeof path, "/dev/dri/%s", e->d_name);
    n++;
    n_open += access(path, R_OK | W_OK) == 0;
  }
  if (folder) closedir(folder);
  if (n > n_open)
    tool_add_finding(d, TOOL_HEALTH_WARNING, "gpu",
                     "add yourself to the group that owns it: sudo usermod -aG render $USER",
                     "%zu of %zu files /dev/dri/renderD* cannot be opened by this user", n - n_open, n);
  if (d->n_gpus) return;
  if (!d->n_software)
    tool_add_finding(d, TOOL_HEALTH_FAULT, "gpu", "--device ref computes on the host without Vulkan, slowly",
                     "no Vulkan device can be used");
  else if (n || access("/proc/driver/nvidia", F_OK) == 0)
    tool_add_finding(d, TOOL_HEALTH_WARNING, "gpu",
                     "install its Vulkan driver: apt install mesa-vulkan-drivers (AMD, Intel), or the maker's (NVIDIA)",
                     "the system has a GPU, but no driver gives it to Vulkan: the CPU computes");
  else
    tool_add_finding(
        d, TOOL_HEALTH_NOTE, "gpu",
        "if this machine has a GPU, the system does not show it (no /dev/dri/renderD*): containers and virtual "
        "machines must be given it",
        "no GPU was found: the CPU computes, through a software driver");
}

/* Asks the device ref, which needs no Vulkan, about the context's cache folder. */
static void look_at_cache(tool_visit *d) {
  tool_session session = {0};
  vkf_kept_info kept = {VKF_KEPT_INFO_INIT};
  static const char elsewhere[] = "set VKF_CACHE_DIR to a folder of your own that you can write to";
  vkf_status status = vkf_context_create(NULL, &session.context);
  if (status == VKF_OK) status = vkf_device_open(session.context, "ref", &session.device);
  if (status == VKF_OK) status = vkf_device_get_kept_info(session.device, &kept);
  if (status != VKF_OK)
    tool_add_finding(d, TOOL_HEALTH_FAULT, "cache", NULL, "%s", vkf_context_message(session.context));
  else if (!kept.cache_folder)
    tool_add_finding(d, TOOL_HEALTH_NOTE, "cache", elsewhere,
                     "nothing is kept between runs: checks and the probe run at each start");
  else if (kept.is_refused)
    tool_add_finding(d, TOOL_HEALTH_WARNING, "cache", elsewhere,
                     "%s: it is no folder, or another user could have written it, so it is not used",
                     kept.cache_folder);
  else if (!kept.can_write)
    tool_add_finding(d, TOOL_HEALTH_WARNING, "cache", elsewhere,
                     "%s: cannot be written%s: checks and the probe run at each start, and tuning is lost",
                     kept.cache_folder,
                     access(kept.cache_folder, W_OK | X_OK) == 0 ? " (the disk is full, or nearly)" : "");
  else
    tool_add_finding(d, TOOL_HEALTH_OK, "cache", NULL, "%s", kept.cache_folder);
  tool_session_close(&session, TOOL_OK);
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

/* Prints the advice of one state, numbered from n + 1 on. Returns the last number. */
static size_t print_advice(const tool_visit *d, const char *wanted, size_t n, FILE *file) {
  size_t i;
  const json_t *finding;
  const char *area, *state, *advice;
  json_array_foreach(d->findings, i, finding) {
    if (json_unpack((json_t *)finding, "{s:s, s:s, s:s}", "area", &area, "state", &state, "advice", &advice) != 0 ||
        strcmp(state, wanted) != 0)
      continue;
    fprintf(file, "%3zu. %s: %s\n", ++n, area, advice);
  }
  return n;
}

static bool has_advice(const tool_visit *d, const char *state) {
  size_t i;
  const json_t *finding;
  json_array_foreach(d->findings, i, finding) {
    if (json_is_string(json_object_get(finding, "advice")) && strcmp(tool_json_get_text(finding, "state"), state) == 0)
      return true;
  }
  return false;
}

/* Prints the findings, faults first, in whatever order they were found. */
static void print_findings(const tool_visit *d, FILE *file) {
  const char *const fault = healths[TOOL_HEALTH_FAULT], *const warning = healths[TOOL_HEALTH_WARNING],
                    *const note = healths[TOOL_HEALTH_NOTE];
  size_t i, n = 0;
  const json_t *finding;
  const char *area, *state, *text;
  json_array_foreach(d->findings, i, finding) {
    json_unpack((json_t *)finding, "{s:s, s:s, s:s}", "area", &area, "state", &state, "text", &text);
    tool_print_state(file, 8, state);
    fprintf(file, " %-12s %s\n", area, text);
  }
  fputs(has_advice(d, fault) || has_advice(d, warning) ? "\nWhat to do:\n" : "\nNothing is wrong.\n", file);
  n = print_advice(d, fault, n, file);
  n = print_advice(d, warning, n, file);
  if (has_advice(d, note)) fputs("\nWhat could be better:\n", file);
  print_advice(d, note, n, file);
}

static json_t *report_json(const tool_visit *d) {
  return json_pack("{s:s, s:s, s:s, s:O, s:O}", "format", "vkformer-doctor/1", "vkformer", vkf_version(), "commit",
                   tool_commit, "findings", d->findings, "devices", d->devices);
}

/* Writes the text, followed by all facts. */
static int write_report(const tool_visit *d) {
  char *text = NULL;
  size_t size = 0;
  json_t *json = report_json(d);
  char *facts = json ? json_dumps(json, JSON_INDENT(2) | TOOL_JSON_DIGITS) : NULL;
  FILE *file = facts ? open_memstream(&text, &size) : NULL;
  if (file) print_findings(d, file);
  if (file) fprintf(file, "\n%s\n", facts);
  const bool done = file && fclose(file) == 0;
  int exit_code = done ? tool_write_file(d->args->report, text, size) : tool_error("out of memory");
  free(text);
  free(facts);
  json_decref(json);
  return exit_code;
}

static int run_doctor(const tool_args *args) {
  tool_visit d = {.args = args, .findings = json_array(), .devices = json_array()};
  if (args->worker) {
    json_decref(d.findings);
    json_decref(d.devices);
    return tool_doctor_answer(args);
  }
  int exit_code = tool_args_check_files(args);
  if (exit_code == TOOL_OK) {
    look_at_build(&d);
    look_at_environment(&d);
    if (look_at_loader(&d)) tool_doctor_drivers(&d);
    look_at_nodes(&d);
    look_at_cache(&d);
    if (args->report) exit_code = write_report(&d);
    if (args->json)
      exit_code = tool_both_exit_codes(exit_code, tool_print_json(report_json(&d)));
    else
      print_findings(&d, stdout);
  }
  json_decref(d.findings);
  json_decref(d.devices);
  if (exit_code != TOOL_OK) return exit_code;
  return d.n_wrong ? TOOL_WRONG : !d.is_stuck && d.n_gpus + d.n_software ? TOOL_OK : TOOL_NO_DEVICE;
}

static const tool_option options[] = {
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print the findings and every fact as JSON"},
    {"report", 0, TOOL_OUTPUT, offsetof(tool_args, report), "FILE",
     "write the findings and the facts to a file for a bug report"},
    {"worker", 0, TOOL_FLAG, offsetof(tool_args, worker), NULL,
     "used by doctor itself: look at the drivers in this process"},
    {"list", 0, TOOL_FLAG, offsetof(tool_args, list), NULL, "used by doctor itself: only list their devices"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_doctor = {
    .name = "doctor",
    .summary = "Say what this machine lacks for computing, and what to do",
    .usage = "[OPTION]...",
    .text =
        "Looks at the build, the Vulkan loader, every driver, its devices, their checks, a result of\n"
        "every kernel, tuning and caches. Each driver runs in a process of its own. The exit code is 0\n"
        "if a device can be used, 1 if one computes wrong results, 3 if there is none.",
    .examples =
        "  vkformer doctor\n"
        "  vkformer doctor --report report.txt\n",
    .groups = {&group, &tool_driver_options, &tool_common_options},
    .run = run_doctor,
    .computes_nothing = true,
};
