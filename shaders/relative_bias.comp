// The additive bias of attention by the bucket of each distance (Raffel et al. 2020): out [head][query][key]; a
// workgroup writes a row of keys. Operands: table [bucket][head], buckets by distance, out.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_relative_bias
#include "lib/kernel.glsl"

layout(BINDING(0)) readonly buffer Table { float table[]; };
layout(BINDING(1)) readonly buffer Buckets { uint buckets[]; };
layout(BINDING(2)) writeonly buffer Out { float bias[]; };

void main() {
  const uint t = gl_WorkGroupID.x, head = gl_WorkGroupID.y;
  if (t >= dim[p.queries]) return;
  const int query = int(dim[p.past] + t);
  const uint to = at[2].x + (head * p.out_queries + t) * p.out_keys;
  for (uint s = gl_LocalInvocationID.x; s < dim[p.keys]; s += gl_WorkGroupSize.x) {
    const uint distance = uint(clamp(int(s) - query, -int(p.n_before), int(p.n_after)) + int(p.n_before));
    bias[to + s] = table[at[0].x + buckets[at[1].x + distance] * p.n_heads + head];
  }
}
