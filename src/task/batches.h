/* batches: forward passes over many rows of ids. Rows of similar lengths share a batch.
 *
 * In class ascending a batch changes speed, never bits: the kernels add up alike for every shape.
 */
#ifndef VKF_TASK_BATCHES_H
#define VKF_TASK_BATCHES_H

#include "task/parts.h"

typedef struct vkf_batches {
  const vkf_parts *parts;
  vkf_run_output output; /* what is computed */
  /* Takes the numbers of part `part`: [n][width] of its n ids, or [width] where the model pools. Parts come in any
   * order. */
  vkf_status (*take)(void *user, size_t part, const float *numbers, size_t width);
  void *user;
} vkf_batches;

/* Runs every part, but not those of skipped texts. VKF_ERROR_UNSUPPORTED: an encoder-decoder that does not pool. */
vkf_status vkf_task_batches_run(const vkf_batches *batches);

#endif
