/* builder: see builder.h. */
#include "model/builder.h"

#include <stdarg.h>
#include <stdio.h>

#include "op/shape.h"

static const char *const input_names[VKF_INPUT_COUNT] = {
    [VKF_INPUT_IDS] = "input.ids",
    [VKF_INPUT_POSITIONS] = "input.positions",
    [VKF_INPUT_TYPES] = "input.types",
    [VKF_INPUT_MASK] = "input.mask",
    [VKF_INPUT_PIXELS] = "input.pixels",
    [VKF_INPUT_TARGET_IDS] = "input.target_ids",
    [VKF_INPUT_TARGET_POSITIONS] = "input.target_positions",
    [VKF_INPUT_TARGET_MASK] = "input.target_mask",
    [VKF_INPUT_ANCESTRY] = "input.ancestry",
    [VKF_INPUT_OUT_ROWS] = "input.out_rows",
    [VKF_INPUT_EDIT_OFFSETS] = "input.edit_offsets",
    [VKF_INPUT_EDITS] = "input.edits",
};
static const char *const state_names[VKF_STATE_PARTS] = {
    [VKF_STATE_SELF_K] = "self.k",
    [VKF_STATE_SELF_V] = "self.v",
    [VKF_STATE_CROSS_K] = "cross.k",
    [VKF_STATE_CROSS_V] = "cross.v",
};

static bool has_failed(const vkf_model_builder *b) {
  return b->st != VKF_OK;
}

/* A string that must be there. */
static const char *made(vkf_model_builder *b, const char *text) {
  if (text == NULL && !has_failed(b)) b->st = VKF_ERROR_MEMORY;
  return text;
}

static const char *made_v(vkf_model_builder *b, const char *fmt, va_list args) {
  char text[128];
  vsnprintf(text, sizeof text, fmt, args);
  return made(b, vkf_arena_strdup(b->arena, text));
}

/* Room for one more element of `size` bytes after n; the array, moved or not. NULL: failed, the old one stays. */
static void *grown(vkf_model_builder *b, void *array, size_t n, size_t *capacity, size_t size) {
  if (has_failed(b)) return NULL;
  void *moved = vkf_env_grow(b->net->env, array, capacity, n + 1, size);
  if (moved == NULL) b->st = VKF_ERROR_MEMORY;
  return moved;
}

static uint32_t push_slot(vkf_model_builder *b, vkf_slot slot) {
  vkf_slot *slots = grown(b, b->slots, b->plan->n_slots, &b->slots_capacity, sizeof *slots);
  if (slots == NULL) return VKF_NO_SLOT;
  b->plan->slots = b->slots = slots;
  slots[b->plan->n_slots] = slot;
  return b->plan->n_slots++;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

vkf_model_operand vkf_model_slot(uint32_t slot) {
  return (vkf_model_operand){.how = slot == VKF_NO_SLOT ? VKF_OPERAND_NONE : VKF_OPERAND_SLOT, .index = slot};
}

static vkf_model_operand indexed(vkf_slot_kind kind, uint32_t index) {
  return (vkf_model_operand){.how = VKF_OPERAND_INDEXED, .kind = kind, .index = index};
}

vkf_model_operand vkf_model_weight_slot(uint32_t weight) {
  if (weight == VKF_NO_WEIGHT) return (vkf_model_operand){.how = VKF_OPERAND_NONE};
  return indexed(VKF_SLOT_WEIGHT, weight);
}

vkf_model_operand vkf_model_state(uint32_t layer, vkf_state_part part) {
  return indexed(VKF_SLOT_STATE, VKF_STATE_INDEX(layer, part));
}

vkf_model_operand vkf_model_input(vkf_input input, bool is_asked_for) {
  if (!is_asked_for) return (vkf_model_operand){.how = VKF_OPERAND_NONE};
  return indexed(VKF_SLOT_INPUT, input);
}

static const char *indexed_name(vkf_model_builder *b, vkf_slot_kind kind, uint32_t index) {
  if (kind == VKF_SLOT_INPUT) return input_names[index];
  if (kind == VKF_SLOT_WEIGHT) return made(b, vkf_arena_strdup(b->arena, b->net->infos[index].name));
  return made(b, vkf_arena_printf(b->arena, "state.decoder.%u.%s", index / VKF_STATE_PARTS,
                                  state_names[index % VKF_STATE_PARTS]));
}

/* The slot of an operand; made with this shape if it is met for the first time. */
static uint32_t resolve(vkf_model_builder *b, vkf_model_operand operand, const vkf_operand_shape *shape) {
  if (operand.how == VKF_OPERAND_NONE) return VKF_NO_SLOT;
  if (operand.how == VKF_OPERAND_SLOT) return operand.index;
  uint32_t found = vkf_plan_find_index(b->plan, operand.kind, operand.index);
  if (found != VKF_NO_SLOT) return found;
  vkf_slot slot = {.name = indexed_name(b, operand.kind, operand.index),
                   .kind = operand.kind,
                   .dtype = shape->dtype,
                   .rank = shape->rank,
                   .index = operand.index};
  if (operand.kind == VKF_SLOT_WEIGHT) slot.format = b->net->infos[operand.index].format;
  if (operand.kind == VKF_SLOT_STATE) slot.format = b->net->cache_format;
  for (uint32_t i = 0; i < shape->rank; i++) slot.extent[i] = shape->extent[i];
  return push_slot(b, slot);
}

/* ---- blocks, nodes, outputs -------------------------------------------------------------------------------------- */

void vkf_model_block(vkf_model_builder *b, const char *fmt, ...) {
  vkf_block *blocks = grown(b, b->blocks, b->plan->n_blocks, &b->blocks_capacity, sizeof *blocks);
  if (blocks == NULL) return;
  b->plan->blocks = b->blocks = blocks;
  va_list args;
  va_start(args, fmt);
  blocks[b->plan->n_blocks++] = (vkf_block){.name = made_v(b, fmt, args), .first_node = b->plan->n_nodes};
  va_end(args);
}

uint32_t vkf_model_add_node(vkf_model_builder *b, const vkf_model_node *what) {
  vkf_node *nodes = grown(b, b->nodes, b->plan->n_nodes, &b->nodes_capacity, sizeof *nodes);
  if (nodes == NULL) return VKF_NO_SLOT;
  b->plan->nodes = b->nodes = nodes;
  vkf_block *block = &b->blocks[b->plan->n_blocks - 1];
  vkf_node node = {.op = what->op, .name = block->name, .params = what->params};
  if (what->name != NULL) node.name = made(b, vkf_arena_printf(b->arena, "%s.%s", block->name, what->name));
  if (has_failed(b)) return VKF_NO_SLOT;
  vkf_op_shapes shapes;
  b->st = vkf_op_shapes_of(b->net->env, b->plan, &node, &shapes);
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) node.in[i] = resolve(b, what->in[i], &shapes.in[i]);
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    const vkf_operand_shape *shape = &shapes.out[o];
    node.out[o] = resolve(b, what->out[o], shape);
    if (shape->name == NULL || what->out[o].how != VKF_OPERAND_NONE) continue;
    vkf_slot slot = {.name = node.name, .kind = VKF_SLOT_TEMP, .dtype = shape->dtype, .rank = shape->rank};
    for (uint32_t i = 0; i < shape->rank; i++) slot.extent[i] = shape->extent[i];
    if (shapes.out[1].name != NULL) slot.name = made(b, vkf_arena_printf(b->arena, "%s.%s", node.name, shape->name));
    node.out[o] = push_slot(b, slot);
  }
  if (has_failed(b)) return VKF_NO_SLOT;
  nodes[b->plan->n_nodes++] = node;
  block->n_nodes++;
  return node.out[0];
}

uint32_t vkf_model_add_constant(vkf_model_builder *b, const char *name, uint32_t rows, uint32_t width, float **data) {
  *data = has_failed(b) ? NULL : vkf_arena_alloc(b->arena, rows, width * sizeof **data);
  if (*data == NULL && !has_failed(b)) b->st = VKF_ERROR_MEMORY;
  vkf_slot slot = {.name = name,
                   .kind = VKF_SLOT_CONSTANT,
                   .dtype = VKF_F32,
                   .rank = 2,
                   .extent = {{VKF_DIM_ONE, rows}, {VKF_DIM_ONE, width}},
                   .data = *data};
  return push_slot(b, slot);
}

uint32_t vkf_model_add_indices(vkf_model_builder *b, const char *name, uint32_t n, int32_t **data) {
  *data = has_failed(b) ? NULL : vkf_arena_alloc(b->arena, n, sizeof **data);
  if (*data == NULL && !has_failed(b)) b->st = VKF_ERROR_MEMORY;
  vkf_slot slot = {.name = name,
                   .kind = VKF_SLOT_CONSTANT,
                   .dtype = VKF_I32,
                   .rank = 1,
                   .extent = {{VKF_DIM_ONE, n}},
                   .data = *data};
  return push_slot(b, slot);
}

void vkf_model_output(vkf_model_builder *b, uint32_t slot, const char *fmt, ...) {
  if (has_failed(b) || b->slots[slot].output != NULL) return;
  va_list args;
  va_start(args, fmt);
  b->slots[slot].output = made_v(b, fmt, args);
  va_end(args);
}
