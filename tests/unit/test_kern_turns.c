/* The numbers of loop turns that kernels report, and how a driver that ends loops early is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kern/family.h"
#include "support/problems.h"
#include "tune/checks.h"

extern const vkf_family vkf_family_naive, vkf_family_row;

/* If a count fell as a problem grows, a kernel would be picked whose loops the driver ends early. */
static void no_count_falls_when_a_problem_grows(void **state) {
  (void)state;
  size_t n = 0, n_sizes;
  char name[96];
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    vkf_problem small = problem_of(variants[i].op, 5, 60, 60);
    problem_sizes(&small, &n_sizes);
    small.split = 64;
    for (uint32_t stage = 0; stage < vkf_kern_stages(&variants[i], &small); stage++)
      for (size_t s = 0; s < n_sizes; s++) {
        vkf_problem p = small;
        uint32_t *size = &problem_sizes(&p, &n_sizes)[s];
        uint64_t before = 0;
        for (*size = 1; *size < 1u << 22; *size += 1 + *size / 7) {
          if (p.op == VKF_OP_NORM && size == &p.norm.width) p.norm.whole_width = p.norm.width;
          const uint64_t turns = vkf_kern_loop_turns(&variants[i], stage, &p);
          if (turns < before)
            fail_msg("%s, stage %u: %llu turns at a size of %u, %llu below it",
                     vkf_kern_name(&variants[i], name, sizeof name), (unsigned)stage, (unsigned long long)turns,
                     (unsigned)*size, (unsigned long long)before);
          before = turns;
        }
      }
  }
}

/* Counted by hand in the shaders. */
static void counts_are_those_of_the_shaders(void **state) {
  (void)state;
  static const struct {
    const vkf_family *family;
    uint32_t stage;
    uint64_t turns;
  } rows[] = {
      {&vkf_family_naive, 0, 8192 + 1 + 8 + 1}, /* eight products per turn, and the rest one by one */
      {&vkf_family_row, 0, 1024 + 1},           /* 65,536 columns by 64 invocations */
  };
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t r = 0; r < VKF_COUNT(rows); r++) {
    uint32_t seen = 0;
    for (size_t i = 0; i < n; i++) {
      if (variants[i].family != rows[r].family || vkf_kern_workgroup(&variants[i]) != 64) continue;
      const vkf_problem p = problem_of(variants[i].op, 1, 65536, 65536);
      assert_int_equal(vkf_kern_loop_turns(&variants[i], rows[r].stage, &p), rows[r].turns);
      seen++;
    }
    if (!seen) fail_msg("row %u: no variant has a workgroup of 64", (unsigned)r);
  }
}

/* Returns what probe_loops computes on a driver that ends loops after `limit` turns, all of an invocation together. */
static uint32_t found_by(const vkf_check_trial *t, uint32_t given, uint64_t limit) {
  const uint32_t inner = VKF_PROBE_INNER_TURNS, rounds = t->turns / (inner + 1), rest = t->turns % (inner + 1);
  uint64_t turns = 0;
  uint32_t word = given;
  for (uint32_t r = 0; r < rounds && turns < limit; r++, turns++)
    for (uint32_t i = 0; i < inner && (i == 0 || turns < limit); i++, turns++)
      word = word * VKF_PROBE_FACTOR + VKF_PROBE_TERM;
  for (uint32_t i = 0; i < rest && (i == 0 || turns < limit); i++, turns++)
    word = word * VKF_PROBE_FACTOR + VKF_PROBE_TERM;
  return word;
}

static void a_driver_that_ends_loops_is_found_out(void **state) {
  (void)state;
  static const vkf_check checks[] = {VKF_CHECK_OF_LOOPS, VKF_CHECK_OF_LONG_LOOPS};
  for (size_t i = 0; i < VKF_COUNT(checks); i++) {
    vkf_caps caps = {.max_loop_turns = UINT32_MAX};
    vkf_check_trial trials[VKF_MAX_TRIALS];
    uint32_t given = 0, expected = 0;
    assert_int_equal(vkf_tune_check_trials(checks[i], &caps, trials), 1);
    vkf_tune_check_row(checks[i])->words(&trials[0], 0, &given, &expected);
    const uint64_t turns = trials[0].turns;
    assert_int_equal(found_by(&trials[0], given, UINT64_MAX), expected);
    assert_int_equal(found_by(&trials[0], given, turns), expected);
    assert_int_not_equal(found_by(&trials[0], given, turns - 2), expected);
    assert_int_not_equal(found_by(&trials[0], given, turns / 2), expected);
    vkf_tune_check_mark_failed(&caps, checks[i]);
    assert_true(caps.max_loop_turns < turns);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_count_falls_when_a_problem_grows),
      cmocka_unit_test(counts_are_those_of_the_shaders),
      cmocka_unit_test(a_driver_that_ends_loops_is_found_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
