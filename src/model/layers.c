/* layers: a stack from ids to its last states, node by node. See layers.h.
 *
 * Decides the fusions: bias, activation and residual are parameters of a matmul; the norm stands before a sub-layer or
 * after its residual.
 */
#include "model/layers.h"

#include <stdio.h>
#include <string.h>

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

uint32_t vkf_model_matmul(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                          const vkf_model_linear *linear, vkf_activation activation, uint32_t residual) {
  const uint32_t *shape = s->b->net->infos[linear->weight].shape;
  vkf_model_node node = {
      .op = VKF_OP_MATMUL,
      .name = name,
      .params.matmul = {.rows = rows, .n = shape[0], .k = shape[1], .activation = activation},
      .in = {[VKF_MATMUL_X] = vkf_model_slot(x),
             [VKF_MATMUL_W] = vkf_model_weight_slot(linear->weight),
             [VKF_MATMUL_BIAS] = vkf_model_weight_slot(linear->bias),
             [VKF_MATMUL_RESIDUAL] = vkf_model_slot(residual)},
  };
  return vkf_model_add_node(s->b, &node);
}

uint32_t vkf_model_norm_rows(const vkf_model_stage *s, const char *name, uint32_t x, const vkf_model_norm *weights) {
  vkf_model_node node = {
      .op = VKF_OP_NORM,
      .name = name,
      .params.norm = {.rows = s->rows,
                      .width = s->b->net->info.d_model,
                      .kind = s->stack->norm_kind,
                      .eps = s->stack->norm_eps},
      .in = {[VKF_NORM_X] = vkf_model_slot(x),
             [VKF_NORM_WEIGHT] = vkf_model_weight_slot(weights->weight),
             [VKF_NORM_BIAS] = vkf_model_weight_slot(weights->bias)},
  };
  return vkf_model_add_node(s->b, &node);
}

/* Keys and values from the columns of `x` that begin at k_column into k and v: new temporaries, or the state. */
uint32_t vkf_model_append(const vkf_model_stage *s, const char *name, uint32_t x, uint32_t k_column, vkf_dim past,
                          const vkf_model_stack *heads, vkf_model_operand k, vkf_model_operand v) {
  vkf_model_node node = {
      .op = VKF_OP_APPEND,
      .name = name,
      .params.append = {.seqs = s->seqs,
                        .tokens = s->tokens,
                        .past = past,
                        .n_heads = heads->n_kv_heads,
                        .key_width = heads->key_width,
                        .value_width = heads->value_width,
                        .k_column = k_column,
                        .v_column = k_column + heads->n_kv_heads * heads->key_width},
      .in = {[VKF_APPEND_X] = vkf_model_slot(x)},
      .out = {k, v},
  };
  return vkf_model_add_node(s->b, &node);
}

/* The attention node, and beside it, if they are asked for, its weights as an output. */
static uint32_t attention(const vkf_model_stage *s, const char *name, const char *output, uint32_t layer,
                          const vkf_attention_params *params, const vkf_model_operand in[VKF_MAX_INPUTS]) {
  char node_name[48];
  vkf_model_node node = {.op = VKF_OP_ATTENTION, .name = node_name, .params.attention = *params};
  memcpy(node.in, in, sizeof node.in);
  snprintf(node_name, sizeof node_name, "%s.attention", name);
  uint32_t result = vkf_model_add_node(s->b, &node);
  if (!s->b->request->attentions) return result;
  node.op = VKF_OP_ATTENTION_WEIGHTS;
  node.params = (vkf_params){.attention_weights = *params};
  node.in[VKF_ATTENTION_V] = vkf_model_slot(VKF_NO_SLOT);
  snprintf(node_name, sizeof node_name, "%s.weights", name);
  vkf_model_output(s->b, vkf_model_add_node(s->b, &node), "%s.%u", output, layer);
  return result;
}

/* ---- sub-layers: x to x ------------------------------------------------------------------------------------------ */

static uint32_t before(const vkf_model_stage *s, const char *name, uint32_t x, const vkf_model_norm *weights) {
  return s->stack->norm_first ? vkf_model_norm_rows(s, name, x, weights) : x;
}

static uint32_t after(const vkf_model_stage *s, const char *name, uint32_t x, const vkf_model_norm *weights) {
  return s->stack->norm_first ? x : vkf_model_norm_rows(s, name, x, weights);
}

static vkf_attention_params attention_params(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  return (vkf_attention_params){.seqs = s->seqs,
                                .queries = s->tokens,
                                .past = VKF_DIM_ZERO,
                                .shared = VKF_DIM_ONE,
                                .n_heads = stack->n_heads,
                                .n_kv_heads = stack->n_kv_heads,
                                .key_width = stack->key_width,
                                .value_width = stack->value_width,
                                .scale = stack->scale};
}

static uint32_t self_attention(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  const vkf_model_stack *stack = s->stack;
  const vkf_model_attention *weights = &stack->layers[i].self;
  const vkf_plan_request *request = s->b->request;
  vkf_model_operand k = {0}, v = {0};
  if (s->is_target) {
    k = vkf_model_state(i, VKF_STATE_SELF_K);
    v = vkf_model_state(i, VKF_STATE_SELF_V);
  }
  uint32_t h = before(s, "self.norm", x, &weights->norm);
  uint32_t qkv = vkf_model_matmul(s, "self.qkv", s->rows, h, &weights->q, VKF_ACT_NONE, VKF_NO_SLOT);
  uint32_t keys = vkf_model_append(s, "self.append", qkv, stack->n_heads * stack->key_width, s->past, stack, k, v);
  if (!s->is_target) {
    k = vkf_model_slot(keys);
    v = vkf_model_slot(keys + 1);
  }
  vkf_attention_params params = attention_params(s);
  params.keys = s->keys;
  params.past = s->past;
  params.causal = stack->causal;
  vkf_model_operand in[VKF_MAX_INPUTS] = {
      [VKF_ATTENTION_Q] = vkf_model_slot(qkv),
      [VKF_ATTENTION_K] = k,
      [VKF_ATTENTION_V] = v,
      [VKF_ATTENTION_MASK] = s->is_target ? vkf_model_input(VKF_INPUT_TARGET_MASK, request->target_mask)
                                          : vkf_model_input(VKF_INPUT_MASK, request->mask),
      [VKF_ATTENTION_ANCESTRY] = vkf_model_input(VKF_INPUT_ANCESTRY, s->is_target && request->ancestry),
  };
  char output[32];
  snprintf(output, sizeof output, "%sattentions", s->prefix);
  uint32_t a = attention(s, "self", output, i, &params, in);
  uint32_t y = vkf_model_matmul(s, "self.out", s->rows, a, &weights->out, VKF_ACT_NONE, x);
  return after(s, "self.norm", y, &weights->norm);
}

/* Keys and values are in the state, once a sentence: the block "cross" of the other stage put them there. */
static uint32_t cross_attention(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  const vkf_model_attention *weights = &s->stack->layers[i].cross;
  uint32_t h = before(s, "cross.norm", x, &weights->norm);
  uint32_t q = vkf_model_matmul(s, "cross.q", s->rows, h, &weights->q, VKF_ACT_NONE, VKF_NO_SLOT);
  vkf_attention_params params = attention_params(s);
  params.keys = VKF_DIM_S;
  params.shared = VKF_DIM_BEAMS;
  vkf_model_operand in[VKF_MAX_INPUTS] = {
      [VKF_ATTENTION_Q] = vkf_model_slot(q),
      [VKF_ATTENTION_K] = vkf_model_state(i, VKF_STATE_CROSS_K),
      [VKF_ATTENTION_V] = vkf_model_state(i, VKF_STATE_CROSS_V),
      [VKF_ATTENTION_MASK] = vkf_model_input(VKF_INPUT_MASK, s->b->request->mask),
  };
  uint32_t a = attention(s, "cross", "cross_attentions", i, &params, in);
  uint32_t y = vkf_model_matmul(s, "cross.out", s->rows, a, &weights->out, VKF_ACT_NONE, x);
  return after(s, "cross.norm", y, &weights->norm);
}

static uint32_t feed_forward(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  const vkf_model_layer *weights = &s->stack->layers[i];
  uint32_t h = before(s, "ffn.norm", x, &weights->ffn_norm);
  uint32_t f = vkf_model_matmul(s, "ffn.in", s->rows, h, &weights->ffn_in, s->stack->activation, VKF_NO_SLOT);
  uint32_t y = vkf_model_matmul(s, "ffn.out", s->rows, f, &weights->ffn_out, VKF_ACT_NONE, x);
  return after(s, "ffn.norm", y, &weights->ffn_norm);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static uint32_t embed(const vkf_model_stage *s) {
  vkf_model_builder *b = s->b;
  const vkf_model_stack *stack = s->stack;
  uint32_t width = b->net->info.d_model;
  bool has_positions = stack->positions != VKF_POSITION_NONE;
  vkf_model_block(b, "embed");
  vkf_model_operand table = {0};
  uint32_t n_positions = 0;
  if (stack->positions == VKF_POSITION_LEARNED) {
    table = vkf_model_weight_slot(stack->position_table);
    n_positions = stack->n_positions;
  } else if (has_positions) {
    float *data;
    vkf_dims capacity = vkf_dims_make(&b->plan->capacity);
    n_positions = capacity.v[s->keys];
    table = vkf_model_slot(vkf_model_add_constant(b, "sinusoids", n_positions, width, &data));
    if (data != NULL) vkf_model_sinusoids(stack->positions, n_positions, width, data);
  }
  vkf_model_node node = {
      .op = VKF_OP_EMBED,
      .params.embed = {.rows = s->rows,
                       .width = width,
                       .n_ids = stack->vocab,
                       .n_positions = n_positions,
                       .scale = stack->embed_scale},
      .in = {[VKF_EMBED_IDS] = vkf_model_input(s->is_target ? VKF_INPUT_TARGET_IDS : VKF_INPUT_IDS, true),
             [VKF_EMBED_TABLE] = vkf_model_weight_slot(stack->table),
             [VKF_EMBED_POSITIONS] =
                 vkf_model_input(s->is_target ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS, has_positions),
             [VKF_EMBED_POSITION_TABLE] = table},
  };
  return vkf_model_add_node(b, &node);
}

/* The states number `i` as an output, where they are asked for. */
void vkf_model_output_state(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  const vkf_plan_request *request = s->b->request;
  bool is_last = i == s->stack->n_layers, has_last_name = s->b->net->names[s->is_target][0] != NULL;
  if (is_last && has_last_name && (request->hidden_states || request->last_hidden_state))
    vkf_model_output(s->b, x, "%s", s->b->net->names[s->is_target][0]);
  else if (request->hidden_states)
    vkf_model_output(s->b, x, "%shidden_states.%u", s->prefix, i);
}

/* Embeddings and layers. The last states are an output here only if no final norm follows. */
uint32_t vkf_model_layers(const vkf_model_stage *s) {
  uint32_t x = embed(s);
  vkf_model_output_state(s, 0, x);
  for (uint32_t i = 0; i < s->stack->n_layers; i++) {
    vkf_model_block(s->b, "%s.%u", s->stack->name, i);
    x = self_attention(s, i, x);
    if (s->stack->has_cross) x = cross_attention(s, i, x);
    x = feed_forward(s, i, x);
    if (i + 1 < s->stack->n_layers || !s->stack->has_final_norm) vkf_model_output_state(s, i + 1, x);
  }
  return x;
}
