// Copies a row of logits and applies its edits in order. Operands: x, offsets, edits (int32 quadruples: kind, id, float
// bits of the value, 0), out.
// IN_PLACE: out has the bytes of x, and nothing is copied.
// An invocation owns every COLUMN_STEP-th column of a row, so the edits keep their order without a barrier. The last
// fill of a row undoes all edits before it. So the kernel looks for it first and writes the row once.
//
// module logit_edit
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_logit_edit
#define OUT 3
#include "lib/kernel.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer Offsets { uint offsets[]; };
layout(BINDING(2)) readonly buffer Edits { uint edits[]; };

layout(constant_id = VKF_C_LOGIT_EDIT_IN_PLACE) const uint IN_PLACE = 0;

float edited(uint kind, float old, float value) {
  precise float y = value;
  if (kind == VKF_LOGIT_EDIT_KIND_ADD) y = old + value;
  if (kind == VKF_LOGIT_EDIT_KIND_PENALTY) y = old < 0.0 ? mul(old, value) : quotient(old, value);
  if (kind == VKF_LOGIT_EDIT_KIND_GROW) y = old + mul(abs(old), value);
  return flushed(y);
}

void main() {
  const uint row = gl_WorkGroupID.x, lane = FIRST_COLUMN, lanes = COLUMN_STEP;
  if (row >= dim[p.rows]) return;
  const uint begin = offsets[at[1].x + row], end = min(offsets[at[1].x + row + 1], p.max_edits);
  uint first = begin; // after the last fill
  for (uint e0 = begin; e0 < end; e0 += VKF_EDITS_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < VKF_EDITS_AT_ONCE; i++)
      if (e0 + i < end && edits[at[2].x + 4 * (e0 + i)] == VKF_LOGIT_EDIT_KIND_FILL) first = e0 + i + 1;
  }
  const bool is_filled = first != begin;
  if (IN_PLACE == 0 || is_filled) {
    for (uint c = lane; c < p.width; c += lanes) {
      float y = 0.0;
      if (is_filled)
        y = flushed(uintBitsToFloat(edits[at[2].x + 4 * (first - 1) + 2]));
      else
        y = x[at[0].x + row * p.width + c];
      store(row, c, p.width, y);
    }
  }
  for (uint e0 = first; e0 < end; e0 += VKF_EDITS_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < VKF_EDITS_AT_ONCE; i++) {
      const uint e = at[2].x + 4 * min(e0 + i, end - 1), kind = edits[e], id = edits[e + 1];
      if (e0 + i < end && id < p.width && id % lanes == lane)
        store(row, id, p.width, edited(kind, stored(row, id, p.width), flushed(uintBitsToFloat(edits[e + 2]))));
    }
  }
}
