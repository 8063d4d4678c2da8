/* A Vulkan driver that aborts the process at the loader's first call. `doctor` must survive it. */
#include <stdlib.h>

void *vk_icdGetInstanceProcAddr(void *instance, const char *name);

void *vk_icdGetInstanceProcAddr(void *instance, const char *name) {
  (void)instance;
  (void)name;
  abort();
}
