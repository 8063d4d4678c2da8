/* vector: few rows; a subgroup computes tm x tn of the result, its lanes along K (shaders/matmul_vector.comp). */
#include "kern/gemm.h"

/* Multiply-adds in the time of loading a weight from memory, if few rows share it. */
#define ROWS_A_WEIGHT 8.0

/* bn / tn groups of columns, and for each of them bk / (4 subgroup) subgroups that share K. */
static uint32_t workgroup(const vkf_variant *v) {
  return v->tile.gemm.bn / v->tile.gemm.tn * (v->tile.gemm.bk / 4);
}

/* A sum for each lane of the subgroups that share K, four products at a time. */
static void rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)p;
  out->n_partial = v->tile.gemm.bk / 4;
  out->together = 4;
}

/* One sum per subgroup. */
static uint32_t shared_bytes(const vkf_variant *v) {
  return vkf_kern_workgroup(v) / v->subgroup * v->tile.gemm.tm * v->tile.gemm.tn * 4;
}

/* Sums, and in each turn eight vectors of w and one of x. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  (void)p;
  return v->tile.gemm.tm * v->tile.gemm.tn + 8 * 4 + 4;
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  vkf_problem own;
  return vkf_kern_gemm_turns(v, p, caps, &own) * v->tile.gemm.bn * (p->matmul.k + VKF_GEMM_START) *
         (1 + v->tile.gemm.bm / ROWS_A_WEIGHT);
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t steps = 8 / v->tile.gemm.tn;
  return vkf_turns_by(p->matmul.k, (uint64_t)steps * v->tile.gemm.bk) + vkf_turns_of(steps, 0);
}

const vkf_family vkf_family_vector = {.name = "vector",
                                      .device = VKF_FOR_GPU_FEW_ROWS,
                                      .place = 2,
                                      .reason = "a GPU, few rows: lanes along K, weights read once",
                                      .fit = vkf_kern_gemm_fit,
                                      .workgroup = workgroup,
                                      .shared_bytes = shared_bytes,
                                      .registers = registers,
                                      .grid = vkf_kern_gemm_grid,
                                      .loop_turns = loop_turns,
                                      .rounding = rounding,
                                      .effort = effort};
