/* doctor_child: examines one driver at a time in a child process: its devices, their checks, and a quick validation. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <vkformer/lab.h>

#include "child.h"
#include "doctor.h"

enum { LIMIT_S = 300 };

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void on_check(void *user, const vkf_check_info *c) {
  json_array_append_new(
      user, json_pack("{s:s, s:s, s:s}", "check", c->title, "state", vkf_check_state_name(c->state), "text", c->text));
}

typedef struct tally {
  size_t n_cases, n_wrong;
  char first[256]; /* the first case over its bound */
} tally;

static void on_row(void *user, const vkf_validate_row *row) {
  tally *t = user;
  if (row->scope != VKF_SCOPE_CASE) return;
  t->n_cases++;
  if (row->ratio <= 1) return;
  if (t->n_wrong++ == 0)
    snprintf(t->first, sizeof t->first, "%s %s on %s, err/bound %.3g", row->name, row->part, row->variant, row->ratio);
}

static json_t *opened_json(vkf_device *device, vkf_status *status) {
  tally t = {0};
  double worst = 0;
  vkf_kept_info kept = {VKF_KEPT_INFO_INIT};
  const vkf_validate_params quick = {VKF_VALIDATE_PARAMS_INIT, .quick = true};
  json_t *checks = json_array();
  *status = vkf_device_run_checks(device, on_check, checks);
  if (*status == VKF_OK) *status = vkf_device_get_kept_info(device, &kept);
  if (*status == VKF_OK) *status = vkf_device_validate(device, &quick, on_row, &t, &worst);
  return json_pack("{s:o, s:I, s:I, s:I, s:s, s:o}", "checks", checks, "n_times", (json_int_t)kept.n_times, "n_cases",
                   (json_int_t)t.n_cases, "n_wrong", (json_int_t)t.n_wrong, "first_wrong", t.first, "worst",
                   tool_json_real(worst));
}

/* Returns a device's facts and, unless list_only, the results of opening it. */
static json_t *device_json(tool_session *session, size_t index, bool list_only) {
  vkf_device_info info = {VKF_DEVICE_INFO_INIT};
  char selector[24];
  vkf_status status = vkf_context_device_info(session->context, index, &info);
  json_t *json = tool_device_json(index, &info);
  if (list_only) return json;
  snprintf(selector, sizeof selector, "%zu", index);
  if (status == VKF_OK) status = vkf_device_open(session->context, selector, &session->device);
  if (status == VKF_OK) {
    json_t *more = opened_json(session->device, &status);
    json_object_update(json, more);
    json_decref(more);
  }
  if (status != VKF_OK) json_object_set_new(json, "error", json_string(vkf_context_message(session->context)));
  vkf_device_close(&session->device);
  return json;
}

int tool_doctor_answer(const tool_args *args) {
  tool_session session;
  size_t n = 0;
  json_t *devices = json_array();
  const char *why = "";
  int exit_code = tool_session_open_context(&session, args);
  const bool failed = exit_code == TOOL_OK && vkf_context_list_devices(session.context, &n) != VKF_OK;
  if (failed) {
    why = vkf_context_message(session.context);
    n = 0;
  }
  for (size_t i = 0; i + 1 < n; i++) /* the last one is ref */
    json_array_append_new(devices, device_json(&session, i, args->list > 0));
  if (exit_code == TOOL_OK && !failed && n < 2 && vkf_device_open(session.context, "cpu", &session.device) != VKF_OK)
    why = vkf_context_message(session.context);
  if (exit_code == TOOL_OK)
    exit_code = tool_print_json(json_pack("{s:O, s:b, s:s}", "devices", devices, "failed", failed, "why", why));
  json_decref(devices);
  return tool_session_close(&session, exit_code);
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

/* Reads all that the child prints until it ends or `deadline` passes; false: it did not end. */
static bool read_all(const tool_child *child, double deadline, char **text) {
  size_t n = 0, capacity = 1 << 16;
  *text = malloc(capacity);
  while (*text) {
    const ssize_t got = tool_child_read(child, deadline, *text + n, capacity - n - 1);
    if (got < 0) return false;
    if (got == 0) break;
    n += (size_t)got;
    (*text)[n] = 0;
    if (capacity - n > 1) continue;
    char *more = realloc(*text, capacity *= 2);
    if (!more) break;
    *text = more;
  }
  if (*text) (*text)[n] = 0;
  return true;
}

json_t *tool_doctor_ask(const tool_args *args, const char *manifest, bool list_only, char *why, size_t size) {
  const tool_child_params params = {.words = {"doctor", "--worker", list_only ? "--list" : NULL}, .manifest = manifest};
  tool_child child;
  char *text = NULL;
  if (!tool_child_start(&child, args, &params)) {
    snprintf(why, size, "a process cannot be started: %s", strerror(errno));
    return NULL;
  }
  const bool ended = read_all(&child, tool_seconds() + LIMIT_S, &text);
  const int status = tool_child_end(&child, !ended);
  json_t *json = ended && text ? json_loads(text, 0, NULL) : NULL;
  free(text);
  const bool is_whole = json && WIFEXITED(status) && WEXITSTATUS(status) == TOOL_OK,
             failed = is_whole && json_is_true(json_object_get(json, "failed"));
  if (is_whole && !failed) return json;
  if (failed) snprintf(why, size, "%s", tool_json_get_text(json, "why"));
  json_decref(json);
  if (failed) return NULL;
  if (!ended)
    snprintf(why, size, "it gave no answer within %d s", LIMIT_S);
  else if (WIFSIGNALED(status))
    snprintf(why, size, "it ended the process by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    snprintf(why, size, "it ended the process with exit code %d", WEXITSTATUS(status));
  return NULL;
}
