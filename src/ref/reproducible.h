/* The arithmetic of the reproducible mode: float32, each operation rounded, in the order of the kernels of order class
 * ascending. A call with `reproducible` set is computed with it; the results are the bits of every device in that mode.
 *
 * The functions are those of the shaders (shared/reproducible.h, shared/functions.h), compiled as C.
 */
#ifndef VKF_REF_REPRODUCIBLE_H
#define VKF_REF_REPRODUCIBLE_H

#include "shared/reproducible.h"

static inline float mul(float a, float b) {
  return vkf_reproducible_mul(a, b);
}
static inline float mad(float a, float b, float c) {
  return vkf_reproducible_mad(a, b, c);
}
static inline float quotient(float a, float b) {
  return vkf_reproducible_div(a, b);
}
static inline float exp_of(float x) {
  return vkf_reproducible_exp(x);
}
static inline float log_of(float x) {
  return vkf_reproducible_log_any(x);
}

#include "shared/functions.h"

/* Adds the products of two vectors, ascending, in one accumulator. */
static inline float reproducible_dot(const float *a, const float *b, uint32_t n) {
  float sum = 0;
  for (uint32_t i = 0; i < n; i++) sum = mad(a[i], b[i], sum);
  return sum;
}

/* Adds up the partial sums of a row as shaders/lib/partials.glsl does: p with p + 32, with p + 16, ..., with p + 1. */
static inline float reproducible_total(float part[VKF_ROW_PARTIALS]) {
  for (uint32_t n = VKF_ROW_PARTIALS / 2; n > 0; n /= 2) {
    for (uint32_t p = 0; p < n; p++) part[p] += part[p + n];
  }
  return part[0];
}

#endif
