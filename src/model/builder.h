/* builder: nodes and slots put into a plan, one call a node. See plan.c for what is put.
 *
 * Shapes are asked of the ops (op/shape.h), so that neither slots nor inputs are described twice. The first failure
 * stays in `st`; after it every call does nothing and gives VKF_NO_SLOT, so that building reads as a straight line.
 */
#ifndef VKF_MODEL_BUILDER_H
#define VKF_MODEL_BUILDER_H

#include "model/internal.h"

typedef struct vkf_model_builder {
  const vkf_net *net;
  const vkf_plan_request *request;
  vkf_arena *arena;
  vkf_plan *plan; /* with the arrays below */
  vkf_slot *slots;
  vkf_node *nodes;
  vkf_block *blocks;
  size_t slots_capacity, nodes_capacity, blocks_capacity;
  vkf_status st;
} vkf_model_builder;

/* What a node reads or writes. A slot that is named by kind and index is made when it is first met. */
typedef struct vkf_model_operand {
  enum { VKF_OPERAND_NONE, VKF_OPERAND_SLOT, VKF_OPERAND_INDEXED } how;
  vkf_slot_kind kind; /* INDEXED: weight, state or input */
  uint32_t index;     /* of the slot, or `index` of its kind */
} vkf_model_operand;
vkf_model_operand vkf_model_slot(uint32_t slot);          /* VKF_NO_SLOT: none */
vkf_model_operand vkf_model_weight_slot(uint32_t weight); /* VKF_NO_WEIGHT: none */
vkf_model_operand vkf_model_state(uint32_t layer, vkf_state_part part);
/* Present only if asked for. */
vkf_model_operand vkf_model_input(vkf_input input, bool is_asked_for);

/* What follows belongs to a block of this name. */
void vkf_model_block(vkf_model_builder *b, const char *fmt, ...) VKF_PRINTF(2, 3);

typedef struct vkf_model_node {
  vkf_op op;
  const char *name; /* after the block's name and a dot; NULL: as the block */
  vkf_params params;
  vkf_model_operand in[VKF_MAX_INPUTS];
  vkf_model_operand out[VKF_MAX_OUTPUTS]; /* NONE: a new temporary */
} vkf_model_node;
/* The slot of its first output; the second, if there is one, is the next slot where both are temporaries. */
uint32_t vkf_model_add_node(vkf_model_builder *b, const vkf_model_node *node);
/* A float table that is made now: rows of `width`, not yet filled. *data: where to. */
uint32_t vkf_model_add_constant(vkf_model_builder *b, const char *name, uint32_t rows, uint32_t width, float **data);
/* The same for int32 [n]. */
uint32_t vkf_model_add_indices(vkf_model_builder *b, const char *name, uint32_t n, int32_t **data);
/* The host reads this slot after the run, under this name. A slot has one name: the first. */
void vkf_model_output(vkf_model_builder *b, uint32_t slot, const char *fmt, ...) VKF_PRINTF(3, 4);

#endif
