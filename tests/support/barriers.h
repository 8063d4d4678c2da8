/* Counts the barriers of a block, for the tests of the recorder. */
#ifndef VKF_TESTS_SUPPORT_BARRIERS_H
#define VKF_TESTS_SUPPORT_BARRIERS_H

#include "gpu/gpu.h"

static inline uint32_t count_barriers(const vkf_gpu_block *block) {
  vkf_gpu_block_info info;
  vkf_gpu_block_get_info(block, &info);
  return info.n_barriers;
}

#endif
