/* bench: rows of results, as a table for people and as JSON for programs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

tool_sizes bench_sizes(const tool_sizes *given, size_t fallback) {
  return given->n ? *given : (tool_sizes){.at = {fallback}, .n = 1};
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void bench_summarize(vkf_bench_row *row, double *ns) {
  uint32_t n = row->n_runs;
  if (n == 0) return;
  qsort(ns, n, sizeof *ns, by_value);
  row->min_ns = ns[0];
  row->median_ns = ns[n / 2];
  row->p90_ns = ns[n * 9 / 10 < n ? n * 9 / 10 : n - 1];
}

static json_t *row_json(const vkf_bench_row *row, double gflops, double gbytes) {
  return json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:i, s:i}", "problem", row->problem,
                   "variant", row->variant, "clock", row->clock, "runs", (int)row->n_runs, "min_us", row->min_ns / 1e3,
                   "median_us", row->median_ns / 1e3, "p90_us", row->p90_ns / 1e3, "flops", row->flops, "bytes",
                   row->bytes, "gflops", gflops, "gbytes", gbytes, "ratio", tool_json_real(row->ratio), "workgroup",
                   (int)row->workgroup, "shared_bytes", (int)row->shared_bytes);
}

static void print_row(bench *b, const vkf_bench_row *row, double gflops, double gbytes, const json_t *more) {
  if (strcmp(b->problem, row->problem) != 0) {
    snprintf(b->problem, sizeof b->problem, "%s", row->problem);
    printf("%s\n%-34s %6s %11s %11s %11s %9s %8s %10s\n", row->problem, "variant", "runs", "min us", "median us",
           "p90 us", "GFLOP/s", "GB/s", "err/bound");
  }
  if (!(row->ratio <= 1)) {
    printf("%-34s WRONG: err/bound %.3g, not timed\n", row->variant, row->ratio);
    return;
  }
  printf("%-34s %6u %11.1f %11.1f %11.1f %9.2f %8.2f %10.2e", row->variant, row->n_runs, row->min_ns / 1e3,
         row->median_ns / 1e3, row->p90_ns / 1e3, gflops, gbytes, row->ratio);
  const json_t *tokens = json_object_get(more, "tokens_per_s");
  if (tokens) printf("  %.1f tokens/s", json_real_value(tokens));
  putchar('\n');
  fflush(stdout);
}

void bench_add(bench *b, const vkf_bench_row *row, json_t *more) {
  double gflops = row->n_runs ? row->flops / row->median_ns : 0, gbytes = row->n_runs ? row->bytes / row->median_ns : 0;
  json_t *json = row_json(row, gflops, gbytes);
  b->wrong = b->wrong || !(row->ratio <= 1);
  tool_progress_end(&b->session);
  if (!b->args->json) print_row(b, row, gflops, gbytes, more);
  if (more) json_object_update(json, more);
  json_decref(more);
  json_array_append_new(b->rows, json);
}

int bench_print(bench *b) {
  const vkf_device_info *info = vkf_device_get_info(b->session.device);
  if (!b->args->json) return TOOL_OK;
  return tool_print_json(json_pack("{s:s, s:s, s:s, s:O}", "device", info->name, "driver", info->driver, "version",
                                   vkf_version(), "rows", b->rows));
}
