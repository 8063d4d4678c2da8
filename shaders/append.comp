// Key and value columns of a row go to its place in the head-major caches [seq][head][capacity][width], stored in any
// format in rows of whole words; a workgroup moves a row. Operands: x, k, v (k and v keep what is not written), spans.
// In a packed batch there are workgroups for as many rows of each sequence as the longest has. PAIRS:
// two float32 at a time, for drivers whose gathers and scatters take as long for 64 bits a lane as for 32.
//
// module append, reads caches
// module append_pairs: PAIRS
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef PAIRS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#define PARAMS vkf_push_append
#include "lib/kernel.glsl"
#include "lib/format.glsl"
#include "lib/spans.glsl"

#ifdef PAIRS
#define UNIT uint64_t
#define OF_X uint64_t
#define WORDS 2
#else
#define UNIT WORD
#define OF_X float
#define WORDS 1
#endif
#define PER_UNIT (WORDS * PER_WORD)
layout(BINDING(0)) readonly buffer X { OF_X x[]; };
layout(BINDING(1)) buffer K { UNIT k_cache[]; };
layout(BINDING(2)) buffer V { UNIT v_cache[]; };
layout(constant_id = VKF_C_APPEND_HEADS) const uint HEADS = 1;
layout(constant_id = VKF_C_APPEND_KEY_WIDTH) const uint KEY_WIDTH = 0;
layout(constant_id = VKF_C_APPEND_VALUE_WIDTH) const uint VALUE_WIDTH = 0;
layout(constant_id = VKF_C_APPEND_IS_PACKED) const uint IS_PACKED = 0;

// Unit i of a row of `width` elements that begins at x[from].
UNIT packed(uint from, uint width, uint i) {
#ifdef PAIRS
  return x[from / 2 + i];
#else
  float numbers[PER_WORD];
  [[unroll]] for (uint e = 0; e < PER_WORD; e++) {
    const uint c = i * PER_WORD + e;
    numbers[e] = e == 0 || c < width ? x[from + c] : 0.0;
  }
  return word_of(numbers);
#endif
}

void main() {
  const uint tokens = dim[p.tokens], seq = gl_WorkGroupID.x / tokens, t = gl_WorkGroupID.x % tokens;
  if (seq >= dim[p.seqs]) return;
  Span span = Span(seq * tokens, tokens, dim[p.past], 0, seq, 0);
  if (IS_PACKED != 0) span = span_of(3, seq);
  if (t >= span.queries) return;
  const uint from = at[0].x + (span.row + t) * p.x_stride, place = span.first + span.past + t;
  if (KEY_WIDTH != 0) {
    const uint units = (KEY_WIDTH + PER_UNIT - 1) / PER_UNIT;
    for (uint c = gl_LocalInvocationID.x; c < HEADS * units; c += gl_WorkGroupSize.x) {
      const uint head = c / units, to = ((span.slot * HEADS + head) * p.k_capacity + place) * units;
      k_cache[at[1].x / WORDS + to + c % units] = packed(from + p.k_column + head * KEY_WIDTH, KEY_WIDTH, c % units);
    }
  }
  if (VALUE_WIDTH != 0) {
    const uint units = (VALUE_WIDTH + PER_UNIT - 1) / PER_UNIT;
    for (uint c = gl_LocalInvocationID.x; c < HEADS * units; c += gl_WorkGroupSize.x) {
      const uint head = c / units, to = ((span.slot * HEADS + head) * p.v_capacity + place) * units;
      v_cache[at[2].x / WORDS + to + c % units] =
          packed(from + p.v_column + head * VALUE_WIDTH, VALUE_WIDTH, c % units);
    }
  }
}
