/* bench: compares the kernels of one op over ranges of shapes. */
#include <string.h>

#include "bench.h"

/* The tiles of a sweep; each kernel uses those that fit it. */
static const char sweep_tiles[] =
    "bm=16,bn=16,bk=16,tm=2,tn=2;bm=32,bn=32,bk=8,tm=2,tn=2;bm=32,bn=32,bk=16,tm=2,tn=2;bm=32,bn=32,bk=32,tm=4,tn=4;"
    "bm=32,bn=64,bk=16,tm=4,tn=4;bm=64,bn=32,bk=16,tm=4,tn=4;bm=64,bn=64,bk=8,tm=4,tn=4;bm=64,bn=64,bk=32,tm=4,tn=4;"
    "tm=2;tm=4;tm=8;tm=12;tm=16;tm=32";

static void on_row(void *user, const vkf_bench_row *row) {
  bench *b = user;
  if (!row->refused) bench_add(b, row, NULL);
  if (row->refused && b->args->tile) bench_refuse(b, row); /* a sweep's own tiles are tried on every kernel */
}

/* Checks a problem first without options, so that a wrong problem is not blamed on an option. Without options only a
 * problem that is no problem is a wrong argument. */
static int check_problem(bench *b, const char *problem, const vkf_bench_params *params) {
  vkf_status status = vkf_device_bench(b->session.device, problem, NULL, NULL, NULL);
  if (status == VKF_ERROR_ARGUMENT) return tool_usage_error("bench", "%s", tool_session_message(&b->session));
  if (status != VKF_OK) return tool_session_fail(&b->session, status, NULL);
  if (vkf_device_bench(b->session.device, problem, params, NULL, NULL) == VKF_OK) return TOOL_OK;
  return tool_usage_error("bench", "--%s: %s", params->variant ? "variant" : "filter",
                          tool_session_message(&b->session));
}

int bench_problem(bench *b, const char *problem) {
  const tool_args *a = b->args;
  const vkf_bench_params params = {VKF_BENCH_PARAMS_INIT,
                                   .variant = a->variant,
                                   .seconds = a->seconds,
                                   .filter = a->filter,
                                   .tile = a->tile                                          ? a->tile
                                           : a->sweep && strncmp(problem, "matmul", 6) == 0 ? sweep_tiles
                                                                                            : NULL,
                                   .shader = b->shader,
                                   .n_shader_words = b->n_shader_words,
                                   .shader_name = a->shader,
                                   .cold = a->cold != 0};
  if (b->is_check) return check_problem(b, problem, &params);
  int exit_code = bench_begin(b);
  if (exit_code != TOOL_OK) return exit_code;
  snprintf(b->repeat, sizeof b->repeat, "%s", problem);
  tool_progress(&b->session, "%s ...", problem);
  vkf_status status = vkf_device_bench(b->session.device, problem, &params, on_row, b);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&b->session, status, problem);
}

/* Runs every combination of sizes [n_used]; the first changes slowest. The text of a problem is its sizes, followed by
 * the format of its weights (NULL for float32, and for ops without weights). */
static int each_problem(bench *b, const char *op, const tool_sizes *sizes, int n_used, const char *format) {
  size_t at[4] = {0};
  for (;;) {
    char problem[128];
    int length = snprintf(problem, sizeof problem, "%s:", op);
    for (int i = 0; i < n_used; i++)
      length += snprintf(problem + length, sizeof problem - (size_t)length, "%s%zu", i ? "," : "", sizes[i].at[at[i]]);
    if (format) snprintf(problem + length, sizeof problem - (size_t)length, ",%s", format);
    int exit_code = bench_problem(b, problem);
    if (exit_code != TOOL_OK) return exit_code;
    int i = n_used - 1;
    while (i >= 0 && ++at[i] == sizes[i].n) at[i--] = 0;
    if (i < 0) return TOOL_OK;
  }
}

static const tool_sizes sweep_rows = {.at = {1, 4, 16, 64, 128}, .n = 5};

/* Returns the rows of an op: those that were given, else those of a sweep, else one number. */
static tool_sizes rows_of(const bench *b, size_t fallback) {
  return b->args->sweep && b->args->m.n == 0 ? sweep_rows : bench_sizes(&b->args->m, fallback);
}

int bench_matmul(bench *b) {
  const tool_args *a = b->args;
  const char *format = a->weights && strcmp(a->weights, "auto") != 0 ? a->weights : NULL;
  return each_problem(b, "matmul", (tool_sizes[]){rows_of(b, 128), bench_sizes(&a->n, 512), bench_sizes(&a->k, 512)}, 3,
                      format);
}

int bench_ffn(bench *b) {
  const tool_args *a = b->args;
  const tool_sizes width = {.at = {a->d_model ? a->d_model : 512}, .n = 1},
                   hidden = {.at = {a->d_ff ? a->d_ff : 2048}, .n = 1};
  return each_problem(b, "ffn", (tool_sizes[]){rows_of(b, 128), width, hidden}, 3, NULL);
}

int bench_peak(bench *b) {
  return bench_problem(b, "peak");
}

int bench_overhead(bench *b) {
  return bench_problem(b, "overhead");
}

int bench_softmax(bench *b) {
  return each_problem(b, "log_softmax", (tool_sizes[]){bench_sizes(&b->args->m, 128), bench_sizes(&b->args->n, 4096)},
                      2, NULL);
}

int bench_norm(bench *b) {
  return each_problem(b, "norm", (tool_sizes[]){rows_of(b, 1024), bench_sizes(&b->args->n, 512)}, 2, NULL);
}

int bench_top_k(bench *b) {
  const tool_args *a = b->args;
  return each_problem(b, "top_k",
                      (tool_sizes[]){bench_sizes(&a->m, 1), bench_sizes(&a->n, 4096), bench_sizes(&a->k, 8)}, 3, NULL);
}

int bench_attention(bench *b) {
  const tool_args *a = b->args;
  const tool_sizes heads = {.at = {a->heads ? a->heads : 8}, .n = 1};
  return each_problem(b, "attention",
                      (tool_sizes[]){rows_of(b, 128), bench_sizes(&a->n, 128), heads, bench_sizes(&a->k, 64)}, 4, NULL);
}
