/* numbers: checked sizes, element types, half precision, random numbers, hashes, the clock.
 *
 * Owns the conversions of numbers on the host. Every input has a defined result. Invariant: a conversion to a narrower
 * type rounds to nearest even; f16 > f32 > f16 returns the same bits, except that a NaN becomes quiet.
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
const char *vkf_name_of_dtype(vkf_dtype dtype) {
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

/* IEEE 754 binary16: sign 1, exponent 5 (bias 15), fraction 10.
 *
 * The conversions have no branch and compare signed integers, so that compilers can vectorise loops over them. */
float vkf_f16_to_f32(uint16_t half) {
  const int32_t magnitude = half & 0x7fff;
  const uint32_t tiny = bits_of((float)magnitude * 0x1p-24f);         /* zero and subnormals: exact */
  const uint32_t bias = magnitude < 0x7c00 ? 112u << 23 : 224u << 23; /* the second: infinity and NaN */
  const uint32_t normal = ((uint32_t)magnitude << 13) + bias, mask = 0 - (uint32_t)(magnitude < 0x400);
  return float_of((uint32_t)(half & 0x8000) << 16 | (tiny & mask) | (normal & ~mask));
}

/* The step between two halves is 2^-10 times the power of two below them, or 2^-24 below 2^-14. Adding `large`, 2^13
 * times that power, gives a float whose last fraction bit is worth one step, so the addition rounds and its bits count
 * the steps. 65520 and more become 65536, whose bits are those of infinity. */
uint16_t vkf_f16_from_f32(float value) {
  const uint32_t bits = bits_of(value);
  const int32_t magnitude = bits & 0x7fffffff, most = 0x47800000, least = 0x38800000; /* 65536 and 2^-14 */
  const int32_t finite = magnitude < most ? magnitude : most, power = finite & 0x7f800000;
  const uint32_t base = (uint32_t)(power > least ? power : least), large = base + (13u << 23);
  const uint32_t steps = bits_of(float_of((uint32_t)finite) + float_of(large)) - large;
  const uint32_t quiet = magnitude > 0x7f800000 ? 0x200u | (magnitude >> 13 & 0x1ff) : 0; /* NaN */
  return (uint16_t)((bits >> 16 & 0x8000u) | (((base - (uint32_t)least) >> 13) + steps) | quiet);
}

float vkf_bf16_to_f32(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

uint16_t vkf_bf16_from_f32(float value) {
  const uint32_t bits = bits_of(value);
  const bool is_nan = (int32_t)(bits & 0x7fffffffu) > 0x7f800000;
  return (uint16_t)(is_nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Blocks have a constant size, because GCC's -O2 vectorises only loops whose length it knows. */
#define CONVERT_ALL(name, in_type, in_number, out_type, out_number, convert) \
  void name(const in_type *in, size_t n, out_type *out) {                    \
    enum { BLOCK = 16 };                                                     \
    in_number from[BLOCK];                                                   \
    out_number to[BLOCK];                                                    \
    size_t i = 0;                                                            \
    for (; i + BLOCK <= n; i += BLOCK) {                                     \
      memcpy(from, (const char *)in + i * sizeof *from, sizeof from);        \
      for (int j = 0; j < BLOCK; j++) to[j] = convert(from[j]);              \
      memcpy((char *)out + i * sizeof *to, to, sizeof to);                   \
    }                                                                        \
    for (; i < n; i++) {                                                     \
      memcpy(from, (const char *)in + i * sizeof *from, sizeof *from);       \
      *to = convert(*from);                                                  \
      memcpy((char *)out + i * sizeof *to, to, sizeof *to);                  \
    }                                                                        \
  }
CONVERT_ALL(vkf_f16_to_f32_all, void, uint16_t, float, float, vkf_f16_to_f32)
CONVERT_ALL(vkf_f16_from_f32_all, float, float, void, uint16_t, vkf_f16_from_f32)
CONVERT_ALL(vkf_bf16_to_f32_all, void, uint16_t, float, float, vkf_bf16_to_f32)
CONVERT_ALL(vkf_bf16_from_f32_all, float, float, void, uint16_t, vkf_bf16_from_f32)

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

/* A uniform integer below 65536 has the variance (65536^2 - 1) / 12; the sum of four has four times as much. */
double vkf_rng_normal(uint64_t seed, uint64_t stream, uint64_t counter) {
  const uint64_t bits = vkf_rng_u64(seed, stream, counter);
  const double sum = (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0) / sqrt((65536.0 * 65536.0 - 1) / 3);
}

uint64_t vkf_hash_bytes(uint64_t hash, const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i < n; i++) hash = vkf_hash_step(hash, at[i]);
  return hash;
}

/* Rotates the hash, because a product moves no bit down and the top bits of two words could cancel. */
static uint64_t rotated(uint64_t hash) {
  return hash << 31 | hash >> 33;
}

uint64_t vkf_hash_words(uint64_t hash, const void *bytes, size_t n) {
  enum { LANES = 4 }; /* a step takes several cycles, so this many run at once */
  const uint8_t *at = bytes;
  uint64_t lanes[LANES] = {hash, hash + 1, hash + 2, hash + 3}, words[LANES];
  size_t i = 0;
  for (; n - i >= sizeof words; i += sizeof words) {
    memcpy(words, at + i, sizeof words);
    for (int k = 0; k < LANES; k++) lanes[k] = rotated(vkf_hash_step(lanes[k], words[k]));
  }
  hash = vkf_hash_bytes(vkf_hash_step(hash, n), at + i, n - i);
  for (int k = 0; k < LANES; k++) hash = vkf_hash_step(hash, lanes[k] ^ lanes[k] >> 32);
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
