/* Loaders and devices that this machine does not have: this program is its own Vulkan loader, with an empty name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "gpu/vk.h"

typedef struct machine {
  uint32_t api_version, n_families;
  VkQueueFamilyProperties families[3];
} machine;

/* What a user chooses machines by. */
typedef struct card {
  const char *name;
  uint8_t uuid; /* every byte but the last, which is 0a */
  bool is_cpu;
} card;

enum { COMPUTE = VK_QUEUE_COMPUTE_BIT, BOTH = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT };

static struct {
  uint32_t loader_version, asked_version;
  VkResult create, list;
  VkInstanceCreateFlags flags;
  bool has_portability;
  const machine *machines;
  const card *cards; /* of the machines; NULL: none has a name */
  uint32_t n_machines;
  const machine *opened;
  VkExternalMemoryFeatureFlags buffers; /* what buffers in memory of the host can do */
} told;

/* ---- the loader -------------------------------------------------------------------------------------------------- */

static VkResult version_of_loader(uint32_t *version) {
  *version = told.loader_version;
  return VK_SUCCESS;
}

static VkResult extensions_of_instance(const char *layer, uint32_t *n, VkExtensionProperties *out) {
  (void)layer;
  *n = told.has_portability;
  if (out && *n) strcpy(out->extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
  return VK_SUCCESS;
}

static VkResult layers(uint32_t *n, VkLayerProperties *out) {
  (void)out;
  *n = 0;
  return VK_SUCCESS;
}

static VkResult create(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  (void)allocator;
  told.asked_version = info->pApplicationInfo->apiVersion;
  told.flags = info->flags;
  assert_int_equal(info->enabledExtensionCount, told.has_portability);
  *out = told.create == VK_SUCCESS ? (VkInstance)(uintptr_t)1 : NULL;
  return told.create;
}

static void destroy(VkInstance instance, const VkAllocationCallbacks *allocator) {
  (void)instance, (void)allocator;
}

static VkResult list(VkInstance instance, uint32_t *n, VkPhysicalDevice *out) {
  (void)instance;
  *n = told.n_machines;
  for (uint32_t i = 0; out && i < *n; i++) out[i] = (VkPhysicalDevice)(uintptr_t)&told.machines[i];
  return told.list;
}

static VkResult extensions(VkPhysicalDevice it, const char *layer, uint32_t *n, VkExtensionProperties *out) {
  (void)it, (void)layer, (void)out;
  *n = 0;
  return VK_SUCCESS;
}

static void properties(VkPhysicalDevice it, VkPhysicalDeviceProperties2 *out) {
  out->properties.apiVersion = ((const machine *)it)->api_version;
  out->properties.limits.timestampPeriod = 1;
  if (!told.cards) return;
  const card *c = &told.cards[(const machine *)it - told.machines];
  out->properties.deviceType = c->is_cpu ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  strcpy(out->properties.deviceName, c->name);
  VkPhysicalDeviceIDProperties *id = out->pNext; /* the first of the chain, if there is one */
  if (!id) return;
  assert_int_equal(id->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  memset(id->deviceUUID, c->uuid, VK_UUID_SIZE);
  id->deviceUUID[VK_UUID_SIZE - 1] = 10;
}

static VkResult open_device(VkPhysicalDevice it, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator,
                            VkDevice *out) {
  (void)info, (void)allocator, (void)out;
  told.opened = (const machine *)it;
  return VK_ERROR_INITIALIZATION_FAILED;
}

static void features(VkPhysicalDevice it, VkPhysicalDeviceFeatures2 *out) {
  (void)it, (void)out;
}

static void memory(VkPhysicalDevice it, VkPhysicalDeviceMemoryProperties *out) {
  (void)it;
  memset(out, 0, sizeof *out);
}

static void external_buffers(VkPhysicalDevice it, const VkPhysicalDeviceExternalBufferInfo *info,
                             VkExternalBufferProperties *out) {
  (void)it;
  const bool is_ours = info->handleType == VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT &&
                       (info->usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  out->externalMemoryProperties.externalMemoryFeatures = is_ours ? told.buffers : 0;
}

static void families(VkPhysicalDevice it, uint32_t *n, VkQueueFamilyProperties *out) {
  const machine *m = (const machine *)it;
  *n = m->n_families;
  memcpy(out, m->families, *n * sizeof *out);
}

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name);

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  static const struct {
    const char *name;
    PFN_vkVoidFunction it;
  } rows[] = {{"vkEnumerateInstanceVersion", (PFN_vkVoidFunction)version_of_loader},
              {"vkEnumerateInstanceExtensionProperties", (PFN_vkVoidFunction)extensions_of_instance},
              {"vkEnumerateInstanceLayerProperties", (PFN_vkVoidFunction)layers},
              {"vkCreateInstance", (PFN_vkVoidFunction)create},
              {"vkDestroyInstance", (PFN_vkVoidFunction)destroy},
              {"vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)list},
              {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)extensions},
              {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)properties},
              {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)features},
              {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)memory},
              {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)memory /* never called */},
              {"vkGetPhysicalDeviceExternalBufferProperties", (PFN_vkVoidFunction)external_buffers},
              {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)families},
              {"vkCreateDevice", (PFN_vkVoidFunction)open_device},
              {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)destroy}};
  (void)instance;
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    if (!strcmp(rows[i].name, name)) return rows[i].it;
  return NULL;
}

/* ---- what is made of it ------------------------------------------------------------------------------------------ */

static vkf_env env;

static vkf_status open_instance(vkf_gpu_instance **out) {
  vkf_env_init(&env, NULL);
  return vkf_gpu_instance_create(&env, &(vkf_gpu_instance_params){.loader = ""}, out);
}

static int tell_usual(void **state) {
  (void)state;
  memset(&told, 0, sizeof told);
  told.loader_version = VK_MAKE_API_VERSION(0, 1, 4, 0);
  unsetenv("VKF_VALIDATION");
  return 0;
}

static void devices_that_cannot_compute_are_left_out(void **state) {
  static const machine machines[] = {
      {VK_API_VERSION_1_0, 1, {{COMPUTE, 1, 10, {0}}}}, /* too old */
      {VK_API_VERSION_1_3, 1, {{VK_QUEUE_GRAPHICS_BIT, 1, 11, {0}}}},
      {VK_API_VERSION_1_3, 1, {{COMPUTE, 0, 12, {0}}}},
      {VK_API_VERSION_1_1, 3, {{BOTH, 1, 20, {0}}, {COMPUTE, 1, 21, {0}}, {COMPUTE, 1, 22, {0}}}},
      {VK_API_VERSION_1_2, 3, {{COMPUTE, 0, 30, {0}}, {BOTH, 1, 31, {0}}, {BOTH, 1, 32, {0}}}},
  };
  static const uint32_t bits[] = {21, 31}; /* of the chosen family: the first without graphics, else the first */
  vkf_gpu_instance *instance = NULL;
  (void)state;
  told.machines = machines;
  told.n_machines = VKF_COUNT(machines);
  assert_int_equal(open_instance(&instance), VKF_OK);
  assert_int_equal(vkf_gpu_instance_count(instance), VKF_COUNT(bits));
  for (size_t i = 0; i < VKF_COUNT(bits); i++)
    assert_int_equal(vkf_gpu_instance_caps(instance, i)->timestamp_bits, bits[i]);
  assert_int_equal(told.asked_version, VK_API_VERSION_1_3); /* the newest that the library knows */
  assert_int_equal(told.flags, 0);
  vkf_gpu_instance_destroy(&instance);
  assert_int_equal(env.live_bytes, 0);
}

/* No driver, or none that starts, gives an empty list. A loader that is too old or fails is an error. */
static void loaders_without_drivers(void **state) {
  static const struct {
    uint32_t version;
    VkResult create, list;
    vkf_status status;
    const char *says;
  } rows[] = {
      {VK_API_VERSION_1_1, VK_SUCCESS, VK_SUCCESS, VKF_OK, ""},
      {VK_API_VERSION_1_3, VK_ERROR_INCOMPATIBLE_DRIVER, VK_SUCCESS, VKF_OK, ""},
      {VK_API_VERSION_1_3, VK_SUCCESS, VK_ERROR_INITIALIZATION_FAILED, VKF_OK, ""},
      {VK_API_VERSION_1_3, VK_SUCCESS, VK_ERROR_OUT_OF_HOST_MEMORY, VKF_ERROR_DEVICE, "vkEnumeratePhysicalDevices"},
      {VK_API_VERSION_1_3, VK_ERROR_LAYER_NOT_PRESENT, VK_SUCCESS, VKF_ERROR_NO_DEVICE, "LAYER_NOT_PRESENT"},
      {VK_API_VERSION_1_3, VK_ERROR_OUT_OF_HOST_MEMORY, VK_SUCCESS, VKF_ERROR_MEMORY, "vkCreateInstance"},
      {VK_API_VERSION_1_0, VK_SUCCESS, VK_SUCCESS, VKF_ERROR_NO_DEVICE, "1.1 or newer, found 1.0"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_gpu_instance *instance = NULL;
    tell_usual(state);
    told.loader_version = rows[i].version;
    told.create = rows[i].create;
    told.list = rows[i].list;
    const vkf_status st = open_instance(&instance);
    if (st != rows[i].status || !strstr(env.message, rows[i].says))
      fail_msg("row %zu: status %d, '%s'", i, (int)st, env.message);
    assert_true(st ? instance == NULL : vkf_gpu_instance_count(instance) == 0);
    vkf_gpu_instance_destroy(&instance);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* Loaders hide portability drivers, which run on top of another API, unless they are asked for. */
static void portability_is_asked_for_where_it_is_there(void **state) {
  vkf_gpu_instance *instance = NULL;
  (void)state;
  told.has_portability = true;
  assert_int_equal(open_instance(&instance), VKF_OK);
  assert_int_equal(told.flags, VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR);
  vkf_gpu_instance_destroy(&instance);
}

static void validation_is_asked_for_by_a_1(void **state) {
  vkf_gpu_instance *instance = NULL;
  (void)state;
  setenv("VKF_VALIDATION", "0", 1);
  assert_int_equal(open_instance(&instance), VKF_OK);
  vkf_gpu_instance_destroy(&instance);
  setenv("VKF_VALIDATION", "1", 1);
  assert_int_equal(open_instance(&instance), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message, "is not installed"));
  assert_null(instance);
}

/* As --device does: by index, kind, UUID, or part of a name. */
static void devices_are_chosen(void **state) {
  enum { NONE = -1 };
  static const machine machines[] = {{VK_API_VERSION_1_1, 1, {{COMPUTE, 1, 10, {0}}}},
                                     {VK_API_VERSION_1_1, 1, {{COMPUTE, 1, 10, {0}}}},
                                     {VK_API_VERSION_1_1, 1, {{COMPUTE, 1, 10, {0}}}}};
  static const card cards[] = {{"slow", 0xaa, true}, {"Card 4090 B", 0xbb, false}, {"Card 4090 A", 0xcc, false}};
  static const struct {
    const char *selector;
    int opened;
    const char *says;
  } rows[] = {
      {"0", 0, "vkCreateDevice"},
      {"2", 2, "vkCreateDevice"},
      {"4", NONE, "no device matches \"4\""}, /* 3 is ref */
      {"4090", NONE, "\"4090\" matches 2 devices: 1: Card 4090 B (), 2: Card 4090 A (); expected one"},
      {"4090 a", 2, "vkCreateDevice"},
      {"cpu", 0, "vkCreateDevice"},
      {"gpu", 1, "vkCreateDevice"},
      {"cccccccc-cccc-cccc-cccc-cccccccccc0a", 2, "vkCreateDevice"},
      {"cccccccccccccccccccccccccccccca", NONE, "no device matches"}, /* one digit too few */
      {"lavapipe", NONE, "no device matches \"lavapipe\""},
  };
  vkf_context *context = NULL;
  (void)state;
  told.machines = machines;
  told.cards = cards;
  told.n_machines = VKF_COUNT(machines);
  assert_int_equal(vkf_context_create(NULL, &context), VKF_OK);
  assert_int_equal(open_instance(&context->instance), VKF_OK);
  context->is_loader_known = true;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_device *device = NULL;
    told.opened = NULL;
    const vkf_status st = vkf_device_open(context, rows[i].selector, &device);
    const int opened = told.opened ? (int)(told.opened - machines) : NONE;
    const char *message = opened == NONE ? vkf_context_message(context) : env.message; /* env: the instance's */
    if (opened != rows[i].opened || !strstr(message, rows[i].says))
      fail_msg("%s: machine %d, status %d, '%s'", rows[i].selector, opened, (int)st, message);
    assert_null(device);
  }
  vkf_context_destroy(&context);
  assert_int_equal(env.live_bytes, 0);
}

/* A CPU driver gets memory of ours only if it says that buffers may be in it. Its extension alone is not enough. */
static void large_pages_are_imported(void **state) {
  (void)state;
  const vkf_vk_instance vk = {.GetPhysicalDeviceExternalBufferProperties = external_buffers};
  const vkf_caps cpu = {.kind = VKF_DEVICE_CPU, .host_visible = true}, gpu = {.host_visible = true};
  told.buffers = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
  assert_int_equal(vkf_gpu_large_pages_can(&vk, NULL, &cpu), vkf_gpu_large_pages_wanted(&cpu));
  assert_false(vkf_gpu_large_pages_can(&vk, NULL, &gpu));
  told.buffers = VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT;
  assert_false(vkf_gpu_large_pages_can(&vk, NULL, &cpu));
}

static void nothing(void *user) {
  (void)user;
}

/* A host that leaves out a handle is refused before any of its functions is called. */
static void hosts_give_all_handles(void **state) {
  static const machine old = {VK_API_VERSION_1_0, 1, {{COMPUTE, 1, 10, {0}}}};
  (void)state;
  for (int row = 0; row < 9; row++) {
    vkf_gpu_device *device = NULL;
    vkf_device_handles h = {VKF_DEVICE_HANDLES_INIT,
                            .get_instance_proc_addr = vkGetInstanceProcAddr,
                            .instance = (VkInstance)(uintptr_t)1,
                            .physical_device = (VkPhysicalDevice)(uintptr_t)&old,
                            .device = (VkDevice)(uintptr_t)1,
                            .queue = (VkQueue)(uintptr_t)1};
    if (row == 0) h.get_instance_proc_addr = NULL;
    if (row == 1) h.instance = NULL;
    if (row == 2) h.physical_device = NULL;
    if (row == 3) h.device = NULL;
    if (row == 4) h.queue = NULL;
    if (row == 5) h.n_extensions = 1;
    if (row == 6) h.lock_queue = nothing;
    if (row == 7) h.unlock_queue = nothing;
    vkf_env_init(&env, NULL);
    assert_int_equal(vkf_gpu_device_adopt(&env, &h, NULL, &device),
                     row < 8 ? VKF_ERROR_ARGUMENT : VKF_ERROR_UNSUPPORTED);
    const char *says = row < 6   ? "every handle"
                       : row < 8 ? "lock_queue and unlock_queue, or neither"
                                 : "Vulkan 1.1 or newer, found";
    if (!strstr(env.message, says)) fail_msg("row %d: '%s'", row, env.message);
    assert_null(device);
    assert_int_equal(env.live_bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(devices_that_cannot_compute_are_left_out, tell_usual),
      cmocka_unit_test_setup(loaders_without_drivers, tell_usual),
      cmocka_unit_test_setup(portability_is_asked_for_where_it_is_there, tell_usual),
      cmocka_unit_test_setup(validation_is_asked_for_by_a_1, tell_usual),
      cmocka_unit_test_setup(devices_are_chosen, tell_usual),
      cmocka_unit_test_setup(large_pages_are_imported, tell_usual),
      cmocka_unit_test_setup(hosts_give_all_handles, tell_usual),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
