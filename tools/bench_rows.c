/* bench: prints rows of results as a table and keeps them as JSON. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "bench_statistics.h"

tool_sizes bench_sizes(const tool_sizes *given, size_t fallback) {
  return given->n ? *given : (tool_sizes){.at = {fallback}, .n = 1};
}

static bool is_of(const tool_option *option, const tool_option_group *group) {
  return option >= group->options && option < group->options + group->n_options;
}

/* Whether the command that repeats a row needs this option. For a kernel's row the problem, --variant and --tile
 * replace most options. For a model's row b->repeat has its size out of several. */
static bool is_repeated(const tool_option *option, bool is_kernel) {
  static const size_t never[] = {offsetof(tool_args, json),    offsetof(tool_args, html),
                                 offsetof(tool_args, merges),  offsetof(tool_args, profile),
                                 offsetof(tool_args, verbose), offsetof(tool_args, batches),
                                 offsetof(tool_args, lengths)};
  static const size_t of_kernels[] = {offsetof(tool_args, no_roofs), offsetof(tool_args, seconds),
                                      offsetof(tool_args, cold), offsetof(tool_args, shader)};
  for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
    if (option->offset == never[i]) return false;
  for (size_t i = 0; i < sizeof of_kernels / sizeof of_kernels[0]; i++)
    if (option->offset == of_kernels[i]) return true;
  return !is_kernel || is_of(option, &tool_device_options) || is_of(option, &tool_driver_options);
}

/* Writes the command that repeats a row. A kernel with another tile is repeated together with the kernel that it is
 * derived from. */
static void make_command(const bench *b, const vkf_bench_row *row, char *text, size_t size) {
  const bool is_kernel = row->base || strncmp(b->repeat, "peak", 4) == 0 || strncmp(b->repeat, "overhead", 8) == 0;
  snprintf(text, size, "vkformer bench %s%s%s%s%s", b->repeat, row->base ? " --variant " : "",
           row->base ? row->base : "", row->tile ? " --tile " : "", row->tile ? row->tile : "");
  for (size_t i = 0; i < b->args->n_given; i++) {
    const tool_given *g = &b->args->given[i];
    if (!is_repeated(g->option, is_kernel)) continue;
    size_t n = strlen(text);
    snprintf(text + n, size - n, " --%s", g->option->name);
    if (g->text) tool_append_word(text, size, g->text);
  }
}

/* Returns an element of a result and what it should be, in the form of `validate --bisect`. */
static json_t *element_json(const vkf_bench_element *e) {
  json_t *shape = json_array(), *at = json_array();
  for (uint32_t i = 0; i < e->rank; i++) {
    json_array_append_new(shape, json_integer(e->shape[i]));
    json_array_append_new(at, json_integer(e->at[i]));
  }
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "output", e->output, "shape", shape, "element", at,
                   "expected", tool_json_real(e->expected), "found", tool_json_real(e->found), "error",
                   tool_json_real(fabs(e->found - e->expected)), "bound", tool_json_real(e->bound));
}

/* Returns a row's share of its roof; the rows of "peak" are roofs themselves and have none. */
static double share_of(const bench *b, const vkf_bench_row *row, bench_roof *roof) {
  static const bench_peaks none = {0};
  return bench_share(strcmp(row->problem, "peak") == 0 ? &none : &b->peaks, row, b->args->cold, roof);
}

static const char *const roof_names[] = {NULL, "multiply-adds", "matrix cores", "caches", "memory"};

static json_t *row_json(const bench *b, const vkf_bench_row *row, double gflops, double gbytes) {
  char command[4096];
  bench_roof roof;
  const double share = share_of(b, row, &roof);
  make_command(b, row, command, sizeof command);
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:s?, s:o}", "problem",
                row->problem, "variant", row->variant, "clock", vkf_clock_name(row->clock), "runs", (int)row->n_runs,
                "min_us", tool_json_real(row->min_ns / 1e3), "median_us", tool_json_real(row->median_ns / 1e3),
                "p90_us", tool_json_real(row->p90_ns / 1e3), "flops", tool_json_real(row->flops), "bytes",
                tool_json_real(row->bytes), "gflops", tool_json_real(gflops), "gbytes", tool_json_real(gbytes), "ratio",
                tool_json_real(row->ratio), "workgroup", (int)row->workgroup, "shared_bytes", (int)row->shared_bytes,
                "peak_share", roof ? tool_json_real(share) : json_null(), "roof", roof_names[roof], "command",
                tool_json_text(command, strlen(command)));
  if (!(row->ratio <= 1) && row->worst.output) json_object_set_new(json, "worst", element_json(&row->worst));
  return json;
}

/* Writes a figure, or "-" if there is none. */
static const char *figure_text(const char *format, double figure, char text[24]) {
  snprintf(text, 24, figure > 0 ? format : "-", figure);
  return text;
}

static const char *const roof_formats[] = {"-", "%.0f%% m", "%.0f%% x", "%.0f%% c", "%.0f%% M"};

static void print_list(const uint32_t *numbers, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) printf("%s%u", i ? ", " : "[", numbers[i]);
  printf("]");
}

static void print_element(const vkf_bench_element *e) {
  if (!e->output) return;
  printf("  element ");
  print_list(e->at, e->rank);
  printf(" of %s ", e->output);
  print_list(e->shape, e->rank);
  printf(": expected %.9g, found %.9g, error %.3g, bound %.3g\n", e->expected, e->found, fabs(e->found - e->expected),
         e->bound);
}

/* Prints the problem, if it is a new one, and the names of the columns. */
static void print_heading(bench *b, const char *problem) {
  if (strcmp(b->problem, problem) == 0) return;
  snprintf(b->problem, sizeof b->problem, "%s", problem);
  printf("%s\n%-40s %6s %11s %11s %11s %9s %8s %6s %10s %s\n", problem, "variant", "runs", "min us", "median us",
         "p90 us", "GFLOP/s", "GB/s", "roof", "err/bound", "clock");
}

void bench_refuse(bench *b, const vkf_bench_row *row) {
  tool_progress_end(&b->session);
  json_array_append_new(
      b->refused, json_pack("{s:s, s:s, s:s}", "problem", row->problem, "tile", row->tile, "reason", row->refused));
  if (b->args->json) return;
  print_heading(b, row->problem);
  printf("%-40s refused: %s\n", row->tile, row->refused);
}

static void print_row(bench *b, const vkf_bench_row *row, double gflops, double gbytes, const json_t *more) {
  print_heading(b, row->problem);
  if (!(row->ratio <= 1)) {
    printf("%-40s WRONG: err/bound %.3g, not timed\n", row->variant, row->ratio);
    print_element(&row->worst);
    return;
  }
  char figures[3][24];
  bench_roof roof;
  const double share = share_of(b, row, &roof);
  printf("%-40s %6u %11.1f %11.1f %11.1f %9s %8s %6s %10.2e %s", row->variant, row->n_runs, row->min_ns / 1e3,
         row->median_ns / 1e3, row->p90_ns / 1e3, figure_text("%.2f", gflops, figures[0]),
         figure_text("%.2f", gbytes, figures[1]), figure_text(roof_formats[roof], 100 * share, figures[2]), row->ratio,
         vkf_clock_name(row->clock));
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)more, key, value) {
    if (json_is_real(value)) printf("  %.1f %.*s/s", json_real_value(value), (int)strcspn(key, "_"), key);
    if (json_is_integer(value)) printf("  %.1f MB", (double)json_integer_value(value) / 1e6);
  }
  putchar('\n');
  bench_statistics_print(row, stdout);
  fflush(stdout);
}

void bench_add(bench *b, const vkf_bench_row *row, json_t *more) {
  double gflops = row->n_runs ? row->flops / row->median_ns : 0, gbytes = row->n_runs ? row->bytes / row->median_ns : 0;
  json_t *json = row_json(b, row, gflops, gbytes);
  b->wrong = b->wrong || !(row->ratio <= 1);
  tool_progress_end(&b->session);
  if (!b->args->json) print_row(b, row, gflops, gbytes, more);
  if (more) json_object_update(json, more);
  if (row->n_statistics) json_object_set_new(json, "statistics", bench_statistics_json(row));
  json_decref(more);
  json_array_append_new(b->rows, json);
}

static void on_roof(void *user, const vkf_bench_row *row) {
  bench_peaks_add(&((bench *)user)->peaks, row);
}

static int measure_roofs(bench *b) {
  const vkf_bench_params params = {VKF_BENCH_PARAMS_INIT, .seconds = 0.1};
  tool_progress(&b->session, "peak ...");
  vkf_status status = vkf_device_bench(b->session.device, "peak", &params, on_roof, b);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&b->session, status, "peak");
}

int bench_begin(bench *b) {
  const vkf_device_info *info = vkf_device_get_info(b->session.device);
  const bench_peaks *p = &b->peaks;
  if (b->has_begun) return TOOL_OK;
  b->has_begun = true;
  if (info->kind != VKF_DEVICE_REF && !b->args->no_roofs && measure_roofs(b) != TOOL_OK) return TOOL_FAILED;
  if (b->args->json) return TOOL_OK;
  printf("%s (%s), vkformer %s %s\n", info->name, info->driver, vkf_version(), tool_commit);
  if (p->gflops > 0)
    printf("roofs: %.1f GFLOP/s of multiply-adds, %.1f GB/s of caches, %.1f GB/s of memory\n", p->gflops,
           p->cached_gbytes, p->gbytes);
  if (p->matrix_gflops > 0) printf("       %.1f GFLOP/s of matrix cores\n", p->matrix_gflops);
  return TOOL_OK;
}

json_t *bench_document(const bench *b) {
  const vkf_device_info *info = vkf_device_get_info(b->session.device);
  char date[32];
  tool_date(date);
  const bench_peaks *p = &b->peaks;
  json_t *document = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:o, s:o, s:o, s:o}, s:O}", "format", "vkformer-bench/1", "device", info->name,
      "driver", info->driver, "version", vkf_version(), "commit", tool_commit, "date", date, "peak", "gflops",
      tool_json_real(p->gflops), "matrix_gflops", tool_json_real(p->matrix_gflops), "cached_gbytes",
      tool_json_real(p->cached_gbytes), "gbytes", tool_json_real(p->gbytes), "rows", b->rows);
  if (json_array_size(b->refused) > 0) json_object_set(document, "refused", b->refused);
  return document;
}
