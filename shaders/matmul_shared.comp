// out = act(x w^T + bias) + residual through shared memory. A workgroup computes BM x BN elements, an invocation TM x
// TN of them: rows ty + i BM/TM, columns tx + j BN/TN, or pairs of columns that are gated. Operands: x (rows), w
// (rows), bias, residual, out. Whatever is outside of a matrix counts as zero. k is ascending, with one accumulator per
// element. Shared memory has slices of BK, laid out as in memory: vectors of four k, with one unused vector behind each
// row, so that neighbours are in different banks. While a slice is multiplied, the next one is loaded to registers.
// With SLICES = 2 there are two slices, and one barrier per slice is enough.
// SPLIT: the workgroups share K, too. z is the number of a split of SPLIT_K, which is a multiple of BK. They leave
// partial sums, which matmul_combine.comp adds up. Operands: x, w, partial sums.
//
// module matmul_shared, reads weights, written out
// module matmul_split: SPLIT, reads f16 bf16 int8, written out
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#ifdef SPLIT
#include "lib/k_split.glsl"
layout(BINDING(2)) writeonly buffer Partial { float partial[]; };
const uint IS_GATED = 0; // matmul_combine.comp does that
void finish(uint row, uint column, float sum) { partial[at[2].x + split_index(gl_WorkGroupID.z, row, column)] = sum; }
#else
const uint SPLIT_K = 0xffffffffu; // one split
#include "lib/epilogue.glsl"
#endif
#include "lib/rows.glsl"
#include "lib/each.glsl"
layout(constant_id = VKF_C_SLICES) const uint SLICES = 1;

const uint DEPTH = BK / 4, STRIDE = DEPTH + 1, SLICE = (BM + BN) * STRIDE; // of a slice, in vectors
const uint ACROSS = BN / TN, DOWN = BM / TM, INVOCATIONS = ACROSS * DOWN;
shared vec4 slices[SLICES * SLICE];
#include "lib/tile_columns.glsl"

// Literal sizes: SwiftShader keeps no array in registers whose size is a specialization constant. kern/tile.c knows
// them.
#define MAX_TILE VKF_SHARED_MAX_TILE
#define MAX_LOADS VKF_SHARED_MAX_LOADS
#if MAX_TILE > 8 || MAX_LOADS > 8
#error "EACH_8 takes 8"
#endif
const uint X_LOADS = (BM * DEPTH + INVOCATIONS - 1) / INVOCATIONS;
const uint W_LOADS = (BN * DEPTH + INVOCATIONS - 1) / INVOCATIONS;
vec4 next_x[MAX_LOADS];
WORDS_OF_4 next_w[MAX_LOADS];
vec4 a[MAX_TILE];
float sums[MAX_TILE * MAX_TILE]; // of row i and column j: i MAX_TILE + j

void fetch_x(uint i, uint row0, uint k0, uint M) {
  const uint e = gl_LocalInvocationID.x + i * INVOCATIONS, row = row0 + e / DEPTH;
  next_x[i] = vec4(0.0);
  if (e < BM * DEPTH && row < M) next_x[i] = four_of_x(row, k0 + e % DEPTH * 4, false);
}
void fetch_w(uint i, uint column0, uint k0) {
  const uint e = gl_LocalInvocationID.x + i * INVOCATIONS, column = column0 + tile_column(e / DEPTH);
  next_w[i] = WORDS_OF_4(0);
  if (e < BN * DEPTH && column < p.n) next_w[i] = four_of_w(column, k0 + e % DEPTH * 4, false);
}
void fetch(uint row0, uint column0, uint k0, uint M) {
#define FETCH_X(i) fetch_x(i, row0, k0, M)
#define FETCH_W(i) fetch_w(i, column0, k0)
  EACH_8(X_LOADS, FETCH_X)
  EACH_8(W_LOADS, FETCH_W)
}

void put_x(uint i, uint slice) {
  const uint e = gl_LocalInvocationID.x + i * INVOCATIONS;
  if (e < BM * DEPTH) slices[slice + e / DEPTH * STRIDE + e % DEPTH] = next_x[i];
}
void put_w(uint i, uint slice) {
  const uint e = gl_LocalInvocationID.x + i * INVOCATIONS;
  if (e < BN * DEPTH) slices[slice + (BM + e / DEPTH) * STRIDE + e % DEPTH] = unpack4(next_w[i]);
}
void put(uint slice) {
#define PUT_X(i) put_x(i, slice)
#define PUT_W(i) put_w(i, slice)
  EACH_8(X_LOADS, PUT_X)
  EACH_8(W_LOADS, PUT_W)
}

// Multiplies four k of column j with every row of the tile.
void multiply_column(uint j, uint w_from) {
  const vec4 b = slices[w_from + j * ACROSS * STRIDE];
  [[unroll]] for (uint c = 0; c < 4; c++) {
#define MULTIPLY(i) sums[(i) * MAX_TILE + j] = mad(a[i][c], b[c], sums[(i) * MAX_TILE + j])
    EACH_8(TM, MULTIPLY)
  }
}
void multiply(uint x_begin, uint w_begin) {
  for (uint k = 0; k < DEPTH; k++) {
#define LOAD_ROW(i) a[i] = slices[x_begin + (i) * DOWN * STRIDE + k]
#define MULTIPLY_COLUMN(j) multiply_column(j, w_begin + k)
    EACH_8(TM, LOAD_ROW)
    EACH_8(TN, MULTIPLY_COLUMN)
  }
}

void clear_row(uint i) {
#define CLEAR(j) sums[i * MAX_TILE + (j)] = 0.0
  EACH_8(TN, CLEAR)
}

void finish_row(uint i, uint row, uint column0, uint tx, uint M) {
#define FINISH(j) \
  finish_column(row, column0, tx, j, sums[i * MAX_TILE + (j)], sums[i * MAX_TILE + ((j) | 1)], M)
  EACH_8(TN, FINISH)
}

void main() {
  const uint M = dim[p.rows], row0 = gl_WorkGroupID.x * BM, column0 = gl_WorkGroupID.y * BN;
  // If the tile is large enough, 32 neighbours read 4 rows and 8 columns: fewer addresses than in one row of it.
  const bool blocks = ACROSS % 8 == 0 && DOWN % 4 == 0;
  const uint lane = gl_LocalInvocationID.x, block = lane / 32;
  const uint tx = blocks ? block % max(ACROSS / 8, 1) * 8 + lane % 8 : lane % ACROSS;
  const uint ty = blocks ? block / max(ACROSS / 8, 1) * 4 + lane / 8 % 4 : lane / ACROSS;
  EACH_8(TM, clear_row)
  const uint begin = gl_WorkGroupID.z * SPLIT_K, end = begin + min(SPLIT_K, p.k - begin);
  fetch(row0, column0, begin, M);
  put(0);
  uint slice = 0;
  for (uint k0 = begin; k0 < end; k0 += BK) {
    barrier();
    fetch(row0, column0, k0 + BK, M); // behind K: zeros
    multiply(slice + ty * STRIDE, slice + (BM + tx) * STRIDE);
    if (SLICES == 1)
      barrier();
    else
      slice = SLICE - slice;
    put(slice);
  }
#define FINISH_ROW(i) finish_row(i, row0 + ty + (i) * DOWN, column0, tx, M)
  EACH_8(TM, FINISH_ROW)
}
