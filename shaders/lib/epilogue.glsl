// The end of every matmul: scale of the weight's row, scale, bias, activation, residual or gate, store. Each step is
// rounded, so all variants give the same bits. Columns are those of w; where they are gated, columns 2i and 2i + 1
// become column i of the result. Kernels that read their operands by address (BY_ADDRESS) load bias and residual
// themselves.
#include "lib/format.glsl"
#include "lib/store.glsl"
layout(constant_id = VKF_C_ACTIVATION) const uint ACTIVATION = VKF_A_NONE;
layout(constant_id = VKF_C_HAS_BIAS) const uint HAS_BIAS = 0;
layout(constant_id = VKF_C_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
layout(constant_id = VKF_C_IS_GATED) const uint IS_GATED = 0;
#ifdef ROW_SCALES
layout(BINDING(OUT + 1)) readonly buffer Scales { float scales[]; };
#endif

// Bias and residual are not used where there are none.
float with_bias(uint column, float sum, float bias) {
#ifdef ROW_SCALES
  sum = mul(sum, scales[at[OUT + 1].x + column]);
#endif
  precise float y = mul(sum, flushed(p.scale));
  if (HAS_BIAS != 0) y += bias;
  return y;
}

float finished(uint column, float sum, float bias, float residual) {
  precise float y = activate(ACTIVATION, with_bias(column, sum, bias));
  if (HAS_RESIDUAL != 0) y += residual;
  return y;
}

// Finishes `column`, which is even, and column + 1.
void finish_gated_with(uint row, uint column, vec2 sums, vec2 bias) {
  const float gate = activate(ACTIVATION, with_bias(column, sums.x, bias.x));
  store(row, column / 2, p.n / 2, mul(gate, with_bias(column + 1, sums.y, bias.y)));
}

void finish_with(uint row, uint column, float sum, float bias, float residual) {
  store(row, column, p.n, finished(column, sum, bias, residual));
}

#ifdef TEXEL
// Bias and residual are read through texel buffers: four columns, the first a multiple of four. Past the end of a
// buffer they are zeros.
layout(set = 0, binding = 3) uniform samplerBuffer bias4;
layout(set = 0, binding = 4) uniform samplerBuffer residual4;
vec4 bias_at(uint column) { return HAS_BIAS != 0 ? texelFetch(bias4, int(at[2].x + column / 4)) : vec4(0.0); }
vec4 residual_at(uint row, uint column) {
  const uint i = row * p.n + column;
  vec4 r = vec4(0.0);
  if (HAS_RESIDUAL != 0) {
    r = texelFetch(residual4, int(at[3].x + i / 4));
    if (p.n % 4 != 0) {
      [[unroll]] for (uint c = 0; c < 4; c++) r[c] = texelFetch(residual4, int(at[3].x + (i + c) / 4))[(i + c) % 4];
    }
  }
  return r;
}
#elif !defined(BY_ADDRESS)
layout(BINDING(2)) readonly buffer Bias { float bias_data[]; };
layout(BINDING(3)) readonly buffer Residual { float residual_data[]; };
vec4 bias_at(uint column) {
  vec4 b = vec4(0.0);
  if (HAS_BIAS != 0) {
    [[unroll]] for (uint c = 0; c < 4; c++) b[c] = bias_data[at[2].x + min(column + c, p.n - 1)];
  }
  return b;
}
vec4 residual_at(uint row, uint column) {
  vec4 r = vec4(0.0);
  if (HAS_RESIDUAL != 0) {
    [[unroll]] for (uint c = 0; c < 4; c++) r[c] = residual_data[at[3].x + row * p.n + min(column + c, p.n - 1)];
  }
  return r;
}

void finish(uint row, uint column, float sum) {
  const float bias = HAS_BIAS != 0 ? bias_data[at[2].x + column] : 0.0;
  const float residual = HAS_RESIDUAL != 0 ? residual_data[at[3].x + row * p.n + column] : 0.0;
  finish_with(row, column, sum, bias, residual);
}

void finish_gated(uint row, uint column, vec2 sums) {
  vec2 bias = vec2(0.0);
  if (HAS_BIAS != 0) bias = vec2(bias_data[at[2].x + column], bias_data[at[2].x + column + 1]);
  finish_gated_with(row, column, sums, bias);
}
#endif

#ifndef BY_ADDRESS
// Finishes four columns side by side; those past the last are not stored.
void finish4(uint row, uint column, vec4 sum, vec4 bias) {
  if (IS_GATED != 0) {
    if (column < p.n) finish_gated_with(row, column, sum.xy, bias.xy);
    if (column + 2 < p.n) finish_gated_with(row, column + 2, sum.zw, bias.zw);
    return;
  }
  const vec4 residual = residual_at(row, column);
  vec4 y;
  for (uint c = 0; c < 4; c++) y[c] = finished(column + c, sum[c], bias[c], residual[c]);
  if (column + 4 <= p.n) {
    store4(row, column, p.n, y);
  } else {
    for (uint c = 0; c < 4 && column + c < p.n; c++) store(row, column + c, p.n, y[c]);
  }
}
#endif
