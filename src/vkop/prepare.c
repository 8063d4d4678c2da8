/* Prepares a program: picks variants, describes dispatches, places slots. */
#include <string.h>

#include "kern/checks.h"
#include "vkop/internal.h"

typedef void (*problem_fn)(const vkf_plan *, const vkf_node *, const vkf_dims *, vkf_problem *);
typedef void (*describe_fn)(const vkf_node_view *, vkf_dispatch *);
static const struct {
  problem_fn problem;
  describe_fn describe;
} op_table[VKF_OP_COUNT] = {
#define X(NAME, name) {vkf_vkop_problem_##name, vkf_vkop_describe_##name},
    VKF_OP_LIST(X)
#undef X
};

/* Returns the slot of the weight that a node multiplies by, or looks up. */
static uint32_t weight_slot(const vkf_node *n) {
  return n->op == VKF_OP_MATMUL ? n->in[VKF_MATMUL_W] : n->op == VKF_OP_EMBED ? n->in[VKF_EMBED_TABLE] : VKF_NO_SLOT;
}

/* Returns the packing of that weight; for keys and values it has their format. */
static vkf_weight_packing node_packing(const vkf_program *p, const vkf_node *n) {
  uint32_t slot = weight_slot(n);
  if (vkf_op_is_attention(n->op)) slot = n->in[VKF_ATTENTION_K];
  if (n->op == VKF_OP_APPEND) slot = n->out[n->out[VKF_APPEND_K] == VKF_NO_SLOT ? VKF_APPEND_V : VKF_APPEND_K];
  return slot == VKF_NO_SLOT ? (vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_F32} : p->packings[slot];
}

void vkf_vkop_node_problem(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out) {
  op_table[node->op].problem(plan, node, dims, out);
  out->op = node->op;
  out->packing = (vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_F32};
}

/* Gives the problem of node `node` at these sizes. */
static void problem_at(const vkf_program *p, uint32_t node, const vkf_dims *dims, vkf_problem *out) {
  const vkf_node *n = &p->plan->nodes[node];
  vkf_vkop_node_problem(p->plan, n, dims, out);
  out->packing = node_packing(p, n);
  out->order = p->backend->base.reproducible ? VKF_ORDER_ASCENDING : p->backend->order;
  out->reproducible = p->backend->base.reproducible;
  const vkf_caps *caps = vkf_gpu_device_caps(p->backend->device);
  out->halves_by_hand = caps->failed_checks >> VKF_CHECK_OF_HALF & 1;
  out->matrices_ahead = caps->matrices_ahead;
  if (n->op != VKF_OP_MATMUL || p->nodes[node].n_shards == 1) return;
  out->matmul.is_shard = true;
  out->matmul.n = p->nodes[node].shards[0].rows;
}

void vkf_vkop_grid(const vkf_program *p, uint32_t node, uint32_t stage, const vkf_dims *dims, uint32_t grid[3]) {
  vkf_problem problem;
  problem_at(p, node, dims, &problem);
  problem.split = p->nodes[node].problem.split;
  vkf_kern_grid(p->nodes[node].variant, stage, &problem, grid);
}

void vkf_vkop_dispatch_of(const vkf_program *p, uint32_t node, uint32_t shard, uint32_t stage, vkf_dispatch *out) {
  const vkop_node *k = &p->nodes[node];
  vkf_node_view view = {
      .plan = p->plan, .node = &p->plan->nodes[node], .variant = k->variant, .problem = &k->problem, .stage = stage};
  const uint32_t weight = weight_slot(view.node);
  view.in_place = k->in_place;
  if (weight != VKF_NO_SLOT) view.rows = p->plan->slots[weight].extent[0].cap;
  if (k->shards) {
    view.first = k->shards[shard].first;
    view.rows = k->shards[shard].rows;
  }
  op_table[view.node->op].describe(&view, out);
}

/* Finds the shards of the weight that each node multiplies by or looks up. Other uses need it in one shard. */
static vkf_status find_shards(vkf_program *p) {
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    const vkf_node *n = &p->plan->nodes[i];
    vkop_node *k = &p->nodes[i];
    k->n_shards = 1;
    for (uint32_t o = 0; o < VKF_MAX_INPUTS; o++) {
      const vkf_slot *slot = n->in[o] == VKF_NO_SLOT ? NULL : &p->plan->slots[n->in[o]];
      if (!slot || slot->kind != VKF_SLOT_WEIGHT) continue;
      const uint32_t first = p->weights->first_shard[slot->index];
      const uint32_t n_shards = p->weights->first_shard[slot->index + 1] - first;
      if (n->in[o] == weight_slot(n)) {
        k->shards = &p->weights->shards[first];
        k->n_shards = n_shards;
      } else if (n_shards > 1) {
        return vkf_env_fail(p->backend->base.env, VKF_ERROR_UNSUPPORTED,
                            "weight %s is larger than one storage binding of %s, and node %s (%s) reads it as a whole",
                            slot->name, vkf_gpu_device_caps(p->backend->device)->device_name, n->name,
                            vkf_op_name(n->op));
      }
    }
    k->first_grid = p->n_grids;
    p->n_grids += k->n_shards * VKF_MAX_STAGES;
  }
  return VKF_OK;
}

/* Returns whether the node may overwrite its first input: only if neither another node nor the host reads that. */
static bool goes_in_place(const vkf_plan *plan, uint32_t index, bool keep_all) {
  const vkf_node *n = &plan->nodes[index];
  if (n->op != VKF_OP_LOGIT_EDIT || keep_all) return false;
  const vkf_slot *from = &plan->slots[n->in[0]], *to = &plan->slots[n->out[0]];
  if (from->kind != VKF_SLOT_TEMP || from->output || to->kind != VKF_SLOT_TEMP || to->output) return false;
  for (uint32_t i = 0; i < plan->n_nodes; i++)
    for (uint32_t o = 0; o < VKF_MAX_INPUTS; o++)
      if (i != index && plan->nodes[i].in[o] == n->in[0]) return false;
  return true;
}

/* Returns whether a forced variant fits. It may be of another order class, except in the reproducible mode. */
static bool takes_forced(const vkop_node *k, const vkf_variant *forced, const vkf_caps *caps) {
  char why[256];
  vkf_problem own = k->problem;
  if (!forced || forced->op != own.op) return false;
  if (!own.reproducible) own.order = forced->order;
  return !vkf_kern_fit(forced, &own, caps, why, sizeof why);
}

/* Returns the problem for one row, or for one query of one sequence. */
static vkf_problem of_one_row(vkf_problem p) {
  if (p.op == VKF_OP_MATMUL) {
    p.matmul.m = VKF_MIN(p.matmul.m, 1);
  } else if (vkf_op_is_attention(p.op)) {
    p.attention.queries = VKF_MIN(p.attention.queries, 1);
    p.attention.batch = VKF_MIN(p.attention.batch, 1);
  } else {
    p.rows.rows = VKF_MIN(p.rows.rows, 1);
  }
  return p;
}

static vkf_status pick_variant(vkf_program *p, uint32_t i, const vkf_variant *forced, uint32_t *n_forced) {
  char why[256] = "", name[128];
  const vkf_node *n = &p->plan->nodes[i];
  vkop_node *k = &p->nodes[i];
  const vkf_caps *caps = vkf_gpu_device_caps(p->backend->device);
  if (takes_forced(k, forced, caps)) {
    k->variant = forced;
    k->is_forced = true;
    ++*n_forced;
  } else {
    k->variant = vkf_kern_pick(&k->problem, caps, p->backend->tuned, why, sizeof why);
  }
  if (!k->variant) {
    /* One row may have a kernel even if so many rows take more workgroups than the device allows. */
    const vkf_problem one = of_one_row(k->problem);
    char none[256];
    const bool one_fits = vkf_kern_pick(&one, caps, p->backend->tuned, none, sizeof none) != NULL;
    return (one_fits ? vkf_env_fail_too_large : vkf_env_fail)(p->backend->base.env, VKF_ERROR_UNSUPPORTED,
                                                              "no kernel of %s fits node %s on %s: %s",
                                                              vkf_op_name(n->op), n->name, caps->device_name, why);
  }
  if (k->n_shards > 1 && n->op == VKF_OP_MATMUL && k->shards[0].rows % k->variant->tile.gemm.bn)
    return vkf_env_fail(p->backend->base.env, VKF_ERROR_UNSUPPORTED,
                        "node %s: its weight is split into shards of %u rows, which are no whole tiles of %u columns",
                        n->name, k->shards[0].rows, k->variant->tile.gemm.bn);
  k->variant_name = vkf_arena_strdup(&p->arena, vkf_kern_name(k->variant, name, sizeof name));
  if (!k->variant_name) return VKF_ERROR_MEMORY;
  vkf_env_log(p->backend->base.env, VKF_LOG_DEBUG, "%s: %s (%s)", n->name, k->variant_name, why);
  k->problem.split = vkf_kern_split(k->variant, &k->problem, caps);
  for (uint32_t stage = 0; stage < vkf_kern_stages(k->variant, &k->problem); stage++)
    vkf_vkop_dispatch_of(p, i, 0, stage, &k->dispatch[stage]);
  return VKF_OK;
}

vkf_status vkf_vkop_pick(vkf_program *p, uint32_t node) {
  return pick_variant(p, node, NULL, NULL);
}

vkf_status vkf_vkop_fall_back(vkf_program *p, uint32_t first, uint32_t end, bool *again) {
  uint8_t *flags = p->flags ? vkf_gpu_buffer_mapped(p->flags) : NULL;
  *again = false;
  if (!flags) return VKF_OK;
  vkf_gpu_buffer_touch(p->flags, 0, vkf_gpu_buffer_bytes(p->flags), VKF_GPU_READ_WRITE);
  for (uint32_t i = first; i < end && !*again; i++) {
    uint32_t raised;
    memcpy(&raised, flags + i * p->flag_stride, sizeof raised);
    if (!raised) continue;
    const char *before = p->nodes[i].variant_name;
    p->nodes[i].problem.wide = *again = true;
    VKF_CALL(vkf_vkop_pick(p, i));
    vkf_env_log(p->backend->base.env, VKF_LOG_WARNING,
                "%s: inputs over 65504, infinite or NaN, which f16 cannot hold: %s replaces %s", p->plan->nodes[i].name,
                p->nodes[i].variant_name, before);
  }
  /* Whatever later nodes found may come from the first one's result. */
  if (*again) memset(flags, 0, vkf_gpu_buffer_bytes(p->flags));
  return VKF_OK;
}

/* Returns the bytes of a slot on the device. */
static uint64_t stored_bytes(const vkf_program *p, uint32_t i) {
  const vkf_slot *slot = &p->plan->slots[i];
  if (slot->kind != VKF_SLOT_INPUT || p->packings[i].layout == VKF_LAYOUT_W_ROWS) return vkf_slot_stored_bytes(slot);
  return vkf_kern_packed_bytes(&p->packings[i], slot->extent[0].cap, slot->extent[1].cap);
}

/* Small results are written where the host can read them without a copy. */
static bool is_small_result(const vkf_slot *slot) {
  return slot->kind == VKF_SLOT_TEMP && slot->output && vkf_slot_stored_bytes(slot) <= (1u << 20);
}

static bool has_flag(const vkop_node *k) {
  for (uint32_t stage = 0; stage < vkf_kern_stages(k->variant, &k->problem); stage++)
    for (uint32_t o = 0; o < k->dispatch[stage].n_operands; o++)
      if (k->dispatch[stage].operands[o].slot == VKF_FLAG_SLOT) return true;
  return false;
}

/* Returns the scratch bytes of a node: enough for its variant, and for the one that would take over from it. */
static uint64_t scratch_bytes(const vkf_program *p, const vkop_node *k) {
  const vkf_caps *caps = vkf_gpu_device_caps(p->backend->device);
  uint64_t bytes = vkf_kern_scratch_bytes(k->variant, &k->problem);
  char why[256];
  if (has_flag(k)) {
    vkf_problem then = k->problem;
    then.wide = true;
    const vkf_variant *other = vkf_kern_pick(&then, caps, p->backend->tuned, why, sizeof why);
    if (other) then.split = vkf_kern_split(other, &then, caps);
    if (other) bytes = VKF_MAX(bytes, vkf_kern_scratch_bytes(other, &then));
  }
  return bytes;
}

/* Returns whether the slot is read through the binding of the step buffer. */
static bool is_in_step(const vkf_program *p, const vkf_slot *slot) {
  const uint32_t index = (uint32_t)(slot - p->plan->slots);
  for (uint32_t i = 0; slot->dtype == VKF_I32 && i < p->plan->n_nodes; i++) {
    const vkf_dispatch *d = &p->nodes[i].dispatch[0];
    for (uint32_t o = 0; o < d->n_operands; o++)
      if (d->operands[o].access == VKF_ACCESS_STEP && d->operands[o].slot == index) return true;
  }
  return false;
}

static vkop_pools *pools_of(vkf_program *p, const vkf_slot *slot) {
  return slot->kind == VKF_SLOT_INPUT || is_in_step(p, slot) ? &p->inputs
         : slot->kind == VKF_SLOT_CONSTANT                   ? &p->constants
         : slot->kind != VKF_SLOT_TEMP                       ? NULL
         : is_small_result(slot) && !p->keeps_all            ? &p->results
                                                             : &p->temps;
}

/* Sizes slots and scratch memory. Places all slots but the temporaries, whose sizes it gives in temp. */
static vkf_status place_fixed(vkf_program *p, uint64_t align, vkf_placement *temp, vkf_placement *scratch) {
  uint64_t dims;
  VKF_CALL(vkf_vkop_pools_add(&p->inputs, align, &dims)); /* they come first in the step buffer, then spans */
  for (uint32_t i = 0; i < p->plan->n_slots; i++) {
    if (!is_in_step(p, &p->plan->slots[i])) continue;
    p->places[i].bytes = VKF_ROUND_UP(vkf_slot_stored_bytes(&p->plan->slots[i]), align);
    VKF_CALL(vkf_vkop_pools_add(&p->inputs, p->places[i].bytes, &p->places[i].offset));
  }
  p->step.bytes = p->inputs.end;
  VKF_CALL(vkf_vkop_fits(p->backend, "the step buffer", p->step.bytes));
  for (uint32_t i = 0; i < p->plan->n_slots; i++) {
    const vkf_slot *slot = &p->plan->slots[i];
    vkop_place *place = &p->places[i];
    vkop_pools *pools = pools_of(p, slot);
    if (is_in_step(p, slot)) continue;
    if (slot->kind == VKF_SLOT_WEIGHT)
      *place = p->weights->shards[p->weights->first_shard[slot->index]].place;
    else if (slot->kind == VKF_SLOT_STATE)
      *place = p->state->places[slot->index];
    else
      place->bytes = VKF_ROUND_UP(stored_bytes(p, i) + VKF_GUARD_BYTES, align);
    VKF_CALL(vkf_vkop_fits(p->backend, slot->name, place->bytes));
    if (pools == &p->temps)
      temp[i] = (vkf_placement){.bytes = place->bytes, .alignment = align};
    else if (pools)
      VKF_CALL(vkf_vkop_pools_add(pools, place->bytes, &place->offset));
  }
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    const uint64_t bytes = VKF_ROUND_UP(scratch_bytes(p, &p->nodes[i]), align);
    if (p->nodes[i].in_place) temp[p->plan->nodes[i].out[0]].takes_over = 1 + p->plan->nodes[i].in[0];
    VKF_CALL(vkf_vkop_fits(p->backend, p->plan->nodes[i].name, bytes));
    scratch[i] = (vkf_placement){.bytes = bytes, .alignment = align};
  }
  return VKF_OK;
}

static vkf_status place_slots(vkf_program *p, const vkf_program_options *options) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  vkf_gpu_device *device = p->backend->device;
  const uint64_t align = VKF_MAX(VKF_PLACE_ALIGNMENT, vkf_gpu_device_caps(device)->storage_offset_alignment);
  const uint64_t most = vkf_vkop_pools_limit(device);
  vkop_pools *all[] = {VKOP_POOLS_OF(p)};
  vkf_memory *memory = options->memory;
  uint64_t bytes;
  vkf_placement *temp = vkf_env_alloc(env, p->plan->n_slots, sizeof *temp);
  vkf_placement *scratch = vkf_env_alloc(env, p->plan->n_nodes, sizeof *scratch);
  if (!temp || !scratch) VKF_TRY(VKF_ERROR_MEMORY);
  vkf_vkop_pools_init(&p->constants, NULL, device, "constants", VKF_GPU_MEMORY_DEVICE, most);
  vkf_vkop_pools_init(&p->inputs, memory ? &memory->inputs : NULL, device, VKF_STEP_POOLS, most);
  vkf_vkop_pools_init(&p->results, memory ? &memory->results : NULL, device, VKF_RESULT_POOLS, most);
  vkf_vkop_pools_init(&p->temps, memory ? &memory->temps : NULL, device, VKF_ACTIVATION_POOLS, most);
  VKF_TRY(place_fixed(p, align, temp, scratch));
  VKF_TRY(vkf_plan_place(env, p->plan, options->keep_all, most, temp, scratch, &bytes));
  for (uint32_t i = 0; i < p->plan->n_slots; i++) {
    if (pools_of(p, &p->plan->slots[i]) != &p->temps) continue;
    p->places[i].offset = temp[i].offset;
    VKF_TRY(vkf_vkop_pools_put(&p->temps, temp[i].offset, p->places[i].bytes));
  }
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    p->nodes[i].scratch = (vkop_place){.offset = scratch[i].offset, .bytes = scratch[i].bytes};
    if (scratch[i].bytes) VKF_TRY(vkf_vkop_pools_put(&p->temps, scratch[i].offset, scratch[i].bytes));
  }
  for (size_t k = 0; k < VKF_COUNT(all); k++) VKF_TRY(vkf_vkop_pools_make(all[k]));
  for (uint32_t i = 0; i < p->plan->n_slots; i++) {
    const vkop_pools *pools = pools_of(p, &p->plan->slots[i]);
    if (pools) vkf_vkop_pools_find(pools, &p->places[i]);
  }
  for (uint32_t i = 0; i < p->plan->n_nodes; i++)
    if (scratch[i].bytes) vkf_vkop_pools_find(&p->temps, &p->nodes[i].scratch);
  vkf_vkop_pools_find(&p->inputs, &p->step);
  VKF_TRY(
      vkf_gpu_buffer_create(device, "grids", VKF_GPU_MEMORY_UPLOAD, (uint64_t)VKF_MAX(p->n_grids, 1) * 12, &p->grids));
done:
  vkf_env_free(env, scratch);
  vkf_env_free(env, temp);
  return st;
}

static vkf_status make_flags(vkf_program *p) {
  bool wanted = false;
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) wanted = wanted || has_flag(&p->nodes[i]);
  if (!wanted) return VKF_OK;
  p->flag_stride = VKF_MAX(4, vkf_gpu_device_caps(p->backend->device)->storage_offset_alignment);
  VKF_CALL(vkf_gpu_buffer_create(p->backend->device, "flags", VKF_GPU_MEMORY_READBACK,
                                 p->plan->n_nodes * p->flag_stride, &p->flags));
  vkf_gpu_buffer_touch(p->flags, 0, vkf_gpu_buffer_bytes(p->flags), VKF_GPU_WRITE);
  memset(vkf_gpu_buffer_mapped(p->flags), 0, vkf_gpu_buffer_bytes(p->flags));
  return VKF_OK;
}

/* Gives a matrix that the host writes the packing that a weight would have. */
static void pack_inputs(vkf_program *p, const vkf_variant *forced) {
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    const vkf_node *n = &p->plan->nodes[i];
    const uint32_t w = n->op == VKF_OP_MATMUL ? n->in[VKF_MATMUL_W] : VKF_NO_SLOT;
    if (w == VKF_NO_SLOT || p->plan->slots[w].kind != VKF_SLOT_INPUT) continue;
    p->packings[w] = vkf_kern_weight_packing(vkf_gpu_device_caps(p->backend->device), p->backend->tuned,
                                             n->params.matmul.n, n->params.matmul.k, VKF_FORMAT_F32, forced);
  }
}

vkf_status vkf_vkop_prepare(vkf_program *p, const vkf_program_options *options) {
  vkf_env *env = p->backend->base.env;
  const vkf_variant *forced = options->variant ? vkf_vkop_find_variant(&p->backend->base, options->variant) : NULL;
  const vkf_dims capacity = vkf_dims_make(&p->plan->capacity);
  uint32_t n_forced = 0;
  if (options->variant && !forced)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "no kernel variant is called \"%s\" (vkformer kernels lists them)",
                        options->variant);
  for (uint32_t i = 0; i < p->plan->n_slots; i++) {
    const vkf_slot *slot = &p->plan->slots[i];
    p->packings[i] = slot->kind == VKF_SLOT_WEIGHT ? p->weights->packings[slot->index]
                                                   : (vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, slot->format};
  }
  pack_inputs(p, forced);
  VKF_CALL(find_shards(p));
  for (uint32_t i = 0; i < p->plan->n_nodes; i++) {
    p->nodes[i].in_place = goes_in_place(p->plan, i, options->keep_all);
    problem_at(p, i, &capacity, &p->nodes[i].problem);
    VKF_CALL(pick_variant(p, i, forced, &n_forced));
  }
  if (forced && !n_forced)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "kernel variant %s fits no node of the plan", options->variant);
  return VKF_OK;
}

vkf_status vkf_vkop_place(vkf_program *p, const vkf_program_options *options) {
  VKF_CALL(place_slots(p, options));
  return make_flags(p);
}
