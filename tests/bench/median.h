/* Times of the programs in this folder: a clock in ms, and the median. */
#ifndef VKF_BENCH_MEDIAN_H
#define VKF_BENCH_MEDIAN_H

#include <stdlib.h>
#include <time.h>

static double clock_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Sorts them. */
static double median(double *ms, size_t n) {
  qsort(ms, n, sizeof *ms, compare);
  return ms[n / 2];
}

#endif
