/* The reproducible mode's arithmetic: products, exp and log that give the same bits on every device and in C.
 *
 * Made of + - * and / alone, each rounded on its own (`precise` in GLSL, -ffp-contract=off in C). What would be below
 * 2^-100 is 0: drivers differ on subnormal numbers, and from there every sum is a multiple of 2^-123 and none is
 * subnormal. Functions have one return, at their end (see lib/math.glsl). Read by C and GLSL.
 */
#ifndef VKF_SHARED_REPRODUCIBLE_H
#define VKF_SHARED_REPRODUCIBLE_H

#ifdef GL_core_profile
#define VKF_FN
#define VKF_STEP precise float
#define VKF_BITS(x) floatBitsToInt(x)
#define VKF_FLOAT_OF(bits) intBitsToFloat(bits)
#define VKF_TO_INT(x) int(x)
#define VKF_TO_FLOAT(i) float(i)
#else
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define VKF_FN static inline
#define VKF_STEP float
static inline int32_t vkf_reproducible_bits(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float vkf_reproducible_float(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define VKF_BITS(x) vkf_reproducible_bits(x)
#define VKF_FLOAT_OF(bits) vkf_reproducible_float(bits)
#define VKF_TO_INT(x) ((int)(x))
#define VKF_TO_FLOAT(i) ((float)(i))
#endif

#define VKF_REPRODUCIBLE_TINY 7.88860905e-31f /* 2^-100 */
/* Largest errors, in units in the last place: 1.04 of exp at 11 million points of [-69.3, 88.7], 0.89 of log at 147
 * million points of [2^-100, 2^127], against double. */
#define VKF_REPRODUCIBLE_EXP_ULP 1.1
#define VKF_REPRODUCIBLE_LOG_ULP 1.0

/* 0 instead of what is nearer to 0 than 2^-100; NaN stays. */
VKF_FN float vkf_reproducible_flush(float x) {
  return x < VKF_REPRODUCIBLE_TINY && x > -VKF_REPRODUCIBLE_TINY ? 0.0f : x;
}

VKF_FN float vkf_reproducible_mul(float a, float b) {
  VKF_STEP y = a * b;
  return vkf_reproducible_flush(y);
}

VKF_FN float vkf_reproducible_div(float a, float b) {
  VKF_STEP y = a / b;
  return vkf_reproducible_flush(y);
}

VKF_FN float vkf_reproducible_mad(float a, float b, float c) {
  VKF_STEP y = vkf_reproducible_mul(a, b) + c;
  return y;
}

/* exp(x), x no NaN: x = n ln 2 + r, ln 2 in two pieces of which the first has 9 bits, so that its product is exact;
 * exp(r) = 1 + r + r^2 Q(r), Q fitted at Chebyshev nodes of [-0.3466, 0.3466]. */
VKF_FN float vkf_reproducible_exp(float x) {
  const float t = x > -69.5f ? (x < 89.0f ? x : 89.0f) : -69.5f;
  VKF_STEP nearest = t * 1.44269504f + (t < 0.0f ? -0.5f : 0.5f);
  const int n = VKF_TO_INT(nearest);
  VKF_STEP r = t - VKF_TO_FLOAT(n) * 0.693359375f;
  r = r - VKF_TO_FLOAT(n) * -2.12194440e-4f;
  VKF_STEP y = 0.0013933651f * r + 0.00836318f;
  y = y * r + 0.041666467f;
  y = y * r + 0.16666576f;
  y = y * r + 0.5f;
  y = y * (r * r) + r;
  y = y + 1.0f;
  y = y * 2.0f * VKF_FLOAT_OF((n + 126) * 0x800000);
  return vkf_reproducible_flush(y);
}

/* NaN, by its bits: a compiler may assume that a comparison never sees one. */
VKF_FN bool is_nan(float x) {
  return (VKF_BITS(x) & 0x7fffffff) > 0x7f800000;
}

/* log(x), x >= 2^-100 and finite: x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); with s = f/(2 + f),
 * log(1 + f) = f - (f^2/2 - s (f^2/2 + 2 s^2 L(s^2))), L fitted at Chebyshev nodes to (atanh(s)/s - 1)/s^2. */
VKF_FN float vkf_reproducible_log(float x) {
  const int n = (VKF_BITS(x) - 0x3f3504f3) >> 23;
  VKF_STEP f = VKF_FLOAT_OF(VKF_BITS(x) - n * 0x800000) - 1.0f;
  VKF_STEP s = f / (2.0f + f);
  VKF_STEP z = s * s;
  VKF_STEP half_square = 0.5f * f * f;
  VKF_STEP y = 0.14790565f * z + 0.19994374f;
  y = y * z + 0.33333343f;
  y = half_square + 2.0f * z * y;
  y = half_square - s * y;
  y = VKF_TO_FLOAT(n) * -2.12194440e-4f - y;
  y = VKF_TO_FLOAT(n) * 0.693359375f + (f + y);
  return y;
}

/* log of any number: minus infinity at 0, NaN below it and of NaN. */
VKF_FN float vkf_reproducible_log_any(float x) {
  float y = VKF_FLOAT_OF(0x7fc00000);
  if (!is_nan(x)) {
    if (x == 0.0f) y = VKF_FLOAT_OF(-0x800000);
    if (x > 0.0f) y = VKF_BITS(x) == 0x7f800000 ? x : vkf_reproducible_log(x);
  }
  return y;
}

#endif
