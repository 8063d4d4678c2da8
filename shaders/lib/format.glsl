// How numbers are stored in words. FORMAT_<NAME> says which format it is; without one it is float32. The comment behind
// that name says what may be stored in the format; the build reads it to decide which modules to compile
// (cmake/shaders.cmake). A format defines BITS of an element, unpack() and unpack4(), which make numbers of words, and
// word_of() if a cache may have the format. If it defines ROW_SCALES, each row has a scale, and the code that uses the
// numbers multiplies by it. raw() takes the bits of a single number, and join() puts four together as WORDS_OF_4. No
// feature of the device is needed: 16- and 8-bit numbers are taken out of 32-bit words.
#ifndef FORMAT_GLSL
#define FORMAT_GLSL

#if defined(FORMAT_F16) // weights, caches
#define BITS 16
#include "lib/half.glsl"
layout(constant_id = VKF_C_HALVES_BY_HAND) const uint HALVES_BY_HAND = 0;
vec2 unpack2(uint word) {
  if (HALVES_BY_HAND != 0) return vec2(half_by_hand(word), half_by_hand(word >> 16));
  return unpackHalf2x16(word);
}
float unpack(uint word, uint i) { return unpack2(word >> i * 16).x; }
vec4 unpack4(uvec2 words) { return vec4(unpack2(words.x), unpack2(words.y)); }
// Rounds to f16, to nearest even, by integer arithmetic, because drivers may round packHalf2x16 as they like. A number
// that is or would become infinite becomes NaN: see vkf_format_cached().
uint half_of(float value) {
  const uint bits = floatBitsToUint(value), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  const uint exponent = magnitude >> 23, fraction = magnitude & 0x7fffffu | 0x800000u;
  if (magnitude >= 0x477ff000u) return sign | 0x7e00u;
  if (exponent >= 113) return sign | (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  if (exponent < 102) return sign;
  const uint down = 126 - exponent;
  return sign | (fraction + (1u << down - 1) - 1 + (fraction >> down & 1)) >> down;
}
uint word_of(float numbers[2]) { return half_of(numbers[0]) | half_of(numbers[1]) << 16; }
#elif defined(FORMAT_BF16) // weights
#define BITS 16
float unpack(uint word, uint i) { return uintBitsToFloat(word >> i * 16 << 16); }
vec4 unpack4(uvec2 words) {
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}
#elif defined(FORMAT_INT8) // weights
#define BITS 8
#define ROW_SCALES
float unpack(uint word, uint i) { return float(int(word << (24 - i * 8)) >> 24); }
vec4 unpack4(uint words) { return vec4(ivec4(uvec4(words << 24, words << 16, words << 8, words)) >> 24); }
#else
#define BITS 32
float unpack(float word, uint i) { return word; }
vec4 unpack4(vec4 words) { return words; }
float word_of(float numbers[1]) { return numbers[0]; }
#endif

#define PER_WORD (32 / BITS)
#if BITS == 32
#define WORD float
#define FOUR_WORDS vec4
#define WORDS_OF_4 vec4
#define TEXELS samplerBuffer
#define RAW float
float raw(float word, uint i) { return word; }
vec4 join(float a, float b, float c, float d) { return vec4(a, b, c, d); }
#else
#define WORD uint
#define FOUR_WORDS uvec4
#define TEXELS usamplerBuffer
#define RAW uint
uint raw(uint word, uint i) { return word >> i * BITS & (1u << BITS) - 1; }
#if BITS == 16
#define WORDS_OF_4 uvec2
uvec2 join(uint a, uint b, uint c, uint d) { return uvec2(a | b << 16, c | d << 16); }
#else
#define WORDS_OF_4 uint
uint join(uint a, uint b, uint c, uint d) { return a | b << 8 | c << 16 | d << 24; }
#endif
#endif
#endif
