// As norm.comp, with the same bits: one subgroup for each row (or group), for drivers that load once what all lanes
// share (lib/pick.glsl). Nothing is gathered. Lanes exchange only the parts of the two sums, and each lane adds them
// up. Widths are multiples of SUBGROUP_SIZE. Operands: x, residual, weight, bias, out; all but out are read by address.
//
// module norm_uniform_w8: SUBGROUP_SIZE=8
// module norm_uniform_w16: SUBGROUP_SIZE=16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_ballot : require
#define PARAMS vkf_push_norm
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#include "lib/by_address.glsl"
#include "lib/pick.glsl"
#include "lib/turns.glsl"

layout(constant_id = VKF_C_IS_RMS) const uint IS_RMS = 0;
layout(constant_id = VKF_C_NORM_HAS_RESIDUAL) const uint HAS_RESIDUAL = 0;
layout(constant_id = VKF_C_NORM_HAS_WEIGHT) const uint HAS_WEIGHT = 0;
layout(constant_id = VKF_C_NORM_HAS_BIAS) const uint HAS_BIAS = 0;
FROM_ADDRESS(4) Vectors { vec4 at[SUBGROUP_SIZE / 4]; };

// Partial sum p of lib/partials.glsl is in lane p % SUBGROUP_SIZE of vector p / SUBGROUP_SIZE.
#define VECTORS (VKF_ROW_PARTIALS / SUBGROUP_SIZE)

// Loads SUBGROUP_SIZE neighbouring numbers, one for each lane.
float vector_at(uint64_t from) {
  float v;
  PICK(v, vec4, Vectors(from).at[f])
  return v;
}

// Loads x and adds the residual, if there is one.
float element_at(uint64_t x, uint64_t residual) {
  precise float v = vector_at(x);
  if (HAS_RESIDUAL != 0) v += vector_at(residual);
  return v;
}

float total_of(float parts[VECTORS]) {
  [[unroll]] for (uint n = VECTORS / 2; n > 0; n /= 2) {
    [[unroll]] for (uint j = 0; j < n; j++) parts[j] += parts[j + n];
  }
#define LANES(l) \
  vec4(subgroupBroadcast(parts[0], l), subgroupBroadcast(parts[0], l + 1), subgroupBroadcast(parts[0], l + 2), \
       subgroupBroadcast(parts[0], l + 3))
#if SUBGROUP_SIZE == 16
  const vec4 four = (LANES(0) + LANES(8)) + (LANES(4) + LANES(12));
#else
  const vec4 four = LANES(0) + LANES(4);
#endif
  const vec2 two = four.xy + four.zw;
  return two.x + two.y;
}

// Runs EACH(c, j) for every vector of columns. The vector begins at column c and adds to the j-th vector of partial
// sums. A turn takes AT_ONCE pieces of VECTORS, because it costs as much as four vectors; then come single pieces, then
// what is left. Loops test at their end (`do`). This driver runs the body of a `for` once too often, without lanes, and
// in that turn still loads by address, behind the end of the row. It jumps over an `if` that no lane takes.
#define AT_ONCE 4
#define FOR_VECTORS(EACH) \
  if (most > 0) { \
    uint counter = ZERO_OF_LANES, c0; \
    do { \
      c0 = of_first_lane(counter); \
      [[unroll]] for (uint i = 0; i < AT_ONCE * VECTORS; i++) EACH(c0 + i * SUBGROUP_SIZE, i % VECTORS) \
      counter += AT_ONCE * VKF_ROW_PARTIALS; \
    } while (c0 + AT_ONCE * VKF_ROW_PARTIALS < most); \
  } \
  if (most < whole) { \
    uint counter = most + ZERO_OF_LANES, c0; \
    do { \
      c0 = of_first_lane(counter); \
      [[unroll]] for (uint j = 0; j < VECTORS; j++) EACH(c0 + j * SUBGROUP_SIZE, j) \
      counter += VKF_ROW_PARTIALS; \
    } while (c0 + VKF_ROW_PARTIALS < whole); \
  } \
  if (whole < p.width) { \
    [[unroll]] for (uint j = 0; j < VECTORS; j++) \
      if (whole + j * SUBGROUP_SIZE < p.width) EACH(whole + j * SUBGROUP_SIZE, j) \
  }

void main() {
  const uint row = gl_WorkGroupID.x / p.groups, group = gl_WorkGroupID.x % p.groups, lane = gl_SubgroupInvocationID;
  const uint column = group * p.width, begin = row * p.row_width + column;
  const uint most = p.width / (AT_ONCE * VKF_ROW_PARTIALS) * (AT_ONCE * VKF_ROW_PARTIALS);
  const uint whole = p.width / VKF_ROW_PARTIALS * VKF_ROW_PARTIALS;
  const uint64_t x = packUint2x32(at[0]) + begin * 4, residual = packUint2x32(at[1]) + begin * 4;
  const uint64_t weight = packUint2x32(at[2]) + column * 4, bias = packUint2x32(at[3]) + column * 4;
  float parts[VECTORS];
  float mean = 0.0;
  if (IS_RMS == 0) {
    [[unroll]] for (uint j = 0; j < VECTORS; j++) parts[j] = 0.0;
#define ADD(c, j) parts[j] += element_at(x + (c) * 4, residual + (c) * 4);
    FOR_VECTORS(ADD)
    mean = quotient(total_of(parts), float(p.width));
  }
  [[unroll]] for (uint j = 0; j < VECTORS; j++) parts[j] = 0.0;
#define ADD_SQUARE(c, j) \
  { \
    const float d = element_at(x + (c) * 4, residual + (c) * 4) - mean; \
    parts[j] = mad(d, d, parts[j]); \
  }
  FOR_VECTORS(ADD_SQUARE)
  const float factor = inversesqrt_of(quotient(total_of(parts), float(p.width)) + flushed(p.eps));
#define NORMED(c, j) \
  { \
    precise float y = mul(element_at(x + (c) * 4, residual + (c) * 4) - mean, factor); \
    if (HAS_WEIGHT != 0) y = mul(y, vector_at(weight + (c) * 4)); \
    if (HAS_BIAS != 0) y = y + vector_at(bias + (c) * 4); \
    store(row, column + (c) + lane, p.row_width, y); \
  }
  FOR_VECTORS(NORMED)
  uint c = p.groups * p.width; // the rest of the row is copied
  if (group == 0 && c < p.row_width) {
    do {
      store(row, c + lane, p.row_width, element_at(x + c * 4, residual + c * 4));
    } while ((c += SUBGROUP_SIZE) < p.row_width);
  }
}
