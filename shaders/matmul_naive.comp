// out = act(x w^T + bias) + residual, an element an invocation: any size, any packing of w. Operands: x (rows), w,
// bias, residual, out. A workgroup computes WORKGROUP columns of one row; k ascending, one accumulator.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/weights.glsl"
#include "lib/epilogue.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer W { WORD w[]; };

float weight(uint i) { return unpack(w[at[1].x + i / PER_WORD], i % PER_WORD); }

void main() {
  const uint row = gl_WorkGroupID.x, column = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (row >= dim[p.rows] || column >= p.n) return;
  const uint xi = at[0].x + row * p.k, K = p.k;
  float sum = 0.0;
  if (W_LAYOUT == VKF_W_ROWS) {
    for (uint k = 0; k < K; k++) sum = mad(x[xi + k], weight(column * K + k), sum);
  } else {
    for (uint k = 0; k < K; k++) sum = mad(x[xi + k], weight(weight_index(column, k, K)), sum);
  }
  finish(row, column, sum);
}
