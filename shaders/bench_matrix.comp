// Measures the roof of matrix cores. A subgroup has eight independent sums, which fit its registers. Each product adds
// a half to every element, exactly. The factors come with the push constants, so the compiler knows none of them.
//
// module bench_matrix, needs COOPMAT
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "shared/constants.h"
layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(constant_id = VKF_C_BM) const uint M = 8;
layout(constant_id = VKF_C_BN) const uint N = 8;
layout(constant_id = VKF_C_BK) const uint K = 8;
layout(push_constant, std430) uniform Push {
  uint rounds;
  float half_, one;
};
layout(set = 0, binding = 0, std430) writeonly buffer Out { float sums_of[]; };

void main() {
  const coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a =
      coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>(half_);
  const coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b =
      coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>(one / float(K));
  coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> s[8];
  [[unroll]] for (uint i = 0; i < 8; i++) s[i] = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);
  for (uint r = 0; r < rounds; r++) {
    [[unroll]] for (uint i = 0; i < 8; i++) s[i] = coopMatMulAdd(a, b, s[i]);
  }
  [[unroll]] for (uint i = 1; i < 8; i++) s[0] += s[i];
  const uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
  coopMatStore(s[0], sums_of, subgroup * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
}
