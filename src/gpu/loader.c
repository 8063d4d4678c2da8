/* loader: opens the Vulkan loader at run time and looks up functions.
 *
 * Owns the library handle. Vulkan is never linked. Restores the environment variable of additional driver manifests, so
 * that no child process inherits a change.
 */
#define _GNU_SOURCE /* dl_iterate_phdr, RTLD_NODELETE */
#include <dlfcn.h>
#if defined RTLD_NODELETE && !defined __APPLE__
#define KEEPS_DRIVERS 1
#include <link.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/vk.h"

#ifdef __APPLE__
static const char *const default_names[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#elif defined _WIN32
static const char *const default_names[] = {"vulkan-1.dll"};
#else
static const char *const default_names[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
#ifdef _WIN32
#define BETWEEN_PATHS ";"
#else
#define BETWEEN_PATHS ":"
#endif

static void set_variable(const char *name, const char *value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

vkf_status vkf_gpu_loader_open(vkf_env *env, const char *name, vkf_gpu_loader *out) {
  memset(out, 0, sizeof(*out));
  size_t n_names = name ? 1 : VKF_COUNT(default_names);
  char why[256] = ""; /* dlopen's message about the first name */
  for (size_t i = 0; i < n_names && !out->library; ++i) {
    out->library = dlopen(name ? name : default_names[i], RTLD_NOW | RTLD_LOCAL);
    if (!out->library && i == 0) snprintf(why, sizeof why, "%s", dlerror());
  }
  if (!out->library)
    return vkf_env_fail(
        env, VKF_ERROR_NO_DEVICE,
        "expected a Vulkan loader, found none (%s): `vkformer doctor` says how to install it; `--device "
        "ref` computes without one",
        why);
  void *symbol = dlsym(out->library, "vkGetInstanceProcAddr");
  memcpy(&out->get_instance_proc_addr, &symbol, sizeof(symbol)); /* C has no cast from object to function pointer */
  if (!symbol) {
    vkf_gpu_loader_close(out);
    return vkf_env_fail(
        env, VKF_ERROR_NO_DEVICE,
        "expected vkGetInstanceProcAddr in the Vulkan loader %s, found no such function; compute on the "
        "host with `--device ref`",
        name ? name : default_names[0]);
  }
  return VKF_OK;
}

void vkf_gpu_loader_close(vkf_gpu_loader *loader) {
  if (loader->library) dlclose(loader->library);
  memset(loader, 0, sizeof(*loader));
}

/* Refuses a list with a pipe: the loader would wait until somebody writes to it. */
static vkf_status refuse_pipes(vkf_env *env, const char *variable, const char *list) {
  vkf_status st = VKF_OK;
  vkf_text path;
  vkf_text_init(&path, env);
  for (size_t n; list && *list; list += n + (list[n] != 0)) {
    struct stat facts;
    n = strcspn(list, BETWEEN_PATHS);
    path.size = 0;
    vkf_text_printf(&path, "%.*s", (int)n, list);
    VKF_TRY(vkf_text_status(&path));
    if (stat(path.data, &facts) == 0 && S_ISFIFO(facts.st_mode))
      VKF_FAIL(env, VKF_ERROR_FILE,
               "%s: %s: expected a file, found a pipe: the Vulkan loader reads manifests more than once", variable,
               path.data);
  }
done:
  vkf_text_finish(&path);
  return st;
}

vkf_status vkf_gpu_manifests_push(vkf_env *env, const char *const *files, size_t n_files, vkf_gpu_manifests *out) {
  memset(out, 0, sizeof(*out));
  /* Either of the first two replaces the loader's own search, and the loader then ignores the third. */
  static const char *const variables[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"};
  size_t v = 0;
  while (v + 1 < VKF_COUNT(variables) && !getenv(variables[v])) ++v;
  VKF_CALL(refuse_pipes(env, variables[v], getenv(variables[v])));
  if (n_files == 0) return VKF_OK;
  for (size_t i = 0; i < n_files; ++i)
    if (strstr(files[i], BETWEEN_PATHS))
      return vkf_env_fail(env, VKF_ERROR_FILE,
                          "%s: expected a driver manifest whose path has no '" BETWEEN_PATHS
                          "', at which the Vulkan loader splits its list, found one; give the file or folder another "
                          "name",
                          files[i]);

  vkf_status st = VKF_OK;
  vkf_text text;
  vkf_text_init(&text, env);
  const char *before = getenv(variables[v]);
  if (before) vkf_text_printf(&text, "%s", before);
  for (size_t i = 0; i < n_files; ++i) vkf_text_printf(&text, "%s%s", text.size > 0 ? BETWEEN_PATHS : "", files[i]);
  VKF_TRY(vkf_text_status(&text));
  if (before && !(out->before = vkf_env_strdup(env, before))) VKF_TRY(VKF_ERROR_MEMORY);
  out->variable = variables[v];
  set_variable(out->variable, text.data);
done:
  vkf_text_finish(&text);
  return st;
}

void vkf_gpu_manifests_pop(vkf_env *env, vkf_gpu_manifests *manifests) {
  if (manifests->variable) set_variable(manifests->variable, manifests->before);
  vkf_env_free(env, manifests->before);
  memset(manifests, 0, sizeof(*manifests));
}

vkf_status vkf_gpu_table_load_instance(vkf_env *env, PFN_vkGetInstanceProcAddr get, VkInstance handle,
                                       vkf_vk_instance *out) {
#define LOAD(name)                                   \
  out->name = (PFN_vk##name)get(handle, "vk" #name); \
  if (!out->name)                                    \
    return vkf_env_fail(env, VKF_ERROR_DEVICE, "expected vk" #name " in the Vulkan instance, found no such function");
  VKF_VK_INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
#ifdef VKF_HAS_COOPMAT
  out->GetCooperativeMatrixProperties = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)get(
      handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
#endif
  return VKF_OK;
}

#ifdef KEEPS_DRIVERS
enum { MAX_DRIVER_FILES = 16 };
typedef struct driver_files {
  char names[MAX_DRIVER_FILES][256];
  uint32_t n;
} driver_files;

static int add_driver_file(struct dl_phdr_info *info, size_t size, void *user) {
  driver_files *files = user;
  (void)size;
  if (info->dlpi_name && strstr(info->dlpi_name, "nvidia") && files->n < MAX_DRIVER_FILES)
    snprintf(files->names[files->n++], sizeof files->names[0], "%s", info->dlpi_name);
  return 0;
}
#endif

/* NVIDIA's driver (580.159.04) does not release everything when it is unloaded: after twenty to forty instances it
 * finds no device. So it stays loaded once a device was made. All its files stay, because the one that the loader opens
 * frees at its end what the others hold, and freed it twice if only the others stayed. */
static void keep_driver(const vkf_gpu_device *device) {
#ifdef KEEPS_DRIVERS
  driver_files files = {.n = 0};
  if (device->caps.driver_id != VK_DRIVER_ID_NVIDIA_PROPRIETARY) return;
  dl_iterate_phdr(add_driver_file, &files);
  for (uint32_t i = 0; i < files.n; i++) {
    void *kept = dlopen(files.names[i], RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (kept) dlclose(kept);
  }
#else
  (void)device;
#endif
}

vkf_status vkf_gpu_table_load_device(vkf_gpu_device *device, bool has_labels) {
  PFN_vkGetDeviceProcAddr get = device->get_device_proc_addr;
  vkf_vk_device *vk = &device->vk;
#define LOAD(name)                                          \
  vk->name = (PFN_vk##name)get(device->handle, "vk" #name); \
  if (!vk->name)                                            \
    return vkf_env_fail(device->env, VKF_ERROR_DEVICE,      \
                        "expected vk" #name " in the device %s, found no such function", device->caps.device_name);
  VKF_VK_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
  keep_driver(device);
  if (device->caps.buffer_address) {
    vk->GetBufferDeviceAddress = (PFN_vkGetBufferDeviceAddress)get(device->handle, "vkGetBufferDeviceAddress");
    if (!vk->GetBufferDeviceAddress) /* the instance or device has Vulkan 1.1 */
      vk->GetBufferDeviceAddress = (PFN_vkGetBufferDeviceAddress)get(device->handle, "vkGetBufferDeviceAddressKHR");
    device->caps.buffer_address = vk->GetBufferDeviceAddress != NULL;
  }
  if (device->caps.pipeline_statistics) {
    vk->GetPipelineExecutablePropertiesKHR =
        (PFN_vkGetPipelineExecutablePropertiesKHR)get(device->handle, "vkGetPipelineExecutablePropertiesKHR");
    vk->GetPipelineExecutableStatisticsKHR =
        (PFN_vkGetPipelineExecutableStatisticsKHR)get(device->handle, "vkGetPipelineExecutableStatisticsKHR");
    device->caps.pipeline_statistics = vk->GetPipelineExecutablePropertiesKHR && vk->GetPipelineExecutableStatisticsKHR;
  }
#ifdef VK_EXT_shader_object
  if (device->caps.shader_objects) {
    vk->CreateShadersEXT = (PFN_vkCreateShadersEXT)get(device->handle, "vkCreateShadersEXT");
    vk->DestroyShaderEXT = (PFN_vkDestroyShaderEXT)get(device->handle, "vkDestroyShaderEXT");
    vk->GetShaderBinaryDataEXT = (PFN_vkGetShaderBinaryDataEXT)get(device->handle, "vkGetShaderBinaryDataEXT");
    vk->CmdBindShadersEXT = (PFN_vkCmdBindShadersEXT)get(device->handle, "vkCmdBindShadersEXT");
    device->caps.shader_objects =
        vk->CreateShadersEXT && vk->DestroyShaderEXT && vk->GetShaderBinaryDataEXT && vk->CmdBindShadersEXT;
  }
#endif
  if (device->has_large_pages) {
    vk->GetMemoryHostPointerPropertiesEXT =
        (PFN_vkGetMemoryHostPointerPropertiesEXT)get(device->handle, "vkGetMemoryHostPointerPropertiesEXT");
    device->has_large_pages = vk->GetMemoryHostPointerPropertiesEXT != NULL;
  }
  if (has_labels) {
    vk->CmdBeginDebugUtilsLabelEXT =
        (PFN_vkCmdBeginDebugUtilsLabelEXT)get(device->handle, "vkCmdBeginDebugUtilsLabelEXT");
    vk->CmdEndDebugUtilsLabelEXT = (PFN_vkCmdEndDebugUtilsLabelEXT)get(device->handle, "vkCmdEndDebugUtilsLabelEXT");
  }
  return VKF_OK;
}
