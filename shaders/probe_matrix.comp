// Checks whether cooperative matrices of BM x BN x BK are read from shared memory as the kernels expect: a product of
// small whole numbers and a sum, once with everything but the right factor by rows, once the other way round.
// Neighbouring rows and columns are one uvec4 further apart than they need, as in matmul_coopmat.comp. Each subgroup of
// the workgroup has numbers of its own.
//
// module probe_matrix, needs COOPMAT
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define GIVEN uint
#include "lib/probe.glsl"
layout(constant_id = VKF_C_BM) const uint M = 8;
layout(constant_id = VKF_C_BN) const uint N = 8;
layout(constant_id = VKF_C_BK) const uint K = 8;

const uint M8 = M / 8 + 1, N8 = N / 8 + 1, K8 = K / 8 + 1, M4 = M / 4 + 1, N4 = N / 4 + 1; // strides
const uint SUBGROUPS = VKF_PROBE_MATRIX_SUBGROUPS;
shared uvec4 left_rows[SUBGROUPS * M * K8], left_columns[SUBGROUPS * K * M8];
shared uvec4 right_rows[SUBGROUPS * K * N8], right_columns[SUBGROUPS * N * K8];
shared uvec4 sum_rows[SUBGROUPS * M * N4], sum_columns[SUBGROUPS * N * M4];

uint begin; // of the subgroup's own numbers

float left(uint i, uint k) { return float(given[begin + i * K + k] & 7u) - 3.0; }
float right(uint k, uint j) { return float(given[begin + k * N + j] >> 3 & 7u) - 3.0; }
float summand(uint i, uint j) { return float(given[begin + i * N + j] >> 6 & 63u) - 31.0; }

// Eight numbers from (i, k) on, the second of each pair in the next column, or in the next row.
uvec4 eight_left(uint i, uint k, uint down, uint along) {
  uvec4 words;
  for (uint c = 0; c < 4; c++)
    words[c] = packHalf2x16(vec2(left(i + 2 * c * down, k + 2 * c * along),
                                 left(i + (2 * c + 1) * down, k + (2 * c + 1) * along)));
  return words;
}

uvec4 eight_right(uint k, uint j, uint down, uint along) {
  uvec4 words;
  for (uint c = 0; c < 4; c++)
    words[c] = packHalf2x16(vec2(right(k + 2 * c * down, j + 2 * c * along),
                                 right(k + (2 * c + 1) * down, j + (2 * c + 1) * along)));
  return words;
}

void put(uint g) {
  for (uint e = gl_SubgroupInvocationID; e < M * K / 8; e += SUBGROUP_SIZE) {
    const uint i = e / (K / 8), k = e / (M / 8);
    left_rows[(g * M + i) * K8 + e % (K / 8)] = eight_left(i, e % (K / 8) * 8, 0, 1);
    left_columns[(g * K + k) * M8 + e % (M / 8)] = eight_left(e % (M / 8) * 8, k, 1, 0);
  }
  for (uint e = gl_SubgroupInvocationID; e < K * N / 8; e += SUBGROUP_SIZE) {
    const uint k = e / (N / 8), j = e / (K / 8);
    right_rows[(g * K + k) * N8 + e % (N / 8)] = eight_right(k, e % (N / 8) * 8, 0, 1);
    right_columns[(g * N + j) * K8 + e % (K / 8)] = eight_right(e % (K / 8) * 8, j, 1, 0);
  }
  for (uint e = gl_SubgroupInvocationID; e < M * N; e += SUBGROUP_SIZE) {
    const uint i = e / N, j = e % N;
    sum_rows[(g * M + i) * N4 + j / 4][j % 4] = floatBitsToUint(summand(i, j));
    sum_columns[(g * N + j) * M4 + i / 4][i % 4] = floatBitsToUint(summand(i, j));
  }
}

void main() {
  coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> c;
  const uint n = max(M * N, max(M * K, K * N)), g = min(gl_SubgroupID, SUBGROUPS - 1);
  begin = g * n;
  put(g);
  barrier();
  coopMatLoad(a, left_rows, g * M * K8, K8, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, right_columns, g * N * K8, K8, gl_CooperativeMatrixLayoutColumnMajor);
  coopMatLoad(c, sum_rows, g * M * N4, N4, gl_CooperativeMatrixLayoutRowMajor);
  c = coopMatMulAdd(a, b, c);
  barrier();
  coopMatStore(c, sum_rows, g * M * N4, N4, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(a, left_columns, g * K * M8, M8, gl_CooperativeMatrixLayoutColumnMajor);
  coopMatLoad(b, right_rows, g * K * N8, N8, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(c, sum_columns, g * N * M4, M4, gl_CooperativeMatrixLayoutColumnMajor);
  c = coopMatMulAdd(a, b, c);
  barrier();
  coopMatStore(c, sum_columns, g * N * M4, M4, gl_CooperativeMatrixLayoutColumnMajor);
  barrier();
  for (uint e = gl_SubgroupInvocationID; e < n; e += SUBGROUP_SIZE) {
    const uint i = e / N, j = e % N;
    found[2 * (begin + e)] = e < M * N ? sum_rows[(g * M + i) * N4 + j / 4][j % 4] : 0;
    found[2 * (begin + e) + 1] = e < M * N ? sum_columns[(g * N + j) * M4 + i / 4][i % 4] : 0;
  }
}
