/* cases: makes a row of the registry into a plan of one node, and generates its data.
 *
 * The op's shape rule gives the slots, so a case says only its parameters and sizes. Invariant: the data depend on the
 * row alone, not on who asks, when or in which order.
 */
#include "op/cases.h"

#include <math.h>
#include <string.h>

#include "op/build.h"
#include "op/case_spans.h"
#include "op/compare.h"
#include "op/shape.h"

const vkf_case *vkf_op_cases(vkf_op op, size_t *n) {
  static const vkf_cases *const registry[VKF_OP_COUNT] = {
#define X(NAME, name) &vkf_op_cases_##name,
      VKF_OP_LIST(X)
#undef X
  };
  *n = registry[op]->n;
  return registry[op]->at;
}

/* ---- generators -------------------------------------------------------------------------------------------------- */

static float special(uint64_t pick) {
  static const float values[] = {NAN, INFINITY, -INFINITY, -0.0f};
  return values[pick % VKF_COUNT(values)];
}

/* Returns the columns of a row, or the keys of attention. */
static uint64_t n_summands(const vkf_case *c) {
  if (vkf_op_is_attention(c->op)) return vkf_dims_make(&c->sizes).v[c->params.attention.keys];
  return c->op == VKF_OP_NORM    ? c->params.norm.width
         : c->op == VKF_OP_TOP_K ? c->params.top_k.width
                                 : c->params.log_softmax.width;
}

/* Returns element i of an input in VKF_DATA_FEW. In attention few keys count, queries are 200 and values NORMAL. */
static float one_of_few(const vkf_case *c, uint64_t input, uint64_t i) {
  const bool keys = vkf_op_is_attention(c->op);
  if (keys && input == VKF_ATTENTION_Q) return 200.0f;
  if (keys && input == VKF_ATTENTION_V) return (float)vkf_rng_normal(c->seed, input, i);
  if (keys) i /= c->params.attention.key_width; /* each number of a key */
  const bool counts = (i & (i - 1)) == 0 || (i & (i + 1)) == 0 || i + 1 == n_summands(c);
  if (c->op == VKF_OP_NORM) return counts ? 1.0f : 0.0f;
  return counts ? 0.0f : keys ? -1.0f : -200.0f;
}

static float number(const vkf_case *c, uint64_t stream, uint64_t i, bool activation) {
  vkf_case_data kind = c->data;
  if (kind == VKF_DATA_HALVES) return (float)((int32_t)vkf_case_below(c, stream, i, 17) - 8) / 2;
  if (kind == VKF_DATA_ONE_SIGN) return (float)(0.5 + vkf_rng_unit(c->seed, stream, i) / 2);
  if (kind == VKF_DATA_TIES) return (float)vkf_case_below(c, stream, i, 3);
  if (kind == VKF_DATA_CONSTANT && activation) return 2.5f;
  if (kind == VKF_DATA_FEW && activation) return one_of_few(c, stream, i);
  float normal = (float)vkf_rng_normal(c->seed, stream, i);
  if (kind == VKF_DATA_OFFSET && activation) return 10000 + normal;
  if (kind == (activation ? VKF_DATA_HUGE : VKF_DATA_HUGE_W)) return 40000 * normal;
  if (kind == VKF_DATA_LARGE && activation) return 100 * normal;
  if (kind == VKF_DATA_SPECIAL && activation && vkf_case_below(c, stream + 64, i, 16) == 0)
    return special(vkf_rng_u64(c->seed, stream + 128, i));
  return normal;
}

/* Returns the number of values of an integer input that is an index. */
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
    case VKF_OP_APPEND:
      return c->params.append.n_positions;
    case VKF_OP_RELATIVE_BIAS:
      return c->params.relative_bias.n_buckets;
    default: /* ancestry */
      return dims->v[c->params.attention.seqs];
  }
}

/* Returns element `at` of an int32 input; row: its index along the first extent. */
static int32_t integer(const vkf_case *c, const vkf_dims *dims, uint32_t input, uint32_t row, uint64_t at) {
  if (vkf_op_is_attention(c->op) && input == VKF_ATTENTION_MASK)
    return row % 4 != 3 && vkf_case_below(c, input, at, 4) != 0;
  return (int32_t)vkf_case_below(c, input, at, VKF_MAX(index_range(c, dims, input), 1u));
}

/* Returns whether VKF_DATA_UNSEEN makes this number of a key or value infinite. index: slot, head, key, column. */
static bool is_unseen(const vkf_case *c, const vkf_dims *dims, uint32_t input, const uint32_t *index) {
  if (c->data != VKF_DATA_UNSEEN || (input != VKF_ATTENTION_K && input != VKF_ATTENTION_V)) return false;
  const uint32_t keys = dims->v[c->params.attention.keys];
  return !integer(c, dims, VKF_ATTENTION_MASK, index[0], (uint64_t)index[0] * keys + index[2]);
}

/* Makes an edit of any id, or often of one of the first four, which other edits have touched; a fill is rare. */
static void make_edit(const vkf_case *c, uint32_t e, int32_t *edit) {
  uint32_t pick = vkf_case_below(c, 40, e, 16);
  vkf_logit_edit_kind kind = pick == 0   ? VKF_LOGIT_EDIT_FILL
                             : pick < 6  ? VKF_LOGIT_EDIT_SET
                             : pick < 10 ? VKF_LOGIT_EDIT_ADD
                             : pick < 12 ? VKF_LOGIT_EDIT_GROW
                                         : VKF_LOGIT_EDIT_PENALTY;
  float value = kind == VKF_LOGIT_EDIT_PENALTY ? 1.3f : (float)vkf_rng_normal(c->seed, 41, e);
  if (kind == VKF_LOGIT_EDIT_SET && pick % 2 == 0) value = -INFINITY;
  edit[0] = (int32_t)kind;
  edit[1] = (int32_t)vkf_case_below(
      c, 42, e, pick % 3 == 0 ? VKF_MIN(c->params.logit_edit.width, 4u) : c->params.logit_edit.width);
  memcpy(&edit[2], &value, sizeof(value));
  edit[3] = 0;
}

static void fill_edit_input(const vkf_case *c, const vkf_dims *dims, uint32_t input, uint32_t capacity, int32_t *data) {
  uint32_t rows = dims->v[c->params.logit_edit.rows], n = c->params.logit_edit.max_edits;
  if (input == VKF_LOGIT_EDIT_EDITS) {
    for (uint32_t e = 0; e < n; e++) make_edit(c, e, data + 4 * (size_t)e);
    return;
  }
  for (uint32_t r = 0; r < capacity; r++) data[r] = (int32_t)(rows > 0 ? VKF_MIN(r, rows) * (uint64_t)n / rows : 0);
}

static void fill_input(const vkf_case *c, const vkf_dims *dims, uint32_t input, const vkf_slot *slot, void *data) {
  uint64_t n = vkf_slot_elements(slot);
  if (c->op == VKF_OP_LOGIT_EDIT && slot->dtype == VKF_I32) {
    fill_edit_input(c, dims, input, slot->extent[0].cap, data);
    return;
  }
  const vkf_view view = vkf_slot_view(slot, dims, data);
  bool bias = vkf_op_is_attention(c->op) && input == VKF_ATTENTION_BIAS;
  const bool turns =
      (c->op == VKF_OP_ROPE && input == VKF_ROPE_TABLE) || (c->op == VKF_OP_APPEND && input == VKF_APPEND_TABLE);
  bool activation = !bias && !turns;
  for (uint64_t i = 0; slot->dtype == VKF_F32 && i < n; i++) ((float *)data)[i] = NAN;
  uint32_t index[VKF_MAX_SLOT_RANK] = {0};
  if (vkf_view_elements(&view) == 0) return;
  uint64_t at = 0;
  do {
    size_t to = vkf_view_offset(&view, index);
    if (slot->dtype == VKF_I32) {
      ((int32_t *)data)[to] = integer(c, dims, input, index[0], at);
    } else if (bias && vkf_case_below(c, 50, at, 16) == 0) {
      ((float *)data)[to] = -INFINITY;
    } else if (is_unseen(c, dims, input, index)) {
      ((float *)data)[to] = INFINITY;
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

static void load_weight(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const weight_user *w = user;
  const vkf_weight_info *info = &w->infos[index];
  const uint64_t width = info->rank == 2 ? info->shape[1] : 1;
  for (uint64_t i = 0; i < n * width; i++) dst[i] = number(w->c, 20 + index, first * width + i, false);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

typedef struct maker {
  const vkf_case *c;
  vkf_case_run *run;
  vkf_build b;
  vkf_weight_info *infos; /* [VKF_MAX_INPUTS] */
  const int32_t *spans;   /* of a packed batch */
} maker;

/* Returns the operand of input i: a weight, a constant with its data, or none if the case does not have it. */
static vkf_build_operand add_input(maker *m, uint32_t i, const vkf_operand_shape *shape) {
  vkf_case_run *run = m->run;
  vkf_slot slot = {.name = shape->name, .kind = VKF_SLOT_CONSTANT, .dtype = shape->dtype, .rank = shape->rank};
  if (!shape->name || (shape->optional && !(m->c->inputs >> i & 1))) return vkf_build_slot_operand(VKF_NO_SLOT);
  memcpy(slot.extent, shape->extent, sizeof(slot.extent));
  if (shape->stored) slot.format = m->c->format;
  if (vkf_case_has_spans(m->c, i)) {
    slot.data = m->spans;
    return vkf_build_slot_operand(vkf_build_slot(&m->b, &slot));
  }
  if (shape->weight_use) {
    slot.kind = VKF_SLOT_WEIGHT;
    slot.index = run->weights.n_weights++;
    m->infos[slot.index] = (vkf_weight_info){.name = shape->name,
                                             .rank = shape->rank,
                                             .shape = {shape->extent[0].cap, shape->extent[1].cap},
                                             .use = shape->weight_use & ~(uint32_t)VKF_WEIGHT_OPERAND,
                                             .format = slot.format};
  } else {
    float *data = vkf_arena_alloc(&run->arena, vkf_slot_elements(&slot), sizeof *data); /* or int32_t */
    if (!data) m->b.st = VKF_ERROR_MEMORY;
    if (!data) return vkf_build_slot_operand(VKF_NO_SLOT);
    fill_input(m->c, &run->dims, i, &slot, data);
    for (uint64_t e = 0; shape->stored && e < vkf_slot_elements(&slot); e++)
      data[e] = vkf_format_cached(slot.format, data[e]);
    slot.data = data;
  }
  return vkf_build_slot_operand(vkf_build_slot(&m->b, &slot));
}

/* Names the node and its only output after the case. If it has two outputs, each has its own name. */
static const char *result_name(void *user, const char *name) {
  const maker *m = user;
  return strcmp(name, "result") ? vkf_arena_strdup(&m->run->arena, name) : m->c->name;
}

static void add_node(maker *m) {
  const vkf_case *c = m->c;
  const vkf_node asked = {.op = c->op, .name = c->name, .params = c->params};
  vkf_build_node_params node = {.op = c->op, .name = "result", .params = c->params};
  vkf_op_shapes shapes;
  vkf_build_block(&m->b, vkf_op_name(c->op));
  if (!m->b.st) m->b.st = vkf_op_shapes_of(m->b.env, &m->b.plan, &asked, &shapes);
  for (uint32_t i = 0; !m->b.st && i < VKF_MAX_INPUTS; i++) node.in[i] = add_input(m, i, &shapes.in[i]);
  const uint32_t first = vkf_build_node(&m->b, &node);
  for (uint32_t o = 0; !m->b.st && o < VKF_MAX_OUTPUTS; o++) {
    if (!shapes.out[o].name) continue;
    if (shapes.out[o].stored) m->b.slots[first + o].format = c->format;
    vkf_build_output(&m->b, first + o, "%s", shapes.out[o].name);
  }
}

/* Sets the source of the weights, which works until the run is finished. */
static vkf_status add_weights(maker *m) {
  weight_user *user = vkf_arena_alloc(&m->run->arena, 1, sizeof *user);
  if (!user) return VKF_ERROR_MEMORY;
  *user = (weight_user){m->c, m->infos};
  m->run->weights.user = user;
  m->run->weights.infos = m->infos;
  m->run->weights.load = load_weight;
  return VKF_OK;
}

vkf_status vkf_case_make(vkf_env *env, const vkf_case *c, vkf_case_run *out) {
  static const vkf_sizes none = {0};
  vkf_status st = VKF_OK;
  maker m = {.c = c, .run = out};
  vkf_sizes sizes = c->sizes;
  *out = (vkf_case_run){0};
  vkf_arena_init(&out->arena, env);
  if (vkf_case_has_spans(c, VKF_ATTENTION_SPANS) || vkf_case_has_spans(c, VKF_APPEND_SPANS)) {
    m.spans = vkf_case_spans(&out->arena, c, &sizes);
    if (!m.spans) VKF_TRY(VKF_ERROR_MEMORY);
  }
  out->dims = vkf_dims_make(&sizes);
  m.b = (vkf_build){.env = env, .arena = &out->arena, .label = result_name, .user = &m};
  m.b.plan.capacity = memcmp(&c->capacity, &none, sizeof(none)) == 0 ? c->sizes : c->capacity;
  m.infos = vkf_arena_alloc(&out->arena, VKF_MAX_INPUTS, sizeof *m.infos);
  if (!m.infos) VKF_TRY(VKF_ERROR_MEMORY);
  add_node(&m);
  VKF_TRY(m.b.st);
  out->plan = m.b.plan;
  VKF_TRY(add_weights(&m));
  VKF_TRY(vkf_plan_check(env, &out->plan));
done:
  if (st != VKF_OK) vkf_case_finish(out);
  return st;
}

void vkf_case_finish(vkf_case_run *run) {
  vkf_arena_finish(&run->arena);
  *run = (vkf_case_run){0};
}
