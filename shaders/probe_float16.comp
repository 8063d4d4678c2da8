// Rounding to 16-bit numbers by the device's own type: to nearest, ties to even.
//
// module probe_float16, needs GL_EXT_shader_explicit_arithmetic_types_float16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define GIVEN uint
#include "lib/probe.glsl"

void main() {
  const uint own = gl_GlobalInvocationID.x;
  const vec2 pair = vec2(uintBitsToFloat(given[2 * own]), uintBitsToFloat(given[2 * own + 1]));
  found[own] = packFloat2x16(f16vec2(pair));
}
