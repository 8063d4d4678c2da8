/* generate: ids from ids. The searches of a batch ask for steps, the device runs them (steps.h). */
#define _DEFAULT_SOURCE /* _SC_PHYS_PAGES */
#include <string.h>
#include <unistd.h>

#include "decode/batch.h"
#include "engine/batch_split.h"
#include "engine/generate_inputs.h"
#include "engine/steps.h"

/* A batch on its way. */
typedef struct generation {
  vkf_session *session;
  const vkf_generate_input *in;
  vkf_batch batch;
  vkf_steps steps;
  float *logits;   /* [slots][n_vocab]: of the last step; NULL: nobody reads them */
  bool is_stopped; /* by the caller's callback */
} generation;

/* The length limit: the configuration's, else transformers' default of 20 new ids, or for translations the model's
 * positions. */
static uint64_t length_limit(const vkf_session *session, const vkf_generate_input *in, uint32_t prompt) {
  enum { DEFAULT_NEW = 20, UNLIMITED_TRANSLATION = 512 };
  uint64_t positions = vkf_model_net_info(session->model->net)->max_positions, fallback = prompt + DEFAULT_NEW;
  if (in->translate) fallback = positions ? positions : UNLIMITED_TRANSLATION;
  if (positions) fallback = VKF_MIN(fallback, positions);
  return vkf_decode_generation_length(in->config, prompt, fallback);
}

/* Who has asked to stop is told nothing more. */
static int on_token(void *user, size_t row, int32_t token) {
  generation *g = user;
  if (!g->is_stopped) g->is_stopped = g->in->on_token(g->in->user, row, token) != 0;
  return g->is_stopped;
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

/* Refuses what this machine has no memory for before any of it is taken: a system that gives memory by promise would
 * end the process later. Counted is what the search keeps at least: of each row its logits, its candidates (`width` of
 * them) and its ids, with beams three times. */
static vkf_status check_memory(const generation *g, uint32_t k, uint32_t longest) {
  const vkf_generation_config *c = g->in->config;
  const uint32_t B = g->in->source.B, n_vocab = vkf_model_net_info(g->session->model->net)->target_vocab;
  const double n_rows = (double)B * (c->do_sample ? c->num_return_sequences : c->num_beams);
  const double need = n_rows * (4.0 * n_vocab + 8.0 * (k ? k : n_vocab) + (c->num_beams > 1 ? 12.0 : 4.0) * longest);
  const double has = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (has <= 0 || need <= has) return VKF_OK;
  return vkf_env_fail(
      g->session->env, VKF_ERROR_MEMORY,
      "expected a request that fits into this machine's memory, %.1f GB, found one that needs at least "
      "%.1f GB: %.0f rows (%u inputs, num_beams %u, num_return_sequences %u), a vocabulary of %u, and the "
      "length limit is %u",
      has / 1e9, need / 1e9, n_rows, B, c->num_beams, c->num_return_sequences, n_vocab, longest);
}

static vkf_status check_input(const vkf_session *session, const vkf_generate_input *in) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  if (info->architecture == VKF_ARCHITECTURE_ENCODER || !info->has_head)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED,
             "a model of family %s (%s) without a language model head cannot generate", info->family,
             vkf_model_architecture_name(info->architecture));
  VKF_TRY(vkf_decode_generation_check(in->config, info->target_vocab));
  VKF_TRY(vkf_engine_check_ids(session, "input_ids", in->source.ids, in->source.B, in->source.S,
                               encoder ? info->vocab : info->target_vocab));
  VKF_TRY(check_rows(session->env, &in->source));
done:
  return st;
}

/* A search for each sentence. */
static vkf_status begin_searches(generation *g, uint32_t edits, uint64_t limit, uint32_t n_prompt) {
  vkf_status st = VKF_OK;
  const vkf_generate_input *in = g->in;
  const vkf_encode_input *source = &in->source;
  const vkf_net_info *info = vkf_model_net_info(g->session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  const vkf_batch_input batch = {
      .config = in->config, .n_seats = source->B, .n_vocab = info->target_vocab, .edits = edits};
  VKF_TRY(vkf_decode_batch_init(&g->batch, g->session->env, &batch));
  for (uint32_t b = 0; b < source->B; b++) {
    const size_t at = (size_t)b * source->S;
    const int32_t *mask = source->mask ? source->mask + at : NULL;
    const vkf_search_input input = {.prompt = !encoder     ? source->ids + at
                                              : in->prefix ? in->prefix + (size_t)b * in->n_prefix
                                                           : NULL,
                                    .n_prompt = n_prompt,
                                    .mask = encoder ? NULL : mask,
                                    .source = encoder ? source->ids + at : NULL,
                                    .n_source = encoder ? source->S : 0,
                                    .max_length = limit,
                                    .n_positions = info->max_positions,
                                    .line = in->lines ? in->lines[b] : b,
                                    .sentence = b,
                                    .scores = in->scores};
    VKF_TRY(vkf_decode_batch_put(&g->batch, b, &input));
  }
done:
  return st;
}

/* The cache of the batch, with the sources in it. */
static vkf_status begin_steps(generation *g, uint32_t edits, uint32_t k, uint32_t limit) {
  vkf_status st = VKF_OK;
  const vkf_generate_input *in = g->in;
  const vkf_net_info *info = vkf_model_net_info(g->session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER, beams = in->config->num_beams > 1;
  const uint32_t B = in->source.B, n_slots = vkf_decode_batch_slots(in->config, B);
  const vkf_steps_params params = {
      .n_sources = B,
      .each = n_slots / B,
      .slot_tokens = limit,
      .source_tokens = encoder ? in->source.S : 0,
      .has_holes = encoder && vkf_engine_has_holes(g->session, &in->source),
      .edits = edits,
      .head = {
          .ancestry = beams, .log_softmax = beams, .renormalize = beams && in->config->renormalize_logits, .top_k = k}};
  vkf_encode_input source = in->source;
  uint32_t *places = NULL;
  VKF_TRY(vkf_engine_steps_init(&g->steps, g->session, &params));
  if (in->top_logprobs || !g->steps.values) {
    size_t n = 0;
    if (!vkf_size_mul(n_slots, info->target_vocab, &n)) n = SIZE_MAX;
    g->logits = vkf_env_alloc(g->session->env, n, sizeof *g->logits);
    if (!g->logits) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (!encoder) goto done;
  source.places = places = vkf_env_alloc(g->session->env, B, sizeof *places);
  if (!places) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t b = 0; b < B; b++) places[b] = b;
  VKF_TRY(vkf_engine_steps_encode(&g->steps, &source));
done:
  vkf_env_free(g->session->env, places);
  return st;
}

static vkf_status begin(generation *g) {
  vkf_status st = VKF_OK;
  vkf_session *session = g->session;
  const vkf_generate_input *in = g->in;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  const uint32_t n_prompt = !encoder ? in->source.S : in->prefix ? in->n_prefix : 1;
  const uint64_t limit = length_limit(session, in, n_prompt);
  if (limit > UINT32_MAX / 2)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected a length limit below 2^31, found %llu",
             (unsigned long long)limit);
  const uint32_t longest = vkf_decode_search_longest(limit, info->max_positions, n_prompt),
                 edits = vkf_decode_max_edits(in->config, longest, in->source.S),
                 k = vkf_decode_search_k(in->config, info->target_vocab, in->scores);
  VKF_TRY(check_memory(g, k, longest));
  if (in->top_logprobs && in->config->num_beams > 1)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED, "top_logprobs with num_beams %u is not supported: expected 1 beam",
             in->config->num_beams);
  VKF_TRY(begin_searches(g, edits, limit, n_prompt));
  if (in->top_logprobs)
    VKF_TRY(vkf_decode_logprobs_init(in->logprobs, session->env, vkf_decode_batch_slots(in->config, in->source.B),
                                     info->target_vocab, in->top_logprobs, longest - VKF_MIN(n_prompt, longest)));
  VKF_TRY(begin_steps(g, edits, k, (uint32_t)limit));
done:
  return st;
}

static vkf_status step(generation *g) {
  vkf_status st = VKF_OK;
  vkf_batch *batch = &g->batch;
  const size_t n_vocab = g->steps.n_vocab;
  vkf_batch_step next;
  VKF_TRY(vkf_decode_batch_ask(batch, &next));
  for (uint32_t r = 0; g->logits && r < next.n_rows; r++) next.rows[r].logits = g->logits + r * n_vocab;
  VKF_TRY(vkf_engine_steps_run(&g->steps, &next));
  VKF_TRY(vkf_decode_batch_take(batch, g->steps.values ? g->steps.values : g->logits, g->steps.top_ids));
  for (uint32_t i = 0; g->in->top_logprobs && i < batch->n_live; i++)
    vkf_decode_logprobs_add(g->in->logprobs, batch->live[i], batch->got[i], g->logits + i * n_vocab);
  if (g->in->on_token) vkf_decode_batch_tell(batch, on_token, g);
done:
  return st;
}

vkf_status vkf_engine_generate(vkf_session *session, const vkf_generate_input *in, vkf_generated *out) {
  vkf_status st = VKF_OK;
  generation g = {.session = session, .in = in};
  memset(out, 0, sizeof *out);
  VKF_TRY(check_input(session, in));
  VKF_TRY(begin(&g));
  while (!g.is_stopped && !vkf_decode_batch_is_done(&g.batch)) {
    st = step(&g);
    if (st == VKF_ERROR_NUMERIC && session->model->cache_format != VKF_FORMAT_F32)
      vkf_env_prefix(session->env, st, "keys and values are kept as %s, which ends at %g (f32 does not): ",
                     vkf_format_get(session->model->cache_format)->name,
                     vkf_format_get(session->model->cache_format)->largest);
    VKF_TRY(st);
  }
  if (g.is_stopped) vkf_decode_batch_stop(&g.batch);
  VKF_TRY(vkf_decode_batch_result(&g.batch, 0, in->source.B, out));
  if (g.is_stopped)
    VKF_FAIL(session->env, VKF_ERROR_STOPPED, "the token callback asked to stop after %u ids", g.batch.n_steps);
done:
  vkf_decode_batch_finish(&g.batch);
  vkf_engine_steps_finish(&g.steps);
  vkf_env_free(session->env, g.logits);
  return st;
}

vkf_status vkf_engine_derive_generation(vkf_session *session, const char *source_language, const char *target_language,
                                        const char *config_json, vkf_generation_config *out) {
  vkf_status st = VKF_OK;
  vkf_text_languages_before before;
  int32_t begin = VKF_NO_TOKEN;
  vkf_decode_generation_derive(out, session->env, &session->model->generation);
  if (source_language || target_language) {
    if (!session->model->tokenizer.text)
      VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED, "languages need a tokenizer: %s", session->model->tokenizer.why);
    vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&session->tokenizer);
    st = vkf_text_languages_use(tokenizer, source_language, target_language, &before, &begin);
    if (!st) vkf_text_languages_restore(tokenizer, &before);
    vkf_engine_tokenizer_unlock(&session->tokenizer);
    VKF_TRY(st);
  }
  if (begin != VKF_NO_TOKEN) out->forced_bos = begin;
  VKF_TRY(vkf_decode_generation_apply(out, "the given generation config", config_json));
done:
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
  VKF_TRY(vkf_engine_generate_arrays_init(session, call->config, inputs, n_inputs, call->needs_start, &in));
  lines = vkf_env_alloc(session->env, in.shape[0], sizeof *lines);
  if (!lines) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t b = 0; b < in.shape[0]; b++)
    lines[b] = params->lines ? params->lines[first + b] : first + b + params->first_line;
  call->first_row = call->config->num_beams > 1 ? 0 : vkf_decode_batch_slots(call->config, (uint32_t)first);
  st = vkf_engine_generate(
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
  vkf_engine_generate_arrays_finish(session->env, &in);
  vkf_env_free(session->env, lines);
  vkf_decode_generated_finish(&generated);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st ? st : stopped ? VKF_ERROR_STOPPED : VKF_OK;
}

vkf_status vkf_engine_generate_arrays(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
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
  call.needs_start = vkf_engine_generate_needs_start(&config, inputs, n_inputs);
  st = vkf_engine_split_batch(&(vkf_batch_split){session, generate_batch, &call, vkf_decode_search_fill(&config)},
                              inputs, n_inputs, 0, out);
done:
  vkf_decode_generation_finish(&config);
  return st;
}

vkf_status vkf_session_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                const vkf_generate_params *params, vkf_result **out) {
  if (!out) return VKF_ERROR_ARGUMENT;
  *out = NULL;
  vkf_status st = vkf_engine_session_begin(session, "vkf_session_generate");
  if (st) return st;
  st = vkf_engine_generate_arrays(session, inputs, n_inputs, params, out);
  return vkf_engine_session_end(session, st, out);
}
