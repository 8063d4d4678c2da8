// Writes image patches as rows in the order of a convolution's weight, with rows of zeros before the first and after
// the last. A workgroup writes a row. Operands: x [image][channel][row][column], out.
//
// module patches
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_patches
#define OUT 1
#include "lib/kernel.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };

void main() {
  const uint row = gl_WorkGroupID.x, tokens = dim[p.tokens];
  if (row >= dim[p.rows]) return;
  const uint across = p.width / p.patch_width, patches = p.height / p.patch_height * across;
  const uint n = p.channels * p.patch_height * p.patch_width;
  const uint patch_index = row % tokens - p.leading; // wraps around before the first
  const uint top = patch_index / across * p.patch_height, left = patch_index % across * p.patch_width;
  for (uint c = gl_LocalInvocationID.x; c < n; c += gl_WorkGroupSize.x) {
    const uint channel = c / (p.patch_height * p.patch_width);
    const uint y = top + c / p.patch_width % p.patch_height, left_of = left + c % p.patch_width;
    float value = 0.0;
    if (patch_index < patches)
      value = x[at[0].x + ((row / tokens * p.channels + channel) * p.height + y) * p.width + left_of];
    store(row, c, n, value);
  }
}
