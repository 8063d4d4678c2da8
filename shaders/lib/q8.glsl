// Where quantise.comp leaves rows of x for the second stage of its matmul: whole numbers as floats, rows of K rounded
// up to eights, then the scales of all rows, a number a block.
uint q8_blocks() { return (p.k + VKF_Q8_BLOCK - 1) / VKF_Q8_BLOCK; }
uint q8_fours() { return (p.k + 7) / 8 * 2; } // of a row
uint q8_row(uint row) { return row * q8_fours() * 4; }
uint q8_scale(uint rows, uint row, uint block) { return q8_row(rows) + row * q8_blocks() + block; }
