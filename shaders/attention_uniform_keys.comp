// As attention.comp, with the same bits: one subgroup, which is the whole workgroup, for each query; for few queries on
// drivers that use one scalar load if all lanes load from the same address, and that compute only once what is the same
// in all lanes. That is everything but the values, of which a lane has one column (and every SUBGROUP_SIZE-th after
// it). A lane picks its column as in matmul_uniform.comp, so nothing is gathered and lanes exchange nothing. Key widths
// are multiples of 4, value widths of SUBGROUP_SIZE. The keys of a block are taken AT_ONCE at a time. Four at a time
// would take less time for few keys and more for many, because each sum waits for the one before.
//
// module attention_uniform_keys, reads caches
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_ballot : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"

#include "lib/pick.glsl"
#include "lib/rows_by_address.glsl"
#include "lib/turns.glsl"

#define MAX_VECTORS (VKF_MAX_UNIFORM_WIDTH / 8)
#define AT_ONCE 8 // keys

void main() {
  const Place me = query_place();
  if (me.t >= me.span.queries) return;
  const uint lane = gl_SubgroupInvocationID, row = row_of(me), end = keys_until(me, me.t);
  const uint qi = at[0].x + row * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  const uint VECTORS = VALUE_WIDTH / SUBGROUP_SIZE;
  float q[VKF_MAX_UNIFORM_WIDTH], o[MAX_VECTORS];
  [[unroll]] for (uint d = 0; d < KEY_WIDTH; d++) q[d] = q_data[qi + d];
  [[unroll]] for (uint c = 0; c < VECTORS; c++) o[c] = 0.0;
  float top = LOWEST, total = 0.0;
  for (uint counter = keys_from(me, me.t) + ZERO_OF_LANES; counter < end; counter += VKF_KEY_BLOCK) {
    const uint s0 = of_first_lane(counter);
    uint rows[VKF_KEY_BLOCK];
    float score[VKF_KEY_BLOCK];
    bool seen[VKF_KEY_BLOCK];
    float risen = top;
    [[unroll]] for (uint j0 = 0; j0 < VKF_KEY_BLOCK; j0 += AT_ONCE) {
      [[unroll]] for (uint j = j0; j < j0 + AT_ONCE; j++) score[j] = 0.0;
      [[unroll]] for (uint j = j0; j < j0 + AT_ONCE; j++) rows[j] = key_row(me, min(s0 + j, end - 1));
      if (s0 + j0 < end) {
        Rows k[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) k[j] = rows_at(1, rows[j0 + j] * KEY_WIDTH);
        [[unroll]] for (uint d = 0; d < KEY_WIDTH / 4; d++) {
          [[unroll]] for (uint j = 0; j < AT_ONCE; j++) {
            const vec4 b = unpack4(k[j].v[d]);
            [[unroll]] for (uint i = 0; i < 4; i++) score[j0 + j] = mad(q[4 * d + i], b[i], score[j0 + j]);
          }
        }
      }
    }
    [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
      score[j] = scaled(me, min(s0 + j, end - 1), score[j]);
      seen[j] = sees(me, s0 + j) && is_key(score[j]);
      risen = mix(risen, larger(risen, score[j]), seen[j]);
    }
    const float factor = risen == top ? 1.0 : exp_below(top - risen);
    top = risen;
    total = mul(total, factor);
    [[unroll]] for (uint c = 0; c < VECTORS; c++) o[c] = mul(o[c], factor);
    [[unroll]] for (uint j0 = 0; j0 < VKF_KEY_BLOCK; j0 += AT_ONCE) {
      if (s0 + j0 < end) {
        [[unroll]] for (uint j = j0; j < j0 + AT_ONCE; j++) {
          const float w = exp_below(score[j] - top);
          Rows v = rows_at(2, rows[j] * VALUE_WIDTH);
          total = mix(total, total + w, seen[j]);
          [[unroll]] for (uint c = 0; c < VECTORS; c++) {
            float b;
            PICK(b, vec4, unpack4(v.v[c * SUBGROUP_SIZE / 4 + f]))
            o[c] = mix(o[c], mad(w, b, o[c]), seen[j]);
          }
        }
      }
    }
  }
  [[unroll]] for (uint c = 0; c < VECTORS; c++)
    store(row, me.head * VALUE_WIDTH + c * SUBGROUP_SIZE + lane, HEADS * VALUE_WIDTH,
          total == 0.0 ? 0.0 : quotient(o[c], total));
}
