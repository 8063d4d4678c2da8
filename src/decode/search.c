/* search: see search.h. The rules of beams are in beam.c. */
#include "decode/search.h"

#include <math.h>
#include <string.h>

#include "decode/logprobs.h"

/* ---- start ------------------------------------------------------------------------------------------------------- */

static bool has_beams(const vkf_search *s) {
  return s->input.config->num_beams > 1;
}

static vkf_status check_input(const vkf_search *s) {
  const vkf_search_input *in = &s->input;
  const vkf_generation_config *c = in->config;
  uint32_t n_vocab = s->scratch->marks.n_vocab;
  uint64_t n_ids = (uint64_t)n_vocab * vkf_decode_beams_each(c);
  if (has_beams(s) && vkf_decode_beams_keep(c) > n_ids)
    return vkf_env_fail(
        s->env, VKF_ERROR_ARGUMENT, "search: %u beams need %llu candidates, but a vocabulary of %u gives only %llu",
        vkf_decode_beams_each(c), (unsigned long long)vkf_decode_beams_keep(c), n_vocab, (unsigned long long)n_ids);
  if (in->prompt == NULL && vkf_decode_generation_start(c) == VKF_NO_TOKEN)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected decoder_start_token_id or bos_token_id, found neither");
  if (s->prompt == 0)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT, "search: expected at least one id to start from, found none");
  if (s->prompt >= in->max_length)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: expected a length limit over the %u ids to start from, found %llu", s->prompt,
                        (unsigned long long)in->max_length);
  for (uint32_t i = 0; i < c->force_words.n; i++)
    if (c->force_words.lists[i].n > s->max_length - s->prompt)
      return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                          "search: words of force_words_ids have %u ids, and a sequence gets %u at most",
                          c->force_words.lists[i].n, s->max_length - s->prompt);
  return VKF_OK;
}

static const int32_t *prompt_of(const vkf_search *s) {
  return s->input.prompt != NULL ? s->input.prompt : &s->start;
}

/* Copies the part of the prompt that the model is fed into `fed`, unless the mask keeps all of it. */
static vkf_status find_fed(vkf_search *s) {
  const int32_t *mask = s->input.prompt != NULL ? s->input.mask : NULL;
  s->n_fed = s->prompt;
  for (uint32_t i = 0; mask != NULL && i < s->prompt; i++) s->n_fed -= mask[i] == 0;
  if (s->n_fed == s->prompt) return VKF_OK;
  s->fed = vkf_env_alloc(s->env, s->n_fed, sizeof *s->fed);
  if (s->fed == NULL) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0, n = 0; i < s->prompt; i++)
    if (mask[i] != 0) s->fed[n++] = s->input.prompt[i];
  return VKF_OK;
}

static vkf_status init_beams(vkf_search *s) {
  const vkf_generation_config *c = s->input.config;
  const uint32_t n_vocab = s->scratch->marks.n_vocab;
  /* with an encoder the prompt is the beginning of the answer; else it is the question, where phrases do not count */
  const uint32_t phrases_from = s->input.source ? 0 : s->prompt;
  s->n_groups = c->num_beam_groups;
  s->groups = vkf_env_alloc(s->env, s->n_groups, sizeof *s->groups);
  s->group_is_done = vkf_env_alloc(s->env, 2 * s->n_groups, sizeof *s->group_is_done);
  if (!s->groups || !s->group_is_done) return VKF_ERROR_MEMORY;
  if (vkf_decode_search_ranks_all(c)) {
    s->n_best = (uint32_t)VKF_MIN(vkf_decode_beams_keep(c), n_vocab) + c->force_words.n;
    s->best = vkf_env_alloc(s->env, (size_t)s->n_rows * s->n_best, sizeof *s->best);
    s->best_ids = vkf_env_alloc(s->env, (size_t)s->n_rows * s->n_best, sizeof *s->best_ids);
    if (!s->best || !s->best_ids) return VKF_ERROR_MEMORY;
  }
  for (uint32_t g = 0; g < s->n_groups; g++)
    VKF_CALL(vkf_decode_beams_init(&s->groups[g], s->env, c, prompt_of(s), s->prompt, s->max_length, s->capacity,
                                   s->n_best, phrases_from));
  return VKF_OK;
}

vkf_status vkf_decode_search_init(vkf_search *s, vkf_env *env, vkf_search_scratch *scratch,
                                  const vkf_search_input *input) {
  const vkf_generation_config *c = input->config;
  *s = (vkf_search){.env = env, .input = *input, .scratch = scratch};
  s->input.scores = vkf_decode_search_scores(c, input->scores);
  s->start = vkf_decode_generation_start(c);
  s->length = s->prompt = input->prompt != NULL ? input->n_prompt : 1;
  s->max_length = (uint32_t)VKF_MIN(input->max_length, (uint64_t)INT32_MAX);
  s->capacity = vkf_decode_search_longest(input->max_length, input->n_positions, s->prompt);
  s->n_rows = vkf_decode_search_rows(c);
  s->k = vkf_decode_search_k(c, scratch->marks.n_vocab, input->scores);
  VKF_CALL(check_input(s));
  VKF_CALL(find_fed(s));
  s->processors = (vkf_processors){c, &scratch->marks, s->prompt, s->max_length};
  if (has_beams(s)) {
    VKF_CALL(init_beams(s));
  } else {
    s->ids = vkf_env_alloc(env, s->capacity, sizeof *s->ids);
    if (s->input.scores) s->logprobs = vkf_env_alloc(env, s->capacity, sizeof *s->logprobs);
    if (s->ids == NULL || (s->input.scores && s->logprobs == NULL)) return VKF_ERROR_MEMORY;
    memcpy(s->ids, prompt_of(s), s->prompt * sizeof *s->ids);
  }
  return VKF_OK;
}

void vkf_decode_search_finish(vkf_search *s) {
  if (s->env == NULL) return;
  vkf_env_free(s->env, s->ids);
  vkf_env_free(s->env, s->logprobs);
  vkf_env_free(s->env, s->fed);
  vkf_env_free(s->env, s->best);
  vkf_env_free(s->env, s->best_ids);
  for (uint32_t g = 0; s->groups && g < s->n_groups; g++)
    if (s->groups[g].env) vkf_decode_beams_finish(&s->groups[g]);
  vkf_env_free(s->env, s->groups);
  vkf_env_free(s->env, s->group_is_done);
  *s = (vkf_search){0};
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static const int32_t *history(const vkf_search *s, uint32_t row) {
  if (!has_beams(s)) return s->ids;
  const vkf_beams *group = &s->groups[row / s->groups[0].n_beams];
  return group->running.tokens + (size_t)(row % group->n_beams) * s->capacity;
}

/* Returns the row of the last step that row `row` continues. */
static uint32_t origin(const vkf_search *s, uint32_t row) {
  if (!has_beams(s)) return row;
  const uint32_t each = s->groups[0].n_beams;
  return row - row % each + s->groups[row / each].order[row % each];
}

vkf_status vkf_decode_search_ask(vkf_search *s, vkf_search_row *rows, uint32_t *order, vkf_logit_edit *edits,
                                 uint32_t *edit_offsets) {
  const vkf_search_input *in = &s->input;
  const bool begins = s->length == s->prompt;
  const bool forks = begins && s->n_fed > 1 && vkf_decode_search_forks(in->config, in->source != NULL);
  const uint32_t n_source = in->source != NULL ? in->n_source : s->prompt;
  const uint32_t known = s->length - (s->prompt - s->n_fed); /* ids that the model is fed, up to now */
  const int32_t *source = in->source != NULL ? in->source : prompt_of(s);
  if (in->n_positions > 0 && s->length > in->n_positions)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: the model has %llu positions, and no end was found there; the length limit is %llu",
                        (unsigned long long)in->n_positions, (unsigned long long)in->max_length);
  for (uint32_t r = 0; r < s->n_rows; r++) {
    const int32_t *ids = history(s, r), *fed = begins && s->fed != NULL ? s->fed : ids + (s->length - known);
    const bool is_fork = forks && (r > 0 || in->copy > 0);
    const uint32_t past = begins && !is_fork ? 0 : known - 1;
    rows[r] = (vkf_search_row){.past = past, .is_fork = is_fork, .n = known - past, .ids = fed + past, .n_out = 1};
    order[r] = is_fork ? 0 : begins ? r : origin(s, r);
    edit_offsets[r + 1] = edit_offsets[r] + vkf_decode_processors_edit(&s->processors, ids, s->length, source, n_source,
                                                                       edits + edit_offsets[r]);
  }
  return VKF_OK;
}

vkf_status vkf_decode_search_check(const vkf_search *s, const float *values, const int32_t *ids) {
  uint32_t width = s->k > 0 ? s->k : s->scratch->marks.n_vocab;
  for (size_t i = 0; i < (size_t)s->n_rows * width; i++) {
    if (!isnan(values[i]) && !(isinf(values[i]) && values[i] > 0)) continue;
    return vkf_env_fail(s->env, VKF_ERROR_NUMERIC, "beam %u, step %u: expected finite scores, found %s for id %d",
                        has_beams(s) ? (uint32_t)(i / width) : s->input.copy, s->length - s->prompt,
                        isnan(values[i]) ? "NaN" : "infinity", s->k > 0 ? ids[i] : (int32_t)(i % width));
  }
  return VKF_OK;
}

/* Returns whether alternatives differ in the next id: copy i takes the candidate of rank i. */
static bool is_at_fork(const vkf_search *s) {
  return s->input.config->return_alternatives && s->length == vkf_decode_processors_begin(&s->processors);
}

/* Returns whether a sentence has no alternative of the search's number, given the log-probability of its next id. The
 * first alternative never is absent. */
static bool is_absent(const vkf_search *s, double log_prob) {
  const vkf_generation_config *c = s->input.config;
  if (!c->return_alternatives || s->input.copy == 0) return false;
  return !(log_prob > -INFINITY) || (is_at_fork(s) && exp(log_prob) < c->min_alternative_expansion_prob);
}

/* Ends a search without a result. */
static vkf_status end_without(vkf_search *s) {
  s->is_done = true;
  s->length = s->prompt;
  s->sum = -INFINITY;
  if (has_beams(s)) s->groups[0].n_candidates = 0; /* those of the last step have been told */
  return VKF_OK;
}

/* Keeps -infinity: the id is forbidden. */
static double log_prob_of(float score, float top, double log_sum) {
  return score > -INFINITY ? (double)score - top - log_sum : -INFINITY;
}

/* Returns the id of rank `rank` by all scores, ties by the lower id, and its log-probability: -infinity if the id is
 * forbidden, or if there are not so many. */
static int32_t ranked(const vkf_search *s, const float *scores, uint32_t rank, double *log_prob) {
  const uint32_t n = s->scratch->marks.n_vocab;
  vkf_sample_candidate *candidates = s->scratch->candidates;
  uint32_t best = 0;
  float top = 0;
  *log_prob = -INFINITY;
  if (rank >= n) return VKF_NO_TOKEN;
  for (uint32_t i = 1; i < n; i++)
    if (scores[i] > scores[best]) best = i;
  if (rank > 0) {
    for (uint32_t i = 0; i < n; i++) candidates[i] = (vkf_sample_candidate){.score = scores[i], .id = (int32_t)i};
    vkf_decode_best(candidates, n, rank + 1);
    best = (uint32_t)candidates[rank].id;
  }
  const double log_sum = vkf_decode_log_sum(scores, n, &top);
  *log_prob = log_prob_of(scores[best], top, log_sum);
  return (int32_t)best;
}

/* Returns the n best candidates of row r from its scores: log-probabilities, or logits without beams. While the row has
 * followed input.pull, the next id of the pull gets (1 - beta) p + beta and every other id (1 - beta) p (CTranslate2's
 * biased decoding); a forbidden id stays forbidden. An id loses diversity_penalty for each row of an earlier group that
 * has taken it in this step (Vijayakumar et al. 2016, "Diverse Beam Search", Hamming diversity). */
static const vkf_sample_candidate *rank_all(const vkf_search *s, uint32_t r, const float *scores, uint32_t n) {
  const vkf_search_input *in = &s->input;
  const uint32_t at = s->length - s->prompt, n_vocab = s->scratch->marks.n_vocab;
  const uint32_t n_before = s->n_groups > 1 ? r - r % s->groups[0].n_beams : 0; /* rows of earlier groups */
  const double beta = in->config->prefix_bias_beta;
  const bool follows =
      beta > 0 && at < in->n_pull && !memcmp(history(s, r) + s->prompt, in->pull, at * sizeof *in->pull);
  vkf_sample_candidate *candidates = s->scratch->candidates;
  float top = 0;
  const double log_sum = has_beams(s) ? 0 : vkf_decode_log_sum(scores, n_vocab, &top);
  for (uint32_t i = 0; i < n_vocab; i++) {
    double x = log_prob_of(scores[i], top, log_sum);
    const bool is_pulled = follows && (int32_t)i == in->pull[at] && x > -INFINITY;
    if (follows) x = is_pulled ? log((1 - beta) * exp(x) + beta) : x + log1p(-beta);
    candidates[i] = (vkf_sample_candidate){.score = (float)x, .id = (int32_t)i};
  }
  for (uint32_t before = 0; before < n_before; before++)
    if (!s->group_is_done[before / s->groups[0].n_beams])
      candidates[history(s, before)[s->length]].score -= (float)in->config->diversity_penalty;
  vkf_decode_best(candidates, n_vocab, n);
  return candidates;
}

/* Appends to the n best candidates of row r the next id of each phrase, unless it is already among them. */
static void add_phrases(const vkf_search *s, uint32_t r, const float *log_probs, uint32_t n, float *best,
                        int32_t *best_ids) {
  const vkf_beams *group = &s->groups[0];
  const vkf_id_lists *phrases = &s->input.config->force_words;
  for (uint32_t i = 0; i < phrases->n; i++) {
    const uint32_t from = group->phrases_from;
    const int32_t id = vkf_decode_phrases_next(phrases, i, history(s, r) + from, s->length - from);
    const vkf_id_list there = {best_ids, n + i};
    const bool is_new = id != VKF_NO_TOKEN && !vkf_decode_id_in(&there, id);
    best_ids[n + i] = is_new ? id : VKF_NO_TOKEN;
    best[n + i] = is_new ? log_probs[id] : -INFINITY;
  }
}

/* Adds an id to the beams of group g from all log-probabilities [n_rows][n_vocab]. Returns false if its search is over.
 */
static bool step_group(vkf_search *s, uint32_t g, const float *log_probs) {
  const uint32_t each = s->groups[g].n_beams, n = s->n_best - s->input.config->force_words.n;
  const size_t first = (size_t)g * each * s->n_best;
  for (uint32_t r = g * each; r < (g + 1) * each; r++) {
    const float *its = log_probs + (size_t)r * s->scratch->marks.n_vocab;
    const vkf_sample_candidate *ranked = rank_all(s, r, its, n);
    float *best = s->best + (size_t)r * s->n_best;
    int32_t *ids = s->best_ids + (size_t)r * s->n_best;
    for (uint32_t i = 0; i < n; i++) {
      best[i] = ranked[i].score;
      ids[i] = ranked[i].id;
    }
    add_phrases(s, r, its, n, best, ids);
  }
  return vkf_decode_beams_step(&s->groups[g], s->best + first, s->best_ids + first, s->n_best, NULL);
}

/* Adds an id to every group. Each group sees what the groups before it have taken, even one that ends in this step. */
static void step_groups(vkf_search *s, const float *log_probs) {
  bool *is_done = s->group_is_done + s->n_groups;
  s->is_done = true;
  for (uint32_t g = 0; g < s->n_groups; g++) {
    is_done[g] = s->group_is_done[g] || !step_group(s, g, log_probs);
    if (s->group_is_done[g]) vkf_decode_beams_idle(&s->groups[g], vkf_decode_search_fill(s->input.config));
    s->is_done &= is_done[g];
  }
  memcpy(s->group_is_done, is_done, s->n_groups * sizeof *is_done);
}

/* Fails if a search that is over has found no sequence, unless that may be. */
static vkf_status check_found(const vkf_search *s) {
  if (is_absent(s, -INFINITY)) return VKF_OK;
  for (uint32_t g = 0; g < s->n_groups; g++)
    if (s->groups[g].finished.finished[0]) return VKF_OK;
  if (s->input.config->force_words.n == 0)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT, "expected a sequence that the options allow, found none");
  return vkf_env_fail(
      s->env, VKF_ERROR_ARGUMENT,
      "no sequence of up to %u ids has all words of force_words_ids: expected other options that allow them",
      s->max_length);
}

/* Chooses the next id from all scores [n_vocab]: draws it, or takes the one of rank `rank`; VKF_NO_TOKEN: the
 * alternative is absent. */
static vkf_status choose(vkf_search *s, const float *scores, uint32_t rank, int32_t *id) {
  const vkf_search_input *in = &s->input;
  uint32_t step = s->length - s->prompt, n_vocab = s->scratch->marks.n_vocab;
  double log_prob = 0;
  if (in->config->do_sample) {
    const double unit = vkf_decode_sample_unit(in->config->seed, in->line, in->copy, step);
    *id = vkf_decode_sample(in->config, scores, n_vocab, unit, s->scratch->candidates, &log_prob);
  } else if (in->config->prefix_bias_beta > 0) {
    const vkf_sample_candidate *best = rank_all(s, 0, scores, 1);
    *id = best->id;
    log_prob = best->score;
  } else {
    *id = ranked(s, scores, rank, &log_prob);
  }
  if (is_absent(s, log_prob)) {
    *id = VKF_NO_TOKEN;
    return VKF_OK;
  }
  if (*id == VKF_NO_TOKEN || (in->config->return_alternatives && isinf(log_prob)))
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "step %u: expected an id with a finite score, but every id is forbidden", step);
  s->sum += log_prob;
  if (s->logprobs != NULL) s->logprobs[s->length] = (float)log_prob;
  return VKF_OK;
}

vkf_status vkf_decode_search_take(vkf_search *s, const float *values, const int32_t *ids, int32_t *id) {
  const uint32_t rank = is_at_fork(s) ? s->input.copy : 0;
  *id = VKF_NO_TOKEN;
  if (has_beams(s)) {
    if (is_at_fork(s) && is_absent(s, rank < s->k ? values[rank] : -INFINITY)) return end_without(s);
    if (s->best)
      step_groups(s, values);
    else
      s->is_done = !vkf_decode_beams_step(s->groups, values, ids, s->k, is_at_fork(s) ? &rank : NULL);
    s->length++;
    return s->is_done ? check_found(s) : VKF_OK;
  }
  if (s->k > 0) *id = ids[0];
  if (s->k == 0) VKF_CALL(choose(s, values, rank, id));
  if (*id == VKF_NO_TOKEN) return end_without(s);
  s->ids[s->length++] = *id;
  s->is_done = vkf_decode_id_in(&s->input.config->eos, *id) || s->length >= s->max_length;
  return VKF_OK;
}

void vkf_decode_search_stop(vkf_search *s) {
  for (uint32_t g = 0; g < s->n_groups && !s->is_done; g++)
    if (!s->group_is_done[g]) vkf_decode_beams_stop(&s->groups[g]);
  s->is_done = true;
}

/* ---- result ------------------------------------------------------------------------------------------------------ */

static const vkf_beam_pool *finished_of(const vkf_search *s, uint32_t row) {
  return &s->groups[row / s->groups[0].n_kept].finished;
}

/* Returns the pool of result i among those of all groups, and its row there. Ties: the earlier group first. */
static const vkf_beam_pool *find_result(const vkf_search *s, uint32_t i, uint32_t *row) {
  const uint32_t each = s->groups[0].n_kept;
  uint32_t found = i;
  for (uint32_t r = 0; s->n_groups > 1 && r < s->n_rows; r++) {
    const float score = finished_of(s, r)->scores[r % each];
    uint32_t n_better = 0;
    for (uint32_t o = 0; o < s->n_rows; o++) {
      const float other = finished_of(s, o)->scores[o % each];
      n_better += other > score || (other == score && o < r);
    }
    if (n_better == i) found = r;
  }
  *row = found % each;
  return finished_of(s, found);
}

const int32_t *vkf_decode_search_result(const vkf_search *s, uint32_t i, uint32_t *length, float *score) {
  if (has_beams(s)) {
    const vkf_beam_pool *pool = find_result(s, i, &i);
    *length = pool->finished[i] ? pool->lengths[i] : s->prompt;
    if (score != NULL) *score = pool->finished[i] ? pool->scores[i] : -INFINITY;
    return pool->tokens + (size_t)i * s->capacity;
  }
  *length = s->length;
  /* as for finished beams: the sum of the log-probabilities divided by n_generated^length_penalty */
  const double by = pow(s->length - s->prompt, s->input.config->length_penalty);
  if (score != NULL) *score = s->sum > -INFINITY ? (float)(s->sum / by) : -INFINITY;
  return s->ids;
}

const float *vkf_decode_search_logprobs(const vkf_search *s, uint32_t i) {
  if (!has_beams(s)) return s->logprobs;
  return find_result(s, i, &i)->logprobs + (size_t)i * s->capacity;
}
