/* The hazard check must find nothing in what the recorder makes of a whole run, and must report any one barrier that is
 * taken away.
 *
 * Also plants hazards that show that the validation layer is awake.
 */
#include "fixture.h"
#include "support/barriers.h"

enum { N = 64, STEPS = 3, BLOCKS = 3 };

/* A small decoding step: the host writes ids and grids, three blocks pass activations on and keep a cache, the host
 * reads the result. Activations are at planned offsets of one buffer, and are used again by another block. */
typedef struct run {
  gpu g;
  vkf_gpu_buffer *input, *activations, *cache, *grid, *output;
  vkf_gpu_block *blocks[BLOCKS];
  uint32_t n_barriers;
} run;

/* Records src[from] -> dst[to], by words. */
static void pass(run *it, vkf_gpu_block *block, const char *label, vkf_gpu_buffer *src, uint64_t from,
                 vkf_gpu_buffer *dst, uint64_t to) {
  gpu *g = &it->g;
  scale_dispatch s;
  scale_init(g, &s, label, src, dst, N, 1, 1);
  s.bindings[0].offset = from * 4;
  s.bindings[1].offset = to * 4;
  for (int i = 0; i < 2; ++i) {
    s.bindings[i].bytes = N * 4; /* the layer takes a whole binding as accessed */
    s.accesses[i].begin += s.bindings[i].offset;
    s.accesses[i].end += s.bindings[i].offset;
  }
  s.d.grid_buffer = it->grid;
  OK(vkf_gpu_block_dispatch(block, &s.d));
}

static void open_run(run *it, bool staged, uint32_t skip_barrier) {
  memset(it, 0, sizeof(*it));
  gpu *g = &it->g;
  open_gpu(g, &(vkf_gpu_device_params){.hazard_log = true, .staged = staged});
  if (skip_barrier != 0) g->env.log = NULL; /* the layer may speak of what is planted */
  it->input = make_buffer(g, "input", VKF_GPU_MEMORY_DEVICE, N * 4);
  it->activations = make_buffer(g, "activations", VKF_GPU_MEMORY_DEVICE, 4 * N * 4);
  it->cache = make_buffer(g, "cache", VKF_GPU_MEMORY_DEVICE, 2 * N * 4);
  it->grid = make_buffer(g, "grid", VKF_GPU_MEMORY_UPLOAD, 12);
  it->output = make_buffer(g, "output", VKF_GPU_MEMORY_READBACK, N * 4);
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.skip_barrier = skip_barrier});

  vkf_gpu_block *block = it->blocks[0] = begin_block(g, "embed");
  pass(it, block, "gather", it->input, 0, it->activations, 0);
  pass(it, block, "norm", it->activations, 0, it->activations, N);
  block = it->blocks[1] = begin_block(g, "decoder.0");
  pass(it, block, "q", it->activations, N, it->activations, 0);
  pass(it, block, "k", it->activations, N, it->cache, 0);
  pass(it, block, "attention", it->cache, 0, it->activations, 2 * N);
  pass(it, block, "out", it->activations, 2 * N, it->activations, N);
  block = it->blocks[2] = begin_block(g, "head");
  pass(it, block, "logits", it->activations, N, it->activations, 0);
  pass(it, block, "edit", it->activations, 0, it->activations, 0); /* in place */
  pass(it, block, "argmax", it->activations, 0, it->output, 0);
  for (int i = 0; i < BLOCKS; ++i) {
    OK(vkf_gpu_block_end(it->blocks[i]));
    it->n_barriers += count_barriers(it->blocks[i]);
  }
}

static void run_steps(run *it, int steps) {
  gpu *g = &it->g;
  for (int i = 0; i < steps; ++i) {
    const uint32_t grid[3] = {N / 8, 1, 1};
    uint32_t words[N];
    write_counting(g, it->input, N);
    OK(vkf_gpu_buffer_write(it->grid, 0, grid, sizeof(grid)));
    submit_and_wait(g, it->blocks, BLOCKS);
    OK(vkf_gpu_buffer_read(it->output, 0, words, sizeof(words)));
    /* The software drivers are right with or without barriers. */
    for (uint32_t k = 0; k < N; ++k) assert_int_equal(words[k], k + 1 + 8);
  }
}

static vkf_gpu_hazard check(run *it) {
  gpu *g = &it->g;
  vkf_gpu_hazard hazard;
  OK(vkf_gpu_hazard_check(g->device, &hazard));
  assert_int_equal(hazard.found, hazard.text[0] != 0);
  return hazard;
}

static void close_run(run *it) {
  for (int i = 0; i < BLOCKS; ++i) vkf_gpu_block_destroy(&it->blocks[i]);
  vkf_gpu_buffer_destroy(&it->input);
  vkf_gpu_buffer_destroy(&it->activations);
  vkf_gpu_buffer_destroy(&it->cache);
  vkf_gpu_buffer_destroy(&it->grid);
  vkf_gpu_buffer_destroy(&it->output);
}

/* Ends a run with planted hazards, which the layer may have reported. */
static void close_planted(run *it) {
  close_run(it);
  vkf_gpu_device_destroy(&it->g.device);
  vkf_gpu_instance_destroy(&it->g.instance);
  assert_int_equal(it->g.env.live_bytes, 0);
}

static void expect_hazard(run *it, const char *first, const char *second) {
  vkf_gpu_hazard hazard = check(it);
  if (!strstr(hazard.text, first) || !strstr(hazard.text, second))
    fail_msg("expected '%s' and '%s' in '%s'", first, second, hazard.text);
}

static void whole_steps_are_clean(void **state) {
  (void)state;
  for (int staged = 0; staged < 2; ++staged) {
    run it;
    open_run(&it, staged, 0);
    assert_int_equal(it.n_barriers, 3 + 1 + 2 + 2);
    run_steps(&it, STEPS);
    assert_string_equal(check(&it).text, "");
    close_run(&it);
    close_gpu(&it.g);
  }
}

/* The main test: each barrier is needed, and the check reports it if it is missing. */
static void every_barrier_is_needed(void **state) {
  if (driver_is_gpu()) skip(); /* copies to and from memory that is not mapped wait, too */
  (void)state;
  uint32_t n = 1;
  for (uint32_t skip = 1; skip <= n; ++skip) {
    run it;
    open_run(&it, false, skip);
    n = it.n_barriers;
    run_steps(&it, STEPS);
    vkf_gpu_hazard hazard = check(&it);
    if (!hazard.found) fail_msg("barrier %u of %u was taken away and nothing was found", skip, n);
    close_planted(&it);
  }
  assert_int_equal(n, 8);
}

/* What was read may be overwritten only behind a barrier, even if nothing else needs one there. */
static void a_write_waits_for_the_reads_before_it(void **state) {
  (void)state;
  for (uint32_t skip = 0; skip <= 2; skip += 2) {
    run it;
    open_run(&it, false, 0);
    gpu *g = &it.g;
    const uint32_t grid[3] = {N / 8, 1, 1};
    if (skip) g->env.log = NULL; /* the layer may speak of what is planted */
    vkf_gpu_inject(g->device, &(vkf_gpu_faults){.skip_barrier = skip});
    vkf_gpu_block *block = begin_block(g, "reuse");
    pass(&it, block, "read", it.activations, 0, it.activations, N);
    pass(&it, block, "overwrite", it.activations, 2 * N, it.activations, 0);
    OK(vkf_gpu_block_end(block));
    assert_int_equal(count_barriers(block), 2);
    OK(vkf_gpu_buffer_write(it.grid, 0, grid, sizeof(grid)));
    submit_and_wait(g, &block, 1);
    if (skip)
      expect_hazard(&it, "overwrite writes", "reuse/read read before");
    else
      assert_string_equal(check(&it).text, "");
    vkf_gpu_block_destroy(&block);
    if (skip) {
      close_planted(&it);
    } else {
      close_run(&it);
      close_gpu(g);
    }
  }
}

/* A barrier between shaders does not cover the read of a grid that the block wrote; it needs a barrier of its own. */
static void a_grid_may_be_written(void **state) {
  (void)state;
  run it;
  open_run(&it, false, 0);
  gpu *g = &it.g;
  scale_dispatch s;
  const uint32_t grid[3] = {N / 8, 1, 1};
  OK(vkf_gpu_buffer_write(it.input, 0, grid, sizeof(grid)));
  vkf_gpu_block *block = begin_block(g, "block");
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "write the grid", it.input, it.grid, 3, 1, 0)->d));
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "write", it.input, it.activations, N, 1, 0)->d));
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "read", it.activations, it.cache, N, 1, 0)->d));
  scale_init(g, &s, "run", it.input, it.output, N, 1, 0);
  s.d.grid_buffer = it.grid;
  OK(vkf_gpu_block_dispatch(block, &s.d));
  OK(vkf_gpu_block_end(block));
  assert_int_equal(count_barriers(block), 3);
  submit_and_wait(g, &block, 1);
  assert_string_equal(check(&it).text, "");
  vkf_gpu_block_destroy(&block);
  close_run(&it);
  close_gpu(g);
}

static void the_barrier_to_the_host_is_needed(void **state) {
  (void)state;
  run it;
  gpu *g = &it.g;
  open_run(&it, false, VKF_GPU_SKIP_HOST_BARRIER);
  const uint32_t grid[3] = {N / 8, 1, 1};
  OK(vkf_gpu_buffer_write(it.grid, 0, grid, sizeof(grid)));
  submit_and_wait(g, it.blocks, BLOCKS);
  OK(vkf_gpu_buffer_write(it.grid, 0, grid, sizeof(grid))); /* the device only read it, so the wait is enough */
  assert_false(check(&it).found);
  run_steps(&it, 1);
  expect_hazard(&it, "the host reads", "head/argmax");
  close_planted(&it);
}

/* The barrier before a copy of staging. */
static void the_barrier_of_a_copy_is_needed(void **state) {
  (void)state;
  run it;
  open_run(&it, true, 0);
  it.g.env.log = NULL;
  run_steps(&it, 1);
  uint32_t words[N];
  vkf_gpu_inject(it.g.device, &(vkf_gpu_faults){.skip_barrier = 1});
  ok(&it.g.env, vkf_gpu_buffer_read(it.cache, 0, words, sizeof(words)));
  expect_hazard(&it, "staging/readback", "decoder.0/k");
  close_planted(&it);
}

/* A submit that is not waited for. */
static void the_host_must_wait(void **state) {
  (void)state;
  run it;
  gpu *g = &it.g;
  open_run(&it, false, 0);
  run_steps(&it, 1);
  OK(vkf_gpu_submit(g->device, it.blocks, BLOCKS, NULL));
  vkf_gpu_buffer_touch(it.output, 0, 4, VKF_GPU_READ);
  expect_hazard(&it, "the host reads", "wait");
  OK(vkf_gpu_wait_all(g->device));

  vkf_gpu_hazard_log(g->device, true); /* an empty log */
  OK(vkf_gpu_submit(g->device, it.blocks, BLOCKS, NULL));
  vkf_gpu_buffer_touch(it.grid, 0, 4, VKF_GPU_READ); /* two readers */
  assert_false(check(&it).found);
  vkf_gpu_buffer_touch(it.grid, 0, 4, VKF_GPU_WRITE);
  expect_hazard(&it, "the host writes", "grid");
  OK(vkf_gpu_wait_all(g->device));
  close_run(&it);
  close_gpu(g);
}

/* A fence orders the host after the device, but only barriers order one submit after another. */
static void a_block_without_its_first_barrier(void **state) {
  if (driver_is_gpu()) skip(); /* copies to and from memory that is not mapped wait, too */
  (void)state;
  run it;
  open_run(&it, false, 1);
  run_steps(&it, 1);
  assert_false(check(&it).found);
  run_steps(&it, 1);
  expect_hazard(&it, "embed/gather writes", "activations");
  close_planted(&it);
}

static void an_old_block_is_refused(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  vkf_gpu_hazard hazard;
  REFUSED(VKF_ERROR_ARGUMENT, "log off", vkf_gpu_hazard_check(g->device, &hazard));
  vkf_gpu_block *block = begin_block(g, "old");
  OK(vkf_gpu_block_end(block));
  vkf_gpu_hazard_log(g->device, true);
  REFUSED(VKF_ERROR_ARGUMENT, "old", vkf_gpu_submit(g->device, &block, 1, NULL));
  vkf_gpu_hazard_log(g->device, false);
  submit_and_wait(g, &block, 1);
  vkf_gpu_block_destroy(&block);
  close_gpu(g);
}

/* The layer reports the missing barrier inside a block (barrier 2) and, by its submit-time mode, across two (barrier
 * 3). If it is installed and reports nothing here, its silence in other tests means nothing. */
static void the_layer_is_awake(void **state) {
  (void)state;
  setenv("VK_LAYER_ENABLES", "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT", 1);
  setenv("VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1", 1); /* of newer layers: descriptors */
  for (uint32_t missing = 2; missing <= 3; ++missing) {
    run it;
    open_run(&it, false, missing);
    if (!vkf_gpu_validation_enabled(it.g.device)) {
      close_planted(&it);
      skip();
    }
    run_steps(&it, 2);
    if (vkf_gpu_validation_messages(it.g.device) == 0)
      fail_msg("barrier %u is missing and the layer is silent", missing);
    close_planted(&it);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_steps_are_clean),
      cmocka_unit_test(every_barrier_is_needed),
      cmocka_unit_test(a_write_waits_for_the_reads_before_it),
      cmocka_unit_test(a_grid_may_be_written),
      cmocka_unit_test(the_barrier_to_the_host_is_needed),
      cmocka_unit_test(the_barrier_of_a_copy_is_needed),
      cmocka_unit_test(the_host_must_wait),
      cmocka_unit_test(a_block_without_its_first_barrier),
      cmocka_unit_test(an_old_block_is_refused),
      cmocka_unit_test(the_layer_is_awake),
  };
  return RUN(tests);
}
