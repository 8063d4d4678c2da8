/* The shapes of an op's operands. One function for each op computes them from its parameters and a plan's capacity, for
 * op/build.h, vkf_plan_check() and the cases. What an op expects of its operands is written nowhere else.
 */
#ifndef VKF_OP_SHAPE_H
#define VKF_OP_SHAPE_H

#include "op/plan.h"

typedef struct vkf_operand_shape {
  const char *name; /* "x", "w", "bias"; NULL: the op has no such operand */
  vkf_dtype dtype;
  uint32_t rank;
  vkf_extent extent[VKF_MAX_SLOT_RANK];
  bool optional;
  bool loose;          /* capacities may be larger: caches, masks, rows that hold more columns than the op reads */
  bool stored;         /* its slot may have any storage format */
  uint32_t weight_use; /* of an input that is usually a weight: vkf_weight_use bits, with WEIGHT_OPERAND; else 0 */
} vkf_operand_shape;
enum { VKF_WEIGHT_OPERAND = 8 };

typedef struct vkf_op_shapes {
  vkf_operand_shape in[VKF_MAX_INPUTS];
  vkf_operand_shape out[VKF_MAX_OUTPUTS];
} vkf_op_shapes;

/* cap: the dimensions at capacity. node: its name, for messages. VKF_ERROR_ARGUMENT if parameters are not allowed. */
#define X(NAME, name)                                                                                           \
  vkf_status vkf_op_shape_##name(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap, \
                                 vkf_op_shapes *out);                                                           \
  vkf_cost vkf_op_cost_##name(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims);
VKF_OP_LIST(X)
#undef X

/* Gives the shapes of all operands of a node. */
vkf_status vkf_op_shapes_of(vkf_env *env, const vkf_plan *plan, const vkf_node *node, vkf_op_shapes *out);

#endif
