/* sample: see sample.h. */
#include "decode/sample.h"

#include <math.h>
#include <stdlib.h>

/* Descending; of equals the lower id first. */
static int by_score(const void *a, const void *b) {
  const vkf_sample_candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->id < y->id ? -1 : 1;
}

/* The k-th largest score, 1 <= k <= n (Hoare 1961, "Find"); the candidates change places. */
static float kth_largest(vkf_sample_candidate *c, uint32_t n, uint32_t k) {
  uint32_t low = 0, high = n - 1, at = k - 1;
  while (low < high) {
    float pivot = c[low + (high - low) / 2].score;
    int64_t i = low, j = high;
    while (i <= j) {
      while (c[i].score > pivot) i++;
      while (c[j].score < pivot) j--;
      if (i > j) break;
      vkf_sample_candidate swap = c[i];
      c[i++] = c[j];
      c[j--] = swap;
    }
    if ((int64_t)at <= j) {
      high = (uint32_t)j;
    } else if ((int64_t)at >= i) {
      low = (uint32_t)i;
    } else {
      break;
    }
  }
  return c[at].score;
}

/* Candidates with at least this score; returns how many. */
static uint32_t keep_from(vkf_sample_candidate *c, uint32_t n, float least) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++)
    if (c[i].score >= least) c[kept++] = c[i];
  return kept;
}

/* The fewest best candidates that hold top_p of all weight (Holtzman et al. 2020, section 3.1), at least one. They are
 * sorted. */
static uint32_t keep_top_p(const vkf_sample_candidate *c, uint32_t n, double top_p) {
  double total = 0, before = 0;
  for (uint32_t i = 0; i < n; i++) total += c[i].weight;
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0 && before >= top_p * total) return i;
    before += c[i].weight;
  }
  return n;
}

/* Candidates with at least min_p of the best one's probability; they are sorted. */
static uint32_t keep_min_p(const vkf_sample_candidate *c, uint32_t n, double min_p) {
  uint32_t kept = 1;
  while (kept < n && c[kept].weight >= min_p) kept++;
  return kept;
}

static int32_t draw(const vkf_sample_candidate *c, uint32_t n, double unit, double *log_prob) {
  double total = 0, sum = 0;
  uint32_t at = 0;
  for (uint32_t i = 0; i < n; i++) total += c[i].weight;
  while (sum += c[at].weight, at + 1 < n && sum <= unit * total) at++; /* the last one where sums are rounded */
  *log_prob = log(c[at].weight / total);
  return c[at].id;
}

int32_t vkf_decode_sample(const vkf_generation_config *config, const float *scores, uint32_t n_vocab, double unit,
                          vkf_sample_candidate *c, double *log_prob) {
  uint32_t n = 0, top_k = (uint32_t)VKF_MIN(config->top_k, (double)n_vocab);
  for (uint32_t id = 0; id < n_vocab; id++)
    if (scores[id] > -INFINITY) c[n++] = (vkf_sample_candidate){scores[id], 0, (int32_t)id};
  if (n == 0) return VKF_NO_TOKEN;
  if (top_k > 0 && top_k < n) n = keep_from(c, n, kth_largest(c, n, top_k));
  qsort(c, n, sizeof *c, by_score);
  for (uint32_t i = 0; i < n; i++) c[i].weight = exp(((double)c[i].score - c[0].score) / config->temperature);
  if (config->top_p < 1) n = keep_top_p(c, n, config->top_p);
  if (config->min_p > 0) n = keep_min_p(c, n, config->min_p);
  return draw(c, n, unit, log_prob);
}

void vkf_decode_best(vkf_sample_candidate *c, uint32_t n, uint32_t k) {
  if (k < n) n = keep_from(c, n, kth_largest(c, n, k));
  qsort(c, n, sizeof *c, by_score);
}

double vkf_decode_sample_unit(uint64_t seed, uint64_t line, uint32_t copy, uint32_t step) {
  return vkf_rng_unit(seed, line, (uint64_t)copy << 32 | step);
}
