// Measures the roof of memory. Every invocation copies sixteen vec4; those of a workgroup are contiguous.
//
// module bench_copy
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "shared/constants.h"
layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(set = 0, binding = 0, std430) writeonly buffer To { vec4 to[]; };
layout(set = 0, binding = 1, std430) readonly buffer From { vec4 from[]; };

void main() {
  const uint first = gl_WorkGroupID.x * gl_WorkGroupSize.x * 16 + gl_LocalInvocationID.x;
  [[unroll]] for (uint i = 0; i < 16; i++) to[first + i * gl_WorkGroupSize.x] = from[first + i * gl_WorkGroupSize.x];
}
