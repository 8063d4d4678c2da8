// Measures the roof of reads. Every invocation adds up sixteen vec4 of ones; those of a workgroup are contiguous in a
// set that wraps around. A small set stays in the caches, however often it is read.
//
// module bench_read
// module bench_read_texel: TEXEL
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "shared/constants.h"
layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(push_constant, std430) uniform Push { uint set; }; // vec4 in the set, a power of two
layout(set = 0, binding = 0, std430) writeonly buffer Out { float sums_of[]; };
#ifdef TEXEL
layout(set = 0, binding = 1) uniform samplerBuffer from;
#define READ(i) texelFetch(from, int(i))
#else
layout(set = 0, binding = 1, std430) readonly buffer From { vec4 from[]; };
#define READ(i) from[i]
#endif

void main() {
  const uint first = gl_WorkGroupID.x * gl_WorkGroupSize.x * 16 + gl_LocalInvocationID.x;
  vec4 sum = vec4(0.0);
  [[unroll]] for (uint i = 0; i < 16; i++) sum += READ((first + i * gl_WorkGroupSize.x) & (set - 1));
  sums_of[gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
