/* What the ops and the program that runs them share.
 *
 * vkf_vkop_describe_<op>() describes one dispatch: its operands in the order of the shader's bindings, push constants,
 * specialization constants. The program places slots, binds, computes grids and records. An op never calls the room
 * gpu. A weight that is larger than one binding is split into shards, with a dispatch for each. A variant with two
 * stages has a dispatch of each stage for each shard.
 *
 * Binding 0 of every shader is the step buffer (shaders/shared/step.h: the vkf_dims), binding 1 + i is operand i,
 * present or not (but see last_is_unbound). Push constants begin with uvec2 at[VKF_PUSH_OPERANDS], which the program
 * fills in; an operand that has no place there (a flag) starts where its binding starts:
 *   by storage buffer  at.x = its first element (of 4 bytes), at.y = of a table: the first row that is there
 *   by texel buffer    at.x = its first texel (of 16 bytes)
 *   by step buffer     at.x = its first element there; it has no binding of its own
 *   by address         at   = its 64-bit device address (low, high); its binding is not declared by the shader
 * followed by the op's own parameters (shaders/shared/params.h).
 */
#ifndef VKF_VKOP_DESCRIBE_H
#define VKF_VKOP_DESCRIBE_H

#include "kern/kern.h"
#include "shared/params.h"

#define VKF_MAX_OPERANDS 9
#define VKF_MAX_PUSH_BYTES 128
/* Instead of a slot: a word of the node, 0 before it ran. A kernel sets it if it cannot compute the node
 * (vkf_problem.wide): its output is then of no use, and another kernel takes over. */
#define VKF_FLAG_SLOT (UINT32_MAX - 1)
/* Instead of a slot: the node's scratch memory (vkf_kern_scratch_bytes()), in which the first stage of its variant
 * leaves results for the next one. Its contents are undefined when the node begins. */
#define VKF_SCRATCH_SLOT (UINT32_MAX - 2)

typedef struct vkf_operand {
  uint32_t slot; /* VKF_NO_SLOT: absent; its binding gets the step buffer */
  bool write;    /* else read */
  bool read;     /* also read (append keeps what it does not write) */
  bool shard;    /* the weight or table: only the shard of this dispatch */
  bool scales;   /* of a weight: the scales of its rows */
  vkf_access_kind access;
  uint32_t column;   /* rows of activations, a vector: where the shard of this dispatch begins */
  uint32_t row;      /* of a table: the first row that is there */
  vkf_format format; /* of a weight, of keys and values */
} vkf_operand;

typedef struct vkf_dispatch {
  vkf_operand operands[VKF_MAX_OPERANDS];
  uint32_t n_operands;
  bool last_is_unbound; /* the last operand has no binding: that of the weight covers its scales, or it is in the step
                           buffer */
  uint32_t constants[VKF_MAX_CONSTANTS];
  uint32_t n_constants;
  uint8_t params[VKF_MAX_PUSH_BYTES - VKF_PUSH_OPERANDS * 8];
  uint32_t params_bytes;
} vkf_dispatch;

/* What the description of a dispatch depends on. */
typedef struct vkf_node_view {
  const vkf_plan *plan;
  const vkf_node *node;
  const vkf_variant *variant; /* as picked */
  const vkf_problem *problem; /* at capacity */
  bool in_place;              /* the output takes over the bytes of input 0 */
  uint32_t stage;             /* of the variant */
  uint32_t first, rows;       /* of the weight or table that the node reads: the shard of this dispatch */
} vkf_node_view;

#define X(NAME, name)                                                                                               \
  void vkf_vkop_problem_##name(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out); \
  void vkf_vkop_describe_##name(const vkf_node_view *view, vkf_dispatch *out);
VKF_OP_LIST(X)
#undef X

#endif
