/* json_memory: jansson for the rooms that read and write JSON; no .c file of base uses it.
 *
 * jansson does not always report that memory ran out, or that the text begins with a byte-order mark; these functions
 * find out. Zero the json_error_t before a call.
 */
#ifndef VKF_BASE_JSON_MEMORY_H
#define VKF_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <string.h>

#include "base/base.h"

/* Parses as json_loadb() does. If jansson cannot hold an integer of the document, reads all integers as reals and sets
 * *only_reals: tokenizers without a limit have a model_max_length of 10^30. */
static inline json_t *vkf_json_load(const char *bytes, size_t n, size_t flags, bool *only_reals, json_error_t *error) {
  json_t *json = json_loadb(bytes, n, flags, error);
  *only_reals = json == NULL && json_error_code(error) == json_error_numeric_overflow;
  return *only_reals ? json_loadb(bytes, n, flags | JSON_DECODE_INT_AS_REAL, error) : json;
}

/* Returns whether vkf_json_load() returned NULL for lack of memory. jansson may then leave the error as it was, with
 * line -1, or report a string that it cannot hold as wrong syntax. So this tries to allocate what jansson may have
 * needed up to the error. */
static inline bool vkf_json_lacks_memory(vkf_env *env, const json_error_t *error) {
  enum { PER_BYTE = 16, LEAST = 1 << 16 }; /* short keys and numbers take about that */
  if (error->line <= 0 || json_error_code(error) == json_error_out_of_memory) return true;
  if (env->first != VKF_OK) return false;
  void *trial = vkf_env_realloc(env, NULL, (size_t)VKF_MAX(error->position, 0) + LEAST / PER_BYTE, PER_BYTE);
  vkf_env_free(env, trial);
  vkf_env_clear(env);
  return trial == NULL;
}

/* Returns a phrase for messages if the file has a byte-order mark, which transformers refuses, too, or is compressed;
 * else NULL. */
static inline const char *vkf_json_mark(const void *bytes, size_t n) {
  const int is_mark = n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0;
  return is_mark ? "a byte-order mark of UTF-8 before it: save the file without one" : vkf_packed(bytes, n);
}

/* Fails after vkf_json_load() returned NULL, and says what was found in `source` instead of JSON. */
static inline vkf_status vkf_json_refuse(vkf_env *env, const char *source, const char *bytes, size_t n,
                                         const json_error_t *error) {
  const char *mark = vkf_json_mark(bytes, n);
  if (mark != NULL) return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected JSON, found %s", source, mark);
  if (vkf_json_lacks_memory(env, error))
    return vkf_env_fail(env, VKF_ERROR_MEMORY, "%s: out of host memory while reading %zu bytes of JSON", source, n);
  return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected JSON, found at line %d, column %d: %s", source, error->line,
                      error->column, error->text);
}

static inline int vkf_json_append_bytes(const char *bytes, size_t n, void *out) {
  vkf_text_append(out, bytes, n);
  return 0;
}

/* Appends a value and releases it. A value of NULL, for which jansson had no memory, sets out->failed. */
static inline void vkf_json_append(vkf_text *out, json_t *json, size_t flags) {
  if (json == NULL || json_dump_callback(json, vkf_json_append_bytes, out, flags) != 0) out->failed = true;
  json_decref(json);
}

/* Returns `text` if it is UTF-8, which jansson requires, else "". */
static inline const char *vkf_json_text(const char *text) {
  return vkf_utf8_check(text, strlen(text), NULL) ? text : "";
}

#endif
