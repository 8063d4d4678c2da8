// The second stage of attention_split.comp. A lane adds up the splits of one column of one item, in their order, each
// scaled to the largest maximum. Operands: the partial results, out.
//
// module attention_combine
#version 440
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_attention
#define OUT 1
#define SCRATCH 0
#include "lib/kernel.glsl"
#include "lib/store.glsl"
layout(constant_id = VKF_C_HEADS) const uint HEADS = 1;
layout(constant_id = VKF_C_VALUE_WIDTH) const uint VALUE_WIDTH = 64;
layout(BINDING(SCRATCH)) readonly buffer Partial { float partial[]; };
#include "lib/splits.glsl"

void main() {
  const uint item = gl_GlobalInvocationID.x / VALUE_WIDTH, column = gl_GlobalInvocationID.x % VALUE_WIDTH;
  if (item >= dim[p.rows] * HEADS) return;
  const uint n = n_splits();
  float top = partial[partial_top(item, 0)], total = 0.0, sum = 0.0;
  for (uint i = 1; i < n; i++) top = max(top, partial[partial_top(item, i)]);
  for (uint i = 0; i < n; i++) {
    const uint own = partial_top(item, i);
    const float factor = exp_below(partial[own] - top);
    total = mad(partial[own + 1], factor, total);
    sum = mad(partial[partial_values(item, i) + column], factor, sum);
  }
  store(item / HEADS, item % HEADS * VALUE_WIDTH + column, HEADS * VALUE_WIDTH,
        total == 0.0 ? 0.0 : quotient(sum, total));
}
