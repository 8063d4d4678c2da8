/* The kernels that are picked on each class of GPUs, and why, for 512, 64, 8 and one row and each format of weights.
 *
 * The devices are invented after what Mesa's drivers report of such chips (scripts/farm) and what vendors publish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kern/family.h"
#include "kern/tuned.h"

extern const vkf_family vkf_family_coopmat;

static vkf_caps a_gpu(vkf_device_kind kind, uint32_t least, uint32_t most, uint32_t n_registers) {
  return (vkf_caps){.kind = kind,
                    .max_storage_range_bytes = UINT64_C(1) << 31,
                    .max_allocation_bytes = UINT64_C(1) << 31,
                    .max_shared_bytes = 32768,
                    .max_invocations = 1024,
                    .max_workgroup_size = {1024, 1024, 64},
                    .max_workgroup_count = {65535, 65535, 65535},
                    .max_storage_bindings = 16,
                    .max_texel_bindings = 16,
                    .max_texel_elements = 1u << 27,
                    .max_loop_turns = UINT32_MAX,
                    .max_push_bytes = 256,
                    .n_registers = n_registers,
                    .subgroup_size = most,
                    .subgroup_min = least,
                    .subgroup_max = most,
                    .subgroup_size_control = least < most,
                    .subgroup_full = true,
                    .subgroup_ballot = true,
                    .subgroup_shuffle = true,
                    .subgroup_arithmetic = true,
                    .float16 = true,
                    .int64 = true,
                    .buffer_address = true};
}

static vkf_caps with_matrices(vkf_caps c, uint32_t m, uint32_t n, uint32_t k) {
  c.coopmat = true;
  c.n_matrix_shapes = 1;
  c.matrix_shapes[0] = (vkf_matrix_shape){m, n, k};
  return c;
}

static vkf_caps intel(vkf_caps c) {
  c.subgroup_registers = 96 * c.subgroup_min;
  return c;
}

static vkf_caps device(const char *name) {
  if (!strcmp(name, "nvidia")) return with_matrices(a_gpu(VKF_DEVICE_DISCRETE, 32, 32, 192), 16, 16, 16);
  /* gfx1201: what RADV reports of it differs from navi31 in no fact that a choice reads. */
  if (!strcmp(name, "rdna3") || !strcmp(name, "rdna4"))
    return with_matrices(a_gpu(VKF_DEVICE_DISCRETE, 32, 64, 192), 16, 16, 16);
  if (!strcmp(name, "alchemist")) return intel(with_matrices(a_gpu(VKF_DEVICE_DISCRETE, 8, 32, 48), 8, 8, 16));
  if (!strcmp(name, "battlemage")) return intel(with_matrices(a_gpu(VKF_DEVICE_DISCRETE, 16, 32, 48), 8, 16, 16));
  if (!strcmp(name, "deck")) return a_gpu(VKF_DEVICE_INTEGRATED, 32, 64, 192);
  if (!strcmp(name, "intel")) return intel(a_gpu(VKF_DEVICE_INTEGRATED, 8, 32, 48));
  if (!strcmp(name, "adreno")) return a_gpu(VKF_DEVICE_INTEGRATED, 64, 128, 128);
  if (!strcmp(name, "mali")) return a_gpu(VKF_DEVICE_INTEGRATED, 16, 16, 48);
  if (!strcmp(name, "mali-g52")) {
    vkf_caps c = a_gpu(VKF_DEVICE_INTEGRATED, 8, 8, 48);
    c.max_invocations = c.max_workgroup_size[0] = 384;
    c.float16 = false;
    return c;
  }
  if (!strcmp(name, "apple")) return a_gpu(VKF_DEVICE_INTEGRATED, 32, 32, 96);
  if (!strcmp(name, "v3d")) {
    vkf_caps c = a_gpu(VKF_DEVICE_INTEGRATED, 16, 16, 40);
    c.max_invocations = c.max_workgroup_size[0] = 256;
    c.max_storage_bindings = 8;
    c.float16 = c.int64 = false;
    return c;
  }
  vkf_caps c = a_gpu(VKF_DEVICE_CPU, 8, 8, 0);
  c.is_cpu = true;
  c.driver_id = VKF_DRIVER_ID_LAVAPIPE;
  return c;
}

static const uint32_t rows[] = {512, 64, 8, 1};
static const vkf_format formats[] = {VKF_FORMAT_F32, VKF_FORMAT_F16, VKF_FORMAT_BF16, VKF_FORMAT_INT8};

static const struct {
  const char *device;
  const char *picked[4][4]; /* by format and rows */
} expected[] = {
    {"nvidia",
     {{"matmul-shared-128x128x16-m8n8", "matmul-split-64x64x16-m8n8", "matmul-vector-8x4x512-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"}}},
    {"rdna3",
     {{"matmul-shared-128x128x16-m8n8", "matmul-split-64x64x16-m8n8", "matmul-vector-8x4x512-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"}}},
    {"rdna4",
     {{"matmul-shared-128x128x16-m8n8", "matmul-split-64x64x16-m8n8", "matmul-vector-8x4x512-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n32-16x16x16-w32", "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32",
       "matmul-vector-8x4x512-m8n4-w32", "matmul-vector-1x2x512-m1n2-w32"}}},
    {"alchemist",
     {{"matmul-shared-64x64x16-m4n4", "matmul-split-64x64x16-m4n4", "matmul-vector-8x4x128-m8n4-w8",
       "matmul-vector-1x2x256-m1n2-w16"},
      {"matmul-coopmat-64x64x32-m16n16-8x8x16-w8", "matmul-coopmat-split-64x64x32-m16n16-8x8x16-w8",
       "matmul-vector-8x4x128-m8n4-w8", "matmul-vector-1x2x256-m1n2-w16"},
      {"matmul-coopmat-64x64x32-m16n16-8x8x16-w8", "matmul-coopmat-split-64x64x32-m16n16-8x8x16-w8",
       "matmul-vector-8x4x128-m8n4-w8", "matmul-vector-1x2x256-m1n2-w16"},
      {"matmul-coopmat-64x64x32-m16n16-8x8x16-w8", "matmul-coopmat-split-64x64x32-m16n16-8x8x16-w8",
       "matmul-vector-8x4x128-m8n4-w8", "matmul-vector-1x2x256-m1n2-w16"}}},
    {"battlemage",
     {{"matmul-shared-64x64x16-m4n4", "matmul-split-64x64x16-m4n4", "matmul-vector-8x4x256-m8n4-w16",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n16-8x16x16-w16", "matmul-coopmat-split-64x64x32-m32n16-8x16x16-w16",
       "matmul-vector-8x4x256-m8n4-w16", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n16-8x16x16-w16", "matmul-coopmat-split-64x64x32-m32n16-8x16x16-w16",
       "matmul-vector-8x4x256-m8n4-w16", "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-coopmat-64x64x32-m32n16-8x16x16-w16", "matmul-coopmat-split-64x64x32-m32n16-8x16x16-w16",
       "matmul-vector-8x4x256-m8n4-w16", "matmul-vector-1x2x512-m1n2-w32"}}},
    {"mali",
     {{"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x64-m4n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x64-m4n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x64-m4n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x64-m4n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"}}},
    {"mali-g52",
     {{"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x32-m4n2-w8",
       "matmul-vector-1x8x32-m1n2-w8"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x32-m4n2-w8",
       "matmul-vector-1x8x32-m1n2-w8"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x32-m4n2-w8",
       "matmul-vector-1x8x32-m1n2-w8"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-4x8x32-m4n2-w8",
       "matmul-vector-1x8x32-m1n2-w8"}}},
    {"deck",
     {{"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"}}},
    {"intel",
     {{"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x32-m8n4-w8",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x32-m8n4-w8",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x32-m8n4-w8",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-64x64x16-m4n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x32-m8n4-w8",
       "matmul-vector-1x8x64-m1n2-w16"}}},
    {"adreno",
     {{"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x256-m8n4-w64",
       "matmul-vector-1x8x256-m1n2-w64"},
      {"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x256-m8n4-w64",
       "matmul-vector-1x8x256-m1n2-w64"},
      {"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x256-m8n4-w64",
       "matmul-vector-1x8x256-m1n2-w64"},
      {"matmul-shared-128x128x16-m8n8", "matmul-shared-64x64x16-m8n8", "matmul-vector-8x16x256-m8n4-w64",
       "matmul-vector-1x8x256-m1n2-w64"}}},
    {"apple",
     {{"matmul-shared-128x64x16-m8n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-shared-128x64x16-m8n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-shared-128x64x16-m8n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"},
      {"matmul-shared-128x64x16-m8n4", "matmul-shared-64x64x16-m4n4", "matmul-vector-8x16x128-m8n4-w32",
       "matmul-vector-1x2x512-m1n2-w32"}}},
    {"v3d",
     {{"matmul-shared-16x64x16-m2n4", "matmul-shared-16x64x16-m2n4", "matmul-vector-1x8x64-m1n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-16x64x16-m2n4", "matmul-shared-16x64x16-m2n4", "matmul-vector-1x8x64-m1n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-16x64x16-m2n4", "matmul-shared-16x64x16-m2n4", "matmul-vector-1x8x64-m1n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"},
      {"matmul-shared-16x64x16-m2n4", "matmul-shared-16x64x16-m2n4", "matmul-vector-1x8x64-m1n2-w16",
       "matmul-vector-1x8x64-m1n2-w16"}}},
    {"cpu",
     {{"matmul-lane-m16n4-w8-texel", "matmul-lane-m16n4-w8-texel", "matmul-lane-m8n4-w8-texel",
       "matmul-lane-m1n4-w8-texel"},
      {"matmul-lane-m16n4-w8-texel", "matmul-lane-m16n4-w8-texel", "matmul-lane-m8n4-w8-texel",
       "matmul-lane-m1n4-w8-texel"},
      {"matmul-lane-m16n4-w8-texel", "matmul-lane-m16n4-w8-texel", "matmul-lane-m8n4-w8-texel",
       "matmul-lane-m1n4-w8-texel"},
      {"matmul-lane-m16n4-w8-texel", "matmul-lane-m16n4-w8-texel", "matmul-lane-m8n4-w8-texel",
       "matmul-lane-m1n4-w8-texel"}}},
};

static vkf_problem problem(const vkf_caps *caps, vkf_format format, uint32_t m) {
  return (vkf_problem){.op = VKF_OP_MATMUL,
                       .matmul = {.m = m, .n = 4096, .k = 4096},
                       .packing = vkf_kern_weight_packing(caps, NULL, 4096, 4096, format, NULL),
                       .order = vkf_kern_order(caps, false)};
}

static void each_class_has_its_kernels(void **state) {
  (void)state;
  size_t n_wrong = 0;
  for (size_t d = 0; d < VKF_COUNT(expected); d++) {
    const vkf_caps caps = device(expected[d].device);
    for (size_t f = 0; f < VKF_COUNT(formats); f++)
      for (size_t m = 0; m < VKF_COUNT(rows); m++) {
        char name[128], why[256];
        const vkf_problem p = problem(&caps, formats[f], rows[m]);
        const vkf_variant *v = vkf_kern_pick(&p, &caps, NULL, why, sizeof why);
        assert_non_null(v);
        vkf_kern_name(v, name, sizeof name);
        if (!strcmp(name, expected[d].picked[f][m])) continue;
        print_error("%s, %s, %u rows: expected %s, found %s (%s)\n", expected[d].device,
                    vkf_format_get(formats[f])->name, rows[m], expected[d].picked[f][m], name, why);
        n_wrong++;
      }
  }
  assert_int_equal(n_wrong, 0);
}

/* Weights in q8 take integer dot products if the device has an instruction for them and no matrix cores, which are
 * faster. Few rows, and batch-invariant runs, take the kernels of int8. */
static void activations_with_8_bits(void **state) {
  (void)state;
  static const struct {
    const char *device;
    uint32_t rows;
    bool has, fast, batch_invariant;
    const char *picked;
  } expected_q8[] = {
      {"nvidia", 512, true, true, false, "matmul-coopmat-64x64x32-m32n32-16x16x16-w32"},
      {"deck", 512, true, true, false, "matmul-dot-128x64x32-m8n4"},
      {"deck", 64, true, true, false, "matmul-dot-64x64x32-m4n4"},
      {"deck", 64, true, false, false, "matmul-shared-64x64x16-m8n8"},
      {"deck", 64, false, true, false, "matmul-shared-64x64x16-m8n8"},
      {"deck", 512, true, true, true, "matmul-shared-128x128x16-m8n8"},
      {"deck", 8, true, true, false, "matmul-vector-8x16x128-m8n4-w32"},
      {"intel", 64, true, true, false, "matmul-dot-64x64x32-m4n4"},
      {"cpu", 64, true, true, false, "matmul-lane-m16n4-w8-texel"},
  };
  for (size_t i = 0; i < VKF_COUNT(expected_q8); i++) {
    vkf_caps caps = device(expected_q8[i].device);
    char name[128], why[256];
    caps.integer_dot = expected_q8[i].has;
    caps.integer_dot_fast = expected_q8[i].fast;
    vkf_problem p = problem(&caps, VKF_FORMAT_Q8, expected_q8[i].rows);
    p.order = vkf_kern_order(&caps, expected_q8[i].batch_invariant);
    const vkf_variant *v = vkf_kern_pick(&p, &caps, NULL, why, sizeof why);
    assert_non_null(v);
    if (strcmp(vkf_kern_name(v, name, sizeof name), expected_q8[i].picked))
      fail_msg("row %u: expected %s, found %s (%s)", (unsigned)i, expected_q8[i].picked, name, why);
  }
}

/* 64 rows of a 4096x4096 weight are 64 tiles of 64x64. Of 96 or 128 cores a third or half would have none, so K is
 * split until each core has two workgroups. If many rows fill the device, or it has few cores, K stays whole, because
 * adding up costs a second dispatch. */
static void matrix_cores_have_work_for_few_rows(void **state) {
  (void)state;
  static const struct {
    const char *device;
    uint32_t n_cores, rows, split; /* 0: K is whole */
    const char *name;
  } expected[] = {
      {"nvidia", 128, 64, 1024, "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32"},
      {"nvidia", 128, 9, 1024, "matmul-coopmat-split-16x64x64-m16n16-16x16x16-w32"},
      {"nvidia", 132, 256, 2048,
       "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32"}, /* two tiles per core only wait */
      {"nvidia", 128, 2048, 0, "matmul-coopmat-64x64x32-m32n32-16x16x16-w32"},
      {"nvidia", 16, 64, 0, "matmul-coopmat-64x64x32-m32n32-16x16x16-w32"},
      {"rdna3", 96, 64, 1376, "matmul-coopmat-split-64x64x32-m32n32-16x16x16-w32"}, /* a third, in whole slices */
      {"rdna3", 96, 9, 1408, "matmul-coopmat-split-16x64x64-m16n16-16x16x16-w32"},
      {"rdna3", 96, 2048, 0, "matmul-coopmat-64x64x32-m32n32-16x16x16-w32"},
  };
  for (size_t i = 0; i < VKF_COUNT(expected); i++)
    for (size_t f = 1; f < VKF_COUNT(formats); f++) {
      vkf_caps caps = device(expected[i].device);
      caps.n_cores = expected[i].n_cores;
      const vkf_problem p = problem(&caps, formats[f], expected[i].rows);
      char name[128], why[256];
      const vkf_variant *v = vkf_kern_pick(&p, &caps, NULL, why, sizeof why);
      assert_string_equal(vkf_kern_name(v, name, sizeof name), expected[i].name);
      assert_non_null(strstr(why, "K split or x rounded before where that pays"));
      assert_int_equal(vkf_kern_split(v, &p, &caps), expected[i].split);
      if (!expected[i].split) continue;
      vkf_problem own;
      assert_true(vkf_kern_workgroups(v, &p, &caps, &own) > caps.n_cores);
      vkf_variant whole = *v;
      whole.family = &vkf_family_coopmat;
      assert_true(v->family->effort(v, &p, &caps) < whole.family->effort(&whole, &p, &caps));
      vkf_problem wide = p, ascending = p;
      wide.wide = true;
      assert_string_equal(vkf_kern_pick(&wide, &caps, NULL, why, sizeof why)->family->name,
                          expected[i].rows < 256 ? "split" : "shared"); /* from 256 on each core has enough work */
      ascending.order = VKF_ORDER_ASCENDING;
      assert_string_equal(vkf_kern_pick(&ascending, &caps, NULL, why, sizeof why)->family->name, "shared");
    }
  vkf_caps caps = device("nvidia");
  caps.n_cores = 128;
  vkf_problem small = problem(&caps, VKF_FORMAT_F16, 64);
  small.matmul.n = small.matmul.k = 256; /* done before a second dispatch could begin */
  char why[256];
  assert_string_equal(vkf_kern_pick(&small, &caps, NULL, why, sizeof why)->family->name, "coopmat");
}

/* A kernel of matrix cores without a time ranks before kernels that have one. Its own time counts, and if it was wrong,
 * it ranks after them. */
static void missing_times_switch_no_matrix_cores_off(void **state) {
  (void)state;
  const vkf_caps caps = device("nvidia");
  const vkf_problem p = problem(&caps, VKF_FORMAT_F16, 512);
  char why[256];
  const vkf_variant *coopmat = vkf_kern_pick(&p, &caps, NULL, why, sizeof why);
  vkf_tuned_time times[] = {{.problem = p, .ns = 1000, .from = "this device"},
                            {.problem = p, .variant = coopmat, .ns = 500, .from = "this device"}};
  vkf_tuned tuned = {times, 1};
  assert_string_equal(coopmat->family->name, "coopmat");
  times[0].variant = vkf_kern_find("matmul-shared-128x128x16-m8n8");
  assert_ptr_equal(vkf_kern_pick(&p, &caps, &tuned, why, sizeof why), coopmat);
  assert_non_null(strstr(why, "a GPU with cooperative matrices"));
  tuned.n_times = 2;
  assert_ptr_equal(vkf_kern_pick(&p, &caps, &tuned, why, sizeof why), coopmat);
  assert_non_null(strstr(why, "0.5 us, measured on this device"));
  times[1].ns = VKF_UNUSABLE_NS;
  assert_ptr_equal(vkf_kern_pick(&p, &caps, &tuned, why, sizeof why), times[0].variant);
}

/* Few long rows are split among workgroups on GPUs, others are not. */
static void few_long_rows_are_split(void **state) {
  (void)state;
  static const struct {
    const char *device;
    vkf_op op;
    uint32_t rows, width;
    bool batch_invariant;
    const char *family;
  } expected[] = {
      {"nvidia", VKF_OP_TOP_K, 1, 32000, false, "split"},
      {"nvidia", VKF_OP_TOP_K, 4, 8000, false, "row"},
      {"nvidia", VKF_OP_TOP_K, 512, 32000, false, "row"},
      {"nvidia", VKF_OP_TOP_K, 1, 4096, false, "row"},
      {"nvidia", VKF_OP_TOP_K, 1, 32000, true, "split"}, /* it selects, so any order gives the same bits */
      {"apple", VKF_OP_TOP_K, 1, 32000, false, "split"},
      {"cpu", VKF_OP_TOP_K, 1, 32000, false, "lanes"},
      {"nvidia", VKF_OP_LOG_SOFTMAX, 8, 128000, false, "split"},
      {"nvidia", VKF_OP_LOG_SOFTMAX, 1, 32000, false, "split"},
      {"nvidia", VKF_OP_LOG_SOFTMAX, 1, 4096, false, "row"},
      {"nvidia", VKF_OP_LOG_SOFTMAX, 1, 2048, false, "row"},
      {"nvidia", VKF_OP_LOG_SOFTMAX, 512, 32000, false, "row"},
      {"nvidia", VKF_OP_LOG_SOFTMAX, 1, 128000, true, "row"},
      {"apple", VKF_OP_LOG_SOFTMAX, 4, 128000, false, "split"},
      {"cpu", VKF_OP_LOG_SOFTMAX, 1, 128000, false, "lanes"},
      {"nvidia", VKF_OP_EMBED, 1, 11008, false, "columns"},
      {"nvidia", VKF_OP_EMBED, 512, 64, true, "columns"},
      {"apple", VKF_OP_EMBED, 1, 4096, false, "columns"},
      {"deck", VKF_OP_APPEND, 1, 6144, false, "columns"},
      {"nvidia", VKF_OP_LOGIT_EDIT, 1, 32000, false, "columns"},
      {"cpu", VKF_OP_EMBED, 1, 11008, false, "row"},
  };
  for (size_t i = 0; i < VKF_COUNT(expected); i++) {
    const vkf_caps caps = device(expected[i].device);
    vkf_problem p = {.op = expected[i].op,
                     .rows = {.rows = expected[i].rows, .width = expected[i].width},
                     .order = vkf_kern_order(&caps, expected[i].batch_invariant)};
    if (p.op == VKF_OP_TOP_K) p.top_k.k = 8;
    char why[256];
    assert_string_equal(vkf_kern_pick(&p, &caps, NULL, why, sizeof why)->family->name, expected[i].family);
  }
}

/* On GPUs a norm of up to 8 wide rows keeps each in the registers of a workgroup. */
static void few_rows_are_normed_wide(void **state) {
  (void)state;
  static const struct {
    const char *device;
    uint32_t rows, width, whole_width;
    bool batch_invariant;
    const char *family;
  } expected_norms[] = {
      {"nvidia", 1, 4096, 4096, false, "wide"},     {"nvidia", 8, 4096, 4096, false, "wide"},
      {"nvidia", 9, 4096, 4096, false, "subgroup"}, {"nvidia", 1, 8192, 8192, false, "wide"},
      {"nvidia", 1, 8196, 8196, false, "subgroup"}, {"nvidia", 1, 4098, 4098, false, "subgroup"},
      {"nvidia", 1, 128, 4096, false, "subgroup"},  {"nvidia", 1, 4096, 4096, true, "row"},
      {"deck", 1, 2048, 2048, false, "wide"},       {"apple", 1, 4096, 4096, false, "wide"},
      {"intel", 1, 4096, 4096, false, "wide"},      {"cpu", 1, 4096, 4096, false, "lanes"},
  };
  for (size_t i = 0; i < VKF_COUNT(expected_norms); i++) {
    const vkf_caps caps = device(expected_norms[i].device);
    const vkf_problem p = {.op = VKF_OP_NORM,
                           .norm = {expected_norms[i].rows, expected_norms[i].width, expected_norms[i].whole_width},
                           .order = vkf_kern_order(&caps, expected_norms[i].batch_invariant)};
    char why[256];
    const char *found = vkf_kern_pick(&p, &caps, NULL, why, sizeof why)->family->name;
    if (strcmp(found, expected_norms[i].family))
      fail_msg("row %u: expected %s, found %s (%s)", (unsigned)i, expected_norms[i].family, found, why);
  }
}

/* Kernels that a driver could not make, or only with spilled registers, are not picked again for the node, however many
 * there are. */
static void what_was_refused_is_passed_over(void **state) {
  (void)state;
  const vkf_caps caps = device("apple");
  vkf_problem p = problem(&caps, VKF_FORMAT_F32, 512);
  char why[256];
  const vkf_variant *first = vkf_kern_pick(&p, &caps, NULL, why, sizeof why);
  vkf_refusal refusals[256];
  size_t n = 0;
  for (const vkf_variant *v = first; v; v = vkf_kern_pick(&p, &caps, NULL, why, sizeof why)) {
    for (size_t i = 0; i < n; i++) assert_ptr_not_equal(v, refusals[i].variant);
    assert_true(n < VKF_COUNT(refusals));
    refusals[n] = (vkf_refusal){v, p.refused};
    p.refused = &refusals[n++];
  }
  assert_true(n > 4);
  assert_non_null(strstr(vkf_kern_fit(first, &p, &caps, why, sizeof why), "the driver cannot make it"));
  const vkf_variant *large = vkf_kern_find("matmul-shared-128x128x16-m8n8");
  assert_non_null(strstr(vkf_kern_fit(large, &p, &caps, why, sizeof why), "keeps 116 numbers in an invocation"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_class_has_its_kernels),
                                     cmocka_unit_test(activations_with_8_bits),
                                     cmocka_unit_test(matrix_cores_have_work_for_few_rows),
                                     cmocka_unit_test(missing_times_switch_no_matrix_cores_off),
                                     cmocka_unit_test(few_long_rows_are_split),
                                     cmocka_unit_test(few_rows_are_normed_wide),
                                     cmocka_unit_test(what_was_refused_is_passed_over)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
