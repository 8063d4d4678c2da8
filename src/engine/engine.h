/* engine: contexts, devices, models and sessions of the public header; task and lab implement the rest of it.
 *
 * Owns contexts, devices, open models, sessions with their plan caches, and results. Preconditions of callers are
 * checked here, once. Invariant: every public call begins with vkf_env_clear(), so the message is that of the last call
 * that failed.
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
  pthread_mutex_t lock;       /* of the sessions, and while one of them comes or goes */
  vkf_session *sessions;      /* of all models, and those whose model was closed */
  vkf_gpu_instance *instance; /* NULL before the first look, or where there is no loader */
  bool looked;                /* instance creation was tried */
  char no_loader[1024];       /* why there is no instance */
  char **icd_files;
  size_t n_icd_files;
  char *cache_folder; /* of tuned results (cache.h); NULL: none is kept */
  bool deterministic, batch_invariant, no_checks;
  char *limits; /* limits.h; NULL: none */
};

struct vkf_device {
  vkf_context *ctx;
  vkf_gpu_device *gpu; /* NULL: ref */
  vkf_backend *backend;
  vkf_device_info info;
  vkf_tuning tuning; /* of ref: empty */
};

/* Neither the scalar path nor a software driver. */
static inline bool vkf_engine_is_gpu(const vkf_device *dev) {
  return dev->info.kind != VKF_DEVICE_CPU && dev->info.kind != VKF_DEVICE_REF;
}

struct vkf_result {
  vkf_env *env;
  vkf_array *arrays;
  size_t n_arrays;
  char **texts;
  size_t n_texts;
  vkf_skip_reason *skipped; /* [n_skipped] of the texts of the call; NULL: none was skipped */
  char **why;
  size_t n_skipped;
};

/* The Vulkan instance, made at the first call; NULL and VKF_OK where there is no loader (ctx->no_loader says why). */
vkf_status vkf_engine_instance(vkf_context *ctx);
/* "lavapipe", "swiftshader", "cpu" or "gpu"; caps NULL: "ref". */
const char *vkf_engine_alias(const vkf_caps *caps);
void vkf_engine_fill_info(const vkf_caps *caps, vkf_device_info *out);

/* The public name of a format; VKF_FORMAT_COUNT: AUTO. */
vkf_storage vkf_engine_storage_of(vkf_format format);

/* ---- structs that can grow (params.c) ---------------------------------------------------------------------------- */
/* Copies the caller's struct (NULL: nothing) over the defaults, which are zeros. */
vkf_status vkf_engine_params_read(vkf_env *env, const char *type, const void *params, size_t full_size, void *full);
#define VKF_PARAMS_READ(env, type, params, full) vkf_engine_params_read((env), #type, (params), sizeof(type), (full))
/* Fills what the caller has of it. */
vkf_status vkf_engine_info_write(vkf_env *env, const char *type, const void *full, size_t full_size, void *out);
#define VKF_INFO_WRITE(env, type, full, out) vkf_engine_info_write((env), #type, (full), sizeof(type), (out))

/* Fails: a public function got NULL as `argument`. */
vkf_status vkf_engine_null(vkf_env *env, const char *argument);

/* ---- results (result.c) ------------------------------------------------------------------------------------------ */
vkf_status vkf_engine_result_create(vkf_env *env, vkf_result **out);
/* *result may be NULL. */
void vkf_engine_result_destroy(vkf_result **result);
/* Adds an array with memory of its own; *data (may be NULL): where to write its elements. */
vkf_status vkf_engine_result_add(vkf_result *result, const char *name, vkf_dtype dtype, size_t rank,
                                 const size_t *shape, void **data);
/* Adds a text of its own; NULL counts as "". */
vkf_status vkf_engine_result_add_text(vkf_result *result, const char *text);
/* Notes which of the call's texts [n] were skipped; why[i] is NULL where text i was not. */
vkf_status vkf_engine_result_skip(vkf_result *result, size_t n, const vkf_skip_reason *skipped, const char *const *why);

/* ---- arrays that callers give (arrays.c) ------------------------------------------------------------------------- */
/* NULL if there is none of that name. */
const vkf_array *vkf_engine_array_find(const vkf_array *arrays, size_t n, const char *name);
size_t vkf_engine_array_elements(const vkf_array *array);
/* VKF_ERROR_ARGUMENT names the first array whose name is not among `known`, which are separated by ", ", or that is
 * there twice. call: "run". */
vkf_status vkf_engine_check_names(vkf_env *env, const vkf_array *arrays, size_t n, const char *call, const char *known);
/* int32 or int64 array of rank 2 as int32; shape: where shape_given, the wanted one; else it gets that of the array.
 * The memory is the caller's (vkf_env_free). Without the array: *out NULL if optional, else VKF_ERROR_ARGUMENT. */
vkf_status vkf_engine_array_ids(vkf_env *env, const vkf_array *arrays, size_t n, const char *name, bool optional,
                                size_t shape[2], bool shape_given, int32_t **out);

#endif
