// Where element (row, column) of an [n,k] weight is, in rows or packed as vkf_weight_layout says, and how it is stored.
#include "lib/format.glsl"
layout(constant_id = VKF_C_W_LAYOUT) const uint W_LAYOUT = VKF_W_ROWS;
layout(constant_id = VKF_C_W_COLUMNS) const uint W_COLUMNS = 1;
layout(constant_id = VKF_C_W_K_ALIGN) const uint W_K_ALIGN = 1;

uint weight_index(uint row, uint column, uint k) {
  uint index = row * k + column;
  if (W_LAYOUT != VKF_W_ROWS) {
    const uint padded = (k + W_K_ALIGN - 1) / W_K_ALIGN * W_K_ALIGN;
    index = ((row / W_COLUMNS) * padded + column / W_K_ALIGN * W_K_ALIGN) * W_COLUMNS;
    uint place = row % W_COLUMNS;
    if (W_LAYOUT == VKF_W_COLUMNS) place = place % 2 * (W_COLUMNS / 2) + place / 2;
    index += place * W_K_ALIGN + column % W_K_ALIGN;
  }
  return index;
}
