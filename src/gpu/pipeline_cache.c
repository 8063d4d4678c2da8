/* pipeline_cache: passes compiled kernels, in the driver's own form, from one device object to a later one.
 *
 * Owns the VkPipelineCache with which pipelines are made, or the forms of shader objects in its place. Refuses bytes
 * that another driver, version or device wrote: drivers should check the header themselves, but not all do. Invariant:
 * the driver gets only bytes that it wrote itself, as far as the header says (Vulkan 1.3, 10.7.3: length, version 1,
 * vendor, device, pipelineCacheUUID).
 */
#include <string.h>

#include "gpu/vk.h"

#define HEADER_BYTES (16 + VK_UUID_SIZE)

bool vkf_gpu_pipeline_cache_fits(const vkf_caps *caps, const void *bytes, size_t n) {
  uint32_t header[4];
  if (n < HEADER_BYTES) return false;
  memcpy(header, bytes, sizeof header); /* in this machine's byte order, as the driver wrote them */
  return header[0] >= HEADER_BYTES && header[0] <= n && header[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header[2] == caps->vendor_id && header[3] == caps->device_id &&
         memcmp((const char *)bytes + 16, caps->pipeline_cache_uuid, VK_UUID_SIZE) == 0;
}

vkf_status vkf_gpu_pipeline_cache_open(vkf_gpu_device *device, const void *bytes, size_t n) {
  VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  if (device->pipeline_cache || (device->forms && device->forms->is_open)) return VKF_OK;
  if (device->forms) return vkf_gpu_forms_open(device->forms, device->env, bytes, n);
  if (vkf_gpu_pipeline_cache_fits(&device->caps, bytes, n)) {
    info.initialDataSize = n;
    info.pInitialData = bytes;
  }
  return VKF_VK(device, CreatePipelineCache, device->handle, &info, NULL, &device->pipeline_cache);
}

vkf_status vkf_gpu_pipeline_cache_take(vkf_gpu_device *device, void **bytes, size_t *n) {
  vkf_status st = VKF_OK;
  *bytes = NULL;
  *n = 0;
  if (device->forms) return vkf_gpu_forms_take(device->forms, device->env, bytes, n);
  if (!device->pipeline_cache || device->root->lost) return VKF_OK;
  VKF_TRY(VKF_VK(device, GetPipelineCacheData, device->handle, device->pipeline_cache, n, NULL));
  if (*n <= HEADER_BYTES) { /* this driver keeps its kernels elsewhere, or not at all */
    *n = 0;
    return VKF_OK;
  }
  *bytes = vkf_env_alloc(device->env, *n, 1);
  if (!*bytes) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(VKF_VK(device, GetPipelineCacheData, device->handle, device->pipeline_cache, n, *bytes));
done:
  if (st) {
    vkf_env_free(device->env, *bytes);
    *bytes = NULL;
    *n = 0;
  }
  return st;
}
