/* slots: see slots.h. A step is one of steps.h. */
#include "engine/slots.h"

#include <string.h>

#include "engine/slots_internal.h"

enum { MOST_TOKENS = 2048 }; /* tokens of a slot by default, if the model's positions have no end */

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool has_encoder(const vkf_slots *s) {
  return vkf_model_net_info(s->session->model->net)->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
}

static uint32_t capacity_of(uint32_t wanted, uint32_t positions) {
  if (!wanted) wanted = positions ? positions : MOST_TOKENS;
  return positions ? VKF_MIN(wanted, positions) : wanted;
}

static vkf_status need_logits(vkf_slots *s, vkf_sequence *q, size_t n) {
  size_t need;
  if (!vkf_size_mul(n, s->n_vocab, &need))
    return vkf_env_fail(s->session->env, VKF_ERROR_MEMORY, "logits of %zu ids are larger than memory", n);
  float *grown = vkf_env_grow(s->session->env, q->logits, &q->logits_capacity, need, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  q->logits = grown;
  return vkf_engine_steps_need_logits(&s->steps, n);
}

static vkf_status init_sequence(vkf_slots *s, vkf_sequence *q) {
  vkf_env *env = s->session->env;
  q->slot = (uint32_t)(q - s->at);
  q->ids = vkf_env_alloc(env, s->most, sizeof *q->ids);
  q->source = vkf_env_alloc(env, s->most_source, sizeof *q->source);
  return q->ids && q->source ? need_logits(s, q, 1) : VKF_ERROR_MEMORY;
}

vkf_status vkf_engine_slots_create(vkf_session *session, const vkf_session_params *p, vkf_slots **out) {
  vkf_status st = VKF_OK;
  vkf_env *env = session->env;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_slots *s = NULL;
  *out = NULL;
  if (!p->n_slots) return VKF_OK;
  if (!info->can_generate)
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
  VKF_TRY(vkf_engine_steps_init(&s->steps, session,
                                &(vkf_steps_params){.n_sources = p->n_slots,
                                                    .each = 1,
                                                    .slot_tokens = s->most,
                                                    .source_tokens = has_encoder(s) ? s->most_source : 0,
                                                    .is_own = true}));
  st = vkf_engine_steps_try(&s->steps, 1, true);
  if (st) VKF_TRY(vkf_env_prefix(env, st, "%u slots of %u tokens: ", p->n_slots, s->most));
  s->at = vkf_env_alloc(env, p->n_slots, sizeof *s->at);
  s->rows = vkf_env_alloc(env, p->n_slots, sizeof *s->rows);
  if (!s->at || !s->rows) VKF_TRY(VKF_ERROR_MEMORY);
  s->n = p->n_slots;
  for (size_t i = 0; i < s->n; i++) VKF_TRY(init_sequence(s, &s->at[i]));
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
    vkf_env_free(env, s->at[i].ids);
    vkf_env_free(env, s->at[i].source);
    vkf_env_free(env, s->at[i].logits);
  }
  vkf_engine_steps_finish(&s->steps);
  vkf_env_free(env, s->at);
  vkf_env_free(env, s->rows);
  vkf_env_free(env, s);
  *slots = NULL;
}

vkf_plan_cache_bytes vkf_engine_slots_bytes(const vkf_slots *s) {
  return s ? vkf_engine_bucket_bytes(&s->session->plan_cache, s->steps.bucket) : (vkf_plan_cache_bytes){0};
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static vkf_status check_finite(const vkf_slots *s, const vkf_sequence *q) {
  const size_t n = q->n_read * s->n_vocab, at = vkf_engine_first_not_finite(s->session, q->logits, n);
  if (at == n) return VKF_OK;
  return vkf_env_fail(s->session->env, VKF_ERROR_NUMERIC,
                      "slot %u: logits of id %zu: expected finite numbers, found %g", q->slot,
                      q->n - q->n_read + at / s->n_vocab, (double)q->logits[at]);
}

/* Runs all that was fed to all slots, side by side. */
static vkf_status step(vkf_slots *s) {
  vkf_status st = VKF_OK;
  vkf_batch_step step = {.rows = s->rows};
  for (size_t i = 0; i < s->n; i++) {
    vkf_sequence *q = &s->at[i];
    if (q->n_done == q->n) continue;
    s->rows[step.n_rows++] = (vkf_search_row){.slot = q->slot,
                                              .past = (uint32_t)q->n_done,
                                              .n = (uint32_t)(q->n - q->n_done),
                                              .ids = q->ids + q->n_done,
                                              .n_out = (uint32_t)q->n_logits,
                                              .logits = q->n_logits ? q->logits : NULL};
  }
  st = vkf_engine_steps_run(&s->steps, &step);
  for (uint32_t r = 0; r < step.n_rows; r++) {
    vkf_sequence *q = &s->at[s->rows[r].slot];
    q->n_read = q->n_logits;
    if (!st) st = check_finite(s, q);
    if (st)
      q->n_read = 0;
    else
      q->n_done = q->n;
  }
  return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

vkf_status vkf_engine_slot_get(vkf_session *session, size_t slot, vkf_sequence **out) {
  const size_t n = session->slots ? session->slots->n : 0;
  *out = slot < n ? &session->slots->at[slot] : NULL;
  return slot < n
             ? VKF_OK
             : vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                            "expected a slot below %zu, the n_slots of the session's parameters, found %zu", n, slot);
}

vkf_status vkf_engine_slot_begin(vkf_session *session, const char *call, size_t slot, vkf_sequence **out) {
  VKF_CALL(vkf_engine_session_begin(session, call));
  const vkf_status st = vkf_engine_slot_get(session, slot, out);
  return st ? vkf_engine_session_end(session, st, NULL) : VKF_OK;
}

static vkf_status encode(vkf_slots *s, vkf_sequence *q, const int32_t *ids, size_t n) {
  vkf_session *session = s->session;
  if (!has_encoder(s))
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED, "expected an encoder-decoder, found a decoder");
  if (!ids || !n || n > s->most_source)
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT, "expected 1 to %u ids of a source, found %zu", s->most_source,
                        ids ? n : 0);
  VKF_CALL(vkf_engine_check_ids(session, "source", ids, 1, n, vkf_model_net_info(session->model->net)->vocab));
  q->n = q->n_done = q->n_logits = q->n_read = 0;
  q->n_source = 0;
  VKF_CALL(vkf_engine_steps_encode(&s->steps,
                                   &(vkf_encode_input){.B = 1, .S = (uint32_t)n, .ids = ids, .places = &q->slot}));
  memcpy(q->source, ids, n * sizeof *ids);
  q->n_source = (uint32_t)n;
  return VKF_OK;
}

static vkf_status feed(vkf_slots *s, vkf_sequence *q, const int32_t *ids, size_t n, size_t n_logits) {
  vkf_env *env = s->session->env;
  if (!ids || !n) return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected at least one id, found none");
  if (n > s->most - q->n)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "expected at most %zu more ids, since the slot holds %zu of %u, found %zu", s->most - q->n,
                        q->n, s->most, n);
  if (n_logits > n)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected logits of at most the %zu ids, found %zu", n, n_logits);
  if (has_encoder(s) && !q->n_source)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "expected vkf_session_encode before the first ids of an encoder-decoder");
  VKF_CALL(vkf_engine_check_ids(s->session, "ids", ids, 1, n, s->n_vocab));
  VKF_CALL(need_logits(s, q, n_logits));
  memcpy(q->ids + q->n, ids, n * sizeof *ids);
  q->n += n;
  q->n_logits = n_logits;
  return VKF_OK;
}

vkf_status vkf_session_encode(vkf_session *session, size_t slot, const int32_t *ids, size_t n) {
  vkf_sequence *q = NULL;
  VKF_CALL(vkf_engine_slot_begin(session, "vkf_session_encode", slot, &q));
  return vkf_engine_session_end(session, encode(session->slots, q, ids, n), NULL);
}

vkf_status vkf_session_feed(vkf_session *session, size_t slot, const int32_t *ids, size_t n, size_t n_logits) {
  vkf_sequence *q = NULL;
  VKF_CALL(vkf_engine_slot_begin(session, "vkf_session_feed", slot, &q));
  return vkf_engine_session_end(session, feed(session->slots, q, ids, n, n_logits), NULL);
}

vkf_status vkf_session_step(vkf_session *session) {
  VKF_CALL(vkf_engine_session_begin(session, "vkf_session_step"));
  return vkf_engine_session_end(session, session->slots ? step(session->slots) : VKF_OK, NULL);
}

vkf_status vkf_session_truncate(vkf_session *session, size_t slot, size_t n) {
  vkf_sequence *q = NULL;
  vkf_status st = VKF_OK;
  VKF_CALL(vkf_engine_slot_begin(session, "vkf_session_truncate", slot, &q));
  if (n > q->n)
    st = vkf_env_fail(session->env, VKF_ERROR_ARGUMENT, "expected at most the %zu ids of the slot, found %zu", q->n, n);
  if (!st && n < q->n) {
    q->n = n;
    q->n_done = VKF_MIN(q->n_done, n);
    q->n_logits = q->n_read = 0;
  }
  return vkf_engine_session_end(session, st, NULL);
}

/* Begins a call that only reads, and returns the sequence of a slot. NULL: there is none, and no call to end. */
static const vkf_sequence *begin_read(const vkf_session *session, size_t slot, vkf_session **looking) {
  vkf_session *s = vkf_engine_session_look(session);
  if (s && s->slots && slot < s->slots->n) {
    *looking = s;
    return &s->slots->at[slot];
  }
  if (s) vkf_engine_session_end(s, VKF_OK, NULL);
  return NULL;
}

const float *vkf_session_logits(const vkf_session *session, size_t slot, size_t *n) {
  vkf_session *s;
  const vkf_sequence *q = begin_read(session, slot, &s);
  const size_t n_read = q ? q->n_read : 0;
  const float *logits = n_read ? q->logits : NULL;
  if (n) *n = n_read;
  if (q) vkf_engine_session_end(s, VKF_OK, NULL);
  return logits;
}

const int32_t *vkf_session_ids(const vkf_session *session, size_t slot, size_t *n) {
  vkf_session *s;
  const vkf_sequence *q = begin_read(session, slot, &s);
  const size_t n_ids = q ? q->n : 0;
  const int32_t *ids = n_ids ? q->ids : NULL;
  if (n) *n = n_ids;
  if (q) vkf_engine_session_end(s, VKF_OK, NULL);
  return ids;
}

size_t vkf_session_slot_capacity(const vkf_session *session) {
  vkf_session *s = vkf_engine_session_look(session);
  const size_t most = s && s->slots ? s->slots->most : 0;
  if (s) vkf_engine_session_end(s, VKF_OK, NULL);
  return most;
}
