// As gate.comp, with the same bits: one subgroup for each row, for drivers that load only once what all lanes ask for
// (lib/pick.glsl). A lane has two neighbouring columns and stores them together. Nothing is gathered. Widths are
// multiples of 2 SUBGROUP_SIZE. Operands: x, by address; out.
//
// module gate_uniform_w8: SUBGROUP_SIZE=8
// module gate_uniform_w16: SUBGROUP_SIZE=16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#define PARAMS vkf_push_gate
#define OUT 1
#define STORES_PAIRS
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#include "lib/by_address.glsl"
#include "lib/pick.glsl"

layout(constant_id = VKF_C_ACTIVATION) const uint ACTIVATION = VKF_A_NONE;
FROM_ADDRESS(4) Vectors { vec4 at[SUBGROUP_SIZE / 2]; };

#define STEP (2 * SUBGROUP_SIZE) // columns
#define AT_ONCE 4                // steps in a turn

void columns(uint row, uint64_t x, uint c) {
  vec2 gate, up;
  PICK2(gate, Vectors(x + (p.gate_column + c) * 4).at[f])
  PICK2(up, Vectors(x + (p.up_column + c) * 4).at[f])
  store2(row, c + 2 * gl_SubgroupInvocationID, p.width,
         vec2(mul(activate(ACTIVATION, gate.x), up.x), mul(activate(ACTIVATION, gate.y), up.y)));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= dim[p.rows]) return;
  const uint64_t x = packUint2x32(at[0]) + row * p.x_stride * 4;
  const uint most = p.width / (AT_ONCE * STEP) * (AT_ONCE * STEP);
  // Loops that test at their end: see norm_uniform.comp.
  uint c = 0;
  if (most > 0) {
    do {
      [[unroll]] for (uint i = 0; i < AT_ONCE; i++) columns(row, x, c + i * STEP);
    } while ((c += AT_ONCE * STEP) < most);
  }
  if (c < p.width) {
    do {
      columns(row, x, c);
    } while ((c += STEP) < p.width);
  }
}
