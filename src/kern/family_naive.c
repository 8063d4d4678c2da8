/* naive: an invocation computes an element; reads weights in any packing (shaders/matmul_naive.comp). */
#include "kern/gemm.h"

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return vkf_turns_by(p->matmul.k, VKF_K_AT_ONCE) + vkf_turns_of(VKF_K_AT_ONCE, 0);
}

const vkf_family vkf_family_naive = {.name = "naive",
                                     .device = VKF_FOR_ANY,
                                     .place = 5,
                                     .reason = "nothing faster fits",
                                     .grid = vkf_kern_gemm_grid,
                                     .loop_turns = loop_turns,
                                     .effort = vkf_kern_gemm_cpu_effort};
