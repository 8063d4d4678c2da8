// As norm.comp, with the same bits: one subgroup for each row (or group), without shared memory. Operands: x, residual,
// weight, bias, out.
//
// module norm_lanes
// module norm_lanes_texel: TEXEL
// module norm_lanes_w4: SUBGROUP_SIZE=4
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PARAMS vkf_push_norm
#define OUT 4
#define BY_LANES
#include "lib/kernel.glsl"
#include "lib/lanes.glsl"
#include "lib/partials.glsl"
#include "lib/norm.glsl"

#ifdef TEXEL
vec4 weights(uint c) { return texelFetch(weight4, int(at[2].x + c / 4)); }
vec4 biases(uint c) { return texelFetch(bias4, int(at[3].x + c / 4)); }
#else
vec4 weights(uint c) { return vec4(WEIGHT(c), WEIGHT(c + 1), WEIGHT(c + 2), WEIGHT(c + 3)); }
vec4 biases(uint c) { return vec4(BIAS(c), BIAS(c + 1), BIAS(c + 2), BIAS(c + 3)); }
#endif

// Four elements of a group, which begins at column `first` of its row, its x at `begin`; `none` past its end.
vec4 elements(uint row, uint first, uint begin, uint c) {
  vec4 v = four(begin, c);
  if (HAS_RESIDUAL != 0) {
    [[unroll]] for (uint i = 0; i < 4; i++) v[i] = element(row, first + c + i, v[i]);
  }
  return v;
}
vec4 elements_until(uint row, uint first, uint begin, uint c, float none) {
  vec4 v = four_until(begin, c, p.width, none);
  if (HAS_RESIDUAL != 0) {
    [[unroll]] for (uint i = 0; i < 4; i++)
      if (c + i < p.width) v[i] = element(row, first + c + i, v[i]);
  }
  return v;
}

void main() {
  const uint row = gl_WorkGroupID.x / p.groups, group = gl_WorkGroupID.x % p.groups, lane = gl_SubgroupInvocationID;
  const uint first = group * p.width, begin = begin_at(row * p.row_width + first), own = 4 * lane;
  const uint whole = p.width / VKF_ROW_PARTIALS * VKF_ROW_PARTIALS;
  vec4 parts[MAX_PIECES];
  float mean = 0.0;
  if (IS_RMS == 0) {
    [[unroll]] for (uint h = 0; h < PIECES; h++) parts[h] = vec4(0.0);
    for (uint c0 = own; c0 < whole; c0 += VKF_ROW_PARTIALS) {
      [[unroll]] for (uint h = 0; h < PIECES; h++) parts[h] += elements(row, first, begin, c0 + 4 * h * SUBGROUP_SIZE);
    }
    if (whole < p.width) {
      [[unroll]] for (uint h = 0; h < PIECES; h++)
        parts[h] += elements_until(row, first, begin, whole + own + 4 * h * SUBGROUP_SIZE, 0.0);
    }
    mean = quotient(total_of(parts), float(p.width));
  }
  [[unroll]] for (uint h = 0; h < PIECES; h++) parts[h] = vec4(0.0);
  for (uint c0 = own; c0 < whole; c0 += VKF_ROW_PARTIALS) {
    [[unroll]] for (uint h = 0; h < PIECES; h++) {
      const vec4 d = elements(row, first, begin, c0 + 4 * h * SUBGROUP_SIZE) - mean;
      parts[h] = mad(d, d, parts[h]);
    }
  }
  if (whole < p.width) {
    [[unroll]] for (uint h = 0; h < PIECES; h++) {
      const vec4 d = elements_until(row, first, begin, whole + own + 4 * h * SUBGROUP_SIZE, mean) - mean;
      parts[h] = mad(d, d, parts[h]);
    }
  }
  const float factor = inversesqrt_of(quotient(total_of(parts), float(p.width)) + flushed(p.eps));
  const uint fours = p.width / 4 * 4;
  for (uint c = own; c < fours; c += 4 * SUBGROUP_SIZE) {
    precise vec4 y = mul(elements(row, first, begin, c) - mean, factor);
    if (HAS_WEIGHT != 0) y = mul(y, weights(first + c));
    if (HAS_BIAS != 0) y = y + biases(first + c);
    store4(row, first + c, p.row_width, y);
  }
  for (uint c = fours + lane; c < p.width; c += SUBGROUP_SIZE)
    normed(row, first + c, element(row, first + c, one(begin, c)), mean, factor);
  if (group == 0) {
    const uint rest = p.groups * p.width;
    for (uint c = rest + lane; c < p.row_width; c += SUBGROUP_SIZE)
      store(row, c, p.row_width, element(row, c, one(begin_at(row * p.row_width), c)));
  }
}
