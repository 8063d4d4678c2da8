/* batches: forward passes over many rows of ids. Rows of similar lengths share a batch.
 *
 * In class ascending batches change speed, never bits: kernels sum in the same order for every shape.
 */
#ifndef VKF_TASK_BATCHES_H
#define VKF_TASK_BATCHES_H

#include "task/parts.h"

typedef struct vkf_batches {
  const vkf_parts *parts;
  vkf_run_output output; /* what to compute */
  /* Takes the output for part `part`: [n][width] for its n ids, or [width] if the model pools. Called in any order of
   * parts. */
  vkf_status (*take)(void *user, size_t part, const float *numbers, size_t width);
  void *user;
} vkf_batches;

/* Runs every part, except those of skipped texts. VKF_ERROR_UNSUPPORTED: the model is an encoder-decoder that does not
 * pool, or lacks the output. */
vkf_status vkf_task_batches_run(const vkf_batches *batches);

#endif
