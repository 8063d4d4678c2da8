/* What the tests of room gpu share: a device of the driver that VKF_DEVICE names, and the pipeline of scale.comp.
 *
 * Uses only those headers of room gpu that other rooms see. The validation layer is on if it is installed; close_gpu()
 * fails the test if it said anything. */
#ifndef VKF_TESTS_GPU_FIXTURE_H
#define VKF_TESTS_GPU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/vk.h"
#include "support/missing.h"
#include "support/ok.h"
#include "test_shaders/scale.h"

typedef struct gpu {
  vkf_env env;
  vkf_gpu_instance *instance;
  vkf_gpu_device *device;
} gpu;

static inline void print_line(void *user, vkf_log_level level, const char *line) {
  (void)user;
  (void)level;
  fprintf(stderr, "%s\n", line);
}

static inline void init_env(vkf_env *env, bool quiet) {
  vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .log = quiet ? NULL : print_line, .log_level = VKF_LOG_INFO};
  vkf_env_init(env, &params);
}

#define OK(call) ok(&g->env, (call))
/* Checks that the call fails with `status` and a message that contains `words`. */
#define REFUSED(status, words, call)                                                                \
  do {                                                                                              \
    vkf_env_clear(&g->env);                                                                         \
    assert_int_equal((call), (status));                                                             \
    if (!strstr(g->env.message, (words))) fail_msg("'%s' is not in '%s'", (words), g->env.message); \
    vkf_env_clear(&g->env);                                                                         \
  } while (0)

/* Opens an instance, with validation if the layer is installed. */
static inline void open_instance(gpu *g, bool validation) {
  vkf_gpu_instance_params params = {.validation = validation};
  vkf_status st = vkf_gpu_instance_create(&g->env, &params, &g->instance);
  if (st == VKF_ERROR_UNSUPPORTED && validation) {
    vkf_env_clear(&g->env);
    st = vkf_gpu_instance_create(&g->env, NULL, &g->instance);
  }
  ok(&g->env, st);
}

/* Returns the index of the driver's device; SIZE_MAX: it is not there. */
static inline size_t find_device(const vkf_gpu_instance *instance) {
  const char *name = getenv("VKF_DEVICE");
  for (size_t i = 0; i < vkf_gpu_instance_count(instance); ++i) {
    const vkf_caps *caps = vkf_gpu_instance_caps(instance, i);
    if (!name || (strcmp(name, "lavapipe") == 0 && caps->driver_id == VKF_DRIVER_ID_LAVAPIPE) ||
        (strcmp(name, "swiftshader") == 0 && caps->driver_id == VKF_DRIVER_ID_SWIFTSHADER) ||
        (strcmp(name, "gpu") == 0 && !caps->is_cpu))
      return i;
  }
  return SIZE_MAX;
}

static inline void open_gpu(gpu *g, const vkf_gpu_device_params *params) {
  memset(g, 0, sizeof(*g));
  init_env(&g->env, false);
  open_instance(g, true);
  ok(&g->env, vkf_gpu_device_create(g->instance, find_device(g->instance), params, &g->device));
}

/* Closes everything and checks that all memory was freed and that the layer said nothing. */
static inline void close_gpu(gpu *g) {
  uint64_t now = 1;
  vkf_gpu_device_memory(g->device, &now, NULL);
  assert_int_equal(now, 0);
  uint64_t messages = vkf_gpu_validation_messages(g->device);
  vkf_gpu_device_destroy(&g->device);
  vkf_gpu_instance_destroy(&g->instance);
  assert_null(g->device);
  assert_null(g->instance);
  assert_int_equal(messages, 0);
  assert_int_equal(g->env.live_bytes, 0);
}

/* Returns 0 if the driver is there, else what main() is to return. */
static inline int missing_driver(void) {
  gpu g = {0};
  init_env(&g.env, true);
  vkf_status st = vkf_gpu_instance_create(&g.env, NULL, &g.instance);
  bool found = st == VKF_OK && find_device(g.instance) != SIZE_MAX;
  if (st == VKF_OK) vkf_gpu_instance_destroy(&g.instance);
  if (found) return 0;
  const char *device = getenv("VKF_DEVICE");
  fprintf(stderr, "the driver %s is not installed: %s\n", device ? device : "(any)", g.env.message);
  return driver_skipped();
}
#define RUN(tests) (missing_driver() ? missing_driver() : cmocka_run_group_tests(tests, NULL, NULL))

/* Returns parameters of scale: dst[i] = src[i] * factor + offset. constants [2]: the workgroup and the offset. */
static inline vkf_gpu_pipeline_params scale_params(const uint32_t *constants) {
  return (vkf_gpu_pipeline_params){.name = "scale",
                                   .code = scale_spirv,
                                   .code_bytes = sizeof(scale_spirv),
                                   .constants = constants,
                                   .n_constants = 2,
                                   .n_bindings = 2,
                                   .push_bytes = 8};
}

static inline vkf_gpu_pipeline *scale_pipeline(gpu *g, uint32_t workgroup, uint32_t offset) {
  const uint32_t constants[] = {workgroup, offset};
  const vkf_gpu_pipeline_params params = scale_params(constants);
  vkf_gpu_pipeline *pipeline = NULL;
  ok(&g->env, vkf_gpu_pipeline_get(g->device, &params, &pipeline));
  return pipeline;
}

typedef struct scale_push {
  uint32_t n, factor;
} scale_push;

/* A dispatch of scale over n words of src and dst, with all that it points to. */
typedef struct scale_dispatch {
  vkf_gpu_dispatch d;
  vkf_gpu_binding bindings[2];
  vkf_gpu_access accesses[2];
  scale_push push;
} scale_dispatch;

/* Workgroups of 8. offset: of the specialization constant. */
static inline scale_dispatch *scale_init(gpu *g, scale_dispatch *s, const char *label, vkf_gpu_buffer *src,
                                         vkf_gpu_buffer *dst, uint32_t n, uint32_t factor, uint32_t offset) {
  *s = (scale_dispatch){.bindings = {{.buffer = src}, {.buffer = dst}},
                        .accesses = {{src, 0, n * 4, VKF_GPU_READ}, {dst, 0, n * 4, VKF_GPU_WRITE}},
                        .push = {n, factor}};
  s->d = (vkf_gpu_dispatch){.label = label,
                            .pipeline = scale_pipeline(g, 8, offset),
                            .bindings = s->bindings,
                            .n_bindings = 2,
                            .push = &s->push,
                            .push_bytes = sizeof(s->push),
                            .grid = {VKF_CEIL_DIV(n, 8), 1, 1},
                            .accesses = s->accesses,
                            .n_accesses = 2};
  return s;
}

static inline vkf_gpu_block *begin_block(gpu *g, const char *label) {
  vkf_gpu_block *block = NULL;
  ok(&g->env, vkf_gpu_block_begin(g->device, &(vkf_gpu_block_params){.label = label}, &block));
  return block;
}

static inline void submit_and_wait(gpu *g, vkf_gpu_block *const *blocks, size_t n) {
  uint64_t serial = 0;
  ok(&g->env, vkf_gpu_submit(g->device, blocks, n, &serial));
  ok(&g->env, vkf_gpu_wait(g->device, serial));
}

static inline vkf_gpu_buffer *make_buffer(gpu *g, const char *name, vkf_gpu_memory memory, uint64_t bytes) {
  vkf_gpu_buffer *buffer = NULL;
  ok(&g->env, vkf_gpu_buffer_create(g->device, name, memory, bytes, &buffer));
  return buffer;
}

/* Writes the words 1, 2, 3, ... */
static inline void write_counting(gpu *g, vkf_gpu_buffer *buffer, uint32_t n) {
  uint32_t *words = malloc(n * sizeof(*words));
  for (uint32_t i = 0; i < n; ++i) words[i] = i + 1;
  ok(&g->env, vkf_gpu_buffer_write(buffer, 0, words, n * sizeof(*words)));
  free(words);
}

/* Checks that buffer[i] == (i + 1) * factor + offset for i < n. */
static inline void expect_scaled(gpu *g, vkf_gpu_buffer *buffer, uint32_t n, uint32_t factor, uint32_t offset) {
  uint32_t *words = malloc(n * sizeof(*words));
  ok(&g->env, vkf_gpu_buffer_read(buffer, 0, words, n * sizeof(*words)));
  for (uint32_t i = 0; i < n; ++i)
    if (words[i] != (i + 1) * factor + offset)
      fail_msg("word %u of %s: expected %u, found %u", i, buffer->name, (i + 1) * factor + offset, words[i]);
  free(words);
}

#endif
