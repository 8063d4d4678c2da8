/* files: reads and writes whole files through the library, with the program's messages.
 *
 * Invariant: only this file opens files whose names come from a user, a model folder or the installation. The
 * exceptions are source.c and sink.c, which read and write corpora piece by piece.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lines.h"
#include "program.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads a file; NULL after a message, or without one if `quiet`. */
static char *read_whole(const char *path, size_t *size, bool quiet) {
  tool_session session = {0};
  vkf_result *result = NULL;
  char *text = NULL;
  *size = 0;
  vkf_status status = vkf_context_create(NULL, &session.context);
  if (status == VKF_OK) status = vkf_bytes_read(session.context, path, &result);
  if (status == VKF_OK) {
    const vkf_array *bytes = vkf_result_find(result, "bytes");
    text = malloc(bytes->shape[0] + 1);
    if (text) memcpy(text, bytes->data, bytes->shape[0] + 1); /* with the zero byte after them */
    if (text) *size = bytes->shape[0];
    if (!text && !quiet) tool_error("%s: out of memory", path);
  } else if (!quiet) {
    tool_session_fail(&session, status, NULL);
  }
  vkf_result_destroy(&result);
  vkf_context_destroy(&session.context);
  return text;
}

char *tool_read_file(const char *path, size_t *size) {
  return read_whole(path, size, false);
}

json_t *tool_read_json(const char *path) {
  size_t size;
  json_error_t error = {0};
  char *text = tool_read_file(path, &size);
  if (!text) return NULL;
  json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
  const bool has_mark = tool_without_bom(text) != text;
  const char *packing = tool_packing(text, size);
  free(text);
  if (json) return json;
  if (packing) {
    tool_error("%s: expected JSON, found what %s compressed: decompress it by %s -dc < FILE", path, packing, packing);
    return NULL;
  }
  if (has_mark) {
    tool_error("%s: expected JSON, found a byte-order mark of UTF-8 before it: save the file without one", path);
    return NULL;
  }
  /* If memory runs out, jansson may report wrong syntax. So try to allocate what it may have needed. */
  void *trial = malloc(16 * (size_t)(error.position > 0 ? error.position : 1));
  const bool has_memory = trial && error.line > 0 && json_error_code(&error) != json_error_out_of_memory;
  free(trial);
  if (!has_memory)
    tool_error("%s: out of memory", path);
  else
    tool_error("%s: expected JSON, found at line %d, column %d: %s", path, error.line, error.column, error.text);
  return NULL;
}

json_t *tool_folder_json(const char *folder, const char *name) {
  char path[4200];
  size_t size = 0;
  int n = snprintf(path, sizeof path, "%s/%s", folder, name);
  char *text = n < (int)sizeof path ? read_whole(path, &size, true) : NULL;
  json_t *json = text ? json_loadb(text, size, 0, NULL) : NULL;
  free(text);
  return json;
}

int tool_read_arrays(tool_session *session, const char *path, vkf_result **out) {
  vkf_status status = vkf_arrays_read(session->context, path, out);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

static int arrays_from_json(const char *path, tool_inputs *in) {
  in->json = tool_read_json(path);
  if (!in->json) return TOOL_FAILED;
  if (!json_is_object(in->json)) return tool_error("%s: expected an object of arrays", path);
  in->arrays = calloc(json_object_size(in->json) + 1, sizeof *in->arrays);
  if (!in->arrays) return tool_error("out of memory");
  const char *key;
  json_t *value;
  json_object_foreach(in->json, key, value) {
    if (strcmp(key, "format") == 0 && json_is_string(value)) continue; /* of a file that tool_write_arrays() wrote */
    if (tool_array_from_json(value, key, tool_array_is_integer(key), &in->arrays[in->n]) != TOOL_OK) return TOOL_FAILED;
    in->n++;
  }
  return TOOL_OK;
}

int tool_inputs_read(tool_session *session, const char *path, tool_inputs *in) {
  if (tool_ends_with(path, ".json")) return arrays_from_json(path, in);
  int exit_code = tool_read_arrays(session, path, &in->file);
  if (exit_code != TOOL_OK) return exit_code;
  in->n = vkf_result_count(in->file);
  in->arrays = tool_arrays(in->file);
  return in->arrays ? TOOL_OK : TOOL_FAILED;
}

void tool_inputs_finish(tool_inputs *in) {
  for (size_t i = 0; in->json && i < in->n; i++) free(in->arrays[i].data);
  free(in->arrays);
  json_decref(in->json);
  vkf_result_destroy(&in->file);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The path that "-" stands for. Once "-" is used, everything else is printed to standard error. */
static char standard_output[32] = "-";

bool tool_take_output(void) {
  if (standard_output[0] != '-') return true;
  fflush(stdout);
  const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return false;
  snprintf(standard_output, sizeof standard_output, "/dev/fd/%d", fd);
  return true;
}

const char *tool_output_path(const char *path) {
  fflush(stdout); /* the path may be standard output by another name */
  return strcmp(path, "-") == 0 ? standard_output : path;
}

int tool_write_file(const char *path, const void *data, size_t size) {
  tool_session session = {0};
  vkf_status status = vkf_context_create(NULL, &session.context);
  if (status == VKF_OK) status = vkf_bytes_write(session.context, tool_output_path(path), data, size);
  int exit_code = status == VKF_OK ? TOOL_OK : tool_session_fail(&session, status, NULL);
  vkf_context_destroy(&session.context);
  return exit_code;
}

static json_t *arrays_to_json(const vkf_result *result) {
  json_t *all = json_pack("{s:s}", "format", "vkformer-arrays/1");
  for (size_t i = 0; i < vkf_result_count(result); i++) {
    const vkf_array *a = vkf_result_at(result, i);
    json_object_set_new(all, a->name, tool_array_to_json(a));
  }
  return all;
}

int tool_write_arrays(tool_session *session, const char *path, const vkf_result *result) {
  if (tool_ends_with(path, ".json")) return tool_write_json(path, arrays_to_json(result));
  vkf_array *arrays = tool_arrays(result);
  if (!arrays) return TOOL_FAILED;
  vkf_status status = vkf_arrays_write(session->context, tool_output_path(path), arrays, vkf_result_count(result));
  free(arrays);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

int tool_write_json(const char *path, json_t *json) {
  char *text = json ? json_dumps(json, JSON_INDENT(2) | TOOL_JSON_DIGITS) : NULL;
  size_t size = text ? strlen(text) : 0;
  json_decref(json);
  if (!text) return tool_error("out of memory");
  text[size] = '\n'; /* instead of the zero byte */
  int exit_code = tool_write_file(path, text, size + 1);
  free(text);
  return exit_code;
}

/* ---- before any work --------------------------------------------------------------------------------------------- */

int tool_check_input(const char *option, const char *path) {
  struct stat status;
  int cause = 0;
  if (stat(path, &status) != 0 || access(path, R_OK) != 0) cause = errno;
  if (!cause && S_ISDIR(status.st_mode)) cause = EISDIR;
  return cause ? tool_error("--%s: %s: cannot be read: %s", option, path, strerror(cause)) : TOOL_OK;
}

int tool_check_output(const char *option, const char *path) {
  tool_session session = {0};
  char where[64];
  snprintf(where, sizeof where, "--%s", option);
  vkf_status status = vkf_context_create(NULL, &session.context);
  if (status == VKF_OK) status = vkf_bytes_check_write(session.context, tool_output_path(path));
  int exit_code = status == VKF_OK ? TOOL_OK : tool_session_fail(&session, status, where);
  vkf_context_destroy(&session.context);
  return exit_code;
}

int tool_refuse_same_file(const char *command, const char *option, const char *input, const char *output) {
  struct stat from, to;
  if (!output || stat(output, &to) != 0 || !S_ISREG(to.st_mode)) return TOOL_OK;
  if ((input ? stat(input, &from) : fstat(STDIN_FILENO, &from)) != 0) return TOOL_OK;
  if (from.st_dev != to.st_dev || from.st_ino != to.st_ino) return TOOL_OK;
  return tool_usage_error(command, "--%s: expected another file than the input, found '%s' for both", option, output);
}
