// Checks the arithmetic of the reproducible mode: quotients, roots, products and sums, each rounded on its own.
//
// module probe_rounding
#version 440
#extension GL_GOOGLE_include_directive : require
#define GIVEN uint
#include "lib/probe.glsl"
#include "shared/reproducible.h"

void main() {
  const uint own = gl_GlobalInvocationID.x;
  const float a = uintBitsToFloat(given[3 * own]), b = uintBitsToFloat(given[3 * own + 1]);
  found[3 * own] = floatBitsToUint(vkf_reproducible_div(a, b));
  found[3 * own + 1] = floatBitsToUint(vkf_reproducible_root(abs(b)));
  found[3 * own + 2] = floatBitsToUint(vkf_reproducible_mad(a, b, uintBitsToFloat(given[3 * own + 2])));
}
