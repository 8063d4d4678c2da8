/* profile: prints where the time of a command went, by block and by kernel, and writes it as a trace.
 *
 * The trace is in Chrome's format (an array of complete events, microseconds), which chrome://tracing, Perfetto and
 * Speedscope read.
 */
#include <stdlib.h>
#include <string.h>
#include <vkformer/lab.h>

#include "program.h"

/* Sums under a name. */
typedef struct line {
  char *name;
  double runs, ns, flops, bytes;
} line;

typedef struct table {
  line *lines;
  size_t n;
  bool failed;
} table;

typedef struct profile {
  table blocks, kernels;
  double ns;
  vkf_clock clock;
  json_t *events; /* NULL: not wanted */
} profile;

static void add(table *t, const char *name, const vkf_profile_row *row, double runs) {
  line *l = t->lines;
  while (l < t->lines + t->n && strcmp(l->name, name) != 0) l++;
  if (l == t->lines + t->n) {
    line *lines = realloc(t->lines, (t->n + 1) * sizeof *lines);
    char *copy = malloc(strlen(name) + 1);
    if (lines) t->lines = lines;
    if (!lines || !copy) {
      free(copy);
      t->failed = true;
      return;
    }
    l = &t->lines[t->n++];
    *l = (line){.name = strcpy(copy, name)};
  }
  l->runs = runs > 0 ? l->runs + runs : (double)row->n_runs > l->runs ? (double)row->n_runs : l->runs;
  l->ns += row->ns;
  l->flops += row->flops;
  l->bytes += row->bytes;
}

static void on_row(void *user, const vkf_profile_row *row) {
  profile *p = user;
  add(&p->blocks, row->block, row, 0); /* a block runs as often as its nodes */
  add(&p->kernels, row->variant, row, (double)row->n_runs);
  p->ns += row->ns;
  p->clock = row->clock;
}

static void on_event(void *user, const vkf_profile_event *e) {
  profile *p = user;
  const vkf_profile_row *r = e->row;
  if (!p->events) return;
  json_array_append_new(
      p->events,
      json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:{s:s, s:s, s:o, s:o}}", "name", r->node, "cat", r->op, "ph", "X",
                "pid", 1, "tid", 1, "ts", tool_json_real(e->begin_ns / 1e3), "dur", tool_json_real(e->ns / 1e3), "args",
                "block", r->block, "variant", r->variant, "gflops", tool_json_real(e->ns > 0 ? e->flops / e->ns : 0.0),
                "gbytes", tool_json_real(e->ns > 0 ? e->bytes / e->ns : 0.0)));
}

static int by_time(const void *a, const void *b) {
  double x = ((const line *)a)->ns, y = ((const line *)b)->ns;
  return (x < y) - (x > y);
}

static void print(const table *t, const char *title, double all_ns) {
  fprintf(stderr, "%-40s %9s %12s %7s %9s %9s\n", title, "runs", "ms", "share", "GFLOP/s", "GB/s");
  for (const line *l = t->lines; l < t->lines + t->n; l++) {
    double ns = l->ns > 0 ? l->ns : 1;
    fprintf(stderr, "%-40s %9.0f %12.3f %6.1f%% %9.2f %9.2f\n", l->name, l->runs, l->ns / 1e6,
            all_ns > 0 ? 100 * l->ns / all_ns : 0, l->flops / ns, l->bytes / ns);
  }
}

static void table_finish(table *t) {
  for (size_t i = 0; i < t->n; i++) free(t->lines[i].name);
  free(t->lines);
}

int tool_profile_write(const vkf_device *device, const char *path) {
  profile p = {.events = path[0] ? json_array() : NULL};
  const vkf_device_info *info = vkf_device_get_info(device);
  int exit_code = TOOL_OK;
  vkf_device_profile_read(device, on_row, p.events ? on_event : NULL, &p);
  if (p.blocks.failed || p.kernels.failed) exit_code = tool_error("out of memory");
  qsort(p.kernels.lines, p.kernels.n, sizeof *p.kernels.lines, by_time);
  fprintf(stderr, "%s: %.3f ms by %s\n", info->name, p.ns / 1e6,
          p.clock == VKF_CLOCK_DEVICE ? "the device's time stamps" : "the host's clock, nodes submitted one by one");
  print(&p.blocks, "block", p.ns);
  print(&p.kernels, "kernel", p.ns);
  if (p.events && exit_code == TOOL_OK)
    exit_code = tool_write_json(
        path, json_pack("{s:O, s:s, s:{s:s, s:s, s:s}}", "traceEvents", p.events, "displayTimeUnit", "ms", "otherData",
                        "device", info->name, "driver", info->driver, "clock", vkf_clock_name(p.clock)));
  json_decref(p.events);
  table_finish(&p.blocks);
  table_finish(&p.kernels);
  return exit_code;
}
