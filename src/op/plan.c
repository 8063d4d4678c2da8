/* plan: queries about slots, and the one check of a plan before any backend sees it.
 *
 * Refuses shapes that disagree with the op's rule, inputs read before they are written, slots written twice and blocks
 * that do not cover the nodes in order. Invariant after the check: a temporary is written by exactly one node, so its
 * life is a range of nodes.
 */
#include "op/plan.h"

#include <stdlib.h>
#include <string.h>

#include "op/shape.h"

uint32_t vkf_plan_find_output(const vkf_plan *plan, const char *output) {
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    if (plan->slots[i].output && strcmp(plan->slots[i].output, output) == 0) return i;
  }
  return VKF_NO_SLOT;
}

uint32_t vkf_plan_find_index(const vkf_plan *plan, vkf_slot_kind kind, uint32_t index) {
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    if (plan->slots[i].kind == kind && plan->slots[i].index == index) return i;
  }
  return VKF_NO_SLOT;
}

uint64_t vkf_slot_elements(const vkf_slot *slot) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < slot->rank; i++) n *= slot->extent[i].cap;
  return n;
}

uint64_t vkf_slot_elements_at(const vkf_slot *slot, const vkf_dims *dims) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < slot->rank; i++) n *= vkf_slot_extent(slot, i, dims);
  return n;
}

uint64_t vkf_slot_stored_bytes(const vkf_slot *slot) {
  uint32_t width = slot->extent[slot->rank - 1].cap, per_word = 32 / vkf_format_get(slot->format)->bits;
  return width ? vkf_slot_elements(slot) / width * VKF_CEIL_DIV(width, per_word) * 4 : 0;
}

uint32_t vkf_slot_extent(const vkf_slot *slot, uint32_t i, const vkf_dims *dims) {
  const vkf_extent *e = &slot->extent[i];
  return e->dim == VKF_DIM_ONE ? e->cap : dims->v[e->dim];
}

vkf_slot vkf_slot_one(const vkf_slot *slot) {
  vkf_slot one = *slot;
  one.extent[0] = (vkf_extent){VKF_DIM_ONE, 1};
  return one;
}

bool vkf_slot_is_packed(const vkf_slot *slot) {
  return slot->rank == 1 || (slot->rank == 2 && slot->extent[1].dim == VKF_DIM_ONE);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static vkf_status check_slot(vkf_env *env, const vkf_slot *s, uint32_t index) {
  if (!s->name) return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %u has no name", index);
  if (s->dtype != VKF_F32 && s->dtype != VKF_I32)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: expected F32 or I32, found %s", s->name,
                        vkf_name_of_dtype(s->dtype));
  const bool may = s->kind == VKF_SLOT_WEIGHT || (s->rank == 4 && vkf_format_get(s->format)->caches);
  if (s->format != VKF_FORMAT_F32 && (s->dtype != VKF_F32 || !may))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: expected f32, found %s, which it cannot be stored as",
                        s->name, vkf_format_get(s->format)->name);
  if (s->rank < 1 || s->rank > VKF_MAX_SLOT_RANK)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: expected a rank from 1 to %d, found %u", s->name,
                        VKF_MAX_SLOT_RANK, s->rank);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < s->rank; i++) {
    if ((unsigned)s->extent[i].dim >= VKF_DIM_COUNT)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: extent %u has no dimension %d", s->name, i,
                          (int)s->extent[i].dim);
    if (s->extent[i].cap == 0)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: extent %u has the capacity 0", s->name, i);
    elements *= s->extent[i].cap; /* below 2^32 times a uint32: no overflow */
    if (elements > UINT32_MAX)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: more than %u elements at capacity", s->name, UINT32_MAX);
  }
  if (s->kind == VKF_SLOT_CONSTANT && !s->data)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: a constant without data", s->name);
  if (s->kind == VKF_SLOT_INPUT && s->index >= VKF_INPUT_COUNT)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: expected an input below %d, found %u", s->name,
                        VKF_INPUT_COUNT, s->index);
  return VKF_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const vkf_slot *const *)a)->name, (*(const vkf_slot *const *)b)->name);
}

static vkf_status check_slots(vkf_env *env, const vkf_plan *plan) {
  vkf_status st = VKF_OK;
  const vkf_slot **sorted = vkf_env_alloc(env, plan->n_slots, sizeof(*sorted));
  if (!sorted) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    VKF_TRY(check_slot(env, &plan->slots[i], i));
    sorted[i] = &plan->slots[i];
  }
  qsort(sorted, plan->n_slots, sizeof(*sorted), compare_names);
  for (uint32_t i = 1; i < plan->n_slots; i++) {
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "two slots have the name %s", sorted[i]->name);
  }
done:
  vkf_env_free(env, sorted);
  return st;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void append_extents(vkf_text *text, const vkf_extent *extent, uint32_t rank) {
  for (uint32_t i = 0; i < rank; i++) {
    if (i > 0) vkf_text_append(text, ",", 1);
    if (extent[i].dim != VKF_DIM_ONE) vkf_text_printf(text, "%s=", vkf_dim_name(extent[i].dim));
    vkf_text_printf(text, "%u", extent[i].cap);
  }
}

static bool extent_fits(const vkf_slot *slot, const vkf_extent *want, uint32_t i, bool loose) {
  const vkf_extent *have = &slot->extent[i];
  /* A constant or weight may have more rows than are read. */
  bool still = slot->kind == VKF_SLOT_CONSTANT || slot->kind == VKF_SLOT_WEIGHT;
  if (still && have->dim == VKF_DIM_ONE && want->dim != VKF_DIM_ONE) return have->cap >= want->cap;
  if (have->dim != want->dim) return false;
  return loose ? have->cap >= want->cap : have->cap == want->cap;
}

static vkf_status check_operand(vkf_env *env, const vkf_node *node, const vkf_slot *slot,
                                const vkf_operand_shape *want) {
  vkf_status st = VKF_OK;
  bool fits = slot->dtype == want->dtype && slot->rank == want->rank;
  for (uint32_t i = 0; fits && i < slot->rank; i++) fits = extent_fits(slot, &want->extent[i], i, want->loose);
  if (slot->format != VKF_FORMAT_F32 && !want->stored)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): expected %s in slot %s as f32, found %s", node->name,
                        vkf_op_name(node->op), want->name, slot->name, vkf_format_get(slot->format)->name);
  if (fits) return VKF_OK;
  vkf_text text;
  vkf_text_init(&text, env);
  vkf_text_printf(&text, "expected %s %s[", want->loose ? "at least" : "exactly", vkf_name_of_dtype(want->dtype));
  append_extents(&text, want->extent, want->rank);
  vkf_text_printf(&text, "], found %s[", vkf_name_of_dtype(slot->dtype));
  append_extents(&text, slot->extent, slot->rank);
  VKF_TRY(vkf_text_status(&text));
  VKF_FAIL(env, VKF_ERROR_ARGUMENT, "node %s (%s), %s in slot %s: %s]", node->name, vkf_op_name(node->op), want->name,
           slot->name, text.data);
done:
  vkf_text_finish(&text);
  return st;
}

static vkf_status check_input(vkf_env *env, const vkf_plan *plan, const vkf_node *node, uint32_t i,
                              const vkf_operand_shape *want, const bool *written) {
  uint32_t s = node->in[i];
  const char *op = vkf_op_name(node->op);
  if (s == VKF_NO_SLOT) {
    if (!want->name || want->optional) return VKF_OK;
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): its input %s is missing", node->name, op, want->name);
  }
  if (!want->name)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): expected no input %u, found slot %u", node->name, op, i,
                        s);
  if (s >= plan->n_slots)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): %s is slot %u of %u", node->name, op, want->name, s,
                        plan->n_slots);
  if (plan->slots[s].kind == VKF_SLOT_TEMP && !written[s])
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): %s reads slot %s before any node has written it",
                        node->name, op, want->name, plan->slots[s].name);
  return check_operand(env, node, &plan->slots[s], want);
}

static vkf_status check_output(vkf_env *env, const vkf_plan *plan, const vkf_node *node, uint32_t o,
                               const vkf_operand_shape *want, bool *written) {
  uint32_t s = node->out[o];
  const char *op = vkf_op_name(node->op);
  if (!want->name) {
    if (s == VKF_NO_SLOT) return VKF_OK;
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): expected no output %u, found slot %u", node->name, op,
                        o, s);
  }
  if (s >= plan->n_slots)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): its output %s is missing", node->name, op, want->name);
  const vkf_slot *slot = &plan->slots[s];
  if (slot->kind != VKF_SLOT_TEMP && slot->kind != VKF_SLOT_STATE)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): %s goes to slot %s, which no node may write",
                        node->name, op, want->name, slot->name);
  if (slot->kind == VKF_SLOT_TEMP && written[s])
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s (%s): slot %s is written a second time", node->name, op,
                        slot->name);
  written[s] = true;
  return check_operand(env, node, slot, want);
}

static vkf_status check_node(vkf_env *env, const vkf_plan *plan, const vkf_node *node, bool *written) {
  vkf_op_shapes shapes;
  VKF_CALL(vkf_op_shapes_of(env, plan, node, &shapes));
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) VKF_CALL(check_input(env, plan, node, i, &shapes.in[i], written));
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) VKF_CALL(check_output(env, plan, node, o, &shapes.out[o], written));
  return VKF_OK;
}

vkf_status vkf_plan_check(vkf_env *env, const vkf_plan *plan) {
  vkf_status st = VKF_OK;
  bool *written = vkf_env_alloc(env, plan->n_slots, sizeof(*written));
  if (!written) return VKF_ERROR_MEMORY;
  VKF_TRY(check_slots(env, plan));
  uint32_t covered = 0;
  for (uint32_t b = 0; b < plan->n_blocks; b++) {
    const vkf_block *block = &plan->blocks[b];
    if (block->first_node != covered || block->n_nodes > plan->n_nodes - covered)
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "block %s: expected nodes from %u to at most %u, found %u nodes from %u",
               block->name, covered, plan->n_nodes, block->n_nodes, block->first_node);
    covered += block->n_nodes;
  }
  if (covered != plan->n_nodes)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "the blocks hold %u of %u nodes", covered, plan->n_nodes);
  for (uint32_t i = 0; i < plan->n_nodes; i++) VKF_TRY(check_node(env, plan, &plan->nodes[i], written));
  for (uint32_t s = 0; s < plan->n_slots; s++) {
    const vkf_slot *slot = &plan->slots[s];
    if (slot->output && slot->kind == VKF_SLOT_TEMP && !written[s])
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "slot %s is the output %s, but no node writes it", slot->name, slot->output);
  }
done:
  vkf_env_free(env, written);
  return st;
}
