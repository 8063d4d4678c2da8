/* batch: see batch.h. */
#include "decode/batch.h"

#include <string.h>

uint32_t vkf_decode_batch_slots(const vkf_generation_config *config, uint32_t B) {
  const uint64_t rows = (uint64_t)vkf_decode_search_copies(config) * vkf_decode_search_rows(config);
  return rows > UINT32_MAX || rows * B > UINT32_MAX ? UINT32_MAX : (uint32_t)(rows * B);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static vkf_status allocate(vkf_batch *batch, uint32_t edits) {
  vkf_env *env = batch->env;
  const size_t n_rows = (size_t)batch->n * batch->each;
  size_t n_edits = 0;
  if (!vkf_size_mul(n_rows, edits, &n_edits)) n_edits = SIZE_MAX;
  batch->searches = vkf_env_alloc(env, batch->n, sizeof *batch->searches);
  batch->live = vkf_env_alloc(env, batch->n, sizeof *batch->live);
  batch->got = vkf_env_alloc(env, batch->n, sizeof *batch->got);
  batch->failures = vkf_env_alloc(env, batch->n_seats, sizeof *batch->failures);
  batch->rows = vkf_env_alloc(env, n_rows, sizeof *batch->rows);
  batch->order = vkf_env_alloc(env, n_rows, sizeof *batch->order);
  batch->edits = vkf_env_alloc(env, n_edits, sizeof *batch->edits);
  batch->edit_offsets = vkf_env_alloc(env, n_rows + 1, sizeof *batch->edit_offsets);
  return batch->searches && batch->live && batch->got && batch->failures && batch->rows && batch->order &&
                 batch->edits && batch->edit_offsets
             ? VKF_OK
             : VKF_ERROR_MEMORY;
}

vkf_status vkf_decode_batch_init(vkf_batch *batch, vkf_env *env, const vkf_batch_input *in) {
  *batch = (vkf_batch){.env = env,
                       .config = in->config,
                       .n_seats = in->n_seats,
                       .copies = vkf_decode_search_copies(in->config),
                       .each = vkf_decode_search_rows(in->config)};
  batch->n = batch->n_seats * batch->copies;
  VKF_CALL(allocate(batch, in->edits));
  return vkf_decode_scratch_init(&batch->scratch, env, in->config, in->n_vocab);
}

void vkf_decode_batch_finish(vkf_batch *batch) {
  if (batch->env == NULL) return;
  for (uint32_t i = 0; batch->searches != NULL && i < batch->n; i++) vkf_decode_search_finish(&batch->searches[i]);
  vkf_env_free(batch->env, batch->searches);
  vkf_env_free(batch->env, batch->live);
  vkf_env_free(batch->env, batch->got);
  vkf_env_free(batch->env, batch->failures);
  vkf_env_free(batch->env, batch->rows);
  vkf_env_free(batch->env, batch->order);
  vkf_env_free(batch->env, batch->edits);
  vkf_env_free(batch->env, batch->edit_offsets);
  vkf_decode_scratch_finish(&batch->scratch);
  *batch = (vkf_batch){0};
}

static void empty(vkf_batch *batch, uint32_t seat) {
  batch->failures[seat].first = VKF_OK;
  for (uint32_t i = 0; i < batch->copies; i++) vkf_decode_search_finish(&batch->searches[seat * batch->copies + i]);
}

vkf_status vkf_decode_batch_put(vkf_batch *batch, uint32_t seat, const vkf_search_input *in) {
  vkf_status st = VKF_OK;
  vkf_search_input input = *in;
  input.config = batch->config;
  empty(batch, seat);
  for (input.copy = 0; !st && input.copy < batch->copies; input.copy++)
    st = vkf_decode_search_init(&batch->searches[seat * batch->copies + input.copy], batch->env, &batch->scratch,
                                &input);
  if (st) empty(batch, seat);
  return st;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static bool is_live(const vkf_search *s) {
  return s->env != NULL && !s->is_done;
}

bool vkf_decode_batch_seat_is_done(const vkf_batch *batch, uint32_t seat) {
  for (uint32_t i = 0; i < batch->copies; i++)
    if (is_live(&batch->searches[seat * batch->copies + i])) return false;
  return true;
}

vkf_status vkf_decode_batch_ask(vkf_batch *batch, vkf_batch_step *step) {
  uint32_t n_rows = 0;
  batch->n_live = 0;
  batch->edit_offsets[0] = 0;
  for (uint32_t i = 0; i < batch->n; i++) {
    vkf_search *s = &batch->searches[i];
    if (!is_live(s)) continue;
    VKF_CALL(vkf_decode_search_ask(s, batch->rows + n_rows, batch->order + n_rows, batch->edits,
                                   batch->edit_offsets + n_rows));
    for (uint32_t r = 0; r < batch->each; r++, n_rows++) {
      const bool is_fork = batch->rows[n_rows].is_fork;
      batch->rows[n_rows].slot = i * batch->each + r;
      batch->order[n_rows] += (is_fork ? i - s->input.copy : i) * batch->each;
    }
    batch->live[batch->n_live++] = i;
  }
  *step = (vkf_batch_step){.n_rows = n_rows,
                           .rows = batch->rows,
                           .order = batch->order,
                           .edits = batch->edits,
                           .edit_offsets = batch->edit_offsets};
  return VKF_OK;
}

/* Passes its part of the answer to search i of the last step. */
static vkf_status take(vkf_batch *batch, uint32_t i, const float *values, const int32_t *ids) {
  vkf_search *s = &batch->searches[batch->live[i]];
  const size_t row = (size_t)i * batch->each, width = s->k > 0 ? s->k : batch->scratch.marks.n_vocab;
  const float *its = values + row * width;
  const int32_t *its_ids = s->k > 0 ? ids + row * width : NULL;
  VKF_CALL(vkf_decode_search_check(s, its, its_ids));
  return vkf_decode_search_take(s, its, its_ids, &batch->got[i]);
}

void vkf_decode_batch_take(vkf_batch *batch, const float *values, const int32_t *ids) {
  for (uint32_t i = 0; i < batch->n_live; i++) {
    const uint32_t seat = batch->live[i] / batch->copies;
    batch->got[i] = VKF_NO_TOKEN;
    if (vkf_decode_batch_failure(batch, seat) || !take(batch, i, values, ids)) continue;
    batch->got[i] = VKF_NO_TOKEN;
    vkf_env_save_failure(batch->env, &batch->failures[seat]);
    vkf_env_clear(batch->env);
    vkf_decode_batch_stop_seat(batch, seat);
  }
}

const vkf_env_failure *vkf_decode_batch_failure(const vkf_batch *batch, uint32_t seat) {
  return batch->failures[seat].first ? &batch->failures[seat] : NULL;
}

void vkf_decode_batch_stop_seat(vkf_batch *batch, uint32_t seat) {
  for (uint32_t i = 0; i < batch->copies; i++) {
    vkf_search *s = &batch->searches[seat * batch->copies + i];
    if (is_live(s)) vkf_decode_search_stop(s);
  }
}

void vkf_decode_batch_stop(vkf_batch *batch) {
  for (uint32_t seat = 0; seat < batch->n_seats; seat++) vkf_decode_batch_stop_seat(batch, seat);
}

/* ---- result ------------------------------------------------------------------------------------------------------ */

vkf_status vkf_decode_batch_result(const vkf_batch *batch, uint32_t seat, uint32_t n_seats, vkf_generated *out) {
  const vkf_generation_config *c = batch->config;
  const vkf_search *first = &batch->searches[seat * batch->copies];
  const uint32_t each = vkf_decode_search_results(c);
  const bool has_scores = vkf_decode_search_scores(c, first->input.scores);
  size_t n = 0;
  *out = (vkf_generated){.env = batch->env, .n_rows = n_seats * batch->copies * each};
  for (uint32_t i = 0; i < out->n_rows; i++) {
    uint32_t length = 0;
    vkf_decode_search_result(&first[i / each], i % each, &length, NULL);
    out->length = VKF_MAX(out->length, length);
  }
  if (!vkf_size_mul(out->n_rows, out->length, &n)) n = SIZE_MAX;
  out->sequences = vkf_env_alloc(batch->env, n, sizeof *out->sequences);
  if (has_scores) out->scores = vkf_env_alloc(batch->env, out->n_rows, sizeof *out->scores);
  if (has_scores) out->logprobs = vkf_env_alloc(batch->env, n, sizeof *out->logprobs);
  if (out->sequences == NULL || (has_scores && (out->scores == NULL || out->logprobs == NULL))) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < out->n_rows; i++) {
    uint32_t length = 0;
    float *score = has_scores ? &out->scores[i] : NULL;
    const int32_t *ids = vkf_decode_search_result(&first[i / each], i % each, &length, score);
    int32_t *to = out->sequences + (size_t)i * out->length;
    memcpy(to, ids, length * sizeof *to);
    if (has_scores)
      memcpy(out->logprobs + (size_t)i * out->length, vkf_decode_search_logprobs(&first[i / each], i % each),
             length * sizeof *out->logprobs);
    for (uint32_t t = length; t < out->length; t++) to[t] = vkf_decode_search_fill(c);
  }
  return VKF_OK;
}

void vkf_decode_generated_finish(vkf_generated *generated) {
  if (generated->env == NULL) return;
  vkf_env_free(generated->env, generated->sequences);
  vkf_env_free(generated->env, generated->scores);
  vkf_env_free(generated->env, generated->logprobs);
  *generated = (vkf_generated){0};
}
