// out = act(x w^T + bias) + residual by buffer references. A workgroup is one subgroup of SUBGROUP_SIZE and computes TM
// rows of VECTORS SUBGROUP_SIZE columns. Lane l owns columns 2 (l + j SUBGROUP_SIZE) and the next one, and stores both
// together, or their one result if they are gated. Operands: x (rows), w, bias, residual, out. k is ascending, in steps
// of DEPTH and a remainder, with one accumulator per element. Rows past M repeat the last. All loads are at addresses
// that are the same for all lanes. Loads of x become scalar loads that are broadcast. Of w (VKF_W_COLUMNS: in each
// group the even columns, then the odd ones) every lane loads all SUBGROUP_SIZE columns of a vector and picks its own
// by its number, which is a constant. LLVM merges these loads and choices into one vector load, so nothing is gathered.
// Neighbouring workgroups share columns, so that w stays in the cache.
//
// module matmul_uniform_w8_d64: SUBGROUP_SIZE=8 VECTORS=2 DEPTH=64, reads weights
// module matmul_uniform_w16_d32: SUBGROUP_SIZE=16 VECTORS=4 DEPTH=32, reads weights
// module matmul_uniform_w16_d16: SUBGROUP_SIZE=16 VECTORS=4 DEPTH=16, reads weights
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_ballot : require
#define PARAMS vkf_push_matmul
#define OUT 4
#define BY_ADDRESS
#define STORES_PAIRS
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"
#include "lib/by_address.glsl"
#include "lib/pick.glsl"
#include "lib/turns.glsl"
layout(constant_id = VKF_C_OUT_PAIRS) const uint PAIRS = 0;

// DEPTH, SUBGROUP_SIZE and VECTORS are macros, not specialization constants, because buffers are declared with them,
// and the compiler fixes the sizes of those.
#define MAX_TM 6
#define COLUMNS (VECTORS * SUBGROUP_SIZE)
// x is read relative to an address so many bytes after the beginning of a step: an instruction of AVX2 is shorter, and
// decoded sooner, if it reads at most 128 bytes from its address.
#define MIDDLE (DEPTH > 32 ? 128 : 0)
struct Step_w { FOUR_WORDS at[DEPTH / PER_WORD * COLUMNS / 4]; };
struct Rest_w { FOUR_WORDS at[COLUMNS / 4]; };
FROM_ADDRESS(4) Four_x { vec4 at; };
FROM_ADDRESS(4) Steps_w { Step_w step[]; };
FROM_ADDRESS(4) Rests_x { float at[]; };
FROM_ADDRESS(4) Rests_w { Rest_w rest[]; };
FROM_ADDRESS(4) Vectors { vec4 at[SUBGROUP_SIZE / 2]; };

// Multiplies element e of the words, the columns of this lane, by x_i of every row i.
#define MULTIPLY(x_i, e)                                                                                           \
  {                                                                                                                \
    float b[VECTORS];                                                                                              \
    [[unroll]] for (uint j = 0; j < VECTORS; j++) b[j] = unpack(words[j], e);                                      \
    [[unroll]] for (uint i = 0; i < TM; i++) {                                                                     \
      const float a = x_i;                                                                                         \
      [[unroll]] for (uint j = 0; j < VECTORS; j++) sums[i * VECTORS + j] = mad(a, b[j], sums[i * VECTORS + j]);   \
    }                                                                                                              \
  }

void main() {
  const uint M = dim[p.rows], row0 = gl_WorkGroupID.x * TM, column0 = gl_WorkGroupID.y * COLUMNS;
  const uint steps = p.k / DEPTH;
  uint64_t x[MAX_TM];
  [[unroll]] for (uint i = 0; i < TM; i++) x[i] = packUint2x32(at[0]) + min(row0 + i, M - 1) * p.k * 4;
  const uint64_t w = packUint2x32(at[1]) + column0 * ((p.k + PER_WORD - 1) / PER_WORD) * 4;
  float sums[MAX_TM * VECTORS];
  WORD words[VECTORS];
  [[unroll]] for (uint i = 0; i < TM * VECTORS; i++) sums[i] = 0.0;
  if (steps != 0) {
    uint counter = ZERO_OF_LANES, s;
    // MIDDLE, but unknown to the compiler, which would cancel what is added here and subtracted below.
    const uint middle = MIDDLE == 0 ? 0 : MIDDLE + (p.k >> 31);
    do {
      s = of_first_lane(counter);
      const uint64_t step = uint64_t(middle + s * (DEPTH * 4));
      [[unroll]] for (uint k = 0; k < DEPTH; k += 4) {
        vec4 a4[MAX_TM];
        [[unroll]] for (uint i = 0; i < TM; i++) a4[i] = Four_x(x[i] + step + (int(k) * 4 - MIDDLE)).at;
        [[unroll]] for (uint e = 0; e < 4; e++) {
          if (e % PER_WORD == 0) {
            [[unroll]] for (uint j = 0; j < VECTORS; j++)
              PICK(words[j], FOUR_WORDS,
                   Steps_w(w).step[s].at[((k + e) / PER_WORD * VECTORS + j) * SUBGROUP_SIZE / 4 + f])
          }
          MULTIPLY(a4[i][e], e % PER_WORD)
        }
      }
      counter++;
    } while (s + 1 < steps);
  }
  if (steps * DEPTH < p.k) {
    uint k = steps * DEPTH;
    do {
      [[unroll]] for (uint j = 0; j < VECTORS; j++)
        PICK(words[j], FOUR_WORDS, Rests_w(w).rest[k / PER_WORD].at[j * SUBGROUP_SIZE / 4 + f])
      MULTIPLY(Rests_x(x[i]).at[k], k % PER_WORD)
    } while (++k < p.k);
  }
  // Rows past the last repeat it, so they may store it again.
  [[unroll]] for (uint j = 0; j < VECTORS / 2; j++) {
    const uint first = column0 + 2 * j * SUBGROUP_SIZE, column = first + 2 * gl_SubgroupInvocationID;
    if (column < p.n) {
      vec2 bias = vec2(0.0), residual = vec2(0.0);
      if (HAS_BIAS != 0) PICK2(bias, Vectors(packUint2x32(at[2]) + first * 4).at[f])
      [[unroll]] for (uint i = 0; i < TM; i++) {
        const uint row = min(row0 + i, M - 1);
        if (HAS_RESIDUAL != 0)
          PICK2(residual, Vectors(packUint2x32(at[3]) + (row * p.n + first) * 4).at[f])
        const vec2 both = vec2(sums[i * VECTORS + j], sums[i * VECTORS + VECTORS / 2 + j]);
        if (IS_GATED != 0) {
          finish_gated_with(row, column, both, bias);
          continue;
        }
        const vec2 pair =
            vec2(finished(column, both.x, bias.x, residual.x), finished(column + 1, both.y, bias.y, residual.y));
        if (PAIRS != 0) {
          store2(row, column, p.n, pair);
        } else {
          store(row, column, p.n, pair.x);
          if (column + 1 < p.n) store(row, column + 1, p.n, pair.y);
        }
      }
    }
  }
}
