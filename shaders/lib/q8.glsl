// Where quantise.comp (WORDS) leaves rows of x: blocks of VKF_Q8_BLOCK 8-bit integers, four a word, then a float32
// scale for each block.
const uint Q8_WORDS = VKF_Q8_BLOCK / 4;
uint q8_block(uint row, uint block, uint blocks) { return (row * blocks + block) * Q8_WORDS; }
uint q8_scale(uint rows, uint row, uint block, uint blocks) { return (rows * Q8_WORDS + row) * blocks + block; }
