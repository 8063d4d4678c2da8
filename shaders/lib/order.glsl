// Maps numbers to keys, integers in the same order. NaN is the largest, both zeros are equal, and subnormal numbers
// keep their order even if the driver's comparisons take them for zero. Every number has a key over 0.
const uint NAN_KEY = 0xffffffffu, NO_KEY = 0;

uvec4 keys(vec4 v) {
  const uvec4 b = floatBitsToUint(v), magnitude = b & 0x7fffffffu;
  const uvec4 signed = b ^ (uvec4(ivec4(b) >> 31) | 0x80000000u);
  const uvec4 k = mix(signed, uvec4(0x80000000u), equal(magnitude, uvec4(0)));
  return mix(k, uvec4(NAN_KEY), greaterThan(magnitude, uvec4(0x7f800000u)));
}

uint key(float v) { return keys(vec4(v)).x; }
// Returns a number with this key.
float number_of(uint k) { return uintBitsToFloat((k & 0x80000000u) != 0 ? k ^ 0x80000000u : ~k); }
