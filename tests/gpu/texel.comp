#version 450
// Copies texels to a storage buffer.
layout(local_size_x = 8) in;
layout(binding = 0) uniform samplerBuffer src;
layout(binding = 1) writeonly buffer Dst { vec4 dst[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < dst.length()) dst[i] = texelFetch(src, int(i));
}
