// Rotary positions (Su et al. 2021): turns the heads of q and k in a row and copies its other columns. A workgroup
// writes one row. Operands: x, positions, table (cosine and sine of each pair by position), out. A position outside of
// the table reads its last row (the host refuses such positions first). Widths are specialization constants, because a
// driver divides lane by lane if it does not know the divisor.
//
// module rope
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_rope
#define OUT 3
#include "lib/kernel.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer Positions { uint positions[]; };
layout(BINDING(2)) readonly buffer Table { float table[]; };

layout(constant_id = VKF_C_ROPE_HEAD_WIDTH) const uint HEAD_WIDTH = 1;
layout(constant_id = VKF_C_ROPE_ROTARY) const uint ROTARY = 2;
layout(constant_id = VKF_C_ROPE_INTERLEAVED) const uint INTERLEAVED = 0;
#include "lib/turn.glsl"

// Which column of its head `column` is; HEAD_WIDTH if it belongs to no head.
uint head_column(uint column) {
  const uint q = column - p.q_column, k = column - p.k_column; // wraps around below the first
  return q < p.q_width ? q % HEAD_WIDTH : k < p.k_width ? k % HEAD_WIDTH : HEAD_WIDTH;
}

void main() {
  const uint row = gl_WorkGroupID.x, from = at[0].x + row * p.x_stride;
  if (row >= dim[p.rows]) return;
  const uint angles = at[2].x + min(positions[at[1].x + row], p.n_positions - 1) * ROTARY;
  for (uint c = gl_LocalInvocationID.x; c < p.width; c += gl_WorkGroupSize.x) {
    store(row, c, p.width, turned(from + c, head_column(c), angles));
  }
}
