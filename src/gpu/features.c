/* Features by name: what a device has, what a caller enabled, and what is enabled when a device is made here.
 *
 * Owns nothing. It enables only what kernels use. Robust buffer access in particular stays off: it halves the speed of
 * some drivers. Invariant: facts -> features -> facts is the identity, so what caps says is what is enabled.
 */
#include <string.h>

#include "gpu/vk.h"

/* The extensions of features, and the version in which each became part of Vulkan (0: never). */
typedef enum feature_extension {
  EXT_8BIT,
  EXT_FLOAT16,
  EXT_ADDRESS,
  EXT_SIZE_CONTROL,
  EXT_MEMORY_MODEL,
  EXT_COOPMAT,
  EXT_COOPMAT2,
  EXT_INTEGER_DOT,
  EXT_EXECUTABLES,
  EXT_HOST_MEMORY,
  EXT_SHADER_OBJECT,
  EXT_PORTABILITY
} feature_extension;

static const struct {
  const char *name;
  uint32_t built_in;
} extension_rows[] = {
    [EXT_8BIT] = {VK_KHR_8BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2},
    [EXT_FLOAT16] = {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2},
    [EXT_ADDRESS] = {VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_API_VERSION_1_2},
    [EXT_SIZE_CONTROL] = {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3},
    [EXT_MEMORY_MODEL] = {VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2},
    [EXT_COOPMAT] = {"VK_KHR_cooperative_matrix", 0},
    [EXT_COOPMAT2] = {"VK_NV_cooperative_matrix2", 0},
    [EXT_INTEGER_DOT] = {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, VK_API_VERSION_1_3},
    [EXT_EXECUTABLES] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, 0},
    [EXT_HOST_MEMORY] = {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, 0},
    [EXT_SHADER_OBJECT] = {"VK_EXT_shader_object", 0},
    [EXT_PORTABILITY] = {"VK_KHR_portability_subset", 0}, /* must be enabled if a device offers it */
};

_Static_assert(VKF_COUNT(extension_rows) <= VKF_GPU_MAX_EXTENSIONS, "room for all names");

static bool known(feature_extension extension, uint32_t version, const vkf_gpu_extensions *extensions) {
  uint32_t built_in = extension_rows[extension].built_in;
  return (built_in && version >= built_in) || vkf_gpu_extensions_have(extensions, extension_rows[extension].name);
}

void vkf_gpu_features_link(vkf_gpu_features *features, uint32_t api_version, const vkf_gpu_extensions *extensions) {
  memset(features, 0, sizeof(*features));
  features->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features->storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  features->storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  features->float16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  features->address.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
  features->size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  features->memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  features->integer_dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  features->executables.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;

  features->core.pNext = &features->storage16;
  void **tail = &features->storage16.pNext;
#define LINK(extension, member)                    \
  if (known(extension, api_version, extensions)) { \
    *tail = &features->member;                     \
    tail = &features->member.pNext;                \
  }
  LINK(EXT_8BIT, storage8)
  LINK(EXT_FLOAT16, float16)
  LINK(EXT_ADDRESS, address)
  LINK(EXT_SIZE_CONTROL, size_control)
  LINK(EXT_MEMORY_MODEL, memory_model)
  LINK(EXT_INTEGER_DOT, integer_dot)
  LINK(EXT_EXECUTABLES, executables)
#ifdef VK_EXT_shader_object
  features->shader_object.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_OBJECT_FEATURES_EXT;
  LINK(EXT_SHADER_OBJECT, shader_object)
#endif
#ifdef VKF_HAS_COOPMAT
  features->coopmat.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  LINK(EXT_COOPMAT, coopmat)
#endif
#ifdef VKF_HAS_COOPMAT2
  features->coopmat2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV;
  LINK(EXT_COOPMAT2, coopmat2)
#endif
#undef LINK
}

void vkf_gpu_features_to_caps(const vkf_gpu_features *features, vkf_caps *caps) {
  caps->int64 = features->core.features.shaderInt64;
  caps->int16 = features->core.features.shaderInt16;
  caps->storage16 = features->storage16.storageBuffer16BitAccess;
  caps->storage8 = features->storage8.storageBuffer8BitAccess;
  caps->float16 = features->float16.shaderFloat16;
  caps->int8 = features->float16.shaderInt8;
  caps->buffer_address = features->address.bufferDeviceAddress;
  /* The properties say for which stages a size may be required: MoltenVK has the feature but no stage. */
  caps->subgroup_size_control = caps->subgroup_size_control && features->size_control.subgroupSizeControl;
  caps->subgroup_full = features->size_control.computeFullSubgroups;
  caps->integer_dot = features->integer_dot.shaderIntegerDotProduct;
  caps->pipeline_statistics = features->executables.pipelineExecutableInfo;
#ifdef VK_EXT_shader_object
  caps->shader_objects = caps->is_cpu && features->shader_object.shaderObject; /* drivers of GPUs keep kernels */
#endif
#ifdef VKF_HAS_COOPMAT
  /* Its kernels set their flag by an atomic operation, which in that memory model has the scope of the device. */
  caps->coopmat = features->coopmat.cooperativeMatrix && features->memory_model.vulkanMemoryModel &&
                  features->memory_model.vulkanMemoryModelDeviceScope && caps->float16;
#endif
#ifdef VKF_HAS_COOPMAT2
  /* No check tests yet whether a driver multiplies these correctly; only NVIDIA's own was seen to. */
  const VkPhysicalDeviceCooperativeMatrix2FeaturesNV *f = &features->coopmat2;
  caps->coopmat2 = caps->driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY && caps->api_version >= VK_API_VERSION_1_3 &&
                   caps->coopmat && caps->storage16 && f->cooperativeMatrixWorkgroupScope &&
                   f->cooperativeMatrixFlexibleDimensions && f->cooperativeMatrixPerElementOperations &&
                   f->cooperativeMatrixTensorAddressing;
#endif
}

void vkf_gpu_features_from_caps(vkf_gpu_features *features, const vkf_caps *caps) {
  features->core.features.shaderInt64 = caps->int64;
  features->core.features.shaderInt16 = caps->int16;
  features->storage16.storageBuffer16BitAccess = caps->storage16;
  features->storage8.storageBuffer8BitAccess = caps->storage8;
  features->float16.shaderFloat16 = caps->float16;
  features->float16.shaderInt8 = caps->int8;
  features->address.bufferDeviceAddress = caps->buffer_address;
  features->size_control.subgroupSizeControl = caps->subgroup_size_control;
  features->size_control.computeFullSubgroups = caps->subgroup_full;
  features->integer_dot.shaderIntegerDotProduct = caps->integer_dot;
  features->executables.pipelineExecutableInfo = caps->pipeline_statistics;
#ifdef VK_EXT_shader_object
  features->shader_object.shaderObject = caps->shader_objects;
#endif
#ifdef VKF_HAS_COOPMAT
  features->coopmat.cooperativeMatrix = caps->coopmat;
  features->memory_model.vulkanMemoryModel = features->memory_model.vulkanMemoryModelDeviceScope = caps->coopmat;
#endif
#ifdef VKF_HAS_COOPMAT2
  const bool matrix2 = caps->coopmat && caps->coopmat2; /* limits may remove one of them alone */
  features->coopmat2.cooperativeMatrixWorkgroupScope = matrix2;
  features->coopmat2.cooperativeMatrixFlexibleDimensions = matrix2;
  features->coopmat2.cooperativeMatrixPerElementOperations = matrix2;
  features->coopmat2.cooperativeMatrixTensorAddressing = matrix2;
#endif
}

/* Where features are in the structs that a caller may chain: structs of single extensions, and structs of a whole
 * version of Vulkan. */
#define FEATURE(TYPE, type, member, to)                                                            \
  {                                                                                                \
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##TYPE##_FEATURES, offsetof(VkPhysicalDevice##type, member), \
        offsetof(vkf_gpu_features, to.member)                                                      \
  }
static const struct {
  VkStructureType type;
  size_t from, to; /* offsets of a VkBool32: in the caller's struct, in vkf_gpu_features */
} chained[] = {
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, offsetof(VkPhysicalDeviceFeatures2, features.shaderInt64),
     offsetof(vkf_gpu_features, core.features.shaderInt64)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, offsetof(VkPhysicalDeviceFeatures2, features.shaderInt16),
     offsetof(vkf_gpu_features, core.features.shaderInt16)},
    FEATURE(16BIT_STORAGE, 16BitStorageFeatures, storageBuffer16BitAccess, storage16),
    FEATURE(8BIT_STORAGE, 8BitStorageFeatures, storageBuffer8BitAccess, storage8),
    FEATURE(SHADER_FLOAT16_INT8, ShaderFloat16Int8Features, shaderFloat16, float16),
    FEATURE(SHADER_FLOAT16_INT8, ShaderFloat16Int8Features, shaderInt8, float16),
    FEATURE(BUFFER_DEVICE_ADDRESS, BufferDeviceAddressFeatures, bufferDeviceAddress, address),
    FEATURE(SUBGROUP_SIZE_CONTROL, SubgroupSizeControlFeatures, subgroupSizeControl, size_control),
    FEATURE(SUBGROUP_SIZE_CONTROL, SubgroupSizeControlFeatures, computeFullSubgroups, size_control),
    FEATURE(SHADER_INTEGER_DOT_PRODUCT, ShaderIntegerDotProductFeatures, shaderIntegerDotProduct, integer_dot),
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
     offsetof(VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR, pipelineExecutableInfo),
     offsetof(vkf_gpu_features, executables.pipelineExecutableInfo)},
    FEATURE(VULKAN_MEMORY_MODEL, VulkanMemoryModelFeatures, vulkanMemoryModel, memory_model),
    FEATURE(VULKAN_MEMORY_MODEL, VulkanMemoryModelFeatures, vulkanMemoryModelDeviceScope, memory_model),
#ifdef VK_EXT_shader_object
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_OBJECT_FEATURES_EXT,
     offsetof(VkPhysicalDeviceShaderObjectFeaturesEXT, shaderObject),
     offsetof(vkf_gpu_features, shader_object.shaderObject)},
#endif
#ifdef VKF_HAS_COOPMAT
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
     offsetof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix),
     offsetof(vkf_gpu_features, coopmat.cooperativeMatrix)},
#endif
#ifdef VKF_HAS_COOPMAT2
#define MATRIX2(member)                                                                                             \
  {                                                                                                                 \
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,                                             \
        offsetof(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, member), offsetof(vkf_gpu_features, coopmat2.member) \
  }
    MATRIX2(cooperativeMatrixWorkgroupScope),
    MATRIX2(cooperativeMatrixFlexibleDimensions),
    MATRIX2(cooperativeMatrixPerElementOperations),
    MATRIX2(cooperativeMatrixTensorAddressing),
#undef MATRIX2
#endif
    FEATURE(VULKAN_1_1, Vulkan11Features, storageBuffer16BitAccess, storage16),
    FEATURE(VULKAN_1_2, Vulkan12Features, storageBuffer8BitAccess, storage8),
    FEATURE(VULKAN_1_2, Vulkan12Features, shaderFloat16, float16),
    FEATURE(VULKAN_1_2, Vulkan12Features, shaderInt8, float16),
    FEATURE(VULKAN_1_2, Vulkan12Features, bufferDeviceAddress, address),
    FEATURE(VULKAN_1_2, Vulkan12Features, vulkanMemoryModel, memory_model),
    FEATURE(VULKAN_1_2, Vulkan12Features, vulkanMemoryModelDeviceScope, memory_model),
    FEATURE(VULKAN_1_3, Vulkan13Features, subgroupSizeControl, size_control),
    FEATURE(VULKAN_1_3, Vulkan13Features, computeFullSubgroups, size_control),
    FEATURE(VULKAN_1_3, Vulkan13Features, shaderIntegerDotProduct, integer_dot),
};
#undef FEATURE

void vkf_gpu_features_from_chain(vkf_gpu_features *features, const void *chain) {
  memset(features, 0, sizeof(*features));
  for (const VkBaseInStructure *s = chain; s; s = s->pNext)
    for (size_t i = 0; i < VKF_COUNT(chained); i++)
      if (s->sType == chained[i].type)
        memcpy((char *)features + chained[i].to, (const char *)s + chained[i].from, sizeof(VkBool32));
}

size_t vkf_gpu_features_extensions(const vkf_caps *caps, const vkf_gpu_extensions *offered, const char **names) {
  const bool used[] = {
      [EXT_8BIT] = caps->storage8,
      [EXT_FLOAT16] = caps->float16 || caps->int8,
      [EXT_ADDRESS] = caps->buffer_address,
      [EXT_SIZE_CONTROL] = caps->subgroup_size_control || caps->subgroup_full,
      [EXT_MEMORY_MODEL] = caps->coopmat,
      [EXT_COOPMAT] = caps->coopmat,
      [EXT_COOPMAT2] = caps->coopmat && caps->coopmat2,
      [EXT_INTEGER_DOT] = caps->integer_dot,
      [EXT_EXECUTABLES] = caps->pipeline_statistics,
      [EXT_HOST_MEMORY] = vkf_gpu_large_pages_wanted(caps),
      [EXT_SHADER_OBJECT] = caps->shader_objects,
      [EXT_PORTABILITY] = true,
  };
  size_t n = 0;
  for (size_t i = 0; i < VKF_COUNT(used); ++i) {
    uint32_t built_in = extension_rows[i].built_in;
    if (!used[i] || (built_in && caps->api_version >= built_in)) continue;
    if (vkf_gpu_extensions_have(offered, extension_rows[i].name)) names[n++] = extension_rows[i].name;
  }
  return n;
}
