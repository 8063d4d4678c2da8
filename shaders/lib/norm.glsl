// What the norms share: operands, an element of the sum with the residual, the last step, columns that pass. A row has
// p.groups groups of p.width columns, then the columns that pass.
#include "lib/store.glsl"
layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer Residual { float residual[]; };
layout(BINDING(2)) readonly buffer Weight { float weight[]; };
layout(BINDING(3)) readonly buffer Bias { float bias[]; };
layout(constant_id = VKF_C_IS_RMS) const uint IS_RMS = 0;
layout(constant_id = VKF_C_NORM_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
layout(constant_id = VKF_C_NORM_HAS_WEIGHT) const uint HAS_WEIGHT = 0;
layout(constant_id = VKF_C_NORM_HAS_BIAS) const uint HAS_BIAS = 0;

float element(uint row, uint column) {
  precise float y = x[at[0].x + row * p.row_width + column];
  if (HAS_RESIDUAL != 0) y += residual[at[1].x + row * p.row_width + column];
  return y;
}

void normed(uint row, uint column, float mean, float factor) {
  precise float y = (element(row, column) - mean) * factor;
  if (HAS_WEIGHT != 0) y = y * weight[at[2].x + column];
  if (HAS_BIAS != 0) y = y + bias[at[3].x + column];
  store(row, column, p.row_width, y);
}

// The share of one group in the columns that pass; lane l of n.
void pass(uint row, uint group, uint l, uint n) {
  for (uint c = p.groups * p.width + group * n + l; c < p.row_width; c += p.groups * n)
    store(row, c, p.row_width, element(row, c));
}
