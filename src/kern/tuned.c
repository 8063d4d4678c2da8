/* tuned: see tuned.h. */
#include "kern/tuned.h"

#include <math.h>

/* Below this size every row matters; above it, tiles hardly notice a factor of less than two. */
#define EXACT_SIZES 16

/* Ignores the formats: the same kernels read them. */
static bool packings_alike(const vkf_weight_packing *a, const vkf_weight_packing *b) {
  return a->layout == b->layout && a->columns == b->columns;
}

/* Returns log2(tuned / wanted), or infinity if a time of one size says nothing about the other. */
static double distance(uint32_t tuned, uint32_t wanted) {
  if (tuned == wanted) return 0;
  if (tuned < wanted || wanted < EXACT_SIZES || tuned > 2 * (uint64_t)wanted) return INFINITY;
  return log2((double)tuned / wanted);
}

/* Returns the second size of a row of norm or top_k, besides its width. */
static uint32_t row_number(const vkf_problem *p) {
  return p->op == VKF_OP_NORM ? p->norm.whole_width : p->op == VKF_OP_TOP_K ? p->top_k.k : 0;
}

static double problem_distance(const vkf_problem *tuned, const vkf_problem *wanted) {
  if (tuned->op != wanted->op || tuned->packing.format != wanted->packing.format) return INFINITY;
  if (wanted->op == VKF_OP_MATMUL) {
    if (tuned->matmul.n != wanted->matmul.n || tuned->matmul.k != wanted->matmul.k) return INFINITY;
    return distance(tuned->matmul.m, wanted->matmul.m);
  }
  if (vkf_op_is_attention(wanted->op)) {
    const uint32_t tuned_heads = tuned->attention.heads * tuned->attention.batch;
    const uint32_t heads = wanted->attention.heads * wanted->attention.batch;
    if (tuned->attention.key_width != wanted->attention.key_width ||
        tuned->attention.value_width != wanted->attention.value_width)
      return INFINITY;
    return distance(tuned->attention.queries, wanted->attention.queries) +
           distance(tuned->attention.keys, wanted->attention.keys) + fabs(log2((double)tuned_heads / heads)) / 64;
  }
  if (tuned->rows.width != wanted->rows.width || row_number(tuned) != row_number(wanted)) return INFINITY;
  return distance(tuned->rows.rows, wanted->rows.rows);
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
  return problem_distance(a, b) == 0;
}

const vkf_tuned_time *vkf_kern_tuned_find(const vkf_tuned *tuned, const vkf_problem *near, const vkf_variant *variant) {
  for (size_t i = 0; near && i < tuned->n_times; i++)
    if (tuned->times[i].variant == variant && same_sizes(&tuned->times[i].problem, near)) return &tuned->times[i];
  return NULL;
}

const vkf_tuned_time *vkf_kern_tuned_next(const vkf_tuned *tuned, const vkf_problem *near,
                                          const vkf_tuned_time *after) {
  for (size_t i = after ? (size_t)(after - tuned->times) + 1 : 0; near && i < tuned->n_times; i++)
    if (same_sizes(&tuned->times[i].problem, near)) return &tuned->times[i];
  return NULL;
}

/* Returns the best time of a matmul problem, of one packing or (NULL) of all; 0: none. */
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
    if (p->op != VKF_OP_MATMUL || (n && (p->matmul.n != n || p->matmul.k != k || p->packing.format != packing->format)))
      continue;
    while (earlier < i && !same_sizes(&tuned->times[earlier].problem, p)) earlier++;
    if (earlier < i) continue; /* each problem counts once */
    const double own = best_ns(tuned, p, packing);
    if (own <= 0) continue;
    sum += log(own / best_ns(tuned, p, NULL));
    n_problems++;
  }
  return n_problems ? exp(sum / (double)n_problems) : 0;
}
