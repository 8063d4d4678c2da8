/* transformer: see transformer.h. */
#include "op/transformer.h"

#include <stdio.h>
#include <string.h>

static vkf_build_operand slot(uint32_t index) {
  return vkf_build_slot_operand(index);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static vkf_build_node_params matmul_node(const char *name, vkf_dim rows, uint32_t x, const vkf_linear *linear,
                                         vkf_activation activation, uint32_t residual) {
  return (vkf_build_node_params){
      .op = VKF_OP_MATMUL,
      .name = name,
      .params.matmul = {.rows = rows, .n = linear->n, .k = linear->k, .activation = activation},
      .in = {[VKF_MATMUL_X] = slot(x),
             [VKF_MATMUL_W] = linear->w,
             [VKF_MATMUL_BIAS] = linear->bias,
             [VKF_MATMUL_RESIDUAL] = slot(residual)},
  };
}

uint32_t vkf_block_matmul(vkf_build *b, const char *name, vkf_dim rows, uint32_t x, const vkf_linear *linear,
                          vkf_activation activation, uint32_t residual) {
  const vkf_build_node_params node = matmul_node(name, rows, x, linear, activation, residual);
  return vkf_build_node(b, &node);
}

uint32_t vkf_block_norm_rows(vkf_build *b, const vkf_block_form *form, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_block_norm *norm) {
  const vkf_build_node_params node = {
      .op = VKF_OP_NORM,
      .name = name,
      .params.norm = {.rows = rows, .width = norm->width, .kind = form->norm_kind, .eps = form->norm_eps},
      .in = {[VKF_NORM_X] = slot(x), [VKF_NORM_WEIGHT] = norm->weight, [VKF_NORM_BIAS] = norm->bias},
  };
  return vkf_build_node(b, &node);
}

static vkf_build_node_params append_node(const vkf_block_form *form, const char *name, const vkf_block_stream *stream,
                                         uint32_t x, uint32_t k_column, vkf_build_operand k, vkf_build_operand v) {
  return (vkf_build_node_params){
      .op = VKF_OP_APPEND,
      .name = name,
      .params.append = {.seqs = stream->seqs,
                        .tokens = stream->tokens,
                        .past = stream->past,
                        .n_heads = form->n_kv_heads,
                        .key_width = form->key_width,
                        .value_width = form->value_width,
                        .k_column = k_column,
                        .v_column = k_column + form->n_kv_heads * form->key_width,
                        .packed = stream->spans.how != VKF_BUILD_NONE,
                        .to_slots = stream->to_slots},
      .in = {[VKF_APPEND_X] = slot(x), [VKF_APPEND_SPANS] = stream->spans},
      .out = {k, v},
      .format = form->kv_format,
  };
}

uint32_t vkf_block_append(vkf_build *b, const vkf_block_form *form, const char *name, const vkf_block_stream *stream,
                          uint32_t x, uint32_t k_column, vkf_build_operand k, vkf_build_operand v) {
  const vkf_build_node_params node = append_node(form, name, stream, x, k_column, k, v);
  return vkf_build_node(b, &node);
}

/* Norms each head of queries and keys; values pass. */
static uint32_t head_norm(vkf_build *b, const vkf_block_form *form, vkf_dim rows, uint32_t qkv,
                          vkf_build_operand weight) {
  const vkf_build_node_params node = {
      .op = VKF_OP_NORM,
      .name = "self.head_norm",
      .params.norm = {.rows = rows,
                      .width = form->key_width,
                      .kind = form->norm_kind,
                      .eps = form->norm_eps,
                      .groups = form->n_heads + form->n_kv_heads,
                      .rest = form->n_kv_heads * form->value_width},
      .in = {[VKF_NORM_X] = slot(qkv), [VKF_NORM_WEIGHT] = weight},
  };
  return vkf_build_node(b, &node);
}

/* Appends keys and values, and turns the heads of queries and keys. Returns the slot of the queries; *keys: that of the
 * keys. */
static uint32_t append_turned(vkf_build *b, const vkf_block_form *form, const vkf_block_stream *stream,
                              const vkf_attention_inputs *inputs, uint32_t qkv, uint32_t *keys) {
  const uint32_t k_column = form->n_heads * form->key_width;
  vkf_build_node_params node = append_node(form, "self.append", stream, qkv, k_column, inputs->k, inputs->v);
  vkf_append_params *p = &node.params.append;
  p->n_q_heads = form->n_heads;
  p->rotary = inputs->rotary;
  p->n_positions = inputs->n_positions;
  p->pairs = VKF_ROPE_HALVES;
  node.in[VKF_APPEND_POSITIONS] = inputs->positions;
  node.in[VKF_APPEND_TABLE] = inputs->turns;
  *keys = vkf_build_node(b, &node);
  return b->st ? VKF_NO_SLOT : b->plan.nodes[b->plan.n_nodes - 1].out[VKF_APPEND_Q];
}

/* Turns the heads of queries and keys; values pass. */
static uint32_t rotate(vkf_build *b, const vkf_block_form *form, vkf_dim rows, const vkf_attention_inputs *inputs,
                       uint32_t qkv) {
  const uint32_t q = form->n_heads * form->key_width, k = form->n_kv_heads * form->key_width;
  const vkf_build_node_params node = {
      .op = VKF_OP_ROPE,
      .name = "self.rope",
      .params.rope = {.rows = rows,
                      .width = q + k + form->n_kv_heads * form->value_width,
                      .n_heads = form->n_heads,
                      .n_kv_heads = form->n_kv_heads,
                      .k_column = q,
                      .head_width = form->key_width,
                      .rotary = inputs->rotary,
                      .n_positions = inputs->n_positions,
                      .pairs = VKF_ROPE_HALVES},
      .in = {[VKF_ROPE_X] = slot(qkv), [VKF_ROPE_POSITIONS] = inputs->positions, [VKF_ROPE_TABLE] = inputs->turns},
  };
  return vkf_build_node(b, &node);
}

/* Adds the attention node and, if they are asked for, one that computes its weights as an output. */
static uint32_t attention(vkf_build *b, const char *name, const char *weights_output,
                          const vkf_attention_params *params, const vkf_build_operand in[VKF_MAX_INPUTS]) {
  char node_name[48];
  vkf_build_node_params node = {.op = VKF_OP_ATTENTION, .name = node_name, .params.attention = *params};
  memcpy(node.in, in, sizeof node.in);
  snprintf(node_name, sizeof node_name, "%s.attention", name);
  const uint32_t result = vkf_build_node(b, &node);
  if (!weights_output) return result;
  node.op = VKF_OP_ATTENTION_WEIGHTS;
  node.params = (vkf_params){.attention_weights = *params};
  node.in[VKF_ATTENTION_V] = slot(VKF_NO_SLOT);
  snprintf(node_name, sizeof node_name, "%s.weights", name);
  vkf_build_output(b, vkf_build_node(b, &node), "%s", weights_output);
  return result;
}

/* ---- sub-layers -------------------------------------------------------------------------------------------------- */

static uint32_t pre_norm(vkf_build *b, const vkf_block_form *form, const char *name, vkf_dim rows, uint32_t x,
                         const vkf_block_norm *norm) {
  return form->norm_first && norm->width ? vkf_block_norm_rows(b, form, name, rows, x, norm) : x;
}

static uint32_t post_norm(vkf_build *b, const vkf_block_form *form, const char *name, vkf_dim rows, uint32_t x,
                          const vkf_block_norm *norm) {
  return !form->norm_first && norm->width ? vkf_block_norm_rows(b, form, name, rows, x, norm) : x;
}

/* Adds the last matmul of a sub-layer, which adds its residual. */
static uint32_t residual_sum(vkf_build *b, const vkf_block_form *form, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_linear *out, uint32_t residual) {
  vkf_build_node_params node = matmul_node(name, rows, x, out, VKF_ACT_NONE, residual);
  node.params.matmul.scale = form->residual_scale;
  return vkf_build_node(b, &node);
}

static vkf_attention_params attention_params(const vkf_block_form *form, const vkf_block_stream *stream) {
  return (vkf_attention_params){.seqs = stream->seqs,
                                .queries = stream->tokens,
                                .keys = stream->keys,
                                .past = stream->past,
                                .shared = VKF_DIM_ONE,
                                .n_heads = form->n_heads,
                                .n_kv_heads = form->n_kv_heads,
                                .key_width = form->key_width,
                                .value_width = form->value_width,
                                .scale = form->scale};
}

uint32_t vkf_block_self_attention(vkf_build *b, const vkf_block_form *form, const vkf_block_stream *stream,
                                  const vkf_attention_layer *layer, const vkf_attention_inputs *inputs, uint32_t x,
                                  uint32_t y) {
  const vkf_dim rows = stream->rows;
  const bool joined = layer->kv.n == 0;
  const uint32_t h = pre_norm(b, form, "self.norm", rows, x, &layer->norm);
  uint32_t q = vkf_block_matmul(b, joined ? "self.qkv" : "self.q", rows, h, &layer->q, VKF_ACT_NONE, VKF_NO_SLOT);
  uint32_t kv = joined ? q : vkf_block_matmul(b, "self.kv", rows, h, &layer->kv, VKF_ACT_NONE, VKF_NO_SLOT);
  if (layer->head_norm.how) kv = q = head_norm(b, form, rows, q, layer->head_norm);
  const bool turns = inputs->turns.how != VKF_BUILD_NONE, is_output = inputs->projections_output != NULL;
  uint32_t keys;
  if (turns && is_output) kv = q = rotate(b, form, rows, inputs, q);
  if (is_output) vkf_build_output(b, q, "%s", inputs->projections_output);
  if (turns && !is_output) {
    q = append_turned(b, form, stream, inputs, q, &keys);
  } else {
    const uint32_t k_column = joined ? form->n_heads * form->key_width : 0;
    keys = vkf_block_append(b, form, "self.append", stream, kv, k_column, inputs->k, inputs->v);
  }
  vkf_attention_params params = attention_params(form, stream);
  params.causal = form->causal;
  params.window = layer->window;
  params.packed = stream->spans.how != VKF_BUILD_NONE;
  params.bias_per_head = params.bias_by_distance = inputs->relative.how != VKF_BUILD_NONE;
  params.bias_before = inputs->bias_before;
  params.bias_after = inputs->bias_after;
  const vkf_build_operand in[VKF_MAX_INPUTS] = {
      [VKF_ATTENTION_Q] = slot(q),
      [VKF_ATTENTION_K] = inputs->k.how ? inputs->k : slot(keys),
      [VKF_ATTENTION_V] = inputs->v.how ? inputs->v : slot(keys + 1),
      [VKF_ATTENTION_MASK] = inputs->mask,
      [VKF_ATTENTION_BIAS] = inputs->relative,
      [VKF_ATTENTION_ANCESTRY] = inputs->ancestry,
      [VKF_ATTENTION_SPANS] = stream->spans,
  };
  const uint32_t a = attention(b, "self", inputs->weights_output, &params, in);
  const uint32_t sum = residual_sum(b, form, "self.out", rows, a, &layer->out, y);
  return post_norm(b, form, "self.norm", rows, sum, &layer->norm);
}

uint32_t vkf_block_cross_attention(vkf_build *b, const vkf_block_form *form, const vkf_block_stream *stream,
                                   const vkf_attention_layer *layer, const vkf_attention_inputs *inputs, uint32_t x,
                                   uint32_t y) {
  const vkf_dim rows = stream->rows;
  const uint32_t h = pre_norm(b, form, "cross.norm", rows, x, &layer->norm);
  const uint32_t q = vkf_block_matmul(b, "cross.q", rows, h, &layer->q, VKF_ACT_NONE, VKF_NO_SLOT);
  if (inputs->projections_output) vkf_build_output(b, q, "%s", inputs->projections_output);
  vkf_attention_params params = attention_params(form, stream);
  params.keys = VKF_DIM_S;
  params.past = VKF_DIM_ZERO;
  params.packed = inputs->spans.how != VKF_BUILD_NONE;
  params.shared = params.packed ? VKF_DIM_ONE : VKF_DIM_BEAMS;
  const vkf_build_operand in[VKF_MAX_INPUTS] = {
      [VKF_ATTENTION_Q] = slot(q),         [VKF_ATTENTION_K] = inputs->k,         [VKF_ATTENTION_V] = inputs->v,
      [VKF_ATTENTION_MASK] = inputs->mask, [VKF_ATTENTION_SPANS] = inputs->spans,
  };
  const uint32_t a = attention(b, "cross", inputs->weights_output, &params, in);
  const uint32_t sum = residual_sum(b, form, "cross.out", rows, a, &layer->out, y);
  return post_norm(b, form, "cross.norm", rows, sum, &layer->norm);
}

uint32_t vkf_block_feed_forward(vkf_build *b, const vkf_block_form *form, vkf_dim rows, const vkf_linear *in,
                                const vkf_linear *out, const vkf_block_norm *norm, uint32_t x, uint32_t y) {
  const uint32_t h = pre_norm(b, form, "ffn.norm", rows, x, norm);
  vkf_build_node_params node = matmul_node("ffn.in", rows, h, in, form->activation, VKF_NO_SLOT);
  node.params.matmul.is_gated = form->is_gated;
  const uint32_t f = vkf_build_node(b, &node);
  const uint32_t sum = residual_sum(b, form, "ffn.out", rows, f, out, y);
  return post_norm(b, form, "ffn.norm", rows, sum, norm);
}
