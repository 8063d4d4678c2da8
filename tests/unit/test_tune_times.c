/* Timing in turns: how often each candidate runs, which runs count, and which candidates are given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tune/times.h"

enum { N = 3 };

typedef struct clock {
  double ns[N]; /* of a run; that of the first one is ten times as long */
  uint32_t runs[N];
} clock;

static vkf_status run(void *user, uint32_t i, double *ns) {
  clock *c = user;
  *ns = c->runs[i]++ ? c->ns[i] : 10 * c->ns[i];
  return VKF_OK;
}

static void take(clock *c, double warm, const double *give_up_ns, vkf_bench_row *rows) {
  vkf_env env;
  vkf_times times[N];
  vkf_env_init(&env, NULL);
  for (uint32_t i = 0; i < N; i++) {
    assert_int_equal(vkf_tune_times_init(&times[i], &env), VKF_OK);
    times[i].give_up_ns = give_up_ns[i];
  }
  assert_int_equal(vkf_tune_times_take(times, N, warm, 1e-3, run, c), VKF_OK);
  for (uint32_t i = 0; i < N; i++) {
    vkf_tune_times_summarize(&times[i], &rows[i]);
    vkf_tune_times_finish(&times[i], &env);
  }
}

static void warm_runs_do_not_count(void **state) {
  (void)state;
  clock c = {.ns = {1e4, 1e5, 1e7}};
  vkf_bench_row rows[N];
  take(&c, 0, (const double[N]){0}, rows);
  for (int i = 0; i < N; i++) assert_true(rows[i].p90_ns == c.ns[i]); /* the slow first run is not among them */
  assert_int_equal(rows[0].n_runs, 100);
  assert_int_equal(rows[1].n_runs, 10);
  assert_int_equal(rows[2].n_runs, VKF_TIMES_MIN);
}

/* An idle GPU needs a while to raise its clock, so all warm up for 3 ms together, each for a third of it. */
static void devices_warm_up(void **state) {
  (void)state;
  clock c = {.ns = {1e4, 1e5, 1e7}};
  vkf_bench_row rows[N];
  take(&c, 3e-3, (const double[N]){0}, rows);
  assert_int_equal(c.runs[0] - rows[0].n_runs, 91); /* 100 us, then 90 times 10 */
  assert_int_equal(c.runs[1] - rows[1].n_runs, 1);
  assert_int_equal(rows[0].n_runs, 100);
}

/* Times of 1 to 20 ms in a mixed order. */
static void figures_of_uneven_times(void **state) {
  (void)state;
  vkf_env env;
  vkf_times times;
  vkf_bench_row row;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_tune_times_init(&times, &env), VKF_OK);
  for (times.n = 0; times.n < 20; times.n++) times.ns[times.n] = 1e6 * (double)(times.n * 7 % 20 + 1);
  vkf_tune_times_summarize(&times, &row);
  assert_int_equal(row.n_runs, 20);
  assert_true(row.min_ns == 1e6 && row.median_ns == 11e6 && row.p90_ns == 19e6);
  vkf_tune_times_finish(&times, &env);
}

static void the_hopeless_run_once(void **state) {
  (void)state;
  clock c = {.ns = {1e4, 1e5, 1e7}};
  vkf_bench_row rows[N];
  take(&c, 0, (const double[N]){2e5, 2e5, 2e5}, rows);
  assert_int_equal(rows[0].n_runs, 100); /* its first run took 1e5 ns */
  assert_int_equal(c.runs[1], 1);
  assert_int_equal(rows[1].n_runs, 1);
  assert_true(rows[1].median_ns == 1e6);
  assert_int_equal(c.runs[2], 1);
  assert_true(rows[2].median_ns == 1e8);
}

static void the_middle_and_the_spread(void **state) {
  (void)state;
  double ns[20];
  vkf_times times = {.ns = ns, .n = 20};
  vkf_bench_row row = {0};
  for (int i = 0; i < 20; i++) ns[i] = 20 - i;
  vkf_tune_times_summarize(&times, &row);
  assert_int_equal(row.n_runs, 20);
  assert_true(row.min_ns == 1 && row.median_ns == 11 && row.p90_ns == 19);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(warm_runs_do_not_count),    cmocka_unit_test(devices_warm_up),
      cmocka_unit_test(figures_of_uneven_times),   cmocka_unit_test(the_hopeless_run_once),
      cmocka_unit_test(the_middle_and_the_spread),
  };
  return cmocka_run_group_tests_name("times", tests, NULL, NULL);
}
