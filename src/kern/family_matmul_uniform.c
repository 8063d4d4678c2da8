/* uniform: x and w by address; a lane owns a column of each of its vectors (shaders/matmul_uniform.comp). */
#include "kern/gemm.h"

/* Doubles the effort of tiles of over 4 rows if x has at most 16, so that a short sentence's encoder uses the pipelines
 * of its decoder: each takes time at every start. */
static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  return (p->matmul.m <= 16 && v->tile.gemm.tm > 4 ? 2 : 1) * vkf_kern_gemm_cpu_effort(v, p, caps);
}

/* Counts the longest possible remainder of K, so that the count never falls when K grows. */
static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  return p->matmul.k / v->tile.gemm.bk + VKF_MIN(p->matmul.k, v->tile.gemm.bk - 1);
}

const vkf_family vkf_family_matmul_uniform = {
    .name = "uniform",
    .device = VKF_FOR_UNIFORM_LOADS,
    .place = 0,
    .reason = "this lavapipe makes vector loads of loads at uniform addresses",
    .fit = vkf_kern_gemm_fit,
    .grid = vkf_kern_gemm_grid,
    .loop_turns = loop_turns,
    .effort = effort,
    .probed = 1};
