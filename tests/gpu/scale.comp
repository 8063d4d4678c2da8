#version 450
// dst[i] = src[i] * factor + offset: the small kernel of the tests of room gpu. Constant 0 is the workgroup's size.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OFFSET = 0;
layout(binding = 0) readonly buffer Src { uint src[]; };
layout(binding = 1) writeonly buffer Dst { uint dst[]; };
layout(push_constant) uniform Push { uint n, factor; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) dst[i] = src[i] * factor + OFFSET;
}
