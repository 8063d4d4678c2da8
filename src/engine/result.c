/* Results: named arrays and texts that outlive the call that made them. They own everything they point to. */
#include <string.h>

#include "engine/engine.h"

vkf_status vkf_engine_result_create(vkf_env *env, vkf_result **out) {
  *out = vkf_env_alloc(env, 1, sizeof **out);
  if (!*out) return VKF_ERROR_MEMORY;
  (*out)->env = env;
  return VKF_OK;
}

vkf_status vkf_engine_result_add(vkf_result *result, const char *name, vkf_dtype dtype, size_t rank,
                                 const size_t *shape, void **data) {
  vkf_env *env = result->env;
  size_t n = 1;
  vkf_array array = {.dtype = dtype, .rank = rank};
  for (size_t i = 0; i < rank; i++) {
    array.shape[i] = shape[i];
    if (!vkf_size_mul(n, shape[i], &n))
      return vkf_env_fail(env, VKF_ERROR_MEMORY, "array %s is larger than memory", name);
  }
  vkf_array *arrays = vkf_env_realloc(env, result->arrays, result->n_arrays + 1, sizeof *arrays);
  if (!arrays) return VKF_ERROR_MEMORY;
  result->arrays = arrays;
  array.name = vkf_env_strdup(env, name);
  array.data = vkf_env_alloc(env, n, vkf_dtype_bytes(dtype));
  result->arrays[result->n_arrays++] = array;
  if (!array.name || !array.data) return VKF_ERROR_MEMORY;
  if (data) *data = array.data;
  return VKF_OK;
}

vkf_status vkf_engine_result_add_text(vkf_result *result, const char *text) {
  char **texts = vkf_env_realloc(result->env, result->texts, result->n_texts + 1, sizeof *texts);
  if (!texts) return VKF_ERROR_MEMORY;
  result->texts = texts;
  texts[result->n_texts] = vkf_env_strdup(result->env, text ? text : "");
  if (!texts[result->n_texts]) return VKF_ERROR_MEMORY;
  result->n_texts++;
  return VKF_OK;
}

vkf_status vkf_engine_result_skip(vkf_result *result, size_t n, const vkf_skip_reason *skipped,
                                  const char *const *why) {
  result->skipped = vkf_env_alloc(result->env, n, sizeof *result->skipped);
  result->why = vkf_env_alloc(result->env, n, sizeof *result->why);
  if (!result->skipped || !result->why) return VKF_ERROR_MEMORY;
  result->n_skipped = n;
  for (size_t i = 0; i < n; i++) {
    result->skipped[i] = skipped[i];
    if (why[i]) result->why[i] = vkf_env_strdup(result->env, why[i]);
    if (why[i] && !result->why[i]) return VKF_ERROR_MEMORY;
  }
  return VKF_OK;
}

vkf_skip_reason vkf_result_skipped(const vkf_result *result, size_t text, const char **why) {
  const bool is_known = result && text < result->n_skipped;
  if (why) *why = is_known ? result->why[text] : NULL;
  return is_known ? result->skipped[text] : VKF_SKIP_NONE;
}

size_t vkf_result_count(const vkf_result *result) {
  return result ? result->n_arrays : 0;
}
const vkf_array *vkf_result_at(const vkf_result *result, size_t index) {
  return result && index < result->n_arrays ? &result->arrays[index] : NULL;
}
const vkf_array *vkf_result_find(const vkf_result *result, const char *name) {
  return result && name ? vkf_engine_array_find(result->arrays, result->n_arrays, name) : NULL;
}
/* Returns NULL, and 0 as *n, if there is no such array of that type. */
static const void *elements(const vkf_result *result, const char *name, vkf_dtype dtype, size_t *n) {
  const vkf_array *a = result && name ? vkf_engine_array_find(result->arrays, result->n_arrays, name) : NULL;
  const bool is_there = a && a->dtype == dtype;
  if (n) *n = is_there ? vkf_engine_array_elements(a) : 0;
  return is_there ? a->data : NULL;
}

const float *vkf_result_f32(const vkf_result *result, const char *name, size_t *n) {
  return elements(result, name, VKF_F32, n);
}
const double *vkf_result_f64(const vkf_result *result, const char *name, size_t *n) {
  return elements(result, name, VKF_F64, n);
}
const int32_t *vkf_result_i32(const vkf_result *result, const char *name, size_t *n) {
  return elements(result, name, VKF_I32, n);
}
const char *vkf_result_text(const vkf_result *result, size_t index) {
  return result && index < result->n_texts ? result->texts[index] : NULL;
}
size_t vkf_result_text_count(const vkf_result *result) {
  return result ? result->n_texts : 0;
}

void vkf_engine_result_destroy(vkf_result **result) {
  if (!*result) return;
  vkf_result *r = *result;
  for (size_t i = 0; i < r->n_arrays; i++) {
    vkf_env_free(r->env, (void *)(uintptr_t)r->arrays[i].name);
    vkf_env_free(r->env, r->arrays[i].data);
  }
  for (size_t i = 0; i < r->n_texts; i++) vkf_env_free(r->env, r->texts[i]);
  for (size_t i = 0; i < r->n_skipped; i++) vkf_env_free(r->env, r->why[i]);
  vkf_env_free(r->env, r->skipped);
  vkf_env_free(r->env, r->why);
  vkf_env_free(r->env, r->arrays);
  vkf_env_free(r->env, r->texts);
  vkf_env_free(r->env, r);
  *result = NULL;
}

void vkf_result_destroy(vkf_result **result) {
  if (result) vkf_engine_result_destroy(result);
}

const vkf_array *vkf_engine_array_find(const vkf_array *arrays, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (arrays[i].name && !strcmp(arrays[i].name, name)) return &arrays[i];
  return NULL;
}

size_t vkf_engine_array_elements(const vkf_array *array) {
  size_t n = 1;
  for (size_t i = 0; i < array->rank; i++) n *= array->shape[i];
  return n;
}
