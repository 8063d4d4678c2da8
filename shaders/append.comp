// Key and value columns of a row go to its place in the head-major caches [seq][head][capacity][width]; a workgroup
// moves a row. Operands: x, k, v (k and v keep what is not written).
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_append
#include "lib/kernel.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) buffer K { float k_cache[]; };
layout(BINDING(2)) buffer V { float v_cache[]; };
layout(constant_id = VKF_C_APPEND_HEADS) const uint HEADS = 1;
layout(constant_id = VKF_C_APPEND_KEY_WIDTH) const uint KEY_WIDTH = 0;
layout(constant_id = VKF_C_APPEND_VALUE_WIDTH) const uint VALUE_WIDTH = 0;

void main() {
  const uint row = gl_WorkGroupID.x, tokens = dim[p.tokens];
  if (row >= dim[p.seqs] * tokens) return;
  const uint seq = row / tokens, place = dim[p.past] + row % tokens;
  const uint from = at[0].x + row * p.x_stride;
  if (KEY_WIDTH != 0) {
    for (uint c = gl_LocalInvocationID.x; c < HEADS * KEY_WIDTH; c += gl_WorkGroupSize.x) {
      const uint head = seq * HEADS + c / KEY_WIDTH;
      k_cache[at[1].x + (head * p.k_capacity + place) * KEY_WIDTH + c % KEY_WIDTH] = x[from + p.k_column + c];
    }
  }
  if (VALUE_WIDTH != 0) {
    for (uint c = gl_LocalInvocationID.x; c < HEADS * VALUE_WIDTH; c += gl_WorkGroupSize.x) {
      const uint head = seq * HEADS + c / VALUE_WIDTH;
      v_cache[at[2].x + (head * p.v_capacity + place) * VALUE_WIDTH + c % VALUE_WIDTH] = x[from + p.v_column + c];
    }
  }
}
