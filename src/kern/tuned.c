/* tuned: see tuned.h. */
#include "kern/tuned.h"

#include <math.h>

/* Few rows are a matter of single rows; from here on a tile hardly sees a difference of less than two. */
#define EXACT_SIZES 16

/* Whatever their formats: the same kernels read them. */
static bool packings_alike(const vkf_weight_packing *a, const vkf_weight_packing *b) {
  return a->layout == b->layout && a->columns == b->columns;
}

/* log2(tuned / wanted), infinite where one does not speak for the other. */
static double distance(uint32_t tuned, uint32_t wanted) {
  if (tuned == wanted) return 0;
  if (tuned < wanted || wanted < EXACT_SIZES || tuned > 2 * (uint64_t)wanted) return INFINITY;
  return log2((double)tuned / wanted);
}

static double problem_distance(const vkf_problem *tuned, const vkf_problem *wanted) {
  if (tuned->op != wanted->op || tuned->packing.format != wanted->packing.format || tuned->k != wanted->k ||
      tuned->v != wanted->v)
    return INFINITY;
  const bool is_attention = wanted->op == VKF_OP_ATTENTION || wanted->op == VKF_OP_ATTENTION_WEIGHTS;
  if (!is_attention) return tuned->n == wanted->n ? distance(tuned->m, wanted->m) : INFINITY;
  const uint32_t tuned_heads = tuned->heads * tuned->batch, heads = wanted->heads * wanted->batch;
  return distance(tuned->m, wanted->m) + distance(tuned->n, wanted->n) + fabs(log2((double)tuned_heads / heads)) / 64;
}

const vkf_problem *vkf_kern_tuned_near(const vkf_tuned *tuned, const vkf_problem *problem) {
  const vkf_problem *near = NULL;
  double best = INFINITY;
  for (size_t i = 0; tuned && i < tuned->n_times; i++) {
    const double d = problem_distance(&tuned->times[i].problem, problem);
    if (tuned->times[i].probed || !(d < best)) continue;
    best = d;
    near = &tuned->times[i].problem;
  }
  return near;
}

static bool same_sizes(const vkf_problem *a, const vkf_problem *b) {
  return a->op == b->op && a->m == b->m && a->n == b->n && a->k == b->k && a->v == b->v && a->batch == b->batch &&
         a->heads == b->heads && a->packing.format == b->packing.format;
}

const vkf_tuned_time *vkf_kern_tuned_find(const vkf_tuned *tuned, const vkf_problem *near, const vkf_variant *variant) {
  for (size_t i = 0; near && i < tuned->n_times; i++)
    if (tuned->times[i].variant == variant && same_sizes(&tuned->times[i].problem, near)) return &tuned->times[i];
  return NULL;
}

/* The best time of a matmul problem, of one packing or (NULL) of all; 0: none. */
static double best_ns(const vkf_tuned *tuned, const vkf_problem *problem, const vkf_weight_packing *packing) {
  double best = 0;
  for (size_t i = 0; i < tuned->n_times; i++) {
    const vkf_tuned_time *t = &tuned->times[i];
    if (!same_sizes(&t->problem, problem) || (packing && !packings_alike(&t->problem.packing, packing))) continue;
    if (best == 0 || t->ns < best) best = t->ns;
  }
  return best;
}

double vkf_kern_tuned_slowdown(const vkf_tuned *tuned, uint32_t n, uint32_t k, const vkf_weight_packing *packing) {
  double sum = 0;
  size_t n_problems = 0;
  for (size_t i = 0; tuned && i < tuned->n_times; i++) {
    const vkf_problem *p = &tuned->times[i].problem;
    size_t earlier = 0;
    if (p->op != VKF_OP_MATMUL || (n && (p->n != n || p->k != k || p->packing.format != packing->format))) continue;
    while (earlier < i && !same_sizes(&tuned->times[earlier].problem, p)) earlier++;
    if (earlier < i) continue; /* each problem counts once */
    const double own = best_ns(tuned, p, packing);
    if (own <= 0) continue;
    sum += log(own / best_ns(tuned, p, NULL));
    n_problems++;
  }
  return n_problems ? exp(sum / (double)n_problems) : 0;
}
