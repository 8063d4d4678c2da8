/* Arrays that callers pass in, and files: arrays in safetensors files, and bytes of any file. */
#include <string.h>

#include "engine/engine.h"
#include "file/map.h"
#include "file/safetensors.h"
#include "file/write.h"

vkf_status vkf_engine_check_names(vkf_env *env, const vkf_array *arrays, size_t n, const char *call,
                                  const char *known) {
  for (size_t i = 0; i < n; i++) {
    const char *name = arrays[i].name ? arrays[i].name : "NULL", *at = strpbrk(name, ", ") ? NULL : known;
    size_t length = strlen(name);
    while (at && (strncmp(at, name, length) || (at[length] && at[length] != ','))) {
      at = strstr(at, ", ");
      if (at) at += 2;
    }
    if (!at)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: this model has no input called %s; expected %s", call, name,
                          known);
    for (size_t k = 0; k < i; k++)
      if (strcmp(arrays[k].name, name) == 0)
        return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: expected each input once, found two called %s", call, name);
  }
  return VKF_OK;
}

static vkf_status convert_ids(vkf_env *env, const vkf_array *a, int32_t *out) {
  size_t n = a->shape[0] * a->shape[1];
  for (size_t i = 0; i < n; i++) {
    int64_t value = a->dtype == VKF_I64 ? ((const int64_t *)a->data)[i] : ((const int32_t *)a->data)[i];
    if (value < INT32_MIN || value > INT32_MAX)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s[%zu,%zu] is %lld, expected a number of 32 bits", a->name,
                          i / a->shape[1], i % a->shape[1], (long long)value);
    out[i] = (int32_t)value;
  }
  return VKF_OK;
}

vkf_status vkf_engine_array_ids(vkf_env *env, const vkf_array *arrays, size_t n, const char *name, bool optional,
                                size_t shape[2], bool shape_given, int32_t **out) {
  vkf_status st = VKF_OK;
  const vkf_array *a = vkf_engine_array_find(arrays, n, name);
  *out = NULL;
  if (!a) {
    if (!optional) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected an input called %s, found none", name);
    goto done;
  }
  if (a->dtype != VKF_I32 && a->dtype != VKF_I64)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected I32 or I64, found %s", name, vkf_name_of_dtype(a->dtype));
  if (a->rank != 2)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected 2 dimensions [batch, length], found %zu", name, a->rank);
  if (shape_given && (a->shape[0] != shape[0] || a->shape[1] != shape[1]))
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected shape [%zu, %zu], found [%zu, %zu]", name, shape[0], shape[1],
             a->shape[0], a->shape[1]);
  if (!a->shape[0] || !a->shape[1])
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected at least one row of at least one token, found shape [%zu, %zu]",
             name, a->shape[0], a->shape[1]);
  if (a->shape[0] > UINT32_MAX / a->shape[1])
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected at most %u numbers in all, found shape [%zu, %zu]", name,
             UINT32_MAX, a->shape[0], a->shape[1]);
  if (!a->data) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected data, found NULL", name);
  *out = vkf_env_alloc(env, a->shape[0] * a->shape[1], sizeof **out);
  if (!*out) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(convert_ids(env, a, *out));
  shape[0] = a->shape[0];
  shape[1] = a->shape[1];
done:
  if (st) {
    vkf_env_free(env, *out);
    *out = NULL;
  }
  return st;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

vkf_status vkf_arrays_read(vkf_context *ctx, const char *path, vkf_result **out) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&ctx->env, "path");
  if (!out) return vkf_engine_null(&ctx->env, "out");
  vkf_status st = VKF_OK;
  vkf_file_tensors *tensors = NULL;
  vkf_result *result = NULL;
  *out = NULL;
  vkf_env_clear(&ctx->env);
  VKF_TRY(vkf_file_tensors_open(&ctx->env, path, &tensors));
  VKF_TRY(vkf_engine_result_create(&ctx->env, &result));
  for (size_t i = 0; i < vkf_file_tensors_count(tensors); i++) {
    const vkf_file_tensor *t = vkf_file_tensors_at(tensors, i);
    void *data = NULL;
    VKF_TRY(vkf_engine_result_add(result, t->name, t->dtype, t->rank, t->shape, &data));
    if (t->bytes) memcpy(data, t->data, t->bytes);
  }
done:
  vkf_file_tensors_close(&tensors);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_bytes_read(vkf_context *ctx, const char *path, vkf_result **out) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&ctx->env, "path");
  if (!out) return vkf_engine_null(&ctx->env, "out");
  vkf_status st = VKF_OK;
  vkf_file_map map = {0};
  vkf_result *result = NULL;
  void *data = NULL;
  *out = NULL;
  vkf_env_clear(&ctx->env);
  VKF_TRY(vkf_file_map_read(&ctx->env, path, &map));
  VKF_TRY(vkf_engine_result_create(&ctx->env, &result));
  VKF_TRY(vkf_engine_result_add(result, "bytes", VKF_U8, 1, (const size_t[]){map.bytes + 1}, &data));
  if (map.bytes) memcpy(data, map.data, map.bytes);
  result->arrays[0].shape[0] = map.bytes; /* without the zero byte behind them */
done:
  vkf_file_map_close(&map);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_bytes_write(vkf_context *ctx, const char *path, const void *data, size_t n) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&ctx->env, "path");
  if (n && !data) return vkf_engine_null(&ctx->env, "data");
  vkf_env_clear(&ctx->env);
  return vkf_file_write(&ctx->env, path, &(vkf_file_part){data, n}, 1);
}

vkf_status vkf_bytes_check_write(vkf_context *ctx, const char *path) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&ctx->env, "path");
  vkf_env_clear(&ctx->env);
  return vkf_file_write_check(&ctx->env, path);
}

vkf_status vkf_arrays_write(vkf_context *ctx, const char *path, const vkf_array *arrays, size_t n) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&ctx->env, "path");
  if (n && !arrays) return vkf_engine_null(&ctx->env, "arrays");
  vkf_env_clear(&ctx->env);
  return vkf_file_tensors_write(&ctx->env, path, arrays, n);
}
