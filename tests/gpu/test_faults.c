/* A lost device (injected, or by a time-out) stays lost: every call is refused, and destroying still works. */
#include "fixture.h"
#include "test_shaders/spin.h"

enum { N = 64 };

typedef struct work {
  vkf_gpu_buffer *a, *b;
  vkf_gpu_block *block;
} work;

static void make_work(gpu *g, work *it) {
  scale_dispatch s;
  it->a = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, N * 4);
  it->b = make_buffer(g, "b", VKF_GPU_MEMORY_DEVICE, N * 4);
  it->block = begin_block(g, "work");
  OK(vkf_gpu_block_dispatch(it->block, &scale_init(g, &s, "scale", it->a, it->b, N, 2, 0)->d));
  OK(vkf_gpu_block_end(it->block));
}

static void destroy_work(work *it) {
  vkf_gpu_block_destroy(&it->block);
  vkf_gpu_buffer_destroy(&it->a);
  vkf_gpu_buffer_destroy(&it->b);
}

static void expect_refusals(gpu *g, work *it) {
  uint32_t word = 0;
  vkf_gpu_buffer *buffer;
  vkf_gpu_block *block;
  assert_true(g->device->root->lost);
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost", vkf_gpu_submit(g->device, &it->block, 1, NULL));
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost", vkf_gpu_wait_all(g->device));
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost", vkf_gpu_buffer_write(it->a, 0, &word, 4));
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost", vkf_gpu_buffer_read(it->a, 0, &word, 4));
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost", vkf_gpu_buffer_fill(it->a, 0, 4, 0));
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost",
          vkf_gpu_buffer_create(g->device, "late", VKF_GPU_MEMORY_DEVICE, 4, &buffer));
  REFUSED(VKF_ERROR_DEVICE_LOST, "was lost",
          vkf_gpu_block_begin(g->device, &(vkf_gpu_block_params){.label = "late"}, &block));
}

static void a_lost_device_refuses(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  work it;
  make_work(g, &it);
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.lose_submit = 2});
  submit_and_wait(g, &it.block, 1);
  assert_false(g->device->root->lost);
  REFUSED(VKF_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", vkf_gpu_submit(g->device, &it.block, 1, NULL));
  expect_refusals(g, &it);
  destroy_work(&it);
  vkf_gpu_device_destroy(&g->device);
  /* A new device of the same instance works. */
  OK(vkf_gpu_device_create(g->instance, find_device(g->instance), NULL, &g->device));
  make_work(g, &it);
  write_counting(g, it.a, N);
  submit_and_wait(g, &it.block, 1);
  expect_scaled(g, it.b, N, 2, 0);
  destroy_work(&it);
  close_gpu(g);
}

/* The device is lost while an earlier submit runs: what that uses lives until it has ended. */
static void lost_with_work_in_flight(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  work first, second;
  make_work(g, &first);
  make_work(g, &second);
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.lose_submit = 2});
  OK(vkf_gpu_submit(g->device, &first.block, 1, NULL));
  REFUSED(VKF_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", vkf_gpu_submit(g->device, &second.block, 1, NULL));
  destroy_work(&first);
  destroy_work(&second);
  close_gpu(g);
}

static void staging_on_a_lost_device(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.staged = true});
  enum { BYTES = 20 << 20 };
  char *data = calloc(1, BYTES);
  vkf_gpu_buffer *buffer = make_buffer(g, "big", VKF_GPU_MEMORY_DEVICE, BYTES);
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.lose_submit = 3});
  REFUSED(VKF_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", vkf_gpu_buffer_write(buffer, 0, data, BYTES));
  vkf_gpu_buffer_destroy(&buffer);
  free(data);
  close_gpu(g);
}

/* Work that takes longer than the limit counts as lost. The limit is a nanosecond and the work takes some milliseconds;
 * it does end, so destroying waits for it. */
static void work_without_end(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.wait_ns = 1});
  vkf_gpu_buffer *buffer = make_buffer(g, "x", VKF_GPU_MEMORY_UPLOAD, 64); /* mapped: no copy comes before */
  OK(vkf_gpu_buffer_fill(buffer, 0, 64, 1));
  const uint32_t n = 5000000;
  vkf_gpu_pipeline *pipeline;
  OK(vkf_gpu_pipeline_get(
      g->device,
      &(vkf_gpu_pipeline_params){
          .name = "spin", .code = spin_spirv, .code_bytes = sizeof(spin_spirv), .n_bindings = 1, .push_bytes = 4},
      &pipeline));
  vkf_gpu_binding binding = {.buffer = buffer};
  vkf_gpu_access access = {buffer, 0, 4, VKF_GPU_READ_WRITE};
  vkf_gpu_dispatch d = {.label = "spin",
                        .pipeline = pipeline,
                        .bindings = &binding,
                        .n_bindings = 1,
                        .push = &n,
                        .push_bytes = 4,
                        .grid = {1, 1, 1},
                        .accesses = &access,
                        .n_accesses = 1};
  vkf_gpu_block *block = begin_block(g, "long");
  OK(vkf_gpu_block_dispatch(block, &d));
  OK(vkf_gpu_block_end(block));
  OK(vkf_gpu_submit(g->device, &block, 1, NULL));
  REFUSED(VKF_ERROR_DEVICE_LOST, "to end its work", vkf_gpu_wait_all(g->device));
  assert_true(g->device->root->lost);
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&buffer);
  close_gpu(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lost_device_refuses),
      cmocka_unit_test(lost_with_work_in_flight),
      cmocka_unit_test(staging_on_a_lost_device),
      cmocka_unit_test(work_without_end),
  };
  return RUN(tests);
}
