// Rounds numbers to f16 for kernels of cooperative matrices. is_beyond_halves() says whether f16 cannot hold some of
// them.
uvec4 largest = uvec4(0); // bits of magnitudes

// Rounds to nearest even by integer arithmetic, so that packing, where devices may round as they like, has nothing left
// to round.
vec4 nearest_halves(vec4 v) {
  uvec4 bits = floatBitsToUint(v);
  largest = max(largest, bits & 0x7fffffffu);
  bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  return uintBitsToFloat(bits);
}

uvec2 packed_halves(vec4 v) { return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }
uvec2 halves(vec4 v) { return packed_halves(nearest_halves(v)); }

// Notes words of two numbers in bf16. The largest that f16 holds is 65280 (0x477f); here a larger magnitude carries
// into the sign bit.
uint carried = 0;
void note_bfloat16(uvec4 words) {
  words = (words & 0x7fff7fffu) + 0x38803880u;
  carried |= words.x | words.y | words.z | words.w;
}

// Magnitudes from 65520 on round to more than f16 holds; NaN counts, too.
bool is_beyond_halves() {
  const uvec2 two = max(largest.xy, largest.zw);
  return max(two.x, two.y) >= 0x477ff000u || (carried & 0x80008000u) != 0;
}
