/* call: makes views on host arrays of a node's slots, and walks strided views.
 *
 * Refuses actual extents over the capacity. Invariant: strides come from capacities alone, so one array serves every
 * run.
 */
#include <string.h>

#include "op/compare.h"

vkf_view vkf_slot_view(const vkf_slot *slot, const vkf_dims *dims, void *data) {
  vkf_view view = {.data = data, .rank = slot->rank, .format = slot->format};
  size_t stride = 1;
  for (uint32_t i = slot->rank; i-- > 0; stride *= slot->extent[i].cap) {
    view.extent[i] = vkf_slot_extent(slot, i, dims);
    view.stride[i] = stride;
  }
  return view;
}

static vkf_status make_view(vkf_env *env, const vkf_slot *slot, const vkf_dims *dims, void *data, vkf_view *view) {
  *view = vkf_slot_view(slot, dims, data);
  for (uint32_t i = 0; i < slot->rank; i++)
    if (view->extent[i] > slot->extent[i].cap)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "slot %s: extent %u is %u, over its capacity of %u", slot->name, i,
                          view->extent[i], slot->extent[i].cap);
  return VKF_OK;
}

/* Copies one innermost run at a time; both arrays have elements of 4 bytes. */
static vkf_status copy_runs(vkf_env *env, const vkf_slot *slot, const vkf_dims *dims, char *strided, char *dense,
                            bool scatter) {
  vkf_view outer;
  uint32_t index[VKF_MAX_SLOT_RANK] = {0};
  vkf_status st = make_view(env, slot, dims, strided, &outer);
  if (st != VKF_OK || vkf_view_elements(&outer) == 0) return st;
  size_t run = (size_t)outer.extent[slot->rank - 1] * 4;
  outer.extent[slot->rank - 1] = 1;
  do {
    char *at = strided + 4 * vkf_view_offset(&outer, index);
    memcpy(scatter ? at : dense, scatter ? dense : at, run);
    dense += run;
  } while (vkf_view_next(&outer, index));
  return VKF_OK;
}

vkf_status vkf_slot_scatter(vkf_env *env, const vkf_slot *slot, const vkf_dims *dims, const void *dense,
                            void *strided) {
  return copy_runs(env, slot, dims, strided, (char *)(uintptr_t)dense, true);
}

vkf_status vkf_slot_compact(vkf_env *env, const vkf_slot *slot, const vkf_dims *dims, const void *strided,
                            void *dense) {
  return copy_runs(env, slot, dims, (char *)(uintptr_t)strided, dense, false);
}

vkf_status vkf_call_from_plan(vkf_env *env, const vkf_plan *plan, uint32_t node, const vkf_dims *dims,
                              void *const *bases, vkf_call *out) {
  const vkf_node *n = &plan->nodes[node];
  vkf_status st = VKF_OK;
  *out = (vkf_call){.op = n->op, .name = n->name, .params = &n->params, .dims = dims};
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
    uint32_t s = n->in[i];
    if (s != VKF_NO_SLOT) VKF_TRY(make_view(env, &plan->slots[s], dims, bases[s], &out->in[i]));
  }
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    uint32_t s = n->out[o];
    if (s != VKF_NO_SLOT) VKF_TRY(make_view(env, &plan->slots[s], dims, bases[s], &out->out[o]));
  }
done:
  return st == VKF_OK ? st : vkf_env_prefix(env, st, "node %s, ", n->name);
}

bool vkf_call_is_integer(vkf_op op, uint32_t o) {
  return op == VKF_OP_TOP_K && o == VKF_TOP_K_IDS;
}

size_t vkf_view_offset(const vkf_view *view, const uint32_t *index) {
  size_t offset = 0;
  for (uint32_t i = 0; i < view->rank; i++) offset += index[i] * view->stride[i];
  return offset;
}

bool vkf_view_next(const vkf_view *view, uint32_t *index) {
  for (uint32_t i = view->rank; i-- > 0;) {
    if (++index[i] < view->extent[i]) return true;
    index[i] = 0;
  }
  return false;
}

uint64_t vkf_view_elements(const vkf_view *view) {
  uint64_t n = view->rank > 0;
  for (uint32_t i = 0; i < view->rank; i++) n *= view->extent[i];
  return n;
}
