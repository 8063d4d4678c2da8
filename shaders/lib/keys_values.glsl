// Loads four elements of k and v at a time, in any FORMAT, through texel buffers if TEXEL is defined.
#include "lib/format.glsl"
#ifdef TEXEL
layout(set = 0, binding = 2) uniform TEXELS k4;
layout(set = 0, binding = 3) uniform TEXELS v4;
#define LOAD(buffer, i) unpack4(WORDS_OF_4(texelFetch(buffer, int(i))))
#define FIRST(o) at[o].x
#else
layout(BINDING(1)) readonly buffer K4 { WORDS_OF_4 k4[]; };
layout(BINDING(2)) readonly buffer V4 { WORDS_OF_4 v4[]; };
#define LOAD(buffer, i) unpack4(buffer[i])
#define FIRST(o) (at[o].x / 4 * PER_WORD)
#endif
