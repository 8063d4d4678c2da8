/* Buffers: each is one VkBuffer with memory of its own, mapped if the host can see it.
 *
 * Owns handles and memory, and counts the bytes held. Refuses ranges past the end. Invariant: the device's byte count
 * is the memory of its live buffers, staging included; the staging buffers are destroyed with the last other buffer.
 */
#include <stdatomic.h>
#include <string.h>

#include "gpu/vk.h"

static vkf_status out_of_memory(vkf_gpu_buffer *buffer, const char *why) {
  const vkf_gpu_device *device = buffer->device;
  return vkf_env_fail(device->env, VKF_ERROR_DEVICE_MEMORY,
                      "out of device memory: %llu bytes wanted for %s on %s, which holds %llu bytes (%s)",
                      (unsigned long long)buffer->bytes, buffer->name, device->caps.device_name,
                      (unsigned long long)device->root->now_bytes, why);
}

static VkResult create_handle(vkf_gpu_buffer *buffer) {
  vkf_gpu_device *device = buffer->device;
  const VkExternalMemoryBufferCreateInfo ours = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                 .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
  const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                   .pNext = buffer->host ? &ours : NULL,
                                   .size = buffer->bytes,
                                   .usage = vkf_gpu_buffer_usage(&device->caps),
                                   .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
  return device->vk.CreateBuffer(device->handle, &info, NULL, &buffer->handle);
}

/* Destroys the handle and frees the memory; the buffer may get new ones. */
static void release(vkf_gpu_buffer *buffer) {
  vkf_gpu_device *device = buffer->device;
  if (buffer->handle) device->vk.DestroyBuffer(device->handle, buffer->handle, NULL);
  if (buffer->memory) device->vk.FreeMemory(device->handle, buffer->memory, NULL); /* unmaps, too */
  buffer->handle = VK_NULL_HANDLE;
  buffer->memory = VK_NULL_HANDLE;
  buffer->mapped = NULL;
  buffer->allocated_bytes = 0;
  vkf_gpu_large_pages_free(buffer);
}

/* Creates the handle in memory of ours, which the buffer has. Returns false if the driver refuses. */
static bool create_in_ours(vkf_gpu_buffer *buffer) {
  if (create_handle(buffer) == VK_SUCCESS && vkf_gpu_large_pages_bind(buffer)) return true;
  release(buffer);
  return false;
}

static VkResult allocate_of_type(vkf_gpu_buffer *buffer, uint64_t bytes, uint32_t type) {
  vkf_gpu_device *device = buffer->device;
  const VkPhysicalDeviceMemoryProperties *properties = &device->memory_properties;
  VkMemoryAllocateFlagsInfo address = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                               .pNext = device->caps.buffer_address ? &address : NULL,
                               .allocationSize = bytes,
                               .memoryTypeIndex = type};
  if (bytes > properties->memoryHeaps[properties->memoryTypes[type].heapIndex].size)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY; /* Vulkan forbids asking for more */
  return device->vk.AllocateMemory(device->handle, &info, NULL, &buffer->memory);
}

static bool is_of_device(vkf_gpu_memory memory) {
  return memory == VKF_GPU_MEMORY_DEVICE || memory == VKF_GPU_MEMORY_LARGE;
}

/* If a heap is full, tries memory types of other heaps: the part of a card's memory that the host can see has only 256
 * MiB on many cards. But memory for the device stays in its own heap, except on integrated GPUs. *offset: where the
 * buffer begins in the memory. */
static vkf_status allocate(vkf_gpu_buffer *buffer, vkf_gpu_memory memory, bool *mapped, uint64_t *offset) {
  vkf_gpu_device *device = buffer->device;
  const VkPhysicalDeviceMemoryProperties *properties = &device->memory_properties;
  const bool any_heap = !is_of_device(memory) || device->caps.kind == VKF_DEVICE_INTEGRATED;
  VkMemoryRequirements need;
  VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  device->vk.GetBufferMemoryRequirements(device->handle, buffer->handle, &need);
  uint32_t allowed = need.memoryTypeBits, type = vkf_gpu_memory_type(properties, allowed, device->caps.kind, memory);
  if (type == UINT32_MAX)
    return vkf_env_fail(device->env, VKF_ERROR_UNSUPPORTED, "expected a memory type for %s on %s, found none",
                        buffer->name, device->caps.device_name);
  vkf_gpu_faults *faults = &device->root->faults;
  const bool injected = faults->fail_allocation != 0 && --faults->fail_allocation == 0;
  *offset = 0;
  if (faults->end_at != 0)
    *offset = (faults->end_at - need.size % faults->end_at) % faults->end_at / need.alignment * need.alignment;
  while (!injected) {
    r = allocate_of_type(buffer, *offset + need.size, type);
    allowed &= ~(1u << type);
    const uint32_t next = vkf_gpu_memory_type(properties, allowed, device->caps.kind, memory);
    if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY || !any_heap || next == UINT32_MAX) break;
    type = next;
  }
  if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_TOO_MANY_OBJECTS)
    return out_of_memory(buffer, vkf_gpu_result_name(r));
  VKF_CALL(vkf_gpu_device_result(device, r, "vkAllocateMemory"));
  VkMemoryPropertyFlags flags = properties->memoryTypes[type].propertyFlags;
  *mapped = vkf_gpu_memory_is_mapped(flags) && (!is_of_device(memory) || device->caps.host_visible);
  buffer->allocated_bytes = need.size;
  return VKF_OK;
}

/* Creates the handle, with memory from the driver. */
static vkf_status create_with_memory(vkf_gpu_buffer *buffer, vkf_gpu_memory memory) {
  vkf_gpu_device *device = buffer->device;
  bool mapped = false;
  uint64_t offset = 0;
  const VkResult r = create_handle(buffer);
  if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY) return out_of_memory(buffer, vkf_gpu_result_name(r));
  VKF_CALL(vkf_gpu_device_result(device, r, "vkCreateBuffer"));
  VKF_CALL(allocate(buffer, memory, &mapped, &offset));
  VKF_CALL(VKF_VK(device, BindBufferMemory, device->handle, buffer->handle, buffer->memory, offset));
  if (!mapped) return VKF_OK;
  return VKF_VK(device, MapMemory, device->handle, buffer->memory, offset, VK_WHOLE_SIZE, 0, &buffer->mapped);
}

static void count(vkf_gpu_buffer *buffer) {
  vkf_gpu_device *root = buffer->device->root;
  const uint64_t now_bytes = atomic_fetch_add(&root->now_bytes, buffer->allocated_bytes) + buffer->allocated_bytes;
  uint64_t peak_bytes = root->peak_bytes;
  while (peak_bytes < now_bytes && !atomic_compare_exchange_weak(&root->peak_bytes, &peak_bytes, now_bytes)) {
  }
  buffer->is_counted = true;
}

/* Begins a buffer, without handle and memory. */
static vkf_status begin(vkf_gpu_device *device, const char *name, uint64_t bytes, vkf_gpu_buffer **out) {
  VKF_CALL(vkf_gpu_device_alive(device));
  if (bytes == 0)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT, "expected a size over 0 for the buffer %s, found 0", name);
  vkf_gpu_buffer *buffer = *out = vkf_env_alloc(device->env, 1, sizeof(*buffer));
  if (!buffer) return VKF_ERROR_MEMORY;
  buffer->device = device;
  buffer->bytes = bytes;
  buffer->id = ++device->root->last_buffer_id;
  device->n_buffers++;
  buffer->name = vkf_env_strdup(device->env, name);
  if (!buffer->name) return VKF_ERROR_MEMORY;
  if (bytes > device->caps.max_allocation_bytes)
    return out_of_memory(buffer, "more than the device gives to one allocation");
  return VKF_OK;
}

/* Ends making a buffer that has handle and memory: counts it and gets its address. */
static void end(vkf_gpu_buffer *buffer) {
  vkf_gpu_device *device = buffer->device;
  count(buffer);
  if (!device->caps.buffer_address) return;
  VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer->handle};
  buffer->address = device->vk.GetBufferDeviceAddress(device->handle, &info);
}

vkf_status vkf_gpu_buffer_create(vkf_gpu_device *device, const char *name, vkf_gpu_memory memory, uint64_t bytes,
                                 vkf_gpu_buffer **out) {
  vkf_status st = VKF_OK;
  *out = NULL;
  VKF_TRY(begin(device, name, bytes, out));
  if (!vkf_gpu_large_pages_map(*out, memory) || !create_in_ours(*out)) VKF_TRY(create_with_memory(*out, memory));
  end(*out);
done:
  if (st != VKF_OK) vkf_gpu_buffer_destroy(out);
  return st;
}

vkf_status vkf_gpu_buffer_share(vkf_gpu_device *device, const vkf_gpu_buffer *of, vkf_gpu_buffer **out) {
  *out = NULL;
  const vkf_status st = begin(device, of->name, of->bytes, out);
  if (st == VKF_OK && vkf_gpu_large_pages_join(*out, of) && create_in_ours(*out))
    end(*out);
  else
    vkf_gpu_buffer_destroy(out);
  return st;
}

void vkf_gpu_buffer_destroy(vkf_gpu_buffer **buffer) {
  vkf_gpu_buffer *it = *buffer;
  *buffer = NULL;
  if (!it) return;
  vkf_gpu_device *device = it->device;
  vkf_gpu_queue_drain(device);
  if (it->is_counted) device->root->now_bytes -= it->allocated_bytes;
  release(it);
  device->n_buffers--;
  vkf_env_free(device->env, it->name);
  vkf_env_free(device->env, it);
  uint32_t n_staging = (device->staging.upload != NULL) + (device->staging.readback != NULL);
  if (n_staging > 0 && device->n_buffers == n_staging) vkf_gpu_staging_release(device);
}

void vkf_gpu_staging_release(vkf_gpu_device *device) {
  vkf_gpu_buffer *upload = device->staging.upload, *readback = device->staging.readback;
  device->staging.upload = device->staging.readback = NULL;
  vkf_gpu_buffer_destroy(&upload);
  vkf_gpu_buffer_destroy(&readback);
}

uint64_t vkf_gpu_buffer_bytes(const vkf_gpu_buffer *buffer) {
  return buffer->bytes;
}

uint64_t vkf_gpu_buffer_held(const vkf_gpu_buffer *buffer) {
  return buffer ? buffer->allocated_bytes : 0;
}

uint64_t vkf_gpu_device_staging(const vkf_gpu_device *device) {
  return vkf_gpu_buffer_held(device->staging.upload) + vkf_gpu_buffer_held(device->staging.readback);
}

uint64_t vkf_gpu_buffer_address(const vkf_gpu_buffer *buffer) {
  return buffer->address;
}

void *vkf_gpu_buffer_mapped(const vkf_gpu_buffer *buffer) {
  return buffer->mapped;
}

/* ---- mapped memory ----------------------------------------------------------------------------------------------- */

void vkf_gpu_buffer_touch(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, vkf_gpu_mode mode) {
  if (buffer->device->logging && bytes > 0)
    vkf_gpu_log_access(&buffer->device->log, VKF_GPU_BY_HOST,
                       &(vkf_gpu_access){.buffer = buffer, .begin = offset, .end = offset + bytes, .mode = mode});
}

void vkf_gpu_buffer_put(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes) {
  vkf_gpu_buffer_touch(buffer, offset, bytes, VKF_GPU_WRITE);
  memcpy((char *)buffer->mapped + offset, data, bytes);
}

void vkf_gpu_buffer_take(vkf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t bytes) {
  vkf_gpu_buffer_touch(buffer, offset, bytes, VKF_GPU_READ);
  memcpy(data, (const char *)buffer->mapped + offset, bytes);
}
