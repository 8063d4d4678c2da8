/* build: builds a plan node by node. Models, cases, benchmarks and single ops all use it.
 *
 * It asks the ops for shapes (op/shape.h), so neither slots nor operands are described twice. The first failure stays
 * in `st`; after it every call does nothing and returns VKF_NO_SLOT, so callers need to check only once, at the end.
 */
#ifndef VKF_OP_BUILD_H
#define VKF_OP_BUILD_H

#include "op/plan.h"

typedef struct vkf_build {
  vkf_env *env;
  vkf_arena *arena; /* holds the plan's arrays, names and tables; outlives the plan */
  vkf_plan plan;    /* the caller sets its capacity before the first node */
  vkf_slot *slots;  /* the plan's, writable until the plan is used */
  size_t slots_capacity, nodes_capacity, blocks_capacity;
  vkf_status st;
  /* Sets the name (NULL: no memory) and format of a slot that an operand names by kind and index. */
  void (*describe)(void *user, vkf_slot *slot);
  /* Returns the full name of a node or output that is "self.q" or "self.append.k" in its block; NULL: the block's name,
   * a dot and this. */
  const char *(*label)(void *user, const char *name);
  void *user; /* for both */
} vkf_build;

/* What a node reads or writes. A slot that is named by kind and index is made at its first use. */
typedef struct vkf_build_operand {
  enum { VKF_BUILD_NONE, VKF_BUILD_SLOT, VKF_BUILD_INDEXED } how;
  vkf_slot_kind kind; /* INDEXED: weight, state or input */
  uint32_t index;     /* of the slot, or `index` of its kind */
} vkf_build_operand;

/* VKF_NO_SLOT: none. */
static inline vkf_build_operand vkf_build_slot_operand(uint32_t slot) {
  return (vkf_build_operand){.how = slot == VKF_NO_SLOT ? VKF_BUILD_NONE : VKF_BUILD_SLOT, .index = slot};
}
static inline vkf_build_operand vkf_build_indexed(vkf_slot_kind kind, uint32_t index) {
  return (vkf_build_operand){.how = VKF_BUILD_INDEXED, .kind = kind, .index = index};
}

/* Begins a block of this name, to which the next nodes belong. */
void vkf_build_block(vkf_build *b, const char *name);
/* The same for layer i of a stack: "encoder.3". */
void vkf_build_layer(vkf_build *b, const char *stack, uint32_t i);

typedef struct vkf_build_node_params {
  vkf_op op;
  const char *name; /* within the block; NULL: the block's name */
  vkf_params params;
  vkf_build_operand in[VKF_MAX_INPUTS];
  vkf_build_operand out[VKF_MAX_OUTPUTS]; /* NONE: a new temporary */
  vkf_format format;                      /* of new temporaries for keys and values */
} vkf_build_node_params;
/* Adds a node. Returns the slot of its first output. If the second is a new temporary as well, it is the next slot. */
uint32_t vkf_build_node(vkf_build *b, const vkf_build_node_params *node);

/* Adds a copy of *slot. */
uint32_t vkf_build_slot(vkf_build *b, const vkf_slot *slot);
/* Adds a constant, float [rows, width]. The caller fills *data (NULL after a failure). */
uint32_t vkf_build_table(vkf_build *b, const char *name, uint32_t rows, uint32_t width, float **data);
/* The same for int32 [n]. */
uint32_t vkf_build_indices(vkf_build *b, const char *name, uint32_t n, int32_t **data);
/* Lets the host read this slot by this name after a run. A slot keeps the first name that it gets. */
void vkf_build_output(vkf_build *b, uint32_t slot, const char *fmt, ...) VKF_PRINTF(3, 4);

#endif
