/* replay_write: writes a node as JSON and arrays. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_memory.h"
#include "kern/kern.h"
#include "lab/replay.h"
#include "op/fields.h"
#include "op/shape.h"

/* ---- as JSON; NULL: out of memory -------------------------------------------------------------------------------- */

static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_sprintf("%g", value);
}

static json_t *list(const uint32_t *numbers, uint32_t n) {
  json_t *array = json_array();
  for (uint32_t i = 0; i < n; i++)
    if (json_array_append_new(array, json_integer(numbers[i])) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

static json_t *sizes(const uint32_t *dims) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "B", (json_int_t)dims[VKF_DIM_B], "S",
                   (json_int_t)dims[VKF_DIM_S], "R", (json_int_t)dims[VKF_DIM_R], "T", (json_int_t)dims[VKF_DIM_T],
                   "past", (json_int_t)dims[VKF_DIM_PAST], "out", (json_int_t)dims[VKF_DIM_OUT], "BS",
                   (json_int_t)dims[VKF_DIM_BS], "RT", (json_int_t)dims[VKF_DIM_RT]);
}

static json_t *field_value(const vkf_field *field, const void *at) {
  uint32_t whole = 0;
  if (field->kind == VKF_FIELD_FLAG) return json_boolean(*(const bool *)at);
  if (field->kind == VKF_FIELD_NUMBER) return number((double)*(const float *)at);
  memcpy(&whole, at, sizeof whole);
  return field->kind == VKF_FIELD_COUNT ? json_integer(whole) : json_string(vkf_field_word(field->kind, whole));
}

static json_t *params(const vkf_node *node) {
  size_t n = 0;
  const vkf_field *fields = vkf_op_fields(node->op, &n);
  json_t *object = json_object();
  for (size_t i = 0; i < n; i++) {
    json_t *value = field_value(&fields[i], (const char *)&node->params + fields[i].offset);
    if (json_object_set_new(object, fields[i].name, value) != 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

/* Returns whether it was appended. */
static bool add_operand(json_t *operands, const vkf_walk *walk, const char *name, uint32_t slot) {
  const vkf_slot *s = &walk->plan->slots[slot];
  uint32_t caps[VKF_MAX_SLOT_RANK] = {0};
  json_t *extents = json_array();
  bool added = true;
  for (uint32_t i = 0; i < s->rank; i++) {
    caps[i] = s->extent[i].cap;
    added = added && json_array_append_new(extents, json_string(vkf_dim_name(s->extent[i].dim))) == 0;
  }
  json_t *operand = json_pack("{s:s, s:o, s:o, s:s}", "name", name, "extents", extents, "capacity", list(caps, s->rank),
                              "format", vkf_format_get(s->format)->name);
  if (s->kind == VKF_SLOT_WEIGHT)
    added = added && json_object_set_new(operand, "weight", json_integer(walk->weights->infos[s->index].use)) == 0;
  return json_array_append_new(operands, operand) == 0 && added;
}

static json_t *operands(const vkf_walk *walk, const vkf_node *node, const vkf_op_shapes *shapes) {
  json_t *array = json_array();
  bool added = true;
  for (uint32_t i = 0; i < VKF_MAX_INPUTS && added; i++)
    if (node->in[i] != VKF_NO_SLOT) added = add_operand(array, walk, shapes->in[i].name, node->in[i]);
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS && added; o++)
    if (node->out[o] != VKF_NO_SLOT) added = add_operand(array, walk, shapes->out[o].name, node->out[o]);
  if (added) return array;
  json_decref(array);
  return NULL;
}

/* Returns the worst element and, for a matmul, the size of its tiles and the tile that has the element. */
static json_t *worst_element(const vkf_node *node, const vkf_bench_element *e, const char *variant, double ratio) {
  const vkf_variant *v = vkf_kern_find(variant);
  json_t *tile_shape = NULL, *tile = NULL;
  if (v && v->op == VKF_OP_MATMUL) {
    const uint32_t shape[] = {v->tile.gemm.bm, v->tile.gemm.bn / (node->params.matmul.is_gated ? 2 : 1)};
    const uint32_t at[] = {e->at[0] / shape[0], e->at[1] / shape[1]};
    tile_shape = list(shape, 2);
    tile = list(at, 2);
  }
  return json_pack("{s:s, s:o, s:o, s:o*, s:o*, s:o, s:o, s:o, s:o, s:o}", "output", e->output, "shape",
                   list(e->shape, e->rank), "element", list(e->at, e->rank), "tile_shape", tile_shape, "tile", tile,
                   "expected", number(e->expected), "found", number(e->found), "error",
                   number(fabs(e->found - e->expected)), "bound", number(e->bound), "ratio", number(ratio));
}

/* ---- as arrays --------------------------------------------------------------------------------------------------- */

/* Adds the values of a slot, dense at actual sizes. */
static vkf_status add_array(vkf_result *result, const vkf_walk *walk, const char *name, uint32_t slot) {
  const vkf_slot *s = &walk->plan->slots[slot];
  size_t shape[VKF_MAX_SLOT_RANK];
  void *data = NULL;
  for (uint32_t i = 0; i < s->rank; i++) shape[i] = vkf_slot_extent(s, i, walk->dims);
  VKF_CALL(vkf_engine_result_add(result, name, s->dtype, s->rank, shape, &data));
  return vkf_slot_compact(walk->env, s, walk->dims, walk->bases[slot], data);
}

/* Adds what output o should have been: exact values and bounds. */
static vkf_status add_exact(vkf_result *result, vkf_walk *walk, uint32_t index, uint32_t o, const char *name) {
  vkf_status st = VKF_OK;
  const uint32_t slot = walk->plan->nodes[index].out[o];
  const vkf_slot *s = &walk->plan->slots[slot];
  const char *const suffixes[] = {"exact", "bound"};
  double *values[2] = {NULL, NULL}, *kept;
  size_t shape[VKF_MAX_SLOT_RANK];
  vkf_view view = {.rank = s->rank};
  size_t stride = 1;
  char full[64];
  for (uint32_t i = s->rank; i-- > 0; stride *= s->extent[i].cap) {
    shape[i] = view.extent[i] = vkf_slot_extent(s, i, walk->dims);
    view.stride[i] = stride;
  }
  for (int i = 0; i < 2; i++) {
    values[i] = vkf_env_alloc(walk->env, vkf_slot_elements(s), sizeof **values);
    if (!values[i]) VKF_TRY(VKF_ERROR_MEMORY);
  }
  VKF_TRY(vkf_ref_walk_values(walk, index, o, values[0], values[1]));
  for (int i = 0; i < 2; i++) {
    uint32_t at[VKF_MAX_SLOT_RANK] = {0};
    snprintf(full, sizeof full, "%s.%s", name, suffixes[i]);
    VKF_TRY(vkf_engine_result_add(result, full, VKF_F64, s->rank, shape, (void **)&kept));
    do *kept++ = values[i][vkf_view_offset(&view, at)];
    while (vkf_view_next(&view, at));
  }
done:
  vkf_env_free(walk->env, values[0]);
  vkf_env_free(walk->env, values[1]);
  return st;
}

vkf_status vkf_lab_replay_write(const vkf_device *dev, vkf_walk *walk, uint32_t index, const vkf_comparison *j,
                                const char *pass, vkf_result **out) {
  vkf_status st = VKF_OK;
  const vkf_node *node = &walk->plan->nodes[index];
  const char *variant = walk->backend->table->node_variant(walk->program, index, NULL);
  vkf_result *result = NULL;
  vkf_op_shapes shapes;
  vkf_bench_element worst;
  const vkf_dims capacity = vkf_dims_make(&walk->plan->capacity);
  vkf_text text;
  vkf_text_init(&text, walk->env);
  VKF_TRY(vkf_op_shapes_of(walk->env, walk->plan, node, &shapes));
  VKF_TRY(vkf_ref_walk_worst(walk, index, j, &worst));
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "pass", pass, "node", node->name, "op",
                vkf_op_name(node->op), "variant", variant, "deterministic", dev->ctx->deterministic, "params",
                params(node), "sizes", sizes(walk->dims->v), "capacity", sizes(capacity.v), "operands",
                operands(walk, node, &shapes), "worst", worst_element(node, &worst, variant, j->ratio));
  vkf_json_append(&text, json, 0);
  VKF_TRY(vkf_text_status(&text));
  VKF_TRY(vkf_engine_result_create(walk->env, &result));
  VKF_TRY(vkf_engine_result_add_text(result, text.data));
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++)
    if (node->in[i] != VKF_NO_SLOT) VKF_TRY(add_array(result, walk, shapes.in[i].name, node->in[i]));
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    if (node->out[o] == VKF_NO_SLOT) continue;
    VKF_TRY(add_array(result, walk, shapes.out[o].name, node->out[o]));
    VKF_TRY(add_exact(result, walk, index, o, shapes.out[o].name));
  }
done:
  vkf_text_finish(&text);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}
