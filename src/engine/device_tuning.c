/* Public functions for what is known of a device: its tuned times, its checks, what is cached. */
#include <vkformer/lab.h>

#include "engine/engine.h"
#include "tune/cache.h"
#include "tune/probe.h"
#include "tune/tuned.h"

static vkf_status need_kernels(vkf_device *dev, const char *call) {
  if (vkf_env_refuses(&dev->ctx->env, call)) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(&dev->ctx->env);
  if (dev->gpu) return VKF_OK;
  return vkf_env_fail(&dev->ctx->env, VKF_ERROR_ARGUMENT,
                      "the scalar path has no kernels to tune; expected a Vulkan device");
}

vkf_status vkf_device_store_times(vkf_device *dev, const vkf_kernel_time *times, size_t n) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (n && !times) return vkf_engine_null(&dev->ctx->env, "times");
  VKF_CALL(need_kernels(dev, "vkf_device_store_times"));
  return vkf_tune_store(&dev->tuning, times, n);
}

vkf_status vkf_device_export_times(vkf_device *dev, const char *path) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&dev->ctx->env, "path");
  VKF_CALL(need_kernels(dev, "vkf_device_export_times"));
  return vkf_tune_export(&dev->tuning, path);
}

vkf_status vkf_device_import_times(vkf_device *dev, const char *path, size_t *n_times) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!path) return vkf_engine_null(&dev->ctx->env, "path");
  vkf_status st = need_kernels(dev, "vkf_device_import_times");
  if (n_times) *n_times = 0;
  return st ? st : vkf_tune_import(&dev->tuning, path, n_times);
}

void vkf_context_skip_checks(vkf_context *ctx) {
  if (ctx) ctx->no_checks = true;
}

vkf_status vkf_device_run_checks(vkf_device *dev, vkf_check_fn on_check, void *user) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!on_check) return vkf_engine_null(&dev->ctx->env, "on_check");
  if (vkf_env_refuses(&dev->ctx->env, "vkf_device_run_checks")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(&dev->ctx->env);
  if (!dev->gpu) return VKF_OK;
  VKF_CALL(vkf_tune_probe_checks(&dev->tuning, true));
  for (vkf_check check = 0; check < VKF_N_CHECKS; check++) {
    const vkf_check_row *row = vkf_tune_check_row(check);
    const vkf_check_result *result = &dev->tuning.checks[check];
    const vkf_check_info info = {sizeof info, row->name, row->title, result->state, result->text};
    VKF_CALLBACK(&dev->ctx->env, on_check(user, &info));
  }
  return VKF_OK;
}

vkf_status vkf_device_get_kept_info(const vkf_device *dev, vkf_kept_info *out) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(&dev->ctx->env, "out");
  const vkf_tuning *t = &dev->tuning;
  const char *folder = dev->ctx->cache_folder;
  vkf_kept_info full = {VKF_KEPT_INFO_INIT, .cache_folder = folder};
  vkf_env_clear(&dev->ctx->env);
  full.is_refused = folder && (t->refused_folder || (!dev->gpu && vkf_tune_cache_refused(&dev->ctx->env, folder)));
  full.can_write = folder && !full.is_refused && vkf_tune_cache_has_room(&dev->ctx->env, folder);
  for (size_t s = 0; s < t->file.n_sections; s++) {
    const vkf_tuned_section *section = &t->file.sections[s];
    for (size_t i = 0; i < section->n_entries && vkf_tune_match(&section->key, &t->key) == VKF_MATCH_DEVICE; i++)
      full.n_times += !section->entries[i].probed;
  }
  return VKF_INFO_WRITE(&dev->ctx->env, vkf_kept_info, &full, out);
}
