/* Structs that can grow (vkformer.h): reads and fills those of callers compiled against another version. */
#include <string.h>

#include "engine/engine.h"

static vkf_status read_size(vkf_env *env, const char *type, const void *from, size_t *size) {
  memcpy(size, from, sizeof *size);
  if (*size >= sizeof *size) return VKF_OK;
  return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s.size: expected sizeof(%s), which %s_init() sets, found %zu", type,
                      type, type, *size);
}

vkf_status vkf_engine_params_read(vkf_env *env, const char *type, const void *params, size_t full_size, void *full) {
  size_t size = full_size;
  memset(full, 0, full_size);
  if (params) {
    VKF_CALL(read_size(env, type, params, &size));
    for (size_t i = full_size; i < size; i++)
      if (((const unsigned char *)params)[i])
        return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                            "%s has %zu bytes in this version (" VKF_VERSION_TEXT
                            "): expected 0 in what a newer version added, found %u at byte %zu of %zu",
                            type, full_size, ((const unsigned char *)params)[i], i, size);
    memcpy(full, params, VKF_MIN(size, full_size));
  }
  memcpy(full, &full_size, sizeof full_size);
  return VKF_OK;
}

vkf_status vkf_engine_info_write(vkf_env *env, const char *type, const void *full, size_t full_size, void *out) {
  size_t size = 0;
  VKF_CALL(read_size(env, type, out, &size));
  const size_t n = VKF_MIN(size, full_size);
  memcpy((char *)out + sizeof size, (const char *)full + sizeof size, n - sizeof size);
  memset((char *)out + n, 0, size - n);
  return VKF_OK;
}

vkf_status vkf_engine_null(vkf_env *env, const char *argument) {
  if (!vkf_env_callback_runs(env)) vkf_env_clear(env);
  return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: expected a pointer, found NULL", argument);
}
