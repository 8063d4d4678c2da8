/* large_pages: gives buffers memory of our own on a CPU driver, which imports it (VK_EXT_external_memory_host).
 *
 * Owns the mapping until the last buffer in it is destroyed: several devices may each have a buffer in the same memory,
 * as workers on software drivers do with their weights. A buffer that cannot have large pages gets the driver's own
 * memory. That memory is in pages of 4 KiB (of a file in memory, in newer lavapipe), whose page faults took most of the
 * time of loading. In a virtual machine, where a TLB miss costs more, small pages also slow every step. Buffers that
 * may stay empty in many places keep small pages.
 */
#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#include <stdatomic.h>
#include <sys/mman.h>

#include "gpu/vk.h"

/* The size on x86-64 and most ARM systems, larger than any minImportedHostPointerAlignment (at most 64 KiB). */
#define LARGE_PAGE (UINT64_C(2) << 20)
#define LEAST_BYTES (UINT64_C(64) << 10)

/* The last bytes of a mapping: how many buffers share it. */
typedef struct host_end {
  _Atomic uint32_t n_buffers;
} host_end;

bool vkf_gpu_large_pages_wanted(const vkf_caps *caps) {
#ifdef MADV_HUGEPAGE
  return caps->kind == VKF_DEVICE_CPU && caps->host_visible;
#else
  (void)caps;
  return false;
#endif
}

/* SwiftShader has the extension, but allows no buffer in such memory. */
bool vkf_gpu_large_pages_can(const vkf_vk_instance *vk, VkPhysicalDevice handle, const vkf_caps *caps) {
  const VkPhysicalDeviceExternalBufferInfo info = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
      .usage = vkf_gpu_buffer_usage(caps),
      .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
  VkExternalBufferProperties found = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  if (!vkf_gpu_large_pages_wanted(caps)) return false;
  vk->GetPhysicalDeviceExternalBufferProperties(handle, &info, &found);
  return found.externalMemoryProperties.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
}

static host_end *end_of(const vkf_gpu_buffer *buffer) {
  return (host_end *)((char *)buffer->host + buffer->host_bytes) - 1;
}

#ifdef MADV_HUGEPAGE
/* Maps `bytes` of memory, aligned to a large page; NULL: there is none. */
static void *map(uint64_t bytes) {
  char *at = mmap(NULL, bytes + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  const uint64_t before = -(uintptr_t)at % LARGE_PAGE, after = LARGE_PAGE - before;
  if (before > 0) munmap(at, before);
  if (after > 0) munmap(at + before + bytes, after);
  return at + before;
}

/* Makes the driver's memory object of the mapping, binds it to the buffer and maps it. */
static VkResult import(vkf_gpu_buffer *buffer) {
  vkf_gpu_device *device = buffer->device;
  VkMemoryHostPointerPropertiesEXT found = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  VkMemoryRequirements need;
  VkResult r = device->vk.GetMemoryHostPointerPropertiesEXT(
      device->handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, buffer->host, &found);
  if (r != VK_SUCCESS) return r;
  device->vk.GetBufferMemoryRequirements(device->handle, buffer->handle, &need);
  const uint32_t type = vkf_gpu_memory_type(&device->memory_properties, need.memoryTypeBits & found.memoryTypeBits,
                                            device->caps.kind, VKF_GPU_MEMORY_LARGE);
  if (type == UINT32_MAX || need.size > buffer->host_bytes) return VK_ERROR_FEATURE_NOT_PRESENT;
  const VkPhysicalDeviceMemoryProperties *properties = &device->memory_properties;
  if (buffer->host_bytes > properties->memoryHeaps[properties->memoryTypes[type].heapIndex].size)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  const VkMemoryAllocateFlagsInfo address = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  const VkImportMemoryHostPointerInfoEXT ours = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                 .pNext = device->caps.buffer_address ? &address : NULL,
                                                 .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
                                                 .pHostPointer = buffer->host};
  const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &ours,
                                     .allocationSize = buffer->host_bytes,
                                     .memoryTypeIndex = type};
  r = device->vk.AllocateMemory(device->handle, &info, NULL, &buffer->memory);
  if (r == VK_SUCCESS) r = device->vk.BindBufferMemory(device->handle, buffer->handle, buffer->memory, 0);
  if (r == VK_SUCCESS) r = device->vk.MapMemory(device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->mapped);
  buffer->allocated_bytes = need.size;
  return r;
}
#endif

bool vkf_gpu_large_pages_map(vkf_gpu_buffer *buffer, vkf_gpu_memory memory) {
#ifdef MADV_HUGEPAGE
  const vkf_gpu_device *device = buffer->device;
  const vkf_gpu_faults *faults = &device->root->faults; /* for allocations by the driver */
  if (!device->has_large_pages || memory != VKF_GPU_MEMORY_LARGE || buffer->bytes < LEAST_BYTES) return false;
  if (faults->fail_allocation || faults->end_at) return false;
  buffer->host_bytes = VKF_ROUND_UP(buffer->bytes + sizeof(host_end), LARGE_PAGE);
  buffer->host = map(buffer->host_bytes);
  if (!buffer->host) return false;
  if (buffer->bytes >= LARGE_PAGE) madvise(buffer->host, buffer->host_bytes, MADV_HUGEPAGE); /* a hint */
  end_of(buffer)->n_buffers = 1;
  return true;
#else
  (void)buffer, (void)memory;
  return false;
#endif
}

bool vkf_gpu_large_pages_join(vkf_gpu_buffer *buffer, const vkf_gpu_buffer *of) {
  if (!buffer->device->has_large_pages || !of->host) return false;
  buffer->host = of->host;
  buffer->host_bytes = of->host_bytes;
  atomic_fetch_add(&end_of(buffer)->n_buffers, 1);
  return true;
}

bool vkf_gpu_large_pages_bind(vkf_gpu_buffer *buffer) {
#ifdef MADV_HUGEPAGE
  return import(buffer) == VK_SUCCESS;
#else
  (void)buffer;
  return false;
#endif
}

void vkf_gpu_large_pages_free(vkf_gpu_buffer *buffer) {
  if (buffer->host && atomic_fetch_sub(&end_of(buffer)->n_buffers, 1) == 1) munmap(buffer->host, buffer->host_bytes);
  buffer->host = NULL;
}
