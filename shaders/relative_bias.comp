// The additive bias of attention by the bucket of each distance (Raffel et al. 2020): out [head][distance]. A workgroup
// writes one head. Operands: table [bucket][head], buckets by distance, out.
//
// module relative_bias
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_relative_bias
#include "lib/kernel.glsl"

layout(BINDING(0)) readonly buffer Table { float table[]; };
layout(BINDING(1)) readonly buffer Buckets { uint buckets[]; };
layout(BINDING(2)) writeonly buffer Out { float bias[]; };

void main() {
  const uint head = gl_WorkGroupID.x;
  for (uint d = gl_LocalInvocationID.x; d < p.n_distances; d += gl_WorkGroupSize.x)
    bias[at[2].x + head * p.n_distances + d] = table[at[0].x + buckets[at[1].x + d] * p.n_heads + head];
}
