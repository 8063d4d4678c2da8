// Which tile of a matmul a workgroup has: of which rows (x) and of which columns (y). So many rows of tiles are in one
// patch of workgroups, so that workgroups that run at the same time share rows of x and of w.
const uint TOGETHER = 8;

uvec2 tile_of_patch() {
  const uint index = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, all = TOGETHER * gl_NumWorkGroups.y;
  const uint first = index / all * TOGETHER, high = min(TOGETHER, gl_NumWorkGroups.x - first), within = index % all;
  return uvec2(first + within % high, within / high);
}
