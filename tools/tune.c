/* tune: measures every kernel that fits the problems of a model and keeps the times; runs then take the fastest.
 *
 * A child process does the measuring: this program as `tune --worker`. On a CPU driver a kernel that hangs cannot be
 * cancelled, but its process can be killed. Invariant: a time is kept only if the kernel's result was within its
 * bound.
 *
 * For each problem the kernel that a run would take now is measured first. A kernel that takes several times as long
 * as the best so far is run only once. A roof of the device is measured before everything else; when a kernel reaches
 * it, others that read the same packing are not measured any more.
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <vkformer/lab.h>

#include "program.h"
#include "worker.h"

typedef struct candidate {
  char name[96];
  uint32_t rank;
  tool_measure result;
  bool was_measured; /* the result is there and within its bound */
} candidate;

typedef struct problem {
  char text[64];
  candidate *candidates; /* kernels that runs may pick; the one that they pick now comes first */
  size_t n;
} problem;

typedef struct tuning {
  tool_session session;
  const tool_args *args;
  tool_worker worker;
  problem *problems;
  size_t n_problems, n_candidates, n_done;
  double began, seconds, limit;
  double peak_gflops, peak_gbytes; /* the roofs; 0: not measured */
  double copied_bytes;             /* read and written by the copies that measured the roof of memory */
  bool failed, wrong;
} tuning;

enum { HOPELESS = 3 }; /* a kernel that takes so many times as long as the best is not run again */
static const double AT_ROOF = 0.9;
static const double OVER_ROOF = 1.1; /* a kernel that is faster than this share of a roof is not limited by it */

/* ---- what to measure --------------------------------------------------------------------------------------------- */

static void on_problem(void *user, const char *text) {
  tuning *t = user;
  for (size_t i = 0; i < t->n_problems; i++)
    if (!strcmp(t->problems[i].text, text)) return;
  problem *grown = realloc(t->problems, (t->n_problems + 1) * sizeof *grown);
  if (!grown) {
    t->failed = true;
    return;
  }
  t->problems = grown;
  grown[t->n_problems] = (problem){.n = 0};
  snprintf(grown[t->n_problems++].text, sizeof grown->text, "%s", text);
}

static void on_kernel(void *user, const vkf_kernel_info *kernel) {
  tuning *t = user;
  problem *p = &t->problems[t->n_problems - 1];
  if (!kernel->candidate) return;
  candidate *grown = realloc(p->candidates, (p->n + 1) * sizeof *grown);
  if (!grown) {
    t->failed = true;
    return;
  }
  p->candidates = grown;
  candidate *c = &grown[p->n++];
  *c = (candidate){.rank = kernel->rank};
  snprintf(c->name, sizeof c->name, "%s", kernel->name);
}

/* By current rank; those that read another packing come last. */
static int by_rank(const void *a, const void *b) {
  const uint32_t x = ((const candidate *)a)->rank - 1, y = ((const candidate *)b)->rank - 1; /* rank 0: the largest */
  return (x > y) - (x < y);
}

static int model_problems(tuning *t, bool full) {
  static const struct {
    size_t batch, length;
    bool full; /* only at that level */
  } sizes[] = {{1, 32, false}, {32, 32, false}, {8, 32, true}, {1, 128, true}, {4, 64, true}};
  int exit_code = tool_session_open_model(&t->session, t->args->operands[0]);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && exit_code == TOOL_OK; i++) {
    if (sizes[i].full && !full) continue;
    vkf_status status = vkf_model_list_problems(t->session.model, sizes[i].batch, sizes[i].length, on_problem, t);
    if (status != VKF_OK) exit_code = tool_session_fail(&t->session, status, NULL);
  }
  vkf_model_close(&t->session.model);
  return exit_code;
}

/* Adds problems with the widths of a small Transformer. */
static void usual_problems(tuning *t, bool full) {
  static const unsigned rows[] = {1, 32, 128, 2, 4, 8, 16, 64, 512},
                        widths[][2] = {{512, 512}, {2048, 512}, {512, 2048}};
  const size_t n_rows = full ? sizeof rows / sizeof rows[0] : 3;
  char text[64];
  /* Problems with weights in f16 are for matrix cores, so only devices that have them measure these. */
  const int n_formats = vkf_device_get_info(t->session.device)->has_cooperative_matrix ? 2 : 1;
  for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
    for (size_t r = 0; r < n_rows; r++)
      for (int f = 0; f < n_formats; f++) {
        snprintf(text, sizeof text, "matmul:%u,%u,%u%s", rows[r], widths[w][0], widths[w][1], f ? ",f16" : "");
        on_problem(t, text);
      }
  for (size_t r = 0; r < n_rows; r++) {
    snprintf(text, sizeof text, "attention:%u,%u,8,64", rows[r], rows[r] < 128 ? 128 : rows[r]);
    on_problem(t, text);
    snprintf(text, sizeof text, "norm:%u,512", rows[r]);
    on_problem(t, text);
  }
}

/* Keeps the problems with more than one candidate, and counts the candidates. */
static int find_candidates(tuning *t) {
  size_t n = t->n_problems;
  problem *all = t->problems;
  for (size_t i = 0; i < n; i++) {
    const problem p = all[i];
    t->n_problems = i + 1; /* on_kernel adds to the last one */
    vkf_status status = vkf_device_list_kernels(t->session.device, p.text, on_kernel, t);
    if (status != VKF_OK) return tool_session_fail(&t->session, status, p.text);
    if (all[i].n) qsort(all[i].candidates, all[i].n, sizeof *all[i].candidates, by_rank);
  }
  t->n_problems = 0;
  for (size_t i = 0; i < n; i++) {
    problem p = all[i];
    all[i] = (problem){.n = 0};
    if (p.n < 2)
      free(p.candidates);
    else
      all[t->n_problems++] = p;
    t->n_candidates += p.n < 2 ? 0 : p.n;
  }
  return t->failed ? tool_error("out of memory") : TOOL_OK;
}

static int collect(tuning *t) {
  int exit_code = TOOL_OK;
  const char *level = t->args->level ? t->args->level : "quick";
  const bool full = strcmp(level, "full") == 0;
  if (!full && strcmp(level, "quick") != 0)
    return tool_usage_error("tune", "--level: expected quick or full, found '%s'", level);
  t->seconds = t->args->seconds > 0 ? t->args->seconds : full ? 0.3 : 0.05;
  t->limit = t->args->limit > 0 ? t->args->limit : 30;
  for (size_t i = 0; i < t->args->problems.n; i++) on_problem(t, t->args->problems.at[i]);
  if (t->args->n_operands)
    exit_code = model_problems(t, full);
  else if (!t->args->problems.n)
    usual_problems(t, full);
  return exit_code == TOOL_OK ? find_candidates(t) : exit_code;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static double seconds_left(const tuning *t) {
  return t->n_done ? (tool_seconds() - t->began) / (double)t->n_done * (double)(t->n_candidates - t->n_done) : 0;
}

static void print_outcome(tuning *t, const char *problem, const tool_measure *m) {
  if (m->outcome == TOOL_MEASURE_HUNG)
    tool_error("%s: %s gave no answer within %g s and is left out", problem, m->kernel, t->limit);
  if (m->outcome == TOOL_MEASURE_DIED)
    tool_error("%s: %s ended the process that measured it and is left out", problem, m->kernel);
  if (m->outcome == TOOL_MEASURE_FAILED) tool_error("%s: %s is left out: %s", problem, m->kernel, m->message);
  if (m->outcome == TOOL_MEASURE_WRONG)
    tool_error("%s: %s is WRONG, err/bound %.3g, and is left out", problem, m->kernel, m->ratio);
  t->wrong = t->wrong || m->outcome == TOOL_MEASURE_WRONG;
}

/* Lets the child measure the roofs: what its best runs reach. */
static int measure_roofs(tuning *t) {
  tool_measure roofs[] = {
      {.kernel = "fma"}, {.kernel = "multiply-add"}, {.kernel = "copy"}, {.kernel = "read"}, {.kernel = "read-texels"}};
  const size_t n = sizeof roofs / sizeof roofs[0];
  int exit_code = tool_worker_measure(&t->worker, "peak", roofs, n, (tool_patience){t->seconds, t->limit, 0});
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    if (roofs[i].outcome != TOOL_MEASURE_FAILED || roofs[i].message[0]) print_outcome(t, "peak", &roofs[i]);
    if (roofs[i].outcome != TOOL_MEASURE_DONE) continue;
    if (roofs[i].flops > 0)
      t->peak_gflops = fmax(t->peak_gflops, roofs[i].flops / roofs[i].min_ns);
    else
      t->peak_gbytes = fmax(t->peak_gbytes, roofs[i].bytes / roofs[i].min_ns);
    t->copied_bytes = fmax(t->copied_bytes, roofs[i].bytes);
  }
  return exit_code;
}

/* The roof of multiply-adds does not limit matrix cores and integer dot products. The roof of copies limits kernels
 * that move as much as the copies do, so that caches help both alike. */
static bool is_at_roof(const tuning *t, const tool_measure *m) {
  if (m->outcome != TOOL_MEASURE_DONE) return false;
  const double share = t->peak_gflops > 0 ? m->flops / m->ns / t->peak_gflops : 0;
  return (share > AT_ROOF && share < OVER_ROOF) ||
         (t->peak_gbytes > 0 && m->bytes >= t->copied_bytes && m->bytes / m->ns > AT_ROOF * t->peak_gbytes);
}

static const candidate *best_of(const problem *p) {
  const candidate *best = NULL;
  for (size_t i = 0; i < p->n; i++)
    if (p->candidates[i].was_measured && (!best || p->candidates[i].result.ns < best->result.ns))
      best = &p->candidates[i];
  return best;
}

static int measure(tuning *t, const problem *p, candidate *c) {
  const candidate *best = best_of(p);
  tool_progress(&t->session, "%zu of %zu: %s %s, %.0f s left", t->n_done + 1, t->n_candidates, p->text, c->name,
                seconds_left(t));
  c->result = (tool_measure){.kernel = c->name};
  int exit_code = tool_worker_measure(&t->worker, p->text, &c->result, 1,
                                      (tool_patience){t->seconds, t->limit, best ? HOPELESS * best->result.ns : 0});
  tool_progress_end(&t->session);
  if (exit_code == TOOL_OK) print_outcome(t, p->text, &c->result);
  c->was_measured = exit_code == TOOL_OK && c->result.outcome == TOOL_MEASURE_DONE;
  return exit_code;
}

/* Measures the kernels that are close to the best one again, in turns, so that a drift of the machine does not decide
 * between them. */
static int run_off(tuning *t, problem *p) {
  enum { MAX = 6 };
  const double close_to = 2;
  tool_measure again[MAX];
  candidate *of[MAX];
  size_t n = 0;
  const candidate *best = best_of(p);
  for (size_t i = 0; i < p->n && n < MAX; i++) {
    if (!p->candidates[i].was_measured || p->candidates[i].result.ns > close_to * best->result.ns) continue;
    of[n] = &p->candidates[i];
    again[n++] = (tool_measure){.kernel = p->candidates[i].name};
  }
  if (n < 2) return TOOL_OK;
  int exit_code = tool_worker_measure(&t->worker, p->text, again, n, (tool_patience){t->seconds, t->limit, 0});
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    print_outcome(t, p->text, &again[i]);
    of[i]->result = again[i];
    of[i]->was_measured = again[i].outcome == TOOL_MEASURE_DONE;
  }
  return exit_code;
}

static bool is_unusable(const candidate *c) {
  return c->result.outcome == TOOL_MEASURE_WRONG || c->result.outcome == TOOL_MEASURE_HUNG ||
         c->result.outcome == TOOL_MEASURE_DIED;
}

static int keep(tuning *t, const problem *p) {
  vkf_kernel_time *times = calloc(p->n, sizeof *times);
  size_t n = 0;
  if (!times) return tool_error("out of memory");
  for (size_t i = 0; i < p->n; i++)
    if (p->candidates[i].was_measured || is_unusable(&p->candidates[i]))
      times[n++] = (vkf_kernel_time){p->text, p->candidates[i].name,
                                     p->candidates[i].was_measured ? p->candidates[i].result.ns : VKF_UNUSABLE_NS};
  vkf_status status = vkf_device_store_times(t->session.device, times, n);
  free(times);
  if (status == VKF_ERROR_FILE && t->args->export_file) return TOOL_OK; /* that file will have them */
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&t->session, status, p->text);
}

static int tune_problem(tuning *t, problem *p) {
  const candidate *now = &p->candidates[0];
  int exit_code = TOOL_OK;
  bool at_roof = false;
  for (size_t i = 0; i < p->n && exit_code == TOOL_OK; i++) {
    candidate *c = &p->candidates[i];
    if (!at_roof || !c->rank) exit_code = measure(t, p, c);
    at_roof = at_roof || is_at_roof(t, &c->result);
    t->n_done++;
  }
  if (exit_code == TOOL_OK) exit_code = run_off(t, p);
  const candidate *best = best_of(p);
  if (exit_code != TOOL_OK || !best) return exit_code;
  printf("%4zu/%zu %4.0f s left  %-26s %-34s %10.1f us", t->n_done, t->n_candidates, seconds_left(t), p->text,
         best->name, best->result.ns / 1e3);
  if (best != now && now->was_measured) printf("  %.2f x %s", now->result.ns / best->result.ns, now->name);
  if (at_roof) printf("  at the roof");
  printf("\n");
  fflush(stdout);
  return keep(t, p);
}

/* Checks that times can be kept, before anything is measured. */
static int check_cache(tuning *t) {
  const vkf_status status = vkf_device_store_times(t->session.device, NULL, 0);
  if (status == VKF_OK || (status == VKF_ERROR_FILE && t->args->export_file)) return TOOL_OK;
  const int exit_code = tool_session_fail(&t->session, status, NULL);
  if (status == VKF_ERROR_FILE) tool_error("name a folder with VKF_CACHE_DIR, or a file for the times with --export");
  return exit_code;
}

static int tune_all(tuning *t) {
  int exit_code = collect(t);
  if (exit_code == TOOL_OK) exit_code = check_cache(t);
  if (exit_code != TOOL_OK) return exit_code;
  const vkf_device_info *info = vkf_device_get_info(t->session.device);
  printf("%s (%s)\n%zu problem%s, %zu candidate%s, about %.0f s and what the driver takes to compile them\n",
         info->name, info->driver, t->n_problems, t->n_problems == 1 ? "" : "s", t->n_candidates,
         t->n_candidates == 1 ? "" : "s", (double)t->n_candidates * t->seconds);
  fflush(stdout);
  exit_code = tool_worker_init(&t->worker, &t->session, t->args);
  if (exit_code == TOOL_OK && t->n_problems) exit_code = measure_roofs(t);
  t->began = tool_seconds();
  for (size_t i = 0; i < t->n_problems && exit_code == TOOL_OK; i++) exit_code = tune_problem(t, &t->problems[i]);
  tool_worker_finish(&t->worker);
  return exit_code == TOOL_OK && t->wrong ? TOOL_WRONG : exit_code;
}

static int import_times(tuning *t, const char *path) {
  size_t n = 0;
  vkf_status status = vkf_device_import_times(t->session.device, path, &n);
  if (status != VKF_OK) return tool_session_fail(&t->session, status, NULL);
  printf("%zu time%s taken in from %s\n", n, n == 1 ? "" : "s", path);
  return TOOL_OK;
}

static int run_tune(const tool_args *args) {
  tuning t = {.args = args};
  int exit_code = tool_session_open(&t.session, args, args->device ? args->device : "", NULL);
  if (exit_code == TOOL_OK && args->worker) {
    exit_code = tool_worker_serve(&t.session);
    return tool_session_close(&t.session, exit_code);
  }
  const bool only_files = (args->import_file || args->export_file) && !args->n_operands && !args->problems.n;
  if (exit_code == TOOL_OK && args->import_file) exit_code = import_times(&t, args->import_file);
  if (exit_code == TOOL_OK && !only_files) exit_code = tune_all(&t);
  if (args->export_file && exit_code == TOOL_OK) {
    vkf_status status = vkf_device_export_times(t.session.device, tool_output_path(args->export_file));
    if (status != VKF_OK) exit_code = tool_session_fail(&t.session, status, NULL);
  }
  for (size_t i = 0; i < t.n_problems; i++) free(t.problems[i].candidates);
  free(t.problems);
  return tool_session_close(&t.session, exit_code);
}

static const tool_option options[] = {
    {"level", 0, TOOL_TEXT, offsetof(tool_args, level), "LEVEL", "quick (default), or full: more sizes, longer"},
    {"problem", 0, TOOL_TEXTS, offsetof(tool_args, problems), "PROBLEM",
     "measure this one, as in `vkformer kernels`; repeatable"},
    {"seconds", 0, TOOL_SECONDS, offsetof(tool_args, seconds), "X",
     "time each candidate for X seconds; default 0.05, full 0.3"},
    {"limit", 0, TOOL_SECONDS, offsetof(tool_args, limit), "X",
     "a candidate that takes X seconds counts as hung; default 30"},
    {"export", 0, TOOL_OUTPUT, offsetof(tool_args, export_file), "FILE", "write the measured times of the device"},
    {"import", 0, TOOL_INPUT, offsetof(tool_args, import_file), "FILE",
     "use the times in such a file, of this or another device"},
    {"worker", 0, TOOL_FLAG, offsetof(tool_args, worker), NULL,
     "used by tune itself: measure what standard input asks for"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_tune = {
    .name = "tune",
    .summary = "Measure which kernels are fastest on a device, for a model or in general",
    .usage = "[MODEL] [OPTION]...",
    .text =
        "Checks every kernel that fits a problem against its error bound, then times it; later runs use the fastest.\n"
        "Times are kept in the cache folder ($VKF_CACHE_DIR, $XDG_CACHE_HOME/vkformer or ~/.cache/vkformer), for\n"
        "this device, driver and processor. A device that was never tuned uses times of its architecture or vendor,\n"
        "if there are any. Results stay within their bounds. On software drivers, and with --batch-invariant, tuning\n"
        "changes no bit; on a GPU another kernel may add in another order.",
    .examples =
        "  vkformer tune models/en-es\n"
        "  vkformer tune --export mine.json\n",
    .groups = {&group, &tool_model_options, TOOL_DEVICE_GROUPS},
    .max_operands = 1,
    .operand = "one MODEL",
    .takes_model = true,
    .run = run_tune,
};
