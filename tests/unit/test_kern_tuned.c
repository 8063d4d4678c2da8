/* Selection by tuned times on an invented device: what they decide, and what they leave to the defaults. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kern/family.h"
#include "kern/tuned.h"
#include "support/problems.h"

static vkf_caps a_lavapipe(void) {
  return (vkf_caps){.kind = VKF_DEVICE_CPU,
                    .is_cpu = true,
                    .driver_id = VKF_DRIVER_ID_LAVAPIPE,
                    .driver_version = 26u << 22,
                    .max_storage_range_bytes = 128u << 20,
                    .max_shared_bytes = 32768,
                    .max_invocations = 1024,
                    .max_workgroup_size = {1024, 1024, 64},
                    .max_workgroup_count = {65535, 65535, 65535},
                    .max_storage_bindings = 8,
                    .max_loop_turns = UINT32_MAX,
                    .max_texel_bindings = 16,
                    .max_texel_elements = 1u << 27,
                    .max_push_bytes = 128,
                    .subgroup_size = 8,
                    .subgroup_min = 8,
                    .subgroup_max = 8,
                    .subgroup_ballot = true,
                    .subgroup_shuffle = true,
                    .subgroup_arithmetic = true,
                    .subgroup_size_control = true,
                    .buffer_address = true,
                    .uniform_loads = true,
                    .int64 = true};
}

static vkf_tuned_time row(const vkf_caps *caps, uint32_t m, uint32_t n, uint32_t k, const char *name, double ns) {
  const vkf_variant *v = vkf_kern_find(name);
  assert_non_null(v);
  return (vkf_tuned_time){.problem = {.op = VKF_OP_MATMUL,
                                      .matmul = {.m = m, .n = n, .k = k},
                                      .packing = vkf_kern_weight_packing(caps, NULL, n, k, VKF_FORMAT_F32, v)},
                          .variant = v,
                          .ns = ns,
                          .from = "here"};
}

static vkf_problem matmul(const vkf_caps *caps, const vkf_tuned *tuned, uint32_t m, uint32_t n, uint32_t k) {
  return (vkf_problem){.op = VKF_OP_MATMUL,
                       .matmul = {.m = m, .n = n, .k = k},
                       .packing = vkf_kern_weight_packing(caps, tuned, n, k, VKF_FORMAT_F32, NULL),
                       .order = VKF_ORDER_ASCENDING};
}

static const char *pick(const vkf_caps *caps, const vkf_tuned *tuned, uint32_t m, uint32_t n, uint32_t k) {
  static char name[128];
  char why[256];
  const vkf_problem p = matmul(caps, tuned, m, n, k);
  return vkf_kern_name(vkf_kern_pick(&p, caps, tuned, why, sizeof why), name, sizeof name);
}

static void the_packing_of_the_fastest_is_taken(void **state) {
  (void)state;
  const vkf_caps c = a_lavapipe();
  const vkf_tuned_time rows[] = {
      row(&c, 32, 256, 512, "matmul-uniform-m6n2-w8", 2000), row(&c, 32, 256, 512, "matmul-lane-m16n4-w8-texel", 1000),
      row(&c, 1, 512, 512, "matmul-uniform-m1n2-w8", 100),   row(&c, 1, 512, 512, "matmul-lane-m1n4-w8-texel", 500),
      row(&c, 32, 512, 512, "matmul-uniform-m6n2-w8", 3000), row(&c, 32, 512, 512, "matmul-lane-m16n4-w8-texel", 1000)};
  const vkf_tuned all = {rows, VKF_COUNT(rows)}, first = {rows, 2};
  assert_int_equal(matmul(&c, NULL, 32, 256, 512).packing.layout, VKF_LAYOUT_W_COLUMNS); /* by the defaults */
  /* Each weight's own times decide. On 512 x 512 uniform is 3 times slower once and 5 times faster once. */
  assert_int_equal(matmul(&c, &all, 32, 256, 512).packing.layout, VKF_LAYOUT_W_LANE);
  assert_int_equal(matmul(&c, &all, 32, 512, 512).packing.layout, VKF_LAYOUT_W_COLUMNS);
  /* Each problem counts once, however many kernels were timed on it: uniform is 2 times slower than the best of three
   * kernels and as fast as the best of two, on average sqrt(2). */
  const vkf_tuned_time often[] = {
      row(&c, 32, 256, 512, "matmul-uniform-m6n2-w8", 2000), row(&c, 32, 256, 512, "matmul-lane-m16n4-w8-texel", 1000),
      row(&c, 32, 256, 512, "matmul-uniform-m4n2-w8", 9000), row(&c, 32, 128, 512, "matmul-uniform-m6n2-w8", 1000),
      row(&c, 32, 128, 512, "matmul-lane-m16n4-w8-texel", 3000)};
  const vkf_tuned five = {often, VKF_COUNT(often)};
  const double slowdown = vkf_kern_tuned_slowdown(&five, 0, 0, &often[0].problem.packing);
  assert_true(slowdown > sqrt(2) * (1 - 1e-12) && slowdown < sqrt(2) * (1 + 1e-12));
  /* A weight that was not measured takes the packing that was best for those that were. */
  assert_int_equal(matmul(&c, &first, 32, 128, 128).packing.layout, VKF_LAYOUT_W_LANE);
  /* Without any times the defaults decide. */
  assert_int_equal(matmul(&c, &(vkf_tuned){rows, 0}, 32, 128, 126).packing.layout, VKF_LAYOUT_W_COLUMNS);
  assert_true(vkf_kern_tuned_slowdown(&all, 256, 512, &rows[1].problem.packing) == 1);
  assert_true(vkf_kern_tuned_slowdown(&all, 64, 64, &rows[1].problem.packing) == 0);
}

static void the_fastest_of_the_packing_is_taken(void **state) {
  (void)state;
  const vkf_caps c = a_lavapipe();
  const vkf_tuned_time rows[] = {
      row(&c, 32, 256, 512, "matmul-uniform-m6n2-w8", 2000), row(&c, 32, 256, 512, "matmul-uniform-m4n2-w8", 1500),
      row(&c, 32, 256, 512, "matmul-lane-m16n4-w8-texel", 9000), row(&c, 1, 256, 512, "matmul-uniform-m4n2-w8", 10),
      row(&c, 1, 256, 512, "matmul-uniform-m1n2-w8", 20)};
  const vkf_tuned tuned = {rows, VKF_COUNT(rows)};
  assert_string_equal(pick(&c, NULL, 32, 256, 512), "matmul-uniform-m6n2-w8");
  assert_string_equal(pick(&c, &tuned, 32, 256, 512), "matmul-uniform-m4n2-w8");
  assert_string_equal(pick(&c, &tuned, 20, 256, 512), "matmul-uniform-m4n2-w8");     /* 32 is near */
  assert_string_equal(pick(&c, &tuned, 64, 256, 512), pick(&c, NULL, 64, 256, 512)); /* nothing as large was measured */
  assert_string_equal(pick(&c, &tuned, 2, 256, 512), pick(&c, NULL, 2, 256, 512)); /* few rows: only times of as many */
  assert_string_equal(pick(&c, &tuned, 1, 256, 512), "matmul-uniform-m4n2-w8");
  assert_string_equal(pick(&c, &tuned, 32, 512, 512), pick(&c, NULL, 32, 512, 512)); /* another weight */
}

static void reasons_name_the_time(void **state) {
  (void)state;
  const vkf_caps c = a_lavapipe();
  const vkf_tuned_time rows[] = {row(&c, 32, 256, 512, "matmul-uniform-m4n2-w8", 1500)};
  const vkf_tuned tuned = {rows, 1};
  const vkf_problem p = matmul(&c, &tuned, 32, 256, 512);
  char why[256] = "";
  vkf_kern_rank measured, other;
  assert_non_null(vkf_kern_pick(&p, &c, &tuned, why, sizeof why));
  assert_non_null(strstr(why, "1.5 us, measured on here"));
  assert_true(vkf_kern_rank_of(rows[0].variant, &p, &c, &tuned, &measured, why, sizeof why));
  assert_true(vkf_kern_rank_of(vkf_kern_find("matmul-uniform-m6n2-w8"), &p, &c, &tuned, &other, why, sizeof why));
  assert_true(vkf_kern_is_better(&measured, &other));
  assert_false(vkf_kern_is_better(&other, &measured));
  assert_false(vkf_kern_rank_of(vkf_kern_find("matmul-lane-m16n4-w8"), &p, &c, &tuned, &other, why, sizeof why));
  assert_non_null(strstr(why, "packed as lane"));
}

static void attention_goes_by_queries_and_keys(void **state) {
  (void)state;
  const vkf_caps c = a_lavapipe();
  const vkf_variant *slow = vkf_kern_find("attention-lane-per-query-32");
  const vkf_problem tuned_one = {
      .op = VKF_OP_ATTENTION,
      .attention = {.queries = 1, .keys = 128, .key_width = 64, .value_width = 64, .batch = 1, .heads = 8}};
  const vkf_tuned_time rows[] = {{.problem = tuned_one, .variant = slow, .ns = 1, .from = "here"}};
  const vkf_tuned tuned = {rows, 1};
  vkf_problem p = tuned_one;
  char why[256];
  assert_ptr_equal(vkf_kern_pick(&p, &c, &tuned, why, sizeof why), slow);
  p.attention.batch = 4;
  p.attention.keys = 96;
  assert_ptr_equal(vkf_kern_pick(&p, &c, &tuned, why, sizeof why), slow);
  p.attention.keys = 300;
  assert_ptr_not_equal(vkf_kern_pick(&p, &c, &tuned, why, sizeof why), slow);
  p = tuned_one;
  p.attention.queries = 2;
  assert_ptr_not_equal(vkf_kern_pick(&p, &c, &tuned, why, sizeof why), slow);
}

/* If facts decide, nothing is measured; otherwise the best guess of each packing is. */
static void only_what_facts_do_not_decide_is_probed(void **state) {
  (void)state;
  vkf_caps c = a_lavapipe();
  vkf_problem p;
  const vkf_variant *v[VKF_MAX_PROBE_CANDIDATES];
  assert_int_equal(vkf_kern_probe_candidates(&c, &p, v), 2);
  assert_string_equal(v[0]->family->name, "uniform");
  assert_string_equal(v[1]->family->name, "lane");
  c.subgroup_size = c.subgroup_min = c.subgroup_max = 16;
  assert_int_equal(vkf_kern_probe_candidates(&c, &p, v), 2);
  assert_string_equal(v[1]->family->name, "lane");
  c = a_lavapipe();
  /* Times of the probe decide the packing alone. */
  vkf_tuned_time rows[] = {row(&c, p.matmul.m, p.matmul.n, p.matmul.k, "matmul-uniform-m6n2-w8", 2000),
                           row(&c, p.matmul.m, p.matmul.n, p.matmul.k, "matmul-lane-m4n4-w8", 1000)};
  rows[0].probed = rows[1].probed = true;
  const vkf_tuned tuned = {rows, 2};
  assert_string_equal(pick(&c, &tuned, p.matmul.m, p.matmul.n, p.matmul.k), "matmul-lane-m16n4-w8-texel");
  c.uniform_loads = false; /* no uniform kernel fits */
  assert_int_equal(vkf_kern_probe_candidates(&c, &p, v), 0);
  c = a_lavapipe();
  c.driver_version = 22u << 22 | 3 << 12;
  assert_int_equal(vkf_kern_probe_candidates(&c, &p, v), 0);
  c = a_lavapipe();
  c.driver_id = VKF_DRIVER_ID_SWIFTSHADER;
  assert_int_equal(vkf_kern_probe_candidates(&c, &p, v), 0);
}

static bool speaks(const vkf_problem *tuned, const vkf_problem *wanted) {
  const vkf_tuned_time time = {.problem = *tuned, .ns = 1, .from = "here"};
  const vkf_tuned all = {&time, 1};
  return vkf_kern_tuned_near(&all, wanted) != NULL;
}

/* From 16 rows on, times of up to twice as many rows count for a problem. Times of other widths or formats never do. */
static void times_speak_for_their_likes(void **state) {
  (void)state;
  static const struct {
    uint32_t tuned, wanted;
    bool speaks;
  } rows[] = {{32, 16, true}, {33, 16, false}, {30, 15, false}, {15, 15, true},
              {17, 16, true}, {16, 17, false}, {16, 16, true}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    const vkf_problem tuned = problem_of(VKF_OP_MATMUL, rows[i].tuned, 64, 64);
    const vkf_problem wanted = problem_of(VKF_OP_MATMUL, rows[i].wanted, 64, 64);
    if (speaks(&tuned, &wanted) != rows[i].speaks)
      fail_msg("times of %u rows for %u", (unsigned)rows[i].tuned, (unsigned)rows[i].wanted);
  }
  vkf_problem one = problem_of(VKF_OP_MATMUL, 32, 64, 64), other = one;
  other.packing.format = VKF_FORMAT_F16;
  assert_false(speaks(&one, &other));
  one = other = problem_of(VKF_OP_ATTENTION, 32, 64, 64);
  assert_true(speaks(&one, &other));
  other.attention.value_width = 32;
  assert_false(speaks(&one, &other));
  one = other = problem_of(VKF_OP_TOP_K, 32, 64, 8);
  assert_true(speaks(&one, &other));
  other.top_k.k = 9;
  assert_false(speaks(&one, &other));
  one = other = problem_of(VKF_OP_NORM, 32, 64, 0);
  assert_true(speaks(&one, &other));
  other.norm.whole_width = 128;
  assert_false(speaks(&one, &other));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_packing_of_the_fastest_is_taken), cmocka_unit_test(times_speak_for_their_likes),
      cmocka_unit_test(the_fastest_of_the_packing_is_taken), cmocka_unit_test(reasons_name_the_time),
      cmocka_unit_test(attention_goes_by_queries_and_keys),  cmocka_unit_test(only_what_facts_do_not_decide_is_probed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
