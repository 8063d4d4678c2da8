/* What the descriptions of all ops share. */
#ifndef VKF_VKOP_OP_COMMON_H
#define VKF_VKOP_OP_COMMON_H

#include "shared/constants.h"
#include "shared/params.h"
#include "vkop/describe.h"

_Static_assert(VKF_PUSH_OPERANDS <= VKF_MAX_OPERANDS, "shared/params.h and describe.h");
#define VKF_PUSH_FITS(type) \
  _Static_assert(sizeof(struct type) <= VKF_MAX_PUSH_BYTES - VKF_PUSH_OPERANDS * 8, "push constants of " #type)

/* Ends the constants of a dispatch, of which `last` has the largest id. */
#define VKF_CONSTANTS_END(out, last)                                                \
  do {                                                                              \
    _Static_assert((last) < VKF_MAX_CONSTANTS, #last " has no place in constants"); \
    (out)->n_constants = (last) + 1;                                                \
  } while (0)

/* Defines vkf_vkop_problem_<op>() from the node's parameters, p, and the actual sizes, dims. */
#define VKF_PROBLEM(op, type, ...)                                                                                 \
  void vkf_vkop_problem_##op(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out) { \
    const type *p = &node->params.op;                                                                              \
    (void)plan;                                                                                                    \
    (void)dims;                                                                                                    \
    *out = (vkf_problem){__VA_ARGS__};                                                                             \
  }

/* Starts a dispatch with the constants that come from the variant and the packing of its weight. */
void vkf_vkop_dispatch_begin(const vkf_node_view *view, vkf_dispatch *out);
/* The same with the first operands of most ops: n_in inputs, which are read, then the output. */
void vkf_vkop_dispatch_begin_all(const vkf_node_view *view, vkf_dispatch *out, uint32_t n_in);
/* Add the next operand, a storage buffer that is read or written. */
void vkf_vkop_dispatch_read(vkf_dispatch *out, uint32_t slot);
void vkf_vkop_dispatch_write(vkf_dispatch *out, uint32_t slot);
/* Adds the last operand of an op that takes packed batches: their spans, in the step buffer, if the node has them. */
void vkf_vkop_dispatch_spans(vkf_dispatch *out, uint32_t slot);
/* Adds the last operand of an op that reads a weight: the scales of its rows, if its format has them. */
void vkf_vkop_dispatch_scales(const vkf_node_view *view, vkf_dispatch *out, uint32_t slot);
void vkf_vkop_dispatch_params(vkf_dispatch *out, const void *params, size_t bytes);

static inline uint32_t vkf_vkop_has(uint32_t slot) {
  return slot != VKF_NO_SLOT;
}
/* Returns extent i of a slot at capacity; 0 if there is no slot. */
static inline uint32_t vkf_vkop_cap(const vkf_plan *plan, uint32_t slot, uint32_t i) {
  return slot == VKF_NO_SLOT ? 0 : plan->slots[slot].extent[i].cap;
}

#endif
