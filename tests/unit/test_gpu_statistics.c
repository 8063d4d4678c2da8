/* Statistics of pipelines from an invented driver: formats, several programs, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/vk.h"

static uint32_t n_programs;
static VkResult result;

static VKAPI_ATTR VkResult VKAPI_CALL get_properties(VkDevice device, const VkPipelineInfoKHR *info, uint32_t *n,
                                                     VkPipelineExecutablePropertiesKHR *out) {
  (void)device;
  (void)info;
  *n = n_programs;
  for (uint32_t i = 0; out && i < n_programs; ++i) snprintf(out[i].name, sizeof out[i].name, "SIMD%u", 8u << i);
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL get_statistics(VkDevice device, const VkPipelineExecutableInfoKHR *info,
                                                     uint32_t *n, VkPipelineExecutableStatisticKHR *out) {
  const VkPipelineExecutableStatisticKHR all[] = {
      {.name = "Register Count",
       .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR,
       .value.u64 = 64 + info->executableIndex},
      {.name = "Spilled", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR, .value.i64 = -3},
      {.name = "Occupancy", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR, .value.f64 = 0.75},
      {.name = "Uses LDS", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR, .value.b32 = VK_TRUE},
  };
  (void)device;
  *n = VKF_COUNT(all);
  if (out) memcpy(out, all, sizeof all);
  return out ? result : VK_SUCCESS;
}

static vkf_gpu_device device_of(vkf_env *env, bool has) {
  return (vkf_gpu_device){.env = env,
                          .caps.pipeline_statistics = has,
                          .vk.GetPipelineExecutablePropertiesKHR = get_properties,
                          .vk.GetPipelineExecutableStatisticsKHR = get_statistics};
}

static void numbers_of_every_format(void **state) {
  (void)state;
  vkf_env env;
  vkf_arena arena;
  vkf_bench_statistic *all;
  size_t n;
  const vkf_gpu_pipeline pipeline = {.statistics = true};
  vkf_env_init(&env, NULL);
  vkf_arena_init(&arena, &env);
  vkf_gpu_device device = device_of(&env, true);
  device.root = &device;
  n_programs = 1;
  result = VK_SUCCESS;
  assert_int_equal(vkf_gpu_pipeline_statistics(&device, &pipeline, &arena, &all, &n), VKF_OK);
  assert_int_equal(n, 4);
  assert_string_equal(all[0].name, "Register Count");
  assert_true(all[0].value == 64 && all[1].value == -3 && all[2].value == 0.75 && all[3].value == 1);

  n_programs = 2; /* each name begins with that of its program */
  assert_int_equal(vkf_gpu_pipeline_statistics(&device, &pipeline, &arena, &all, &n), VKF_OK);
  assert_int_equal(n, 8);
  assert_string_equal(all[0].name, "SIMD8: Register Count");
  assert_string_equal(all[4].name, "SIMD16: Register Count");
  assert_true(all[4].value == 65 && all[7].value == 1);

  n_programs = 0;
  assert_int_equal(vkf_gpu_pipeline_statistics(&device, &pipeline, &arena, &all, &n), VKF_OK);
  assert_int_equal(n, 0);
  vkf_arena_finish(&arena);
  assert_int_equal(env.live_bytes, 0);
}

static VKAPI_ATTR VkResult VKAPI_CALL get_spills(VkDevice device, const VkPipelineExecutableInfoKHR *info, uint32_t *n,
                                                 VkPipelineExecutableStatisticKHR *out) {
  const VkPipelineExecutableStatisticKHR all[] = {
      {.name = "Spills", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR, .value.u64 = 14},
      {.name = "Spill cost", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR, .value.u64 = 460},
  };
  (void)device, (void)info;
  *n = VKF_COUNT(all);
  if (out) memcpy(out, all, sizeof all);
  return VK_SUCCESS;
}

static void spilled_registers_are_counted(void **state) {
  (void)state;
  vkf_env env;
  vkf_gpu_pipeline pipeline = {.statistics = true}, untold = {.statistics = false};
  vkf_env_init(&env, NULL);
  vkf_gpu_device device = device_of(&env, true);
  device.root = &device;
  device.vk.GetPipelineExecutableStatisticsKHR = get_spills;
  n_programs = 1;
  result = VK_SUCCESS;
  assert_int_equal(vkf_gpu_pipeline_count_spills(&device, &pipeline), VKF_OK);
  assert_int_equal(vkf_gpu_pipeline_spills(&pipeline), 14);
  assert_int_equal(vkf_gpu_pipeline_count_spills(&device, &untold), VKF_OK);
  assert_int_equal(vkf_gpu_pipeline_spills(&untold), 0);
  assert_int_equal(env.live_bytes, 0);
}

static void who_has_none_is_not_asked(void **state) {
  (void)state;
  vkf_env env;
  vkf_arena arena;
  vkf_bench_statistic *all;
  size_t n;
  const vkf_gpu_pipeline with = {.statistics = true}, without = {.statistics = false};
  vkf_env_init(&env, NULL);
  vkf_arena_init(&arena, &env);
  vkf_gpu_device has = device_of(&env, true), has_not = device_of(&env, false);
  has.root = &has;
  has_not.root = &has_not;
  n_programs = 1;
  result = VK_SUCCESS;
  assert_int_equal(vkf_gpu_pipeline_statistics(&has, &without, &arena, &all, &n), VKF_OK);
  assert_int_equal(n, 0);
  assert_int_equal(vkf_gpu_pipeline_statistics(&has_not, &with, &arena, &all, &n), VKF_OK);
  assert_int_equal(n, 0);
  result = VK_ERROR_OUT_OF_HOST_MEMORY;
  assert_int_equal(vkf_gpu_pipeline_statistics(&has, &with, &arena, &all, &n), VKF_ERROR_MEMORY);
  assert_non_null(strstr(env.message, "vkGetPipelineExecutableStatisticsKHR"));
  vkf_arena_finish(&arena);
  assert_int_equal(env.live_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_every_format),
      cmocka_unit_test(spilled_registers_are_counted),
      cmocka_unit_test(who_has_none_is_not_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
