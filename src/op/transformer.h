/* transformer: the sub-layers of a Transformer block, written once, for models and for single ops.
 *
 * A sub-layer takes x [rows, D] and gives rows of the same shape: norm(x + f(x)), or x + f(norm(x)) if norm_first
 * (Vaswani et al. 2017, section 3; Xiong et al. 2020). Nodes are named "self.qkv", "self.attention", "cross.q",
 * "ffn.in" and so on. The fusions are decided here: bias, activation and residual are parameters of a matmul.
 */
#ifndef VKF_OP_TRANSFORMER_H
#define VKF_OP_TRANSFORMER_H

#include "op/build.h"

/* y = x w^T + bias; w [n,k], bias [n] or none. */
typedef struct vkf_linear {
  vkf_build_operand w, bias;
  uint32_t n, k;
} vkf_linear;

/* Over `width` columns; either operand may be missing. Width 0: there is no norm at all. */
typedef struct vkf_block_norm {
  vkf_build_operand weight, bias;
  uint32_t width;
} vkf_block_norm;

/* What the layers of a stack share. */
typedef struct vkf_block_form {
  uint32_t n_heads, n_kv_heads, key_width, value_width;
  float scale;          /* of the scores */
  vkf_format kv_format; /* of keys and values in temporaries */
  bool causal;          /* self-attention */
  bool norm_first;
  vkf_norm_kind norm_kind;
  float norm_eps;
  vkf_activation activation;
  float residual_scale; /* of what a sub-layer without biases adds to the residual; 0: 1 */
  bool is_gated; /* activation(gate) * up: rows of gate and of up alternate in `in` of a feed-forward sub-layer */
} vkf_block_form;

/* Rows of queries, and the dimension of the keys that they see. */
typedef struct vkf_block_stream {
  vkf_dim seqs, tokens, rows; /* B, S, BS or R, T, RT */
  vkf_dim keys, past;
  vkf_build_operand spans; /* of a packed batch; NONE: a rectangle */
  bool to_slots;           /* keys and values of a packed source go to slots */
} vkf_block_stream;

typedef struct vkf_attention_layer {
  vkf_linear q;  /* self-attention without kv: queries, keys and values side by side */
  vkf_linear kv; /* keys and values side by side; n 0: none */
  vkf_linear out;
  vkf_block_norm norm;
  vkf_build_operand head_norm; /* of the heads of queries and keys; NONE: none */
  uint32_t window;             /* keys that a query sees; 0: all */
} vkf_attention_layer;

/* What an attention reads besides x; NONE: absent. */
typedef struct vkf_attention_inputs {
  vkf_build_operand k, v; /* self-attention: the caches, NONE: temporaries; cross-attention: what is attended */
  vkf_build_operand mask, ancestry; /* see vkf_attention_params */
  vkf_build_operand spans;          /* cross-attention in a packed batch: where its keys are; else NONE */
  vkf_build_operand positions;      /* of the rows; read with `turns` */
  vkf_build_operand turns;          /* the table of rotary positions, which turns queries and keys */
  uint32_t rotary, n_positions;     /* columns of a head that turn, rows of the table */
  vkf_build_operand relative;       /* additive bias of the scores by distance, a row a head */
  uint32_t bias_before, bias_after; /* its largest distances */
  const char *weights_output;       /* not NULL: the weights are computed too, as an output of this name */
  const char *projections_output;   /* not NULL: the rows of the queries become an output of this name; those of
                                       self-attention have keys and values in them, normed and turned */
} vkf_attention_inputs;

uint32_t vkf_block_matmul(vkf_build *b, const char *name, vkf_dim rows, uint32_t x, const vkf_linear *linear,
                          vkf_activation activation, uint32_t residual);
uint32_t vkf_block_norm_rows(vkf_build *b, const vkf_block_form *form, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_block_norm *norm);
/* Appends keys and values, the columns of x from k_column on, to k and v (NONE: new temporaries, one after the other).
 * Returns the slot of k. */
uint32_t vkf_block_append(vkf_build *b, const vkf_block_form *form, const char *name, const vkf_block_stream *stream,
                          uint32_t x, uint32_t k_column, vkf_build_operand k, vkf_build_operand v);

/* The sub-layers: y + f(norm(x)) or norm(y + f(x)). y is x unless sub-layers are parallel; VKF_NO_SLOT: no residual. */
uint32_t vkf_block_self_attention(vkf_build *b, const vkf_block_form *form, const vkf_block_stream *stream,
                                  const vkf_attention_layer *layer, const vkf_attention_inputs *inputs, uint32_t x,
                                  uint32_t y);
/* All beams of a sentence (vkf_dims says how many) share its keys. */
uint32_t vkf_block_cross_attention(vkf_build *b, const vkf_block_form *form, const vkf_block_stream *stream,
                                   const vkf_attention_layer *layer, const vkf_attention_inputs *inputs, uint32_t x,
                                   uint32_t y);
uint32_t vkf_block_feed_forward(vkf_build *b, const vkf_block_form *form, vkf_dim rows, const vkf_linear *in,
                                const vkf_linear *out, const vkf_block_norm *norm, uint32_t x, uint32_t y);

#endif
