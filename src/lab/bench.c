/* bench: verifies and then times kernels.
 *
 * Every variant runs as in a model, on the same case. A result over its bound is reported and never timed; the results
 * of the last timed run are compared, too. Variants are timed in rounds, one after the other, so that a machine whose
 * speed drifts slows all of them alike.
 */
#include <stdio.h>
#include <string.h>

#include "lab/bench.h"
#include "tune/measure.h"
#include "tune/problem.h"
#include "tune/times.h"
#include "vkop/vkop.h"

/* ---- timing ------------------------------------------------------------------------------------------------------ */

enum { MAX_CANDIDATES = 512, MAX_COPIES = 64 };
#define COLD_BYTES (UINT64_C(256) << 20)

typedef struct candidate {
  char name[128], base[128], tile[64]; /* base: its row of the table; tile: from the caller, or "" */
  uint32_t n_copies, next;             /* copies of the program with its operands, run in turn */
  vkf_weights *weights[MAX_COPIES];
  vkf_program *programs[MAX_COPIES];
  vkf_times times;
  vkf_bench_row row;
  vkf_lab_seen seen;
} candidate;

typedef struct bench {
  vkf_env *env;
  vkf_arena arena; /* for what the driver reports about kernels */
  vkf_backend *backend;
  const vkf_caps *caps;
  bool batch_invariant;
  const vkf_bench_params *params;
  const char *problem;
  vkf_op op;
  vkf_format format; /* of the weights */
  vkf_case_run run;
  candidate *candidates;
  uint32_t n;
  char why[256]; /* why the last variant was left out */
} bench;

static bool named(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && (at = strstr(at, name)); at++)
    if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
  return false;
}

static vkf_status time_run(void *user, uint32_t i, double *ns) {
  bench *b = user;
  candidate *c = &b->candidates[i];
  vkf_program *program = c->programs[c->next++ % c->n_copies];
  return vkf_tune_measure_run(b->backend, program, &b->run.dims, ns, &c->row.clock);
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

static vkf_status verify_first_run(bench *b, candidate *c) {
  VKF_CALL(b->backend->table->poison(c->programs[0]));
  VKF_CALL(b->backend->table->run(c->programs[0], &b->run.dims, 0, 1));
  return vkf_lab_bench_compare(b->backend, &b->run, c->programs[0], &c->seen, &c->row);
}

/* Verifies every program that was timed: a kernel can be right on memory that nothing was written to, and wrong on its
 * own results. */
static vkf_status verify_last_runs(bench *b, candidate *c) {
  for (uint32_t i = 0; i < VKF_MIN(c->n_copies, c->next) && c->row.ratio <= 1; i++)
    VKF_CALL(vkf_lab_bench_compare(b->backend, &b->run, c->programs[i], &c->seen, &c->row));
  if (!(c->row.ratio <= 1))
    vkf_env_log(b->env, VKF_LOG_WARNING, "%s: %s was right in its first run and is wrong after %u more", b->problem,
                c->name, c->next);
  return VKF_OK;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* Gets the problem of a node for this variant; a matmul's weight is packed as the variant needs it. */
static void problem_of(const bench *b, uint32_t node, const vkf_variant *variant, vkf_problem *out) {
  const vkf_case c = {
      .op = b->op, .params = b->run.plan.nodes[node].params, .sizes = b->run.plan.capacity, .format = b->format};
  vkf_tune_problem_of(&c, b->caps, (vkf_tune_mode){b->batch_invariant, b->backend->reproducible}, NULL, variant, out);
  if (b->params->variant && !out->reproducible) out->order = variant->order; /* by name: any order of sums is allowed */
}

/* Makes programs with operands of their own: one, or with `cold` so many that no operands stay in caches. */
static vkf_status make_programs(bench *b, candidate *c) {
  const vkf_program_options options = {
      .keep_all = true, .statistics = true, .timing = VKF_TIMING_BLOCKS, .variant = c->name};
  vkf_bench_statistic *told = NULL;
  uint32_t n = 1;
  if (b->params->cold) n = (uint32_t)VKF_MIN(VKF_MAX((double)COLD_BYTES / c->row.bytes, 2.0), (double)MAX_COPIES);
  for (uint32_t i = 0; i < n; i++) {
    c->n_copies = i + 1;
    VKF_CALL(b->backend->table->weights_create(b->backend, &b->run.weights, c->name, &c->weights[i]));
    VKF_CALL(
        b->backend->table->program_create(b->backend, &b->run.plan, c->weights[i], NULL, &options, &c->programs[i]));
  }
  VKF_CALL(vkf_vkop_statistics(c->programs[0], 0, vkf_vkop_own_stage(c->programs[0], 0), &b->arena, &told,
                               &c->row.n_statistics));
  c->row.statistics = told;
  return VKF_OK;
}

/* Adds a variant; leaves it out if it does not fit, and keeps the reason. base: the row of the table from which it was
 * made; tile: NULL if it has that row's own. */
static vkf_status add_candidate(bench *b, const vkf_variant *variant, const vkf_variant *base, const char *tile) {
  candidate *c = &b->candidates[b->n];
  vkf_problem p;
  char why[200];
  vkf_kern_name(variant, c->name, sizeof c->name);
  for (uint32_t i = 0; i < b->n; i++)
    if (!strcmp(b->candidates[i].name, c->name)) return VKF_OK;
  if (b->n == MAX_CANDIDATES)
    return vkf_env_fail(b->env, VKF_ERROR_UNSUPPORTED, "%s: expected at most %d kernels to time, found more",
                        b->problem, MAX_CANDIDATES);
  for (uint32_t i = 0; i < b->run.plan.n_nodes; i++) {
    problem_of(b, i, variant, &p);
    if (vkf_kern_fit(variant, &p, b->caps, why, sizeof why)) {
      snprintf(b->why, sizeof b->why, "%.50s: %s", c->name, why);
      return VKF_OK;
    }
  }
  b->n++;
  snprintf(c->tile, sizeof c->tile, "%s", tile ? tile : "");
  c->row = (vkf_bench_row){.size = sizeof(vkf_bench_row),
                           .problem = b->problem,
                           .variant = c->name,
                           .clock = VKF_CLOCK_SUBMIT,
                           .workgroup = vkf_kern_workgroup(variant),
                           .shared_bytes = vkf_kern_shared_bytes(variant),
                           .base = vkf_kern_name(base, c->base, sizeof c->base),
                           .tile = tile ? c->tile : NULL};
  for (uint32_t i = 0; i < b->run.plan.n_nodes; i++) {
    vkf_cost cost = vkf_op_cost(&b->run.plan, &b->run.plan.nodes[i], &b->run.dims);
    c->row.flops += cost.flops;
    c->row.bytes += cost.bytes;
  }
  VKF_CALL(make_programs(b, c));
  return verify_first_run(b, c);
}

/* Replaces a row's kernel by the caller's; layouts, tile and grid stay. */
static void take_place(const bench *b, vkf_variant *row) {
  row->own = true;
  row->module = b->params->shader_name ? b->params->shader_name : "own";
}

/* Adds a variant that is not in the table: another tile, or the caller's kernel. */
static vkf_status add_made(bench *b, const vkf_variant *made, const vkf_variant *base, const char *tile, bool own) {
  char name[128];
  vkf_kern_name(made, name, sizeof name);
  if (own)
    VKF_CALL(vkf_vkop_backend_add(b->backend, made, b->params->shader, b->params->n_shader_words));
  else if (!vkf_vkop_find_variant(b->backend, name))
    VKF_CALL(vkf_vkop_backend_add(b->backend, made, NULL, 0));
  return add_candidate(b, vkf_vkop_find_variant(b->backend, name), base, tile);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Copies the first tile of `at` ("bm=64;bm=128") to `tile` and returns what follows it; NULL: there is no more. */
static const char *next_tile(const char *at, char *tile, size_t size) {
  size_t n = strcspn(at, ";");
  if (!*at) return NULL;
  snprintf(tile, size, "%.*s", (int)VKF_MIN(n, size - 1), at);
  return at + n + (at[n] == ';');
}

/* Adds a row with each tile that it can have, with its own kernel and with the caller's. */
static vkf_status add_tiles(bench *b, const vkf_variant *base) {
  char tile[64], why[sizeof b->why];
  vkf_variant v;
  for (const char *at = next_tile(b->params->tile, tile, sizeof tile); at; at = next_tile(at, tile, sizeof tile)) {
    if (!vkf_kern_tile(base, tile, &v, why, sizeof why)) continue;
    VKF_CALL(add_made(b, &v, base, tile, false));
    if (!b->params->shader) continue;
    take_place(b, &v);
    VKF_CALL(add_made(b, &v, base, tile, true));
  }
  return VKF_OK;
}

static bool is_asked_for(const bench *b, const vkf_variant *variant) {
  char name[128];
  vkf_kern_name(variant, name, sizeof name);
  return variant->op == b->op && (!b->params->variant || named(b->params->variant, name)) &&
         (!b->params->filter || strstr(name, b->params->filter));
}

/* Refuses a name that no kernel has, and names that leave no kernel of the op, before anything is made or measured. */
static vkf_status check_names(const bench *b) {
  const char *list = b->params->variant, *filter = b->params->filter;
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  if (b->params->shader && (!list || !vkf_kern_find(list)))
    return vkf_env_fail(b->env, VKF_ERROR_ARGUMENT,
                        "expected the name of one kernel, whose place the shader takes, found %s",
                        list ? list : "none");
  for (const char *at = list; at && *at; at += *at == ',') {
    char name[128];
    const size_t length = strcspn(at, ",");
    snprintf(name, sizeof name, "%.*s", (int)VKF_MIN(length, sizeof name - 1), at);
    if (!vkf_kern_find(name))
      return vkf_env_fail(b->env, VKF_ERROR_ARGUMENT,
                          "no kernel is named '%s'; `vkformer kernels PROBLEM` lists the names", name);
    at += length;
  }
  for (size_t i = 0; i < n; i++)
    if (is_asked_for(b, &variants[i])) return VKF_OK;
  return vkf_env_fail(b->env, VKF_ERROR_ARGUMENT, "no kernel of %s%s%s%s%s; `vkformer kernels PROBLEM` lists the names",
                      vkf_op_name(b->op), list ? " is named " : "", list ? list : "", filter ? " has in its name " : "",
                      filter ? filter : "");
}

/* Returns why none of the requested rows can have this tile (the reason of one whose tile is free, if there is one);
 * NULL: one can. */
static const char *refusal_of(bench *b, const char *tile, char *why, size_t size) {
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char text[200];
  bool is_free = false;
  vkf_variant v;
  vkf_problem p;
  snprintf(why, size, "no kernel is left by the names that were asked for");
  for (size_t i = 0; i < n; i++) {
    if (!is_asked_for(b, &variants[i]) || (is_free && !vkf_kern_tiles(&variants[i]))) continue;
    const char *reason = vkf_kern_tile(&variants[i], tile, &v, text, sizeof text) ? NULL : text;
    for (uint32_t k = 0; k < b->run.plan.n_nodes && !reason; k++) {
      problem_of(b, k, &v, &p);
      reason = vkf_kern_fit(&v, &p, b->caps, text, sizeof text);
    }
    if (!reason) return NULL;
    is_free = vkf_kern_tiles(&variants[i]);
    snprintf(why, size, "%s", reason);
  }
  return why;
}

/* Reports each tile that no kernel can have; *n_taken: how many others there are. */
static void refuse_tiles(bench *b, vkf_bench_fn on_row, void *user, uint32_t *n_taken) {
  char tile[64], why[sizeof b->why];
  *n_taken = 0;
  for (const char *at = next_tile(b->params->tile, tile, sizeof tile); at; at = next_tile(at, tile, sizeof tile)) {
    const vkf_bench_row row = {.size = sizeof row,
                               .problem = b->problem,
                               .variant = tile,
                               .tile = tile,
                               .refused = refusal_of(b, tile, why, sizeof why)};
    if (row.refused) {
      snprintf(b->why, sizeof b->why, "%s", why);
      VKF_CALLBACK(b->env, on_row(user, &row));
    } else {
      ++*n_taken;
    }
  }
}

/* ---- what is timed ----------------------------------------------------------------------------------------------- */

static vkf_status add_candidates(bench *b, vkf_bench_fn on_row, void *user) {
  size_t n = 0;
  uint32_t n_tiles = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  const vkf_bench_params *params = b->params;
  if (params->tile) refuse_tiles(b, on_row, user, &n_tiles); /* before kernels are made for it */
  for (size_t i = 0; i < n && (n_tiles || !params->tile); i++) {
    if (!is_asked_for(b, &variants[i])) continue;
    VKF_CALL(add_candidate(b, &variants[i], &variants[i], NULL));
    if (params->shader) {
      vkf_variant own = variants[i];
      take_place(b, &own);
      VKF_CALL(add_made(b, &own, &variants[i], NULL, true));
    }
    if (params->tile) VKF_CALL(add_tiles(b, &variants[i]));
  }
  if (!b->n)
    return vkf_env_fail(b->env, VKF_ERROR_ARGUMENT, "no variant%s%s%s%s%s%s fits on %s: %s",
                        params->variant ? " named " : "", params->variant ? params->variant : "",
                        params->filter ? " with the filter " : "", params->filter ? params->filter : "",
                        params->tile ? " with the tile " : "", params->tile ? params->tile : "", b->caps->device_name,
                        b->why);
  return VKF_OK;
}

/* Times the candidates that are not wrong, in turns. */
static vkf_status time_all(bench *b) {
  vkf_status st = VKF_OK;
  vkf_times *times = vkf_env_alloc(b->env, b->n, sizeof *times);
  if (!times) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < b->n; i++) {
    candidate *c = &b->candidates[i];
    VKF_TRY(vkf_tune_times_init(&c->times, b->env));
    c->times.give_up_ns = b->params->give_up_ns;
    if (c->row.ratio <= 1) times[i] = c->times;
  }
  const double warm = vkf_tune_warm_seconds(b->caps);
  VKF_TRY(vkf_tune_times_take(times, b->n, warm, b->params->seconds > 0 ? b->params->seconds : 0.5, time_run, b));
  for (uint32_t i = 0; i < b->n; i++) {
    candidate *c = &b->candidates[i];
    if (times[i].ns) VKF_TRY(verify_last_runs(b, c));
    if (c->row.ratio <= 1) vkf_tune_times_summarize(&times[i], &c->row);
  }
done:
  vkf_env_free(b->env, times);
  return st;
}

static void bench_finish(bench *b) {
  for (uint32_t i = 0; b->candidates && i < b->n; i++) {
    candidate *c = &b->candidates[i];
    for (uint32_t k = 0; k < c->n_copies; k++) {
      if (c->programs[k]) b->backend->table->program_destroy(&c->programs[k]);
      if (c->weights[k]) b->backend->table->weights_destroy(&c->weights[k]);
    }
    vkf_tune_times_finish(&c->times, b->env);
  }
  vkf_env_free(b->env, b->candidates);
  vkf_arena_finish(&b->arena);
  vkf_case_finish(&b->run);
}

vkf_status vkf_device_bench(vkf_device *dev, const char *problem, const vkf_bench_params *params, vkf_bench_fn on_row,
                            void *user) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!problem) return vkf_engine_null(&dev->ctx->env, "problem");
  vkf_bench_params p;
  vkf_status st = VKF_OK;
  bench b = {.env = &dev->ctx->env, .backend = dev->backend, .params = &p, .problem = problem, .op = VKF_OP_MATMUL};
  bool is_ffn = false;
  vkf_case c;
  if (vkf_env_refuses(b.env, "vkf_device_bench")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(b.env);
  vkf_arena_init(&b.arena, b.env);
  VKF_TRY(VKF_PARAMS_READ(b.env, vkf_bench_params, params, &p));
  if (!dev->gpu)
    VKF_FAIL(b.env, VKF_ERROR_UNSUPPORTED, "the scalar path has no kernels to time; expected a Vulkan device");
  if (!strcmp(problem, "peak") || !strcmp(problem, "overhead"))
    return !on_row ? VKF_OK : vkf_lab_bench_device(dev, problem[0] == 'o', b.params, on_row, user);
  b.caps = vkf_gpu_device_caps(dev->gpu);
  b.batch_invariant = dev->ctx->batch_invariant;
  VKF_TRY(vkf_lab_bench_ffn(b.env, problem, &b.run, &is_ffn));
  if (!is_ffn) {
    VKF_TRY(vkf_tune_problem_parse(b.env, problem, &c));
    b.op = c.op;
    b.format = c.format;
  }
  VKF_TRY(check_names(&b));
  if (on_row && !is_ffn) VKF_TRY(vkf_case_make(b.env, &c, &b.run));
  if (!on_row) goto done;
  b.candidates = vkf_env_alloc(b.env, MAX_CANDIDATES, sizeof *b.candidates);
  if (!b.candidates) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(add_candidates(&b, on_row, user));
  VKF_TRY(time_all(&b));
  for (uint32_t i = 0; i < b.n; i++) VKF_CALLBACK(b.env, on_row(user, &b.candidates[i].row));
done:
  bench_finish(&b);
  return st;
}
