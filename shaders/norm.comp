// Layer norm (Ba et al. 2016) or RMS norm (Zhang and Sennrich 2019) of rows, after an optional sum with a residual. A
// workgroup computes one row, or one group of its columns. Operands: x, residual, weight, bias, out. There are two
// passes: the mean is subtracted before squares are added. The order of sums is in lib/partials.glsl.
// BY_SUBGROUP: a workgroup is one subgroup of exactly SUBGROUP_SIZE, which adds up its partial sums by itself.
//
// module norm
// module norm_subgroup: BY_SUBGROUP
#version 440
#extension GL_GOOGLE_include_directive : require
#ifdef BY_SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#define PARAMS vkf_push_norm
#define OUT 4
#include "lib/kernel.glsl"
#ifdef BY_SUBGROUP
#define PARTIALS SUBGROUP_SIZE
float total_of(float part) { return subgroupAdd(part); }
#else
#define PARTIALS VKF_ROW_PARTIALS
#include "lib/partials.glsl"
#endif
#include "lib/norm.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };

float at_column(uint row, uint column) { return element(row, column, x[at[0].x + row * p.row_width + column]); }

void main() {
  const uint row = gl_WorkGroupID.x / p.groups, group = gl_WorkGroupID.x % p.groups, lane = gl_LocalInvocationID.x;
  const uint first = group * p.width, end = first + p.width;
  float mean = 0.0;
  if (IS_RMS == 0) {
    float sum = 0.0;
    for (uint c = first + lane; c < end; c += PARTIALS) sum += at_column(row, c);
    mean = quotient(total_of(sum), float(p.width));
  }
  float squares = 0.0;
  for (uint c = first + lane; c < end; c += PARTIALS) {
    const float d = at_column(row, c) - mean;
    squares = mad(d, d, squares);
  }
  const float factor = inversesqrt_of(quotient(total_of(squares), float(p.width)) + flushed(p.eps));
  for (uint c = first + lane; c < end; c += PARTIALS) normed(row, c, at_column(row, c), mean, factor);
  if (group == 0)
    for (uint c = p.groups * p.width + lane; c < p.row_width; c += PARTIALS)
      store(row, c, p.row_width, at_column(row, c));
}
