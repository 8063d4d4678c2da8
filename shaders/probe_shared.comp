// Checks shared memory, all that the device has, and barriers: each invocation reads what others have written.
//
// module probe_shared
#version 440
#extension GL_GOOGLE_include_directive : require
#define GIVEN uint
#include "lib/probe.glsl"
layout(constant_id = VKF_C_BM) const uint WORDS = 64; // at least as many as invocations
shared uint memory[WORDS];

void main() {
  const uint own = gl_LocalInvocationID.x, n = gl_WorkGroupSize.x;
  for (uint i = own; i < WORDS; i += n) memory[i] = (i + 1) * given[0];
  barrier();
  uint sum = 0;
  for (uint i = own; i < WORDS; i += n) sum += memory[WORDS - 1 - i];
  barrier();
  memory[own] = sum;
  barrier();
  for (uint half_ = n / 2; half_ > 0; half_ /= 2) {
    if (own < half_) memory[own] += memory[own + half_];
    barrier();
  }
  found[2 * own] = sum;
  found[2 * own + 1] = memory[0];
}
