/* vkformer/vulkan.h: running on a Vulkan device that the caller created. Needs the Vulkan headers, not the loader.
 *
 * Ownership, threads and errors are as vkformer.h says.
 */
#ifndef VKFORMER_VULKAN_H
#define VKFORMER_VULKAN_H

#include <vkformer/vkformer.h>
#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device that the caller created (Vulkan 1.1 or newer) and keeps alive for longer than the vkf_device. Only the
 * extensions and features named here are used. If the caller uses the queue as well, it passes functions that lock and
 * unlock it; the library calls them around each submit, on the thread that called the library. */
typedef struct vkf_device_handles {
  size_t size; /* sizeof(vkf_device_handles) */
  PFN_vkGetInstanceProcAddr get_instance_proc_addr;
  VkInstance instance;
  VkPhysicalDevice physical_device;
  VkDevice device;
  VkQueue queue; /* with compute */
  uint32_t queue_family;
  const char *const *extensions; /* enabled device extensions */
  size_t n_extensions;
  const VkPhysicalDeviceFeatures2 *features; /* as given to vkCreateDevice; NULL: none */
  void (*lock_queue)(void *queue_user);      /* NULL: nobody else uses the queue */
  void (*unlock_queue)(void *queue_user);
  void *queue_user;
} vkf_device_handles;
#define VKF_DEVICE_HANDLES_INIT .size = sizeof(vkf_device_handles)
VKF_DEFINE_INIT(vkf_device_handles)
/* Reads *handles and its lists only during this call. VKF_ERROR_ARGUMENT: a handle is NULL, or one of lock_queue and
 * unlock_queue is. VKF_ERROR_UNSUPPORTED: the device has no Vulkan 1.1. */
VKF_API vkf_status vkf_device_adopt(vkf_context *ctx, const vkf_device_handles *handles, vkf_device **out);

#ifdef __cplusplus
}
#endif
#endif
