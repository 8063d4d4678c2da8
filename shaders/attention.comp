// softmax(q k^T scale + masks) v without scores in memory (online softmax: Milakov and Gimelshein 2018). A lane
// computes one query. It takes keys in blocks of VKF_KEY_BLOCK, from the first key of the mask on. Heads may have any
// width up to VKF_MAX_HEAD_WIDTH. Operands: lib/attention.glsl, out.
// A key that a query does not see leaves all its sums as they are, and a maximum that does not rise rescales by exactly
// 1. So padding, the cache and the rest of the batch do not change the bits. A query without any key gives zeros.
// VEC4: loads four elements at a time (head widths are multiples of 4).
// TEXEL: reads k and v through texel buffers.
// HEADS_BESIDE: for few queries of many sequences. A lane has one head of a query. The heads of all sequences are in
// neighbouring lanes, so no lane is idle even if each sequence has one query. The loops over a head are unrolled, which
// halves the time on lavapipe, but takes 0.3 s to compile at width 64 and 1.8 s at 256.
//
// module attention, reads caches
// module attention_vec4: VEC4, reads caches
// module attention_vec4_texel: VEC4 TEXEL, reads caches
// module attention_heads: VEC4 HEADS_BESIDE, reads caches
// module attention_heads_texel: VEC4 TEXEL HEADS_BESIDE, reads caches
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#ifdef VEC4
#define KEYS_AND_VALUES_ELSEWHERE
#endif
#ifdef HEADS_BESIDE
#define UNROLL [[unroll]]
#else
#define UNROLL
#endif
#include "lib/attention.glsl"

#ifdef VEC4
#include "lib/keys_values.glsl"
#define STEP 4
#define PIECE vec4
// Two pieces per turn. If their number is odd, the last one is done after the loop, so that no turn has a condition:
// with one, SwiftShader takes 1.5 times as long.
#if VKF_HEAD_AT_ONCE_VEC4 != 2 * STEP
#error "the loop takes two pieces a turn, and VKF_HEAD_AT_ONCE_VEC4 says otherwise"
#endif
#define EACH_PIECE(n, BODY)                                                 \
  UNROLL for (uint d = 0; d < (n) / 2 * 2; d += 2) { BODY(d) BODY(d + 1) }  \
  if ((n) % 2 != 0) { BODY((n) - 1) }
#define KEY(row, d) LOAD(k4, FIRST(1) + (row) * (KEY_WIDTH / 4) + (d))
#define VALUE(row, d) LOAD(v4, FIRST(2) + (row) * (VALUE_WIDTH / 4) + (d))
vec4 query(uint i) { return vec4(q_data[i], q_data[i + 1], q_data[i + 2], q_data[i + 3]); }
#else
#define STEP 1
#define PIECE float
#define EACH_PIECE(n, BODY)                                             \
  [[dont_unroll]] for (uint d0 = 0; d0 < (n); d0 += VKF_HEAD_AT_ONCE) { \
    [[unroll]] for (uint d1 = 0; d1 < VKF_HEAD_AT_ONCE; d1++) {         \
      const uint d = d0 + d1;                                           \
      if ((n) % VKF_HEAD_AT_ONCE == 0 || d < (n)) { BODY(d) }           \
    }                                                                   \
  }
#define KEY(row, d) ELEMENT(k_data, 1, row, KEY_WIDTH, d)
#define VALUE(row, d) ELEMENT(v_data, 2, row, VALUE_WIDTH, d)
float query(uint i) { return q_data[i]; }
float products(float a, float b, float sum) { return mad(a, b, sum); }
#endif

#define SEQS dim[p.out_queries]

// What main() does with each piece of a head. A turn of a loop does several pieces, because drivers may end a loop
// after so many turns (kern/family.h).
#define ADD_PRODUCTS(d) sum = products(q[d], KEY(from, d), sum);
#define RESCALE(d) o[d] = mul(o[d], factor);
#define ADD_VALUE(d) o[d] = mad(PIECE(e), VALUE(from, d), o[d]);

void main() {
#ifdef HEADS_BESIDE
  const uint t0 = gl_WorkGroupID.y, last = t0, i = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (i >= SEQS * HEADS) return;
  const Place me = place_in(i / HEADS, i % HEADS, t0);
  if (t0 >= me.span.queries) return;
#else
  const uint t0 = gl_WorkGroupID.x * gl_WorkGroupSize.x, T = lane_place(t0).span.queries;
  if (t0 >= T) return;
  const Place me = lane_place(min(t0 + gl_LocalInvocationID.x, T - 1));
  const uint last = min(t0 + gl_WorkGroupSize.x, T) - 1;
#endif
  const uint row = row_of(me), end = keys_until(me, last);
  const uint qi = at[0].x + row * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  PIECE q[VKF_MAX_HEAD_WIDTH / STEP], o[VKF_MAX_HEAD_WIDTH / STEP];
  UNROLL for (uint d = 0; d < KEY_WIDTH / STEP; d++) q[d] = query(qi + d * STEP);
  UNROLL for (uint d = 0; d < VALUE_WIDTH / STEP; d++) o[d] = PIECE(0.0);
  float top = LOWEST, total = 0.0;
  for (uint s0 = keys_from(me, t0); s0 < end; s0 += VKF_KEY_BLOCK) {
    const uint n = min(end - s0, VKF_KEY_BLOCK);
    float score[VKF_KEY_BLOCK];
    bool seen[VKF_KEY_BLOCK];
    float risen = top;
    for (uint j = 0; j < n; j++) {
      const uint from = key_row(me, s0 + j);
      float sum = 0.0;
      EACH_PIECE(KEY_WIDTH / STEP, ADD_PRODUCTS)
      score[j] = scaled(me, s0 + j, sum);
      seen[j] = sees(me, s0 + j) && is_key(score[j]);
      if (seen[j]) risen = larger(risen, score[j]);
    }
    const float factor = risen == top ? 1.0 : exp_below(top - risen);
    top = risen;
    total = mul(total, factor);
    EACH_PIECE(VALUE_WIDTH / STEP, RESCALE)
    for (uint j = 0; j < n; j++) {
      if (!seen[j]) continue;
      const float e = exp_below(score[j] - top);
      const uint from = key_row(me, s0 + j);
      total += e;
      EACH_PIECE(VALUE_WIDTH / STEP, ADD_VALUE)
    }
  }
#ifndef HEADS_BESIDE
  if (t0 + gl_LocalInvocationID.x >= T) return;
#endif
  UNROLL for (uint d = 0; d < VALUE_WIDTH; d++) {
#ifdef VEC4
    const float y = o[d / 4][d % 4];
#else
    const float y = o[d];
#endif
    store(row, me.head * VALUE_WIDTH + d, HEADS * VALUE_WIDTH, total == 0.0 ? 0.0 : quotient(y, total));
  }
}
