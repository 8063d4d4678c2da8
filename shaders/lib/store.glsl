// The only way in which kernels store elements of the result, in rows of `width`.
layout(BINDING(OUT)) buffer Out { float out_data[]; };

void store(uint row, uint column, uint width, float value) { out_data[at[OUT].x + row * width + column] = value; }

#ifdef STORES_PAIRS
// Two columns side by side, where `width` and `column` are even, for drivers that scatter 64 bits a lane as fast as 32.
layout(BINDING(OUT)) buffer OutPairs { uint64_t out_pairs[]; };

// By shifts: with packUint2x32() Mesa 26 aborts ("stack smashing detected").
uint64_t word_of_pair(vec2 pair) {
  const uint64_t low = floatBitsToUint(pair.x), high = floatBitsToUint(pair.y);
  return low | high << 32;
}

vec2 pair_of_word(uint64_t word) { return vec2(uintBitsToFloat(uint(word)), uintBitsToFloat(uint(word >> 32))); }

void store2(uint row, uint column, uint width, vec2 value) {
  out_pairs[(at[OUT].x + row * width + column) / 2] = word_of_pair(value);
}
#endif

// An element that this invocation has stored.
float stored(uint row, uint column, uint width) { return out_data[at[OUT].x + row * width + column]; }

// Four columns of a row side by side.
void store4(uint row, uint column, uint width, vec4 value) {
  const uint i = at[OUT].x + row * width + column;
  [[unroll]] for (uint c = 0; c < 4; c++) out_data[i + c] = value[c];
}
