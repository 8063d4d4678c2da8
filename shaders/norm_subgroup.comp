// As norm.comp, a row (or group) a subgroup: lane l adds up columns l, l + LANES, ..., then the subgroup adds the partial sums.
// The workgroup is one subgroup of exactly LANES.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define PARAMS vkf_push_norm
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/norm.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };

float at_column(uint row, uint column) { return element(row, column, x[at[0].x + row * p.row_width + column]); }

void main() {
  const uint row = gl_WorkGroupID.x / p.groups, group = gl_WorkGroupID.x % p.groups, lane = gl_LocalInvocationID.x;
  const uint first = group * p.width, end = first + p.width;
  if (row >= dim[p.rows]) return;
  float mean = 0.0;
  if (IS_RMS == 0) {
    float sum = 0.0;
    for (uint c = first + lane; c < end; c += LANES) sum += at_column(row, c);
    mean = subgroupAdd(sum) / float(p.width);
  }
  float squares = 0.0;
  for (uint c = first + lane; c < end; c += LANES) {
    const float d = at_column(row, c) - mean;
    squares = mad(d, d, squares);
  }
  const float factor = inversesqrt_of(subgroupAdd(squares) / float(p.width) + p.eps);
  for (uint c = first + lane; c < end; c += LANES) normed(row, c, at_column(row, c), mean, factor);
  if (group == 0)
    for (uint c = p.groups * p.width + lane; c < p.row_width; c += LANES)
      store(row, c, p.row_width, at_column(row, c));
}
