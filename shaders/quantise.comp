// The first stage of a matmul whose weight is in q8: rows of x as whole numbers -127 .. 127 and a scale for each block
// of VKF_Q8_BLOCK columns (src/ref/q8.h says which), an invocation a block. Operands: x (rows), q8. All of it is exact:
// the quotient of two whole numbers is only where a search begins.
// q8 is what lib/q8.glsl reads.
//
// module quantise_q8
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#include "lib/kernel.glsl"
#include "lib/q8.glsl"
layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) writeonly buffer Q8 { float q8[]; };

// |x| / scale to nearest even; bits of x, the mantissa of the scale, the exponent of the block's largest.
uint quantised(uint bits, uint steps, uint exponent) {
  const uint own = bits >> 23 & 255, mantissa = bits & 0x7fffffu | 0x800000u, down = exponent - own;
  if (own == 0 || down > 8) return 0; // less than half a step
  const uint step = steps << down;
  uint q = uint(float(mantissa) / float(step));
  int rest = int(mantissa) - int(q * step);
  if (rest < 0) {
    q--;
    rest += int(step);
  } else if (rest >= int(step)) {
    q++;
    rest -= int(step);
  }
  const uint twice = 2 * uint(rest);
  return twice > step || twice == step && q % 2 != 0 ? q + 1 : q;
}

void main() {
  const uint M = dim[p.rows], blocks = q8_blocks(), row = gl_GlobalInvocationID.x / blocks;
  if (row >= M) return;
  const uint block = gl_GlobalInvocationID.x % blocks, k0 = block * VKF_Q8_BLOCK, end = min(k0 + VKF_Q8_BLOCK, p.k);
  const uint from = at[0].x + row * p.k, to = at[1].x + q8_row(row);
  uint most = 0;
  [[dont_unroll]] for (uint k = k0; k < end; k++) most = max(most, floatBitsToUint(x[from + k]) & 0x7fffffffu);
  const uint exponent = most >> 23;
  const bool finite = exponent < 255, some = finite && exponent >= VKF_Q8_LEAST_EXPONENT;
  const uint steps = ((most & 0x7fffffu | 0x800000u) + 126) / 127;
  // steps has 17 or 18 bits; the mantissa of the largest is a whole number of 2^(exponent - 150).
  float scale = some ? uintBitsToFloat(floatBitsToUint(float(steps)) + (exponent - 150 << 23)) : 0.0;
  if (!finite) scale = uintBitsToFloat(0x7fc00000u);
  q8[at[1].x + q8_scale(M, row, block)] = scale;
  [[dont_unroll]] for (uint k = k0; k < k0 + VKF_Q8_BLOCK && k < 4 * q8_fours(); k++) {
    float y = 0.0;
    if (some && k < end) {
      const uint bits = floatBitsToUint(x[from + k]);
      y = float(quantised(bits, steps, exponent));
      if (bits >> 31 != 0) y = -y;
    }
    q8[to + k] = y;
  }
}
