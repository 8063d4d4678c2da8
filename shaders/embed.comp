// Writes rows of a table by id, scaled, plus rows of a position table and of a type table. A workgroup writes one row.
// Operands: ids, table (in any packing and FORMAT), positions, position table, types, type table, out, scales of the
// table. The scales are behind the table's words and are read through the same buffer, because some devices have no
// more than eight bindings. Every step is rounded and none is contracted, so the result is bit-equal to the reference.
// A table may come in parts, with a dispatch for each: each leaves rows alone whose id is not among the p.n_ids of its
// part. Positions and types outside of their tables read row 0 (the host refuses such positions, types and ids first).
// HAS_TABLE is VKF_TABLE_BY_ROW: the table is rows in order, and there are no ids.
//
// module embed, reads weights
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_embed
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#include "lib/weights.glsl"

layout(BINDING(0)) readonly buffer Ids { uint ids[]; };
layout(BINDING(1)) readonly buffer Table { WORD table[]; };
layout(BINDING(2)) readonly buffer Positions { uint positions[]; };
layout(BINDING(3)) readonly buffer PositionTable { float position_table[]; };
layout(BINDING(4)) readonly buffer Types { uint types[]; };
layout(BINDING(5)) readonly buffer TypeTable { float type_table[]; };
layout(constant_id = VKF_C_HAS_TABLE) const uint HAS_TABLE = 1;
layout(constant_id = VKF_C_HAS_POSITIONS) const uint HAS_POSITIONS = 0;
layout(constant_id = VKF_C_HAS_TYPES) const uint HAS_TYPES = 0;

float entry(uint id, uint c) {
  const uint i = weight_index(id, c, p.width);
  precise float x = unpack(table[at[1].x + i / PER_WORD], i % PER_WORD);
#ifdef ROW_SCALES
  x = x * uintBitsToFloat(table[at[OUT + 1].x + id]); // exact
#endif
  return x;
}

uint within(uint id, uint n) { return id < n ? id : 0; }

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= dim[p.rows]) return;
  uint id = 0, position = 0, type = 0;
  if (HAS_TABLE == VKF_TABLE_BY_ROW) {
    id = row;
  } else if (HAS_TABLE != 0) {
    id = ids[at[0].x + row] - at[1].y;
    if (id >= p.n_ids) return;
  }
  if (HAS_POSITIONS != 0) position = within(positions[at[2].x + row], p.n_positions);
  if (HAS_TYPES != 0) type = within(types[at[4].x + row], p.n_types);
  for (uint c = FIRST_COLUMN; c < p.width; c += COLUMN_STEP) {
    precise float y = 0.0; // nothing is added to it: Mesa takes 0 + -0 for -0
    if (HAS_TABLE != 0) y = mul(entry(id, c), flushed(p.scale));
    if (HAS_POSITIONS != 0) {
      const float place = position_table[at[3].x + position * p.width + c];
      y = HAS_TABLE != 0 ? y + place : place;
    }
    if (HAS_TYPES != 0) {
      const float kind = type_table[at[5].x + type * p.width + c];
      y = HAS_TABLE != 0 || HAS_POSITIONS != 0 ? y + kind : kind;
    }
    store(row, c, p.width, y);
  }
}
