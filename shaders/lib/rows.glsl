// Loads four k of a row of x or w, where both are in rows: by one load if VEC says that K is a multiple of 4, else
// number by number. Those from K on are zeros; `inside` says that all four are below K. Numbers of w stay as they are
// stored until unpack4(), so that nothing waits for the load before.
#include "lib/format.glsl"
layout(constant_id = VKF_C_VEC) const uint VEC = 1;
// The same buffers, as numbers and as vectors.
layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(0)) readonly buffer X4 { vec4 x4[]; };
layout(BINDING(1)) readonly buffer W { WORD w[]; };
layout(BINDING(1)) readonly buffer W4 { WORDS_OF_4 w4[]; };

vec4 four_of_x(uint row, uint k, bool inside) {
  const uint from = at[0].x + row * p.k + k;
  vec4 v = vec4(0.0);
  if (VEC == 4) {
    if (inside || k < p.k) v = x4[from / 4];
  } else {
    [[unroll]] for (uint c = 0; c < 4; c++)
      if (k + c < p.k) v[c] = x[from + c];
  }
  return v;
}

WORDS_OF_4 four_of_w(uint column, uint k, bool inside) {
  const uint from = column * p.k + k;
  WORDS_OF_4 words = WORDS_OF_4(0);
  if (VEC == 4) {
    if (inside || k < p.k) words = w4[at[1].x / 4 * PER_WORD + from / 4];
  } else {
    RAW four[4] = RAW[4](RAW(0), RAW(0), RAW(0), RAW(0));
    [[unroll]] for (uint c = 0; c < 4; c++)
      if (k + c < p.k) four[c] = raw(w[at[1].x + (from + c) / PER_WORD], (from + c) % PER_WORD);
    words = join(four[0], four[1], four[2], four[3]);
  }
  return words;
}
