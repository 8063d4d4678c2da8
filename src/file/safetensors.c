/* safetensors: see safetensors.h. Opens, validates and looks up. Owns the maps of the files and one sorted list. */
#include "file/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_memory.h"
#include "file/foreign.h"
#include "file/internal.h"
#include "file/map.h"

#define LENGTH_BYTES 8
#define MAX_HEADER_BYTES 100000000u

struct vkf_file_tensors {
  vkf_env *env;
  vkf_arena arena; /* names and paths */
  const char *path;
  vkf_file_source source;
  vkf_file_map *maps; /* [n_maps] */
  size_t n_maps;
  vkf_file_tensor *list; /* [n], sorted by name */
  size_t n, capacity;
};

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  const vkf_file_tensor *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static int by_data(const void *a, const void *b) {
  const vkf_file_tensor *x = a, *y = b;
  if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static bool dtype_from_name(const char *name, vkf_dtype *out) {
  for (int d = 0; d < VKF_DTYPE_COUNT; d++) {
    if (strcmp(name, vkf_name_of_dtype((vkf_dtype)d)) != 0) continue;
    *out = (vkf_dtype)d;
    return true;
  }
  return false;
}

/* Reads a JSON integer; returns false if it is not in [0, SIZE_MAX]. */
static bool size_from_json(const json_t *node, size_t *out) {
  if (!json_is_integer(node) || json_integer_value(node) < 0) return false;
  uint64_t value = (uint64_t)json_integer_value(node);
  *out = (size_t)value;
  return value <= SIZE_MAX;
}

/* Reads dtype and shape of `entry`, and computes t->bytes from them. */
static vkf_status parse_type(vkf_env *env, const json_t *entry, vkf_file_tensor *t) {
  const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
  if (!json_is_string(dtype))
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": expected a string as dtype, found %s", t->file,
                        t->name, dtype == NULL ? "nothing" : "something else");
  if (!dtype_from_name(json_string_value(dtype), &t->dtype))
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                        "%s: tensor \"%s\": expected dtype F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL, found "
                        "\"%s\"",
                        t->file, t->name, json_string_value(dtype));
  if (!json_is_array(shape))
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": expected an array as shape, found %s", t->file,
                        t->name, shape == NULL ? "nothing" : "something else");
  t->rank = json_array_size(shape);
  if (t->rank > VKF_MAX_RANK)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: tensor \"%s\": expected at most %d dimensions, found %zu",
                        t->file, t->name, VKF_MAX_RANK, t->rank);
  t->n_elements = 1;
  for (size_t i = 0; i < t->rank; i++) {
    if (!size_from_json(json_array_get(shape, i), &t->shape[i]))
      return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": shape[%zu] is not a non-negative integer", t->file,
                          t->name, i);
    if (!vkf_size_mul(t->n_elements, t->shape[i], &t->n_elements))
      return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": the product of its shape overflows", t->file,
                          t->name);
  }
  if (!vkf_size_mul(t->n_elements, vkf_dtype_bytes(t->dtype), &t->bytes))
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": the product of its shape overflows", t->file,
                        t->name);
  return VKF_OK;
}

/* Checks the offsets of `entry` and sets t->data. data: the n_data bytes after the header. */
static vkf_status parse_offsets(vkf_env *env, const json_t *entry, const uint8_t *data, size_t n_data,
                                vkf_file_tensor *t) {
  vkf_status st = VKF_OK;
  const json_t *offsets = json_object_get(entry, "data_offsets");
  size_t begin, end;
  vkf_text shape;
  vkf_text_init(&shape, env);
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !size_from_json(json_array_get(offsets, 0), &begin) ||
      !size_from_json(json_array_get(offsets, 1), &end))
    VKF_FAIL(env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": expected data_offsets [begin,end], found something else",
             t->file, t->name);
  if (begin > end || end > n_data)
    VKF_FAIL(env, VKF_ERROR_FORMAT,
             "%s: tensor \"%s\": expected data_offsets inside the file's %zu bytes of data, found [%zu,%zu]; the file "
             "may be truncated",
             t->file, t->name, n_data, begin, end);
  if (end - begin != t->bytes) {
    vkf_file_shape_print(&shape, t->rank, t->shape);
    VKF_TRY(vkf_text_status(&shape));
    VKF_FAIL(env, VKF_ERROR_FORMAT,
             "%s: tensor \"%s\": expected %zu bytes for %s %s, found data_offsets [%zu,%zu], %zu bytes", t->file,
             t->name, t->bytes, vkf_name_of_dtype(t->dtype), shape.data, begin, end, end - begin);
  }
  t->data = data + begin;
done:
  vkf_text_finish(&shape);
  return st;
}

/* Returns whether a file is JSON: it begins with an object or a list. Read as the length of a header, its first bytes
 * are too large. */
static bool is_json(const vkf_file_map *map) {
  const char *text = (const char *)map->data;
  size_t at = vkf_json_mark(map->data, map->bytes) != NULL ? 3 : 0;
  while (at < map->bytes && memchr(" \t\r\n", text[at], 4) != NULL) at++;
  return at < map->bytes && (text[at] == '{' || text[at] == '[');
}

static vkf_status parse_header(vkf_env *env, const char *path, const vkf_file_map *map, json_t **header,
                               size_t *header_bytes) {
  const char *foreign = vkf_file_foreign_bytes(map->data, map->bytes);
  if (foreign != NULL)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected a safetensors file, found %s", path, foreign);
  uint64_t length = 0;
  for (int i = LENGTH_BYTES - 1; i >= 0 && map->bytes >= LENGTH_BYTES; i--) length = length << 8 | map->data[i];
  if ((map->bytes < LENGTH_BYTES || length > MAX_HEADER_BYTES) && is_json(map))
    return vkf_env_fail(env, VKF_ERROR_FORMAT,
                        "%s: expected a safetensors file, found JSON; the commands that take arrays as JSON know it by "
                        "a name that ends in .json",
                        path);
  if (map->bytes < LENGTH_BYTES)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected a safetensors file of at least %d bytes, found %zu", path,
                        LENGTH_BYTES, map->bytes);
  if (length > MAX_HEADER_BYTES || length > map->bytes - LENGTH_BYTES)
    return vkf_env_fail(
        env, VKF_ERROR_FORMAT,
        "%s: expected a header of at most %zu bytes, found a header length of %llu; this is no safetensors "
        "file, or it is truncated",
        path, VKF_MIN(map->bytes - LENGTH_BYTES, (size_t)MAX_HEADER_BYTES), (unsigned long long)length);
  json_error_t error = {0};
  *header_bytes = (size_t)length;
  *header = json_loadb((const char *)map->data + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &error);
  if (*header == NULL && vkf_json_lacks_memory(env, &error))
    return vkf_env_fail(env, VKF_ERROR_MEMORY, "%s: out of host memory while reading a header of %zu bytes", path,
                        *header_bytes);
  if (*header == NULL)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected a header in JSON, found at byte %d of it: %s", path,
                        error.position, error.text);
  if (!json_is_object(*header))
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected a JSON object as header, found something else", path);
  return VKF_OK;
}

/* Sorts the tensors of one file, list[n], by the place of their data, and checks that they cover all data without a gap
 * or an overlap, as the format requires. */
static vkf_status check_layout(vkf_env *env, const char *file, const uint8_t *data, size_t n_data,
                               vkf_file_tensor *list, size_t n) {
  size_t end = 0;
  if (n > 1) qsort(list, n, sizeof(list[0]), by_data);
  const vkf_file_tensor *last = NULL; /* the last so far that is not empty */
  for (size_t i = 0; i < n; i++) {
    const size_t begin = (size_t)((const uint8_t *)list[i].data - data);
    if (list[i].bytes == 0) continue;
    if (begin < end)
      return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: tensors \"%s\" and \"%s\" overlap", file, last->name,
                          list[i].name);
    if (begin > end)
      return vkf_env_fail(env, VKF_ERROR_FORMAT,
                          "%s: tensor \"%s\": expected its data to begin at byte %zu, where the one before ends, found "
                          "%zu",
                          file, list[i].name, end, begin);
    end = begin + list[i].bytes;
    last = &list[i];
  }
  if (end == n_data) return VKF_OK;
  return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected %zu bytes of data, those of its tensors, found %zu", file,
                      end, n_data);
}

static vkf_status reserve(vkf_file_tensors *ts, size_t more) {
  size_t need;
  if (!vkf_size_add(ts->n, more, &need)) need = SIZE_MAX;
  if (need <= ts->capacity) return VKF_OK;
  vkf_file_tensor *grown = vkf_env_realloc(ts->env, ts->list, need, sizeof(*grown));
  if (grown == NULL) return VKF_ERROR_MEMORY;
  ts->list = grown;
  ts->capacity = need;
  return VKF_OK;
}

/* Adds the tensors of one file to the list. ts->maps has room for one more. */
static vkf_status add_file(vkf_file_tensors *ts, const char *name) {
  vkf_status st = VKF_OK;
  vkf_env *env = ts->env;
  json_t *header = NULL, *entry = NULL;
  const char *key = NULL;
  size_t header_bytes = 0, first = ts->n;
  vkf_file_map *map = &ts->maps[ts->n_maps++];
  const char *file = vkf_file_source_path(&ts->source, &ts->arena, name);
  if (file == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_file_source_open(env, &ts->source, name, map));
  VKF_TRY(parse_header(env, file, map, &header, &header_bytes));
  VKF_TRY(reserve(ts, json_object_size(header)));
  const uint8_t *data = map->data + LENGTH_BYTES + header_bytes;
  json_object_foreach(header, key, entry) {
    if (!json_is_object(entry))
      VKF_FAIL(env, VKF_ERROR_FORMAT, "%s: \"%s\" of the header: expected an object, found something else", file, key);
    if (strcmp(key, "__metadata__") == 0) continue;
    vkf_file_tensor *t = &ts->list[ts->n];
    memset(t, 0, sizeof(*t));
    t->file = file;
    t->name = vkf_arena_strdup(&ts->arena, key);
    if (t->name == NULL) VKF_TRY(VKF_ERROR_MEMORY);
    VKF_TRY(parse_type(env, entry, t));
    VKF_TRY(parse_offsets(env, entry, data, map->bytes - LENGTH_BYTES - header_bytes, t));
    ts->n++;
  }
  VKF_TRY(check_layout(env, file, data, map->bytes - LENGTH_BYTES - header_bytes, ts->list + first, ts->n - first));
done:
  json_decref(header);
  return st;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool is_same(const vkf_file_tensor *a, const vkf_file_tensor *b) {
  return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof(a->shape[0])) == 0 &&
         memcmp(a->data, b->data, a->bytes) == 0;
}

/* Sorts the list, and keeps one of the tensors that several files have with the same bytes. */
static vkf_status sort(vkf_file_tensors *ts) {
  size_t n = 0;
  if (ts->n > 1) qsort(ts->list, ts->n, sizeof(ts->list[0]), by_name);
  for (size_t i = 0; i < ts->n; i++) {
    const vkf_file_tensor *a = n > 0 ? &ts->list[n - 1] : NULL, *b = &ts->list[i];
    if (a == NULL || strcmp(a->name, b->name) != 0)
      ts->list[n++] = *b;
    else if (!is_same(a, b))
      return vkf_env_fail(ts->env, VKF_ERROR_FORMAT,
                          "%s: tensor \"%s\": expected it in one file, or the same in each, found %s and %s, which "
                          "differ in it",
                          ts->path, a->name, a->file, b->file);
  }
  ts->n = n;
  return VKF_OK;
}

static vkf_status add_maps(vkf_file_tensors *ts, size_t n) {
  ts->maps = vkf_env_alloc(ts->env, n, sizeof(*ts->maps));
  return ts->maps == NULL ? VKF_ERROR_MEMORY : VKF_OK;
}

static vkf_status open_one(vkf_file_tensors *ts, const char *file) {
  vkf_status st = add_maps(ts, 1);
  if (st == VKF_OK) st = add_file(ts, file);
  return st == VKF_OK ? sort(ts) : st;
}

static vkf_status open_index(vkf_file_tensors *ts, const char *file) {
  vkf_status st = VKF_OK;
  vkf_file_index index;
  const char *index_path = vkf_file_source_path(&ts->source, &ts->arena, file);
  VKF_TRY(vkf_file_index_read(ts->env, &ts->source, file, &index));
  if (index_path == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(add_maps(ts, index.n_files));
  for (size_t i = 0; i < index.n_files; i++) VKF_TRY(add_file(ts, index.files[i]));
  VKF_TRY(sort(ts));
  /* As in transformers, the shards say what they hold: a tensor may be in another one than the index names, or only
   * there. One that is in none of them is missed here, because a model may run without it, and then differently. */
  for (size_t i = 0; i < index.n_names; i++)
    if (vkf_file_tensors_find(ts, index.names[i]) == NULL)
      VKF_FAIL(ts->env, VKF_ERROR_FORMAT, "%s: expected tensor \"%s\" in \"%s\", found it in none of %zu files",
               index_path, index.names[i], index.files[index.file_of[i]], index.n_files);
done:
  vkf_file_index_finish(&index);
  return st;
}

/* Opens `path`; if it is NULL, `file` of `source`; if that is NULL, too, the model's tensors in `source`. */
static vkf_status open_tensors(vkf_env *env, const char *path, const vkf_file_source *source, const char *file,
                               vkf_file_tensors **out) {
  vkf_status st = VKF_OK;
  vkf_file_place place = {.file = file};
  *out = NULL;
  vkf_file_tensors *ts = vkf_env_alloc(env, 1, sizeof(*ts));
  if (ts == NULL) return VKF_ERROR_MEMORY;
  ts->env = env;
  vkf_arena_init(&ts->arena, env);
  ts->path = file != NULL ? vkf_file_source_path(source, &ts->arena, file)
                          : vkf_arena_strdup(&ts->arena, path != NULL ? path : vkf_file_source_name(source));
  if (ts->path == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  if (path == NULL) {
    ts->source = *source;
    if (file == NULL) VKF_TRY(vkf_file_place_find(&ts->arena, source, &place));
  } else {
    VKF_TRY(vkf_file_place_of_path(&ts->arena, path, &ts->source, &place));
  }
  VKF_TRY(place.is_index ? open_index(ts, place.file) : open_one(ts, place.file));
  *out = ts;
  ts = NULL;
done:
  vkf_file_tensors_close(&ts);
  return st;
}

vkf_status vkf_file_tensors_open(vkf_env *env, const char *path, vkf_file_tensors **out) {
  return open_tensors(env, path, NULL, NULL, out);
}

vkf_status vkf_file_tensors_open_source(vkf_env *env, const vkf_file_source *source, vkf_file_tensors **out) {
  return open_tensors(env, NULL, source, NULL, out);
}

vkf_status vkf_file_tensors_open_file(vkf_env *env, const vkf_file_source *source, const char *file,
                                      vkf_file_tensors **out) {
  return open_tensors(env, NULL, source, file, out);
}

void vkf_file_tensors_rest(const vkf_file_tensors *ts) {
  for (size_t i = 0; i < ts->n_maps; i++) vkf_file_map_rest(&ts->maps[i]);
}

void vkf_file_tensors_close(vkf_file_tensors **tensors) {
  vkf_file_tensors *ts = *tensors;
  if (ts == NULL) return;
  for (size_t i = 0; i < ts->n_maps; i++) vkf_file_map_close(&ts->maps[i]);
  vkf_env_free(ts->env, ts->maps);
  vkf_env_free(ts->env, ts->list);
  vkf_arena_finish(&ts->arena);
  vkf_env_free(ts->env, ts);
  *tensors = NULL;
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

size_t vkf_file_tensors_count(const vkf_file_tensors *tensors) {
  return tensors->n;
}
const vkf_file_tensor *vkf_file_tensors_at(const vkf_file_tensors *tensors, size_t index) {
  return &tensors->list[index];
}

uint64_t vkf_file_tensors_file_bytes(const vkf_file_tensors *tensors) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors->n_maps; i++) bytes += tensors->maps[i].bytes;
  return bytes;
}

const vkf_file_tensor *vkf_file_tensors_find(const vkf_file_tensors *tensors, const char *name) {
  vkf_file_tensor key = {.name = name};
  if (tensors->n == 0) return NULL;
  return bsearch(&key, tensors->list, tensors->n, sizeof(tensors->list[0]), by_name);
}

vkf_status vkf_file_tensors_get(const vkf_file_tensors *tensors, const char *name, const vkf_file_tensor **out) {
  *out = vkf_file_tensors_find(tensors, name);
  if (*out != NULL) return VKF_OK;
  return vkf_env_fail(tensors->env, VKF_ERROR_FORMAT, "%s: expected a tensor \"%s\", found none among %zu",
                      tensors->path, name, tensors->n);
}

vkf_status vkf_file_tensors_get_shaped(const vkf_file_tensors *tensors, const char *name, size_t rank,
                                       const size_t *shape, const vkf_file_tensor **out) {
  vkf_status st = VKF_OK;
  vkf_text expected, found;
  vkf_text_init(&expected, tensors->env);
  vkf_text_init(&found, tensors->env);
  VKF_TRY(vkf_file_tensors_get(tensors, name, out));
  const vkf_file_tensor *t = *out;
  bool same = t->rank == rank;
  for (size_t i = 0; same && i < rank; i++) same = t->shape[i] == shape[i];
  if (same) goto done;
  *out = NULL;
  vkf_file_shape_print(&expected, rank, shape);
  vkf_file_shape_print(&found, t->rank, t->shape);
  VKF_TRY(vkf_text_status(&expected));
  VKF_TRY(vkf_text_status(&found));
  VKF_FAIL(tensors->env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": expected shape %s, found %s", t->file, name,
           expected.data, found.data);
done:
  vkf_text_finish(&found);
  vkf_text_finish(&expected);
  return st;
}
