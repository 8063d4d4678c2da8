/* launch: computes from a variant's row what a dispatch needs (constants, shared bytes, grid) and how it rounds. */
#include <string.h>

#include "kern/family.h"
#include "shared/constants.h"
#include "shared/reproducible.h"
#include "shared/step.h"

/* The numbers that shaders and host share must be the same. */
_Static_assert(VKF_STEP_DIMS == VKF_DIM_COUNT, "shared/step.h and vkf_dim");
_Static_assert(VKF_W_ROWS == (int)VKF_LAYOUT_W_ROWS && VKF_W_LANE == (int)VKF_LAYOUT_W_LANE &&
                   VKF_W_COLUMNS == (int)VKF_LAYOUT_W_COLUMNS,
               "shared/constants.h and vkf_weight_layout");
_Static_assert(VKF_A_NONE == (int)VKF_ACT_NONE && VKF_A_RELU == (int)VKF_ACT_RELU && VKF_A_GELU == (int)VKF_ACT_GELU &&
                   VKF_A_GELU_TANH == (int)VKF_ACT_GELU_TANH && VKF_A_SWISH == (int)VKF_ACT_SWISH &&
                   VKF_A_TANH == (int)VKF_ACT_TANH && VKF_A_SIGMOID == (int)VKF_ACT_SIGMOID &&
                   VKF_A_QUICK_GELU == (int)VKF_ACT_QUICK_GELU && VKF_A_RELU2 == (int)VKF_ACT_RELU2,
               "shared/constants.h and vkf_activation");
_Static_assert(VKF_LOGIT_EDIT_KIND_SET == (int)VKF_LOGIT_EDIT_SET &&
                   VKF_LOGIT_EDIT_KIND_ADD == (int)VKF_LOGIT_EDIT_ADD &&
                   VKF_LOGIT_EDIT_KIND_PENALTY == (int)VKF_LOGIT_EDIT_PENALTY &&
                   VKF_LOGIT_EDIT_KIND_FILL == (int)VKF_LOGIT_EDIT_FILL &&
                   VKF_LOGIT_EDIT_KIND_GROW == (int)VKF_LOGIT_EDIT_GROW,
               "shared/constants.h and vkf_logit_edit_kind");
_Static_assert(VKF_C_TN == VKF_C_BM + 4, "vkf_tile.constants and shared/constants.h");
_Static_assert(VKF_C_COMMON <= VKF_MAX_CONSTANTS, "too many constants");

uint32_t vkf_kern_constants(const vkf_variant *v, const vkf_problem *problem, uint32_t c[VKF_MAX_CONSTANTS]) {
  c[VKF_C_WORKGROUP] = vkf_kern_workgroup(v);
  c[VKF_C_SUBGROUP_SIZE] = v->subgroup;
  memcpy(&c[VKF_C_BM], v->tile.constants, sizeof v->tile.constants);
  c[VKF_C_W_LAYOUT] = problem->packing.layout;
  c[VKF_C_W_COLUMNS] = problem->packing.columns;
  c[VKF_C_W_K_ALIGN] = problem->packing.k_align;
  c[VKF_C_HALVES_BY_HAND] = problem->halves_by_hand;
  return VKF_C_COMMON;
}

uint32_t vkf_kern_workgroup(const vkf_variant *v) {
  if (v->family->workgroup) return v->family->workgroup(v);
  return v->workgroup ? v->workgroup : v->subgroup;
}

uint32_t vkf_kern_shared_bytes(const vkf_variant *v) {
  return v->family->shared_bytes ? v->family->shared_bytes(v) : 0;
}

uint32_t vkf_kern_registers(const vkf_variant *v, const vkf_problem *problem) {
  return v->family->registers ? v->family->registers(v, problem) : 0;
}

uint32_t vkf_kern_split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  return v->family->split ? v->family->split(v, p, caps) : 0;
}

bool vkf_kern_rounds_x(const vkf_variant *v, const vkf_problem *p) {
  return v->family->round_x || (p->op == VKF_OP_MATMUL && vkf_format_get(p->packing.format)->q8);
}

uint32_t vkf_kern_stages(const vkf_variant *v, const vkf_problem *p) {
  return vkf_kern_rounds_x(v, p) || v->combine ? 2 : 1;
}

static uint64_t blocks_of_x(const vkf_problem *p) {
  return (uint64_t)p->matmul.m * VKF_CEIL_DIV(p->matmul.k, VKF_Q8_BLOCK);
}

uint64_t vkf_kern_scratch_bytes(const vkf_variant *v, const vkf_problem *p) {
  if (vkf_kern_rounds_x(v, p))
    return v->family->round_x ? blocks_of_x(p) * v->family->rounded_block_bytes
                              : (uint64_t)p->matmul.m * p->matmul.k * 4;
  return v->family->scratch_bytes ? v->family->scratch_bytes(v, p) : 0;
}

uint64_t vkf_kern_loop_turns(const vkf_variant *v, uint32_t stage, const vkf_problem *p) {
  if (vkf_kern_rounds_x(v, p)) return stage ? v->family->loop_turns(v, p) : 2 * vkf_turns_of(VKF_Q8_BLOCK, 0);
  return stage ? v->family->combine_turns(p) : v->family->loop_turns(v, p);
}

void vkf_kern_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t grid[3]) {
  uint32_t g[3] = {p->rows.rows, 1, 1};
  const bool rounds_x = vkf_kern_rounds_x(v, p);
  if (rounds_x && !stage)
    g[0] = (uint32_t)VKF_MIN(VKF_CEIL_DIV(blocks_of_x(p), vkf_kern_workgroup(v)), UINT32_MAX);
  else if (v->family->grid)
    v->family->grid(v, stage - rounds_x, p, g);
  if (!g[0] || !g[1] || !g[2]) memset(g, 0, sizeof g);
  memcpy(grid, g, sizeof g);
}

double vkf_kern_workgroups(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, vkf_problem *own) {
  uint32_t grid[3];
  *own = *p;
  own->split = vkf_kern_split(v, p, caps);
  vkf_kern_grid(v, vkf_kern_rounds_x(v, p), own, grid);
  return (double)grid[0] * grid[1] * grid[2];
}

void vkf_kern_rounding(const vkf_variant *v, const vkf_problem *problem, vkf_rounding *out) {
  /* float32 accumulators; functions as accurate as Vulkan promises (Vulkan 1.3, appendix "Precision and operation of
   * SPIR-V instructions"). */
  *out = (vkf_rounding){.u = 0x1p-24,
                        .n_partial = 1,
                        .scaled_rows = vkf_format_get(problem->packing.format)->block == VKF_WHOLE_ROW,
                        .key_block = VKF_KEY_BLOCK,
                        .exp_ulp_base = 3,
                        .exp_ulp_slope = 2,
                        .log_abs = 0x1p-21,
                        .log_ulp = 3,
                        .div_ulp = 2.5,
                        .rsqrt_ulp = 2,
                        .tiny = 0x1p-126};
  if (v->family->rounding) v->family->rounding(v, problem, out);
  if (!problem->reproducible) return;
  out->exp_ulp_base = VKF_REPRODUCIBLE_EXP_ULP; /* shared/reproducible.h */
  out->exp_ulp_slope = 0;
  out->log_abs = 0x1p-24;
  out->log_ulp = VKF_REPRODUCIBLE_LOG_ULP;
  out->div_ulp = 0.5;
  out->rsqrt_ulp = 1.5; /* of a root and a quotient */
  out->tiny = 0x1p-100;
}

/* Cores (units with shared memory of their own) assumed for a device that does not report them. */
enum { CORES_OF_CARD = 48, CORES_OF_OTHER = 8 };

uint32_t vkf_kern_cores(const vkf_caps *caps) {
  return caps->n_cores ? caps->n_cores : caps->kind == VKF_DEVICE_DISCRETE ? CORES_OF_CARD : CORES_OF_OTHER;
}
