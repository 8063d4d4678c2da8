/* bench: prints what a driver reports about a kernel (registers, spills, instructions), under its row and in JSON.
 *
 * Owns nothing; names and numbers stay as the driver gives them. It is a header so that a test can call it with
 * invented numbers: not every driver reports any.
 */
#ifndef VKFORMER_TOOLS_BENCH_STATISTICS_H
#define VKFORMER_TOOLS_BENCH_STATISTICS_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include <vkformer/lab.h>

/* Prints a line under the row; none if the driver reports nothing. */
static inline void bench_statistics_print(const vkf_bench_row *row, FILE *to) {
  for (size_t i = 0; i < row->n_statistics; i++)
    fprintf(to, "%s%s %.12g%s", i ? ", " : "  the driver: ", row->statistics[i].name, row->statistics[i].value,
            i + 1 == row->n_statistics ? "\n" : "");
}

/* Returns {"Register Count": 64, ...}, with null for NaN and infinities. */
static inline json_t *bench_statistics_json(const vkf_bench_row *row) {
  json_t *all = json_object();
  for (size_t i = 0; i < row->n_statistics; i++) {
    const double value = row->statistics[i].value;
    const bool is_whole = fabs(value) < 0x1p53 && value == floor(value);
    json_object_set_new(all, row->statistics[i].name,
                        is_whole          ? json_integer((json_int_t)value)
                        : isfinite(value) ? json_real(value)
                                          : json_null());
  }
  return all;
}

#endif
