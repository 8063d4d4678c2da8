// out[i] = x[index[i]]; a workgroup copies a row. Operands: x, index, out.
//
// module gather
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_gather
#define OUT 2
#include "lib/kernel.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer Index { uint index[]; };

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= dim[p.rows]) return;
  const uint from = min(index[at[1].x + row], dim[p.x_rows] - 1);
  for (uint c = FIRST_COLUMN; c < p.width; c += COLUMN_STEP)
    store(row, c, p.width, x[at[0].x + from * p.width + c]);
}
