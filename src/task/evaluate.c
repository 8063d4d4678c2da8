/* evaluate: scores translations against references: BLEU and chrF with bootstrap intervals, and a paired test between
 * two systems. Scores, samples and p-values are those of sacreBLEU 2.
 */
#include "task/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

typedef unsigned __int128 wide;

/* PCG64, numpy's default generator, with which sacreBLEU draws its samples. */
typedef struct pcg64 {
  uint64_t state[2], increment[2]; /* low, high */
  uint32_t rest;                   /* upper half of the last number */
  bool has_rest;
} pcg64;

static wide get(const uint64_t *words) {
  return (wide)words[1] << 64 | words[0];
}

static void step(pcg64 *p) {
  const wide multiplier = (wide)UINT64_C(0x2360ed051fc65da4) << 64 | UINT64_C(0x4385df649fccf645);
  const wide state = get(p->state) * multiplier + get(p->increment);
  p->state[0] = (uint64_t)state;
  p->state[1] = (uint64_t)(state >> 64);
}

static uint32_t mix_in(uint32_t value, uint32_t *constant, uint32_t multiplier) {
  value ^= *constant;
  *constant *= multiplier;
  value *= *constant;
  return value ^ value >> 16;
}

/* Seeds as numpy's SeedSequence does with one word. */
static void pcg64_seed(pcg64 *p, uint32_t seed) {
  enum { POOL = 4 };
  uint32_t pool[POOL], words[2 * POOL], constant = UINT32_C(0x43b0d7e5);
  for (int i = 0; i < POOL; i++) pool[i] = mix_in(i == 0 ? seed : 0, &constant, UINT32_C(0x931e8875));
  for (int from = 0; from < POOL; from++)
    for (int to = 0; to < POOL; to++) {
      if (from == to) continue;
      const uint32_t other = mix_in(pool[from], &constant, UINT32_C(0x931e8875)),
                     mixed = UINT32_C(0xca01f9dd) * pool[to] - UINT32_C(0x4973f715) * other;
      pool[to] = mixed ^ mixed >> 16;
    }
  constant = UINT32_C(0x8b51f9dd);
  for (int i = 0; i < 2 * POOL; i++) words[i] = mix_in(pool[i % POOL], &constant, UINT32_C(0x58f38ded));
  uint64_t all[POOL];
  for (int i = 0; i < POOL; i++) all[i] = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
  const wide increment = ((wide)all[2] << 64 | all[3]) << 1 | 1, begin = (wide)all[0] << 64 | all[1];
  *p = (pcg64){.increment = {(uint64_t)increment, (uint64_t)(increment >> 64)}};
  step(p);
  const wide state = get(p->state) + begin;
  p->state[0] = (uint64_t)state;
  p->state[1] = (uint64_t)(state >> 64);
  step(p);
}

static uint32_t next(pcg64 *p) {
  p->has_rest = !p->has_rest;
  if (!p->has_rest) return p->rest;
  step(p);
  const uint64_t mixed = p->state[1] ^ p->state[0], by = p->state[1] >> 58,
                 number = by ? mixed >> by | mixed << (64 - by) : mixed;
  p->rest = (uint32_t)(number >> 32);
  return (uint32_t)number;
}

/* Draws a whole number below n (Lemire 2019). */
static uint32_t pcg64_below(pcg64 *p, uint32_t n) {
  uint64_t product = (uint64_t)next(p) * n;
  const uint32_t least = (uint32_t)-n % n;
  while ((uint32_t)product < least) product = (uint64_t)next(p) * n;
  return (uint32_t)(product >> 32);
}

/* ---- a system ---------------------------------------------------------------------------------------------------- */

enum { BLEU, CHRF, N_METRICS };

typedef struct counts {
  vkf_bleu_counts bleu;
  vkf_chrf_counts chrf;
} counts;
enum { N_COUNTS = sizeof(counts) / sizeof(double) };

typedef struct evaluated {
  counts *of, sum;            /* [n]: of each sentence; of all */
  double *samples[N_METRICS]; /* [n_samples]: scores */
  double score[N_METRICS], mean[N_METRICS], interval[N_METRICS];
} evaluated;

static void add_counts(counts *to, const counts *from) {
  double *sum = (double *)to;
  const double *more = (const double *)from;
  for (size_t i = 0; i < N_COUNTS; i++) sum[i] += more[i];
}

static void score(const counts *sum, double out[N_METRICS]) {
  out[BLEU] = vkf_task_bleu(&sum->bleu).score;
  out[CHRF] = vkf_task_chrf(&sum->chrf);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Computes the mean of samples [n], and half the width of the interval with 95% of them. */
static vkf_status estimate(vkf_env *env, evaluated *e, size_t n, int metric) {
  double *sorted = vkf_env_alloc(env, n, sizeof *sorted);
  if (!sorted) return VKF_ERROR_MEMORY;
  e->mean[metric] = 0;
  for (size_t i = 0; i < n; i++) e->mean[metric] += (sorted[i] = e->samples[metric][i]) / (double)n;
  qsort(sorted, n, sizeof *sorted, by_value);
  e->interval[metric] = 0.5 * (sorted[n - n / 40 - 1] - sorted[n / 40]);
  vkf_env_free(env, sorted);
  return VKF_OK;
}

typedef struct evaluation {
  vkf_env *env;
  const char *const *references; /* [n_references][n] */
  size_t n, n_references;
  vkf_evaluate_params params;
} evaluation;

static vkf_status count_all(const evaluation *ev, const char *const *texts, const char *who, evaluated *out) {
  vkf_status st = VKF_OK;
  vkf_evaluator evaluator = {0};
  const char **row = vkf_env_alloc(ev->env, ev->n_references + 1, sizeof *row);
  out->of = vkf_env_alloc(ev->env, ev->n, sizeof *out->of);
  if (!row || !out->of) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_task_evaluator_init(&evaluator, ev->env, ev->n_references));
  for (size_t i = 0; i < ev->n; i++) {
    row[0] = texts[i];
    for (size_t r = 0; r < ev->n_references; r++) row[1 + r] = ev->references[r * ev->n + i];
    for (size_t r = 0; r <= ev->n_references; r++)
      if (!row[r]) VKF_FAIL(ev->env, VKF_ERROR_ARGUMENT, "%s %zu: expected a text, found NULL", who, i + 1);
    st = vkf_task_evaluator_count(&evaluator, row, &out->of[i].bleu, &out->of[i].chrf);
    if (st == VKF_ERROR_ARGUMENT) vkf_env_prefix(ev->env, st, "%s %zu or its references: ", who, i + 1);
    VKF_TRY(st);
    add_counts(&out->sum, &out->of[i]);
  }
  score(&out->sum, out->score);
done:
  vkf_task_evaluator_finish(&evaluator);
  vkf_env_free(ev->env, row);
  return st;
}

/* Scores random samples of the sentences. Every system gets the same samples. */
static vkf_status resample(const evaluation *ev, evaluated *e) {
  pcg64 pcg;
  const size_t n_samples = ev->params.n_samples;
  if (!n_samples) return VKF_OK;
  for (int m = 0; m < N_METRICS; m++) {
    e->samples[m] = vkf_env_alloc(ev->env, n_samples, sizeof *e->samples[m]);
    if (!e->samples[m]) return VKF_ERROR_MEMORY;
  }
  pcg64_seed(&pcg, ev->params.seed);
  for (size_t s = 0; s < n_samples; s++) {
    counts sum = {0};
    double scores[N_METRICS];
    for (size_t i = 0; i < ev->n; i++) add_counts(&sum, &e->of[pcg64_below(&pcg, (uint32_t)ev->n)]);
    score(&sum, scores);
    for (int m = 0; m < N_METRICS; m++) e->samples[m][s] = scores[m];
  }
  for (int m = 0; m < N_METRICS; m++) VKF_CALL(estimate(ev->env, e, n_samples, m));
  return VKF_OK;
}

/* Returns the probability of a difference as large as this one if both systems are equally good (Koehn 2004). */
static double p_value(const evaluated *a, const evaluated *b, size_t n, int m) {
  const double difference = fabs(a->score[m] - b->score[m]);
  double mean = 0;
  size_t larger = 0;
  for (size_t i = 0; i < n; i++) mean += fabs(a->samples[m][i] - b->samples[m][i]) / (double)n;
  for (size_t i = 0; i < n; i++) larger += fabs(a->samples[m][i] - b->samples[m][i]) - mean > difference;
  return (double)(larger + 1) / (double)(n + 1);
}

static void evaluated_finish(vkf_env *env, evaluated *e) {
  for (int m = 0; m < N_METRICS; m++) vkf_env_free(env, e->samples[m]);
  vkf_env_free(env, e->of);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static vkf_status add(vkf_result *result, const char *prefix, const char *name, size_t n, const double *values) {
  char full[64];
  void *data = NULL;
  snprintf(full, sizeof full, "%s%s", prefix, name);
  VKF_CALL(vkf_engine_result_add(result, full, VKF_F64, 1, &n, &data));
  memcpy(data, values, n * sizeof *values);
  return VKF_OK;
}

static vkf_status add_system(vkf_result *result, const char *prefix, const evaluation *ev, const evaluated *e) {
  const vkf_bleu b = vkf_task_bleu(&e->sum.bleu);
  const double intervals[N_METRICS][2] = {{e->mean[BLEU], e->interval[BLEU]}, {e->mean[CHRF], e->interval[CHRF]}},
               lengths[] = {e->sum.bleu.length, e->sum.bleu.reference_length};
  VKF_CALL(add(result, prefix, "bleu", 1, &e->score[BLEU]));
  VKF_CALL(add(result, prefix, "chrf", 1, &e->score[CHRF]));
  VKF_CALL(add(result, prefix, "bleu_precisions", VKF_BLEU_ORDER, b.precisions));
  VKF_CALL(add(result, prefix, "bleu_penalty", 1, &b.penalty));
  VKF_CALL(add(result, prefix, "bleu_lengths", 2, lengths));
  if (!ev->params.n_samples) return VKF_OK;
  VKF_CALL(add(result, prefix, "bleu_interval", 2, intervals[BLEU]));
  return add(result, prefix, "chrf_interval", 2, intervals[CHRF]);
}

static vkf_status evaluate(const evaluation *ev, const char *const *hypotheses, vkf_result **out) {
  vkf_status st = VKF_OK;
  evaluated system = {0}, baseline = {0};
  VKF_TRY(count_all(ev, hypotheses, "hypothesis", &system));
  VKF_TRY(resample(ev, &system));
  VKF_TRY(vkf_engine_result_create(ev->env, out));
  VKF_TRY(add_system(*out, "", ev, &system));
  if (!ev->params.baseline) goto done;
  VKF_TRY(count_all(ev, ev->params.baseline, "baseline", &baseline));
  VKF_TRY(resample(ev, &baseline));
  VKF_TRY(add_system(*out, "baseline_", ev, &baseline));
  const double p[N_METRICS] = {p_value(&baseline, &system, ev->params.n_samples, BLEU),
                               p_value(&baseline, &system, ev->params.n_samples, CHRF)};
  VKF_TRY(add(*out, "", "bleu_p", 1, &p[BLEU]));
  VKF_TRY(add(*out, "", "chrf_p", 1, &p[CHRF]));
done:
  evaluated_finish(ev->env, &system);
  evaluated_finish(ev->env, &baseline);
  if (st) vkf_engine_result_destroy(out);
  return st;
}

vkf_status vkf_evaluate(vkf_context *ctx, const char *const *hypotheses, size_t n, const char *const *references,
                        size_t n_references, const vkf_evaluate_params *params, vkf_result **out) {
  if (!ctx || !out) return VKF_ERROR_ARGUMENT;
  *out = NULL;
  evaluation ev = {.env = &ctx->env, .references = references, .n = n, .n_references = n_references};
  vkf_env_clear(ev.env);
  VKF_CALL(VKF_PARAMS_READ(ev.env, vkf_evaluate_params, params, &ev.params));
  if (!hypotheses || !references || !n || !n_references)
    return vkf_env_fail(ev.env, VKF_ERROR_ARGUMENT, "expected hypotheses and references, found none");
  if (n > UINT32_MAX)
    return vkf_env_fail(ev.env, VKF_ERROR_ARGUMENT, "expected at most %u hypotheses, found %zu", UINT32_MAX, n);
  if (ev.params.baseline && !ev.params.n_samples)
    return vkf_env_fail(ev.env, VKF_ERROR_ARGUMENT, "expected samples for the test against the baseline, found 0");
  return evaluate(&ev, hypotheses, out);
}
