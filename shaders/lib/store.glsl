// The one way out of a kernel: elements of the result, rows of `width`.
layout(BINDING(OUT)) buffer Out { float out_data[]; };

void store(uint row, uint column, uint width, float value) { out_data[at[OUT].x + row * width + column] = value; }

// An element that this invocation has stored.
float stored(uint row, uint column, uint width) { return out_data[at[OUT].x + row * width + column]; }

// Four columns of a row side by side.
void store4(uint row, uint column, uint width, vec4 value) {
  const uint i = at[OUT].x + row * width + column;
  [[unroll]] for (uint c = 0; c < 4; c++) out_data[i + c] = value[c];
}
