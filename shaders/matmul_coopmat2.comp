// out = act(x w^T + bias) + residual by cooperative matrices of a whole workgroup (VK_NV_cooperative_matrix2): BM x BN
// elements, with sums in float32. The driver loads matrices from memory and decides how they pass through shared
// memory. Operands: x (rows) in f16, as round_halves.comp leaves it, w (rows) in f16, bias, residual, out. K is a
// multiple of 8. Weights in other formats would have to be decoded number by number.
//
// module matmul_coopmat2_f16: FORMAT_F16, needs COOPMAT2
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"
#include "lib/patch.glsl"

layout(BINDING(0)) readonly buffer X { float16_t x[]; };
layout(BINDING(1)) readonly buffer W { float16_t w[]; };

#define SUMS coopmat<float, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>
#define X_OF coopmat<float16_t, gl_ScopeWorkgroup, BM, BK, gl_MatrixUseA>
#define W_OF coopmat<float16_t, gl_ScopeWorkgroup, BK, BN, gl_MatrixUseB>

float leave_inside(const in uint i, const in uint j, const in float sum, const in uint row0, const in uint column0) {
  finish(row0 + i, column0 + j, sum);
  return sum;
}

float leave(const in uint i, const in uint j, const in float sum, const in uint row0, const in uint column0) {
  const uint row = row0 + i, column = column0 + j;
  if (row < dim[p.rows] && column < p.n) finish(row, column, sum);
  return sum;
}

#define MULTIPLY(X_LAYOUT, W_LAYOUT, k0)                                                            \
  {                                                                                                 \
    X_OF a;                                                                                         \
    W_OF b;                                                                                         \
    coopMatLoadTensorNV(a, x, x0, sliceTensorLayoutNV(X_LAYOUT, row0, BM, k0, BK));                 \
    coopMatLoadTensorNV(b, w, w0, sliceTensorLayoutNV(W_LAYOUT, column0, BN, k0, BK), turned);      \
    sums = coopMatMulAdd(a, b, sums);                                                               \
  }

// Writes out n slices at a time, so that the driver loads some while it multiplies others.
#define TOGETHER_INSIDE(n)                                                                                        \
  for (; k0 + (n) * BK <= K; k0 += (n) * BK) {                                                                    \
    [[unroll]] for (uint turn = 0; turn < (n); turn++) MULTIPLY(x_inside, w_inside, k0 + turn * BK)               \
  }

void main() {
  const uvec2 tile = tile_of_patch();
  const uint M = dim[p.rows], row0 = tile.x * BM, column0 = tile.y * BN;
  // Visibly multiples of eight, so that the driver may load 16 bytes at a time.
  const uint K = p.k & ~7u, x0 = (at[0].x * 2) & ~7u, w0 = (at[1].x * 2) & ~7u;
  tensorLayoutNV<2> x_inside = createTensorLayoutNV(2), w_inside = createTensorLayoutNV(2);
  tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> x_edge =
      createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
  tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> w_edge =
      createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
  const tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
  x_inside = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(x_inside, M, K), K, 1);
  x_edge = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(x_edge, M, K), K, 1);
  w_inside = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(w_inside, p.n, K), K, 1);
  w_edge = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(w_edge, p.n, K), K, 1);

  SUMS sums = SUMS(0.0);
  uint k0 = 0;
  const bool is_inside = row0 + BM <= M && column0 + BN <= p.n;
  if (is_inside) {
    TOGETHER_INSIDE(16)
    TOGETHER_INSIDE(4)
  }
  for (; k0 < K; k0 += BK) MULTIPLY(x_edge, w_edge, k0) // zeros past the edges
  if (is_inside)
    coopMatPerElementNV(sums, sums, leave_inside, row0, column0);
  else
    coopMatPerElementNV(sums, sums, leave, row0, column0);
}
