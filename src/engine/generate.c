/* generate: the search of the host over decoding steps of the device.
 *
 * The encoder and the cross keys and values run once a batch; a step writes ids, positions, beam order and edits, runs
 * the decoder's blocks as they were recorded, and reads back candidates. Beams are reordered by an ancestry table,
 * never by moving caches: ancestry[r][s] says which row's cache holds the key that row r has at position s.
 */
#define _DEFAULT_SOURCE /* _SC_PHYS_PAGES */
#include <string.h>
#include <unistd.h>

#include "decode/search.h"
#include "engine/generate_inputs.h"
#include "engine/batch_split.h"

typedef struct stepper_state {
  vkf_model *m;
  vkf_bucket *bucket;
  vkf_need_sizes caps;
  vkf_plan_request request; /* of the decoder's cache; T is set a step */
  uint32_t B, S, R, past;
  const int32_t *source_mask;
  int32_t *ancestry, *ancestry_next; /* [R][keys cap]; NULL: no beams */
  int32_t *key_mask;                 /* [R][keys cap]; NULL: no padding in the prompt */
  int32_t *out_rows, *positions;     /* [R], [R][T] */
  uint32_t *edit_offsets;            /* [R cap + 1] */
  const char *output;                /* of the plan, in `values`: all scores; NULL: candidates */
  float *values;                     /* [R][k], or [R][V] */
  int32_t *ids;
  float *logits;          /* [R][V]: of the last step, for `logprobs`; may be `values`; NULL: not asked for */
  vkf_logprobs *logprobs; /* NULL: not asked for */
  const vkf_generate_input *in;
  bool is_stopped;             /* by the caller's callback */
  const vkf_cached_plan *last; /* the program whose lasting inputs are written */
} stepper_state;

/* Row r goes on as what row order[r] was. */
static void reorder(stepper_state *s, const uint32_t *order) {
  size_t stride = s->caps.keys;
  if (!s->ancestry || !order) return;
  for (uint32_t r = 0; r < s->R; r++)
    memcpy(s->ancestry_next + r * stride, s->ancestry + order[r] * stride, s->past * sizeof *s->ancestry);
  int32_t *swap = s->ancestry;
  s->ancestry = s->ancestry_next;
  s->ancestry_next = swap;
}

/* Inputs that stay the same over the steps of one program. */
static vkf_status write_lasting(stepper_state *s, const vkf_cached_plan *cached, const vkf_dims *dims) {
  vkf_status st = VKF_OK;
  vkf_dims all = *dims; /* of the mask every key there will be */
  all.v[VKF_DIM_KEYS] = s->caps.keys;
  if (s->last == cached) goto done;
  VKF_TRY(vkf_engine_write_mask(s->m, cached, VKF_INPUT_MASK, dims, s->B, s->S, s->source_mask));
  if (s->key_mask) VKF_TRY(vkf_engine_write_input(&s->m->plan_cache, cached, VKF_INPUT_TARGET_MASK, &all, s->key_mask));
  s->last = cached;
done:
  return st;
}

static vkf_status write_step(stepper_state *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                             const vkf_step_request *step) {
  vkf_status st = VKF_OK;
  const vkf_plan_cache *p = &s->m->plan_cache;
  uint32_t T = step->n_tokens;
  const vkf_model_tokens tokens = {.stage = VKF_STAGE_DECODE,
                                   .rows = s->R,
                                   .length = T,
                                   .past = s->past,
                                   .ids = step->tokens,
                                   .mask = s->key_mask,
                                   .mask_stride = s->caps.keys,
                                   .continues = true};
  vkf_model_positions(s->m->net, &tokens, s->positions);
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_IDS, dims, step->tokens));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_POSITIONS, dims, s->positions));
  if (s->ancestry) {
    for (uint32_t r = 0; r < s->R; r++)
      for (uint32_t t = 0; t < T; t++) s->ancestry[(size_t)r * s->caps.keys + s->past + t] = (int32_t)r;
    VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_ANCESTRY, dims, s->ancestry));
  }
  for (uint32_t r = 0; r < s->R; r++) s->out_rows[r] = (int32_t)(r * T + T - 1);
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_OUT_ROWS, dims, s->out_rows));
  if (s->request.max_edits) {
    uint32_t n = step->edit_offsets[s->R];
    if (n > s->request.max_edits)
      VKF_FAIL(s->m->env, VKF_ERROR_ARGUMENT, "a step has %u edits of logits, expected at most %u", n,
               s->request.max_edits);
    memcpy(s->edit_offsets, step->edit_offsets, (s->R + 1) * sizeof *s->edit_offsets);
    VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_EDIT_OFFSETS, dims, s->edit_offsets));
    VKF_TRY(p->backend->table->write_rows(cached->program, cached->slots[VKF_INPUT_EDITS], n, step->edits));
  }
done:
  return st;
}

static vkf_status step(void *user, const vkf_step_request *step, const float **values, const int32_t **ids) {
  vkf_status st = VKF_OK;
  stepper_state *s = user;
  const vkf_backend_table *backend = s->m->plan_cache.backend->table;
  const vkf_cached_plan *cached = NULL;
  vkf_sizes sizes = {.B = s->B, .S = s->S, .R = s->R, .T = step->n_tokens, .past = s->past, .out = s->R};
  vkf_dims dims = vkf_dims_make(&sizes);
  s->request.capacity.T = step->n_tokens == 1 ? 1 : VKF_MIN(vkf_engine_round_length(step->n_tokens), s->caps.keys);
  s->request.gather_out = step->n_tokens != 1;
  VKF_TRY(vkf_engine_plan_get(&s->m->plan_cache, s->bucket, &s->request, &cached));
  reorder(s, step->order);
  VKF_TRY(write_lasting(s, cached, &dims));
  VKF_TRY(write_step(s, cached, &dims, step));
  VKF_TRY(vkf_engine_run_plan(&s->m->plan_cache, cached, &dims));
  const char *values_name = s->output ? s->output : "top_values";
  VKF_TRY(backend->read(cached->program, vkf_plan_find_output(cached->plan, values_name), &dims, s->values));
  if (!s->output) VKF_TRY(backend->read(cached->program, vkf_plan_find_output(cached->plan, "top_ids"), &dims, s->ids));
  if (s->logits && s->logits != s->values)
    VKF_TRY(backend->read(cached->program, vkf_plan_find_output(cached->plan, "logits"), &dims, s->logits));
  s->past += step->n_tokens;
  *values = s->values;
  *ids = s->ids;
done:
  return st;
}

/* Memory of the steps: allocated once. width: of a row of values. */
static vkf_status state_init(stepper_state *s, bool beams, const int32_t *prompt_mask, uint32_t n_prompt,
                             uint32_t width) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->m->env;
  size_t cells = (size_t)s->caps.R * s->caps.keys;
  s->out_rows = vkf_env_alloc(env, s->R, sizeof *s->out_rows);
  s->positions = vkf_env_alloc(env, (size_t)s->R * VKF_MAX(n_prompt, 1), sizeof *s->positions);
  s->values = vkf_env_alloc(env, (size_t)s->R * width, sizeof *s->values);
  s->ids = vkf_env_alloc(env, s->output ? 1 : (size_t)s->R * width, sizeof *s->ids);
  if (!s->out_rows || !s->positions || !s->values || !s->ids) VKF_TRY(VKF_ERROR_MEMORY);
  if (beams) {
    s->ancestry = vkf_env_alloc(env, cells, sizeof *s->ancestry);
    s->ancestry_next = vkf_env_alloc(env, cells, sizeof *s->ancestry);
    if (!s->ancestry || !s->ancestry_next) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (s->request.max_edits) {
    s->edit_offsets = vkf_env_alloc(env, (size_t)s->caps.R + 1, sizeof *s->edit_offsets);
    if (!s->edit_offsets) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (prompt_mask) {
    s->key_mask = vkf_env_alloc(env, cells, sizeof *s->key_mask);
    if (!s->key_mask) VKF_TRY(VKF_ERROR_MEMORY);
    for (size_t i = 0; i < cells; i++) s->key_mask[i] = 1;
    for (uint32_t r = 0; r < s->R; r++)
      for (uint32_t t = 0; t < VKF_MIN(n_prompt, s->caps.keys); t++) /* a longer prompt the search refuses */
        s->key_mask[(size_t)r * s->caps.keys + t] = prompt_mask[(size_t)(r / (s->R / s->B)) * n_prompt + t] != 0;
  }
done:
  return st;
}

static vkf_status init_logprobs(stepper_state *s, uint32_t n_vocab, uint32_t steps) {
  vkf_env *env = s->m->env;
  const vkf_generate_input *in = s->in;
  if (!in->top_logprobs) return VKF_OK;
  if (in->config->num_beams > 1)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "top_logprobs with num_beams %u is not supported: expected 1 beam",
                        in->config->num_beams);
  s->logprobs = in->logprobs;
  s->logits = s->output && strcmp(s->output, "logits") == 0 ? s->values
                                                            : vkf_env_alloc(env, (size_t)s->R * n_vocab, sizeof(float));
  if (!s->logits) return VKF_ERROR_MEMORY;
  return vkf_decode_logprobs_init(s->logprobs, env, s->R, n_vocab, in->top_logprobs, steps);
}

/* After a step, while its logits are there. Who has asked to stop is told nothing more. */
static int on_token(void *user, size_t row, int32_t token) {
  stepper_state *s = user;
  if (s->logprobs) vkf_decode_logprobs_add(s->logprobs, (uint32_t)row, token, s->logits + row * s->logprobs->n_vocab);
  if (s->in->on_token && !s->is_stopped) s->is_stopped = s->in->on_token(s->in->user, row, token) != 0;
  return s->is_stopped;
}

static void state_finish(stepper_state *s) {
  if (s->logits != s->values) vkf_env_free(s->m->env, s->logits);
  void *all[] = {s->ancestry,  s->ancestry_next, s->key_mask, s->out_rows,
                 s->positions, s->edit_offsets,  s->values,   s->ids};
  for (size_t i = 0; i < VKF_COUNT(all); i++) vkf_env_free(s->m->env, all[i]);
}

/* The length limit: the configuration's, else transformers' default of 20 new ids, or for translations the model's
 * positions. */
static uint64_t length_limit(const vkf_model *m, const vkf_generate_input *in, uint32_t prompt) {
  enum { DEFAULT_NEW = 20, UNLIMITED_TRANSLATION = 512 };
  uint64_t positions = vkf_model_net_info(m->net)->max_positions, fallback = prompt + DEFAULT_NEW;
  if (in->translate) fallback = positions ? positions : UNLIMITED_TRANSLATION;
  if (positions) fallback = VKF_MIN(fallback, positions);
  return vkf_decode_generation_length(in->config, prompt, fallback);
}

static vkf_status run_encoder(stepper_state *s, const vkf_encode_input *source) {
  vkf_status st = VKF_OK;
  const vkf_cached_plan *cached = NULL;
  vkf_sizes sizes = {.B = s->B, .S = s->S, .R = s->R, .T = 1, .out = s->B * s->S};
  vkf_dims dims = vkf_dims_make(&sizes);
  vkf_plan_request request = {
      .stage = VKF_STAGE_ENCODE, .capacity = {.T = 1, .out = s->caps.B * s->caps.S}, .mask = true};
  VKF_TRY(vkf_engine_plan_get(&s->m->plan_cache, s->bucket, &request, &cached));
  VKF_TRY(vkf_engine_encode(s->m, cached, &dims, source));
done:
  return st;
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
static vkf_status check_memory(const stepper_state *s, uint32_t width, uint32_t n_vocab, uint32_t longest) {
  const vkf_generation_config *c = s->in->config;
  const double n_rows = (double)s->B * (c->do_sample ? c->num_return_sequences : c->num_beams);
  const double need = n_rows * (4.0 * n_vocab + 8.0 * width + (c->num_beams > 1 ? 12.0 : 4.0) * longest);
  const double has = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (has <= 0 || need <= has) return VKF_OK;
  return vkf_env_fail(
      s->m->env, VKF_ERROR_MEMORY,
      "expected a request that fits into this machine's memory, %.1f GB, found one that needs at least "
      "%.1f GB: %.0f rows (%u inputs, num_beams %u, num_return_sequences %u), a vocabulary of %u, and the "
      "length limit is %u",
      has / 1e9, need / 1e9, n_rows, s->B, c->num_beams, c->num_return_sequences, n_vocab, longest);
}

vkf_status vkf_engine_generate(vkf_model *m, const vkf_generate_input *in, vkf_generated *out) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(m->net);
  bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  stepper_state s = {.m = m,
                     .in = in,
                     .B = in->source.B,
                     .S = encoder ? in->source.S : 1,
                     .source_mask = encoder ? in->source.mask : NULL};
  const int32_t *prompt = encoder ? in->prefix : in->source.ids;
  uint32_t n_prompt = !encoder ? in->source.S : prompt ? in->n_prefix : 1;
  memset(out, 0, sizeof *out);
  if (info->architecture == VKF_ARCHITECTURE_ENCODER || !info->has_head)
    VKF_FAIL(m->env, VKF_ERROR_UNSUPPORTED, "a model of family %s (%s) without a language model head cannot generate",
             info->family, vkf_model_architecture_name(info->architecture));
  VKF_TRY(vkf_decode_generation_check(in->config, info->target_vocab));
  VKF_TRY(vkf_engine_check_ids(m, "input_ids", in->source.ids, in->source.B, in->source.S,
                               encoder ? info->vocab : info->target_vocab));
  VKF_TRY(check_rows(m->env, &in->source));
  s.R = vkf_decode_search_rows(in->config, s.B);
  uint64_t limit = length_limit(m, in, n_prompt);
  if (limit > UINT32_MAX / 2)
    VKF_FAIL(m->env, VKF_ERROR_ARGUMENT, "expected a length limit below 2^31, found %llu", (unsigned long long)limit);
  bool beams = in->config->num_beams > 1;
  uint32_t longest = vkf_decode_search_longest(limit, info->max_positions, n_prompt),
           k = vkf_decode_search_k(in->config, info->target_vocab, in->scores),
           edits = vkf_decode_max_edits(in->config, longest, in->source.S);
  VKF_TRY(check_memory(&s, k ? k : info->target_vocab, info->target_vocab, longest));
  VKF_TRY(vkf_engine_bucket_get(&m->plan_cache, &(vkf_need_sizes){s.B, s.S, s.R, (uint32_t)limit}, &s.bucket));
  s.caps = vkf_engine_bucket_sizes(s.bucket);
  if (edits > UINT32_MAX / 2 / VKF_MAX(s.caps.R, 1))
    VKF_FAIL(m->env, VKF_ERROR_ARGUMENT,
             "the configuration needs %u edits of logits a row, more than this engine plans for", edits);
  s.request = (vkf_plan_request){.stage = VKF_STAGE_DECODE,
                                 .capacity = {.T = 1, .out = s.caps.R},
                                 .mask = encoder,
                                 .target_mask = !encoder && in->source.mask,
                                 .ancestry = beams,
                                 .log_softmax = beams,
                                 .max_edits = edits ? vkf_engine_round_length(edits) * s.caps.R : 0,
                                 .renormalize = beams && in->config->renormalize_logits,
                                 .top_k = k,
                                 .logits = in->top_logprobs > 0 || (k == 0 && edits == 0)};
  if (k == 0) s.output = edits ? "scores" : "logits";
  VKF_TRY(state_init(&s, beams, encoder ? NULL : in->source.mask, n_prompt, k ? k : info->target_vocab));
  VKF_TRY(init_logprobs(&s, info->target_vocab, longest - VKF_MIN(n_prompt, longest)));
  if (encoder) VKF_TRY(run_encoder(&s, &in->source));
  const vkf_stepper stepper = {
      .user = &s, .n_vocab = info->target_vocab, .n_rows = s.R, .log_probs = beams, .step = step};
  const vkf_search_input search = {.B = s.B,
                                   .prompt = prompt,
                                   .prompt_mask = encoder ? NULL : in->source.mask,
                                   .n_prompt = n_prompt,
                                   .source = encoder ? in->source.ids : NULL,
                                   .n_source = encoder ? in->source.S : 0,
                                   .max_length = limit,
                                   .lines = in->lines,
                                   .scores = in->scores,
                                   .n_positions = info->max_positions,
                                   .on_token = s.logprobs || in->on_token ? on_token : NULL,
                                   .user = &s};
  st = vkf_decode_search(m->env, in->config, &stepper, &search, out);
  if (st == VKF_ERROR_NUMERIC && m->cache_format != VKF_FORMAT_F32)
    vkf_env_prefix(m->env, st, "keys and values are kept as %s, which ends at %g (f32 does not): ",
                   vkf_format_get(m->cache_format)->name, vkf_format_get(m->cache_format)->largest);
  VKF_TRY(st);
done:
  state_finish(&s);
  return st;
}

vkf_status vkf_engine_derive_generation(const vkf_model *m, const char *source_language, const char *target_language,
                                        const char *config_json, vkf_generation_config *out) {
  vkf_status st = VKF_OK;
  vkf_text_languages_before before;
  int32_t begin = VKF_NO_TOKEN;
  vkf_decode_generation_derive(out, &m->generation);
  if (source_language || target_language) {
    if (!m->tokenizer) VKF_FAIL(m->env, VKF_ERROR_UNSUPPORTED, "languages need a tokenizer: %s", m->no_tokenizer);
    VKF_TRY(vkf_text_languages_use(m->tokenizer, source_language, target_language, &before, &begin));
    vkf_text_languages_restore(m->tokenizer, &before);
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
  vkf_model *m;
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
  VKF_CALLBACK(call->m->env, stop = call->params->on_token(call->params->user, call->first_row + row, token));
  return stop;
}

static vkf_status generate_batch(void *user, const vkf_array *inputs, size_t n_inputs, size_t first, vkf_result **out) {
  vkf_status st = VKF_OK;
  generate_call *call = user;
  vkf_model *m = call->m;
  const vkf_generate_params *params = call->params;
  vkf_generate_arrays in = {0};
  uint64_t *lines = NULL;
  vkf_generated generated = {0};
  vkf_logprobs logprobs = {0};
  vkf_result *result = NULL;
  bool stopped = false;
  *out = NULL;
  VKF_TRY(vkf_engine_generate_arrays_init(m, call->config, inputs, n_inputs, call->needs_start, &in));
  lines = vkf_env_alloc(m->env, in.shape[0], sizeof *lines);
  if (!lines) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t b = 0; b < in.shape[0]; b++)
    lines[b] = params->lines ? params->lines[first + b] : first + b + params->first_line;
  call->first_row = call->config->num_beams > 1 ? 0 : vkf_decode_search_rows(call->config, (uint32_t)first);
  st = vkf_engine_generate(
      m,
      &(vkf_generate_input){.source = {(uint32_t)in.shape[0], (uint32_t)in.shape[1], in.ids, in.mask, NULL, NULL},
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
  if (call->begun) m->env->too_large = false; /* nobody is told of a token twice */
  stopped = st == VKF_ERROR_STOPPED;
  if (!stopped) VKF_TRY(st);
  VKF_TRY(vkf_engine_result_create(m->env, &result));
  VKF_TRY(add_sequences(result, &generated));
  if (logprobs.env) VKF_TRY(add_logprobs(&logprobs, result));
done:
  vkf_decode_logprobs_finish(&logprobs);
  vkf_engine_generate_arrays_finish(m->env, &in);
  vkf_env_free(m->env, lines);
  vkf_decode_generated_finish(&generated);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st ? st : stopped ? VKF_ERROR_STOPPED : VKF_OK;
}

vkf_status vkf_engine_generate_arrays(vkf_model *m, const vkf_array *inputs, size_t n_inputs,
                                      const vkf_generate_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_generation_config config;
  vkf_generate_params p;
  generate_call call = {.m = m, .params = &p, .config = &config};
  *out = NULL;
  vkf_env_clear(m->env);
  st = VKF_PARAMS_READ(m->env, vkf_generate_params, params, &p);
  if (st) return st;
  VKF_TRY(vkf_engine_derive_generation(m, p.source_language, p.target_language, p.config_json, &config));
  call.needs_start = vkf_engine_generate_needs_start(&config, inputs, n_inputs);
  st = vkf_engine_split_batch(&(vkf_batch_split){m, generate_batch, &call, vkf_decode_search_fill(&config)}, inputs,
                              n_inputs, 0, out);
done:
  vkf_decode_generation_finish(&config);
  return st;
}

vkf_status vkf_model_generate(vkf_model *m, const vkf_array *inputs, size_t n_inputs, const vkf_generate_params *params,
                              vkf_result **out) {
  *out = NULL;
  if (vkf_env_in_callback(m->env, "vkf_model_generate")) return VKF_ERROR_ARGUMENT;
  return vkf_engine_generate_arrays(m, inputs, n_inputs, params, out);
}
