/* Blocks, pipelines and buffers keep to the limits of an invented device. Software drivers have limits that no test
 * reaches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/block.h"
#include "support/barriers.h"
#include "support/stub_driver.h"

/* ---- dispatches -------------------------------------------------------------------------------------------------- */

enum { STORAGE_BYTES = 1024, TEXEL_BYTES = 512, GRID_BYTES = 32 };

typedef struct bench {
  vkf_env env;
  vkf_gpu_device device;
  vkf_gpu_layout layout;
  vkf_gpu_pipeline pipeline;
  vkf_gpu_buffer storage, texel, grid;
} bench;

/* A dispatch with what it points to. */
typedef struct wish {
  vkf_gpu_binding bindings[2];
  vkf_gpu_access access;
  uint32_t push[2], grid[3], n_bindings, push_bytes;
  vkf_gpu_buffer *grid_buffer;
  uint64_t grid_offset;
} wish;

static void open_bench(bench *b) {
  memset(b, 0, sizeof *b);
  stub_open(&b->device, &b->env);
  b->device.caps = (vkf_caps){.storage_offset_alignment = 16,
                              .texel_offset_alignment = 64,
                              .max_storage_range_bytes = 256,
                              .max_texel_elements = 8,
                              .max_workgroup_count = {4, 5, 6}};
  b->layout = (vkf_gpu_layout){
      .n_bindings = 2, .push_bytes = 8, .kinds = {VKF_GPU_BINDING_STORAGE, VKF_GPU_BINDING_TEXEL_F32X4}};
  b->pipeline = (vkf_gpu_pipeline){.name = "kernel", .layout = &b->layout};
  b->storage = (vkf_gpu_buffer){.device = &b->device, .name = "storage", .id = 1, .bytes = STORAGE_BYTES};
  b->texel = (vkf_gpu_buffer){.device = &b->device, .name = "texel", .id = 2, .bytes = TEXEL_BYTES};
  b->grid = (vkf_gpu_buffer){.device = &b->device, .name = "grid", .id = 3, .bytes = GRID_BYTES};
}

static wish usual(bench *b) {
  return (wish){.bindings = {{&b->storage, 16, 256}, {&b->texel, 64, 128}},
                .access = {&b->storage, 16, 272, VKF_GPU_WRITE},
                .grid = {4, 5, 6},
                .n_bindings = 2,
                .push_bytes = 8};
}

static vkf_status dispatch(bench *b, vkf_gpu_block *block, const wish *w) {
  const vkf_gpu_dispatch d = {.label = "it",
                              .pipeline = &b->pipeline,
                              .bindings = w->bindings,
                              .n_bindings = w->n_bindings,
                              .push = w->push,
                              .push_bytes = w->push_bytes,
                              .grid = {w->grid[0], w->grid[1], w->grid[2]},
                              .grid_buffer = w->grid_buffer,
                              .grid_offset = w->grid_offset,
                              .accesses = &w->access,
                              .n_accesses = 1};
  return vkf_gpu_block_dispatch(block, &d);
}

static vkf_gpu_block *begin_block(bench *b, vkf_gpu_timing timing) {
  vkf_gpu_block *block = NULL;
  const vkf_gpu_block_params params = {.label = "block", .timing = timing};
  if (vkf_gpu_block_begin(&b->device, &params, &block)) fail_msg("%s", b->env.message);
  return block;
}

/* refused: a part of the expected message; NULL: the dispatch must be recorded. */
static void check_wish(bench *b, int line, const wish *w, const char *refused) {
  vkf_gpu_block *block = begin_block(b, VKF_GPU_TIMING_NONE);
  vkf_env_clear(&b->env);
  const vkf_status st = dispatch(b, block, w);
  if (st != (refused ? VKF_ERROR_ARGUMENT : VKF_OK) || (refused && !strstr(b->env.message, refused)))
    fail_msg("line %d: expected '%s', found '%s'", line, refused ? refused : "", b->env.message);
  vkf_gpu_block_destroy(&block);
}

#define EXPECT(refused, change)            \
  do {                                     \
    wish w = usual(&b);                    \
    change;                                \
    check_wish(&b, __LINE__, &w, refused); \
  } while (0)

/* A dispatch at a limit is recorded; one step beyond it is refused. */
static void dispatches_are_held_to_the_limits(void **state) {
  bench b;
  (void)state;
  open_bench(&b);
  EXPECT(NULL, (void)0);
  EXPECT("expects 2 bindings and 8 push bytes, found 1 and 8", w.n_bindings = 1);
  EXPECT("found 2 and 4", w.push_bytes = 4);
  EXPECT("expected a buffer at binding 1", w.bindings[1].buffer = NULL);
  EXPECT("multiple of 16 bytes, found 8", w.bindings[0].offset = 8);
  EXPECT("multiple of 64 bytes, found 16", w.bindings[1].offset = 16);
  EXPECT("at most 256 bytes of storage, found 257", w.bindings[0].bytes = 257);
  EXPECT("at most 256 bytes of storage, found 1008", w.bindings[0].bytes = 0);
  EXPECT(NULL, w.bindings[0] = ((vkf_gpu_binding){&b.storage, STORAGE_BYTES - 256, 0}));
  EXPECT("within the 1024 bytes", w.bindings[0] = ((vkf_gpu_binding){&b.storage, STORAGE_BYTES - 240, 256}));
  EXPECT("within the 1024 bytes", w.bindings[0] = ((vkf_gpu_binding){&b.storage, STORAGE_BYTES, 0}));
  EXPECT("at most 8 whole texels of 16 bytes of texel, found 144", w.bindings[1].bytes = 144);
  EXPECT("whole texels of 16 bytes of texel, found 120", w.bindings[1].bytes = 120);
  EXPECT(NULL, (w.access.begin = 0, w.access.end = STORAGE_BYTES));
  EXPECT("found bytes 16 to 1025", w.access.end = STORAGE_BYTES + 1);
  EXPECT("found bytes 16 to 16", w.access.end = 16);
  EXPECT("access 0", w.access.mode = 0);
  EXPECT("no buffer", w.access.buffer = NULL);
  EXPECT("at most 4 workgroups in dimension 0, found 5", w.grid[0] = 5);
  EXPECT("at most 5 workgroups in dimension 1, found 6", w.grid[1] = 6);
  EXPECT("at most 6 workgroups in dimension 2, found 7", w.grid[2] = 7);
  EXPECT(NULL, (w.grid_buffer = &b.grid, w.grid_offset = GRID_BYTES - 12));
  EXPECT("found byte 24", (w.grid_buffer = &b.grid, w.grid_offset = GRID_BYTES - 8));
  EXPECT("found byte 2", (w.grid_buffer = &b.grid, w.grid_offset = 2));
  b.grid.bytes = 8;
  EXPECT("in the 8 bytes of grid", w.grid_buffer = &b.grid);
  stub_close(&b.device);
}

/* Reading a grid is an access like others, to exactly its three words. */
static void grids_are_read_behind_their_writers(void **state) {
  bench b;
  (void)state;
  open_bench(&b);
  const struct {
    uint64_t begin, end;
    uint32_t n; /* barriers besides the first one */
  } rows[] = {{4, 8, 1}, {15, 16, 1}, {0, 4, 0}, {16, 20, 0}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    for (int grid_first = 0; grid_first < 2; grid_first++) {
      vkf_gpu_block *block = begin_block(&b, VKF_GPU_TIMING_NONE);
      wish reads = usual(&b), writes = usual(&b);
      reads.grid_buffer = &b.grid;
      reads.grid_offset = 4;
      writes.access = (vkf_gpu_access){&b.grid, rows[i].begin, rows[i].end, VKF_GPU_WRITE};
      assert_int_equal(dispatch(&b, block, grid_first ? &reads : &writes), VKF_OK);
      assert_int_equal(dispatch(&b, block, grid_first ? &writes : &reads), VKF_OK);
      assert_int_equal(count_barriers(block), 1 + rows[i].n);
      vkf_gpu_block_destroy(&block);
    }
  stub_close(&b.device);
}

/* A device that cannot time may lack the function that makes queries, so it must not be called. */
static void nothing_is_timed_without_a_clock(void **state) {
  bench b;
  (void)state;
  open_bench(&b);
  vkf_gpu_block *block = begin_block(&b, VKF_GPU_TIMING_DISPATCH);
  const wish w = usual(&b);
  assert_int_equal(dispatch(&b, block, &w), VKF_OK);
  assert_int_equal(vkf_gpu_block_end(block), VKF_OK);
  vkf_gpu_block_destroy(&block);
  stub_close(&b.device);
}

/* An incomplete log would hide hazards. */
static void a_block_whose_log_failed_does_not_end(void **state) {
  bench b;
  (void)state;
  open_bench(&b);
  b.device.logging = true;
  vkf_gpu_log_init(&b.device.log, &b.env);
  vkf_gpu_block *block = begin_block(&b, VKF_GPU_TIMING_NONE);
  block->log.status = VKF_ERROR_MEMORY;
  assert_int_equal(vkf_gpu_block_end(block), VKF_ERROR_MEMORY);
  vkf_gpu_block_destroy(&block);
  vkf_gpu_log_finish(&b.device.log);
  stub_close(&b.device);
}

/* ---- hazards ----------------------------------------------------------------------------------------------------- */

/* The host reads what the second of two submits wrote. It is a hazard if it has waited for the first alone. */
static void the_host_waits_for_the_submit_that_wrote(void **state) {
  (void)state;
  for (uint64_t waited = 1; waited <= 2; waited++) {
    bench b;
    vkf_gpu_hazard hazard;
    open_bench(&b);
    b.device.logging = true;
    vkf_gpu_log_init(&b.device.log, &b.env);
    for (uint64_t serial = 1; serial <= 2; serial++) {
      vkf_gpu_log_append(&b.device.log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_SUBMIT, .serial = serial});
      vkf_gpu_log_dispatch(&b.device.log, "block", "it");
      vkf_gpu_log_access(&b.device.log, VKF_GPU_BY_COMPUTE,
                         &(vkf_gpu_access){&b.storage, 8 * serial, 8 * serial + 8, VKF_GPU_WRITE});
      vkf_gpu_log_append(&b.device.log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_BARRIER, .by = VKF_GPU_BY_HOST});
    }
    vkf_gpu_log_append(&b.device.log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_WAIT, .serial = waited});
    vkf_gpu_buffer_touch(&b.storage, 16, 8, VKF_GPU_READ);
    assert_int_equal(vkf_gpu_hazard_check(&b.device, &hazard), VKF_OK);
    assert_int_equal(hazard.found, waited == 1);
    assert_true(!hazard.found || strstr(hazard.text, "reads bytes 16 to 24"));
    vkf_gpu_log_finish(&b.device.log);
    stub_close(&b.device);
  }
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static uint32_t left_in_pool, n_pools, n_views;
static VkBufferViewCreateInfo last_view;
static VkDeviceSize last_range;

static VkResult watch_pool(VkDevice device, const VkDescriptorPoolCreateInfo *info,
                           const VkAllocationCallbacks *allocator, VkDescriptorPool *out) {
  (void)device, (void)allocator;
  left_in_pool = info->maxSets;
  *out = (VkDescriptorPool)(uintptr_t)++n_pools;
  for (uint32_t i = 0; i < info->poolSizeCount; i++)
    assert_true(info->pPoolSizes[i].descriptorCount >= info->maxSets * VKF_GPU_MAX_BINDINGS);
  assert_true(info->maxSets <= 1024);
  return VK_SUCCESS;
}

static VkResult watch_sets(VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
  (void)device;
  assert_int_equal((uintptr_t)info->descriptorPool, n_pools);
  assert_true(left_in_pool-- > 0);
  *out = STUB_HANDLE(VkDescriptorSet);
  return VK_SUCCESS;
}

static VkResult watch_view(VkDevice device, const VkBufferViewCreateInfo *info, const VkAllocationCallbacks *allocator,
                           VkBufferView *out) {
  (void)device, (void)allocator;
  last_view = *info;
  n_views++;
  *out = STUB_HANDLE(VkBufferView);
  return VK_SUCCESS;
}

static void unwatch_view(VkDevice device, VkBufferView view, const VkAllocationCallbacks *allocator) {
  (void)device, (void)view, (void)allocator;
  n_views--;
}

static void watch_update(VkDevice device, uint32_t n, const VkWriteDescriptorSet *writes, uint32_t n_copies,
                         const VkCopyDescriptorSet *copies) {
  (void)device, (void)n_copies, (void)copies;
  assert_int_equal(n, 2);
  last_range = writes[0].pBufferInfo->range;
}

static void pools_give_no_more_sets_than_they_have(void **state) {
  static const struct {
    vkf_gpu_binding_kind kind;
    VkFormat format;
  } rows[] = {{VKF_GPU_BINDING_TEXEL_F32X4, VK_FORMAT_R32G32B32A32_SFLOAT},
              {VKF_GPU_BINDING_TEXEL_U32X2, VK_FORMAT_R32G32_UINT},
              {VKF_GPU_BINDING_TEXEL_U32, VK_FORMAT_R32_UINT}};
  bench b;
  (void)state;
  open_bench(&b);
  b.device.vk.CreateDescriptorPool = watch_pool;
  b.device.vk.AllocateDescriptorSets = watch_sets;
  b.device.vk.CreateBufferView = watch_view;
  b.device.vk.DestroyBufferView = unwatch_view;
  b.device.vk.UpdateDescriptorSets = watch_update;
  b.device.caps.max_texel_elements = 1024;
  vkf_gpu_block *block = begin_block(&b, VKF_GPU_TIMING_NONE);
  for (int i = 0; i < 5000; i++) {
    wish w = usual(&b);
    b.layout.kinds[1] = rows[i % 3].kind;
    if (i % 2) w.bindings[0].offset = STORAGE_BYTES - (w.bindings[0].bytes = 128);
    if (i % 2) w.bindings[0].bytes = w.bindings[1].bytes = 0; /* to the end of the buffer */
    assert_int_equal(dispatch(&b, block, &w), VKF_OK);
    assert_int_equal(last_view.format, rows[i % 3].format);
    assert_int_equal(last_view.offset, 64);
    assert_int_equal(last_view.range, i % 2 ? TEXEL_BYTES - 64 : 128);
    assert_int_equal(last_range, i % 2 ? 128 : 256);
  }
  assert_int_equal(n_views, 5000);
  vkf_gpu_block_destroy(&block);
  assert_int_equal(n_views, 0);
  stub_close(&b.device);
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static uint32_t n_made, n_layouts;
static uint32_t required_subgroup; /* 0: none */
static VkPipelineCreateFlags made_flags;
static VkPipelineShaderStageCreateFlags stage_flags;

static VkResult make_pipeline(VkDevice device, VkPipelineCache cache, uint32_t n,
                              const VkComputePipelineCreateInfo *info, const VkAllocationCallbacks *allocator,
                              VkPipeline *out) {
  (void)device, (void)cache, (void)allocator;
  assert_int_equal(n, 1);
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *size = info->stage.pNext;
  required_subgroup = size ? size->requiredSubgroupSize : 0;
  made_flags = info->flags;
  stage_flags = info->stage.flags;
  *out = STUB_HANDLE(VkPipeline);
  n_made++;
  return VK_SUCCESS;
}

static VkResult make_layout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                            const VkAllocationCallbacks *allocator, VkPipelineLayout *out) {
  n_layouts++;
  return stub_create_PipelineLayout(device, info, allocator, out);
}

static void open_compiler(bench *b) {
  open_bench(b);
  b->device.vk.CreateComputePipelines = make_pipeline;
  b->device.vk.CreatePipelineLayout = make_layout;
  b->device.caps.max_storage_bindings = 4;
  b->device.caps.max_texel_bindings = 2;
  b->device.caps.max_push_bytes = 16;
  b->device.caps.subgroup_size = 16;
  b->device.caps.subgroup_min = 8;
  b->device.caps.subgroup_max = 32;
  b->device.caps.subgroup_size_control = b->device.caps.subgroup_full = true;
  n_made = n_layouts = 0;
}

static void close_compiler(bench *b) {
  vkf_gpu_pipelines_finish(&b->device);
  stub_close(&b->device);
}

static void check_pipeline(bench *b, int line, const vkf_gpu_pipeline_params *p, const char *refused) {
  vkf_gpu_pipeline *pipeline = NULL;
  vkf_env_clear(&b->env);
  const vkf_status st = vkf_gpu_pipeline_get(&b->device, p, &pipeline);
  if (st != (refused ? VKF_ERROR_UNSUPPORTED : VKF_OK) || (refused && !strstr(b->env.message, refused)))
    fail_msg("line %d: expected '%s', found '%s'", line, refused ? refused : "", b->env.message);
}

static const vkf_gpu_binding_kind texels[] = {VKF_GPU_BINDING_TEXEL_F32X4, VKF_GPU_BINDING_TEXEL_U32,
                                              VKF_GPU_BINDING_TEXEL_U32X2, VKF_GPU_BINDING_STORAGE};

#define EXPECT_PIPELINE(refused, change)                                           \
  do {                                                                             \
    vkf_gpu_pipeline_params p = {.name = "it", .n_bindings = 4, .push_bytes = 16}; \
    change;                                                                        \
    check_pipeline(&b, __LINE__, &p, refused);                                     \
  } while (0)

#define EXPECT_NEW(refused, change) EXPECT_PIPELINE(refused, (p.name = names[n_names++], change))

static void pipelines_are_held_to_the_limits(void **state) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
  size_t n_names = 0;
  bench b;
  (void)state;
  open_compiler(&b);
  EXPECT_NEW(NULL, (void)0);
  EXPECT_NEW("at most 4 storage and 2 texel bindings", p.n_bindings = 5);
  EXPECT_NEW("at most 16 bindings, found 17", p.n_bindings = 17);
  EXPECT_NEW(NULL, (p.n_bindings = 2, p.kinds = texels));
  EXPECT_NEW("found 0 and 3", (p.n_bindings = 3, p.kinds = texels));
  EXPECT_NEW("multiple of 4 and at most 16 bytes", p.push_bytes = 20);
  EXPECT_NEW("multiple of 4 and at most 16 bytes", p.push_bytes = 14);
  EXPECT_NEW(NULL, p.subgroup_size = 8);
  EXPECT_NEW(NULL, p.subgroup_size = 32);
  EXPECT_NEW("from 8 to 32 (to be chosen)", p.subgroup_size = 4);
  EXPECT_NEW("from 8 to 32 (to be chosen)", p.subgroup_size = 64);
  EXPECT_NEW(NULL, p.subgroup_full = true);
  b.device.caps.subgroup_size_control = b.device.caps.subgroup_full = false;
  EXPECT_NEW("from 8 to 32 (not to be chosen)", p.subgroup_size = 16);
  EXPECT_NEW("full subgroups cannot be required", p.subgroup_full = true);
  b.device.caps.subgroup_min = b.device.caps.subgroup_max = 16;
  EXPECT_NEW(NULL, p.subgroup_size = 16);
  assert_int_equal(required_subgroup, 0); /* the device has no other */
  close_compiler(&b);
}

static VkResult tell_nothing(VkDevice device, const VkPipelineInfoKHR *info, uint32_t *n,
                             VkPipelineExecutablePropertiesKHR *all) {
  (void)device, (void)info, (void)all;
  *n = 0;
  return VK_SUCCESS;
}

/* Other parameters make a new pipeline; equal ones find the one that exists. */
static void pipelines_are_told_apart(void **state) {
  static const uint32_t one[] = {1, 2}, other[] = {1, 3};
  bench b;
  (void)state;
  open_compiler(&b);
  b.device.caps.pipeline_statistics = true;
  b.device.vk.GetPipelineExecutablePropertiesKHR = tell_nothing;
  EXPECT_PIPELINE(NULL, (void)0);
  assert_true(n_made == 1 && required_subgroup == 0 && stage_flags == 0 && made_flags == 0);
  EXPECT_PIPELINE(NULL, (void)0);
  assert_int_equal(n_made, 1);
  EXPECT_PIPELINE(NULL, (p.constants = one, p.n_constants = 2));
  EXPECT_PIPELINE(NULL, (p.constants = other, p.n_constants = 2));
  EXPECT_PIPELINE(NULL, (p.constants = one, p.n_constants = 1));
  EXPECT_PIPELINE(NULL, (p.constants = one, p.n_constants = 2));
  assert_int_equal(n_made, 4);
  EXPECT_PIPELINE(NULL, p.subgroup_size = 8);
  assert_true(n_made == 5 && required_subgroup == 8);
  EXPECT_PIPELINE(NULL, p.subgroup_size = 32);
  assert_true(n_made == 6 && required_subgroup == 32);
  EXPECT_PIPELINE(NULL, p.subgroup_full = true);
  assert_true(n_made == 7 && stage_flags == VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT);
  EXPECT_PIPELINE(NULL, (p.statistics = true, p.name = "counted"));
  assert_true(n_made == 8 && made_flags == VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR);
  EXPECT_PIPELINE(NULL, p.name = "counted"); /* one with statistics is found */
  EXPECT_PIPELINE(NULL, p.statistics = true);
  assert_int_equal(n_made, 9);
  assert_int_equal(n_layouts, 1);
  EXPECT_PIPELINE(NULL, (p.name = "texels", p.n_bindings = 2, p.kinds = texels));
  EXPECT_PIPELINE(NULL, (p.name = "others", p.n_bindings = 2, p.kinds = texels + 1));
  EXPECT_PIPELINE(NULL, (p.name = "fewer", p.push_bytes = 12));
  assert_int_equal(n_layouts, 4);
  const vkf_gpu_pipeline_params twice[] = {{.name = "twice", .push_bytes = 16}, {.name = "twice", .push_bytes = 16}};
  n_made = 0;
  assert_int_equal(vkf_gpu_pipelines_make(&b.device, twice, 2), VKF_OK);
  assert_int_equal(n_made, 1);
  close_compiler(&b);
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

enum {
  LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
  MAPPED = VKF_GPU_MAPPED_FLAGS,
  CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
  NEEDED_BYTES = 128 /* of a buffer of 100 */
};

static uint32_t full_types, last_type;
static bool is_mapped;
static VkResult full_result;

static void requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out) {
  (void)device, (void)buffer;
  *out = (VkMemoryRequirements){.size = NEEDED_BYTES, .alignment = 64, .memoryTypeBits = 0x1f};
}

static VkResult allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
                         VkDeviceMemory *out) {
  (void)device, (void)allocator;
  assert_int_equal(info->allocationSize, NEEDED_BYTES);
  assert_int_not_equal(info->memoryTypeIndex, 4); /* its heap is too small, so Vulkan forbids it */
  last_type = info->memoryTypeIndex;
  if (full_types >> last_type & 1) return full_result;
  *out = STUB_HANDLE(VkDeviceMemory);
  return VK_SUCCESS;
}

static VkResult map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size,
                    VkMemoryMapFlags flags, void **out) {
  static char bytes[NEEDED_BYTES];
  (void)device, (void)memory, (void)offset, (void)size, (void)flags;
  is_mapped = true;
  *out = bytes;
  return VK_SUCCESS;
}

/* Type 0 is a card's own memory, 1 the part of it that the host sees, 2 and 3 are the host's; 4 has a tiny heap. */
static void open_memory(bench *b, vkf_device_kind kind) {
  static const VkMemoryPropertyFlags flags[] = {LOCAL, LOCAL | MAPPED, MAPPED, MAPPED | CACHED,
                                                LOCAL | MAPPED | CACHED};
  static const uint32_t heaps[] = {2, 2, 1, 1, 0};
  open_bench(b);
  b->device.vk.GetBufferMemoryRequirements = requirements;
  b->device.vk.AllocateMemory = allocate;
  b->device.vk.MapMemory = map;
  b->device.caps.kind = kind;
  b->device.caps.max_allocation_bytes = 100;
  b->device.memory_properties = (VkPhysicalDeviceMemoryProperties){
      .memoryTypeCount = VKF_COUNT(flags), .memoryHeapCount = 3, .memoryHeaps = {{64, 0}, {1 << 20, 0}, {1 << 20, 0}}};
  for (uint32_t i = 0; i < VKF_COUNT(flags); i++)
    b->device.memory_properties.memoryTypes[i] = (VkMemoryType){flags[i], heaps[i]};
}

/* Heaps that are full or too small are skipped, but memory of a card is never replaced by the host's. */
static void full_heaps_are_passed_over(void **state) {
  static const struct {
    vkf_device_kind kind;
    vkf_gpu_memory memory;
    bool host_visible;
    uint32_t full, type; /* 99: out of device memory */
    bool mapped;
  } rows[] = {
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_DEVICE, false, 0, 0, false},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_DEVICE, true, 0, 0, false},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_DEVICE, false, 1 << 0, 99, false},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_UPLOAD, false, 0, 1, true},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_UPLOAD, false, 1 << 1, 2, true},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_UPLOAD, false, 1 << 1 | 1 << 2, 3, true},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_UPLOAD, false, 0xf, 99, true},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_READBACK, false, 0, 3, true},
      {VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_READBACK, false, 1 << 3, 2, true},
      {VKF_DEVICE_INTEGRATED, VKF_GPU_MEMORY_DEVICE, true, 0, 1, true},
      {VKF_DEVICE_INTEGRATED, VKF_GPU_MEMORY_DEVICE, false, 0, 1, false},
      {VKF_DEVICE_INTEGRATED, VKF_GPU_MEMORY_DEVICE, true, 1 << 1, 0, false},
  };
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    for (int k = 0; k < 2; k++) {
      bench b;
      vkf_gpu_buffer *buffer = NULL;
      uint64_t now = 0, peak = 0;
      open_memory(&b, rows[i].kind);
      b.device.caps.host_visible = rows[i].host_visible;
      full_types = rows[i].full;
      full_result = k ? VK_ERROR_TOO_MANY_OBJECTS : VK_ERROR_OUT_OF_DEVICE_MEMORY;
      is_mapped = false;
      const vkf_status st = vkf_gpu_buffer_create(&b.device, "it", rows[i].memory, 100, &buffer);
      const bool none = rows[i].type == 99 || (k && last_type != rows[i].type); /* k: no other type is tried */
      vkf_gpu_device_memory(&b.device, &now, &peak);
      if (st != (none ? VKF_ERROR_DEVICE_MEMORY : VKF_OK) || (!none && last_type != rows[i].type))
        fail_msg("row %zu: status %d, type %u: %s", i, (int)st, (unsigned)last_type, b.env.message);
      assert_true(none || is_mapped == rows[i].mapped);
      assert_int_equal(now, none ? 0 : NEEDED_BYTES);
      vkf_gpu_buffer_destroy(&buffer);
      vkf_gpu_device_memory(&b.device, &now, &peak);
      assert_int_equal(now, 0);
      assert_int_equal(peak, none ? 0 : NEEDED_BYTES);
      stub_close(&b.device);
    }
}

static VkResult no_buffer(VkDevice device, const VkBufferCreateInfo *info, const VkAllocationCallbacks *allocator,
                          VkBuffer *out) {
  (void)device, (void)info, (void)allocator, (void)out;
  return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static void buffers_are_held_to_one_allocation(void **state) {
  bench b;
  vkf_gpu_buffer *buffer = NULL;
  (void)state;
  open_memory(&b, VKF_DEVICE_DISCRETE);
  full_types = 0;
  assert_int_equal(vkf_gpu_buffer_create(&b.device, "it", VKF_GPU_MEMORY_DEVICE, 101, &buffer),
                   VKF_ERROR_DEVICE_MEMORY);
  assert_non_null(strstr(b.env.message, "more than the device gives to one allocation"));
  assert_null(buffer);
  vkf_env_clear(&b.env);
  b.device.vk.CreateBuffer = no_buffer;
  assert_int_equal(vkf_gpu_buffer_create(&b.device, "it", VKF_GPU_MEMORY_DEVICE, 100, &buffer),
                   VKF_ERROR_DEVICE_MEMORY);
  assert_non_null(strstr(b.env.message, "100 bytes wanted for it"));
  stub_close(&b.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dispatches_are_held_to_the_limits),
      cmocka_unit_test(grids_are_read_behind_their_writers),
      cmocka_unit_test(nothing_is_timed_without_a_clock),
      cmocka_unit_test(a_block_whose_log_failed_does_not_end),
      cmocka_unit_test(pools_give_no_more_sets_than_they_have),
      cmocka_unit_test(the_host_waits_for_the_submit_that_wrote),
      cmocka_unit_test(pipelines_are_held_to_the_limits),
      cmocka_unit_test(pipelines_are_told_apart),
      cmocka_unit_test(full_heaps_are_passed_over),
      cmocka_unit_test(buffers_are_held_to_one_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
