// Where the partial sums of a matmul with split K are: [splits][rows][SPLIT_WIDTH]. SPLIT_WIDTH is the number of
// columns of the dispatch.
layout(constant_id = VKF_C_SPLIT_K) const uint SPLIT_K = 16;
layout(constant_id = VKF_C_SPLIT_WIDTH) const uint SPLIT_WIDTH = 1;

uint split_index(uint split, uint row, uint column) { return (split * dim[p.rows] + row) * SPLIT_WIDTH + column; }
