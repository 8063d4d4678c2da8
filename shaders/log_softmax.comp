// x - max - log(sum(exp(x - max))) of each row. A workgroup computes one row. Operands: x, out. The order of the sum is
// in lib/partials.glsl.
//
// module log_softmax
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_rows
#define OUT 1
#include "lib/kernel.glsl"
#include "lib/partials.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
shared float largest[VKF_ROW_PARTIALS];

void main() {
  const uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  const uint from = at[0].x + row * p.width;
  float top = -3.402823466e38;
  for (uint c = lane; c < p.width; c += VKF_ROW_PARTIALS) top = larger(top, x[from + c]);
  largest[lane] = top;
  barrier();
  for (uint i = 0; i < VKF_ROW_PARTIALS; i++) top = larger(top, largest[i]);
  float part = 0.0; // NaN gets in here, since larger() drops it
  for (uint c = lane; c < p.width; c += VKF_ROW_PARTIALS) part += exp_below(x[from + c] - top);
  precise float shift = log_of(total_of(part));
  for (uint c = lane; c < p.width; c += VKF_ROW_PARTIALS) {
    precise float y = x[from + c] - top;
    store(row, c, p.width, y - shift);
  }
}
