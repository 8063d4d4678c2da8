// x - max - log(sum(exp(x - max))) of a row; a workgroup a row. Operands: x, out.
// The sum has one partial sum an invocation (columns lane, lane + WORKGROUP, ...), added up in the order of the lanes:
// the order depends on the width alone.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_rows
#define OUT 1
#include "lib/kernel.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
shared float partial[VKF_ROW_PARTIALS];

void main() {
  const uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  const uint from = at[0].x + row * p.width;
  float top = -3.402823466e38;
  for (uint c = lane; c < p.width; c += VKF_ROW_PARTIALS) top = max(top, x[from + c]);
  partial[lane] = top;
  barrier();
  for (uint i = 0; i < VKF_ROW_PARTIALS; i++) top = max(top, partial[i]);
  barrier();
  float sum = 0.0; // NaN gets in here, since max drops it
  for (uint c = lane; c < p.width; c += VKF_ROW_PARTIALS) sum += exp_below(x[from + c] - top);
  partial[lane] = sum;
  barrier();
  sum = 0.0;
  for (uint i = 0; i < VKF_ROW_PARTIALS; i++) sum += partial[i];
  precise float shift = log_of(sum);
  for (uint c = lane; c < p.width; c += VKF_ROW_PARTIALS) {
    precise float y = x[from + c] - top;
    store(row, c, p.width, y - shift);
  }
}
