// The first stage of a matmul by cooperative matrices with a large x: rounds x to f16, to nearest even. Operands: x
// (rows), rounded (rows), a word that becomes 1 if some x cannot be stored as f16. A workgroup has as many blocks of
// VKF_Q8_BLOCK columns as invocations. In each turn an invocation rounds eight columns. K is a multiple of 8.
//
// module round_halves
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#include "lib/kernel.glsl"
#include "lib/halves.glsl"
layout(BINDING(0)) readonly buffer X { vec4 x4[]; };
layout(BINDING(1)) writeonly buffer Rounded { uvec4 rounded[]; };
layout(BINDING(2)) buffer Wide { uint is_wide[]; };

const uint TURNS = VKF_Q8_BLOCK / 8;

void main() {
  const uint all = dim[p.rows] * p.k / 8;
  [[unroll]] for (uint turn = 0; turn < TURNS; turn++) {
    const uint e = (gl_WorkGroupID.x * TURNS + turn) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint from = at[0].x / 4 + 2 * min(e, all - 1);
    const uvec4 eight = uvec4(halves(x4[from]), halves(x4[from + 1]));
    if (e < all) rounded[at[1].x / 4 + e] = eight;
  }
  if (is_beyond_halves()) is_wide[at[2].x] = 1;
}
