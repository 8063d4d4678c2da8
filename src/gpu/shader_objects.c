/* shader_objects: kernels as shader objects (VK_EXT_shader_object), whose compiled form is kept for drivers that keep
 * too little of it themselves.
 *
 * lavapipe keeps LLVM's machine code on disk, but it parses and optimises the SPIR-V of a kernel again in every
 * process: 0.03 to 0.06 s each (Mesa 26, Zen 5), half the time of a process that translates one sentence. A shader
 * object gives the result as bytes, and is made from them in 0.005 s. Owns nothing; the forms belong to the device and
 * are used under the lock of its pipelines. A driver must refuse bytes that it cannot use (Vulkan 1.3, 9.8 "Binary
 * Shader Code"), and lavapipe compares a hash; then the kernel is made from SPIR-V.
 */
#include "gpu/vk.h"

uint64_t vkf_gpu_shader_key(const vkf_gpu_device *device, const vkf_gpu_pipeline_params *params) {
  /* The device's name has the vector width, which the driver compiles in. */
  uint64_t key = vkf_hash_text(vkf_hash_text(VKF_HASH_START, device->caps.device_name), params->name);
  key = vkf_hash_words(key, params->code, params->code_bytes);
  key = vkf_hash_bytes(key, params->constants, params->n_constants * sizeof *params->constants);
  key = vkf_hash_step(vkf_hash_step(key, params->subgroup_size), params->subgroup_full);
  key = vkf_hash_step(vkf_hash_step(key, params->push_bytes), params->n_bindings);
  for (uint32_t i = 0; i < params->n_bindings; ++i)
    key = vkf_hash_step(key, params->kinds ? params->kinds[i] : VKF_GPU_BINDING_STORAGE);
  return key;
}

#ifdef VK_EXT_shader_object

VkResult vkf_gpu_shader_create(const vkf_gpu_device *device, const vkf_gpu_pipeline_params *params,
                               const VkSpecializationInfo *constants, const vkf_gpu_form *form,
                               vkf_gpu_pipeline *pipeline) {
  const VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = params->push_bytes};
  const VkShaderRequiredSubgroupSizeCreateInfoEXT required = {
      .sType = VK_STRUCTURE_TYPE_SHADER_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
      .requiredSubgroupSize = params->subgroup_size};
  VkShaderCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_SHADER_CREATE_INFO_EXT,
                                .pNext = vkf_gpu_requests_size(&device->caps, params->subgroup_size) ? &required : NULL,
                                .flags = params->subgroup_full ? VK_SHADER_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT : 0,
                                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                .codeType = form ? VK_SHADER_CODE_TYPE_BINARY_EXT : VK_SHADER_CODE_TYPE_SPIRV_EXT,
                                .codeSize = form ? form->n : params->code_bytes,
                                .pCode = form ? (const void *)form->bytes : params->code,
                                .pName = "main",
                                .setLayoutCount = 1,
                                .pSetLayouts = &pipeline->layout->set,
                                .pushConstantRangeCount = params->push_bytes > 0,
                                .pPushConstantRanges = &push,
                                .pSpecializationInfo = params->n_constants ? constants : NULL};
  return device->vk.CreateShadersEXT(device->handle, 1, &info, NULL, &pipeline->shader);
}

vkf_status vkf_gpu_shader_keep(vkf_gpu_device *device, uint64_t key, const vkf_gpu_pipeline *pipeline) {
  size_t n = 0;
  VKF_CALL(VKF_VK(device, GetShaderBinaryDataEXT, device->handle, pipeline->shader, &n, NULL));
  unsigned char *bytes = vkf_gpu_forms_add(device->root->forms, device->env, key, n);
  if (!bytes) return VKF_ERROR_MEMORY;
  return VKF_VK(device, GetShaderBinaryDataEXT, device->handle, pipeline->shader, &n, bytes);
}

void vkf_gpu_shader_bind(const vkf_gpu_device *device, VkCommandBuffer commands, const vkf_gpu_pipeline *pipeline) {
  const VkShaderStageFlagBits stage = VK_SHADER_STAGE_COMPUTE_BIT;
  device->vk.CmdBindShadersEXT(commands, 1, &stage, &pipeline->shader);
}

void vkf_gpu_shader_destroy(const vkf_gpu_device *device, vkf_gpu_pipeline *pipeline) {
  if (pipeline->shader) device->vk.DestroyShaderEXT(device->handle, pipeline->shader, NULL);
}

#else /* no device has forms */

VkResult vkf_gpu_shader_create(const vkf_gpu_device *device, const vkf_gpu_pipeline_params *params,
                               const VkSpecializationInfo *constants, const vkf_gpu_form *form,
                               vkf_gpu_pipeline *pipeline) {
  (void)device, (void)params, (void)constants, (void)form, (void)pipeline;
  return VK_ERROR_EXTENSION_NOT_PRESENT;
}

vkf_status vkf_gpu_shader_keep(vkf_gpu_device *device, uint64_t key, const vkf_gpu_pipeline *pipeline) {
  (void)device, (void)key, (void)pipeline;
  return VKF_OK;
}

void vkf_gpu_shader_bind(const vkf_gpu_device *device, VkCommandBuffer commands, const vkf_gpu_pipeline *pipeline) {
  (void)device, (void)commands, (void)pipeline;
}

void vkf_gpu_shader_destroy(const vkf_gpu_device *device, vkf_gpu_pipeline *pipeline) {
  (void)device, (void)pipeline;
}

#endif
