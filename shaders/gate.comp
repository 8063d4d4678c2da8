// out[i] = act(x[gate_column + i]) * x[up_column + i] (Shazeer 2020); a workgroup writes a row. Operands: x, out.
//
// module gate
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_gate
#define OUT 1
#include "lib/kernel.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(constant_id = VKF_C_ACTIVATION) const uint ACTIVATION = VKF_A_NONE;

void main() {
  const uint row = gl_WorkGroupID.x, from = at[0].x + row * p.x_stride;
  if (row >= dim[p.rows]) return;
  for (uint c = FIRST_COLUMN; c < p.width; c += COLUMN_STEP) {
    precise float y = mul(activate(ACTIVATION, x[from + p.gate_column + c]), x[from + p.up_column + c]);
    store(row, c, p.width, y);
  }
}
