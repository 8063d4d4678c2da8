/* The commands of a program: makes pipelines for its nodes and records blocks from their dispatches.
 *
 * The recorder of the room gpu places the barriers. It derives them from the byte ranges that each dispatch declares.
 */
#include <stdio.h>
#include <string.h>

#include "kern/spirv.h"
#include "kern/tuned.h"
#include "vkop/internal.h"

/* Returns the kind of a texel, which has four elements. */
static vkf_gpu_binding_kind texel_kind(vkf_format format) {
  const uint32_t bits = vkf_format_get(format)->bits;
  return bits == 32   ? VKF_GPU_BINDING_TEXEL_F32X4
         : bits == 16 ? VKF_GPU_BINDING_TEXEL_U32X2
                      : VKF_GPU_BINDING_TEXEL_U32;
}

static uint32_t n_bindings(const vkf_dispatch *d) {
  return 1 + d->n_operands - d->last_is_unbound;
}

/* Returns the kernel that was added with a variant, in *own; NULL: none. */
static const struct vkf_kern_spirv *find_own(const vkop_backend *b, const vkf_variant *v, struct vkf_kern_spirv *own) {
  for (const vkop_extra *e = b->extras; e; e = e->next) {
    if (&e->row != v || !e->words) continue;
    *own = (struct vkf_kern_spirv){e->row.module, e->words, e->n_words};
    return own;
  }
  return NULL;
}

/* Gives what the pipeline of a node's stage is made from; *out points into the node and `kinds`. */
static vkf_status want_pipeline(const vkf_program *p, const vkop_node *k, uint32_t stage, vkf_gpu_binding_kind *kinds,
                                vkf_gpu_pipeline_params *out) {
  const vkf_caps *caps = vkf_gpu_device_caps(p->backend->device);
  char name[64];
  struct vkf_kern_spirv own;
  const vkf_dispatch *d = &k->dispatch[stage];
  const bool is_own = stage == vkf_kern_rounds_x(k->variant, &k->problem); /* not a stage before or behind it */
  const struct vkf_kern_spirv *module = is_own ? find_own(p->backend, k->variant, &own) : NULL;
  vkf_kern_module(k->variant, stage, &k->problem, caps, name, sizeof name);
  if (!module) module = vkf_kern_spirv_find(vkf_kern_spirv_table, name);
  if (!module)
    return vkf_env_fail(p->backend->base.env, VKF_ERROR_UNSUPPORTED, "shader module %s is not in this build", name);
  kinds[0] = VKF_GPU_BINDING_STORAGE;
  for (uint32_t o = 0; o < d->n_operands; o++) {
    const vkf_operand *operand = &d->operands[o];
    kinds[1 + o] = operand->access == VKF_ACCESS_TEXEL ? texel_kind(operand->format) : VKF_GPU_BINDING_STORAGE;
  }
  const uint32_t workgroup = vkf_kern_workgroup(k->variant);
  *out = (vkf_gpu_pipeline_params){.name = module->name,
                                   .code = module->words,
                                   .code_bytes = module->n_words * 4,
                                   .constants = d->constants,
                                   .n_constants = d->n_constants,
                                   .n_bindings = n_bindings(d),
                                   .kinds = kinds,
                                   .push_bytes = VKF_PUSH_OPERANDS * 8 + d->params_bytes,
                                   .subgroup_size = k->variant->subgroup,
                                   .subgroup_full = vkf_gpu_wants_full(caps, workgroup, k->variant->subgroup),
                                   .statistics = p->statistics};
  return VKF_OK;
}

/* Makes all pipelines in one call, so that the driver compiles them in parallel. */
static vkf_status make_all(vkf_program *p) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) n += vkf_kern_stages(p->nodes[i].variant, &p->nodes[i].problem);
  vkf_gpu_binding_kind(*kinds)[1 + VKF_MAX_OPERANDS] = vkf_env_alloc(env, n, sizeof *kinds);
  vkf_gpu_pipeline_params *params = vkf_env_alloc(env, n, sizeof *params), *next = params;
  if (!kinds || !params) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < p->plan->n_nodes; i++)
    for (uint32_t stage = 0; stage < vkf_kern_stages(p->nodes[i].variant, &p->nodes[i].problem); stage++, next++)
      VKF_TRY(want_pipeline(p, &p->nodes[i], stage, kinds[next - params], next));
  VKF_TRY(vkf_gpu_pipelines_make(p->backend->device, params, n));
done:
  vkf_env_free(env, params);
  vkf_env_free(env, kinds);
  return st;
}

/* Finds the pipelines of a node, which are made already unless the driver could not make one. */
static vkf_status find_pipelines(vkf_program *p, vkop_node *k, uint32_t *spills) {
  *spills = 0;
  for (uint32_t stage = 0; stage < vkf_kern_stages(k->variant, &k->problem); stage++) {
    vkf_gpu_binding_kind kinds[1 + VKF_MAX_OPERANDS];
    vkf_gpu_pipeline_params params;
    VKF_CALL(want_pipeline(p, k, stage, kinds, &params));
    VKF_CALL(vkf_gpu_pipeline_get(p->backend->device, &params, &k->pipelines[stage]));
    *spills += vkf_gpu_pipeline_spills(k->pipelines[stage]);
  }
  return VKF_OK;
}

/* Picks another kernel for a node. *replaced: there is one. */
static vkf_status refuse(vkf_program *p, uint32_t index, const char *reason, bool *replaced) {
  vkf_env *env = p->backend->base.env;
  vkop_node *k = &p->nodes[index];
  const vkop_node before = *k;
  bool is_known = false;
  *replaced = false;
  vkf_refusal *refusal = vkf_arena_alloc(&p->arena, 1, sizeof *refusal);
  if (!refusal) return VKF_ERROR_MEMORY;
  *refusal = (vkf_refusal){before.variant, before.problem.refused};
  k->problem.refused = refusal;
  const vkf_status st = vkf_vkop_pick(p, index);
  if (st == VKF_ERROR_UNSUPPORTED) {
    vkf_env_clear(env);
    *k = before;
    return VKF_OK;
  }
  if (st) return st;
  *replaced = true;
  for (uint32_t i = 0; i < index; i++)
    for (const vkf_refusal *r = p->nodes[i].problem.refused; r; r = r->next)
      is_known = is_known || r->variant == before.variant;
  vkf_env_log(env, is_known ? VKF_LOG_DEBUG : VKF_LOG_WARNING, "%s: %s replaces %s, %s", p->plan->nodes[index].name,
              k->variant_name, before.variant_name, reason);
  return VKF_OK;
}

/* Returns whether the variant was measured for this problem: then its time says more than its spills. */
static bool is_timed(const vkf_program *p, const vkop_node *k) {
  const vkf_tuned *tuned = p->backend->tuned;
  return vkf_kern_tuned_find(tuned, vkf_kern_tuned_near(tuned, &k->problem), k->variant) != NULL;
}

/* Finds the node's pipelines, and first replaces kernels that cannot be made or that spill. */
static vkf_status settle(vkf_program *p, uint32_t index) {
  vkf_env *env = p->backend->base.env;
  vkop_node *k = &p->nodes[index];
  vkf_env_failure failure;
  char reason[sizeof env->message + 64];
  for (bool replaced = true;;) {
    uint32_t spills = 0;
    vkf_status st = find_pipelines(p, k, &spills);
    const bool fails = st == VKF_ERROR_DEVICE;
    if (k->is_forced || (st && !fails) || (!fails && (!spills || is_timed(p, k)))) return st;
    vkf_env_save_failure(env, &failure);
    snprintf(reason, sizeof reason, "which spills %u registers on this device", spills);
    if (fails) snprintf(reason, sizeof reason, "which the driver cannot make: %s", env->message);
    vkf_env_clear(env);
    const vkf_status picked = refuse(p, index, reason, &replaced);
    if (picked) return picked;
    if (replaced) continue;
    if (fails) vkf_env_restore_failure(env, &failure);
    return st;
  }
}

vkf_status vkf_vkop_make_pipelines(vkf_program *p) {
  const vkf_status st = make_all(p);
  if (st == VKF_ERROR_DEVICE)
    vkf_env_clear(p->backend->base.env); /* each node finds its own failure */
  else
    VKF_CALL(st);
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) VKF_CALL(settle(p, i));
  return VKF_OK;
}

/* Sets where an operand begins, in the shader's terms (describe.h). place: of the operand, or of its shard. */
static void operand_at(const vkf_operand *operand, const vkop_place *place, uint32_t at[2]) {
  const uint64_t first = operand->scales ? place->scales_offset : 0;
  if (operand->access == VKF_ACCESS_ADDRESS) {
    uint64_t address =
        vkf_gpu_buffer_address(vkf_vkop_place_buffer(place)) + place->offset + first + 4 * (uint64_t)operand->column;
    at[0] = (uint32_t)address;
    at[1] = (uint32_t)(address >> 32);
  } else if (operand->access == VKF_ACCESS_STEP) {
    at[0] = (uint32_t)(place->offset / 4);
  } else {
    at[0] = (uint32_t)(first / (operand->access == VKF_ACCESS_TEXEL ? 16 : 4)) + operand->column;
    at[1] = operand->row;
  }
}

/* Gives the grid of a stage if it is the same in all runs, else zeros. An indirect dispatch makes a GPU wait for its
 * grid, and v3dv sends each one through the host. A run has at least one row of each sequence and of whatever the
 * capacity has. Only the rows that reach the head and the tokens in the cache may be none. If a run breaks this rule,
 * write_grids() in program.c fails. */
static void find_direct(const vkf_program *p, uint32_t index, uint32_t stage, uint32_t grid[3]) {
  vkf_dims most = vkf_dims_make(&p->plan->capacity), least;
  uint32_t smallest[3];
  most.v[VKF_DIM_R] = VKF_MIN(most.v[VKF_DIM_R], most.v[VKF_DIM_RT]);
  for (uint32_t d = 0; d < VKF_DIM_COUNT; d++) least.v[d] = VKF_MIN(most.v[d], 1);
  least.v[VKF_DIM_OUT] = least.v[VKF_DIM_PAST] = 0;
  vkf_vkop_grid(p, index, stage, &least, smallest);
  vkf_vkop_grid(p, index, stage, &most, grid);
  if (memcmp(grid, smallest, sizeof smallest) != 0) memset(grid, 0, sizeof smallest);
}

static vkf_status record_dispatch(vkf_program *p, uint32_t index, uint32_t shard, uint32_t stage,
                                  vkf_gpu_block *block) {
  vkop_node *k = &p->nodes[index];
  vkf_gpu_binding bindings[1 + VKF_MAX_OPERANDS];
  vkf_gpu_access accesses[1 + VKF_MAX_OPERANDS];
  uint32_t push[VKF_MAX_PUSH_BYTES / 4] = {0}, n_accesses = 0;
  const vkf_gpu_binding step = {vkf_vkop_place_buffer(&p->step), p->step.offset, p->step.bytes};
  vkf_dispatch d;
  vkf_vkop_dispatch_of(p, index, shard, stage, &d);
  bindings[0] = step;
  accesses[n_accesses++] = (vkf_gpu_access){step.buffer, step.offset, step.offset + step.bytes, VKF_GPU_READ};
  for (uint32_t o = 0; o < d.n_operands; o++) {
    const vkf_operand *operand = &d.operands[o];
    bindings[1 + o] = step;
    if (operand->slot == VKF_NO_SLOT) continue;
    const vkop_place flag = {.offset = index * p->flag_stride, .bytes = 4};
    const vkop_place *place = operand->slot == VKF_FLAG_SLOT      ? &flag
                              : operand->slot == VKF_SCRATCH_SLOT ? &k->scratch
                              : operand->shard && k->shards       ? &k->shards[shard].place
                                                                  : &p->places[operand->slot];
    vkf_gpu_buffer *buffer = place == &flag ? p->flags : vkf_vkop_place_buffer(place);
    if (operand->access == VKF_ACCESS_STORAGE || operand->access == VKF_ACCESS_TEXEL)
      bindings[1 + o] = (vkf_gpu_binding){buffer, place->offset, place->bytes};
    if (o < VKF_PUSH_OPERANDS) operand_at(operand, place, &push[2 * o]);
    if (operand->access == VKF_ACCESS_STEP) continue;
    accesses[n_accesses++] =
        (vkf_gpu_access){buffer, place->offset, place->offset + place->bytes,
                         operand->write ? (operand->read ? VKF_GPU_READ_WRITE : VKF_GPU_WRITE) : VKF_GPU_READ};
  }
  memcpy(push + 2 * VKF_PUSH_OPERANDS, d.params, d.params_bytes);
  vkf_gpu_dispatch dispatch = {.label = p->plan->nodes[index].name,
                               .pipeline = k->pipelines[stage],
                               .bindings = bindings,
                               .n_bindings = n_bindings(&d),
                               .push = push,
                               .push_bytes = VKF_PUSH_OPERANDS * 8 + d.params_bytes,
                               .accesses = accesses,
                               .n_accesses = n_accesses};
  find_direct(p, index, stage, k->direct[stage]);
  memcpy(dispatch.grid, k->direct[stage], sizeof dispatch.grid);
  if (!dispatch.grid[0]) {
    dispatch.grid_buffer = p->grids;
    dispatch.grid_offset = ((uint64_t)k->first_grid + shard * VKF_MAX_STAGES + stage) * 12;
  }
  return vkf_gpu_block_dispatch(block, &dispatch);
}

double vkf_vkop_effort(const vkf_program *p, uint32_t node, const vkf_dims *dims) {
  const vkf_cost cost = vkf_op_cost(p->plan, &p->plan->nodes[node], dims);
  return cost.flops / 4 + cost.bytes + 20e3;
}

static vkf_status segment_begin(vkf_program *p, const vkf_block *block) {
  static const vkf_gpu_timing timings[] = {VKF_GPU_TIMING_NONE, VKF_GPU_TIMING_BLOCK, VKF_GPU_TIMING_DISPATCH};
  const vkop_node *last = &p->nodes[block->first_node + block->n_nodes - 1];
  const uint32_t end = last->first_grid + last->n_shards * VKF_MAX_STAGES;
  const uint32_t most = end - p->nodes[block->first_node].first_grid; /* dispatches */
  const vkf_gpu_block_params params = {block->name, timings[p->timing], most};
  return vkf_gpu_block_begin(p->backend->device, &params, &p->segments[p->n_segments].gpu);
}

static vkf_status record_block(vkf_program *p, uint32_t index) {
  const vkf_block *b = &p->plan->blocks[index];
  vkf_gpu_block_info info;
  const vkf_dims capacity = vkf_dims_make(&p->plan->capacity);
  double effort = 0;
  p->blocks[index].first_segment = p->n_segments;
  for (uint32_t n = b->first_node; n < b->first_node + b->n_nodes; n++) {
    vkop_node *node = &p->nodes[n];
    const double own = vkf_vkop_effort(p, n, &capacity);
    const bool is_long = (effort + own) * p->backend->pace > p->backend->submit_ns;
    if (p->is_apart || is_long || n == b->first_node) {
      if (n > b->first_node) VKF_CALL(vkf_gpu_block_end(p->segments[p->n_segments - 1].gpu));
      effort = 0;
      VKF_CALL(segment_begin(p, b));
      p->n_segments++;
    }
    effort += own;
    vkf_gpu_block *gpu = p->segments[p->n_segments - 1].gpu;
    vkf_gpu_block_get_info(gpu, &info);
    node->segment = p->n_segments - 1;
    node->first_dispatch = info.n_dispatches;
    for (uint32_t shard = 0; shard < node->n_shards; shard++)
      for (uint32_t stage = 0; stage < vkf_kern_stages(node->variant, &node->problem); stage++)
        VKF_CALL(record_dispatch(p, n, shard, stage, gpu));
    vkf_gpu_block_get_info(gpu, &info);
    node->n_dispatches = info.n_dispatches - node->first_dispatch;
    if (n + 1 == b->first_node + b->n_nodes) VKF_CALL(vkf_gpu_block_end(gpu));
  }
  p->blocks[index].n_segments = p->n_segments - p->blocks[index].first_segment;
  return VKF_OK;
}

uint32_t vkf_vkop_stages(const vkf_program *program, uint32_t node) {
  return vkf_kern_stages(program->nodes[node].variant, &program->nodes[node].problem);
}

uint32_t vkf_vkop_own_stage(const vkf_program *program, uint32_t node) {
  return vkf_kern_rounds_x(program->nodes[node].variant, &program->nodes[node].problem);
}

vkf_status vkf_vkop_statistics(const vkf_program *program, uint32_t node, uint32_t stage, vkf_arena *arena,
                               vkf_bench_statistic **out, size_t *n) {
  return vkf_gpu_pipeline_statistics(program->backend->device, program->nodes[node].pipelines[stage], arena, out, n);
}

void vkf_vkop_record_undo(vkf_program *p) {
  for (uint32_t i = 0; p->segments && i < p->plan->n_nodes; i++) vkf_gpu_block_destroy(&p->segments[i].gpu);
  p->n_segments = 0;
}

/* Counts the buffers that the lenders have made so far; other programs may have replaced some. */
static uint64_t count_made(const vkf_program *p) {
  const vkop_pools *pools[] = {VKOP_POOLS_OF(p), p->state ? &p->state->pools : NULL};
  uint64_t n = 0;
  for (size_t i = 0; i < VKF_COUNT(pools); i++)
    if (pools[i] && pools[i]->lender) n += pools[i]->lender->n_made;
  return n;
}

vkf_status vkf_vkop_settle(vkf_program *p) {
  vkop_pools *pools[] = {VKOP_POOLS_OF(p), p->state ? &p->state->pools : NULL};
  for (size_t i = 0; i < VKF_COUNT(pools); i++)
    if (pools[i] && pools[i]->lender) VKF_CALL(vkf_vkop_pools_make(pools[i]));
  if (!p->n_records || p->n_made != count_made(p)) VKF_CALL(vkf_vkop_record(p));
  return VKF_OK;
}

vkf_status vkf_vkop_record(vkf_program *p) {
  uint32_t spills;
  vkf_vkop_record_undo(p);
  p->n_made = UINT64_MAX; /* after a failure nothing is recorded */
  VKF_CALL(make_all(p));  /* those that were picked since */
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) VKF_CALL(find_pipelines(p, &p->nodes[i], &spills));
  for (uint32_t i = 0; i < p->plan->n_blocks; i++) VKF_CALL(record_block(p, i));
  p->n_records++;
  p->n_made = count_made(p);
  return VKF_OK;
}
