#include "tune/times.h"

#include <stdlib.h>

vkf_status vkf_tune_times_init(vkf_times *t, vkf_env *env) {
  *t = (vkf_times){.ns = vkf_env_alloc(env, VKF_TIMES_MAX, sizeof *t->ns)};
  return t->ns ? VKF_OK : VKF_ERROR_MEMORY;
}

void vkf_tune_times_finish(vkf_times *t, vkf_env *env) {
  vkf_env_free(env, t->ns);
  *t = (vkf_times){0};
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void vkf_tune_times_summarize(vkf_times *t, vkf_bench_row *row) {
  row->n_runs = t->n;
  if (!t->n) return;
  qsort(t->ns, t->n, sizeof *t->ns, by_value);
  row->min_ns = t->ns[0];
  row->median_ns = t->ns[t->n / 2];
  row->p90_ns = t->ns[t->n * 9 / 10];
}

/* Runs rounds until each contestant has had `seconds` and `least` runs. Keeps their times only if `keep`. */
static vkf_status rounds(vkf_times *times, uint32_t n, double seconds, uint32_t least, bool keep, vkf_time_fn run,
                         void *user) {
  bool again = true;
  for (uint32_t round = 0; again; round++) {
    again = false;
    for (uint32_t i = 0; i < n; i++) {
      vkf_times *t = &times[i];
      double ns = 0;
      if (!t->ns || t->gave_up || round == VKF_TIMES_MAX || (round >= least && t->total_ns >= seconds * 1e9)) continue;
      VKF_CALL(run(user, i, &ns));
      again = true;
      t->total_ns += ns;
      t->gave_up = !keep && round == 0 && t->give_up_ns > 0 && ns > t->give_up_ns;
      if (keep || t->gave_up) t->ns[t->n++] = ns;
    }
  }
  return VKF_OK;
}

double vkf_tune_warm_seconds(const vkf_caps *caps) {
  return caps->is_cpu ? 0 : 0.4;
}

vkf_status vkf_tune_times_take(vkf_times *times, uint32_t n, double warm, double seconds, vkf_time_fn run, void *user) {
  uint32_t n_timed = 0;
  for (uint32_t i = 0; i < n; i++) n_timed += times[i].ns != NULL;
  VKF_CALL(rounds(times, n, VKF_MAX(seconds / 5, warm / VKF_MAX(n_timed, 1)), 1, false, run, user));
  for (uint32_t i = 0; i < n; i++) times[i].total_ns = 0;
  return rounds(times, n, seconds, VKF_TIMES_MIN, true, run, user);
}
