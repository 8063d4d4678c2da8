/* validate --bisect and --replay: keeps the first node of a model over its bound in a folder, and runs it again from
 * there.
 *
 * The folder has node.json (the node as the library writes it, the device, the command that repeats it),
 * arrays.safetensors (its inputs, its result and the expected one) and README.txt, which says the same in words.
 * Invariant: an existing folder is never changed.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vkformer/lab.h>

#include "validate.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Writes "[3, 17]". */
static const char *list_text(const json_t *list, char *text, size_t size) {
  size_t n = 0;
  snprintf(text, size, "[]");
  for (size_t i = 0; i < json_array_size(list) && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%lld%s", i ? ", " : "[",
                          (long long)json_integer_value(json_array_get(list, i)),
                          i + 1 == json_array_size(list) ? "]" : "");
  return text;
}

/* Returns a number, which is written as text if JSON has no such number. */
static double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return json_is_string(value) ? strtod(json_string_value(value), NULL) : json_number_value(value);
}

static void print_node(const json_t *node, FILE *file) {
  char element[64], shape[64];
  const json_t *worst = json_object_get(node, "worst"), *tile = json_object_get(worst, "tile");
  fprintf(file, "node      %s, in pass %s\n", tool_json_get_text(node, "node"), tool_json_get_text(node, "pass"));
  fprintf(file, "op        %s\nvariant   %s\n", tool_json_get_text(node, "op"), tool_json_get_text(node, "variant"));
  if (tile)
    fprintf(file, "tile      %s, of tiles of %s\n", list_text(tile, element, sizeof element),
            list_text(json_object_get(worst, "tile_shape"), shape, sizeof shape));
  fprintf(file, "element   %s of %s %s\n", list_text(json_object_get(worst, "element"), element, sizeof element),
          tool_json_get_text(worst, "output"), list_text(json_object_get(worst, "shape"), shape, sizeof shape));
  fprintf(file, "expected  %.9g\nfound     %.9g\nerror     %.3g\nbound     %.3g\nerr/bound %.3g\n",
          number_of(worst, "expected"), number_of(worst, "found"), number_of(worst, "error"), number_of(worst, "bound"),
          number_of(worst, "ratio"));
}

/* Prints "within its bound" or "over its bound", and by how much; true: within. */
static bool print_verdict(const json_t *node, const vkf_device_info *info) {
  const double ratio = number_of(json_object_get(node, "worst"), "ratio");
  printf("alone on %s (%s): err/bound %.3g, %s its bound\n", info->alias, tool_json_get_text(node, "variant"), ratio,
         ratio <= 1 ? "within" : "over");
  return ratio <= 1;
}

/* ---- replay ------------------------------------------------------------------------------------------------------ */

/* Runs the node alone on the open device; *out: the description of this run, NULL after a failure. */
static int replay_node(tool_session *session, const char *text, const vkf_result *arrays, json_t **out) {
  vkf_result *again = NULL;
  vkf_array *given = tool_arrays(arrays);
  *out = NULL;
  if (!given) return TOOL_FAILED;
  vkf_status status = vkf_device_replay(session->device, text, given, vkf_result_count(arrays), &again);
  int exit_code = status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
  if (exit_code == TOOL_OK) *out = json_loads(vkf_result_text(again, 0), 0, NULL);
  vkf_result_destroy(&again);
  free(given);
  return exit_code;
}

int validate_replay(tool_session *session, const tool_args *args, const char *device) {
  char path[4096];
  size_t size;
  vkf_result *arrays = NULL;
  json_t *was = NULL, *now = NULL;
  snprintf(path, sizeof path, "%.4000s/node.json", args->replay);
  char *text = tool_read_file(path, &size);
  if (!text) return TOOL_FAILED;
  snprintf(path, sizeof path, "%.4000s/arrays.safetensors", args->replay);
  int exit_code = tool_session_open_device(session, device);
  if (exit_code == TOOL_OK) exit_code = tool_read_arrays(session, path, &arrays);
  if (exit_code == TOOL_OK) exit_code = replay_node(session, text, arrays, &now);
  if (exit_code == TOOL_OK) {
    was = json_loads(text, 0, NULL);
    if (json_is_true(json_object_get(was, "deterministic")) && !args->deterministic)
      fprintf(stderr, "vkformer: the node was found with --deterministic, which is not given\n");
    print_node(now, stdout);
    exit_code = print_verdict(now, vkf_device_get_info(session->device)) ? TOOL_OK : TOOL_WRONG;
  }
  json_decref(was);
  json_decref(now);
  free(text);
  vkf_result_destroy(&arrays);
  return tool_session_close_device(session, exit_code);
}

/* ---- bisect ------------------------------------------------------------------------------------------------------ */

/* Appends an option and its value, if it has one. */
static void append_option(char *text, size_t size, const char *option, const char *value) {
  tool_append_word(text, size, option);
  if (value) tool_append_word(text, size, value);
}

static void make_command(const tool_args *args, const char *folder, const vkf_device_info *info, char *text,
                         size_t size) {
  snprintf(text, size, "vkformer validate");
  append_option(text, size, "--replay", folder);
  append_option(text, size, "--device", info->alias);
  if (args->deterministic) append_option(text, size, "--deterministic", NULL);
  if (args->limits) append_option(text, size, "--limits", args->limits);
  for (size_t i = 0; i < args->icd_files.n; i++) append_option(text, size, "--icd", args->icd_files.at[i]);
}

static int write_readme(const char *folder, const json_t *node) {
  char path[4096], *text = NULL;
  size_t size = 0;
  snprintf(path, sizeof path, "%.4000s/README.txt", folder);
  FILE *file = open_memstream(&text, &size);
  if (!file) return tool_error("out of memory");
  fprintf(file, "A node whose result is over its derived bound, found by vkformer %s on %s\n\n",
          tool_json_get_text(node, "vkformer"), tool_json_get_text(node, "date"));
  fprintf(file, "device    %s\ndriver    %s, version %lld\nmodel     %s\n", tool_json_get_text(node, "device"),
          tool_json_get_text(node, "driver"), (long long)json_integer_value(json_object_get(node, "driver_version")),
          tool_json_get_text(node, "model"));
  print_node(node, file);
  fprintf(file,
          "\nTo run it again, here or (with another --device) elsewhere:\n\n    %s\n\n"
          "node.json has the op, its parameters, sizes and operands; arrays.safetensors the operands by their names, "
          "and\nof each output NAME what the device gave (NAME), what its inputs give exactly (NAME.exact) and how far "
          "a right\nresult may be from it (NAME.bound).\n",
          tool_json_get_text(node, "command"));
  int exit_code = fclose(file) == 0 ? tool_write_file(path, text, size) : tool_error("out of memory");
  free(text);
  return exit_code;
}

/* Writes the three files; adds what the program knows to `node`. */
static int write_folder(tool_session *session, const tool_args *args, const char *folder, const vkf_result *fault,
                        json_t *node) {
  char path[4096], command[8192], date[32];
  const vkf_device_info *info = vkf_device_get_info(session->device);
  tool_date(date);
  make_command(args, folder, info, command, sizeof command);
  json_t *more =
      json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:o, s:o}", "device", info->name, "driver", info->driver,
                "driver_version", (json_int_t)info->driver_version, "vkformer", vkf_version(), "commit", tool_commit,
                "date", date, "model", tool_json_text(args->operands[0], strlen(args->operands[0])), "command",
                tool_json_text(command, strlen(command)));
  int failed = json_object_update(node, more);
  json_decref(more);
  if (failed) return tool_error("out of memory");
  if (mkdir(folder, 0777) != 0) return tool_error("%s: cannot be made: %s", folder, strerror(errno));
  snprintf(path, sizeof path, "%.4000s/arrays.safetensors", folder);
  if (tool_write_arrays(session, path, fault) != TOOL_OK) return TOOL_FAILED;
  snprintf(path, sizeof path, "%.4000s/node.json", folder);
  if (tool_write_json(path, json_incref(node)) != TOOL_OK) return TOOL_FAILED;
  return write_readme(folder, node);
}

static void on_row(void *user, const vkf_validate_row *row) {
  if (row->scope == VKF_SCOPE_NODE) tool_progress(user, "%s", row->part);
}

/* Reports the fault, keeps it, and tests whether the node also has it when it runs alone. */
static int tell_fault(tool_session *session, const tool_args *args, const char *folder, const vkf_result *fault) {
  json_t *node = json_loads(vkf_result_text(fault, 0), 0, NULL), *again = NULL;
  print_node(node, stdout);
  int exit_code = write_folder(session, args, folder, fault, node);
  if (exit_code == TOOL_OK) {
    printf("written to %s; to run it again:\n    %s\n", folder, tool_json_get_text(node, "command"));
    replay_node(session, vkf_result_text(fault, 0), fault, &again);
  }
  if (again && print_verdict(again, vkf_device_get_info(session->device)))
    printf("what runs before or beside it in the model makes the fault, such as a missing barrier\n");
  json_decref(node);
  json_decref(again);
  return TOOL_WRONG;
}

int validate_bisect(tool_session *session, const tool_args *args, const char *device) {
  char folder[4096];
  vkf_result *fault = NULL;
  int exit_code = tool_session_open_device(session, device);
  const vkf_device_info *info = exit_code == TOOL_OK ? vkf_device_get_info(session->device) : NULL;
  if (info) {
    snprintf(folder, sizeof folder, "%.4000s-%s", args->output ? args->output : "bisect", info->alias);
    if (access(folder, F_OK) == 0) exit_code = tool_error("%s is there already: name another with --output", folder);
  }
  if (exit_code == TOOL_OK) exit_code = tool_session_open_model(session, args->operands[0]);
  if (exit_code == TOOL_OK) {
    vkf_status status = vkf_model_bisect(session->model, on_row, session, &fault);
    tool_progress_end(session);
    if (status != VKF_OK)
      exit_code = tool_session_fail(session, status, info->alias);
    else if (fault)
      exit_code = tell_fault(session, args, folder, fault);
    else
      printf("%s: every node is within its bound; nothing was written\n", info->alias);
  }
  vkf_result_destroy(&fault);
  return tool_session_close_device(session, exit_code);
}
