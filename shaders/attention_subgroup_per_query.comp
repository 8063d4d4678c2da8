// As attention.comp, with the same bits: one subgroup, which is the whole workgroup, for each query; for few queries.
// First each lane computes the score of one key (and of every SUBGROUP_SIZE-th after it) of a block. Then each lane has
// four columns of the values (and every 4 SUBGROUP_SIZE-th after them) and adds up all keys of the block. Lanes
// exchange queries, weights and rows by shuffles. Head widths are multiples of 4.
// TEXEL: reads k and v through texel buffers.
//
// module attention_subgroup_per_query, reads caches
// module attention_subgroup_per_query_texel: TEXEL, reads caches
// module attention_subgroup_per_query_w4: SUBGROUP_SIZE=4, reads caches
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"
#include "lib/keys_values.glsl"

const uint KEYS = VKF_KEY_BLOCK / SUBGROUP_SIZE; // of a block in a lane
const uint CHUNKS = (VALUE_WIDTH / 4 + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE;
const uint Q_CHUNKS = (KEY_WIDTH / 4 + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE;
#define MAX_KEYS 4
#define MAX_CHUNKS 16

void main() {
  const Place me = query_place();
  if (me.t >= me.span.queries) return;
  const uint lane = gl_SubgroupInvocationID, row = row_of(me), end = keys_until(me, me.t);
  const uint qi = at[0].x + row * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  vec4 q[MAX_CHUNKS], o[MAX_CHUNKS];
  [[unroll]] for (uint c = 0; c < Q_CHUNKS; c++) {
    const uint i = qi + 4 * min(c * SUBGROUP_SIZE + lane, KEY_WIDTH / 4 - 1);
    q[c] = vec4(q_data[i], q_data[i + 1], q_data[i + 2], q_data[i + 3]);
  }
  [[unroll]] for (uint c = 0; c < CHUNKS; c++) o[c] = vec4(0.0);
  float top = LOWEST, total = 0.0;
  for (uint s0 = keys_from(me, me.t); s0 < end; s0 += VKF_KEY_BLOCK) {
    float score[MAX_KEYS];
    uint rows[MAX_KEYS]; // of the keys that the query sees; else VKF_ABSENT
    float risen = LOWEST;
    [[unroll]] for (uint i = 0; i < KEYS; i++) {
      const uint s = s0 + i * SUBGROUP_SIZE + lane, own = key_row(me, min(s, end - 1));
      float sum = 0.0;
      [[unroll]] for (uint d = 0; d < KEY_WIDTH / 4; d++) {
        const vec4 a = subgroupShuffle(q[d / SUBGROUP_SIZE], d % SUBGROUP_SIZE);
        const vec4 b = LOAD(k4, FIRST(1) + own * (KEY_WIDTH / 4) + d);
        sum = products(a, b, sum);
      }
      score[i] = scaled(me, min(s, end - 1), sum);
      rows[i] = sees(me, s) && is_key(score[i]) ? own : VKF_ABSENT;
      if (rows[i] != VKF_ABSENT) risen = larger(risen, score[i]);
    }
    [[unroll]] for (uint n = 1; n < SUBGROUP_SIZE; n *= 2) risen = larger(risen, subgroupShuffleXor(risen, n));
    risen = larger(top, risen);
    const float factor = risen == top ? 1.0 : exp_below(top - risen);
    top = risen;
    total = mul(total, factor);
    [[unroll]] for (uint c = 0; c < CHUNKS; c++) o[c] = mul(o[c], factor);
    [[unroll]] for (uint i = 0; i < KEYS; i++) {
      const float weight = exp_below(score[i] - top);
      [[unroll]] for (uint l = 0; l < SUBGROUP_SIZE; l++) {
        const float w = subgroupShuffle(weight, l);
        const uint from = subgroupShuffle(rows[i], l);
        if (from == VKF_ABSENT) continue;
        total += w;
        [[unroll]] for (uint c = 0; c < CHUNKS; c++)
          o[c] = mad(w,
                     LOAD(v4, FIRST(2) + from * (VALUE_WIDTH / 4) + min(c * SUBGROUP_SIZE + lane, VALUE_WIDTH / 4 - 1)),
                     o[c]);
      }
    }
  }
  [[unroll]] for (uint c = 0; c < CHUNKS; c++) {
    vec4 y = vec4(0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) y[i] = total == 0.0 ? 0.0 : quotient(o[c][i], total);
    if (c * SUBGROUP_SIZE + lane < VALUE_WIDTH / 4)
      store4(row, me.head * VALUE_WIDTH + 4 * (c * SUBGROUP_SIZE + lane), HEADS * VALUE_WIDTH, y);
  }
}
