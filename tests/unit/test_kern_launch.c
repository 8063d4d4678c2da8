/* Packings, grids, constants, shared bytes and rounding: what is computed from a row of the variant table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kern/attention.h"
#include "kern/family.h"
#include "shared/constants.h"
#include "support/problems.h"

extern const vkf_family vkf_family_heads, vkf_family_subgroup_per_query, vkf_family_uniform_keys,
    vkf_family_workgroup_per_query;

/* Checks that each element is where the index says, no two share a place, the rest is zero, and the scales follow. */
static void check_packing(vkf_weight_packing p, uint32_t n, uint32_t k, size_t elements, size_t bytes) {
  const vkf_format_row *f = vkf_format_get(p.format);
  const uint32_t per_word = 32 / f->bits, all = f->bits == 32 ? UINT32_MAX : (1u << f->bits) - 1;
  assert_int_equal(vkf_kern_packed_elements(&p, n, k), elements);
  assert_int_equal(vkf_kern_packed_bytes(&p, n, k), bytes);
  float *rows = calloc((size_t)n * k, sizeof *rows);
  uint32_t *packed = malloc(bytes);
  const float *scales = (const float *)((const char *)packed + vkf_kern_scales_offset(&p, n, k));
  for (size_t i = 0; i < (size_t)n * k; i++) rows[i] = (float)(i % 125 + 3); /* no row of the cases encodes it as 0 */
  memset(packed, 0xff, bytes);
  vkf_kern_pack(&p, n, k, VKF_FORMAT_F32, rows, packed);
  size_t zeros = 0;
  for (size_t i = 0; i < elements; i++) zeros += (packed[i / per_word] >> i % per_word * f->bits & all) == 0;
  assert_int_equal(zeros, elements - (size_t)n * k);
  for (uint32_t r = 0; r < n; r++) {
    const float scale = f->block ? f->scale(&rows[(size_t)r * k], k) : 0;
    if (f->block) assert_true(scales[r] == scale);
    for (uint32_t c = 0; c < k; c++) {
      const size_t i = vkf_kern_packed_index(&p, k, r, c);
      const uint32_t bits = packed[i / per_word] >> i % per_word * f->bits & all;
      uint32_t expected = 0;
      f->encode(&rows[(size_t)r * k + c], 1, scale, &expected);
      assert_int_equal(bits, expected);
    }
  }
  if (!f->block) { /* elements that are already in the format are packed into the same bytes */
    void *elements = malloc((size_t)n * k * sizeof *rows), *again = malloc(bytes);
    f->encode(rows, (size_t)n * k, 0, elements);
    memset(again, 0xff, bytes);
    vkf_kern_pack(&p, n, k, p.format, elements, again);
    assert_memory_equal(again, packed, bytes);
    free(elements);
    free(again);
  }
  free(rows);
  free(packed);
}

static void packing_keeps_every_element(void **state) {
  (void)state;
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_F32}, 5, 7, 35, 36 * 4);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_LANE, 32, 4, VKF_FORMAT_F32}, 70, 13, 96 * 16, 96 * 16 * 4);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_LANE, 16, 4, VKF_FORMAT_F32}, 16, 8, 128, 512);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_COLUMNS, 16, 1, VKF_FORMAT_F32}, 17, 5, 32 * 5, 32 * 5 * 4);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_COLUMNS, 16, 1, VKF_FORMAT_F32}, 17, 150, 32 * 150, 32 * 150 * 4);
}

static void packing_in_fewer_bits(void **state) {
  (void)state;
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_F16}, 5, 7, 35, 80);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_INT8}, 5, 7, 35, 48 + 5 * 4);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_LANE, 32, 4, VKF_FORMAT_BF16}, 70, 13, 96 * 16, 96 * 16 * 2);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_LANE, 32, 4, VKF_FORMAT_INT8}, 70, 13, 96 * 16, 96 * 16 + 96 * 4);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_COLUMNS, 16, 2, VKF_FORMAT_F16}, 17, 5, 32 * 6, 32 * 6 * 2);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_LANE, 32, 4, VKF_FORMAT_F16}, 33, 150, 64 * 152, 64 * 152 * 2);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_COLUMNS, 16, 4, VKF_FORMAT_INT8}, 17, 135, 32 * 136,
                32 * 136 + 32 * 4);
  check_packing((vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_BF16}, 3, 131, 393, 800);
}

/* The order that the kernels expect: groups of columns, then k in packs, then columns (in one layout the even ones
 * first), then k in the pack. */
static void packing_has_the_documented_order(void **state) {
  (void)state;
  const vkf_weight_packing lane = {VKF_LAYOUT_W_LANE, 32, 4, VKF_FORMAT_F32},
                           columns = {VKF_LAYOUT_W_COLUMNS, 16, 1, VKF_FORMAT_F32};
  assert_int_equal(vkf_kern_packed_index(&lane, 12, 0, 3), 3);
  assert_int_equal(vkf_kern_packed_index(&lane, 12, 1, 0), 4);
  assert_int_equal(vkf_kern_packed_index(&lane, 12, 0, 4), 128);
  assert_int_equal(vkf_kern_packed_index(&lane, 12, 32, 0), 384);
  assert_int_equal(vkf_kern_packed_index(&lane, 10, 32, 0), 384);             /* K padded to 12 */
  assert_int_equal(vkf_kern_packed_index(&columns, 6, 6, 5), 5 * 16 + 3);     /* even columns, */
  assert_int_equal(vkf_kern_packed_index(&columns, 6, 7, 5), 5 * 16 + 8 + 3); /* then the odd ones */
  assert_int_equal(vkf_kern_packed_index(&columns, 6, 16, 0), 96);
}

static vkf_problem problem(vkf_op op, uint32_t m, uint32_t n) {
  vkf_problem p = problem_of(op, m, n, 64);
  p.packing = (vkf_weight_packing){VKF_LAYOUT_W_LANE, 32, 4, VKF_FORMAT_F32};
  return p;
}

/* The grid covers the result and wastes less than a tile; that of an empty problem is 0. */
static void grid_covers(void **state) {
  (void)state;
  size_t n_variants;
  const vkf_variant *table = vkf_kern_variants(&n_variants);
  static const uint32_t sizes[] = {1, 2, 7, 31, 32, 33, 64, 65, 511};
  for (const vkf_variant *v = table; v < table + n_variants; v++) {
    for (size_t i = 0; i < VKF_COUNT(sizes); i++) {
      const uint32_t m = sizes[i], columns = sizes[VKF_COUNT(sizes) - 1 - i];
      const vkf_problem p = problem(v->op, m, columns);
      uint32_t grid[3];
      vkf_kern_grid(v, vkf_kern_rounds_x(v, &p), &p, grid);
      const bool attention = v->op == VKF_OP_ATTENTION || v->op == VKF_OP_ATTENTION_WEIGHTS;
      if (v->op == VKF_OP_MATMUL) {
        assert_true(grid[0] * v->tile.gemm.bm >= m && (grid[0] - 1) * v->tile.gemm.bm < m);
        assert_true(grid[1] * v->tile.gemm.bn >= columns && (grid[1] - 1) * v->tile.gemm.bn < columns);
      } else if (v->family == &vkf_family_heads) { /* 2 heads of 3 sequences */
        assert_true(grid[0] * vkf_kern_workgroup(v) >= 6 && (grid[0] - 1) * vkf_kern_workgroup(v) < 6);
        assert_int_equal(grid[1], m);
      } else if (attention) {
        const bool is_one = v->family == &vkf_family_workgroup_per_query ||
                            v->family == &vkf_family_subgroup_per_query || v->family == &vkf_family_uniform_keys;
        const uint32_t queries = is_one ? 1 : v->tile.attention.rows ? v->tile.attention.rows : vkf_kern_workgroup(v);
        assert_true(grid[0] * queries >= m && (grid[0] - 1) * queries < m);
        const bool by_lane = v->family->grid == vkf_kern_attention_grid_by_lane;
        assert_int_equal(grid[1], by_lane ? 3 : 2);
        assert_int_equal(grid[2], by_lane ? 2 : 3);
      } else {
        assert_true(grid[0] == m ||
                    (grid[0] * vkf_kern_workgroup(v) >= m && (grid[0] - 1) * vkf_kern_workgroup(v) < m));
        assert_int_equal(grid[1], strstr(v->family->name, "columns") ? VKF_CEIL_DIV(p.rows.width, 4 * 64) : 1);
      }
      if (!attention || v->family == &vkf_family_heads) assert_int_equal(grid[2], 1);
    }
    const vkf_problem empty = problem(v->op, 0, 64);
    uint32_t grid[3] = {9, 9, 9};
    vkf_kern_grid(v, 0, &empty, grid);
    assert_true(!grid[0] && !grid[1] && !grid[2]);
  }
}

static void constants_come_from_the_row(void **state) {
  (void)state;
  const vkf_variant *v = vkf_kern_find("matmul-shared-64x64x16-m4n4");
  const vkf_problem p = problem(VKF_OP_MATMUL, 64, 64);
  uint32_t c[VKF_MAX_CONSTANTS];
  assert_int_equal(vkf_kern_constants(v, &p, c), VKF_C_COMMON);
  assert_int_equal(c[VKF_C_WORKGROUP], 256);
  assert_int_equal(c[VKF_C_BM], 64);
  assert_int_equal(c[VKF_C_BK], 16);
  assert_int_equal(c[VKF_C_TM], 4);
  assert_int_equal(c[VKF_C_W_LAYOUT], VKF_W_LANE);
  assert_int_equal(c[VKF_C_W_COLUMNS], 32);
  assert_int_equal(vkf_kern_shared_bytes(v), 2 * (64 + 64) * (16 + 4) * 4);
  assert_int_equal(vkf_kern_shared_bytes(vkf_kern_find("matmul-naive-m1n1")), 0);
  assert_int_equal(vkf_kern_shared_bytes(vkf_kern_find("matmul-coopmat-64x64x32-m32n32-16x16x16-w32")),
                   2 * (64 + 64) * (32 + 8) * 2);
  v = vkf_kern_find("matmul-lane-m8n4-w8");
  assert_int_equal(c[VKF_C_HALVES_BY_HAND], 0);
  vkf_problem by_hand = p;
  by_hand.halves_by_hand = true;
  vkf_kern_constants(v, &by_hand, c);
  assert_int_equal(c[VKF_C_HALVES_BY_HAND], 1);
  assert_int_equal(c[VKF_C_SUBGROUP_SIZE], 8);
  assert_int_equal(c[VKF_C_WORKGROUP], 8);
}

/* The first stage has workgroups for each split of the actual keys, the second a lane for each number of the result.
 * Scratch memory holds what the first one finds. */
static void splits_have_two_stages(void **state) {
  (void)state;
  const vkf_variant *v = vkf_kern_find("attention-split-4x32x16-m4n4-w32");
  vkf_problem p = {
      .op = VKF_OP_ATTENTION,
      .attention = {
          .batch = 5, .queries = 3, .keys = 300, .key_width = 64, .value_width = 32, .heads = 6, .kv_heads = 2}};
  uint32_t grid[3];
  p.split = 64;
  assert_int_equal(vkf_kern_stages(v, &p), 2);
  assert_int_equal(vkf_kern_scratch_bytes(v, &p), 5 * 3 * 6 * 5 * (32 + 2) * 4);
  vkf_kern_grid(v, 0, &p, grid);
  assert_true(grid[0] == 3 * 5 && grid[1] == 2 && grid[2] == 5); /* 9 rows by 4, 5 splits */
  vkf_kern_grid(v, 1, &p, grid);
  assert_true(grid[0] == 23 && grid[1] == 1 && grid[2] == 1); /* 2880 numbers, 128 per workgroup */
  const vkf_variant *matmul = vkf_kern_find("matmul-split-64x64x16-m4n4");
  vkf_problem weight = problem(VKF_OP_MATMUL, 64, 64);
  const vkf_caps usual = {.indexed_registers = true}, v3d = {0};
  char name[64];
  weight.packing.format = VKF_FORMAT_F16;
  assert_string_equal(vkf_kern_module(matmul, 0, &weight, &usual, name, sizeof name), "matmul_split_f16");
  assert_string_equal(vkf_kern_module(matmul, 1, &weight, &usual, name, sizeof name), "matmul_combine");
  weight.packing.format = VKF_FORMAT_INT8; /* the second stage applies the scales of its rows */
  assert_string_equal(vkf_kern_module(matmul, 1, &weight, &usual, name, sizeof name), "matmul_combine_int8");
  assert_string_equal(vkf_kern_module(matmul, 0, &weight, &v3d, name, sizeof name), "matmul_split_written_out_int8");
  assert_string_equal(vkf_kern_module(matmul, 1, &weight, &v3d, name, sizeof name), "matmul_combine_int8");
  v = vkf_kern_find("attention-workgroup-per-query-16");
  assert_int_equal(vkf_kern_stages(v, &p), 1);
  assert_int_equal(vkf_kern_scratch_bytes(v, &p), 0);
  assert_int_equal(vkf_kern_split(v, &p, &(vkf_caps){0}), 0);
}

/* A first dispatch rounds x: to 8 bits if the weight is in q8, and to f16 for some kernels of matrix cores. */
static void x_is_rounded_before(void **state) {
  (void)state;
  static const struct {
    const char *kernel;
    vkf_format format;
    const char *modules[2];
    uint64_t bytes;
    uint32_t grids[2][3]; /* of 130 rows by 70 columns, 64 deep: 260 blocks of x, and tiles */
  } expected[] = {
      {"matmul-shared-64x64x16-m4n4",
       VKF_FORMAT_Q8,
       {"quantise", "matmul_shared_int8"},
       130 * 64 * 4,
       {{2, 1, 1}, {3, 2, 1}}},
      {"matmul-dot-64x64x32-m4n4",
       VKF_FORMAT_Q8,
       {"quantise_words", "matmul_dot_int8"},
       260 * 36,
       {{2, 1, 1}, {3, 2, 1}}},
      {"matmul-coopmat-halves-128x128x32-m64n64-16x16x16-w32",
       VKF_FORMAT_F16,
       {"round_halves", "matmul_coopmat_halves_f16"},
       130 * 64 * 2,
       {{3, 1, 1}, {2, 1, 1}}},
      {"matmul-coopmat-halves-128x128x32-m64n64-16x16x16-w32",
       VKF_FORMAT_INT8,
       {"round_halves", "matmul_coopmat_halves_int8"},
       130 * 64 * 2,
       {{3, 1, 1}, {2, 1, 1}}},
  };
  const vkf_caps caps = {.indexed_registers = true};
  for (size_t i = 0; i < VKF_COUNT(expected); i++) {
    const vkf_variant *v = vkf_kern_find(expected[i].kernel);
    vkf_problem p = problem(VKF_OP_MATMUL, 130, 70);
    p.packing.format = expected[i].format;
    assert_true(vkf_kern_rounds_x(v, &p));
    assert_int_equal(vkf_kern_stages(v, &p), 2);
    assert_int_equal(vkf_kern_scratch_bytes(v, &p), expected[i].bytes);
    for (uint32_t stage = 0; stage < 2; stage++) {
      char name[64];
      uint32_t grid[3];
      assert_string_equal(vkf_kern_module(v, stage, &p, &caps, name, sizeof name), expected[i].modules[stage]);
      vkf_kern_grid(v, stage, &p, grid);
      assert_memory_equal(grid, expected[i].grids[stage], sizeof grid);
    }
  }
}

/* In the reproducible mode functions are built from + - * / and roots (docs/numerics.md), so their errors are known. */
static void rounding_of_the_reproducible_mode(void **state) {
  (void)state;
  vkf_rounding r;
  vkf_problem p = problem(VKF_OP_NORM, 64, 64);
  p.reproducible = true;
  vkf_kern_rounding(vkf_kern_find("norm-row-64"), &p, &r);
  assert_true(r.exp_ulp_slope == 0 && r.exp_ulp_base < 3 && r.log_ulp < 3);
  assert_true(r.div_ulp == 0.5 && r.rsqrt_ulp == 3 * r.div_ulp); /* a root, and a quotient by it */
  assert_true(r.tiny == 0x1p-100 && r.log_abs == 0x1p-24 && r.u == 0x1p-24);
}

/* K is split into at most 16 parts of at least 128, in whole slices, so that each core has two workgroups. */
static void pieces_of_k(void **state) {
  (void)state;
  const vkf_variant *v = vkf_kern_find("matmul-split-64x64x16-m4n4");
  const vkf_caps small = {.kind = VKF_DEVICE_DISCRETE, .n_cores = 2},
                 large = {.kind = VKF_DEVICE_DISCRETE, .n_cores = 100};
  const vkf_problem p = problem(VKF_OP_MATMUL, 64, 64);
  vkf_problem k = p;
  k.matmul.k = 4096;
  assert_int_equal(vkf_kern_split(v, &k, &small), 4096 / 4);  /* twice two cores */
  assert_int_equal(vkf_kern_split(v, &k, &large), 4096 / 16); /* no more than 16 */
  k.matmul.k = 200;
  assert_int_equal(vkf_kern_split(v, &k, &large), 128);
  k.matmul.k = 16 * 250 + 1;
  assert_int_equal(vkf_kern_split(v, &k, &large), 256); /* 251, up to whole slices of 16 */
}

/* A bound must know how many partial sums an element has. */
static void rounding_counts_partial_sums(void **state) {
  (void)state;
  vkf_rounding r;
  const vkf_problem p = problem(VKF_OP_MATMUL, 64, 64);
  vkf_kern_rounding(vkf_kern_find("matmul-naive-m1n1"), &p, &r);
  assert_int_equal(r.n_partial, 1);
  assert_true(r.u == 0x1p-24);
  assert_false(r.x_f16);
  vkf_kern_rounding(vkf_kern_find("matmul-coopmat-64x64x32-m32n32-16x16x16-w32"), &p, &r);
  assert_true(r.x_f16 && r.u == 0x1p-23);
  assert_int_equal(r.at_once, 16);
  vkf_kern_rounding(vkf_kern_find("matmul-vector-1x2x512-m1n2-w32"), &p, &r);
  assert_int_equal(r.n_partial, 128);
  assert_int_equal(r.together, 4);
  vkf_kern_rounding(vkf_kern_find("norm-subgroup-w16"), &p, &r);
  assert_int_equal(r.n_partial, 16);
  vkf_kern_rounding(vkf_kern_find("attention-lane-per-query-8"), &p, &r);
  assert_int_equal(r.key_block, VKF_KEY_BLOCK);
  vkf_problem split = problem(VKF_OP_ATTENTION, 1, 300);
  split.split = 64;
  vkf_kern_rounding(vkf_kern_find("attention-split-1x32x16-m1n4-w32"), &split, &r);
  assert_int_equal(r.n_partial, 5 * 8); /* splits, and 8 clusters of 16 lanes in each */
  split = problem(VKF_OP_MATMUL, 64, 64);
  split.split = 16;
  vkf_kern_rounding(vkf_kern_find("matmul-split-64x64x16-m4n4"), &split, &r);
  assert_true(r.n_partial == 4 && r.together == 16); /* K is 64 */
  vkf_kern_rounding(vkf_kern_find("matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32"), &split, &r);
  assert_true(r.n_partial == 4 && r.together == 16 && r.x_f16 && r.at_once == 16 && r.u == 0x1p-23);
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    split = problem(table[i].op, 64, 300);
    split.split = 64;
    vkf_kern_rounding(&table[i], &split, &r);
    assert_true(r.n_partial >= 1);
    if (table[i].order == VKF_ORDER_ASCENDING)
      assert_true(r.n_partial == 1 || (r.n_partial == VKF_ROW_PARTIALS && table[i].op != VKF_OP_MATMUL));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packing_keeps_every_element),
      cmocka_unit_test(packing_in_fewer_bits),
      cmocka_unit_test(packing_has_the_documented_order),
      cmocka_unit_test(grid_covers),
      cmocka_unit_test(constants_come_from_the_row),
      cmocka_unit_test(rounding_counts_partial_sums),
      cmocka_unit_test(rounding_of_the_reproducible_mode),
      cmocka_unit_test(pieces_of_k),
      cmocka_unit_test(splits_have_two_stages),
      cmocka_unit_test(x_is_rounded_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
