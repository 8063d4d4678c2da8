/* Adopts a device that the test makes itself, as a host program would. Only what was enabled may be used, and the
 * device must outlive our use. */
#include "fixture.h"

#include "gpu/vk.h"

/* A host program with its own loader, instance and device. */
typedef struct host {
  vkf_gpu_loader loader;
  vkf_vk_instance vk;
  VkInstance instance;
  VkPhysicalDevice physical;
  VkDevice device;
  vkf_device_handles handles;
} host;

/* Returns the physical device of the driver that the tests run on. */
static VkPhysicalDevice find_physical(host *h) {
  const char *name = getenv("VKF_DEVICE");
  VkPhysicalDevice devices[16];
  uint32_t n = VKF_COUNT(devices);
  assert_true(h->vk.EnumeratePhysicalDevices(h->instance, &n, devices) >= 0);
  for (uint32_t i = 0; i < n; ++i) {
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    h->vk.GetPhysicalDeviceProperties2(devices[i], &p);
    bool swiftshader = strstr(p.properties.deviceName, "SwiftShader") != NULL;
    if (!name || swiftshader == (strcmp(name, "swiftshader") == 0)) return devices[i];
  }
  fail_msg("no device");
  return VK_NULL_HANDLE;
}

static void open_host(host *h, vkf_env *env, const VkPhysicalDeviceFeatures2 *features) {
  memset(h, 0, sizeof(*h));
  ok(env, vkf_gpu_loader_open(env, NULL, &h->loader));
  PFN_vkGetInstanceProcAddr get = h->loader.get_instance_proc_addr;
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
  VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  assert_int_equal(create(&instance, NULL, &h->instance), VK_SUCCESS);
  ok(env, vkf_gpu_table_load_instance(env, get, h->instance, &h->vk));
  h->physical = find_physical(h);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue};
  assert_int_equal(h->vk.CreateDevice(h->physical, &device, NULL, &h->device), VK_SUCCESS);
  PFN_vkGetDeviceQueue get_queue = (PFN_vkGetDeviceQueue)h->vk.GetDeviceProcAddr(h->device, "vkGetDeviceQueue");
  VkQueue handle;
  get_queue(h->device, 0, 0, &handle);
  h->handles = (vkf_device_handles){
      VKF_DEVICE_HANDLES_INIT, .instance = h->instance, .physical_device = h->physical, .device = h->device,
      .queue = handle,         .queue_family = 0,       .features = features,           .get_instance_proc_addr = get};
}

static void close_host(host *h) {
  /* The host can still use its device. */
  PFN_vkDeviceWaitIdle wait = (PFN_vkDeviceWaitIdle)h->vk.GetDeviceProcAddr(h->device, "vkDeviceWaitIdle");
  assert_int_equal(wait(h->device), VK_SUCCESS);
  PFN_vkDestroyDevice destroy = (PFN_vkDestroyDevice)h->vk.GetDeviceProcAddr(h->device, "vkDestroyDevice");
  destroy(h->device, NULL);
  h->vk.DestroyInstance(h->instance, NULL);
  vkf_gpu_loader_close(&h->loader);
}

static void a_device_is_borrowed(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  host h;
  init_env(&g->env, false);
  open_host(&h, &g->env, NULL);
  for (int round = 0; round < 2; ++round) {
    enum { N = 100 };
    OK(vkf_gpu_device_adopt(&g->env, &h.handles, NULL, &g->device));
    const vkf_caps *caps = vkf_gpu_device_caps(g->device);
    assert_true(caps->is_cpu == !driver_is_gpu() && caps->max_invocations >= 128);
    /* No feature was enabled, so none is there. */
    assert_false(caps->int64 || caps->int16 || caps->int8 || caps->float16 || caps->storage16 || caps->storage8 ||
                 caps->buffer_address || caps->subgroup_size_control || caps->subgroup_full);
    vkf_gpu_buffer *a = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, N * 4);
    vkf_gpu_buffer *b = make_buffer(g, "b", VKF_GPU_MEMORY_READBACK, N * 4);
    assert_int_equal(vkf_gpu_buffer_address(a), 0);
    write_counting(g, a, N);
    scale_dispatch s;
    vkf_gpu_block *block = begin_block(g, "borrowed");
    OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", a, b, N, 5, 1)->d));
    OK(vkf_gpu_block_end(block));
    submit_and_wait(g, &block, 1);
    expect_scaled(g, b, N, 5, 1);
    vkf_gpu_block_destroy(&block);
    vkf_gpu_buffer_destroy(&a);
    vkf_gpu_buffer_destroy(&b);
    uint64_t now;
    vkf_gpu_device_memory(g->device, &now, NULL);
    assert_int_equal(now, 0);
    vkf_gpu_device_destroy(&g->device);
  }
  close_host(&h);
  assert_int_equal(g->env.live_bytes, 0);
}

static void enabled_features_are_seen(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  init_env(&g->env, false);
  open_instance(g, false);
  bool offered = vkf_gpu_instance_caps(g->instance, find_device(g->instance))->buffer_address;
  vkf_gpu_instance_destroy(&g->instance);
  if (!offered) skip();
  VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                          .bufferDeviceAddress = VK_TRUE};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v12};
  host h;
  open_host(&h, &g->env, &features);
  OK(vkf_gpu_device_adopt(&g->env, &h.handles, NULL, &g->device));
  const vkf_caps *caps = vkf_gpu_device_caps(g->device);
  assert_true(caps->buffer_address);
  assert_false(caps->int8 || caps->storage16);
  vkf_gpu_buffer *buffer = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, 64);
  assert_true(vkf_gpu_buffer_address(buffer) != 0);
  vkf_gpu_buffer_destroy(&buffer);
  vkf_gpu_device_destroy(&g->device);
  close_host(&h);
  assert_int_equal(g->env.live_bytes, 0);
}

/* ---- a card in front of the driver: its memory and limits are invented, the driver does the work ----------------- */

enum { CARD_OWN, CARD_WINDOW, CARD_HOST, N_CARD_TYPES, WINDOW_BYTES = 64 * 1024, LARGEST = 1 << 20 };

static struct {
  PFN_vkGetInstanceProcAddr get_instance;
  PFN_vkGetDeviceProcAddr get_device;
  PFN_vkGetPhysicalDeviceProperties2 properties;
  PFN_vkGetBufferMemoryRequirements requirements;
  PFN_vkAllocateMemory allocate;
  uint32_t real_type; /* that the host writes and reads */
  VkDeviceSize window_left;
  uint32_t asked[N_CARD_TYPES];
} card;

static VKAPI_ATTR void VKAPI_CALL card_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
  card.properties(physical, out);
  out->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext) {
    if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES)
      ((VkPhysicalDeviceMaintenance4Properties *)s)->maxBufferSize = LARGEST;
    if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES)
      ((VkPhysicalDeviceSubgroupSizeControlProperties *)s)->requiredSubgroupSizeStages = 0;
  }
}

static VKAPI_ATTR void VKAPI_CALL card_memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out) {
  const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                              host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  (void)physical;
  *out = (VkPhysicalDeviceMemoryProperties){
      .memoryTypeCount = N_CARD_TYPES,
      .memoryTypes = {[CARD_OWN] = {local, 0},
                      [CARD_WINDOW] = {local | host, 1},
                      [CARD_HOST] = {host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 2}},
      .memoryHeapCount = 3,
      .memoryHeaps = {
          {LARGEST, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {WINDOW_BYTES, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {1 << 30, 0}}};
}

static VKAPI_ATTR void VKAPI_CALL card_requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out) {
  card.requirements(device, buffer, out);
  out->memoryTypeBits = (1 << N_CARD_TYPES) - 1;
}

static VKAPI_ATTR VkResult VKAPI_CALL card_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
  VkMemoryAllocateInfo real = *info;
  const bool window = info->memoryTypeIndex == CARD_WINDOW;
  assert_true(info->memoryTypeIndex < N_CARD_TYPES && (!window || info->allocationSize <= WINDOW_BYTES));
  card.asked[info->memoryTypeIndex]++;
  if (window && info->allocationSize > card.window_left) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (window) card.window_left -= info->allocationSize;
  real.memoryTypeIndex = card.real_type;
  return card.allocate(device, &real, callbacks, out);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL card_get_device(VkDevice device, const char *name) {
  if (!strcmp(name, "vkGetBufferMemoryRequirements")) return (PFN_vkVoidFunction)card_requirements;
  if (!strcmp(name, "vkAllocateMemory")) return (PFN_vkVoidFunction)card_allocate;
  return card.get_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL card_get(VkInstance instance, const char *name) {
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)card_get_device;
  if (!strcmp(name, "vkGetPhysicalDeviceProperties2")) return (PFN_vkVoidFunction)card_properties;
  if (!strcmp(name, "vkGetPhysicalDeviceMemoryProperties")) return (PFN_vkVoidFunction)card_memory;
  return card.get_instance(instance, name);
}

static void open_card(gpu *g, host *h, const VkPhysicalDeviceFeatures2 *features) {
  const PFN_vkGetInstanceProcAddr get = card_get;
  init_env(&g->env, false);
  open_host(h, &g->env, features);
  memset(&card, 0, sizeof(card));
  card.get_instance = h->loader.get_instance_proc_addr;
  card.get_device = h->vk.GetDeviceProcAddr;
  card.properties = h->vk.GetPhysicalDeviceProperties2;
  card.requirements = (PFN_vkGetBufferMemoryRequirements)card.get_device(h->device, "vkGetBufferMemoryRequirements");
  card.allocate = (PFN_vkAllocateMemory)card.get_device(h->device, "vkAllocateMemory");
  card.window_left = WINDOW_BYTES;
  VkPhysicalDeviceMemoryProperties memory;
  h->vk.GetPhysicalDeviceMemoryProperties(h->physical, &memory);
  while ((memory.memoryTypes[card.real_type].propertyFlags & VKF_GPU_MAPPED_FLAGS) != VKF_GPU_MAPPED_FLAGS)
    card.real_type++;
  h->handles.get_instance_proc_addr = get;
  OK(vkf_gpu_device_adopt(&g->env, &h->handles, &(vkf_gpu_device_params){.ring_bytes = 8192}, &g->device));
}

static void close_card(gpu *g, host *h) {
  vkf_gpu_device_destroy(&g->device);
  close_host(h);
  assert_int_equal(g->env.live_bytes, 0);
}

/* What the host writes is in the card's memory, by the window, while there is room, else in the host's own memory. */
static void a_full_heap_is_not_the_end(void **state) {
  (void)state;
  enum { N = 1000, MANY = 6 };
  gpu fixture = {0}, *g = &fixture;
  host h;
  vkf_gpu_buffer *inputs[MANY], *large, *own, *results;
  open_card(g, &h, NULL);
  for (int i = 0; i < MANY; ++i) inputs[i] = make_buffer(g, "input", VKF_GPU_MEMORY_UPLOAD, WINDOW_BYTES / 4);
  assert_int_equal(card.asked[CARD_WINDOW], MANY);
  assert_int_equal(card.asked[CARD_HOST], MANY - 4);
  large = make_buffer(g, "large", VKF_GPU_MEMORY_UPLOAD, 2 * WINDOW_BYTES);
  assert_int_equal(card.asked[CARD_WINDOW], MANY); /* the window is smaller than that */
  own = make_buffer(g, "own", VKF_GPU_MEMORY_DEVICE, N * 4);
  results = make_buffer(g, "results", VKF_GPU_MEMORY_READBACK, N * 4);
  assert_null(vkf_gpu_buffer_mapped(own));
  assert_int_equal(card.asked[CARD_OWN], 1);
  for (int i = 0; i < MANY; ++i) assert_non_null(vkf_gpu_buffer_mapped(inputs[i]));
  write_counting(g, own, N); /* by a ring smaller than that, in the host's memory */
  write_counting(g, inputs[MANY - 1], N);
  for (uint32_t k = 0; k < 2; ++k) {
    scale_dispatch s;
    vkf_gpu_block *block = begin_block(g, "card");
    OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", k ? inputs[MANY - 1] : own, results, N, 3, k)->d));
    OK(vkf_gpu_block_end(block));
    submit_and_wait(g, &block, 1);
    expect_scaled(g, results, N, 3, k);
    vkf_gpu_block_destroy(&block);
  }
  expect_scaled(g, own, N, 1, 0);
  for (int i = 0; i < MANY; ++i) vkf_gpu_buffer_destroy(&inputs[i]);
  vkf_gpu_buffer_destroy(&large);
  vkf_gpu_buffer_destroy(&own);
  vkf_gpu_buffer_destroy(&results);
  close_card(g, &h);
}

/* What a card computes on must not end up in the host's memory. */
static void the_card_s_own_memory_has_an_end(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  host h;
  vkf_gpu_buffer *buffer = NULL;
  open_card(g, &h, NULL);
  const vkf_caps *caps = vkf_gpu_device_caps(g->device);
  const bool has_limit = caps->api_version >= VK_API_VERSION_1_3; /* of buffers */
  if (has_limit) assert_int_equal(caps->max_allocation_bytes, LARGEST);
  REFUSED(VKF_ERROR_DEVICE_MEMORY, "out of device memory",
          vkf_gpu_buffer_create(g->device, "large", VKF_GPU_MEMORY_DEVICE, LARGEST + 1, &buffer));
  assert_int_equal(card.asked[CARD_OWN] + card.asked[CARD_HOST] + card.asked[CARD_WINDOW], 0);
  close_card(g, &h);
}

/* The feature alone does not let a kernel require its subgroup size: a property must list the stages that may. */
static void a_size_may_be_required_where_the_properties_say_so(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  host h;
  init_env(&g->env, false);
  open_instance(g, false);
  const vkf_caps *offered = vkf_gpu_instance_caps(g->instance, find_device(g->instance));
  const bool has_feature = offered->subgroup_size_control && offered->api_version >= VK_API_VERSION_1_3;
  vkf_gpu_instance_destroy(&g->instance);
  if (!has_feature) skip();
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
      .subgroupSizeControl = VK_TRUE,
      .computeFullSubgroups = VK_TRUE};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &sizes};
  open_card(g, &h, &features);
  assert_true(vkf_gpu_device_caps(g->device)->subgroup_full);
  assert_false(vkf_gpu_device_caps(g->device)->subgroup_size_control);
  close_card(g, &h);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* The limits of a context are those of every device in it. */
static void limits_hold(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .limits = "least"},
                           wrong = {VKF_CONTEXT_PARAMS_INIT, .limits = "/no/such/limits.json"};
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  host h;
  init_env(&g->env, false);
  open_host(&h, &g->env, NULL);
  assert_int_equal(vkf_context_create(&params, &context), VKF_OK);
  if (vkf_device_adopt(context, &h.handles, &device)) fail_msg("%s", vkf_context_message(context));
  const vkf_device_info *info = vkf_device_get_info(device);
  assert_int_equal(info->max_shared_bytes, 16384);
  assert_int_equal(info->max_invocations, 128);
  assert_int_equal(info->max_storage_range_bytes, UINT64_C(128) << 20);
  assert_false(info->has_subgroup_shuffle);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  assert_int_equal(vkf_context_create(&wrong, &context), VKF_OK);
  assert_int_equal(vkf_device_adopt(context, &h.handles, &device), VKF_ERROR_FILE);
  assert_null(device);
  vkf_context_destroy(&context);
  close_host(&h);
  assert_int_equal(g->env.live_bytes, 0);
}

static void count_lock(void *user) {
  int *depth = user;
  assert_int_equal(depth[0]++, 0);
  depth[1]++;
}

static void count_unlock(void *user) {
  int *depth = user;
  assert_int_equal(--depth[0], 0);
}

/* Each submit takes the lock of the caller, who uses the queue, too; half a lock is refused. */
static void the_queue_is_locked(void **state) {
  (void)state;
  enum { N = 100 };
  gpu fixture = {0}, *g = &fixture;
  host h;
  int depth[2] = {0, 0};
  scale_dispatch s;
  init_env(&g->env, false);
  open_host(&h, &g->env, NULL);
  h.handles.lock_queue = count_lock;
  h.handles.queue_user = depth;
  REFUSED(VKF_ERROR_ARGUMENT, "unlock_queue", vkf_gpu_device_adopt(&g->env, &h.handles, NULL, &g->device));
  h.handles.unlock_queue = count_unlock;
  OK(vkf_gpu_device_adopt(&g->env, &h.handles, NULL, &g->device));
  vkf_gpu_buffer *a = make_buffer(g, "a", VKF_GPU_MEMORY_UPLOAD, N * 4),
                 *b = make_buffer(g, "b", VKF_GPU_MEMORY_READBACK, N * 4);
  write_counting(g, a, N);
  const int before = depth[1];
  vkf_gpu_block *block = begin_block(g, "block");
  OK(vkf_gpu_block_dispatch(block, &scale_init(g, &s, "scale", a, b, N, 3, 0)->d));
  OK(vkf_gpu_block_end(block));
  submit_and_wait(g, &block, 1);
  expect_scaled(g, b, N, 3, 0);
  assert_int_equal(depth[0], 0);
  assert_true(depth[1] > before);
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&a);
  vkf_gpu_buffer_destroy(&b);
  vkf_gpu_device_destroy(&g->device);
  close_host(&h);
  assert_int_equal(g->env.live_bytes, 0);
}

static void half_a_device_is_refused(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  init_env(&g->env, false);
  vkf_device_handles handles = {VKF_DEVICE_HANDLES_INIT, .instance = (VkInstance)1};
  REFUSED(VKF_ERROR_ARGUMENT, "NULL", vkf_gpu_device_adopt(&g->env, &handles, NULL, &g->device));
  assert_null(g->device);
  assert_int_equal(g->env.live_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_is_borrowed),
      cmocka_unit_test(the_queue_is_locked),
      cmocka_unit_test(enabled_features_are_seen),
      cmocka_unit_test(a_full_heap_is_not_the_end),
      cmocka_unit_test(the_card_s_own_memory_has_an_end),
      cmocka_unit_test(a_size_may_be_required_where_the_properties_say_so),
      cmocka_unit_test(limits_hold),
      cmocka_unit_test(half_a_device_is_refused),
  };
  return RUN(tests);
}
