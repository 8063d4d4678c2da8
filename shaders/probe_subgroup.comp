// Checks whether a workgroup is full subgroups of SUBGROUP_SIZE, counted from 0 on, and whether the lanes of each
// exchange numbers as the kernels need it: by SHUFFLE, BALLOT (and broadcast) or ARITHMETIC.
//
// module probe_subgroup
// module probe_shuffle: SHUFFLE
// module probe_ballot: BALLOT
// module probe_arithmetic: ARITHMETIC
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef SHUFFLE
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef BALLOT
#extension GL_KHR_shader_subgroup_ballot : require
#endif
#ifdef ARITHMETIC
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#define GIVEN uint
#include "lib/probe.glsl"

void main() {
  const uint first = gl_SubgroupID * SUBGROUP_SIZE, lane = gl_SubgroupInvocationID;
  // A driver that counts wrongly still writes within the buffer.
  const uint own = min(first + lane, gl_WorkGroupSize.x - 1), word = given[own];
#if defined(SHUFFLE)
  found[4 * own] = subgroupShuffle(word, SUBGROUP_SIZE - 1 - lane);
  found[4 * own + 1] = subgroupShuffle(word, given[0] % SUBGROUP_SIZE);
  found[4 * own + 2] = subgroupShuffleXor(word, 1);
  found[4 * own + 3] = subgroupShuffleXor(word, SUBGROUP_SIZE / 2);
#elif defined(BALLOT)
  const uvec4 odd = subgroupBallot((word & 1) != 0);
  found[4 * own] = subgroupBroadcast(word, 0);
  found[4 * own + 1] = subgroupBroadcast(word, 3);
  found[4 * own + 2] = odd.x;
  found[4 * own + 3] = odd.y;
#elif defined(ARITHMETIC)
  found[own] = floatBitsToUint(subgroupAdd(float(word & 0xffffu)));
#else
  found[own] = gl_SubgroupSize;
#endif
}
