/* Blocks: indirect grids, submitting again, derived barriers, refusals, times. */
#include "fixture.h"

#include "gpu/block.h"
#include "support/barriers.h"

enum { N = 256 };

typedef struct buffers {
  vkf_gpu_buffer *a, *b, *c, *grid;
} buffers;

static void make_buffers(gpu *g, buffers *it) {
  it->a = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, N * 4);
  it->b = make_buffer(g, "b", VKF_GPU_MEMORY_DEVICE, N * 4);
  it->c = make_buffer(g, "c", VKF_GPU_MEMORY_DEVICE, N * 4);
  it->grid = make_buffer(g, "grid", VKF_GPU_MEMORY_UPLOAD, 64);
  write_counting(g, it->a, N);
}

static void destroy_buffers(buffers *it) {
  vkf_gpu_buffer_destroy(&it->a);
  vkf_gpu_buffer_destroy(&it->b);
  vkf_gpu_buffer_destroy(&it->c);
  vkf_gpu_buffer_destroy(&it->grid);
}

/* Recorded once; each submit reads the grid that the host wrote before it. */
static void the_grid_is_read_at_each_submit(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  scale_dispatch s;
  scale_init(g, &s, "scale", it.a, it.b, N, 3, 0);
  s.d.grid_buffer = it.grid;
  s.d.grid_offset = 16;
  vkf_gpu_block *block = begin_block(g, "block");
  OK(vkf_gpu_block_dispatch(block, &s.d));
  OK(vkf_gpu_block_end(block));
  for (uint32_t groups = 0; groups <= N / 8; groups += 8) {
    const uint32_t grid[3] = {groups, 1, 1};
    OK(vkf_gpu_buffer_write(it.grid, 16, grid, sizeof(grid)));
    OK(vkf_gpu_buffer_fill(it.b, 0, N * 4, 77));
    submit_and_wait(g, &block, 1);
    uint32_t words[N];
    OK(vkf_gpu_buffer_read(it.b, 0, words, sizeof(words)));
    for (uint32_t i = 0; i < N; ++i) assert_int_equal(words[i], i < groups * 8 ? (i + 1) * 3 : 77);
  }
  vkf_gpu_block_info info;
  vkf_gpu_block_get_info(block, &info);
  assert_int_equal(info.n_submits, N / 64 + 1);
  assert_int_equal(info.n_dispatches, 1);
  vkf_gpu_block_destroy(&block);
  destroy_buffers(&it);
  close_gpu(g);
}

/* One barrier at the start; then one only where bytes conflict. */
static void barriers_are_derived(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  vkf_gpu_buffer *spare = make_buffer(g, "spare", VKF_GPU_MEMORY_DEVICE, N * 4);
  scale_dispatch s;
  vkf_gpu_block *block = begin_block(g, "block");
  assert_int_equal(count_barriers(block), 1);
  /* Two readers of a: none. */
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "1", it.a, it.b, N, 2, 0)->d));
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "2", it.a, it.c, N, 2, 0)->d));
  assert_int_equal(count_barriers(block), 1);
  /* Read after write of c. */
  scale_init(g, &s, "3", it.c, it.a, N / 2, 2, 0);
  s.bindings[1].bytes = N / 2 * 4;
  OK(vkf_gpu_block_dispatch(block, &s.d));
  assert_int_equal(count_barriers(block), 2);
  /* Nobody uses the other half of a. */
  scale_init(g, &s, "4", it.b, it.a, N / 2, 2, 0);
  s.bindings[1].offset = s.bindings[1].bytes = N / 2 * 4;
  s.accesses[0].end = s.accesses[1].end = N * 4;
  s.accesses[1].begin = N / 2 * 4;
  OK(vkf_gpu_block_dispatch(block, &s.d));
  assert_int_equal(count_barriers(block), 2);
  /* Write after write of one byte. */
  s.bindings[1].offset = s.bindings[1].bytes = 0;
  s.accesses[1].begin = N / 2 * 4 - 1;
  OK(vkf_gpu_block_dispatch(block, &s.d));
  assert_int_equal(count_barriers(block), 3);
  /* Write after read of b. */
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "6", it.c, it.b, N, 2, 0)->d));
  assert_int_equal(count_barriers(block), 4);
  /* A grid that a dispatch wrote: a barrier between shaders is behind it, but that does not cover reads of grids. */
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "7", it.a, it.grid, 3, 1, 0)->d));
  assert_int_equal(count_barriers(block), 4);
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "7b", it.b, it.a, N, 2, 0)->d));
  assert_int_equal(count_barriers(block), 5);
  scale_init(g, &s, "8", it.a, spare, 3, 1, 0);
  s.d.grid_buffer = it.grid;
  OK(vkf_gpu_block_dispatch(block, &s.d));
  assert_int_equal(count_barriers(block), 6);
  OK(vkf_gpu_block_end(block));
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&spare);
  destroy_buffers(&it);
  close_gpu(g);
}

static void blocks_run_in_order(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  enum { BLOCKS = 3, ROUNDS = 10 };
  vkf_gpu_block *blocks[BLOCKS];
  vkf_gpu_buffer *ring[] = {it.a, it.b, it.c, it.a};
  for (int i = 0; i < BLOCKS; ++i) {
    scale_dispatch s;
    blocks[i] = begin_block(g, "turn");
    OK(vkf_gpu_block_dispatch(blocks[i], &scale_init(g, &s, "scale", ring[i], ring[i + 1], N, 3, 0)->d));
    OK(vkf_gpu_block_end(blocks[i]));
  }
  uint32_t factor = 1;
  for (int i = 0; i < ROUNDS; ++i, factor *= 27) submit_and_wait(g, blocks, BLOCKS);
  expect_scaled(g, it.a, N, factor, 0);
  for (int i = 0; i < BLOCKS; ++i) vkf_gpu_block_destroy(&blocks[i]);
  destroy_buffers(&it);
  close_gpu(g);
}

/* More submits in flight than fences: the oldest is waited for. */
static void many_submits_in_flight(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  enum { BLOCKS = 20 };
  vkf_gpu_block *blocks[BLOCKS];
  uint64_t serials[BLOCKS];
  for (int i = 0; i < BLOCKS; ++i) {
    scale_dispatch s;
    blocks[i] = begin_block(g, "double");
    OK(vkf_gpu_block_dispatch(blocks[i], &scale_init(g, &s, "to b", it.a, it.b, N, 2, 0)->d));
    OK(vkf_gpu_block_dispatch(blocks[i], &scale_init(g, &s, "to a", it.b, it.a, N, 1, 0)->d));
    OK(vkf_gpu_block_end(blocks[i]));
    OK(vkf_gpu_submit(g->device, &blocks[i], 1, &serials[i]));
  }
  OK(vkf_gpu_wait(g->device, serials[BLOCKS - 1]));
  OK(vkf_gpu_wait(g->device, serials[0])); /* it ended long ago */
  REFUSED(VKF_ERROR_ARGUMENT, "serial", vkf_gpu_wait(g->device, serials[BLOCKS - 1] + 1));
  expect_scaled(g, it.a, N, 1u << BLOCKS, 0);
  for (int i = 0; i < BLOCKS; ++i) vkf_gpu_block_destroy(&blocks[i]);
  destroy_buffers(&it);
  close_gpu(g);
}

static void a_pending_block_is_refused(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  scale_dispatch s;
  vkf_gpu_block *block = begin_block(g, "only");
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", it.a, it.b, N, 2, 0)->d));
  REFUSED(VKF_ERROR_ARGUMENT, "recording", vkf_gpu_submit(g->device, &block, 1, NULL));
  OK(vkf_gpu_block_end(block));
  REFUSED(VKF_ERROR_ARGUMENT, "ended", vkf_gpu_block_dispatch(block, &s.d));
  vkf_gpu_block *twice[] = {block, block};
  REFUSED(VKF_ERROR_ARGUMENT, "only", vkf_gpu_submit(g->device, twice, 2, NULL));
  OK(vkf_gpu_submit(g->device, &block, 1, NULL));
  REFUSED(VKF_ERROR_ARGUMENT, "not waited for", vkf_gpu_submit(g->device, &block, 1, NULL));
  OK(vkf_gpu_wait_all(g->device));
  OK(vkf_gpu_submit(g->device, &block, 1, NULL));
  vkf_gpu_block_destroy(&block); /* pending: waits */
  expect_scaled(g, it.b, N, 2, 0);
  destroy_buffers(&it);
  close_gpu(g);
}

static vkf_status as_lavapipe_26(void *user, vkf_caps *caps) {
  (void)user;
  caps->driver_id = VKF_DRIVER_ID_LAVAPIPE;
  caps->driver_version = 26u << 22;
  return VKF_OK;
}

/* A block that was not waited for may not be submitted again, so a second submit shows that the first one was. */
static void what_compiles_in_a_submit_is_waited_for(void **state) {
  (void)state;
  static const char width[] = "LP_NATIVE_VECTOR_WIDTH";
  const vkf_gpu_device_params params = {.lower = as_lavapipe_26};
  char *before = getenv(width) ? strdup(getenv(width)) : NULL;
  setenv(width, "256", 1);
  gpu fixture, *g = &fixture;
  open_gpu(g, &params);
  buffers it;
  make_buffers(g, &it);
  scale_dispatch s;
  vkf_gpu_block *blocks[2];
  for (int i = 0; i < 2; ++i) {
    blocks[i] = begin_block(g, "block");
    OK(vkf_gpu_block_dispatch(blocks[i], &scale_init(g, &s, "scale", it.a, it.b, N, 2, 0)->d));
    OK(vkf_gpu_block_dispatch(blocks[i], &scale_init(g, &s, "scale", it.b, it.c, N, 3, (uint32_t)i)->d));
    OK(vkf_gpu_block_end(blocks[i]));
  }
  OK(vkf_gpu_submit(g->device, &blocks[0], 1, NULL)); /* its pipeline is new */
  OK(vkf_gpu_submit(g->device, &blocks[0], 1, NULL)); /* no longer */
  REFUSED(VKF_ERROR_ARGUMENT, "not waited for", vkf_gpu_submit(g->device, &blocks[0], 1, NULL));
  OK(vkf_gpu_submit(g->device, &blocks[1], 1, NULL)); /* the second one is */
  OK(vkf_gpu_submit(g->device, blocks, 2, NULL));
  REFUSED(VKF_ERROR_ARGUMENT, "not waited for", vkf_gpu_submit(g->device, blocks, 2, NULL));
  OK(vkf_gpu_wait_all(g->device));
  expect_scaled(g, it.c, N, 2 * 3, 1);
  for (int i = 0; i < 2; ++i) vkf_gpu_block_destroy(&blocks[i]);
  destroy_buffers(&it);
  close_gpu(g);
  before ? setenv(width, before, 1) : unsetenv(width);
  free(before);
}

/* Drivers may give more sets than a pool promised, but need not, so pools are added in time. */
static void pools_give_what_they_promised(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  vkf_gpu_block *block = begin_block(g, "many");
  for (uint32_t i = 0; i < 40; ++i) {
    scale_dispatch s;
    OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", it.a, it.b, N, 2, 0)->d));
  }
  assert_int_equal(block->sets.n_pools, 2); /* of 16 and 32 sets */
  assert_int_equal(block->sets.pools->sets, 8);
  OK(vkf_gpu_block_end(block));
  submit_and_wait(g, &block, 1);
  expect_scaled(g, it.b, N, 2, 0);
  vkf_gpu_block_destroy(&block);
  destroy_buffers(&it);
  close_gpu(g);
}

/* A buffer that a pending block uses lives until the block has ended; else the layer would report it. */
static void a_buffer_in_use_is_waited_for(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  scale_dispatch s;
  vkf_gpu_block *block = begin_block(g, "pending");
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", it.a, it.b, N, 2, 0)->d));
  OK(vkf_gpu_block_end(block));
  OK(vkf_gpu_submit(g->device, &block, 1, NULL));
  destroy_buffers(&it);
  vkf_gpu_block_destroy(&block);
  close_gpu(g);
}

/* Each fault in a good dispatch is refused with words that name it. */
static void arguments_are_checked(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  buffers it;
  make_buffers(g, &it);
  for (int fault = 0; fault < 10; ++fault) {
    scale_dispatch s;
    const char *words = "";
    vkf_gpu_block *block = begin_block(g, "block");
    scale_init(g, &s, "bad", it.a, it.b, N, 2, 0);
    switch (fault) {
      case 0:
        s.d.n_bindings = 1, words = "bindings";
        break;
      case 1:
        s.d.push_bytes = 4, words = "push bytes";
        break;
      case 2:
        s.bindings[1].buffer = NULL, words = "binding 1";
        break;
      case 3:
        s.bindings[1].offset = N * 4, words = "binding 1";
        break;
      case 4:
        s.bindings[0].bytes = N * 4 + 1, words = "binding 0";
        break;
      case 5:
        s.bindings[0].offset = 1, words = "multiple";
        break;
      case 6:
        s.accesses[1].end = N * 4 + 1, words = "access 1";
        break;
      case 7:
        s.accesses[0].begin = s.accesses[0].end, words = "access 0";
        break;
      case 8:
        s.d.grid_buffer = it.grid, s.d.grid_offset = 56, words = "grid";
        break;
      case 9:
        s.d.grid[1] = UINT32_MAX, words = "dimension 1";
        break;
    }
    REFUSED(VKF_ERROR_ARGUMENT, words, vkf_gpu_block_dispatch(block, &s.d));
    REFUSED(VKF_ERROR_ARGUMENT, "failed", vkf_gpu_block_end(block));
    vkf_gpu_block_destroy(&block);
  }
  destroy_buffers(&it);
  close_gpu(g);
}

static void times_are_measured(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  bool timed = vkf_gpu_device_caps(g->device)->timestamps;
  buffers it;
  make_buffers(g, &it);
  vkf_gpu_block *block = NULL;
  vkf_gpu_block_params params = {.label = "timed", .timing = VKF_GPU_TIMING_DISPATCH, .max_dispatches = 2};
  OK(vkf_gpu_block_begin(g->device, &params, &block));
  const char *labels[] = {"first", "second", "third"}, *label;
  for (int i = 0; i < 3; ++i) {
    scale_dispatch s;
    OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, labels[i], it.a, it.b, N, 2, 0)->d));
  }
  OK(vkf_gpu_block_end(block));
  uint64_t whole, part, sum = 0;
  if (timed) REFUSED(VKF_ERROR_ARGUMENT, "has run", vkf_gpu_block_time(block, &whole));
  uint64_t begin = vkf_clock_ns();
  submit_and_wait(g, &block, 1);
  uint64_t host = vkf_clock_ns() - begin;
  OK(vkf_gpu_block_time(block, &whole));
  assert_true(timed ? whole > 0 && whole <= host : whole == 0);
  for (uint32_t i = 0; i < 3; ++i) {
    OK(vkf_gpu_block_dispatch_time(block, i, &label, &part));
    assert_string_equal(label, timed && i < 2 ? labels[i] : ""); /* two were asked for */
    sum += part;
  }
  assert_true(sum <= whole);
  assert_true(!timed || sum > 0);
  REFUSED(VKF_ERROR_ARGUMENT, "index", vkf_gpu_block_dispatch_time(block, 3, &label, &part));
  vkf_gpu_block_destroy(&block);
  destroy_buffers(&it);
  close_gpu(g);
}

/* Every host allocation of recording and running may fail: a status, no leak, nothing left pending. */
static void host_memory_runs_out(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.hazard_log = true});
  g->env.log = NULL;
  vkf_status st = VKF_ERROR_MEMORY;
  for (uint64_t fail = 1; st != VKF_OK; ++fail) {
    uint64_t before = g->env.live_bytes;
    vkf_gpu_buffer *a = NULL, *b = NULL;
    vkf_gpu_block *block = NULL;
    vkf_env_clear(&g->env);
    vkf_gpu_hazard_log(g->device, true);
    g->env.n_allocations = 0;
    g->env.fail_at = fail;
    st = vkf_gpu_buffer_create(g->device, "a", VKF_GPU_MEMORY_DEVICE, N * 4, &a);
    if (!st) st = vkf_gpu_buffer_create(g->device, "b", VKF_GPU_MEMORY_DEVICE, N * 4, &b);
    vkf_gpu_block_params params = {.label = "block", .timing = VKF_GPU_TIMING_DISPATCH};
    if (!st) st = vkf_gpu_block_begin(g->device, &params, &block);
    const uint32_t constants[] = {8, 0};
    const vkf_gpu_pipeline_params pipeline = scale_params(constants);
    vkf_gpu_pipeline *made;
    if (!st) st = vkf_gpu_pipeline_get(g->device, &pipeline, &made);
    if (!st) {
      scale_dispatch s;
      scale_init(g, &s, "scale", a, b, N, 2, 0);
      for (int i = 0; i < 20 && !st; ++i) st = vkf_gpu_block_dispatch(block, &s.d);
    }
    if (!st) st = vkf_gpu_block_end(block);
    if (!st) st = vkf_gpu_submit(g->device, &block, 1, NULL);
    if (!st) st = vkf_gpu_wait_all(g->device);
    vkf_gpu_hazard hazard;
    if (!st) st = vkf_gpu_hazard_check(g->device, &hazard);
    if (st) assert_int_equal(st, VKF_ERROR_MEMORY);
    vkf_gpu_block_destroy(&block);
    vkf_gpu_buffer_destroy(&a);
    vkf_gpu_buffer_destroy(&b);
    g->env.fail_at = 0;
    /* Only the device's own stays: pipelines that were made, and the log. */
    vkf_gpu_hazard_log(g->device, true);
    assert_true(g->env.live_bytes - before < 4096);
    assert_true(fail < 200);
  }
  close_gpu(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_grid_is_read_at_each_submit),
      cmocka_unit_test(barriers_are_derived),
      cmocka_unit_test(blocks_run_in_order),
      cmocka_unit_test(many_submits_in_flight),
      cmocka_unit_test(a_pending_block_is_refused),
      cmocka_unit_test(what_compiles_in_a_submit_is_waited_for),
      cmocka_unit_test(a_buffer_in_use_is_waited_for),
      cmocka_unit_test(pools_give_what_they_promised),
      cmocka_unit_test(arguments_are_checked),
      cmocka_unit_test(times_are_measured),
      cmocka_unit_test(host_memory_runs_out),
  };
  return RUN(tests);
}
