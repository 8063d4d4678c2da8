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

/* The heads of queries and keys turned; values pass. */
static uint32_t rotate(const vkf_model_stage *s, const char *name, uint32_t qkv) {
  const vkf_model_stack *stack = s->stack;
  uint32_t q = stack->n_heads * stack->key_width, k = stack->n_kv_heads * stack->key_width;
  vkf_dims capacity = vkf_dims_make(&s->b->plan->capacity);
  vkf_model_node node = {
      .op = VKF_OP_ROPE,
      .name = name,
      .params.rope = {.rows = s->rows,
                      .width = q + k + stack->n_kv_heads * stack->value_width,
                      .n_heads = stack->n_heads,
                      .n_kv_heads = stack->n_kv_heads,
                      .k_column = q,
                      .head_width = stack->key_width,
                      .rotary = stack->rotary.width,
                      .n_positions = capacity.v[s->keys],
                      .pairs = VKF_ROPE_HALVES},
      .in = {[VKF_ROPE_X] = vkf_model_slot(qkv),
             [VKF_ROPE_POSITIONS] =
                 vkf_model_input(s->is_target ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS, true),
             [VKF_ROPE_TABLE] = vkf_model_slot(s->turns)},
  };
  return vkf_model_add_node(s->b, &node);
}

/* activation(gate) * in, of columns that hold the gate first. */
static uint32_t gate(const vkf_model_stage *s, const char *name, uint32_t x) {
  const vkf_model_stack *stack = s->stack;
  vkf_model_node node = {
      .op = VKF_OP_GATE,
      .name = name,
      .params.gate = {.rows = s->rows, .width = stack->d_ff, .up_column = stack->d_ff, .activation = stack->activation},
      .in = {[VKF_GATE_X] = vkf_model_slot(x)}};
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
  if (s->turns != VKF_NO_SLOT) qkv = rotate(s, "self.rope", qkv);
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
  params.bias_per_head = s->relative != VKF_NO_SLOT;
  vkf_model_operand in[VKF_MAX_INPUTS] = {
      [VKF_ATTENTION_Q] = vkf_model_slot(qkv),
      [VKF_ATTENTION_K] = k,
      [VKF_ATTENTION_V] = v,
      [VKF_ATTENTION_MASK] = s->is_target ? vkf_model_input(VKF_INPUT_TARGET_MASK, request->target_mask)
                                          : vkf_model_input(VKF_INPUT_MASK, request->mask),
      [VKF_ATTENTION_BIAS] = vkf_model_slot(s->relative),
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
  vkf_activation activation = s->stack->is_gated ? VKF_ACT_NONE : s->stack->activation;
  uint32_t f = vkf_model_matmul(s, "ffn.in", s->rows, h, &weights->ffn_in, activation, VKF_NO_SLOT);
  if (s->stack->is_gated) f = gate(s, "ffn.gate", f);
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
static uint32_t embed_ids(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  uint32_t n_positions, position_width, added = VKF_NO_SLOT;
  vkf_model_operand positions = position_table(s, &n_positions, &position_width), none = {0};
  vkf_embed_params ids = {.width = s->b->net->infos[stack->table].shape[1],
                          .n_ids = stack->vocab,
                          .n_types = stack->n_types,
                          .scale = stack->embed_scale};
  bool is_late = n_positions > 0 && position_width != ids.width;
  vkf_embed_params late = {.width = position_width, .n_positions = n_positions};
  if (is_late)
    added = embed_rows(s, "positions", late, positions);
  else
    ids.n_positions = n_positions;
  bool is_alone = stack->embed_norm.weight == VKF_NO_WEIGHT && stack->embed_in.weight == VKF_NO_WEIGHT;
  uint32_t x = embed_rows(s, is_alone ? NULL : "ids", ids, is_late ? none : positions);
  if (stack->embed_norm.weight != VKF_NO_WEIGHT) x = vkf_model_norm_rows(s, "norm", s->rows, x, &stack->embed_norm);
  if (stack->embed_in.weight != VKF_NO_WEIGHT)
    x = vkf_model_matmul(s, "in", s->rows, x, &stack->embed_in, VKF_ACT_NONE, added);
  return x;
}

/* Patches in the place of ids: type 0 is the class token, type 1 the bias of the patches. */
static uint32_t embed_patches(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  uint32_t n_positions, width;
  vkf_model_operand positions = position_table(s, &n_positions, &width);
  vkf_embed_params params = {.width = width, .n_positions = n_positions, .n_types = stack->n_types};
  uint32_t added = embed_rows(s, "positions", params, positions);
  vkf_model_node node = {.op = VKF_OP_PATCHES,
                         .name = "patches",
                         .params.patches = stack->patch,
                         .in = {[VKF_PATCHES_X] = vkf_model_input(VKF_INPUT_PIXELS, true)}};
  uint32_t x = vkf_model_add_node(s->b, &node);
  return vkf_model_matmul(s, "in", s->rows, x, &stack->patches, VKF_ACT_NONE, added);
}

/* What all layers read: the table of rotary positions, and the bias of the scores. */
static void shared_slots(vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  const vkf_model_relative *relative = &stack->relative;
  vkf_dims capacity = vkf_dims_make(&s->b->plan->capacity);
  s->turns = s->relative = VKF_NO_SLOT;
  if (stack->rotary.width > 0) {
    float *data;
    s->turns = vkf_model_add_constant(s->b, "rotations", capacity.v[s->keys], stack->rotary.width, &data);
    if (data != NULL) vkf_model_rotations(&stack->rotary, capacity.v[s->keys], data);
  }
  if (relative->n_buckets == 0) return;
  int32_t *buckets;
  uint32_t n_before = relative->max_distance, n_after = stack->causal ? 0 : n_before;
  uint32_t indices = vkf_model_add_indices(s->b, "buckets", n_before + 1 + n_after, &buckets);
  if (buckets != NULL) vkf_model_buckets(relative, !stack->causal, buckets);
  vkf_model_node node = {.op = VKF_OP_RELATIVE_BIAS,
                         .name = "relative",
                         .params.relative_bias = {.queries = s->tokens,
                                                  .keys = s->keys,
                                                  .past = s->past,
                                                  .n_heads = stack->n_heads,
                                                  .n_buckets = relative->n_buckets,
                                                  .n_before = n_before,
                                                  .n_after = n_after},
                         .in = {[VKF_RELATIVE_BIAS_TABLE] = vkf_model_weight_slot(relative->table),
                                [VKF_RELATIVE_BIAS_BUCKETS] = vkf_model_slot(indices)}};
  s->relative = vkf_model_add_node(s->b, &node);
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

uint32_t vkf_model_layers(vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  vkf_model_block(s->b, "embed");
  shared_slots(s);
  uint32_t x = stack->patches.weight != VKF_NO_WEIGHT ? embed_patches(s) : embed_ids(s);
  output_hidden(s, 0, x);
  for (uint32_t i = 0; i < stack->n_layers; i++) {
    vkf_model_block(s->b, "%s.%u", stack->name, i);
    uint32_t y = self_attention(s, i, x);
    if (stack->has_cross) y = cross_attention(s, i, y);
    x = feed_forward(s, i, stack->is_parallel ? x : y, y);
    if (i + 1 < stack->n_layers || s->b->net->is_last_apart) output_hidden(s, i + 1, x);
  }
  if (!stack->has_final_norm && stack->embed_out.weight == VKF_NO_WEIGHT) vkf_model_output_last(s, x);
  return x;
}
