/* Device: made here with the features that kernels use, or adopted from a caller, and its state.
 *
 * Owns the VkDevice if it was made here, and always the queue's command pool, pipelines and log. Refuses work once the
 * device is lost. Invariant: every feature that caps names is enabled on the handle.
 */
#include <unistd.h>

#include "gpu/vk.h"

#define DEFAULT_RING_BYTES (4ull << 20)
#define DEFAULT_WAIT_NS (600ull * 1000 * 1000 * 1000)

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Sets what made and adopted devices have in common, after handle and caps. */
static vkf_status init(vkf_gpu_device *device, bool has_labels) {
  const uint64_t most = device->caps.max_allocation_bytes / 2 / 4 * 4; /* of two halves in one allocation */
  device->staging.half_bytes = VKF_MIN(device->staging.half_bytes, VKF_MAX(most, UINT64_C(4)));
  VKF_CALL(vkf_gpu_table_load_device(device, has_labels));
  if (device->caps.shader_objects && !vkf_gpu_validation_enabled(device)) { /* the layer does not track them */
    device->forms = vkf_env_alloc(device->env, 1, sizeof *device->forms);
    if (!device->forms) return VKF_ERROR_MEMORY;
  }
  return vkf_gpu_queue_init(device);
}

static vkf_gpu_device *allocate(vkf_env *env, const vkf_gpu_device_params *params) {
  vkf_gpu_device *device = vkf_env_alloc(env, 1, sizeof(*device));
  if (!device) return NULL;
  device->env = env;
  device->root = device;
  device->wait_ns = params && params->wait_ns ? params->wait_ns : DEFAULT_WAIT_NS;
  device->logging = params && params->hazard_log;
  device->staging.half_bytes = params && params->ring_bytes ? params->ring_bytes : DEFAULT_RING_BYTES;
  vkf_gpu_log_init(&device->log, env);
  pthread_mutex_init(&device->queue_lock, NULL);
  pthread_mutex_init(&device->pipelines_lock, NULL);
  return device;
}

static vkf_status create_handle(vkf_gpu_device *device, const vkf_gpu_adapter *adapter) {
  const vkf_vk_instance *vk = &device->instance->vk;
  const char *names[VKF_GPU_MAX_EXTENSIONS];
  vkf_gpu_extensions offered;
  vkf_gpu_features features;
  VKF_CALL(vkf_gpu_extensions_list(device->env, vk, adapter->handle, &offered));
  vkf_gpu_features_link(&features, device->caps.api_version, &offered);
  vkf_gpu_features_from_caps(&features, &device->caps);

  device->has_large_pages = vkf_gpu_extensions_have(&offered, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME) &&
                            vkf_gpu_large_pages_can(vk, adapter->handle, &device->caps);
  if (device->caps.kind != VKF_DEVICE_CPU && vkf_gpu_extensions_have(&offered, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME))
    device->budget_of = adapter->handle;

  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                   .queueFamilyIndex = adapter->queue_family,
                                   .queueCount = 1,
                                   .pQueuePriorities = &priority};
  VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = &features.core,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue,
      .enabledExtensionCount = (uint32_t)vkf_gpu_features_extensions(&device->caps, &offered, names),
      .ppEnabledExtensionNames = names};
  const bool alone = vkf_gpu_compile_begin(&device->caps);
  VkResult r = vk->CreateDevice(adapter->handle, &info, NULL, &device->handle);
  vkf_gpu_compile_end(alone);
  vkf_gpu_extensions_finish(device->env, &offered);
  VKF_CALL(vkf_gpu_device_result(device, r, "vkCreateDevice"));
  device->owned = true;
  return vkf_gpu_awake_create(device->env, &device->caps, &device->awake);
}

vkf_status vkf_gpu_device_create(vkf_gpu_instance *instance, size_t index, const vkf_gpu_device_params *params,
                                 vkf_gpu_device **out) {
  vkf_status st = VKF_OK;
  *out = NULL;
  if (index >= instance->n_adapters)
    return vkf_env_fail(instance->env, VKF_ERROR_NO_DEVICE, "expected a device index below %zu, found %zu",
                        instance->n_adapters, index);
  const vkf_gpu_adapter *adapter = &instance->adapters[index];
  vkf_gpu_device *device = allocate(instance->env, params);
  if (!device) return VKF_ERROR_MEMORY;
  device->instance = instance;
  device->caps = adapter->caps;
  device->queue_family = adapter->queue_family;
  device->get_device_proc_addr = instance->vk.GetDeviceProcAddr;
  instance->vk.GetPhysicalDeviceMemoryProperties(adapter->handle, &device->memory_properties);
  if (params && params->staged) device->caps.host_visible = false;
  if (params && params->lower) VKF_TRY(params->lower(params->user, &device->caps));
  VKF_TRY(create_handle(device, adapter));
  VKF_TRY(init(device, instance->debug_utils));
  device->vk.GetDeviceQueue(device->handle, device->queue_family, 0, &device->queue);
  *out = device;
done:
  if (st != VKF_OK) vkf_gpu_device_destroy(&device);
  return st;
}

/* Fills in the facts of a caller's device: the limits of the hardware, the features that the caller enabled. */
static void adopt_caps(vkf_gpu_device *device, const vkf_vk_instance *vk, const vkf_device_handles *handles) {
  VkPhysicalDevice physical = handles->physical_device;
  vkf_gpu_extensions enabled = {.n = handles->n_extensions, .names = (const char **)handles->extensions};
  vkf_gpu_features features;
  vkf_gpu_caps_fill(vk, physical, VK_API_VERSION_1_3, &enabled, handles->queue_family, &device->caps);
  vkf_gpu_features_from_chain(&features, handles->features);
  vkf_gpu_features_to_caps(&features, &device->caps);
  vk->GetPhysicalDeviceMemoryProperties(physical, &device->memory_properties);
}

vkf_status vkf_gpu_device_adopt(vkf_env *env, const vkf_device_handles *handles, const vkf_gpu_device_params *params,
                                vkf_gpu_device **out) {
  vkf_status st = VKF_OK;
  vkf_vk_instance vk;
  *out = NULL;
  if (!handles->get_instance_proc_addr || !handles->instance || !handles->physical_device || !handles->device ||
      !handles->queue || (handles->n_extensions > 0 && !handles->extensions))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "expected every handle of the device to adopt, found one that is NULL");
  if (!handles->lock_queue != !handles->unlock_queue)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "expected lock_queue and unlock_queue, or neither, found one of them NULL");
  vkf_gpu_device *device = allocate(env, params);
  if (!device) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_gpu_table_load_instance(env, handles->get_instance_proc_addr, handles->instance, &vk));
  adopt_caps(device, &vk, handles);
  if (device->caps.api_version < VK_API_VERSION_1_1)
    VKF_FAIL(env, VKF_ERROR_UNSUPPORTED, "expected a device with Vulkan 1.1 or newer, found %s with %u.%u",
             device->caps.device_name, VK_API_VERSION_MAJOR(device->caps.api_version),
             VK_API_VERSION_MINOR(device->caps.api_version));
  if (params && params->staged) device->caps.host_visible = false;
  if (params && params->lower) VKF_TRY(params->lower(params->user, &device->caps));
  device->handle = handles->device;
  device->queue = handles->queue;
  device->lock_queue = handles->lock_queue;
  device->unlock_queue = handles->unlock_queue;
  device->queue_user = handles->queue_user;
  device->queue_family = handles->queue_family;
  device->get_device_proc_addr = vk.GetDeviceProcAddr;
  VKF_TRY(init(device, false));
  env->process = getpid();
  *out = device;
done:
  if (st != VKF_OK) vkf_gpu_device_destroy(&device);
  return st;
}

vkf_status vkf_gpu_device_branch(vkf_gpu_device *device, vkf_env *env, vkf_gpu_device **out) {
  vkf_status st = VKF_OK;
  *out = NULL;
  const vkf_gpu_device_params params = {
      .wait_ns = device->wait_ns, .hazard_log = device->logging, .ring_bytes = device->staging.half_bytes};
  vkf_gpu_device *line = allocate(env, &params);
  if (!line) return VKF_ERROR_MEMORY;
  line->root = device->root;
  line->instance = device->instance;
  line->vk = device->vk;
  line->handle = device->handle;
  line->has_large_pages = device->has_large_pages;
  line->queue = device->queue;
  line->queue_family = device->queue_family;
  line->lock_queue = device->lock_queue;
  line->unlock_queue = device->unlock_queue;
  line->queue_user = device->queue_user;
  line->memory_properties = device->memory_properties;
  line->caps = device->caps;
  line->pipeline_cache = device->pipeline_cache;
  VKF_TRY(vkf_gpu_device_alive(line));
  VKF_TRY(vkf_gpu_queue_init(line));
  *out = line;
done:
  if (st != VKF_OK) vkf_gpu_device_destroy(&line);
  return st;
}

void vkf_gpu_device_destroy(vkf_gpu_device **device) {
  vkf_gpu_device *it = *device;
  *device = NULL;
  if (!it) return;
  vkf_gpu_queue_drain(it);
  vkf_gpu_awake_destroy(&it->awake);
  vkf_gpu_staging_release(it);
  if (it->root == it) vkf_gpu_pipelines_finish(it);
  vkf_gpu_queue_finish(it);
  if (it->owned && it->vk.DestroyDevice) it->vk.DestroyDevice(it->handle, NULL);
  vkf_gpu_log_finish(&it->log);
  vkf_env_free(it->env, it->submit_list);
  pthread_mutex_destroy(&it->queue_lock);
  pthread_mutex_destroy(&it->pipelines_lock);
  vkf_env_free(it->env, it);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

const vkf_caps *vkf_gpu_device_caps(const vkf_gpu_device *device) {
  return &device->caps;
}

void vkf_gpu_device_lower(vkf_gpu_device *device, const vkf_caps *caps) {
  device->caps = *caps;
}

vkf_env *vkf_gpu_device_env(vkf_gpu_device *device) {
  return device->env;
}

void vkf_gpu_device_memory(const vkf_gpu_device *device, uint64_t *now_bytes, uint64_t *peak_bytes) {
  if (now_bytes) *now_bytes = device->root->now_bytes;
  if (peak_bytes) *peak_bytes = device->root->peak_bytes;
}

uint64_t vkf_gpu_device_memory_left(const vkf_gpu_device *device) {
  const vkf_gpu_device *root = device->root;
  const uint64_t left = root->budget_of ? vkf_gpu_memory_left(&root->instance->vk, root->budget_of) : 0;
  if (left) return left;
  return root->caps.memory_bytes > root->now_bytes ? root->caps.memory_bytes - root->now_bytes : 0;
}

void vkf_gpu_device_pipelines(const vkf_gpu_device *device, size_t *count, uint64_t *ns) {
  vkf_gpu_device *root = device->root;
  pthread_mutex_lock(&root->pipelines_lock);
  if (count) *count = root->n_pipelines;
  if (ns) *ns = root->pipelines_ns;
  pthread_mutex_unlock(&root->pipelines_lock);
}

uint64_t vkf_gpu_validation_messages(const vkf_gpu_device *device) {
  return device->instance ? device->instance->n_messages : 0;
}

void vkf_gpu_inject(vkf_gpu_device *device, const vkf_gpu_faults *faults) {
  device->root->faults = *faults;
}
