#version 450
// Counts for a long time, so that a submit outlives a short wait.
layout(local_size_x = 1) in;
layout(binding = 0) buffer Dst { uint dst[]; };
layout(push_constant) uniform Push { uint n; };
void main() {
  uint x = dst[0];
  for (uint i = 0; i < n; ++i) x = x * 1664525u + 1013904223u;
  dst[0] = x;
}
