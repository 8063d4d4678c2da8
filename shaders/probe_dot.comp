// Checks sums of the products of four signed 8-bit numbers in a word, with which matmul_dot.comp multiplies.
//
// module probe_dot, needs GL_EXT_spirv_intrinsics
#version 440
#extension GL_GOOGLE_include_directive : require
#define GIVEN uint
#include "lib/probe.glsl"
#include "lib/dot.glsl"

void main() {
  const uint own = gl_GlobalInvocationID.x;
  found[own] = uint(dot4(given[2 * own], given[2 * own + 1]));
}
