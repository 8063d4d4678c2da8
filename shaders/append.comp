// Key and value columns of a row go to its place in the head-major caches [seq][head][capacity][width], stored as FORMAT
// in rows of whole words; a workgroup moves a row. Operands: x, k, v (k and v keep what is not written).
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_append
#include "lib/kernel.glsl"
#include "lib/format.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) buffer K { WORD k_cache[]; };
layout(BINDING(2)) buffer V { WORD v_cache[]; };
layout(constant_id = VKF_C_APPEND_HEADS) const uint HEADS = 1;
layout(constant_id = VKF_C_APPEND_KEY_WIDTH) const uint KEY_WIDTH = 0;
layout(constant_id = VKF_C_APPEND_VALUE_WIDTH) const uint VALUE_WIDTH = 0;

// Word i of a row of `width` elements that begins at x[from].
WORD packed(uint from, uint width, uint i) {
#if FORMAT == VKF_S_F32
  return x[from + i];
#else
  const uint high = 2 * i + 1 < width ? half_of(x[from + 2 * i + 1]) : 0;
  return half_of(x[from + 2 * i]) | high << 16;
#endif
}

void main() {
  const uint row = gl_WorkGroupID.x, tokens = dim[p.tokens];
  if (row >= dim[p.seqs] * tokens) return;
  const uint seq = row / tokens, place = dim[p.past] + row % tokens;
  const uint from = at[0].x + row * p.x_stride;
  if (KEY_WIDTH != 0) {
    const uint words = (KEY_WIDTH + PER_WORD - 1) / PER_WORD;
    for (uint c = gl_LocalInvocationID.x; c < HEADS * words; c += gl_WorkGroupSize.x) {
      const uint head = c / words, to = ((seq * HEADS + head) * p.k_capacity + place) * words;
      k_cache[at[1].x + to + c % words] = packed(from + p.k_column + head * KEY_WIDTH, KEY_WIDTH, c % words);
    }
  }
  if (VALUE_WIDTH != 0) {
    const uint words = (VALUE_WIDTH + PER_WORD - 1) / PER_WORD;
    for (uint c = gl_LocalInvocationID.x; c < HEADS * words; c += gl_WorkGroupSize.x) {
      const uint head = c / words, to = ((seq * HEADS + head) * p.v_capacity + place) * words;
      v_cache[at[2].x + to + c % words] = packed(from + p.v_column + head * VALUE_WIDTH, VALUE_WIDTH, c % words);
    }
  }
}
