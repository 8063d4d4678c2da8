// Where element (row, column) of an [n,k] weight lies: rows, or packed as vkf_weight_layout says.
layout(constant_id = VKF_C_W_LAYOUT) const uint W_LAYOUT = VKF_W_ROWS;
layout(constant_id = VKF_C_W_COLUMNS) const uint W_COLUMNS = 1;
layout(constant_id = VKF_C_W_K_ALIGN) const uint W_K_ALIGN = 1;

uint weight_index(uint row, uint column, uint k) {
  uint index = row * k + column;
  if (W_LAYOUT != VKF_W_ROWS) {
    const uint depth = W_LAYOUT == VKF_W_LANE ? 4 : 2;
    const uint padded = (k + W_K_ALIGN - 1) / W_K_ALIGN * W_K_ALIGN;
    index = ((row / W_COLUMNS) * padded + column / depth * depth) * W_COLUMNS;
    index += row % W_COLUMNS * depth + column % depth;
  }
  return index;
}
