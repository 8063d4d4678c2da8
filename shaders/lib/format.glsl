// Numbers as they are stored, FORMAT one of VKF_S_*: words, and what they hold. No feature of the device is needed: 16-
// and 8-bit numbers are taken out of 32-bit words. Scales are left to whoever uses the numbers. raw() and join() take
// the bits of single numbers and put four together as WORDS_OF_4.
#ifndef FORMAT_GLSL
#define FORMAT_GLSL
#ifndef FORMAT
#define FORMAT VKF_S_F32
#endif

#if FORMAT == VKF_S_F32
#define PER_WORD 1
#define WORD float
#define FOUR_WORDS vec4
#define WORDS_OF_4 vec4
#define RAW float
float unpack(float word, uint i) { return word; }
vec4 unpack4(vec4 words) { return words; }
float raw(float word, uint i) { return word; }
vec4 join(float a, float b, float c, float d) { return vec4(a, b, c, d); }
#elif FORMAT == VKF_S_F16
#define PER_WORD 2
#define WORD uint
#define FOUR_WORDS uvec4
#define WORDS_OF_4 uvec2
#define RAW uint
uint raw(uint word, uint i) { return word >> i * 16 & 0xffffu; }
uvec2 join(uint a, uint b, uint c, uint d) { return uvec2(a | b << 16, c | d << 16); }
float unpack(uint word, uint i) { return unpackHalf2x16(word >> i * 16).x; }
vec4 unpack4(uvec2 words) { return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y)); }
// The other way, to nearest even in whole numbers, because drivers round packHalf2x16 as they like. What is infinite or
// would be is NaN: see vkf_format_cached.
uint half_of(float value) {
  const uint bits = floatBitsToUint(value), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  const uint exponent = magnitude >> 23, fraction = magnitude & 0x7fffffu | 0x800000u;
  if (magnitude >= 0x477ff000u) return sign | 0x7e00u;
  if (exponent >= 113) return sign | (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  if (exponent < 102) return sign;
  const uint down = 126 - exponent;
  return sign | (fraction + (1u << down - 1) - 1 + (fraction >> down & 1)) >> down;
}
#elif FORMAT == VKF_S_BF16
#define PER_WORD 2
#define WORD uint
#define FOUR_WORDS uvec4
#define WORDS_OF_4 uvec2
#define RAW uint
uint raw(uint word, uint i) { return word >> i * 16 & 0xffffu; }
uvec2 join(uint a, uint b, uint c, uint d) { return uvec2(a | b << 16, c | d << 16); }
float unpack(uint word, uint i) { return uintBitsToFloat(word >> i * 16 << 16); }
vec4 unpack4(uvec2 words) {
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}
#elif FORMAT == VKF_S_INT8
#define PER_WORD 4
#define WORD uint
#define FOUR_WORDS uvec4
#define WORDS_OF_4 uint
#define ROW_SCALES
#define RAW uint
uint raw(uint word, uint i) { return word >> i * 8 & 0xffu; }
uint join(uint a, uint b, uint c, uint d) { return a | b << 8 | c << 16 | d << 24; }
float unpack(uint word, uint i) { return float(int(word << (24 - i * 8)) >> 24); }
vec4 unpack4(uint words) { return vec4(ivec4(uvec4(words << 24, words << 16, words << 8, words)) >> 24); }
#endif
#endif
