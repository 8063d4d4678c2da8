/* Limits of a smaller device: they cannot go below what Vulkan promises of every device. Also: classes of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tune/limits.h"

static vkf_env env;

static vkf_status apply(const char *json, vkf_caps *caps) {
  char path[] = "/tmp/vkf-limits-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, json, strlen(json)), strlen(json));
  close(fd);
  vkf_env_init(&env, NULL);
  *caps = (vkf_caps){.max_shared_bytes = 32768,
                     .max_invocations = 1024,
                     .max_workgroup_size = {1024, 1024, 64},
                     .max_workgroup_count = {65536, 65536, 65536},
                     .max_storage_bindings = 16,
                     .max_texel_elements = 1 << 27,
                     .max_allocation_bytes = UINT64_C(1) << 31,
                     .max_storage_range_bytes = 1 << 27,
                     .max_push_bytes = 256,
                     .subgroup_size = 8,
                     .subgroup_min = 8,
                     .subgroup_max = 8};
  const vkf_status st = vkf_tune_limits_apply(&env, path, caps);
  remove(path);
  return st;
}

/* The table "Required Limits" of Vulkan 1.1: one less than a limit is refused. */
static void promises_are_kept(void **state) {
  (void)state;
  static const struct {
    const char *key;
    unsigned least;
  } promised[] = {{"max_shared_bytes", 16384},
                  {"max_invocations", 128},
                  {"max_texel_elements", 65536},
                  {"max_push_bytes", 128},
                  {"max_storage_bindings", 4}};
  char json[96], message[128];
  vkf_caps caps;
  for (size_t i = 0; i < VKF_COUNT(promised); i++) {
    const unsigned tried[] = {0, 1, 16, promised[i].least - 1};
    for (size_t k = 0; k < VKF_COUNT(tried); k++) {
      if (tried[k] >= promised[i].least) continue;
      snprintf(json, sizeof json, "{\"%s\": %u}", promised[i].key, tried[k]);
      snprintf(message, sizeof message, "limits: %s: expected at least %u, which Vulkan promises, found %u",
               promised[i].key, promised[i].least, tried[k]);
      assert_int_equal(apply(json, &caps), VKF_ERROR_FORMAT);
      assert_string_equal(env.message, message);
    }
    snprintf(json, sizeof json, "{\"%s\": %u}", promised[i].key, promised[i].least);
    assert_int_equal(apply(json, &caps), VKF_OK);
  }
  assert_int_equal(apply("{\"max_shared_bytes\": 16384}", &caps), VKF_OK);
  assert_int_equal(caps.max_shared_bytes, 16384);
}

static void sizes_of_parts_may_be_small(void **state) {
  (void)state;
  vkf_caps caps;
  assert_int_equal(apply("{\"max_storage_range_bytes\": 4096, \"max_allocation_bytes\": 8192, "
                         "\"max_workgroup_count\": 7, \"subgroup_size\": 0}",
                         &caps),
                   VKF_OK);
  assert_int_equal(caps.max_storage_range_bytes, 4096);
  assert_int_equal(caps.max_allocation_bytes, 8192);
  assert_int_equal(caps.max_workgroup_count[2], 7);
  assert_int_equal(apply("{\"max_storage_range_bytes\": 0}", &caps), VKF_ERROR_FORMAT);
  assert_int_equal(apply("{\"max_allocation_bytes\": -1}", &caps), VKF_ERROR_FORMAT);
  assert_int_equal(apply("{\"subgroup_size\": -1}", &caps), VKF_ERROR_FORMAT);
}

static vkf_caps large(void) {
  return (vkf_caps){.max_shared_bytes = 1 << 20,
                    .max_invocations = 4096,
                    .max_workgroup_size = {4096, 4096, 64},
                    .max_workgroup_count = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
                    .max_storage_bindings = 64,
                    .max_texel_elements = UINT32_MAX,
                    .max_allocation_bytes = UINT64_C(1) << 40,
                    .max_storage_range_bytes = UINT64_C(1) << 40,
                    .max_push_bytes = 512,
                    .max_loop_turns = UINT32_MAX,
                    .subgroup_size = 32,
                    .subgroup_min = 4,
                    .subgroup_max = 256,
                    .subgroup_size_control = true,
                    .subgroup_shuffle = true,
                    .subgroup_arithmetic = true,
                    .float16 = true,
                    .coopmat = true,
                    .int64 = true,
                    .storage16 = true,
                    .storage8 = true,
                    .buffer_address = true,
                    .timestamps = true};
}

/* A device that exceeds each class gets exactly what docs/devices.md says. */
static void classes_are_as_their_drivers_report(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t shared, invocations, subgroup_min, subgroup_max, bindings, push;
    uint64_t range, allocation;
    bool float16, int64, storage16, storage8, buffer_address, timestamps;
  } expected[] = {
      {"least", 16384, 128, 0, 0, 8, 128, 1u << 27, 1u << 26, false, false, false, false, false, true},
      {"pi", 32768, 256, 16, 16, 8, 128, 1u << 30, 1u << 30, false, false, true, true, true, true},
      {"mali", 32768, 384, 8, 8, 64, 256, UINT32_MAX, UINT32_MAX, false, true, true, true, true, false},
      {"adreno", 32768, 2048, 64, 128, 64, 256, 1u << 27, UINT32_MAX, true, true, false, false, true, true},
      {"intel", 65536, 1024, 8, 32, 64, 256, UINT32_MAX, UINT64_C(1) << 40, true, true, true, true, true, true},
      {"m1", 32768, 1024, 32, 32, 64, 256, INT32_MAX, UINT64_C(1) << 40, true, true, true, true, true, true},
      {"deck", 65536, 1024, 32, 64, 64, 256, UINT32_MAX, UINT32_MAX - 3, true, true, true, true, true, true},
  };
  for (size_t i = 0; i < VKF_COUNT(expected); i++) {
    vkf_caps caps = large();
    vkf_env_init(&env, NULL);
    assert_int_equal(vkf_tune_limits_apply(&env, expected[i].name, &caps), VKF_OK);
    assert_int_equal(caps.max_shared_bytes, expected[i].shared);
    assert_int_equal(caps.max_invocations, expected[i].invocations);
    assert_int_equal(caps.max_storage_bindings, expected[i].bindings);
    assert_int_equal(caps.max_push_bytes, expected[i].push);
    assert_int_equal(caps.max_workgroup_count[0], 65535);
    assert_true(caps.max_storage_range_bytes == expected[i].range &&
                caps.max_allocation_bytes == expected[i].allocation);
    assert_true(caps.float16 == expected[i].float16 && caps.int64 == expected[i].int64);
    assert_true(caps.storage16 == expected[i].storage16 && caps.storage8 == expected[i].storage8);
    assert_true(caps.buffer_address == expected[i].buffer_address && caps.timestamps == expected[i].timestamps);
    assert_false(caps.coopmat);
    assert_int_equal(caps.subgroup_shuffle, expected[i].subgroup_max > 0);
    if (!caps.subgroup_shuffle) continue;
    assert_int_equal(caps.subgroup_min, expected[i].subgroup_min);
    assert_int_equal(caps.subgroup_max, expected[i].subgroup_max);
    assert_true(caps.subgroup_size >= caps.subgroup_min && caps.subgroup_size <= caps.subgroup_max);
  }
}

/* Sizes of subgroups outside the limits are removed. A device that has no other, or chooses the size itself, loses the
 * operations. */
static void subgroups_are_within_their_limits(void **state) {
  (void)state;
  static const struct {
    uint32_t size, min, max;
    bool control;
    const char *limits;
    uint32_t left_min, left_max; /* 0: no operations */
  } expected[] = {
      {32, 8, 32, true, "intel", 8, 32},  {64, 32, 64, true, "intel", 32, 32}, {8, 8, 8, false, "intel", 8, 8},
      {16, 16, 16, false, "pi", 16, 16},  {4, 4, 4, false, "intel", 0, 0},     {16, 8, 16, false, "pi", 0, 0},
      {64, 64, 64, true, "intel", 0, 0},  {8, 8, 8, false, "deck", 0, 0},      {8, 8, 32, false, "intel", 8, 32},
      {64, 32, 64, true, "deck", 32, 64}, {32, 32, 32, false, "least", 0, 0}};
  for (size_t i = 0; i < VKF_COUNT(expected); i++) {
    vkf_caps caps = large();
    caps.subgroup_size = expected[i].size;
    caps.subgroup_min = expected[i].min;
    caps.subgroup_max = expected[i].max;
    caps.subgroup_size_control = expected[i].control;
    vkf_env_init(&env, NULL);
    assert_int_equal(vkf_tune_limits_apply(&env, expected[i].limits, &caps), VKF_OK);
    assert_int_equal(caps.subgroup_arithmetic, expected[i].left_max > 0);
    if (!caps.subgroup_arithmetic) continue;
    assert_int_equal(caps.subgroup_min, expected[i].left_min);
    assert_int_equal(caps.subgroup_max, expected[i].left_max);
  }
}

/* Under the limits of a GPU, a CPU counts as a GPU of unknown kind. No limits turn a GPU into a CPU. */
static void a_cpu_passes_for_a_gpu(void **state) {
  (void)state;
  static const struct {
    const char *limits;
    bool is_cpu;
  } expected[] = {{"least", true},  {"pi", false}, {"mali", false}, {"adreno", false},
                  {"intel", false}, {"m1", false}, {"deck", false}};
  for (size_t i = 0; i < VKF_COUNT(expected); i++) {
    vkf_caps cpu = large(), gpu = large();
    cpu.kind = VKF_DEVICE_CPU;
    gpu.kind = VKF_DEVICE_DISCRETE;
    cpu.is_cpu = cpu.uniform_loads = true;
    vkf_env_init(&env, NULL);
    assert_int_equal(vkf_tune_limits_apply(&env, expected[i].limits, &cpu), VKF_OK);
    assert_int_equal(vkf_tune_limits_apply(&env, expected[i].limits, &gpu), VKF_OK);
    assert_int_equal(cpu.is_cpu, expected[i].is_cpu);
    assert_int_equal(cpu.kind, expected[i].is_cpu ? VKF_DEVICE_CPU : VKF_DEVICE_OTHER);
    assert_int_equal(cpu.uniform_loads, expected[i].is_cpu);
    assert_true(!gpu.is_cpu && gpu.kind == VKF_DEVICE_DISCRETE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(promises_are_kept), cmocka_unit_test(sizes_of_parts_may_be_small),
                                     cmocka_unit_test(classes_are_as_their_drivers_report),
                                     cmocka_unit_test(subgroups_are_within_their_limits),
                                     cmocka_unit_test(a_cpu_passes_for_a_gpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
