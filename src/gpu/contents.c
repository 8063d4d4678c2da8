/* contents: writes, reads and fills buffers from the host, through staging buffers if they are not mapped. */
#include "gpu/vk.h"

static vkf_status check_range(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes) {
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return vkf_gpu_device_alive(buffer->device);
  return vkf_env_fail(buffer->device->env, VKF_ERROR_ARGUMENT,
                      "expected a range within the %llu bytes of %s, found %llu bytes from byte %llu",
                      (unsigned long long)buffer->bytes, buffer->name, (unsigned long long)bytes,
                      (unsigned long long)offset);
}

vkf_status vkf_gpu_buffer_upload(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes) {
  VKF_CALL(check_range(buffer, offset, bytes));
  if (bytes == 0) return VKF_OK;
  if (!buffer->mapped) return vkf_gpu_staging_upload(buffer, offset, data, bytes);
  vkf_gpu_buffer_put(buffer, offset, data, bytes);
  return VKF_OK;
}

vkf_status vkf_gpu_buffer_write(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes) {
  vkf_status st = vkf_gpu_buffer_upload(buffer, offset, data, bytes);
  return st == VKF_OK && !buffer->mapped ? vkf_gpu_upload_finish(buffer->device) : st;
}

vkf_status vkf_gpu_buffer_read(vkf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t bytes) {
  VKF_CALL(check_range(buffer, offset, bytes));
  if (bytes == 0) return VKF_OK;
  if (!buffer->mapped) return vkf_gpu_staging_read(buffer, offset, data, bytes);
  vkf_gpu_buffer_take(buffer, offset, data, bytes);
  return VKF_OK;
}

vkf_status vkf_gpu_buffer_fill(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, uint32_t pattern) {
  VKF_CALL(check_range(buffer, offset, bytes));
  if (offset % 4 != 0 || bytes % 4 != 0)
    return vkf_env_fail(buffer->device->env, VKF_ERROR_ARGUMENT,
                        "expected a fill of whole words of %s, found %llu bytes from byte %llu", buffer->name,
                        (unsigned long long)bytes, (unsigned long long)offset);
  if (bytes == 0) return VKF_OK;
  if (!buffer->mapped) return vkf_gpu_staging_fill(buffer, offset, bytes, pattern);
  vkf_gpu_buffer_touch(buffer, offset, bytes, VKF_GPU_WRITE);
  uint32_t *words = (uint32_t *)buffer->mapped + offset / 4;
  for (uint64_t i = 0; i < bytes / 4; ++i) words[i] = pattern;
  return VKF_OK;
}
