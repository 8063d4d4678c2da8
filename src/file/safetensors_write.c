/* safetensors_write: conversion to f32 and the writer of safetensors.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "file/safetensors.h"
#include "file/write.h"

void vkf_file_shape_print(vkf_text *out, size_t rank, const size_t *shape) {
  vkf_text_append(out, "[", 1);
  for (size_t i = 0; i < rank; i++) vkf_text_printf(out, "%s%zu", i == 0 ? "" : ",", shape[i]);
  vkf_text_append(out, "]", 1);
}

/* Uses memcpy, because the data of a file may begin at any address. */
bool vkf_file_numbers_to_f32(vkf_dtype dtype, const void *data, size_t n, float *out) {
  double wide;
  switch (dtype) {
    case VKF_F32:
      if (n > 0) memcpy(out, data, n * sizeof *out);
      return true;
    case VKF_F16:
      vkf_f16_to_f32_all(data, n, out);
      return true;
    case VKF_BF16:
      vkf_bf16_to_f32_all(data, n, out);
      return true;
    case VKF_F64:
      for (size_t i = 0; i < n; i++) {
        memcpy(&wide, (const char *)data + i * sizeof(wide), sizeof(wide));
        out[i] = (float)wide;
      }
      return true;
    default:
      return false;
  }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static vkf_status array_bytes(vkf_env *env, const char *path, const vkf_array *a, bool has_data, size_t *bytes) {
  if (a->name == NULL || a->name[0] == '\0' || strcmp(a->name, "__metadata__") == 0 ||
      !vkf_utf8_check(a->name, strlen(a->name), NULL))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "%s: an array needs a name that is UTF-8, not empty and not \"__metadata__\"", path);
  *bytes = vkf_dtype_bytes(a->dtype);
  if (*bytes == 0)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: array \"%s\": unknown dtype %d", path, a->name, (int)a->dtype);
  if (a->rank > VKF_MAX_RANK)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: array \"%s\": expected at most %d dimensions, found %zu", path,
                        a->name, VKF_MAX_RANK, a->rank);
  for (size_t i = 0; i < a->rank; i++)
    if (!vkf_size_mul(*bytes, a->shape[i], bytes))
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: array \"%s\": the product of its shape overflows", path,
                          a->name);
  if (has_data && *bytes > 0 && a->data == NULL)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: array \"%s\": expected %zu bytes of data, found NULL", path,
                        a->name, *bytes);
  return VKF_OK;
}

/* Returns the header's entry of one array; NULL: no memory. */
static json_t *array_entry(const vkf_array *a, size_t begin, size_t end) {
  json_t *shape = json_array();
  for (size_t i = 0; i < a->rank; i++) {
    if (json_array_append_new(shape, json_integer((json_int_t)a->shape[i])) != 0) {
      json_decref(shape);
      return NULL;
    }
  }
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", vkf_name_of_dtype(a->dtype), "shape", shape, "data_offsets",
                   (json_int_t)begin, (json_int_t)end);
}

/* Builds the header: its length, the JSON, and spaces so that the data start at a multiple of 8. parts[0]: the header;
 * parts[1 + i]: array i. */
static vkf_status build(vkf_env *env, const char *path, const vkf_array *arrays, size_t n, bool has_data,
                        vkf_text *header, vkf_file_part *parts) {
  vkf_status st = VKF_OK;
  size_t begin = 0, end = 0;
  char *dump = NULL;
  uint8_t length[8];
  json_t *root = json_object();
  for (size_t i = 0; i < n; i++, begin = end) {
    const vkf_array *a = &arrays[i];
    VKF_TRY(array_bytes(env, path, a, has_data, &parts[1 + i].bytes));
    parts[1 + i].data = a->data;
    if (json_object_get(root, a->name) != NULL)
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: two arrays are called \"%s\"", path, a->name);
    if (!vkf_size_add(begin, parts[1 + i].bytes, &end) || end > INT64_MAX)
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: the arrays' bytes overflow", path);
    if (json_object_set_new(root, a->name, array_entry(a, begin, end)) != 0)
      VKF_FAIL(env, VKF_ERROR_MEMORY, "%s: out of host memory while writing the header", path);
  }
  dump = json_dumps(root, JSON_COMPACT);
  if (dump == NULL) VKF_FAIL(env, VKF_ERROR_MEMORY, "%s: out of host memory while writing the header", path);
  size_t n_dump = strlen(dump), n_header = VKF_ROUND_UP(n_dump, 8);
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)n_header >> 8 * i);
  vkf_text_append(header, (const char *)length, sizeof(length));
  vkf_text_append(header, dump, n_dump);
  vkf_text_append(header, "       ", n_header - n_dump);
  VKF_TRY(vkf_text_status(header));
  parts[0] = (vkf_file_part){header->data, header->size};
done:
  free(dump);
  json_decref(root);
  return st;
}

vkf_status vkf_file_tensors_write(vkf_env *env, const char *path, const vkf_array *arrays, size_t n) {
  vkf_status st = VKF_OK;
  vkf_text header;
  vkf_text_init(&header, env);
  vkf_file_part *parts = vkf_env_alloc(env, n + 1, sizeof(*parts));
  if (parts == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(build(env, path, arrays, n, true, &header, parts));
  VKF_TRY(vkf_file_write(env, path, parts, n + 1));
done:
  vkf_env_free(env, parts);
  vkf_text_finish(&header);
  return st;
}

vkf_status vkf_file_tensors_write_filled(vkf_env *env, const char *path, const vkf_array *arrays, size_t n,
                                         vkf_file_fill_fn fill, void *user) {
  enum { PIECE_BYTES = 1 << 20 };
  vkf_status st = VKF_OK;
  vkf_text header;
  vkf_file_writer writer;
  vkf_text_init(&header, env);
  void *piece = NULL;
  vkf_file_part *parts = NULL;
  VKF_TRY(vkf_file_writer_open(env, path, &writer));
  piece = vkf_env_alloc(env, PIECE_BYTES, 1);
  parts = vkf_env_alloc(env, n + 1, sizeof(*parts));
  if (parts == NULL || piece == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(build(env, path, arrays, n, false, &header, parts));
  VKF_TRY(vkf_file_writer_append(&writer, parts[0].data, parts[0].bytes));
  for (size_t i = 0; i < n; i++) {
    size_t element = vkf_dtype_bytes(arrays[i].dtype), n_elements = parts[1 + i].bytes / element;
    for (size_t first = 0, count; first < n_elements; first += count) {
      count = VKF_MIN(n_elements - first, PIECE_BYTES / element);
      VKF_TRY(fill(user, i, first, count, piece));
      VKF_TRY(vkf_file_writer_append(&writer, piece, count * element));
    }
  }
  VKF_TRY(vkf_file_writer_commit(&writer));
done:
  vkf_env_free(env, parts);
  vkf_env_free(env, piece);
  vkf_text_finish(&header);
  vkf_file_writer_finish(&writer);
  return st;
}
