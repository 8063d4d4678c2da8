/* What the public functions say of a device. */
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"

const char *vkf_engine_alias(const vkf_caps *caps) {
  if (!caps) return "ref";
  if (caps->driver_id == VKF_DRIVER_ID_LAVAPIPE) return "lavapipe";
  if (caps->driver_id == VKF_DRIVER_ID_SWIFTSHADER) return "swiftshader";
  return caps->is_cpu ? "cpu" : "gpu";
}

void vkf_engine_fill_info(const vkf_caps *caps, vkf_device_info *out) {
  *out = (vkf_device_info){VKF_DEVICE_INFO_INIT, .kind = VKF_DEVICE_REF};
  snprintf(out->alias, sizeof out->alias, "%s", vkf_engine_alias(caps));
  if (!caps) {
    snprintf(out->name, sizeof out->name, "scalar reference");
    snprintf(out->driver, sizeof out->driver, "vkformer " VKF_VERSION_TEXT);
    return;
  }
  out->kind = caps->kind;
  snprintf(out->name, sizeof out->name, "%s", caps->device_name);
  snprintf(out->driver, sizeof out->driver, "%.120s%s%.120s", caps->driver_name, caps->driver_info[0] ? " " : "",
           caps->driver_info);
  memcpy(out->uuid, caps->uuid, sizeof out->uuid);
  out->vendor_id = caps->vendor_id;
  out->device_id = caps->device_id;
  out->driver_version = caps->driver_version;
  out->api_version = caps->api_version;
  out->driver_id = caps->driver_id;
  out->memory_bytes = caps->memory_bytes;
  out->max_storage_range_bytes = caps->max_storage_range_bytes;
  out->max_allocation_bytes = caps->max_allocation_bytes;
  out->max_shared_bytes = caps->max_shared_bytes;
  out->max_invocations = caps->max_invocations;
  out->max_storage_bindings = caps->max_storage_bindings;
  out->subgroup_size = caps->subgroup_size;
  out->timestamp_ns = caps->timestamp_ns;
  out->has_float16 = caps->float16;
  out->has_storage16 = caps->storage16;
  out->has_int64 = caps->int64;
  out->has_buffer_address = caps->buffer_address;
  out->has_subgroup_shuffle = caps->subgroup_shuffle;
  out->has_subgroup_arithmetic = caps->subgroup_arithmetic;
  out->has_cooperative_matrix = caps->coopmat;
}

const vkf_device_info *vkf_device_get_info(const vkf_device *dev) {
  return dev ? &dev->info : NULL;
}

void vkf_device_memory(const vkf_device *dev, uint64_t *now_bytes, uint64_t *peak_bytes) {
  uint64_t now = 0, peak = 0;
  if (dev && dev->gpu) vkf_gpu_device_memory(dev->gpu, &now, &peak);
  if (now_bytes) *now_bytes = now;
  if (peak_bytes) *peak_bytes = peak;
}
