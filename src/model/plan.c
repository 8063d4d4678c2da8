/* plan: builds the stages of a net as blocks of nodes, for a capacity. Reads only the block description.
 *
 * Owns built plans. Refuses requests that the architecture cannot meet. Invariant: a plan that leaves here has passed
 * vkf_plan_check().
 */
#include <stdio.h>
#include <string.h>

#include "model/layers.h"

typedef struct owned_plan {
  vkf_plan plan; /* first, so that a vkf_plan * points to one of these */
  vkf_env *env;
  vkf_arena arena;
} owned_plan;

/* ---- slots that are named by kind and index ---------------------------------------------------------------------- */

static const char *const input_names[VKF_INPUT_COUNT] = {
    [VKF_INPUT_IDS] = "input.ids",
    [VKF_INPUT_POSITIONS] = "input.positions",
    [VKF_INPUT_TYPES] = "input.types",
    [VKF_INPUT_MASK] = "input.mask",
    [VKF_INPUT_SPANS] = "input.spans",
    [VKF_INPUT_PIXELS] = "input.pixels",
    [VKF_INPUT_CROSS_PLACES] = "input.cross_places",
    [VKF_INPUT_TARGET_IDS] = "input.target_ids",
    [VKF_INPUT_TARGET_POSITIONS] = "input.target_positions",
    [VKF_INPUT_TARGET_MASK] = "input.target_mask",
    [VKF_INPUT_ANCESTRY] = "input.ancestry",
    [VKF_INPUT_OUT_ROWS] = "input.out_rows",
    [VKF_INPUT_EDIT_OFFSETS] = "input.edit_offsets",
    [VKF_INPUT_EDITS] = "input.edits",
    [VKF_INPUT_TARGET_SPANS] = "input.target_spans",
    [VKF_INPUT_CROSS_SPANS] = "input.cross_spans",
    [VKF_INPUT_SHORT_HEAD] = "input.short_head",
    [VKF_INPUT_SHORT_MASK] = "input.short_mask",
};
static const char *const state_names[VKF_STATE_PARTS] = {
    [VKF_STATE_SELF_K] = "self.k",
    [VKF_STATE_SELF_V] = "self.v",
    [VKF_STATE_CROSS_K] = "cross.k",
    [VKF_STATE_CROSS_V] = "cross.v",
};

typedef struct describing {
  const vkf_net *net;
  vkf_arena *arena;
} describing;

static void describe(void *user, vkf_slot *slot) {
  const describing *d = user;
  if (slot->kind == VKF_SLOT_INPUT) {
    slot->name = input_names[slot->index];
  } else if (slot->kind == VKF_SLOT_WEIGHT) {
    slot->name = vkf_arena_strdup(d->arena, d->net->infos[slot->index].name);
    slot->format = d->net->infos[slot->index].format;
  } else {
    slot->name = vkf_arena_printf(d->arena, "state.decoder.%u.%s", slot->index / VKF_STATE_PARTS,
                                  state_names[slot->index % VKF_STATE_PARTS]);
    slot->format = d->net->cache_format;
  }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void cross_states(const vkf_model_stage *s, const vkf_model_stack *decoder, uint32_t x) {
  char name[32];
  const vkf_block_form form = vkf_model_form(decoder);
  vkf_block_stream places = s->stream;
  places.to_slots = true;
  places.spans = vkf_model_input(VKF_INPUT_CROSS_PLACES, true);
  vkf_build_block(s->b, "cross");
  for (uint32_t i = 0; i < decoder->n_layers; i++) {
    snprintf(name, sizeof name, "%u.kv", i);
    uint32_t kv = vkf_model_matmul(s, name, s->stream.rows, x, &decoder->layers[i].cross.kv, VKF_ACT_NONE, VKF_NO_SLOT);
    if (s->request->projections) vkf_build_output(s->b, kv, "cross_keys_values.%u", i);
    snprintf(name, sizeof name, "%u.append", i);
    vkf_block_append(s->b, &form, name, &places, kv, 0, vkf_model_state(i, VKF_STATE_CROSS_K),
                     vkf_model_state(i, VKF_STATE_CROSS_V));
  }
}

static bool wants_head(const vkf_plan_request *request) {
  return request->logits || request->log_softmax || request->max_edits > 0 || request->top_k > 0;
}

static uint32_t gather(const vkf_model_stage *s, vkf_dim rows, uint32_t x) {
  const vkf_net *net = s->net;
  uint32_t narrow = s->stack->embed_out.weight;
  vkf_build_node_params node = {
      .op = VKF_OP_GATHER,
      .name = "gather",
      .params.gather = {.rows = rows,
                        .x_rows = s->stream.rows,
                        .width = narrow == VKF_NO_WEIGHT ? net->info.d_model : net->infos[narrow].shape[0]},
      .in = {
          [VKF_GATHER_X] = vkf_build_slot_operand(x), [VKF_GATHER_INDEX] = vkf_model_input(VKF_INPUT_OUT_ROWS, true)}};
  return vkf_build_node(s->b, &node);
}

/* Adds the steps between the last states and the logits. */
static uint32_t before_logits(const vkf_model_stage *s, vkf_dim rows, uint32_t x) {
  const vkf_model_head *head = &s->net->head;
  if (head->dense.weight != VKF_NO_WEIGHT)
    x = vkf_model_matmul(s, "dense", rows, x, &head->dense, head->activation, VKF_NO_SLOT);
  if (head->norm.weight != VKF_NO_WEIGHT) x = vkf_model_norm_rows(s, "dense.norm", rows, x, &head->norm);
  return x;
}

static uint32_t log_softmax(vkf_build *b, const char *name, vkf_dim rows, uint32_t width, uint32_t x) {
  vkf_build_node_params node = {.op = VKF_OP_LOG_SOFTMAX,
                                .name = name,
                                .params.log_softmax = {.rows = rows, .width = width},
                                .in = {vkf_build_slot_operand(x)}};
  return vkf_build_node(b, &node);
}

/* Adds and returns the logits of rows x: [rows, *width]. */
static uint32_t product(const vkf_model_stage *s, vkf_dim rows, uint32_t x, uint32_t *width) {
  const vkf_plan_request *request = s->request;
  const vkf_model_linear *out = &s->net->head.out;
  const uint32_t *shape = s->net->infos[out->weight].shape;
  *width = request->short_head ? request->short_head : shape[0];
  vkf_build_node_params node = {
      .op = VKF_OP_MATMUL,
      .name = "logits",
      .params.matmul = {.rows = rows, .n = *width, .k = shape[1], .scale = s->net->head.scale},
      .in = {[VKF_MATMUL_X] = vkf_build_slot_operand(x),
             [VKF_MATMUL_W] = vkf_model_weight_slot(out->weight),
             [VKF_MATMUL_BIAS] = vkf_model_weight_slot(out->bias)},
  };
  if (request->short_head) {
    node.in[VKF_MATMUL_W] = vkf_model_input(VKF_INPUT_SHORT_HEAD, true);
    node.in[VKF_MATMUL_BIAS].how = VKF_BUILD_NONE;
    node.in[VKF_MATMUL_RESIDUAL] = vkf_model_input(VKF_INPUT_SHORT_MASK, true);
  }
  return vkf_build_node(s->b, &node);
}

/* Adds the logits of rows x and, as requested, log-softmax, edits, a log-softmax of these and top-k, in this order. */
static void logits(const vkf_model_stage *s, vkf_dim rows, uint32_t x) {
  vkf_build *b = s->b;
  const vkf_plan_request *request = s->request;
  uint32_t width = 0, y = product(s, rows, x, &width);
  if (request->logits) vkf_build_output(b, y, "logits");
  if (request->log_softmax) y = log_softmax(b, "log_softmax", rows, width, y);
  if (request->max_edits > 0) {
    vkf_build_node_params node = {.op = VKF_OP_LOGIT_EDIT,
                                  .name = "edit",
                                  .params.logit_edit = {.rows = rows,
                                                        .width = width,
                                                        .max_edits = request->max_edits,
                                                        .row_edits = request->row_edits},
                                  .in = {[VKF_LOGIT_EDIT_X] = vkf_build_slot_operand(y),
                                         [VKF_LOGIT_EDIT_OFFSETS] = vkf_model_input(VKF_INPUT_EDIT_OFFSETS, true),
                                         [VKF_LOGIT_EDIT_EDITS] = vkf_model_input(VKF_INPUT_EDITS, true)}};
    y = vkf_build_node(b, &node);
    if (request->renormalize) y = log_softmax(b, "renormalize", rows, width, y);
  }
  if (request->top_k > 0) {
    vkf_build_node_params node = {.op = VKF_OP_TOP_K,
                                  .name = "top_k",
                                  .params.top_k = {.rows = rows, .width = width, .k = request->top_k},
                                  .in = {vkf_build_slot_operand(y)}};
    uint32_t values = vkf_build_node(b, &node);
    vkf_build_output(b, values, "top_values");
    vkf_build_output(b, values + 1, "top_ids");
  } else if (request->log_softmax || request->max_edits > 0) {
    vkf_build_output(b, y, "scores");
  }
}

/* Adds the steps between the layers and what the head reads. */
static uint32_t after_layers(const vkf_model_stage *s, uint32_t x) {
  const vkf_model_stack *stack = s->stack;
  if (stack->has_final_norm) x = vkf_model_norm_rows(s, "norm", s->stream.rows, x, &stack->final_norm);
  if (stack->embed_out.weight != VKF_NO_WEIGHT)
    x = vkf_model_matmul(s, "out", s->stream.rows, x, &stack->embed_out, VKF_ACT_NONE, VKF_NO_SLOT);
  return x;
}

static void output_layer_logits(const vkf_model_stage *s, uint32_t i, uint32_t x) {
  uint32_t width;
  vkf_build_layer(s->b, "lens", i);
  x = before_logits(s, s->stream.rows, after_layers(s, x));
  vkf_build_output(s->b, product(s, s->stream.rows, x, &width), "layer_logits.%u", i);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void build_encode(vkf_build *b, const vkf_net *net, const vkf_plan_request *request) {
  bool is_pair = net->info.architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  vkf_model_stage s = {.b = b,
                       .net = net,
                       .request = request,
                       .stack = &net->encoder,
                       .read_out = request->layer_logits ? output_layer_logits : NULL};
  s.stream = (vkf_block_stream){.seqs = VKF_DIM_B,
                                .tokens = VKF_DIM_S,
                                .rows = VKF_DIM_BS,
                                .keys = VKF_DIM_S,
                                .past = VKF_DIM_ZERO,
                                .spans = vkf_model_input(VKF_INPUT_SPANS, true)};
  s.prefix = is_pair ? "encoder_" : "";
  uint32_t x = vkf_model_layers(&s);
  if (s.stack->has_final_norm) {
    vkf_build_block(b, "encoder.norm");
    x = vkf_model_norm_rows(&s, NULL, s.stream.rows, x, &s.stack->final_norm);
    vkf_model_output_last(&s, x);
  }
  if (is_pair) cross_states(&s, &net->decoder, x);
  const vkf_model_head *head = &net->head;
  bool is_pooled = head->dense_output != NULL && (request->last_hidden_state || request->hidden_states);
  if (is_pair || (!is_pooled && !wants_head(request))) return;
  vkf_build_block(b, "head");
  bool reads_one = head->reads == VKF_HEAD_READS_FIRST;
  vkf_dim rows = reads_one ? VKF_DIM_B : s.stream.rows;
  if (reads_one) x = gather(&s, rows, x);
  x = before_logits(&s, rows, x);
  if (is_pooled) vkf_build_output(b, x, "%s", head->dense_output);
  if (wants_head(request)) logits(&s, rows, x);
}

static void build_decode(vkf_build *b, const vkf_net *net, const vkf_plan_request *request) {
  vkf_model_stage s = {.b = b,
                       .net = net,
                       .request = request,
                       .stack = &net->decoder,
                       .read_out = request->layer_logits ? output_layer_logits : NULL};
  s.stream = (vkf_block_stream){.seqs = VKF_DIM_R,
                                .tokens = VKF_DIM_T,
                                .rows = VKF_DIM_RT,
                                .keys = VKF_DIM_KEYS,
                                .past = VKF_DIM_PAST,
                                .spans = vkf_model_input(VKF_INPUT_TARGET_SPANS, true)};
  s.is_target = true;
  s.prefix = net->info.architecture == VKF_ARCHITECTURE_ENCODER_DECODER ? "decoder_" : "";
  uint32_t x = vkf_model_layers(&s);
  bool is_narrowed = s.stack->embed_out.weight != VKF_NO_WEIGHT;
  if (s.stack->has_final_norm || is_narrowed || wants_head(request)) vkf_build_block(b, "head");
  x = after_layers(&s, x);
  if (s.stack->has_final_norm || is_narrowed) vkf_model_output_last(&s, x);
  if (!wants_head(request)) return;
  bool reads_one = net->head.reads == VKF_HEAD_READS_LAST;
  vkf_dim rows = reads_one ? VKF_DIM_R : request->gather_out ? VKF_DIM_OUT : VKF_DIM_RT;
  if (rows != VKF_DIM_RT) x = gather(&s, rows, x);
  x = before_logits(&s, rows, x);
  logits(&s, rows, x);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Checks the sizes that the stage needs. Sets `out` to all rows unless the request gathers some. */
static vkf_status check_sizes(const vkf_net *net, vkf_env *env, const vkf_plan_request *request, vkf_sizes *sizes) {
  bool is_target = request->stage == VKF_STAGE_DECODE;
  bool has_source = !is_target || net->info.architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  if ((has_source && (sizes->B == 0 || sizes->S == 0)) || (is_target && (sizes->R == 0 || sizes->T == 0)))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "plan: expected positive sizes, found B %u S %u R %u T %u", sizes->B,
                        sizes->S, sizes->R, sizes->T);
  uint64_t source = sizes->source_rows ? sizes->source_rows : (uint64_t)sizes->B * sizes->S;
  uint64_t target = sizes->target_rows ? sizes->target_rows : (uint64_t)sizes->R * sizes->T;
  uint64_t keys = (uint64_t)sizes->past + sizes->T;
  if (source > INT32_MAX || target > INT32_MAX || keys > INT32_MAX)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "plan: expected less than 2^31 rows, found B %u S %u R %u T %u past %u", sizes->B, sizes->S,
                        sizes->R, sizes->T, sizes->past);
  if (!request->gather_out) sizes->out = (uint32_t)(is_target ? target : source);
  if (request->gather_out && (sizes->out == 0 || sizes->out > target))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "plan: expected 1 .. %llu rows of the head, found %u",
                        (unsigned long long)target, sizes->out);
  return VKF_OK;
}

static vkf_status check_request(const vkf_net *net, vkf_env *env, const vkf_plan_request *request) {
  bool is_target = request->stage == VKF_STAGE_DECODE;
  const char *name = vkf_model_architecture_name(net->info.architecture);
  if ((is_target ? net->decoder.n_layers : net->encoder.n_layers) == 0)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "plan: %s: a model of architecture %s has no such stage",
                        is_target ? "decode" : "encode", name);
  bool has_head = net->info.has_head && (is_target || net->decoder.n_layers == 0);
  if (wants_head(request) && !has_head)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "plan: logits were asked for, but this stage of %s has no head",
                        net->info.name);
  if (request->layer_logits && (!has_head || net->head.reads != VKF_HEAD_READS_ALL))
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected a head that reads every position, to apply it after each layer, found %s",
                        net->info.name, has_head ? "one that reads a single one" : "none");
  if (request->gather_out && !is_target)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "plan: rows of the head can be chosen in the stage decode only");
  return VKF_OK;
}

vkf_status vkf_model_plan_build(const vkf_net *net, vkf_env *env, const vkf_plan_request *request, vkf_plan **out) {
  vkf_status st = VKF_OK;
  vkf_sizes sizes = request->capacity;
  owned_plan *owned = NULL;
  *out = NULL;
  VKF_TRY(check_request(net, env, request));
  VKF_TRY(check_sizes(net, env, request, &sizes));
  owned = vkf_env_alloc(env, 1, sizeof *owned);
  if (owned == NULL) return VKF_ERROR_MEMORY;
  owned->env = env;
  vkf_arena_init(&owned->arena, env);
  describing d = {net, &owned->arena};
  vkf_build b = {.env = env, .arena = &owned->arena, .plan.capacity = sizes, .describe = describe, .user = &d};
  if (request->stage == VKF_STAGE_ENCODE)
    build_encode(&b, net, request);
  else
    build_decode(&b, net, request);
  VKF_TRY(b.st);
  owned->plan = b.plan;
  VKF_TRY(vkf_plan_check(env, &owned->plan));
  *out = &owned->plan;
  return VKF_OK;
done:
  if (owned != NULL) {
    vkf_plan *plan = &owned->plan;
    vkf_model_plan_destroy(&plan);
  }
  return st;
}

void vkf_model_plan_destroy(vkf_plan **plan) {
  if (*plan == NULL) return;
  owned_plan *owned = (owned_plan *)*plan;
  vkf_arena_finish(&owned->arena);
  vkf_env_free(owned->env, owned);
  *plan = NULL;
}

const char *vkf_model_second_name(const vkf_net *net, const char *output) {
  for (size_t i = 0; i < 2; i++)
    if (net->names[i][0] != NULL && strcmp(net->names[i][0], output) == 0) return net->names[i][1];
  return NULL;
}
