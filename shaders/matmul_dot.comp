// out = act(x w^T + bias) + residual for weights in q8, with products of four 8-bit numbers in a word. A workgroup
// computes BM x BN elements, an invocation TM x TN of them: rows ty + i BM/TM, columns tx + j BN/TN, or pairs of
// columns that are gated. Operands: x (as quantise.comp leaves it in words), w (rows), bias, residual, out, scales
// of w. Blocks of K are taken in ascending order. The sum of a block's products is an integer. It is multiplied by the
// block's scale and added to the one accumulator of the element. Shared memory has one block of x and of w, in words as
// they are stored, with one unused word behind each row. While a block is multiplied, the next one is loaded to
// registers.
//
// module matmul_dot_int8: FORMAT_INT8, needs GL_EXT_spirv_intrinsics
// module matmul_dot_written_out_int8: FORMAT_INT8 WRITTEN_OUT, needs GL_EXT_spirv_intrinsics
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"
#include "lib/dot.glsl"
#include "lib/each.glsl"
#include "lib/q8.glsl"
layout(BINDING(0)) readonly buffer X { uint x[]; };
layout(BINDING(1)) readonly buffer W { uint w[]; };

const uint STRIDE = Q8_WORDS + 1, ACROSS = BN / TN, DOWN = BM / TM, INVOCATIONS = ACROSS * DOWN;
shared uint words[(BM + BN) * STRIDE];
shared float block_scales[BM];
#include "lib/tile_columns.glsl"

// Literal sizes: SwiftShader keeps no array in registers whose size is a specialization constant. The tiles in
// kern/variants.c stay within them.
#define MAX_TILE VKF_DOT_MAX_TILE
#define MAX_LOADS VKF_DOT_MAX_LOADS
#if MAX_TILE > 8 || MAX_LOADS > 8
#error "EACH_8 takes 8"
#endif
const uint LOADS = ((BM + BN) * Q8_WORDS + INVOCATIONS - 1) / INVOCATIONS;
uint next[MAX_LOADS];
float next_scale;
uint a[MAX_TILE];
int whole[MAX_TILE * MAX_TILE]; // of row i and column j: i MAX_TILE + j
float sums[MAX_TILE * MAX_TILE];

// Loads zeros past the last row, column and k.
void fetch_word(uint i, uint row0, uint column0, uint block, uint blocks, uint M) {
  const uint e = gl_LocalInvocationID.x + i * INVOCATIONS, line = e / Q8_WORDS, word = e % Q8_WORDS;
  next[i] = 0;
  if (line < BM) {
    if (row0 + line < M && block < blocks) next[i] = x[at[0].x + q8_block(row0 + line, block, blocks) + word];
  } else if (line < BM + BN) {
    const uint column = column0 + tile_column(line - BM), k = block * VKF_Q8_BLOCK + word * 4;
    if (column < p.n && k < p.k) next[i] = w[at[1].x + (column * p.k + k) / 4];
  }
}
void fetch(uint row0, uint column0, uint block, uint blocks, uint M) {
#define FETCH_WORD(i) fetch_word(i, row0, column0, block, blocks, M)
  EACH_8(LOADS, FETCH_WORD)
  const uint row = row0 + gl_LocalInvocationID.x;
  next_scale = 0.0;
  if (gl_LocalInvocationID.x < BM && row < M && block < blocks)
    next_scale = uintBitsToFloat(x[at[0].x + q8_scale(M, row, block, blocks)]);
}

void put_word(uint i) {
  const uint e = gl_LocalInvocationID.x + i * INVOCATIONS;
  if (e < (BM + BN) * Q8_WORDS) words[e / Q8_WORDS * STRIDE + e % Q8_WORDS] = next[i];
}
void put() {
  EACH_8(LOADS, put_word)
  if (gl_LocalInvocationID.x < BM) block_scales[gl_LocalInvocationID.x] = next_scale;
}

// The next functions take row i or column j of the tile.
void begin_row(uint i) {
#define BEGIN(j) whole[i * MAX_TILE + (j)] = 0
  EACH_8(TN, BEGIN)
}
void multiply_column(uint j, uint from) {
  const uint b = words[from + j * ACROSS * STRIDE];
#define MULTIPLY(i) whole[(i) * MAX_TILE + j] += dot4(a[i], b)
  EACH_8(TM, MULTIPLY)
}
void scale_row(uint i, uint ty) {
  const float scale = block_scales[ty + i * DOWN];
#define SCALE(j) \
  sums[i * MAX_TILE + (j)] = mad(scale, float(whole[i * MAX_TILE + (j)]), sums[i * MAX_TILE + (j)])
  EACH_8(TN, SCALE)
}
void multiply(uint tx, uint ty) {
  EACH_8(TM, begin_row)
  [[unroll]] for (uint word = 0; word < Q8_WORDS; word++) {
#define LOAD_ROW(i) a[i] = words[(ty + (i) * DOWN) * STRIDE + word]
#define MULTIPLY_COLUMN(j) multiply_column(j, (BM + tx) * STRIDE + word)
    EACH_8(TM, LOAD_ROW)
    EACH_8(TN, MULTIPLY_COLUMN)
  }
#define SCALE_ROW(i) scale_row(i, ty)
  EACH_8(TM, SCALE_ROW)
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
  const uint tx = gl_LocalInvocationID.x % ACROSS, ty = gl_LocalInvocationID.x / ACROSS;
  const uint blocks = (p.k + VKF_Q8_BLOCK - 1) / VKF_Q8_BLOCK;
  EACH_8(TM, clear_row)
  fetch(row0, column0, 0, blocks, M);
  for (uint block = 0; block < blocks; block++) {
    barrier();
    put();
    barrier();
    fetch(row0, column0, block + 1, blocks, M);
    multiply(tx, ty);
  }
#define FINISH_ROW(i) finish_row(i, row0 + ty + (i) * DOWN, column0, tx, M)
  EACH_8(TM, FINISH_ROW)
}
