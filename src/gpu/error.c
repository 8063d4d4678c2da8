/* What Vulkan's results mean, and whether a device can still be used.
 *
 * Calls no other file of the room. Invariant: a device that was lost once stays lost.
 */
#include "gpu/vk.h"

const char *vkf_gpu_result_name(VkResult result) {
  switch ((int)result) {
#define NAME(value) \
  case value:       \
    return #value;
    NAME(VK_SUCCESS)
    NAME(VK_NOT_READY)
    NAME(VK_TIMEOUT)
    NAME(VK_INCOMPLETE)
    NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    NAME(VK_ERROR_INITIALIZATION_FAILED)
    NAME(VK_ERROR_DEVICE_LOST)
    NAME(VK_ERROR_MEMORY_MAP_FAILED)
    NAME(VK_ERROR_LAYER_NOT_PRESENT)
    NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    NAME(VK_ERROR_TOO_MANY_OBJECTS)
    NAME(VK_ERROR_FRAGMENTED_POOL)
    NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
    NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
    NAME(VK_ERROR_UNKNOWN)
#undef NAME
    default:
      return "an unknown VkResult";
  }
}

vkf_status vkf_gpu_device_result(vkf_gpu_device *device, VkResult result, const char *what) {
  if (result == VK_SUCCESS) return VKF_OK;
  vkf_status st = VKF_ERROR_DEVICE;
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY) st = VKF_ERROR_MEMORY;
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) st = VKF_ERROR_DEVICE_MEMORY;
  if (result == VK_ERROR_DEVICE_LOST) {
    st = VKF_ERROR_DEVICE_LOST;
    device->root->lost = true;
  }
  return vkf_env_fail(device->env, st, "%s returned %s on the device %s, which holds %llu bytes", what,
                      vkf_gpu_result_name(result), device->caps.device_name,
                      (unsigned long long)device->root->now_bytes);
}

vkf_status vkf_gpu_device_alive(vkf_gpu_device *device) {
  if (!device->root->lost) return VKF_OK;
  return vkf_env_fail(device->env, VKF_ERROR_DEVICE_LOST,
                      "the device %s was lost; close what was made on it and open it again", device->caps.device_name);
}

bool vkf_gpu_validation_enabled(const vkf_gpu_device *device) {
  return device->instance && device->instance->messenger != VK_NULL_HANDLE;
}
