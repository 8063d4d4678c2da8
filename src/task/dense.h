/* dense: layers behind the pooling that sentence-transformers calls Dense: y = activation(W x + b).
 *
 * They run on the host, in double, once per text: a vector of 768 numbers takes less than a millisecond.
 */
#ifndef VKF_TASK_DENSE_H
#define VKF_TASK_DENSE_H

#include "file/source.h"

typedef struct vkf_dense vkf_dense;
struct vkf_dense {
  uint32_t n_in, n_out;
  bool is_tanh; /* the activation; else there is none */
  bool has_bias;
  const float *weight; /* [n_out][n_in] */
  const float *bias;   /* [n_out]; NULL: has_bias is false */
  vkf_dense *next;     /* NULL: it is the last one */
};

/* Loads weight and bias of a layer, whose other members are set, from a safetensors file of the source. The arena owns
 * them. VKF_ERROR_FILE, VKF_ERROR_FORMAT. */
vkf_status vkf_task_dense_load(vkf_dense *dense, vkf_arena *arena, const vkf_file_source *source, const char *file);
/* Computes y [n_out] of x [n_in]. */
void vkf_task_dense_run(const vkf_dense *dense, const double *x, double *y);

#endif
