// As attention.comp, with the same bits, for drivers that use one scalar load if all lanes load from the same address.
// A lane computes one query, a workgroup SUBGROUP_SIZE of them. Rows of k and v are read by address. Everything is
// unrolled over the head's width, which is a multiple of 4 and at most VKF_MAX_UNIFORM_WIDTH. Blocks that no query sees
// are skipped. A block that all lanes see whole is taken PART keys at a time, any other one AT_ONCE.
// FEW: has no code for whole blocks, so the driver compiles it sooner (docs/kernels.md), and takes all blocks AT_ONCE
// keys at a time.
//
// module attention_uniform, reads caches
// module attention_uniform_few: FEW, reads caches
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_ballot : require
#define PARAMS vkf_push_attention
#define OUT 6
#define STORES_PAIRS
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"

#include "lib/rows_by_address.glsl"
#include "lib/turns.glsl"
layout(BINDING(0)) readonly buffer QPairs { uint64_t q_pairs[]; };

vec4 q[VKF_MAX_UNIFORM_WIDTH / 4], o[VKF_MAX_UNIFORM_WIDTH / 4];
float top = LOWEST, total = 0.0;

const uint AT_ONCE = 2; // keys

void raise(float risen) {
  const float factor = risen == top ? 1.0 : exp_below(top - risen);
  top = risen;
  total = mul(total, factor);
  [[unroll]] for (uint d = 0; d < VALUE_WIDTH / 4; d++) o[d] = mul(o[d], factor);
}

#ifdef FEW
#define FIRST_TURN 0 // ZERO_OF_LANES makes this kernel 8 % slower
#else
#define FIRST_TURN ZERO_OF_LANES

// How many keys of a block are taken at a time. A processor with vectors of 8 lanes has 16 registers, and decodes long
// code again in every turn (docs/kernels.md), so it takes half a block. With 16 lanes a block is one turn, and no loop.
const uint PART = SUBGROUP_SIZE == 8 ? 8 : VKF_KEY_BLOCK;
const bool IN_PARTS = PART < VKF_KEY_BLOCK;
// A zero that the compiler cannot know. If it knew how many turns a loop has, it would unroll it.
#define ZERO (IN_PARTS ? p.key_capacity >> 31 : 0)

// Each of PART rows of `width` elements has an address 128 bytes after its beginning, because instructions are shorter
// if they read at most that far from their address.
#define BYTES_OF_4 (16 / PER_WORD)
#define ADDRESSES(rows, operand, row, width)                                                     \
  uint64_t rows[PART];                                                                           \
  rows[0] = packUint2x32(uvec2(rows_at(operand, (row) * (width)))) + uint64_t(128 + ZERO);       \
  [[unroll]] for (uint j = 1; j < PART; j++) {                                                   \
    rows[j] = rows[j - 1] + uint64_t((width) / 4 * BYTES_OF_4 + ZERO);                           \
  }
vec4 four_at(uint64_t row, uint d) { return unpack4(Rows(row + (int(d) * BYTES_OF_4 - 128)).v[0]); }

// Computes a block that all lanes see whole, from row `from` of k and v on. Returns false, with nothing done, if some
// key has no score.
bool whole_block(Place me, uint s0, uint from) {
  float score[VKF_KEY_BLOCK];
  float risen = top;
  bool all = true;
  [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) score[j] = 0.0;
  uint j0 = 0;
  do {
    float sum[PART];
    ADDRESSES(k, 1, from + j0, KEY_WIDTH)
    [[unroll]] for (uint j = 0; j < PART; j++) sum[j] = 0.0;
    [[unroll]] for (uint d = 0; d < KEY_WIDTH / 4; d++) {
      if (IN_PARTS) { // neighbouring instructions do not wait for each other
        vec4 key[PART];
        [[unroll]] for (uint j = 0; j < PART; j++) key[j] = four_at(k[j], d);
        [[unroll]] for (uint c = 0; c < 4; c++) {
          [[unroll]] for (uint j = 0; j < PART; j++) sum[j] = mad(q[d][c], key[j][c], sum[j]);
        }
      } else {
        [[unroll]] for (uint j = 0; j < PART; j++) sum[j] = products(q[d], four_at(k[j], d), sum[j]);
      }
    }
    [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) score[j] = mix(score[j], sum[j % PART], j >= j0);
    j0 += PART;
  } while (IN_PARTS && j0 < VKF_KEY_BLOCK + ZERO);
  [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
    score[j] = scaled(me, s0 + j, score[j]);
    all = all && is_key(score[j]);
    risen = larger(risen, score[j]);
  }
  if (subgroupBallot(!all).x != 0) return false;
  raise(risen);
  [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
    score[j] = exp_below(score[j] - top);
    total += score[j];
  }
  j0 = 0;
  do {
    float e[PART];
    ADDRESSES(v, 2, from + j0, VALUE_WIDTH)
    [[unroll]] for (uint j = 0; j < PART; j++) e[j] = j0 == 0 ? score[j] : score[VKF_KEY_BLOCK - PART + j];
    // Eight columns at a time, with their sums in registers. The test always holds; it keeps LLVM from mixing the
    // columns of all turns.
    [[unroll]] for (uint d0 = 0; d0 < VALUE_WIDTH / 4; d0 += 2) {
      if (p.key_capacity + VALUE_WIDTH > d0) {
        [[unroll]] for (uint j = 0; j < PART; j++) {
          [[unroll]] for (uint d = d0; d < min(d0 + 2, VALUE_WIDTH / 4); d++)
            o[d] = mad(e[j], four_at(v[j], d), o[d]);
        }
      }
    }
    j0 += PART;
  } while (IN_PARTS && j0 < VKF_KEY_BLOCK + ZERO);
  return true;
}

#endif

// Computes a block of n keys that some lanes may not see.
void ragged_block(Place me, Place first, uint s0, uint n) {
  float score[VKF_KEY_BLOCK];
  uint seen = 0; // bit j: key j
  float risen = top;
  for (uint j = 0; j < n; j += AT_ONCE) {
    float sum[AT_ONCE];
    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
      Rows k = rows_at(1, key_row(first, s0 + min(j + i, n - 1)) * KEY_WIDTH);
      sum[i] = 0.0;
      [[unroll]] for (uint d = 0; d < KEY_WIDTH / 4; d++) sum[i] = products(q[d], unpack4(k.v[d]), sum[i]);
    }
    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
      const uint key = s0 + min(j + i, n - 1);
      score[j + i] = scaled(me, key, sum[i]);
      if (j + i < n && sees(me, key) && is_key(score[j + i])) {
        risen = larger(risen, score[j + i]);
        seen |= 1u << (j + i);
      }
    }
  }
  raise(risen);
  for (uint j = 0; j < n; j += AT_ONCE) {
    float e[AT_ONCE];
    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
      e[i] = exp_below(score[j + i] - top);
      total = mix(total, total + e[i], (seen >> (j + i) & 1) != 0);
    }
    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
      Rows v = rows_at(2, key_row(first, s0 + min(j + i, n - 1)) * VALUE_WIDTH);
      const bool is_seen = (seen >> (j + i) & 1) != 0;
      [[unroll]] for (uint d = 0; d < VALUE_WIDTH / 4; d++)
        o[d] = mix(o[d], mad(e[i], unpack4(v.v[d]), o[d]), bvec4(is_seen));
    }
  }
}

// Finds whether the queries from `first` to `last` see any key of the block at s0, and whether they see all. This is
// the same for all lanes, so it is computed once.
void look(Place first, uint s0, uint last, uint end, out bool any, out bool all) {
  any = HAS_MASK == 0;
  all = s0 + VKF_KEY_BLOCK <= first.span.keys;
  if (CAUSAL != 0) all = all && s0 + VKF_KEY_BLOCK <= first.span.past + first.t + 1;
  if (CAUSAL != 0) all = all && (p.window == 0 || s0 + p.window > first.span.past + last);
  if (HAS_MASK == 0) return;
  const uint row = mask_at(first, 0);
  [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
    const bool seen = mask[row + min(s0 + j, end - 1)] != 0;
    any = any || seen;
    all = all && seen;
  }
}

void main() {
  const uint t0 = gl_WorkGroupID.x * SUBGROUP_SIZE, lane = gl_LocalInvocationID.x;
  const Place first = lane_place(t0);
  const uint T = first.span.queries;
  if (t0 >= T) return;
  const Place me = lane_place(min(t0 + lane, T - 1));
  const uint row = row_of(me), last = min(t0 + SUBGROUP_SIZE, T) - 1, end = keys_until(me, last);
  const uint qi = at[0].x + row * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  if ((p.q_stride | p.q_column) % 2 == 0) { // gathers, too, take as long for 64 bits per lane as for 32
    [[unroll]] for (uint d = 0; d < KEY_WIDTH / 4; d++)
      q[d] = vec4(pair_of_word(q_pairs[qi / 2 + 2 * d]), pair_of_word(q_pairs[qi / 2 + 2 * d + 1]));
  } else {
    [[unroll]] for (uint d = 0; d < KEY_WIDTH / 4; d++) {
      const uint i = qi + 4 * d;
      q[d] = vec4(q_data[i], q_data[i + 1], q_data[i + 2], q_data[i + 3]);
    }
  }
  [[unroll]] for (uint d = 0; d < VALUE_WIDTH / 4; d++) o[d] = vec4(0.0);
  for (uint counter = keys_from(first, t0) + FIRST_TURN; counter < end; counter += VKF_KEY_BLOCK) {
    const uint s0 = of_first_lane(counter);
    bool any, all;
    look(first, s0, last, end, any, all);
    if (!any) continue;
    bool is_done = false;
#ifndef FEW
    if (HAS_ANCESTRY == 0 && all) is_done = whole_block(me, s0, key_row(first, s0));
#endif
    if (!is_done) ragged_block(me, first, s0, min(end - s0, VKF_KEY_BLOCK));
  }
  if (t0 + lane >= T) return;
  [[unroll]] for (uint d = 0; d < VALUE_WIDTH / 4; d++) {
    [[unroll]] for (uint i = 0; i < 4; i += 2) {
      const vec2 pair = vec2(quotient(o[d][i], total), quotient(o[d][i + 1], total));
      store2(row, me.head * VALUE_WIDTH + 4 * d + i, HEADS * VALUE_WIDTH, total == 0.0 ? vec2(0.0) : pair);
    }
  }
}
