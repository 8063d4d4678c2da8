// k and v four elements at a time, through texel buffers where TEXEL is defined.
#ifdef TEXEL
layout(set = 0, binding = 2) uniform samplerBuffer k4;
layout(set = 0, binding = 3) uniform samplerBuffer v4;
#define LOAD(buffer, i) texelFetch(buffer, int(i))
#define FIRST(o) at[o].x
#else
layout(BINDING(1)) readonly buffer K4 { vec4 k4[]; };
layout(BINDING(2)) readonly buffer V4 { vec4 v4[]; };
#define LOAD(buffer, i) buffer[i]
#define FIRST(o) (at[o].x / 4)
#endif
