/* Half of what every driver would run, where drivers take long to compile: VKF_OP_HALF=0 takes what has an even number,
 * VKF_OP_HALF=1 the rest. CMake gives lavapipe one half, and the other one to SwiftShader and to lavapipe with 512
 * bits. All of it: VKF_TEST_ALL=ON (scripts/accept host), or a VKF_OP_CASES or VKF_OP_VARIANT in the environment.
 */
#ifndef VKF_TESTS_SUPPORT_HALF_H
#define VKF_TESTS_SUPPORT_HALF_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool is_in_my_half(size_t i) {
  const char *half = getenv("VKF_OP_HALF");
  return !half || !*half || getenv("VKF_OP_CASES") || getenv("VKF_OP_VARIANT") || i % 2 == strtoul(half, NULL, 10);
}

#endif
