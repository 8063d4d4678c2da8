/* beam: see beam.h. */
#include "decode/beam.h"

#include <math.h>
#include <string.h>

/* Takes a hypothesis out of a ranking without removing it; large beside any sum of log-probabilities. */
#define OUT_OF_RANK (-1.0e9f)

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static vkf_status init_pool(vkf_env *env, vkf_beam_pool *pool, size_t n_rows, size_t capacity) {
  size_t n = 0;
  if (!vkf_size_mul(n_rows, capacity, &n)) n = SIZE_MAX;
  pool->tokens = vkf_env_alloc(env, n, sizeof(*pool->tokens));
  pool->logprobs = vkf_env_alloc(env, n, sizeof(*pool->logprobs));
  pool->scores = vkf_env_alloc(env, n_rows, sizeof(*pool->scores));
  pool->lengths = vkf_env_alloc(env, n_rows, sizeof(*pool->lengths));
  pool->finished = vkf_env_alloc(env, n_rows, sizeof(*pool->finished));
  bool ok = pool->tokens != NULL && pool->logprobs != NULL && pool->scores != NULL && pool->lengths != NULL &&
            pool->finished != NULL;
  return ok ? VKF_OK : VKF_ERROR_MEMORY;
}

static void finish_pool(vkf_env *env, vkf_beam_pool *pool) {
  vkf_env_free(env, pool->tokens);
  vkf_env_free(env, pool->logprobs);
  vkf_env_free(env, pool->scores);
  vkf_env_free(env, pool->lengths);
  vkf_env_free(env, pool->finished);
}

uint64_t vkf_decode_beams_keep(const vkf_generation_config *config) {
  return (uint64_t)VKF_MAX(2, 1 + (uint64_t)config->eos.n) * config->num_beams;
}

/* Both pools start from the prompt; only the first beam counts, since all are equal. */
static void fill_pools(vkf_beams *s, const int32_t *ids) {
  for (uint32_t r = 0; r < s->n_beams; r++) {
    memcpy(s->running.tokens + (size_t)r * s->capacity, ids, s->prompt * sizeof(*ids));
    memcpy(s->finished.tokens + (size_t)r * s->capacity, ids, s->prompt * sizeof(*ids));
    s->running.scores[r] = r == 0 ? 0.0f : OUT_OF_RANK;
    s->finished.scores[r] = OUT_OF_RANK;
    s->running.lengths[r] = s->finished.lengths[r] = s->prompt;
  }
}

vkf_status vkf_decode_beams_init(vkf_beams *s, vkf_env *env, const vkf_generation_config *config, const int32_t *ids,
                                 uint32_t prompt, uint32_t max_length, uint32_t capacity) {
  *s = (vkf_beams){.env = env,
                   .config = config,
                   .n_beams = config->num_beams,
                   .n_keep = (uint32_t)vkf_decode_beams_keep(config),
                   .prompt = prompt,
                   .length = prompt,
                   .max_length = max_length,
                   .capacity = capacity};
  VKF_CALL(init_pool(env, &s->running, s->n_beams, capacity));
  VKF_CALL(init_pool(env, &s->finished, s->n_beams, capacity));
  VKF_CALL(init_pool(env, &s->spare, s->n_beams, capacity));
  s->order = vkf_env_alloc(env, s->n_beams, sizeof(*s->order));
  s->cursors = vkf_env_alloc(env, s->n_beams, sizeof(*s->cursors));
  s->picked = vkf_env_alloc(env, s->n_beams, sizeof(*s->picked));
  s->ranks = vkf_env_alloc(env, (size_t)s->n_beams + s->n_keep, sizeof(*s->ranks));
  s->candidates = vkf_env_alloc(env, s->n_keep, sizeof(*s->candidates));
  if (s->order == NULL || s->cursors == NULL || s->picked == NULL || s->ranks == NULL || s->candidates == NULL)
    return VKF_ERROR_MEMORY;
  fill_pools(s, ids);
  return VKF_OK;
}

void vkf_decode_beams_finish(vkf_beams *s) {
  finish_pool(s->env, &s->running);
  finish_pool(s->env, &s->finished);
  finish_pool(s->env, &s->spare);
  vkf_env_free(s->env, s->order);
  vkf_env_free(s->env, s->cursors);
  vkf_env_free(s->env, s->picked);
  vkf_env_free(s->env, s->ranks);
  vkf_env_free(s->env, s->candidates);
  memset(s, 0, sizeof(*s));
}

/* ---- ranking ----------------------------------------------------------------------------------------------------- */

/* The n_beams largest of ranks[n], descending; the earlier one of equals first. */
static void pick_best(vkf_beams *s, uint32_t n) {
  for (uint32_t i = 0; i < s->n_beams; i++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t j = 0; j < n; j++) {
      bool taken = false;
      for (uint32_t t = 0; t < i && !taken; t++) taken = s->picked[t] == j;
      if (!taken && (best == UINT32_MAX || s->ranks[j] > s->ranks[best])) best = j;
    }
    s->picked[i] = best;
  }
}

/* The candidates, descending: the rows' lists merged; of equals the lower row first. */
static void merge_rows(vkf_beams *s, const float *values, const int32_t *ids, uint32_t k, const uint32_t *only) {
  memset(s->cursors, 0, s->n_beams * sizeof(*s->cursors));
  if (only) s->cursors[0] = *only;
  for (uint32_t i = 0; i < s->n_keep; i++) {
    vkf_beam_candidate best = {0};
    bool found = false;
    for (uint32_t row = 0; row < s->n_beams; row++) {
      if (s->cursors[row] == k) continue;
      size_t at = (size_t)row * k + s->cursors[row];
      float score = values[at] + s->running.scores[row];
      if (only && at != *only) score += OUT_OF_RANK;
      if (found && !(score > best.score)) continue;
      best = (vkf_beam_candidate){score, row, ids[at], false, values[at]};
      found = true;
    }
    s->cursors[best.row]++;
    best.ends = s->length + 1 >= s->max_length || vkf_decode_id_in(&s->config->eos, best.id);
    s->candidates[i] = best;
  }
}

/* ---- the next state ---------------------------------------------------------------------------------------------- */

static void copy_row(const vkf_beams *s, uint32_t row, const vkf_beam_pool *from, uint32_t from_row) {
  const size_t to = (size_t)row * s->capacity, at = (size_t)from_row * s->capacity, n = from->lengths[from_row];
  memcpy(s->spare.tokens + to, from->tokens + at, n * sizeof(*from->tokens));
  memcpy(s->spare.logprobs + to, from->logprobs + at, n * sizeof(*from->logprobs));
  s->spare.scores[row] = from->scores[from_row];
  s->spare.lengths[row] = from->lengths[from_row];
  s->spare.finished[row] = from->finished[from_row];
}

static void copy_candidate(const vkf_beams *s, uint32_t row, const vkf_beam_candidate *c, float score, bool finished) {
  copy_row(s, row, &s->running, c->row);
  s->spare.tokens[(size_t)row * s->capacity + s->length] = c->id;
  s->spare.logprobs[(size_t)row * s->capacity + s->length] = c->logprob;
  s->spare.scores[row] = score;
  s->spare.lengths[row] = s->length + 1;
  s->spare.finished[row] = finished;
}

/* What was written to `spare` is the pool now. */
static void swap_spare(vkf_beams *s, vkf_beam_pool *pool) {
  vkf_beam_pool old = *pool;
  *pool = s->spare;
  s->spare = old;
}

static bool all_finished(const vkf_beams *s) {
  for (uint32_t i = 0; i < s->n_beams; i++)
    if (!s->finished.finished[i]) return false;
  return true;
}

static float divisor(const vkf_beams *s, uint32_t n_generated) {
  return (float)pow(n_generated, s->config->length_penalty);
}

/* Finished hypotheses: the old ones and, of the n_beams best candidates, those that end. */
static void update_finished(vkf_beams *s) {
  float by = divisor(s, s->length + 1 - s->prompt);
  memcpy(s->ranks, s->finished.scores, s->n_beams * sizeof(*s->ranks));
  for (uint32_t i = 0; i < s->n_keep; i++) {
    float score = s->candidates[i].score / by;
    const bool finishes = s->candidates[i].ends && i < s->n_beams;
    if (!finishes) score += OUT_OF_RANK;
    s->n_ended += finishes && s->candidates[i].score > OUT_OF_RANK;
    s->ranks[s->n_beams + i] = score;
  }
  pick_best(s, s->n_beams + s->n_keep);
  for (uint32_t i = 0; i < s->n_beams; i++) {
    uint32_t at = s->picked[i];
    if (at < s->n_beams) {
      copy_row(s, i, &s->finished, at);
    } else {
      const vkf_beam_candidate *c = &s->candidates[at - s->n_beams];
      copy_candidate(s, i, c, s->ranks[at], c->ends && at - s->n_beams < s->n_beams);
    }
  }
}

/* Running hypotheses: the best candidates that do not end. */
static void update_running(vkf_beams *s) {
  for (uint32_t i = 0; i < s->n_keep; i++)
    s->ranks[i] = s->candidates[i].score + (s->candidates[i].ends ? OUT_OF_RANK : 0.0f);
  pick_best(s, s->n_keep);
  for (uint32_t i = 0; i < s->n_beams; i++) {
    const vkf_beam_candidate *c = &s->candidates[s->picked[i]];
    copy_candidate(s, i, c, s->ranks[s->picked[i]], false);
    s->order[i] = c->row;
  }
}

/* Can the best running hypothesis still beat the worst finished one? */
static bool is_open(const vkf_beams *s) {
  const vkf_generation_config *c = s->config;
  bool longest = c->early_stopping == VKF_EARLY_STOPPING_NEVER && c->length_penalty > 0;
  float best = s->running.scores[0] / divisor(s, (longest ? s->max_length : s->length) - s->prompt);
  float worst = s->finished.scores[0];
  bool possible = false;
  for (uint32_t i = 1; i < s->n_beams; i++) worst = VKF_MIN(worst, s->finished.scores[i]);
  for (uint32_t i = 0; i < s->n_beams; i++) possible |= best > (s->finished.finished[i] ? worst : OUT_OF_RANK);
  return possible;
}

bool vkf_decode_beams_step(vkf_beams *s, const float *values, const int32_t *ids, uint32_t k, const uint32_t *only) {
  bool all_end = true;
  merge_rows(s, values, ids, k, only);
  for (uint32_t i = 0; i < s->n_keep; i++) all_end &= s->candidates[i].ends;
  update_finished(s);
  swap_spare(s, &s->finished);
  update_running(s);
  swap_spare(s, &s->running);
  s->length++;
  if (s->config->patience > 0) return s->n_ended < vkf_decode_generation_patience(s->config) && !all_end;
  bool full = s->config->early_stopping == VKF_EARLY_STOPPING_TRUE && all_finished(s);
  return is_open(s) && !full && !all_end;
}

void vkf_decode_beams_stop(vkf_beams *s) {
  float by = divisor(s, s->length - s->prompt);
  memcpy(s->ranks, s->finished.scores, s->n_beams * sizeof(*s->ranks));
  for (uint32_t i = 0; i < s->n_beams; i++) s->ranks[s->n_beams + i] = s->running.scores[i] / by;
  pick_best(s, 2 * s->n_beams);
  for (uint32_t i = 0; i < s->n_beams; i++) {
    uint32_t at = s->picked[i];
    copy_row(s, i, at < s->n_beams ? &s->finished : &s->running, at % s->n_beams);
    s->spare.scores[i] = s->ranks[at];
    s->spare.finished[i] = true;
  }
  swap_spare(s, &s->finished);
}
