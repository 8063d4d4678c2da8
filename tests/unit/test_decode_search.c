/* Greedy and beam search over a small model on the host, compared with worked examples and with a second, simple
 * implementation of the rules, which searches one sentence at a time and sorts all continuations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/batch.h"
#include "decode/logprobs.h"
#include "support/closed_batch.h"

#define NEAR 0x1p-20f /* a score is below 8: four roundings of 2^-22 */

enum { MAX_V = 32, MAX_ROWS = 192, MAX_T = 64 };

static vkf_env env;

/* ---- a model ----------------------------------------------------------------------------------------------------- */

/* Computes scores [n_vocab] of the id after a history [length]. */
typedef void (*scores_fn)(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores);

typedef struct fake {
  scores_fn scores;
  uint32_t n_vocab, n_steps, n_rows; /* n_rows: sum over all steps */
  bool log_probs;
  int32_t history[MAX_ROWS][MAX_T]; /* by slot */
  uint32_t length;
  uint32_t fault_step; /* from 1: in this step id 3 of slot 1 scores `fault` */
  float fault;
  uint64_t allocations_at_first, allocations_at_last;
  float values[MAX_ROWS * MAX_V];
  int32_t ids[MAX_ROWS * MAX_V];
} fake;

static void log_softmax(float *x, uint32_t n) {
  double sum = 0, top = x[0];
  for (uint32_t i = 1; i < n; i++) top = VKF_MAX(top, x[i]);
  for (uint32_t i = 0; i < n; i++) sum += exp(x[i] - top);
  for (uint32_t i = 0; i < n; i++) x[i] = (float)(x[i] - top - log(sum));
}

static void apply_edits(float *x, uint32_t n, const vkf_logit_edit *from, const vkf_logit_edit *to) {
  for (; from < to; from++) {
    switch ((vkf_logit_edit_kind)from->kind) {
      case VKF_LOGIT_EDIT_SET:
        x[from->id] = from->value;
        break;
      case VKF_LOGIT_EDIT_ADD:
        x[from->id] += from->value;
        break;
      case VKF_LOGIT_EDIT_PENALTY:
        x[from->id] = x[from->id] < 0 ? x[from->id] * from->value : x[from->id] / from->value;
        break;
      case VKF_LOGIT_EDIT_GROW:
        x[from->id] += fabsf(x[from->id]) * from->value;
        break;
      case VKF_LOGIT_EDIT_FILL:
        for (uint32_t i = 0; i < n; i++) x[i] = from->value;
        break;
    }
  }
}

/* Checks a request and answers it with the k best candidates of each row (k as in vkf_search), or all scores if k is 0.
 * Keeps the histories by slot. */
static void step(fake *f, uint32_t k, const vkf_batch_step *request) {
  static int32_t old[MAX_ROWS][MAX_T];
  if (f->n_steps++ == 0) f->allocations_at_first = env.n_allocations;
  f->allocations_at_last = env.n_allocations;
  f->n_rows += request->n_rows;
  assert_true(k <= f->n_vocab);
  memcpy(old, f->history, sizeof(old));
  for (uint32_t r = 0; r < request->n_rows; r++) {
    float x[MAX_V];
    const vkf_search_row *row = &request->rows[r];
    const uint32_t slot = row->slot;
    assert_true(r == 0 || slot > row[-1].slot);
    assert_int_equal(row->past + row->n, f->length + request->rows[0].n);
    if (f->n_steps > 1 || row->is_fork) assert_int_equal(row->n, 1);
    if (row->is_fork) assert_true(f->n_steps == 1 && request->order[r] < slot);
    memcpy(f->history[slot], row->is_fork ? f->history[request->order[r]] : old[request->order[r]], sizeof(old[0]));
    memcpy(f->history[slot] + row->past, row->ids, row->n * sizeof(int32_t));
    f->scores(f->history[slot], row->past + row->n, f->n_vocab, x);
    if (f->log_probs) log_softmax(x, f->n_vocab);
    apply_edits(x, f->n_vocab, request->edits + request->edit_offsets[r],
                request->edits + request->edit_offsets[r + 1]);
    if (f->fault_step == f->n_steps && slot == 1) x[3] = f->fault;
    if (k == 0) memcpy(f->values + r * f->n_vocab, x, f->n_vocab * sizeof *x);
    bool taken[MAX_V] = {false};
    for (uint32_t i = 0; i < k; i++) {
      uint32_t best = MAX_V;
      for (uint32_t v = 0; v < f->n_vocab; v++)
        if (!taken[v] && (best == MAX_V || x[v] > x[best] || (isnan(x[v]) && !isnan(x[best])))) best = v;
      taken[best] = true;
      f->values[r * k + i] = x[best];
      f->ids[r * k + i] = (int32_t)best;
    }
  }
  f->length += request->rows[0].n;
}

static uint64_t seed;
/* Scores that depend on the whole history, so a wrong order of beams changes the result. */
static void random_scores(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  uint64_t hash = seed;
  for (uint32_t i = 0; i < length; i++) hash = vkf_rng_u64(hash, (uint64_t)history[i], i);
  for (uint32_t v = 0; v < n_vocab; v++) scores[v] = (float)(2.0 * vkf_rng_normal(hash, 1, v));
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct run {
  fake model;
  vkf_generation_config config;
  closed_batch input;
  vkf_batch batch;
  vkf_generated out;
} run;

static int32_t told[1024][2];
static uint32_t n_told, stop_after;
/* Appends (seat, id) of each id of the last step to `told`. Returns whether the stop_after-th id is among them. */
static bool tell(const vkf_batch *batch) {
  const uint32_t before = n_told;
  for (uint32_t i = 0; i < batch->n_live && (batch->each == 1 || i == 0); i++, n_told++) {
    assert_true(n_told < VKF_COUNT(told));
    told[n_told][0] = (int32_t)batch->live[i];
    told[n_told][1] = batch->got[i];
  }
  return stop_after > before && stop_after <= n_told;
}

static run *begin(scores_fn scores, uint32_t n_vocab, uint32_t B, const char *options) {
  run *r = calloc(1, sizeof(*r));
  vkf_env_clear(&env);
  vkf_decode_generation_init(&r->config, &env);
  assert_int_equal(vkf_decode_generation_apply(&r->config, "options", options), VKF_OK);
  assert_int_equal(vkf_decode_generation_check(&r->config, n_vocab), VKF_OK);
  r->model.scores = scores;
  r->model.n_vocab = n_vocab;
  r->model.log_probs = r->config.num_beams > 1;
  r->input.config = &r->config;
  r->input.B = B;
  r->input.n_vocab = n_vocab;
  r->input.max_length = vkf_decode_generation_length(&r->config, 1, 20);
  return r;
}

/* Returns VKF_OK or the failure of a seat, whose message it copies to env. */
static vkf_status failure_of(const run *r, uint32_t seat) {
  const vkf_env_failure *failure = vkf_decode_batch_failure(&r->batch, seat);
  if (!failure) return VKF_OK;
  vkf_env_restore_failure(&env, failure);
  return failure->first;
}

static vkf_status go(run *r) {
  vkf_status st = VKF_OK;
  bool stop = false;
  n_told = 0;
  vkf_decode_batch_finish(&r->batch); /* of an earlier try */
  VKF_TRY(closed_batch_begin(&r->batch, &env, &r->input));
  while (!stop && !closed_batch_is_done(&r->batch)) {
    vkf_batch_step request;
    VKF_TRY(vkf_decode_batch_ask(&r->batch, &request));
    step(&r->model, r->batch.searches[0].k, &request);
    vkf_decode_batch_take(&r->batch, r->model.values, r->model.ids);
    for (uint32_t seat = 0; seat < r->input.B && !st; seat++) st = failure_of(r, seat);
    if (st) goto done;
    stop = tell(&r->batch);
  }
  if (stop) vkf_decode_batch_stop(&r->batch);
  VKF_TRY(vkf_decode_batch_result(&r->batch, 0, r->input.B, &r->out));
  if (stop) st = VKF_ERROR_STOPPED;
done:
  return st;
}

static void end(run *r) {
  vkf_decode_generated_finish(&r->out);
  vkf_decode_batch_finish(&r->batch);
  vkf_decode_generation_finish(&r->config);
  free(r);
  assert_int_equal(env.live_bytes, 0);
}

static void expect_row(const run *r, uint32_t row, const int32_t *ids, uint32_t n) {
  assert_true(row < r->out.n_rows);
  assert_int_equal(r->out.length, n);
  for (uint32_t t = 0; t < n; t++) assert_int_equal(r->out.sequences[row * n + t], ids[t]);
}
#define EXPECT_ROW(r, row, ...) \
  expect_row(r, row, (const int32_t[]){__VA_ARGS__}, VKF_COUNT(((const int32_t[]){__VA_ARGS__})))

/* ---- the rules, written again ------------------------------------------------------------------------------------ */

typedef struct hypothesis {
  int32_t ids[MAX_T];
  uint32_t length;
  float score;
} hypothesis;

static int descending(const void *a, const void *b) {
  float x = ((const hypothesis *)a)->score, y = ((const hypothesis *)b)->score;
  return (x < y) - (x > y);
}

static bool is_end(const vkf_generation_config *c, int32_t id) {
  for (uint32_t i = 0; i < c->eos.n; i++)
    if (c->eos.ids[i] == id) return true;
  return false;
}

/* Applies the processors that the random comparison uses, by their definitions. */
static void process(const vkf_generation_config *c, const hypothesis *h, uint32_t prompt, uint32_t V, float *x) {
  for (uint32_t v = 0; v < V; v++) {
    bool seen = false;
    for (uint32_t i = 0; i < h->length; i++) seen |= h->ids[i] == (int32_t)v;
    if (seen) x[v] = x[v] < 0 ? x[v] * (float)c->repetition_penalty : x[v] / (float)c->repetition_penalty;
  }
  if (c->no_repeat_ngram_size == 2)
    for (uint32_t i = 0; i + 1 < h->length; i++)
      if (h->ids[i] == h->ids[h->length - 1]) x[h->ids[i + 1]] = -INFINITY;
  for (uint32_t v = 0; v < V; v++)
    if (is_end(c, (int32_t)v) && c->min_new_tokens != VKF_NOT_GIVEN && h->length - prompt < c->min_new_tokens)
      x[v] = -INFINITY;
  for (uint32_t i = 0; i < c->suppress.n; i++) x[c->suppress.ids[i]] = -INFINITY;
}

/* The beginning that prefix_bias_beta pulls every sentence of a comparison to. */
static const int32_t pull[] = {4, 9, 2};

static void bias(const vkf_generation_config *c, const hypothesis *h, uint32_t V, float *x) {
  const uint32_t at = h->length - 1;
  if (c->prefix_bias_beta == 0 || at >= VKF_COUNT(pull)) return;
  for (uint32_t i = 0; i < at; i++)
    if (h->ids[1 + i] != pull[i]) return;
  for (uint32_t v = 0; v < V; v++)
    x[v] = (float)log(exp(x[v]) * (1 - c->prefix_bias_beta) + ((int32_t)v == pull[at] ? c->prefix_bias_beta : 0));
}

/* The hypotheses of one group of beams. */
typedef struct hypotheses {
  hypothesis running[MAX_V], pool[4 * MAX_V];
  uint32_t n_running, n_pool, n_ended;
  int32_t taken[MAX_V]; /* [n_taken]: the new ids of the best hypotheses that do not end */
  uint32_t n_taken;
  bool is_over;
} hypotheses;

/* Extends each running hypothesis by one id. taken [V]: how often earlier groups took each id in this step. */
static void step_again(const vkf_generation_config *c, scores_fn scores, uint32_t V, uint32_t copy, uint32_t max_length,
                       const uint32_t *taken, hypotheses *s) {
  static hypothesis all[MAX_V * MAX_V];
  const uint32_t beams = c->num_beams / c->num_beam_groups;
  uint32_t n_all = 0, n_next = 0, n_new;
  for (uint32_t h = 0; h < s->n_running; h++) {
    float x[MAX_V];
    scores(s->running[h].ids, s->running[h].length, V, x);
    if (c->num_beams > 1) log_softmax(x, V);
    process(c, &s->running[h], 1, V, x);
    if (c->num_beams == 1) log_softmax(x, V);
    bias(c, &s->running[h], V, x);
    for (uint32_t v = 0; v < V; v++) {
      hypothesis *next = &all[n_all++];
      *next = s->running[h];
      next->ids[next->length++] = (int32_t)v;
      next->score += x[v] - (float)(c->diversity_penalty * taken[v]);
    }
  }
  qsort(all, n_all, sizeof(all[0]), descending);
  n_new = all[0].length - 1;
  while (n_all > 0 && all[n_all - 1].score == -INFINITY) n_all--;
  if (c->return_alternatives && n_new == 1) {
    n_all = copy < n_all && (copy == 0 || exp(all[copy].score) >= c->min_alternative_expansion_prob);
    all[0] = all[copy];
  }
  const bool is_last = all[0].length == max_length;
  const uint32_t n_kept = c->patience > 0 ? VKF_MAX(beams, c->num_return_sequences) : beams;
  s->n_taken = 0;
  for (uint32_t i = 0; i < n_all && s->n_taken < beams; i++)
    if (!is_end(c, all[i].ids[n_new])) s->taken[s->n_taken++] = all[i].ids[n_new];
  for (uint32_t i = 0; i < n_all && n_next < beams; i++) {
    bool ends = is_end(c, all[i].ids[n_new]) || is_last;
    if (ends && (i < beams || (is_last && s->n_ended < n_kept))) {
      s->n_ended++;
      s->pool[s->n_pool] = all[i];
      s->pool[s->n_pool++].score /= powf((float)n_new, (float)c->length_penalty);
    }
    if (!ends) s->running[n_next++] = all[i];
  }
  s->n_running = n_next;
  qsort(s->pool, s->n_pool, sizeof(s->pool[0]), descending);
  s->n_pool = VKF_MIN(s->n_pool, n_kept);
  s->is_over = s->n_running == 0 || (c->patience > 0 && s->n_ended >= floor(beams * c->patience + 0.5));
  if (s->is_over || c->patience > 0 || s->n_pool < beams) return;
  bool far = c->early_stopping == VKF_EARLY_STOPPING_NEVER && c->length_penalty > 0;
  float reachable = s->running[0].score / powf((float)(far ? max_length - 1 : n_new), (float)c->length_penalty);
  s->is_over = c->early_stopping == VKF_EARLY_STOPPING_TRUE || !(reachable > s->pool[beams - 1].score);
}

/* Searches one sentence that begins with `start` and writes finished [num_beams], best first. With return_alternatives
 * it continues only the first id of rank `copy`, and only the best of `finished` counts: if there is none, the start
 * alone with the score -infinity. Groups take turns in each step (Vijayakumar et al. 2016, algorithm 1). */
static void search_again(const vkf_generation_config *c, scores_fn scores, uint32_t V, int32_t start, uint32_t copy,
                         uint32_t max_length, hypothesis *finished) {
  static hypotheses groups[MAX_V];
  uint32_t n_over = 0, n_finished = 0;
  memset(groups, 0, sizeof groups);
  for (uint32_t i = 0; i < VKF_MAX(1, c->num_return_sequences); i++)
    finished[i] = (hypothesis){.ids = {start}, .length = 1, .score = -INFINITY};
  for (uint32_t g = 0; g < c->num_beam_groups; g++) {
    groups[g].n_running = 1;
    groups[g].running[0] = (hypothesis){.ids = {start}, .length = 1};
  }
  while (n_over < c->num_beam_groups) {
    uint32_t taken[MAX_V] = {0};
    for (uint32_t g = 0; g < c->num_beam_groups; g++) {
      if (groups[g].is_over) continue;
      step_again(c, scores, V, copy, max_length, taken, &groups[g]);
      n_over += groups[g].is_over;
      for (uint32_t h = 0; h < groups[g].n_taken; h++) taken[groups[g].taken[h]]++;
    }
  }
  for (uint32_t g = 0; g < c->num_beam_groups; g++) {
    const uint32_t beams = c->num_beams / c->num_beam_groups;
    assert_true(groups[g].n_pool == beams || c->patience > 0 || c->return_alternatives);
    memcpy(finished + n_finished, groups[g].pool, groups[g].n_pool * sizeof *finished);
    n_finished += groups[g].n_pool;
  }
  qsort(finished, n_finished, sizeof *finished, descending);
}

static uint32_t n_absent, n_there; /* rows of all comparisons */

static void compare(const char *options, bool scores) {
  enum { V = 13, B = 3 };
  static hypothesis finished[B][MAX_V];
  run *r = begin(random_scores, V, B, options);
  const int32_t starts[B] = {1, 7, 12};
  const vkf_generation_config *c = &r->config;
  uint32_t n_return = c->num_return_sequences, longest = 0;
  r->input.prompt = starts;
  r->input.n_prompt = 1;
  r->input.scores = scores;
  r->input.pull = pull;
  r->input.n_pull = VKF_COUNT(pull);
  assert_int_equal(go(r), VKF_OK);
  assert_true(!r->out.scores == (!scores && c->num_beams == 1 && !c->return_alternatives));
  for (uint32_t b = 0; b < B; b++) {
    static hypothesis pool[MAX_V];
    for (uint32_t i = 0; i < n_return; i++) {
      if (i == 0 || c->return_alternatives)
        search_again(c, random_scores, V, starts[b], i, (uint32_t)r->input.max_length, pool);
      finished[b][i] = pool[c->return_alternatives ? 0 : i];
      longest = VKF_MAX(longest, finished[b][i].length);
    }
  }
  assert_int_equal(r->out.n_rows, B * n_return);
  assert_int_equal(r->out.length, longest);
  for (uint32_t i = 0; i < B * n_return; i++) {
    const hypothesis *h = &finished[i / n_return][i % n_return];
    for (uint32_t t = 0; t < longest; t++)
      assert_int_equal(r->out.sequences[i * longest + t], t < h->length ? h->ids[t] : c->pad);
    /* with a pull, scores near 0 come from log-probabilities that are not near 0 */
    const float size = c->prefix_bias_beta > 0 ? fmaxf(1, fabsf(h->score)) : fabsf(h->score);
    const bool is_same = r->out.scores && (r->out.scores[i] == h->score || /* -infinity */
                                           fabsf(r->out.scores[i] - h->score) <= NEAR * size);
    assert_true(!r->out.scores || is_same);
    n_absent += h->length == 1;
    n_there += h->length > 1;
  }
  assert_int_equal(r->model.allocations_at_first, r->model.allocations_at_last);
  end(r);
}

static void as_the_rules_written_again(void **state) {
  (void)state;
  static const char *const early[] = {"false", "true", "\"never\""};
  static const char *const ends[] = {"3", "[3,5]", "[3,5,9]"};
  static const char *const more[] = {"", ",\"repetition_penalty\":1.7", ",\"no_repeat_ngram_size\":2",
                                     ",\"min_new_tokens\":4"};
  static const double penalties[] = {-1, 0, 0.6, 1, 2};
  static const uint32_t beams[] = {2, 3, 4};
  uint32_t n = 0;
  for (uint32_t e = 0; e < VKF_COUNT(early); e++)
    for (uint32_t p = 0; p < VKF_COUNT(penalties); p++)
      for (uint32_t w = 0; w < VKF_COUNT(beams); w++)
        for (uint32_t i = 0; i < 12; i++) {
          char options[256];
          seed = 1000 + n++;
          snprintf(options, sizeof(options),
                   "{\"num_beams\":%u,\"num_return_sequences\":%u,\"length_penalty\":%g,\"early_stopping\":%s,"
                   "\"eos_token_id\":%s,\"pad_token_id\":2,\"max_new_tokens\":%u%s}",
                   beams[w], 1 + i % beams[w], penalties[p], early[e], ends[i % 3], 3 + i, more[i % 4]);
          compare(options, false);
        }
}

/* Patience as Kasai et al. define it, compared with the same rules. */
static void patience_as_its_rule_written_again(void **state) {
  (void)state;
  static const double patience[] = {0.3, 0.5, 1, 1.5, 2, 4, 100};
  static const char *const early[] = {"false", "true"};
  uint32_t n = 0;
  for (uint32_t p = 0; p < VKF_COUNT(patience); p++)
    for (uint32_t beams = 2; beams <= 4; beams++)
      for (uint32_t i = 0; i < 12; i++) {
        char options[256];
        seed = 9000 + n++;
        snprintf(options, sizeof options,
                 "{\"num_beams\":%u,\"num_return_sequences\":%u,\"length_penalty\":%g,\"early_stopping\":%s,"
                 "\"patience\":%g,\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":%u}",
                 beams, patience[p] < 1 ? 1 : beams, i % 2 ? 1.0 : 0.6, early[i % 2], patience[p], 3 + i);
        compare(options, false);
        if (patience[p] < 2) continue;
        for (uint32_t times = 2; times <= 5 && times <= patience[p]; times++) {
          snprintf(options, sizeof options,
                   "{\"num_beams\":%u,\"num_return_sequences\":%u,\"length_penalty\":%g,\"patience\":%g,"
                   "\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":%u}",
                   beams, times * beams, i % 2 ? 1.0 : 0.6, patience[p], 1 + i);
          compare(options, false);
        }
      }
}

/* Groups of one to three beams, each with a penalty on ids that earlier groups take. */
static void groups_differ(void **state) {
  (void)state;
  static const double penalties[] = {0.1, 0.7, 3};
  static const uint32_t sizes[][2] = {{2, 2}, {4, 2}, {4, 4}, {6, 2}, {6, 3}};
  for (uint32_t i = 0; i < 240; i++) {
    char options[256];
    const uint32_t beams = sizes[i % 5][0];
    seed = 40000 + i;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_beam_groups\":%u,\"diversity_penalty\":%g,\"num_return_sequences\":%u,"
             "\"length_penalty\":%g,\"early_stopping\":%s,\"eos_token_id\":[3,5],\"pad_token_id\":2,"
             "\"max_new_tokens\":%u}",
             beams, sizes[i % 5][1], penalties[i / 5 % 3], beams, i % 2 ? 1.0 : 0.6, i % 3 ? "true" : "false",
             2 + i % 9);
    compare(options, false);
  }
}

/* ---- words that must appear -------------------------------------------------------------------------------------- */

static bool contains(const vkf_id_list *phrase, const int32_t *ids, uint32_t n) {
  for (uint32_t at = 0; at + phrase->n <= n; at++) {
    uint32_t same = 0;
    while (same < phrase->n && ids[at + same] == phrase->ids[same]) same++;
    if (same == phrase->n) return true;
  }
  return false;
}

/* Appends to all [n] every sequence that continues h, has all phrases, and ends or has max_length ids. Returns the new
 * n. */
static uint32_t all_with_phrases(const vkf_generation_config *c, uint32_t V, uint32_t max_length, const hypothesis *h,
                                 hypothesis *all, uint32_t n) {
  float x[MAX_V];
  random_scores(h->ids, h->length, V, x);
  log_softmax(x, V);
  for (uint32_t v = 0; v < V; v++) {
    hypothesis next = *h;
    next.ids[next.length++] = (int32_t)v;
    next.score += x[v];
    bool has_all = true;
    for (uint32_t i = 0; i < c->force_words.n; i++)
      has_all &= contains(&c->force_words.lists[i], next.ids + 1, next.length - 1);
    if (!is_end(c, (int32_t)v) && next.length < max_length)
      n = all_with_phrases(c, V, max_length, &next, all, n);
    else if (has_all)
      all[n++] = next;
  }
  return n;
}

static const char *const phrases[] = {"[[2]]", "[[2,4]]", "[[4,4,1]]", "[[1],[4]]", "[[1,2],[2,4]]", "[[4,4],[4]]"};

/* With a vocabulary of 5 and a beam for every sequence, the results are the best sequences that have the phrases. Rows
 * beyond the last such sequence are empty. */
static void words_appear_in_the_best_sequence(void **state) {
  (void)state;
  enum { V = 5, LONGEST = 4 };
  static hypothesis all[1024];
  uint32_t n_empty = 0;
  for (uint32_t i = 0; i < 60; i++) {
    char options[256];
    snprintf(options, sizeof options,
             "{\"num_beams\":64,\"num_return_sequences\":%u,\"force_words_ids\":%s,\"eos_token_id\":3,"
             "\"pad_token_id\":0,\"bos_token_id\":0,\"early_stopping\":\"never\",\"length_penalty\":%g,"
             "\"max_length\":%u}",
             1 + i % 3, phrases[i / 2 % 6], i % 2 ? 1.0 : 0.0, LONGEST);
    seed = 50000 + i;
    run *r = begin(random_scores, V, 1, options);
    const vkf_generation_config *c = &r->config;
    const uint32_t n = all_with_phrases(c, V, LONGEST, &(hypothesis){.length = 1}, all, 0);
    for (uint32_t a = 0; a < n; a++) all[a].score /= powf((float)(all[a].length - 1), (float)c->length_penalty);
    qsort(all, n, sizeof *all, descending);
    assert_int_equal(go(r), VKF_OK);
    for (uint32_t row = 0; row < VKF_MIN(n, c->num_return_sequences); row++) {
      assert_true(fabsf(r->out.scores[row] - all[row].score) <= NEAR * fmaxf(1, fabsf(all[row].score)));
      for (uint32_t t = 0; t < all[row].length; t++)
        assert_int_equal(r->out.sequences[row * r->out.length + t], all[row].ids[t]);
    }
    for (uint32_t row = n; row < c->num_return_sequences; row++, n_empty++) {
      assert_true(r->out.scores[row] == -INFINITY);
      for (uint32_t t = 1; t < r->out.length; t++)
        assert_int_equal(r->out.sequences[row * r->out.length + t], vkf_decode_search_fill(c));
    }
    end(r);
  }
  assert_true(n_empty > 0);
}

/* With few beams, too, every result has the phrases, and its score is the sum over its ids. */
static void words_appear_with_few_beams(void **state) {
  (void)state;
  enum { V = 13 };
  for (uint32_t i = 0; i < 120; i++) {
    char options[256];
    const uint32_t beams = 2 + i % 4;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":%u,\"force_words_ids\":%s,\"eos_token_id\":[3,5],"
             "\"pad_token_id\":0,\"bos_token_id\":0,\"length_penalty\":0,\"max_new_tokens\":%u}",
             beams, i % 5 ? 1 : 2, phrases[i % 6], 4 + i % 9);
    seed = 60000 + i;
    run *r = begin(random_scores, V, 1, options);
    assert_int_equal(go(r), VKF_OK);
    for (uint32_t row = 0; row < r->out.n_rows; row++) {
      const int32_t *ids = r->out.sequences + row * r->out.length;
      float sum = 0;
      uint32_t n = 1;
      for (bool ends = false; n < r->out.length && !ends; n++) {
        float x[MAX_V];
        random_scores(ids, n, V, x);
        log_softmax(x, V);
        sum += x[ids[n]];
        ends = is_end(&r->config, ids[n]);
      }
      for (uint32_t p = 0; p < r->config.force_words.n; p++)
        assert_true(contains(&r->config.force_words.lists[p], ids + 1, n - 1));
      assert_true(fabsf(r->out.scores[row] - sum) <= NEAR * fabsf(sum));
    }
    end(r);
  }
}

/* Words that are longer than a sequence, or that other options forbid, are an error. */
static void words_that_cannot_appear(void **state) {
  (void)state;
  run *r = begin(random_scores, 13, 1,
                 "{\"num_beams\":2,\"force_words_ids\":[[6],[1,2,6]],\"max_new_tokens\":2,\"bos_token_id\":0}");
  assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "words of force_words_ids have 3 ids, and a sequence gets 2 at most"));
  end(r);
  r = begin(random_scores, 13, 1,
            "{\"num_beams\":2,\"force_words_ids\":[[1,2]],\"suppress_tokens\":[2],\"max_new_tokens\":5,"
            "\"bos_token_id\":0,\"eos_token_id\":3}");
  assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "no sequence of up to 6 ids has all words of force_words_ids"));
  end(r);
}

/* A beam search that finds no sequence fails. */
static void beams_need_a_sequence(void **state) {
  (void)state;
  static const char *const ways[] = {"\"num_beams\":2", "\"num_beams\":4,\"num_beam_groups\":2,\"diversity_penalty\":1",
                                     "\"num_beams\":2,\"num_return_sequences\":2,\"patience\":1"};
  for (size_t i = 0; i < VKF_COUNT(ways); i++) {
    char options[256];
    snprintf(options, sizeof options,
             "{%s,\"suppress_tokens\":[0,1,2,3,4,5,6,7,8,9,10,11,12],\"max_new_tokens\":5,\"bos_token_id\":0,"
             "\"eos_token_id\":3}",
             ways[i]);
    run *r = begin(random_scores, 13, 1, options);
    assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
    assert_string_equal(env.message, "expected a sequence that the options allow, found none");
    end(r);
  }
}

/* Of several phrases that have begun, only the one with the most ids so far counts. */
static void begun_phrases(void **state) {
  (void)state;
  static const int32_t first[] = {1, 2, 3}, second[] = {2, 4}, third[] = {5}, ids[] = {5, 1, 2};
  const vkf_id_list lists[] = {{first, 3}, {second, 2}, {third, 1}};
  assert_int_equal(vkf_decode_phrases_met(&(vkf_id_lists){.lists = lists, .n = 3}, ids, 3), 1 + 2);
}

static void low_ids_first(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  (void)history, (void)length;
  for (uint32_t v = 0; v < n_vocab; v++) scores[v] = -(float)v;
}

/* No id may follow the one that the first group takes; the second group finds a sequence. */
static void a_group_without_a_sequence(void **state) {
  (void)state;
  run *r = begin(low_ids_first, 5, 1,
                 "{\"num_beams\":2,\"num_beam_groups\":2,\"diversity_penalty\":9,\"max_new_tokens\":2,"
                 "\"bad_words_ids\":[[0,0],[0,1],[0,2],[0,3],[0,4]],\"bos_token_id\":4,\"eos_token_id\":3}");
  if (go(r)) fail_msg("%s", env.message);
  assert_memory_equal(r->out.sequences, ((const int32_t[]){4, 1, 1}), 3 * sizeof(int32_t));
  end(r);
}

/* If a search is stopped before it has enough sequences, the missing ones have the score -infinity. */
static void beams_stop_with_few_sequences(void **state) {
  (void)state;
  run *r = begin(random_scores, 13, 1,
                 "{\"num_beams\":3,\"num_return_sequences\":3,\"suppress_tokens\":[0,1,2,3,4,5,6,7,8,9,10],"
                 "\"max_new_tokens\":5,\"bos_token_id\":0,\"eos_token_id\":3}");
  stop_after = 1;
  assert_int_equal(go(r), VKF_ERROR_STOPPED);
  stop_after = 0;
  assert_int_equal(r->out.n_rows, 3);
  assert_true(r->out.scores[0] > r->out.scores[1] && r->out.scores[1] > -100 && r->out.scores[2] == -INFINITY);
  end(r);
}

/* Words in the prompt count only if an encoder reads a source: then the prompt is the beginning of the answer. */
static void words_in_a_prompt(void **state) {
  (void)state;
  static const int32_t prompt[] = {0, 1, 2}, source[] = {7};
  for (uint32_t encodes = 0; encodes < 2; encodes++) {
    run *r = begin(random_scores, 13, 1,
                   "{\"num_beams\":2,\"force_words_ids\":[[1,2]],\"max_length\":6,\"eos_token_id\":3,"
                   "\"pad_token_id\":0}");
    r->input.prompt = prompt;
    r->input.n_prompt = VKF_COUNT(prompt);
    if (encodes) r->input.source = source;
    r->input.n_source = encodes;
    seed = 70001;
    assert_int_equal(go(r), VKF_OK);
    assert_int_equal(contains(&r->config.force_words.lists[0], r->out.sequences + 3, r->out.length - 3), !encodes);
    end(r);
  }
}

/* Biased decoding by its equation, weak and strong, greedy and with beams. */
static void a_beginning_pulls(void **state) {
  (void)state;
  static const double betas[] = {0.02, 0.2, 0.5, 0.9};
  for (uint32_t i = 0; i < 160; i++) {
    char options[256];
    const uint32_t beams = 1 + i % 4;
    seed = 30000 + i;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":%u,\"prefix_bias_beta\":%g,\"early_stopping\":true,"
             "\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":%u%s}",
             beams, beams, betas[i / 4 % 4], 2 + i % 7, beams == 1 || i % 3 ? "" : ",\"min_new_tokens\":3");
    compare(options, beams > 1 || i % 8 == 0);
  }
}

/* Ids that other options forbid stay forbidden, however strong the pull is. */
static void a_pull_revives_no_id(void **state) {
  (void)state;
  for (uint32_t beams = 1; beams <= 3; beams += 2) {
    char options[256];
    snprintf(
        options, sizeof options,
        "{\"num_beams\":%u,\"prefix_bias_beta\":0.99,\"suppress_tokens\":[4],\"bos_token_id\":1,\"max_new_tokens\":4}",
        beams);
    seed = 31000 + beams;
    run *r = begin(random_scores, 13, 1, options);
    r->input.pull = pull;
    r->input.n_pull = VKF_COUNT(pull);
    assert_int_equal(go(r), VKF_OK);
    assert_int_equal(r->out.length, 5);
    for (uint32_t t = 1; t < r->out.length; t++) assert_int_not_equal(r->out.sequences[t], pull[0]);
    end(r);
  }
}

/* Each of the five best first ids begins a sequence, which continues as it would alone: greedy with and without scores,
 * and with beams. */
static void alternatives_differ_in_the_first_id(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 120; i++) {
    char options[256];
    const uint32_t beams = 1 + i % 4;
    seed = 20000 + i;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":5,\"return_alternatives\":true,\"length_penalty\":%g,"
             "\"early_stopping\":%s,\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":%u}",
             beams, i % 2 ? 1.0 : 0.6, beams == 1 || i % 3 ? "true" : "false", 1 + i % 9);
    compare(options, beams > 1 || i % 8 == 0);
  }
}

/* The alternatives of two prompts are the same in one batch and one prompt at a time. */
static void copies_fork_from_their_own_prompt(void **state) {
  (void)state;
  static const int32_t prompts[2][3] = {{1, 4, 2}, {5, 0, 3}};
  static const char options[] =
      "{\"num_return_sequences\":3,\"return_alternatives\":true,\"pad_token_id\":2,\"max_new_tokens\":4}";
  run *both = begin(random_scores, 7, 2, options);
  both->input.prompt = prompts[0];
  both->input.n_prompt = 3;
  both->input.max_length = 7;
  int32_t sequences[2][3 * 7];
  assert_int_equal(go(both), VKF_OK);
  assert_int_equal(both->out.n_rows * both->out.length, sizeof sequences / sizeof(int32_t));
  memcpy(sequences, both->out.sequences, sizeof sequences);
  end(both);
  for (uint32_t b = 0; b < 2; b++) {
    run *one = begin(random_scores, 7, 1, options);
    one->input.prompt = prompts[b];
    one->input.n_prompt = 3;
    one->input.max_length = 7;
    assert_int_equal(go(one), VKF_OK);
    assert_memory_equal(one->out.sequences, sequences[b], sizeof sequences[b]);
    end(one);
  }
}

/* Alternatives are absent if their first id is less probable than it must be, or forbidden; the first never is. The
 * three sentences of a batch have different numbers of them. */
static void improbable_alternatives_are_absent(void **state) {
  (void)state;
  static const double least[] = {0, 0.02, 0.1, 0.4, 1};
  n_absent = n_there = 0;
  for (uint32_t i = 0; i < 240; i++) {
    char options[320];
    seed = 80000 + i;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":%u,\"return_alternatives\":true,\"length_penalty\":%g,"
             "\"min_alternative_expansion_prob\":%g,\"early_stopping\":%s,\"eos_token_id\":[3,5],\"pad_token_id\":2,"
             "\"max_new_tokens\":%u%s}",
             1 + i % 4, i % 7 ? 4 : 15, i % 2 ? 1.0 : -0.6, least[i / 4 % 5], i % 3 ? "true" : "false", 1 + i % 9,
             i % 2 ? ",\"suppress_tokens\":[0,1,2,3,4,6,7,9,11]" : "");
    compare(options, i % 8 == 0);
  }
  assert_true(n_absent > 100 && n_there > 720);
}

/* The first two ids share almost all of the probability, all later ids have the same one. */
static void surest_at_first(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  (void)history;
  for (uint32_t v = 0; v < n_vocab; v++) scores[v] = length == 1 && v < 2 ? 9 : 0;
}

/* Only the first id of an alternative must be probable. */
static void later_ids_may_be_improbable(void **state) {
  (void)state;
  for (uint32_t beams = 1; beams <= 2; beams++) {
    char options[256];
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":3,\"return_alternatives\":true,\"bos_token_id\":4,"
             "\"min_alternative_expansion_prob\":0.4,\"max_new_tokens\":3}",
             beams);
    run *r = begin(surest_at_first, 5, 1, options);
    if (go(r)) fail_msg("%s", env.message);
    assert_int_equal(r->out.length, 4);
    for (int32_t row = 0; row < 2; row++) {
      assert_true(isfinite(r->out.scores[row]));
      assert_int_equal(r->out.sequences[(uint32_t)row * 4 + 1], row);
    }
    assert_true(r->out.scores[2] == -INFINITY);
    end(r);
  }
}

/* Of six alternatives, a vocabulary of four ids has four, also after a forced first id. */
static void alternatives_beyond_the_vocabulary_are_absent(void **state) {
  (void)state;
  enum { V = 4, ASKED = 6 };
  for (uint32_t i = 0; i < 12; i++) {
    char options[256];
    const uint32_t beams = 1 + i % 3, begins = 1 + i % 2;
    seed = 81000 + i;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":%u,\"return_alternatives\":true,\"bos_token_id\":0,"
             "\"pad_token_id\":0,\"eos_token_id\":[1,2,3],\"max_new_tokens\":%u%s}",
             beams, ASKED, 2 + i / 6, begins > 1 ? ",\"forced_bos_token_id\":0" : "");
    run *r = begin(random_scores, V, 1, options);
    uint32_t seen = 0;
    if (go(r)) fail_msg("%s", env.message);
    for (uint32_t row = 0; row < ASKED; row++) {
      const int32_t *ids = r->out.sequences + row * r->out.length;
      assert_true(isfinite(r->out.scores[row]) == (row < V));
      if (row < V) seen |= 1U << ids[begins];
      for (uint32_t t = 1; row >= V && t < r->out.length; t++)
        assert_int_equal(ids[t], vkf_decode_search_fill(&r->config));
      if (row >= V && beams > 1) assert_int_equal(r->batch.searches[row].groups->n_candidates, 0);
    }
    assert_int_equal(seen, (1U << V) - 1);
    for (uint32_t t = 0; t < n_told; t++) assert_true(told[t][0] < V || told[t][1] == VKF_NO_TOKEN || begins > 1);
    end(r);
  }
}

/* An alternative after which no id may follow is absent; the next one is not. If it is the first, the sentence fails.
 */
static void alternatives_that_end_nowhere(void **state) {
  (void)state;
  static const char *const after[] = {"[1,0],[1,1],[1,2],[1,3],[1,4]", "[0,0],[0,1],[0,2],[0,3],[0,4]"};
  for (uint32_t i = 0; i < 4; i++) {
    char options[256];
    const bool is_first = i >= 2;
    snprintf(options, sizeof options,
             "{\"num_beams\":%u,\"num_return_sequences\":3,\"return_alternatives\":true,\"bos_token_id\":4,"
             "\"eos_token_id\":3,\"max_new_tokens\":3,\"bad_words_ids\":[%s]}",
             1 + i % 2, after[is_first]);
    run *r = begin(low_ids_first, 5, 1, options);
    assert_int_equal(go(r), is_first ? VKF_ERROR_ARGUMENT : VKF_OK);
    if (is_first)
      assert_non_null(strstr(env.message, i % 2 ? "expected a sequence that the options allow, found none"
                                                : "step 1: expected an id with a finite score"));
    for (int32_t row = 0; row < 3 && !is_first; row++) {
      assert_true(isfinite(r->out.scores[row]) == (row != 1));
      assert_int_equal(r->out.sequences[(uint32_t)row * r->out.length + 1],
                       row == 1 ? vkf_decode_search_fill(&r->config) : row);
    }
    end(r);
  }
}

/* ---- worked examples --------------------------------------------------------------------------------------------- */

/* Makes scores of the log-probabilities p of the ids 0 (start), 1 (a), 2 (b) and 3 (end). The other ids share the rest
 * of the probability, so a log-softmax changes the scores only by rounding. */
static void script_of(const double *p, uint32_t n_vocab, float *scores) {
  double rest = 1;
  for (uint32_t v = 0; v < 4; v++) {
    rest -= exp(p[v]);
    scores[v] = (float)p[v];
  }
  for (uint32_t v = 4; v < n_vocab; v++) scores[v] = (float)log(rest / (n_vocab - 4));
}

static void script(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  static const double first[] = {-20, -1.0, -2.0, -1.5}, later[] = {-20, -1.0, -3.0, -0.75};
  (void)history;
  script_of(length == 1 ? first : later, n_vocab, scores);
}

/* The first ids a and b tie, and so do their continuations. */
static void tied_script(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  static const double first[] = {-20, -1.0, -1.0, -20}, later[] = {-20, -2.0, -3.0, -0.5};
  (void)history;
  script_of(length == 1 ? first : later, n_vocab, scores);
}

static void of_equals_the_lower_row_comes_first(void **state) {
  (void)state;
  run *r = begin(tied_script, 16, 1,
                 "{\"num_beams\":2,\"num_return_sequences\":2,\"early_stopping\":true,\"eos_token_id\":3,"
                 "\"pad_token_id\":4,\"decoder_start_token_id\":0,\"max_new_tokens\":10}");
  assert_int_equal(go(r), VKF_OK);
  assert_true(r->out.scores[0] == r->out.scores[1]);
  EXPECT_ROW(r, 0, 0, 1, 3);
  EXPECT_ROW(r, 1, 0, 2, 3);
  end(r);
}

/* Continuing scores better than ending. */
static void long_script(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  static const double first[] = {-20, -1.0, -5.0, -1.5}, later[] = {-20, -0.5, -5.0, -1.2};
  (void)history;
  script_of(length == 1 ? first : later, n_vocab, scores);
}

/* Two beams. Step 1 keeps a -1, b -2 and finishes "end" at -1.5. Step 2 finishes "a end" at -1.75 and keeps "a a" -2,
 * "b a" -3. Step 3 finishes "a a end" at -2.75 and keeps "a a a" -3; step n the same with -(n-1)-0.75 and -n. */
static void three_rules_of_stopping(void **state) {
  (void)state;
  static const struct {
    const char *early;
    uint32_t n_steps;
    float second;
  } cases[] = {{"true", 2, -1.5f},
               {"false", 3, -2.75f / 3},       /* after step 2: -2/2 > -1.5; after step 3: -3/3 < -2.75/3 */
               {"\"never\"", 10, -2.75f / 3}}; /* goes on while -n/10 > -2.75/3: to the limit */
  for (size_t i = 0; i < VKF_COUNT(cases); i++) {
    char options[256];
    snprintf(options, sizeof(options),
             "{\"num_beams\":2,\"num_return_sequences\":2,\"early_stopping\":%s,\"eos_token_id\":3,\"pad_token_id\":4,"
             "\"decoder_start_token_id\":0,\"max_new_tokens\":10}",
             cases[i].early);
    run *r = begin(script, 16, 1, options);
    assert_int_equal(go(r), VKF_OK);
    assert_int_equal(r->model.n_steps, cases[i].n_steps);
    assert_true(fabsf(r->out.scores[0] + 0.875f) < NEAR);
    assert_true(fabsf(r->out.scores[1] - cases[i].second) < NEAR);
    if (i == 0) {
      EXPECT_ROW(r, 0, 0, 1, 3);
      EXPECT_ROW(r, 1, 0, 3, 4);
    } else {
      EXPECT_ROW(r, 0, 0, 1, 3, 4);
      EXPECT_ROW(r, 1, 0, 1, 1, 3);
    }
    end(r);
  }
}

/* Two beams. Step n finishes one hypothesis, of n ids. Its score is -1.5, -2.2, -2.7, ... -(1 + 0.5 (n - 2) + 1.2), so
 * divided by its length, a later one is better. */
static void patience_counts_what_has_finished(void **state) {
  (void)state;
  static const struct {
    const char *patience;
    uint32_t n_steps;
    float best;
  } cases[] = {{"0.5", 1, -1.5f},      {"1", 2, -2.2f / 2},    {"1.2", 2, -2.2f / 2},
               {"1.25", 3, -2.7f / 3}, {"2", 4, -3.2f / 4},    {"3.5", 7, -4.7f / 7},
               {"4.5", 9, -5.7f / 9},  {"1e9", 10, -5.5f / 10}}; /* at the limit all end */
  for (size_t i = 0; i < VKF_COUNT(cases); i++) {
    char options[256];
    snprintf(options, sizeof options,
             "{\"num_beams\":2,\"patience\":%s,\"early_stopping\":%s,\"eos_token_id\":3,\"pad_token_id\":4,"
             "\"bos_token_id\":0,\"max_new_tokens\":10}",
             cases[i].patience, i % 2 ? "true" : "false");
    run *r = begin(long_script, 16, 1, options);
    assert_int_equal(go(r), VKF_OK);
    assert_int_equal(r->model.n_steps, cases[i].n_steps);
    assert_int_equal(r->out.length, cases[i].n_steps + 1);
    assert_true(fabsf(r->out.scores[0] - cases[i].best) < NEAR);
    end(r);
  }
}

/* If the length penalty is 0 or less, "never" compares with the best running score at its present length, not at the
 * limit, because longer ones cannot be better. */
static void never_stops_by_the_limit(void **state) {
  (void)state;
  run *r =
      begin(script, 16, 1,
            "{\"num_beams\":2,\"early_stopping\":\"never\",\"eos_token_id\":3,\"pad_token_id\":4,\"bos_token_id\":0,"
            "\"max_new_tokens\":10,\"length_penalty\":0.0}");
  /* no length penalty: -1.5 and -1.75 have finished, and the running -2 cannot beat them */
  assert_int_equal(go(r), VKF_OK);
  assert_int_equal(r->model.n_steps, 2);
  EXPECT_ROW(r, 0, 0, 3);
  end(r);
  r = begin(script, 16, 1,
            "{\"num_beams\":2,\"early_stopping\":\"never\",\"eos_token_id\":3,\"pad_token_id\":4,\"bos_token_id\":0,"
            "\"max_new_tokens\":10,\"length_penalty\":-1.0}");
  /* scores are multiplied by the length: finished -1.5*1 and -1.75*2, running -2*2 */
  assert_int_equal(go(r), VKF_OK);
  assert_int_equal(r->model.n_steps, 2);
  EXPECT_ROW(r, 0, 0, 3);
  assert_true(fabsf(r->out.scores[0] + 1.5f) < NEAR);
  end(r);
  r = begin(
      long_script, 16, 1,
      "{\"num_beams\":2,\"num_return_sequences\":2,\"early_stopping\":\"never\",\"eos_token_id\":3,\"pad_token_id\":4,"
      "\"bos_token_id\":0,\"max_new_tokens\":10,\"length_penalty\":-1.0}");
  /* after step 2, "a a" -1.5*2 beats "a end" -2.2*2, so the search continues; after step 3, -2*3 does not */
  assert_int_equal(go(r), VKF_OK);
  assert_int_equal(r->model.n_steps, 3);
  EXPECT_ROW(r, 1, 0, 1, 3);
  assert_true(fabsf(r->out.scores[1] + 4.4f) < NEAR);
  end(r);
}

static void the_limit_finishes_everything(void **state) {
  (void)state;
  run *r = begin(script, 16, 2, "{\"num_beams\":2,\"num_return_sequences\":2,\"bos_token_id\":0,\"max_new_tokens\":3}");
  assert_int_equal(go(r), VKF_OK); /* there is no end id: 3 is like others */
  assert_int_equal(r->model.n_steps, 3);
  EXPECT_ROW(r, 0, 0, 1, 3, 3);
  EXPECT_ROW(r, 2, 0, 1, 3, 3);
  assert_true(fabsf(r->out.scores[0] + 2.5f / 3) < NEAR);
  end(r);
}

/* If pad_token_id is 0 or missing, transformers fills a row after its hypothesis with the first end id. */
static void padding_of_beams(void **state) {
  (void)state;
  static const char *const pads[] = {",\"pad_token_id\":0", "", ",\"pad_token_id\":null", ",\"pad_token_id\":7"};
  for (size_t i = 0; i < VKF_COUNT(pads); i++) {
    char options[256];
    snprintf(
        options, sizeof(options),
        "{\"num_beams\":2,\"num_return_sequences\":2,\"early_stopping\":true,\"eos_token_id\":[3],\"bos_token_id\":0"
        ",\"max_new_tokens\":9%s}",
        pads[i]);
    run *r = begin(script, 16, 1, options);
    assert_int_equal(go(r), VKF_OK);
    EXPECT_ROW(r, 1, 0, 3, i == 3 ? 7 : 3);
    end(r);
  }
}

static void forced_ids(void **state) {
  (void)state;
  run *r = begin(random_scores, 13, 2,
                 "{\"num_beams\":3,\"forced_bos_token_id\":8,\"forced_eos_token_id\":3,\"eos_token_id\":[3,5],"
                 "\"min_new_tokens\":6,\"max_new_tokens\":6,\"decoder_start_token_id\":1,\"pad_token_id\":2}");
  seed = 5;
  assert_int_equal(go(r), VKF_OK);
  for (uint32_t b = 0; b < 2; b++) {
    assert_int_equal(r->out.sequences[b * 7 + 1], 8);
    assert_int_equal(r->out.sequences[b * 7 + 6], 3);
    assert_true(isfinite(r->out.scores[b]) && r->out.scores[b] > -100);
  }
  end(r);
}

/* ---- greedy ------------------------------------------------------------------------------------------------------ */

/* Counts up from the last id; 9 comes after 8 or 5. */
static void count_up(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  int32_t last = history[length - 1];
  for (uint32_t v = 0; v < n_vocab; v++) scores[v] = -(float)v;
  scores[last == 5 ? 9 : (last + 1) % (int32_t)n_vocab] = 1;
}

static void greedy_rows_end_at_different_lengths(void **state) {
  (void)state;
  static const int32_t prompt[] = {0, 3, 6, 6};
  static const char *const pads[] = {",\"pad_token_id\":2", ",\"pad_token_id\":0", ""};
  static const int32_t fill[] = {2, 0, 9};
  for (size_t i = 0; i < VKF_COUNT(pads); i++) {
    char options[128];
    snprintf(options, sizeof(options), "{\"eos_token_id\":[9,11],\"max_new_tokens\":8%s}", pads[i]);
    run *r = begin(count_up, 12, 2, options);
    r->input.prompt = prompt;
    r->input.n_prompt = 2;
    r->input.max_length = 10;
    assert_int_equal(go(r), VKF_OK);
    EXPECT_ROW(r, 0, 0, 3, 4, 5, 9);
    EXPECT_ROW(r, 1, 6, 6, 7, 8, 9);
    assert_null(r->out.scores);
    assert_int_equal(n_told, 6);
    assert_true(told[4][0] == 0 && told[4][1] == 9 && told[5][0] == 1 && told[5][1] == 9);
    assert_int_equal(r->model.allocations_at_first, r->model.allocations_at_last);
    end(r);

    static const int32_t uneven[] = {2, 8};
    r = begin(count_up, 12, 2, options);
    r->input.prompt = uneven;
    r->input.n_prompt = 1;
    assert_int_equal(go(r), VKF_OK);
    EXPECT_ROW(r, 0, 2, 3, 4, 5, 9);
    EXPECT_ROW(r, 1, 8, 9, fill[i], fill[i], fill[i]);
    assert_int_equal(n_told, 5); /* a row that has ended reports no ids */
    assert_true(r->model.n_steps == 4 && r->model.n_rows == 5);
    end(r);
  }
}

static void limits_of_greedy(void **state) {
  (void)state;
  run *r = begin(count_up, 12, 1, "{\"decoder_start_token_id\":0,\"bos_token_id\":4,\"max_length\":4}");
  assert_int_equal(go(r), VKF_OK);
  EXPECT_ROW(r, 0, 0, 1, 2, 3);
  end(r);
  r = begin(count_up, 12, 1, "{\"bos_token_id\":4,\"max_length\":4,\"max_new_tokens\":2}");
  assert_int_equal(go(r), VKF_OK);
  EXPECT_ROW(r, 0, 4, 5, 9);
  end(r);
  r = begin(count_up, 12, 1, "{\"bos_token_id\":0,\"max_length\":6}");
  r->input.n_positions = 5; /* the last id needs no position */
  assert_int_equal(go(r), VKF_OK);
  EXPECT_ROW(r, 0, 0, 1, 2, 3, 4, 5);
  end(r);
  r = begin(count_up, 12, 1, "{\"bos_token_id\":0,\"max_length\":9}");
  r->input.n_positions = 5;
  assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "5 positions"));
  end(r);
}

static void stopped_by_the_callback(void **state) {
  (void)state;
  run *r = begin(count_up, 12, 2, "{\"bos_token_id\":0,\"max_new_tokens\":8}");
  stop_after = 3; /* row 0 of the second step */
  assert_int_equal(go(r), VKF_ERROR_STOPPED);
  assert_int_equal(n_told, 4); /* all ids of the step */
  EXPECT_ROW(r, 0, 0, 1, 2);
  EXPECT_ROW(r, 1, 0, 1, 2);
  end(r);

  r = begin(script, 16, 1,
            "{\"num_beams\":2,\"num_return_sequences\":2,\"eos_token_id\":3,\"bos_token_id\":0,\"max_new_tokens\":8}");
  stop_after = 1;
  assert_int_equal(go(r), VKF_ERROR_STOPPED);
  assert_int_equal(n_told, 1);
  assert_int_equal(told[0][1], -1);
  EXPECT_ROW(r, 0, 0, 1); /* the running "a" at -1 before the finished "end" at -1.5 */
  EXPECT_ROW(r, 1, 0, 3);
  assert_true(fabsf(r->out.scores[0] + 1) < NEAR && fabsf(r->out.scores[1] + 1.5f) < NEAR);
  end(r);

  r = begin(script, 16, 1,
            "{\"num_beams\":2,\"num_return_sequences\":2,\"eos_token_id\":3,\"bos_token_id\":0,\"max_new_tokens\":8}");
  stop_after = 2; /* running ones are divided by their length, too: "a a" at -2 / 2 before "end" at -1.5 */
  assert_int_equal(go(r), VKF_ERROR_STOPPED);
  EXPECT_ROW(r, 0, 0, 1, 3);
  EXPECT_ROW(r, 1, 0, 1, 1);
  assert_true(fabsf(r->out.scores[0] + 0.875f) < NEAR && fabsf(r->out.scores[1] + 1) < NEAR);
  end(r);
  stop_after = 0;
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void scores_that_are_not_finite(void **state) {
  (void)state;
  static const float faults[] = {NAN, INFINITY};
  for (size_t i = 0; i < 4; i++) {
    bool beams = i >= 2;
    run *r = begin(random_scores, 13, 2,
                   beams ? "{\"num_beams\":2,\"bos_token_id\":1,\"max_new_tokens\":8}"
                         : "{\"bos_token_id\":1,\"max_new_tokens\":8}");
    r->model.fault_step = 3;
    r->model.fault = faults[i % 2];
    assert_int_equal(go(r), VKF_ERROR_NUMERIC);
    assert_non_null(strstr(env.message, beams ? "beam 1, step 2" : "beam 0, step 2"));
    assert_int_equal(failure_of(r, beams ? 1 : 0), VKF_OK); /* the other sentence has not failed */
    assert_non_null(strstr(env.message, i % 2 == 0 ? "NaN for id 3" : "infinity for id 3"));
    end(r);
  }
}

static void refused_at_the_start(void **state) {
  (void)state;
  static const int32_t prompt[] = {1, 2, 3, 4, 5};
  run *r = begin(count_up, 12, 1, "{\"max_length\":5}");
  assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "decoder_start_token_id"));
  vkf_env_clear(&env);
  r->input.prompt = prompt;
  r->input.n_prompt = 5;
  assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "over the 5 ids"));
  vkf_env_clear(&env);
  assert_int_equal(r->model.n_steps, 0);
  end(r);
  r = begin(count_up, 12, 1, "{\"bos_token_id\":1,\"num_beams\":2,\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11]}");
  assert_int_equal(go(r), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "26 candidates"));
  end(r);
  r = begin(random_scores, 2, 1, "{\"bos_token_id\":1,\"num_beams\":2,\"eos_token_id\":0,\"max_new_tokens\":2}");
  assert_int_equal(go(r), VKF_OK); /* 4 candidates of 4 */
  end(r);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  static const char *const options[] = {
      "{\"bos_token_id\":1,\"eos_token_id\":3,\"max_new_tokens\":5}",
      "{\"bos_token_id\":1,\"eos_token_id\":3,\"max_new_tokens\":5,\"num_beams\":3,\"repetition_penalty\":2.0}",
      "{\"bos_token_id\":1,\"eos_token_id\":3,\"max_new_tokens\":5,\"do_sample\":true,\"num_return_sequences\":2}",
      "{\"bos_token_id\":1,\"eos_token_id\":3,\"max_new_tokens\":5,\"num_beams\":4,\"num_beam_groups\":2,"
      "\"diversity_penalty\":1}",
      "{\"bos_token_id\":1,\"eos_token_id\":3,\"max_new_tokens\":5,\"num_beams\":2,\"force_words_ids\":[[4]]}"};
  for (size_t i = 0; i < VKF_COUNT(options); i++) {
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
      run *r = begin(random_scores, 13, 2, options[i]);
      env.fail_at = env.n_allocations + n;
      vkf_status st = go(r);
      env.fail_at = 0;
      done = st == VKF_OK;
      if (!done) assert_int_equal(st, VKF_ERROR_MEMORY);
      if (!done) assert_int_equal(env.first, VKF_ERROR_MEMORY);
      if (done) assert_true(n > 8);
      end(r);
    }
  }
}

/* ---- borders ----------------------------------------------------------------------------------------------------- */

/* With n positions a sequence may have n + 1 ids: the last one needs no position. */
static void longest_sequences(void **state) {
  (void)state;
  assert_int_equal(vkf_decode_search_longest(20, 0, 1), 20);
  assert_int_equal(vkf_decode_search_longest(20, 7, 1), 8);
  assert_int_equal(vkf_decode_search_longest(8, 8, 1), 8);
  assert_int_equal(vkf_decode_search_longest(20, 7, 9), 10);
  assert_int_equal(vkf_decode_search_longest(UINT64_MAX, 0, 1), INT32_MAX);
}

static void all_alike(const int32_t *history, uint32_t length, uint32_t n_vocab, float *scores) {
  (void)history;
  (void)length;
  for (uint32_t v = 0; v < n_vocab; v++) scores[v] = 0;
}

/* Ties: the lower id and the lower row come first. */
static void equal_scores(void **state) {
  (void)state;
  run *r =
      begin(all_alike, 5, 1, "{\"num_beams\":2,\"num_return_sequences\":2,\"max_new_tokens\":2,\"bos_token_id\":4}");
  assert_int_equal(go(r), VKF_OK);
  EXPECT_ROW(r, 0, 4, 0, 0);
  EXPECT_ROW(r, 1, 4, 0, 1);
  end(r);

  r = begin(all_alike, 5, 1, "{\"max_new_tokens\":3,\"bos_token_id\":4}");
  r->input.scores = true;
  assert_int_equal(go(r), VKF_OK);
  EXPECT_ROW(r, 0, 4, 0, 0, 0);
  assert_true(fabs(r->out.scores[0] + log(5)) < NEAR); /* the sum over three ids, divided by three */
  end(r);

  r = begin(all_alike, 5, 1, "{\"max_new_tokens\":1,\"bos_token_id\":4,\"suppress_tokens\":[0,1,2,3,4]}");
  r->input.scores = true;
  assert_int_equal(go(r), VKF_OK);
  assert_true(r->out.scores[0] == -INFINITY);
  end(r);
}

/* Edits of a row of a batch depend on the source of its own sentence. */
static void the_source_of_each_sentence(void **state) {
  (void)state;
  enum { B = 3, BEAMS = 2, N_SOURCE = 2, T = 9 };
  static const int32_t sources[B * N_SOURCE] = {3, 4, 5, 6, 7, 8};
  static const char options[] =
      "{\"num_beams\":2,\"num_return_sequences\":2,\"max_new_tokens\":8,\"bos_token_id\":1,"
      "\"encoder_repetition_penalty\":8.0,\"encoder_no_repeat_ngram_size\":1}";
  int32_t alone[B][BEAMS * T];
  float scores[B][BEAMS];
  seed = 5;
  for (uint32_t b = 0; b <= B; b++) { /* each alone, then all together */
    run *r = begin(random_scores, 12, b < B ? 1 : B, options);
    r->input.source = sources + (b < B ? (size_t)b * N_SOURCE : 0);
    r->input.n_source = N_SOURCE;
    assert_int_equal(go(r), VKF_OK);
    assert_int_equal(r->out.length, T);
    if (b < B) {
      memcpy(alone[b], r->out.sequences, sizeof alone[b]);
      memcpy(scores[b], r->out.scores, sizeof scores[b]);
    } else {
      assert_memory_equal(r->out.sequences, alone, sizeof alone);
      assert_memory_equal(r->out.scores, scores, sizeof scores);
    }
    end(r);
  }
  assert_memory_not_equal(alone[0], alone[1], sizeof alone[0]);
  assert_memory_not_equal(alone[1], alone[2], sizeof alone[1]);
}

/* A sentence takes as many rows in a batch as alone, and has the same result. */
static void finished_sentences_leave(void **state) {
  (void)state;
  enum { B = 5, N = 2 };
  static const int32_t starts[B] = {1, 7, 12, 3, 9};
  static const char *const options[] = {
      "{\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":20}",
      "{\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":20,\"num_beams\":2,"
      "\"num_return_sequences\":2}",
      "{\"eos_token_id\":[3,5],\"pad_token_id\":2,\"max_new_tokens\":20,\"do_sample\":true,"
      "\"num_return_sequences\":2}"};
  for (size_t o = 0; o < VKF_COUNT(options); o++) {
    int32_t alone[B * N][MAX_T];
    uint32_t lengths[B], n_rows = 0, n_least = UINT32_MAX;
    for (uint64_t b = 0; b <= B; b++) { /* each alone, then all together */
      run *r = begin(random_scores, 13, b < B ? 1 : B, options[o]);
      const uint32_t n = vkf_decode_search_rows(&r->config) * vkf_decode_search_copies(&r->config);
      seed = 77;
      r->input.prompt = starts + b % B;
      r->input.n_prompt = 1;
      r->input.lines = b < B ? &b : NULL;
      assert_int_equal(go(r), VKF_OK);
      const uint32_t each = r->out.n_rows / (b < B ? 1 : B);
      if (b < B) {
        n_rows += r->model.n_rows;
        n_least = VKF_MIN(n_least, r->model.n_steps);
        lengths[b] = r->out.length;
        for (uint32_t i = 0; i < each; i++)
          memcpy(alone[b * N + i], r->out.sequences + i * r->out.length, r->out.length * sizeof(int32_t));
      } else {
        assert_int_equal(r->model.n_rows, n_rows);
        assert_true(n_least < r->model.n_steps && n_rows < B * n * r->model.n_steps);
        for (uint32_t i = 0; i < B * each; i++) {
          const int32_t *ids = r->out.sequences + i * r->out.length;
          for (uint32_t t = 0; t < r->out.length; t++)
            assert_int_equal(ids[t], t < lengths[i / each] ? alone[i / each * N + i % each][t] : 2);
        }
      }
      end(r);
    }
  }
}

/* If the caller gives no lines, the sentences have the lines 0, 1, ... */
static void lines_by_themselves(void **state) {
  (void)state;
  static const uint64_t lines[] = {0, 1};
  int32_t first[64];
  for (int named = 0; named < 2; named++) {
    seed = 5;
    run *r =
        begin(random_scores, 12, 2,
              "{\"do_sample\":true,\"num_return_sequences\":3,\"max_new_tokens\":6,\"bos_token_id\":1,\"seed\":9}");
    r->input.lines = named ? lines : NULL;
    assert_int_equal(go(r), VKF_OK);
    assert_int_equal(r->out.n_rows * r->out.length, 6 * 7);
    if (named) assert_memory_equal(first, r->out.sequences, 6 * 7 * sizeof *first);
    memcpy(first, r->out.sequences, 6 * 7 * sizeof *first);
    end(r);
  }
}

/* Equal logits are sorted by id. A row that is full takes no more. */
static void log_probabilities(void **state) {
  (void)state;
  const float logits[4] = {1, 3, 3, 1};
  vkf_logprobs l;
  vkf_env_clear(&env);
  assert_int_equal(vkf_decode_logprobs_init(&l, &env, 1, 4, 3, 1), VKF_OK);
  for (int twice = 0; twice < 2; twice++) vkf_decode_logprobs_add(&l, 0, 3, logits);
  assert_true(l.ids[0] == 1 && l.ids[1] == 2 && l.ids[2] == 0 && l.lengths[0] == 1 && l.longest == 1);
  const double all = log(2 * exp(1) + 2 * exp(3));
  assert_true(fabs(l.values[0] - (3 - all)) < 1e-6 && fabs(l.values[2] - (1 - all)) < 1e-6);
  assert_true(fabs(l.chosen[0] - (1 - all)) < 1e-6);
  vkf_decode_logprobs_finish(&l);
  assert_int_equal(vkf_decode_logprobs_init(&l, &env, 1, 4, 5, 1), VKF_OK);
  assert_int_equal(l.n_top, 4); /* no more than there are ids */
  vkf_decode_logprobs_finish(&l);
  assert_int_equal(env.live_bytes, 0);
}

int main(void) {
  vkf_env_init(&env, NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(longest_sequences),
                                     cmocka_unit_test(equal_scores),
                                     cmocka_unit_test(the_source_of_each_sentence),
                                     cmocka_unit_test(finished_sentences_leave),
                                     cmocka_unit_test(lines_by_themselves),
                                     cmocka_unit_test(log_probabilities),
                                     cmocka_unit_test(as_the_rules_written_again),
                                     cmocka_unit_test(three_rules_of_stopping),
                                     cmocka_unit_test(patience_as_its_rule_written_again),
                                     cmocka_unit_test(groups_differ),
                                     cmocka_unit_test(words_appear_in_the_best_sequence),
                                     cmocka_unit_test(words_appear_with_few_beams),
                                     cmocka_unit_test(words_that_cannot_appear),
                                     cmocka_unit_test(beams_need_a_sequence),
                                     cmocka_unit_test(beams_stop_with_few_sequences),
                                     cmocka_unit_test(begun_phrases),
                                     cmocka_unit_test(a_group_without_a_sequence),
                                     cmocka_unit_test(words_in_a_prompt),
                                     cmocka_unit_test(a_beginning_pulls),
                                     cmocka_unit_test(a_pull_revives_no_id),
                                     cmocka_unit_test(alternatives_differ_in_the_first_id),
                                     cmocka_unit_test(improbable_alternatives_are_absent),
                                     cmocka_unit_test(alternatives_beyond_the_vocabulary_are_absent),
                                     cmocka_unit_test(later_ids_may_be_improbable),
                                     cmocka_unit_test(alternatives_that_end_nowhere),
                                     cmocka_unit_test(copies_fork_from_their_own_prompt),
                                     cmocka_unit_test(patience_counts_what_has_finished),
                                     cmocka_unit_test(of_equals_the_lower_row_comes_first),
                                     cmocka_unit_test(never_stops_by_the_limit),
                                     cmocka_unit_test(the_limit_finishes_everything),
                                     cmocka_unit_test(padding_of_beams),
                                     cmocka_unit_test(forced_ids),
                                     cmocka_unit_test(greedy_rows_end_at_different_lengths),
                                     cmocka_unit_test(limits_of_greedy),
                                     cmocka_unit_test(stopped_by_the_callback),
                                     cmocka_unit_test(scores_that_are_not_finite),
                                     cmocka_unit_test(refused_at_the_start),
                                     cmocka_unit_test(every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
