/* A program: a plan whose blocks are recorded on a device, and its runs.
 *
 * Recording happens once; a run writes the actual sizes into the step buffer, the grids where they changed, and submits
 * the blocks: together, or in parts where a GPU's watchdog might end them. Nothing is allocated in a run. Barriers are
 * not made here: the recorder of the room gpu derives them from the byte ranges that each dispatch declares.
 */
#include <string.h>

#include "kern/spirv.h"
#include "vkop/internal.h"

/* Watchdogs of GPUs end a submit after 2 s and more; this leaves room for an estimate that is four times too low. */
#define SUBMIT_NS 0.5e9

static const struct vkf_kern_spirv *find_module(const char *name) {
  for (size_t i = 0; i < vkf_kern_spirv_count; i++)
    if (!strcmp(vkf_kern_spirv_table[i].name, name)) return &vkf_kern_spirv_table[i];
  return NULL;
}

/* Four elements a texel. */
static vkf_gpu_binding_kind texel_kind(vkf_format format) {
  const uint32_t bits = vkf_format_get(format)->bits;
  return bits == 32   ? VKF_GPU_BINDING_TEXEL_F32X4
         : bits == 16 ? VKF_GPU_BINDING_TEXEL_U32X2
                      : VKF_GPU_BINDING_TEXEL_U32;
}

/* The kernel that an added variant brings with it. */
static const struct vkf_kern_spirv *find_own(const vkop_backend *b, const vkf_variant *v, struct vkf_kern_spirv *own) {
  for (const vkop_extra *e = b->extras; e; e = e->next) {
    if (&e->row != v || !e->words) continue;
    *own = (struct vkf_kern_spirv){e->row.module, e->words, e->n_words};
    return own;
  }
  return NULL;
}

/* What a node's pipeline is made from; *out points into the node and `kinds`. */
static vkf_status want_pipeline(const vkf_program *p, const vkop_node *k, vkf_gpu_binding_kind *kinds,
                                vkf_gpu_pipeline_params *out) {
  vkf_status st = VKF_OK;
  const vkf_caps *caps = vkf_gpu_device_caps(p->backend->device);
  char name[64];
  struct vkf_kern_spirv own;
  const struct vkf_kern_spirv *module = find_own(p->backend, k->variant, &own);
  vkf_kern_module(k->variant, &k->problem, name, sizeof name);
  if (!module) module = find_module(name);
  if (!module) VKF_FAIL(p->backend->base.env, VKF_ERROR_UNSUPPORTED, "shader module %s is not in this build", name);
  kinds[0] = VKF_GPU_BINDING_STORAGE;
  for (uint32_t o = 0; o < k->dispatch.n_operands; o++) {
    const vkf_operand *operand = &k->dispatch.operands[o];
    kinds[1 + o] = operand->access == VKF_ACCESS_TEXEL ? texel_kind(operand->format) : VKF_GPU_BINDING_STORAGE;
  }
  *out = (vkf_gpu_pipeline_params){.name = module->name,
                                   .code = module->words,
                                   .code_bytes = module->n_words * 4,
                                   .constants = k->dispatch.constants,
                                   .n_constants = k->dispatch.n_constants,
                                   .n_bindings = 1 + k->dispatch.n_operands,
                                   .kinds = kinds,
                                   .push_bytes = VKF_MAX_OPERANDS * 8 + k->dispatch.params_bytes};
  if (k->variant->subgroup && caps->subgroup_size_control && caps->subgroup_min != caps->subgroup_max)
    out->subgroup_size = k->variant->subgroup;
done:
  return st;
}

/* All at once, so that the driver compiles them side by side; then every node finds its own. */
static vkf_status make_pipelines(vkf_program *p) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  const uint32_t n = p->plan->n_nodes;
  vkf_gpu_binding_kind(*kinds)[1 + VKF_MAX_OPERANDS] = vkf_env_alloc(env, n, sizeof *kinds);
  vkf_gpu_pipeline_params *params = vkf_env_alloc(env, n, sizeof *params);
  if (!kinds || !params) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < n; i++) VKF_TRY(want_pipeline(p, &p->nodes[i], kinds[i], &params[i]));
  VKF_TRY(vkf_gpu_pipelines_make(p->backend->device, params, n));
  for (uint32_t i = 0; i < n; i++) VKF_TRY(vkf_gpu_pipeline_get(p->backend->device, &params[i], &p->nodes[i].pipeline));
done:
  vkf_env_free(env, params);
  vkf_env_free(env, kinds);
  return st;
}

/* Where an operand begins, as the shader wants to know it (record.h). */
static void operand_at(const vkf_operand *operand, const vkop_place *place, uint32_t at[2]) {
  uint64_t first = operand->layout != VKF_LAYOUT_ROWS && !operand->write ? place->panels_offset : 0;
  if (operand->write) {
    at[0] = place->layouts & VKF_LAYOUT_ROWS ? 0 : VKF_NO_PANELS;
    at[1] = place->layouts & VKF_LAYOUT_PANELS ? (uint32_t)(place->panels_offset / 4) : VKF_NO_PANELS;
  } else if (operand->access == VKF_ACCESS_ADDRESS) {
    uint64_t address = vkf_gpu_buffer_address(place->buffer) + place->offset + first;
    at[0] = (uint32_t)address;
    at[1] = (uint32_t)(address >> 32);
  } else {
    at[0] = (uint32_t)(first / (operand->access == VKF_ACCESS_TEXEL ? 16 : 4));
    at[1] = 0;
  }
}

static vkf_status record_node(vkf_program *p, uint32_t index, vkf_gpu_block *block) {
  vkf_status st = VKF_OK;
  const vkop_node *k = &p->nodes[index];
  vkf_gpu_binding bindings[1 + VKF_MAX_OPERANDS];
  vkf_gpu_access accesses[1 + VKF_MAX_OPERANDS];
  uint32_t push[VKF_MAX_PUSH_BYTES / 4] = {0}, n_accesses = 0;
  const vkf_gpu_binding step = {p->step, 0, sizeof(vkf_dims)};
  bindings[0] = step;
  accesses[n_accesses++] = (vkf_gpu_access){p->step, 0, sizeof(vkf_dims), VKF_GPU_READ};
  for (uint32_t o = 0; o < k->dispatch.n_operands; o++) {
    const vkf_operand *operand = &k->dispatch.operands[o];
    bindings[1 + o] = step;
    if (operand->slot == VKF_NO_SLOT) continue;
    const vkop_place *place = &p->places[operand->slot];
    if (operand->access != VKF_ACCESS_ADDRESS)
      bindings[1 + o] = (vkf_gpu_binding){place->buffer, place->offset, place->bytes};
    operand_at(operand, place, &push[2 * o]);
    accesses[n_accesses++] =
        (vkf_gpu_access){place->buffer, place->offset, place->offset + place->bytes,
                         operand->write ? (operand->read ? VKF_GPU_READ_WRITE : VKF_GPU_WRITE) : VKF_GPU_READ};
  }
  memcpy(push + 2 * VKF_MAX_OPERANDS, k->dispatch.params, k->dispatch.params_bytes);
  vkf_gpu_dispatch dispatch = {.label = p->plan->nodes[index].name,
                               .pipeline = k->pipeline,
                               .bindings = bindings,
                               .n_bindings = 1 + k->dispatch.n_operands,
                               .push = push,
                               .push_bytes = VKF_MAX_OPERANDS * 8 + k->dispatch.params_bytes,
                               .grid_buffer = p->grids,
                               .grid_offset = (uint64_t)index * 12,
                               .accesses = accesses,
                               .n_accesses = n_accesses};
  VKF_TRY(vkf_gpu_block_dispatch(block, &dispatch));
done:
  return st;
}

/* What a node costs, in ns of a slow GPU: 4 GFLOP/s, 1 GB/s, 20 us a dispatch. How fast this device is, its pace, is
 * learned from its runs. */
static double effort_of(const vkf_program *p, uint32_t node, const vkf_dims *dims) {
  const vkf_cost cost = vkf_op_cost(p->plan, &p->plan->nodes[node], dims);
  return cost.flops / 4 + cost.bytes + 20e3;
}

static vkf_status piece_begin(vkf_program *p, const vkf_block *block) {
  static const vkf_gpu_timing timings[] = {VKF_GPU_TIMING_NONE, VKF_GPU_TIMING_BLOCK, VKF_GPU_TIMING_DISPATCH};
  const vkf_gpu_block_params params = {block->name, timings[p->timing], 4 * block->n_nodes};
  return vkf_gpu_block_begin(p->backend->device, &params, &p->pieces[p->n_pieces].gpu);
}

static vkf_status record_block(vkf_program *p, uint32_t index) {
  vkf_status st = VKF_OK;
  const vkf_block *b = &p->plan->blocks[index];
  vkf_gpu_block_info info;
  const vkf_dims capacity = vkf_dims_make(&p->plan->capacity);
  double effort = 0;
  p->blocks[index].first_piece = p->n_pieces;
  for (uint32_t n = b->first_node; n < b->first_node + b->n_nodes; n++) {
    vkop_node *node = &p->nodes[n];
    const double own = effort_of(p, n, &capacity);
    const bool is_long = (effort + own) * p->backend->pace > p->backend->submit_ns;
    if (p->is_apart || is_long || n == b->first_node) {
      if (n > b->first_node) VKF_TRY(vkf_gpu_block_end(p->pieces[p->n_pieces - 1].gpu));
      effort = 0;
      VKF_TRY(piece_begin(p, b));
      p->n_pieces++;
    }
    effort += own;
    vkf_gpu_block *gpu = p->pieces[p->n_pieces - 1].gpu;
    vkf_gpu_block_get_info(gpu, &info);
    node->piece = p->n_pieces - 1;
    node->first_dispatch = info.n_dispatches;
    VKF_TRY(record_node(p, n, gpu));
    vkf_gpu_block_get_info(gpu, &info);
    node->n_dispatches = info.n_dispatches - node->first_dispatch;
    if (n + 1 == b->first_node + b->n_nodes) VKF_TRY(vkf_gpu_block_end(gpu));
  }
  p->blocks[index].n_pieces = p->n_pieces - p->blocks[index].first_piece;
done:
  return st;
}

static void program_destroy(vkf_program **program) {
  vkf_program *p = *program;
  if (!p) return;
  vkf_env *env = p->backend->base.env;
  for (uint32_t i = 0; p->pieces && i < p->plan->n_nodes; i++) vkf_gpu_block_destroy(&p->pieces[i].gpu);
  vkf_gpu_buffer **buffers[] = {&p->step, &p->grids, &p->constants, &p->temps, &p->results};
  for (size_t i = 0; i < VKF_COUNT(buffers); i++) vkf_gpu_buffer_destroy(buffers[i]);
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
  if (backend->observer) p->timing = VKF_MAX(p->timing, backend->observer->timing);
  p->is_apart = p->timing == VKF_TIMING_NODES && !vkf_gpu_device_caps(p->backend->device)->timestamps;
  p->places = vkf_arena_alloc(&p->arena, plan->n_slots, sizeof *p->places);
  p->packings = vkf_arena_alloc(&p->arena, plan->n_slots, sizeof *p->packings);
  p->nodes = vkf_arena_alloc(&p->arena, plan->n_nodes, sizeof *p->nodes);
  p->blocks = vkf_arena_alloc(&p->arena, plan->n_blocks, sizeof *p->blocks);
  p->pieces = vkf_arena_alloc(&p->arena, plan->n_nodes, sizeof *p->pieces);
  if (!p->places || !p->packings || !p->nodes || !p->blocks || !p->pieces) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_vkop_prepare(p, options));
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind == VKF_SLOT_CONSTANT) VKF_TRY(vkf_vkop_write(p, i, &capacity, plan->slots[i].data));
  VKF_TRY(make_pipelines(p));
  for (uint32_t i = 0; i < plan->n_blocks; i++) VKF_TRY(record_block(p, i));
done:
  if (st) program_destroy(&p);
  *out = p;
  return st;
}

static uint64_t program_bytes(const vkf_program *p) {
  const vkf_gpu_buffer *buffers[] = {p->step, p->grids, p->constants, p->temps, p->results};
  uint64_t bytes = 0;
  for (size_t i = 0; i < VKF_COUNT(buffers); i++) bytes += buffers[i] ? vkf_gpu_buffer_bytes(buffers[i]) : 0;
  return bytes;
}

static void write_grids(vkf_program *p, const vkf_dims *dims) {
  uint32_t *grids = vkf_gpu_buffer_mapped(p->grids);
  vkf_gpu_buffer_touch(p->grids, 0, vkf_gpu_buffer_bytes(p->grids), VKF_GPU_WRITE);
  for (uint32_t i = 0; i < p->n_pieces; i++) p->pieces[i].effort = 0;
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    vkf_problem actual;
    vkf_vkop_problem(p, i, dims, &actual);
    vkf_kern_grid(p->nodes[i].variant, &actual, &grids[3 * i]);
    p->pieces[p->nodes[i].piece].effort += effort_of(p, i, dims);
  }
  p->grid_dims = *dims;
  p->grids_valid = true;
}

/* Pieces [first, end) in submits that should each end in time; then the last one is waited for. */
static vkf_status submit_pieces(vkf_program *p, uint32_t first, uint32_t end) {
  enum { MAX_PIECES = 256 };
  const double MEASURABLE = 1e7; /* effort: below it a run's time says nothing of the device's pace */
  vkf_status st = VKF_OK;
  vkop_backend *b = p->backend;
  vkf_gpu_block *gpu[MAX_PIECES];
  uint64_t serial = 0, begin = vkf_clock_ns();
  double all = 0;
  while (first < end) {
    uint32_t n = 0;
    double effort = 0;
    while (first < end && n < MAX_PIECES && (!n || (effort + p->pieces[first].effort) * b->pace <= b->submit_ns)) {
      effort += p->pieces[first].effort;
      gpu[n++] = p->pieces[first++].gpu;
    }
    VKF_TRY(vkf_gpu_submit(b->device, gpu, n, &serial));
    all += effort;
  }
  VKF_TRY(vkf_gpu_wait(b->device, serial));
  /* By steps: a first run compiles, too. */
  if (all > MEASURABLE) b->pace = VKF_MIN(VKF_MAX((double)(vkf_clock_ns() - begin) / all, b->pace / 4), b->pace * 4);
done:
  return st;
}

static vkf_status run(vkf_program *p, const vkf_dims *dims, uint32_t first, uint32_t n) {
  vkf_status st = VKF_OK;
  if (!n) return VKF_OK;
  if (!p->grids_valid || memcmp(dims, &p->grid_dims, sizeof *dims)) {
    vkf_gpu_buffer_touch(p->step, 0, sizeof *dims, VKF_GPU_WRITE);
    memcpy(vkf_gpu_buffer_mapped(p->step), dims, sizeof *dims);
    write_grids(p, dims);
  }
  const vkop_block *last = &p->blocks[first + n - 1];
  uint32_t begin = p->blocks[first].first_piece, end = last->first_piece + last->n_pieces;
  if (!p->is_apart) VKF_TRY(submit_pieces(p, begin, end));
  for (uint32_t i = begin; p->is_apart && i < end; i++) {
    uint64_t start = vkf_clock_ns();
    VKF_TRY(submit_pieces(p, i, i + 1));
    p->pieces[i].ns = vkf_clock_ns() - start;
  }
  const vkf_observer *observer = p->backend->base.observer;
  if (observer) VKF_TRY(observer->on_run(observer->user, p, p->plan, dims, first, n));
done:
  return st;
}

static void block_stats(const vkf_program *p, uint32_t block, vkf_block_stats *out) {
  const vkop_block *b = &p->blocks[block];
  *out = (vkf_block_stats){.name = p->plan->blocks[block].name, .n_records = 1};
  for (uint32_t i = b->first_piece; i < b->first_piece + b->n_pieces; i++) {
    vkf_gpu_block_info info;
    uint64_t ns = p->pieces[i].ns;
    vkf_gpu_block_get_info(p->pieces[i].gpu, &info);
    if (p->timing && !p->is_apart && vkf_gpu_block_time(p->pieces[i].gpu, &ns)) ns = 0;
    out->n_dispatches += info.n_dispatches;
    out->n_barriers += info.n_barriers;
    out->n_submits = VKF_MAX(out->n_submits, info.n_submits);
    out->ns += ns;
  }
}

static const char *node_time(const vkf_program *p, uint32_t index, uint64_t *ns) {
  const vkop_node *node = &p->nodes[index];
  const vkop_piece *piece = &p->pieces[node->piece];
  *ns = p->is_apart ? piece->ns : 0;
  for (uint32_t d = 0; d < node->n_dispatches && !p->is_apart; d++) {
    const char *label;
    uint64_t part;
    if (!vkf_gpu_block_dispatch_time(piece->gpu, node->first_dispatch + d, &label, &part)) *ns += part;
  }
  return p->is_apart ? "submit" : "device";
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

const vkf_variant *vkf_vkop_find_variant(const vkf_backend *backend, const char *name) {
  char own[128];
  const vkf_variant *found = vkf_kern_find(name);
  for (const vkop_extra *e = ((const vkop_backend *)backend)->extras; e && !found; e = e->next)
    if (!strcmp(vkf_kern_name(&e->row, own, sizeof own), name)) found = &e->row;
  return found;
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
    .name = "vulkan",
    .destroy = backend_destroy,
    .weights_create = vkf_vkop_weights_create,
    .weights_destroy = vkf_vkop_weights_destroy,
    .weights_bytes = vkf_vkop_weights_bytes,
    .state_create = vkf_vkop_state_create,
    .state_destroy = vkf_vkop_state_destroy,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .program_bytes = program_bytes,
    .write = vkf_vkop_write,
    .write_rows = vkf_vkop_write_rows,
    .read = vkf_vkop_read,
    .run = run,
    .block_stats = block_stats,
    .node_variant = node_variant,
    .node_time = node_time,
    .poison = vkf_vkop_poison,
};

vkf_status vkf_vkop_backend_create(vkf_gpu_device *device, vkf_backend **out) {
  vkf_status st = VKF_OK;
  vkf_env *env = vkf_gpu_device_env(device);
  vkop_backend *b = vkf_env_alloc(env, 1, sizeof *b);
  *out = NULL;
  if (!b) VKF_TRY(VKF_ERROR_MEMORY);
  b->base.table = &vkop_table;
  b->base.env = env;
  b->device = device;
  b->order = vkf_kern_order(vkf_gpu_device_caps(device), false);
  b->submit_ns = SUBMIT_NS;
  b->pace = 1;
  *out = &b->base;
done:
  return st;
}

void vkf_vkop_backend_limit_submits(vkf_backend *backend, double ns) {
  ((vkop_backend *)backend)->submit_ns = ns;
}

void vkf_vkop_backend_tune(vkf_backend *backend, const vkf_tuned *tuned) {
  ((vkop_backend *)backend)->tuned = tuned;
}
