// As log_softmax.comp for few long rows, each among several workgroups, which have VKF_SOFTMAX_SPLIT columns each. PART
// leaves the largest of its columns and the sum of exp(x - it) in scratch memory. COMBINE adds up those of all parts of
// the row, each scaled to the largest of all, and stores its columns.
// Operands: x, partial results, of COMBINE also out.
//
// module log_softmax_split: PART
// module log_softmax_combine: COMBINE
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_rows
#define OUT 2
#include "lib/kernel.glsl"
#include "lib/partials.glsl"
#ifdef COMBINE
#include "lib/store.glsl"
layout(BINDING(1)) readonly buffer Parts { vec2 parts[]; }; // the largest and the sum
#else
layout(BINDING(1)) writeonly buffer Parts { vec2 parts[]; };
#endif
layout(BINDING(0)) readonly buffer X { float x[]; };
shared float largest[VKF_ROW_PARTIALS];
const uint OWN = VKF_SOFTMAX_SPLIT / VKF_ROW_PARTIALS; // columns of an invocation

// The largest of all invocations' numbers.
float largest_of(float top) {
  largest[gl_LocalInvocationID.x] = top;
  barrier();
  [[unroll]] for (uint i = 0; i < VKF_ROW_PARTIALS; i++) top = larger(top, largest[i]);
  return top;
}

void main() {
  const uint row = gl_WorkGroupID.x, part = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
  const uint begin = part * VKF_SOFTMAX_SPLIT, from = at[0].x + row * p.width;
  const uint n_parts = (p.width + VKF_SOFTMAX_SPLIT - 1) / VKF_SOFTMAX_SPLIT, first = at[1].x / 2 + row * n_parts;
  float top = -3.402823466e38, sum = 0.0; // NaN gets into the sum, since larger() drops it
  float own[OWN];
  [[unroll]] for (uint i = 0; i < OWN; i++) {
    const uint c = begin + i * VKF_ROW_PARTIALS + lane;
    const float v = x[from + min(c, p.width - 1)]; // no branch, so that all loads are under way
    own[i] = c < p.width ? v : uintBitsToFloat(0xff800000u); // exp of it is 0
  }
#ifdef COMBINE
  for (uint i = lane; i < n_parts; i += VKF_ROW_PARTIALS) top = larger(top, parts[first + i].x);
  top = largest_of(top);
  for (uint i = lane; i < n_parts; i += VKF_ROW_PARTIALS)
    sum = mad(parts[first + i].y, exp_below(parts[first + i].x - top), sum);
  precise float shift = log_of(total_of(sum));
  [[unroll]] for (uint i = 0; i < OWN; i++) {
    const uint c = begin + i * VKF_ROW_PARTIALS + lane;
    precise float y = own[i] - top;
    if (c < p.width) store(row, c, p.width, y - shift);
  }
#else
  [[unroll]] for (uint i = 0; i < OWN; i++) top = larger(top, own[i]);
  top = largest_of(top);
  [[unroll]] for (uint i = 0; i < OWN; i++) sum += exp_below(own[i] - top);
  sum = total_of(sum);
  if (lane == 0) parts[first + part] = vec2(top, sum);
#endif
}
