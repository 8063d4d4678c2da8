/* Lines to a device: threads that submit at the same time reach the queue one after the other, and under the host's
 * lock. Each line counts its own submits. If one line loses the device, it is lost for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/stub_driver.h"

enum { N_LINES = 4, N_SUBMITS = 25 };

static atomic_int in_queue, in_lock, n_submits;
static atomic_bool overlaps, is_without_lock;

/* ---- a driver that takes its time -------------------------------------------------------------------------------- */

static VkResult submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence fence) {
  const struct timespec while_inside = {.tv_nsec = 200000};
  (void)queue, (void)n, (void)infos, (void)fence;
  if (atomic_fetch_add(&in_queue, 1) != 0) overlaps = true;
  if (in_lock != 1) is_without_lock = true;
  nanosleep(&while_inside, NULL);
  atomic_fetch_sub(&in_queue, 1);
  n_submits++;
  return VK_SUCCESS;
}
static void lock(void *user) {
  assert_ptr_equal(user, &in_lock);
  in_lock++;
}
static void unlock(void *user) {
  assert_ptr_equal(user, &in_lock);
  in_lock--;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

typedef struct bench {
  vkf_env env, envs[N_LINES];
  vkf_gpu_device device;
  vkf_gpu_device *lines[N_LINES];
} bench;

static void open_bench(bench *b) {
  vkf_gpu_device *d = &b->device;
  memset(b, 0, sizeof *b);
  stub_open(d, &b->env);
  d->lock_queue = lock;
  d->unlock_queue = unlock;
  d->queue_user = &in_lock;
  d->vk.QueueSubmit = submit;
  for (int i = 0; i < N_LINES; i++) {
    vkf_env_init_child(&b->envs[i], &b->env);
    assert_int_equal(vkf_gpu_device_branch(d, &b->envs[i], &b->lines[i]), VKF_OK);
  }
}

static void close_bench(bench *b) {
  for (int i = 0; i < N_LINES; i++) vkf_gpu_device_destroy(&b->lines[i]);
  stub_close(&b->device);
}

static void *submit_often(void *user) {
  vkf_gpu_device *line = user;
  VkCommandBuffer commands[2] = {(VkCommandBuffer)(uintptr_t)2};
  uint64_t serial = 0;
  for (int i = 0; i < N_SUBMITS; i++)
    if (vkf_gpu_submit_commands(line, commands, 1, &serial) || vkf_gpu_wait(line, serial)) return NULL;
  return line;
}

static void lines_share_one_queue(void **state) {
  static bench b;
  pthread_t threads[N_LINES];
  (void)state;
  open_bench(&b);
  for (int i = 0; i < N_LINES; i++) assert_int_equal(pthread_create(&threads[i], NULL, submit_often, b.lines[i]), 0);
  for (int i = 0; i < N_LINES; i++) {
    void *done = NULL;
    pthread_join(threads[i], &done);
    assert_ptr_equal(done, b.lines[i]);
    assert_int_equal(b.lines[i]->submitted, N_SUBMITS);
  }
  assert_int_equal(n_submits, N_LINES * N_SUBMITS);
  assert_false(overlaps);
  assert_false(is_without_lock);
  assert_int_equal(in_lock, 0);
  close_bench(&b);
}

/* The line that finds the loss reports its cause; the others report that the device was lost. */
static void a_lost_device_is_lost_for_all(void **state) {
  static bench b;
  (void)state;
  open_bench(&b);
  vkf_gpu_inject(b.lines[1], &(vkf_gpu_faults){.lose_submit = 1});
  assert_null(submit_often(b.lines[0]));
  assert_non_null(strstr(b.envs[0].message, "VK_ERROR_DEVICE_LOST"));
  for (int i = 1; i < N_LINES; i++) {
    assert_true(b.lines[i]->root->lost);
    assert_null(submit_often(b.lines[i]));
    assert_non_null(strstr(b.envs[i].message, "was lost"));
  }
  assert_true(b.device.root->lost);
  assert_string_equal(b.env.message, "");
  close_bench(&b);
}

/* A line has its device's facts and settings. A line of a line is a line of the device. */
static void lines_are_as_their_device(void **state) {
  static bench b;
  (void)state;
  open_bench(&b);
  vkf_gpu_device *d = &b.device, *line = NULL;
  d->pipeline_cache = STUB_HANDLE(VkPipelineCache);
  d->memory_properties.memoryTypeCount = 3;
  d->caps.max_push_bytes = 77;
  d->staging.half_bytes = 1234;
  d->queue_family = 5;
  d->logging = true;
  assert_int_equal(vkf_gpu_device_branch(d, &b.envs[0], &line), VKF_OK);
  assert_true(line->pipeline_cache == d->pipeline_cache && line->memory_properties.memoryTypeCount == 3);
  assert_true(line->caps.max_push_bytes == 77 && line->staging.half_bytes == 1234 && line->queue_family == 5);
  assert_true(line->logging && line->wait_ns == d->wait_ns && line->root == d && line->env == &b.envs[0]);
  vkf_gpu_device_destroy(&line);
  assert_int_equal(vkf_gpu_device_branch(b.lines[1], &b.envs[1], &line), VKF_OK);
  assert_ptr_equal(line->root, d);
  vkf_gpu_device_destroy(&line);
  close_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lines_share_one_queue),
                                     cmocka_unit_test(a_lost_device_is_lost_for_all),
                                     cmocka_unit_test(lines_are_as_their_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
