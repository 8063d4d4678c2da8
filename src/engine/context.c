/* Contexts: the environment, and the list of devices. No Vulkan call is made before devices are listed or opened. */
#include <stdio.h>
#include <sys/stat.h>

#include "engine/engine.h"
#include "file/map.h"
#include "tune/cache.h"
#include "tune/limits.h"

const char *vkf_version(void) {
  return VKF_VERSION_TEXT;
}

uint32_t vkf_core_count(void) {
  return vkf_cores();
}

static void destroy(vkf_context **context) {
  if (!*context) return;
  vkf_context *ctx = *context;
  pthread_mutex_destroy(&ctx->lock);
  vkf_gpu_instance_destroy(&ctx->instance);
  for (size_t i = 0; i < ctx->n_icd_files; i++) vkf_env_free(&ctx->env, ctx->icd_files[i]);
  vkf_env_free(&ctx->env, ctx->icd_files);
  vkf_env_free(&ctx->env, ctx->cache_folder);
  vkf_env_free(&ctx->env, ctx->limits);
  vkf_env env = ctx->env;
  vkf_env_free(&env, ctx);
  *context = NULL;
}

vkf_status vkf_context_create(const vkf_context_params *params, vkf_context **out) {
  vkf_status st = VKF_OK;
  vkf_context_params p;
  vkf_env env;
  vkf_context *ctx = NULL;
  if (!out) return VKF_ERROR_ARGUMENT;
  *out = NULL;
  vkf_env_init(&env, NULL);
  st = VKF_PARAMS_READ(&env, vkf_context_params, params, &p);
  if (st) return st; /* there is no context yet to keep the message */
  vkf_env_init(&env, &p);
  ctx = vkf_env_alloc(&env, 1, sizeof *ctx);
  if (!ctx) return VKF_ERROR_MEMORY;
  ctx->env = env;
  pthread_mutex_init(&ctx->lock, NULL);
  ctx->deterministic = p.deterministic;
  ctx->batch_invariant = p.batch_invariant;
  if (p.limits) {
    ctx->limits = vkf_env_strdup(&ctx->env, p.limits);
    if (!ctx->limits) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (p.n_icd_files) {
    ctx->icd_files = vkf_env_alloc(&ctx->env, p.n_icd_files, sizeof *ctx->icd_files);
    if (!ctx->icd_files) VKF_TRY(VKF_ERROR_MEMORY);
    for (size_t i = 0; i < p.n_icd_files; i++) {
      ctx->icd_files[i] = vkf_env_strdup(&ctx->env, p.icd_files[i]);
      if (!ctx->icd_files[i]) VKF_TRY(VKF_ERROR_MEMORY);
      ctx->n_icd_files = i + 1;
    }
  }
  VKF_TRY(vkf_tune_cache_folder(&ctx->env, p.cache_folder, &ctx->cache_folder));
done:
  if (st) destroy(&ctx);
  *out = ctx;
  return st;
}

void vkf_context_destroy(vkf_context **context) {
  if (context && *context && !vkf_env_refuses(&(*context)->env, "vkf_context_destroy")) destroy(context);
}

const char *vkf_context_message(const vkf_context *ctx) {
  return ctx ? ctx->env.message : "";
}

vkf_status vkf_engine_instance(vkf_context *ctx) {
  if (ctx->is_loader_known) return VKF_OK;
  const vkf_gpu_instance_params params = {.icd_files = (const char *const *)ctx->icd_files,
                                          .n_icd_files = ctx->n_icd_files};
  vkf_status st = VKF_OK;
  vkf_caps none = {0};
  if (ctx->limits) st = vkf_tune_limits_apply(&ctx->env, ctx->limits, &none); /* checks the text alone */
  /* The loader does not report a missing file. */
  for (size_t i = 0; i < ctx->n_icd_files && st == VKF_OK; i++) {
    const char *file = ctx->icd_files[i];
    struct stat facts;
    vkf_file_map map;
    if (stat(file, &facts) == 0 && S_ISFIFO(facts.st_mode))
      return vkf_env_fail(&ctx->env, VKF_ERROR_FILE,
                          "%s: expected a file, found a pipe: the Vulkan loader reads manifests more than once", file);
    st = vkf_file_map_open(&ctx->env, file, &map);
    vkf_file_map_close(&map);
  }
  if (st == VKF_OK) st = vkf_gpu_instance_create(&ctx->env, &params, &ctx->instance);
  if (st == VKF_ERROR_NO_DEVICE) { /* no loader: only ref is listed; opening any other device fails with this reason */
    snprintf(ctx->no_loader, sizeof ctx->no_loader, "%s", ctx->env.message);
    vkf_env_clear(&ctx->env);
    st = VKF_OK;
  }
  ctx->is_loader_known = st == VKF_OK;
  return st;
}

vkf_status vkf_context_list_devices(vkf_context *ctx, size_t *count) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!count) return vkf_engine_null(&ctx->env, "count");
  vkf_env_clear(&ctx->env);
  VKF_CALL(vkf_engine_instance(ctx));
  *count = 1 + vkf_gpu_instance_count(ctx->instance);
  return VKF_OK;
}

vkf_status vkf_context_device_info(vkf_context *ctx, size_t index, vkf_device_info *out) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(&ctx->env, "out");
  vkf_device_info info;
  size_t n;
  vkf_env_clear(&ctx->env);
  VKF_CALL(vkf_engine_instance(ctx));
  n = vkf_gpu_instance_count(ctx->instance);
  if (index > n)
    return vkf_env_fail(&ctx->env, VKF_ERROR_ARGUMENT, "expected a device index below %zu, found %zu", n + 1, index);
  vkf_engine_fill_info(index < n ? vkf_gpu_instance_caps(ctx->instance, index) : NULL, &info);
  return VKF_INFO_WRITE(&ctx->env, vkf_device_info, &info, out);
}
