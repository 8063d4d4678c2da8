// Checks loads by the address of a buffer.
//
// module probe_address
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#define GIVEN uint
#include "lib/probe.glsl"
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words { uint word[]; };
layout(push_constant, std430) uniform Push { uvec2 address; };

void main() {
  const uint own = gl_GlobalInvocationID.x;
  found[own] = Words(address).word[own];
}
