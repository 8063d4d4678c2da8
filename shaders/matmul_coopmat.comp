// out = act(x w^T + bias) + residual by cooperative matrices (VK_KHR_cooperative_matrix). A workgroup computes BM x BN
// elements, a subgroup TM x TN of them, in pieces of MATRIX_M x MATRIX_N, with sums in float32. Operands: x (rows), w
// (rows), bias, residual, out, scales of rows if the format has them, a word that becomes 1 if some x or w cannot be
// stored as f16. K is a multiple of 8.
// x is rounded to f16 on its way to shared memory. Weights in bf16 become f16 there, too, which is exact from 2^-14 on,
// and so do the whole numbers of int8. While a slice of BK is multiplied, the next AHEAD are on their way from memory
// to registers. Shared memory has two slices, so one barrier a slice is enough.
// HALVES: x is in f16 already, as round_halves.comp leaves it. Where w is, too (PUT_FIRST), a slice goes to shared
// memory before the one in front of it is multiplied. Elsewhere it goes afterwards, so that numbers become f16 while
// matrix cores are still busy, and two are on their way.
// SPLIT: the workgroups share K, too. z is the number of a split of SPLIT_K, which is a multiple of BK. They leave
// partial sums, which matmul_combine.comp adds up. Operands: x, w, partial sums, the word.
//
// module matmul_coopmat_halves_f16: HALVES FORMAT_F16, needs COOPMAT
// module matmul_coopmat_halves_bf16: HALVES FORMAT_BF16, needs COOPMAT
// module matmul_coopmat_halves_int8: HALVES FORMAT_INT8, needs COOPMAT
// module matmul_coopmat_f16: FORMAT_F16, needs COOPMAT
// module matmul_coopmat_bf16: FORMAT_BF16, needs COOPMAT
// module matmul_coopmat_int8: FORMAT_INT8, needs COOPMAT
// module matmul_coopmat_split_f16: SPLIT FORMAT_F16, needs COOPMAT
// module matmul_coopmat_split_bf16: SPLIT FORMAT_BF16, needs COOPMAT
// module matmul_coopmat_split_int8: SPLIT FORMAT_INT8, needs COOPMAT
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#ifdef SPLIT
#include "lib/format.glsl"
#include "lib/k_split.glsl"
layout(BINDING(2)) writeonly buffer Partial { float partial[]; };
void finish(uint row, uint column, float sum) { partial[at[2].x + split_index(gl_WorkGroupID.z, row, column)] = sum; }
const uint IS_GATED = 0; // matmul_combine.comp does that
void finish_gated(uint row, uint column, vec2 sums) {}
#else
#include "lib/epilogue.glsl"
#endif
#include "lib/halves.glsl"
#include "lib/patch.glsl"
layout(constant_id = VKF_C_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = VKF_C_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = VKF_C_MATRIX_K) const uint MATRIX_K = 16;

#ifdef HALVES
layout(BINDING(0)) readonly buffer X { uvec4 x8[]; };
#else
layout(BINDING(0)) readonly buffer X { vec4 x4[]; };
#endif
#if BITS == 16
#define EIGHT uvec4
#else
#define EIGHT uvec2
#endif
#if defined(SPLIT)
#define WIDE 3
#elif defined(ROW_SCALES)
#define WIDE (OUT + 2)
#else
#define WIDE (OUT + 1)
#endif
layout(BINDING(1)) readonly buffer W { EIGHT w8[]; };
layout(BINDING(WIDE)) buffer Wide { uint is_wide[]; };

const uint DEPTH = BK / 8;     // of a slice, in uvec4: 8 numbers
const uint STRIDE = DEPTH + 1; // of its rows: one more, so that neighbours are in different banks
const uint SLICE = (BM + BN) * STRIDE, SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP_SIZE, PIECE = MATRIX_M * MATRIX_N / 4;
shared uvec4 slices[2 * SLICE > SUBGROUPS * PIECE ? 2 * SLICE : SUBGROUPS * PIECE];

#if defined(HALVES) && defined(FORMAT_F16)
#define PUT_FIRST
#define AHEAD 1
#elif defined(HALVES)
#define AHEAD 2
#else
#define AHEAD 1
#endif
// A lane's share of the slices on their way.
const uint X_LOADS = (BM * DEPTH + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint W_LOADS = (BN * DEPTH + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
#ifdef HALVES
uvec4 next_x[AHEAD][X_LOADS];
#else
vec4 next_x[AHEAD][2 * X_LOADS];
#endif
EIGHT next_w[AHEAD][W_LOADS];

// Shared memory takes 16 bytes of each of eight lanes at a time, if they are in different banks. Rows that are DEPTH
// apart are, neighbours are not, so eight lanes have such rows.
const uint AT_ONCE = DEPTH < 8 ? 8 / DEPTH : 1;
uint row_of(uint load) {
  const uint row = load / DEPTH;
  return DEPTH < 8 ? (row & ~7u) + row % AT_ONCE * DEPTH + row % 8 / AT_ONCE : row;
}

// Rows past M, columns past N and k past `end` repeat the last, but w is 0 past `end`: no load waits for a test.
void fetch(const uint to, uint row0, uint column0, uint k0, uint end, uint M) {
  [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
    const uint e = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
    const uint row = min(row0 + row_of(e), M - 1), k = min(k0 + e % DEPTH * 8, end - 8);
#ifdef HALVES
    next_x[to][i] = x8[at[0].x / 4 + (row * p.k + k) / 8];
#else
    const uint first = (at[0].x + row * p.k + k) / 4;
    next_x[to][2 * i] = x4[first];
    next_x[to][2 * i + 1] = x4[first + 1];
#endif
  }
  [[unroll]] for (uint i = 0; i < W_LOADS; i++) {
    const uint e = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
    const uint column = min(column0 + row_of(e), p.n - 1), k = k0 + e % DEPTH * 8;
    const EIGHT words = w8[at[1].x / (BITS / 4) + (column * p.k + min(k, end - 8)) / 8];
    next_w[to][i] = k < end ? words : EIGHT(0);
  }
}

#ifdef FORMAT_F16
uvec4 halves_of(uvec4 words) { return words; }
#elif BITS == 16
uvec4 halves_of(uvec4 words) { return uvec4(halves(unpack4(words.xy)), halves(unpack4(words.zw))); }
#else // whole numbers, so nothing is rounded
uvec4 halves_of(uvec2 words) { return uvec4(packed_halves(unpack4(words.x)), packed_halves(unpack4(words.y))); }
#endif

void put(const uint from, uint slice) {
  [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
    const uint e = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
#ifdef HALVES
    const uvec4 eight = next_x[from][i];
#else
    const uvec4 eight = uvec4(halves(next_x[from][2 * i]), halves(next_x[from][2 * i + 1]));
#endif
    if (e < BM * DEPTH) slices[slice + row_of(e) * STRIDE + e % DEPTH] = eight;
  }
  [[unroll]] for (uint i = 0; i < W_LOADS; i++) {
    const uint e = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
    if (e < BN * DEPTH) slices[slice + (BM + row_of(e)) * STRIDE + e % DEPTH] = halves_of(next_w[from][i]);
  }
}

const uint ROWS = TM / MATRIX_M, COLUMNS = TN / MATRIX_N; // pieces of a subgroup

void main() {
  const uvec2 tile = tile_of_patch();
  const uint M = dim[p.rows], row0 = tile.x * BM, column0 = tile.y * BN;
  const uint sub_row = gl_SubgroupID / (BN / TN) * TM, sub_column = gl_SubgroupID % (BN / TN) * TN;
  // Matrices are variables of main(), and every loop over them is unrolled, so that none is in memory.
  coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a[ROWS];
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b;
  [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++)
    sums[i] = coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(0.0);
#ifdef SPLIT
  const uint begin = gl_WorkGroupID.z * SPLIT_K, end = min(begin + SPLIT_K, p.k);
#else
  const uint begin = 0, end = p.k;
#endif
  [[unroll]] for (uint i = 0; i < AHEAD; i++) fetch(i, row0, column0, begin + i * BK, end, M);
  put(0, 0);
#ifdef PUT_FIRST
  fetch(0, row0, column0, begin + BK, end, M);
#endif
  uint slice = 0;
  for (uint k0 = begin; k0 < end; k0 += AHEAD * BK) {
    [[unroll]] for (uint turn = 0; turn < AHEAD; turn++) { // the last may be past `end`, where w is 0
      barrier();
#ifdef PUT_FIRST
      put(0, SLICE - slice);
      fetch(0, row0, column0, k0 + 2 * BK, end, M);
#else
      fetch(turn, row0, column0, k0 + (turn + AHEAD) * BK, end, M);
#endif
      const uint x_begin = slice + sub_row * STRIDE, w_begin = slice + (BM + sub_column) * STRIDE;
      [[unroll]] for (uint k = 0; k < DEPTH; k += MATRIX_K / 8) {
        [[unroll]] for (uint i = 0; i < ROWS; i++)
          coopMatLoad(a[i], slices, x_begin + i * MATRIX_M * STRIDE + k, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
          coopMatLoad(b, slices, w_begin + j * MATRIX_N * STRIDE + k, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
          [[unroll]] for (uint i = 0; i < ROWS; i++)
            sums[i * COLUMNS + j] = coopMatMulAdd(a[i], b, sums[i * COLUMNS + j]);
        }
      }
      slice = SLICE - slice;
#ifndef PUT_FIRST
      put((turn + 1) % AHEAD, slice);
#endif
    }
  }
  barrier();
  // Pieces pass through shared memory one by one, because each device decides which lane holds which element.
  const uint piece = gl_SubgroupID * PIECE, width = MATRIX_N / 4;
  [[unroll]] for (uint i = 0; i < ROWS; i++) {
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
      coopMatStore(sums[i * COLUMNS + j], slices, piece, width, gl_CooperativeMatrixLayoutRowMajor);
      subgroupBarrier();
      [[unroll]] for (uint n = 0; n < PIECE / SUBGROUP_SIZE; n++) {
        const uint e = n * SUBGROUP_SIZE + gl_SubgroupInvocationID;
        const vec4 four = uintBitsToFloat(slices[piece + e]);
        const uint row = row0 + sub_row + i * MATRIX_M + e / width;
        const uint column = column0 + sub_column + j * MATRIX_N + e % width * 4;
        if (row < M) {
          [[unroll]] for (uint c = 0; c < 4; c++)
            if (IS_GATED == 0 && column + c < p.n) finish(row, column + c, four[c]);
          [[unroll]] for (uint c = 0; c < 4; c += 2)
            if (IS_GATED != 0 && column + c < p.n) finish_gated(row, column + c, vec2(four[c], four[c + 1]));
        }
      }
      subgroupBarrier();
    }
  }
  if (is_beyond_halves()) is_wide[at[WIDE].x] = 1;
}
