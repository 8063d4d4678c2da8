// Checks what each of the 65,536 16-bit numbers in a word becomes: weights and caches in f16 are read in this way.
//
// module probe_half
#version 440
#extension GL_GOOGLE_include_directive : require
#define GIVEN uint
#include "lib/probe.glsl"

uint bits_of(float x) {
  const uint bits = floatBitsToUint(x);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
}

void main() {
  const uint own = gl_GlobalInvocationID.x;
  const vec2 pair = unpackHalf2x16(given[own]);
  found[2 * own] = bits_of(pair.x);
  found[2 * own + 1] = bits_of(pair.y);
}
