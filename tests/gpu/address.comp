#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
// Adds one to n words behind an address.
layout(local_size_x = 8) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant) uniform Push { uvec2 address; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) Words(address).v[i] += 1;
}
