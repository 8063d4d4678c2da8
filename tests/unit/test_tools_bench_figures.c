/* What bench computes from times: the median and the spread, roofs and shares of them. The times are invented. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../tools/bench_figures.h"

static const bench_peaks peaks = {.gflops = 100, .matrix_gflops = 500, .gbytes = 10, .cached_gbytes = 50};

/* Checks a share, to a part in a million, and its roof. */
static void share_is(const vkf_bench_row *row, bool cold, double share, bench_roof roof) {
  bench_roof found;
  const double value = bench_share(&peaks, row, cold, &found);
  assert_int_equal(found, roof);
  assert_true(fabs(value - share) < 1e-6);
}

static void the_lowest_roof_counts(void **state) {
  (void)state;
  /* 1e6 flops take 10,000 ns; 1e5 bytes 2,000 ns of caches, 10,000 ns of memory; 5e5 bytes 10,000 ns of caches. */
  share_is(&(vkf_bench_row){.n_runs = 1, .flops = 1e6, .bytes = 1e5, .median_ns = 40000}, false, 0.25,
           BENCH_MULTIPLY_ADDS);
  share_is(&(vkf_bench_row){.n_runs = 1, .flops = 1e4, .bytes = 1e5, .median_ns = 4000}, false, 0.5, BENCH_CACHES);
  share_is(&(vkf_bench_row){.n_runs = 1, .flops = 1e4, .bytes = 1e5, .median_ns = 40000}, true, 0.25, BENCH_MEMORY);
  share_is(&(vkf_bench_row){.n_runs = 1, .bytes = 1e5, .median_ns = 2000}, false, 1, BENCH_CACHES);
  const vkf_bench_row coopmat = {
      .variant = "matmul-coopmat", .n_runs = 1, .flops = 1e6, .bytes = 1e4, .median_ns = 4000};
  share_is(&coopmat, false, 0.5, BENCH_MATRIX_CORES);
  const double large = BENCH_MEMORY_BYTES;
  share_is(&(vkf_bench_row){.n_runs = 1, .bytes = large, .median_ns = large / 5}, false, 0.5, BENCH_MEMORY);
}

static void no_share_without_a_roof(void **state) {
  (void)state;
  static const bench_peaks none = {0};
  const vkf_bench_row row = {.n_runs = 1, .flops = 1e6, .bytes = 1e5, .median_ns = 40000};
  bench_roof roof;
  assert_true(bench_share(&none, &row, false, &roof) == 0);
  assert_int_equal(roof, BENCH_NO_ROOF);
  /* faster than the roofs allow, and not timed */
  share_is(&(vkf_bench_row){.n_runs = 1, .flops = 1e6, .bytes = 1e5, .median_ns = 9000}, false, 0, BENCH_NO_ROOF);
  share_is(&(vkf_bench_row){.n_runs = 0, .flops = 1e6, .bytes = 1e5}, false, 0, BENCH_NO_ROOF);
}

static void roofs_are_the_fastest_runs(void **state) {
  (void)state;
  static const vkf_bench_row rows[] = {
      {.variant = "fma", .n_runs = 5, .flops = 1000, .bytes = 9, .min_ns = 10, .median_ns = 20},
      {.variant = "multiply-add", .n_runs = 5, .flops = 1000, .bytes = 9, .min_ns = 20, .median_ns = 20},
      {.variant = "matrix", .n_runs = 5, .flops = 8000, .bytes = 9, .min_ns = 10, .median_ns = 20},
      {.variant = "copy", .n_runs = 5, .bytes = 1000, .min_ns = 100, .median_ns = 200},
      {.variant = "read", .n_runs = 5, .bytes = 1000, .min_ns = 50, .median_ns = 500},
      {.variant = "read-cached", .n_runs = 5, .bytes = 1000, .min_ns = 5, .median_ns = 6},
      {.variant = "read-texels-cached", .n_runs = 0, .bytes = 1000, .min_ns = 1},
  };
  bench_peaks found = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) bench_peaks_add(&found, &rows[i]);
  assert_true(found.gflops == 100 && found.matrix_gflops == 800 && found.gbytes == 20 && found.cached_gbytes == 200);
}

static void the_middle_and_the_spread(void **state) {
  (void)state;
  double twenty[20], one[] = {7};
  for (int i = 0; i < 20; i++) twenty[i] = 20 - i;
  vkf_bench_row row = {.n_runs = 20};
  bench_summarize(&row, twenty);
  assert_true(row.min_ns == 1 && row.median_ns == 11 && row.p90_ns == 19);
  row.n_runs = 1;
  bench_summarize(&row, one);
  assert_true(row.min_ns == 7 && row.median_ns == 7 && row.p90_ns == 7);
  row = (vkf_bench_row){.n_runs = 0};
  bench_summarize(&row, one);
  assert_true(row.min_ns == 0 && row.p90_ns == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_lowest_roof_counts),
      cmocka_unit_test(no_share_without_a_roof),
      cmocka_unit_test(roofs_are_the_fastest_runs),
      cmocka_unit_test(the_middle_and_the_spread),
  };
  return cmocka_run_group_tests_name("bench_figures", tests, NULL, NULL);
}
