/* The library beside a host that uses Vulkan itself; built once with the host's own volk and once linked with the
 * loader. The library opens the loader for itself and must not change the host's.
 */
#ifdef WITH_VOLK
#include <volk.h>
#else
#include <vulkan/vulkan.h>
#endif

#include <stdio.h>

#include "gpu/gpu.h"
#include "support/missing.h"

static uint32_t their_layers(void) {
  uint32_t count = 0;
  return vkEnumerateInstanceLayerProperties(&count, NULL) == VK_SUCCESS ? count : UINT32_MAX;
}

int main(void) {
  vkf_env env;
  vkf_gpu_instance *instance = NULL;
  vkf_env_init(&env, NULL);
#ifdef WITH_VOLK
  if (volkInitialize() != VK_SUCCESS) return driver_skipped(); /* no loader */
  PFN_vkCreateInstance before = vkCreateInstance;
#endif
  uint32_t layers = their_layers();
  vkf_status st = vkf_gpu_instance_create(&env, NULL, &instance);
  if (st != VKF_OK) {
    fprintf(stderr, "%s\n", env.message);
    return st == VKF_ERROR_NO_DEVICE ? driver_skipped() : 1;
  }
  vkf_gpu_instance_destroy(&instance);
#ifdef WITH_VOLK
  /* If the library had loaded an instance into the host's volk, these would be set. */
  if (vkCreateInstance != before || vkCreateDevice != NULL || volkGetLoadedInstance() != VK_NULL_HANDLE) {
    fprintf(stderr, "expected the host's volk to stay as it was, found it changed\n");
    return 1;
  }
#endif
  if (layers == UINT32_MAX || their_layers() != layers) {
    fprintf(stderr, "expected the host's loader to answer as before\n");
    return 1;
  }
  return 0;
}
