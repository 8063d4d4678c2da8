/* q8: activations as whole numbers of 8 bits, as a matmul rounds them whose weight is stored in q8.
 *
 * A row of x is cut into blocks of VKF_Q8_BLOCK columns. Of a block with the largest magnitude M = F 2^e, F a whole
 * number of 24 bits, the scale is ceil(F / 127) 2^e, and its numbers are x / scale, to nearest even: -127 .. 127. All
 * of it is exact, so every device finds the same numbers. A block whose largest magnitude is below 2^-100 is zeros; one
 * with a NaN or an infinity has the scale NaN and zeros, so that every sum of its row is NaN.
 */
#ifndef VKF_REF_Q8_H
#define VKF_REF_Q8_H

#include "op/compare.h"

typedef struct vkf_ref_q8 {
  uint32_t k, n_blocks;
  float *scales; /* [rows][n_blocks] */
  int8_t *x;     /* [rows][n_blocks VKF_Q8_BLOCK], zeros behind K */
  int8_t *w;     /* the same of one row of the weight: vkf_ref_q8_weight() */
  float weight_scale;
  float *dots; /* [n_blocks]: vkf_ref_q8_dots() */
} vkf_ref_q8;

/* VKF_ERROR_MEMORY; vkf_ref_q8_finish() releases what there is in any case. */
vkf_status vkf_ref_q8_begin(vkf_env *env, const vkf_view *x, uint32_t rows, uint32_t k, vkf_ref_q8 *out);
/* One block of n <= VKF_Q8_BLOCK numbers; returns its scale. */
float vkf_ref_q8_block(const float *x, uint32_t n, int8_t *numbers);
/* The row of the weight that the next sums are of: k numbers as they are stored. */
void vkf_ref_q8_weight(vkf_ref_q8 *q8, const float *w);
/* Of row m of x and that row: the sum of the products of whole numbers of each block, at most 32 x 127 x 127. They stay
 * until the next call. */
const float *vkf_ref_q8_dots(vkf_ref_q8 *q8, uint32_t m);
void vkf_ref_q8_finish(vkf_env *env, vkf_ref_q8 *q8);

#endif
