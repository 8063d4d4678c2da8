/* Staging: copies bytes between the host and buffers that are not mapped.
 *
 * Owns one upload and one readback buffer of two halves each, and two command buffers. When a call returns, its copy
 * has ended, except an upload's, which may run until vkf_gpu_upload_finish(). Invariant: while the device copies one
 * half, the host fills the other; a half and its command buffer are used again only when their submit has ended.
 */

#include "gpu/vk.h"

typedef struct copy_range {
  vkf_gpu_buffer *from, *to;
  uint64_t from_offset, to_offset, bytes;
} copy_range;

static vkf_status ensure(vkf_gpu_device *device, vkf_gpu_buffer **buffer, const char *name, vkf_gpu_memory memory) {
  for (int i = 0; i < 2; ++i)
    if (!device->staging.commands[i]) VKF_CALL(vkf_gpu_commands_create(device, &device->staging.commands[i]));
  if (!*buffer) VKF_CALL(vkf_gpu_buffer_create(device, name, memory, 2 * device->staging.half_bytes, buffer));
  return VKF_OK;
}

/* Begins a transfer's commands and its events; end() submits them. */
static vkf_status begin(vkf_gpu_device *device, VkCommandBuffer commands, const char *name) {
  vkf_gpu_log *log = device->logging ? &device->log : NULL;
  VKF_CALL(vkf_gpu_commands_begin(device, commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
  vkf_gpu_submit_log_begin(device);
  vkf_gpu_record_barrier(device, commands, VKF_GPU_BY_TRANSFER, log);
  if (log) vkf_gpu_log_dispatch(log, "staging", name);
  return VKF_OK;
}

static void log_access(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, vkf_gpu_mode mode) {
  vkf_gpu_access access = {.buffer = buffer, .begin = offset, .end = offset + bytes, .mode = mode};
  if (buffer->device->logging) vkf_gpu_log_access(&buffer->device->log, VKF_GPU_BY_TRANSFER, &access);
}

static vkf_status end(vkf_gpu_device *device, VkCommandBuffer commands, uint64_t *serial) {
  vkf_gpu_submit_log_end(device);
  VKF_CALL(VKF_VK(device, EndCommandBuffer, commands));
  return vkf_gpu_submit_commands(device, (VkCommandBuffer[2]){commands}, 1, serial);
}

static vkf_status copy(VkCommandBuffer commands, const char *name, const copy_range *range, uint64_t *serial) {
  vkf_gpu_device *device = range->from->device;
  VkBufferCopy region = {.srcOffset = range->from_offset, .dstOffset = range->to_offset, .size = range->bytes};
  VKF_CALL(begin(device, commands, name));
  device->vk.CmdCopyBuffer(commands, range->from->handle, range->to->handle, 1, &region);
  log_access(range->from, range->from_offset, range->bytes, VKF_GPU_READ);
  log_access(range->to, range->to_offset, range->bytes, VKF_GPU_WRITE);
  return end(device, commands, serial);
}

vkf_status vkf_gpu_staging_upload(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes) {
  vkf_status st = VKF_OK;
  vkf_gpu_device *device = buffer->device;
  vkf_gpu_staging *s = &device->staging;
  VKF_TRY(ensure(device, &s->upload, "staging.upload", VKF_GPU_MEMORY_UPLOAD));
  for (uint64_t done_bytes = 0; done_bytes < bytes; s->next ^= 1) {
    const uint64_t n = VKF_MIN(bytes - done_bytes, s->half_bytes);
    VKF_TRY(vkf_gpu_wait(device, s->serials[s->next]));
    vkf_gpu_buffer_put(s->upload, s->next * s->half_bytes, (const char *)data + done_bytes, n);
    copy_range range = {s->upload, buffer, s->next * s->half_bytes, offset + done_bytes, n};
    VKF_TRY(copy(s->commands[s->next], "upload", &range, &s->serials[s->next]));
    done_bytes += n;
  }
done:
  if (st != VKF_OK) vkf_gpu_queue_drain(device); /* the other half may still be copied */
  return st;
}

vkf_status vkf_gpu_upload_finish(vkf_gpu_device *device) {
  const uint64_t *serials = device->staging.serials;
  return vkf_gpu_wait(device, VKF_MAX(serials[0], serials[1]));
}

vkf_status vkf_gpu_staging_read(vkf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t bytes) {
  vkf_status st = VKF_OK;
  vkf_gpu_device *device = buffer->device;
  uint64_t serials[2] = {0, 0};
  VKF_TRY(ensure(device, &device->staging.readback, "staging.readback", VKF_GPU_MEMORY_READBACK));
  vkf_gpu_buffer *readback = device->staging.readback;
  const uint64_t half_bytes = device->staging.half_bytes, n_chunks = VKF_CEIL_DIV(bytes, half_bytes);
  VKF_TRY(vkf_gpu_upload_finish(device));
  /* Chunk i is copied to its half while the host reads chunk i - 1 from the other. */
  for (uint64_t i = 0; i <= n_chunks; ++i) {
    if (i < n_chunks) {
      copy_range range = {buffer, readback, offset + i * half_bytes, i % 2 * half_bytes,
                          VKF_MIN(bytes - i * half_bytes, half_bytes)};
      VKF_TRY(copy(device->staging.commands[i % 2], "readback", &range, &serials[i % 2]));
    }
    if (i > 0) {
      uint64_t at = (i - 1) * half_bytes;
      VKF_TRY(vkf_gpu_wait(device, serials[(i - 1) % 2]));
      vkf_gpu_buffer_take(readback, (i - 1) % 2 * half_bytes, (char *)data + at, VKF_MIN(bytes - at, half_bytes));
    }
  }
done:
  if (st != VKF_OK) vkf_gpu_queue_drain(device);
  return st;
}

vkf_status vkf_gpu_staging_fill(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, uint32_t pattern) {
  vkf_gpu_device *device = buffer->device;
  VkCommandBuffer *commands = &device->staging.commands[0];
  VKF_CALL(vkf_gpu_upload_finish(device));
  if (!*commands) VKF_CALL(vkf_gpu_commands_create(device, commands));
  VKF_CALL(begin(device, *commands, "fill"));
  device->vk.CmdFillBuffer(*commands, buffer->handle, offset, bytes, pattern);
  log_access(buffer, offset, bytes, VKF_GPU_WRITE);
  VKF_CALL(end(device, *commands, NULL));
  return vkf_gpu_wait_all(device);
}
