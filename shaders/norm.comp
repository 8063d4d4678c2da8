// Layer norm (Ba et al. 2016) or RMS norm (Zhang and Sennrich 2019) of rows, after an optional sum with a residual; a
// row (or a group of its columns) a lane, one accumulator a sum, columns ascending. Operands: x, residual, weight, bias, out.
// Two passes: the mean is taken out before squares are added.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_norm
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/norm.glsl"

void main() {
  const uint row = gl_GlobalInvocationID.x / p.groups, group = gl_GlobalInvocationID.x % p.groups;
  const uint first = group * p.width, end = first + p.width;
  if (row >= dim[p.rows]) return;
  float mean = 0.0;
  if (IS_RMS == 0) {
    float sum = 0.0;
    for (uint c = first; c < end; c++) sum += element(row, c);
    mean = sum / float(p.width);
  }
  float squares = 0.0;
  for (uint c = first; c < end; c++) {
    const float d = element(row, c) - mean;
    squares = mad(d, d, squares);
  }
  const float factor = inversesqrt_of(squares / float(p.width) + p.eps);
  for (uint c = first; c < end; c++) normed(row, c, mean, factor);
  pass(row, group, 0, 1);
}
