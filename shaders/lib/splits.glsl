// Where the partial results of attention are in the node's scratch memory, which is operand 6 of attention_split.comp
// and operand 0 of attention_combine.comp (SCRATCH). First come VALUE_WIDTH sums of weighted values for each item and
// split; then, for each, the maximum of the scores and the sum of the weights. An item is a head of a query. A split is
// SPLIT keys; the first split begins at the first key of the mask.
#ifndef SCRATCH
#define SCRATCH 6
#endif
#define SPLIT p.out_keys

uint n_splits() { return (dim[p.keys] + SPLIT - 1) / SPLIT; }
uint partial_values(uint item, uint split) { return at[SCRATCH].x + (item * n_splits() + split) * VALUE_WIDTH; }
uint partial_top(uint item, uint split) {
  const uint items = dim[p.rows] * HEADS;
  return partial_values(items, 0) + 2 * (item * n_splits() + split);
}
