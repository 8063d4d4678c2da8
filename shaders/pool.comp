// Mean or maximum over the rows of a sequence whose mask is not zero; tokens ascending, one accumulator a column; a
// workgroup a sequence. Operands: x, mask, out. A sequence without any row gives zeros; a NaN is larger than every
// number.
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_pool
#define OUT 2
#include "lib/kernel.glsl"
#include "lib/order.glsl"
#include "lib/store.glsl"

layout(BINDING(0)) readonly buffer X { float x[]; };
layout(BINDING(1)) readonly buffer Mask { int mask[]; };
layout(constant_id = VKF_C_POOL_HAS_MASK) const uint HAS_MASK = 0;
layout(constant_id = VKF_C_POOL_IS_MAX) const uint IS_MAX = 0;

void main() {
  const uint seq = gl_WorkGroupID.x, tokens = dim[p.tokens];
  if (seq >= dim[p.seqs]) return;
  for (uint c = gl_LocalInvocationID.x; c < p.width; c += gl_WorkGroupSize.x) {
    float pooled = 0.0;
    uint n = 0;
    for (uint t0 = 0; t0 < tokens; t0 += VKF_TOKENS_AT_ONCE) {
      [[unroll]] for (uint i = 0; i < VKF_TOKENS_AT_ONCE; i++) {
        const uint t = t0 + i;
        bool seen = t < tokens;
        if (HAS_MASK != 0 && seen) seen = mask[at[1].x + seq * p.mask_stride + t] != 0;
        if (seen) {
          const float value = x[at[0].x + (seq * tokens + t) * p.width + c];
          if (IS_MAX == 0)
            pooled += value;
          else if (n == 0 || key(value) > key(pooled))
            pooled = value;
          n++;
        }
      }
    }
    store(seq, c, p.width, IS_MAX == 0 && n > 0 ? quotient(pooled, float(n)) : pooled);
  }
}
