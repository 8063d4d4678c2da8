/* A device with a stub driver: every call that records, submits or makes something succeeds and does nothing. Tests of
 * room gpu replace the functions that they want to watch. */
#ifndef VKF_TESTS_SUPPORT_STUB_DRIVER_H
#define VKF_TESTS_SUPPORT_STUB_DRIVER_H

#include <string.h>

#include "gpu/vk.h"

#define STUB_HANDLE(type) ((type)(uintptr_t)1)
#define STUB_CREATE(name)                                                                                        \
  static inline VkResult stub_create_##name(VkDevice device, const Vk##name##CreateInfo *info,                   \
                                            const VkAllocationCallbacks *allocator, Vk##name *out) {             \
    (void)device, (void)info, (void)allocator;                                                                   \
    *out = STUB_HANDLE(Vk##name);                                                                                \
    return VK_SUCCESS;                                                                                           \
  }                                                                                                              \
  static inline void stub_destroy_##name(VkDevice device, Vk##name it, const VkAllocationCallbacks *allocator) { \
    (void)device, (void)it, (void)allocator;                                                                     \
  }
STUB_CREATE(CommandPool)
STUB_CREATE(DescriptorPool)
STUB_CREATE(BufferView)
STUB_CREATE(Buffer)
STUB_CREATE(Fence)
STUB_CREATE(ShaderModule)
STUB_CREATE(DescriptorSetLayout)
STUB_CREATE(PipelineLayout)

static inline VkResult stub_commands(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
  (void)device, (void)info;
  *out = STUB_HANDLE(VkCommandBuffer);
  return VK_SUCCESS;
}
static inline void stub_free_commands(VkDevice device, VkCommandPool pool, uint32_t n, const VkCommandBuffer *all) {
  (void)device, (void)pool, (void)n, (void)all;
}
static inline VkResult stub_begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info) {
  (void)commands, (void)info;
  return VK_SUCCESS;
}
static inline VkResult stub_end(VkCommandBuffer commands) {
  (void)commands;
  return VK_SUCCESS;
}
static inline void stub_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                VkDependencyFlags flags, uint32_t n, const VkMemoryBarrier *barriers,
                                uint32_t n_buffers, const VkBufferMemoryBarrier *buffers, uint32_t n_images,
                                const VkImageMemoryBarrier *images) {
  (void)commands, (void)from, (void)to, (void)flags, (void)n, (void)barriers;
  (void)n_buffers, (void)buffers, (void)n_images, (void)images;
}
static inline VkResult stub_sets(VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
  (void)device, (void)info;
  *out = STUB_HANDLE(VkDescriptorSet);
  return VK_SUCCESS;
}
static inline void stub_update(VkDevice device, uint32_t n, const VkWriteDescriptorSet *writes, uint32_t n_copies,
                               const VkCopyDescriptorSet *copies) {
  (void)device, (void)n, (void)writes, (void)n_copies, (void)copies;
}
static inline void stub_bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
  (void)commands, (void)point, (void)pipeline;
}
static inline void stub_bind_sets(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipelineLayout layout,
                                  uint32_t first, uint32_t n, const VkDescriptorSet *sets, uint32_t n_offsets,
                                  const uint32_t *offsets) {
  (void)commands, (void)point, (void)layout, (void)first, (void)n, (void)sets, (void)n_offsets, (void)offsets;
}
static inline void stub_push(VkCommandBuffer commands, VkPipelineLayout layout, VkShaderStageFlags stages,
                             uint32_t offset, uint32_t bytes, const void *values) {
  (void)commands, (void)layout, (void)stages, (void)offset, (void)bytes, (void)values;
}
static inline void stub_dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  (void)commands, (void)x, (void)y, (void)z;
}
static inline void stub_indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
  (void)commands, (void)buffer, (void)offset;
}
static inline VkResult stub_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence fence) {
  (void)queue, (void)n, (void)infos, (void)fence;
  return VK_SUCCESS;
}
static inline VkResult stub_wait(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t ns) {
  (void)device, (void)n, (void)fences, (void)all, (void)ns;
  return VK_SUCCESS;
}
static inline VkResult stub_reset(VkDevice device, uint32_t n, const VkFence *fences) {
  (void)device, (void)n, (void)fences;
  return VK_SUCCESS;
}
static inline void stub_destroy_pipeline(VkDevice device, VkPipeline it, const VkAllocationCallbacks *allocator) {
  (void)device, (void)it, (void)allocator;
}
static inline void stub_free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *allocator) {
  (void)device, (void)memory, (void)allocator;
}
static inline VkResult stub_bind_memory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  (void)device, (void)buffer, (void)memory, (void)offset;
  return VK_SUCCESS;
}

static inline void stub_open(vkf_gpu_device *d, vkf_env *env) {
  memset(d, 0, sizeof *d);
  vkf_env_init(env, NULL);
  d->env = env;
  d->root = d;
  d->wait_ns = 1000;
  pthread_mutex_init(&d->queue_lock, NULL);
  pthread_mutex_init(&d->pipelines_lock, NULL);
  d->vk = (vkf_vk_device){.CreateCommandPool = stub_create_CommandPool,
                          .DestroyCommandPool = stub_destroy_CommandPool,
                          .CreateDescriptorPool = stub_create_DescriptorPool,
                          .DestroyDescriptorPool = stub_destroy_DescriptorPool,
                          .CreateBufferView = stub_create_BufferView,
                          .DestroyBufferView = stub_destroy_BufferView,
                          .CreateBuffer = stub_create_Buffer,
                          .DestroyBuffer = stub_destroy_Buffer,
                          .CreateFence = stub_create_Fence,
                          .DestroyFence = stub_destroy_Fence,
                          .CreateShaderModule = stub_create_ShaderModule,
                          .DestroyShaderModule = stub_destroy_ShaderModule,
                          .CreateDescriptorSetLayout = stub_create_DescriptorSetLayout,
                          .DestroyDescriptorSetLayout = stub_destroy_DescriptorSetLayout,
                          .CreatePipelineLayout = stub_create_PipelineLayout,
                          .DestroyPipelineLayout = stub_destroy_PipelineLayout,
                          .DestroyPipeline = stub_destroy_pipeline,
                          .AllocateCommandBuffers = stub_commands,
                          .FreeCommandBuffers = stub_free_commands,
                          .BeginCommandBuffer = stub_begin,
                          .EndCommandBuffer = stub_end,
                          .CmdPipelineBarrier = stub_barrier,
                          .AllocateDescriptorSets = stub_sets,
                          .UpdateDescriptorSets = stub_update,
                          .CmdBindPipeline = stub_bind_pipeline,
                          .CmdBindDescriptorSets = stub_bind_sets,
                          .CmdPushConstants = stub_push,
                          .CmdDispatch = stub_dispatch,
                          .CmdDispatchIndirect = stub_indirect,
                          .QueueSubmit = stub_submit,
                          .WaitForFences = stub_wait,
                          .ResetFences = stub_reset,
                          .FreeMemory = stub_free_memory,
                          .BindBufferMemory = stub_bind_memory};
}

static inline void stub_close(vkf_gpu_device *d) {
  pthread_mutex_destroy(&d->queue_lock);
  pthread_mutex_destroy(&d->pipelines_lock);
  assert_int_equal(d->env->live_bytes, 0);
}

#endif
