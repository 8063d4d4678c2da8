/* Translates on a Vulkan device that this program creates: example_adopt MODEL TEXT. Link the loader (-lvulkan). */
#include <stdio.h>
#include <string.h>
#include <vkformer/vulkan.h>
#include <vulkan/vulkan.h>

/* Creates the first device, with queue 0 of its first family. 0: a call failed, or there is none. */
static int create_device(vkf_device_handles *h) {
  VkApplicationInfo application;
  VkInstanceCreateInfo instance;
  VkDeviceQueueCreateInfo queue;
  VkDeviceCreateInfo device;
  const float priority = 1;
  uint32_t n = 1;
  memset(&application, 0, sizeof application);
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_1;
  memset(&instance, 0, sizeof instance);
  instance.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  instance.pApplicationInfo = &application;
  memset(&queue, 0, sizeof queue);
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  memset(&device, 0, sizeof device);
  device.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  device.queueCreateInfoCount = 1;
  device.pQueueCreateInfos = &queue;
  if (vkCreateInstance(&instance, NULL, &h->instance)) return 0;
  if (vkEnumeratePhysicalDevices(h->instance, &n, &h->physical_device) < 0 || !n) return 0;
  if (vkCreateDevice(h->physical_device, &device, NULL, &h->device)) return 0;
  vkGetDeviceQueue(h->device, 0, 0, &h->queue);
  h->get_instance_proc_addr = vkGetInstanceProcAddr;
  return 1;
}

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  vkf_device_handles handles;
  const char *text = argc == 3 ? argv[2] : "";
  vkf_device_handles_init(&handles); /* features and extensions: none enabled, so none is used */
  if (argc != 3 || !create_device(&handles)) return 2;
  vkf_status status = vkf_context_create(NULL, &context);
  if (!status) status = vkf_device_adopt(context, &handles, &device);
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (!status) status = vkf_session_create(model, NULL, &session);
  if (!status) status = vkf_session_translate(session, &text, 1, NULL, &result);
  puts(status ? (session ? vkf_session_message(session) : vkf_context_message(context)) : vkf_result_text(result, 0));
  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  vkDestroyDevice(handles.device, NULL);
  vkDestroyInstance(handles.instance, NULL);
  return status != VKF_OK;
}
