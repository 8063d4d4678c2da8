/* build: a plan put together node by node. Models, cases, benchmarks and single ops all build with it.
 *
 * Shapes are asked of the ops (op/shape.h), so that neither slots nor operands are described twice. The first failure
 * stays in `st`; after it every call does nothing and gives VKF_NO_SLOT, so that building reads as a straight line.
 */
#ifndef VKF_OP_BUILD_H
#define VKF_OP_BUILD_H

#include "op/plan.h"

typedef struct vkf_build {
  vkf_env *env;
  vkf_arena *arena; /* of the plan's arrays, its names and what is made with it; it outlives the plan */
  vkf_plan plan;    /* capacity: set by the caller before the first node */
  vkf_slot *slots;  /* the plan's, writable until the plan is used */
  size_t slots_capacity, nodes_capacity, blocks_capacity;
  vkf_status st;
  /* Completes a slot that an operand names by kind and index: its name (NULL: no memory) and format. */
  void (*describe)(void *user, vkf_slot *slot);
  /* The name of a node or of one of its outputs, "self.q" or "self.append.k"; NULL: the block's name, a dot and this.
   */
  const char *(*label)(void *user, const char *name);
  void *user; /* of both */
} vkf_build;

/* What a node reads or writes. A slot that is named by kind and index is made when it is first met. */
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

/* What follows belongs to a block of this name. */
void vkf_build_block(vkf_build *b, const char *name);
/* The same for layer i of a stack: "encoder.3". */
void vkf_build_layer(vkf_build *b, const char *stack, uint32_t i);

typedef struct vkf_build_node_params {
  vkf_op op;
  const char *name; /* within the block; NULL: as the block */
  vkf_params params;
  vkf_build_operand in[VKF_MAX_INPUTS];
  vkf_build_operand out[VKF_MAX_OUTPUTS]; /* NONE: a new temporary */
  vkf_format format;                      /* of its new temporaries that may be stored so: keys and values */
} vkf_build_node_params;
/* The slot of its first output; the second, if there is one, is the next slot where both are temporaries. */
uint32_t vkf_build_node(vkf_build *b, const vkf_build_node_params *node);

/* A slot as it is. */
uint32_t vkf_build_slot(vkf_build *b, const vkf_slot *slot);
/* A float table that is made now: rows of `width`, not yet filled. *data: where to; NULL after a failure. */
uint32_t vkf_build_table(vkf_build *b, const char *name, uint32_t rows, uint32_t width, float **data);
/* The same for int32 [n]. */
uint32_t vkf_build_indices(vkf_build *b, const char *name, uint32_t n, int32_t **data);
/* The host reads this slot after the run, under this name. A slot has one name: the first. */
void vkf_build_output(vkf_build *b, uint32_t slot, const char *fmt, ...) VKF_PRINTF(3, 4);

#endif
