/* Kernels verified and timed.
 *
 * Every variant runs the production path on the same case. A result over its bound is reported and never timed. Timing
 * goes round by round over all variants, so that a machine whose speed drifts slows all of them alike.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/problem.h"
#include "engine/walk.h"

/* ---- timing ------------------------------------------------------------------------------------------------------ */

enum { MAX_CANDIDATES = 64, MAX_RUNS = 4096, MIN_RUNS = 5 };

typedef struct candidate {
  const vkf_variant *variant;
  char name[128];
  vkf_weights *weights;
  vkf_program *program;
  double *ns; /* [MAX_RUNS] */
  double total_ns;
  uint32_t n_runs;
  vkf_bench_row row;
} candidate;

typedef struct bench {
  vkf_env *env;
  vkf_backend *backend;
  const vkf_caps *caps;
  vkf_case_run run;
  candidate *candidates;
  uint32_t n;
} bench;

static bool named(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && (at = strstr(at, name)); at++)
    if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
  return false;
}

/* The device's own time of a run where it measures time, else that from submit to fence. */
static vkf_status time_run(bench *b, candidate *c, double *ns) {
  vkf_status st = VKF_OK;
  vkf_block_stats stats;
  uint64_t start = vkf_clock_ns();
  VKF_TRY(b->backend->table->run(c->program, &b->run.dims, 0, 1));
  *ns = (double)(vkf_clock_ns() - start);
  b->backend->table->block_stats(c->program, 0, &stats);
  c->row.clock = stats.ns ? "device" : "submit";
  if (stats.ns) *ns = (double)stats.ns;
done:
  return st;
}

/* err/bound of the first rows: all of a small result, 64 rows of a large one. */
static vkf_status verify(bench *b, const vkf_case *problem, candidate *c) {
  enum { ROWS = 64 };
  vkf_status st = VKF_OK;
  vkf_walk walk = {0};
  vkf_judgement j = {0};
  vkf_sizes sizes = problem->sizes;
  sizes.R = VKF_MIN(sizes.R, (uint32_t)ROWS);
  sizes.T = VKF_MIN(sizes.T, (uint32_t)ROWS);
  vkf_dims few = vkf_dims_make(&sizes);
  VKF_TRY(b->backend->table->poison(c->program));
  VKF_TRY(b->backend->table->run(c->program, &b->run.dims, 0, 1));
  VKF_TRY(vkf_engine_walk_init(&walk, b->env, b->backend, &b->run.plan, c->program, &few, &b->run.weights));
  VKF_TRY(vkf_engine_walk_node(&walk, 0, &j));
  c->row.ratio = j.ratio;
done:
  vkf_engine_walk_finish(&walk);
  return st;
}

static vkf_status add_candidate(bench *b, const vkf_case *problem, const vkf_variant *variant) {
  vkf_status st = VKF_OK;
  candidate *c = &b->candidates[b->n];
  vkf_problem p;
  char why[256];
  vkf_engine_problem_of(problem, b->caps, NULL, variant, &p);
  if (b->n == MAX_CANDIDATES || vkf_kern_fit(variant, &p, b->caps, why, sizeof why)) goto done;
  vkf_kern_name(variant, c->name, sizeof c->name);
  b->n++;
  c->variant = variant;
  c->ns = vkf_env_alloc(b->env, MAX_RUNS, sizeof *c->ns);
  if (!c->ns) VKF_FAIL(b->env, VKF_ERROR_MEMORY, "no memory for the times of %s", c->name);
  vkf_cost cost = vkf_op_cost(&b->run.plan, &b->run.plan.nodes[0], &b->run.dims);
  c->row = (vkf_bench_row){.problem = problem->name,
                           .variant = c->name,
                           .clock = "submit",
                           .flops = cost.flops,
                           .bytes = cost.bytes,
                           .workgroup = variant->workgroup,
                           .shared_bytes = vkf_kern_shared_bytes(variant, &p)};
  VKF_TRY(b->backend->table->weights_create(b->backend, &b->run.weights, c->name, &c->weights));
  const vkf_program_options options = {.keep_all = true, .timing = VKF_TIMING_BLOCKS, .variant = c->name};
  VKF_TRY(b->backend->table->program_create(b->backend, &b->run.plan, c->weights, NULL, &options, &c->program));
  VKF_TRY(verify(b, problem, c));
done:
  return st;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void summarize(candidate *c) {
  qsort(c->ns, c->n_runs, sizeof *c->ns, by_value);
  c->row.n_runs = c->n_runs;
  if (!c->n_runs) return;
  c->row.min_ns = c->ns[0];
  c->row.median_ns = c->ns[c->n_runs / 2];
  c->row.p90_ns = c->ns[VKF_MIN(c->n_runs - 1, c->n_runs * 9 / 10)];
}

/* Rounds over all candidates until each has had its time; the first run of each warms up and does not count. */
static vkf_status time_all(bench *b, double seconds) {
  vkf_status st = VKF_OK;
  bool again = true;
  for (uint32_t round = 0; again; round++) {
    again = false;
    for (uint32_t i = 0; i < b->n; i++) {
      candidate *c = &b->candidates[i];
      double ns;
      if (!(c->row.ratio <= 1) || c->n_runs == MAX_RUNS || (c->n_runs >= MIN_RUNS && c->total_ns >= seconds * 1e9))
        continue;
      VKF_TRY(time_run(b, c, &ns));
      again = true;
      if (!round) continue;
      c->ns[c->n_runs++] = ns;
      c->total_ns += ns;
    }
  }
done:
  return st;
}

static void bench_finish(bench *b) {
  for (uint32_t i = 0; b->candidates && i < b->n; i++) {
    candidate *c = &b->candidates[i];
    if (c->program) b->backend->table->program_destroy(&c->program);
    if (c->weights) b->backend->table->weights_destroy(&c->weights);
    vkf_env_free(b->env, c->ns);
  }
  vkf_env_free(b->env, b->candidates);
  vkf_case_finish(&b->run);
}

vkf_status vkf_device_bench(vkf_device *dev, const char *problem, const vkf_bench_params *params, vkf_bench_fn on_row,
                            void *user) {
  vkf_status st = VKF_OK;
  bench b = {.env = &dev->ctx->env, .backend = dev->backend};
  const vkf_bench_params defaults = {0};
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[128];
  vkf_case c;
  vkf_env_clear(b.env);
  if (!params) params = &defaults;
  VKF_TRY(vkf_engine_problem_parse(b.env, problem, &c));
  if (!dev->gpu)
    VKF_FAIL(b.env, VKF_ERROR_ARGUMENT, "the scalar path has no kernels to time; expected a Vulkan device");
  b.caps = vkf_gpu_device_caps(dev->gpu);
  b.candidates = vkf_env_alloc(b.env, MAX_CANDIDATES, sizeof *b.candidates);
  if (!b.candidates) VKF_FAIL(b.env, VKF_ERROR_MEMORY, "no memory for a benchmark");
  VKF_TRY(vkf_case_make(b.env, &c, &b.run));
  for (size_t i = 0; i < n; i++)
    if (variants[i].op == c.op &&
        (!params->variant || named(params->variant, vkf_kern_name(&variants[i], name, sizeof name))))
      VKF_TRY(add_candidate(&b, &c, &variants[i]));
  if (!b.n)
    VKF_FAIL(b.env, VKF_ERROR_ARGUMENT, "no variant%s%s fits %s on %s", params->variant ? " of " : "",
             params->variant ? params->variant : "", problem, b.caps->device_name);
  VKF_TRY(time_all(&b, params->seconds > 0 ? params->seconds : 0.5));
  for (uint32_t i = 0; i < b.n; i++) {
    summarize(&b.candidates[i]);
    on_row(user, &b.candidates[i].row);
  }
done:
  bench_finish(&b);
  return st;
}
