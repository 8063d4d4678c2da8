/* Room gpu without a device: a missing loader, memory types, features, and the vector width in a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/vk.h"

static void no_loader_names_the_way_out(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_gpu_instance *instance = (void *)1;
  vkf_gpu_instance_params params = {.loader = "libno-such-vulkan-loader.so.7"};
  assert_int_equal(vkf_gpu_instance_create(&env, &params, &instance), VKF_ERROR_NO_DEVICE);
  assert_null(instance);
  assert_non_null(strstr(env.message, "libno-such-vulkan-loader.so.7"));
  assert_non_null(strstr(env.message, "--device ref"));
  assert_int_equal(env.live_bytes, 0);
}

static void a_library_that_is_no_loader(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_gpu_instance *instance = NULL;
  vkf_gpu_instance_params params = {.loader = "libm.so.6"};
  assert_int_equal(vkf_gpu_instance_create(&env, &params, &instance), VKF_ERROR_NO_DEVICE);
  assert_non_null(strstr(env.message, "--device ref"));
  assert_int_equal(env.live_bytes, 0);
}

static void manifests_are_put_back(void **state) {
  (void)state;
  const char *files[] = {"/a.json", "/b.json"};
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_gpu_manifests manifests;

  unsetenv("VK_DRIVER_FILES");
  unsetenv("VK_ICD_FILENAMES");
  unsetenv("VK_ADD_DRIVER_FILES");
  assert_int_equal(vkf_gpu_manifests_push(&env, files, 2, &manifests), VKF_OK);
  assert_string_equal(getenv("VK_ADD_DRIVER_FILES"), "/a.json:/b.json");
  vkf_gpu_manifests_pop(&env, &manifests);
  assert_null(getenv("VK_ADD_DRIVER_FILES"));

  /* A user's own list makes the loader ignore additions, so they are added to that list. */
  setenv("VK_DRIVER_FILES", "/own.json", 1);
  assert_int_equal(vkf_gpu_manifests_push(&env, files, 2, &manifests), VKF_OK);
  assert_string_equal(getenv("VK_DRIVER_FILES"), "/own.json:/a.json:/b.json");
  assert_null(getenv("VK_ADD_DRIVER_FILES"));
  vkf_gpu_manifests_pop(&env, &manifests);
  assert_string_equal(getenv("VK_DRIVER_FILES"), "/own.json");
  unsetenv("VK_DRIVER_FILES");
  assert_int_equal(env.live_bytes, 0);
}

static void vector_width_is_read_from_the_name(void **state) {
  (void)state;
  assert_int_equal(vkf_gpu_caps_vector_bits("llvmpipe (LLVM 15.0.6, 256 bits)"), 256);
  assert_int_equal(vkf_gpu_caps_vector_bits("llvmpipe (LLVM 20.1.0, 512 bits)"), 512);
  assert_int_equal(vkf_gpu_caps_vector_bits("SwiftShader Device (Subzero)"), 0);
  assert_int_equal(vkf_gpu_caps_vector_bits("odd bits"), 0);
}

enum {
  LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
  VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
  COHERENT = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
  CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT
};

static VkPhysicalDeviceMemoryProperties types(const VkMemoryPropertyFlags *flags, uint32_t n) {
  VkPhysicalDeviceMemoryProperties p = {.memoryTypeCount = n};
  for (uint32_t i = 0; i < n; ++i) p.memoryTypes[i].propertyFlags = flags[i];
  return p;
}

static void memory_types_of_a_discrete_gpu(void **state) {
  (void)state;
  const VkMemoryPropertyFlags flags[] = {VISIBLE | COHERENT, VISIBLE | COHERENT | CACHED, LOCAL | VISIBLE | COHERENT,
                                         LOCAL, VISIBLE | CACHED};
  VkPhysicalDeviceMemoryProperties p = types(flags, 5);
  const vkf_device_kind kind = VKF_DEVICE_DISCRETE;
  assert_int_equal(vkf_gpu_memory_type(&p, 0x1f, kind, VKF_GPU_MEMORY_DEVICE), 3);
  assert_int_equal(vkf_gpu_memory_type(&p, 0x1f, kind, VKF_GPU_MEMORY_UPLOAD), 2);
  assert_int_equal(vkf_gpu_memory_type(&p, 0x1f, kind, VKF_GPU_MEMORY_READBACK), 1);
  /* Not all types are allowed for every buffer. */
  assert_int_equal(vkf_gpu_memory_type(&p, 0x01, kind, VKF_GPU_MEMORY_READBACK), 0);
  assert_int_equal(vkf_gpu_memory_type(&p, 0x17, kind, VKF_GPU_MEMORY_DEVICE), 2);
  assert_int_equal(vkf_gpu_memory_type(&p, 0x18, kind, VKF_GPU_MEMORY_UPLOAD), UINT32_MAX);
  /* Type 4 would need flushes, and the library never flushes. */
  assert_int_equal(vkf_gpu_memory_type(&p, 0x18, kind, VKF_GPU_MEMORY_READBACK), UINT32_MAX);
  assert_int_equal(vkf_gpu_memory_type(&p, 0x11, kind, VKF_GPU_MEMORY_READBACK), 0);
}

static void memory_types_where_memory_is_shared(void **state) {
  (void)state;
  const VkMemoryPropertyFlags flags[] = {LOCAL, LOCAL | VISIBLE | COHERENT, LOCAL | VISIBLE | COHERENT | CACHED};
  VkPhysicalDeviceMemoryProperties p = types(flags, 3);
  for (vkf_device_kind kind = VKF_DEVICE_CPU; kind <= VKF_DEVICE_INTEGRATED; ++kind)
    assert_int_equal(vkf_gpu_memory_type(&p, 7, kind, VKF_GPU_MEMORY_DEVICE), 2);
  assert_int_equal(vkf_gpu_memory_type(&p, 7, VKF_DEVICE_CPU, VKF_GPU_MEMORY_READBACK), 2);
  const VkMemoryPropertyFlags phone[] = {LOCAL | VISIBLE | CACHED, LOCAL | VISIBLE | COHERENT};
  p = types(phone, 2);
  assert_int_equal(vkf_gpu_memory_type(&p, 3, VKF_DEVICE_INTEGRATED, VKF_GPU_MEMORY_DEVICE), 1);
}

/* Only memory that the host sees without flushes counts as mapped. */
static void mapped_memory_is_coherent(void **state) {
  (void)state;
  assert_true(vkf_gpu_memory_is_mapped(LOCAL | VISIBLE | COHERENT));
  assert_false(vkf_gpu_memory_is_mapped(LOCAL | VISIBLE | CACHED));
  assert_false(vkf_gpu_memory_is_mapped(LOCAL | COHERENT));
}

static void features_and_facts_are_the_same_thing(void **state) {
  (void)state;
  const char *names[] = {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME};
  vkf_gpu_extensions extensions = {.n = 2, .names = names};
  vkf_caps caps = {.api_version = VK_API_VERSION_1_1, .float16 = true, .buffer_address = true, .int64 = true},
           back = {0};
  vkf_gpu_features features;
  vkf_gpu_features_link(&features, VK_API_VERSION_1_1, &extensions);
  vkf_gpu_features_from_caps(&features, &caps);
  assert_int_equal(features.core.features.robustBufferAccess, VK_FALSE);
  /* On a 1.1 device the chain may have only structs of extensions that are listed. */
  for (const VkBaseInStructure *s = (const void *)&features.core; s; s = s->pNext) {
    assert_int_not_equal(s->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
    assert_int_not_equal(s->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
  }
  vkf_gpu_features read;
  vkf_gpu_features_from_chain(&read, &features.core);
  vkf_gpu_features_to_caps(&read, &back);
  back.api_version = caps.api_version;
  assert_memory_equal(&back, &caps, sizeof(caps));

  const char *enabled[VKF_GPU_MAX_EXTENSIONS];
  assert_int_equal(vkf_gpu_features_extensions(&caps, &extensions, enabled), 2);
  caps.api_version = VK_API_VERSION_1_2; /* built in */
  assert_int_equal(vkf_gpu_features_extensions(&caps, &extensions, enabled), 0);
}

static void a_portability_device_gets_its_extension(void **state) {
  (void)state;
  const char *names[] = {"VK_KHR_portability_subset"}, *enabled[VKF_GPU_MAX_EXTENSIONS];
  vkf_gpu_extensions extensions = {.n = 1, .names = names};
  vkf_caps caps = {.api_version = VK_API_VERSION_1_3};
  assert_int_equal(vkf_gpu_features_extensions(&caps, &extensions, enabled), 1);
  assert_string_equal(enabled[0], "VK_KHR_portability_subset");
}

/* A caller may enable features by the structs that hold those of a whole version. */
static void features_of_gathered_structs(void **state) {
  (void)state;
  VkPhysicalDeviceVulkan13Features v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                          .subgroupSizeControl = VK_TRUE};
  VkPhysicalDeviceVulkan12Features v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &v13, .shaderInt8 = VK_TRUE};
  VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                          .pNext = &v12,
                                          .storageBuffer16BitAccess = VK_TRUE};
  VkPhysicalDeviceFeatures2 core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
  vkf_gpu_features features;
  /* The properties say whether compute shaders may require a size. */
  vkf_caps caps = {.subgroup_size_control = true}, no_stage = {0};
  vkf_caps expected = {.subgroup_size_control = true, .int8 = true, .storage16 = true};
  vkf_gpu_features_from_chain(&features, &core);
  vkf_gpu_features_to_caps(&features, &caps);
  assert_memory_equal(&caps, &expected, sizeof(caps));
  vkf_gpu_features_to_caps(&features, &no_stage);
  assert_false(no_stage.subgroup_size_control);
}

#ifdef VKF_HAS_COOPMAT2
/* Matrices of workgroups are used only with the driver that they were tested with, and only with those of subgroups. */
static void matrices_of_workgroups(void **state) {
  (void)state;
  const char *names[] = {"VK_KHR_cooperative_matrix", "VK_NV_cooperative_matrix2"}, *enabled[VKF_GPU_MAX_EXTENSIONS];
  vkf_gpu_extensions extensions = {.n = 2, .names = names};
  const vkf_caps caps = {.driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
                         .api_version = VK_API_VERSION_1_3,
                         .float16 = true,
                         .storage16 = true,
                         .coopmat = true,
                         .coopmat2 = true};
  vkf_caps back = {.driver_id = caps.driver_id, .api_version = caps.api_version}, other = back;
  vkf_gpu_features features, read;
  vkf_gpu_features_link(&features, VK_API_VERSION_1_3, &extensions);
  vkf_gpu_features_from_caps(&features, &caps);
  vkf_gpu_features_from_chain(&read, &features.core);
  vkf_gpu_features_to_caps(&read, &back);
  assert_memory_equal(&back, &caps, sizeof(caps));
  assert_int_equal(vkf_gpu_features_extensions(&caps, &extensions, enabled), 2);
  other.driver_id = VK_DRIVER_ID_MESA_RADV;
  vkf_gpu_features_to_caps(&read, &other);
  assert_true(other.coopmat);
  assert_false(other.coopmat2);
  back.coopmat = false; /* as lowered limits may do */
  vkf_gpu_features_from_caps(&features, &back);
  assert_int_equal(features.coopmat2.cooperativeMatrixWorkgroupScope, VK_FALSE);
  assert_int_equal(vkf_gpu_features_extensions(&back, &extensions, enabled), 0);
}
#endif

/* ---- an invented device ------------------------------------------------------------------------------------------ */

static struct {
  uint32_t api_version, driver_version, vendor;
  VkDriverId driver;
  VkPhysicalDeviceType type;
  VkPhysicalDeviceLimits limits;
  uint64_t allocation_bytes, buffer_bytes;
  VkShaderStageFlags subgroup_stages, size_stages;
  VkSubgroupFeatureFlags operations;
  uint32_t timestamp_bits;
  bool knows_1_3; /* may be asked for what 1.3 added */
} told;

static void tell_properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties2 *out) {
  (void)handle;
  out->properties.apiVersion = told.api_version;
  out->properties.driverVersion = told.driver_version;
  out->properties.vendorID = told.vendor;
  out->properties.limits = told.limits;
  out->properties.deviceType = told.type;
  for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext) switch ((int)s->sType) {
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
        ((VkPhysicalDeviceMaintenance3Properties *)s)->maxMemoryAllocationSize = told.allocation_bytes;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
        assert_true(told.knows_1_3);
        ((VkPhysicalDeviceMaintenance4Properties *)s)->maxBufferSize = told.buffer_bytes;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES:
        ((VkPhysicalDeviceDriverProperties *)s)->driverID = told.driver;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES:
        ((VkPhysicalDeviceSubgroupProperties *)s)->subgroupSize = 32;
        ((VkPhysicalDeviceSubgroupProperties *)s)->supportedStages = told.subgroup_stages;
        ((VkPhysicalDeviceSubgroupProperties *)s)->supportedOperations = told.operations;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES:
        ((VkPhysicalDeviceSubgroupSizeControlProperties *)s)->minSubgroupSize = 8;
        ((VkPhysicalDeviceSubgroupSizeControlProperties *)s)->maxSubgroupSize = 64;
        ((VkPhysicalDeviceSubgroupSizeControlProperties *)s)->requiredSubgroupSizeStages = told.size_stages;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD:
        ((VkPhysicalDeviceShaderCorePropertiesAMD *)s)->shaderEngineCount = 2;
        ((VkPhysicalDeviceShaderCorePropertiesAMD *)s)->shaderArraysPerEngineCount = 3;
        ((VkPhysicalDeviceShaderCorePropertiesAMD *)s)->computeUnitsPerShaderArray = 5;
        break;
      default:
        break;
    }
}

static void tell_memory(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties *out) {
  (void)handle;
  *out = (VkPhysicalDeviceMemoryProperties){.memoryTypeCount = 1,
                                            .memoryTypes = {{LOCAL, 1}},
                                            .memoryHeapCount = 4,
                                            .memoryHeaps = {{900, 0},
                                                            {700, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT},
                                                            {800, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT},
                                                            {600, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}}};
}

/* The same heaps, partly in use by this program and others. */
static void tell_budget(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties2 *out) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)out->pNext;
  tell_memory(handle, &out->memoryProperties);
  assert_int_equal(budget->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  static const VkDeviceSize budgets[] = {900, 500, 400, 200}, used[] = {0, 450, 100, 250};
  memcpy(budget->heapBudget, budgets, sizeof budgets);
  memcpy(budget->heapUsage, used, sizeof used);
}

static void tell_families(VkPhysicalDevice handle, uint32_t *n, VkQueueFamilyProperties *out) {
  (void)handle;
  assert_true(*n >= 2);
  *n = 2;
  out[0] = (VkQueueFamilyProperties){.timestampValidBits = 64};
  out[1] = (VkQueueFamilyProperties){.timestampValidBits = told.timestamp_bits};
}

static vkf_caps facts(uint32_t instance_version, const char *extension) {
  static const vkf_vk_instance vk = {.GetPhysicalDeviceProperties2 = tell_properties,
                                     .GetPhysicalDeviceMemoryProperties = tell_memory,
                                     .GetPhysicalDeviceQueueFamilyProperties = tell_families};
  const vkf_gpu_extensions extensions = {.n = extension != NULL, .names = &extension};
  vkf_caps caps;
  vkf_gpu_caps_fill(&vk, NULL, instance_version, &extensions, 1, &caps);
  return caps;
}

/* The device's heap that has most left counts. A heap whose use exceeds its budget has nothing left. */
static void what_is_left_is_of_the_device(void **state) {
  (void)state;
  const vkf_vk_instance vk = {.GetPhysicalDeviceMemoryProperties2 = tell_budget};
  assert_int_equal(vkf_gpu_memory_left(&vk, NULL), 300);
}

static void tell_usual(void) {
  memset(&told, 0, sizeof told);
  told.api_version = VK_MAKE_API_VERSION(0, 1, 4, 0);
  told.driver = VK_DRIVER_ID_MESA_LLVMPIPE;
  told.driver_version = 26u << 22;
  told.knows_1_3 = true;
  told.allocation_bytes = 1000;
  told.buffer_bytes = 2000;
  told.subgroup_stages = told.size_stages = VK_SHADER_STAGE_COMPUTE_BIT;
  told.operations = VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  told.timestamp_bits = 36;
  told.limits = (VkPhysicalDeviceLimits){.timestampPeriod = 2,
                                         .maxPerStageResources = 100,
                                         .maxPerStageDescriptorStorageBuffers = 12,
                                         .maxPerStageDescriptorSampledImages = 13,
                                         .maxPerStageDescriptorStorageImages = 3};
}

static void facts_are_what_may_be_used(void **state) {
  (void)state;
  tell_usual();
  vkf_caps c = facts(VK_API_VERSION_1_3, NULL);
  assert_int_equal(c.api_version, VK_API_VERSION_1_3); /* of the instance, which is older */
  assert_int_equal(c.memory_bytes, 800);
  told.type = VK_PHYSICAL_DEVICE_TYPE_CPU; /* whose memory is the host's */
  assert_true(vkf_host_bytes() > 800 && facts(VK_API_VERSION_1_3, NULL).memory_bytes == vkf_host_bytes());
  told.type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  assert_int_equal(c.max_allocation_bytes, 1000);
  assert_int_equal(c.max_storage_bindings, 12);
  assert_int_equal(c.max_texel_bindings, 13);
  assert_true(c.timestamps && c.timestamp_bits == 36 && c.timestamp_ns == 2);
  assert_int_equal(c.subgroup_size, 32);
  assert_int_equal(c.subgroup_min, 8);
  assert_int_equal(c.subgroup_max, 64);
  assert_true(c.subgroup_size_control && c.subgroup_shuffle && !c.subgroup_arithmetic);
  assert_true(c.uniform_loads && c.max_loop_turns == UINT32_MAX && c.n_cores == 0);
  told.buffer_bytes = 500;
  told.subgroup_stages = told.size_stages = VK_SHADER_STAGE_FRAGMENT_BIT;
  told.timestamp_bits = 0;
  told.driver_version--;
  told.limits.maxPerStageResources = 10;
  c = facts(VK_API_VERSION_1_3, NULL);
  assert_int_equal(c.max_allocation_bytes, 500);
  assert_int_equal(c.max_storage_bindings, 10);
  assert_int_equal(c.max_texel_bindings, 10);
  assert_true(!c.timestamps && c.timestamp_ns == 0);
  assert_true(!c.subgroup_size_control && !c.subgroup_shuffle);
  assert_true(!c.uniform_loads && c.max_loop_turns == 65535);
  told.limits.maxPerStageResources = told.limits.maxPerStageDescriptorStorageBuffers =
      told.limits.maxPerStageDescriptorSampledImages = 1000;
  told.driver = VK_DRIVER_ID_MESA_RADV; /* as old as that lavapipe */
  c = facts(VK_API_VERSION_1_3, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME);
  assert_int_equal(c.max_storage_bindings, VKF_GPU_MAX_BINDINGS);
  assert_int_equal(c.max_texel_bindings, VKF_GPU_MAX_BINDINGS);
  assert_true(c.max_loop_turns == UINT32_MAX && c.n_cores == 30 && c.indexed_registers);
  assert_false(c.matrices_ahead); /* an AMD GPU; then an NVIDIA GPU with Mesa's driver and with NVIDIA's */
  told.vendor = 0x10de;
  told.driver = VK_DRIVER_ID_MESA_NVK;
  assert_true(facts(VK_API_VERSION_1_3, NULL).matrices_ahead);
  told.driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
  assert_true(facts(VK_API_VERSION_1_3, NULL).matrices_ahead);
  told.driver = VK_DRIVER_ID_MESA_V3DV;
  assert_false(facts(VK_API_VERSION_1_3, NULL).indexed_registers);
  told.timestamp_bits = 64;
  told.limits.timestampPeriod = 0;
  assert_false(facts(VK_API_VERSION_1_3, NULL).timestamps);
}

/* A device is asked only for what its version or its extensions have. */
static void an_old_device_is_asked_less(void **state) {
  (void)state;
  tell_usual();
  told.api_version = VK_API_VERSION_1_1;
  told.knows_1_3 = false;
  told.buffer_bytes = 1;
  vkf_caps c = facts(VK_API_VERSION_1_3, NULL);
  assert_int_equal(c.api_version, VK_API_VERSION_1_1);
  assert_int_equal(c.driver_id, 0);
  assert_int_equal(c.max_allocation_bytes, 1000);
  assert_true(c.subgroup_min == 32 && c.subgroup_max == 32 && !c.subgroup_size_control);
  assert_int_equal(facts(VK_API_VERSION_1_3, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME).driver_id,
                   VK_DRIVER_ID_MESA_LLVMPIPE);
  assert_int_equal(facts(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME).subgroup_max, 64);
}

/* A feature needs its extension below the version that has it built in, and nothing from that version on. */
static void extensions_of_features(void **state) {
  static const struct {
    vkf_caps caps;
    const char *names[2];
    uint32_t built_in; /* 0: never */
  } rows[] = {
      {{.storage8 = true}, {VK_KHR_8BIT_STORAGE_EXTENSION_NAME}, VK_API_VERSION_1_2},
      {{.float16 = true}, {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME}, VK_API_VERSION_1_2},
      {{.int8 = true}, {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME}, VK_API_VERSION_1_2},
      {{.buffer_address = true}, {VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME}, VK_API_VERSION_1_2},
      {{.subgroup_size_control = true}, {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME}, VK_API_VERSION_1_3},
      {{.subgroup_full = true}, {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME}, VK_API_VERSION_1_3},
      {{.integer_dot = true}, {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME}, VK_API_VERSION_1_3},
      {{.pipeline_statistics = true}, {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME}, 0},
      {{.coopmat = true}, {VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, "VK_KHR_cooperative_matrix"}, VK_API_VERSION_1_2},
  };
  static const uint32_t versions[] = {VK_API_VERSION_1_1, VK_API_VERSION_1_2, VK_API_VERSION_1_3};
  const char *all[VKF_COUNT(rows) + 1], *enabled[VKF_GPU_MAX_EXTENSIONS];
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) all[i] = rows[i].names[0];
  all[VKF_COUNT(rows)] = "VK_KHR_cooperative_matrix";
  const vkf_gpu_extensions offered = {.n = VKF_COUNT(all), .names = all};
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    for (size_t v = 0; v < VKF_COUNT(versions); v++) {
      vkf_caps caps = rows[i].caps;
      caps.api_version = versions[v];
      const bool is_built_in = rows[i].built_in && versions[v] >= rows[i].built_in;
      const size_t n = vkf_gpu_features_extensions(&caps, &offered, enabled), others = rows[i].names[1] != NULL;
      assert_int_equal(n, !is_built_in + others); /* cooperative matrices are built in nowhere */
      if (!is_built_in) assert_string_equal(enabled[0], rows[i].names[0]);
      if (others) assert_string_equal(enabled[n - 1], rows[i].names[1]);
    }
}

/* Each feature is read from its own field in the structs of versions. */
static void features_are_read_one_by_one(void **state) {
  (void)state;
  VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkBool32 *of_12[] = {&v12.storageBuffer8BitAccess, &v12.shaderFloat16, &v12.shaderInt8, &v12.bufferDeviceAddress};
  for (size_t i = 0; i < VKF_COUNT(of_12); i++) {
    vkf_gpu_features features;
    vkf_caps caps = {0};
    *of_12[i] = VK_TRUE;
    vkf_gpu_features_from_chain(&features, &v12);
    vkf_gpu_features_to_caps(&features, &caps);
    const bool found[] = {caps.storage8, caps.float16, caps.int8, caps.buffer_address};
    for (size_t k = 0; k < VKF_COUNT(found); k++) assert_int_equal(found[k], k == i);
    *of_12[i] = VK_FALSE;
  }
  VkPhysicalDeviceVulkan13Features v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                          .computeFullSubgroups = VK_TRUE,
                                          .shaderIntegerDotProduct = VK_TRUE};
  vkf_gpu_features features;
  vkf_caps caps = {.subgroup_size_control = true};
  vkf_gpu_features_from_chain(&features, &v13);
  vkf_gpu_features_to_caps(&features, &caps);
  assert_true(caps.subgroup_full && caps.integer_dot && !caps.subgroup_size_control);
}

/* The chain has each struct of features that a version has built in, and no other. */
static void structs_of_features(void **state) {
  (void)state;
  static const struct {
    VkStructureType type;
    uint32_t since;
  } rows[] = {
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VK_API_VERSION_1_1},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VK_API_VERSION_1_2},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VK_API_VERSION_1_2},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, VK_API_VERSION_1_2},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VK_API_VERSION_1_2},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, VK_API_VERSION_1_3},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, VK_API_VERSION_1_3},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, UINT32_MAX},
  };
  static const uint32_t versions[] = {VK_API_VERSION_1_1, VK_API_VERSION_1_2, VK_API_VERSION_1_3};
  const vkf_gpu_extensions none = {0};
  for (size_t v = 0; v < VKF_COUNT(versions); v++) {
    vkf_gpu_features features;
    vkf_gpu_features_link(&features, versions[v], &none);
    for (size_t i = 0; i < VKF_COUNT(rows); i++) {
      bool found = false;
      for (const VkBaseInStructure *s = (const void *)&features.core; s; s = s->pNext)
        found |= s->sType == rows[i].type;
      assert_int_equal(found, versions[v] >= rows[i].since);
    }
  }
}

static void memory_that_needs_features_is_left_alone(void **state) {
  (void)state;
  const VkMemoryPropertyFlags flags[] = {LOCAL | VK_MEMORY_PROPERTY_PROTECTED_BIT,
                                         LOCAL | VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD, VISIBLE | COHERENT};
  VkPhysicalDeviceMemoryProperties p = types(flags, 3);
  assert_int_equal(vkf_gpu_memory_type(&p, 7, VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_DEVICE), 2);
  const VkMemoryPropertyFlags equal[] = {VISIBLE | COHERENT, VISIBLE | COHERENT, VISIBLE | COHERENT | CACHED};
  p = types(equal, 3); /* of equal types the first, because drivers sort them; uploads prefer uncached ones */
  assert_int_equal(vkf_gpu_memory_type(&p, 7, VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_UPLOAD), 0);
  assert_int_equal(vkf_gpu_memory_type(&p, 4, VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_UPLOAD), 2);
  const VkMemoryPropertyFlags host[] = {CACHED, VISIBLE | COHERENT}; /* none is local */
  p = types(host, 2);
  assert_int_equal(vkf_gpu_memory_type(&p, 3, VKF_DEVICE_DISCRETE, VKF_GPU_MEMORY_DEVICE), 1);
  const VkMemoryPropertyFlags shared[] = {VISIBLE | COHERENT | CACHED, LOCAL | VISIBLE | COHERENT};
  p = types(shared, 2);
  assert_int_equal(vkf_gpu_memory_type(&p, 3, VKF_DEVICE_INTEGRATED, VKF_GPU_MEMORY_DEVICE), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_loader_names_the_way_out),
      cmocka_unit_test(a_library_that_is_no_loader),
      cmocka_unit_test(manifests_are_put_back),
      cmocka_unit_test(vector_width_is_read_from_the_name),
      cmocka_unit_test(memory_types_of_a_discrete_gpu),
      cmocka_unit_test(memory_types_where_memory_is_shared),
      cmocka_unit_test(mapped_memory_is_coherent),
      cmocka_unit_test(features_and_facts_are_the_same_thing),
      cmocka_unit_test(a_portability_device_gets_its_extension),
      cmocka_unit_test(features_of_gathered_structs),
#ifdef VKF_HAS_COOPMAT2
      cmocka_unit_test(matrices_of_workgroups),
#endif
      cmocka_unit_test(facts_are_what_may_be_used),
      cmocka_unit_test(an_old_device_is_asked_less),
      cmocka_unit_test(extensions_of_features),
      cmocka_unit_test(features_are_read_one_by_one),
      cmocka_unit_test(structs_of_features),
      cmocka_unit_test(memory_that_needs_features_is_left_alone),
      cmocka_unit_test(what_is_left_is_of_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
