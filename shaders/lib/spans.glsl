// Where a sequence has its rows and its keys: its span in a packed batch. Spans are behind the dims in the step buffer;
// an operand without a binding of its own says where.
struct Span {
  uint row, queries, past, keys, slot, first; // as VKF_SPAN_*
};

Span span_of(uint operand, uint seq) {
  const uint i = at[operand].x + seq * VKF_SPAN_FIELDS;
  return Span(dim[i + VKF_SPAN_ROW], dim[i + VKF_SPAN_QUERIES], dim[i + VKF_SPAN_PAST], dim[i + VKF_SPAN_KEYS],
              dim[i + VKF_SPAN_SLOT], dim[i + VKF_SPAN_FIRST]);
}
