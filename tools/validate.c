/* validate: compares every op and every node of a model with the scalar path, on one device or on all.
 *
 * Prints a row as soon as it is compared. Invariant: a ratio that is not a number counts as over its bound.
 */
#include <math.h>
#include <vkformer/lab.h>

#include "validate.h"

typedef struct validation {
  tool_session *session;
  json_t *rows; /* all of them */
  char worst_name[256];
  double worst; /* largest ratio of the rows; NaN counts as largest */
  double start;
  bool is_text; /* rows are printed */
} validation;

/* Returns "" for blocks and nodes, which have no format. */
static const char *format_name(const vkf_validate_row *row) {
  return row->format == VKF_STORAGE_AUTO ? "" : vkf_storage_name(row->format);
}

static json_t *row_json(const vkf_validate_row *row) {
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:s}", "scope", vkf_scope_name(row->scope),
                   "name", row->name, "part", row->part, "op", row->op, "variant", row->variant, "format",
                   format_name(row), "cases", (json_int_t)row->n_cases, "elements", (json_int_t)row->n_elements,
                   "seconds", tool_json_real(row->seconds), "ratio", tool_json_real(row->ratio), "drift",
                   row->drift < 0 ? json_null() : tool_json_real(row->drift), "left_out", row->left_out);
}

static void print_row(const vkf_validate_row *row) {
  char drift[32] = "-";
  if (!(row->drift < 0)) snprintf(drift, sizeof drift, "%.2e", row->drift);
  if (row->left_out[0]) {
    printf("%-6s %-20s %-40s %-6s %5u left out: %s\n", vkf_scope_name(row->scope), row->name, row->variant,
           format_name(row), row->n_cases, row->left_out);
    return;
  }
  printf("%-6s %-20s %-40s %-6s %5u %10.3e %10s%s", vkf_scope_name(row->scope), row->name, row->variant,
         format_name(row), row->n_cases, fabs(row->ratio), drift, row->ratio <= 1 ? "" : "  ");
  if (!(row->ratio <= 1)) tool_print_state(stdout, 0, "OVER");
  putchar('\n');
  fflush(stdout);
}

static void on_row(void *user, const vkf_validate_row *row) {
  validation *v = user;
  bool is_sum = row->scope == VKF_SCOPE_OP || row->scope == VKF_SCOPE_BLOCK;
  tool_progress_end(v->session);
  if (is_sum && v->is_text) print_row(row);
  json_array_append_new(v->rows, row_json(row));
  if (is_sum && row->n_cases && !(row->ratio <= v->worst) && !isnan(v->worst)) {
    v->worst = row->ratio;
    snprintf(v->worst_name, sizeof v->worst_name, "%s %s%s%s", vkf_scope_name(row->scope), row->name,
             row->variant[0] ? " " : "", row->variant);
  }
  tool_progress(v->session, "%.0f s, last: %s %s", tool_seconds() - v->start, vkf_scope_name(row->scope), row->name);
}

/* Prints a device's verdict and appends it to `devices`. */
static int report(const validation *v, const vkf_device_info *info, double worst, json_t *devices) {
  bool passed = worst <= 1 && v->worst_name[0];
  char date[32];
  tool_date(date);
  if (v->is_text) {
    printf("%s: worst err/bound %.3e (%s): ", info->alias, fabs(worst), v->worst_name[0] ? v->worst_name : "no row");
    tool_print_state(stdout, 0, passed ? "passed" : "FAILED");
    fputs("\n\n", stdout);
  }
  json_t *entry = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:b, s:n, s:O}", "device",
                            info->name, "driver", info->driver, "alias", info->alias, "driver_version",
                            (json_int_t)info->driver_version, "vendor_id", (json_int_t)info->vendor_id, "device_id",
                            (json_int_t)info->device_id, "vkformer", vkf_version(), "commit", tool_commit, "date", date,
                            "seconds", tool_json_real(tool_seconds() - v->start), "worst", tool_json_real(worst),
                            "passed", passed, "digest", "rows", v->rows);
  if (!entry || json_array_append_new(devices, entry) != 0) return tool_error("out of memory");
  return passed ? TOOL_OK : TOOL_WRONG;
}

/* Validates a device (a selector, "" for the default). The session's context must be open. */
static int validate_device(tool_session *session, const tool_args *args, const char *device, json_t *devices) {
  validation v = {.session = session, .worst = -1, .start = tool_seconds(), .is_text = validate_is_text(args)};
  double worst = NAN;
  int exit_code = tool_session_open_device(session, device);
  if (exit_code == TOOL_OK && args->n_operands) exit_code = tool_session_open_model(session, args->operands[0]);
  if (exit_code == TOOL_OK) {
    const vkf_device_info *info = vkf_device_get_info(session->device);
    if (v.is_text)
      printf("%s (%s)\n%-6s %-20s %-40s %-6s %5s %10s %10s\n", info->name, info->driver, "scope", "name", "variant",
             "format", "cases", "err/bound", "drift");
    v.rows = json_array();
    const vkf_validate_params params = {VKF_VALIDATE_PARAMS_INIT, .model = session->model, .ops = args->ops > 0,
                                        .quick = args->quick > 0};
    vkf_status status = vkf_device_validate(session->device, &params, on_row, &v, &worst);
    tool_progress_end(session);
    exit_code = status == VKF_OK ? report(&v, info, worst, devices) : tool_session_fail(session, status, info->alias);
    json_decref(v.rows);
  }
  return tool_session_close_device(session, exit_code);
}

typedef struct request {
  const tool_args *args;
  json_t *devices; /* that were done */
} request;

/* Does what the options ask for on one device; adds its digest if a file is to be written. */
static int validate_one(void *user, tool_session *session, const char *device) {
  const request *r = user;
  if (r->args->bisect) return validate_bisect(session, r->args, device);
  if (r->args->replay) return validate_replay(session, r->args, device);
  const size_t n = json_array_size(r->devices);
  const int exit_code = validate_device(session, r->args, device, r->devices);
  if (json_array_size(r->devices) > n && (r->args->json_file || r->args->report))
    validate_digest(r->args, device, json_array_get(r->devices, n));
  return exit_code;
}

static int validate_here(const tool_args *args, json_t *devices) {
  tool_session session;
  request r = {args, devices};
  int exit_code = tool_session_open_context(&session, args);
  if (exit_code == TOOL_OK) exit_code = tool_session_each_device(&session, args->device, validate_one, &r);
  return tool_session_close(&session, exit_code);
}

/* Refuses options that cannot be combined. */
static int check_args(const tool_args *args) {
  const bool kept = args->json_file || args->report, alone = args->bisect || args->replay;
  if (!args->merge && args->n_operands > 1)
    return tool_usage_error("validate", "expected at most one model folder, found %zu", args->n_operands);
  if (args->merge && (args->n_operands == 0 || !kept))
    return tool_usage_error("validate", "--merge: expected files that --json wrote, and --report FILE or --json");
  if (args->bisect && args->n_operands == 0)
    return tool_usage_error("validate", "--bisect: expected a model folder, found none");
  if (args->replay && args->n_operands > 0)
    return tool_usage_error("validate", "--replay: expected no model folder, found %s", args->operands[0]);
  if (alone && (kept || args->merge || args->quick || args->ops || (args->bisect && args->replay)))
    return tool_usage_error("validate", "--%s: expected no --quick, --ops, --json, --report, --merge or --%s with it",
                            args->bisect ? "bisect" : "replay", args->bisect ? "replay" : "bisect");
  return TOOL_OK;
}

static int write_document(const tool_args *args, json_t *devices) {
  json_t *document = json_pack("{s:s, s:O}", "format", "vkformer-validation/1", "devices", devices);
  return validate_is_text(args) ? tool_write_json(args->json_file, document) : tool_print_json(document);
}

static int run_validate(const tool_args *args) {
  if (check_args(args) != TOOL_OK) return TOOL_USAGE;
  if (tool_args_check_files(args) != TOOL_OK) return TOOL_FAILED;
  json_t *devices = json_array();
  int exit_code = args->merge ? validate_merge(args, devices) : validate_here(args, devices);
  if (!validate_same_digests(devices)) exit_code = TOOL_WRONG;
  if (args->json_file && json_array_size(devices) > 0 && write_document(args, devices) != TOOL_OK)
    exit_code = tool_both_exit_codes(exit_code, TOOL_FAILED);
  if (args->report && json_array_size(devices) > 0 &&
      tool_write_page("tools/validation.html", args->report, json_incref(devices)) != TOOL_OK)
    exit_code = tool_both_exit_codes(exit_code, TOOL_FAILED);
  json_decref(devices);
  return exit_code;
}

static const tool_option options[] = {
    {"quick", 0, TOOL_FLAG, offsetof(tool_args, quick), NULL,
     "check every op on one odd shape in every format, on the kernel\nthat is chosen: a test for projects that embed "
     "vkformer"},
    {"ops", 0, TOOL_FLAG, offsetof(tool_args, ops), NULL, "with MODEL: check every op, too"},
    {"json", 0, TOOL_MAYBE_OUTPUT, offsetof(tool_args, json_file), "[=FILE]",
     "print every case and node as JSON, and a digest, instead of the\ntable; with =FILE write that to FILE and print "
     "the table"},
    {"report", 0, TOOL_OUTPUT, offsetof(tool_args, report), "FILE",
     "write the results as a page that needs no other file"},
    {"bisect", 0, TOOL_FLAG, offsetof(tool_args, bisect), NULL,
     "find the first node of MODEL over its bound: print its op,\nkernel, tile and worst element, and write "
     "a folder that replays it"},
    {"output", 'o', TOOL_NAME, offsetof(tool_args, output), "NAME",
     "with --bisect: the folder is NAME-DEVICE; default bisect"},
    {"replay", 0, TOOL_NAME, offsetof(tool_args, replay), "FOLDER",
     "run only the node in such a folder, on any device; exit code 0\nif it is right"},
    {"merge", 0, TOOL_FLAG, offsetof(tool_args, merge), NULL,
     "compare nothing: put the devices of several files that\n--json=FILE wrote into one --report or --json"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_validate = {
    .name = "validate",
    .summary = "Compare every op, and every node of a model, with the scalar path",
    .usage = "[MODEL] [OPTION]... | MODEL --bisect | --replay FOLDER | --merge FILE... --report FILE",
    .text =
        "err/bound is the largest ratio of an element's error to the bound derived for it; above 1 is a fault.\n"
        "Every node is compared on the inputs that the device really had. drift is how far the device's own chain\n"
        "of nodes is from that of the scalar path. --device all runs on every device. The digest is computed from\n"
        "the logits of the shipped model in the reproducible mode; it is the same on every device.\n"
        "Exit code 0: everything is within its bound, and the digests are the same.",
    .examples =
        "  vkformer validate models/en-es --device all --ops --report validation.html\n"
        "  vkformer validate --quick\n"
        "  vkformer validate models/en-es --bisect --device swiftshader\n"
        "  vkformer validate --replay bisect-swiftshader --device all\n"
        "  vkformer validate --merge here.json there.json --report both.html\n",
    .groups = {&group, &tool_model_options, TOOL_DEVICE_GROUPS},
    .max_operands = 64,
    .operand = "a model folder, or files to merge",
    .takes_model = true,
    .run = run_validate,
};
