/* backend: runs plans with the references, node by node.
 *
 * Weights are float32 rows, and every slot is an array at capacity. No memory is shared and nothing is optimised.
 * Invariant: results and errors are as op/backend.h says, so the engine cannot tell it from a device.
 */
#include <string.h>

#include "ref/ref.h"

struct vkf_weights {
  vkf_env *env;
  uint32_t n;
  float **rows;
  uint64_t bytes;
};

struct vkf_state {
  vkf_env *env;
  uint32_t n; /* the highest index + 1 */
  void **arrays;
  uint64_t *elements; /* of each array */
};

struct vkf_program {
  vkf_env *env;
  const vkf_plan *plan;
  void **bases; /* of every slot; constants that are not let in, weights and states belong to others */
  uint64_t bytes;
  vkf_backend *backend;
  uint64_t *node_ns; /* of the last run */
  vkf_block_stats *stats;
};

static bool is_owned(const vkf_slot *slot) {
  return slot->kind == VKF_SLOT_TEMP || slot->kind == VKF_SLOT_INPUT;
}

/* Returns whether the slot is a constant of which the program has a copy that was let in (vkf_format_let_in()). */
static bool is_let_in(const vkf_backend *backend, const vkf_slot *slot) {
  return backend->reproducible && slot->kind == VKF_SLOT_CONSTANT && slot->dtype == VKF_F32;
}

static void backend_destroy(vkf_backend **backend) {
  if (!*backend) return;
  vkf_env_free((*backend)->env, *backend);
  *backend = NULL;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static void weights_destroy(vkf_weights **weights) {
  vkf_weights *w = *weights;
  if (!w) return;
  for (uint32_t i = 0; w->rows && i < w->n; i++) vkf_env_free(w->env, w->rows[i]);
  vkf_env_free(w->env, w->rows);
  vkf_env_free(w->env, w);
  *weights = NULL;
}

static vkf_status weights_create(vkf_backend *backend, const vkf_weight_source *source, const char *variant,
                                 vkf_weights **out) {
  (void)variant; /* program_create checks it: a weight has one layout */
  vkf_env *env = backend->env;
  vkf_status st = VKF_ERROR_MEMORY;
  vkf_weights *w = vkf_env_alloc(env, 1, sizeof(*w));
  if (!w) goto done;
  *w = (vkf_weights){.env = env, .n = source->n_weights};
  w->rows = vkf_env_alloc(env, w->n, sizeof(*w->rows));
  if (!w->rows) goto done;
  for (uint32_t i = 0; i < w->n; i++) {
    const vkf_weight_info *info = &source->infos[i];
    size_t n = info->shape[0];
    if (info->rank == 2 && !vkf_size_mul(n, info->shape[1], &n)) n = SIZE_MAX;
    st = VKF_ERROR_MEMORY;
    w->rows[i] = vkf_env_alloc(env, n, sizeof(float));
    if (!w->rows[i]) goto done;
    w->bytes += n * sizeof(float);
    VKF_TRY(vkf_weight_load(env, source, i, w->rows[i]));
    if (source->loaded) VKF_TRY(source->loaded(source->watcher, i, source->infos[i].shape[0]));
    if (backend->reproducible) vkf_format_let_in(w->rows[i], n);
  }
  st = VKF_OK;
done:
  if (st != VKF_OK) weights_destroy(&w);
  *out = w;
  return st;
}

static uint64_t weights_bytes(const vkf_weights *weights) {
  return weights->bytes;
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

static void state_destroy(vkf_state **state) {
  vkf_state *s = *state;
  if (!s) return;
  for (uint32_t i = 0; s->arrays && i < s->n; i++) vkf_env_free(s->env, s->arrays[i]);
  vkf_env_free(s->env, s->arrays);
  vkf_env_free(s->env, s->elements);
  vkf_env_free(s->env, s);
  *state = NULL;
}

/* Every program and state has memory of its own. */
static vkf_status memory_create(vkf_backend *backend, vkf_memory **out) {
  (void)backend;
  *out = NULL;
  return VKF_OK;
}

static vkf_status state_create(vkf_backend *backend, const vkf_plan *plan, vkf_memory *memory, vkf_state **out) {
  (void)memory;
  vkf_env *env = backend->env;
  vkf_status st = VKF_ERROR_MEMORY;
  vkf_state *s = vkf_env_alloc(env, 1, sizeof(*s));
  if (!s) goto done;
  s->env = env;
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    if (plan->slots[i].kind == VKF_SLOT_STATE) s->n = VKF_MAX(s->n, plan->slots[i].index + 1);
  }
  s->arrays = vkf_env_alloc(env, s->n, sizeof(*s->arrays));
  s->elements = vkf_env_alloc(env, s->n, sizeof(*s->elements));
  if (!s->arrays || !s->elements) goto done;
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    const vkf_slot *slot = &plan->slots[i];
    if (slot->kind != VKF_SLOT_STATE || s->arrays[slot->index]) continue;
    s->arrays[slot->index] = vkf_env_alloc(env, vkf_slot_elements(slot), 4);
    if (!s->arrays[slot->index]) goto done;
    s->elements[slot->index] = vkf_slot_elements(slot);
  }
  st = VKF_OK;
done:
  if (st != VKF_OK) state_destroy(&s);
  *out = s;
  return st;
}

static uint64_t state_bytes(const vkf_state *s) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < s->n; i++) bytes += s->elements[i] * 4;
  return bytes;
}

static vkf_status state_poison(vkf_state *s) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->arrays[i]) memset(s->arrays[i], 0xff, s->elements[i] * 4);
  return VKF_OK;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void program_destroy(vkf_program **program) {
  vkf_program *p = *program;
  if (!p) return;
  for (uint32_t i = 0; p->bases && i < p->plan->n_slots; i++) {
    const vkf_slot *slot = &p->plan->slots[i];
    if (is_owned(slot) || is_let_in(p->backend, slot)) vkf_env_free(p->env, p->bases[i]);
  }
  vkf_env_free(p->env, p->bases);
  vkf_env_free(p->env, p->stats);
  vkf_env_free(p->env, p->node_ns);
  vkf_env_free(p->env, p);
  *program = NULL;
}

/* Sets where the data of a slot are; allocates those that belong to the program. */
static vkf_status bind_slot(vkf_program *p, uint32_t index, vkf_weights *weights, vkf_state *state) {
  const vkf_slot *slot = &p->plan->slots[index];
  vkf_env *env = p->env;
  switch (slot->kind) {
    case VKF_SLOT_CONSTANT:
      p->bases[index] = (void *)slot->data;
      if (!is_let_in(p->backend, slot)) break;
      p->bases[index] = vkf_env_alloc(env, vkf_slot_elements(slot), 4);
      if (!p->bases[index]) return VKF_ERROR_MEMORY;
      memcpy(p->bases[index], slot->data, vkf_slot_elements(slot) * 4);
      vkf_format_let_in(p->bases[index], vkf_slot_elements(slot));
      break;
    case VKF_SLOT_WEIGHT:
      if (!weights || slot->index >= weights->n)
        return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: expected a weight below %u, found %u", slot->name,
                            weights ? weights->n : 0, slot->index);
      p->bases[index] = weights->rows[slot->index];
      break;
    case VKF_SLOT_STATE:
      if (!state || slot->index >= state->n || !state->arrays[slot->index])
        return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: the state has no cache %u", slot->name, slot->index);
      p->bases[index] = state->arrays[slot->index];
      break;
    default:
      p->bases[index] = vkf_env_alloc(env, vkf_slot_elements(slot), 4);
      if (!p->bases[index]) return VKF_ERROR_MEMORY;
      p->bytes += vkf_slot_elements(slot) * 4;
  }
  return VKF_OK;
}

static vkf_status program_create(vkf_backend *backend, const vkf_plan *plan, vkf_weights *weights, vkf_state *state,
                                 const vkf_program_options *options, vkf_program **out) {
  vkf_env *env = backend->env;
  vkf_status st = VKF_ERROR_MEMORY;
  vkf_program *p = vkf_env_alloc(env, 1, sizeof(*p));
  if (!p) goto done;
  *p = (vkf_program){.env = env, .plan = plan, .backend = backend};
  if (options && options->variant && strcmp(options->variant, "ref") != 0)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "the scalar path has the one variant \"ref\", found \"%s\"", options->variant);
  p->bases = vkf_env_alloc(env, plan->n_slots, sizeof(*p->bases));
  p->stats = vkf_env_alloc(env, plan->n_blocks, sizeof(*p->stats));
  p->node_ns = vkf_env_alloc(env, plan->n_nodes, sizeof(*p->node_ns));
  if (!p->bases || !p->stats || !p->node_ns) goto done;
  for (uint32_t i = 0; i < plan->n_slots; i++) VKF_TRY(bind_slot(p, i, weights, state));
  for (uint32_t b = 0; b < plan->n_blocks; b++)
    p->stats[b] = (vkf_block_stats){.name = plan->blocks[b].name, .n_dispatches = plan->blocks[b].n_nodes};
  st = VKF_OK;
done:
  if (st != VKF_OK) program_destroy(&p);
  *out = p;
  return st;
}

static vkf_status program_record(vkf_program *program) {
  (void)program;
  return VKF_OK;
}

static uint64_t program_bytes(const vkf_program *program) {
  return program->bytes;
}

/* Copies what the sizes cover of a matrix with capacity strides; `data` may end there. */
static void write_covered(const vkf_slot *slot, const vkf_dims *dims, const char *data, char *to) {
  const size_t stride = 4 * (size_t)slot->extent[1].cap, bytes = 4 * (size_t)vkf_slot_extent(slot, 1, dims);
  for (uint32_t r = 0; r < vkf_slot_extent(slot, 0, dims); r++) memcpy(to + r * stride, data + r * stride, bytes);
}

static vkf_status program_write(vkf_program *p, uint32_t slot, const vkf_dims *dims, const void *data) {
  const vkf_slot *s = &p->plan->slots[slot];
  if (s->kind == VKF_SLOT_CONSTANT || s->kind == VKF_SLOT_WEIGHT)
    return vkf_env_fail(p->env, VKF_ERROR_ARGUMENT, "slot %s cannot be written", s->name);
  if (vkf_slot_is_packed(s))
    VKF_CALL(vkf_slot_scatter(p->env, s, dims, data, p->bases[slot]));
  else if (s->rank == 2)
    write_covered(s, dims, data, p->bases[slot]);
  else
    memcpy(p->bases[slot], data, vkf_slot_elements(s) * 4);
  if (p->backend->reproducible && s->dtype == VKF_F32) vkf_format_let_in(p->bases[slot], vkf_slot_elements(s));
  return VKF_OK;
}

static vkf_status program_write_rows(vkf_program *p, uint32_t slot, uint32_t n, const void *data) {
  memcpy(p->bases[slot], data, (size_t)n * p->plan->slots[slot].extent[1].cap * 4);
  return VKF_OK;
}

static vkf_status program_read(vkf_program *p, uint32_t slot, const vkf_dims *dims, void *data) {
  const vkf_slot *s = &p->plan->slots[slot];
  VKF_CALL(vkf_slot_compact(p->env, s, dims, p->bases[slot], data));
  if (p->backend->reproducible && s->dtype == VKF_F32) vkf_format_let_out(data, vkf_slot_elements_at(s, dims));
  return VKF_OK;
}

/* Returns where element `at` of a cache's first extent begins. one: the slot of one such element. */
static float *base_of(const vkf_program *p, uint32_t slot, uint32_t at, const vkf_slot *one) {
  return (float *)p->bases[slot] + at * vkf_slot_elements(one);
}

static vkf_status program_read_one(vkf_program *p, uint32_t slot, uint32_t at, const vkf_dims *dims, float *data) {
  const vkf_slot one = vkf_slot_one(&p->plan->slots[slot]);
  const vkf_status st = vkf_slot_compact(p->env, &one, dims, base_of(p, slot, at, &one), data);
  if (!st && p->backend->reproducible) vkf_format_let_out(data, vkf_slot_elements_at(&one, dims));
  return st;
}

static vkf_status program_write_one(vkf_program *p, uint32_t slot, uint32_t at, const vkf_dims *dims,
                                    const float *data) {
  const vkf_slot one = vkf_slot_one(&p->plan->slots[slot]);
  const vkf_status st = vkf_slot_scatter(p->env, &one, dims, data, base_of(p, slot, at, &one));
  if (!st && p->backend->reproducible) vkf_format_let_in(base_of(p, slot, at, &one), vkf_slot_elements(&one));
  return st;
}

static vkf_status program_run(vkf_program *p, const vkf_dims *dims, uint32_t first, uint32_t n) {
  for (uint32_t b = first; b < first + n; b++) {
    const vkf_block *block = &p->plan->blocks[b];
    uint64_t begin = vkf_clock_ns(), last = begin;
    for (uint32_t i = block->first_node; i < block->first_node + block->n_nodes; i++) {
      vkf_call call;
      VKF_CALL(vkf_backend_ask(p->backend));
      VKF_CALL(vkf_call_from_plan(p->env, p->plan, i, dims, p->bases, &call));
      call.reproducible = p->backend->reproducible;
      VKF_CALL(vkf_ref_run(p->env, &call));
      uint64_t now = vkf_clock_ns();
      p->node_ns[i] = now - last;
      last = now;
    }
    p->stats[b].n_submits++;
    p->stats[b].ns = last - begin;
  }
  if (p->backend->observer)
    VKF_CALL(p->backend->observer->on_run(p->backend->observer->user, p, p->plan, dims, first, n));
  return VKF_OK;
}

static vkf_clock program_node_time(const vkf_program *p, uint32_t node, uint64_t *ns) {
  *ns = p->node_ns[node];
  return VKF_CLOCK_SUBMIT;
}

static void program_block_stats(const vkf_program *p, uint32_t block, vkf_block_stats *out) {
  *out = p->stats[block];
}

/* Sums in double that are rounded once are far within the bounds of this rounding. */
static const char *program_node_variant(const vkf_program *p, uint32_t node, vkf_rounding *rounding) {
  (void)p;
  (void)node;
  if (rounding)
    *rounding = (vkf_rounding){.u = 0x1p-24,
                               .n_partial = 1,
                               .key_block = 1024,
                               .exp_ulp_base = 1,
                               .log_abs = 0x1p-24,
                               .log_ulp = 1,
                               .div_ulp = 0.5,
                               .rsqrt_ulp = 1,
                               .tiny = 0x1p-126};
  return "ref";
}

static vkf_status program_poison(vkf_program *p) {
  for (uint32_t i = 0; i < p->plan->n_slots; i++) {
    const vkf_slot *slot = &p->plan->slots[i];
    if (slot->kind == VKF_SLOT_TEMP) memset(p->bases[i], 0xff, vkf_slot_elements(slot) * 4);
  }
  return VKF_OK;
}

static const vkf_backend_table table = {
    .destroy = backend_destroy,
    .weights_create = weights_create,
    .weights_destroy = weights_destroy,
    .weights_bytes = weights_bytes,
    .memory_create = memory_create,
    .state_create = state_create,
    .state_destroy = state_destroy,
    .state_bytes = state_bytes,
    .state_poison = state_poison,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .program_record = program_record,
    .program_bytes = program_bytes,
    .write = program_write,
    .write_rows = program_write_rows,
    .read = program_read,
    .read_one = program_read_one,
    .write_one = program_write_one,
    .run = program_run,
    .block_stats = program_block_stats,
    .node_variant = program_node_variant,
    .node_time = program_node_time,
    .poison = program_poison,
};

vkf_status vkf_ref_backend_create(vkf_env *env, vkf_backend **out) {
  vkf_backend *backend = vkf_env_alloc(env, 1, sizeof(*backend));
  *out = backend;
  if (!backend) return VKF_ERROR_MEMORY;
  *backend = (vkf_backend){.table = &table, .env = env};
  return VKF_OK;
}
