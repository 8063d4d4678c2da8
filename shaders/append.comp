// Copies key and value columns of rows to their places in the head-major caches [seq][head][capacity][width]. A
// workgroup copies one row. The caches may have any format; their rows are whole words. Operands: x, k, v, spans; the
// rest of k and v stays as it is. In a packed batch the grid has workgroups for as many rows of each sequence as the
// longest sequence has.
// PAIRS: copies two float32 at a time, for drivers whose gathers and scatters of 64 bits per lane take no longer than
// those of 32.
// TURNED: turns keys and queries by their positions, and stores the queries as rows. Operands: x, k, v, positions,
// table, q, spans. A position outside of the table reads its last row (the host refuses such positions first).
//
// module append, reads caches
// module append_turned: TURNED, reads caches
// module append_pairs: PAIRS
#version 440
#extension GL_GOOGLE_include_directive : require
#ifdef PAIRS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#define PARAMS vkf_push_append
#ifdef TURNED
#define OUT 5
#define SPANS 6
#else
#define SPANS 3
#endif
#include "lib/kernel.glsl"
#include "lib/format.glsl"
#include "lib/append.glsl"

#ifdef PAIRS
#define UNIT uint64_t
#define OF_X uint64_t
#define WORDS 2
#else
#define UNIT WORD
#define OF_X float
#define WORDS 1
#endif
#define PER_UNIT (WORDS * PER_WORD)
layout(BINDING(0)) readonly buffer X { OF_X x[]; };
layout(BINDING(1)) buffer K { UNIT k_cache[]; };
layout(BINDING(2)) buffer V { UNIT v_cache[]; };
#ifdef TURNED
layout(BINDING(3)) readonly buffer Positions { uint positions[]; };
layout(BINDING(4)) readonly buffer Table { float table[]; };
layout(constant_id = VKF_C_APPEND_ROTARY) const uint ROTARY = 2;
layout(constant_id = VKF_C_APPEND_INTERLEAVED) const uint INTERLEAVED = 0;
#include "lib/store.glsl"
#include "lib/turn.glsl"
#define KEY(column, in_head, angles) turned(column, in_head, angles)
#else
#define KEY(column, in_head, angles) x[column]
#endif

// Returns unit i of the key that begins at x[from]; packed() does so for any row of `width` elements.
UNIT packed_key(uint from, uint i, uint angles) {
#ifdef PAIRS
  return x[from / 2 + i];
#else
  float numbers[PER_WORD];
  [[unroll]] for (uint e = 0; e < PER_WORD; e++) {
    const uint c = i * PER_WORD + e;
    numbers[e] = e == 0 || c < KEY_WIDTH ? KEY(from + c, c, angles) : 0.0;
  }
  return word_of(numbers);
#endif
}
UNIT packed(uint from, uint width, uint i) {
#ifdef PAIRS
  return x[from / 2 + i];
#else
  float numbers[PER_WORD];
  [[unroll]] for (uint e = 0; e < PER_WORD; e++) {
    const uint c = i * PER_WORD + e;
    numbers[e] = e == 0 || c < width ? x[from + c] : 0.0;
  }
  return word_of(numbers);
#endif
}

void main() {
  Place to;
  if (!find_place(to)) return;
  const uint from = at[0].x + to.row * p.x_stride;
#ifdef TURNED
  const uint angles = at[4].x + min(positions[at[3].x + to.row], p.n_positions - 1) * ROTARY;
  for (uint c = FIRST_COLUMN; c < p.q_width; c += COLUMN_STEP)
    store(to.row, c, p.q_width, turned(from + p.q_column + c, c % KEY_WIDTH, angles));
#else
  const uint angles = 0;
#endif
  if (KEY_WIDTH != 0) {
    const uint units = (KEY_WIDTH + PER_UNIT - 1) / PER_UNIT;
    for (uint c = FIRST_COLUMN; c < HEADS * units; c += COLUMN_STEP) {
      const uint head = c / units, base = ((to.slot * HEADS + head) * p.k_capacity + to.key) * units;
      k_cache[at[1].x / WORDS + base + c % units] = packed_key(from + p.k_column + head * KEY_WIDTH, c % units, angles);
    }
  }
  if (VALUE_WIDTH != 0) {
    const uint units = (VALUE_WIDTH + PER_UNIT - 1) / PER_UNIT;
    for (uint c = FIRST_COLUMN; c < HEADS * units; c += COLUMN_STEP) {
      const uint head = c / units, base = ((to.slot * HEADS + head) * p.v_capacity + to.key) * units;
      v_cache[at[2].x / WORDS + base + c % units] =
          packed(from + p.v_column + head * VALUE_WIDTH, VALUE_WIDTH, c % units);
    }
  }
}
