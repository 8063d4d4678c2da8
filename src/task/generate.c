/* generate: ids from ids: batches whose sentences begin together (generation.h), and the public door. */
#include "task/generate.h"

#include <string.h>

#include "engine/batch_split.h"
#include "task/generate_inputs.h"

/* A batch whose sentences begin together. */
typedef struct closed_batch {
  vkf_generation generation;
  const vkf_generate_input *in;
  bool is_stopped; /* by the caller's callback */
} closed_batch;

/* Who has asked to stop is told nothing more. */
static int on_token(void *user, size_t row, int32_t token) {
  closed_batch *b = user;
  if (!b->is_stopped) b->is_stopped = b->in->on_token(b->in->user, row, token) != 0;
  return b->is_stopped;
}

/* What would follow no token means nothing. */
static vkf_status check_rows(vkf_env *env, const vkf_encode_input *in) {
  for (uint32_t r = 0; in->mask && r < in->B; r++) {
    bool has_token = false;
    for (uint32_t i = 0; i < in->S; i++) has_token |= in->mask[(size_t)r * in->S + i] != 0;
    if (!has_token)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                          "row %u: expected at least one token, found an attention_mask of zeros, or nothing but pads",
                          r);
  }
  return VKF_OK;
}

static vkf_status check_input(const vkf_session *session, const vkf_generate_input *in) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  VKF_TRY(vkf_engine_generation_check(session, in->config));
  VKF_TRY(vkf_engine_check_ids(session, "input_ids", in->source.ids, in->source.B, in->source.S,
                               encoder ? info->vocab : info->target_vocab));
  VKF_TRY(check_rows(session->env, &in->source));
done:
  return st;
}

/* The generation with every sentence in its seat. */
static vkf_status begin(closed_batch *b, vkf_session *session) {
  vkf_status st = VKF_OK;
  const vkf_generate_input *in = b->in;
  const vkf_encode_input *source = &in->source;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  const uint32_t n_prompt = !encoder ? source->S : in->prefix ? in->n_prefix : 1;
  const vkf_generation_params params = {.config = in->config,
                                        .n_seats = source->B,
                                        .limit = vkf_engine_length_limit(session, in->config, false, n_prompt),
                                        .n_source = source->S,
                                        .n_prompt = n_prompt,
                                        .top_logprobs = in->top_logprobs,
                                        .has_holes = encoder && vkf_engine_has_holes(session, source),
                                        .scores = in->scores};
  uint32_t *seats = vkf_env_alloc(session->env, source->B, sizeof *seats);
  vkf_search_input *inputs = vkf_env_alloc(session->env, source->B, sizeof *inputs);
  if (!seats || !inputs) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < source->B; i++) {
    const size_t at = (size_t)i * source->S;
    seats[i] = i;
    inputs[i] = (vkf_search_input){
        .n_prompt = n_prompt, .max_length = params.limit, .line = in->lines ? in->lines[i] : i, .sentence = i};
    if (encoder) {
      inputs[i].source = source->ids + at;
      inputs[i].n_source = source->S;
      inputs[i].prompt = in->prefix ? in->prefix + (size_t)i * in->n_prefix : NULL;
    } else {
      inputs[i].prompt = source->ids + at;
      inputs[i].mask = source->mask ? source->mask + at : NULL;
    }
  }
  VKF_TRY(vkf_engine_generation_init(&b->generation, session, &params));
  VKF_TRY(vkf_engine_generation_put(&b->generation, source->B, seats, inputs, encoder ? source : NULL));
done:
  vkf_env_free(session->env, inputs);
  vkf_env_free(session->env, seats);
  return st;
}

vkf_status vkf_task_generate(vkf_session *session, const vkf_generate_input *in, vkf_generated *out) {
  vkf_status st = VKF_OK;
  closed_batch b = {.in = in};
  vkf_batch *batch = &b.generation.batch;
  memset(out, 0, sizeof *out);
  VKF_TRY(check_input(session, in));
  VKF_TRY(begin(&b, session));
  while (!b.is_stopped && !vkf_decode_batch_is_done(batch)) {
    VKF_TRY(vkf_engine_generation_step(&b.generation));
    if (in->on_token) vkf_decode_batch_tell(batch, on_token, &b);
  }
  if (b.is_stopped) vkf_decode_batch_stop(batch);
  VKF_TRY(vkf_decode_batch_result(batch, 0, in->source.B, out));
  if (b.is_stopped)
    VKF_FAIL(session->env, VKF_ERROR_STOPPED, "the token callback asked to stop after %u ids", batch->n_steps);
done:
  if (in->logprobs) {
    *in->logprobs = b.generation.logprobs;
    b.generation.logprobs = (vkf_logprobs){0};
  }
  vkf_engine_generation_finish(&b.generation);
  return st;
}

static vkf_status add_sequences(vkf_result *result, const vkf_generated *g) {
  vkf_status st = VKF_OK;
  void *data = NULL;
  VKF_TRY(vkf_engine_result_add(result, "sequences", VKF_I32, 2, (size_t[]){g->n_rows, g->length}, &data));
  memcpy(data, g->sequences, (size_t)g->n_rows * g->length * sizeof *g->sequences);
  if (g->scores) {
    VKF_TRY(vkf_engine_result_add(result, "sequences_scores", VKF_F32, 1, (size_t[]){g->n_rows}, &data));
    memcpy(data, g->scores, g->n_rows * sizeof *g->scores);
  }
done:
  return st;
}

static vkf_status add_logprobs(const vkf_logprobs *l, vkf_result *result) {
  vkf_status st = VKF_OK;
  void *chosen, *ids, *values;
  const size_t shape[] = {l->n_rows, l->longest, l->n_top};
  VKF_TRY(vkf_engine_result_add(result, "logprobs", VKF_F32, 2, shape, &chosen));
  VKF_TRY(vkf_engine_result_add(result, "top_ids", VKF_I32, 3, shape, &ids));
  VKF_TRY(vkf_engine_result_add(result, "top_logprobs", VKF_F32, 3, shape, &values));
  for (size_t r = 0; r < l->n_rows; r++) {
    for (size_t t = 0; t < l->longest; t++) {
      size_t from = r * l->capacity + t, to = r * l->longest + t;
      bool is_there = t < l->lengths[r];
      ((float *)chosen)[to] = is_there ? l->chosen[from] : 0;
      for (size_t i = 0; i < l->n_top; i++) {
        ((int32_t *)ids)[to * l->n_top + i] = is_there ? l->ids[from * l->n_top + i] : -1;
        ((float *)values)[to * l->n_top + i] = is_there ? l->values[from * l->n_top + i] : 0;
      }
    }
  }
done:
  return st;
}

typedef struct generate_call {
  vkf_session *session;
  const vkf_generate_params *params;
  const vkf_generation_config *config;
  bool needs_start; /* prefixes of the target begin behind it */
  size_t first_row; /* of the part that is on its way */
  bool begun;       /* somebody was told of a token */
} generate_call;

/* Hands tokens on with the row of the whole batch. */
static int on_part_token(void *user, size_t row, int32_t token) {
  generate_call *call = user;
  call->begun = true;
  int stop = 0;
  VKF_CALLBACK(call->session->env, stop = call->params->on_token(call->params->user, call->first_row + row, token));
  return stop;
}

static vkf_status generate_batch(void *user, const vkf_array *inputs, size_t n_inputs, size_t first, vkf_result **out) {
  vkf_status st = VKF_OK;
  generate_call *call = user;
  vkf_session *session = call->session;
  const vkf_generate_params *params = call->params;
  vkf_generate_arrays in = {0};
  uint64_t *lines = NULL;
  vkf_generated generated = {0};
  vkf_logprobs logprobs = {0};
  vkf_result *result = NULL;
  bool stopped = false;
  *out = NULL;
  VKF_TRY(vkf_task_generate_arrays_init(session, call->config, inputs, n_inputs, call->needs_start, &in));
  lines = vkf_env_alloc(session->env, in.shape[0], sizeof *lines);
  if (!lines) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t b = 0; b < in.shape[0]; b++)
    lines[b] = params->lines ? params->lines[first + b] : first + b + params->first_line;
  call->first_row = call->config->num_beams > 1 ? 0 : vkf_decode_batch_slots(call->config, (uint32_t)first);
  st = vkf_task_generate(
      session,
      &(vkf_generate_input){
          .source = {.B = (uint32_t)in.shape[0], .S = (uint32_t)in.shape[1], .ids = in.ids, .mask = in.mask},
          .prefix = in.prefix_ids,
          .n_prefix = (uint32_t)in.prefix[1],
          .config = call->config,
          .lines = lines,
          .top_logprobs = params->top_logprobs,
          .scores = params->scores,
          .logprobs = &logprobs,
          .on_token = params->on_token ? on_part_token : NULL,
          .user = call},
      &generated);
  if (call->begun) session->env->too_large = false; /* nobody is told of a token twice */
  stopped = st == VKF_ERROR_STOPPED;
  if (!stopped) VKF_TRY(st);
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(add_sequences(result, &generated));
  if (logprobs.env) VKF_TRY(add_logprobs(&logprobs, result));
done:
  vkf_decode_logprobs_finish(&logprobs);
  vkf_task_generate_arrays_finish(session->env, &in);
  vkf_env_free(session->env, lines);
  vkf_decode_generated_finish(&generated);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st ? st : stopped ? VKF_ERROR_STOPPED : VKF_OK;
}

vkf_status vkf_task_generate_arrays(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                    const vkf_generate_params *params, vkf_result **out) {
  if (n_inputs && !inputs) return vkf_engine_null(session->env, "inputs");
  vkf_status st = VKF_OK;
  vkf_generation_config config;
  vkf_generate_params p;
  generate_call call = {.session = session, .params = &p, .config = &config};
  *out = NULL;
  vkf_env_clear(session->env);
  st = VKF_PARAMS_READ(session->env, vkf_generate_params, params, &p);
  if (st) return st;
  VKF_TRY(vkf_engine_derive_generation(session, p.source_language, p.target_language, p.config_json, &config));
  call.needs_start = vkf_task_generate_needs_start(&config, inputs, n_inputs);
  st = vkf_engine_split_batch(&(vkf_batch_split){session, generate_batch, &call, vkf_decode_search_fill(&config)},
                              inputs, n_inputs, 0, out);
done:
  vkf_decode_generation_finish(&config);
  return st;
}

vkf_status vkf_session_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                const vkf_generate_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, vkf_task_generate_arrays(session, inputs, n_inputs, params, out));
}
