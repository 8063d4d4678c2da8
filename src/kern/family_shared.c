/* shared, split: tiles of x and w in shared memory (shaders/matmul_shared.comp). split splits K for grids that would
 * leave cores idle; a second dispatch adds up the parts. They compete by their effort. */
#include "kern/gemm.h"

static uint32_t shared_bytes(const vkf_variant *v) {
  return v->tile.gemm.slices * (v->tile.gemm.bm + v->tile.gemm.bn) * (v->tile.gemm.bk + 4) * 4;
}

/* Sums, a column of x, a vector of w, and a share of the next slices. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t vectors = v->tile.gemm.bk / 4, x = VKF_CEIL_DIV(v->tile.gemm.bm * vectors, vkf_kern_gemm_workgroup(v)),
                 w = VKF_CEIL_DIV(v->tile.gemm.bn * vectors, vkf_kern_gemm_workgroup(v));
  return v->tile.gemm.tm * v->tile.gemm.tn + 4 * v->tile.gemm.tm + 4 + 4 * x +
         w * vkf_format_get(p->packing.format)->bits / 8;
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  return vkf_kern_gemm_gpu_effort(v, p, caps, 1, 0, 1);
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  return vkf_turns_of(VKF_CEIL_DIV(vkf_kern_gemm_depth(p), v->tile.gemm.bk), vkf_turns_of(v->tile.gemm.bk / 4, 0));
}

/* Fields that both have. */
#define SHARED                                                                                                     \
  .device = VKF_FOR_GPU, .place = 4, .reason = "a GPU: tiles in shared memory, K split where they fill it better", \
  .fit = vkf_kern_gemm_fit, .workgroup = vkf_kern_gemm_workgroup, .shared_bytes = shared_bytes,                    \
  .registers = registers, .grid = vkf_kern_gemm_grid, .loop_turns = loop_turns, .effort = effort

const vkf_family vkf_family_shared = {.name = "shared", SHARED, .tile = VKF_TILE_GEMM, .max_tile = VKF_SHARED_MAX_TILE};

const vkf_family vkf_family_split = {.name = "split",
                                     SHARED,
                                     .split = vkf_kern_gemm_split,
                                     .scratch_bytes = vkf_kern_gemm_scratch_bytes,
                                     .combine_turns = vkf_kern_gemm_combine_turns,
                                     .rounding = vkf_kern_gemm_split_rounding};
