/* probe: see probe.h. */
#define _POSIX_C_SOURCE 200809L
#include "tune/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tune/cache.h"
#include "tune/reproducible.h"
#include "tune/measure.h"
#include "tune/problem.h"
#include "tune/times.h"
#include "tune/tuned.h"

static bool can_keep(vkf_tuning *t) {
  return t->cache_folder && !t->is_newer && vkf_tune_cache_usable(t->env, t->cache_folder);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Each check is marked in the cache before it runs. If the process dies or the device is lost, the next start runs the
 * marked checks one at a time. A user who loses patience at a first start may also end the process, so a check is
 * recorded as failed only when it ends two processes alone, or loses a device alone. */
static const char among[] = "begun with others by process %d", alone[] = "begun alone by process %d",
                  again[] = "begun alone again by process %d";
static const char died[] =
    "the process that ran it died, or its device was lost (it is tried again without tuned.json "
    "in the cache folder)";
static const char put_off[] = "put off"; /* nothing could run */

static const char since[] = " since "; /* after a mark: start_of() its process */

/* Returns when a process began, in ticks of the system's clock, if Linux says it (proc(5), field 22 of stat); else 0.
 * This tells a process from an earlier one with the same number: in a container that is always 1. */
static unsigned long long start_of(int process) {
  char path[64], text[1024] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  const size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  const char *at = strrchr(text, ')'); /* after the name, field 2, which may have spaces */
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  return at ? strtoull(at, NULL, 10) : 0;
}

/* Whether the process that wrote a mark still runs: it is this one, or another that opens the device now. */
static bool is_under_way(int process, const char *found) {
  const char *at = strstr(found, since);
  return process > 0 && (kill(process, 0) == 0 || errno == EPERM) &&
         (!at || strtoull(at + sizeof since - 1, NULL, 10) == start_of(process));
}

/* Finds a check's result in the cache, by its text. Returns false if there is none; if a process died while the check
 * ran, *mark becomes the mark to run it with, else it does not change. */
static bool find(const vkf_tuning *t, const char *text, vkf_check_result *result, const char **mark) {
  const char *found = vkf_tune_found(t, text);
  int process = 0;
  if (!found || !strcmp(found, put_off)) return false;
  if (sscanf(found, among, &process) == 1) {
    if (!is_under_way(process, found)) *mark = alone;
    return false;
  }
  const bool is_first = sscanf(found, alone, &process) == 1;
  if (is_first || sscanf(found, again, &process) == 1) {
    if (is_under_way(process, found)) return false;
    if (is_first && process > 0) {
      *mark = again;
      return false;
    }
    found = died;
  }
  result->state = *found ? VKF_CHECK_FAILED : VKF_CHECK_PASSED;
  snprintf(result->text, sizeof result->text, "%s", found);
  return true;
}

/* Returns true if the check need not run. */
static bool is_settled(vkf_tuning *t, vkf_check check, const char **mark) {
  const vkf_caps *caps = vkf_gpu_device_caps(t->gpu);
  vkf_check_result *result = &t->checks[check];
  char text[64];
  if (result->state == VKF_CHECK_PASSED || result->state == VKF_CHECK_FAILED) return true;
  *result = (vkf_check_result){.state = VKF_CHECK_ABSENT};
  if (!vkf_tune_check_text(check, caps, text, sizeof text)) return true;
  const char *why = vkf_tune_check_not_done(check, caps, vkf_kern_spirv_table);
  if (check == VKF_CHECK_OF_REPRODUCIBLE) why = "the reproducible mode was not asked for";
  if (!why && find(t, text, result, mark)) return true;
  result->state = VKF_CHECK_NOT_DONE;
  snprintf(result->text, sizeof result->text, "%s", why ? why : "there is no cache folder to keep the result in");
  return why != NULL;
}

/* Before checks run: keeps a mark (`among`, `alone` or `again`) as the result of each. */
static vkf_status begin(vkf_tuning *t, vkf_tuned_check *checks, size_t n, const char *mark) {
  const int process = (int)getpid();
  char begun[64];
  snprintf(begun, sizeof begun, mark, process);
  const unsigned long long start = start_of(process);
  for (size_t i = 0; i < n; i++) snprintf(checks[i].found, sizeof checks[i].found, "%s%s%llu", begun, since, start);
  return vkf_tune_keep_checks(t, checks, n);
}

/* After checks: keeps what they found. After an error it keeps the mark with process 0, which never runs, or, if memory
 * was short, `put_off`, which does not count. Returns st. */
static vkf_status end(vkf_tuning *t, vkf_tuned_check *checks, size_t n, const char *mark, vkf_status st) {
  const bool was_short = st == VKF_ERROR_MEMORY || st == VKF_ERROR_DEVICE_MEMORY;
  vkf_env_failure failure;
  if (st == VKF_OK) return vkf_tune_keep_checks(t, checks, n);
  vkf_env_save_failure(t->env, &failure); /* keeping clears it */
  for (size_t i = 0; i < n; i++) snprintf(checks[i].found, sizeof checks[i].found, was_short ? put_off : mark, 0);
  vkf_tune_keep_checks(t, checks, n);
  vkf_env_restore_failure(t->env, &failure);
  return st;
}

/* mark: among, alone or again. */
static vkf_status run_checks(vkf_tuning *t, uint32_t wanted, const char *mark) {
  vkf_tuned_check checks[VKF_N_CHECKS];
  vkf_check of[VKF_N_CHECKS];
  size_t n = 0;
  for (vkf_check check = 0; check < VKF_N_CHECKS; check++) {
    if (!(wanted >> check & 1)) continue;
    vkf_tune_check_text(check, vkf_gpu_device_caps(t->gpu), checks[n].check, sizeof checks[n].check);
    of[n++] = check;
  }
  if (n == 0) return VKF_OK;
  VKF_CALL(begin(t, checks, n, mark));
  const vkf_status st = vkf_tune_checks_run(t->gpu, vkf_kern_spirv_table, wanted, t->checks);
  for (size_t i = 0; i < n; i++) snprintf(checks[i].found, sizeof checks[i].found, "%s", t->checks[of[i]].text);
  return end(t, checks, n, mark, st);
}

/* Removes what failed from the facts of the device. */
static void lower_facts(vkf_tuning *t) {
  vkf_caps caps = *vkf_gpu_device_caps(t->gpu);
  for (vkf_check check = 0; check < VKF_N_CHECKS; check++) {
    const vkf_check_result *result = &t->checks[check];
    if (result->state != VKF_CHECK_FAILED || caps.failed_checks >> check & 1) continue;
    vkf_tune_check_mark_failed(&caps, check);
    if (check != VKF_CHECK_OF_ROUNDING) /* no driver guarantees that */
      vkf_env_log(t->env, VKF_LOG_WARNING, "%s: %s failed its check and is not used: %s", caps.device_name,
                  vkf_tune_check_row(check)->title, result->text);
  }
  vkf_gpu_device_lower(t->gpu, &caps);
}

vkf_status vkf_tune_probe_checks(vkf_tuning *t, bool asked) {
  const char *marks[VKF_N_CHECKS];
  uint32_t wanted = 0, together = 0;
  for (vkf_check check = 0; check < VKF_N_CHECKS; check++) {
    marks[check] = among;
    if (is_settled(t, check, &marks[check])) continue;
    wanted |= 1u << check;
    if (marks[check] == among) together |= 1u << check;
  }
  if (wanted && (asked || can_keep(t))) {
    vkf_env_log(t->env, VKF_LOG_INFO, "%s: running the checks of the driver, once",
                vkf_gpu_device_caps(t->gpu)->device_name);
    VKF_CALL(run_checks(t, together, among));
    for (vkf_check check = 0; check < VKF_N_CHECKS; check++)
      VKF_CALL(run_checks(t, wanted & ~together & 1u << check, marks[check]));
  }
  lower_facts(t);
  return VKF_OK;
}

/* ---- kernels between which facts do not decide ------------------------------------------------------------------- */

vkf_status vkf_tune_probe_kernels(vkf_tuning *t) {
  const vkf_variant *variants[VKF_MAX_PROBE_CANDIDATES];
  vkf_tuned_entry entries[VKF_MAX_PROBE_CANDIDATES];
  const char *names[VKF_MAX_PROBE_CANDIDATES];
  double ns[VKF_MAX_PROBE_CANDIDATES];
  vkf_problem problem;
  vkf_case c;
  char text[64], name[VKF_MAX_PROBE_CANDIDATES][128];
  vkf_tuned_check check = {"", ""};
  vkf_check_result result;
  const char *mark = alone;
  size_t n_entries = 0;
  const double seconds = 0.01;
  const uint32_t n = vkf_kern_probe_candidates(vkf_gpu_device_caps(t->gpu), &problem, variants);
  for (size_t i = 0; i < t->rows.n_times; i++)
    if (t->rows.times[i].problem.op == problem.op) return VKF_OK;
  if (!n || !can_keep(t)) return VKF_OK;
  vkf_tune_problem_text(&problem, text, sizeof text);
  snprintf(check.check, sizeof check.check, "timing of %.50s", text);
  if (find(t, check.check, &result, &mark) && result.state == VKF_CHECK_FAILED) {
    vkf_env_log(t->env, VKF_LOG_WARNING, "%s: kernels are chosen by facts alone: %s", check.check, result.text);
    return VKF_OK;
  }
  for (uint32_t i = 0; i < n; i++) {
    names[i] = vkf_kern_name(variants[i], name[i], sizeof name[i]);
    vkf_env_log(t->env, VKF_LOG_INFO, "%s: timing %s once, to know which kernel is the fastest on this device", text,
                names[i]);
  }
  VKF_CALL(vkf_tune_problem_parse(t->env, text, &c));
  VKF_CALL(begin(t, &check, 1, mark));
  check.found[0] = 0;
  const double warm = vkf_tune_warm_seconds(vkf_gpu_device_caps(t->gpu));
  VKF_CALL(end(t, &check, 1, mark, vkf_tune_measure(t->backend, &c, names, n, warm, seconds, ns)));
  for (uint32_t i = 0; i < n; i++) {
    if (!(ns[i] > 0)) continue;
    vkf_tuned_entry *e = &entries[n_entries++];
    *e = (vkf_tuned_entry){.ns = (uint64_t)VKF_MAX(ns[i], 1), .probed = true};
    snprintf(e->problem, sizeof e->problem, "%s", text);
    snprintf(e->kernel, sizeof e->kernel, "%s", names[i]);
  }
  VKF_CALL(vkf_tune_keep_times(t, entries, n_entries));
  return vkf_tune_use(t);
}

/* ---- the reproducible mode --------------------------------------------------------------------------------------- */

vkf_status vkf_tune_probe_reproducible(vkf_tuning *t) {
  vkf_env *env = t->env;
  vkf_check_result *result = &t->checks[VKF_CHECK_OF_REPRODUCIBLE];
  vkf_tuned_check check = {"", ""};
  const char *mark = alone;
  vkf_tune_reproducible_text(t, check.check, sizeof check.check);
  if (!find(t, check.check, result, &mark)) {
    VKF_CALL(begin(t, &check, 1, mark));
    VKF_CALL(end(t, &check, 1, mark, vkf_tune_reproducible_check(t, check.found, sizeof check.found)));
    find(t, check.check, result, &mark);
  }
  if (t->checks[VKF_CHECK_OF_ROUNDING].state == VKF_CHECK_FAILED) result = &t->checks[VKF_CHECK_OF_ROUNDING];
  if (result->state == VKF_CHECK_FAILED)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "the reproducible mode is refused on %s: %s", t->key.device,
                        result->text);
  return VKF_OK;
}
