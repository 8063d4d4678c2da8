/* steps: see steps.h. */
#include "engine/steps.h"

#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static vkf_status write_key_mask(vkf_steps *s, const int32_t *prompt_mask, uint32_t n_prompt) {
  const size_t cells = (size_t)s->caps.R * s->caps.keys;
  s->key_mask = vkf_env_alloc(s->session->env, cells, sizeof *s->key_mask);
  if (!s->key_mask) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < cells; i++) s->key_mask[i] = 1;
  for (uint32_t r = 0; r < s->R; r++)
    for (uint32_t t = 0; t < VKF_MIN(n_prompt, s->caps.keys); t++) /* a longer prompt the search refuses */
      s->key_mask[(size_t)r * s->caps.keys + t] = prompt_mask[(size_t)(r / (s->R / s->B)) * n_prompt + t] != 0;
  return VKF_OK;
}

/* The keys of each source are its rows in the encoder; a mask is needed where it has holes. */
static vkf_status find_sources(vkf_steps *s, const vkf_encode_input *in) {
  s->sources = vkf_env_alloc(s->session->env, s->B, sizeof *s->sources);
  if (!s->sources) return VKF_ERROR_MEMORY;
  for (uint32_t b = 0; b < s->B; b++) {
    s->sources[b] = (vkf_span){.keys = vkf_engine_source_span(s->session, in, b).length, .first = s->n_source_rows};
    s->n_source_rows += s->sources[b].keys;
  }
  if (!vkf_engine_has_holes(s->session, in)) return VKF_OK;
  s->source_mask = vkf_env_alloc(s->session->env, s->n_source_rows, sizeof *s->source_mask);
  if (!s->source_mask) return VKF_ERROR_MEMORY;
  for (uint32_t b = 0; b < s->B; b++) {
    const int32_t *mask = in->mask + (size_t)b * s->S + vkf_engine_source_span(s->session, in, b).first;
    for (uint32_t t = 0; t < s->sources[b].keys; t++) s->source_mask[s->sources[b].first + t] = mask[t] != 0;
  }
  s->request.mask = true;
  return VKF_OK;
}

static vkf_status allocate(vkf_steps *s, const vkf_steps_input *in) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  const size_t cells = (size_t)s->caps.R * s->caps.keys, n_tokens = (size_t)s->R * VKF_MAX(in->n_prompt, 1);
  s->out_rows = vkf_env_alloc(env, s->R, sizeof *s->out_rows);
  s->row_of = vkf_env_alloc(env, s->R, sizeof *s->row_of);
  s->spans = vkf_env_alloc(env, s->R, sizeof *s->spans);
  s->cross_spans = vkf_env_alloc(env, s->R, sizeof *s->cross_spans);
  s->positions = vkf_env_alloc(env, n_tokens, sizeof *s->positions);
  s->values = vkf_env_alloc(env, (size_t)s->R * s->width, sizeof *s->values);
  s->ids = vkf_env_alloc(env, s->output ? 1 : (size_t)s->R * s->width, sizeof *s->ids);
  if (!s->out_rows || !s->row_of || !s->spans || !s->cross_spans || !s->positions || !s->values || !s->ids)
    VKF_TRY(VKF_ERROR_MEMORY);
  if (in->config->num_beams > 1) {
    s->ancestry = vkf_env_alloc(env, cells, sizeof *s->ancestry);
    s->ancestry_next = vkf_env_alloc(env, cells, sizeof *s->ancestry);
    if (!s->ancestry || !s->ancestry_next) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (s->request.max_edits) {
    s->edit_offsets = vkf_env_alloc(env, (size_t)s->caps.R + 1, sizeof *s->edit_offsets);
    if (!s->edit_offsets) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (in->logits) {
    const bool shared = s->output && strcmp(s->output, "logits") == 0;
    s->logits = shared ? s->values : vkf_env_alloc(env, (size_t)s->R * s->n_vocab, sizeof *s->logits);
    if (!s->logits) VKF_TRY(VKF_ERROR_MEMORY);
  }
done:
  return st;
}

static vkf_status run_encoder(vkf_steps *s, const vkf_encode_input *source) {
  vkf_status st = VKF_OK;
  const vkf_cached_plan *cached = NULL;
  vkf_sizes sizes = {.B = s->B, .S = s->S, .R = s->R, .T = 1, .out = s->B * s->S};
  vkf_dims dims = vkf_dims_make(&sizes);
  vkf_plan_request request = {
      .stage = VKF_STAGE_ENCODE, .capacity = {.T = 1, .out = s->caps.B * s->caps.S}, .mask = s->source_mask != NULL};
  VKF_TRY(vkf_engine_plan_get(&s->session->plan_cache, s->bucket, &request, &cached));
  VKF_TRY(vkf_engine_encode(s->session, cached, &dims, source));
done:
  return st;
}

vkf_status vkf_engine_steps_init(vkf_steps *s, vkf_session *session, const vkf_steps_input *in) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const bool encoder = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER, beams = in->config->num_beams > 1;
  *s = (vkf_steps){.session = session,
                   .B = in->source->B,
                   .S = encoder ? in->source->S : 1,
                   .R = vkf_decode_batch_slots(in->config, in->source->B),
                   .width = in->k ? in->k : info->target_vocab,
                   .n_vocab = info->target_vocab};
  VKF_TRY(vkf_engine_bucket_get(&session->plan_cache, &(vkf_need_sizes){s->B, s->S, s->R, in->limit, 1}, &s->bucket));
  s->caps = vkf_engine_bucket_sizes(s->bucket);
  if (in->edits > UINT32_MAX / 2 / VKF_MAX(s->caps.R, 1))
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT,
             "the configuration needs %u edits of logits a row, more than this engine plans for", in->edits);
  s->request = (vkf_plan_request){.stage = VKF_STAGE_DECODE,
                                  .capacity = {.T = 1, .out = s->caps.R},
                                  .target_mask = !encoder && in->source->mask,
                                  .ancestry = beams,
                                  .log_softmax = beams,
                                  .max_edits = in->edits ? vkf_engine_round_length(in->edits) * s->caps.R : 0,
                                  .renormalize = beams && in->config->renormalize_logits,
                                  .top_k = in->k,
                                  .logits = in->logits || (in->k == 0 && in->edits == 0)};
  if (in->k == 0) s->output = in->edits ? "scores" : "logits";
  VKF_TRY(allocate(s, in));
  if (encoder) VKF_TRY(find_sources(s, in->source));
  if (!encoder && in->source->mask) VKF_TRY(write_key_mask(s, in->source->mask, in->n_prompt));
  if (encoder) VKF_TRY(run_encoder(s, in->source));
done:
  return st;
}

void vkf_engine_steps_finish(vkf_steps *s) {
  if (!s->session) return;
  if (s->logits != s->values) vkf_env_free(s->session->env, s->logits);
  void *all[] = {s->ancestry, s->ancestry_next, s->key_mask,  s->sources,      s->source_mask, s->spans, s->cross_spans,
                 s->row_of,   s->out_rows,      s->positions, s->edit_offsets, s->values,      s->ids};
  for (size_t i = 0; i < VKF_COUNT(all); i++) vkf_env_free(s->session->env, all[i]);
  *s = (vkf_steps){0};
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* The rows of the step go on as what the rows of the slots in `order` were. */
static void reorder(vkf_steps *s, const vkf_batch_step *step) {
  size_t stride = s->caps.keys;
  for (uint32_t r = 0; s->ancestry && r < step->n_rows; r++)
    memcpy(s->ancestry_next + r * stride, s->ancestry + s->row_of[step->order[r]] * stride,
           s->past * sizeof *s->ancestry);
  int32_t *swap = s->ancestry;
  s->ancestry = s->ancestry_next;
  s->ancestry_next = swap;
  for (uint32_t r = 0; r < step->n_rows; r++) s->row_of[step->slots[r]] = r;
}

/* Inputs that stay the same over the steps of one program. */
static vkf_status write_lasting(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims) {
  vkf_status st = VKF_OK;
  vkf_dims all = *dims; /* of the mask every key there will be */
  all.v[VKF_DIM_KEYS] = s->caps.keys;
  if (s->last == cached) goto done;
  VKF_TRY(vkf_engine_write_input(&s->session->plan_cache, cached, VKF_INPUT_MASK, dims, s->source_mask));
  if (s->key_mask)
    VKF_TRY(vkf_engine_write_input(&s->session->plan_cache, cached, VKF_INPUT_TARGET_MASK, &all, s->key_mask));
  s->last = cached;
done:
  return st;
}

/* What the rows of the step are and where they keep it. */
static void describe_rows(vkf_steps *s, const vkf_batch_step *step) {
  const uint32_t T = step->n_tokens, each = s->R / s->B;
  for (uint32_t r = 0; r < step->n_rows; r++) {
    const uint32_t slot = step->slots[r], b = slot / each;
    const vkf_model_tokens tokens = {.stage = VKF_STAGE_DECODE,
                                     .rows = 1,
                                     .length = T,
                                     .past = s->past,
                                     .ids = step->tokens + (size_t)r * T,
                                     .mask = s->key_mask ? s->key_mask + (size_t)slot * s->caps.keys : NULL,
                                     .mask_stride = s->caps.keys,
                                     .continues = true};
    vkf_model_positions(s->session->model->net, &tokens, s->positions + (size_t)r * T);
    s->spans[r] = (vkf_span){.row = r * T, .queries = T, .past = s->past, .keys = s->past + T, .slot = slot};
    if (s->sources)
      s->cross_spans[r] =
          (vkf_span){.row = r * T, .queries = T, .keys = s->sources[b].keys, .first = s->sources[b].first};
    for (uint32_t t = 0; s->ancestry && t < T; t++) s->ancestry[(size_t)r * s->caps.keys + s->past + t] = (int32_t)slot;
    s->out_rows[r] = (int32_t)(r * T + T - 1);
  }
}

static vkf_status write_step(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                             const vkf_batch_step *step) {
  vkf_status st = VKF_OK;
  const vkf_plan_cache *p = &s->session->plan_cache;
  describe_rows(s, step);
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_IDS, dims, step->tokens));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_POSITIONS, dims, s->positions));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_SPANS, dims, s->spans));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_CROSS_SPANS, dims, s->cross_spans));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_ANCESTRY, dims, s->ancestry));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_OUT_ROWS, dims, s->out_rows));
  if (s->request.max_edits) {
    uint32_t n = step->edit_offsets[step->n_rows];
    if (n > s->request.max_edits)
      VKF_FAIL(s->session->env, VKF_ERROR_ARGUMENT, "a step has %u edits of logits, expected at most %u", n,
               s->request.max_edits);
    memcpy(s->edit_offsets, step->edit_offsets, (step->n_rows + 1) * sizeof *s->edit_offsets);
    VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_EDIT_OFFSETS, dims, s->edit_offsets));
    VKF_TRY(p->backend->table->write_rows(cached->program, cached->slots[VKF_INPUT_EDITS], n, step->edits));
  }
done:
  return st;
}

vkf_status vkf_engine_steps_run(vkf_steps *s, const vkf_batch_step *step) {
  vkf_status st = VKF_OK;
  const vkf_cached_plan *cached = NULL;
  const vkf_backend_table *backend = s->session->plan_cache.backend->table;
  const uint32_t R = step->n_rows;
  vkf_sizes sizes = {
      .B = s->B, .S = s->S, .R = R, .T = step->n_tokens, .past = s->past, .out = R, .source_rows = s->n_source_rows};
  vkf_dims dims = vkf_dims_make(&sizes);
  s->request.capacity.T = step->n_tokens == 1 ? 1 : VKF_MIN(vkf_engine_round_length(step->n_tokens), s->caps.keys);
  s->request.gather_out = step->n_tokens != 1;
  VKF_TRY(vkf_engine_plan_get(&s->session->plan_cache, s->bucket, &s->request, &cached));
  reorder(s, step);
  VKF_TRY(write_lasting(s, cached, &dims));
  VKF_TRY(write_step(s, cached, &dims, step));
  VKF_TRY(vkf_engine_run_plan(&s->session->plan_cache, cached, &dims));
  const char *values = s->output ? s->output : "top_values";
  VKF_TRY(backend->read(cached->program, vkf_plan_find_output(cached->plan, values), &dims, s->values));
  if (!s->output) VKF_TRY(backend->read(cached->program, vkf_plan_find_output(cached->plan, "top_ids"), &dims, s->ids));
  if (s->logits && s->logits != s->values)
    VKF_TRY(backend->read(cached->program, vkf_plan_find_output(cached->plan, "logits"), &dims, s->logits));
  s->past += step->n_tokens;
done:
  return st;
}
