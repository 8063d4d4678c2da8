// The second stage of a matmul whose weight is in q8: out = act(x w^T + bias) + residual, where x is what quantise.comp
// left. An invocation computes TM rows of one column, a workgroup BN columns. Operands: x (q8), w (any packing),
// bias, residual, out, scales of w. The sum of a block's products of whole numbers is exact in float32, because it
// stays below 2^24; times the block's scale it goes into one accumulator, blocks ascending.
//
// module matmul_dot_m8: FORMAT_Q8 TM=8
// module matmul_dot_m1: FORMAT_Q8 TM=1
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/weights.glsl"
#include "lib/epilogue.glsl"
#include "lib/q8.glsl"
layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(0)) readonly buffer X4 { vec4 x4[]; };
layout(BINDING(1)) readonly buffer W { uint w[]; };

// The whole numbers k .. k + 3 of a column: a word, where no row begins within one.
vec4 four_of_w(uint column, uint k) {
  const uint i = weight_index(column, k, p.k);
  if (W_LAYOUT != VKF_W_ROWS || p.k % 4 == 0) return unpack4(w[at[1].x + i / 4]);
  vec4 v = vec4(0.0);
  [[unroll]] for (uint c = 0; c < 4; c++)
    if (k + c < p.k) v[c] = unpack(w[at[1].x + (i + c) / 4], (i + c) % 4);
  return v;
}

void main() {
  const uint M = dim[p.rows], row0 = gl_WorkGroupID.x * TM, column = gl_WorkGroupID.y * BN + gl_LocalInvocationID.x;
  const uint fours = q8_fours(), blocks = q8_blocks();
  if (column >= p.n) return;
  float sums[TM];
  uint row[TM];
  [[unroll]] for (uint i = 0; i < TM; i++) {
    sums[i] = 0.0;
    row[i] = min(row0 + i, M - 1);
  }
  [[dont_unroll]] for (uint block = 0; block < blocks; block++) {
    vec4 products[TM];
    [[unroll]] for (uint i = 0; i < TM; i++) products[i] = vec4(0.0);
    const uint first = block * (VKF_Q8_BLOCK / 4), end = min(first + VKF_Q8_BLOCK / 4, fours);
    // Behind K the numbers of x are 0, whatever is read of w there.
    [[dont_unroll]] for (uint f = first; f < end; f += 2) {
      const vec4 b = four_of_w(column, 4 * f), c = four_of_w(column, 4 * f + 4);
      [[unroll]] for (uint i = 0; i < TM; i++) {
        const uint from = at[0].x / 4 + row[i] * fours + f;
        products[i] = mad(x4[from + 1], c, mad(x4[from], b, products[i]));
      }
    }
    [[unroll]] for (uint i = 0; i < TM; i++) {
      const float whole = products[i].x + products[i].y + (products[i].z + products[i].w);
      sums[i] = mad(x[at[0].x + q8_scale(M, row[i], block)], whole, sums[i]);
    }
  }
  [[unroll]] for (uint i = 0; i < TM; i++)
    if (row0 + i < M) finish(row0 + i, column, sums[i]);
}
