// The columns of an invocation whose tile is in shared memory: TN of them, ACROSS apart, so that neighbours read
// neighbouring rows of shared memory. If columns are gated, it has whole pairs, so TN is even.

// Returns which column of w, counted from the tile's first, is column c of the tile in shared memory.
uint tile_column(uint c) {
  const uint tx = c % ACROSS, j = c / ACROSS;
  return IS_GATED != 0 ? (j / 2 * ACROSS + tx) * 2 + j % 2 : c;
}

// Finishes column j of invocation tx. `next` is the sum of its column j + 1.
void finish_column(uint row, uint column0, uint tx, uint j, float sum, float next, uint M) {
  const uint column = column0 + tile_column(j * ACROSS + tx);
  if (row >= M || column >= p.n) return;
  if (IS_GATED == 0) finish(row, column, sum);
#ifndef SPLIT
  if (IS_GATED != 0 && j % 2 == 0) finish_gated(row, column, vec2(sum, next));
#endif
}
