/* Names, fit and choice of kernel variants on invented devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kern/family.h"
#include "kern/spirv.h"
#include "shared/constants.h"
#include "support/problems.h"
#include "support/range.h"

extern const vkf_family vkf_family_dot, vkf_family_vector;

static vkf_caps a_device(void) {
  return (vkf_caps){.kind = VKF_DEVICE_OTHER,
                    .max_storage_range_bytes = 128u << 20,
                    .max_allocation_bytes = 1u << 30,
                    .max_shared_bytes = 16384,
                    .max_invocations = 128,
                    .max_workgroup_size = {128, 128, 64},
                    .max_workgroup_count = {65535, 65535, 65535},
                    .max_storage_bindings = 8,
                    .max_loop_turns = UINT32_MAX,
                    .max_push_bytes = 128,
                    .subgroup_size = 1,
                    .subgroup_min = 1,
                    .subgroup_max = 1};
}

/* The least that Vulkan 1.1 allows, except that it has eight storage buffers. */
static vkf_caps tiny(void) {
  return a_device();
}

static vkf_caps with_subgroups(vkf_caps c, uint32_t size) {
  c.subgroup_size = c.subgroup_min = c.subgroup_max = size;
  c.subgroup_ballot = c.subgroup_shuffle = c.subgroup_arithmetic = true;
  return c;
}

static vkf_caps swiftshader(void) {
  vkf_caps c = with_subgroups(a_device(), 4);
  c.kind = VKF_DEVICE_CPU;
  c.is_cpu = true;
  c.driver_id = VKF_DRIVER_ID_SWIFTSHADER;
  c.max_invocations = c.max_workgroup_size[0] = 256;
  c.max_texel_bindings = 16;
  c.max_texel_elements = 65536;
  return c;
}

static vkf_caps lavapipe(void) {
  vkf_caps c = with_subgroups(a_device(), 8);
  c.kind = VKF_DEVICE_CPU;
  c.is_cpu = true;
  c.driver_id = VKF_DRIVER_ID_LAVAPIPE;
  c.driver_version = 1;
  c.max_shared_bytes = 32768;
  c.max_invocations = c.max_workgroup_size[0] = 1024;
  c.max_texel_bindings = 16;
  c.max_texel_elements = 1u << 27;
  c.subgroup_size_control = c.buffer_address = c.int64 = true;
  return c;
}

/* LP_NATIVE_VECTOR_WIDTH=512. */
static vkf_caps wide_lavapipe(void) {
  vkf_caps c = lavapipe();
  c.subgroup_size = c.subgroup_min = c.subgroup_max = 16;
  return c;
}

static vkf_caps newer_lavapipe(void) {
  vkf_caps c = lavapipe();
  c.uniform_loads = true;
  return c;
}

static vkf_caps nvidia(void) {
  vkf_caps c = with_subgroups(a_device(), 32);
  c.kind = VKF_DEVICE_DISCRETE;
  c.max_shared_bytes = 49152;
  c.max_invocations = c.max_workgroup_size[0] = 1024;
  c.max_texel_bindings = 16;
  c.max_texel_elements = 1u << 27;
  c.subgroup_size_control = c.buffer_address = c.int64 = true;
  return c;
}

static vkf_caps with_matrices(void) {
  vkf_caps c = nvidia();
  c.float16 = c.coopmat = true;
  c.n_matrix_shapes = 2;
  c.matrix_shapes[0] = (vkf_matrix_shape){16, 8, 8};
  c.matrix_shapes[1] = (vkf_matrix_shape){16, 16, 16};
  return c;
}

static vkf_problem matmul(const vkf_caps *caps, uint32_t m, uint32_t n, uint32_t k) {
  return (vkf_problem){.op = VKF_OP_MATMUL,
                       .matmul = {.m = m, .n = n, .k = k},
                       .packing = vkf_kern_weight_packing(caps, NULL, n, k, VKF_FORMAT_F32, NULL),
                       .order = vkf_kern_order(caps, false)};
}

static vkf_problem any(vkf_op op, vkf_order_class order) {
  vkf_problem p = problem_of(op, 5, 70, 64);
  p.order = order;
  return p;
}

static const vkf_variant *pick(const vkf_problem *p, const vkf_caps *caps) {
  char why[256] = "";
  const vkf_variant *v = vkf_kern_pick(p, caps, NULL, why, sizeof why);
  assert_true(strlen(why) > 0);
  return v;
}

static void refused(const char *name, const vkf_problem *p, const vkf_caps *caps, const char *reason) {
  char why[256] = "";
  const vkf_variant *v = vkf_kern_find(name);
  assert_non_null(v);
  assert_ptr_equal(vkf_kern_fit(v, p, caps, why, sizeof why), why);
  if (!strstr(why, reason)) fail_msg("%s: \"%s\" does not say \"%s\"", name, why, reason);
}

static void names_are_unique_and_found(void **state) {
  (void)state;
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  char name[128], other[128];
  for (size_t i = 0; i < n; i++) {
    vkf_kern_name(&table[i], name, sizeof name);
    assert_ptr_equal(vkf_kern_find(name), &table[i]);
    assert_memory_equal(name, vkf_op_name(table[i].op), strlen(vkf_op_name(table[i].op)));
    for (size_t j = 0; j < i; j++) assert_string_not_equal(name, vkf_kern_name(&table[j], other, sizeof other));
  }
  assert_null(vkf_kern_find("matmul-lane-m3n4-w8"));
  assert_non_null(vkf_kern_find("matmul-lane-m16n4-w8-texel"));
}

/* A module that is missing from the build would be noticed only when a device runs it. */
static void modules_are_built(void **state) {
  (void)state;
  size_t n, m;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    for (int f = 0; f < VKF_FORMAT_COUNT; f++) {
      const vkf_problem p = {.op = table[i].op, .packing = {.format = (vkf_format)f}};
      const bool reads = table[i].formats >> f & 1 || (f == VKF_FORMAT_F32 && format_of(&table[i]) == VKF_FORMAT_F32);
      const vkf_caps usual = {.indexed_registers = true};
      char name[128];
      vkf_kern_module(&table[i], 0, &p, &usual, name, sizeof name);
      for (m = 0; m < vkf_kern_spirv_count && strcmp(vkf_kern_spirv_table[m].name, name); m++)
        ;
#ifndef VKF_HAS_COOPMAT
      if (table[i].matrix.m) continue;
#endif
      assert_true(!reads || m < vkf_kern_spirv_count);
      if (!reads || vkf_kern_stages(&table[i], &p) == 1) continue;
      vkf_kern_module(&table[i], 1, &p, &usual, name, sizeof name);
      assert_non_null(vkf_kern_spirv_find(vkf_kern_spirv_table, name)->name);
    }
  }
}

/* Every op has a kernel on every device, in either order class, in every format that it reads. */
static void every_op_runs_everywhere(void **state) {
  (void)state;
  const vkf_caps devices[] = {tiny(), swiftshader(), lavapipe(), nvidia()};
  for (size_t d = 0; d < VKF_COUNT(devices); d++) {
    for (int op = 0; op < VKF_OP_COUNT; op++) {
      for (int order = 0; order <= VKF_ORDER_FAST; order++) {
        const bool has_weight = op == VKF_OP_EMBED || op == VKF_OP_MATMUL;
        vkf_problem p = any((vkf_op)op, (vkf_order_class)order);
        for (int format = 0; format < (has_weight ? VKF_FORMAT_COUNT : 1); format++) {
          p.packing.format = (vkf_format)format;
          const vkf_variant *v = pick(&p, &devices[d]);
          assert_non_null(v);
          assert_int_equal(v->op, op);
          if (order == VKF_ORDER_ASCENDING) assert_int_equal(v->order, VKF_ORDER_ASCENDING);
        }
      }
    }
  }
}

static void assert_family(const vkf_caps *caps, uint32_t m, uint32_t n, uint32_t k, const char *family) {
  const vkf_problem p = matmul(caps, m, n, k);
  assert_string_equal(pick(&p, caps)->family->name, family);
}

static void defaults_follow_the_device(void **state) {
  (void)state;
  const vkf_caps small = tiny(), sw = swiftshader(), lvp = lavapipe(), newer = newer_lavapipe(), gpu = nvidia();
  assert_family(&small, 77, 512, 512, "shared");
  assert_family(&sw, 77, 512, 512, "lane");
  assert_family(&lvp, 77, 512, 512, "lane");
  assert_family(&newer, 77, 512, 511, "uniform");
  assert_family(&gpu, 77, 512, 512, "shared");
  assert_family(&sw, 77, 512, 511, "naive"); /* lane loads four k at a time */
  assert_family(&gpu, 77, 512, 511, "shared");
  vkf_problem p = matmul(&sw, 77, 512, 512);
  assert_int_equal(pick(&p, &sw)->subgroup, 4);
  p = matmul(&lvp, 77, 512, 512);
  assert_int_equal(pick(&p, &lvp)->access, VKF_ACCESS_TEXEL);
  assert_int_equal(pick(&p, &lvp)->tile.gemm.tm, 16);
  p = matmul(&lvp, 1, 512, 512); /* decoding: no unused rows */
  assert_int_equal(pick(&p, &lvp)->tile.gemm.tm, 1);
  p = any(VKF_OP_ATTENTION, VKF_ORDER_ASCENDING);
  p.attention.queries = 1; /* decoding */
  assert_string_equal(pick(&p, &sw)->family->name, "subgroup-per-query");
  assert_string_equal(pick(&p, &lvp)->family->name, "subgroup-per-query");
  assert_string_equal(pick(&p, &newer)->family->name, "uniform-keys");
  assert_int_equal(pick(&p, &newer)->subgroup, newer.subgroup_size);
  p.attention.value_width = 20; /* some lanes would have no column of the last vector */
  assert_string_equal(pick(&p, &newer)->family->name, "subgroup-per-query");
  p.attention.value_width = 64;
  assert_int_equal(pick(&p, &lvp)->access, VKF_ACCESS_TEXEL);
  assert_int_equal(pick(&p, &sw)->access, VKF_ACCESS_STORAGE); /* few texels */
  p.attention.batch = 32;                                      /* enough sequences for all lanes */
  assert_string_equal(pick(&p, &sw)->family->name, "heads");
  assert_string_equal(pick(&p, &lvp)->family->name, "heads");
  assert_int_equal(pick(&p, &lvp)->workgroup, lvp.subgroup_size);
  assert_string_equal(pick(&p, &newer)->family->name, "heads");
  p.attention.batch = 1;
  p.attention.queries = 48;
  assert_string_equal(pick(&p, &lvp)->family->name, "subgroup-per-query");
  assert_string_equal(pick(&p, &newer)->family->name, "uniform-few"); /* uniform takes a third of a second to make */
  p.attention.queries = 24;
  assert_string_equal(pick(&p, &newer)->family->name, "uniform-keys"); /* uniform-few takes some time to make, too */
  p.attention.keys = 1010; /* with many keys, as in a conversation, that pays soon */
  p.attention.queries = 10;
  assert_string_equal(pick(&p, &newer)->family->name, "uniform");
  p.attention.queries = 2;
  assert_string_equal(pick(&p, &newer)->family->name, "uniform-keys");
  p.attention.keys = 64;
  p.attention.queries = 96;
  assert_string_equal(pick(&p, &newer)->family->name, "uniform");
  assert_string_equal(pick(&p, &sw)->family->name, "vec4");
  assert_string_equal(pick(&p, &gpu)->family->name, "tiles");
  assert_string_equal(pick(&p, &small)->family->name, "tiles"); /* in 16 KiB and 128 invocations */
  p.attention.key_width = 256;                                  /* too wide to unroll */
  assert_string_equal(pick(&p, &newer)->family->name, "subgroup-per-query");
  p.attention.queries = 1;
  p.attention.key_width = 17;
  assert_string_equal(pick(&p, &lvp)->family->name, "lane-per-query");
  p = any(VKF_OP_NORM, VKF_ORDER_FAST);
  assert_string_equal(pick(&p, &gpu)->family->name, "subgroup");
  assert_int_equal(pick(&p, &gpu)->subgroup, 32);
  p.order = VKF_ORDER_ASCENDING;
  assert_string_equal(pick(&p, &gpu)->family->name, "row");
  p.norm.width = p.norm.whole_width = 336;
  assert_string_equal(pick(&p, &newer)->family->name, "uniform");
  assert_string_equal(pick(&p, &lvp)->family->name, "lanes");
  p.norm.whole_width = 340; /* the part that passes does not end with a whole vector */
  assert_string_equal(pick(&p, &newer)->family->name, "lanes");
  p.norm.width = p.norm.whole_width = 340;
  assert_string_equal(pick(&p, &newer)->family->name, "lanes");
}

/* Without scalar loads at uniform addresses, lavapipe takes the same kernels with 16 lanes as with 8. The others would
 * use gathers, which are 28 times slower. */
static void wide_vectors_take_the_same_families(void **state) {
  (void)state;
  const vkf_caps narrow = lavapipe(), wide = wide_lavapipe();
  const uint32_t rows[] = {1, 2, 5, 8, 13, 45, 128};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    for (size_t far = 0; far < 2; far++) { /* 1: the weight exceeds a texel buffer */
      const uint32_t k = far ? 1u << 22 : 512;
      const vkf_problem a = matmul(&narrow, rows[i], 512, k), b = matmul(&wide, rows[i], 512, k);
      const vkf_variant *x = pick(&a, &narrow), *y = pick(&b, &wide);
      assert_string_equal(y->family->name, "lane");
      assert_int_equal(y->subgroup, 16);
      assert_int_equal(y->tile.gemm.tm, x->tile.gemm.tm);
      assert_int_equal(y->access, x->access);
    }
  }
  for (int op = 0; op < VKF_OP_COUNT; op++) {
    const vkf_problem p = any((vkf_op)op, VKF_ORDER_ASCENDING);
    const vkf_variant *x = pick(&p, &narrow), *y = pick(&p, &wide);
    assert_ptr_equal(y->family, x->family);
    assert_int_equal(y->access, x->access);
    if (x->subgroup) assert_int_equal(y->subgroup, 16);
  }
}

/* On GPUs few queries over many keys are split into as many parts as there is room for; many queries take tiles. */
static void attention_on_gpus(void **state) {
  (void)state;
  vkf_caps big = nvidia(), small = tiny(), cpu = lavapipe();
  vkf_problem p = {
      .op = VKF_OP_ATTENTION,
      .attention = {.queries = 1, .keys = 4096, .key_width = 64, .value_width = 64, .batch = 1, .heads = 8}};
  char why[256];
  p.order = VKF_ORDER_FAST;
  big.n_cores = 132;
  const vkf_variant *split = pick(&p, &big);
  assert_string_equal(split->family->name, "split");
  assert_int_equal(split->subgroup, 32);
  assert_int_equal(split->tile.attention.rows, 1);
  assert_int_equal(vkf_kern_split(split, &p, &big), 64); /* 8 heads of 64 splits, 132 cores of 4 workgroups */
  p.attention.batch = 32;
  assert_string_equal(pick(&p, &big)->family->name, "split");
  assert_int_equal(vkf_kern_split(split, &p, &big), 1376); /* three splits in whole steps of 32 */
  p.attention.batch = 1;
  p.attention.kv_heads = 2; /* four heads read the same keys: one workgroup reads them for all */
  assert_int_equal(pick(&p, &big)->tile.attention.rows, 4);
  p.attention.kv_heads = 0;
  p.order = VKF_ORDER_ASCENDING; /* one sum: no splits */
  assert_string_equal(pick(&p, &big)->family->name, "tiles");
  p.order = VKF_ORDER_FAST;
  p.attention.queries = p.attention.keys = 512;
  assert_string_equal(pick(&p, &big)->family->name, "tiles");
  assert_string_equal(pick(&p, &small)->family->name, "tiles");
  p.attention.key_width = p.attention.value_width = 65;
  assert_string_equal(pick(&p, &big)->family->name, "tiles-any");
  p.attention.key_width = p.attention.value_width = 64;
  small.max_shared_bytes = 0;
  assert_string_equal(pick(&p, &small)->family->name, "vec4");
  p.attention.queries = 1;
  big.max_allocation_bytes = 1 << 16; /* 8 heads of 8 splits of 66 numbers */
  assert_null(vkf_kern_fit(split, &p, &big, why, sizeof why));
  p.attention.keys = 8192;
  refused("attention-split-1x32x16-m1n4-w32", &p, &big, "bytes of scratch memory, the device allows 65536");
  assert_false(vkf_kern_rank_of(split, &p, &cpu, NULL, &(vkf_kern_rank){0}, why, sizeof why));
  p.attention.key_width = 260;
  refused("attention-tiles-32x16x64-m4n1", &p, &big, "head widths up to 256, here it is 260");
}

/* Many queries take matrix cores if the device has them and keys and values are in f16. Few queries do not, because
 * their rows would not fill a matrix, nor do heads that are not whole matrices. */
static void attention_on_matrix_cores(void **state) {
  (void)state;
  static const struct {
    uint32_t queries, kv_heads, width;
    vkf_format format;
    const char *family;
  } expected[] = {
      {512, 0, 64, VKF_FORMAT_F16, "coopmat"},  {512, 0, 64, VKF_FORMAT_F32, "tiles"},
      {512, 0, 128, VKF_FORMAT_F16, "coopmat"}, {32, 0, 64, VKF_FORMAT_F16, "coopmat"},
      {8, 2, 64, VKF_FORMAT_F16, "coopmat"}, /* 32 rows: four heads read the same keys */
      {16, 0, 64, VKF_FORMAT_F16, "split"},     {1, 0, 64, VKF_FORMAT_F16, "split"},
      {512, 0, 72, VKF_FORMAT_F16, "tiles"},    {512, 0, 256, VKF_FORMAT_F16, "tiles"},
  };
  vkf_caps c = with_matrices();
  c.max_storage_bindings = 16;
  for (size_t i = 0; i < VKF_COUNT(expected); i++) {
    vkf_problem p = {.op = VKF_OP_ATTENTION,
                     .attention = {.queries = expected[i].queries,
                                   .keys = 512,
                                   .key_width = expected[i].width,
                                   .value_width = expected[i].width,
                                   .batch = 8,
                                   .heads = 8,
                                   .kv_heads = expected[i].kv_heads},
                     .packing = {.format = expected[i].format},
                     .order = VKF_ORDER_FAST};
    assert_string_equal(pick(&p, &c)->family->name, expected[i].family);
    p.wide = true; /* another kernel takes over */
    assert_string_not_equal(pick(&p, &c)->family->name, "coopmat");
    refused("attention-coopmat-64x32x128-m16n32-16x16x16-w32", &p, &c,
            expected[i].width > 128                ? "head widths up to 128"
            : expected[i].width % 16               ? "head widths are multiples of 16"
            : expected[i].format == VKF_FORMAT_F32 ? "keys and values in f16, these are f32"
                                                   : "beyond 65504");
    p.wide = false;
    p.order = VKF_ORDER_ASCENDING;
    assert_string_not_equal(pick(&p, &c)->family->name, "coopmat");
  }
}

/* On software drivers, kernels of rows use no shared memory, texels if the rows fit, and the device's width. */
static void rows_follow_the_device(void **state) {
  (void)state;
  const vkf_op ops[] = {VKF_OP_NORM, VKF_OP_LOG_SOFTMAX, VKF_OP_TOP_K};
  const vkf_caps small = tiny(), sw = swiftshader(), lvp = lavapipe();
  for (size_t i = 0; i < VKF_COUNT(ops); i++) {
    vkf_problem p = problem_of(ops[i], 32, 8000, 8);
    assert_string_equal(pick(&p, &lvp)->family->name, "lanes");
    assert_int_equal(pick(&p, &lvp)->access, VKF_ACCESS_TEXEL);
    assert_int_equal(pick(&p, &lvp)->subgroup, 8);
    assert_int_equal(pick(&p, &sw)->subgroup, 4);
    assert_string_equal(pick(&p, &small)->family->name, "row");
    p.rows.width = 8001; /* texels hold four columns */
    assert_string_equal(pick(&p, &lvp)->family->name, "lanes");
    assert_int_equal(pick(&p, &lvp)->access, VKF_ACCESS_STORAGE);
  }
  const vkf_problem p = problem_of(VKF_OP_TOP_K, 1, 8000, VKF_MAX_LANES_K + 1);
  assert_string_equal(pick(&p, &lvp)->family->name, "row");
}

/* One packing serves every M. Small and large kernels share it, so in class ascending the bits of a row do not depend
 * on M. */
static void packing_serves_every_m(void **state) {
  (void)state;
  const vkf_caps devices[] = {tiny(), swiftshader(), lavapipe(), nvidia(), with_matrices()};
  for (size_t d = 0; d < VKF_COUNT(devices); d++) {
    vkf_problem p = matmul(&devices[d], 512, 96, 64);
    p.order = VKF_ORDER_ASCENDING;
    const vkf_family *family = pick(&p, &devices[d])->family;
    for (p.matmul.m = 1; p.matmul.m < 70; p.matmul.m++) {
      assert_ptr_equal(pick(&p, &devices[d])->family, family);
      assert_int_equal(pick(&p, &devices[d])->order, VKF_ORDER_ASCENDING);
    }
  }
}

/* A GPU reads the weight once for few rows, and takes tiles that fill it for many. */
static void gpus_go_by_the_rows(void **state) {
  (void)state;
  vkf_caps gpu = nvidia();
  vkf_problem p = matmul(&gpu, 1, 4096, 4096);
  gpu.n_cores = 132;
  gpu.max_allocation_bytes = UINT64_C(1) << 30;
  assert_string_equal(pick(&p, &gpu)->family->name, "vector");
  assert_int_equal(pick(&p, &gpu)->subgroup, 32);
  assert_int_equal(pick(&p, &gpu)->tile.gemm.tm, 1);
  assert_int_equal(pick(&p, &gpu)->tile.gemm.bk, 512); /* four subgroups share K, so that more loads are under way */
  p.matmul.n = 256;
  assert_int_equal(pick(&p, &gpu)->tile.gemm.bk, 512);
  p = (vkf_problem){
      .op = VKF_OP_MATMUL, .matmul = {.m = 4, .n = 4096, .k = 4096}, .packing = p.packing, .order = p.order};
  assert_int_equal(pick(&p, &gpu)->tile.gemm.tm, 4);
  p.matmul.m = 5;
  assert_int_equal(pick(&p, &gpu)->tile.gemm.tm, 8);
  p.matmul.m = 16; /* 32 tiles for 132 cores */
  p.matmul.n = 512;
  assert_string_equal(pick(&p, &gpu)->family->name, "split");
  p.order = VKF_ORDER_ASCENDING;
  assert_string_equal(pick(&p, &gpu)->family->name, "shared");
  p.order = VKF_ORDER_FAST;
  p.matmul.n = 4096;
  p.matmul.m = 4096;
  assert_string_equal(pick(&p, &gpu)->family->name, "shared");
  assert_int_equal(pick(&p, &gpu)->tile.gemm.bm, 128);
  p.matmul.m = 32;
  assert_between(pick(&p, &gpu)->tile.gemm.bm, 16, 32);
  p.matmul.m = 1;
  p.order = VKF_ORDER_ASCENDING;
  assert_string_equal(pick(&p, &gpu)->family->name, "shared");
  p.order = VKF_ORDER_FAST;
  gpu.subgroup_min = gpu.subgroup_max = gpu.subgroup_size = 64;
  assert_int_equal(pick(&p, &gpu)->subgroup, 64);
  gpu.subgroup_arithmetic = false;
  assert_string_equal(pick(&p, &gpu)->family->name, "split");
  p.matmul.n = 256000; /* a vocabulary */
  gpu = nvidia();
  assert_string_equal(pick(&p, &gpu)->family->name, "vector");
}

/* Devices with 16 KiB of shared memory and 128 invocations have a large tile, too. */
static void small_devices_have_tiles(void **state) {
  (void)state;
  const vkf_caps small = tiny();
  vkf_problem p = matmul(&small, 1024, 512, 512);
  const vkf_variant *v = pick(&p, &small);
  assert_string_equal(v->family->name, "shared");
  assert_int_equal(v->tile.gemm.bm, 64);
  assert_int_equal(vkf_kern_workgroup(v), 64);
  p.matmul.m = 1; /* no subgroups: no "vector" */
  assert_string_equal(pick(&p, &small)->family->name, "shared");
  assert_int_equal(pick(&p, &small)->tile.gemm.bm, 16);
}

static void fit_says_why_not(void **state) {
  (void)state;
  vkf_caps c = lavapipe();
  vkf_problem p = matmul(&c, 77, 512, 512), rows = p;
  char why[256];
  rows.packing = (vkf_weight_packing){VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_F32};
  assert_null(vkf_kern_fit(vkf_kern_find("matmul-lane-m16n4-w8"), &p, &c, why, sizeof why));
  refused("norm-row-64", &p, &c, "a kernel of norm, not of matmul");
  refused("matmul-lane-m16n4-w8", &rows, &c, "packed as lane by 32");
  refused("matmul-lane-m16n4-w4", &p, &c, "subgroups of 4");
  refused("matmul-uniform-m6n2-w8", &p, &c, "scalar loads at uniform addresses");
  p.matmul.k = 510;
  refused("matmul-lane-m16n4-w8", &p, &c, "a multiple of 4");
  p.matmul.k = 512;
  c.subgroup_shuffle = false;
  refused("matmul-lane-m16n4-w8", &p, &c, "subgroup shuffle");
  c = lavapipe();
  c.subgroup_size_control = false;
  c.subgroup_min = 4; /* the driver may choose another size */
  refused("matmul-lane-m16n4-w8", &p, &c, "subgroups of 8");
  c = lavapipe();
  c.max_texel_elements = 65536;
  refused("matmul-lane-m16n4-w8-texel", &p, &c, "texel buffer of 65600");
  p.matmul.n = 256;
  assert_null(vkf_kern_fit(vkf_kern_find("matmul-lane-m16n4-w8-texel"), &p, &c, why, sizeof why));
  c.max_storage_bindings = 5;
  refused("matmul-naive-m1n1", &rows, &c, "6 storage buffers");
  c = tiny();
  refused("matmul-shared-64x64x16-m4n4", &rows, &c, "256 invocations");
  c.max_shared_bytes = 32768;
  c.max_invocations = c.max_workgroup_size[0] = 256;
  assert_null(vkf_kern_fit(vkf_kern_find("matmul-shared-64x64x16-m4n4"), &rows, &c, why, sizeof why));
  c.max_shared_bytes = 8192;
  refused("matmul-shared-64x64x16-m4n4", &rows, &c, "20480 bytes of shared memory");
  rows.matmul.m = 70000;
  refused("matmul-naive-m1n1", &rows, &c, "70000 workgroups");
  vkf_problem norm = any(VKF_OP_NORM, VKF_ORDER_ASCENDING);
  c = nvidia();
  refused("norm-subgroup-w32", &norm, &c, "another order");
  vkf_problem row = problem_of(VKF_OP_TOP_K, 4, 1001, VKF_MAX_LANES_K);
  c = lavapipe();
  refused("top_k-lanes-w8-texel", &row, &c, "multiples of 4, here 1001 is not");
  row.top_k.rows = 64;
  row.top_k.width = 1u << 24;
  refused("top_k-lanes-w8-texel", &row, &c, "texel buffer of");
  row.top_k.k++;
  refused("top_k-lanes-w8", &row, &c, "k up to 32, here it is 33");
  vkf_problem wide = any(VKF_OP_ATTENTION, VKF_ORDER_FAST);
  wide.attention.value_width = VKF_MAX_HEAD_WIDTH + 1;
  refused("attention-lane-per-query-8", &wide, &c, "up to 256, here it is 257");
  size_t n;
  const vkf_variant *all = vkf_kern_variants(&n);
  for (const vkf_variant *v = all; v < all + n; v++)
    if (v->op == VKF_OP_ATTENTION || v->op == VKF_OP_ATTENTION_WEIGHTS)
      assert_between(v->max_width, 1, VKF_MAX_HEAD_WIDTH);
  wide.attention.value_width = 66;
  refused("attention-workgroup-per-query-16", &wide, &c, "multiples of 4, here they are 64 and 66");
}

/* A kernel may need exactly what the device allows, but no more. */
static void limits_are_inclusive(void **state) {
  (void)state;
  vkf_caps c = lavapipe();
  char why[256];
  vkf_problem p = problem_of(VKF_OP_MATMUL, 70, 64, 512);
  const vkf_variant *naive = vkf_kern_find("matmul-naive-m1n1"), *shared = vkf_kern_find("matmul-shared-64x64x16-m4n4");
  c.max_loop_turns = (uint32_t)vkf_kern_loop_turns(naive, 0, &p);
  assert_null(vkf_kern_fit(naive, &p, &c, why, sizeof why));
  c.max_loop_turns--;
  refused("matmul-naive-m1n1", &p, &c, "turns of loops");
  c = lavapipe();
  uint32_t grid[3];
  vkf_kern_grid(naive, 0, &p, grid);
  memcpy(c.max_workgroup_count, grid, sizeof grid);
  assert_null(vkf_kern_fit(naive, &p, &c, why, sizeof why));
  for (int i = 0; i < 3; i++) {
    c.max_workgroup_count[i]--;
    refused("matmul-naive-m1n1", &p, &c, "workgroups in dimension");
    c.max_workgroup_count[i]++;
  }
  c = lavapipe();
  c.max_workgroup_size[0] = 128; /* many invocations, but not along x */
  refused("matmul-shared-64x64x16-m4n4", &p, &c, "256 invocations, the device allows 128");
  c.max_workgroup_size[0] = 256;
  assert_null(vkf_kern_fit(shared, &p, &c, why, sizeof why));
}

/* A feature counts only if all of its parts are there. */
static void features_are_whole(void **state) {
  (void)state;
  char why[256];
  vkf_caps c = lavapipe();
  vkf_problem p = matmul(&c, 77, 512, 512);
  c.max_texel_bindings = 4;
  assert_null(vkf_kern_fit(vkf_kern_find("matmul-lane-m16n4-w8-texel"), &p, &c, why, sizeof why));
  c.max_texel_bindings = 3;
  refused("matmul-lane-m16n4-w8-texel", &p, &c, "texel buffers");
  const char *name = "matmul-coopmat-64x64x32-m32n32-16x16x16-w32";
  c = with_matrices();
  p = problem_of(VKF_OP_MATMUL, 128, 128, 64);
  p.packing = vkf_kern_packing_of(vkf_kern_find(name), VKF_FORMAT_F16);
  p.order = VKF_ORDER_FAST;
  assert_null(vkf_kern_fit(vkf_kern_find(name), &p, &c, why, sizeof why));
  c.float16 = false;
  refused(name, &p, &c, "no cooperative matrices");
  c = with_matrices();
  c.max_storage_bindings = 6; /* the flag of wide activations is one more */
  refused(name, &p, &c, "binds 7 storage buffers, the device allows 6");
}

/* Kernels that are unrolled too far for the reproducible mode are refused in it on every class of devices. */
static void unrolled_kernels_are_not_reproducible(void **state) {
  (void)state;
  size_t n, n_refused = 0;
  char name[96], why[256];
  vkf_caps c = nvidia();
  c.max_shared_bytes = 1u << 20;
  c.uniform_loads = true;
  const vkf_variant *all = vkf_kern_variants(&n);
  for (const vkf_variant *v = all; v < all + n; v++) {
    vkf_problem p = problem_of(v->op, 64, 64, 64);
    p.order = v->order;
    p.packing = vkf_kern_packing_of(v, VKF_FORMAT_F32);
    p.reproducible = true;
    const char *reason = vkf_kern_fit(v, &p, &c, why, sizeof why);
    if (v->not_reproducible && (!reason || !strstr(reason, "reproducible mode")))
      fail_msg("%s: %s", vkf_kern_name(v, name, sizeof name), reason ? reason : "fits");
    n_refused += v->not_reproducible;
  }
  assert_true(n_refused > 0);
}

/* With odd head widths, lane-per-query has loop turns for a few thousand keys, and tiles for several times as many. */
static void kernels_for_gpus_are_a_last_resort(void **state) {
  (void)state;
  vkf_caps c = lavapipe();
  vkf_problem p = any(VKF_OP_ATTENTION, VKF_ORDER_ASCENDING);
  char why[256];
  c.max_loop_turns = 65535;
  p.attention.key_width = p.attention.value_width = 35;
  p.attention.keys = 1000;
  assert_string_equal(pick(&p, &c)->family->name, "lane-per-query");
  p.attention.keys = 20000;
  const vkf_variant *v = vkf_kern_pick(&p, &c, NULL, why, sizeof why);
  assert_non_null(v);
  assert_string_equal(v->family->name, "tiles-any");
  assert_string_equal(why, "a kernel for GPUs: no other fits");
  p.attention.keys = 200000;
  assert_null(vkf_kern_pick(&p, &c, NULL, why, sizeof why));
  assert_non_null(strstr(why, "turns of loops"));
}

/* A weight is packed as the forced variant reads it, even if that variant is never a default on a software driver. */
static void forced_variant_decides_the_packing(void **state) {
  (void)state;
  const vkf_caps c = lavapipe();
  const vkf_variant *shared = vkf_kern_find("matmul-shared-32x32x16-m4n4");
  vkf_problem p = matmul(&c, 77, 512, 512);
  char why[256] = "";
  assert_non_null(strstr(vkf_kern_fit(shared, &p, &c, why, sizeof why), "packed as"));
  p.packing = vkf_kern_weight_packing(&c, NULL, 512, 512, VKF_FORMAT_F32, shared);
  assert_int_equal(p.packing.layout, VKF_LAYOUT_W_ROWS);
  assert_string_equal(pick(&p, &c)->family->name, "naive");
  assert_null(vkf_kern_fit(shared, &p, &c, why, sizeof why));
}

/* Matrices of workgroups, where the driver loads them, take weights in f16, no gates, and no tiles across an edge. */
static void matrices_of_workgroups(void **state) {
  (void)state;
  vkf_caps c = with_matrices();
  c.n_cores = 132;
  vkf_problem p = matmul(&c, 512, 2048, 2048);
  p.packing = vkf_kern_weight_packing(&c, NULL, 2048, 2048, VKF_FORMAT_F16, NULL);
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 64);
  refused("matmul-coopmat2-64x64x64-m32n32-16x16x16-w32", &p, &c, "no cooperative matrices of workgroups");
  c.coopmat2 = true;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat2");
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 64);
  p.matmul.m = 500;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 64);
  p.matmul.m = 100; /* too few tiles for 132 cores */
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-split");
  p.matmul.m = p.matmul.n = p.matmul.k = 4096;
  c.n_registers = 192; /* subgroups of 64 x 64 do not fit */
  assert_string_equal(pick(&p, &c)->family->name, "coopmat2");
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 128);
  c.n_registers = 216;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
  assert_int_equal(pick(&p, &c)->tile.gemm.tn, 64);
  p.matmul.is_gated = true;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
  refused("matmul-coopmat2-128x128x64-m64n32-16x16x16-w32", &p, &c, "gates need two");
  p.matmul.is_gated = false;
  p.packing.format = VKF_FORMAT_BF16;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
}

/* Weights in f16 take cooperative matrices from 9 rows on, in tiles that the rows fill. */
static void cooperative_matrices_where_they_pay(void **state) {
  (void)state;
  vkf_caps c = with_matrices();
  vkf_problem p = matmul(&c, 4096, 4096, 4096);
  assert_string_equal(pick(&p, &c)->family->name, "shared"); /* float32 weights */
  p.packing = vkf_kern_weight_packing(&c, NULL, 4096, 4096, VKF_FORMAT_F16, NULL);
  assert_int_equal(p.packing.layout, VKF_LAYOUT_W_ROWS);
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves"); /* many tiles read each x */
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 128);
  c.n_cores = 132; /* each core has a tile of 128 */
  p.matmul.m = 512;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 128);
  p.matmul.m = 256; /* half of the cores would, and a core waits for loads however large they are */
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 64);
  c.n_cores = 0;
  p.matmul.m = 9;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-split");
  assert_int_equal(pick(&p, &c)->tile.gemm.bm, 16);
  p.matmul.m = 8;
  assert_string_equal(pick(&p, &c)->family->name, "vector");
  p.matmul.m = 64;
  p.wide = true;
  assert_string_equal(pick(&p, &c)->family->name, "split");
  refused("matmul-coopmat-64x64x32-m32n32-16x16x16-w32", &p, &c, "beyond 65504");
  p.wide = false;
  p.matmul.k = 4092;
  refused("matmul-coopmat-64x64x32-m32n32-16x16x16-w32", &p, &c, "a multiple of 8, here it is 4092");
  p.matmul.k = 4096;
  p.order = VKF_ORDER_ASCENDING;
  assert_string_equal(pick(&p, &c)->family->name, "shared");
  p.order = VKF_ORDER_FAST;
  p.packing.format = VKF_FORMAT_BF16;
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-halves");
  c.subgroup_max = 64; /* not NVIDIA: slices of 64 were not measured there */
  assert_string_equal(pick(&p, &c)->family->name, "coopmat-split");
  c.subgroup_max = 32;
  p.packing.format = VKF_FORMAT_F32;
  refused("matmul-coopmat-64x64x32-m32n32-16x16x16-w32", &p, &c, "that f16 can hold, these are f32");
  p.packing.format = VKF_FORMAT_F16;
  c.n_matrix_shapes = 1;
  refused("matmul-coopmat-64x64x32-m32n32-16x16x16-w32", &p, &c, "16x16x16 matrices");
  c.coopmat = false;
  refused("matmul-coopmat-64x64x32-m32n32-16x16x16-w32", &p, &c, "no cooperative matrices");
  c = with_matrices();
  c.is_cpu = true; /* fits, but runs only if it is forced */
  char why[256];
  assert_null(vkf_kern_fit(vkf_kern_find("matmul-coopmat-64x64x32-m32n32-16x16x16-w32"), &p, &c, why, sizeof why));
  assert_string_equal(pick(&p, &c)->family->name, "naive");
}

/* Kernels of cooperative matrices rely on this about their tiles. */
static void tiles_of_matrices_are_whole(void **state) {
  (void)state;
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (const vkf_variant *v = table; v < table + n; v++) {
    if (!v->matrix.m) continue;
    assert_true(v->tile.gemm.bm % v->tile.gemm.tm == 0 && v->tile.gemm.bn % v->tile.gemm.tn == 0);
    assert_true(v->tile.gemm.tm % v->matrix.m == 0 && v->tile.gemm.tn % v->matrix.n == 0 &&
                v->tile.gemm.bk % (2 * v->matrix.k) == 0);
    /* A uvec4 of shared memory holds eight numbers, or four sums. */
    assert_true(v->matrix.k % 8 == 0 && v->matrix.n % 4 == 0);
    assert_int_equal(vkf_kern_workgroup(v),
                     v->tile.gemm.bm / v->tile.gemm.tm * (v->tile.gemm.bn / v->tile.gemm.tn) * v->subgroup);
  }
}

/* A tile that a caller sets must have whole matrices, too. */
static void tiles_of_matrices_may_be_set(void **state) {
  (void)state;
  static const struct {
    const char *tile, *found; /* the variant's name, or a part of the message */
  } rows[] = {{"bm=64,bn=32,bk=64", "matmul-coopmat-64x32x64-m32n32-16x16x16-w32"},
              {"tm=16,tn=64", "matmul-coopmat-64x64x32-m16n64-16x16x16-w32"},
              {"tm=8", "multiples of 16, 16 and 16, the sizes of a matrix, found 8, 32 and 32"},
              {"bk=40", "multiples of 16, 16 and 16, the sizes of a matrix, found 32, 32 and 40"},
              {"bk=48", "bk is a multiple of 32 in coopmat kernels, two matrices side by side, found 48"},
              {"bk=96", "a workgroup of coopmat kernels, here of 128, loads whole rows of bk by eights, found 96"},
              {"bm=48", "tm divides bm"}};
  const vkf_variant *base = vkf_kern_find("matmul-coopmat-64x64x32-m32n32-16x16x16-w32");
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    char text[256] = "", name[128];
    vkf_variant v;
    if (vkf_kern_tile(base, rows[i].tile, &v, text, sizeof text))
      snprintf(text, sizeof text, "%s", vkf_kern_name(&v, name, sizeof name));
    if (!strstr(text, rows[i].found)) fail_msg("%s: expected '%s', found '%s'", rows[i].tile, rows[i].found, text);
  }
}

/* Other tiles fit the registers and the shared memory that their shaders declare, and determine the workgroup. */
static void tiles_fit_their_shaders(void **state) {
  (void)state;
  size_t n;
  char name[128];
  const vkf_variant *table = vkf_kern_variants(&n);
  for (const vkf_variant *v = table; v < table + n; v++) {
    const uint32_t bm = v->tile.gemm.bm, bn = v->tile.gemm.bn, bk = v->tile.gemm.bk, tm = v->tile.gemm.tm,
                   tn = v->tile.gemm.tn;
    if (v->op != VKF_OP_MATMUL || v->matrix.m) continue;
    assert_true(bm % tm == 0 && bn % tn == 0);
    if (v->needs & VKF_NEED_SHARED && !vkf_kern_shared_bytes(v))
      fail_msg("%s needs shared memory and takes none: slices is left out", vkf_kern_name(v, name, sizeof name));
    if (v->tile.gemm.slices) {
      assert_int_equal(vkf_kern_workgroup(v), bm / tm * (bn / tn));
      assert_true(tm <= VKF_SHARED_MAX_TILE && tn <= VKF_SHARED_MAX_TILE && bk % 4 == 0);
      assert_true(VKF_CEIL_DIV(VKF_MAX(bm, bn) * bk / 4, vkf_kern_workgroup(v)) <= VKF_SHARED_MAX_LOADS);
    } else if (v->family == &vkf_family_dot) { /* an invocation also loads the scale of a row of x */
      const uint32_t words = (bm + bn) * (VKF_Q8_BLOCK / 4), workgroup = vkf_kern_workgroup(v);
      assert_int_equal(workgroup, bm / tm * (bn / tn));
      assert_int_equal(bk, VKF_Q8_BLOCK);
      assert_true(tm <= VKF_DOT_MAX_TILE && tn <= VKF_DOT_MAX_TILE && bm <= workgroup);
      assert_true(VKF_CEIL_DIV(words, workgroup) <= VKF_DOT_MAX_LOADS);
    } else if (v->family == &vkf_family_vector) {
      const uint32_t k_split = bk / (4 * v->subgroup);
      assert_int_equal(bm, tm);
      assert_int_equal(bk, k_split * 4 * v->subgroup);
      assert_int_equal(vkf_kern_workgroup(v), v->subgroup * k_split * (bn / tn));
      assert_true(tm <= VKF_VECTOR_MAX_TM && tn <= VKF_VECTOR_MAX_TN && 8 % tn == 0);
    } else if (v->subgroup) { /* a lane computes tm rows of tn columns */
      assert_int_equal(vkf_kern_workgroup(v), v->subgroup);
      assert_true(bm == tm && bn == tn * v->subgroup);
    }
  }
}

/* Tiles of attention have whole blocks of keys and whole steps of clusters. */
static void tiles_of_attention_are_whole(void **state) {
  (void)state;
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (const vkf_variant *v = table; v < table + n; v++) {
    if (v->op != VKF_OP_ATTENTION || !v->tile.attention.rows) continue;
    const uint32_t rows = v->tile.attention.rows, keys = v->tile.attention.keys,
                   lane_rows = v->tile.attention.lane_rows;
    assert_true(keys % VKF_KEY_BLOCK == 0);
    if (v->combine) {
      assert_int_equal(rows, lane_rows);
      assert_int_equal(vkf_kern_workgroup(v), keys / v->tile.attention.lane_keys * v->tile.attention.cluster);
      assert_true(vkf_kern_workgroup(v) % v->subgroup == 0 && v->subgroup % v->tile.attention.cluster == 0);
      assert_true(v->max_width <= v->tile.attention.cluster * 16);
    } else if (v->matrix.m) { /* lanes share a row: of scores eight at a time, of results four */
      const uint32_t lanes = v->subgroup / v->matrix.m;
      assert_int_equal(lane_rows, v->matrix.m);
      assert_true(v->subgroup % v->matrix.m == 0 && keys / lanes % 8 == 0 && v->matrix.n / 4 % lanes == 0);
      assert_true(v->max_width == v->tile.attention.slice && v->matrix.n <= keys);
    } else {
      assert_true(rows % lane_rows == 0 && v->tile.attention.slice == 64);
      assert_int_equal(vkf_kern_workgroup(v), rows / lane_rows * VKF_KEY_BLOCK);
      assert_int_equal(v->tile.attention.lane_keys, keys / VKF_KEY_BLOCK);
    }
  }
}

static void order_follows_the_device(void **state) {
  (void)state;
  const vkf_caps sw = swiftshader(), gpu = nvidia();
  assert_int_equal(vkf_kern_order(&sw, false), VKF_ORDER_ASCENDING);
  assert_int_equal(vkf_kern_order(&gpu, false), VKF_ORDER_FAST);
  assert_int_equal(vkf_kern_order(&gpu, true), VKF_ORDER_ASCENDING);
}

/* Each op binds the step buffer and at least one operand. An op that storage_bindings() does not count fails here. */
static void every_op_binds_operands(void **state) {
  (void)state;
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    vkf_problem p = problem_of(table[i].op, 4, 64, 64);
    vkf_caps c = lavapipe();
    char why[256], name[128];
    c.max_storage_bindings = 1;
    const char *refusal = vkf_kern_fit(&table[i], &p, &c, why, sizeof why);
    if (!refusal) fail_msg("%s: expected more than 1 storage buffer", vkf_kern_name(&table[i], name, sizeof name));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_binds_operands),
      cmocka_unit_test(names_are_unique_and_found),
      cmocka_unit_test(modules_are_built),
      cmocka_unit_test(every_op_runs_everywhere),
      cmocka_unit_test(defaults_follow_the_device),
      cmocka_unit_test(wide_vectors_take_the_same_families),
      cmocka_unit_test(attention_on_gpus),
      cmocka_unit_test(attention_on_matrix_cores),
      cmocka_unit_test(rows_follow_the_device),
      cmocka_unit_test(packing_serves_every_m),
      cmocka_unit_test(gpus_go_by_the_rows),
      cmocka_unit_test(small_devices_have_tiles),
      cmocka_unit_test(tiles_fit_their_shaders),
      cmocka_unit_test(tiles_of_attention_are_whole),
      cmocka_unit_test(fit_says_why_not),
      cmocka_unit_test(limits_are_inclusive),
      cmocka_unit_test(features_are_whole),
      cmocka_unit_test(unrolled_kernels_are_not_reproducible),
      cmocka_unit_test(kernels_for_gpus_are_a_last_resort),
      cmocka_unit_test(forced_variant_decides_the_packing),
      cmocka_unit_test(order_follows_the_device),
      cmocka_unit_test(matrices_of_workgroups),
      cmocka_unit_test(cooperative_matrices_where_they_pay),
      cmocka_unit_test(tiles_of_matrices_are_whole),
      cmocka_unit_test(tiles_of_matrices_may_be_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
