/* sample: see sample.h. */
#include "decode/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP_H_CANDIDATES = 100 }; /* top_h reads only so many of the best ones */

/* Descending; ties by the lower id. */
static int by_score(const void *a, const void *b) {
  const vkf_sample_candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->id < y->id ? -1 : 1;
}

/* Returns the k-th largest score, 1 <= k <= n (Hoare 1961, "Find"). Reorders the candidates. */
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

/* Moves the candidates with at least this score to the front; returns how many. */
static uint32_t keep_from(vkf_sample_candidate *c, uint32_t n, float least) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++)
    if (c[i].score >= least) c[kept++] = c[i];
  return kept;
}

/* Sorts the candidates, best first, and computes their weights. */
static void weigh(const vkf_generation_config *config, vkf_sample_candidate *c, uint32_t n) {
  qsort(c, n, sizeof *c, by_score);
  for (uint32_t i = 0; i < n; i++) c[i].weight = exp(((double)c[i].score - c[0].score) / config->temperature);
}

/* ---- rules: each keeps at least one of the candidates, which are sorted and have weights ------------------------- */

static double total_of(const vkf_sample_candidate *c, uint32_t n) {
  double total = 0;
  for (uint32_t i = 0; i < n; i++) total += c[i].weight;
  return total;
}

/* Returns -log p. total: the weight of all candidates. */
static double surprise(const vkf_sample_candidate *c, double total) {
  return -log(c->weight / total);
}

/* Returns the candidate's term of the entropy, -p log p. */
static double entropy_term(const vkf_sample_candidate *c, double total) {
  return c->weight > 0 ? c->weight / total * surprise(c, total) : 0;
}

static double entropy_of(const vkf_sample_candidate *c, uint32_t n) {
  const double total = total_of(c, n);
  double entropy = 0;
  for (uint32_t i = 0; i < n; i++) entropy += entropy_term(&c[i], total);
  return entropy;
}

/* Keeps the best candidates whose terms of the entropy add up to at most top_h of it (Potraghloo et al. 2025). */
static uint32_t keep_top_h(const vkf_sample_candidate *c, uint32_t n, double top_h) {
  const double total = total_of(c, n), most = top_h * entropy_of(c, n);
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum += entropy_term(&c[i], total);
    if (i > 0 && sum > most) return i;
  }
  return n;
}

/* Keeps the fewest best candidates that have top_p of all weight (Holtzman et al. 2020, section 3.1). */
static uint32_t keep_top_p(const vkf_sample_candidate *c, uint32_t n, double top_p) {
  const double total = total_of(c, n);
  double before = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0 && before >= top_p * total) return i;
    before += c[i].weight;
  }
  return n;
}

/* Keeps candidates with at least min_p of the best one's probability. */
static uint32_t keep_min_p(const vkf_sample_candidate *c, uint32_t n, double min_p) {
  uint32_t kept = 1;
  while (kept < n && c[kept].weight >= min_p) kept++;
  return kept;
}

/* Keeps the fewest candidates with typical_p of all weight whose surprise is nearest to its mean, the entropy, and
 * those that tie with the farthest of them (Meister et al. 2023, section 4). They are a range of the sorted candidates,
 * which grows towards the nearer side and is moved to the front. */
static uint32_t keep_typical(vkf_sample_candidate *c, uint32_t n, double typical_p) {
  const double total = total_of(c, n), entropy = entropy_of(c, n);
  uint32_t begin = 0;
  while (begin < n && surprise(&c[begin], total) < entropy) begin++;
  uint32_t end = begin;
  double held = 0, farthest = 0;
  while (end - begin < n) {
    const double below = begin > 0 ? entropy - surprise(&c[begin - 1], total) : INFINITY,
                 above = end < n ? surprise(&c[end], total) - entropy : INFINITY, next = fmin(below, above);
    if (end > begin && held >= typical_p * total && next > farthest) break;
    farthest = next;
    held += begin > 0 && below <= above ? c[--begin].weight : c[end++].weight;
  }
  memmove(c, c + begin, (end - begin) * sizeof *c);
  return end - begin;
}

/* Keeps candidates with a probability of at least `least`, and in any case the best one and its ties. */
static uint32_t keep_probable(const vkf_sample_candidate *c, uint32_t n, double least) {
  const double total = total_of(c, n);
  uint32_t kept = 1;
  while (kept < n && (c[kept].weight >= least * total || c[kept].score == c[0].score)) kept++;
  return kept;
}

/* Keeps candidates above a cutoff that falls as the entropy rises (Hewitt et al. 2022, section 4). */
static uint32_t keep_eta(const vkf_sample_candidate *c, uint32_t n, double cutoff) {
  return keep_probable(c, n, fmin(cutoff, sqrt(cutoff) * exp(-entropy_of(c, n))));
}

static int32_t draw(const vkf_sample_candidate *c, uint32_t n, double unit, double *log_prob) {
  const double total = total_of(c, n);
  double sum = 0;
  uint32_t at = 0;
  while (sum += c[at].weight, at + 1 < n && sum <= unit * total) at++; /* the last one if rounding falls short */
  *log_prob = log(c[at].weight / total);
  return c[at].id;
}

int32_t vkf_decode_sample(const vkf_generation_config *config, const float *scores, uint32_t n_vocab, double unit,
                          vkf_sample_candidate *c, double *log_prob) {
  uint32_t n = 0, top_k = (uint32_t)VKF_MIN(config->top_k, (double)n_vocab);
  for (uint32_t id = 0; id < n_vocab; id++)
    if (scores[id] > -INFINITY) c[n++] = (vkf_sample_candidate){scores[id], 0, (int32_t)id};
  if (n == 0) return VKF_NO_TOKEN;
  if (config->top_h > 0) {
    const uint32_t most = VKF_MIN(n, (uint32_t)TOP_H_CANDIDATES);
    vkf_decode_best(c, n, most);
    weigh(config, c, most);
    n = keep_top_h(c, most, config->top_h);
  }
  if (top_k > 0 && top_k < n) n = keep_from(c, n, kth_largest(c, n, top_k));
  weigh(config, c, n);
  if (config->top_p < 1) n = keep_top_p(c, n, config->top_p);
  if (config->min_p > 0) n = keep_min_p(c, n, config->min_p);
  if (config->typical_p < 1) n = keep_typical(c, n, config->typical_p);
  if (config->epsilon_cutoff > 0) n = keep_probable(c, n, config->epsilon_cutoff);
  if (config->eta_cutoff > 0) n = keep_eta(c, n, config->eta_cutoff);
  return draw(c, n, unit, log_prob);
}

void vkf_decode_best(vkf_sample_candidate *c, uint32_t n, uint32_t k) {
  if (k < n) n = keep_from(c, n, kth_largest(c, n, k));
  qsort(c, n, sizeof *c, by_score);
}

double vkf_decode_sample_unit(uint64_t seed, uint64_t line, uint32_t copy, uint32_t step) {
  return vkf_rng_unit(seed, line, (uint64_t)copy << 32 | step);
}
