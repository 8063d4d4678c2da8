// As append.comp, with the same bits: one subgroup for each row, for drivers that load once what all lanes share
// (lib/pick.glsl). Operands: x, k, v, spans; with TURNED x, k, v, positions, table, q, spans. x and table are read by
// address. A lane has two neighbouring columns and stores them as a pair. With TURNED it has two columns of the first
// half of a head and the two that they are turned with. It loads the angles of a row once, so heads must be turned
// whole, half against half. Halves (heads, if they are not turned) and value widths are multiples of 2 SUBGROUP_SIZE.
//
// module append_moved_w8: SUBGROUP_SIZE=8
// module append_moved_w16: SUBGROUP_SIZE=16
// module append_uniform_w8: TURNED SUBGROUP_SIZE=8
// module append_uniform_w16: TURNED SUBGROUP_SIZE=16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_ballot : require
#define PARAMS vkf_push_append
#ifdef TURNED
#define OUT 5
#define SPANS 6
#else
#define OUT 1
#define SPANS 3
#endif
#define STORES_PAIRS
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#include "lib/by_address.glsl"
#include "lib/pick.glsl"
#include "lib/turns.glsl"
#include "lib/append.glsl"

layout(BINDING(1)) buffer K { uint64_t k_cache[]; };
layout(BINDING(2)) buffer V { uint64_t v_cache[]; };
FROM_ADDRESS(4) Vectors { vec4 at[SUBGROUP_SIZE / 2]; };

#define STEP (2 * SUBGROUP_SIZE) // columns
#define LANE gl_SubgroupInvocationID

vec2 pair_at(uint64_t from) {
  vec2 pair;
  PICK2(pair, Vectors(from).at[f])
  return pair;
}

#ifdef TURNED
layout(BINDING(3)) readonly buffer Positions { uint positions[]; };
FROM_ADDRESS(4) Quads { vec4 at[SUBGROUP_SIZE]; };
#define MAX_STEPS (VKF_MAX_HEAD_WIDTH / STEP / 2)
const uint HALF = KEY_WIDTH / 2, STEPS = HALF / STEP;
// Cosines and sines of this lane's pairs.
vec4 angles[MAX_STEPS];

void turn(uint64_t head, uint i, out vec2 first, out vec2 second) {
  const vec2 a = pair_at(head + i * STEP * 4), b = pair_at(head + (HALF + i * STEP) * 4);
  const vec2 cosine = angles[i].xz, sine = angles[i].yw;
  first = vec2(mad(a.x, cosine.x, -mul(b.x, sine.x)), mad(a.y, cosine.y, -mul(b.y, sine.y)));
  second = vec2(mad(b.x, cosine.x, mul(a.x, sine.x)), mad(b.y, cosine.y, mul(a.y, sine.y)));
}
#endif

void main() {
  Place to;
  if (!find_place(to)) return;
  const uint64_t x = packUint2x32(at[0]) + to.row * p.x_stride * 4;
#ifdef TURNED
  const uint64_t table = packUint2x32(at[4]) + min(positions[at[3].x + to.row], p.n_positions - 1) * KEY_WIDTH * 4;
  [[unroll]] for (uint i = 0; i < STEPS; i++) PICK4(angles[i], Quads(table + 2 * i * STEP * 4).at[f])
  // Loops that test at their end: see norm_uniform.comp.
  if (p.q_width > 0) {
    uint counter = ZERO_OF_LANES, column;
    do {
      column = of_first_lane(counter);
      [[unroll]] for (uint i = 0; i < STEPS; i++) {
        vec2 first, second;
        turn(x + (p.q_column + column) * 4, i, first, second);
        store2(to.row, column + i * STEP + 2 * LANE, p.q_width, first);
        store2(to.row, column + HALF + i * STEP + 2 * LANE, p.q_width, second);
      }
      counter += KEY_WIDTH;
    } while (column + KEY_WIDTH < p.q_width);
  }
#endif
  uint counter = ZERO_OF_LANES, head;
  do {
    head = of_first_lane(counter);
    const uint k_to = (at[1].x + ((to.slot * HEADS + head) * p.k_capacity + to.key) * KEY_WIDTH) / 2 + LANE;
    const uint v_to = (at[2].x + ((to.slot * HEADS + head) * p.v_capacity + to.key) * VALUE_WIDTH) / 2 + LANE;
#ifdef TURNED
    [[unroll]] for (uint i = 0; i < STEPS; i++) {
      vec2 first, second;
      turn(x + (p.k_column + head * KEY_WIDTH) * 4, i, first, second);
      k_cache[k_to + i * STEP / 2] = word_of_pair(first);
      k_cache[k_to + (HALF + i * STEP) / 2] = word_of_pair(second);
    }
#else
    [[unroll]] for (uint c = 0; c < KEY_WIDTH; c += STEP)
      k_cache[k_to + c / 2] = word_of_pair(pair_at(x + (p.k_column + head * KEY_WIDTH + c) * 4));
#endif
    [[unroll]] for (uint c = 0; c < VALUE_WIDTH; c += STEP)
      v_cache[v_to + c / 2] = word_of_pair(pair_at(x + (p.v_column + head * VALUE_WIDTH + c) * 4));
    counter++;
  } while (head + 1 < HEADS);
}
