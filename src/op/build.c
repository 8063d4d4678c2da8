/* build: see build.h. */
#include "op/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "op/shape.h"

/* Returns text; if it is NULL, records that there was no memory for it. */
static const char *check_text(vkf_build *b, const char *text) {
  if (!text && !b->st) b->st = VKF_ERROR_MEMORY;
  return text;
}

static const char *made_v(vkf_build *b, const char *fmt, va_list args) {
  char text[128];
  vsnprintf(text, sizeof text, fmt, args);
  return check_text(b, vkf_arena_strdup(b->arena, text));
}

/* Returns the array, moved or not, with room for an element of `size` bytes behind its n. NULL: failed, the old one
 * stays. */
static void *with_room(vkf_build *b, const void *array, size_t n, size_t *capacity, size_t size) {
  if (b->st) return NULL;
  if (n < *capacity) return (void *)(uintptr_t)array;
  const size_t more = VKF_MAX(2 * *capacity, 16u);
  void *moved = vkf_arena_alloc(b->arena, more, size);
  if (!moved) {
    b->st = VKF_ERROR_MEMORY;
    return NULL;
  }
  if (n) memcpy(moved, array, n * size);
  *capacity = more;
  return moved;
}

uint32_t vkf_build_slot(vkf_build *b, const vkf_slot *slot) {
  vkf_slot *slots = with_room(b, b->slots, b->plan.n_slots, &b->slots_capacity, sizeof *slots);
  if (!slots) return VKF_NO_SLOT;
  b->plan.slots = b->slots = slots;
  slots[b->plan.n_slots] = *slot;
  return b->plan.n_slots++;
}

/* ---- blocks and nodes -------------------------------------------------------------------------------------------- */

static void add_block(vkf_build *b, const char *name, uint32_t layer) {
  vkf_block *blocks = with_room(b, b->plan.blocks, b->plan.n_blocks, &b->blocks_capacity, sizeof *blocks);
  if (!blocks) return;
  b->plan.blocks = blocks;
  blocks[b->plan.n_blocks++] = (vkf_block){.name = check_text(b, name), .first_node = b->plan.n_nodes, .layer = layer};
}

void vkf_build_block(vkf_build *b, const char *name) {
  add_block(b, vkf_arena_strdup(b->arena, name), 0);
}

void vkf_build_layer(vkf_build *b, const char *stack, uint32_t i) {
  add_block(b, vkf_arena_printf(b->arena, "%s.%u", stack, i), i);
}

/* Names a node (part NULL), or one of its several outputs. */
static const char *name_of(vkf_build *b, const char *block, const char *name, const char *part) {
  char own[128];
  if (!name) return part ? check_text(b, vkf_arena_printf(b->arena, "%s.%s", block, part)) : block;
  snprintf(own, sizeof own, "%s%s%s", name, part ? "." : "", part ? part : "");
  return check_text(b, b->label ? b->label(b->user, own) : vkf_arena_printf(b->arena, "%s.%s", block, own));
}

/* Returns the slot of an operand; makes it with this shape at its first use. */
static uint32_t resolve(vkf_build *b, vkf_build_operand operand, const vkf_operand_shape *shape) {
  if (operand.how == VKF_BUILD_NONE) return VKF_NO_SLOT;
  if (operand.how == VKF_BUILD_SLOT) return operand.index;
  uint32_t found = vkf_plan_find_index(&b->plan, operand.kind, operand.index);
  if (found != VKF_NO_SLOT) return found;
  vkf_slot slot = {.kind = operand.kind, .dtype = shape->dtype, .rank = shape->rank, .index = operand.index};
  memcpy(slot.extent, shape->extent, sizeof slot.extent);
  b->describe(b->user, &slot);
  check_text(b, slot.name);
  return vkf_build_slot(b, &slot);
}

uint32_t vkf_build_node(vkf_build *b, const vkf_build_node_params *what) {
  vkf_node *nodes = with_room(b, b->plan.nodes, b->plan.n_nodes, &b->nodes_capacity, sizeof *nodes);
  if (!nodes) return VKF_NO_SLOT;
  b->plan.nodes = nodes;
  vkf_block *block = (vkf_block *)(uintptr_t)&b->plan.blocks[b->plan.n_blocks - 1];
  vkf_node node = {.op = what->op, .name = name_of(b, block->name, what->name, NULL), .params = what->params};
  vkf_op_shapes shapes;
  if (!b->st) b->st = vkf_op_shapes_of(b->env, &b->plan, &node, &shapes);
  if (b->st) return VKF_NO_SLOT;
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) node.in[i] = resolve(b, what->in[i], &shapes.in[i]);
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    const vkf_operand_shape *shape = &shapes.out[o];
    node.out[o] = resolve(b, what->out[o], shape);
    if (!shape->name || what->out[o].how != VKF_BUILD_NONE) continue;
    vkf_slot slot = {.name = node.name, .kind = VKF_SLOT_TEMP, .dtype = shape->dtype, .rank = shape->rank};
    if (shape->stored) slot.format = what->format;
    memcpy(slot.extent, shape->extent, sizeof slot.extent);
    if (shapes.out[1].name) slot.name = name_of(b, block->name, what->name, shape->name);
    node.out[o] = vkf_build_slot(b, &slot);
  }
  if (b->st) return VKF_NO_SLOT;
  nodes[b->plan.n_nodes++] = node;
  block->n_nodes++;
  return node.out[0];
}

/* ---- tables and outputs ------------------------------------------------------------------------------------------ */

/* Adds a constant [rows, width] of elements of four bytes, which the caller fills in. */
static uint32_t constant(vkf_build *b, vkf_slot slot, uint32_t rows, uint32_t width, void **data) {
  *data = b->st ? NULL : vkf_arena_alloc(b->arena, rows, (size_t)width * 4);
  if (!*data && !b->st) b->st = VKF_ERROR_MEMORY;
  slot.kind = VKF_SLOT_CONSTANT;
  slot.data = *data;
  return vkf_build_slot(b, &slot);
}

uint32_t vkf_build_table(vkf_build *b, const char *name, uint32_t rows, uint32_t width, float **data) {
  const vkf_slot slot = {
      .name = name, .dtype = VKF_F32, .rank = 2, .extent = {{VKF_DIM_ONE, rows}, {VKF_DIM_ONE, width}}};
  void *memory;
  const uint32_t made_slot = constant(b, slot, rows, width, &memory);
  *data = memory;
  return made_slot;
}

uint32_t vkf_build_indices(vkf_build *b, const char *name, uint32_t n, int32_t **data) {
  const vkf_slot slot = {.name = name, .dtype = VKF_I32, .rank = 1, .extent = {{VKF_DIM_ONE, n}}};
  void *memory;
  const uint32_t made_slot = constant(b, slot, n, 1, &memory);
  *data = memory;
  return made_slot;
}

void vkf_build_output(vkf_build *b, uint32_t slot, const char *fmt, ...) {
  if (b->st || b->slots[slot].output) return;
  va_list args;
  va_start(args, fmt);
  b->slots[slot].output = made_v(b, fmt, args);
  va_end(args);
}
