/* bench: figures computed from times: their median and spread, and the share of the device's measured roof.
 *
 * Owns nothing. It is a header so that a test can call it with invented times.
 */
#ifndef VKFORMER_TOOLS_BENCH_FIGURES_H
#define VKFORMER_TOOLS_BENCH_FIGURES_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <vkformer/lab.h>

/* The roofs: what the rows of the problem "peak" reached in their fastest runs; 0: not measured. */
typedef struct bench_peaks {
  double gflops;                /* multiply-adds in registers */
  double matrix_gflops;         /* of matrix cores */
  double gbytes, cached_gbytes; /* moved to or from memory, and read from caches */
} bench_peaks;

/* What limits a row. */
typedef enum bench_roof {
  BENCH_NO_ROOF,
  BENCH_MULTIPLY_ADDS,
  BENCH_MATRIX_CORES,
  BENCH_CACHES,
  BENCH_MEMORY
} bench_roof;

/* Operands of at least so many bytes count as read from memory, smaller ones as read from caches: the copies of "peak"
 * that measure memory are this large, larger on GPUs. */
#define BENCH_MEMORY_BYTES (32.0 * 1024 * 1024)

/* Adds a row of the problem "peak". Counts its fastest run, because a disturbed run does not lower a roof. */
static inline void bench_peaks_add(bench_peaks *peaks, const vkf_bench_row *row) {
  if (row->n_runs == 0) return;
  if (!strcmp(row->variant, "matrix"))
    peaks->matrix_gflops = fmax(peaks->matrix_gflops, row->flops / row->min_ns);
  else if (row->flops > 0)
    peaks->gflops = fmax(peaks->gflops, row->flops / row->min_ns);
  else if (strstr(row->variant, "cached"))
    peaks->cached_gbytes = fmax(peaks->cached_gbytes, row->bytes / row->min_ns);
  else
    peaks->gbytes = fmax(peaks->gbytes, row->bytes / row->min_ns);
}

/* Returns the median's share of the lowest roof over a row, and which roof that is. cold: its operands were in no
 * cache. 0 and BENCH_NO_ROOF: there is none, or the row is above its roof, which was then measured while the machine
 * was slower, so that a share of it means nothing. */
static inline double bench_share(const bench_peaks *peaks, const vkf_bench_row *row, bool cold, bench_roof *roof) {
  const bool is_memory = cold || row->bytes >= BENCH_MEMORY_BYTES;
  const double gbytes = is_memory ? peaks->gbytes : fmax(peaks->cached_gbytes, peaks->gbytes);
  const bool by_matrices = row->variant && strstr(row->variant, "coopmat") && peaks->matrix_gflops > 0;
  const double gflops = by_matrices ? peaks->matrix_gflops : peaks->gflops;
  *roof = BENCH_NO_ROOF;
  if (row->n_runs == 0 || gflops <= 0 || gbytes <= 0) return 0;
  const double least_ns = fmax(row->flops / gflops, row->bytes / gbytes);
  if (!(least_ns <= row->median_ns)) return 0;
  *roof = row->flops / gflops < row->bytes / gbytes ? (is_memory ? BENCH_MEMORY : BENCH_CACHES)
          : by_matrices                             ? BENCH_MATRIX_CORES
                                                    : BENCH_MULTIPLY_ADDS;
  return least_ns / row->median_ns;
}

static inline int bench_by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts the times of row->n_runs runs and sets the minimum, the median and the 90th percentile. */
static inline void bench_summarize(vkf_bench_row *row, double *ns) {
  const uint32_t n = row->n_runs;
  if (n == 0) return;
  qsort(ns, n, sizeof *ns, bench_by_value);
  row->min_ns = ns[0];
  row->median_ns = ns[n / 2];
  row->p90_ns = ns[(uint64_t)n * 9 / 10];
}

#endif
