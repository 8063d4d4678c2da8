/* beam: see beam.h. */
#include "decode/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Added to a score, it ranks a hypothesis last without removing it. Far below any sum of log-probabilities. */
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

uint32_t vkf_decode_beams_each(const vkf_generation_config *config) {
  return config->num_beams / config->num_beam_groups;
}

/* Returns how many finished hypotheses a group keeps: one per beam; with patience num_return_sequences if that is
 * more. */
static uint32_t n_kept(const vkf_generation_config *config) {
  const uint32_t each = vkf_decode_beams_each(config);
  return config->patience > 0 ? VKF_MAX(each, config->num_return_sequences) : each;
}

uint64_t vkf_decode_beams_keep(const vkf_generation_config *config) {
  const uint64_t n = (uint64_t)VKF_MAX(2, 1 + (uint64_t)config->eos.n) * vkf_decode_beams_each(config);
  return config->return_alternatives ? n : VKF_MAX(n, n_kept(config));
}

/* Fills both pools with the prompt. All beams are equal, so only the first is in rank. */
static void fill_pools(vkf_beams *s, const int32_t *ids) {
  for (uint32_t r = 0; r < s->n_kept; r++) {
    memcpy(s->running.tokens + (size_t)r * s->capacity, ids, s->prompt * sizeof(*ids));
    memcpy(s->finished.tokens + (size_t)r * s->capacity, ids, s->prompt * sizeof(*ids));
    s->running.scores[r] = r == 0 ? 0.0f : OUT_OF_RANK;
    s->finished.scores[r] = OUT_OF_RANK;
    s->running.lengths[r] = s->finished.lengths[r] = s->prompt;
  }
}

vkf_status vkf_decode_beams_init(vkf_beams *s, vkf_env *env, const vkf_generation_config *config, const int32_t *ids,
                                 uint32_t prompt, uint32_t max_length, uint32_t capacity, uint32_t k,
                                 uint32_t phrases_from) {
  const bool has_phrases = config->force_words.n > 0;
  *s = (vkf_beams){.env = env,
                   .config = config,
                   .n_beams = vkf_decode_beams_each(config),
                   .n_keep = has_phrases ? config->num_beams * k : (uint32_t)vkf_decode_beams_keep(config),
                   .n_kept = n_kept(config),
                   .n_banks = vkf_decode_phrases_total(&config->force_words) + 1,
                   .phrases_from = phrases_from,
                   .prompt = prompt,
                   .length = prompt,
                   .max_length = max_length,
                   .capacity = capacity};
  VKF_CALL(init_pool(env, &s->running, s->n_kept, capacity));
  VKF_CALL(init_pool(env, &s->finished, s->n_kept, capacity));
  VKF_CALL(init_pool(env, &s->spare, s->n_kept, capacity));
  s->order = vkf_env_alloc(env, s->n_beams, sizeof(*s->order));
  s->cursors = vkf_env_alloc(env, VKF_MAX(s->n_beams, s->n_banks), sizeof(*s->cursors));
  s->picked = vkf_env_alloc(env, s->n_kept, sizeof(*s->picked));
  s->ranks = vkf_env_alloc(env, (size_t)s->n_kept + s->n_keep, sizeof(*s->ranks));
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

/* Puts the indices of the n_picked largest of ranks[n] into `picked`, descending. Ties keep their order. */
static void pick_best(vkf_beams *s, uint32_t n_picked, uint32_t n) {
  for (uint32_t i = 0; i < n_picked; i++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t j = 0; j < n; j++) {
      bool taken = false;
      for (uint32_t t = 0; t < i && !taken; t++) taken = s->picked[t] == j;
      if (!taken && (best == UINT32_MAX || s->ranks[j] > s->ranks[best])) best = j;
    }
    s->picked[i] = best;
  }
}

/* Merges the rows' descending lists into `candidates`, descending. Ties: the lower row first. */
static void merge_rows(vkf_beams *s, const float *values, const int32_t *ids, uint32_t k, const uint32_t *only) {
  const bool is_last = s->length + 1 >= s->max_length;
  uint32_t n_ended = s->n_ended;
  memset(s->cursors, 0, s->n_beams * sizeof(*s->cursors));
  if (only) s->cursors[0] = *only;
  for (uint32_t i = 0; i < s->n_keep; i++) {
    vkf_beam_candidate best = {.score = -INFINITY, .logprob = -INFINITY, .becomes = -1}; /* if none is left */
    bool found = false;
    for (uint32_t row = 0; row < s->n_beams; row++) {
      if (s->cursors[row] == k) continue;
      size_t at = (size_t)row * k + s->cursors[row];
      float score = values[at] + s->running.scores[row];
      if (only && at != *only) score += OUT_OF_RANK;
      if (found && !(score > best.score)) continue;
      best = (vkf_beam_candidate){.score = score, .row = row, .id = ids[at], .logprob = values[at], .becomes = -1};
      found = true;
    }
    if (found) s->cursors[best.row]++;
    best.ends = is_last || vkf_decode_id_in(&s->config->eos, best.id);
    best.finishes = best.ends && (i < s->n_beams || (is_last && n_ended < s->n_kept));
    n_ended += best.finishes;
    s->candidates[i] = best;
  }
}

static int compare_candidates(const void *left, const void *right) {
  const vkf_beam_candidate *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->row != b->row ? (a->row > b->row) - (a->row < b->row) : (a->id > b->id) - (a->id < b->id);
}

/* The same with phrases: sorts all candidates and gives each its bank. A candidate finishes only if it has every phrase
 * and is among the n_beams best of those. */
static void rank_banks(vkf_beams *s, const float *values, const int32_t *ids, uint32_t k) {
  const vkf_id_lists *phrases = &s->config->force_words;
  uint32_t n_whole = 0;
  for (uint32_t i = 0; i < s->n_keep; i++) {
    const uint32_t row = i / k;
    int32_t *history = s->running.tokens + (size_t)row * s->capacity;
    vkf_beam_candidate c = {
        .score = values[i] + s->running.scores[row], .row = row, .id = ids[i], .logprob = values[i], .becomes = -1};
    history[s->length] = c.id; /* behind the running ids, where the next id goes */
    c.bank = vkf_decode_phrases_met(phrases, history + s->phrases_from, s->length + 1 - s->phrases_from);
    c.ends = s->length + 1 >= s->max_length || vkf_decode_id_in(&s->config->eos, c.id);
    s->candidates[i] = c;
  }
  qsort(s->candidates, s->n_keep, sizeof *s->candidates, compare_candidates);
  for (uint32_t i = 0; i < s->n_keep; i++) {
    vkf_beam_candidate *c = &s->candidates[i];
    const bool is_whole = c->bank == s->n_banks - 1 && c->score > OUT_OF_RANK;
    c->finishes = c->ends && is_whole && n_whole < s->n_beams;
    n_whole += is_whole;
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

/* Makes `spare`, which holds the next state, the pool; the old pool becomes the spare. */
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

/* Ranks the candidates that finish with the hypotheses that had finished before, and keeps the n_kept best. */
static void update_finished(vkf_beams *s) {
  float by = divisor(s, s->length + 1 - s->prompt);
  memcpy(s->ranks, s->finished.scores, s->n_kept * sizeof(*s->ranks));
  for (uint32_t i = 0; i < s->n_keep; i++) {
    float score = s->candidates[i].score / by;
    s->candidates[i].finishes &= s->candidates[i].score > OUT_OF_RANK;
    if (!s->candidates[i].finishes) score += OUT_OF_RANK;
    s->n_ended += s->candidates[i].finishes;
    s->ranks[s->n_kept + i] = score;
  }
  pick_best(s, s->n_kept, s->n_kept + s->n_keep);
  for (uint32_t i = 0; i < s->n_kept; i++) {
    uint32_t at = s->picked[i];
    if (at < s->n_kept) {
      copy_row(s, i, &s->finished, at);
    } else {
      const vkf_beam_candidate *c = &s->candidates[at - s->n_kept];
      copy_candidate(s, i, c, s->ranks[at], c->finishes);
    }
  }
}

/* Picks the candidates that continue, with phrases: the banks take turns from the one with the most ids down, and each
 * gives its best one that is left. Candidates that are out of rank fill the remaining places. */
static void pick_from_banks(vkf_beams *s) {
  uint32_t n = 0, bank = s->n_banks;
  memset(s->cursors, 0, s->n_banks * sizeof *s->cursors);
  for (uint32_t n_empty = 0; n < s->n_beams && n_empty < s->n_banks;) {
    bank = (bank > 0 ? bank : s->n_banks) - 1;
    uint32_t i = s->cursors[bank];
    while (i < s->n_keep && !(s->candidates[i].bank == bank && s->ranks[i] > OUT_OF_RANK)) i++;
    n_empty = i < s->n_keep ? 0 : n_empty + 1;
    if (i < s->n_keep) s->picked[n++] = i;
    s->cursors[bank] = i < s->n_keep ? i + 1 : i;
  }
  for (uint32_t i = 0; n < s->n_beams; i++)
    if (!(s->ranks[i] > OUT_OF_RANK)) s->picked[n++] = i;
  for (uint32_t i = 1; i < s->n_beams; i++) { /* insertion sort, descending */
    const uint32_t at = s->picked[i];
    uint32_t to = i;
    for (; to > 0 && s->ranks[s->picked[to - 1]] < s->ranks[at]; to--) s->picked[to] = s->picked[to - 1];
    s->picked[to] = at;
  }
}

/* Makes the best candidates that do not end the running hypotheses. At the length limit all end; then the best without
 * an end id are kept, because later groups of beams avoid their ids. */
static void update_running(vkf_beams *s) {
  for (uint32_t i = 0; i < s->n_keep; i++) {
    const vkf_beam_candidate *c = &s->candidates[i];
    const bool has_end_id = c->ends && vkf_decode_id_in(&s->config->eos, c->id);
    s->ranks[i] = c->score + (c->ends ? OUT_OF_RANK : 0.0f) + (has_end_id ? OUT_OF_RANK : 0.0f);
  }
  if (s->n_banks > 1)
    pick_from_banks(s);
  else
    pick_best(s, s->n_beams, s->n_keep);
  for (uint32_t i = 0; i < s->n_beams; i++) {
    vkf_beam_candidate *c = &s->candidates[s->picked[i]];
    copy_candidate(s, i, c, s->ranks[s->picked[i]], false);
    if (!c->ends) c->becomes = (int32_t)i;
    s->order[i] = c->row;
  }
}

/* Returns whether the best running hypothesis can still beat the worst finished one. */
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
  if (s->n_banks > 1)
    rank_banks(s, values, ids, k);
  else
    merge_rows(s, values, ids, k, only);
  for (uint32_t i = 0; i < s->n_keep; i++) all_end &= s->candidates[i].ends;
  update_finished(s);
  swap_spare(s, &s->finished);
  update_running(s);
  swap_spare(s, &s->running);
  s->length++;
  for (s->n_candidates = s->n_keep; s->n_candidates > 0; s->n_candidates--)
    if (s->candidates[s->n_candidates - 1].score > OUT_OF_RANK) break;
  if (s->config->patience > 0) return s->n_ended < vkf_decode_generation_patience(s->config) && !all_end;
  bool full = s->config->early_stopping == VKF_EARLY_STOPPING_TRUE && all_finished(s);
  return is_open(s) && !full && !all_end;
}

void vkf_decode_beams_idle(vkf_beams *s, int32_t id) {
  for (uint32_t i = 0; i < s->n_beams; i++) {
    s->running.tokens[(size_t)i * s->capacity + s->length] = id;
    s->running.lengths[i]++;
    s->order[i] = i;
  }
  s->n_candidates = 0;
  s->length++;
}

void vkf_decode_beams_stop(vkf_beams *s) {
  float by = divisor(s, s->length - s->prompt);
  memcpy(s->ranks, s->finished.scores, s->n_kept * sizeof(*s->ranks));
  for (uint32_t i = 0; i < s->n_beams; i++) s->ranks[s->n_kept + i] = s->running.scores[i] / by;
  pick_best(s, s->n_kept, s->n_kept + s->n_beams);
  for (uint32_t i = 0; i < s->n_kept; i++) {
    uint32_t at = s->picked[i];
    const bool has_finished = at < s->n_kept;
    copy_row(s, i, has_finished ? &s->finished : &s->running, has_finished ? at : at - s->n_kept);
    s->spare.scores[i] = s->ranks[at];
    s->spare.finished[i] = has_finished ? s->finished.finished[at] : s->running.scores[at - s->n_kept] > OUT_OF_RANK;
  }
  swap_spare(s, &s->finished);
}
