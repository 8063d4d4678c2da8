// As top_k.comp, a row a subgroup, two passes and no shared memory. Operands: x, values, ids. k is at most
// VKF_MAX_LANES_K. The first pass finds the largest of 4 SUBGROUP_SIZE groups of columns. The k-th largest of these is
// a bound that k columns reach: the second pass looks at columns that reach it, in the order of their ids, and keeps
// the k best of them in a list. Values are compared by their keys (lib/order.glsl).
//
// module top_k_lanes
// module top_k_lanes_texel: TEXEL
// module top_k_lanes_w4: SUBGROUP_SIZE=4
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PARAMS vkf_push_top_k
#include "lib/kernel.glsl"
#include "lib/lanes.glsl"
#include "lib/order.glsl"

layout(BINDING(1)) writeonly buffer Values { float values[]; };
layout(BINDING(2)) writeonly buffer Ids { uint ids[]; };

const uint STEP = 4 * SUBGROUP_SIZE;
uint list_key[VKF_MAX_LANES_K], list_id[VKF_MAX_LANES_K];

uvec4 keys_until(uint begin, uint column) {
  const uvec4 k = keys(four_until(begin, column, p.width, 0.0));
  return mix(uvec4(NO_KEY), k, lessThan(column + uvec4(0, 1, 2, 3), uvec4(p.width)));
}

// The k-th largest of the groups' maxima; NO_KEY if there are too few groups.
uint bound_of(uvec4 top) {
  uvec4 reached = uvec4(0);
  [[unroll]] for (uint l = 0; l < SUBGROUP_SIZE; l++) {
    const uvec4 other = subgroupShuffle(top, l);
    [[unroll]] for (uint c = 0; c < 4; c++) reached += uvec4(greaterThanEqual(uvec4(other[c]), top));
  }
  const uvec4 own = mix(uvec4(NO_KEY), top, greaterThanEqual(reached, uvec4(p.k)));
  uint bound = max(max(own.x, own.y), max(own.z, own.w));
  [[unroll]] for (uint l = 1; l < SUBGROUP_SIZE; l *= 2) bound = max(bound, subgroupShuffleXor(bound, l));
  return bound;
}

// Puts a column in its place; those with equal keys that came first stay first. Behind the list's end are NO_KEY and
// what has left it.
void insert(uint new_key, uint id, inout uint count) {
  const uint moves = (p.k + VKF_MOVES_AT_ONCE - 1) / VKF_MOVES_AT_ONCE * VKF_MOVES_AT_ONCE;
  for (uint j0 = moves; j0 > 0; j0 -= VKF_MOVES_AT_ONCE) {
    [[unroll]] for (uint i = 1; i <= VKF_MOVES_AT_ONCE; i++) {
      const uint j = j0 - i, last = max(j, 1) - 1, before = list_key[last];
      const bool moves = j > 0 && before < new_key, is_place = list_key[j] < new_key;
      if (is_place) list_id[j] = moves ? list_id[last] : id;
      if (is_place) list_key[j] = moves ? before : new_key;
    }
  }
  count = min(count + 1, p.k);
}

// Offers the first column of a step, in the order of the lanes, with a key over `over`: `who` has one. A full list
// takes what is over its last.
void offer(inout uvec4 mine, uint who, uint column0, inout uint over, inout uint count) {
  const bvec4 hit = greaterThan(mine, uvec4(over));
  const uint lane = findLSB(who), c = hit.x ? 0 : hit.y ? 1 : hit.z ? 2 : 3;
  const uint new_key = hit.x ? mine.x : hit.y ? mine.y : hit.z ? mine.z : mine.w;
  insert(subgroupShuffle(new_key, lane), column0 + 4 * lane + subgroupShuffle(c, lane), count);
  if (count == p.k) over = max(over, list_key[p.k - 1]);
  if (gl_SubgroupInvocationID == lane) mine = mix(mine, uvec4(NO_KEY), equal(uvec4(c), uvec4(0, 1, 2, 3)));
}

uint who_has(uvec4 mine, uint over) { return subgroupBallot(any(greaterThan(mine, uvec4(over)))).x; }

void main() {
  const uint row = gl_WorkGroupID.x, lane = gl_SubgroupInvocationID, begin = begin_at(row * p.width);
  const uint whole = p.width / STEP * STEP; // columns in whole steps
  uvec4 top = keys_until(begin, whole + 4 * lane);
  for (uint c = 0; c < whole; c += STEP) top = max(top, keys(four(begin, c + 4 * lane)));
  const uint bound = bound_of(top);
  uint over = bound == NO_KEY ? NO_KEY : bound - 1, count = 0;
  [[unroll]] for (uint j = 0; j < VKF_MAX_LANES_K; j++) list_key[j] = NO_KEY;
  // A turn a column that is put into the list. The loop in it goes on to the next step that has one; the last step is
  // what is behind whole steps.
  uint c = 0, who;
  uvec4 mine = whole > 0 ? keys(four(begin, 4 * lane)) : keys_until(begin, 4 * lane);
  for (;;) {
    while ((who = who_has(mine, over)) == 0 && c < whole) {
      c += STEP;
      mine = keys_until(begin, c + 4 * lane);
    }
    if (who == 0) break;
    offer(mine, who, c, over, count);
    if (over == NAN_KEY || (p.k == 1 && count == 1)) break; // no column is over that
  }
  for (uint j = lane; j < p.k; j += SUBGROUP_SIZE) {
    ids[at[2].x + row * p.k + j] = list_id[j];
    values[at[1].x + row * p.k + j] = one(begin, list_id[j]);
  }
}
