/* json: reads configuration files. Messages name the file, the key, the expected and the found type.
 *
 * A thin wrapper around jansson, whose types stay inside json.c. Refuses duplicate keys, bytes after the value, and
 * whatever is not JSON (NaN, comments). Invariant: a value of a document is valid until the document is destroyed.
 * jansson has one allocator per process, so its memory is not counted in vkf_env.
 */
#ifndef VKF_FILE_JSON_H
#define VKF_FILE_JSON_H

#include "base/base.h"

typedef struct vkf_file_json vkf_file_json; /* a document */

/* A value inside a document; passed by value. */
typedef struct vkf_file_value {
  vkf_file_json *document;
  void *node;       /* NULL: there is no such value */
  const char *path; /* "rope_scaling.factor", for messages; "" for the root */
} vkf_file_value;

typedef enum vkf_file_kind {
  VKF_FILE_ABSENT,
  VKF_FILE_NULL,
  VKF_FILE_BOOL,
  VKF_FILE_INTEGER,
  VKF_FILE_REAL,
  VKF_FILE_STRING,
  VKF_FILE_ARRAY,
  VKF_FILE_OBJECT
} vkf_file_kind;

/* Returns VKF_ERROR_FILE, or VKF_ERROR_FORMAT with file, line and column. */
vkf_status vkf_file_json_read(vkf_env *env, const char *path, vkf_file_json **out);
/* source: its name in messages. The bytes are not needed afterwards. */
vkf_status vkf_file_json_parse(vkf_env *env, const char *source, const char *bytes, size_t n_bytes,
                               vkf_file_json **out);
void vkf_file_json_destroy(vkf_file_json **document);

/* Hashes a value. White space and the order of keys do not change the hash. Returns VKF_ERROR_MEMORY if it fails. */
vkf_status vkf_file_json_hash(vkf_file_value value, uint64_t *out);
/* Appends the first 200 bytes of a value as JSON in one line, for messages; "nothing" if it is absent. */
void vkf_file_json_print(vkf_text *out, vkf_file_value value);

vkf_file_value vkf_file_json_root(vkf_file_json *document);
vkf_file_kind vkf_file_json_kind(vkf_file_value value);
/* Returns the value of a key; absent if there is none or if `object` is no object. */
vkf_file_value vkf_file_json_member(vkf_file_value object, const char *key);
/* Returns the number of elements of an array or of keys of an object, else 0. */
size_t vkf_file_json_count(vkf_file_value value);
/* Returns an element of an array; index < count. */
vkf_file_value vkf_file_json_at(vkf_file_value array, size_t index);
/* Returns a key of an object, in the order of the file; NULL past the end. Each call walks the keys up to it. */
const char *vkf_file_json_key(vkf_file_value object, size_t index);
/* Appends the keys of `object` that are not in known[n_known], separated by ", ". Returns their number. */
size_t vkf_file_json_unknown(vkf_file_value object, const char *const *known, size_t n_known, vkf_text *out);

/* Read the value itself. VKF_ERROR_FORMAT if it is absent or has another type. A real may be written as an integer, but
 * an integer not as a real. Strings live as long as the document. */
vkf_status vkf_file_json_as_string(vkf_file_value value, const char **out);
vkf_status vkf_file_json_as_bool(vkf_file_value value, bool *out);
vkf_status vkf_file_json_as_int64(vkf_file_value value, int64_t *out);
vkf_status vkf_file_json_as_double(vkf_file_value value, double *out);
/* The same for arrays and objects: *out is the value. */
vkf_status vkf_file_json_as_array(vkf_file_value value, vkf_file_value *out);
vkf_status vkf_file_json_as_object(vkf_file_value value, vkf_file_value *out);

/* Read a key that must be there. */
vkf_status vkf_file_json_get_string(vkf_file_value object, const char *key, const char **out);
vkf_status vkf_file_json_get_bool(vkf_file_value object, const char *key, bool *out);
vkf_status vkf_file_json_get_int64(vkf_file_value object, const char *key, int64_t *out);
vkf_status vkf_file_json_get_double(vkf_file_value object, const char *key, double *out);
vkf_status vkf_file_json_get_array(vkf_file_value object, const char *key, vkf_file_value *out);
vkf_status vkf_file_json_get_object(vkf_file_value object, const char *key, vkf_file_value *out);

/* Read a key that may be missing or null: then *out is `fallback`, or an absent value. */
vkf_status vkf_file_json_find_string(vkf_file_value object, const char *key, const char *fallback, const char **out);
vkf_status vkf_file_json_find_bool(vkf_file_value object, const char *key, bool fallback, bool *out);
vkf_status vkf_file_json_find_int64(vkf_file_value object, const char *key, int64_t fallback, int64_t *out);
vkf_status vkf_file_json_find_double(vkf_file_value object, const char *key, double fallback, double *out);
vkf_status vkf_file_json_find_array(vkf_file_value object, const char *key, vkf_file_value *out);
vkf_status vkf_file_json_find_object(vkf_file_value object, const char *key, vkf_file_value *out);

#endif
