/* Pipelines: specialization constants, the cache, limits, texel bindings, addresses, subgroup sizes. */
#include <pthread.h>

#include "fixture.h"
#include "support/barriers.h"
#include "test_shaders/address.h"
#include "test_shaders/texel.h"

enum { N = 1000 };

static void constants_reach_the_shader(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  vkf_gpu_buffer *src = make_buffer(g, "src", VKF_GPU_MEMORY_DEVICE, N * 4);
  vkf_gpu_buffer *dst = make_buffer(g, "dst", VKF_GPU_MEMORY_READBACK, N * 4);
  write_counting(g, src, N);
  for (uint32_t offset = 0; offset < 3; ++offset) {
    scale_dispatch s;
    vkf_gpu_block *block = begin_block(g, "block");
    OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", src, dst, N, 7, offset)->d));
    OK(vkf_gpu_block_end(block));
    submit_and_wait(g, &block, 1);
    expect_scaled(g, dst, N, 7, offset);
    vkf_gpu_block_destroy(&block);
  }
  vkf_gpu_buffer_destroy(&src);
  vkf_gpu_buffer_destroy(&dst);
  close_gpu(g);
}

static void a_pipeline_is_made_once(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  size_t n;
  uint64_t ns;
  vkf_gpu_pipeline *a = scale_pipeline(g, 8, 0);
  assert_ptr_equal(scale_pipeline(g, 8, 0), a);
  assert_ptr_not_equal(scale_pipeline(g, 4, 0), a);
  assert_ptr_not_equal(scale_pipeline(g, 8, 1), a);
  assert_ptr_equal(scale_pipeline(g, 8, 0), a);
  vkf_gpu_device_pipelines(g->device, &n, &ns);
  assert_int_equal(n, 3);
  assert_true(ns > 0);
  close_gpu(g);
}

/* The first ones are kept, the others are made anew. */
static void the_last_ones_go(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  size_t n;
  vkf_gpu_pipeline *first = scale_pipeline(g, 8, 0), *second = scale_pipeline(g, 8, 1);
  scale_pipeline(g, 8, 2);
  vkf_gpu_pipelines_trim(g->device, 4);
  vkf_gpu_pipelines_trim(g->device, 2);
  vkf_gpu_device_pipelines(g->device, &n, NULL);
  assert_int_equal(n, 2);
  assert_ptr_equal(scale_pipeline(g, 8, 0), first);
  assert_ptr_equal(scale_pipeline(g, 8, 1), second);
  assert_non_null(scale_pipeline(g, 8, 2));
  vkf_gpu_device_pipelines(g->device, &n, NULL);
  assert_int_equal(n, 3);
  close_gpu(g);
}

static void many_are_made_at_once(void **state) {
  (void)state;
  enum { MANY = 40 };
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  size_t n;
  uint32_t constants[MANY][2];
  vkf_gpu_pipeline_params params[MANY];
  vkf_gpu_pipeline *there = scale_pipeline(g, 8, 0);
  for (uint32_t i = 0; i < MANY; ++i) {
    constants[i][0] = 8;
    constants[i][1] = i / 2; /* each twice, and one that is there */
    params[i] = scale_params(constants[i]);
  }
  OK(vkf_gpu_pipelines_make(g->device, params, MANY));
  OK(vkf_gpu_pipelines_make(g->device, params, 0));
  vkf_gpu_device_pipelines(g->device, &n, NULL);
  assert_int_equal(n, MANY / 2);
  assert_ptr_equal(scale_pipeline(g, 8, 0), there);
  for (uint32_t i = 1; i < MANY / 2; ++i) assert_ptr_not_equal(scale_pipeline(g, 8, i), scale_pipeline(g, 8, i - 1));
  for (uint32_t i = 0; i < MANY; ++i) constants[i][1] += MANY;
  constants[MANY - 1][1] += 1; /* so that it is not the one before it */
  params[MANY - 1].push_bytes = 7;
  REFUSED(VKF_ERROR_UNSUPPORTED, "push", vkf_gpu_pipelines_make(g->device, params, MANY));
  vkf_gpu_device_pipelines(g->device, &n, NULL);
  assert_int_equal(n, MANY / 2); /* refused before the driver was asked for anything */
  close_gpu(g);
}

/* A log that must be called by one thread. */
typedef struct own_log {
  pthread_t thread;
  uint32_t n, n_strange;
} own_log;

static void count_line(void *user, vkf_log_level level, const char *line) {
  own_log *log = user;
  (void)level;
  (void)line;
  log->n++;
  log->n_strange += !pthread_equal(log->thread, pthread_self());
}

/* The layer reports on the threads that call the driver; the caller's log gets it on the caller's thread. */
static void messages_come_on_the_caller_s_thread(void **state) {
  (void)state;
  enum { MANY = 40 };
  gpu fixture, *g = &fixture;
  own_log log = {.thread = pthread_self()};
  uint32_t constants[MANY][2];
  vkf_gpu_pipeline_params params[MANY];
  setenv("VK_LAYER_DUPLICATE_MESSAGE_LIMIT", "1000", 1); /* layers of 2025 and newer repeat a message ten times */
  open_gpu(g, NULL);
  if (!vkf_gpu_validation_enabled(g->device)) {
    close_gpu(g);
    skip();
  }
  g->env.log = count_line;
  g->env.log_user = &log;
  for (uint32_t i = 0; i < MANY; ++i) {
    constants[i][0] = 8;
    constants[i][1] = i;
    params[i] = scale_params(constants[i]);
    params[i].name = "without its last binding";
    params[i].n_bindings = 1;
  }
  OK(vkf_gpu_pipelines_make(g->device, params, MANY));
  assert_true(log.n >= MANY);
  assert_int_equal(log.n, vkf_gpu_validation_messages(g->device));
  assert_int_equal(log.n_strange, 0);
  vkf_gpu_device_destroy(&g->device);
  vkf_gpu_instance_destroy(&g->instance);
  assert_int_equal(g->env.live_bytes, 0);
}

static void limits_are_kept(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  const vkf_caps *caps = vkf_gpu_device_caps(g->device);
  vkf_gpu_pipeline *pipeline;
  vkf_gpu_pipeline_params params = {.name = "odd", .code = scale_spirv, .code_bytes = sizeof(scale_spirv)};
  params.n_bindings = VKF_GPU_MAX_BINDINGS + 1;
  REFUSED(VKF_ERROR_UNSUPPORTED, "odd", vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  params.n_bindings = 2;
  params.push_bytes = caps->max_push_bytes + 4;
  REFUSED(VKF_ERROR_UNSUPPORTED, "push", vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  params.push_bytes = 8;
  params.subgroup_size = caps->subgroup_max * 2;
  REFUSED(VKF_ERROR_UNSUPPORTED, "subgroup", vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  close_gpu(g);
}

static void the_subgroup_size_can_be_required(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  const vkf_caps *caps = vkf_gpu_device_caps(g->device);
  const uint32_t constants[] = {caps->subgroup_size, 0};
  vkf_gpu_pipeline *pipeline = NULL;
  vkf_gpu_pipeline_params params = scale_params(constants);
  params.subgroup_size = caps->subgroup_size;
  params.subgroup_full = caps->subgroup_full;
  OK(vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  assert_ptr_not_equal(pipeline, scale_pipeline(g, caps->subgroup_size, 0));
  close_gpu(g);
}

static void texels_are_read(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  enum { TEXELS = 40 };
  const vkf_gpu_binding_kind kinds[] = {VKF_GPU_BINDING_TEXEL_F32X4, VKF_GPU_BINDING_STORAGE};
  vkf_gpu_pipeline_params params = {
      .name = "texel", .code = texel_spirv, .code_bytes = sizeof(texel_spirv), .n_bindings = 2, .kinds = kinds};
  vkf_gpu_pipeline *pipeline;
  OK(vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  float values[4 * TEXELS], back[4 * TEXELS];
  for (int i = 0; i < 4 * TEXELS; ++i) values[i] = (float)i - 7.5f;
  uint64_t skip_bytes = vkf_gpu_device_caps(g->device)->texel_offset_alignment;
  vkf_gpu_buffer *src = make_buffer(g, "src", VKF_GPU_MEMORY_DEVICE, skip_bytes + sizeof(values));
  vkf_gpu_buffer *dst = make_buffer(g, "dst", VKF_GPU_MEMORY_READBACK, sizeof(back));
  OK(vkf_gpu_buffer_write(src, skip_bytes, values, sizeof(values)));
  vkf_gpu_binding bindings[] = {{src, skip_bytes, sizeof(values)}, {.buffer = dst}};
  vkf_gpu_access accesses[] = {{src, skip_bytes, skip_bytes + sizeof(values), VKF_GPU_READ},
                               {dst, 0, sizeof(back), VKF_GPU_WRITE}};
  vkf_gpu_dispatch d = {.label = "texels",
                        .pipeline = pipeline,
                        .bindings = bindings,
                        .n_bindings = 2,
                        .grid = {TEXELS / 8, 1, 1},
                        .accesses = accesses,
                        .n_accesses = 2};
  vkf_gpu_block *block = begin_block(g, "block");
  OK(vkf_gpu_block_dispatch(block, &d));
  OK(vkf_gpu_block_end(block));
  submit_and_wait(g, &block, 1);
  OK(vkf_gpu_buffer_read(dst, 0, back, sizeof(back)));
  assert_memory_equal(back, values, sizeof(values));
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&src);
  vkf_gpu_buffer_destroy(&dst);
  close_gpu(g);
}

static void addresses_are_followed(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  vkf_gpu_buffer *words = make_buffer(g, "words", VKF_GPU_MEMORY_DEVICE, N * 4);
  if (!vkf_gpu_device_caps(g->device)->buffer_address) {
    assert_int_equal(vkf_gpu_buffer_address(words), 0);
    vkf_gpu_buffer_destroy(&words);
    close_gpu(g);
    skip();
  }
  struct {
    uint64_t address;
    uint32_t n, zero;
  } push = {vkf_gpu_buffer_address(words), N, 0};
  assert_true(push.address != 0);
  write_counting(g, words, N);
  vkf_gpu_pipeline *pipeline;
  OK(vkf_gpu_pipeline_get(
      g->device,
      &(vkf_gpu_pipeline_params){
          .name = "address", .code = address_spirv, .code_bytes = sizeof(address_spirv), .push_bytes = sizeof(push)},
      &pipeline));
  vkf_gpu_access access = {words, 0, N * 4, VKF_GPU_READ_WRITE};
  vkf_gpu_dispatch d = {.label = "add",
                        .pipeline = pipeline,
                        .push = &push,
                        .push_bytes = sizeof(push),
                        .grid = {N / 8, 1, 1},
                        .accesses = &access,
                        .n_accesses = 1};
  vkf_gpu_block *block = begin_block(g, "block");
  OK(vkf_gpu_block_dispatch(block, &d));
  OK(vkf_gpu_block_dispatch(block, &d));
  OK(vkf_gpu_block_end(block));
  assert_int_equal(count_barriers(block), 2); /* the second depends on the first, though no binding says so */
  submit_and_wait(g, &block, 1);
  expect_scaled(g, words, N, 1, 2);
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&words);
  close_gpu(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_reach_the_shader),
      cmocka_unit_test(a_pipeline_is_made_once),
      cmocka_unit_test(the_last_ones_go),
      cmocka_unit_test(many_are_made_at_once),
      cmocka_unit_test(messages_come_on_the_caller_s_thread),
      cmocka_unit_test(limits_are_kept),
      cmocka_unit_test(the_subgroup_size_can_be_required),
      cmocka_unit_test(texels_are_read),
      cmocka_unit_test(addresses_are_followed),
  };
  return RUN(tests);
}
