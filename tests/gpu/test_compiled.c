/* What a driver of GPUs makes of kernels, on a machine that has none: RADV compiles for the card that RADV_FORCE_FAMILY
 * names ("null hardware": nothing can be recorded or submitted). Statistics of pipelines, under the driver's names.
 *
 * Drivers that have not the extension give an empty list: that is asked of the ones that the other tests run on.
 */
#include "fixture.h"

static size_t statistics_of(gpu *g, bool wanted, vkf_arena *arena, vkf_bench_statistic **all) {
  const uint32_t constants[] = {8, 0};
  size_t n = 99;
  vkf_gpu_pipeline *pipeline;
  const vkf_gpu_pipeline_params params = {.name = "scale",
                                          .code = scale_spirv,
                                          .code_bytes = sizeof(scale_spirv),
                                          .constants = constants,
                                          .n_constants = 2,
                                          .n_bindings = 2,
                                          .push_bytes = 8,
                                          .statistics = wanted};
  OK(vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  OK(vkf_gpu_pipeline_statistics(g->device, pipeline, arena, all, &n));
  return n;
}

static void the_driver_tells_what_it_compiled(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  vkf_arena arena;
  vkf_bench_statistic *all;
  size_t n_pipelines = 0;
  memset(g, 0, sizeof(*g));
  init_env(&g->env, false);
  vkf_arena_init(&arena, &g->env);
  open_instance(g, false);
  OK(vkf_gpu_device_create(g->instance, find_device(g->instance), NULL, &g->device));
  const bool tells = vkf_gpu_device_caps(g->device)->pipeline_statistics;
  assert_int_equal(statistics_of(g, false, &arena, &all), 0); /* it was not to keep them */
  const size_t n = statistics_of(g, true, &arena, &all);
  assert_true(tells ? n > 0 : n == 0);
  for (size_t i = 0; i < n; ++i) {
    print_message("%s: %.12g\n", all[i].name, all[i].value);
    assert_true(all[i].name[0] && all[i].value >= 0);
  }
  assert_int_equal(statistics_of(g, true, &arena, &all), n);
  vkf_gpu_device_pipelines(g->device, &n_pipelines, NULL);
  assert_int_equal(n_pipelines, 2);
  if (getenv("RADV_FORCE_FAMILY")) {
    bool has_registers = false;
    for (size_t i = 0; i < n; ++i) has_registers = has_registers || (!strcmp(all[i].name, "VGPRs") && all[i].value > 0);
    assert_true(has_registers);
  }
  vkf_arena_finish(&arena);
  close_gpu(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_driver_tells_what_it_compiled)};
  return RUN(tests);
}
