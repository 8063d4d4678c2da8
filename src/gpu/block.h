/* Inside the room gpu: the struct behind vkf_gpu_block, shared by recording (block.c) and running (submit.c). */
#ifndef VKF_GPU_BLOCK_H
#define VKF_GPU_BLOCK_H

#include "gpu/vk.h"

typedef enum vkf_gpu_block_state {
  VKF_GPU_BLOCK_RECORDING,
  VKF_GPU_BLOCK_READY, /* ended: may be submitted, any number of times */
  VKF_GPU_BLOCK_FAILED /* recording failed: may only be destroyed */
} vkf_gpu_block_state;

/* An access since the last barrier against grids, by buffer id. */
typedef struct vkf_gpu_recent {
  uint64_t buffer, begin, end;
  vkf_gpu_mode mode;
} vkf_gpu_recent;

struct vkf_gpu_block {
  vkf_gpu_device *device;
  char *label;
  vkf_gpu_block_state state;
  VkCommandBuffer commands;
  vkf_gpu_sets sets;
  vkf_arena labels; /* of dispatches that are timed */

  vkf_gpu_recent *recent;
  size_t n_recent, recent_capacity;
  size_t first_recent; /* the first since the last barrier */
  uint32_t n_dispatches, n_indirect, n_barriers;
  bool logged;
  vkf_gpu_log log; /* of one run of the block */

  VkQueryPool queries; /* query 0: the begin; 1: the end; 2 + i: the end of dispatch i */
  uint32_t max_timed;
  const char **timed_labels; /* [max_timed] */

  vkf_gpu_pipeline **fresh; /* those that had not run when recorded; none after the first submit */
  size_t n_fresh, fresh_capacity;

  uint64_t n_submits, pending_serial; /* pending if over device->completed */
  bool listed;                        /* in the submit that is being assembled */
};

#endif
