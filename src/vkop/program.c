/* A program: a plan whose blocks are recorded on a device, and its runs.
 *
 * Blocks are recorded once, and again if memory that programs share was replaced by a larger one. A run writes the
 * actual sizes to the step buffer, the grids if they changed, and submits the blocks: in one submit, or in several if a
 * GPU's watchdog might end it. It allocates nothing, unless a kernel says that it cannot compute its node: then another
 * one is picked, and the run starts again. That is safe, because a run reads only what it has computed itself or what
 * it does not write (an append writes the same numbers to the same places).
 */
#include <string.h>

#include "vkop/internal.h"

/* Watchdogs of GPUs end a submit after 2 s or more; this leaves room for an estimate that is four times too low. */
#define SUBMIT_NS 0.5e9

static void program_destroy(vkf_program **program) {
  vkf_program *p = *program;
  if (!p) return;
  vkf_env *env = p->backend->base.env;
  vkf_vkop_record_undo(p);
  vkop_pools *pools[] = {VKOP_POOLS_OF(p)};
  for (size_t i = 0; i < VKF_COUNT(pools); i++) vkf_vkop_pools_finish(pools[i]);
  vkf_gpu_buffer_destroy(&p->grids);
  vkf_gpu_buffer_destroy(&p->flags);
  vkf_arena_finish(&p->arena);
  vkf_env_free(env, p);
  *program = NULL;
}

static vkf_status program_create(vkf_backend *backend, const vkf_plan *plan, vkf_weights *weights, vkf_state *state,
                                 const vkf_program_options *options, vkf_program **out) {
  vkf_status st = VKF_OK;
  const vkf_program_options defaults = {0};
  vkf_dims capacity = vkf_dims_make(&plan->capacity);
  vkf_program *p = vkf_env_alloc(backend->env, 1, sizeof *p);
  if (!p) VKF_TRY(VKF_ERROR_MEMORY);
  p->backend = (vkop_backend *)backend;
  p->plan = plan;
  p->weights = weights;
  p->state = state;
  vkf_arena_init(&p->arena, backend->env);
  if (!options) options = &defaults;
  p->timing = options->timing;
  p->keeps_all = options->keep_all;
  p->statistics = options->statistics || !vkf_gpu_device_caps(p->backend->device)->is_cpu; /* spills, on GPUs */
  if (backend->observer) p->timing = VKF_MAX(p->timing, backend->observer->timing);
  p->is_apart = p->timing == VKF_TIMING_NODES && !vkf_gpu_device_caps(p->backend->device)->timestamps;
  p->places = vkf_arena_alloc(&p->arena, plan->n_slots, sizeof *p->places);
  p->packings = vkf_arena_alloc(&p->arena, plan->n_slots, sizeof *p->packings);
  p->nodes = vkf_arena_alloc(&p->arena, plan->n_nodes, sizeof *p->nodes);
  p->blocks = vkf_arena_alloc(&p->arena, plan->n_blocks, sizeof *p->blocks);
  p->segments = vkf_arena_alloc(&p->arena, plan->n_nodes, sizeof *p->segments);
  if (!p->places || !p->packings || !p->nodes || !p->blocks || !p->segments) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_vkop_prepare(p, options));
  VKF_TRY(vkf_vkop_make_pipelines(p));
  VKF_TRY(vkf_vkop_place(p, options));
  if (!options->memory) VKF_TRY(vkf_vkop_record(p)); /* else when it is used: until then the memory may grow */
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind == VKF_SLOT_CONSTANT) VKF_TRY(vkf_vkop_write(p, i, &capacity, plan->slots[i].data));
done:
  if (st) program_destroy(&p);
  *out = p;
  return st;
}

static uint64_t program_bytes(const vkf_program *p) {
  const vkop_pools *pools[] = {VKOP_POOLS_OF(p)};
  uint64_t bytes = vkf_gpu_buffer_held(p->grids) + vkf_gpu_buffer_held(p->flags);
  for (size_t i = 0; i < VKF_COUNT(pools); i++) bytes += vkf_vkop_pools_bytes(pools[i]);
  return bytes;
}

static vkf_status write_grids(vkf_program *p, const vkf_dims *dims) {
  uint32_t *grids = vkf_gpu_buffer_mapped(p->grids);
  p->grids_valid = false;
  vkf_gpu_buffer_touch(p->grids, 0, vkf_gpu_buffer_bytes(p->grids), VKF_GPU_WRITE);
  for (uint32_t i = 0; i < p->n_segments; i++) p->segments[i].effort = 0;
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    const vkop_node *k = &p->nodes[i];
    for (uint32_t stage = 0; stage < vkf_kern_stages(k->variant, &k->problem); stage++) {
      uint32_t grid[3];
      const uint32_t *direct = k->direct[stage];
      vkf_vkop_grid(p, i, stage, dims, grid);
      if (direct[0] && memcmp(grid, direct, sizeof grid) != 0)
        return vkf_env_fail(p->backend->base.env, VKF_ERROR_ARGUMENT,
                            "%s: expected the recorded grid [%u, %u, %u], found one of [%u, %u, %u]",
                            p->plan->nodes[i].name, direct[0], direct[1], direct[2], grid[0], grid[1], grid[2]);
      for (uint32_t shard = 0; shard < k->n_shards; shard++)
        memcpy(&grids[3 * (k->first_grid + shard * VKF_MAX_STAGES + stage)], grid, sizeof grid);
    }
    p->segments[k->segment].effort += vkf_vkop_effort(p, i, dims);
  }
  p->grid_dims = *dims;
  p->grids_valid = true;
  return VKF_OK;
}

/* Submits segments [first, end), in submits that should each end in time, and waits for the last. */
static vkf_status submit_segments(vkf_program *p, uint32_t first, uint32_t end) {
  enum { MAX_SEGMENTS = 256 };
  const double MEASURABLE = 1e7; /* effort: below it a run's time says nothing of the device's pace */
  vkf_status st = VKF_OK;
  vkop_backend *b = p->backend;
  vkf_gpu_block *gpu[MAX_SEGMENTS];
  uint64_t serial = 0, previous = 0, begin = vkf_clock_ns();
  double all = 0;
  while (first < end) {
    uint32_t n = 0;
    double effort = 0;
    /* Two are under way at most, so that the host is asked while the device computes. */
    if (b->base.should_stop && previous) VKF_TRY(vkf_gpu_wait(b->device, previous));
    VKF_TRY(vkf_backend_ask(&b->base));
    previous = serial;
    while (first < end && n < MAX_SEGMENTS && (!n || (effort + p->segments[first].effort) * b->pace <= b->submit_ns)) {
      effort += p->segments[first].effort;
      gpu[n++] = p->segments[first++].gpu;
    }
    VKF_TRY(vkf_gpu_submit(b->device, gpu, n, &serial));
    all += effort;
  }
  VKF_TRY(vkf_gpu_wait(b->device, serial));
  /* At most by a factor of 4 at a time: a first run compiles, too. */
  if (all > MEASURABLE) b->pace = VKF_MIN(VKF_MAX((double)(vkf_clock_ns() - begin) / all, b->pace / 4), b->pace * 4);
done:
  if (st) vkf_gpu_wait_all(b->device); /* for earlier submits: the next run writes what they read */
  return st;
}

static vkf_status run_blocks(vkf_program *p, uint32_t first, uint32_t n) {
  const vkop_block *last = &p->blocks[first + n - 1];
  uint32_t begin = p->blocks[first].first_segment, end = last->first_segment + last->n_segments;
  if (!p->is_apart) VKF_CALL(submit_segments(p, begin, end));
  for (uint32_t i = begin; p->is_apart && i < end; i++) {
    uint64_t start = vkf_clock_ns();
    VKF_CALL(submit_segments(p, i, i + 1));
    p->segments[i].ns = vkf_clock_ns() - start;
  }
  return VKF_OK;
}

static vkf_status run(vkf_program *p, const vkf_dims *dims, uint32_t first, uint32_t n) {
  if (!n) return VKF_OK;
  VKF_CALL(vkf_vkop_settle(p));
  VKF_CALL(vkf_gpu_buffer_write(vkf_vkop_place_buffer(&p->step), p->step.offset, dims, sizeof *dims));
  if (!p->grids_valid || memcmp(dims, &p->grid_dims, sizeof *dims)) VKF_CALL(write_grids(p, dims));
  const vkf_block *last = &p->plan->blocks[first + n - 1];
  for (bool again = true; again;) {
    VKF_CALL(run_blocks(p, first, n));
    VKF_CALL(vkf_vkop_fall_back(p, p->plan->blocks[first].first_node, last->first_node + last->n_nodes, &again));
    if (again) VKF_CALL(vkf_vkop_record(p));
    if (again) VKF_CALL(write_grids(p, dims));
  }
  const vkf_observer *observer = p->backend->base.observer;
  if (observer) VKF_CALL(observer->on_run(observer->user, p, p->plan, dims, first, n));
  return VKF_OK;
}

static void block_stats(const vkf_program *p, uint32_t block, vkf_block_stats *out) {
  const vkop_block *b = &p->blocks[block];
  *out = (vkf_block_stats){.name = p->plan->blocks[block].name, .n_records = p->n_records};
  for (uint32_t i = b->first_segment; i < b->first_segment + b->n_segments; i++) {
    vkf_gpu_block_info info;
    uint64_t ns = p->segments[i].ns;
    vkf_gpu_block_get_info(p->segments[i].gpu, &info);
    if (p->timing && !p->is_apart && vkf_gpu_block_time(p->segments[i].gpu, &ns)) ns = 0;
    out->n_dispatches += info.n_dispatches;
    out->n_barriers += info.n_barriers;
    out->n_indirect += info.n_indirect;
    out->n_submits = VKF_MAX(out->n_submits, info.n_submits);
    out->ns += ns;
  }
}

static vkf_clock node_time(const vkf_program *p, uint32_t index, uint64_t *ns) {
  const vkop_node *node = &p->nodes[index];
  const vkop_segment *segment = &p->segments[node->segment];
  *ns = p->is_apart ? segment->ns : 0;
  for (uint32_t d = 0; d < node->n_dispatches && !p->is_apart; d++) {
    const char *label;
    uint64_t shard;
    if (!vkf_gpu_block_dispatch_time(segment->gpu, node->first_dispatch + d, &label, &shard)) *ns += shard;
  }
  return p->is_apart ? VKF_CLOCK_SUBMIT : VKF_CLOCK_DEVICE;
}

static const char *node_variant(const vkf_program *p, uint32_t node, vkf_rounding *rounding) {
  if (rounding) vkf_kern_rounding(p->nodes[node].variant, &p->nodes[node].problem, rounding);
  return p->nodes[node].variant_name;
}

vkf_status vkf_vkop_backend_add(vkf_backend *backend, const vkf_variant *row, const uint32_t *words, size_t n_words) {
  vkop_backend *b = (vkop_backend *)backend;
  vkop_extra *e = vkf_env_alloc(backend->env, 1, sizeof *e);
  if (!e) return VKF_ERROR_MEMORY;
  *e = (vkop_extra){.next = b->extras, .row = *row, .words = words, .n_words = n_words};
  b->extras = e;
  return VKF_OK;
}

static void backend_destroy(vkf_backend **backend) {
  vkop_backend *b = (vkop_backend *)*backend;
  while (b && b->extras) {
    vkop_extra *next = b->extras->next;
    vkf_env_free(b->base.env, b->extras);
    b->extras = next;
  }
  if (*backend) vkf_env_free((*backend)->env, *backend);
  *backend = NULL;
}

static const vkf_backend_table vkop_table = {
    .destroy = backend_destroy,
    .weights_create = vkf_vkop_weights_create,
    .weights_destroy = vkf_vkop_weights_destroy,
    .weights_bytes = vkf_vkop_weights_bytes,
    .memory_create = vkf_vkop_memory_create,
    .memory_destroy = vkf_vkop_memory_destroy,
    .memory_bytes = vkf_vkop_memory_bytes,
    .state_create = vkf_vkop_state_create,
    .state_destroy = vkf_vkop_state_destroy,
    .state_bytes = vkf_vkop_state_bytes,
    .state_poison = vkf_vkop_state_poison,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .program_record = vkf_vkop_settle,
    .program_bytes = program_bytes,
    .write = vkf_vkop_write,
    .write_rows = vkf_vkop_write_rows,
    .read = vkf_vkop_read,
    .read_one = vkf_vkop_read_one,
    .write_one = vkf_vkop_write_one,
    .run = run,
    .block_stats = block_stats,
    .node_variant = node_variant,
    .node_time = node_time,
    .poison = vkf_vkop_poison,
};

vkf_status vkf_vkop_backend_create(vkf_gpu_device *device, bool batch_invariant, vkf_backend **out) {
  vkf_env *env = vkf_gpu_device_env(device);
  vkop_backend *b = vkf_env_alloc(env, 1, sizeof *b);
  *out = NULL;
  if (!b) return VKF_ERROR_MEMORY;
  b->base.table = &vkop_table;
  b->base.env = env;
  b->device = device;
  b->order = vkf_kern_order(vkf_gpu_device_caps(device), batch_invariant);
  b->submit_ns = SUBMIT_NS;
  b->pace = 1;
  *out = &b->base;
  return VKF_OK;
}

void vkf_vkop_backend_tune(vkf_backend *backend, const vkf_tuned *tuned) {
  ((vkop_backend *)backend)->tuned = tuned;
}
