/* layers: builds a stack from ids to its last states. See layers.h. The sub-layers are those of op/transformer.h. */
#include "model/layers.h"

#include <stdio.h>
#include <string.h>

/* ---- operands ---------------------------------------------------------------------------------------------------- */

vkf_build_operand vkf_model_weight_slot(uint32_t weight) {
  if (weight == VKF_NO_WEIGHT) return (vkf_build_operand){.how = VKF_BUILD_NONE};
  return vkf_build_indexed(VKF_SLOT_WEIGHT, weight);
}

vkf_build_operand vkf_model_state(uint32_t layer, vkf_state_part part) {
  return vkf_build_indexed(VKF_SLOT_STATE, VKF_STATE_INDEX(layer, part));
}

vkf_build_operand vkf_model_input(vkf_input input, bool is_asked_for) {
  if (!is_asked_for) return (vkf_build_operand){.how = VKF_BUILD_NONE};
  return vkf_build_indexed(VKF_SLOT_INPUT, input);
}

static vkf_linear linear_of(const vkf_net *net, const vkf_model_linear *linear) {
  if (linear->weight == VKF_NO_WEIGHT) return (vkf_linear){.n = 0};
  const uint32_t *shape = net->infos[linear->weight].shape;
  return (vkf_linear){vkf_model_weight_slot(linear->weight), vkf_model_weight_slot(linear->bias), shape[0], shape[1]};
}

static vkf_block_norm norm_of(const vkf_net *net, const vkf_model_norm *norm) {
  const uint32_t width = norm->weight == VKF_NO_WEIGHT ? net->info.d_model : net->infos[norm->weight].shape[0];
  return (vkf_block_norm){vkf_model_weight_slot(norm->weight), vkf_model_weight_slot(norm->bias), width};
}

vkf_block_form vkf_model_form(const vkf_model_stack *stack) {
  return (vkf_block_form){.n_heads = stack->n_heads,
                          .n_kv_heads = stack->n_kv_heads,
                          .key_width = stack->key_width,
                          .value_width = stack->value_width,
                          .scale = stack->scale,
                          .causal = stack->causal,
                          .norm_first = stack->norm_first,
                          .norm_kind = stack->norm_kind,
                          .norm_eps = stack->norm_eps,
                          .activation = stack->activation,
                          .is_gated = stack->is_gated,
                          .residual_scale = stack->residual_scale};
}

uint32_t vkf_model_matmul(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                          const vkf_model_linear *linear, vkf_activation activation, uint32_t residual) {
  const vkf_linear l = linear_of(s->net, linear);
  return vkf_block_matmul(s->b, name, rows, x, &l, activation, residual);
}

uint32_t vkf_model_norm_rows(const vkf_model_stage *s, const char *name, vkf_dim rows, uint32_t x,
                             const vkf_model_norm *norm) {
  const vkf_block_form form = vkf_model_form(s->stack);
  const vkf_block_norm n = norm_of(s->net, norm);
  return vkf_block_norm_rows(s->b, &form, name, rows, x, &n);
}

/* Returns the largest distance of a key behind its query that has a bias of its own. */
static uint32_t bias_after(const vkf_model_stack *stack) {
  return stack->causal ? 0 : stack->relative.max_distance;
}

static uint32_t n_distances(const vkf_model_stack *stack) {
  return stack->relative.max_distance + 1 + bias_after(stack);
}

/* ---- sub-layers -------------------------------------------------------------------------------------------------- */

static vkf_attention_layer attention_of(const vkf_net *net, const vkf_model_attention *weights) {
  return (vkf_attention_layer){
      .q = linear_of(net, &weights->q), .out = linear_of(net, &weights->out), .norm = norm_of(net, &weights->norm)};
}

/* Returns the name of an output of layer i, written to text; NULL: it is not requested. */
static const char *output_name(bool is_requested, const char *prefix, const char *name, uint32_t i, char text[48]) {
  snprintf(text, 48, "%s%s.%u", prefix, name, i);
  return is_requested ? text : NULL;
}

/* Adds the bias of the scores, from a table by buckets. output: its name, if projections are requested. */
static uint32_t relative_bias(const vkf_model_stage *s, uint32_t table, const char *output) {
  const vkf_model_stack *stack = s->stack;
  vkf_build_node_params node = {.op = VKF_OP_RELATIVE_BIAS,
                                .name = "relative",
                                .params.relative_bias = {.n_heads = stack->n_heads,
                                                         .n_buckets = stack->relative.n_buckets,
                                                         .n_distances = n_distances(stack)},
                                .in = {[VKF_RELATIVE_BIAS_TABLE] = vkf_model_weight_slot(table),
                                       [VKF_RELATIVE_BIAS_BUCKETS] = vkf_build_slot_operand(s->buckets)}};
  const uint32_t bias = vkf_build_node(s->b, &node);
  if (s->request->projections) vkf_build_output(s->b, bias, "%s", output);
  return bias;
}

/* Adds self-attention of x to y, which is x unless x is normed already. */
static uint32_t self_attention(const vkf_model_stage *s, uint32_t i, uint32_t x, uint32_t y) {
  const vkf_model_stack *stack = s->stack;
  vkf_block_form form = vkf_model_form(stack);
  form.kv_format = s->net->cache_format;
  if (stack->scales_by_layer) form.scale /= (float)(i + 1);
  vkf_attention_layer layer = attention_of(s->net, &stack->layers[i].self);
  if (stack->has_head_norm) layer.head_norm = vkf_model_weight_slot(stack->layers[i].self.head_norm);
  layer.window = stack->layers[i].window;
  if (stack->has_one_norm) layer.norm.width = 0;
  char weights[48], projections[48], bias[48];
  uint32_t relative = s->relative;
  if (stack->layers[i].relative != VKF_NO_WEIGHT)
    relative = relative_bias(s, stack->layers[i].relative, output_name(true, s->prefix, "position_bias", i, bias));
  vkf_attention_inputs inputs = {
      .mask = s->is_target ? vkf_model_input(VKF_INPUT_TARGET_MASK, s->request->target_mask)
                           : vkf_model_input(VKF_INPUT_MASK, s->request->mask),
      .ancestry = vkf_model_input(VKF_INPUT_ANCESTRY, s->is_target && s->request->ancestry),
      .positions = vkf_model_input(s->is_target ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS, true),
      .turns = vkf_build_slot_operand(s->turns),
      .rotary = stack->rotary.width,
      .n_positions = vkf_dims_make(&s->b->plan.capacity).v[s->stream.keys],
      .relative = vkf_build_slot_operand(relative),
      .bias_before = stack->relative.max_distance,
      .bias_after = bias_after(stack),
      .weights_output = output_name(s->request->attentions, s->prefix, "attentions", i, weights),
      .projections_output = output_name(s->request->projections, s->prefix, "projections", i, projections)};
  if (s->is_target) {
    inputs.k = vkf_model_state(i, VKF_STATE_SELF_K);
    inputs.v = vkf_model_state(i, VKF_STATE_SELF_V);
  }
  return vkf_block_self_attention(s->b, &form, &s->stream, &layer, &inputs, x, y);
}

/* Reads keys and values from the state, where the block "cross" of the other stage puts them once a sentence. */
static uint32_t cross_attention(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  const vkf_block_form form = vkf_model_form(s->stack);
  const vkf_attention_layer layer = attention_of(s->net, &s->stack->layers[i].cross);
  char weights[48], queries[48];
  const vkf_attention_inputs inputs = {
      .k = vkf_model_state(i, VKF_STATE_CROSS_K),
      .v = vkf_model_state(i, VKF_STATE_CROSS_V),
      .mask = vkf_model_input(VKF_INPUT_MASK, s->request->mask),
      .spans = vkf_model_input(VKF_INPUT_CROSS_SPANS, true),
      .weights_output = output_name(s->request->attentions, "cross_", "attentions", i, weights),
      .projections_output = output_name(s->request->projections, "cross_", "queries", i, queries)};
  return vkf_block_cross_attention(s->b, &form, &s->stream, &layer, &inputs, x, x);
}

/* Adds the feed-forward layer of x to y, which is x unless the sub-layers run side by side. x is normed already if the
 * layer has one norm. */
static uint32_t feed_forward(const vkf_model_stage *s, uint32_t i, uint32_t x, uint32_t y) {
  const vkf_model_layer *layer = &s->stack->layers[i];
  const vkf_block_form form = vkf_model_form(s->stack);
  const vkf_linear in = linear_of(s->net, &layer->ffn_in), out = linear_of(s->net, &layer->ffn_out);
  vkf_block_norm norm = norm_of(s->net, &layer->ffn_norm);
  if (s->stack->has_one_norm) norm.width = 0;
  return vkf_block_feed_forward(s->b, &form, s->stream.rows, &in, &out, &norm, x, y);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Returns the table of positions, whose rows are added to embeddings; VKF_BUILD_NONE: there is none. */
static vkf_build_operand position_table(const vkf_model_stage *s, uint32_t *n_positions, uint32_t *width) {
  const vkf_model_stack *stack = s->stack;
  const vkf_net *net = s->net;
  *n_positions = *width = 0;
  if (stack->positions == VKF_POSITION_NONE || stack->positions == VKF_POSITION_ROTARY)
    return vkf_build_slot_operand(VKF_NO_SLOT);
  if (stack->positions == VKF_POSITION_LEARNED) {
    *n_positions = stack->n_positions;
    *width = net->infos[stack->position_table].shape[1];
    return vkf_model_weight_slot(stack->position_table);
  }
  float *data;
  vkf_dims capacity = vkf_dims_make(&s->b->plan.capacity);
  bool skips_pads = stack->position_ids == VKF_POSITION_IDS_NON_PADS;
  *n_positions = capacity.v[s->stream.keys] + stack->position_offset + skips_pads;
  *width = net->info.d_model;
  uint32_t slot = vkf_build_table(s->b, "sinusoids", *n_positions, *width, &data);
  if (data != NULL) vkf_model_sinusoids(stack->positions, *n_positions, *width, data);
  if (data != NULL && skips_pads) memset(data + (size_t)stack->position_offset * *width, 0, *width * sizeof *data);
  return vkf_build_slot_operand(slot);
}

/* Adds up rows of the tables of ids, positions and types that have rows in params. x: added to them, in the place of
 * ids; VKF_NO_SLOT: none. */
static uint32_t embed_rows(const vkf_model_stage *s, const char *name, vkf_embed_params params,
                           vkf_build_operand positions, uint32_t x) {
  const vkf_model_stack *stack = s->stack;
  bool has_ids = params.n_ids > 0, has_positions = params.n_positions > 0, has_types = params.n_types > 0;
  params.rows = s->stream.rows;
  params.by_row = x != VKF_NO_SLOT;
  vkf_build_node_params node = {
      .op = VKF_OP_EMBED,
      .name = name,
      .params.embed = params,
      .in = {[VKF_EMBED_IDS] = vkf_model_input(s->is_target ? VKF_INPUT_TARGET_IDS : VKF_INPUT_IDS, has_ids),
             [VKF_EMBED_TABLE] = has_ids ? vkf_model_weight_slot(stack->table) : vkf_build_slot_operand(x),
             [VKF_EMBED_POSITIONS] =
                 vkf_model_input(s->is_target ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS, has_positions),
             [VKF_EMBED_POSITION_TABLE] = positions,
             [VKF_EMBED_TYPES] = vkf_model_input(VKF_INPUT_TYPES, has_types),
             [VKF_EMBED_TYPE_TABLE] = vkf_model_weight_slot(has_types ? stack->type_table : VKF_NO_WEIGHT)},
  };
  return vkf_build_node(s->b, &node);
}

/* Embeds ids. Positions are added where their width fits: before or after the layer from the table's width to D. With
 * norms_words they are added after the norm. */
static uint32_t embed_ids(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  uint32_t n_positions, position_width, added = VKF_NO_SLOT;
  vkf_build_operand positions = position_table(s, &n_positions, &position_width), none = {0};
  vkf_embed_params ids = {.width = s->net->infos[stack->table].shape[1],
                          .n_ids = stack->vocab,
                          .n_types = stack->n_types,
                          .scale = stack->embed_scale};
  bool is_late = stack->norms_words || (n_positions > 0 && position_width != ids.width);
  vkf_embed_params late = {.width = position_width, .n_positions = n_positions, .scale = 1};
  if (!is_late)
    ids.n_positions = n_positions;
  else if (!stack->norms_words)
    added = embed_rows(s, "positions", late, positions, VKF_NO_SLOT);
  bool is_alone = stack->embed_norm.weight == VKF_NO_WEIGHT && stack->embed_in.weight == VKF_NO_WEIGHT;
  uint32_t x = embed_rows(s, is_alone ? NULL : "ids", ids, is_late ? none : positions, VKF_NO_SLOT);
  if (stack->embed_norm.weight != VKF_NO_WEIGHT)
    x = vkf_model_norm_rows(s, "norm", s->stream.rows, x, &stack->embed_norm);
  if (stack->norms_words) x = embed_rows(s, "positions", late, positions, x);
  if (stack->embed_in.weight != VKF_NO_WEIGHT)
    x = vkf_model_matmul(s, "in", s->stream.rows, x, &stack->embed_in, VKF_ACT_NONE, added);
  return x;
}

/* Embeds patches instead of ids: type 0 is the class token, type 1 the bias of the patches. */
static uint32_t embed_patches(const vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  uint32_t n_positions, width;
  vkf_build_operand positions = position_table(s, &n_positions, &width);
  vkf_embed_params params = {.width = width, .n_positions = n_positions, .n_types = stack->n_types};
  uint32_t added = embed_rows(s, "positions", params, positions, VKF_NO_SLOT);
  vkf_build_node_params node = {.op = VKF_OP_PATCHES,
                                .name = "patches",
                                .params.patches = stack->patch,
                                .in = {[VKF_PATCHES_X] = vkf_model_input(VKF_INPUT_PIXELS, true)}};
  uint32_t x = vkf_build_node(s->b, &node);
  return vkf_model_matmul(s, "in", s->stream.rows, x, &stack->patches, VKF_ACT_NONE, added);
}

/* Makes the tables that all layers read. */
static void shared_slots(vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  const vkf_model_relative *relative = &stack->relative;
  vkf_dims capacity = vkf_dims_make(&s->b->plan.capacity);
  s->turns = s->buckets = s->relative = VKF_NO_SLOT;
  if (stack->rotary.width > 0) {
    float *data;
    s->turns = vkf_build_table(s->b, "rotations", capacity.v[s->stream.keys], stack->rotary.width, &data);
    if (data != NULL) vkf_model_rotations(&stack->rotary, capacity.v[s->stream.keys], data);
  }
  if (relative->n_buckets == 0) return;
  int32_t *buckets;
  char bias[48];
  s->buckets = vkf_build_indices(s->b, "buckets", n_distances(stack), &buckets);
  if (buckets != NULL) vkf_model_buckets(relative, !stack->causal, buckets);
  snprintf(bias, sizeof bias, "%sposition_bias", s->prefix);
  if (relative->table != VKF_NO_WEIGHT) s->relative = relative_bias(s, relative->table, bias);
}

/* Outputs the states before layer i, or after the last one if i = n_layers, and what the head makes of them, if
 * requested. */
static void output_hidden(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  if (s->request->hidden_states) vkf_build_output(s->b, x, "%shidden_states.%u", s->prefix, i);
  if (s->read_out && i < s->stack->n_layers) s->read_out(s, i, x);
}

void vkf_model_output_last(const vkf_model_stage *s, uint32_t x) {
  const vkf_plan_request *request = s->request;
  const char *name = s->net->names[s->is_target][0];
  if (name != NULL && (request->hidden_states || request->last_hidden_state))
    vkf_build_output(s->b, x, "%s", name);
  else
    output_hidden(s, s->stack->n_layers, x);
}

uint32_t vkf_model_layers(vkf_model_stage *s) {
  const vkf_model_stack *stack = s->stack;
  vkf_build_block(s->b, "embed");
  shared_slots(s);
  uint32_t x = stack->patches.weight != VKF_NO_WEIGHT ? embed_patches(s) : embed_ids(s);
  output_hidden(s, 0, x);
  for (uint32_t i = 0; i < stack->n_layers; i++) {
    vkf_build_layer(s->b, stack->name, i);
    const uint32_t h =
        stack->has_one_norm ? vkf_model_norm_rows(s, "norm", s->stream.rows, x, &stack->layers[i].self.norm) : x;
    uint32_t y = self_attention(s, i, h, x);
    if (stack->has_cross) y = cross_attention(s, i, y);
    x = feed_forward(s, i, stack->is_parallel ? h : y, y);
    if (i + 1 < stack->n_layers || s->net->is_last_apart) output_hidden(s, i + 1, x);
  }
  if (!stack->has_final_norm && stack->embed_out.weight == VKF_NO_WEIGHT) vkf_model_output_last(s, x);
  return x;
}
