/* run: one forward pass on given tensors, with outputs named and shaped as in transformers. */
#include <math.h>
#include <string.h>

#include "engine/batch_split.h"
#include "file/safetensors.h"

/* The checked inputs of a run, which owns their memory. */
typedef struct run_inputs {
  size_t source[2], target[2]; /* [B,S], [R,T]; target is 0 in models of one stack */
  int32_t *ids, *mask, *types, *target_ids, *target_mask;
  const float *pixels; /* the caller's */
} run_inputs;

static void inputs_finish(vkf_env *env, run_inputs *in) {
  vkf_env_free(env, in->ids);
  vkf_env_free(env, in->mask);
  vkf_env_free(env, in->types);
  vkf_env_free(env, in->target_ids);
  vkf_env_free(env, in->target_mask);
}

/* Returns the names of the inputs that the model takes, separated by ", ". */
static const char *known_inputs(const vkf_net_info *info) {
  if (info->image[0] > 0) return "pixel_values";
  if (info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER)
    return "input_ids, attention_mask, decoder_input_ids, decoder_attention_mask";
  return info->n_types > 0 ? "input_ids, attention_mask, token_type_ids" : "input_ids, attention_mask";
}

static vkf_status check_types(vkf_session *session, const run_inputs *in) {
  uint32_t n_types = vkf_model_net_info(session->model->net)->n_types;
  for (size_t i = 0; in->types && i < in->source[0] * in->source[1]; i++)
    if (in->types[i] < 0 || (uint32_t)in->types[i] >= n_types)
      return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT, "token_type_ids[%zu,%zu] is %d, expected 0 to %u",
                          i / in->source[1], i % in->source[1], (int)in->types[i], n_types - 1);
  return VKF_OK;
}

/* Checks and takes images [B, channels, height, width] of the model's size, as its preprocessor makes them. */
static vkf_status pixels_init(vkf_session *session, const vkf_array *arrays, size_t n, run_inputs *in) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const vkf_array *a = vkf_engine_array_find(arrays, n, "pixel_values");
  vkf_status st = VKF_OK;
  vkf_text shape;
  if (!a) return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT, "expected an input called pixel_values, found none");
  if (a->dtype != VKF_F32 || a->rank != 4 || !a->data || !a->shape[0] || a->shape[0] > UINT16_MAX ||
      a->shape[1] != info->image[0] || a->shape[2] != info->image[1] || a->shape[3] != info->image[2])
    goto wrong;
  in->pixels = a->data;
  in->source[0] = a->shape[0];
  in->source[1] = info->max_positions;
  return VKF_OK;
wrong:
  vkf_text_init(&shape, session->env);
  vkf_file_shape_print(&shape, a->rank, a->shape);
  VKF_TRY(vkf_text_status(&shape));
  VKF_FAIL(session->env, VKF_ERROR_ARGUMENT,
           "pixel_values: expected F32 of shape [1 to 65535,%u,%u,%u], found %s of %s", info->image[0], info->image[1],
           info->image[2], vkf_name_of_dtype(a->dtype), shape.data);
done:
  vkf_text_finish(&shape);
  return st;
}

/* Makes the decoder's ids for a model of classes: the start id, then the source without its last id (Lewis et al. 2020,
 * section 3.1). */
static vkf_status shift_source(const vkf_session *session, run_inputs *in) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const size_t n = in->source[1];
  if (info->decoder_start_id < 0)
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "expected decoder_input_ids, or a decoder_start_token_id in config.json, found neither");
  in->target_ids = vkf_env_alloc(session->env, in->source[0] * n, sizeof *in->target_ids);
  if (!in->target_ids) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < in->source[0] * n; i++) in->target_ids[i] = i % n ? in->ids[i - 1] : info->decoder_start_id;
  memcpy(in->target, in->source, sizeof in->target);
  return VKF_OK;
}

static vkf_status inputs_init(vkf_session *session, const vkf_array *arrays, size_t n, run_inputs *in) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  bool two = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  VKF_CALL(vkf_engine_check_names(session->env, arrays, n, "run", known_inputs(info)));
  if (info->image[0] > 0) return pixels_init(session, arrays, n, in);
  VKF_CALL(vkf_engine_array_ids(session->env, arrays, n, "input_ids", false, in->source, false, &in->ids));
  VKF_CALL(vkf_engine_array_ids(session->env, arrays, n, "attention_mask", true, in->source, true, &in->mask));
  VKF_CALL(vkf_engine_check_ids(session, "input_ids", in->ids, in->source[0], in->source[1], info->vocab));
  if (info->n_types > 0)
    VKF_CALL(vkf_engine_array_ids(session->env, arrays, n, "token_type_ids", true, in->source, true, &in->types));
  VKF_CALL(check_types(session, in));
  if (!two) return VKF_OK;
  VKF_CALL(vkf_engine_array_ids(session->env, arrays, n, "decoder_input_ids", info->is_pooled, in->target, false,
                                &in->target_ids));
  if (!in->target_ids) VKF_CALL(shift_source(session, in));
  if (info->is_pooled && in->target[1] != in->source[1])
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "decoder_input_ids: expected %zu a row, as input_ids has, found %zu, because the head reads "
                        "the state at the last eos_token_id of input_ids",
                        in->source[1], in->target[1]);
  if (in->target[0] != in->source[0])
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "decoder_input_ids: expected %zu rows, as input_ids has, found %zu", in->source[0],
                        in->target[0]);
  VKF_CALL(vkf_engine_array_ids(session->env, arrays, n, "decoder_attention_mask", true, in->target, true,
                                &in->target_mask));
  return vkf_engine_check_ids(session, "decoder_input_ids", in->target_ids, in->target[0], in->target[1],
                              info->is_pooled ? info->vocab : info->target_vocab);
}

/* Moves packed rows to the places of their tokens; other places become zeros. */
static void spread_rows(const vkf_token_grid *grid, size_t row_bytes, char *rows) {
  size_t from = 0;
  for (uint32_t r = 0; r < grid->rows; r++) from += vkf_engine_token_span(grid, r).length;
  for (uint32_t r = grid->rows; r-- > 0;) {
    const vkf_token_span span = vkf_engine_token_span(grid, r);
    char *to = rows + (size_t)r * grid->length * row_bytes, *end = to + grid->length * row_bytes;
    const size_t first = span.first * row_bytes, bytes = span.length * row_bytes;
    from -= span.length;
    memmove(to + first, rows + from * row_bytes, bytes);
    memset(to, 0, first);
    memset(to + first + bytes, 0, (size_t)(end - to) - first - bytes);
  }
}

/* Moves attention weights [rows,H,queries,keys] to the positions of their queries and keys, in sequences that do not
 * begin at position 0. */
static void shift_weights(const vkf_token_grid *queries, const vkf_token_grid *keys, size_t H, float *weights) {
  const size_t T = queries->length, S = keys->length;
  for (uint32_t r = 0; r < queries->rows; r++) {
    const vkf_token_span q = vkf_engine_token_span(queries, r), k = vkf_engine_token_span(keys, r);
    for (size_t h = 0; q.first + k.first > 0 && h < H; h++) {
      float *plane = weights + ((size_t)r * H + h) * T * S;
      for (size_t t = q.length; t-- > 0;) {
        float *to = plane + (q.first + t) * S;
        memmove(to + k.first, plane + t * S, k.length * sizeof *to);
        memset(to, 0, k.first * sizeof *to);
      }
      memset(plane, 0, q.first * S * sizeof *plane);
    }
  }
}

/* Adds a bias by distance [H, distances] to the result as one by positions [rows,H,length,length]. Farther keys have
 * the bias of the largest distance; keys behind the query of a causal stack, which it does not see, that of distance 0.
 */
static vkf_status take_bias(vkf_session *session, const vkf_cached_plan *cached, uint32_t slot, const vkf_dims *dims,
                            const size_t shape[4], bool is_causal, vkf_result *result) {
  vkf_status st = VKF_OK;
  const vkf_slot *s = &cached->plan->slots[slot];
  const size_t H = shape[1], n = shape[2], n_biases = vkf_slot_extent(s, 1, dims),
               own = is_causal ? n_biases - 1 : n_biases / 2; /* index of distance 0: the last, or the middle */
  void *data = NULL;
  float *biases = vkf_env_alloc(session->env, H * n_biases, sizeof *biases);
  VKF_TRY(biases ? VKF_OK : VKF_ERROR_MEMORY);
  VKF_TRY(session->plan_cache.backend->table->read(cached->program, slot, dims, biases));
  VKF_TRY(vkf_engine_result_add(result, s->output, s->dtype, 4, shape, &data));
  for (size_t i = 0; i < shape[0] * H * n * n; i++) {
    const size_t head = i / (n * n) % H, query = i / n % n, key = i % n;
    const size_t at = key < query ? own - VKF_MIN(own, query - key) : VKF_MIN(own + key - query, n_biases - 1);
    ((float *)data)[i] = biases[head * n_biases + at];
  }
done:
  vkf_env_free(session->env, biases);
  return st;
}

/* Splits the last array, [rows,length,2], into two of [rows,length]: where an answer begins, and where it ends. */
static vkf_status part_span(vkf_result *result) {
  static const char *const names[] = {"start_logits", "end_logits"};
  const vkf_array both = result->arrays[--result->n_arrays];
  const float *logits = both.data;
  vkf_status st = VKF_OK;
  for (size_t end = 0; end < 2; end++) {
    void *data;
    VKF_TRY(vkf_engine_result_add(result, names[end], VKF_F32, 2, both.shape, &data));
    for (size_t i = 0; i < both.shape[0] * both.shape[1]; i++) ((float *)data)[i] = logits[2 * i + end];
  }
done:
  vkf_env_free(result->env, (void *)both.name);
  vkf_env_free(result->env, both.data);
  return st;
}

/* A pass that has run, and the tokens of its rows and keys. */
typedef struct passed {
  const vkf_cached_plan *cached;
  const vkf_dims *dims;
  vkf_token_grid tokens, source; /* source: of the cross keys */
  bool is_target, hidden_states;
} passed;

/* Reads a slot into the result; packed rows become [rows, length, width]. */
static vkf_status take_output(vkf_session *session, const passed *p, uint32_t slot, vkf_result *result) {
  const vkf_slot *s = &p->cached->plan->slots[slot];
  const size_t rows = p->tokens.rows, length = p->tokens.length;
  size_t shape[VKF_MAX_SLOT_RANK + 1], rank = 0;
  void *data = NULL;
  if (s->rank == 2 && s->extent[0].dim == VKF_DIM_ONE) {
    const size_t full[] = {rows, vkf_slot_extent(s, 0, p->dims), length, length};
    return take_bias(session, p->cached, slot, p->dims, full, p->is_target, result);
  }
  bool is_split = s->rank == 2 && s->extent[0].dim != VKF_DIM_B && s->extent[0].dim != VKF_DIM_R; /* a row a token */
  if (is_split) shape[rank++] = rows;
  for (uint32_t i = 0; i < s->rank; i++) shape[rank++] = vkf_slot_extent(s, i, p->dims);
  if (is_split) shape[1] = length;
  VKF_CALL(vkf_engine_result_add(result, s->output, s->dtype, rank, shape, &data));
  VKF_CALL(session->plan_cache.backend->table->read(p->cached->program, slot, p->dims, data));
  if (is_split) spread_rows(&p->tokens, shape[2] * vkf_dtype_bytes(s->dtype), data);
  if (rank == 4) {
    const bool is_cross = p->is_target && s->extent[3].dim == VKF_DIM_S;
    shift_weights(&p->tokens, is_cross ? &p->source : &p->tokens, shape[1], data);
  }
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const bool is_logits = strcmp(s->output, "logits") == 0;
  if (info->is_span && is_logits) return part_span(result);
  if (info->is_flat && is_logits) result->arrays[result->n_arrays - 1].rank = 2;
  const char *second = p->hidden_states ? vkf_model_second_name(session->model->net, s->output) : NULL;
  if (second) {
    void *copy = NULL;
    VKF_CALL(vkf_engine_result_add(result, second, s->dtype, rank, shape, &copy));
    memcpy(copy, result->arrays[result->n_arrays - 2].data, shape[0] * shape[1] * shape[2] * vkf_dtype_bytes(s->dtype));
  }
  return VKF_OK;
}

static vkf_status take_outputs(vkf_session *session, const passed *p, vkf_result *result) {
  for (uint32_t i = 0; i < p->cached->plan->n_slots; i++)
    if (p->cached->plan->slots[i].output) VKF_CALL(take_output(session, p, i, result));
  return VKF_OK;
}

size_t vkf_engine_first_not_finite(const vkf_session *session, const float *logits, size_t n) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_weight_source weights;
  vkf_model_net_weights(session->model->net, &weights);
  for (size_t i = 0; i < n; i++) {
    float bias = 0;
    if (isfinite(logits[i])) continue;
    if (info->head_bias < weights.n_weights)
      weights.load(weights.user, info->head_bias, (uint32_t)(i % info->target_vocab), 1, &bias);
    if (logits[i] != bias || bias > 0) return i;
  }
  return n;
}

static vkf_status check_finite(const vkf_session *session, const vkf_result *result) {
  static const char of_layers[] = "layer_logits.";
  for (size_t i = 0; i < result->n_arrays; i++) {
    const vkf_array *a = &result->arrays[i];
    const float *numbers = a->data;
    const size_t n = vkf_engine_array_elements(a);
    size_t k = 0;
    if (a->dtype != VKF_F32) continue;
    if (!strcmp(a->name, "logits") || !strncmp(a->name, of_layers, sizeof of_layers - 1))
      k = vkf_engine_first_not_finite(session, numbers, n);
    else
      while (k < n && isfinite(numbers[k])) k++;
    if (k < n)
      return vkf_env_fail(session->env, VKF_ERROR_NUMERIC,
                          "%s: expected finite numbers, found %g as element %zu of %zu", a->name, (double)numbers[k], k,
                          n);
  }
  return VKF_OK;
}

/* Finds the token of each sequence that a head of classes reads: as in transformers the last that is not a pad, or the
 * first if all are pads. If the model has no pad id, masked tokens count as pads. */
static void find_last(const vkf_session *session, const vkf_decode_input *in, uint32_t *last) {
  const int32_t pad = vkf_model_net_info(session->model->net)->pad_id;
  for (uint32_t r = 0; r < in->R; r++) {
    const size_t first = (size_t)r * in->T;
    uint32_t t = in->T;
    while (t > 1 && (pad >= 0 ? in->ids[first + t - 1] == pad : in->mask && in->mask[first + t - 1] == 0)) t--;
    last[r] = t - 1;
  }
}

/* Does the same if there is an encoder: finds the last eos_token_id of each source. */
static vkf_status find_ends(const vkf_session *session, const vkf_encode_input *source, uint32_t *last) {
  for (uint32_t r = 0; r < source->B; r++) {
    const uint32_t end = vkf_engine_last_end(session, source->ids + (size_t)r * source->S, source->S);
    if (!end)
      return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                          "input_ids: row %u: expected the eos_token_id, %d, whose state the head reads, found none", r,
                          (int)vkf_model_net_info(session->model->net)->eos_id);
    last[r] = end - 1;
  }
  return VKF_OK;
}

typedef struct run_call {
  vkf_session *session;
  const vkf_run_params *params;
  vkf_run_output output;
} run_call;

/* Returns the call's request for the encoder; run_decode() changes a few members for the decoder. */
static vkf_plan_request encode_request(const run_call *call, const vkf_need_sizes *caps) {
  const vkf_run_params *params = call->params;
  const bool has_head = vkf_model_net_info(call->session->model->net)->has_head;
  return (vkf_plan_request){.stage = VKF_STAGE_ENCODE,
                            .capacity = {.T = 1, .out = caps->B * caps->S},
                            .hidden_states = params->hidden_states,
                            .last_hidden_state = call->output != VKF_RUN_LOGITS,
                            .layer_logits = params->layer_logits,
                            .attentions = params->attentions,
                            .projections = params->projections,
                            .mask = true,
                            .logits = has_head && (call->output == VKF_RUN_ALL || call->output == VKF_RUN_LOGITS)};
}

static vkf_status run_encode(vkf_session *session, vkf_bucket *bucket, vkf_plan_request request,
                             const vkf_encode_input *in, vkf_result *result) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const vkf_sizes sizes = {.B = in->B, .S = in->S, .R = in->B, .T = 1, .out = in->B * in->S};
  vkf_dims dims = vkf_dims_make(&sizes);
  passed p = {.dims = &dims, .tokens = vkf_engine_source_grid(session, in), .hidden_states = request.hidden_states};
  request.mask = vkf_engine_has_holes(&p.tokens);
  if (info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER) request.logits = request.layer_logits = false;
  VKF_CALL(vkf_engine_plan_get(&session->plan_cache, bucket, &request, &p.cached));
  VKF_CALL(vkf_engine_encode(session, p.cached, &dims, in));
  return take_outputs(session, &p, result);
}

static vkf_status run_decode(vkf_session *session, vkf_bucket *bucket, vkf_plan_request request, vkf_decode_input *in,
                             vkf_result *result) {
  vkf_status st = VKF_OK;
  const vkf_sizes sizes = {.B = in->R, .S = in->source ? in->source->S : 1, .R = in->R, .T = in->T};
  vkf_dims dims = vkf_dims_make(&sizes);
  passed p = {.dims = &dims, .is_target = true, .hidden_states = request.hidden_states};
  uint32_t *last = NULL;
  if (vkf_model_net_info(session->model->net)->is_pooled) {
    last = vkf_env_alloc(session->env, in->R, sizeof *last);
    if (!last) VKF_TRY(VKF_ERROR_MEMORY);
    if (in->source)
      VKF_TRY(find_ends(session, in->source, last));
    else
      find_last(session, in, last);
    in->reads = last;
  }
  p.tokens = vkf_engine_target_grid(in);
  if (in->source) p.source = vkf_engine_source_grid(session, in->source);
  request.stage = VKF_STAGE_DECODE;
  request.capacity = vkf_engine_pass_capacity(bucket, in->T);
  request.mask = in->source && vkf_engine_has_holes(&p.source);
  request.target_mask = vkf_engine_has_holes(&p.tokens);
  VKF_TRY(vkf_engine_plan_get(&session->plan_cache, bucket, &request, &p.cached));
  VKF_TRY(vkf_engine_decode(session, p.cached, &dims, in));
  VKF_TRY(take_outputs(session, &p, result));
done:
  vkf_env_free(session->env, last);
  return st;
}

static vkf_status run_batch(void *user, const vkf_array *inputs, size_t n_inputs, vkf_result **out) {
  vkf_status st = VKF_OK;
  const run_call *call = user;
  vkf_session *session = call->session;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  run_inputs in = {0};
  vkf_bucket *bucket = NULL;
  vkf_result *result = NULL;
  *out = NULL;
  VKF_TRY(inputs_init(session, inputs, n_inputs, &in));
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  bool decoder_only = info->architecture == VKF_ARCHITECTURE_DECODER;
  uint32_t B = (uint32_t)in.source[0], S = (uint32_t)in.source[1], T = decoder_only ? S : (uint32_t)in.target[1];
  VKF_TRY(vkf_engine_bucket_get(&session->plan_cache, &(vkf_need_sizes){B, decoder_only ? 1 : S, B, VKF_MAX(T, 1)}, 0,
                                &bucket));
  const vkf_need_sizes caps = vkf_engine_bucket_sizes(bucket);
  const vkf_plan_request request = encode_request(call, &caps);
  const vkf_encode_input source = {
      .B = B, .S = S, .ids = in.ids, .mask = in.mask, .types = in.types, .pixels = in.pixels};
  vkf_decode_input target = {.R = B, .T = T, .ids = in.target_ids, .mask = in.target_mask, .source = &source};
  if (decoder_only) target = (vkf_decode_input){.R = B, .T = T, .ids = in.ids, .mask = in.mask};
  if (!decoder_only) VKF_TRY(run_encode(session, bucket, request, &source, result));
  if (info->architecture != VKF_ARCHITECTURE_ENCODER) VKF_TRY(run_decode(session, bucket, request, &target, result));
  if (!call->params->allow_not_finite) VKF_TRY(check_finite(session, result));
done:
  /* If a task chose the batch, a smaller one may fit. If the caller of vkf_session_run() chose it, it is an error. */
  if (st == VKF_ERROR_DEVICE_MEMORY && call->output != VKF_RUN_ALL) session->env->too_large = true;
  inputs_finish(session->env, &in);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

static vkf_status run(vkf_session *session, const vkf_array *inputs, size_t n_inputs, const vkf_run_params *params,
                      vkf_run_output output, vkf_result **out) {
  run_call call = {session, params, output};
  return vkf_engine_split_batch(&(vkf_batch_split){.session = session, .run = run_batch, .user = &call}, inputs,
                                n_inputs, out);
}

vkf_status vkf_engine_run_arrays(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                 const vkf_run_params *params, vkf_result **out) {
  if (n_inputs && !inputs) return vkf_engine_null(session->env, "inputs");
  vkf_run_params p;
  vkf_env_clear(session->env);
  const vkf_status st = VKF_PARAMS_READ(session->env, vkf_run_params, params, &p);
  return st ? st : run(session, inputs, n_inputs, &p, VKF_RUN_ALL, out);
}

vkf_status vkf_engine_run_output(vkf_session *session, const vkf_array *inputs, size_t n_inputs, vkf_run_output output,
                                 vkf_result **out) {
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .attentions = output == VKF_RUN_ATTENTIONS};
  return run(session, inputs, n_inputs, &params, output, out);
}

vkf_status vkf_session_run(vkf_session *session, const vkf_array *inputs, size_t n_inputs, const vkf_run_params *params,
                           vkf_result **out) {
  VKF_SESSION_RESULT(session, out, vkf_engine_run_arrays(session, inputs, n_inputs, params, out));
}
