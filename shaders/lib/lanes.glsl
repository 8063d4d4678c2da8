// A row in one subgroup of SUBGROUP_SIZE, which is the whole workgroup, with four columns a lane at a time. Operand 0
// is x, read through a texel buffer if TEXEL is defined (widths are multiples of 4 then). begin_at() returns where the
// row begins whose first element has this number.
#ifdef TEXEL
layout(set = 0, binding = 1) uniform samplerBuffer x4;
uint begin_at(uint element) { return at[0].x + element / 4; }
vec4 four(uint begin, uint column) { return texelFetch(x4, int(begin + column / 4)); }
float one(uint begin, uint column) { return texelFetch(x4, int(begin + column / 4))[column % 4]; }
#else
layout(BINDING(0)) readonly buffer X { float x[]; };
uint begin_at(uint element) { return at[0].x + element; }
vec4 four(uint begin, uint column) {
  const uint i = begin + column;
  return vec4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}
float one(uint begin, uint column) { return x[begin + column]; }
#endif

// As four(), at the end of a row: `none` for columns past it.
vec4 four_until(uint begin, uint column, uint width, float none) {
  vec4 v = vec4(none);
#ifdef TEXEL
  if (column < width) v = four(begin, column);
#else
  [[unroll]] for (uint c = 0; c < 4; c++)
    if (column + c < width) v[c] = one(begin, column + c);
#endif
  return v;
}
