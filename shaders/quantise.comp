// The first stage of a matmul whose weight is in q8: rounds rows of x to 8 bits (src/ref/q8.h). An invocation rounds
// one block of VKF_Q8_BLOCK columns. Operands: x (rows), rounded. Every step is exact: the quotient of two integers
// only starts a search, and an integer times its scale has at most 24 bits.
// WORDS: stores integers, four in a word, and scales, as lib/q8.glsl reads them, for kernels that multiply integers.
// Otherwise stores float32, in rows as x.
//
// module quantise
// module quantise_words: WORDS
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_matmul
#include "lib/kernel.glsl"
layout(BINDING(0)) readonly buffer X { float x[]; };
#ifdef WORDS
#include "lib/q8.glsl"
layout(BINDING(1)) writeonly buffer Rounded { uint rounded[]; };
#else
layout(BINDING(1)) writeonly buffer Rounded { float rounded[]; };
#endif

// Returns x / scale, rounded to nearest even. bits: those of x; scale: its whole number; exponent: of the block's
// largest.
int whole_number(uint bits, uint scale, uint exponent) {
  const uint own = bits >> 23 & 255, mantissa = bits & 0x7fffffu | 0x800000u, down = exponent - own;
  if (own == 0 || down > 8) return 0; // less than half a step
  const uint step = scale << down;
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
  if (twice > step || twice == step && q % 2 != 0) q++;
  return bits >> 31 != 0 ? -int(q) : int(q);
}

void main() {
  const uint M = dim[p.rows], blocks = (p.k + VKF_Q8_BLOCK - 1) / VKF_Q8_BLOCK;
  const uint row = gl_GlobalInvocationID.x / blocks, block = gl_GlobalInvocationID.x % blocks;
  if (row >= M) return;
  const uint k0 = block * VKF_Q8_BLOCK, n = min(VKF_Q8_BLOCK, p.k - k0), from = at[0].x + row * p.k + k0;
  uint most = 0;
  [[dont_unroll]] for (uint k = 0; k < n; k++) most = max(most, floatBitsToUint(x[from + k]) & 0x7fffffffu);
  const uint exponent = most >> 23;
  const bool held = most < VKF_Q8_REFUSED, some = held && exponent >= VKF_Q8_LEAST_EXPONENT;
  // The largest is its mantissa of 24 bits, a whole number, times 2^(exponent - 150). So is the scale: 1 / 127 of the
  // largest, with a whole number that is rounded up to 17 bits.
  const uint mantissa = most & 0x7fffffu | 0x800000u;
  uint whole = (mantissa + 126) / 127;
  if (whole > 0x20000u) whole = (mantissa + 253) / 254 * 2;
  float scale = some ? uintBitsToFloat(floatBitsToUint(float(whole)) + (exponent - 150 << 23)) : 0.0;
  if (!held) scale = uintBitsToFloat(0x7fc00000u);
#ifdef WORDS
  const uint to = at[1].x + q8_block(row, block, blocks);
  rounded[at[1].x + q8_scale(M, row, block, blocks)] = floatBitsToUint(scale);
  [[dont_unroll]] for (uint word = 0; word < VKF_Q8_BLOCK / 4; word++) {
    uint four = 0;
    [[unroll]] for (uint c = 0; c < 4; c++) {
      const uint k = word * 4 + c;
      if (some && k < n)
        four |= uint(whole_number(floatBitsToUint(x[from + k]), whole, exponent) & 255) << 8 * c;
    }
    rounded[to + word] = four;
  }
#else
  const uint to = at[1].x + row * p.k + k0;
  [[dont_unroll]] for (uint k = 0; k < n; k++)
    rounded[to + k] = scale * (some ? float(whole_number(floatBitsToUint(x[from + k]), whole, exponent)) : 0.0);
#endif
}
