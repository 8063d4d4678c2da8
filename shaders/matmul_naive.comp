// out = act(x w^T + bias) + residual for any size and any packing of w. An invocation computes one element, a workgroup
// WORKGROUP columns of one row. Operands: x (rows), w, bias, residual, out. k is ascending, with one accumulator. A
// turn of the loop takes eight k, because drivers may end a loop after so many turns (kern/family.h).
//
// module matmul_naive, reads weights
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/weights.glsl"
#include "lib/epilogue.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer W { WORD w[]; };


float product(uint xi, uint column, uint k, float sum) {
  const uint i = weight_index(column, k, p.k);
  return mad(x[xi + k], unpack(w[at[1].x + i / PER_WORD], i % PER_WORD), sum);
}

float sum_of(uint row, uint column) {
  const uint xi = at[0].x + row * p.k, whole = p.k / VKF_K_AT_ONCE * VKF_K_AT_ONCE;
  float sum = 0.0;
  for (uint k = 0; k < whole; k += VKF_K_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < VKF_K_AT_ONCE; i++) sum = product(xi, column, k + i, sum);
  }
  for (uint k = whole; k < p.k; k++) sum = product(xi, column, k, sum);
  return sum;
}

void main() {
  const uint row = gl_WorkGroupID.x, element = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint column = element * (IS_GATED != 0 ? 2 : 1);
  if (row >= dim[p.rows] || column >= p.n) return;
  if (IS_GATED != 0)
    finish_gated(row, column, vec2(sum_of(row, column), sum_of(row, column + 1)));
  else
    finish(row, column, sum_of(row, column));
}
