/* search: see search.h. The rules of beams are in beam.c. */
#include "decode/search.h"

#include <math.h>
#include <string.h>

static bool is_pulled(const vkf_generation_config *config) {
  return config->prefix_bias_beta > 0;
}

vkf_status vkf_decode_scratch_init(vkf_search_scratch *scratch, vkf_env *env, const vkf_generation_config *config,
                                   uint32_t n_vocab) {
  const bool has_candidates = config->do_sample || is_pulled(config) || config->return_alternatives;
  *scratch = (vkf_search_scratch){0};
  VKF_CALL(vkf_decode_marks_init(&scratch->marks, env, n_vocab));
  if (has_candidates) scratch->candidates = vkf_env_alloc(env, n_vocab, sizeof *scratch->candidates);
  return has_candidates && !scratch->candidates ? VKF_ERROR_MEMORY : VKF_OK;
}

void vkf_decode_scratch_finish(vkf_search_scratch *scratch) {
  if (scratch->marks.env == NULL) return;
  vkf_env_free(scratch->marks.env, scratch->candidates);
  vkf_decode_marks_finish(&scratch->marks);
}

uint32_t vkf_decode_search_copies(const vkf_generation_config *config) {
  return config->do_sample || config->return_alternatives ? config->num_return_sequences : 1;
}

uint32_t vkf_decode_search_results(const vkf_generation_config *config) {
  return config->num_return_sequences / vkf_decode_search_copies(config);
}

uint32_t vkf_decode_search_rows(const vkf_generation_config *config) {
  return config->do_sample ? 1 : config->num_beams;
}

uint32_t vkf_decode_search_k(const vkf_generation_config *config, uint32_t n_vocab, bool scores) {
  if (config->do_sample || is_pulled(config) || (scores && config->num_beams == 1)) return 0;
  const uint64_t wanted = config->num_beams == 1 ? 1 : vkf_decode_beams_keep(config);
  return (uint32_t)VKF_MIN(VKF_MAX(wanted, vkf_decode_search_copies(config)), n_vocab);
}

uint32_t vkf_decode_search_longest(uint64_t max_length, uint64_t n_positions, uint32_t n_prompt) {
  uint64_t most = VKF_MIN(max_length, (uint64_t)INT32_MAX);
  return (uint32_t)(n_positions == 0 ? most : VKF_MIN(most, VKF_MAX(n_positions, n_prompt) + 1));
}

/* With beams, pad_token_id 0 is replaced by the first end id, as in transformers. */
int32_t vkf_decode_search_fill(const vkf_generation_config *c) {
  const bool has_pad = c->num_beams > 1 ? c->pad > 0 : c->pad != VKF_NO_TOKEN;
  if (has_pad || c->eos.n == 0) return c->num_beams > 1 ? VKF_MAX(c->pad, 0) : c->pad;
  return c->eos.ids[0];
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static bool has_beams(const vkf_search *s) {
  return s->input.config->num_beams > 1;
}

static vkf_status check_input(const vkf_search *s) {
  const vkf_search_input *in = &s->input;
  const vkf_generation_config *c = in->config;
  uint32_t n_vocab = s->scratch->marks.n_vocab;
  uint64_t n_ids = (uint64_t)n_vocab * c->num_beams;
  if (has_beams(s) && vkf_decode_beams_keep(c) + in->copy > n_ids)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: %u beams need %llu candidates, but a vocabulary of %u gives only %llu", c->num_beams,
                        (unsigned long long)vkf_decode_beams_keep(c), n_vocab, (unsigned long long)n_ids);
  if (c->return_alternatives && in->copy >= n_vocab)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: %u alternatives need so many ids, but the vocabulary has %u", c->num_return_sequences,
                        n_vocab);
  if (in->prompt == NULL && c->decoder_start == VKF_NO_TOKEN && c->bos == VKF_NO_TOKEN)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected decoder_start_token_id or bos_token_id, found neither");
  if (s->prompt == 0)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT, "search: expected at least one id to start from, found none");
  if (s->prompt >= in->max_length)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: expected a length limit over the %u ids to start from, found %llu", s->prompt,
                        (unsigned long long)in->max_length);
  return VKF_OK;
}

static const int32_t *prompt_of(const vkf_search *s) {
  return s->input.prompt != NULL ? s->input.prompt : &s->start;
}

/* Leaves out what the mask takes out of the prompt. */
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

vkf_status vkf_decode_search_init(vkf_search *s, vkf_env *env, vkf_search_scratch *scratch,
                                  const vkf_search_input *input) {
  const vkf_generation_config *c = input->config;
  *s = (vkf_search){.env = env, .input = *input, .scratch = scratch};
  s->start = c->decoder_start != VKF_NO_TOKEN ? c->decoder_start : c->bos;
  s->length = s->prompt = input->prompt != NULL ? input->n_prompt : 1;
  s->max_length = (uint32_t)VKF_MIN(input->max_length, (uint64_t)INT32_MAX);
  s->capacity = vkf_decode_search_longest(input->max_length, input->n_positions, s->prompt);
  s->n_rows = vkf_decode_search_rows(c);
  s->k = vkf_decode_search_k(c, scratch->marks.n_vocab, input->scores);
  VKF_CALL(check_input(s));
  VKF_CALL(find_fed(s));
  s->processors = (vkf_processors){c, &scratch->marks, s->prompt, s->max_length};
  if (has_beams(s)) {
    VKF_CALL(vkf_decode_beams_init(&s->beams, env, c, prompt_of(s), s->prompt, s->max_length, s->capacity));
    if (is_pulled(c)) {
      s->n_best = (uint32_t)VKF_MIN(vkf_decode_beams_keep(c), scratch->marks.n_vocab);
      s->best = vkf_env_alloc(env, (size_t)s->n_rows * s->n_best, sizeof *s->best);
      s->best_ids = vkf_env_alloc(env, (size_t)s->n_rows * s->n_best, sizeof *s->best_ids);
      if (!s->best || !s->best_ids) return VKF_ERROR_MEMORY;
    }
  } else {
    s->ids = vkf_env_alloc(env, s->capacity, sizeof *s->ids);
    if (input->scores) s->logprobs = vkf_env_alloc(env, s->capacity, sizeof *s->logprobs);
    if (s->ids == NULL || (input->scores && s->logprobs == NULL)) return VKF_ERROR_MEMORY;
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
  if (s->beams.env != NULL) vkf_decode_beams_finish(&s->beams);
  *s = (vkf_search){0};
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static const int32_t *history(const vkf_search *s, uint32_t row) {
  return has_beams(s) ? s->beams.running.tokens + (size_t)row * s->capacity : s->ids;
}

vkf_status vkf_decode_search_ask(vkf_search *s, vkf_search_row *rows, uint32_t *order, vkf_logit_edit *edits,
                                 uint32_t *edit_offsets) {
  const vkf_search_input *in = &s->input;
  const bool begins = s->length == s->prompt;
  const uint32_t n = begins ? s->n_fed : 1, n_source = in->source != NULL ? in->n_source : s->prompt;
  const uint32_t past = begins ? 0 : s->length - 1 - (s->prompt - s->n_fed);
  const int32_t *source = in->source != NULL ? in->source : prompt_of(s);
  if (in->n_positions > 0 && s->length > in->n_positions)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: the model has %llu positions, and no end was found there; the length limit is %llu",
                        (unsigned long long)in->n_positions, (unsigned long long)in->max_length);
  for (uint32_t r = 0; r < s->n_rows; r++) {
    const int32_t *ids = history(s, r);
    rows[r] = (vkf_search_row){
        .past = past, .n = n, .ids = begins && s->fed != NULL ? s->fed : ids + (s->length - n), .n_out = 1};
    order[r] = !begins && has_beams(s) ? s->beams.order[r] : r;
    edit_offsets[r + 1] = edit_offsets[r] + vkf_decode_processors_edit(&s->processors, ids, s->length, source, n_source,
                                                                       edits + edit_offsets[r]);
  }
  return VKF_OK;
}

vkf_status vkf_decode_search_check(const vkf_search *s, const float *values, const int32_t *ids) {
  uint32_t width = s->k > 0 ? s->k : s->scratch->marks.n_vocab;
  for (size_t i = 0; i < (size_t)s->n_rows * width; i++) {
    if (!isnan(values[i]) && !(isinf(values[i]) && values[i] > 0)) continue;
    return vkf_env_fail(s->env, VKF_ERROR_NUMERIC,
                        "sentence %u, beam %u, step %u: expected finite scores, found %s for id %d", s->input.sentence,
                        has_beams(s) ? (uint32_t)(i / width) : s->input.copy, s->length - s->prompt,
                        isnan(values[i]) ? "NaN" : "infinity", s->k > 0 ? ids[i] : (int32_t)(i % width));
  }
  return VKF_OK;
}

/* Whether the sequence gets the id now in which alternatives differ: copy i takes the candidate of rank i. */
static bool is_at_fork(const vkf_search *s) {
  return s->input.config->return_alternatives && s->length == vkf_decode_processors_begin(&s->processors);
}

static vkf_status no_id(const vkf_search *s, const char *found) {
  return vkf_env_fail(s->env, VKF_ERROR_NUMERIC, "sentence %u, step %u: expected an id with a finite score, but %s",
                      s->input.sentence, s->length - s->prompt, found);
}

/* log sum exp(x[i] - top), where top is the largest of x [n]. */
static double log_sum_exp(const float *x, uint32_t n, float *top) {
  double sum = 0;
  *top = x[0];
  for (uint32_t i = 1; i < n; i++) *top = VKF_MAX(*top, x[i]);
  for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - *top);
  return log(sum);
}

/* The id of rank `rank` by all scores, of equals the lower one first, and its log-probability. */
static int32_t ranked(const vkf_search *s, const float *scores, uint32_t rank, double *log_prob) {
  const uint32_t n = s->scratch->marks.n_vocab;
  vkf_sample_candidate *candidates = s->scratch->candidates;
  uint32_t best = 0;
  float top = 0;
  for (uint32_t i = 1; i < n; i++)
    if (scores[i] > scores[best]) best = i;
  if (rank > 0) {
    for (uint32_t i = 0; i < n; i++) candidates[i] = (vkf_sample_candidate){.score = scores[i], .id = (int32_t)i};
    vkf_decode_best(candidates, n, rank + 1);
    best = (uint32_t)candidates[rank].id;
  }
  const double log_sum = log_sum_exp(scores, n, &top);
  *log_prob = scores[best] > -INFINITY ? (double)scores[best] - top - log_sum : -INFINITY; /* it is forbidden */
  return (int32_t)best;
}

/* The n best candidates of row r, whose scores are log-probabilities, or logits without beams. As long as the row has
 * followed the pull, its next id is more likely, (1 - beta) p + beta, and the others have (1 - beta) p (CTranslate2's
 * biased decoding). */
static const vkf_sample_candidate *pull(const vkf_search *s, uint32_t r, const float *scores, uint32_t n) {
  const vkf_search_input *in = &s->input;
  const uint32_t at = s->length - s->prompt, n_vocab = s->scratch->marks.n_vocab;
  const double beta = in->config->prefix_bias_beta;
  const bool follows = at < in->n_pull && !memcmp(history(s, r) + s->prompt, in->pull, at * sizeof *in->pull);
  vkf_sample_candidate *candidates = s->scratch->candidates;
  float top = 0;
  const double log_sum = has_beams(s) ? 0 : log_sum_exp(scores, n_vocab, &top);
  for (uint32_t i = 0; i < n_vocab; i++) {
    double x = scores[i] > -INFINITY ? (double)scores[i] - top - log_sum : -INFINITY;
    if (follows) x = (int32_t)i == in->pull[at] ? log((1 - beta) * exp(x) + beta) : x + log1p(-beta);
    candidates[i] = (vkf_sample_candidate){.score = (float)x, .id = (int32_t)i};
  }
  vkf_decode_best(candidates, n_vocab, n);
  return candidates;
}

/* One more id for beams that read all log-probabilities [n_rows][n_vocab]. */
static bool step_pulled(vkf_search *s, const float *log_probs) {
  for (uint32_t r = 0; r < s->n_rows; r++) {
    const vkf_sample_candidate *best = pull(s, r, log_probs + (size_t)r * s->scratch->marks.n_vocab, s->n_best);
    for (uint32_t i = 0; i < s->n_best; i++) {
      s->best[r * s->n_best + i] = best[i].score;
      s->best_ids[r * s->n_best + i] = best[i].id;
    }
  }
  return vkf_decode_beams_step(&s->beams, s->best, s->best_ids, s->n_best, NULL);
}

/* The next id from all scores [n_vocab]: drawn, or the best one. */
static vkf_status choose(vkf_search *s, const float *scores, uint32_t rank, int32_t *id) {
  const vkf_search_input *in = &s->input;
  uint32_t step = s->length - s->prompt, n_vocab = s->scratch->marks.n_vocab;
  double log_prob = 0;
  if (in->config->do_sample) {
    const double unit = vkf_decode_sample_unit(in->config->seed, in->line, in->copy, step);
    *id = vkf_decode_sample(in->config, scores, n_vocab, unit, s->scratch->candidates, &log_prob);
  } else if (is_pulled(in->config)) {
    const vkf_sample_candidate *best = pull(s, 0, scores, 1);
    *id = best->id;
    log_prob = best->score;
  } else {
    *id = ranked(s, scores, rank, &log_prob);
  }
  if (*id == VKF_NO_TOKEN) return no_id(s, "every id is forbidden");
  if (rank > 0 && isinf(log_prob)) return no_id(s, "fewer are allowed than there are alternatives");
  s->sum += log_prob;
  if (s->logprobs != NULL) s->logprobs[s->length] = (float)log_prob;
  return VKF_OK;
}

vkf_status vkf_decode_search_take(vkf_search *s, const float *values, const int32_t *ids, int32_t *id) {
  const uint32_t rank = is_at_fork(s) ? s->input.copy : 0;
  *id = VKF_NO_TOKEN;
  if (s->k > 0 && rank > 0 && !(values[rank] > -INFINITY))
    return no_id(s, "fewer are allowed than there are alternatives");
  if (has_beams(s)) {
    s->is_done = s->best ? !step_pulled(s, values)
                         : !vkf_decode_beams_step(&s->beams, values, ids, s->k, is_at_fork(s) ? &rank : NULL);
    s->length++;
    return VKF_OK;
  }
  if (s->k > 0) *id = ids[rank];
  if (s->k == 0) VKF_CALL(choose(s, values, rank, id));
  s->ids[s->length++] = *id;
  s->is_done = vkf_decode_id_in(&s->input.config->eos, *id) || s->length >= s->max_length;
  return VKF_OK;
}

void vkf_decode_search_stop(vkf_search *s) {
  if (has_beams(s) && !s->is_done) vkf_decode_beams_stop(&s->beams);
  s->is_done = true;
}

/* ---- result ------------------------------------------------------------------------------------------------------ */

const int32_t *vkf_decode_search_result(const vkf_search *s, uint32_t i, uint32_t *length, float *score) {
  if (has_beams(s)) {
    *length = s->beams.finished.lengths[i];
    if (score != NULL) *score = s->beams.finished.scores[i];
    return s->beams.finished.tokens + (size_t)i * s->capacity;
  }
  *length = s->length;
  /* as a finished beam's: the sum over the generated ids, over their number to the power of length_penalty */
  if (score != NULL) *score = (float)(s->sum / pow(s->length - s->prompt, s->input.config->length_penalty));
  return s->ids;
}

const float *vkf_decode_search_logprobs(const vkf_search *s, uint32_t i) {
  return has_beams(s) ? s->beams.finished.logprobs + (size_t)i * s->capacity : s->logprobs;
}
