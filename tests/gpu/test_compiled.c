/* What a GPU's driver makes of kernels on a machine without that GPU: RADV compiles for the card that RADV_FORCE_FAMILY
 * names ("null hardware": nothing can be recorded or submitted). Tests the statistics of pipelines, under the driver's
 * names.
 *
 * Drivers without the extension must give an empty list, as those of the other tests do. The driver's cache of compiled
 * kernels is passed from one device object to the next; software drivers put nothing into theirs. With shader objects
 * (newer lavapipe) their forms are passed. */
#include "fixture.h"

static size_t statistics_of(gpu *g, bool wanted, vkf_arena *arena, vkf_bench_statistic **all) {
  const uint32_t constants[] = {8, 0};
  size_t n = 99;
  vkf_gpu_pipeline *pipeline;
  vkf_gpu_pipeline_params params = scale_params(constants);
  params.statistics = wanted;
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
  assert_int_equal(statistics_of(g, false, &arena, &all), 0); /* it was told not to keep them */
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

/* Checks that the pipeline computes what it should, whatever it was made from. */
static void scale_something(gpu *g) {
  enum { N = 20 };
  scale_dispatch s;
  vkf_gpu_buffer *src = make_buffer(g, "src", VKF_GPU_MEMORY_UPLOAD, N * 4),
                 *dst = make_buffer(g, "dst", VKF_GPU_MEMORY_READBACK, N * 4);
  write_counting(g, src, N);
  vkf_gpu_block *block = begin_block(g, "scale");
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", src, dst, N, 3, 5)->d));
  assert_true(!s.d.pipeline->shader == !g->device->forms);
  OK(vkf_gpu_block_end(block));
  submit_and_wait(g, &block, 1);
  expect_scaled(g, dst, N, 3, 5);
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&src);
  vkf_gpu_buffer_destroy(&dst);
}

/* Opens a device with these bytes as its cache. Returns what its cache holds after one pipeline was made (make), or
 * none. */
static void *cache_after(gpu *g, const void *bytes, size_t n, bool make, size_t *n_after) {
  void *after = NULL;
  OK(vkf_gpu_device_create(g->instance, find_device(g->instance), NULL, &g->device));
  OK(vkf_gpu_pipeline_cache_open(g->device, bytes, n));
  if (make && vkf_gpu_device_caps(g->device)->shader_objects) {
    scale_something(g);
  } else if (make) {
    scale_pipeline(g, 8, 0);
  }
  OK(vkf_gpu_pipeline_cache_take(g->device, &after, n_after));
  vkf_gpu_device_destroy(&g->device);
  return after;
}

static bool has_forms(const vkf_gpu_instance *instance) {
  return instance->adapters[find_device(instance)].caps.shader_objects;
}

static void compiled_kernels_go_to_the_next_device(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  size_t n = 0, n_again = 0, n_empty = 0;
  memset(g, 0, sizeof(*g));
  init_env(&g->env, false);
  open_instance(g, false);
  unsigned char *bytes = cache_after(g, NULL, 0, true, &n);
  assert_true(bytes ? n > 32 : n == 0);
  if (getenv("RADV_FORCE_FAMILY")) assert_non_null(bytes);
  if (bytes && has_forms(g->instance)) {
    unsigned char *again = cache_after(g, bytes, n, true, &n_again);
    assert_null(again); /* it was made from its form, so there is nothing new */
    bytes[n - 1] ^= 1;
    again = cache_after(g, bytes, n, true, &n_again);
    assert_non_null(again); /* the driver refused it */
    bytes[n - 1] ^= 1;
    assert_true(n_again == n && memcmp(again, bytes, n) == 0);
    vkf_env_free(&g->env, again);
  } else if (bytes) { /* the cache has it before anything was compiled, unless another driver wrote it */
    void *again = cache_after(g, bytes, n, false, &n_again);
    vkf_env_free(&g->env, again);
    vkf_env_free(&g->env, cache_after(g, NULL, 0, false, &n_empty)); /* NVIDIA's driver writes something even then */
    assert_true(driver_is_gpu() ? n_again > n_empty : n_again == n); /* GPUs' drivers may write theirs anew */
    bytes[16] ^= 1;
    again = cache_after(g, bytes, n, false, &n_again);
    assert_int_equal(n_again, n_empty);
    vkf_env_free(&g->env, again);
  }
  vkf_env_free(&g->env, bytes);
  vkf_gpu_instance_destroy(&g->instance);
  assert_int_equal(g->env.live_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_driver_tells_what_it_compiled),
      cmocka_unit_test(compiled_kernels_go_to_the_next_device),
  };
  return RUN(tests);
}
