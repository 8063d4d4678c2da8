// out = act(x w^T + bias) + residual without shared memory: a workgroup is one subgroup of LANES and computes TM rows of
// LANES * TN columns. A lane loads four k of one row of x at a time and all lanes get them from it; lane l owns the
// columns l + j * LANES. Operands: x (rows), w (VKF_W_LANE), bias, residual, out. k ascending, one accumulator.
// TEXEL reads x and w through texel buffers. BROADCAST hands values on by subgroupBroadcast (four lanes), else by
// subgroupShuffle. K is a multiple of 4; rows past M repeat the last.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BROADCAST
#extension GL_KHR_shader_subgroup_ballot : require
#else
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"

#ifdef TEXEL
layout(set = 0, binding = 1) uniform samplerBuffer x4;
layout(set = 0, binding = 2) uniform samplerBuffer w4;
#define LOAD(buffer, i) texelFetch(buffer, int(i))
#define FIRST(o) at[o].x
#else
layout(BINDING(0)) readonly buffer X { vec4 x4[]; };
layout(BINDING(1)) readonly buffer W { vec4 w4[]; };
#define LOAD(buffer, i) buffer[i]
#define FIRST(o) (at[o].x / 4)
#endif
const uint GROUPS = (TM + LANES - 1) / LANES; // rows of x that a lane holds

// Rows g * LANES + l at one k: the value of lane l times the columns of every lane.
#define ROW(value, l)                                                      \
  {                                                                        \
    const float a = (value);                                               \
    const uint i = g * LANES + (l);                                        \
    [[unroll]] for (uint j = 0; j < TN; j++) sums[i * TN + j] = mad(a, b[j], sums[i * TN + j]); \
  }
#ifdef BROADCAST
#define ROWS(v)                     \
  ROW(subgroupBroadcast(v, 0u), 0u) \
  ROW(subgroupBroadcast(v, 1u), 1u) \
  ROW(subgroupBroadcast(v, 2u), 2u) \
  ROW(subgroupBroadcast(v, 3u), 3u)
#else
#define ROWS(v) [[unroll]] for (uint l = 0; l < min(LANES, TM); l++) ROW(subgroupShuffle(v, l), l)
#endif
#define AT_K(c)                                                     \
  {                                                                 \
    float b[TN];                                                    \
    [[unroll]] for (uint j = 0; j < TN; j++) b[j] = w_now[j].c;     \
    [[unroll]] for (uint g = 0; g < GROUPS; g++) { ROWS(x_now[g].c) } \
  }

void main() {
  const uint M = dim[p.rows], lane = gl_SubgroupInvocationID, k4 = p.k / 4;
  const uint row0 = gl_WorkGroupID.y * TM, column0 = gl_WorkGroupID.x * LANES * TN;
  float sums[TM * TN];
  uint xi[GROUPS];
  [[unroll]] for (uint i = 0; i < TM * TN; i++) sums[i] = 0.0;
  [[unroll]] for (uint g = 0; g < GROUPS; g++) xi[g] = FIRST(0) + min(row0 + g * LANES + lane, M - 1) * k4;
  uint wi = FIRST(1) + column0 * k4 + lane, k = 0;
  do {
    vec4 x_now[GROUPS], w_now[TN];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) x_now[g] = LOAD(x4, xi[g] + k);
    [[unroll]] for (uint j = 0; j < TN; j++) w_now[j] = LOAD(w4, wi + j * LANES);
    wi += LANES * TN;
    AT_K(x)
    AT_K(y)
    AT_K(z)
    AT_K(w)
  } while (++k < k4);
  [[unroll]] for (uint i = 0; i < TM; i++) {
    [[unroll]] for (uint j = 0; j < TN; j++) {
      const uint row = row0 + i, column = column0 + j * LANES + lane;
      if (row < M && column < p.n) finish(row, column, sums[i * TN + j]);
    }
  }
}
