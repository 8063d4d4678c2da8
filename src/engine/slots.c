/* slots: see slots.h. The ids of a slot run in chunks; each chunk is a submit. */
#include "engine/slots.h"

#include <math.h>
#include <string.h>

#include "engine/opened.h"
#include "engine/slots_internal.h"

enum { MOST_TOKENS = 2048 }; /* that a slot holds by default where the model's positions have no end */

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool has_encoder(const vkf_slots *s) {
  return vkf_model_net_info(s->session->model->net)->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
}

static uint32_t capacity_of(uint32_t wanted, uint32_t positions) {
  if (!wanted) wanted = positions ? positions : MOST_TOKENS;
  return positions ? VKF_MIN(wanted, positions) : wanted;
}

static vkf_status init_sequence(vkf_slots *s, vkf_sequence *q, const vkf_need_sizes *need) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  VKF_TRY(vkf_engine_bucket_create(&s->session->plan_cache, need, &q->bucket));
  q->ids = vkf_env_alloc(env, s->most, sizeof *q->ids);
  q->source = vkf_env_alloc(env, s->most_source, sizeof *q->source);
  if (!q->ids || !q->source) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_engine_sequence_need_logits(s, q, 1));
done:
  return st;
}

vkf_status vkf_engine_slots_create(vkf_session *session, const vkf_session_params *p, vkf_slots **out) {
  vkf_status st = VKF_OK;
  vkf_env *env = session->env;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_slots *s = NULL;
  *out = NULL;
  if (!p->n_slots) return VKF_OK;
  if (info->architecture == VKF_ARCHITECTURE_ENCODER || !info->has_head)
    VKF_FAIL(env, VKF_ERROR_UNSUPPORTED,
             "slots: expected a model of a decoder with a language model head, found family %s (%s)", info->family,
             vkf_model_architecture_name(info->architecture));
  s = vkf_env_alloc(env, 1, sizeof *s);
  if (!s) VKF_TRY(VKF_ERROR_MEMORY);
  s->session = session;
  s->n_vocab = info->target_vocab;
  s->most = capacity_of(p->slot_tokens, info->max_positions);
  s->most_source = has_encoder(s) ? capacity_of(p->source_tokens, info->max_positions) : 1;
  if (s->most > UINT32_MAX / 64 || s->most_source > UINT32_MAX / 64)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "slots: expected at most %u tokens in one, found %u and %u", UINT32_MAX / 64,
             s->most, s->most_source);
  s->at = vkf_env_alloc(env, p->n_slots, sizeof *s->at);
  s->positions = vkf_env_alloc(env, VKF_SLOT_CHUNK, sizeof *s->positions);
  if (!s->at || !s->positions) VKF_TRY(VKF_ERROR_MEMORY);
  const vkf_need_sizes need = {.B = 1, .S = s->most_source, .R = 1, .keys = s->most};
  for (; s->n < p->n_slots; s->n++) {
    st = init_sequence(s, &s->at[s->n], &need);
    if (st) {
      s->n++; /* what there is of it is destroyed, too */
      goto done;
    }
  }
done:
  if (st) vkf_engine_slots_destroy(&s);
  *out = s;
  return st;
}

void vkf_engine_slots_destroy(vkf_slots **slots) {
  vkf_slots *s = *slots;
  if (!s) return;
  vkf_env *env = s->session->env;
  for (size_t i = 0; i < s->n; i++) {
    vkf_engine_bucket_destroy(&s->session->plan_cache, &s->at[i].bucket);
    vkf_env_free(env, s->at[i].ids);
    vkf_env_free(env, s->at[i].source);
    vkf_env_free(env, s->at[i].logits);
  }
  vkf_env_free(env, s->at);
  vkf_env_free(env, s->positions);
  vkf_env_free(env, s->rows);
  vkf_env_free(env, s);
  *slots = NULL;
}

uint64_t vkf_engine_slots_bytes(const vkf_slots *s) {
  uint64_t bytes = 0;
  for (size_t i = 0; s && i < s->n; i++) bytes += vkf_engine_bucket_bytes(&s->session->plan_cache, s->at[i].bucket);
  return bytes;
}

vkf_status vkf_engine_sequence_need_logits(vkf_slots *s, vkf_sequence *q, size_t n) {
  size_t need, rows;
  if (!vkf_size_mul(n, s->n_vocab, &need) || !vkf_size_mul(VKF_MIN(n, VKF_SLOT_CHUNK), s->n_vocab, &rows))
    return vkf_env_fail(s->session->env, VKF_ERROR_MEMORY, "logits of %zu ids are larger than memory", n);
  float *grown = vkf_env_grow(s->session->env, q->logits, &q->logits_capacity, need, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  q->logits = grown;
  if (n < 2) return VKF_OK;
  rows = (size_t)VKF_SLOT_CHUNK * s->n_vocab;
  grown = vkf_env_grow(s->session->env, s->rows, &s->rows_capacity, rows, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  s->rows = grown;
  return VKF_OK;
}

/* ---- one chunk --------------------------------------------------------------------------------------------------- */

vkf_status vkf_engine_sequence_plan(vkf_slots *s, vkf_sequence *q, uint32_t n_tokens, uint32_t n_logits,
                                    const vkf_cached_plan **out) {
  const uint32_t T =
      n_tokens == 1 ? 1 : VKF_MIN(vkf_engine_round_length(n_tokens), vkf_engine_bucket_sizes(q->bucket).keys);
  const vkf_plan_request request = {.stage = VKF_STAGE_DECODE,
                                    .capacity = {.T = T, .out = n_logits == 1 ? 1 : T},
                                    .mask = has_encoder(s),
                                    .gather_out = n_logits == 1 && T > 1,
                                    .logits = n_logits > 0};
  return vkf_engine_plan_get(&s->session->plan_cache, q->bucket, &request, out);
}

static vkf_dims dims_of(const vkf_slots *s, const vkf_sequence *q, uint32_t past, uint32_t T, uint32_t out) {
  return vkf_dims_make(&(vkf_sizes){
      .B = 1, .S = has_encoder(s) ? VKF_MAX(q->n_source, 1) : 1, .R = 1, .T = T, .past = past, .out = out});
}

static vkf_status check_finite(vkf_env *env, const float *logits, size_t n, uint32_t first) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(logits[i]))
      return vkf_env_fail(env, VKF_ERROR_NUMERIC, "logits of id %u: expected finite numbers, found %g", first,
                          (double)logits[i]);
  return VKF_OK;
}

/* Runs ids [n_done, n_done + T); the last n_logits of them have logits, which go behind those that are there. */
static vkf_status run_chunk(vkf_slots *s, vkf_sequence *q, uint32_t T, uint32_t n_logits) {
  vkf_status st = VKF_OK;
  vkf_session *session = s->session;
  const vkf_plan_cache *p = &session->plan_cache;
  const vkf_cached_plan *cached = NULL;
  const uint32_t past = (uint32_t)q->n_done, n_out = n_logits == 1 ? 1 : T;
  const int32_t last = (int32_t)T - 1;
  const vkf_dims dims = dims_of(s, q, past, T, n_out);
  const vkf_model_tokens tokens = {
      .stage = VKF_STAGE_DECODE, .rows = 1, .length = T, .past = past, .ids = q->ids + past, .continues = true};
  VKF_TRY(vkf_engine_sequence_plan(s, q, T, n_logits, &cached));
  if (q->last != cached)
    VKF_TRY(vkf_engine_write_mask(session, cached, VKF_INPUT_MASK, &dims, 1, dims.v[VKF_DIM_S], NULL));
  q->last = cached;
  vkf_model_positions(session->model->net, &tokens, s->positions);
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_IDS, &dims, q->ids + past));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_POSITIONS, &dims, s->positions));
  VKF_TRY(vkf_engine_write_input(p, cached, VKF_INPUT_OUT_ROWS, &dims, &last));
  VKF_TRY(vkf_engine_run_plan(p, cached, &dims));
  if (n_logits) {
    float *to = q->logits + q->n_read * s->n_vocab, *rows = n_out == 1 ? to : s->rows;
    VKF_TRY(p->backend->table->read(cached->program, vkf_plan_find_output(cached->plan, "logits"), &dims, rows));
    if (rows != to) memcpy(to, rows + (size_t)(T - n_logits) * s->n_vocab, (size_t)n_logits * s->n_vocab * sizeof *to);
    VKF_TRY(check_finite(session->env, to, (size_t)n_logits * s->n_vocab, past));
    q->n_read += n_logits;
  }
  q->n_done += T;
done:
  return st;
}

static vkf_status run_sequence(vkf_slots *s, vkf_sequence *q) {
  vkf_status st = VKF_OK;
  const size_t first_logits = q->n - q->n_logits;
  q->n_read = 0;
  while (!st && q->n_done < q->n) {
    const size_t T = VKF_MIN(q->n - q->n_done, VKF_SLOT_CHUNK), end = q->n_done + T;
    const size_t n_logits = end > first_logits ? end - VKF_MAX(first_logits, q->n_done) : 0;
    st = run_chunk(s, q, (uint32_t)T, (uint32_t)n_logits);
  }
  return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

vkf_status vkf_engine_slot_begin(vkf_session *session, const char *call, size_t slot, vkf_sequence **out) {
  vkf_status st = vkf_engine_session_begin(session, call);
  const size_t n = !st && session->slots ? session->slots->n : 0;
  if (st) return st;
  *out = slot < n ? &session->slots->at[slot] : NULL;
  if (slot < n) return VKF_OK;
  st = vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                    "expected a slot below %zu, the n_slots of the session's parameters, found %zu", n, slot);
  return vkf_engine_session_end(session, st, NULL);
}

static vkf_status encode(vkf_slots *s, vkf_sequence *q, const int32_t *ids, size_t n) {
  vkf_status st = VKF_OK;
  vkf_session *session = s->session;
  const vkf_cached_plan *cached = NULL;
  const vkf_need_sizes caps = vkf_engine_bucket_sizes(q->bucket);
  const vkf_plan_request request = {.stage = VKF_STAGE_ENCODE, .capacity = {.T = 1, .out = caps.S}};
  if (!has_encoder(s)) VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED, "expected an encoder-decoder, found a decoder");
  if (!ids || !n || n > s->most_source)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected 1 to %u ids of a source, found %zu", s->most_source,
             ids ? n : 0);
  VKF_TRY(vkf_engine_check_ids(session, "source", ids, 1, n, vkf_model_net_info(session->model->net)->vocab));
  VKF_TRY(vkf_engine_plan_get(&session->plan_cache, q->bucket, &request, &cached));
  q->n = q->n_done = q->n_logits = q->n_read = 0;
  q->n_source = 0;
  q->last = NULL;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = 1, .S = (uint32_t)n, .R = 1, .T = 1, .out = (uint32_t)n});
  VKF_TRY(vkf_engine_encode(session, cached, &dims, &(vkf_encode_input){.B = 1, .S = (uint32_t)n, .ids = ids}));
  memcpy(q->source, ids, n * sizeof *ids);
  q->n_source = (uint32_t)n;
done:
  return st;
}

static vkf_status feed(vkf_slots *s, vkf_sequence *q, const int32_t *ids, size_t n, size_t n_logits) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  if (!ids || !n) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected at least one id, found none");
  if (n > s->most - q->n)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected at most %zu more ids, since the slot holds %zu of %u, found %zu",
             s->most - q->n, q->n, s->most, n);
  if (n_logits > n) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected logits of at most the %zu ids, found %zu", n, n_logits);
  if (has_encoder(s) && !q->n_source)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected vkf_session_encode before the first ids of an encoder-decoder");
  VKF_TRY(vkf_engine_check_ids(s->session, "ids", ids, 1, n, s->n_vocab));
  VKF_TRY(vkf_engine_sequence_need_logits(s, q, n_logits));
  memcpy(q->ids + q->n, ids, n * sizeof *ids);
  q->n += n;
  q->n_logits = n_logits;
done:
  return st;
}

vkf_status vkf_session_encode(vkf_session *session, size_t slot, const int32_t *ids, size_t n) {
  vkf_sequence *q = NULL;
  vkf_status st = vkf_engine_slot_begin(session, "vkf_session_encode", slot, &q);
  return st ? st : vkf_engine_session_end(session, encode(session->slots, q, ids, n), NULL);
}

vkf_status vkf_session_feed(vkf_session *session, size_t slot, const int32_t *ids, size_t n, size_t n_logits) {
  vkf_sequence *q = NULL;
  vkf_status st = vkf_engine_slot_begin(session, "vkf_session_feed", slot, &q);
  return st ? st : vkf_engine_session_end(session, feed(session->slots, q, ids, n, n_logits), NULL);
}

vkf_status vkf_session_step(vkf_session *session) {
  vkf_status st = vkf_engine_session_begin(session, "vkf_session_step");
  if (st) return st;
  vkf_slots *s = session->slots;
  for (size_t i = 0; s && i < s->n && !st; i++)
    if (s->at[i].n_done < s->at[i].n) st = run_sequence(s, &s->at[i]);
  return vkf_engine_session_end(session, st, NULL);
}

vkf_status vkf_session_truncate(vkf_session *session, size_t slot, size_t n) {
  vkf_sequence *q = NULL;
  vkf_status st = vkf_engine_slot_begin(session, "vkf_session_truncate", slot, &q);
  if (st) return st;
  if (n > q->n)
    st = vkf_env_fail(session->env, VKF_ERROR_ARGUMENT, "expected at most the %zu ids of the slot, found %zu", q->n, n);
  if (!st && n < q->n) {
    q->n = n;
    q->n_done = VKF_MIN(q->n_done, n);
    q->n_logits = q->n_read = 0;
  }
  return vkf_engine_session_end(session, st, NULL);
}

const float *vkf_session_logits(const vkf_session *session, size_t slot, size_t *n) {
  const vkf_slots *s = session ? session->slots : NULL;
  const size_t n_read = s && slot < s->n ? s->at[slot].n_read : 0;
  if (n) *n = n_read;
  return n_read ? s->at[slot].logits : NULL;
}

const int32_t *vkf_session_ids(const vkf_session *session, size_t slot, size_t *n) {
  const vkf_slots *s = session ? session->slots : NULL;
  const size_t n_ids = s && slot < s->n ? s->at[slot].n : 0;
  if (n) *n = n_ids;
  return n_ids ? s->at[slot].ids : NULL;
}

size_t vkf_session_slot_capacity(const vkf_session *session) {
  return session && session->slots ? session->slots->most : 0;
}
