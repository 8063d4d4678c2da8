// Checks whether an invocation gets as many turns of loops as it asks for: TURNS of them in nested loops, and one more.
// Each turn takes one step of a sequence of which the host knows every element. Some drivers have one counter for all
// loops of an invocation; when it runs out they end every loop, and report nothing.
//
// module probe_loops
#version 440
#extension GL_GOOGLE_include_directive : require
#define GIVEN uint
#include "lib/probe.glsl"
layout(constant_id = VKF_C_BM) const uint TURNS = 1;
const uint ROUNDS = TURNS / (VKF_PROBE_INNER_TURNS + 1), REST = TURNS % (VKF_PROBE_INNER_TURNS + 1);

void main() {
  const uint own = gl_GlobalInvocationID.x;
  uint word = given[own], round = 0, rest = 0;
  if (ROUNDS > 0) {
    do {
      uint i = 0;
      do word = word * VKF_PROBE_FACTOR + VKF_PROBE_TERM;
      while (++i < VKF_PROBE_INNER_TURNS);
    } while (++round < ROUNDS);
  }
  if (REST > 0) {
    do word = word * VKF_PROBE_FACTOR + VKF_PROBE_TERM;
    while (++rest < REST);
  }
  found[own] = word;
}
