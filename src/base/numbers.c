/* numbers: checked sizes, element types, half precision, random numbers, the clock.
 *
 * Owns the conversions that everything on the host uses. Refuses undefined behaviour: every input has a result.
 * Invariant: a conversion to a narrower type rounds to nearest even, and f16 > f32 > f16 gives the bits back.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/base.h"

#include <math.h>
#include <string.h>
#include <time.h>

bool vkf_size_mul(size_t a, size_t b, size_t *out) {
  if (b != 0 && a > SIZE_MAX / b) return false;
  *out = a * b;
  return true;
}

bool vkf_size_add(size_t a, size_t b, size_t *out) {
  if (a > SIZE_MAX - b) return false;
  *out = a + b;
  return true;
}

static const struct {
  const char *name;
  size_t bytes;
} dtypes[VKF_DTYPE_COUNT] = {
    [VKF_F32] = {"F32", 4}, [VKF_F16] = {"F16", 2}, [VKF_BF16] = {"BF16", 2}, [VKF_I32] = {"I32", 4},
    [VKF_I64] = {"I64", 8}, [VKF_I8] = {"I8", 1},   [VKF_U8] = {"U8", 1},     [VKF_BOOL] = {"BOOL", 1},
    [VKF_F64] = {"F64", 8}, [VKF_I16] = {"I16", 2},
};

size_t vkf_dtype_bytes(vkf_dtype dtype) {
  return (unsigned)dtype < VKF_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}
const char *vkf_dtype_name(vkf_dtype dtype) {
  return (unsigned)dtype < VKF_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* IEEE 754 binary16: sign 1, exponent 5 (bias 15), fraction 10. */
float vkf_f16_to_f32(uint16_t half) {
  uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent > 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals: exact */
  return sign ? -magnitude : magnitude;
}

uint16_t vkf_f16_from_f32(float value) {
  uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | (uint16_t)(magnitude >> 13 & 0x1ffu); /* NaN, quiet */
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u; /* 65520 and more round to infinity */
  if (magnitude < 0x38800000u) {
    /* Below 2^-14: adding 0.5 leaves a float whose last fraction bit weighs 2^-24, so the addition rounds for us. */
    return sign | (uint16_t)(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
  }
  uint32_t odd = magnitude >> 13 & 1;
  return sign | (uint16_t)((magnitude - (112u << 23) + 0xfffu + odd) >> 13);
}

float vkf_bf16_to_f32(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

uint16_t vkf_bf16_from_f32(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

uint64_t vkf_rng_u64(uint64_t seed, uint64_t stream, uint64_t counter) {
  const uint64_t step = 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio */
  uint64_t key = mix(mix(seed + step) + (stream + 1) * step);
  return mix(key + (counter + 1) * step);
}

double vkf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter) {
  return (double)(vkf_rng_u64(seed, stream, counter) >> 11) * 0x1p-53;
}

/* Box and Muller (1958), one of the pair. */
double vkf_rng_normal(uint64_t seed, uint64_t stream, uint64_t counter) {
  double radius = sqrt(-2.0 * log(1.0 - vkf_rng_unit(seed, stream, 2 * counter)));
  return radius * cos(6.283185307179586 * vkf_rng_unit(seed, stream, 2 * counter + 1));
}

uint64_t vkf_hash_bytes(uint64_t hash, const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i < n; i++) hash = vkf_hash_step(hash, at[i]);
  return hash;
}

uint64_t vkf_hash_text(uint64_t hash, const char *text) {
  return vkf_hash_bytes(hash, text, strlen(text));
}

uint64_t vkf_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
