// As top_k.comp: one subgroup for each row, two passes and no shared memory. Operands: x, values, ids. k is at most
// VKF_MAX_LANES_K. The first pass finds the largest number of each of 4 SUBGROUP_SIZE groups of columns. At least k
// columns are as large as the k-th largest of these, so it is a bound. The second pass takes the columns that reach the
// bound, in the order of their ids, and keeps the k best in a list, of which a lane has every SUBGROUP_SIZE-th entry.
// Values are compared by their keys (lib/order.glsl). The first pass compares numbers instead, and so does the second
// before it makes keys, unless the row has NaN: that takes fewer instructions.
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

#define MAX_PIECES 8
const uint PIECES = VKF_MAX_LANES_K / SUBGROUP_SIZE;
const uint CHUNK = 4 * SUBGROUP_SIZE;
uint list_key[MAX_PIECES], list_id[MAX_PIECES]; // entry h SUBGROUP_SIZE + l: piece h of lane l

// Returns which of this lane's columns of the chunk at `first` the row has.
bvec4 are_there(uint first) {
  return lessThan(first + 4 * gl_SubgroupInvocationID + uvec4(0, 1, 2, 3), uvec4(p.width));
}
vec4 chunk(uint begin, uint first) { return four(begin, first + 4 * gl_SubgroupInvocationID); }
vec4 chunk_until(uint begin, uint first, float none) {
  return four_until(begin, first + 4 * gl_SubgroupInvocationID, p.width, none);
}
uvec4 keys_until(uint begin, uint first) {
  return mix(uvec4(NO_KEY), keys(chunk_until(begin, first, 0.0)), are_there(first));
}

// Returns the k-th largest of the groups' maxima; NO_KEY if there are too few groups.
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

// Inserts a column into the list at its place, behind earlier ones with the same key. Behind the end of the list are
// NO_KEY and columns that dropped out of it.
void insert(uint new_key, uint id, inout uint count) {
  const uint lane = gl_SubgroupInvocationID, before = (lane + SUBGROUP_SIZE - 1) % SUBGROUP_SIZE;
  uint carried_key = NAN_KEY, carried_id = 0; // of the entry before a piece
  [[unroll]] for (uint h = 0; h < PIECES; h++) {
    const uint turned_key = subgroupShuffle(list_key[h], before), turned_id = subgroupShuffle(list_id[h], before);
    const uint key_before = lane == 0 ? carried_key : turned_key, id_before = lane == 0 ? carried_id : turned_id;
    const bool is_behind = list_key[h] < new_key, moves = key_before < new_key;
    list_id[h] = is_behind ? moves ? id_before : id : list_id[h];
    list_key[h] = is_behind ? moves ? key_before : new_key : list_key[h];
    carried_key = turned_key;
    carried_id = turned_id;
  }
  count = min(count + 1, p.k);
}

uint last_key() {
  uint last = NO_KEY;
  [[unroll]] for (uint h = 0; h < PIECES; h++)
    if ((p.k - 1) / SUBGROUP_SIZE == h) last = list_key[h];
  return subgroupShuffle(last, (p.k - 1) % SUBGROUP_SIZE);
}

// Offers the list the first column of a chunk with a key over `over`; `who` are the lanes that have one. A full list
// takes only keys over its last.
void offer(inout uvec4 mine, uint who, uint first, inout uint over, inout uint count) {
  const bvec4 hit = greaterThan(mine, uvec4(over));
  const uint lane = findLSB(who), c = hit.x ? 0 : hit.y ? 1 : hit.z ? 2 : 3;
  insert(subgroupShuffle(mine[c], lane), first + 4 * lane + subgroupShuffle(c, lane), count);
  if (count == p.k) over = max(over, last_key());
  if (gl_SubgroupInvocationID == lane) mine = mix(mine, uvec4(NO_KEY), equal(uvec4(c), uvec4(0, 1, 2, 3)));
}

uint who_has(uvec4 mine, uint over) { return subgroupBallot(any(greaterThan(mine, uvec4(over)))).x; }

// Returns the keys of the groups' largest numbers; NaN of a group have keys at least as large. NO_KEY if a group has no
// column.
uvec4 tops_of(uint begin, uint whole, out bool has_nan) {
  const float nothing = uintBitsToFloat(0xff800000u); // no number is below it
  vec4 largest = chunk_until(begin, whole, nothing);
  uvec4 magnitude = floatBitsToUint(largest) & 0x7fffffffu;
  for (uint c = 0; c < whole; c += CHUNK) {
    const vec4 v = chunk(begin, c);
    largest = mix(largest, v, greaterThan(v, largest)); // max() may take a subnormal number for zero
    magnitude = max(magnitude, floatBitsToUint(v) & 0x7fffffffu);
  }
  has_nan = subgroupBallot(any(greaterThan(magnitude, uvec4(0x7f800000u)))).x != 0;
  return mix(uvec4(NO_KEY), keys(largest), are_there(0));
}

void main() {
  const uint row = gl_WorkGroupID.x, lane = gl_SubgroupInvocationID;
  const uint whole = p.width / CHUNK * CHUNK; // columns in whole chunks
  const uint begin = begin_at(row * p.width);
  bool has_nan;
  const uint bound = bound_of(tops_of(begin, whole, has_nan));
  uint over = bound == NO_KEY ? NO_KEY : bound - 1, count = 0;
  [[unroll]] for (uint h = 0; h < PIECES; h++) list_key[h] = NO_KEY;
  // Each turn puts one column into the list. The inner loop goes on to the next chunk that has one; the last chunk has
  // the columns behind the whole chunks.
  uint c = 0, who;
  uvec4 mine = whole > 0 ? keys(chunk(begin, 0)) : keys_until(begin, 0);
  for (;;) {
    const float reached = number_of(max(over, bound));
    who = who_has(mine, over);
    while (who == 0 && c < whole) {
      c += CHUNK;
      vec4 v;
      if (c < whole)
        v = chunk(begin, c);
      else
        v = chunk_until(begin, c, reached);
      if (has_nan || bound == NO_KEY || subgroupBallot(any(greaterThanEqual(v, vec4(reached)))).x != 0) {
        mine = mix(uvec4(NO_KEY), keys(v), are_there(c));
        who = who_has(mine, over);
      }
    }
    if (who == 0) break;
    offer(mine, who, c, over, count);
    if (over == NAN_KEY || (p.k == 1 && count == 1 && !has_nan)) break; // no column is over that
  }
  [[unroll]] for (uint h = 0; h < PIECES; h++) {
    const uint j = h * SUBGROUP_SIZE + lane;
    if (j < p.k) {
      ids[at[2].x + row * p.k + j] = list_id[h];
      values[at[1].x + row * p.k + j] = one(begin, list_id[h]);
    }
  }
}
