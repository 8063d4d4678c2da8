// As norm.comp for few wide rows. A workgroup of several subgroups keeps one row in registers: VECTORS times four
// columns in each invocation, which loads all of them before its first sum. Each invocation adds up its own columns and
// each subgroup its lanes; shared memory holds the sums of the subgroups. Operands: x, residual, weight, bias, out; all
// begin at vectors, and rows are whole vectors.
//
// module norm_wide, written out
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define PARAMS vkf_push_norm
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#include "lib/each.glsl"
layout(BINDING(0)) readonly buffer X { vec4 x4[]; };
layout(BINDING(1)) readonly buffer Residual { vec4 residual4[]; };
layout(BINDING(2)) readonly buffer Weight { vec4 weight4[]; };
layout(BINDING(3)) readonly buffer Bias { vec4 bias4[]; };
layout(constant_id = VKF_C_IS_RMS) const uint IS_RMS = 0;
layout(constant_id = VKF_C_NORM_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
layout(constant_id = VKF_C_NORM_HAS_WEIGHT) const uint HAS_WEIGHT = 0;
layout(constant_id = VKF_C_NORM_HAS_BIAS) const uint HAS_BIAS = 0;
layout(constant_id = VKF_C_NORM_VECTORS) const uint VECTORS = 1;

// A literal: SwiftShader keeps no array in registers whose size is a specialization constant.
#define MAX_VECTORS VKF_NORM_MAX_VECTORS
#if MAX_VECTORS != 8
#error "EACH_8 takes 8 vectors"
#endif
vec4 row4[MAX_VECTORS];
shared float sums[2 * VKF_NORM_MAX_SUBGROUPS];

// Adds up the parts of the workgroup. `turn` 0 and 1 have places of their own, so that one barrier is enough.
float total_of(float part, uint turn) {
  const uint n = gl_WorkGroupSize.x / SUBGROUP_SIZE, first = turn * VKF_NORM_MAX_SUBGROUPS;
  const float own = subgroupAdd(part);
  if (gl_SubgroupInvocationID == 0) sums[first + gl_SubgroupID] = own;
  barrier();
  float total = 0.0;
  for (uint i = 0; i < n; i++) total += sums[first + i];
  return total;
}

// The next functions take vector i of this invocation.
void load(uint i, uint row, uint fours) {
  const uint v = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, from = row * fours;
  row4[i] = vec4(0.0);
  if (v < fours) row4[i] = x4[at[0].x / 4 + from + v];
}
void add_residual(uint i, uint row, uint fours) {
  const uint v = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, from = row * fours;
  precise vec4 y = row4[i];
  if (v < fours) y += residual4[at[1].x / 4 + from + v];
  row4[i] = y;
}
void add_squares(uint i, uint fours, float mean, inout float part) {
  if (gl_LocalInvocationID.x + i * gl_WorkGroupSize.x < fours) {
    const vec4 d = row4[i] - mean;
    [[unroll]] for (uint c = 0; c < 4; c++) part = mad(d[c], d[c], part);
  }
}
void store_normed(uint i, uint row, uint fours, float mean, float factor) {
  const uint v = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
  if (v < fours) {
    precise vec4 y = mul(row4[i] - mean, factor);
    if (HAS_WEIGHT != 0) y = mul(y, weight4[at[2].x / 4 + v]);
    if (HAS_BIAS != 0) y = y + bias4[at[3].x / 4 + v];
    store4(row, 4 * v, p.row_width, y);
  }
}

void main() {
  const uint row = gl_WorkGroupID.x, fours = p.width / 4;
#define LOAD_VECTOR(i) load(i, row, fours)
  EACH_8(VECTORS, LOAD_VECTOR)
  if (HAS_RESIDUAL != 0) {
#define ADD_RESIDUAL(i) add_residual(i, row, fours)
    EACH_8(VECTORS, ADD_RESIDUAL)
  }
  float mean = 0.0, part = 0.0;
  if (IS_RMS == 0) {
#define ADD(i) part += row4[i].x + row4[i].y + (row4[i].z + row4[i].w)
    EACH_8(VECTORS, ADD)
    mean = quotient(total_of(part, 0), float(p.width));
  }
  part = 0.0;
#define ADD_SQUARES(i) add_squares(i, fours, mean, part)
  EACH_8(VECTORS, ADD_SQUARES)
  const float factor = inversesqrt_of(quotient(total_of(part, 1), float(p.width)) + flushed(p.eps));
#define STORE_NORMED(i) store_normed(i, row, fours, mean, factor)
  EACH_8(VECTORS, STORE_NORMED)
}
