/* layers: what plan.c puts stages together from. Reads only the block description. */
#ifndef VKF_MODEL_LAYERS_H
#define VKF_MODEL_LAYERS_H

#include "model/builder.h"

/* One stage being built. */
typedef struct vkf_model_stage {
  vkf_model_builder *b;
  const vkf_model_stack *stack;
  vkf_dim seqs, tokens, rows; /* B, S, BS or R, T, RT */
  vkf_dim keys, past;         /* of the self-attention */
  bool is_target;             /* keys and values are in the state, not temporary */
  const char *prefix;         /* of output names: "encoder_", "decoder_", "" */
  uint32_t turns;             /* table of rotary positions; VKF_NO_SLOT: none; both made by vkf_model_layers() */
  uint32_t relative;          /* bias of the scores; VKF_NO_SLOT: none */
} vkf_model_stage;

/* The blocks "embed" and "<stack>.0" and so on. Gives the states after the last layer, before a final norm; they are an
 * output only if none follows. */
uint32_t vkf_model_layers(vkf_model_stage *s);
/* The last states, after the final norm, as an output, if they are asked for. */
void vkf_model_output_last(const vkf_model_stage *s, uint32_t x);

/* Single nodes, named after the block and `name` (NULL: as the block). */
uint32_t vkf_model_matmul(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                          const vkf_model_linear *linear, vkf_activation activation, uint32_t residual);
uint32_t vkf_model_norm_rows(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_model_norm *weights);
/* Keys and values from the columns of `x` that begin at k_column into k and v (NONE: new temporaries, one after the
 * other). heads: whose widths. */
uint32_t vkf_model_append(const vkf_model_stage *s, const char *name, uint32_t x, uint32_t k_column, vkf_dim past,
                          const vkf_model_stack *heads, vkf_model_operand k, vkf_model_operand v);

#endif
