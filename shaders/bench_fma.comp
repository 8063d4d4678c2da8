// Measures the roof of multiply-adds. An invocation has twelve independent sums, which fit the sixteen registers of
// AVX2, and adds to them many times per turn of the loop. Each sum becomes exactly 2, because s <- s / 2 + 1 converges
// there in float32. The factors come with the push constants, so the compiler knows none of them.
//
// module bench_fma: FUSED
// module bench_mul_add
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "shared/constants.h"
layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(push_constant, std430) uniform Push {
  uint rounds;
  float half_, one;
};
layout(set = 0, binding = 0, std430) writeonly buffer Out { float sums_of[]; };

// Rounds of a turn. With more of them, and without fusion, LLVM computes the sums one after the other.
#ifdef FUSED
#define STEP(s) fma(s, half_, one)
#define AT_ONCE 4
#else
#define STEP(s) (s * half_ + one)
#define AT_ONCE 1
#endif

void main() {
  float s[12];
  [[unroll]] for (uint i = 0; i < 12; i++) s[i] = float(gl_LocalInvocationID.x + i);
  for (uint r = 0; r < rounds; r += AT_ONCE) {
    [[unroll]] for (uint k = 0; k < 8 * AT_ONCE; k++) {
      [[unroll]] for (uint i = 0; i < 12; i++) s[i] = STEP(s[i]);
    }
  }
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < 12; i++) sum += s[i];
  sums_of[gl_GlobalInvocationID.x] = sum;
}
