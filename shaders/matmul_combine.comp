// The second stage of a matmul with split K. An invocation adds up the splits of one element, or of two that are
// gated, in their order, and ends as every matmul does (lib/epilogue.glsl). Operands: partial sums, none, bias,
// residual, out, scales of rows if the format of the weight has them.
//
// module matmul_combine, reads int8
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"
#include "lib/k_split.glsl"
layout(BINDING(0)) readonly buffer Partial { float partial[]; };

float sum_of(uint row, uint column) {
  float sum = 0.0;
  for (uint i = 0; i * SPLIT_K < p.k; i++) sum += partial[at[0].x + split_index(i, row, column)];
  return sum;
}

void main() {
  const uint column = gl_GlobalInvocationID.x * (IS_GATED != 0 ? 2 : 1), row = gl_WorkGroupID.y;
  if (row >= dim[p.rows] || column >= SPLIT_WIDTH) return;
  if (IS_GATED != 0)
    finish_gated(row, column, vec2(sum_of(row, column), sum_of(row, column + 1)));
  else
    finish(row, column, sum_of(row, column));
}
