// The sum of a row of any width, with the same bits in every kernel of order class ascending. There are
// VKF_ROW_PARTIALS partial sums, the p-th over the columns p, p + VKF_ROW_PARTIALS, ... Then they are added up as a
// tree: p with p + 32, with p + 16, ..., with p + 1.
// BY_LANES: a subgroup of SUBGROUP_SIZE has the partial sums; component c of piece h in lane l is partial sum 4 (h
// SUBGROUP_SIZE + l) + c. Otherwise a workgroup of VKF_ROW_PARTIALS has them, one in each invocation.
#ifdef BY_LANES
const uint PIECES = VKF_ROW_PARTIALS / (4 * SUBGROUP_SIZE);
#define MAX_PIECES 4

float total_of(vec4 parts[MAX_PIECES]) {
  [[unroll]] for (uint n = PIECES / 2; n > 0; n /= 2) {
    [[unroll]] for (uint h = 0; h < n; h++) parts[h] += parts[h + n];
  }
  vec4 sum = parts[0];
  [[unroll]] for (uint n = SUBGROUP_SIZE / 2; n > 0; n /= 2) sum += subgroupShuffleXor(sum, n);
  const vec2 two = sum.xy + sum.zw;
  return two.x + two.y;
}
#else
shared float partial[VKF_ROW_PARTIALS];

float total_of(float part) {
  const uint own = gl_LocalInvocationID.x;
  partial[own] = part;
  for (uint n = VKF_ROW_PARTIALS / 2; n > 0; n /= 2) {
    barrier();
    if (own < n) partial[own] += partial[own + n];
  }
  barrier();
  const float total = partial[0];
  barrier();
  return total;
}
#endif
