// The end of every matmul: scale of the weight's row, scale, bias, activation, residual, store. Each step is rounded, so all
// variants give the same bits. Kernels that take their operands by address (BY_ADDRESS) load bias and residual themselves.
#include "lib/format.glsl"
#include "lib/store.glsl"
layout(constant_id = VKF_C_ACTIVATION) const uint ACTIVATION = VKF_A_NONE;
layout(constant_id = VKF_C_HAS_BIAS) const uint HAS_BIAS = 0;
layout(constant_id = VKF_C_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
#ifdef ROW_SCALES
layout(BINDING(OUT + 1)) readonly buffer Scales { float scales[]; };
#endif

// Absent ones are not used.
void finish_with(uint row, uint column, float sum, float bias, float residual) {
#ifdef ROW_SCALES
  sum = mul(sum, scales[at[OUT + 1].x + column]);
#endif
  precise float y = mul(sum, p.scale);
  if (HAS_BIAS != 0) y += bias;
  y = activate(ACTIVATION, y);
  if (HAS_RESIDUAL != 0) y += residual;
  store(row, column, p.n, y);
}

#ifndef BY_ADDRESS
layout(BINDING(2)) readonly buffer Bias { float bias_data[]; };
layout(BINDING(3)) readonly buffer Residual { float residual_data[]; };

void finish(uint row, uint column, float sum) {
  const float bias = HAS_BIAS != 0 ? bias_data[at[2].x + column] : 0.0;
  const float residual = HAS_RESIDUAL != 0 ? residual_data[at[3].x + row * p.n + column] : 0.0;
  finish_with(row, column, sum, bias, residual);
}
#endif
