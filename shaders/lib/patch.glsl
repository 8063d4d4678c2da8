// Which tile of a matmul a workgroup has: its row (x) and column (y) of tiles. A patch of workgroups has TOGETHER rows
// of tiles, so that workgroups that run at the same time share rows of x and of w.
const uint TOGETHER = 8;

uvec2 tile_of_patch() {
  const uint index = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, all = TOGETHER * gl_NumWorkGroups.y;
  const uint first = index / all * TOGETHER, high = min(TOGETHER, gl_NumWorkGroups.x - first), within = index % all;
  return uvec2(first + within % high, within / high);
}
