/* doctor_drivers: finds the driver manifests that the Vulkan loader reads, and whether each driver works. */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vkformer/lab.h>

#include "doctor.h"

#ifdef _WIN32
#define BETWEEN_PATHS ";"
#else
#define BETWEEN_PATHS ":"
#endif

enum { MAX_MANIFESTS = 64 };

typedef struct manifests {
  char *at[MAX_MANIFESTS];
  size_t n;
} manifests;

static void add(manifests *m, const char *path) {
  for (size_t i = 0; i < m->n; i++)
    if (strcmp(m->at[i], path) == 0) return;
  if (m->n < MAX_MANIFESTS) m->at[m->n] = strdup(path);
  if (m->n < MAX_MANIFESTS && m->at[m->n]) m->n++;
}

static int is_json(const struct dirent *entry) {
  return tool_ends_with(entry->d_name, ".json");
}

/* Adds a manifest, or those of a folder. */
static void add_path(manifests *m, const char *path) {
  struct stat found;
  struct dirent **entries = NULL;
  char file[4096];
  if (stat(path, &found) != 0 || !S_ISDIR(found.st_mode)) {
    add(m, path);
    return;
  }
  const int n = scandir(path, &entries, is_json, alphasort);
  for (int i = 0; i < n; i++) {
    if (snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name) < (int)sizeof file) add(m, file);
    free(entries[i]);
  }
  free(entries);
}

/* Adds each part of a list like PATH; `inside`: the folder in it. */
static void add_list(manifests *m, const char *list, const char *inside) {
  char path[4096];
  while (list && *list) {
    const size_t n = strcspn(list, BETWEEN_PATHS);
    const int size = snprintf(path, sizeof path, "%.*s%s", (int)n, list, inside);
    struct stat found;
    if (n > 0 && size < (int)sizeof path && (!inside[0] || stat(path, &found) == 0)) add_path(m, path);
    list += n + (list[n] != 0);
  }
}

static const char *variable(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value && value[0] ? value : otherwise;
}

/* Returns the list of the only manifests that the loader reads, or NULL. Some loaders treat an empty list as no list.
 */
static const char *only_list(const tool_visit *d) {
  const char *list = getenv("VK_DRIVER_FILES");
  if (!list) list = getenv("VK_ICD_FILENAMES");
  return list && !list[0] && d->n_listed ? NULL : list;
}

/* Finds all manifests in the places where the loader looks, in its order. */
static void find_all(manifests *m, const tool_visit *d) {
  static const char inside[] = "/vulkan/icd.d";
  const char *only = only_list(d), *home = getenv("HOME");
  char own[4096];
  if (only) {
    add_list(m, only, "");
  } else {
    add_list(m, getenv("VK_ADD_DRIVER_FILES"), "");
    if (home && snprintf(own, sizeof own, "%s/.config", home) < (int)sizeof own)
      add_list(m, variable("XDG_CONFIG_HOME", own), inside);
    add_list(m, variable("XDG_CONFIG_DIRS", "/etc/xdg"), inside);
    add_list(m, "/usr/local/etc:/etc", inside);
    if (home && snprintf(own, sizeof own, "%s/.local/share", home) < (int)sizeof own)
      add_list(m, variable("XDG_DATA_HOME", own), inside);
    add_list(m, variable("XDG_DATA_DIRS", "/usr/local/share:/usr/share"), inside);
  }
  for (size_t i = 0; i < d->args->icd_files.n; i++) add(m, d->args->icd_files.at[i]);
}

/* ---- a driver without a device ----------------------------------------------------------------------------------- */

/* Tests whether the library can be opened and is a driver, in a child, because that runs code of the library. why "":
 * it is. */
static void try_library(const char *library, char *why, size_t size) {
  int from[2];
  why[0] = 0;
  if (pipe(from) != 0) return;
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const char *text = !opened ? dlerror()
                       : !dlsym(opened, "vk_icdGetInstanceProcAddr") && !dlsym(opened, "vkGetInstanceProcAddr")
                           ? "it is no Vulkan driver"
                           : "";
    _exit(write(from[1], text, strlen(text)) < 0);
  }
  close(from[1]);
  const ssize_t n = pid > 0 ? read(from[0], why, size - 1) : 0;
  why[n > 0 ? n : 0] = 0;
  close(from[0]);
  int status = 0;
  if (pid > 0) waitpid(pid, &status, 0);
  if (pid > 0 && WIFSIGNALED(status)) snprintf(why, size, "it ends the process by signal %d", WTERMSIG(status));
}

/* Reports why this manifest gives no device. otherwise: the fault to report if its library works; NULL: a note that the
 * driver finds no device. */
static void explain(tool_visit *d, const char *path, const char *otherwise) {
  char reinstall[9000];
  char library[4096], why[512];
  json_error_t error = {0};
  snprintf(reinstall, sizeof reinstall,
           "reinstall the package of %s (Debian: `dpkg -S %s` names it), or remove this file", path, path);
  if (access(path, R_OK) != 0) {
    tool_add_finding(d, TOOL_HEALTH_FAULT, "driver", "correct the variable or option that names it",
                     "%s: cannot be read: %s", path, strerror(errno));
    return;
  }
  json_t *json = json_load_file(path, 0, &error);
  const char *name = json_string_value(json_object_get(json_object_get(json, "ICD"), "library_path"));
  const char *slash = strrchr(path, '/');
  if (!json) {
    tool_add_finding(d, TOOL_HEALTH_FAULT, "driver", reinstall, "%s: expected JSON, found at line %d: %s", path,
                     error.line, error.text);
  } else if (!name) {
    tool_add_finding(d, TOOL_HEALTH_FAULT, "driver", reinstall, "%s: expected ICD.library_path, found none", path);
  } else {
    if (strchr(name, '/') && name[0] != '/' && slash)
      snprintf(library, sizeof library, "%.*s/%s", (int)(slash - path), path, name);
    else
      snprintf(library, sizeof library, "%s", name);
    try_library(library, why, sizeof why);
    if (why[0])
      tool_add_finding(d, TOOL_HEALTH_FAULT, "driver", reinstall, "%s: its library cannot be used: %s", path, why);
    else if (otherwise)
      tool_add_finding(d, TOOL_HEALTH_FAULT, "driver",
                       "remove or update this driver: it may break every program with Vulkan", "%s: %s", path,
                       otherwise);
    else
      tool_add_finding(d, TOOL_HEALTH_NOTE, "driver", NULL, "%s: the driver works, but finds no device that it is for",
                       path);
  }
  json_decref(json);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void add_checks(tool_visit *d, const char *name, const json_t *checks) {
  size_t i, n_passed = 0, n_failed = 0;
  const json_t *check;
  json_array_foreach((json_t *)checks, i, check) {
    const char *state = tool_json_get_text(check, "state");
    n_passed += strcmp(state, vkf_check_state_name(VKF_CHECK_PASSED)) == 0;
    if (strcmp(state, vkf_check_state_name(VKF_CHECK_FAILED)) != 0) continue;
    n_failed++;
    tool_add_finding(d, TOOL_HEALTH_WARNING, "check",
                     "results are right all the same, because no kernel uses it; a newer driver may be faster",
                     "%s: %s: %s", name, tool_json_get_text(check, "check"), tool_json_get_text(check, "text"));
  }
  if (!n_failed)
    tool_add_finding(d, TOOL_HEALTH_OK, "check", NULL, "%s: %zu checks of the driver passed", name, n_passed);
}

static void add_device(tool_visit *d, const json_t *device) {
  const char *name = tool_json_get_text(device, "name"), *error = tool_json_get_text(device, "error");
  char advice[300];
  const bool is_cpu = strcmp(tool_json_get_text(device, "kind"), vkf_device_kind_name(VKF_DEVICE_CPU)) == 0;
  const json_int_t n_wrong = json_integer_value(json_object_get(device, "n_wrong")),
                   n_times = json_integer_value(json_object_get(device, "n_times"));
  json_array_append(d->devices, (json_t *)device);
  tool_add_finding(d, TOOL_HEALTH_OK, "device", NULL, "%s (%s), %s, %.1f GiB", name,
                   tool_json_get_text(device, "driver"), tool_json_get_text(device, "kind"),
                   (double)json_integer_value(json_object_get(device, "memory_bytes")) / (1024.0 * 1024.0 * 1024.0));
  if (error[0]) {
    tool_add_finding(d, TOOL_HEALTH_FAULT, "device", "try another driver, or --device ref, which needs none", "%s: %s",
                     name, error);
    return;
  }
  add_checks(d, name, json_object_get(device, "checks"));
  if (n_wrong)
    tool_add_finding(
        d, TOOL_HEALTH_FAULT, "kernels",
        "do not use this device; `vkformer validate --device` shows all that is wrong, for a report to its makers",
        "%s: %lld of %lld results are wrong, the first one: %s", name, (long long)n_wrong,
        (long long)json_integer_value(json_object_get(device, "n_cases")), tool_json_get_text(device, "first_wrong"));
  else
    tool_add_finding(d, TOOL_HEALTH_OK, "kernels", NULL,
                     "%s: all of %lld results are within their bounds, the worst at %.3f of its bound", name,
                     (long long)json_integer_value(json_object_get(device, "n_cases")),
                     json_real_value(json_object_get(device, "worst")));
  if (n_times)
    tool_add_finding(d, TOOL_HEALTH_OK, "tuning", NULL, "%s: %lld measured times of kernels", name, (long long)n_times);
  snprintf(advice, sizeof advice, "optional: `vkformer tune --device '%s'` measures the kernels", name);
  if (!n_times)
    tool_add_finding(d, TOOL_HEALTH_NOTE, "tuning", advice, "%s: not tuned, kernels are chosen by rules", name);
  d->n_wrong += n_wrong > 0;
  if (!n_wrong) *(is_cpu ? &d->n_software : &d->n_gpus) += 1;
}

/* Whether the loader must not get this manifest; reports why. */
static bool refuse(tool_visit *d, const char *path) {
  struct stat facts;
  if (strstr(path, BETWEEN_PATHS)) { /* from --icd; the loader would split it */
    tool_add_finding(d, TOOL_HEALTH_FAULT, "driver", "give the file or folder another name",
                     "%s: expected a driver manifest whose path has no '" BETWEEN_PATHS
                     "', at which the Vulkan loader splits its list, found one",
                     path);
    return true;
  }
  if (stat(path, &facts) != 0 || S_ISREG(facts.st_mode)) return false;
  /* Not opened: reading a pipe waits for a writer. */
  tool_add_finding(d, TOOL_HEALTH_FAULT, "driver", "correct the variable or option that names it",
                   "%s: expected a driver manifest, found a %s", path,
                   S_ISDIR(facts.st_mode)    ? "folder"
                   : S_ISFIFO(facts.st_mode) ? "pipe"
                                             : "device");
  return true;
}

void tool_doctor_drivers(tool_visit *d) {
  manifests m = {{0}, 0};
  char why[512];
  find_all(&m, d);
  for (size_t i = 0; i < m.n; i++) {
    if (refuse(d, m.at[i])) {
      free(m.at[i]);
      continue;
    }
    json_t *answer = tool_doctor_ask(d->args, m.at[i], false, why, sizeof why);
    const json_t *devices = json_object_get(answer, "devices"), *device;
    size_t k;
    if (json_array_size(devices) == 0)
      explain(d, m.at[i], answer ? NULL : why);
    else
      tool_add_finding(d, TOOL_HEALTH_OK, "driver", NULL, "%s: %zu device%s", m.at[i], json_array_size(devices),
                       json_array_size(devices) == 1 ? "" : "s");
    json_array_foreach((json_t *)devices, k, device) {
      add_device(d, device);
    }
    json_decref(answer);
    free(m.at[i]);
  }
  const char *only = only_list(d);
  if (m.n == 0 && only)
    tool_add_finding(
        d, TOOL_HEALTH_FAULT, "driver",
        "unset VK_DRIVER_FILES and VK_ICD_FILENAMES, and the loader looks in its usual folders; or name a manifest",
        "%s: expected a driver manifest (.json), found none, and the Vulkan loader looks nowhere else",
        only[0] ? only : "VK_DRIVER_FILES or VK_ICD_FILENAMES is set and empty");
  else if (m.n == 0)
    tool_add_finding(d, TOOL_HEALTH_FAULT, "driver",
                     "install one: Debian and Ubuntu: apt install mesa-vulkan-drivers (AMD, Intel, and lavapipe, which "
                     "computes on the CPU); for NVIDIA the maker's driver",
                     "no driver manifest was found where the Vulkan loader looks");
}
