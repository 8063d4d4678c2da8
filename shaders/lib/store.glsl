// The one way out of a kernel: an element of the result goes to rows, to panels [ceil(M/32)][width][32], or to both,
// whichever the slot keeps.
layout(constant_id = VKF_C_OUT_LAYOUTS) const uint OUT_LAYOUTS = VKF_OUT_ROWS;
layout(BINDING(OUT)) buffer Out { float out_data[]; };

uint panel_index(uint row, uint column, uint width) {
  return ((row / VKF_PANEL) * width + column) * VKF_PANEL + row % VKF_PANEL;
}

void store(uint row, uint column, uint width, float value) {
  if ((OUT_LAYOUTS & VKF_OUT_ROWS) != 0) out_data[at[OUT].x + row * width + column] = value;
  if ((OUT_LAYOUTS & VKF_OUT_PANELS) != 0) out_data[at[OUT].y + panel_index(row, column, width)] = value;
}

// An element that this invocation has stored.
float stored(uint row, uint column, uint width) {
  return (OUT_LAYOUTS & VKF_OUT_ROWS) != 0 ? out_data[at[OUT].x + row * width + column]
                                 : out_data[at[OUT].y + panel_index(row, column, width)];
}

// Four columns of a row side by side.
void store4(uint row, uint column, uint width, vec4 value) {
  if ((OUT_LAYOUTS & VKF_OUT_ROWS) != 0) {
    const uint i = at[OUT].x + row * width + column;
    [[unroll]] for (uint c = 0; c < 4; c++) out_data[i + c] = value[c];
  }
  if ((OUT_LAYOUTS & VKF_OUT_PANELS) != 0) {
    const uint i = at[OUT].y + panel_index(row, column, width);
    [[unroll]] for (uint c = 0; c < 4; c++) out_data[i + c * VKF_PANEL] = value[c];
  }
}
