/* cases: a row of the registry made into a plan of one node with its data.
 *
 * Owns the generators. Slots come from the op's own shape rule, so a case says only its parameters and sizes.
 * Invariant: the data depend on the row alone, not on who asks, when or in which order.
 */
#include "op/cases.h"

#include <math.h>
#include <string.h>

#include "op/judge.h"
#include "op/shape.h"

const vkf_case *vkf_op_cases(vkf_op op, size_t *n) {
  static const vkf_case *(*const registry[VKF_OP_COUNT])(size_t *) = {
#define X(NAME, name) vkf_op_cases_##name,
      VKF_OP_LIST(X)
#undef X
  };
  return registry[op](n);
}

/* ---- generators -------------------------------------------------------------------------------------------------- */

static uint32_t below(const vkf_case *c, uint64_t stream, uint64_t i, uint32_t n) {
  return (uint32_t)(vkf_rng_u64(c->seed, stream, i) % n);
}

static float special(uint64_t pick) {
  static const float values[] = {NAN, INFINITY, -INFINITY, -0.0f};
  return values[pick % VKF_COUNT(values)];
}

static float number(const vkf_case *c, uint64_t stream, uint64_t i, bool activation) {
  vkf_case_data kind = c->data;
  if (kind == VKF_DATA_HALVES) return (float)((int32_t)below(c, stream, i, 17) - 8) / 2;
  if (kind == VKF_DATA_ONE_SIGN) return (float)(0.5 + vkf_rng_unit(c->seed, stream, i) / 2);
  if (kind == VKF_DATA_TIES) return (float)below(c, stream, i, 3);
  if (kind == VKF_DATA_CONSTANT && activation) return 2.5f;
  float normal = (float)vkf_rng_normal(c->seed, stream, i);
  if (kind == VKF_DATA_OFFSET && activation) return 10000 + normal;
  if (kind == VKF_DATA_HUGE && activation) return 40000 * normal;
  if (kind == VKF_DATA_LARGE && activation) return 100 * normal;
  if (kind == VKF_DATA_SPECIAL && activation && below(c, stream + 64, i, 16) == 0) {
    return special(vkf_rng_u64(c->seed, stream + 128, i));
  }
  return normal;
}

/* An integer input that is an index into n things. */
static uint32_t index_range(const vkf_case *c, const vkf_dims *dims, uint32_t input) {
  switch (c->op) {
    case VKF_OP_EMBED:
      return input == VKF_EMBED_IDS         ? c->params.embed.n_ids
             : input == VKF_EMBED_POSITIONS ? c->params.embed.n_positions
                                            : c->params.embed.n_types;
    case VKF_OP_GATHER:
      return dims->v[c->params.gather.x_rows];
    case VKF_OP_ROPE:
      return c->params.rope.n_positions;
    case VKF_OP_RELATIVE_BIAS:
      return c->params.relative_bias.n_buckets;
    default: /* ancestry */
      return dims->v[c->params.attention.seqs];
  }
}

static bool is_attention(vkf_op op) {
  return op == VKF_OP_ATTENTION || op == VKF_OP_ATTENTION_WEIGHTS;
}

/* Element `at` of an int32 input; row: its index along the first extent. */
static int32_t integer(const vkf_case *c, const vkf_dims *dims, uint32_t input, uint32_t row, uint64_t at) {
  bool mask = (is_attention(c->op) && input == VKF_ATTENTION_MASK) || (c->op == VKF_OP_POOL && input == VKF_POOL_MASK);
  if (mask) return row % 4 != 3 && below(c, input, at, 4) != 0;
  return (int32_t)below(c, input, at, VKF_MAX(index_range(c, dims, input), 1u));
}

/* An edit: mostly on its own id, sometimes on one that another edit has touched; a fill is rare. */
static void make_edit(const vkf_case *c, uint32_t e, int32_t *edit) {
  uint32_t pick = below(c, 40, e, 16);
  vkf_edit_kind kind = pick == 0   ? VKF_EDIT_FILL
                       : pick < 6  ? VKF_EDIT_SET
                       : pick < 11 ? VKF_EDIT_ADD
                                   : VKF_EDIT_PENALTY;
  float value = kind == VKF_EDIT_PENALTY ? 1.3f : (float)vkf_rng_normal(c->seed, 41, e);
  if (kind == VKF_EDIT_SET && pick % 2 == 0) value = -INFINITY;
  edit[0] = (int32_t)kind;
  edit[1] = (int32_t)below(c, 42, e, pick % 3 == 0 ? VKF_MIN(c->params.edit.width, 4u) : c->params.edit.width);
  memcpy(&edit[2], &value, sizeof(value));
  edit[3] = 0;
}

static void fill_edit_input(const vkf_case *c, const vkf_dims *dims, uint32_t input, uint32_t capacity, int32_t *data) {
  uint32_t rows = dims->v[c->params.edit.rows], n = c->params.edit.max_edits;
  if (input == VKF_EDIT_EDITS) {
    for (uint32_t e = 0; e < n; e++) make_edit(c, e, data + 4 * (size_t)e);
    return;
  }
  for (uint32_t r = 0; r < capacity; r++) data[r] = (int32_t)(rows > 0 ? VKF_MIN(r, rows) * (uint64_t)n / rows : 0);
}

static void fill_input(const vkf_case *c, const vkf_dims *dims, uint32_t input, const vkf_slot *slot, void *data) {
  uint64_t n = vkf_slot_elements(slot);
  if (c->op == VKF_OP_EDIT && slot->dtype == VKF_I32) {
    fill_edit_input(c, dims, input, slot->extent[0].cap, data);
    return;
  }
  const vkf_view view = vkf_slot_view(slot, dims, data);
  bool bias = is_attention(c->op) && input == VKF_ATTENTION_BIAS;
  bool activation = !bias && !(c->op == VKF_OP_ROPE && input == VKF_ROPE_TABLE);
  for (uint64_t i = 0; slot->dtype == VKF_F32 && i < n; i++) ((float *)data)[i] = NAN;
  uint32_t index[VKF_MAX_SLOT_RANK] = {0};
  if (vkf_view_elements(&view) == 0) return;
  uint64_t at = 0;
  do {
    size_t to = vkf_view_offset(&view, index);
    if (slot->dtype == VKF_I32) {
      ((int32_t *)data)[to] = integer(c, dims, input, index[0], at);
    } else if (bias && below(c, 50, at, 16) == 0) {
      ((float *)data)[to] = -INFINITY;
    } else {
      ((float *)data)[to] = number(c, input, at, activation);
    }
    at++;
  } while (vkf_view_next(&view, index));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

typedef struct weight_user {
  const vkf_case *c;
  const vkf_weight_info *infos;
} weight_user;

static vkf_status load_weight(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const weight_user *w = user;
  const vkf_weight_info *info = &w->infos[index];
  const uint64_t width = info->rank == 2 ? info->shape[1] : 1;
  for (uint64_t i = 0; i < n * width; i++) dst[i] = number(w->c, 20 + index, first * width + i, false);
  return VKF_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

typedef struct maker {
  const vkf_case *c;
  vkf_case_run *run;
  vkf_slot slots[VKF_MAX_INPUTS + VKF_MAX_OUTPUTS];
  vkf_weight_info infos[VKF_MAX_INPUTS];
  vkf_node node;
} maker;

static uint32_t add_slot(maker *m, const vkf_operand_shape *shape, vkf_slot_kind kind) {
  vkf_slot *slot = &m->slots[m->run->plan.n_slots];
  *slot = (vkf_slot){.name = shape->name, .kind = kind, .dtype = shape->dtype, .rank = shape->rank};
  memcpy(slot->extent, shape->extent, sizeof(slot->extent));
  return m->run->plan.n_slots++;
}

static vkf_status add_input(maker *m, uint32_t i, const vkf_operand_shape *shape) {
  vkf_case_run *run = m->run;
  m->node.in[i] = VKF_NO_SLOT;
  if (!shape->name || (shape->optional && !(m->c->inputs >> i & 1))) return VKF_OK;
  uint32_t s = m->node.in[i] = add_slot(m, shape, shape->weight_use ? VKF_SLOT_WEIGHT : VKF_SLOT_CONSTANT);
  vkf_slot *slot = &m->slots[s];
  if (shape->weight_use) {
    slot->index = run->weights.n_weights;
    if (shape->stored) slot->format = m->c->format;
    m->infos[run->weights.n_weights++] = (vkf_weight_info){.name = shape->name,
                                                           .rank = shape->rank,
                                                           .shape = {shape->extent[0].cap, shape->extent[1].cap},
                                                           .use = shape->weight_use & ~(uint32_t)VKF_WEIGHT_OPERAND,
                                                           .format = slot->format};
    return VKF_OK;
  }
  float *data = vkf_arena_alloc(&run->arena, vkf_slot_elements(slot), sizeof *data); /* or int32_t */
  if (!data) return VKF_ERROR_MEMORY;
  fill_input(m->c, &run->dims, i, slot, data);
  if (shape->stored) {
    slot->format = m->c->format;
    for (uint64_t e = 0; e < vkf_slot_elements(slot); e++) data[e] = vkf_format_cached(slot->format, data[e]);
  }
  slot->data = data;
  return VKF_OK;
}

static vkf_status add_output(maker *m, uint32_t o, const vkf_operand_shape *shape) {
  m->node.out[o] = VKF_NO_SLOT;
  if (!shape->name) return VKF_OK;
  uint32_t s = m->node.out[o] = add_slot(m, shape, VKF_SLOT_TEMP);
  m->slots[s].output = shape->name;
  if (shape->stored) m->slots[s].format = m->c->format;
  m->slots[s].name = vkf_arena_printf(&m->run->arena, "result.%s", shape->name);
  return m->slots[s].name ? VKF_OK : VKF_ERROR_MEMORY;
}

static void *keep(vkf_arena *arena, const void *what, size_t size) {
  void *copy = vkf_arena_alloc(arena, 1, size);
  if (copy) memcpy(copy, what, size);
  return copy;
}

/* Moves what the maker holds to the arena of the run, where it keeps its place. */
static vkf_status keep_all(maker *m) {
  vkf_case_run *run = m->run;
  vkf_block block = {.name = vkf_op_name(m->c->op), .n_nodes = 1};
  weight_user user = {.c = m->c};
  user.infos = run->weights.infos = keep(&run->arena, m->infos, sizeof(m->infos));
  run->weights.user = keep(&run->arena, &user, sizeof(user));
  run->weights.load = load_weight;
  run->plan.slots = keep(&run->arena, m->slots, sizeof(m->slots));
  run->plan.nodes = keep(&run->arena, &m->node, sizeof(m->node));
  run->plan.blocks = keep(&run->arena, &block, sizeof(block));
  run->plan.n_nodes = run->plan.n_blocks = 1;
  bool kept = user.infos && run->weights.user && run->plan.slots && run->plan.nodes && run->plan.blocks;
  return kept ? VKF_OK : VKF_ERROR_MEMORY;
}

vkf_status vkf_case_make(vkf_env *env, const vkf_case *c, vkf_case_run *out) {
  static const vkf_sizes none = {0};
  vkf_status st = VKF_OK;
  vkf_op_shapes shapes;
  maker m = {.c = c, .run = out, .node = {.op = c->op, .name = c->name, .params = c->params}};
  *out = (vkf_case_run){.dims = vkf_dims_make(&c->sizes)};
  vkf_arena_init(&out->arena, env);
  out->plan.capacity = memcmp(&c->capacity, &none, sizeof(none)) == 0 ? c->sizes : c->capacity;
  VKF_TRY(vkf_op_shapes_of(env, &out->plan, &m.node, &shapes));
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) VKF_TRY(add_input(&m, i, &shapes.in[i]));
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) VKF_TRY(add_output(&m, o, &shapes.out[o]));
  VKF_TRY(keep_all(&m));
  VKF_TRY(vkf_plan_check(env, &out->plan));
done:
  if (st != VKF_OK) vkf_case_finish(out);
  return st;
}

void vkf_case_finish(vkf_case_run *run) {
  vkf_arena_finish(&run->arena);
  *run = (vkf_case_run){0};
}
