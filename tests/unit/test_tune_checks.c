/* The list of checks on invented devices: what is tried for their facts, and what a failed check removes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tune/checks.h"
#include "kern/kern.h"
#include "support/problems.h"

/* Returns a GPU that has everything. */
static vkf_caps a_gpu(void) {
  return (vkf_caps){.kind = VKF_DEVICE_DISCRETE,
                    .max_storage_range_bytes = 1u << 30,
                    .max_shared_bytes = 49152,
                    .max_invocations = 1024,
                    .max_workgroup_size = {1024, 1024, 64},
                    .max_workgroup_count = {65535, 65535, 65535},
                    .max_storage_bindings = 16,
                    .max_loop_turns = UINT32_MAX,
                    .subgroup_size = 32,
                    .subgroup_min = 8,
                    .subgroup_max = 32,
                    .subgroup_size_control = true,
                    .subgroup_ballot = true,
                    .subgroup_shuffle = true,
                    .subgroup_arithmetic = true,
                    .float16 = true,
                    .coopmat = true,
                    .n_matrix_shapes = 4,
                    .matrix_shapes = {{16, 16, 16}, {8, 8, 8}, {16, 8, 16}, {16, 16, 16}},
                    .storage16 = true,
                    .storage8 = true,
                    .buffer_address = true,
                    .timestamps = true,
                    .timestamp_ns = 0.5f};
}

static void a_check_is_named_by_what_it_depends_on(void **state) {
  (void)state;
  char text[64];
  vkf_caps caps = a_gpu();
  assert_true(vkf_tune_check_text(VKF_CHECK_OF_SHUFFLE, &caps, text, sizeof text));
  assert_string_equal(text, "subgroup_shuffle:8,8x4,16,16x4,32,32x4");
  assert_true(vkf_tune_check_text(VKF_CHECK_OF_SHARED, &caps, text, sizeof text));
  assert_string_equal(text, "shared:49152");
  assert_true(vkf_tune_check_text(VKF_CHECK_OF_TIMESTAMPS, &caps, text, sizeof text));
  assert_string_equal(text, "timestamps:0.5");
  assert_true(vkf_tune_check_text(VKF_CHECK_OF_MATRIX, &caps, text, sizeof text));
  assert_string_equal(text, "coopmat:8x2-8x8x8,32x2-16x16x16");
  caps.subgroup_shuffle = caps.timestamps = false;
  assert_false(vkf_tune_check_text(VKF_CHECK_OF_SHUFFLE, &caps, text, sizeof text));
  assert_false(vkf_tune_check_text(VKF_CHECK_OF_TIMESTAMPS, &caps, text, sizeof text));
}

/* The shader writes a word of shared memory for each invocation. */
static void shared_memory_holds_a_word_for_each_invocation(void **state) {
  (void)state;
  static const uint32_t bytes[] = {0, 4, 16, 252, 256, 260, 508, 512, 1020, 1024, 16384, 49152};
  vkf_check_trial trials[VKF_MAX_TRIALS];
  vkf_caps caps = a_gpu();
  for (size_t i = 0; i < VKF_COUNT(bytes); i++) {
    caps.max_shared_bytes = bytes[i];
    const uint32_t n = vkf_tune_check_trials(VKF_CHECK_OF_SHARED, &caps, trials);
    assert_int_equal(n, bytes[i] >= 256);
    const char *why = vkf_tune_check_not_done(VKF_CHECK_OF_SHARED, &caps, vkf_kern_spirv_table);
    assert_int_equal(why == NULL, n > 0);
    if (n == 0) continue;
    assert_true(trials[0].workgroup <= trials[0].shared_words && trials[0].workgroup >= 64);
    assert_int_equal(trials[0].shared_words, bytes[i] / 4);
  }
}

static void what_is_not_tried_says_why(void **state) {
  (void)state;
  static const struct vkf_kern_spirv none = {NULL, NULL, 0};
  vkf_caps caps = a_gpu();
  assert_null(vkf_tune_check_not_done(VKF_CHECK_OF_SHUFFLE, &caps, vkf_kern_spirv_table));
  assert_non_null(strstr(vkf_tune_check_not_done(VKF_CHECK_OF_SHUFFLE, &caps, &none), "compiler"));
#ifdef VKF_HAS_COOPMAT
  assert_null(vkf_tune_check_not_done(VKF_CHECK_OF_MATRIX, &caps, vkf_kern_spirv_table));
  caps.n_matrix_shapes = 0;
  assert_non_null(strstr(vkf_tune_check_not_done(VKF_CHECK_OF_MATRIX, &caps, vkf_kern_spirv_table), "these shapes"));
#endif
  caps.subgroup_size = caps.subgroup_min = caps.subgroup_max = 128;
  assert_non_null(strstr(vkf_tune_check_not_done(VKF_CHECK_OF_SHUFFLE, &caps, vkf_kern_spirv_table), "subgroups"));
}

/* All of the shared memory is tried, by as many invocations as a kernel may have. */
static void trials_follow_the_facts(void **state) {
  (void)state;
  vkf_check_trial trials[VKF_MAX_TRIALS];
  vkf_caps caps = a_gpu();
  assert_int_equal(vkf_tune_check_trials(VKF_CHECK_OF_SHARED, &caps, trials), 1);
  assert_int_equal(trials[0].shared_words * 4, 49152);
  assert_int_equal(trials[0].workgroup, 256);
  caps.max_invocations = 200;
  vkf_tune_check_trials(VKF_CHECK_OF_SHARED, &caps, trials);
  assert_int_equal(trials[0].workgroup, 128);
  assert_int_equal(vkf_tune_check_trials(VKF_CHECK_OF_BALLOT, &caps, trials), 6);
  const uint32_t sizes[] = {8, 8, 16, 16, 32, 32}, workgroups[] = {8, 32, 16, 64, 32, 128};
  for (size_t i = 0; i < VKF_COUNT(sizes); i++) {
    assert_int_equal(trials[i].subgroup_size, sizes[i]);
    assert_int_equal(trials[i].workgroup, workgroups[i]);
    assert_int_equal(trials[i].n, workgroups[i]);
  }
  caps.max_invocations = 40; /* five subgroups of 8, two of 16, one of 32 */
  assert_int_equal(vkf_tune_check_trials(VKF_CHECK_OF_BALLOT, &caps, trials), 5);
  assert_int_equal(trials[3].workgroup, 32);
  assert_int_equal(trials[4].workgroup, 32);
}

/* The expected words of a matrix product are the sums of what the given words stand for, whatever its shape. */
static void matrix_words_are_a_product(void **state) {
  (void)state;
  vkf_check_trial trials[VKF_MAX_TRIALS];
  uint32_t given[512], expected[2], none[2];
  float sum;
  vkf_caps caps = a_gpu();
  const vkf_check_row *row = vkf_tune_check_row(VKF_CHECK_OF_MATRIX);
  assert_int_equal(vkf_tune_check_trials(VKF_CHECK_OF_MATRIX, &caps, trials), 2);
  assert_int_equal(trials[0].n, 2 * 64);
  for (int t = 0; t < 3; t++) {
    vkf_check_trial trial = trials[VKF_MIN(t, 1)];
    if (t == 2) trial.matrix = (vkf_matrix_shape){4, 8, 32}; /* 128 numbers, 256 numbers, 32 sums */
    const uint32_t m = trial.matrix.m, n = trial.matrix.n, depth = trial.matrix.k;
    for (uint32_t i = 0; i < VKF_COUNT(given); i++) row->words(&trial, i, &given[i], none);
    const uint32_t second = t == 0 ? 64 : 256; /* where the numbers of the second subgroup begin */
    for (uint32_t e = 0; e < 2 * m * n; e++) {
      const uint32_t i = e / n % m, j = e % n, first = e < m * n ? 0 : second;
      int all = (int)(given[first + i * n + j] >> 6 & 63) - 31;
      for (uint32_t k = 0; k < depth; k++)
        all += ((int)(given[first + i * depth + k] & 7) - 3) * ((int)(given[first + k * n + j] >> 3 & 7) - 3);
      row->words(&trial, first + i * n + j, none, expected);
      memcpy(&sum, &expected[0], sizeof sum);
      assert_true(sum == (float)all && expected[1] == expected[0]);
    }
    row->words(&trial, m * n, none, expected);
    assert_int_equal(expected[0] == 0 && expected[1] == 0, t == 2); /* there are more numbers than sums */
  }
}

/* ---- after a failure --------------------------------------------------------------------------------------------- */

/* Checks that, once the check has failed, exactly the kernels with the need no longer fit, and the reason names the
 * check. */
static void expect_gone(vkf_check check, const vkf_problem *problem, uint32_t need, const char *words) {
  vkf_caps before = a_gpu(), after = before;
  char why[256];
  size_t n = 0, n_lost = 0;
  const vkf_variant *table = vkf_kern_variants(&n);
  vkf_tune_check_mark_failed(&after, check);
  for (const vkf_variant *v = table; v < table + n; v++) {
    if (v->op != problem->op || vkf_kern_fit(v, problem, &before, why, sizeof why)) continue;
    const char *reason = vkf_kern_fit(v, problem, &after, why, sizeof why);
    const bool needs = need ? v->needs & need : v->subgroup > 0;
    if (needs != (reason != NULL)) fail_msg("%s: %s", v->module, reason ? reason : "fits");
    if (reason && (!strstr(reason, words) || !strstr(reason, "passes its check"))) fail_msg("%s", reason);
    n_lost += reason != NULL;
  }
  assert_true(n_lost > 0);
}

static void what_failed_fits_no_more(void **state) {
  (void)state;
  vkf_problem norm = problem_of(VKF_OP_NORM, 8, 64, 0), matmul = problem_of(VKF_OP_MATMUL, 64, 64, 64);
  const vkf_problem attention = problem_of(VKF_OP_ATTENTION, 8, 8, 16);
  norm.order = matmul.order = VKF_ORDER_FAST;
  matmul.packing.format = VKF_FORMAT_F16;
  expect_gone(VKF_CHECK_OF_SHUFFLE, &norm, VKF_NEED_SHUFFLE, "no subgroup shuffle");
  expect_gone(VKF_CHECK_OF_ARITHMETIC, &norm, VKF_NEED_ARITHMETIC, "no subgroup arithmetic");
  expect_gone(VKF_CHECK_OF_SHARED, &norm, VKF_NEED_SHARED, "shared memory, the device has 0");
  expect_gone(VKF_CHECK_OF_SUBGROUP_SIZE, &norm, 0, "written for subgroups of");
  expect_gone(VKF_CHECK_OF_SHUFFLE, &attention, VKF_NEED_SHUFFLE, "no subgroup shuffle");
  expect_gone(VKF_CHECK_OF_MATRIX, &matmul, VKF_NEED_MATRIX, "no cooperative matrices");
  expect_gone(VKF_CHECK_OF_FLOAT16, &matmul, VKF_NEED_MATRIX, "no cooperative matrices");
}

static void facts_go_with_their_check(void **state) {
  (void)state;
  vkf_caps caps = a_gpu();
  for (vkf_check c = 0; c < VKF_N_CHECKS; c++) vkf_tune_check_mark_failed(&caps, c);
  assert_int_equal(caps.failed_checks, (1u << VKF_N_CHECKS) - 1);
  assert_false(caps.subgroup_shuffle || caps.subgroup_ballot || caps.subgroup_arithmetic);
  assert_false(caps.float16 || caps.coopmat || caps.storage16 || caps.storage8 || caps.buffer_address ||
               caps.timestamps);
  assert_true(caps.timestamp_ns == 0 && caps.max_shared_bytes == 0 && caps.subgroup_max == 0);
  assert_false(caps.subgroup_size_control);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_check_is_named_by_what_it_depends_on),
      cmocka_unit_test(shared_memory_holds_a_word_for_each_invocation),
      cmocka_unit_test(what_is_not_tried_says_why),
      cmocka_unit_test(trials_follow_the_facts),
      cmocka_unit_test(matrix_words_are_a_product),
      cmocka_unit_test(what_failed_fits_no_more),
      cmocka_unit_test(facts_go_with_their_check),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
