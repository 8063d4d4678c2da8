/* q8: activations with 8 bits, as a matmul rounds them whose weight is stored in q8.
 *
 * A row of x is cut into blocks of VKF_Q8_BLOCK columns, and each block is stored as a row of an int8 weight is: its
 * scale is max|x| / 127, rounded up to 17 significant bits, and a number is a whole number of -127 .. 127 times the
 * scale, to nearest even. Every step is exact, so all devices find the same numbers, and float32 holds them. A block
 * whose largest magnitude is below 2^-100 is zeros. One that int8 cannot hold (a NaN, an infinity, more than
 * 1.984375 x 2^127) is NaN throughout, and so is every sum of its row.
 */
#ifndef VKF_REF_Q8_H
#define VKF_REF_Q8_H

#include "op/compare.h"

/* A row of k numbers; rounded: k numbers of the caller. */
void vkf_ref_q8_round(const float *x, uint32_t k, float *rounded);
/* Rows of x, dense. VKF_ERROR_MEMORY; the caller frees out->data with vkf_env_free() in any case. */
vkf_status vkf_ref_q8_rows(vkf_env *env, const vkf_view *x, uint32_t rows, uint32_t k, vkf_view *out);

#endif
