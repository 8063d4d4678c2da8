/* Descriptor sets of a block: made while it is recorded, destroyed with it.
 *
 * Owns descriptor pools and buffer views. Dispatches are checked before they come here. Invariant: a pool counts what
 * is left in it, so that no more sets are allocated than it was made for.
 */
#include "gpu/vk.h"

vkf_gpu_texel vkf_gpu_texel_get(vkf_gpu_binding_kind kind) {
  static const vkf_gpu_texel texels[] = {
      [VKF_GPU_BINDING_TEXEL_F32X4] = {VK_FORMAT_R32G32B32A32_SFLOAT, 16},
      [VKF_GPU_BINDING_TEXEL_U32X2] = {VK_FORMAT_R32G32_UINT, 8},
      [VKF_GPU_BINDING_TEXEL_U32] = {VK_FORMAT_R32_UINT, 4},
  };
  return texels[kind];
}

static vkf_status add_pool(vkf_gpu_device *device, vkf_gpu_sets *sets) {
  vkf_status st = VKF_OK;
  vkf_gpu_set_pool *pool = vkf_env_alloc(device->env, 1, sizeof(*pool));
  if (!pool) return VKF_ERROR_MEMORY;
  pool->sets = 16u << VKF_MIN(sets->n_pools, 6u);
  uint32_t n_descriptors = pool->sets * VKF_GPU_MAX_BINDINGS;
  VkDescriptorPoolSize sizes[] = {
      {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = n_descriptors},
      {.type = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, .descriptorCount = n_descriptors},
  };
  VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                     .maxSets = pool->sets,
                                     .poolSizeCount = VKF_COUNT(sizes),
                                     .pPoolSizes = sizes};
  VKF_TRY(VKF_VK(device, CreateDescriptorPool, device->handle, &info, NULL, &pool->handle));
  pool->next = sets->pools;
  sets->pools = pool;
  sets->n_pools++;
done:
  if (st != VKF_OK) vkf_env_free(device->env, pool);
  return st;
}

static vkf_status add_view(vkf_gpu_device *device, vkf_gpu_sets *sets, vkf_gpu_binding_kind kind,
                           const VkDescriptorBufferInfo *range, VkBufferView *out) {
  VkBufferView *views = vkf_env_grow(device->env, sets->views, &sets->view_capacity, sets->n_views + 1, sizeof(*views));
  if (!views) return VKF_ERROR_MEMORY;
  sets->views = views;
  VkBufferViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                 .buffer = range->buffer,
                                 .format = vkf_gpu_texel_get(kind).format,
                                 .offset = range->offset,
                                 .range = range->range};
  VKF_CALL(VKF_VK(device, CreateBufferView, device->handle, &info, NULL, out));
  sets->views[sets->n_views++] = *out;
  return VKF_OK;
}

vkf_status vkf_gpu_sets_make(vkf_gpu_device *device, vkf_gpu_sets *sets, const vkf_gpu_dispatch *dispatch,
                             VkDescriptorSet *out) {
  const vkf_gpu_layout *layout = dispatch->pipeline->layout;
  VkDescriptorBufferInfo ranges[VKF_GPU_MAX_BINDINGS];
  VkBufferView views[VKF_GPU_MAX_BINDINGS];
  VkWriteDescriptorSet writes[VKF_GPU_MAX_BINDINGS];
  *out = VK_NULL_HANDLE;
  if (layout->n_bindings == 0) return VKF_OK;
  if (!sets->pools || sets->pools->sets == 0) VKF_CALL(add_pool(device, sets));
  vkf_gpu_set_pool *pool = sets->pools;
  VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                      .descriptorPool = pool->handle,
                                      .descriptorSetCount = 1,
                                      .pSetLayouts = &layout->set};
  VKF_CALL(VKF_VK(device, AllocateDescriptorSets, device->handle, &info, out));
  pool->sets--;

  for (uint32_t i = 0; i < layout->n_bindings; ++i) {
    const vkf_gpu_binding *binding = &dispatch->bindings[i];
    bool storage = layout->kinds[i] == VKF_GPU_BINDING_STORAGE;
    ranges[i].buffer = binding->buffer->handle;
    ranges[i].offset = binding->offset;
    ranges[i].range = binding->bytes ? binding->bytes : binding->buffer->bytes - binding->offset;
    if (!storage) VKF_CALL(add_view(device, sets, layout->kinds[i], &ranges[i], &views[i]));
    writes[i] = (VkWriteDescriptorSet){
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = *out,
        .dstBinding = i,
        .descriptorCount = 1,
        .descriptorType = storage ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
        .pBufferInfo = storage ? &ranges[i] : NULL,
        .pTexelBufferView = storage ? NULL : &views[i]};
  }
  device->vk.UpdateDescriptorSets(device->handle, layout->n_bindings, writes, 0, NULL);
  return VKF_OK;
}

void vkf_gpu_sets_finish(vkf_gpu_device *device, vkf_gpu_sets *sets) {
  for (size_t i = 0; i < sets->n_views; ++i) device->vk.DestroyBufferView(device->handle, sets->views[i], NULL);
  vkf_env_free(device->env, sets->views);
  for (vkf_gpu_set_pool *pool = sets->pools, *next; pool; pool = next) {
    next = pool->next;
    device->vk.DestroyDescriptorPool(device->handle, pool->handle, NULL);
    vkf_env_free(device->env, pool);
  }
  *sets = (vkf_gpu_sets){0};
}
