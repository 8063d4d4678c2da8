// Whether a workgroup of SUBGROUP_SIZE invocations is one full subgroup of that size, and whether its lanes reach each
// other as the kernels have it: with SHUFFLE, BALLOT (and broadcast) or ARITHMETIC.
//
// module probe_subgroup
// module probe_shuffle: SHUFFLE
// module probe_ballot: BALLOT
// module probe_arithmetic: ARITHMETIC
#version 450
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
  const uint lane = gl_SubgroupInvocationID, word = given[lane];
#if defined(SHUFFLE)
  found[4 * lane] = subgroupShuffle(word, SUBGROUP_SIZE - 1 - lane);
  found[4 * lane + 1] = subgroupShuffle(word, given[0] % SUBGROUP_SIZE);
  found[4 * lane + 2] = subgroupShuffleXor(word, 1);
  found[4 * lane + 3] = subgroupShuffleXor(word, SUBGROUP_SIZE / 2);
#elif defined(BALLOT)
  const uvec4 odd = subgroupBallot((word & 1) != 0);
  found[4 * lane] = subgroupBroadcast(word, 0);
  found[4 * lane + 1] = subgroupBroadcast(word, 3);
  found[4 * lane + 2] = odd.x;
  found[4 * lane + 3] = odd.y;
#elif defined(ARITHMETIC)
  found[lane] = floatBitsToUint(subgroupAdd(float(word & 0xffffu)));
#else
  found[lane] = gl_SubgroupSize;
#endif
}
