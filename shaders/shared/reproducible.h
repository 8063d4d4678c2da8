/* The reproducible mode's arithmetic: products, quotients, roots, exp and log that give the same bits on every device
 * and in C.
 *
 * Made of + - * and / alone, each rounded on its own (`precise` in GLSL, -ffp-contract=off in C). Vulkan lets a
 * quotient or root be wrong by some units in the last place, so kernels compute theirs from the device's, with
 * integers; C takes those of the processor. What would be below 2^-100 is 0: drivers differ on subnormal numbers, and
 * from there every sum is a multiple of 2^-123 and none is subnormal. Functions have one return, at their end (see
 * functions.h). Read by C and GLSL. */
#ifndef VKF_SHARED_REPRODUCIBLE_H
#define VKF_SHARED_REPRODUCIBLE_H

#ifdef GL_core_profile
#define VKF_FN
#define VKF_STEP precise float
#define VKF_BITS(x) floatBitsToInt(x)
#define VKF_FLOAT_OF(bits) intBitsToFloat(bits)
#define VKF_TO_INT(x) int(x)
#define VKF_TO_FLOAT(i) float(i)
#define VKF_TO_UINT(x) uint(x)
#define VKF_SQRT(x) sqrt(x)
#define VKF_QUOTIENT(a, b) vkf_own_quotient(a, b)
#define VKF_ROOT(x) vkf_own_root(x)
#else
#include <math.h>
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
#define VKF_TO_UINT(x) ((uint32_t)(x))
#define VKF_SQRT(x) sqrtf(x)
#define VKF_QUOTIENT(a, b) ((a) / (b))
#define VKF_ROOT(x) sqrtf(x)
#endif

#include "shared/types.h"

#define VKF_REPRODUCIBLE_TINY 7.88860905e-31f /* 2^-100 */
/* Largest errors, in units in the last place: 1.04 of exp at 11 million points of [-69.3, 88.7], 0.89 of log at 147
 * million points of [2^-100, 2^127], against double. */
#define VKF_REPRODUCIBLE_EXP_ULP 1.1
#define VKF_REPRODUCIBLE_LOG_ULP 1.0

/* Returns 0 for what is nearer to 0 than 2^-100; keeps NaN. */
VKF_FN float vkf_reproducible_flush(float x) {
  return x < VKF_REPRODUCIBLE_TINY && x > -VKF_REPRODUCIBLE_TINY ? 0.0f : x;
}

VKF_FN float vkf_reproducible_mul(float a, float b) {
  VKF_STEP y = a * b;
  return vkf_reproducible_flush(y);
}

/* Tests the bits for NaN, because a compiler may assume that a comparison never sees one. */
VKF_FN bool is_nan(float x) {
  return (VKF_BITS(x) & 0x7fffffff) > 0x7f800000;
}

/* Returns the bits of `digits` 2^(exponent - 151), rounded to nearest: 25 binary digits, the first of which is 1. More
 * of them are not needed, because a quotient or root of numbers of 24 digits is never in the middle between two such
 * numbers. exponent is at least 1; above 254 the result is infinity. */
VKF_FN int vkf_own_rounded(VKF_UINT digits, int exponent) {
  return exponent > 254 ? 0x7f800000 : (exponent - 1) * 0x800000 + VKF_TO_INT((digits >> 1) + (digits & 1u));
}

/* Computes the first 25 binary digits of m / n, with 2^23 <= n <= m < 2n. It makes `near`, the device's quotient, which
 * may be wrong by 5 units in its last place, too small, and divides the remainder of m. That is below 2^29, so 32 bits
 * are enough, although the product has 49. */
VKF_FN int vkf_own_quotient_of(VKF_UINT m, VKF_UINT n, float near, int exponent) {
  const VKF_UINT q = VKF_TO_UINT(near * 16777216.0f) - 16u;
  const int left = VKF_TO_INT((m << 24) - q * n);
  const int more = VKF_TO_INT(VKF_TO_FLOAT(left) / VKF_TO_FLOAT(VKF_TO_INT(n))); /* or one off */
  const int rest = left - more * VKF_TO_INT(n), off = rest < 0 ? -1 : rest >= VKF_TO_INT(n) ? 1 : 0;
  return vkf_own_rounded(q + VKF_TO_UINT(more + off), exponent);
}

/* a / b, correctly rounded, if the device's quotient of normal numbers is wrong by at most 5 units in the last place.
 * Subnormal numbers are 0. */
VKF_FN float vkf_own_quotient(float a, float b) {
  const int x = VKF_BITS(a) & 0x7fffffff, y = VKF_BITS(b) & 0x7fffffff, ex = x >> 23, ey = y >> 23;
  const int sign = (VKF_BITS(a) ^ VKF_BITS(b)) < 0 ? -0x7fffffff - 1 : 0;
  const int m = (x & 0x7fffff) | 0x800000, n = (y & 0x7fffff) | 0x800000, smaller = m < n ? 1 : 0;
  const int exponent = ex - ey + 127 - smaller;
  int bits = 0;
  if (x > 0x7f800000 || y > 0x7f800000 || (ex == 255 && ey == 255) || (ex == 0 && ey == 0))
    bits = 0x7fc00000;
  else if (ex == 255 || ey == 0)
    bits = 0x7f800000;
  else if (ey != 255 && ex != 0 && exponent > 0)
    bits = vkf_own_quotient_of(VKF_TO_UINT(m << smaller), VKF_TO_UINT(n), VKF_TO_FLOAT(m << smaller) / VKF_TO_FLOAT(n),
                               exponent);
  return VKF_FLOAT_OF(bits | sign);
}

/* Computes the first 25 binary digits of the root of m 2^25, m < 2^25, in the same way; the remainder is below 2^31. */
VKF_FN int vkf_own_root_of(VKF_UINT m, float near, int exponent) {
  const VKF_UINT q = VKF_TO_UINT(near * 16777216.0f) - 16u;
  const int left = VKF_TO_INT((m << 25) - q * q), twice = VKF_TO_INT(2u * q);
  const int more = VKF_TO_INT(VKF_TO_FLOAT(left) / VKF_TO_FLOAT(twice)); /* or one off */
  const int rest = left - more * (twice + more), off = rest < 0 ? -1 : rest > twice + 2 * more ? 1 : 0;
  return vkf_own_rounded(q + VKF_TO_UINT(more + off), exponent);
}

/* The root of x, correctly rounded, if the device's is wrong by at most 5 units in the last place. Subnormal numbers
 * are 0. */
VKF_FN float vkf_own_root(float x) {
  const int bits = VKF_BITS(x), exponent = (bits >> 23 & 255) + 127, odd = exponent & 1;
  const int m = ((bits & 0x7fffff) | 0x800000) << odd;
  int y = bits;
  if (bits >= 0x800000 && bits < 0x7f800000)
    y = vkf_own_root_of(VKF_TO_UINT(m), VKF_SQRT(VKF_TO_FLOAT(m) * 1.1920929e-7f), exponent >> 1);
  else if (bits < 0 && bits != -0x7fffffff - 1)
    y = 0x7fc00000;
  return VKF_FLOAT_OF(y);
}

VKF_FN float vkf_reproducible_div(float a, float b) {
  VKF_STEP y = VKF_QUOTIENT(a, b);
  return vkf_reproducible_flush(y);
}

VKF_FN float vkf_reproducible_root(float x) {
  VKF_STEP y = VKF_ROOT(x);
  return y;
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

/* log(x), x >= 2^-100 and finite: x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); with s = f/(2 + f),
 * log(1 + f) = f - (f^2/2 - s (f^2/2 + 2 s^2 L(s^2))), L fitted at Chebyshev nodes to (atanh(s)/s - 1)/s^2. */
VKF_FN float vkf_reproducible_log(float x) {
  const int n = (VKF_BITS(x) - 0x3f3504f3) >> 23;
  VKF_STEP f = VKF_FLOAT_OF(VKF_BITS(x) - n * 0x800000) - 1.0f;
  VKF_STEP s = VKF_QUOTIENT(f, 2.0f + f);
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

/* log of any number: minus infinity at 0, NaN below it and for NaN. */
VKF_FN float vkf_reproducible_log_any(float x) {
  float y = VKF_FLOAT_OF(0x7fc00000);
  if (!is_nan(x)) {
    if (x == 0.0f) y = VKF_FLOAT_OF(-0x800000);
    if (x > 0.0f) y = VKF_BITS(x) == 0x7f800000 ? x : vkf_reproducible_log(x);
  }
  return y;
}

#endif
