/* engine: contexts, devices, models and sessions of the public header; task and lab implement the rest of it.
 *
 * Owns contexts, devices, open models, sessions with their plan caches, and results. Checks the preconditions of
 * callers, once. Invariant: every public call begins with vkf_env_clear(), so a message is the first cause of that
 * call's failure.
 */
#ifndef VKF_ENGINE_ENGINE_H
#define VKF_ENGINE_ENGINE_H

#include <pthread.h>

#include "gpu/gpu.h"
#include "model/model.h"
#include "op/backend.h"
#include "text/tokenizer.h"
#include "tune/tuning.h"

#define VKF_TEXT_OF_VALUE(x) #x
#define VKF_TEXT_OF(x) VKF_TEXT_OF_VALUE(x)
#define VKF_VERSION_TEXT \
  VKF_TEXT_OF(VKF_VERSION_MAJOR) "." VKF_TEXT_OF(VKF_VERSION_MINOR) "." VKF_TEXT_OF(VKF_VERSION_PATCH)

struct vkf_context {
  vkf_env env;
  pthread_mutex_t lock;       /* guards `sessions`, and `env` when sessions are created */
  vkf_session *sessions;      /* a list; models may be closed */
  vkf_gpu_instance *instance; /* NULL: not made yet, or there is no loader */
  bool is_loader_known;       /* the instance was made, or there is no loader */
  char no_loader[1024];       /* why there is no instance */
  char **icd_files;
  size_t n_icd_files;
  char *cache_folder; /* of tuned results (cache.h); NULL: nothing is kept */
  bool deterministic, batch_invariant, no_checks;
  char *limits; /* limits.h; NULL: none */
};

struct vkf_device {
  vkf_context *ctx;
  vkf_gpu_device *gpu; /* NULL: the scalar path, ref */
  vkf_backend *backend;
  vkf_device_info info;
  vkf_tuning tuning; /* empty for ref */
};

/* Returns whether the device is neither the scalar path nor a software driver. */
static inline bool vkf_engine_is_gpu(const vkf_device *dev) {
  return dev->info.kind != VKF_DEVICE_CPU && dev->info.kind != VKF_DEVICE_REF;
}

struct vkf_result {
  vkf_env *env;
  vkf_array *arrays;
  size_t n_arrays;
  char **texts;
  size_t n_texts;
  vkf_skip_reason *skipped; /* [n_skipped]: for each text of the call; NULL: none was skipped */
  char **why;
  size_t n_skipped;
};

/* Makes ctx->instance at the first call. Without a loader it stays NULL, ctx->no_loader says why, and VKF_OK is
 * returned. */
vkf_status vkf_engine_instance(vkf_context *ctx);
/* Returns "lavapipe", "swiftshader", "cpu" or "gpu"; "ref" if caps is NULL. */
const char *vkf_engine_alias(const vkf_caps *caps);
void vkf_engine_fill_info(const vkf_caps *caps, vkf_device_info *out);

/* Returns the public enumerator of a format; VKF_STORAGE_AUTO for VKF_FORMAT_COUNT. */
vkf_storage vkf_engine_storage_of(vkf_format format);

/* ---- structs that can grow (params.c) ---------------------------------------------------------------------------- */
/* Copies the caller's struct (NULL: nothing) over the defaults, which are zeros. VKF_ERROR_UNSUPPORTED: a field that
 * only a newer version has is not 0. */
vkf_status vkf_engine_params_read(vkf_env *env, const char *type, const void *params, size_t full_size, void *full);
#define VKF_PARAMS_READ(env, type, params, full) vkf_engine_params_read((env), #type, (params), sizeof(type), (full))
/* Copies to `out` the fields that it has; zeros those that only a newer version has. */
vkf_status vkf_engine_info_write(vkf_env *env, const char *type, const void *full, size_t full_size, void *out);
#define VKF_INFO_WRITE(env, type, full, out) vkf_engine_info_write((env), #type, (full), sizeof(type), (out))

/* Records and returns VKF_ERROR_ARGUMENT: a public function got NULL as `argument`. */
vkf_status vkf_engine_null(vkf_env *env, const char *argument);

/* ---- results (result.c) ------------------------------------------------------------------------------------------ */
vkf_status vkf_engine_result_create(vkf_env *env, vkf_result **out);
/* *result may be NULL. */
void vkf_engine_result_destroy(vkf_result **result);
/* Adds an array with memory of its own. data: gets the address of its elements; may be NULL. */
vkf_status vkf_engine_result_add(vkf_result *result, const char *name, vkf_dtype dtype, size_t rank,
                                 const size_t *shape, void **data);
/* Adds a copy of the text; NULL counts as "". */
vkf_status vkf_engine_result_add_text(vkf_result *result, const char *text);
/* Records which of the call's texts [n] were skipped. Copies why[i], which is NULL if text i was not skipped. */
vkf_status vkf_engine_result_skip(vkf_result *result, size_t n, const vkf_skip_reason *skipped, const char *const *why);

/* ---- arrays that callers give (arrays.c) ------------------------------------------------------------------------- */
/* Returns NULL if no array has that name. */
const vkf_array *vkf_engine_array_find(const vkf_array *arrays, size_t n, const char *name);
size_t vkf_engine_array_elements(const vkf_array *array);
/* Fails with VKF_ERROR_ARGUMENT at the first array whose name is not in `known` (separated by ", ") or occurs twice.
 * call: for the message, such as "run". */
vkf_status vkf_engine_check_names(vkf_env *env, const vkf_array *arrays, size_t n, const char *call, const char *known);
/* Converts an int32 or int64 array of rank 2 to int32. shape: the expected one if shape_given, else set to the array's.
 * The caller frees *out (vkf_env_free). If there is no such array, *out is NULL if it is optional, else the call fails
 * with VKF_ERROR_ARGUMENT. */
vkf_status vkf_engine_array_ids(vkf_env *env, const vkf_array *arrays, size_t n, const char *name, bool optional,
                                size_t shape[2], bool shape_given, int32_t **out);

#endif
