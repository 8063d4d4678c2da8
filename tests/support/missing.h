/* Is the driver under test there (the one that VKF_DEVICE names)? Uses the public interface only. */
#ifndef VKF_TESTS_SUPPORT_MISSING_H
#define VKF_TESTS_SUPPORT_MISSING_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vkformer/vkformer.h>

/* What main() returns where the driver is missing: a skip (77), a failure where VKF_REQUIRE_DRIVERS names it. */
static inline int driver_skipped(void) {
  const char *required = getenv("VKF_REQUIRE_DRIVERS"), *device = getenv("VKF_DEVICE");
  return required && (!device || strstr(required, device)) ? 1 : 77;
}

/* Whether VKF_DEVICE=gpu: tests of what the host does, or of bits that a GPU promises with --batch-invariant alone. */
static inline bool driver_is_gpu(void) {
  const char *device = getenv("VKF_DEVICE");
  return device && strcmp(device, "gpu") == 0;
}

/* 0: it is; else what main() returns. */
static inline int driver_missing(void) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  if (vkf_context_create(NULL, &context) != VKF_OK) return 1;
  vkf_status status = vkf_device_open(context, NULL, &device);
  if (status != VKF_OK) fprintf(stderr, "%s\n", vkf_context_message(context));
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  if (status != VKF_ERROR_NO_DEVICE) return 0; /* whatever else it is, the tests say it */
  return driver_skipped();
}

#endif
