// out = act(x w^T + bias) + residual through shared memory: a workgroup computes BM x BN, an invocation TM x TN of it
// (rows ty * TM + i, columns tx + j * BN/TN), K in slices of BK. Operands: x (rows), w (rows), bias, residual, out.
// What lies outside of a matrix enters the slices as zero. k ascending, one accumulator an element.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer W { WORD w[]; };
float weight(uint i) { return unpack(w[at[1].x + i / PER_WORD], i % PER_WORD); }
// One element more a slice than it needs: neighbours of a column lie in different banks.
shared float x_slice[BK * (BM + 1)];
shared float w_slice[BK * (BN + 1)];

// Literal sizes: see matmul_lane.comp.
#define MAX_TILE 4

void main() {
  const uint M = dim[p.rows], lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  const uint row0 = gl_WorkGroupID.x * BM, column0 = gl_WorkGroupID.y * BN;
  const uint tx = lane % (BN / TN), ty = lane / (BN / TN);
  float sums[MAX_TILE * MAX_TILE];
  [[unroll]] for (uint i = 0; i < TM * TN; i++) sums[i] = 0.0;
  for (uint k0 = 0; k0 < p.k; k0 += BK) {
    for (uint e = lane; e < BM * BK; e += lanes) {
      const uint row = row0 + e / BK, k = k0 + e % BK;
      x_slice[e % BK * (BM + 1) + e / BK] = row < M && k < p.k ? x[at[0].x + row * p.k + k] : 0.0;
    }
    for (uint e = lane; e < BN * BK; e += lanes) {
      const uint column = column0 + e / BK, k = k0 + e % BK;
      w_slice[e % BK * (BN + 1) + e / BK] = column < p.n && k < p.k ? weight(column * p.k + k) : 0.0;
    }
    barrier();
    for (uint k = 0; k < BK; k++) {
      float a[MAX_TILE], b[MAX_TILE];
      [[unroll]] for (uint i = 0; i < TM; i++) a[i] = x_slice[k * (BM + 1) + ty * TM + i];
      [[unroll]] for (uint j = 0; j < TN; j++) b[j] = w_slice[k * (BN + 1) + tx + j * (BN / TN)];
      [[unroll]] for (uint i = 0; i < TM; i++) {
        [[unroll]] for (uint j = 0; j < TN; j++) sums[i * TN + j] = mad(a[i], b[j], sums[i * TN + j]);
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0; i < TM; i++) {
    [[unroll]] for (uint j = 0; j < TN; j++) {
      const uint row = row0 + ty * TM + i, column = column0 + tx + j * (BN / TN);
      if (row < M && column < p.n) finish(row, column, sums[i * TN + j]);
    }
  }
}
