// softmax(q k^T scale + masks) v, no score in memory (online softmax: Milakov and Gimelshein 2018): a query a lane,
// keys in blocks of VKF_KEY_BLOCK from key 0, any head width up to VKF_MAX_HEAD_WIDTH. Operands: lib/attention.glsl, out.
// A key that a query does not see leaves all its sums untouched, and a maximum that did not rise rescales by exactly 1,
// so padding, the cache and the batch leave no trace in the bits. A query without any key gives zeros.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#include "lib/attention.glsl"

void main() {
  const uint T = dim[p.queries], t0 = gl_WorkGroupID.x * gl_WorkGroupSize.x;
  const Place me = place_of(min(t0 + gl_LocalInvocationID.x, T - 1));
  const uint row = me.seq * T + me.t, end = keys_until(me, min(t0 + gl_WorkGroupSize.x, T) - 1);
  float q[KEY_WIDTH], o[VALUE_WIDTH];
  for (uint d = 0; d < KEY_WIDTH; d++)
    q[d] = q_data[at[0].x + row * p.q_stride + p.q_column + me.head * KEY_WIDTH + d];
  for (uint d = 0; d < VALUE_WIDTH; d++) o[d] = 0.0;
  float top = LOWEST, total = 0.0;
  for (uint s0 = 0; s0 < end; s0 += VKF_KEY_BLOCK) {
    const uint n = min(end - s0, VKF_KEY_BLOCK);
    float score[VKF_KEY_BLOCK];
    bool seen[VKF_KEY_BLOCK];
    float risen = top;
    for (uint j = 0; j < n; j++) {
      const uint ki = at[1].x + key_row(me, s0 + j) * KEY_WIDTH;
      float sum = 0.0;
      for (uint d = 0; d < KEY_WIDTH; d++) sum = mad(q[d], k_data[ki + d], sum);
      score[j] = scaled(me, s0 + j, sum);
      seen[j] = sees(me, s0 + j) && is_key(score[j]);
      if (seen[j]) risen = max(risen, score[j]);
    }
    const float factor = risen == top ? 1.0 : exp_below(top - risen);
    top = risen;
    total *= factor;
    for (uint d = 0; d < VALUE_WIDTH; d++) o[d] *= factor;
    for (uint j = 0; j < n; j++) {
      if (!seen[j]) continue;
      const float e = exp_below(score[j] - top);
      const uint vi = at[2].x + key_row(me, s0 + j) * VALUE_WIDTH;
      total += e;
      for (uint d = 0; d < VALUE_WIDTH; d++) o[d] = mad(e, v_data[vi + d], o[d]);
    }
  }
  if (t0 + gl_LocalInvocationID.x >= T) return;
  for (uint d = 0; d < VALUE_WIDTH; d++)
    store(row, me.head * VALUE_WIDTH + d, HEADS * VALUE_WIDTH, total == 0.0 ? 0.0 : o[d] / total);
}
