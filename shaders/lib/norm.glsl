// What the norms share: all operands but x, the last steps, and the columns that are only copied. A row has p.groups
// groups of p.width columns, then the columns that are copied.
#include "lib/store.glsl"
layout(BINDING(1)) readonly buffer Residual { float residual[]; };
#ifdef TEXEL
layout(set = 0, binding = 3) uniform samplerBuffer weight4;
layout(set = 0, binding = 4) uniform samplerBuffer bias4;
#define WEIGHT(c) texelFetch(weight4, int(at[2].x + (c) / 4))[(c) % 4]
#define BIAS(c) texelFetch(bias4, int(at[3].x + (c) / 4))[(c) % 4]
#else
layout(BINDING(2)) readonly buffer Weight { float weight[]; };
layout(BINDING(3)) readonly buffer Bias { float bias[]; };
#define WEIGHT(c) weight[at[2].x + (c)]
#define BIAS(c) bias[at[3].x + (c)]
#endif
layout(constant_id = VKF_C_IS_RMS) const uint IS_RMS = 0;
layout(constant_id = VKF_C_NORM_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
layout(constant_id = VKF_C_NORM_HAS_WEIGHT) const uint HAS_WEIGHT = 0;
layout(constant_id = VKF_C_NORM_HAS_BIAS) const uint HAS_BIAS = 0;

// Adds the residual, if there is one, to x, an element of that row and column.
float element(uint row, uint column, float x) {
  precise float y = x;
  if (HAS_RESIDUAL != 0) y += residual[at[1].x + row * p.row_width + column];
  return y;
}

void normed(uint row, uint column, float element, float mean, float factor) {
  precise float y = mul(element - mean, factor);
  if (HAS_WEIGHT != 0) y = mul(y, WEIGHT(column));
  if (HAS_BIAS != 0) y = y + BIAS(column);
  store(row, column, p.row_width, y);
}
