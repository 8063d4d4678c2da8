/* measure: see measure.h. */
#include "tune/measure.h"

#include "op/case_program.h"
#include "ref/walk.h"
#include "tune/times.h"

vkf_status vkf_tune_measure_run(vkf_backend *backend, vkf_program *program, const vkf_dims *dims, double *ns,
                                vkf_clock *clock) {
  vkf_block_stats stats;
  uint64_t start = vkf_clock_ns();
  VKF_CALL(backend->table->run(program, dims, 0, 1));
  *ns = (double)(vkf_clock_ns() - start);
  backend->table->block_stats(program, 0, &stats);
  *clock = stats.ns ? VKF_CLOCK_DEVICE : VKF_CLOCK_SUBMIT;
  if (stats.ns) *ns = (double)stats.ns;
  return VKF_OK;
}

static vkf_status verify(vkf_case_program *p, bool *right) {
  vkf_status st = VKF_OK;
  vkf_backend *b = p->backend;
  vkf_walk walk = {0};
  vkf_comparison j = {0};
  VKF_TRY(b->table->run(p->program, &p->run.dims, 0, p->run.plan.n_blocks));
  VKF_TRY(vkf_ref_walk_init(&walk, b->env, b, &p->run.plan, p->program, &p->run.dims, &p->run.weights));
  for (uint32_t i = 0; i < p->run.plan.n_nodes; i++) VKF_TRY(vkf_ref_walk_node(&walk, i, &j));
  *right = j.ratio <= 1;
done:
  vkf_ref_walk_finish(&walk);
  return st;
}

static vkf_status time_run(void *user, uint32_t i, double *ns) {
  const vkf_case_program *p = (const vkf_case_program *)user + i;
  vkf_clock clock;
  return vkf_tune_measure_run(p->backend, p->program, &p->run.dims, ns, &clock);
}

vkf_status vkf_tune_measure(vkf_backend *backend, const vkf_case *c, const char *const *names, uint32_t n, double warm,
                            double seconds, double *ns) {
  vkf_status st = VKF_OK;
  vkf_env *env = backend->env;
  vkf_case_program programs[VKF_MEASURE_MAX] = {{0}};
  vkf_times times[VKF_MEASURE_MAX] = {{0}};
  for (uint32_t i = 0; i < n; i++) {
    bool right = false;
    programs[i].timing = VKF_TIMING_BLOCKS;
    VKF_TRY(vkf_case_make(env, c, &programs[i].run));
    VKF_TRY(vkf_case_program_ready(&programs[i], backend, names[i]));
    if (programs[i].program) VKF_TRY(verify(&programs[i], &right));
    if (right) VKF_TRY(vkf_tune_times_init(&times[i], env)); /* the others get none, so they are not run */
  }
  VKF_TRY(vkf_tune_times_take(times, n, warm, seconds, time_run, programs));
  for (uint32_t i = 0; i < n; i++) {
    vkf_bench_row row = {0};
    vkf_tune_times_summarize(&times[i], &row);
    ns[i] = row.median_ns;
  }
done:
  for (uint32_t i = 0; i < n; i++) {
    vkf_tune_times_finish(&times[i], env);
    vkf_case_program_finish(&programs[i]);
  }
  return st;
}
