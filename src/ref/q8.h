/* q8: rounds activations to 8 bits, as a matmul does if its weight is stored in q8.
 *
 * A row of x is cut into blocks of VKF_Q8_BLOCK columns. Each block is stored like a row of an int8 weight: its scale
 * is max|x| / 127, rounded up to 17 significant bits, and each number is the scale times a whole number of -127 ..
 * 127, to nearest even. Every step is exact, so all devices find the same numbers, and float32 holds them. If the
 * largest magnitude of a block is below 2^-100, the block is zeros. If int8 cannot hold it (a NaN, an infinity, more
 * than 1.984375 x 2^127), all of it is NaN, and so is every sum of its row.
 */
#ifndef VKF_REF_Q8_H
#define VKF_REF_Q8_H

#include "op/compare.h"

/* A row of k numbers; rounded: k numbers of the caller. */
void vkf_ref_q8_round(const float *x, uint32_t k, float *rounded);
/* Rows of x, dense. VKF_ERROR_MEMORY; the caller frees out->data with vkf_env_free() in any case. */
vkf_status vkf_ref_q8_rows(vkf_env *env, const vkf_view *x, uint32_t rows, uint32_t k, vkf_view *out);

#endif
