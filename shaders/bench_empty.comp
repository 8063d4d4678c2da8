// Does next to nothing: measures what a dispatch costs besides its work.
//
// module bench_empty
#version 440
#extension GL_GOOGLE_include_directive : require
#include "shared/constants.h"
layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint last; };
void main() {
  if (gl_GlobalInvocationID.x == 0) last = 1;
}
