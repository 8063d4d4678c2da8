// The one way out of a kernel: elements of the result, rows of `width`.
layout(BINDING(OUT)) buffer Out { float out_data[]; };

void store(uint row, uint column, uint width, float value) { out_data[at[OUT].x + row * width + column] = value; }

#ifdef STORES_PAIRS
// Two columns side by side, where `width` and `column` are even, for drivers that scatter 64 bits a lane as fast as 32.
// By shifts: with packUint2x32() Mesa 26 aborts ("stack smashing detected").
layout(BINDING(OUT)) buffer OutPairs { uint64_t out_pairs[]; };

void store2(uint row, uint column, uint width, vec2 value) {
  const uint64_t low = floatBitsToUint(value.x), high = floatBitsToUint(value.y);
  out_pairs[(at[OUT].x + row * width + column) / 2] = low | high << 32;
}
#endif

// An element that this invocation has stored.
float stored(uint row, uint column, uint width) { return out_data[at[OUT].x + row * width + column]; }

// Four columns of a row side by side.
void store4(uint row, uint column, uint width, vec4 value) {
  const uint i = at[OUT].x + row * width + column;
  [[unroll]] for (uint c = 0; c < 4; c++) out_data[i + c] = value[c];
}
