/* Finds whether the driver under test, which VKF_DEVICE names, is there. Uses the public interface only. */
#ifndef VKF_TESTS_SUPPORT_MISSING_H
#define VKF_TESTS_SUPPORT_MISSING_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vkformer/vkformer.h>

/* Returns the exit status for a missing driver: a skip (77), or a failure (1) if VKF_REQUIRE_DRIVERS names it. */
static inline int driver_skipped(void) {
  const char *required = getenv("VKF_REQUIRE_DRIVERS"), *device = getenv("VKF_DEVICE");
  return required && (!device || strstr(required, device)) ? 1 : 77;
}

/* Returns whether VKF_DEVICE is gpu, for tests of the host's part, and of bits that a GPU promises only with
 * --batch-invariant. */
static inline bool driver_is_gpu(void) {
  const char *device = getenv("VKF_DEVICE");
  return device && strcmp(device, "gpu") == 0;
}

/* Returns 0 if the driver is there, else what main() is to return. */
static inline int driver_missing(void) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  if (vkf_context_create(NULL, &context) != VKF_OK) return 1;
  vkf_status status = vkf_device_open(context, NULL, &device);
  if (status != VKF_OK) fprintf(stderr, "%s\n", vkf_context_message(context));
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  if (status != VKF_ERROR_NO_DEVICE) return 0; /* the tests report any other failure */
  return driver_skipped();
}

#endif
