/* dot: multiplies weights in q8 by integer dot products; blocks of x and w are words in shared memory
 * (shaders/matmul_dot.comp). */
#include "kern/gemm.h"

/* Products that one instruction adds up. */
#define AT_ONCE 4

static const char *fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  if (!vkf_format_get(p->packing.format)->q8)
    VKF_KERN_REFUSE("reads weights in q8, these are %s", vkf_format_get(p->packing.format)->name);
  return vkf_kern_gemm_fit(v, p, caps, why, size);
}

/* The words of a block and one of padding for each row; the scales of x. */
static uint32_t shared_bytes(const vkf_variant *v) {
  return ((v->tile.gemm.bm + v->tile.gemm.bn) * (VKF_Q8_BLOCK / 4 + 1) + v->tile.gemm.bm) * 4;
}

/* Sums in float and in int, a column of x, a word of w; a share of the next block with a scale. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t words = (v->tile.gemm.bm + v->tile.gemm.bn) * (VKF_Q8_BLOCK / 4);
  (void)p;
  return 2 * v->tile.gemm.tm * v->tile.gemm.tn + v->tile.gemm.tm + 1 + VKF_CEIL_DIV(words, vkf_kern_gemm_workgroup(v)) +
         1;
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return vkf_turns_by(p->matmul.k, VKF_Q8_BLOCK);
}

/* Sums of a block are exact. */
static void rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)v, (void)p;
  out->at_once = VKF_Q8_BLOCK;
  out->exact_steps = true;
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  return caps->integer_dot_fast ? vkf_kern_gemm_gpu_effort(v, p, caps, 1, 0, 1) / AT_ONCE : VKF_NO_EFFORT;
}

const vkf_family vkf_family_dot = {.name = "dot",
                                   .device = VKF_FOR_GPU,
                                   .place = 4, /* as the other tiles in shared memory */
                                   .reason = "a GPU: integer dot products of tiles in shared memory",
                                   .fit = fit,
                                   .workgroup = vkf_kern_gemm_workgroup,
                                   .shared_bytes = shared_bytes,
                                   .registers = registers,
                                   .grid = vkf_kern_gemm_grid,
                                   .loop_turns = loop_turns,
                                   .rounding = rounding,
                                   .effort = effort,
                                   .round_x = "quantise_words",
                                   .rounded_block_bytes = VKF_Q8_BLOCK + 4};
