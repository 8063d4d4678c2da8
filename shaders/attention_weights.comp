// The weights of attention, [seq][head][query][key] at capacity strides. A lane computes one query, a workgroup a band
// of WORKGROUP queries. Operands: lib/attention.glsl (v is absent), out. The result holds the scores first, then exp of
// them, then the weights. Keys that a query does not see get exactly zero, and so do all keys of a query without any.
// In a packed batch, everything that is not a query or a key of a sequence is zero. Each turn of a loop takes several
// keys, or many elements of one, because drivers may end a loop after so many turns (kern/family.h).
//
// module attention_weights, reads caches
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/attention.glsl"

layout(BINDING(OUT)) buffer Out { float weights[]; };

const uint KEYS_AT_ONCE = KEY_WIDTH < VKF_NARROW_HEAD ? VKF_SCORES_OF_NARROW : 1;
const uint SCORES_AT_ONCE = KEY_WIDTH < VKF_NARROW_HEAD ? VKF_SCORES_OF_NARROW : VKF_SCORES_AT_ONCE;
#define ADD(d) sum = mad(q_data[qi + (d)], ELEMENT(k_data, 1, from, KEY_WIDTH, d), sum)

float products(uint qi, uint from) {
  float sum = 0.0;
  if (KEY_WIDTH < VKF_NARROW_HEAD) {
    [[unroll]] for (uint d = 0; d < KEY_WIDTH; d++) ADD(d);
  } else {
    [[dont_unroll]] for (uint d0 = 0; d0 < KEY_WIDTH; d0 += VKF_HEAD_AT_ONCE) {
      [[unroll]] for (uint i = 0; i < VKF_HEAD_AT_ONCE; i++) {
        const uint d = d0 + i;
        if (KEY_WIDTH % VKF_HEAD_AT_ONCE == 0 || d < KEY_WIDTH) ADD(d);
      }
    }
  }
  return sum;
}

void main() {
  const uint t = gl_GlobalInvocationID.x;
  if (t >= dim[p.queries]) return;
  Place me = lane_place(t);
  if (t >= me.span.queries) me.span.keys = 0;
  const uint qi = at[0].x + row_of(me) * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  const uint out0 = at[OUT].x + ((me.seq * HEADS + me.head) * p.out_queries + t) * p.out_keys;
  float top = LOWEST, total = 0.0;
  for (uint s0 = 0; s0 < me.span.keys; s0 += KEYS_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; i++) {
      const uint s = s0 + i;
      if (sees(me, s)) {
        const float score = scaled(me, s, products(qi, key_row(me, s)));
        weights[out0 + s] = score;
        top = larger(top, score);
      }
    }
  }
  for (uint s0 = 0; s0 < me.span.keys; s0 += SCORES_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < SCORES_AT_ONCE; i++) {
      const uint s = s0 + i;
      float e = -1.0; // no key
      if (sees(me, s) && is_key(weights[out0 + s])) {
        e = exp_below(weights[out0 + s] - top);
        total += e;
      }
      if (s < me.span.keys) weights[out0 + s] = e;
    }
  }
  for (uint s0 = 0; s0 < me.span.keys; s0 += SCORES_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < SCORES_AT_ONCE; i++) {
      const uint s = min(s0 + i, me.span.keys - 1);
      const float e = weights[out0 + s];
      if (s == s0 + i) weights[out0 + s] = e < 0.0 || total == 0.0 ? 0.0 : quotient(e, total);
    }
  }
  for (uint s0 = me.span.keys; IS_PACKED != 0 && s0 < dim[p.keys]; s0 += VKF_SCORES_OF_NARROW) {
    [[unroll]] for (uint i = 0; i < VKF_SCORES_OF_NARROW; i++)
      if (s0 + i < dim[p.keys]) weights[out0 + s0 + i] = 0.0;
  }
}
