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

uint32_t vkf_model_norm_rows(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_model_norm *weights) {
  const vkf_net *net = s->b->net;
  vkf_model_node node = {
      .op = VKF_OP_NORM,
      .name = name,
      .params.norm = {.rows = rows,
                      .width =
                          weights->weight == VKF_NO_WEIGHT ? net->info.d_model : net->infos[weights->weight].shape[0],
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

/* The heads of queries and keys normed one by one; values pass. */
static uint32_t head_norm(const vkf_model_stage *s, const char *name, uint32_t qkv, uint32_t weight) {
  const vkf_model_stack *stack = s->stack;
  vkf_model_node node = {
      .op = VKF_OP_NORM,
      .name = name,
      .params.norm = {.rows = s->rows,
                      .width = stack->key_width,
                      .kind = stack->norm_kind,
                      .eps = stack->norm_eps,
                      .groups = stack->n_heads + stack->n_kv_heads,
                      .rest = stack->n_kv_heads * stack->value_width},
      .in = {[VKF_NORM_X] = vkf_model_slot(qkv), [VKF_NORM_WEIGHT] = vkf_model_weight_slot(weight)},
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
  return s->stack->norm_first ? vkf_model_norm_rows(s, name, s->rows, x, weights) : x;
}

static uint32_t after(const vkf_model_stage *s, const char *name, uint32_t x, const vkf_model_norm *weights) {
  return s->stack->norm_first ? x : vkf_model_norm_rows(s, name, s->rows, x, weights);
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

/* Queries, keys and values side by side: their heads normed and turned, where the stack does so. */
static uint32_t self_qkv(const vkf_model_stage *s, const vkf_model_attention *weights, uint32_t x) {
  uint32_t qkv = vkf_model_matmul(s, "self.qkv", s->rows, x, &weights->q, VKF_ACT_NONE, VKF_NO_SLOT);
  if (s->stack->has_head_norm) qkv = head_norm(s, "self.head_norm", qkv, weights->head_norm);
  return qkv;
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
  uint32_t qkv = self_qkv(s, weights, h);
  uint32_t keys = vkf_model_append(s, "self.append", qkv, stack->n_heads * stack->key_width, s->past, stack, k, v);
  if (!s->is_target) {
    k = vkf_model_slot(keys);
    v = vkf_model_slot(keys + 1);
  }
  vkf_attention_params params = attention_params(s);
  params.keys = s->keys;
  params.past = s->past;
  params.causal = stack->causal;
  params.window = stack->layers[i].window;
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

/* y + f(norm(x)); x and y differ where the sub-layers stand side by side. */
static uint32_t feed_forward(const vkf_model_stage *s, uint32_t i, uint32_t x, uint32_t y) {
  const vkf_model_layer *weights = &s->stack->layers[i];
  uint32_t h = before(s, "ffn.norm", x, &weights->ffn_norm);
  uint32_t f = vkf_model_matmul(s, "ffn.in", s->rows, h, &weights->ffn_in, s->stack->activation, VKF_NO_SLOT);
  uint32_t sum = vkf_model_matmul(s, "ffn.out", s->rows, f, &weights->ffn_out, VKF_ACT_NONE, y);
  return after(s, "ffn.norm", sum, &weights->ffn_norm);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* The table of positions, as rows that are added to embeddings; VKF_OPERAND_NONE: there is none. */
static vkf_model_operand position_table(const vkf_model_stage *s, uint32_t *n_positions, uint32_t *width) {
  const vkf_model_stack *stack = s->stack;
  const vkf_net *net = s->b->net;
  *n_positions = *width = 0;
  if (stack->positions == VKF_POSITION_NONE || stack->positions == VKF_POSITION_ROTARY)
    return vkf_model_slot(VKF_NO_SLOT);
  if (stack->positions == VKF_POSITION_LEARNED) {
    *n_positions = stack->n_positions;
    *width = net->infos[stack->position_table].shape[1];
    return vkf_model_weight_slot(stack->position_table);
  }
  float *data;
  vkf_dims capacity = vkf_dims_make(&s->b->plan->capacity);
  bool skips_pads = stack->position_ids == VKF_POSITION_IDS_NON_PADS;
  *n_positions = capacity.v[s->keys] + stack->position_offset + skips_pads;
  *width = net->info.d_model;
  uint32_t slot = vkf_model_add_constant(s->b, "sinusoids", *n_positions, *width, &data);
  if (data != NULL) vkf_model_sinusoids(stack->positions, *n_positions, *width, data);
  if (data != NULL && skips_pads) memset(data + (size_t)stack->position_offset * *width, 0, *width * sizeof *data);
  return vkf_model_slot(slot);
}

/* Rows of tables, whatever there is of them, added up. */
static uint32_t embed_rows(const vkf_model_stage *s, const char *name, vkf_embed_params params,
                           vkf_model_operand positions) {
  const vkf_model_stack *stack = s->stack;
  bool has_ids = params.n_ids > 0, has_positions = params.n_positions > 0, has_types = params.n_types > 0;
  params.rows = s->rows;
  vkf_model_node node = {
      .op = VKF_OP_EMBED,
      .name = name,
      .params.embed = params,
      .in = {[VKF_EMBED_IDS] = vkf_model_input(s->is_target ? VKF_INPUT_TARGET_IDS : VKF_INPUT_IDS, has_ids),
             [VKF_EMBED_TABLE] = vkf_model_weight_slot(has_ids ? stack->table : VKF_NO_WEIGHT),
             [VKF_EMBED_POSITIONS] =
                 vkf_model_input(s->is_target ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS, has_positions),
             [VKF_EMBED_POSITION_TABLE] = positions,
             [VKF_EMBED_TYPES] = vkf_model_input(VKF_INPUT_TYPES, has_types),
             [VKF_EMBED_TYPE_TABLE] = vkf_model_weight_slot(has_types ? stack->type_table : VKF_NO_WEIGHT)},
  };
  return vkf_model_add_node(s->b, &node);
}

/* Positions are added where their width is: before or after the way from the table's width to D. */
static uint32_t embed(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  const vkf_net *net = s->b->net;
  uint32_t n_positions, position_width, added = VKF_NO_SLOT;
  vkf_model_block(s->b, "embed");
  vkf_model_operand positions = position_table(s, &n_positions, &position_width), none = {0};
  vkf_embed_params ids = {.width = net->infos[stack->table].shape[1],
                          .n_ids = stack->vocab,
                          .n_types = stack->n_types,
                          .scale = stack->embed_scale};
  bool is_late = n_positions > 0 && position_width != ids.width;
  if (is_late)
    added =
        embed_rows(s, "positions", (vkf_embed_params){.width = position_width, .n_positions = n_positions}, positions);
  else
    ids.n_positions = n_positions;
  bool is_alone = stack->embed_norm.weight == VKF_NO_WEIGHT && stack->embed_in.weight == VKF_NO_WEIGHT;
  uint32_t x = embed_rows(s, is_alone ? NULL : "ids", ids, is_late ? none : positions);
  if (stack->embed_norm.weight != VKF_NO_WEIGHT) x = vkf_model_norm_rows(s, "norm", s->rows, x, &stack->embed_norm);
  if (stack->embed_in.weight != VKF_NO_WEIGHT)
    x = vkf_model_matmul(s, "in", s->rows, x, &stack->embed_in, VKF_ACT_NONE, added);
  return x;
}

static void output_hidden(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  if (s->b->request->hidden_states) vkf_model_output(s->b, x, "%shidden_states.%u", s->prefix, i);
}

void vkf_model_output_last(const vkf_model_stage *s, uint32_t x) {
  const vkf_plan_request *request = s->b->request;
  const char *name = s->b->net->names[s->is_target][0];
  if (name != NULL && (request->hidden_states || request->last_hidden_state))
    vkf_model_output(s->b, x, "%s", name);
  else
    output_hidden(s, s->stack->n_layers, x);
}

uint32_t vkf_model_layers(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  uint32_t x = embed(s);
  output_hidden(s, 0, x);
  for (uint32_t i = 0; i < stack->n_layers; i++) {
    vkf_model_block(s->b, "%s.%u", stack->name, i);
    uint32_t y = self_attention(s, i, x);
    if (stack->has_cross) y = cross_attention(s, i, y);
    x = feed_forward(s, i, stack->is_parallel ? x : y, y);
    if (i + 1 < stack->n_layers || s->b->net->is_last_apart) output_hidden(s, i + 1, x);
  }
  if (!stack->has_final_norm) vkf_model_output_last(s, x);
  return x;
}
