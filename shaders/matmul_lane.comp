// out = act(x w^T + bias) + residual without shared memory. A workgroup is one subgroup of SUBGROUP_SIZE and computes
// TM rows of 4 SUBGROUP_SIZE columns. Lane l owns the columns 4 l + j, j < 4. Operands: x (rows), w (VKF_W_LANE), bias,
// residual, out. K is a multiple of 4, k is ascending, with one accumulator per element. Rows past M repeat the last. A
// lane loads four k of one row of x at a time, which all lanes then get from it.
// TEXEL: reads x, w, bias and residual through texel buffers; a texel of w has four k of a column, in any FORMAT.
// BROADCAST: lanes pass values on by subgroupBroadcast (four lanes), otherwise by subgroupShuffle.
//
// module matmul_lane, reads weights
// module matmul_lane_texel: TEXEL, reads weights
// module matmul_lane_broadcast_m16: BROADCAST TM=16, reads weights
// module matmul_lane_broadcast_m4: BROADCAST TM=4, reads weights
// module matmul_lane_broadcast_m1: BROADCAST TM=1, reads weights
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BROADCAST
#extension GL_KHR_shader_subgroup_ballot : require
#define SUBGROUP_SIZE 4
#else
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"

#ifdef TEXEL
layout(set = 0, binding = 1) uniform samplerBuffer x4;
layout(set = 0, binding = 2) uniform TEXELS w4;
#define LOAD_X(i) texelFetch(x4, int(i))
#define LOAD_W(i) unpack4(WORDS_OF_4(texelFetch(w4, int(i))))
#define FIRST_X at[0].x
#define FIRST_W at[1].x
#else
layout(BINDING(0)) readonly buffer X { vec4 x4[]; };
layout(BINDING(1)) readonly buffer W { WORDS_OF_4 w4[]; };
#define LOAD_X(i) x4[i]
#define LOAD_W(i) unpack4(w4[i])
#define FIRST_X (at[0].x / 4)
#define FIRST_W (at[1].x / 4 * PER_WORD)
#endif

#define MAX_TM 16
#define MAX_GROUPS 4
const uint GROUPS = (TM + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE; // rows of x that a lane holds

// Adds the value of lane l, row g * SUBGROUP_SIZE + l, times the four columns of every lane.
#define ROW(value, l) sums[g * SUBGROUP_SIZE + l] = mad(value, b, sums[g * SUBGROUP_SIZE + l]);
#if defined(BROADCAST) && TM == 1
#define ROWS(v) ROW(subgroupBroadcast(v, 0), 0)
#elif defined(BROADCAST)
#define ROWS(v)                   \
  ROW(subgroupBroadcast(v, 0), 0) \
  ROW(subgroupBroadcast(v, 1), 1) \
  ROW(subgroupBroadcast(v, 2), 2) \
  ROW(subgroupBroadcast(v, 3), 3)
#else
#define ROWS(v) [[unroll]] for (uint l = 0; l < min(SUBGROUP_SIZE, TM); l++) ROW(subgroupShuffle(v, l), l)
#endif
#define AT_K(c)                                                         \
  {                                                                     \
    const vec4 b = vec4(w_now[0].c, w_now[1].c, w_now[2].c, w_now[3].c); \
    [[unroll]] for (uint g = 0; g < GROUPS; g++) { ROWS(x_now[g].c) }     \
  }

void main() {
  const uint M = dim[p.rows], lane = gl_SubgroupInvocationID, k4 = p.k / 4;
  const uint row0 = gl_WorkGroupID.x * TM, column0 = gl_WorkGroupID.y * SUBGROUP_SIZE * 4;
  vec4 sums[MAX_TM];
  uint xi[MAX_GROUPS];
  [[unroll]] for (uint i = 0; i < TM; i++) sums[i] = vec4(0.0);
  [[unroll]] for (uint g = 0; g < GROUPS; g++) xi[g] = FIRST_X + min(row0 + g * SUBGROUP_SIZE + lane, M - 1) * k4;
  uint wi = FIRST_W + column0 * k4 + 4 * lane, k = 0;
  do {
    vec4 x_now[MAX_GROUPS], w_now[4];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) x_now[g] = LOAD_X(xi[g] + k);
    [[unroll]] for (uint j = 0; j < 4; j++) w_now[j] = LOAD_W(wi + j);
    wi += SUBGROUP_SIZE * 4;
    AT_K(x)
    AT_K(y)
    AT_K(z)
    AT_K(w)
  } while (++k < k4);
  // A loop with one copy of the epilogue. It runs over a copy of the sums: its variable must not index the sums, or
  // they would not stay in registers.
  const uint column = column0 + 4 * lane, rows = min(TM, M - row0);
  const vec4 bias = bias_at(column);
  vec4 tile[MAX_TM];
  [[unroll]] for (uint i = 0; i < TM; i++) tile[i] = sums[i];
  for (uint i = 0; i < rows; i++) finish4(row0 + i, column, tile[i], bias);
}
