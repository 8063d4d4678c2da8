// As log_softmax.comp, with the same bits: one subgroup for each row, without shared memory. Operands: x, out.
//
// module log_softmax_lanes
// module log_softmax_lanes_texel: TEXEL
// module log_softmax_lanes_w4: SUBGROUP_SIZE=4
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PARAMS vkf_push_rows
#define OUT 1
#define BY_LANES
#include "lib/kernel.glsl"
#include "lib/lanes.glsl"
#include "lib/partials.glsl"
#include "lib/store.glsl"

vec4 larger4(vec4 a, vec4 b) {
  return vec4(larger(a.x, b.x), larger(a.y, b.y), larger(a.z, b.z), larger(a.w, b.w));
}
vec4 exp_below4(vec4 v) { return vec4(exp_below(v.x), exp_below(v.y), exp_below(v.z), exp_below(v.w)); }

void main() {
  const uint row = gl_WorkGroupID.x, own = 4 * gl_SubgroupInvocationID, begin = begin_at(row * p.width);
  const uint whole = p.width / VKF_ROW_PARTIALS * VKF_ROW_PARTIALS;
  vec4 top4 = vec4(-3.402823466e38);
  for (uint c = own; c < whole; c += 4 * SUBGROUP_SIZE) top4 = larger4(top4, four(begin, c));
  for (uint c = whole + own; c < p.width; c += 4 * SUBGROUP_SIZE)
    top4 = larger4(top4, four_until(begin, c, p.width, top4.x));
  float top = larger(larger(top4.x, top4.y), larger(top4.z, top4.w));
  [[unroll]] for (uint n = 1; n < SUBGROUP_SIZE; n *= 2) top = larger(top, subgroupShuffleXor(top, n));
  vec4 parts[MAX_PIECES]; // NaN gets in here, since larger() drops it
  [[unroll]] for (uint h = 0; h < PIECES; h++) parts[h] = vec4(0.0);
  for (uint c = own; c < whole; c += VKF_ROW_PARTIALS) {
    [[unroll]] for (uint h = 0; h < PIECES; h++) parts[h] += exp_below4(four(begin, c + h * 4 * SUBGROUP_SIZE) - top);
  }
  const float nothing = uintBitsToFloat(0xff800000u); // exp of it is 0
  [[unroll]] for (uint h = 0; h < PIECES; h++)
    parts[h] += exp_below4(four_until(begin, whole + own + h * 4 * SUBGROUP_SIZE, p.width, nothing) - top);
  precise float shift = log_of(total_of(parts));
  const uint fours = p.width / 4 * 4;
  for (uint c = own; c < fours; c += 4 * SUBGROUP_SIZE) {
    precise vec4 y = four(begin, c) - top;
    store4(row, c, p.width, y - shift);
  }
  for (uint c = fours + own / 4; c < p.width; c += SUBGROUP_SIZE) {
    precise float y = one(begin, c) - top;
    store(row, c, p.width, y - shift);
  }
}
