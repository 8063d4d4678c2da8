/* generation: see generation.h. */
#include "engine/generation.h"

#include "decode/generation_keys.h"

vkf_status vkf_engine_derive_generation(vkf_session *session, const char *source_language, const char *target_language,
                                        const char *config_json, vkf_generation_config *out) {
  vkf_text_languages_before before;
  int32_t begin = VKF_NO_TOKEN;
  vkf_decode_generation_derive(out, session->env, &session->model->generation);
  if (source_language || target_language) {
    if (!session->model->tokenizer.text)
      return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED, "languages need a tokenizer: %s",
                          session->model->tokenizer.why);
    vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&session->tokenizer);
    const vkf_status st = vkf_text_languages_use(tokenizer, source_language, target_language, &before, &begin);
    if (!st) vkf_text_languages_restore(tokenizer, &before);
    vkf_engine_tokenizer_unlock(&session->tokenizer);
    VKF_CALL(st);
  }
  if (begin != VKF_NO_TOKEN) out->forced_bos = begin;
  return vkf_decode_generation_apply(out, "the given generation config", config_json);
}

const char *vkf_generation_expects(const char *key, double value) {
  const vkf_generation_key *found = key ? vkf_decode_generation_find_key(key) : NULL;
  return found ? vkf_decode_generation_expects(found, value) : NULL;
}

uint64_t vkf_engine_length_limit(const vkf_session *session, const vkf_generation_config *config, bool translates,
                                 bool ends_with_positions, uint32_t prompt) {
  enum { DEFAULT_NEW = 20, UNLIMITED_TRANSLATION = 512 };
  uint64_t positions = vkf_model_net_info(session->model->net)->max_positions, fallback = prompt + DEFAULT_NEW;
  if (translates) fallback = positions ? positions : UNLIMITED_TRANSLATION;
  if (positions) fallback = VKF_MIN(fallback, VKF_MAX(positions, (uint64_t)prompt + 1)); /* one id has always room */
  uint64_t limit = vkf_decode_generation_length(config, prompt, fallback);
  if (ends_with_positions && positions) limit = VKF_MIN(limit, positions + 1);
  /* A prefix of one line of a corpus must not fail the whole run: its translation ends with the positions. */
  return translates && prompt > 1 && positions ? VKF_MIN(limit, positions) : limit;
}

vkf_status vkf_engine_generation_check(const vkf_session *session, const vkf_generation_config *config) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const char *kind = vkf_model_architecture_name(info->architecture);
  if (info->architecture == VKF_ARCHITECTURE_ENCODER)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected a decoder or an encoder-decoder to generate with, found %s (family %s)", kind,
                        info->family);
  if (!info->has_head) /* such as bart-base on the Hub, whose head is its embeddings */
    return vkf_env_fail(
        session->env, VKF_ERROR_UNSUPPORTED,
        "expected a language model head to generate with, found %s without a head (family %s). If its head is tied to "
        "its embeddings, name the class that has one as \"architectures\" of config.json: of a BartModel it is "
        "BartForConditionalGeneration",
        kind, info->family);
  if (!info->can_generate && !info->is_pooled)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected a causal decoder to generate with, found is_causal false (family %s): use embed",
                        info->family);
  if (!info->can_generate)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected a language model head to generate with, found one of %u classes (family %s)",
                        info->target_vocab, info->family);
  return vkf_decode_generation_check(config, info->target_vocab);
}

/* Refuses a request that needs more memory than this machine has, before it allocates: a system that overcommits would
 * end the process later. Counts the least that the search keeps: for each row its logits, its k candidates (0: all ids)
 * and its ids with their log-probabilities, with beams three times. */
static vkf_status check_memory(const vkf_generation *g, uint32_t k, uint32_t longest) {
  const vkf_generation_config *c = g->params.config;
  const uint32_t B = g->params.n_seats, n_vocab = vkf_model_net_info(g->session->model->net)->target_vocab;
  const double n_rows = (double)B * vkf_decode_search_copies(c) * vkf_decode_search_rows(c);
  const double id = c->num_beams > 1 ? 3 * 8 : vkf_decode_search_scores(c, g->params.scores) ? 8 : 4;
  const double need = n_rows * (4.0 * n_vocab + 8.0 * (k ? k : n_vocab) + id * longest);
  const double has = (double)vkf_host_bytes();
  if (has <= 0 || need <= has) return VKF_OK;
  return vkf_env_fail(
      g->session->env, VKF_ERROR_MEMORY,
      "expected a request that fits into this machine's memory, %.1f GB, found one that needs at least "
      "%.1f GB: %.0f rows (%u inputs, num_beams %u, num_return_sequences %u), a vocabulary of %u, and the "
      "length limit is %u",
      has / 1e9, need / 1e9, n_rows, B, c->num_beams, c->num_return_sequences, n_vocab, longest);
}

/* Makes the cache of the seats, and memory for their logits if the host reads them. */
static vkf_status begin_steps(vkf_generation *g, uint32_t edits, uint32_t k) {
  const vkf_generation_params *p = &g->params;
  const vkf_net_info *info = vkf_model_net_info(g->session->model->net);
  const bool beams = p->config->num_beams > 1, has_encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  const bool forks = vkf_decode_search_forks(p->config, has_encoder);
  const uint32_t n_slots = vkf_decode_batch_slots(p->config, p->n_seats);
  const vkf_steps_params params = {
      .n_sources = p->n_seats,
      .each = n_slots / p->n_seats,
      .slot_tokens = (uint32_t)p->limit,
      .source_tokens = has_encoder ? p->n_source : 0,
      .has_holes = p->has_holes,
      .shares_rows = !forks,
      .edits = edits,
      .short_head = p->shortlist ? &g->short_head : NULL,
      .head = {
          .ancestry = forks, .log_softmax = beams, .renormalize = beams && p->config->renormalize_logits, .top_k = k}};
  VKF_CALL(vkf_engine_steps_init(&g->steps, g->session, &params));
  if (!p->top_logprobs && g->steps.values) return VKF_OK;
  size_t n = 0;
  if (!vkf_size_mul(n_slots, info->target_vocab, &n)) n = SIZE_MAX;
  g->logits = vkf_env_alloc(g->session->env, n, sizeof *g->logits);
  if (!g->logits) return VKF_ERROR_MEMORY;
  return VKF_OK;
}

vkf_status vkf_engine_generation_init(vkf_generation *g, vkf_session *session, const vkf_generation_params *p) {
  vkf_env *env = session->env;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  *g = (vkf_generation){.session = session, .params = *p};
  if (p->limit > UINT32_MAX / 2)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected a length limit below 2^31, found %llu",
                        (unsigned long long)p->limit);
  const uint32_t shortest = 1; /* id of a prompt: a seat must fit every later request */
  const uint32_t longest = vkf_decode_search_longest(p->limit, info->max_positions, shortest),
                 edits = vkf_decode_max_edits(p->config, longest, p->n_source),
                 k = vkf_decode_search_k(p->config, info->target_vocab, p->scores);
  VKF_CALL(check_memory(g, k, longest));
  if (p->shortlist && info->architecture != VKF_ARCHITECTURE_ENCODER_DECODER)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "a short list is for a model with an encoder, found %s (family %s)",
                        vkf_model_architecture_name(info->architecture), info->family);
  if (p->top_logprobs && p->config->num_beams > 1)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "top_logprobs with num_beams %u is not supported: expected 1 beam",
                        p->config->num_beams);
  VKF_CALL(vkf_decode_batch_init(
      &g->batch, env,
      &(vkf_batch_input){.config = p->config, .n_seats = p->n_seats, .n_vocab = info->target_vocab, .edits = edits}));
  if (p->top_logprobs)
    VKF_CALL(vkf_decode_logprobs_init(&g->logprobs, env, vkf_decode_batch_slots(p->config, p->n_seats),
                                      info->target_vocab, p->top_logprobs, longest - VKF_MIN(shortest, longest)));
  if (p->shortlist)
    VKF_CALL(vkf_engine_short_head_init(&g->short_head, session,
                                        &(vkf_short_head_params){.list = p->shortlist,
                                                                 .config = p->config,
                                                                 .n_places = p->n_seats,
                                                                 .k = k,
                                                                 .log_softmax = p->config->num_beams > 1}));
  VKF_CALL(begin_steps(g, edits, k));
  return vkf_engine_steps_try(&g->steps, g->batch.n * g->batch.each, g->logits != NULL);
}

void vkf_engine_generation_finish(vkf_generation *g) {
  if (!g->session) return;
  vkf_decode_batch_finish(&g->batch);
  vkf_decode_logprobs_finish(&g->logprobs);
  vkf_engine_steps_finish(&g->steps);
  vkf_engine_short_head_finish(&g->short_head);
  vkf_env_free(g->session->env, g->logits);
  *g = (vkf_generation){0};
}

vkf_status vkf_engine_generation_put(vkf_generation *g, uint32_t n, const uint32_t *seats,
                                     const vkf_search_input *inputs, const vkf_encode_input *source) {
  const uint32_t copies = g->batch.copies;
  for (uint32_t i = 0; i < n; i++) {
    vkf_search_input input = inputs[i];
    input.n_positions = vkf_model_net_info(g->session->model->net)->max_positions;
    input.scores = g->params.scores;
    VKF_CALL(vkf_decode_batch_put(&g->batch, seats[i], &input));
    if (g->params.shortlist) vkf_engine_short_head_set(&g->short_head, seats[i], source, i);
    for (uint32_t c = 0; g->steps.cache_rows.n && c < copies; c++) /* without beams a search has one slot */
      vkf_engine_cache_rows_want(&g->steps.cache_rows, seats[i] * copies + c,
                                 g->batch.searches[seats[i] * copies + c].capacity);
    for (uint32_t c = 0; g->params.top_logprobs && c < copies; c++) g->logprobs.lengths[seats[i] * copies + c] = 0;
  }
  if (!source) return VKF_OK;
  vkf_encode_input placed = *source;
  placed.places = seats;
  return vkf_engine_steps_encode(&g->steps, &placed);
}

vkf_status vkf_engine_generation_step(vkf_generation *g) {
  vkf_batch *batch = &g->batch;
  const size_t n_vocab = g->steps.n_vocab;
  vkf_batch_step next;
  VKF_CALL(vkf_decode_batch_ask(batch, &next));
  for (uint32_t r = 0; g->logits && r < next.n_rows; r++) next.rows[r].logits = g->logits + r * n_vocab;
  VKF_CALL(vkf_engine_steps_run(&g->steps, &next));
  vkf_decode_batch_take(batch, g->steps.values ? g->steps.values : g->logits, g->steps.top_ids);
  for (uint32_t i = 0; g->params.top_logprobs && i < batch->n_live; i++)
    if (batch->got[i] != VKF_NO_TOKEN)
      vkf_decode_logprobs_add(&g->logprobs, batch->live[i], batch->got[i], g->logits + i * n_vocab);
  return VKF_OK;
}

/* Adds a hint: the format of the cache may be why a score is not finite. */
vkf_status vkf_engine_generation_failure(const vkf_generation *g, uint32_t seat) {
  const vkf_env_failure *failure = vkf_decode_batch_failure(&g->batch, seat);
  const vkf_format format = g->session->model->cache_format;
  vkf_env *env = g->session->env;
  if (!failure) return VKF_OK;
  vkf_env_restore_failure(env, failure);
  if (failure->first != VKF_ERROR_NUMERIC || format == VKF_FORMAT_F32) return failure->first;
  return vkf_env_prefix(env, failure->first, "keys and values are kept as %s, which ends at %g (f32 does not): ",
                        vkf_format_get(format)->name, vkf_format_get(format)->largest);
}
