// out = act(x w^T + bias) + residual by cooperative matrices (VK_KHR_cooperative_matrix). A workgroup computes BM x BN
// elements, a subgroup TM x TN of them, in pieces of MATRIX_M x MATRIX_N, with sums in float32. Operands: x (rows), w
// (rows), bias, residual, out, scales of rows if the format has them, a word that becomes 1 if some x or w cannot be
// stored as f16. K is a multiple of 8.
// x is rounded to f16 on its way to shared memory. Weights in bf16 become f16 there, too, which is exact from 2^-14 on,
// and so do the whole numbers of int8. Shared memory has two slices of BK. While one is multiplied, the next is stored
// there, and the one after that is loaded from memory to registers. The matrices of a step of MATRIX_K are loaded while
// those of the step before are multiplied. A slice has an even number of steps.
// AHEAD: this goes on across the barrier between two slices, so that matrix cores have work while subgroups wait there.
// HALVES: x is in f16 already, as round_halves.comp leaves it.
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
layout(constant_id = VKF_C_MATRICES_AHEAD) const uint AHEAD = 0;

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

// A lane's share of a slice, all at the same depth.
const uint X_LOADS = (BM * DEPTH + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint W_LOADS = (BN * DEPTH + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
#ifdef HALVES
uvec4 next_x[X_LOADS];
#else
vec4 next_x[2 * X_LOADS];
#endif
EIGHT next_w[W_LOADS];
uint x_rows[X_LOADS], w_rows[W_LOADS]; // where they begin in the buffers

// Shared memory takes 16 bytes of each of eight lanes at a time, if they are in different banks. Rows that are DEPTH
// apart are, neighbours are not, so eight lanes take rows that are DEPTH apart.
const uint AT_ONCE = DEPTH < 8 ? 8 / DEPTH : 1;
uint row_of(uint load) {
  const uint row = load / DEPTH;
  return DEPTH < 8 ? (row & ~7u) + row % AT_ONCE * DEPTH + row % 8 / AT_ONCE : row;
}

// Rows past M and columns past N repeat the last, so that no load waits for a test.
void begin_rows(uint row0, uint column0) {
  const uint eight = gl_LocalInvocationID.x % DEPTH;
  [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
    const uint row = min(row0 + row_of(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x), dim[p.rows] - 1);
#ifdef HALVES
    x_rows[i] = at[0].x / 4 + row * (p.k / 8) + eight;
#else
    x_rows[i] = at[0].x / 4 + row * (p.k / 4) + 2 * eight;
#endif
  }
  [[unroll]] for (uint i = 0; i < W_LOADS; i++) {
    const uint column = min(column0 + row_of(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x), p.n - 1);
    w_rows[i] = at[1].x / (BITS / 4) + column * (p.k / 8) + eight;
  }
}

void load(uint k8) {
  [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
#ifdef HALVES
    next_x[i] = x8[x_rows[i] + k8];
#else
    next_x[2 * i] = x4[x_rows[i] + 2 * k8];
    next_x[2 * i + 1] = x4[x_rows[i] + 2 * k8 + 1];
#endif
  }
  [[unroll]] for (uint i = 0; i < W_LOADS; i++) next_w[i] = w8[w_rows[i] + k8];
}

// Loads a whole slice, if there is one. With one test for all of it an H200's driver takes 228 to 239 registers for a
// subgroup of 64 x 64; with a test for each load it takes more than there are.
void fetch(uint k0, uint end) {
  if (k0 + BK <= end) load(k0 / 8);
}

#ifdef FORMAT_F16
uvec4 halves_of(uvec4 words) { return words; }
#elif BITS == 16 // bf16: packing has nothing to round where f16 is exact
uvec4 halves_of(uvec4 words) {
  note_bfloat16(words);
  return uvec4(packed_halves(unpack4(words.xy)), packed_halves(unpack4(words.zw)));
}
#else // whole numbers, so nothing is rounded
uvec4 halves_of(uvec2 words) { return uvec4(packed_halves(unpack4(words.x)), packed_halves(unpack4(words.y))); }
#endif

void put(uint slice) {
  [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
    const uint e = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
#ifdef HALVES
    const uvec4 eight = next_x[i];
#else
    const uvec4 eight = uvec4(halves(next_x[2 * i]), halves(next_x[2 * i + 1]));
#endif
    if (e < BM * DEPTH) slices[slice + row_of(e) * STRIDE + e % DEPTH] = eight;
  }
  [[unroll]] for (uint i = 0; i < W_LOADS; i++) {
    const uint e = gl_LocalInvocationID.x + i * gl_WorkGroupSize.x;
    if (e < BN * DEPTH) slices[slice + (BM + row_of(e)) * STRIDE + e % DEPTH] = halves_of(next_w[i]);
  }
}

// Loads and puts what is left of K behind the last whole slice. Past `end`, x repeats the last columns and w is 0.
void put_rest(uint slice, uint k0, uint end) {
  const uint eight = gl_LocalInvocationID.x % DEPTH, k8 = k0 / 8 + eight;
  load(min(k8, end / 8 - 1) - eight);
  if (k8 >= end / 8) {
    [[unroll]] for (uint i = 0; i < W_LOADS; i++) next_w[i] = EIGHT(0);
  }
  put(slice);
}

const uint ROWS = TM / MATRIX_M, COLUMNS = TN / MATRIX_N; // pieces of a subgroup
const uint STEPS = BK / MATRIX_K;

// Load the matrices of a step of a slice into one of two sets of registers; multiply them.
#define LOAD(set, slice, step)                                                                                \
  {                                                                                                           \
    [[unroll]] for (uint i = 0; i < ROWS; i++)                                                                \
      coopMatLoad(a[(set) * ROWS + i], slices,                                                                \
                  (slice) + (sub_row + i * MATRIX_M) * STRIDE + (step) * (MATRIX_K / 8), STRIDE,              \
                  gl_CooperativeMatrixLayoutRowMajor);                                                        \
    [[unroll]] for (uint j = 0; j < COLUMNS; j++)                                                             \
      coopMatLoad(b[(set) * COLUMNS + j], slices,                                                             \
                  (slice) + (BM + sub_column + j * MATRIX_N) * STRIDE + (step) * (MATRIX_K / 8), STRIDE,      \
                  gl_CooperativeMatrixLayoutColumnMajor);                                                     \
  }
#define MULTIPLY(set)                                                                                         \
  [[unroll]] for (uint j = 0; j < COLUMNS; j++) {                                                             \
    [[unroll]] for (uint i = 0; i < ROWS; i++)                                                                \
      sums[i * COLUMNS + j] = coopMatMulAdd(a[(set) * ROWS + i], b[(set) * COLUMNS + j], sums[i * COLUMNS + j]); \
  }

void main() {
  const uvec2 tile = tile_of_patch();
  const uint M = dim[p.rows], row0 = tile.x * BM, column0 = tile.y * BN;
  const uint sub_row = gl_SubgroupID / (BN / TN) * TM, sub_column = gl_SubgroupID % (BN / TN) * TN;
  // Matrices are variables of main(), and every loop over them is unrolled, so that none is in memory.
  coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a[2 * ROWS];
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b[2 * COLUMNS];
  [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++)
    sums[i] = coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(0.0);
#ifdef SPLIT
  const uint begin = gl_WorkGroupID.z * SPLIT_K, end = min(begin + SPLIT_K, p.k);
#else
  const uint begin = 0, end = p.k;
#endif
  begin_rows(row0, column0);
  uint slice = 0, k0 = begin;
  if (begin + BK <= end) {
    load(begin / 8);
    put(0);
  }
  fetch(begin + BK, end);
  barrier();
  if (AHEAD != 0) LOAD(0, 0, 0)
  for (; k0 + BK <= end; k0 += BK) {
    put(SLICE - slice);
    fetch(k0 + 2 * BK, end);
    if (AHEAD == 0) LOAD(0, slice, 0)
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
      if (step + 1 < STEPS) {
        LOAD((step + 1) % 2, slice, step + 1)
      } else {
        barrier();
        if (AHEAD != 0) LOAD((step + 1) % 2, SLICE - slice, 0)
      }
      MULTIPLY(step % 2)
    }
    slice = SLICE - slice;
  }
  if (k0 < end) {
    barrier();
    put_rest(slice, k0, end);
    barrier();
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
      LOAD(0, slice, step)
      MULTIPLY(0)
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
