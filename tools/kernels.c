/* kernels: lists the variants of an op: which of them fit a problem on a device, how they rank, and why. */
#include <stdlib.h>
#include <string.h>
#include <vkformer/lab.h>

#include "bench_statistics.h"
#include "program.h"

typedef struct kernel {
  char name[96], why[512];
  const char *order; /* a literal of the library */
  uint32_t rank, workgroup, shared_bytes;
  bool fits, candidate;
  size_t row; /* of the table */
} kernel;

typedef struct listing {
  json_t *rows;
  const char *problem;
  kernel *kernels;
  size_t n, capacity;
} listing;

/* One problem of each form, used if none is given. */
static const char *const usual[] = {"matmul:128,512,512", "attention:128,128,8,64", "norm:128,512",
                                    "log_softmax:4,8000", "top_k:4,8000,8"};

enum { MAX_PROBLEMS = 128 };

typedef struct compiling {
  tool_session *session;
  json_t *rows;
  bool is_json;
  size_t n_failed;
  char problem[96]; /* of the rows that were printed last */
} compiling;

static void on_kernel(void *user, const vkf_kernel_info *k) {
  listing *l = user;
  json_array_append_new(
      l->rows, json_pack("{s:s, s:s, s:s, s:b, s:s?, s:s, s:i, s:i, s:b, s:i, s:o, s:s?}", "problem", l->problem, "op",
                         k->op, "name", k->name, "fits", k->reason == NULL, "reason", k->reason, "order",
                         vkf_order_class_name(k->order), "workgroup", (int)k->workgroup, "shared_bytes",
                         (int)k->shared_bytes, "picked", k->picked, "rank", (int)k->rank, "tuned_us",
                         tool_json_real(k->tuned_ns / 1e3), "why", k->why));
  if (l->n == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 64;
    kernel *grown = realloc(l->kernels, capacity * sizeof *grown);
    if (!grown) return; /* the table then lacks rows; JSON has them */
    l->kernels = grown;
    l->capacity = capacity;
  }
  kernel *to = &l->kernels[l->n++];
  *to = (kernel){.order = vkf_order_class_name(k->order),
                 .rank = k->rank,
                 .workgroup = k->workgroup,
                 .shared_bytes = k->shared_bytes,
                 .fits = !k->reason,
                 .candidate = k->candidate,
                 .row = l->n};
  snprintf(to->name, sizeof to->name, "%s", k->name);
  snprintf(to->why, sizeof to->why, "%s", k->reason ? k->reason : k->why ? k->why : "");
}

/* Orders ranked kernels by rank, then those that fit with another packing, then those that do not fit; ties keep the
 * table's order. */
static int before(const void *a, const void *b) {
  const kernel *x = a, *y = b;
  uint32_t i = x->rank ? x->rank : 0x10000u + !x->candidate + 2u * !x->fits;
  uint32_t j = y->rank ? y->rank : 0x10000u + !y->candidate + 2u * !y->fits;
  return i != j ? (i > j) - (i < j) : (x->row > y->row) - (x->row < y->row);
}

static void print_kernels(const listing *l) {
  int width = 0;
  for (size_t i = 0; i < l->n; i++)
    if ((int)strlen(l->kernels[i].name) > width) width = (int)strlen(l->kernels[i].name);
  printf("%s\n%5s  %-*s %-9s %5s %6s\n", l->problem, "rank", width, "kernel", "order", "group", "shared");
  for (size_t i = 0; i < l->n; i++) {
    const kernel *k = &l->kernels[i];
    char rank[16] = "-";
    if (k->rank) snprintf(rank, sizeof rank, "%s%u", k->rank == 1 ? "* " : "", k->rank);
    printf("%5s  %-*s %-9s %5u %6u  %s: %s\n", rank, width, k->name, k->order, k->workgroup, k->shared_bytes,
           k->fits ? "fits" : "does not fit", k->why);
  }
}

static void on_compiled(void *user, const vkf_compiled_kernel *k) {
  compiling *c = user;
  const vkf_bench_row told = {.statistics = k->statistics, .n_statistics = k->n_statistics};
  c->n_failed += k->failure != NULL;
  json_array_append_new(
      c->rows, json_pack("{s:s, s:s, s:s, s:i, s:s, s:b, s:i, s:i, s:s?, s:o}", "problem", k->problem, "op", k->op,
                         "name", k->variant, "stage", (int)k->stage, "format", vkf_storage_name(k->format), "picked",
                         k->picked, "workgroup", (int)k->workgroup, "shared_bytes", (int)k->shared_bytes, "failure",
                         k->failure, "statistics", bench_statistics_json(&told)));
  if (c->is_json) return;
  if (strcmp(c->problem, k->problem) != 0) printf("%s\n", k->problem);
  snprintf(c->problem, sizeof c->problem, "%s", k->problem);
  printf("  %s %s%s, %s\n", k->picked ? "*" : " ", k->variant, k->stage ? ", second stage" : "",
         vkf_storage_name(k->format));
  if (k->failure) printf("    not made: %s\n", k->failure);
  bench_statistics_print(&told, stdout);
}

/* The library calls a problem that is no problem a wrong argument, and nothing else. */
static int fail(compiling *c, vkf_status status, const char *where) {
  if (status == VKF_ERROR_ARGUMENT) return tool_usage_error("kernels", "%s", tool_session_message(c->session));
  return status == VKF_OK ? TOOL_OK : tool_session_fail(c->session, status, where);
}

/* problem NULL: the ops whose problems cannot be written as a text. */
static int compile_problem(compiling *c, const char *problem) {
  return fail(c, vkf_device_compile(c->session->device, problem, on_compiled, c), problem);
}

static int list_problem(compiling *c, const char *problem) {
  listing l = {.rows = c->rows, .problem = problem};
  vkf_status status = vkf_device_list_kernels(c->session->device, problem, on_kernel, &l);
  if (status == VKF_OK && !c->is_json) {
    qsort(l.kernels, l.n, sizeof *l.kernels, before);
    print_kernels(&l);
  }
  free(l.kernels);
  return fail(c, status, NULL);
}

/* Finds the problems that were asked for, else the usual ones. */
static size_t find_problems(const tool_args *args, const char *problems[MAX_PROBLEMS]) {
  size_t n = 0;
  for (size_t i = 0; i < args->problems.n && n < MAX_PROBLEMS; i++) problems[n++] = args->problems.at[i];
  for (size_t i = 0; i < args->n_operands && n < MAX_PROBLEMS; i++) problems[n++] = args->operands[i];
  for (size_t i = 0; !args->problems.n && !args->n_operands && i < sizeof usual / sizeof usual[0]; i++)
    problems[n++] = usual[i];
  return n;
}

static int run_kernels(const tool_args *args) {
  tool_session session;
  json_t *rows = json_array();
  compiling c = {.session = &session, .rows = rows, .is_json = args->json};
  const char *problems[MAX_PROBLEMS];
  const size_t n = find_problems(args, problems);
  int exit_code = tool_session_open(&session, args, args->device ? args->device : "", NULL);
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++)
    exit_code = args->compile ? compile_problem(&c, problems[i]) : list_problem(&c, problems[i]);
  if (exit_code == TOOL_OK && args->compile && !args->problems.n && !args->n_operands)
    exit_code = compile_problem(&c, NULL);
  if (exit_code == TOOL_OK && args->json)
    exit_code = tool_print_json(json_pack("{s:s, s:s, s:s, s:O}", "format", "vkformer-kernels/1", "device",
                                          vkf_device_get_info(session.device)->name, "driver",
                                          vkf_device_get_info(session.device)->driver, "kernels", rows));
  if (exit_code == TOOL_OK && c.n_failed)
    exit_code = tool_error("%zu kernel%s cannot be compiled by this driver", c.n_failed, c.n_failed == 1 ? "" : "s");
  json_decref(rows);
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"problem", 0, TOOL_TEXTS, offsetof(tool_args, problems), "PROBLEM", "the same as PROBLEM; repeatable"},
    {"compile", 0, TOOL_FLAG, offsetof(tool_args, compile), NULL,
     "compile every kernel that fits and print what the driver says\nabout it: registers, spills, instructions"},
    TOOL_NO_CHECKS,
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print JSON"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_kernels = {
    .name = "kernels",
    .summary = "List the kernel variants of a problem, how they rank and why",
    .usage = "[PROBLEM]... [OPTION]...",
    .text =
        "PROBLEM is matmul:M,N,K or matmul:M,N,K,FORMAT (f16, bf16, int8, q8), attention:QUERIES,KEYS,HEADS,WIDTH\n"
        "(also with ,f16), norm:ROWS,WIDTH, log_softmax:ROWS,WIDTH or top_k:ROWS,WIDTH,K. Without PROBLEM, one of\n"
        "each is shown; with --compile also a case of every other op. Runs use the variant marked *. Variants that\n"
        "read this device's packing of weights are ranked: by measured times (`vkformer tune`) if there are any,\n"
        "else by the defaults.",
    .examples =
        "  vkformer kernels matmul:77,512,512 --device lavapipe\n"
        "  vkformer kernels --device swiftshader\n",
    .groups = {&group, TOOL_DEVICE_GROUPS},
    .max_operands = 64,
    .operand = "64 problems",
    .run = run_kernels,
    .computes_nothing = true,
};
