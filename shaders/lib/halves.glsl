// Numbers rounded to f16, for kernels of cooperative matrices; is_beyond_halves() says whether some could not be.
uvec4 largest = uvec4(0); // bits of magnitudes

// Rounds to nearest even by whole numbers, so that packing has nothing left to round: devices may round there as they
// like.
vec4 nearest_halves(vec4 v) {
  uvec4 bits = floatBitsToUint(v);
  largest = max(largest, bits & 0x7fffffffu);
  bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  return uintBitsToFloat(bits);
}

uvec2 packed_halves(vec4 v) { return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }
uvec2 halves(vec4 v) { return packed_halves(nearest_halves(v)); }

// Words of two numbers in bf16, of which 65280 is the last that f16 holds: a magnitude behind its bits, 0x477f, carries
// into the sign here.
uint carried = 0;
void note_bfloat16(uvec4 words) {
  words = (words & 0x7fff7fffu) + 0x38803880u;
  carried |= words.x | words.y | words.z | words.w;
}

// 65520 rounds to more than f16 holds; and NaN.
bool is_beyond_halves() {
  const uvec2 two = max(largest.xy, largest.zw);
  return max(two.x, two.y) >= 0x477ff000u || (carried & 0x80008000u) != 0;
}
