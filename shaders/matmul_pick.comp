// out = act(x w^T + bias) + residual by buffer references: a workgroup is one subgroup of LANES and computes TM rows of
// 2 LANES columns; lane l owns the columns l + j LANES. All loads are at addresses that are the same for all lanes: those
// of x become scalar loads, broadcast; of w (VKF_W_COLUMNS) every lane loads the LANES columns of a vector and picks its
// own by its number, a constant, and LLVM merges these loads and choices into one vector load. No gather is left.
// Operands: x (rows), w, bias, residual, out. k ascending in steps of DEPTH and a rest, one accumulator an element; rows
// past M repeat the last. Neighbouring workgroups share columns, so that their w stays in the cache.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#define PARAMS vkf_push_matmul
#define OUT 4
#define BY_ADDRESS
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"

// Inside buffers, so the compiler freezes them: macros, not specialization constants (DEPTH, LANES).
#define MAX_TM 12
struct Step_x { float at[DEPTH]; };
struct Step_w { WORD at[DEPTH / PER_WORD * 2 * LANES]; };
struct Rest_w { WORD at[2 * LANES]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Steps_x { Step_x step[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Steps_w { Step_w step[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Rests_x { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Rests_w { Rest_w rest[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Vectors { float at[LANES]; };

// The word of `from` for this lane, of LANES that lie side by side from `first`.
#define PICK(TYPE, word, from, first)      \
  TYPE word = from[(first) + LANES - 1];   \
  [[unroll]] for (uint l = 0; l < LANES - 1; l++) word = mix(word, from[(first) + l], gl_SubgroupInvocationID == l);

// The same of floats at `address`, if there are any.
#define PICK_FLOAT(value, has, address)             \
  float value = 0.0;                                \
  if (has != 0) {                                   \
    PICK(float, own, Vectors(address).at, 0)        \
    value = own;                                    \
  }

// Element e of two words, the columns of this lane, times x_i of every row i.
#define MULTIPLY(x_i, e)                                          \
  {                                                               \
    const float b0 = unpack(left, e), b1 = unpack(right, e);      \
    [[unroll]] for (uint i = 0; i < TM; i++) {                    \
      const float a = x_i;                                        \
      sums[i * 2] = mad(a, b0, sums[i * 2]);                      \
      sums[i * 2 + 1] = mad(a, b1, sums[i * 2 + 1]);              \
    }                                                             \
  }

void main() {
  const uint M = dim[p.rows], row0 = gl_WorkGroupID.x * TM, column0 = gl_WorkGroupID.y * 2 * LANES;
  const uint steps = p.k / DEPTH;
  uint64_t x[MAX_TM];
  [[unroll]] for (uint i = 0; i < TM; i++) x[i] = packUint2x32(at[0]) + min(row0 + i, M - 1) * p.k * 4;
  const uint64_t w = packUint2x32(at[1]) + column0 * ((p.k + PER_WORD - 1) / PER_WORD) * 4;
  float sums[MAX_TM * 2];
  [[unroll]] for (uint i = 0; i < TM * 2; i++) sums[i] = 0.0;
  if (steps != 0) {
    uint s = 0;
    do {
      [[unroll]] for (uint k = 0; k < DEPTH; k += PER_WORD) {
        PICK(WORD, left, Steps_w(w).step[s].at, k / PER_WORD * 2 * LANES)
        PICK(WORD, right, Steps_w(w).step[s].at, k / PER_WORD * 2 * LANES + LANES)
        [[unroll]] for (uint e = 0; e < PER_WORD; e++) MULTIPLY(Steps_x(x[i]).step[s].at[k + e], e)
      }
    } while (++s < steps);
  }
  for (uint k = steps * DEPTH; k < p.k; k++) {
    PICK(WORD, left, Rests_w(w).rest[k / PER_WORD].at, 0)
    PICK(WORD, right, Rests_w(w).rest[k / PER_WORD].at, LANES)
    MULTIPLY(Rests_x(x[i]).at[k], k % PER_WORD)
  }
  // Rows behind the last repeat it, so they may store it again.
  [[unroll]] for (uint j = 0; j < 2; j++) {
    const uint first = column0 + j * LANES, column = first + gl_SubgroupInvocationID;
    if (column < p.n) {
      PICK_FLOAT(bias, HAS_BIAS, packUint2x32(at[2]) + first * 4)
      [[unroll]] for (uint i = 0; i < TM; i++) {
        const uint row = min(row0 + i, M - 1);
        PICK_FLOAT(residual, HAS_RESIDUAL, packUint2x32(at[3]) + (row * p.n + first) * 4)
        finish_with(row, column, sums[i * 2 + j], bias, residual);
      }
    }
  }
}
