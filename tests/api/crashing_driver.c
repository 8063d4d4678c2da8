/* A Vulkan driver that ends the process as soon as the loader asks it for something: what `doctor` must survive. */
#include <stdlib.h>

void *vk_icdGetInstanceProcAddr(void *instance, const char *name);

void *vk_icdGetInstanceProcAddr(void *instance, const char *name) {
  (void)instance;
  (void)name;
  abort();
}
