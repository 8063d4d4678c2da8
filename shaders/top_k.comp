// The k largest numbers of a row, largest first, with their ids. A workgroup computes one row. Operands: x, values,
// ids. NaN counts as larger than every number; of equal values the lower id comes first. An invocation has every 64th
// column, in VKF_TOP_K_PIECES pieces, and keeps the best column of each piece that was not given yet. A round gives the
// best of all; the invocation that owns it then looks for the next best one of that piece. A turn of a loop looks at
// many columns, because drivers may end a loop after so many turns (kern/family.h).
// PART: for few long rows, finds the k largest of SPLIT columns and leaves their bits and ids in scratch memory.
// COMBINE: finds the k largest of those of all splits. Among equal values the lower place has the lower id.
//
// module top_k
// module top_k_split: PART
// module top_k_combine: COMBINE
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_top_k
#include "lib/kernel.glsl"
#include "lib/order.glsl"

#if defined(PART)
#define PIECES VKF_TOP_K_PIECES_OF_PART
#elif defined(COMBINE)
#define PIECES 1
#else
#define PIECES VKF_TOP_K_PIECES
#endif
layout(constant_id = VKF_C_TOP_K_SPLIT) const uint SPLIT = 1;
#ifdef COMBINE
layout(BINDING(0)) readonly buffer Partial { uvec2 partial[]; }; // bits and id
float value_at(uint i) { return uintBitsToFloat(partial[i].x); }
#else
layout(BINDING(0)) readonly buffer X { float x[]; };
float value_at(uint i) { return x[i]; }
#endif
#ifdef PART
layout(BINDING(1)) writeonly buffer Partial { uvec2 partial[]; };
#else
layout(BINDING(1)) writeonly buffer Values { float values[]; };
layout(BINDING(2)) writeonly buffer Ids { uint ids[]; };
#endif
shared uint piece_key[PIECES * VKF_ROW_PARTIALS], best_key[VKF_ROW_PARTIALS];
shared uint piece_id[PIECES * VKF_ROW_PARTIALS], best_id[VKF_ROW_PARTIALS];
const uint NONE = 0xffffffffu;

// Whether (a, i) comes before (b, j), by their keys. Nothing comes after NONE.
bool before(uint a, uint i, uint b, uint j) {
  if (i == NONE || j == NONE) return i != NONE;
  return a > b || (a == b && i < j);
}

// Finds the best column of a piece of `size` columns, among those that come after the column given last.
void find(uint from, uint columns, uint piece, uint size, uint given, uint given_id) {
  const uint lane = gl_LocalInvocationID.x, begin = piece * size, end = begin + size;
  uint best = NO_KEY;
  uint id = NONE;
  for (uint n0 = begin; n0 < end; n0 += VKF_COLUMNS_AT_ONCE) {
    [[unroll]] for (uint i = 0; i < VKF_COLUMNS_AT_ONCE; i++) {
      const uint c = (n0 + i) * VKF_ROW_PARTIALS + lane;
      if (n0 + i < end && c < columns) {
        const uint v = key(value_at(from + c));
        if ((given_id == NONE || before(given, given_id, v, c)) && before(v, c, best, id)) {
          best = v;
          id = c;
        }
      }
    }
  }
  piece_key[piece * VKF_ROW_PARTIALS + lane] = best;
  piece_id[piece * VKF_ROW_PARTIALS + lane] = id;
}

void main() {
  const uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, n_splits = (p.width + SPLIT - 1) / SPLIT;
#if defined(PART)
  const uint begin = gl_WorkGroupID.y * SPLIT, columns = min(SPLIT, p.width - begin);
  const uint from = at[0].x + row * p.width + begin, to = at[1].x / 2 + (row * n_splits + gl_WorkGroupID.y) * p.k;
#elif defined(COMBINE)
  const uint columns = (n_splits - 1) * p.k + min(p.k, p.width - (n_splits - 1) * SPLIT);
  const uint from = at[0].x / 2 + row * n_splits * p.k;
#else
  const uint columns = p.width, from = at[0].x + row * p.width;
#endif
  const uint own = (columns + VKF_ROW_PARTIALS - 1) / VKF_ROW_PARTIALS; // columns of an invocation
  const uint size = (own + PIECES - 1) / PIECES;
  uint given = NO_KEY;
  uint given_id = NONE;
  for (uint piece = 0; piece < PIECES; piece++) find(from, columns, piece, size, given, given_id);
  for (uint round = 0; round < min(p.k, columns); round++) {
    if (given_id != NONE && given_id % VKF_ROW_PARTIALS == lane)
      find(from, columns, given_id / VKF_ROW_PARTIALS / size, size, given, given_id);
    uint best = NO_KEY;
    uint id = NONE;
    [[unroll]] for (uint piece = 0; piece < PIECES; piece++) {
      const uint i = piece * VKF_ROW_PARTIALS + lane;
      if (before(piece_key[i], piece_id[i], best, id)) {
        best = piece_key[i];
        id = piece_id[i];
      }
    }
    best_key[lane] = best;
    best_id[lane] = id;
    barrier();
    given_id = NONE;
    for (uint i0 = 0; i0 < VKF_ROW_PARTIALS; i0 += VKF_COLUMNS_AT_ONCE) {
      [[unroll]] for (uint j = 0; j < VKF_COLUMNS_AT_ONCE; j++) {
        const uint i = i0 + j;
        if (before(best_key[i], best_id[i], given, given_id)) {
          given = best_key[i];
          given_id = best_id[i];
        }
      }
    }
    if (lane == 0) {
#ifdef PART
      partial[to + round] = uvec2(floatBitsToUint(x[from + given_id]), begin + given_id);
#else
      values[at[1].x + row * p.k + round] = value_at(from + given_id);
#ifdef COMBINE
      ids[at[2].x + row * p.k + round] = partial[from + given_id].y;
#else
      ids[at[2].x + row * p.k + round] = given_id;
#endif
#endif
    }
    barrier();
  }
}
