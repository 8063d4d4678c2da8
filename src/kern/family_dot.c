/* dot: a weight in q8 with x in whole numbers, which a first dispatch makes (shaders/quantise.comp, matmul_dot.comp).
 * The only family that reads q8: a column a lane, weights packed in any way. */
#include <stdio.h>

#include "kern/gemm.h"

static const char *fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  (void)v;
  (void)caps;
  if (!vkf_format_get(p->packing.format)->q8) VKF_KERN_REFUSE("multiplies whole numbers: reads weights in q8 alone");
  if (p->reproducible) VKF_KERN_REFUSE("the reproducible mode defines no order of products with scales");
  return NULL;
}

static uint32_t workgroup(const vkf_variant *v) {
  return v->tile.gemm.bn;
}

static uint32_t blocks_of(const vkf_problem *p) {
  return VKF_CEIL_DIV(p->matmul.k, VKF_Q8_BLOCK);
}

/* First a block an invocation, then the tiles of the result. */
static void grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  const uint64_t blocks = (uint64_t)p->matmul.m * blocks_of(p);
  g[0] = stage ? VKF_CEIL_DIV(p->matmul.m, v->tile.gemm.bm)
               : (uint32_t)VKF_MIN(VKF_CEIL_DIV(blocks, workgroup(v)), UINT32_MAX);
  g[1] = stage ? VKF_CEIL_DIV(p->matmul.n, v->tile.gemm.bn) : 1;
}

/* shaders/lib/q8.glsl */
static uint64_t scratch_bytes(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return (uint64_t)p->matmul.m * (VKF_ROUND_UP(p->matmul.k, 8) + blocks_of(p)) * 4;
}

static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  (void)p;
  return 6 * v->tile.gemm.tm + 8;
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  (void)p;
  return 2 * vkf_turns_of(VKF_Q8_BLOCK, 0);
}

/* Eight k a turn. */
static uint64_t multiply_turns(const vkf_problem *p) {
  return vkf_turns_of(blocks_of(p), vkf_turns_of(VKF_Q8_BLOCK / 8, 0));
}

/* Blocks ascending in one accumulator; the sums of blocks are exact. */
const vkf_family vkf_family_dot = {.name = "dot",
                                   .device = VKF_FOR_ANY,
                                   .place = 0,
                                   .reason = "q8: activations rounded to whole numbers first",
                                   .fit = fit,
                                   .workgroup = workgroup,
                                   .registers = registers,
                                   .grid = grid,
                                   .scratch_bytes = scratch_bytes,
                                   .loop_turns = loop_turns,
                                   .combine_turns = multiply_turns,
                                   .effort = vkf_kern_gemm_cpu_effort};
