/* layers: the parts from which plan.c builds stages. Reads only the block description. */
#ifndef VKF_MODEL_LAYERS_H
#define VKF_MODEL_LAYERS_H

#include "model/internal.h"
#include "op/transformer.h"

/* One stage being built. */
typedef struct vkf_model_stage {
  vkf_build *b;
  const vkf_net *net;
  const vkf_plan_request *request;
  const vkf_model_stack *stack;
  vkf_block_stream stream;
  bool is_target;     /* keys and values are in the state, not temporary */
  const char *prefix; /* of output names: "encoder_", "decoder_", "" */
  /* Makes an output of what the head computes from the states x before layer i; NULL: it is not requested. */
  void (*read_out)(const struct vkf_model_stage *s, uint32_t i, uint32_t x);
  /* Set by vkf_model_layers(): the table of rotary positions, the buckets of distances, and the bias of all layers'
   * scores; VKF_NO_SLOT: none. */
  uint32_t turns, buckets, relative;
} vkf_model_stage;

/* Builds the blocks "embed" and "<stack>.0" and so on. Returns the states after the last layer, before a final norm and
 * embed_out; they are the last states, as an output, only if neither follows. */
uint32_t vkf_model_layers(vkf_model_stage *s);
/* Outputs the last states, after the final norm and embed_out, if requested. */
void vkf_model_output_last(const vkf_model_stage *s, uint32_t x);

/* Operands: a weight (VKF_NO_WEIGHT: none), a cache, an input (present only if requested). */
vkf_build_operand vkf_model_weight_slot(uint32_t weight);
vkf_build_operand vkf_model_state(uint32_t layer, vkf_state_part part);
vkf_build_operand vkf_model_input(vkf_input input, bool is_asked_for);
vkf_block_form vkf_model_form(const vkf_model_stack *stack);

/* Single nodes, named after the block and `name` (NULL: as the block). */
uint32_t vkf_model_matmul(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                          const vkf_model_linear *linear, vkf_activation activation, uint32_t residual);
uint32_t vkf_model_norm_rows(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_model_norm *norm);

#endif
