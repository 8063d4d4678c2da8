/* json: see json.h. Only this file, safetensors.c and safetensors_write.c of this room know jansson. */
#include "file/json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_memory.h"
#include "file/foreign.h"
#include "file/map.h"

struct vkf_file_json {
  vkf_env *env;
  vkf_arena arena; /* source and the paths of values */
  const char *source;
  json_t *root;
  bool only_reals; /* jansson holds its integers as reals: base/json_memory.h */
};

/* ---- documents --------------------------------------------------------------------------------------------------- */

vkf_status vkf_file_json_parse(vkf_env *env, const char *source, const char *bytes, size_t n_bytes,
                               vkf_file_json **out) {
  vkf_status st = VKF_OK;
  json_error_t error = {0};
  *out = NULL;
  vkf_file_json *document = vkf_env_alloc(env, 1, sizeof(*document));
  if (document == NULL) return VKF_ERROR_MEMORY;
  document->env = env;
  vkf_arena_init(&document->arena, env);
  document->source = vkf_arena_strdup(&document->arena, source);
  if (document->source == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  document->root =
      vkf_json_load(bytes, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &document->only_reals, &error);
  const char *foreign = document->root == NULL ? vkf_file_foreign_bytes(bytes, n_bytes) : NULL;
  if (foreign != NULL) VKF_FAIL(env, VKF_ERROR_FORMAT, "%s: expected JSON, found %s", source, foreign);
  if (document->root == NULL) VKF_TRY(vkf_json_refuse(env, source, bytes, n_bytes, &error));
  *out = document;
  document = NULL;
done:
  vkf_file_json_destroy(&document);
  return st;
}

vkf_status vkf_file_json_read(vkf_env *env, const char *path, vkf_file_json **out) {
  vkf_file_map map;
  *out = NULL;
  vkf_status st = vkf_file_map_open(env, path, &map);
  if (st == VKF_OK) st = vkf_file_json_parse(env, path, (const char *)map.data, map.bytes, out);
  vkf_file_map_close(&map);
  return st;
}

void vkf_file_json_destroy(vkf_file_json **document) {
  vkf_file_json *d = *document;
  if (d == NULL) return;
  json_decref(d->root);
  vkf_arena_finish(&d->arena);
  vkf_env_free(d->env, d);
  *document = NULL;
}

static int add_bytes(const char *bytes, size_t n, void *hash) {
  *(uint64_t *)hash = vkf_hash_bytes(*(uint64_t *)hash, bytes, n);
  return 0;
}

vkf_status vkf_file_json_hash(vkf_file_value value, uint64_t *out) {
  *out = VKF_HASH_START;
  if (!json_dump_callback(value.node, add_bytes, out, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY)) return VKF_OK;
  return vkf_env_fail(value.document->env, VKF_ERROR_MEMORY, "%s: out of host memory", value.document->source);
}

void vkf_file_json_print(vkf_text *out, vkf_file_value value) {
  char *text = value.node ? json_dumps(value.node, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  vkf_text_printf(out, "%.200s", text ? text : "nothing");
  free(text);
}

/* Returns whether it is an integer, or a whole number below 2^53 of a document whose integers became reals. */
static bool is_integer(vkf_file_value value) {
  if (json_is_integer((json_t *)value.node)) return true;
  const double x = json_real_value(value.node);
  return json_is_real((json_t *)value.node) && value.document->only_reals && fabs(x) < 0x1p53 && x == floor(x);
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

vkf_file_value vkf_file_json_root(vkf_file_json *document) {
  return (vkf_file_value){document, document->root, ""};
}

vkf_file_kind vkf_file_json_kind(vkf_file_value value) {
  if (value.node == NULL) return VKF_FILE_ABSENT;
  switch (json_typeof((json_t *)value.node)) {
    case JSON_OBJECT:
      return VKF_FILE_OBJECT;
    case JSON_ARRAY:
      return VKF_FILE_ARRAY;
    case JSON_STRING:
      return VKF_FILE_STRING;
    case JSON_INTEGER:
      return VKF_FILE_INTEGER;
    case JSON_REAL:
      return is_integer(value) ? VKF_FILE_INTEGER : VKF_FILE_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
      return VKF_FILE_BOOL;
    default:
      return VKF_FILE_NULL;
  }
}

/* Returns the path of a value for messages, or "?" if there is no memory for it: that is not recorded as a failure. */
static const char *path_of(vkf_file_value parent, const char *key, size_t index) {
  vkf_env *env = parent.document->env;
  bool was_clear = env->first == VKF_OK;
  const char *path = NULL;
  if (key == NULL)
    path = vkf_arena_printf(&parent.document->arena, "%s[%zu]", parent.path, index);
  else if (parent.path[0] == '\0')
    path = vkf_arena_strdup(&parent.document->arena, key);
  else
    path = vkf_arena_printf(&parent.document->arena, "%s.%s", parent.path, key);
  if (path == NULL && was_clear) vkf_env_clear(env);
  return path != NULL ? path : "?";
}

vkf_file_value vkf_file_json_member(vkf_file_value object, const char *key) {
  return (vkf_file_value){object.document, json_object_get(object.node, key), path_of(object, key, 0)};
}

size_t vkf_file_json_count(vkf_file_value value) {
  if (json_is_array((json_t *)value.node)) return json_array_size(value.node);
  return json_object_size(value.node);
}

vkf_file_value vkf_file_json_at(vkf_file_value array, size_t index) {
  return (vkf_file_value){array.document, json_array_get(array.node, index), path_of(array, NULL, index)};
}

const char *vkf_file_json_key(vkf_file_value object, size_t index) {
  void *at = json_object_iter(object.node);
  while (at != NULL && index-- > 0) at = json_object_iter_next(object.node, at);
  return at == NULL ? NULL : json_object_iter_key(at);
}

size_t vkf_file_json_unknown(vkf_file_value object, const char *const *known, size_t n_known, vkf_text *out) {
  size_t n_unknown = 0;
  for (void *at = json_object_iter(object.node); at != NULL; at = json_object_iter_next(object.node, at)) {
    const char *key = json_object_iter_key(at);
    size_t i = 0;
    while (i < n_known && strcmp(known[i], key) != 0) i++;
    if (i < n_known) continue;
    vkf_text_printf(out, "%s%s", n_unknown == 0 ? "" : ", ", key);
    n_unknown++;
  }
  return n_unknown;
}

/* ---- typed values ------------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {
    [VKF_FILE_ABSENT] = "nothing",     [VKF_FILE_NULL] = "null",          [VKF_FILE_BOOL] = "a boolean",
    [VKF_FILE_INTEGER] = "an integer", [VKF_FILE_REAL] = "a real number", [VKF_FILE_STRING] = "a string",
    [VKF_FILE_ARRAY] = "an array",     [VKF_FILE_OBJECT] = "an object"};

static vkf_status check(vkf_file_value value, bool fits, const char *expected) {
  if (fits) return VKF_OK;
  vkf_file_json *d = value.document;
  const char *found = kind_names[vkf_file_json_kind(value)];
  if (json_is_real((json_t *)value.node) && d->only_reals && fabs(json_real_value(value.node)) >= 0x1p53)
    found = "a number of more than 53 bits";
  if (value.path[0] == '\0')
    return vkf_env_fail(d->env, VKF_ERROR_FORMAT, "%s: expected %s, found %s", d->source, expected, found);
  return vkf_env_fail(d->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected %s, found %s", d->source, value.path,
                      expected, found);
}

vkf_status vkf_file_json_as_string(vkf_file_value value, const char **out) {
  vkf_status st = check(value, json_is_string((json_t *)value.node), "a string");
  if (st == VKF_OK) *out = json_string_value(value.node);
  return st;
}

vkf_status vkf_file_json_as_bool(vkf_file_value value, bool *out) {
  vkf_status st = check(value, json_is_boolean((json_t *)value.node), "a boolean");
  if (st == VKF_OK) *out = json_is_true((json_t *)value.node);
  return st;
}

vkf_status vkf_file_json_as_int64(vkf_file_value value, int64_t *out) {
  vkf_status st = check(value, is_integer(value), "an integer");
  if (st == VKF_OK)
    *out =
        json_is_integer((json_t *)value.node) ? json_integer_value(value.node) : (int64_t)json_real_value(value.node);
  return st;
}

vkf_status vkf_file_json_as_double(vkf_file_value value, double *out) {
  vkf_status st = check(value, json_is_number((json_t *)value.node), "a number");
  if (st == VKF_OK) *out = json_number_value(value.node);
  return st;
}

vkf_status vkf_file_json_as_array(vkf_file_value value, vkf_file_value *out) {
  *out = value;
  return check(value, json_is_array((json_t *)value.node), "an array");
}

vkf_status vkf_file_json_as_object(vkf_file_value value, vkf_file_value *out) {
  *out = value;
  return check(value, json_is_object((json_t *)value.node), "an object");
}

/* One pair of functions for each type: get must find, find may miss. */
#define SCALAR(name, type)                                                                                 \
  vkf_status vkf_file_json_get_##name(vkf_file_value object, const char *key, type *out) {                 \
    return vkf_file_json_as_##name(vkf_file_json_member(object, key), out);                                \
  }                                                                                                        \
  vkf_status vkf_file_json_find_##name(vkf_file_value object, const char *key, type fallback, type *out) { \
    vkf_file_value value = vkf_file_json_member(object, key);                                              \
    *out = fallback;                                                                                       \
    return vkf_file_json_kind(value) <= VKF_FILE_NULL ? VKF_OK : vkf_file_json_as_##name(value, out);      \
  }
#define NESTED(name)                                                                                  \
  vkf_status vkf_file_json_get_##name(vkf_file_value object, const char *key, vkf_file_value *out) {  \
    return vkf_file_json_as_##name(vkf_file_json_member(object, key), out);                           \
  }                                                                                                   \
  vkf_status vkf_file_json_find_##name(vkf_file_value object, const char *key, vkf_file_value *out) { \
    *out = vkf_file_json_member(object, key);                                                         \
    if (vkf_file_json_kind(*out) == VKF_FILE_NULL) out->node = NULL;                                  \
    return out->node == NULL ? VKF_OK : vkf_file_json_as_##name(*out, out);                           \
  }

SCALAR(string, const char *)
SCALAR(bool, bool)
SCALAR(int64, int64_t)
SCALAR(double, double)
NESTED(array)
NESTED(object)
