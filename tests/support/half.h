/* Runs half of the cases on drivers that take long to compile: VKF_OP_HALF=0 runs the cases with even numbers,
 * VKF_OP_HALF=1 the others. CMake gives one half to lavapipe, and the other half to SwiftShader and to lavapipe with
 * 512 bits. All cases run with VKF_TEST_ALL=ON (scripts/accept host), or with VKF_OP_CASES or VKF_OP_VARIANT in the
 * environment.
 */
#ifndef VKF_TESTS_SUPPORT_HALF_H
#define VKF_TESTS_SUPPORT_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kern/kern.h"

static inline bool takes_half(void) {
  const char *half = getenv("VKF_OP_HALF");
  return half && *half && !getenv("VKF_OP_CASES") && !getenv("VKF_OP_VARIANT");
}

static inline bool is_in_my_half(size_t i) {
  return !takes_half() || i % 2 == strtoul(getenv("VKF_OP_HALF"), NULL, 10);
}

/* VKF_OP_SUBGROUP: the subgroup size whose kernels no other driver runs (lavapipe with 512 bits); 0: there is none. */
static inline uint32_t own_subgroup(void) {
  const char *subgroup = getenv("VKF_OP_SUBGROUP");
  return subgroup ? (uint32_t)strtoul(subgroup, NULL, 10) : 0;
}

/* Returns whether the other driver runs a kernel: each runs every second of the large kernels that both can run. i is
 * the place in the table. */
static inline bool runs_elsewhere(const vkf_variant *v, size_t i) {
  const bool is_large = v->op == VKF_OP_MATMUL || v->op == VKF_OP_ATTENTION;
  return is_large && !v->subgroup && v->access != VKF_ACCESS_TEXEL && !is_in_my_half(i);
}

/* Returns whether kernel i of such a size is left out: its shader also runs on lavapipe with 256 bits, so with
 * VKF_OP_HALF only every second one runs here. */
static inline bool has_twin(size_t i) {
  return own_subgroup() && takes_half() && i % 2;
}

/* Returns whether a kernel is to run here: with such a size only those that are written for it, else all. */
static inline bool is_mine(const vkf_variant *v) {
  return !own_subgroup() || v->subgroup == own_subgroup();
}

#endif
