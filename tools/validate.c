/* validate: every op and every node of a model judged against the scalar path, on one device or on all.
 *
 * Prints a row as soon as it is judged. Invariant: a ratio that is not a number counts as over its bound.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef struct validation {
  tool_session *session;
  json_t *rows;
  char worst_name[256];
  double worst; /* of the rows; NaN wins */
  double start;
} validation;

static json_t *row_json(const vkf_validate_row *row) {
  return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "scope", row->scope, "name", row->name, "variant", row->variant,
                   "cases", (json_int_t)row->n_cases, "ratio", tool_json_real(row->ratio), "drift",
                   row->drift < 0 ? json_null() : tool_json_real(row->drift));
}

static void on_row(void *user, const vkf_validate_row *row) {
  validation *v = user;
  char drift[32] = "-";
  if (!(row->drift < 0)) snprintf(drift, sizeof drift, "%.2e", row->drift);
  tool_progress_end(v->session);
  printf("%-6s %-20s %-40s %6u %10.3e %10s%s\n", row->scope, row->name, row->variant, row->n_cases, fabs(row->ratio),
         drift, row->ratio <= 1 ? "" : "  OVER");
  fflush(stdout);
  json_array_append_new(v->rows, row_json(row));
  if (!(row->ratio <= v->worst) && !isnan(v->worst)) {
    v->worst = row->ratio;
    snprintf(v->worst_name, sizeof v->worst_name, "%s %s%s%s", row->scope, row->name, row->variant[0] ? " " : "",
             row->variant);
  }
  tool_progress(v->session, "%.0f s, last: %s %s", tool_seconds() - v->start, row->scope, row->name);
}

/* A device's verdict: a line, and an object appended to `devices`. */
static int report(const validation *v, const vkf_device_info *info, double worst, json_t *devices) {
  bool passed = worst <= 1;
  printf("%s: worst err/bound %.3e (%s): %s\n\n", info->alias, fabs(worst), v->worst_name[0] ? v->worst_name : "no row",
         passed ? "passed" : "FAILED");
  json_t *entry = json_pack("{s:s, s:s, s:s, s:o, s:b, s:O}", "device", info->name, "driver", info->driver, "alias",
                            info->alias, "worst", tool_json_real(worst), "passed", passed, "rows", v->rows);
  if (!entry || json_array_append_new(devices, entry) != 0) return tool_error("out of memory");
  return passed ? TOOL_OK : TOOL_FAILED;
}

/* session: the context is open; device: a selector, "" for the default. */
static int validate_device(tool_session *session, const tool_args *args, const char *device, json_t *devices) {
  validation v = {.session = session, .worst = -1, .start = tool_seconds()};
  double worst = NAN;
  int exit_code = tool_session_open_device(session, device);
  if (exit_code == TOOL_OK && args->n_operands) exit_code = tool_session_open_model(session, args->operands[0]);
  if (exit_code == TOOL_OK) {
    const vkf_device_info *info = vkf_device_get_info(session->device);
    printf("%s (%s)\n%-6s %-20s %-40s %6s %10s %10s\n", info->name, info->driver, "scope", "name", "variant", "cases",
           "err/bound", "drift");
    v.rows = json_array();
    vkf_status status = vkf_device_validate(session->device, session->model, on_row, &v, &worst);
    tool_progress_end(session);
    exit_code = status == VKF_OK ? report(&v, info, worst, devices) : tool_session_fail(session, status, info->alias);
    json_decref(v.rows);
  }
  vkf_model_close(&session->model);
  vkf_device_close(&session->device);
  return exit_code;
}

static int validate_all(tool_session *session, const tool_args *args, json_t *devices) {
  size_t n_devices = 0;
  vkf_status status = vkf_context_list_devices(session->context, &n_devices);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < n_devices; i++) {
    char index[32];
    snprintf(index, sizeof index, "%zu", i);
    if (validate_device(session, args, index, devices) != TOOL_OK) exit_code = TOOL_FAILED;
  }
  return exit_code;
}

static int run_validate(const tool_args *args) {
  tool_session session;
  json_t *devices = json_array();
  int exit_code = tool_session_open_context(&session, args);
  if (exit_code == TOOL_OK) {
    bool all = args->device && strcmp(args->device, "all") == 0;
    exit_code = all ? validate_all(&session, args, devices) : validate_device(&session, args, args->device, devices);
    if (args->json_file && json_array_size(devices) > 0) {
      int written = tool_write_json(args->json_file, json_pack("{s:O}", "devices", devices));
      if (exit_code == TOOL_OK) exit_code = written;
    }
  }
  json_decref(devices);
  tool_session_close(&session);
  return exit_code;
}

static const tool_option options[] = {
    {"json", 0, TOOL_TEXT, offsetof(tool_args, json_file), "FILE", "the table as JSON as well"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_validate = {
    .name = "validate",
    .summary = "Judge every op, and every node of a model, against the scalar path",
    .usage = "[MODEL] [OPTION]...",
    .text =
        "err/bound is the largest error of an element over the bound derived for it; above 1 is a fault.\n"
        "Every node is judged on the inputs that the device really had. drift is the distance of the\n"
        "device's own chain from the scalar path's. --device all goes through every device of the list.",
    .examples = "  vkformer validate models/en-es --device all --json validation.json\n",
    .groups = {&group, &tool_model_options, &tool_common_options},
    .max_operands = 1,
    .operand = "one model folder",
    .run = run_validate,
};
