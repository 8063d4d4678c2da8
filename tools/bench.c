/* bench: kernel variants timed against each other, each verified against its bound first. */
#include <math.h>

#include "program.h"

typedef struct table {
  json_t *rows;
  int json;
  bool wrong; /* a variant was over its bound */
} table;

static void on_row(void *user, const vkf_bench_row *row) {
  table *t = user;
  double gflops = row->n_runs ? row->flops / row->median_ns : 0, gbytes = row->n_runs ? row->bytes / row->median_ns : 0;
  t->wrong = t->wrong || !(row->ratio <= 1);
  json_array_append_new(
      t->rows,
      json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:i, s:i}", "problem", row->problem,
                "variant", row->variant, "clock", row->clock, "runs", (int)row->n_runs, "min_us", row->min_ns / 1e3,
                "median_us", row->median_ns / 1e3, "p90_us", row->p90_ns / 1e3, "flops", row->flops, "bytes",
                row->bytes, "gflops", gflops, "gbytes", gbytes, "ratio", tool_json_real(row->ratio), "workgroup",
                (int)row->workgroup, "shared_bytes", (int)row->shared_bytes));
  if (t->json) return;
  if (!(row->ratio <= 1)) {
    printf("%-34s WRONG: err/bound %.3g, not timed\n", row->variant, row->ratio);
    return;
  }
  printf("%-34s %6u %11.1f %11.1f %11.1f %9.2f %8.2f %10.2e\n", row->variant, row->n_runs, row->min_ns / 1e3,
         row->median_ns / 1e3, row->p90_ns / 1e3, gflops, gbytes, row->ratio);
}

static int bench_problem(tool_session *session, const tool_args *args, const char *problem, table *t) {
  const vkf_bench_params params = {.variant = args->variant, .seconds = args->seconds};
  if (!t->json) {
    printf("%s\n%-34s %6s %11s %11s %11s %9s %8s %10s\n", problem, "variant", "runs", "min us", "median us", "p90 us",
           "GFLOP/s", "GB/s", "err/bound");
    fflush(stdout);
  }
  tool_progress(session, "%s ...", problem);
  vkf_status status = vkf_device_bench(session->device, problem, &params, on_row, t);
  tool_progress_end(session);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, problem);
}

static int run_bench(const tool_args *args) {
  tool_session session;
  table t = {.rows = json_array(), .json = args->json};
  int exit_code = tool_session_open(&session, args, args->device ? args->device : "", NULL);
  if (exit_code == TOOL_OK) {
    const vkf_device_info *info = vkf_device_get_info(session.device);
    if (!t.json) printf("%s (%s)\n", info->name, info->driver);
    for (size_t i = 0; i < args->n_operands && exit_code == TOOL_OK; i++)
      exit_code = bench_problem(&session, args, args->operands[i], &t);
    if (exit_code == TOOL_OK && t.json)
      exit_code = tool_print_json(json_pack("{s:s, s:s, s:s, s:O}", "device", info->name, "driver", info->driver,
                                            "version", vkf_version(), "rows", t.rows));
    if (exit_code == TOOL_OK && t.wrong) exit_code = TOOL_FAILED;
  }
  json_decref(t.rows);
  tool_session_close(&session);
  return exit_code;
}

static const tool_option options[] = {
    {"variant", 0, TOOL_TEXT, offsetof(tool_args, variant), "NAME[,NAME]",
     "time these; without it every one that fits"},
    {"seconds", 0, TOOL_NUMBER, offsetof(tool_args, seconds), "X", "of timing a variant (0.5)"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print JSON"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_bench = {
    .name = "bench",
    .summary = "Time kernel variants against each other, each verified first",
    .usage = "PROBLEM... [OPTION]...",
    .text =
        "PROBLEM as in `vkformer kernels`. Variants take turns run by run, so that drift of the machine's speed\n"
        "slows all of them alike; quote medians. A variant over its error bound is reported and not timed.",
    .examples =
        "  vkformer bench matmul:128,512,512 --device lavapipe\n"
        "  vkformer bench attention:128,128,8,64 norm:1024,512 --json\n",
    .groups = {&group, &tool_common_options},
    .min_operands = 1,
    .max_operands = 64,
    .operand = "at least one problem",
    .run = run_bench,
};
