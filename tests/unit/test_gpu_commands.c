/* Staging and submits on an invented driver. It runs nothing before somebody waits for it, and it fails if commands are
 * begun or a fence is reused too early, which software drivers never show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/block.h"
#include "support/stub_driver.h"

enum { MAX_COMMANDS = 16, MAX_QUEUED = 64, HALF = 64 };

/* A command buffer: its last barrier, and a copy or a fill. */
typedef struct commands {
  bool is_open, is_pending;
  VkCommandBufferUsageFlags usage;
  VkPipelineStageFlags from_stages, to_stages;
  VkAccessFlags from, to;
  uint32_t n_barriers;
  char *source, *target; /* source NULL: a fill */
  size_t bytes;
  uint32_t pattern;
} commands;

typedef struct fence {
  bool is_used;
} fence;

static struct {
  commands commands[MAX_COMMANDS];
  fence fences[VKF_GPU_MAX_PENDING];
  uint32_t n_commands, n_fences, n_submits;
  struct {
    commands *it;
    fence *fence;
  } queue[MAX_QUEUED];
  uint32_t n_queued;
  const commands *last; /* the last that were submitted */
} driver;

/* ---- the driver -------------------------------------------------------------------------------------------------- */

static VkResult allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
  (void)device;
  (void)info;
  assert_true(driver.n_commands < MAX_COMMANDS);
  *out = (VkCommandBuffer)&driver.commands[driver.n_commands++];
  return VK_SUCCESS;
}

static VkResult begin(VkCommandBuffer handle, const VkCommandBufferBeginInfo *info) {
  commands *it = (commands *)handle;
  assert_false(it->is_pending);
  *it = (commands){.is_open = true, .usage = info->flags};
  return VK_SUCCESS;
}

static VkResult end(VkCommandBuffer handle) {
  commands *it = (commands *)handle;
  assert_true(it->is_open);
  it->is_open = false;
  return VK_SUCCESS;
}

static void barrier(VkCommandBuffer handle, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags flags,
                    uint32_t n, const VkMemoryBarrier *barriers, uint32_t n_buffers,
                    const VkBufferMemoryBarrier *buffers, uint32_t n_images, const VkImageMemoryBarrier *images) {
  commands *it = (commands *)handle;
  (void)flags, (void)buffers, (void)images;
  assert_true(n == 1 && n_buffers == 0 && n_images == 0);
  it->from_stages = from;
  it->to_stages = to;
  it->from = barriers->srcAccessMask;
  it->to = barriers->dstAccessMask;
  it->n_barriers++;
}

static void copy(VkCommandBuffer handle, VkBuffer from, VkBuffer to, uint32_t n, const VkBufferCopy *region) {
  commands *it = (commands *)handle;
  assert_true(n == 1 && it->is_open);
  it->source = (char *)(uintptr_t)from + region->srcOffset;
  it->target = (char *)(uintptr_t)to + region->dstOffset;
  it->bytes = region->size;
}

static void fill(VkCommandBuffer handle, VkBuffer to, VkDeviceSize offset, VkDeviceSize bytes, uint32_t pattern) {
  commands *it = (commands *)handle;
  it->target = (char *)(uintptr_t)to + offset;
  it->bytes = bytes;
  it->pattern = pattern;
}

static VkResult create_fence(VkDevice device, const VkFenceCreateInfo *info, const VkAllocationCallbacks *allocator,
                             VkFence *out) {
  (void)device, (void)info, (void)allocator;
  assert_true(driver.n_fences < VKF_GPU_MAX_PENDING);
  *out = (VkFence)(uintptr_t)&driver.fences[driver.n_fences++];
  return VK_SUCCESS;
}

static VkResult submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence handle) {
  fence *signalled = (fence *)(uintptr_t)handle;
  (void)queue;
  assert_false(signalled->is_used);
  signalled->is_used = true;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < infos[i].commandBufferCount; k++) {
      commands *it = (commands *)infos[i].pCommandBuffers[k];
      assert_false(it->is_open);
      assert_true(!it->is_pending || (it->usage & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
      assert_true(driver.n_queued < MAX_QUEUED);
      it->is_pending = true;
      driver.queue[driver.n_queued].it = it;
      driver.queue[driver.n_queued++].fence = signalled;
      driver.last = it;
    }
  driver.n_submits++;
  return VK_SUCCESS;
}

/* Runs everything that was submitted up to this fence. */
static VkResult wait(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t ns) {
  const fence *signalled = (const fence *)(uintptr_t)fences[0];
  uint32_t n_run = 0;
  (void)device, (void)all, (void)ns;
  assert_int_equal(n, 1);
  for (uint32_t i = 0; i < driver.n_queued; i++)
    if (driver.queue[i].fence == signalled) n_run = i + 1;
  assert_true(n_run > 0);
  for (uint32_t i = 0; i < n_run; i++) {
    commands *it = driver.queue[i].it;
    it->is_pending = false;
    if (it->source != NULL) memmove(it->target, it->source, it->bytes);
    for (size_t w = 0; it->source == NULL && w < it->bytes; w += 4) memcpy(it->target + w, &it->pattern, 4);
  }
  driver.n_queued -= n_run;
  memmove(driver.queue, driver.queue + n_run, driver.n_queued * sizeof driver.queue[0]);
  return VK_SUCCESS;
}

static VkResult reset(VkDevice device, uint32_t n, const VkFence *fences) {
  (void)device;
  assert_int_equal(n, 1);
  ((fence *)(uintptr_t)fences[0])->is_used = false;
  return VK_SUCCESS;
}

/* ---- a device of it ---------------------------------------------------------------------------------------------- */

typedef struct bench {
  vkf_env env;
  vkf_gpu_device device;
  vkf_gpu_buffer upload, readback, buffer; /* the last one is not mapped */
  char host[2][2 * HALF], memory[1024];
} bench;

static void open_bench(bench *b) {
  vkf_gpu_device *d = &b->device;
  memset(b, 0, sizeof *b);
  memset(&driver, 0, sizeof driver);
  stub_open(d, &b->env);
  d->vk.AllocateCommandBuffers = allocate_commands;
  d->vk.BeginCommandBuffer = begin;
  d->vk.EndCommandBuffer = end;
  d->vk.CmdPipelineBarrier = barrier;
  d->vk.CmdCopyBuffer = copy;
  d->vk.CmdFillBuffer = fill;
  d->vk.CreateFence = create_fence;
  d->vk.QueueSubmit = submit;
  d->vk.WaitForFences = wait;
  d->vk.ResetFences = reset;
  d->staging.half_bytes = HALF;
  d->staging.upload = &b->upload;
  d->staging.readback = &b->readback;
  b->upload = (vkf_gpu_buffer){.device = d, .bytes = 2 * HALF, .mapped = b->host[0]};
  b->readback = (vkf_gpu_buffer){.device = d, .bytes = 2 * HALF, .mapped = b->host[1]};
  b->upload.handle = (VkBuffer)(uintptr_t)b->host[0];
  b->readback.handle = (VkBuffer)(uintptr_t)b->host[1];
  b->buffer = (vkf_gpu_buffer){.device = d, .bytes = sizeof b->memory, .handle = (VkBuffer)(uintptr_t)b->memory};
}

static void close_bench(bench *b) {
  stub_close(&b->device);
}

static void ok(const bench *b, vkf_status st) {
  if (st != VKF_OK) fail_msg("%s", b->env.message);
}

/* ---- what is asked of it ----------------------------------------------------------------------------------------- */

static void barriers(void **state) {
  (void)state;
  static const struct {
    uint32_t by;
    VkPipelineStageFlags stages;
    VkAccessFlags accesses;
  } rows[] = {
      {VKF_GPU_BY_COMPUTE, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
       VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT},
      {VKF_GPU_BY_INDIRECT, VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT, VK_ACCESS_INDIRECT_COMMAND_READ_BIT},
      {VKF_GPU_BY_TRANSFER, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT},
      {VKF_GPU_BY_HOST, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT}};
  bench b;
  open_bench(&b);
  for (uint32_t by = 1; by < 1u << VKF_COUNT(rows); by++) {
    commands found = {0};
    VkPipelineStageFlags stages = 0;
    VkAccessFlags accesses = 0;
    for (size_t i = 0; i < VKF_COUNT(rows); i++)
      if (by & rows[i].by) {
        stages |= rows[i].stages;
        accesses |= rows[i].accesses;
      }
    vkf_gpu_record_barrier(&b.device, (VkCommandBuffer)&found, by, NULL);
    assert_int_equal(found.to_stages, stages);
    assert_int_equal(found.to, accesses);
    /* after earlier writes and, by the stages alone, after earlier reads, also those of grids, which a dispatch reads
     * before its shader runs */
    assert_int_equal(found.from_stages, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT);
    assert_int_equal(found.from, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  }
  close_bench(&b);
}

static void every_submit_ends_with_a_barrier_to_the_host(void **state) {
  (void)state;
  bench b;
  open_bench(&b);
  const char data[8] = "seven..";
  for (int i = 0; i < 3; i++) {
    ok(&b, vkf_gpu_buffer_upload(&b.buffer, 0, data, sizeof data));
    assert_non_null(driver.last);
    assert_int_equal(driver.last->n_barriers, 1);
    assert_int_equal(driver.last->to_stages, VK_PIPELINE_STAGE_HOST_BIT);
    assert_int_equal(driver.last->to, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
    assert_null(driver.last->target);
  }
  ok(&b, vkf_gpu_wait_all(&b.device));
  close_bench(&b);
}

/* Each upload, read and fill begins with a barrier before its transfer. */
static void transfers_stand_behind_a_barrier(void **state) {
  (void)state;
  bench b;
  open_bench(&b);
  char data[8] = {0};
  ok(&b, vkf_gpu_buffer_upload(&b.buffer, 0, data, sizeof data));
  const commands *first = (const commands *)b.device.staging.commands[0];
  assert_int_equal(first->n_barriers, 1);
  assert_int_equal(first->to, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  ok(&b, vkf_gpu_buffer_read(&b.buffer, 0, data, sizeof data));
  assert_int_equal(first->n_barriers, 1);
  ok(&b, vkf_gpu_buffer_fill(&b.buffer, 0, sizeof data, 0));
  assert_int_equal(first->n_barriers, 1);
  close_bench(&b);
}

/* Each size is read directly after an upload and after a fill. Only staging itself waits for the device. */
static void contents_pass_through(void **state) {
  (void)state;
  static const size_t sizes[] = {
      1, 3, HALF - 1, HALF, HALF + 1, 2 * HALF - 1, 2 * HALF, 2 * HALF + 1, 3 * HALF, 7 * HALF + 5, 1000};
  for (size_t i = 0; i < VKF_COUNT(sizes); i++) {
    bench b;
    char data[1000], found[1000];
    const size_t n = sizes[i], n_words = n / 4 * 4;
    const uint32_t pattern = UINT32_C(0x01020304);
    open_bench(&b);
    for (size_t k = 0; k < n; k++) data[k] = (char)vkf_rng_u64(3, i, k);
    for (size_t offset = 0; offset <= 24; offset += 12) {
      ok(&b, vkf_gpu_buffer_upload(&b.buffer, offset, data, n));
      memset(found, 0x55, sizeof found);
      ok(&b, vkf_gpu_buffer_read(&b.buffer, offset, found, n));
      assert_memory_equal(found, data, n);
      assert_true(n == sizeof found || found[n] == 0x55);
      ok(&b, vkf_gpu_buffer_upload(&b.buffer, offset, data, n));
      ok(&b, vkf_gpu_buffer_fill(&b.buffer, offset, n_words, pattern));
      ok(&b, vkf_gpu_buffer_read(&b.buffer, offset, found, n));
      for (size_t k = 0; k < n_words; k += 4) assert_memory_equal(found + k, &pattern, 4);
      assert_memory_equal(found + n_words, data + n_words, n - n_words);
    }
    ok(&b, vkf_gpu_buffer_write(&b.buffer, 0, data, n)); /* complete when it returns */
    assert_memory_equal(b.memory, data, n);
    ok(&b, vkf_gpu_wait_all(&b.device));
    close_bench(&b);
  }
}

/* With more submits than fences, a submit waits for the oldest one, and for no other. */
static void fences_go_round(void **state) {
  (void)state;
  enum { N = 3 * VKF_GPU_MAX_PENDING + 1 };
  bench b;
  VkCommandBuffer handles[N + 1]; /* a submit appends its barrier to the list */
  commands many[N];
  open_bench(&b);
  memset(many, 0, sizeof many);
  for (uint32_t i = 0; i < N; i++) {
    uint64_t serial = 0;
    handles[i] = (VkCommandBuffer)&many[i];
    ok(&b, vkf_gpu_submit_commands(&b.device, &handles[i], 1, &serial));
    assert_int_equal(serial, i + 1);
    assert_int_equal(b.device.completed, i + 1 > VKF_GPU_MAX_PENDING ? i + 1 - VKF_GPU_MAX_PENDING : 0);
  }
  ok(&b, vkf_gpu_wait(&b.device, N - 2));
  assert_int_equal(b.device.completed, N - 2);
  assert_true(many[N - 1].is_pending && !many[N - 3].is_pending);
  assert_int_equal(vkf_gpu_wait(&b.device, N + 1), VKF_ERROR_ARGUMENT);
  vkf_env_clear(&b.env);
  vkf_gpu_queue_drain(&b.device);
  assert_false(many[N - 1].is_pending);
  close_bench(&b);
}

static VkResult stamps(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t n, size_t bytes, void *data,
                       VkDeviceSize stride, VkQueryResultFlags flags) {
  (void)device, (void)pool, (void)bytes, (void)stride;
  assert_true(n == 1 && flags == VK_QUERY_RESULT_64_BIT);
  *(uint64_t *)data = first == 0 ? 30 : 34;
  return VK_SUCCESS;
}

/* Ticks have the device's length, and its counter wraps after its last bit. */
static void times_are_ticks_of_the_device(void **state) {
  (void)state;
  static const struct {
    uint32_t bits;
    double ns;
    uint64_t expected;
  } rows[] = {{64, 1, 4}, {64, 2.5, 10}, {36, 52.083, 208}, {2, 1, 0}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    bench b;
    uint64_t ns = 0;
    open_bench(&b);
    b.device.vk.GetQueryPoolResults = stamps;
    b.device.caps.timestamp_bits = rows[i].bits;
    b.device.caps.timestamp_ns = rows[i].ns;
    vkf_gpu_block block = {.device = &b.device, .label = "a", .queries = STUB_HANDLE(VkQueryPool), .n_submits = 1};
    ok(&b, vkf_gpu_block_time(&block, &ns));
    assert_int_equal(ns, rows[i].expected);
    close_bench(&b);
  }
}

static VkResult never(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t ns) {
  (void)device, (void)n, (void)fences, (void)all, (void)ns;
  return VK_TIMEOUT;
}

/* If a driver does not answer, the device is lost and the message names the time limit. */
static void the_limit_is_named(void **state) {
  (void)state;
  bench b;
  commands one = {0};
  VkCommandBuffer handles[2] = {(VkCommandBuffer)&one};
  open_bench(&b);
  b.device.wait_ns = 3000000;
  ok(&b, vkf_gpu_submit_commands(&b.device, handles, 1, NULL));
  b.device.vk.WaitForFences = never;
  assert_int_equal(vkf_gpu_wait_all(&b.device), VKF_ERROR_DEVICE_LOST);
  assert_non_null(strstr(b.env.message, "within 3 ms"));
  assert_true(b.device.lost);
  b.device.vk.WaitForFences = wait;
  close_bench(&b);
}

static VkResult create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                            const VkAllocationCallbacks *allocator, VkCommandPool *out) {
  (void)device, (void)allocator;
  assert_true(info->flags & VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT); /* commands are begun again */
  *out = STUB_HANDLE(VkCommandPool);
  return VK_SUCCESS;
}

static void commands_may_be_begun_again(void **state) {
  (void)state;
  bench b;
  open_bench(&b);
  b.device.vk.CreateCommandPool = create_pool;
  ok(&b, vkf_gpu_queue_init(&b.device));
  close_bench(&b);
}

static void a_block_of_another_device_is_refused(void **state) {
  (void)state;
  bench b, other;
  open_bench(&other);
  open_bench(&b);
  vkf_gpu_block block = {.device = &other.device, .label = "theirs", .state = VKF_GPU_BLOCK_READY}, *blocks = &block;
  assert_int_equal(vkf_gpu_submit(&b.device, &blocks, 1, NULL), VKF_ERROR_ARGUMENT);
  assert_string_equal(b.env.message, "theirs: expected a block of the device it is submitted to");
  assert_int_equal(driver.n_submits, 0);
  vkf_env_free(&b.env, b.device.submit_list);
  close_bench(&b);
  close_bench(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(barriers),
      cmocka_unit_test(every_submit_ends_with_a_barrier_to_the_host),
      cmocka_unit_test(transfers_stand_behind_a_barrier),
      cmocka_unit_test(contents_pass_through),
      cmocka_unit_test(fences_go_round),
      cmocka_unit_test(times_are_ticks_of_the_device),
      cmocka_unit_test(the_limit_is_named),
      cmocka_unit_test(commands_may_be_begun_again),
      cmocka_unit_test(a_block_of_another_device_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
