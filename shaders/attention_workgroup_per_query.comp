// As attention.comp, with the same bits: one workgroup of VKF_KEY_BLOCK lanes for each query. First each lane computes
// the score of one key of a block. Then each lane has four columns of the values (and every 64th after them) and adds
// up all keys of the block. Lanes exchange weights through shared memory. Head widths are multiples of 4.
// TEXEL: reads k and v through texel buffers.
//
// module attention_workgroup_per_query, reads caches, written out
// module attention_workgroup_per_query_texel: TEXEL, reads caches, written out
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"

#include "lib/keys_values.glsl"
#include "lib/each.glsl"
#define MAX_CHUNKS 4
#if MAX_CHUNKS > 4
#error "EACH_4 takes 4"
#endif
const uint CHUNKS = (VALUE_WIDTH + 4 * VKF_KEY_BLOCK - 1) / (4 * VKF_KEY_BLOCK);
shared vec4 q4[VKF_MAX_HEAD_WIDTH / 4];
shared float scores[VKF_KEY_BLOCK], weights[VKF_KEY_BLOCK];
shared uint rows[VKF_KEY_BLOCK]; // of the keys that the query sees; else VKF_ABSENT
vec4 o[MAX_CHUNKS];

void add_value(uint c, float weight, uint vi, uint d) {
  if (c < CHUNKS && d < VALUE_WIDTH / 4) o[c] = mad(weight, LOAD(v4, vi + d), o[c]);
}
void store_chunk(uint c, Place me, uint row, uint d, float total) {
  if (c < CHUNKS && d < VALUE_WIDTH / 4) {
    [[unroll]] for (uint i = 0; i < 4; i++)
      store(row, me.head * VALUE_WIDTH + 4 * d + i, HEADS * VALUE_WIDTH, total == 0.0 ? 0.0 : quotient(o[c][i], total));
  }
}

void main() {
  const Place me = query_place();
  if (me.t >= me.span.queries) return;
  const uint lane = gl_LocalInvocationID.x, row = row_of(me), end = keys_until(me, me.t);
  const uint qi = at[0].x + row * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  for (uint d = lane; d < KEY_WIDTH / 4; d += VKF_KEY_BLOCK)
    q4[d] = vec4(q_data[qi + 4 * d], q_data[qi + 4 * d + 1], q_data[qi + 4 * d + 2], q_data[qi + 4 * d + 3]);
#define CLEAR(c) o[c] = vec4(0.0)
  EACH_4(MAX_CHUNKS, CLEAR)
  float top = LOWEST, total = 0.0;
  barrier();
  for (uint s0 = keys_from(me, me.t); s0 < end; s0 += VKF_KEY_BLOCK) {
    float score = LOWEST;
    uint own_row = VKF_ABSENT;
    if (sees(me, s0 + lane)) {
      own_row = key_row(me, s0 + lane);
      const uint ki = FIRST(1) + own_row * (KEY_WIDTH / 4);
      float sum = 0.0;
      for (uint d = 0; d < KEY_WIDTH / 4; d++) sum = products(q4[d], LOAD(k4, ki + d), sum);
      score = scaled(me, s0 + lane, sum);
      if (!is_key(score)) own_row = VKF_ABSENT;
    }
    scores[lane] = score;
    rows[lane] = own_row;
    barrier();
    float risen = top;
    for (uint j = 0; j < VKF_KEY_BLOCK; j++)
      if (rows[j] != VKF_ABSENT) risen = larger(risen, scores[j]);
    const float factor = risen == top ? 1.0 : exp_below(top - risen);
    top = risen;
    weights[lane] = exp_below(score - top);
    total = mul(total, factor);
#define RESCALE(c) o[c] = mul(o[c], factor)
    EACH_4(MAX_CHUNKS, RESCALE)
    barrier();
    for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
      if (rows[j] == VKF_ABSENT) continue;
      const uint vi = FIRST(2) + rows[j] * (VALUE_WIDTH / 4);
      total += weights[j];
#define ADD_VALUE(c) add_value(c, weights[j], vi, lane + (c) * VKF_KEY_BLOCK)
      EACH_4(MAX_CHUNKS, ADD_VALUE)
    }
    barrier();
  }
#define STORE_CHUNK(c) store_chunk(c, me, row, lane + (c) * VKF_KEY_BLOCK, total)
  EACH_4(MAX_CHUNKS, STORE_CHUNK)
}
