// Where append puts a row: at the place of its sequence's span in a packed batch, else in a rectangle of rows.
#include "lib/spans.glsl"
layout(constant_id = VKF_C_APPEND_HEADS) const uint HEADS = 1;
layout(constant_id = VKF_C_APPEND_KEY_WIDTH) const uint KEY_WIDTH = 0;
layout(constant_id = VKF_C_APPEND_VALUE_WIDTH) const uint VALUE_WIDTH = 0;
layout(constant_id = VKF_C_APPEND_IS_PACKED) const uint IS_PACKED = 0;

struct Place {
  uint row, slot, key; // of x; of the caches, and the key there
};

// Finds the place of this workgroup's row. Returns false if it has none, because its sequence is shorter than the
// longest.
bool find_place(out Place place) {
  const uint tokens = dim[p.tokens], seq = gl_WorkGroupID.x / tokens, t = gl_WorkGroupID.x % tokens;
  place = Place(0, 0, 0);
  if (seq >= dim[p.seqs]) return false;
  Span span = Span(seq * tokens, tokens, dim[p.past], 0, seq, 0);
  if (IS_PACKED != 0) span = span_of(SPANS, seq);
  place = Place(span.row + t, span.slot, span.first + span.past + t);
  return t < span.queries;
}
