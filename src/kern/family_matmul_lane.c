/* lane: a subgroup computes tm rows, a lane tn columns; lanes share what they load (shaders/matmul_lane.comp).
 */
#include "kern/gemm.h"

/* Turns at the end of a row, or of four of its columns: two loops of four, one of which is skipped. */
#define FOUR_COLUMNS 10

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  return VKF_CEIL_DIV(p->matmul.k, 4) + vkf_turns_of(v->tile.gemm.tm, FOUR_COLUMNS);
}

const vkf_family vkf_family_matmul_lane = {.name = "lane",
                                           .device = VKF_FOR_CPU,
                                           .place = 1,
                                           .reason = "a software driver: loads by lane, handed on in the subgroup",
                                           .fit = vkf_kern_gemm_fit,
                                           .grid = vkf_kern_gemm_grid,
                                           .loop_turns = loop_turns,
                                           .effort = vkf_kern_gemm_cpu_effort,
                                           .tile = VKF_TILE_ROWS,
                                           .max_tile = 16,
                                           .n_texels = 4 /* x, w, bias, residual */,
                                           .probed = 2};
