/* Instance: the loader, the VkInstance, the messages of the validation layer, and the list of devices.
 *
 * Owns the loader's library, the instance and the list. Devices without Vulkan 1.1 or a compute queue are not listed.
 * Invariant: the list has the loader's order and never changes during the instance's life.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/vk.h"

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"
/* The newest version whose rules this room has been written for. */
#define NEWEST_VERSION VK_API_VERSION_1_3

typedef struct global_functions {
  PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion;
  PFN_vkEnumerateInstanceExtensionProperties EnumerateInstanceExtensionProperties;
  PFN_vkEnumerateInstanceLayerProperties EnumerateInstanceLayerProperties;
  PFN_vkCreateInstance CreateInstance;
} global_functions;

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
  vkf_gpu_instance *instance = user;
  vkf_env own; /* messages may come on the thread of any session */
  (void)severity;
  (void)types;
  instance->n_messages++;
  vkf_env_init_child(&own, instance->env);
  vkf_env_log(&own, VKF_LOG_ERROR, "validation: %s", data->pMessage ? data->pMessage : "(no text)");
  return VK_FALSE;
}

static vkf_status find_layer(vkf_env *env, const global_functions *vk, const char *name, bool *found) {
  vkf_status st = VKF_OK;
  VkLayerProperties *layers = NULL;
  uint32_t n = 0;
  *found = false;
  if (vk->EnumerateInstanceLayerProperties(&n, NULL) != VK_SUCCESS) goto done;
  layers = vkf_env_alloc(env, n, sizeof(*layers));
  if (!layers) VKF_TRY(VKF_ERROR_MEMORY);
  if (vk->EnumerateInstanceLayerProperties(&n, layers) < 0) goto done;
  for (uint32_t i = 0; i < n; ++i) *found |= strcmp(layers[i].layerName, name) == 0;
done:
  vkf_env_free(env, layers);
  return st;
}

/* Looks up an instance extension and adds its name to the list if it is there. layer: NULL, or the layer that has it.
 */
static vkf_status add_extension(vkf_env *env, const global_functions *vk, const char *layer, const char *name,
                                const char **names, uint32_t *n_names, bool *found) {
  vkf_status st = VKF_OK;
  VkExtensionProperties *extensions = NULL;
  uint32_t n = 0;
  *found = false;
  if (vk->EnumerateInstanceExtensionProperties(layer, &n, NULL) != VK_SUCCESS) goto done;
  extensions = vkf_env_alloc(env, n, sizeof(*extensions));
  if (!extensions) VKF_TRY(VKF_ERROR_MEMORY);
  if (vk->EnumerateInstanceExtensionProperties(layer, &n, extensions) < 0) goto done;
  for (uint32_t i = 0; i < n; ++i) *found |= strcmp(extensions[i].extensionName, name) == 0;
  if (*found) names[(*n_names)++] = name;
done:
  vkf_env_free(env, extensions);
  return st;
}

static vkf_status load_global(vkf_gpu_instance *instance, global_functions *out) {
  PFN_vkGetInstanceProcAddr get = instance->loader.get_instance_proc_addr;
#define LOAD(name) out->name = (PFN_vk##name)get(NULL, "vk" #name)
  LOAD(EnumerateInstanceVersion);
  LOAD(EnumerateInstanceExtensionProperties);
  LOAD(EnumerateInstanceLayerProperties);
  LOAD(CreateInstance);
#undef LOAD
  if (!out->EnumerateInstanceVersion || !out->EnumerateInstanceExtensionProperties ||
      !out->EnumerateInstanceLayerProperties || !out->CreateInstance)
    return vkf_env_fail(
        instance->env, VKF_ERROR_NO_DEVICE,
        "expected a Vulkan loader of version 1.1 or newer, found an older one; compute on the host with "
        "`--device ref`");
  return VKF_OK;
}

static vkf_status choose_version(vkf_gpu_instance *instance, const global_functions *vk) {
  uint32_t version = VK_API_VERSION_1_0;
  if (vk->EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_1)
    return vkf_env_fail(instance->env, VKF_ERROR_NO_DEVICE,
                        "expected a Vulkan loader of version 1.1 or newer, found %u.%u; compute on the host with "
                        "`--device ref`",
                        VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
  instance->api_version = VKF_MIN(version, NEWEST_VERSION);
  return VKF_OK;
}

static vkf_status create_handle(vkf_gpu_instance *instance, const global_functions *vk) {
  vkf_env *env = instance->env;
  const char *names[3], *layer = VALIDATION_LAYER;
  const VkValidationFeatureEnableEXT enable = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT synchronization = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                             .enabledValidationFeatureCount = 1,
                                             .pEnabledValidationFeatures = &enable};
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pEngineName = "vkformer"};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pApplicationInfo = &application,
                               .ppEnabledLayerNames = &layer,
                               .ppEnabledExtensionNames = names};
  bool found;

  VKF_CALL(choose_version(instance, vk));
  application.apiVersion = instance->api_version;
  VKF_CALL(add_extension(env, vk, NULL, VK_EXT_DEBUG_UTILS_EXTENSION_NAME, names, &info.enabledExtensionCount,
                         &instance->debug_utils));
  VKF_CALL(add_extension(env, vk, NULL, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME, names,
                         &info.enabledExtensionCount, &found));
  if (found) info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  if (instance->validation) {
    VKF_CALL(find_layer(env, vk, layer, &found));
    if (!found)
      return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "validation was asked for, but the layer %s is not installed",
                          layer);
    info.enabledLayerCount = 1;
    VKF_CALL(add_extension(env, vk, layer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, names,
                           &info.enabledExtensionCount, &found));
    if (found) info.pNext = &synchronization;
  }
  VkResult r = vk->CreateInstance(&info, NULL, &instance->handle);
  if (r == VK_ERROR_INCOMPATIBLE_DRIVER) return VKF_OK; /* the loader has no driver: an empty list */
  if (r != VK_SUCCESS)
    return vkf_env_fail(
        env, r == VK_ERROR_OUT_OF_HOST_MEMORY ? VKF_ERROR_MEMORY : VKF_ERROR_NO_DEVICE,
        "vkCreateInstance returned %s; `vkformer doctor` says whether a driver is broken, and `--device ref` "
        "computes on the host",
        vkf_gpu_result_name(r));
  return vkf_gpu_table_load_instance(env, instance->loader.get_instance_proc_addr, instance->handle, &instance->vk);
}

static vkf_status create_messenger(vkf_gpu_instance *instance) {
  if (!instance->validation || !instance->handle || !instance->debug_utils) return VKF_OK;
  PFN_vkCreateDebugUtilsMessengerEXT create =
      (PFN_vkCreateDebugUtilsMessengerEXT)instance->loader.get_instance_proc_addr(instance->handle,
                                                                                  "vkCreateDebugUtilsMessengerEXT");
  VkDebugUtilsMessengerCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
                                             .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                                                                VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
                                             .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
                                             .pfnUserCallback = on_message,
                                             .pUserData = instance};
  VkResult r = create ? create(instance->handle, &info, NULL, &instance->messenger) : VK_ERROR_EXTENSION_NOT_PRESENT;
  if (r == VK_SUCCESS) return VKF_OK;
  return vkf_env_fail(instance->env, VKF_ERROR_DEVICE, "vkCreateDebugUtilsMessengerEXT returned %s",
                      vkf_gpu_result_name(r));
}

/* Returns a queue family that computes, preferably one without graphics, where nothing else waits. UINT32_MAX: none. */
static uint32_t compute_family(const vkf_vk_instance *vk, VkPhysicalDevice handle) {
  VkQueueFamilyProperties families[32];
  uint32_t n = VKF_COUNT(families), found = UINT32_MAX;
  vk->GetPhysicalDeviceQueueFamilyProperties(handle, &n, families);
  for (uint32_t i = 0; i < n; ++i) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0) continue;
    if (!(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)) return i;
    if (found == UINT32_MAX) found = i;
  }
  return found;
}

/* Adds the device to the list if it can be used. */
static vkf_status add_adapter(vkf_gpu_instance *instance, VkPhysicalDevice handle) {
  vkf_gpu_extensions extensions;
  VKF_CALL(vkf_gpu_extensions_list(instance->env, &instance->vk, handle, &extensions));
  uint32_t family = compute_family(&instance->vk, handle);
  vkf_gpu_adapter *adapter = &instance->adapters[instance->n_adapters];
  vkf_gpu_caps_fill(&instance->vk, handle, instance->api_version, &extensions, family, &adapter->caps);
  if (family != UINT32_MAX && adapter->caps.api_version >= VK_API_VERSION_1_1) {
    vkf_gpu_features features;
    vkf_gpu_features_link(&features, adapter->caps.api_version, &extensions);
    instance->vk.GetPhysicalDeviceFeatures2(handle, &features.core);
    vkf_gpu_features_to_caps(&features, &adapter->caps);
    adapter->handle = handle;
    adapter->queue_family = family;
    instance->n_adapters++;
  } else {
    vkf_env_log(instance->env, VKF_LOG_INFO, "device %s is left out: %s", adapter->caps.device_name,
                family == UINT32_MAX ? "it has no compute queue" : "its Vulkan is older than 1.1");
  }
  vkf_gpu_extensions_finish(instance->env, &extensions);
  return VKF_OK;
}

static vkf_status list_adapters(vkf_gpu_instance *instance) {
  vkf_status st = VKF_OK;
  vkf_env *env = instance->env;
  VkPhysicalDevice *handles = NULL;
  uint32_t n = 0;
  if (!instance->handle) return VKF_OK;
  VkResult r = instance->vk.EnumeratePhysicalDevices(instance->handle, &n, NULL);
  if (r == VK_ERROR_INITIALIZATION_FAILED) return VKF_OK; /* every driver failed to start: an empty list */
  handles = vkf_env_alloc(env, n, sizeof(*handles));
  instance->adapters = vkf_env_alloc(env, n, sizeof(*instance->adapters));
  if (!handles || !instance->adapters) VKF_TRY(VKF_ERROR_MEMORY);
  if (r == VK_SUCCESS && n > 0) r = instance->vk.EnumeratePhysicalDevices(instance->handle, &n, handles);
  if (r < 0) VKF_FAIL(env, VKF_ERROR_DEVICE, "vkEnumeratePhysicalDevices returned %s", vkf_gpu_result_name(r));
  for (uint32_t i = 0; i < n; ++i) VKF_TRY(add_adapter(instance, handles[i]));
done:
  vkf_env_free(env, handles);
  return st;
}

/* Makes the instance, while the manifests are in the environment. */
static vkf_status make(vkf_gpu_instance *instance, const vkf_gpu_instance_params *params) {
  global_functions vk;
  VKF_CALL(vkf_gpu_loader_open(instance->env, params->loader, &instance->loader));
  VKF_CALL(load_global(instance, &vk));
  VKF_CALL(create_handle(instance, &vk));
  VKF_CALL(create_messenger(instance));
  return list_adapters(instance);
}

/* The loader reads manifests from the environment, which belongs to the process, so one instance is made at a time. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

bool vkf_gpu_compile_begin(const vkf_caps *caps) {
  const bool alone = caps->driver_id == VKF_DRIVER_ID_LAVAPIPE &&
                     caps->driver_version >= VK_MAKE_API_VERSION(0, 23, 0, 0) && getenv("LP_NATIVE_VECTOR_WIDTH");
  if (alone) pthread_mutex_lock(&making);
  return alone;
}

void vkf_gpu_compile_end(bool alone) {
  if (alone) pthread_mutex_unlock(&making);
}

vkf_status vkf_gpu_instance_create(vkf_env *env, const vkf_gpu_instance_params *params, vkf_gpu_instance **out) {
  static const vkf_gpu_instance_params defaults;
  if (!params) params = &defaults;
  vkf_status st = VKF_OK;
  vkf_gpu_manifests manifests = {0};
  *out = NULL;
  vkf_gpu_instance *instance = vkf_env_alloc(env, 1, sizeof(*instance));
  if (!instance) return VKF_ERROR_MEMORY;
  instance->env = env;
  const char *asked = getenv("VKF_VALIDATION");
  instance->validation = params->validation || (asked && strcmp(asked, "1") == 0);
  pthread_mutex_lock(&making);
  st = vkf_gpu_manifests_push(env, params->icd_files, params->n_icd_files, &manifests);
  if (st == VKF_OK) st = make(instance, params);
  vkf_gpu_manifests_pop(env, &manifests);
  pthread_mutex_unlock(&making);
  VKF_TRY(st);
  env->process = getpid();
  *out = instance;
done:
  if (st != VKF_OK) vkf_gpu_instance_destroy(&instance);
  return st;
}

void vkf_gpu_instance_destroy(vkf_gpu_instance **instance) {
  vkf_gpu_instance *it = *instance;
  *instance = NULL;
  if (!it) return;
  if (it->messenger) {
    PFN_vkDestroyDebugUtilsMessengerEXT destroy =
        (PFN_vkDestroyDebugUtilsMessengerEXT)it->loader.get_instance_proc_addr(it->handle,
                                                                               "vkDestroyDebugUtilsMessengerEXT");
    if (destroy) destroy(it->handle, it->messenger, NULL);
  }
  if (it->handle && it->vk.DestroyInstance) it->vk.DestroyInstance(it->handle, NULL);
  vkf_gpu_loader_close(&it->loader);
  vkf_env_free(it->env, it->adapters);
  vkf_env_free(it->env, it);
}

size_t vkf_gpu_instance_count(const vkf_gpu_instance *instance) {
  return instance ? instance->n_adapters : 0;
}

const vkf_caps *vkf_gpu_instance_caps(const vkf_gpu_instance *instance, size_t index) {
  return &instance->adapters[index].caps;
}
