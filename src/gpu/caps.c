/* Facts of a physical device: identity, limits, subgroups, and the choice of memory types.
 *
 * Owns nothing. Features are in features.c. Invariant: api_version is what may be used, the lower one of the device's
 * and the instance's.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/vk.h"

_Static_assert(VKF_DRIVER_ID_SWIFTSHADER == VK_DRIVER_ID_GOOGLE_SWIFTSHADER, "as Vulkan numbers it");
_Static_assert(VKF_DRIVER_ID_LAVAPIPE == VK_DRIVER_ID_MESA_LLVMPIPE, "as Vulkan numbers it");

bool vkf_gpu_extensions_have(const vkf_gpu_extensions *extensions, const char *name) {
  for (size_t i = 0; i < extensions->n; ++i)
    if (strcmp(extensions->names[i], name) == 0) return true;
  return false;
}

vkf_status vkf_gpu_extensions_list(vkf_env *env, const vkf_vk_instance *vk, VkPhysicalDevice handle,
                                   vkf_gpu_extensions *out) {
  vkf_status st = VKF_OK;
  uint32_t n = 0;
  memset(out, 0, sizeof(*out));
  VkResult r = vk->EnumerateDeviceExtensionProperties(handle, NULL, &n, NULL);
  if (r == VK_SUCCESS) {
    out->properties = vkf_env_alloc(env, n, sizeof(*out->properties));
    out->names = vkf_env_alloc(env, n, sizeof(*out->names));
    if (!out->properties || !out->names) VKF_TRY(VKF_ERROR_MEMORY);
    r = vk->EnumerateDeviceExtensionProperties(handle, NULL, &n, out->properties);
  }
  if (r < 0)
    VKF_FAIL(env, VKF_ERROR_DEVICE, "vkEnumerateDeviceExtensionProperties returned %s", vkf_gpu_result_name(r));
  out->n = n;
  for (uint32_t i = 0; i < n; ++i) out->names[i] = out->properties[i].extensionName;
done:
  if (st != VKF_OK) vkf_gpu_extensions_finish(env, out);
  return st;
}

void vkf_gpu_extensions_finish(vkf_env *env, vkf_gpu_extensions *extensions) {
  vkf_env_free(env, extensions->names);
  vkf_env_free(env, extensions->properties);
  memset(extensions, 0, sizeof(*extensions));
}

/* lavapipe from Mesa 26 on turns loads at uniform addresses into scalar loads; 22.3 does not. Nothing was measured
 * between them. */
#define UNIFORM_LOADS_LAVAPIPE (26u << 22)

/* llvmpipe's shaders had a counter of loop turns, so that none runs forever (LP_MAX_TGSI_LOOP_ITERATIONS): Mesa 22.3
 * has it, 26 does not. Nothing was measured between them. */
#define LIMITLESS_LOOPS_LAVAPIPE (26u << 22)
#define LAVAPIPE_LOOP_TURNS 65535

/* Returns the number before " bits" in "llvmpipe (LLVM 15.0.6, 256 bits)". */
uint32_t vkf_gpu_caps_vector_bits(const char *device_name) {
  const char *end = strstr(device_name, " bits");
  if (!end) return 0;
  const char *begin = end;
  while (begin > device_name && isdigit((unsigned char)begin[-1])) --begin;
  return begin == end ? 0 : (uint32_t)strtoul(begin, NULL, 10);
}

static vkf_device_kind kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return VKF_DEVICE_CPU;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return VKF_DEVICE_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return VKF_DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return VKF_DEVICE_VIRTUAL;
    default:
      return VKF_DEVICE_OTHER;
  }
}

static void fill_limits(vkf_caps *caps, const VkPhysicalDeviceLimits *limits) {
  caps->max_storage_range_bytes = limits->maxStorageBufferRange;
  caps->storage_offset_alignment = (uint32_t)limits->minStorageBufferOffsetAlignment;
  caps->texel_offset_alignment = (uint32_t)limits->minTexelBufferOffsetAlignment;
  caps->max_texel_elements = limits->maxTexelBufferElements;
  caps->max_shared_bytes = limits->maxComputeSharedMemorySize;
  caps->max_invocations = limits->maxComputeWorkGroupInvocations;
  for (int i = 0; i < 3; ++i) {
    caps->max_workgroup_size[i] = limits->maxComputeWorkGroupSize[i];
    caps->max_workgroup_count[i] = limits->maxComputeWorkGroupCount[i];
  }
  uint32_t resources = limits->maxPerStageResources;
  caps->max_storage_bindings = VKF_MIN(limits->maxPerStageDescriptorStorageBuffers, resources);
  caps->max_storage_bindings = VKF_MIN(caps->max_storage_bindings, VKF_GPU_MAX_BINDINGS);
  caps->max_texel_bindings = VKF_MIN(limits->maxPerStageDescriptorSampledImages, resources);
  caps->max_texel_bindings = VKF_MIN(caps->max_texel_bindings, VKF_GPU_MAX_BINDINGS);
  caps->max_push_bytes = limits->maxPushConstantsSize;
}

static void fill_memory(vkf_caps *caps, const VkPhysicalDeviceMemoryProperties *memory) {
  for (uint32_t i = 0; i < memory->memoryHeapCount; ++i)
    if (memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      caps->memory_bytes = VKF_MAX(caps->memory_bytes, memory->memoryHeaps[i].size);
  /* Software drivers use the host's memory; some report 2 GiB, their limit for one allocation. */
  if (caps->kind == VKF_DEVICE_CPU) caps->memory_bytes = VKF_MAX(caps->memory_bytes, vkf_host_bytes());
  uint32_t type = vkf_gpu_memory_type(memory, UINT32_MAX, caps->kind, VKF_GPU_MEMORY_DEVICE);
  caps->host_visible = type != UINT32_MAX && vkf_gpu_memory_is_mapped(memory->memoryTypes[type].propertyFlags);
}

uint64_t vkf_gpu_memory_left(const vkf_vk_instance *vk, VkPhysicalDevice handle) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                  .pNext = &budget};
  uint64_t left = 0;
  vk->GetPhysicalDeviceMemoryProperties2(handle, &properties);
  for (uint32_t i = 0; i < properties.memoryProperties.memoryHeapCount; i++)
    if (properties.memoryProperties.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
        budget.heapBudget[i] > budget.heapUsage[i])
      left = VKF_MAX(left, budget.heapBudget[i] - budget.heapUsage[i]);
  return left;
}

static void fill_subgroups(vkf_caps *caps, const VkPhysicalDeviceSubgroupProperties *subgroup,
                           const VkPhysicalDeviceSubgroupSizeControlProperties *sizes) {
  caps->subgroup_size = caps->subgroup_min = caps->subgroup_max = subgroup->subgroupSize;
  if (sizes->minSubgroupSize > 0) {
    caps->subgroup_min = sizes->minSubgroupSize;
    caps->subgroup_max = sizes->maxSubgroupSize;
    caps->subgroup_size_control = sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
  }
  if (!(subgroup->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT)) return;
  VkSubgroupFeatureFlags operations = subgroup->supportedOperations;
  caps->subgroup_ballot = operations & VK_SUBGROUP_FEATURE_BALLOT_BIT;
  caps->subgroup_shuffle = operations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  caps->subgroup_arithmetic = operations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
}

static void fill_timestamps(vkf_caps *caps, const vkf_vk_instance *vk, VkPhysicalDevice handle, uint32_t queue_family,
                            float period_ns) {
  VkQueueFamilyProperties families[32];
  uint32_t n = VKF_COUNT(families);
  vk->GetPhysicalDeviceQueueFamilyProperties(handle, &n, families);
  if (queue_family >= n) return;
  caps->timestamp_bits = families[queue_family].timestampValidBits;
  caps->timestamps = caps->timestamp_bits > 0 && period_ns > 0;
  caps->timestamp_ns = caps->timestamps ? period_ns : 0;
}

/* Lists the shapes of f16 products that are added up in float32, as many as fit; kernels are written for some of
 * them. */
static void fill_matrix_shapes(vkf_caps *caps, const vkf_vk_instance *vk, VkPhysicalDevice handle,
                               const vkf_gpu_extensions *extensions) {
#ifdef VKF_HAS_COOPMAT
  VkCooperativeMatrixPropertiesKHR rows[64];
  uint32_t n = VKF_COUNT(rows);
  if (!vk->GetCooperativeMatrixProperties) return;
  if (!vkf_gpu_extensions_have(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) return;
  for (uint32_t i = 0; i < n; i++)
    rows[i] = (VkCooperativeMatrixPropertiesKHR){.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
  if (vk->GetCooperativeMatrixProperties(handle, &n, rows) < 0) return;
  for (uint32_t i = 0; i < n && caps->n_matrix_shapes < VKF_MAX_MATRIX_SHAPES; i++) {
    const VkCooperativeMatrixPropertiesKHR *r = &rows[i];
    if (r->scope != VK_SCOPE_SUBGROUP_KHR || r->AType != VK_COMPONENT_TYPE_FLOAT16_KHR || r->BType != r->AType ||
        r->CType != VK_COMPONENT_TYPE_FLOAT32_KHR || r->ResultType != r->CType)
      continue;
    caps->matrix_shapes[caps->n_matrix_shapes++] = (vkf_matrix_shape){r->MSize, r->NSize, r->KSize};
  }
#else
  (void)vk, (void)handle;
  caps->coopmat_left_out = vkf_gpu_extensions_have(extensions, "VK_KHR_cooperative_matrix");
#endif
}

enum { INTEL = 0x8086, APPLE = 0x106b, NVIDIA = 0x10de };
/* VK_DRIVER_ID_MESA_HONEYKRISP, which older headers do not have. */
enum { HONEYKRISP = 26 };

/* Returns how many numbers compilers can keep in registers without spilling, besides addresses and loop counters, as
 * found with Mesa's compilers for these vendors' chips (scripts/farm). Intel's come from its manuals: a thread has 128
 * registers, each of which holds a number for every lane of the smallest subgroup. */
static uint32_t registers_of(uint32_t vendor_id, uint32_t driver_id) {
  static const struct {
    uint32_t vendor_id, n;
  } rows[] = {{0x1002 /* AMD */, 192},
              {NVIDIA, 192},
              {0x5143 /* Qualcomm */, 128},
              {APPLE, 96},
              {INTEL, 48},
              {0x13b5 /* ARM */, 48},
              {0x14e4 /* Broadcom: of 64; v3dv of Mesa 26.2 spills from 44 on */, 40}};
  /* NVIDIA's own compiler (580.159.04) has 255, and kept 212 of our numbers in them. */
  if (driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY) return 216;
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    if (rows[i].vendor_id == vendor_id) return rows[i].n;
  return 0;
}

/* Each vendor has its own extension and its own word for a core. */
static void fill_cores(vkf_caps *caps, const vkf_vk_instance *vk, VkPhysicalDevice handle,
                       const vkf_gpu_extensions *extensions) {
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
  VkPhysicalDeviceShaderCorePropertiesAMD amd = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM};
  if (vkf_gpu_extensions_have(extensions, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    properties.pNext = &nvidia;
    vk->GetPhysicalDeviceProperties2(handle, &properties);
    caps->n_cores = nvidia.shaderSMCount;
  } else if (vkf_gpu_extensions_have(extensions, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
    properties.pNext = &amd;
    vk->GetPhysicalDeviceProperties2(handle, &properties);
    caps->n_cores = amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
  } else if (vkf_gpu_extensions_have(extensions, VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME)) {
    properties.pNext = &arm;
    vk->GetPhysicalDeviceProperties2(handle, &properties);
    caps->n_cores = arm.shaderCoreCount;
  }
}

/* Fills in what no driver reports, by the names of driver and device. */
static void fill_known(vkf_caps *caps) {
  const bool is_lavapipe = caps->driver_id == VKF_DRIVER_ID_LAVAPIPE;
  caps->vector_bits = vkf_gpu_caps_vector_bits(caps->device_name);
  caps->uniform_loads = is_lavapipe && caps->driver_version >= UNIFORM_LOADS_LAVAPIPE;
  caps->max_loop_turns =
      is_lavapipe && caps->driver_version < LIMITLESS_LOOPS_LAVAPIPE ? LAVAPIPE_LOOP_TURNS : UINT32_MAX;
  caps->indexed_registers = caps->driver_id != VKF_DRIVER_ID_V3DV;
  caps->matrices_ahead = caps->is_cpu || caps->vendor_id == NVIDIA; /* the tests of software drivers run both ways */
  if (caps->is_cpu) return;
  /* Mesa's driver for Apple's chips reports Mesa's vendor id. */
  caps->n_registers = registers_of(caps->driver_id == HONEYKRISP ? APPLE : caps->vendor_id, caps->driver_id);
  if (caps->vendor_id == INTEL) caps->subgroup_registers = 2 * caps->n_registers * caps->subgroup_min;
}

void vkf_gpu_caps_fill(const vkf_vk_instance *vk, VkPhysicalDevice handle, uint32_t instance_version,
                       const vkf_gpu_extensions *extensions, uint32_t queue_family, vkf_caps *out) {
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties allocation = {.sType =
                                                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceMaintenance4Properties buffers = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
                                                    .maxBufferSize = UINT64_MAX};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceMemoryProperties memory;

  vk->GetPhysicalDeviceProperties2(handle, &properties);
  uint32_t version = VKF_MIN(properties.properties.apiVersion, instance_version);
  properties.pNext = &id;
  id.pNext = &allocation;
  allocation.pNext = &subgroup;
  void **tail = &subgroup.pNext;
  if (version >= VK_API_VERSION_1_2 || vkf_gpu_extensions_have(extensions, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) {
    *tail = &driver;
    tail = &driver.pNext;
  }
  if (version >= VK_API_VERSION_1_3 ||
      vkf_gpu_extensions_have(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
    *tail = &sizes;
    tail = &sizes.pNext;
  }
  if (version >= VK_API_VERSION_1_3 ||
      vkf_gpu_extensions_have(extensions, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
    *tail = &dot;
    tail = &dot.pNext;
  }
  if (version >= VK_API_VERSION_1_3) *tail = &buffers;
  vk->GetPhysicalDeviceProperties2(handle, &properties);
  vk->GetPhysicalDeviceMemoryProperties(handle, &memory);

  const VkPhysicalDeviceProperties *p = &properties.properties;
  memset(out, 0, sizeof(*out));
  out->kind = kind_of(p->deviceType);
  out->is_cpu = out->kind == VKF_DEVICE_CPU;
  snprintf(out->device_name, sizeof(out->device_name), "%s", p->deviceName);
  snprintf(out->driver_name, sizeof(out->driver_name), "%s", driver.driverName);
  snprintf(out->driver_info, sizeof(out->driver_info), "%s", driver.driverInfo);
  memcpy(out->uuid, id.deviceUUID, sizeof(out->uuid));
  memcpy(out->pipeline_cache_uuid, p->pipelineCacheUUID, sizeof(out->pipeline_cache_uuid));
  out->vendor_id = p->vendorID;
  out->device_id = p->deviceID;
  out->driver_id = (uint32_t)driver.driverID;
  out->driver_version = p->driverVersion;
  out->api_version = version;
  out->max_allocation_bytes = VKF_MIN(allocation.maxMemoryAllocationSize, buffers.maxBufferSize);
  fill_limits(out, &p->limits);
  fill_memory(out, &memory);
  fill_subgroups(out, &subgroup, &sizes);
  out->integer_dot_fast = dot.integerDotProduct4x8BitPackedSignedAccelerated;
  fill_known(out);
  fill_timestamps(out, vk, handle, queue_family, p->limits.timestampPeriod);
  fill_matrix_shapes(out, vk, handle, extensions);
  fill_cores(out, vk, handle, extensions);
}

bool vkf_gpu_memory_is_mapped(VkMemoryPropertyFlags flags) {
  return (flags & VKF_GPU_MAPPED_FLAGS) == VKF_GPU_MAPPED_FLAGS;
}

/* Returns the type with every flag of `required` and the most points: a wanted flag gives 2, an unwanted one takes
 * 1. */
static uint32_t best_type(const VkPhysicalDeviceMemoryProperties *properties, uint32_t allowed,
                          VkMemoryPropertyFlags required, VkMemoryPropertyFlags wanted,
                          VkMemoryPropertyFlags unwanted) {
  uint32_t best = UINT32_MAX;
  int best_points = 0;
  for (uint32_t i = 0; i < properties->memoryTypeCount; ++i) {
    VkMemoryPropertyFlags flags = properties->memoryTypes[i].propertyFlags;
    if (!(allowed >> i & 1) || (flags & required) != required) continue;
    /* Protected and device-coherent memory need features that are not enabled. */
    if (flags & (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD)) continue;
    int points = 0;
    for (uint32_t bit = 1; bit <= VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT; bit <<= 1)
      points += (flags & wanted & bit ? 2 : 0) - (flags & unwanted & bit ? 1 : 0);
    if (best == UINT32_MAX || points > best_points) {
      best = i;
      best_points = points;
    }
  }
  return best;
}

uint32_t vkf_gpu_memory_type(const VkPhysicalDeviceMemoryProperties *properties, uint32_t allowed, vkf_device_kind kind,
                             vkf_gpu_memory memory) {
  const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                              mapped = VKF_GPU_MAPPED_FLAGS;
  uint32_t type = UINT32_MAX;
  switch (memory) {
    case VKF_GPU_MEMORY_DEVICE:
    case VKF_GPU_MEMORY_LARGE:
      /* If host and device share memory, the host writes weights in place. */
      if (kind == VKF_DEVICE_CPU || kind == VKF_DEVICE_INTEGRATED)
        type = best_type(properties, allowed, local | mapped, cached, 0);
      if (type == UINT32_MAX) type = best_type(properties, allowed, local, 0, mapped | cached);
      if (type == UINT32_MAX) type = best_type(properties, allowed, 0, mapped, 0);
      return type;
    case VKF_GPU_MEMORY_UPLOAD:
      return best_type(properties, allowed, mapped, local, cached);
    case VKF_GPU_MEMORY_READBACK:
      return best_type(properties, allowed, mapped, cached, local);
  }
  return type;
}
