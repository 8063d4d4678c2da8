/* Running blocks: submits several blocks at once, and reads the times of their last run.
 *
 * Owns the list of a submit's commands, which the device keeps. Refuses a block that is pending or twice in one
 * submit, because Vulkan may not execute its commands twice at the same time. Invariant: a block is pending from its
 * submit until the host has waited for it.
 */
#include "gpu/block.h"

static vkf_status check(vkf_gpu_device *device, const vkf_gpu_block *block) {
  if (block->device != device)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT, "%s: expected a block of the device it is submitted to",
                        block->label);
  if (block->state != VKF_GPU_BLOCK_READY)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT, "%s: expected a block whose recording has ended",
                        block->label);
  if (block->listed || block->pending_serial > device->completed)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT,
                        "%s: expected a block that does not run, found one that was submitted and not waited for",
                        block->label);
  if (device->logging && !block->logged)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT,
                        "%s: expected a block recorded while the hazard log was on, found an older one", block->label);
  return VKF_OK;
}

static bool has_fresh(const vkf_gpu_block *block) {
  for (size_t i = 0; i < block->n_fresh; ++i)
    if (!block->fresh[i]->has_run) return true;
  return false;
}

static void set_run(vkf_gpu_block *block) {
  for (size_t i = 0; i < block->n_fresh; ++i) block->fresh[i]->has_run = true;
  block->n_fresh = 0;
}

/* Submits blocks with kernels that have never run: while lavapipe compiles them, nothing else compiles. */
static vkf_status submit_alone(vkf_gpu_device *device, VkCommandBuffer *commands, uint32_t n, uint64_t *serial) {
  const bool alone = vkf_gpu_compile_begin(&device->caps);
  vkf_status st = vkf_gpu_submit_commands(device, commands, n, serial);
  if (st == VKF_OK && alone) st = vkf_gpu_wait_all(device);
  vkf_gpu_compile_end(alone);
  return st;
}

vkf_status vkf_gpu_submit(vkf_gpu_device *device, vkf_gpu_block *const *blocks, size_t n_blocks, uint64_t *serial) {
  vkf_status st = VKF_OK;
  size_t n_listed = 0;
  bool fresh = false;
  VKF_TRY(vkf_gpu_device_alive(device));
  VkCommandBuffer *commands =
      vkf_env_grow(device->env, device->submit_list, &device->submit_capacity, n_blocks + 1, sizeof(*commands));
  if (!commands) return VKF_ERROR_MEMORY;
  device->submit_list = commands;
  for (; n_listed < n_blocks; ++n_listed) {
    VKF_TRY(check(device, blocks[n_listed]));
    blocks[n_listed]->listed = true;
    commands[n_listed] = blocks[n_listed]->commands;
    fresh |= has_fresh(blocks[n_listed]);
  }
  vkf_gpu_submit_log_begin(device);
  for (size_t i = 0; i < n_blocks && device->logging; ++i) vkf_gpu_log_append_all(&device->log, &blocks[i]->log);
  vkf_gpu_submit_log_end(device);
  VKF_TRY((fresh ? submit_alone : vkf_gpu_submit_commands)(device, commands, (uint32_t)n_blocks, serial));
  for (size_t i = 0; i < n_blocks; ++i) {
    blocks[i]->pending_serial = device->submitted;
    blocks[i]->n_submits++;
    set_run(blocks[i]);
  }
done:
  for (size_t i = 0; i < n_listed; ++i) blocks[i]->listed = false;
  return st;
}

void vkf_gpu_block_get_info(const vkf_gpu_block *block, vkf_gpu_block_info *out) {
  *out = (vkf_gpu_block_info){.n_dispatches = block->n_dispatches,
                              .n_barriers = block->n_barriers,
                              .n_indirect = block->n_indirect,
                              .n_submits = block->n_submits};
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

/* Gets a time stamp of the last run. */
static vkf_status get_ticks(vkf_gpu_block *block, uint32_t query, uint64_t *ticks) {
  vkf_gpu_device *device = block->device;
  VKF_CALL(vkf_gpu_device_alive(device));
  if (block->n_submits == 0 || block->pending_serial > device->completed)
    return vkf_env_fail(device->env, VKF_ERROR_ARGUMENT, "%s: expected a block that has run and was waited for",
                        block->label);
  return VKF_VK(device, GetQueryPoolResults, device->handle, block->queries, query, 1, sizeof(*ticks), ticks,
                sizeof(*ticks), VK_QUERY_RESULT_64_BIT);
}

static uint64_t ticks_to_ns(const vkf_caps *caps, uint64_t ticks) {
  uint64_t mask = caps->timestamp_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << caps->timestamp_bits) - 1;
  return (uint64_t)((double)(ticks & mask) * caps->timestamp_ns);
}

/* Gets the time between two queries of the last run. */
static vkf_status time_between(vkf_gpu_block *block, uint32_t from, uint32_t to, uint64_t *ns) {
  uint64_t begin, end;
  VKF_CALL(get_ticks(block, from, &begin));
  VKF_CALL(get_ticks(block, to, &end));
  *ns = ticks_to_ns(&block->device->caps, end - begin);
  return VKF_OK;
}

vkf_status vkf_gpu_block_time_since(vkf_gpu_block *from, vkf_gpu_block *to, uint64_t *ns) {
  uint64_t begin, end;
  VKF_CALL(get_ticks(from, 1, &begin));
  VKF_CALL(get_ticks(to, 1, &end));
  *ns = ticks_to_ns(&to->device->caps, end - begin);
  return VKF_OK;
}

vkf_status vkf_gpu_block_time(vkf_gpu_block *block, uint64_t *ns) {
  *ns = 0;
  return block->queries ? time_between(block, 0, 1, ns) : VKF_OK;
}

vkf_status vkf_gpu_block_dispatch_time(vkf_gpu_block *block, uint32_t index, const char **label, uint64_t *ns) {
  *label = "";
  *ns = 0;
  if (index >= block->n_dispatches)
    return vkf_env_fail(block->device->env, VKF_ERROR_ARGUMENT, "%s: expected a dispatch index below %u, found %u",
                        block->label, block->n_dispatches, index);
  if (!block->queries || index >= block->max_timed) return VKF_OK;
  *label = block->timed_labels[index];
  return time_between(block, index == 0 ? 0 : 1 + index, 2 + index, ns);
}
