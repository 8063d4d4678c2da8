/* Blocks: records dispatches, and places barriers by the bytes that each dispatch says it reads and writes.
 *
 * Owns a command buffer, its descriptor sets, its query pool and the list of accesses since the last barrier. Refuses
 * arguments outside the device's limits or a buffer's bytes. Invariant: before a dispatch is recorded, nothing in the
 * list conflicts with it (same bytes, one of the two a write).
 *
 * On GPUs a barrier against reads of grids costs more than one against shaders alone, because the command processor
 * must wait, too. So only two kinds of barriers are against both: the first one of a block, and those before a
 * dispatch whose grid the block has written. After a barrier against shaders alone the list is kept, because grids of
 * later dispatches may still conflict with it.
 */
#include "gpu/block.h"

#define DEFAULT_TIMED 256u

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

/* Whether an access conflicts with an earlier one. first: block->first_recent for an access by a shader, because
 * barriers order it after earlier entries; 0 for the read of a grid, which not every barrier orders. */
static bool conflicts(const vkf_gpu_block *block, size_t first, const vkf_gpu_access *access) {
  for (size_t i = first; i < block->n_recent; ++i) {
    const vkf_gpu_recent *r = &block->recent[i];
    if (r->buffer == access->buffer->id && r->begin < access->end && access->begin < r->end &&
        ((r->mode | access->mode) & VKF_GPU_WRITE))
      return true;
  }
  return false;
}

static vkf_status remember(vkf_gpu_block *block, const vkf_gpu_access *access) {
  vkf_gpu_recent *recent =
      vkf_env_grow(block->device->env, block->recent, &block->recent_capacity, block->n_recent + 1, sizeof(*recent));
  if (!recent) return VKF_ERROR_MEMORY;
  block->recent = recent;
  block->recent[block->n_recent++] = (vkf_gpu_recent){access->buffer->id, access->begin, access->end, access->mode};
  return VKF_OK;
}

/* Lists a pipeline that has not run yet. Adjacent dispatches of one pipeline list it once. */
static vkf_status note_fresh(vkf_gpu_block *block, vkf_gpu_pipeline *pipeline) {
  if (pipeline->has_run || (block->n_fresh > 0 && block->fresh[block->n_fresh - 1] == pipeline)) return VKF_OK;
  vkf_gpu_pipeline **fresh =
      vkf_env_grow(block->device->env, block->fresh, &block->fresh_capacity, block->n_fresh + 1, sizeof(*fresh));
  if (!fresh) return VKF_ERROR_MEMORY;
  block->fresh = fresh;
  block->fresh[block->n_fresh++] = pipeline;
  return VKF_OK;
}

static void barrier(vkf_gpu_block *block, uint32_t by) {
  vkf_gpu_record_barrier(block->device, block->commands, by, block->logged ? &block->log : NULL);
  block->n_barriers++;
  if (by & VKF_GPU_BY_INDIRECT) block->n_recent = 0;
  block->first_recent = block->n_recent;
}

/* Returns the dispatch's own read of its grid. */
static vkf_gpu_access grid_access(const vkf_gpu_dispatch *dispatch) {
  return (vkf_gpu_access){.buffer = dispatch->grid_buffer,
                          .begin = dispatch->grid_offset,
                          .end = dispatch->grid_offset + 12,
                          .mode = VKF_GPU_READ};
}

static vkf_status order(vkf_gpu_block *block, const vkf_gpu_dispatch *dispatch) {
  vkf_gpu_access grid = grid_access(dispatch);
  uint32_t by = dispatch->grid_buffer && conflicts(block, 0, &grid) ? VKF_GPU_BY_COMPUTE | VKF_GPU_BY_INDIRECT : 0;
  for (uint32_t i = 0; i < dispatch->n_accesses && !by; ++i)
    if (conflicts(block, block->first_recent, &dispatch->accesses[i])) by = VKF_GPU_BY_COMPUTE;
  if (by) barrier(block, by);
  for (uint32_t i = 0; i < dispatch->n_accesses; ++i) VKF_CALL(remember(block, &dispatch->accesses[i]));
  if (dispatch->grid_buffer) VKF_CALL(remember(block, &grid));
  if (block->logged) {
    vkf_gpu_log_dispatch(&block->log, block->label, dispatch->label);
    for (uint32_t i = 0; i < dispatch->n_accesses; ++i)
      vkf_gpu_log_access(&block->log, VKF_GPU_BY_COMPUTE, &dispatch->accesses[i]);
    if (dispatch->grid_buffer) vkf_gpu_log_access(&block->log, VKF_GPU_BY_INDIRECT, &grid);
  }
  return VKF_OK;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

#define REFUSE(...) return vkf_env_fail(block->device->env, VKF_ERROR_ARGUMENT, __VA_ARGS__)
#define U(value) ((unsigned long long)(value))

static vkf_status check_binding(vkf_gpu_block *block, const vkf_gpu_dispatch *d, uint32_t i) {
  const vkf_caps *caps = &block->device->caps;
  const vkf_gpu_binding *b = &d->bindings[i];
  vkf_gpu_binding_kind kind = d->pipeline->layout->kinds[i];
  bool storage = kind == VKF_GPU_BINDING_STORAGE;
  if (!b->buffer) REFUSE("%s/%s: expected a buffer at binding %u, found none", block->label, d->label, i);
  uint64_t all = b->buffer->bytes;
  if (b->offset >= all || b->bytes > all - b->offset)
    REFUSE("%s/%s: binding %u: expected a range within the %llu bytes of %s, found %llu bytes from byte %llu",
           block->label, d->label, i, U(all), b->buffer->name, U(b->bytes), U(b->offset));
  uint64_t bytes = b->bytes ? b->bytes : all - b->offset;
  uint64_t alignment = storage ? caps->storage_offset_alignment : caps->texel_offset_alignment;
  if (alignment > 0 && b->offset % alignment != 0)
    REFUSE("%s/%s: binding %u: expected an offset in %s that is a multiple of %llu bytes, found %llu", block->label,
           d->label, i, b->buffer->name, U(alignment), U(b->offset));
  if (storage && bytes > caps->max_storage_range_bytes)
    REFUSE("%s/%s: binding %u: expected at most %llu bytes of %s, found %llu", block->label, d->label, i,
           U(caps->max_storage_range_bytes), b->buffer->name, U(bytes));
  uint64_t texel_bytes = storage ? 0 : vkf_gpu_texel_get(kind).bytes;
  if (!storage && (bytes % texel_bytes != 0 || bytes / texel_bytes > caps->max_texel_elements))
    REFUSE("%s/%s: binding %u: expected at most %u whole texels of %llu bytes of %s, found %llu bytes", block->label,
           d->label, i, caps->max_texel_elements, U(texel_bytes), b->buffer->name, U(bytes));
  return VKF_OK;
}

static vkf_status check(vkf_gpu_block *block, const vkf_gpu_dispatch *d) {
  const vkf_caps *caps = &block->device->caps;
  const vkf_gpu_layout *layout = d->pipeline->layout;
  VKF_CALL(vkf_gpu_device_alive(block->device));
  if (block->state != VKF_GPU_BLOCK_RECORDING)
    REFUSE("%s/%s: expected a block that is being recorded, found one that has ended", block->label, d->label);
  if (d->n_bindings != layout->n_bindings || d->push_bytes != layout->push_bytes)
    REFUSE("%s/%s: the pipeline %s expects %u bindings and %u push bytes, found %u and %u", block->label, d->label,
           d->pipeline->name, layout->n_bindings, layout->push_bytes, d->n_bindings, d->push_bytes);
  for (uint32_t i = 0; i < d->n_bindings; ++i) VKF_CALL(check_binding(block, d, i));
  for (uint32_t i = 0; i < d->n_accesses; ++i) {
    const vkf_gpu_access *a = &d->accesses[i];
    if (!a->buffer || a->begin >= a->end || a->end > a->buffer->bytes || !(a->mode & VKF_GPU_READ_WRITE))
      REFUSE("%s/%s: access %u: expected a range within %s (%llu bytes), found bytes %llu to %llu", block->label,
             d->label, i, a->buffer ? a->buffer->name : "no buffer", U(a->buffer ? a->buffer->bytes : 0), U(a->begin),
             U(a->end));
  }
  if (d->grid_buffer) {
    uint64_t all = d->grid_buffer->bytes;
    if (d->grid_offset % 4 != 0 || all < 12 || d->grid_offset > all - 12)
      REFUSE("%s/%s: expected a grid of 12 bytes at a multiple of 4 in the %llu bytes of %s, found byte %llu",
             block->label, d->label, U(all), d->grid_buffer->name, U(d->grid_offset));
    return VKF_OK;
  }
  for (int i = 0; i < 3; ++i)
    if (d->grid[i] > caps->max_workgroup_count[i])
      REFUSE("%s/%s: expected a grid of at most %u workgroups in dimension %d, found %u", block->label, d->label,
             caps->max_workgroup_count[i], i, d->grid[i]);
  return VKF_OK;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static vkf_status begin_timing(vkf_gpu_block *block, const vkf_gpu_block_params *params) {
  vkf_gpu_device *device = block->device;
  if (!device->caps.timestamps || params->timing == VKF_GPU_TIMING_NONE) return VKF_OK;
  if (params->timing == VKF_GPU_TIMING_DISPATCH)
    block->max_timed = params->max_dispatches ? params->max_dispatches : DEFAULT_TIMED;
  block->timed_labels = vkf_env_alloc(device->env, block->max_timed, sizeof(*block->timed_labels));
  if (!block->timed_labels) return VKF_ERROR_MEMORY;
  VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                .queryCount = 2 + block->max_timed};
  return VKF_VK(device, CreateQueryPool, device->handle, &info, NULL, &block->queries);
}

static void timestamp(vkf_gpu_block *block, uint32_t query) {
  if (block->queries)
    block->device->vk.CmdWriteTimestamp(block->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, block->queries, query);
}

vkf_status vkf_gpu_block_begin(vkf_gpu_device *device, const vkf_gpu_block_params *params, vkf_gpu_block **out) {
  vkf_status st = VKF_OK;
  vkf_gpu_block *block = NULL;
  VKF_TRY(vkf_gpu_device_alive(device));
  block = vkf_env_alloc(device->env, 1, sizeof(*block));
  if (!block) VKF_TRY(VKF_ERROR_MEMORY);
  block->device = device;
  block->logged = device->logging;
  vkf_gpu_log_init(&block->log, device->env);
  vkf_arena_init(&block->labels, device->env);
  block->label = vkf_env_strdup(device->env, params->label);
  if (!block->label) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(begin_timing(block, params));
  VKF_TRY(vkf_gpu_commands_create(device, &block->commands));
  VKF_TRY(vkf_gpu_commands_begin(device, block->commands, 0));
  if (device->vk.CmdBeginDebugUtilsLabelEXT) {
    VkDebugUtilsLabelEXT label = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = block->label};
    device->vk.CmdBeginDebugUtilsLabelEXT(block->commands, &label);
  }
  if (block->queries) device->vk.CmdResetQueryPool(block->commands, block->queries, 0, 2 + block->max_timed);
  barrier(block, VKF_GPU_BY_COMPUTE | VKF_GPU_BY_INDIRECT);
  timestamp(block, 0);
done:
  if (st) vkf_gpu_block_destroy(&block);
  *out = block;
  return st;
}

vkf_status vkf_gpu_block_dispatch(vkf_gpu_block *block, const vkf_gpu_dispatch *dispatch) {
  vkf_status st = VKF_OK;
  const vkf_vk_device *vk = &block->device->vk;
  const vkf_gpu_pipeline *pipeline = dispatch->pipeline;
  VkDescriptorSet set;
  VKF_TRY(check(block, dispatch));
  VKF_TRY(vkf_gpu_sets_make(block->device, &block->sets, dispatch, &set));
  VKF_TRY(order(block, dispatch));
  VKF_TRY(note_fresh(block, dispatch->pipeline));
  if (pipeline->shader)
    vkf_gpu_shader_bind(block->device, block->commands, pipeline);
  else
    vk->CmdBindPipeline(block->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->handle);
  if (set)
    vk->CmdBindDescriptorSets(block->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->layout->pipeline, 0, 1, &set,
                              0, NULL);
  if (dispatch->push_bytes > 0)
    vk->CmdPushConstants(block->commands, pipeline->layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                         dispatch->push_bytes, dispatch->push);
  if (dispatch->grid_buffer)
    vk->CmdDispatchIndirect(block->commands, dispatch->grid_buffer->handle, dispatch->grid_offset);
  else
    vk->CmdDispatch(block->commands, dispatch->grid[0], dispatch->grid[1], dispatch->grid[2]);
  if (block->n_dispatches < block->max_timed) {
    timestamp(block, 2 + block->n_dispatches);
    block->timed_labels[block->n_dispatches] = vkf_arena_strdup(&block->labels, dispatch->label);
    if (!block->timed_labels[block->n_dispatches]) VKF_TRY(VKF_ERROR_MEMORY);
  }
  block->n_dispatches++;
  block->n_indirect += dispatch->grid_buffer != NULL;
done:
  /* A dispatch into an ended block is refused and does not change it. */
  if (st != VKF_OK && block->state == VKF_GPU_BLOCK_RECORDING) block->state = VKF_GPU_BLOCK_FAILED;
  return st;
}

vkf_status vkf_gpu_block_end(vkf_gpu_block *block) {
  vkf_gpu_device *device = block->device;
  VKF_CALL(vkf_gpu_device_alive(device));
  if (block->state != VKF_GPU_BLOCK_RECORDING)
    REFUSE("%s: expected a block that is being recorded, found one that has ended or failed", block->label);
  if (block->queries) timestamp(block, 1);
  if (device->vk.CmdEndDebugUtilsLabelEXT) device->vk.CmdEndDebugUtilsLabelEXT(block->commands);
  block->state = VKF_GPU_BLOCK_FAILED;
  VKF_CALL(VKF_VK(device, EndCommandBuffer, block->commands));
  VKF_CALL(block->log.status);
  block->state = VKF_GPU_BLOCK_READY;
  return VKF_OK;
}

void vkf_gpu_block_destroy(vkf_gpu_block **block) {
  vkf_gpu_block *it = *block;
  *block = NULL;
  if (!it) return;
  vkf_gpu_device *device = it->device;
  if (it->pending_serial > device->completed) vkf_gpu_queue_drain(device);
  if (it->commands) device->vk.FreeCommandBuffers(device->handle, device->commands, 1, &it->commands);
  if (it->queries) device->vk.DestroyQueryPool(device->handle, it->queries, NULL);
  vkf_gpu_sets_finish(device, &it->sets);
  vkf_gpu_log_finish(&it->log);
  vkf_arena_finish(&it->labels);
  vkf_env_free(device->env, it->timed_labels);
  vkf_env_free(device->env, it->recent);
  vkf_env_free(device->env, it->fresh);
  vkf_env_free(device->env, it->label);
  vkf_env_free(device->env, it);
}
