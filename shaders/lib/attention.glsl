// What the attention kernels share: operands, which keys a query sees, and the scaled score of a pair.
// Operands: q (rows), k, v [slot][head][capacity][width], mask [slot][stride], score bias, ancestry, out, spans.
layout(BINDING(0)) readonly buffer Q { float q_data[]; };
#ifndef KEYS_AND_VALUES_ELSEWHERE
#include "lib/format.glsl"
layout(BINDING(1)) readonly buffer K { WORD k_data[]; };
layout(BINDING(2)) readonly buffer V { WORD v_data[]; };
// Rows of whole words.
#define ELEMENT(buffer, o, row, width, d)                                                              \
  unpack(buffer[at[o].x + (row) * (((width) + PER_WORD - 1) / PER_WORD) + (d) / PER_WORD], (d) % PER_WORD)
#endif
layout(BINDING(3)) readonly buffer Mask { int mask[]; };
layout(BINDING(4)) readonly buffer ScoreBias { float score_bias[]; };
layout(BINDING(5)) readonly buffer Ancestry { uint ancestry[]; };
layout(constant_id = VKF_C_HEADS) const uint HEADS = 1;
layout(constant_id = VKF_C_KV_HEADS) const uint KV_HEADS = 1;
layout(constant_id = VKF_C_KEY_WIDTH) const uint KEY_WIDTH = 64;
layout(constant_id = VKF_C_VALUE_WIDTH) const uint VALUE_WIDTH = 64;
layout(constant_id = VKF_C_HAS_MASK) const uint HAS_MASK = 0;
layout(constant_id = VKF_C_HAS_SCORE_BIAS) const uint HAS_SCORE_BIAS = 0;
layout(constant_id = VKF_C_HAS_ANCESTRY) const uint HAS_ANCESTRY = 0;
layout(constant_id = VKF_C_CAUSAL) const uint CAUSAL = 0;
layout(constant_id = VKF_C_IS_PACKED) const uint IS_PACKED = 0;
layout(constant_id = VKF_C_BIAS_BY_DISTANCE) const uint BIAS_BY_DISTANCE = 0;
layout(constant_id = VKF_C_SOFTCAP) const uint SOFTCAP = 0; // bits of a float

#define UNSEEN uintBitsToFloat(0xff800000u)
// A key with a score of minus infinity is no key.
bool is_key(float score) { return floatBitsToUint(score) != 0xff800000u; }

const float LOWEST = -3.402823466e38; // where a running maximum starts: finite, so that no difference is NaN

#include "lib/spans.glsl"
#define SPANS 7

// The place of this invocation: query t of sequence seq in head. Kernels skip a t that is no query of the span.
struct Place {
  uint seq, head, t;
  Span span;
};

Place place_in(uint seq, uint head, uint t) {
  const uint T = dim[p.queries];
  Span span = Span(seq * T, T, dim[p.past], dim[p.keys], seq / dim[p.shared_by], 0);
  if (IS_PACKED != 0) span = span_of(SPANS, seq);
  return Place(seq, head, t, span);
}

Place place_of(uint t) { return place_in(gl_WorkGroupID.z, gl_WorkGroupID.y, t); }

// For kernels with a lane for each query. CPU drivers give each thread a run of neighbouring workgroups. Heads are last
// in the grid, so that every thread gets a part of each sequence: all heads have the same work.
Place lane_place(uint t) { return place_in(gl_WorkGroupID.y, gl_WorkGroupID.z, t); }

// For kernels with a workgroup for each query. Queries beyond the grid's limit in x are in y, behind the heads.
Place query_place() {
  Place me = place_of(gl_WorkGroupID.y / HEADS * gl_NumWorkGroups.x + gl_WorkGroupID.x);
  me.head = gl_WorkGroupID.y % HEADS;
  return me;
}

// The row of q and of the result.
uint row_of(Place a) { return a.span.row + a.t; }

const uint GROUP = HEADS / KV_HEADS; // heads that share a head of keys and values

// For kernels whose gl_WorkGroupID.y is a head of keys and values: returns row r of its queries. The heads of a query
// are neighbouring rows.
Place row_place(uint r) {
  Place me = place_of(r / GROUP);
  me.head = gl_WorkGroupID.y * GROUP + r % GROUP;
  return me;
}

// Returns the end of the keys that queries up to t may see.
uint keys_until(Place a, uint t) { return CAUSAL != 0 ? min(a.span.keys, a.span.past + t + 1) : a.span.keys; }

// Returns where the mask of key s is.
uint mask_at(Place a, uint s) { return at[3].x + a.span.slot * p.mask_stride + a.span.first + s; }

// Returns the first key that the mask has, the same for all queries of a sequence; span.keys if it has none. The first
// block of keys begins there, so pads before a sentence do not change which of its keys make a block.
uint first_key(Place a) {
  uint first = 0;
  if (HAS_MASK != 0) {
    const uint row = mask_at(a, 0), keys = a.span.keys;
    if (keys > 0 && mask[row] == 0) first = keys;
    for (uint s0 = 0; s0 < keys && first == keys; s0 += VKF_KEY_BLOCK) {
      [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
        const uint s = min(s0 + j, keys - 1);
        if (mask[row + s] != 0) first = min(first, s);
      }
    }
  }
  return first;
}

// Returns where the first block of keys begins that the queries from t on may see.
uint keys_from(Place a, uint t) {
  const uint seen = a.span.past + t + 1; // query t sees no key behind these
  const uint gone = CAUSAL != 0 && p.window != 0 && seen > p.window ? seen - p.window : 0;
  const uint first = first_key(a);
  return gone > first ? first + (gone - first) / VKF_KEY_BLOCK * VKF_KEY_BLOCK : first;
}

bool sees(Place a, uint s) {
  bool seen = s < a.span.keys;
  if (CAUSAL != 0) seen = seen && s <= a.span.past + a.t;
  if (CAUSAL != 0) seen = seen && (p.window == 0 || s + p.window > a.span.past + a.t);
  if (HAS_MASK != 0) seen = seen && mask[mask_at(a, s)] != 0;
  return seen;
}

// Returns the row of k and v that holds key s. Its first element is at this number times the width.
uint key_row(Place a, uint s) {
  const uint slot = HAS_ANCESTRY != 0 ? ancestry[at[5].x + a.seq * p.ancestry_stride + s] : a.span.slot;
  return (slot * KV_HEADS + a.head / GROUP) * p.key_capacity + a.span.first + s;
}

// Returns where the additive bias of key s is.
uint bias_at(Place a, uint s) {
  const uint plane = HAS_SCORE_BIAS == 2 ? a.head : 0;
  uint i = (plane * p.bias_queries + a.t) * p.bias_keys + s;
  if (BIAS_BY_DISTANCE != 0) {
    const int before = int(p.bias_queries), after = int(p.bias_keys) - before - 1;
    i = plane * p.bias_keys + uint(clamp(int(s) - int(a.span.past + a.t), -before, after) + before);
  }
  return at[4].x + i;
}

// Adds the products of four columns of a query and a key to `sum`, one after the other.
float products(vec4 a, vec4 b, float sum) {
  return mad(a.w, b.w, mad(a.z, b.z, mad(a.y, b.y, mad(a.x, b.x, sum))));
}

// Makes a score of the sum of products: scales it, caps it and adds the bias.
float scaled(Place a, uint s, float sum) {
  float x = sum, factor = flushed(p.scale);
  if (SOFTCAP != 0) {
    x = tanh_f32(quotient(mul(x, factor), uintBitsToFloat(SOFTCAP)));
    factor = uintBitsToFloat(SOFTCAP);
  }
  float score = mul(x, factor);
  if (HAS_SCORE_BIAS != 0) score = mad(x, factor, score_bias[bias_at(a, s)]);
  return score;
}
