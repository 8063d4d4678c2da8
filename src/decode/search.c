/* search: see search.h. The rules of beams are in beam.c. */
#include "decode/search.h"

#include <math.h>
#include <string.h>

#include "decode/beam.h"
#include "decode/sample.h"

typedef struct search {
  vkf_env *env;
  const vkf_generation_config *config;
  const vkf_stepper *stepper;
  const vkf_search_input *input;
  uint32_t R, k, prompt, max_length, capacity;
  const int32_t *prompts; /* [B][prompt] */
  int32_t *starts;        /* prompts, where the input has none */
  int32_t *tokens;        /* [R][prompt]: the first request; later [R] */
  int32_t *mask;          /* [R][prompt] or NULL */
  vkf_edit *edits;
  uint32_t *edit_offsets; /* [R+1] */
  vkf_processors processors;
  vkf_beams beams;                  /* num_beams > 1 */
  int32_t *greedy;                  /* [R][capacity], else */
  bool *has_ended;                  /* [R], no beams */
  vkf_sample_candidate *candidates; /* [n_vocab], sampling */
  int32_t *chosen;                  /* [R], if all scores are read: for sampling or log-probabilities */
  double *sums;                     /* [R]: of log-probabilities; NULL: not requested */
  uint32_t length;                  /* ids in every sequence now */
} search;

/* Rows of one sentence. */
static uint32_t rows_each(const vkf_generation_config *config) {
  return config->do_sample ? config->num_return_sequences : config->num_beams;
}

uint32_t vkf_decode_search_rows(const vkf_generation_config *config, uint32_t B) {
  return B * rows_each(config);
}

uint32_t vkf_decode_search_k(const vkf_generation_config *config, uint32_t n_vocab, bool scores) {
  if (config->do_sample || (scores && config->num_beams == 1)) return 0;
  if (config->num_beams == 1) return 1;
  return (uint32_t)VKF_MIN(vkf_decode_beams_keep(config), n_vocab);
}

uint32_t vkf_decode_search_longest(uint64_t max_length, uint64_t n_positions, uint32_t n_prompt) {
  uint64_t most = VKF_MIN(max_length, (uint64_t)INT32_MAX);
  return (uint32_t)(n_positions == 0 ? most : VKF_MIN(most, VKF_MAX(n_positions, n_prompt) + 1));
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static vkf_status check_input(search *s) {
  const vkf_generation_config *c = s->config;
  const vkf_search_input *in = s->input;
  uint64_t n_rows = (uint64_t)in->B * rows_each(c);
  bool log_probs = c->num_beams > 1;
  if (in->B == 0 || n_rows != s->stepper->n_rows || s->stepper->log_probs != log_probs)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT, "search: expected a stepper of %llu rows with %s, found %u with %s",
                        (unsigned long long)n_rows, log_probs ? "log-probabilities" : "logits", s->stepper->n_rows,
                        s->stepper->log_probs ? "log-probabilities" : "logits");
  uint64_t n_ids = (uint64_t)s->stepper->n_vocab * c->num_beams;
  if (c->num_beams > 1 && vkf_decode_beams_keep(c) > n_ids)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: %u beams need %llu candidates, but a vocabulary of %u gives only %llu", c->num_beams,
                        (unsigned long long)vkf_decode_beams_keep(c), s->stepper->n_vocab, (unsigned long long)n_ids);
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

static void measure(search *s) {
  const vkf_search_input *in = s->input;
  s->prompt = in->prompt == NULL ? 1 : in->n_prompt;
  s->max_length = (uint32_t)VKF_MIN(in->max_length, (uint64_t)INT32_MAX);
  s->capacity = vkf_decode_search_longest(in->max_length, in->n_positions, s->prompt);
  s->length = s->prompt;
  s->R = vkf_decode_search_rows(s->config, in->B);
  s->k = vkf_decode_search_k(s->config, s->stepper->n_vocab, in->scores);
}

static vkf_status allocate(search *s) {
  const vkf_search_input *in = s->input;
  size_t n_prompt = 0, n_edits = 0, n_greedy = 0;
  uint32_t n_source = in->source != NULL ? in->n_source : s->prompt;
  uint32_t max_edits = vkf_decode_max_edits(s->config, s->capacity, n_source);
  if (!vkf_size_mul(s->R, s->prompt, &n_prompt)) n_prompt = SIZE_MAX;
  if (!vkf_size_mul(s->R, max_edits, &n_edits)) n_edits = SIZE_MAX;
  if (!vkf_size_mul(s->R, s->capacity, &n_greedy)) n_greedy = SIZE_MAX;
  s->tokens = vkf_env_alloc(s->env, n_prompt, sizeof(*s->tokens));
  s->edits = vkf_env_alloc(s->env, n_edits, sizeof(*s->edits));
  s->edit_offsets = vkf_env_alloc(s->env, (size_t)s->R + 1, sizeof(*s->edit_offsets));
  s->starts = vkf_env_alloc(s->env, in->B, sizeof(*s->starts));
  s->has_ended = vkf_env_alloc(s->env, s->R, sizeof(*s->has_ended));
  bool ok =
      s->tokens != NULL && s->edits != NULL && s->edit_offsets != NULL && s->starts != NULL && s->has_ended != NULL;
  if (in->prompt_mask != NULL) ok &= (s->mask = vkf_env_alloc(s->env, n_prompt, sizeof(*s->mask))) != NULL;
  if (s->config->num_beams == 1) ok &= (s->greedy = vkf_env_alloc(s->env, n_greedy, sizeof(*s->greedy))) != NULL;
  if (s->config->do_sample)
    ok &= (s->candidates = vkf_env_alloc(s->env, s->stepper->n_vocab, sizeof(*s->candidates))) != NULL;
  if (s->k == 0) ok &= (s->chosen = vkf_env_alloc(s->env, s->R, sizeof(*s->chosen))) != NULL;
  if (s->greedy != NULL && in->scores) ok &= (s->sums = vkf_env_alloc(s->env, s->R, sizeof(*s->sums))) != NULL;
  return ok ? VKF_OK : VKF_ERROR_MEMORY;
}

static vkf_status start(search *s) {
  const vkf_generation_config *c = s->config;
  const vkf_search_input *in = s->input;
  vkf_status st = VKF_OK;
  measure(s);
  VKF_TRY(check_input(s));
  VKF_TRY(allocate(s));
  for (uint32_t b = 0; b < in->B; b++) s->starts[b] = c->decoder_start != VKF_NO_TOKEN ? c->decoder_start : c->bos;
  s->prompts = in->prompt != NULL ? in->prompt : s->starts;
  for (uint32_t r = 0; r < s->R; r++) {
    size_t from = (size_t)(r / rows_each(c)) * s->prompt, to = (size_t)r * s->prompt;
    memcpy(s->tokens + to, s->prompts + from, s->prompt * sizeof(*s->tokens));
    if (s->mask != NULL) memcpy(s->mask + to, in->prompt_mask + from, s->prompt * sizeof(*s->mask));
    if (s->greedy != NULL)
      memcpy(s->greedy + (size_t)r * s->capacity, s->prompts + from, s->prompt * sizeof(*s->tokens));
  }
  VKF_TRY(vkf_decode_processors_init(&s->processors, s->env, c, s->stepper->n_vocab, s->prompt, s->max_length));
  if (c->num_beams > 1)
    VKF_TRY(vkf_decode_beams_init(&s->beams, s->env, c, in->B, s->prompts, s->prompt, s->max_length, s->capacity));
done:
  return st;
}

static void finish(search *s) {
  vkf_env_free(s->env, s->starts);
  vkf_env_free(s->env, s->tokens);
  vkf_env_free(s->env, s->mask);
  vkf_env_free(s->env, s->edits);
  vkf_env_free(s->env, s->edit_offsets);
  vkf_env_free(s->env, s->greedy);
  vkf_env_free(s->env, s->has_ended);
  vkf_env_free(s->env, s->candidates);
  vkf_env_free(s->env, s->chosen);
  vkf_env_free(s->env, s->sums);
  if (s->processors.env != NULL) vkf_decode_processors_finish(&s->processors);
  if (s->beams.env != NULL) vkf_decode_beams_finish(&s->beams);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static const int32_t *history(const search *s, uint32_t row) {
  return (s->greedy != NULL ? s->greedy : s->beams.running.tokens) + (size_t)row * s->capacity;
}

static void write_edits(search *s) {
  const vkf_search_input *in = s->input;
  const int32_t *sources = in->source != NULL ? in->source : s->prompts;
  uint32_t n_source = in->source != NULL ? in->n_source : s->prompt, n = 0;
  for (uint32_t r = 0; r < s->R; r++) {
    const int32_t *source = sources + (size_t)(r / rows_each(s->config)) * n_source;
    s->edit_offsets[r] = n;
    n += vkf_decode_processors_edit(&s->processors, history(s, r), s->length, source, n_source, s->edits + n);
  }
  s->edit_offsets[s->R] = n;
}

static vkf_status check_scores(const search *s, const float *values, const int32_t *ids) {
  uint32_t width = s->k > 0 ? s->k : s->stepper->n_vocab;
  for (size_t i = 0; i < (size_t)s->R * width; i++) {
    if (!isnan(values[i]) && !(isinf(values[i]) && values[i] > 0)) continue;
    uint32_t row = (uint32_t)(i / width);
    return vkf_env_fail(s->env, VKF_ERROR_NUMERIC,
                        "sentence %u, beam %u, step %u: expected finite scores, found %s for id %d",
                        row / rows_each(s->config), row % rows_each(s->config), s->length - s->prompt,
                        isnan(values[i]) ? "NaN" : "infinity", s->k > 0 ? ids[i] : (int32_t)(i % width));
  }
  return VKF_OK;
}

static vkf_status ask(search *s, const float **values, const int32_t **ids) {
  const vkf_search_input *in = s->input;
  bool first = s->length == s->prompt;
  if (in->n_positions > 0 && s->length > in->n_positions)
    return vkf_env_fail(s->env, VKF_ERROR_ARGUMENT,
                        "search: the model has %llu positions, and no end was found there; the length limit is %llu",
                        (unsigned long long)in->n_positions, (unsigned long long)in->max_length);
  if (!first)
    for (uint32_t r = 0; r < s->R; r++) s->tokens[r] = history(s, r)[s->length - 1];
  write_edits(s);
  vkf_step_request request = {.tokens = s->tokens,
                              .n_tokens = first ? s->prompt : 1,
                              .mask = first ? s->mask : NULL,
                              .order = first || s->greedy != NULL ? NULL : s->beams.order,
                              .edits = s->edits,
                              .edit_offsets = s->edit_offsets,
                              .k = s->k};
  vkf_status st = s->stepper->step(s->stepper->user, &request, values, ids);
  return st != VKF_OK ? st : check_scores(s, *values, *ids);
}

/* The id of the largest of scores [n], of equals the lower one, and its log-probability. */
static int32_t largest(const float *scores, uint32_t n, double *log_prob) {
  uint32_t best = 0;
  double sum = 0;
  for (uint32_t i = 1; i < n; i++)
    if (scores[i] > scores[best]) best = i;
  for (uint32_t i = 0; i < n; i++) sum += exp((double)scores[i] - scores[best]);
  *log_prob = scores[best] > -INFINITY ? -log(sum) : -INFINITY; /* every id is forbidden */
  return (int32_t)best;
}

/* One id for every row from its scores [R][n_vocab]: drawn, or the best one. */
static vkf_status choose(search *s, const float *scores) {
  const vkf_generation_config *c = s->config;
  uint32_t step = s->length - s->prompt, each = rows_each(c), n_vocab = s->stepper->n_vocab;
  for (uint32_t r = 0; r < s->R; r++) {
    const float *row = scores + (size_t)r * n_vocab;
    uint64_t line = s->input->lines != NULL ? s->input->lines[r / each] : r / each;
    double log_prob = 0;
    s->chosen[r] = c->do_sample
                       ? vkf_decode_sample(c, row, n_vocab, vkf_decode_sample_unit(c->seed, line, r % each, step),
                                           s->candidates, &log_prob)
                       : largest(row, n_vocab, &log_prob);
    if (s->chosen[r] == VKF_NO_TOKEN)
      return vkf_env_fail(s->env, VKF_ERROR_NUMERIC,
                          "sentence %u, step %u: expected an id with a finite score, but every id is forbidden",
                          r / each, step);
    if (s->sums != NULL && !s->has_ended[r]) s->sums[r] += log_prob;
  }
  return VKF_OK;
}

/* With beams, pad_token_id 0 is replaced by the first end id, as in transformers. */
int32_t vkf_decode_search_fill(const vkf_generation_config *c) {
  const bool has_pad = c->num_beams > 1 ? c->pad > 0 : c->pad != VKF_NO_TOKEN;
  if (has_pad || c->eos.n == 0) return c->num_beams > 1 ? VKF_MAX(c->pad, 0) : c->pad;
  return c->eos.ids[0];
}

/* ids: the new id of every row; a row that has ended gets the fill id. *stop: the callback asked to stop. Returns
 * whether the search continues. */
static bool step_rows(search *s, const int32_t *ids, bool *stop) {
  const vkf_generation_config *c = s->config;
  const int32_t fill = vkf_decode_search_fill(c);
  bool goes_on = false;
  for (uint32_t r = 0; r < s->R; r++) {
    int32_t id = s->has_ended[r] ? fill : ids[r];
    s->greedy[(size_t)r * s->capacity + s->length] = id;
    if (s->has_ended[r]) continue;
    s->has_ended[r] = vkf_decode_id_in(&c->eos, id);
    goes_on |= !s->has_ended[r];
    if (s->input->on_token != NULL) *stop |= s->input->on_token(s->input->user, r, id) != 0;
  }
  s->length++;
  return goes_on && s->length < s->max_length;
}

static bool step_beams(search *s, const float *values, const int32_t *ids, bool *stop) {
  bool goes_on = vkf_decode_beams_step(&s->beams, values, ids, s->k);
  s->length++;
  if (s->input->on_token != NULL) *stop = s->input->on_token(s->input->user, 0, -1) != 0;
  if (*stop && goes_on) vkf_decode_beams_stop(&s->beams);
  return goes_on;
}

/* ---- result ------------------------------------------------------------------------------------------------------ */

/* As a finished beam's: the sum over the generated ids, over their number to the power of length_penalty. */
static float row_score(const search *s, uint32_t row) {
  const int32_t *ids = s->greedy + (size_t)row * s->capacity;
  uint32_t n = s->prompt;
  while (n < s->length && !vkf_decode_id_in(&s->config->eos, ids[n])) n++;
  n = VKF_MIN(n + 1, s->length) - s->prompt;
  return (float)(s->sums[row] / pow(n, s->config->length_penalty));
}

static vkf_status write_result(search *s, vkf_generated *out) {
  const vkf_generation_config *c = s->config;
  uint32_t n_return = c->num_return_sequences;
  out->n_rows = s->input->B * n_return;
  out->length = s->greedy != NULL ? s->length : s->prompt;
  for (uint32_t i = 0; i < out->n_rows && s->greedy == NULL; i++) {
    uint32_t length = s->beams.finished.lengths[i / n_return * c->num_beams + i % n_return];
    out->length = VKF_MAX(out->length, length);
  }
  size_t n = 0;
  if (!vkf_size_mul(out->n_rows, out->length, &n)) n = SIZE_MAX;
  out->sequences = vkf_env_alloc(s->env, n, sizeof(*out->sequences));
  bool has_scores = s->greedy == NULL || s->sums != NULL;
  if (has_scores) out->scores = vkf_env_alloc(s->env, out->n_rows, sizeof(*out->scores));
  if (out->sequences == NULL || (has_scores && out->scores == NULL)) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < out->n_rows; i++) {
    uint32_t row = i / n_return * rows_each(c) + i % n_return;
    const int32_t *tokens = (s->greedy != NULL ? s->greedy : s->beams.finished.tokens) + (size_t)row * s->capacity;
    uint32_t length = s->greedy != NULL ? s->length : s->beams.finished.lengths[row];
    int32_t *to = out->sequences + (size_t)i * out->length;
    memcpy(to, tokens, length * sizeof(*to));
    for (uint32_t t = length; t < out->length; t++) to[t] = vkf_decode_search_fill(c);
    if (s->sums != NULL) out->scores[i] = row_score(s, row);
    if (s->greedy == NULL) out->scores[i] = s->beams.finished.scores[row];
  }
  return VKF_OK;
}

vkf_status vkf_decode_search(vkf_env *env, const vkf_generation_config *config, const vkf_stepper *stepper,
                             const vkf_search_input *input, vkf_generated *out) {
  vkf_status st = VKF_OK;
  search s = {.env = env, .config = config, .stepper = stepper, .input = input};
  bool goes_on = true, stop = false;
  *out = (vkf_generated){.env = env};
  VKF_TRY(start(&s));
  while (goes_on && !stop) {
    const float *values = NULL;
    const int32_t *ids = NULL;
    VKF_TRY(ask(&s, &values, &ids));
    if (s.k == 0) VKF_TRY(choose(&s, values));
    if (s.k == 0) ids = s.chosen;
    goes_on = s.greedy != NULL ? step_rows(&s, ids, &stop) : step_beams(&s, values, ids, &stop);
  }
  VKF_TRY(write_result(&s, out));
  if (stop) VKF_FAIL(env, VKF_ERROR_STOPPED, "the token callback asked to stop after %u ids", s.length - s.prompt);
done:
  finish(&s);
  return st;
}

void vkf_decode_generated_finish(vkf_generated *generated) {
  if (generated->env == NULL) return;
  vkf_env_free(generated->env, generated->sequences);
  vkf_env_free(generated->env, generated->scores);
  *generated = (vkf_generated){0};
}
