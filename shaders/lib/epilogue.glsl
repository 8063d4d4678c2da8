// The end of every matmul: scale of the weight's row, scale, bias, activation, residual, store. Each step is rounded, so all variants give the same bits.
#include "lib/format.glsl"
#include "lib/store.glsl"
layout(BINDING(2)) readonly buffer Bias { float bias_data[]; };
layout(BINDING(3)) readonly buffer Residual { float residual_data[]; };
layout(constant_id = VKF_C_ACTIVATION) const uint ACTIVATION = VKF_A_NONE;
layout(constant_id = VKF_C_HAS_BIAS) const uint HAS_BIAS = 0;
layout(constant_id = VKF_C_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
#ifdef ROW_SCALES
layout(BINDING(OUT + 1)) readonly buffer Scales { float scales[]; };
#endif

void finish(uint row, uint column, float sum) {
#ifdef ROW_SCALES
  sum = mul(sum, scales[at[OUT + 1].x + column]);
#endif
  precise float y = mul(sum, p.scale);
  if (HAS_BIAS != 0) y += bias_data[at[2].x + column];
  y = activate(ACTIVATION, y);
  if (HAS_RESIDUAL != 0) y += residual_data[at[3].x + row * p.n + column];
  store(row, column, p.n, y);
}
