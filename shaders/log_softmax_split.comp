// As log_softmax.comp, for few long rows: several workgroups share a row, VKF_SOFTMAX_SPLIT columns each.
// PART: leaves the largest x of its columns and the sum of exp(x - largest) in scratch memory.
// COMBINE: adds up the sums of all parts of the row, each scaled to the largest x of all, and stores its columns.
// Operands: x, partial results; of COMBINE also out.
//
// module log_softmax_split: PART, written out
// module log_softmax_combine: COMBINE, written out
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_rows
#define OUT 2
#include "lib/kernel.glsl"
#include "lib/each.glsl"
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
#ifdef COMBINE
const uint AT_ONCE = VKF_SOFTMAX_AT_ONCE;
#else
const uint AT_ONCE = OWN;
#endif
#if VKF_SOFTMAX_SPLIT > 32 * VKF_ROW_PARTIALS || VKF_SOFTMAX_AT_ONCE > 8
#error "EACH_32 takes 32 columns, EACH_8 eight of them"
#endif
float own[AT_ONCE];

// The i-th column of this invocation.
uint column_of(uint i) {
  return gl_WorkGroupID.y * VKF_SOFTMAX_SPLIT + i * VKF_ROW_PARTIALS + gl_LocalInvocationID.x;
}

void load(uint i, uint first, uint row) {
  const uint c = column_of(first + i);
  const float v = x[at[0].x + row * p.width + min(c, p.width - 1)]; // no branch, so that all loads run at once
  own[i] = c < p.width ? v : uintBitsToFloat(0xff800000u); // exp of it is 0
}

#ifdef COMBINE
void finish(uint i, uint first, uint row, float top, float shift) {
  const uint c = column_of(first + i);
  precise float y = own[i] - top;
  if (c < p.width) store(row, c, p.width, y - shift);
}
#endif

// Returns the largest of all invocations' numbers.
float largest_of(float top) {
  largest[gl_LocalInvocationID.x] = top;
  barrier();
  [[unroll]] for (uint i = 0; i < VKF_ROW_PARTIALS; i++) top = larger(top, largest[i]);
  return top;
}

void main() {
  const uint row = gl_WorkGroupID.x, part = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
  const uint n_parts = (p.width + VKF_SOFTMAX_SPLIT - 1) / VKF_SOFTMAX_SPLIT, from = at[1].x / 2 + row * n_parts;
  float top = -3.402823466e38, sum = 0.0; // NaN gets into the sum, since larger() drops it
#ifdef COMBINE
  for (uint i = lane; i < n_parts; i += VKF_ROW_PARTIALS) top = larger(top, parts[from + i].x);
  top = largest_of(top);
  for (uint i = lane; i < n_parts; i += VKF_ROW_PARTIALS)
    sum = mad(parts[from + i].y, exp_below(parts[from + i].x - top), sum);
  precise float shift = log_of(total_of(sum));
  for (uint first = 0; first < OWN; first += AT_ONCE) {
#define LOAD(i) load(i, first, row)
#define FINISH(i) finish(i, first, row, top, shift)
    EACH_8(AT_ONCE, LOAD)
    EACH_8(AT_ONCE, FINISH)
  }
#else
#define LOAD(i) load(i, 0, row)
#define RAISE(i) top = larger(top, own[i])
#define ADD(i) sum += exp_below(own[i] - top)
  EACH_32(OWN, LOAD)
  EACH_32(OWN, RAISE)
  top = largest_of(top);
  EACH_32(OWN, ADD)
  sum = total_of(sum);
  if (lane == 0) parts[from + part] = vec2(top, sum);
#endif
}
