/* The softmax of logits in double: tests compare the scores of commands and functions with it. */
#ifndef VKF_TESTS_SUPPORT_SOFTMAX_H
#define VKF_TESTS_SUPPORT_SOFTMAX_H

#include <math.h>
#include <stddef.h>

/* Returns element `at` of the softmax of logits [n]. */
static inline double softmax_of(const float *logits, size_t n, size_t at) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += exp((double)logits[i] - logits[at]);
  return 1 / sum;
}

#endif
