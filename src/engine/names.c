/* The names of public enumerators, as the program prints and reads them. */
#include <vkformer/lab.h>

#include "model/model.h"
#include "op/format.h"

/* NULL past the end. */
static const char *name_at(const char *const *names, size_t n, unsigned index) {
  return index < n ? names[index] : NULL;
}

#define VKF_DEFINE_NAMES(type, ...)                           \
  const char *type##_name(type value) {                       \
    static const char *const names[] = {__VA_ARGS__};         \
    return name_at(names, VKF_COUNT(names), (unsigned)value); \
  }

VKF_DEFINE_NAMES(vkf_device_kind, "scalar", "software", "integrated", "discrete", "virtual", "other")
VKF_DEFINE_NAMES(vkf_check_state, "not supported", "not checked", "ok", "failed")
VKF_DEFINE_NAMES(vkf_scope, "case", "op", "node", "block")
VKF_DEFINE_NAMES(vkf_stage, "encode", "decode")
VKF_DEFINE_NAMES(vkf_clock, "device", "submit", "call")
VKF_DEFINE_NAMES(vkf_order_class, "ascending", "fast")

const char *vkf_storage_name(vkf_storage storage) {
  if (storage == VKF_STORAGE_AUTO) return "auto";
  return (unsigned)storage <= VKF_FORMAT_COUNT ? vkf_format_get((vkf_format)(storage - 1))->name : NULL;
}

const char *vkf_architecture_name(vkf_architecture architecture) {
  return vkf_model_architecture_name(architecture);
}

const char *vkf_dtype_name(vkf_dtype dtype) {
  return (unsigned)dtype < VKF_DTYPE_COUNT ? vkf_name_of_dtype(dtype) : NULL;
}

const char *vkf_status_name(vkf_status status) {
  static const char *const names[] = {
      [VKF_OK] = "ok",
      [VKF_ERROR_ARGUMENT] = "bad argument",
      [VKF_ERROR_MEMORY] = "out of memory",
      [VKF_ERROR_DEVICE_MEMORY] = "out of device memory",
      [VKF_ERROR_FILE] = "file error",
      [VKF_ERROR_FORMAT] = "bad file content",
      [VKF_ERROR_UNSUPPORTED] = "not supported",
      [VKF_ERROR_NO_DEVICE] = "no device",
      [VKF_ERROR_DEVICE] = "device error",
      [VKF_ERROR_DEVICE_LOST] = "device lost",
      [VKF_ERROR_NUMERIC] = "not a finite number",
      [VKF_ERROR_STOPPED] = "stopped",
  };
  const char *name = name_at(names, VKF_COUNT(names), (unsigned)status);
  return name ? name : "unknown status";
}
