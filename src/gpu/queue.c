/* Queue: barriers, submits, fences.
 *
 * Owns the command pool, the fences and the commands that end every submit: a barrier that makes its writes visible to
 * the host. A submit that takes longer than the device's limit counts as a lost device. Only destroying waits without
 * limit, because memory in use cannot be freed (a driver reports a GPU that hangs as lost).
 *
 * Invariant: serials count up by one; submit s uses the fence s % VKF_GPU_MAX_PENDING. Fences are waited for in order,
 * so `completed` describes all of them.
 */

#include "gpu/vk.h"

/* ---- commands ---------------------------------------------------------------------------------------------------- */

vkf_status vkf_gpu_commands_create(vkf_gpu_device *device, VkCommandBuffer *out) {
  VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                      .commandPool = device->commands,
                                      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                      .commandBufferCount = 1};
  return VKF_VK(device, AllocateCommandBuffers, device->handle, &info, out);
}

vkf_status vkf_gpu_commands_begin(vkf_gpu_device *device, VkCommandBuffer commands, uint32_t flags) {
  VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = flags};
  return VKF_VK(device, BeginCommandBuffer, commands, &info);
}

/* Stages and accesses that a barrier orders, for each kind of access. */
static const struct {
  uint32_t by;
  VkPipelineStageFlags stages;
  VkAccessFlags accesses;
} barrier_rows[] = {
    {VKF_GPU_BY_COMPUTE, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT},
    {VKF_GPU_BY_INDIRECT, VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT, VK_ACCESS_INDIRECT_COMMAND_READ_BIT},
    {VKF_GPU_BY_TRANSFER, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT},
    {VKF_GPU_BY_HOST, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT},
};

static void record(vkf_gpu_device *device, VkCommandBuffer commands, uint32_t by) {
  VkPipelineStageFlags stages = 0;
  VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                             .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
  for (size_t i = 0; i < VKF_COUNT(barrier_rows); ++i) {
    if (!(by & barrier_rows[i].by)) continue;
    stages |= barrier_rows[i].stages;
    barrier.dstAccessMask |= barrier_rows[i].accesses;
  }
  /* The read of its grid, which a dispatch does before its shader runs, comes before its end. */
  device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, stages,
                                0, 1, &barrier, 0, NULL, 0, NULL);
}

void vkf_gpu_record_barrier(vkf_gpu_device *device, VkCommandBuffer commands, uint32_t by, vkf_gpu_log *log) {
  uint32_t *skip = &device->root->faults.skip_barrier;
  if (*skip != 0 && *skip != VKF_GPU_SKIP_HOST_BARRIER && --*skip == 0) return;
  record(device, commands, by);
  if (log) vkf_gpu_log_append(log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_BARRIER, .by = by});
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

vkf_status vkf_gpu_queue_init(vkf_gpu_device *device) {
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                  .queueFamilyIndex = device->queue_family};
  return VKF_VK(device, CreateCommandPool, device->handle, &pool, NULL, &device->commands);
}

/* Makes what the first submit needs. A driver that runs without its hardware can only compile and never gets here. */
static vkf_status prepare(vkf_gpu_device *device) {
  const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  for (size_t i = 0; i < VKF_GPU_MAX_PENDING; ++i)
    if (!device->fences[i]) VKF_CALL(VKF_VK(device, CreateFence, device->handle, &fence, NULL, &device->fences[i]));
  if (!device->host_barrier) VKF_CALL(vkf_gpu_commands_create(device, &device->host_barrier));
  VKF_CALL(vkf_gpu_commands_begin(device, device->host_barrier, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
  record(device, device->host_barrier, VKF_GPU_BY_HOST);
  VKF_CALL(VKF_VK(device, EndCommandBuffer, device->host_barrier));
  device->can_submit = true;
  return VKF_OK;
}

void vkf_gpu_queue_finish(vkf_gpu_device *device) {
  for (size_t i = 0; i < VKF_GPU_MAX_PENDING; ++i)
    if (device->fences[i]) device->vk.DestroyFence(device->handle, device->fences[i], NULL);
  if (device->commands) device->vk.DestroyCommandPool(device->handle, device->commands, NULL);
}

/* ---- submitting and waiting -------------------------------------------------------------------------------------- */

void vkf_gpu_submit_log_begin(vkf_gpu_device *device) {
  if (device->logging)
    vkf_gpu_log_append(&device->log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_SUBMIT, .serial = device->submitted + 1});
}

void vkf_gpu_submit_log_end(vkf_gpu_device *device) {
  if (device->logging && device->root->faults.skip_barrier != VKF_GPU_SKIP_HOST_BARRIER)
    vkf_gpu_log_append(&device->log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_BARRIER, .by = VKF_GPU_BY_HOST});
}

vkf_status vkf_gpu_submit_commands(vkf_gpu_device *device, VkCommandBuffer *commands, uint32_t n, uint64_t *serial) {
  VKF_CALL(vkf_gpu_device_alive(device));
  if (!device->can_submit) VKF_CALL(prepare(device));
  uint64_t s = device->submitted + 1;
  if (s > VKF_GPU_MAX_PENDING) VKF_CALL(vkf_gpu_wait(device, s - VKF_GPU_MAX_PENDING));
  if (device->root->faults.lose_submit != 0 && --device->root->faults.lose_submit == 0)
    VKF_CALL(vkf_gpu_device_result(device, VK_ERROR_DEVICE_LOST, "vkQueueSubmit"));

  commands[n] = device->host_barrier;
  if (device->root->faults.skip_barrier != VKF_GPU_SKIP_HOST_BARRIER) n++;
  VkSubmitInfo batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = n, .pCommandBuffers = commands};
  vkf_gpu_awake_submit(device->root->awake);
  pthread_mutex_lock(&device->root->queue_lock);
  if (device->lock_queue) device->lock_queue(device->queue_user);
  VkResult r = device->vk.QueueSubmit(device->queue, 1, &batch, device->fences[s % VKF_GPU_MAX_PENDING]);
  if (device->unlock_queue) device->unlock_queue(device->queue_user);
  pthread_mutex_unlock(&device->root->queue_lock);
  if (r != VK_SUCCESS) vkf_gpu_awake_done(device->root->awake, device->env);
  VKF_CALL(vkf_gpu_device_result(device, r, "vkQueueSubmit"));
  device->submitted = s;
  if (serial) *serial = s;
  return VKF_OK;
}

static vkf_status wait_fence(vkf_gpu_device *device, VkFence fence) {
  uint64_t begin = vkf_clock_ns();
  for (;;) {
    VkResult r =
        device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, VKF_MIN(device->wait_ns, VKF_GPU_WAIT_SLICE_NS));
    if (r != VK_TIMEOUT) VKF_CALL(vkf_gpu_device_result(device, r, "vkWaitForFences"));
    if (r == VK_SUCCESS) break;
    vkf_gpu_awake_wait(device->root->awake);
    if (vkf_clock_ns() - begin >= device->wait_ns) {
      device->root->lost = true;
      return vkf_env_fail(device->env, VKF_ERROR_DEVICE_LOST,
                          "expected the device %s to end its work within %llu ms, it did not", device->caps.device_name,
                          (unsigned long long)(device->wait_ns / 1000000));
    }
  }
  return VKF_VK(device, ResetFences, device->handle, 1, &fence);
}

vkf_status vkf_gpu_wait(vkf_gpu_device *device, uint64_t serial) {
  VKF_CALL(vkf_gpu_device_alive(device));
  if (serial > device->submitted)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT, "expected the serial of a submit, at most %llu, found %llu",
                        (unsigned long long)device->submitted, (unsigned long long)serial);
  if (serial <= device->completed) return VKF_OK;
  while (device->completed < serial) {
    VKF_CALL(wait_fence(device, device->fences[(device->completed + 1) % VKF_GPU_MAX_PENDING]));
    device->completed++;
    vkf_gpu_awake_done(device->root->awake, device->env);
  }
  if (device->logging) vkf_gpu_log_append(&device->log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_WAIT, .serial = serial});
  return VKF_OK;
}

vkf_status vkf_gpu_wait_all(vkf_gpu_device *device) {
  return vkf_gpu_wait(device, device->submitted);
}

void vkf_gpu_queue_drain(vkf_gpu_device *device) {
  while (device->completed < device->submitted) {
    device->completed++;
    vkf_gpu_awake_done(device->root->awake, device->env);
    VkFence fence = device->fences[device->completed % VKF_GPU_MAX_PENDING];
    if (device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, UINT64_MAX) == VK_SUCCESS)
      device->vk.ResetFences(device->handle, 1, &fence);
  }
  if (device->logging && device->submitted > 0)
    vkf_gpu_log_append(&device->log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_WAIT, .serial = device->submitted});
}
