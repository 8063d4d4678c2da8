// Checks that packing two 16-bit numbers keeps their bits, on which kernels of cooperative matrices depend. Drivers may
// take subnormal numbers as 0; the bounds of these kernels allow that.
//
// module probe_float16
#version 440
#extension GL_GOOGLE_include_directive : require
#define GIVEN uint
#include "lib/probe.glsl"
#include "lib/half.glsl"

uint with_subnormal(uint packed, uint half_bits) {
  return (half_bits & 0x7c00u) == 0 && (packed & 0x7fffu) == 0 ? half_bits : packed;
}

void main() {
  const uint own = gl_GlobalInvocationID.x, word = given[own];
  const uint packed = packHalf2x16(vec2(half_by_hand(word), half_by_hand(word >> 16)));
  found[own] = with_subnormal(packed & 0xffffu, word & 0xffffu) | with_subnormal(packed >> 16, word >> 16) << 16;
}
