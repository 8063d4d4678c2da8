/* Dispatches of matmul. The variant decides how x and w are read. */
#include "vkop/op_common.h"

VKF_PUSH_FITS(vkf_push_matmul);

VKF_PROBLEM(matmul, vkf_matmul_params, .matmul = {.m = dims->v[p->rows], .n = p->n, .k = p->k, .is_gated = p->is_gated})

/* Adds the operands of the stage that rounds x. */
static void rounding_operands(const vkf_node_view *view, vkf_dispatch *out) {
  vkf_vkop_dispatch_read(out, view->node->in[VKF_MATMUL_X]);
  vkf_vkop_dispatch_write(out, VKF_SCRATCH_SLOT);
  if (view->variant->matrix.m) vkf_vkop_dispatch_write(out, VKF_FLAG_SLOT);
}

/* Adds those of the stage that multiplies (reads_w), or of the one that adds up the splits of K. */
static void matmul_operands(const vkf_node_view *view, bool reads_w, bool leaves_partials, vkf_dispatch *out) {
  const uint32_t *in = view->node->in;
  vkf_vkop_dispatch_read(out, view->stage ? VKF_SCRATCH_SLOT : in[VKF_MATMUL_X]);
  vkf_vkop_dispatch_read(out, reads_w ? in[VKF_MATMUL_W] : VKF_NO_SLOT);
  if (leaves_partials) {
    vkf_vkop_dispatch_write(out, VKF_SCRATCH_SLOT);
  } else {
    vkf_vkop_dispatch_read(out, in[VKF_MATMUL_BIAS]);
    vkf_vkop_dispatch_read(out, in[VKF_MATMUL_RESIDUAL]);
    vkf_vkop_dispatch_write(out, view->node->out[0]);
    for (uint32_t i = VKF_MATMUL_BIAS; i < out->n_operands; i++) out->operands[i].column = view->first;
    if (view->problem->matmul.is_gated) out->operands[out->n_operands - 1].column = view->first / 2;
    out->operands[VKF_MATMUL_BIAS].access = out->operands[VKF_MATMUL_RESIDUAL].access = view->variant->access;
  }
  if (!leaves_partials) vkf_vkop_dispatch_scales(view, out, in[VKF_MATMUL_W]);
  out->operands[VKF_MATMUL_X].access = out->operands[VKF_MATMUL_W].access = view->variant->access;
  out->operands[VKF_MATMUL_W].shard = reads_w;
  out->operands[VKF_MATMUL_W].format = view->problem->packing.format;
  if (view->variant->matrix.m && reads_w) vkf_vkop_dispatch_write(out, VKF_FLAG_SLOT);
}

/* A pipeline is compiled for each set of constants, so what a kernel does not read stays 0. */
static void matmul_constants(const vkf_node_view *view, bool reads_w, bool leaves_partials, vkf_dispatch *out) {
  const vkf_matmul_params *p = &view->node->params.matmul;
  const uint32_t *in = view->node->in;
  if (!leaves_partials) {
    out->constants[VKF_C_ACTIVATION] = p->activation;
    out->constants[VKF_C_HAS_BIAS] = vkf_vkop_has(in[VKF_MATMUL_BIAS]);
    out->constants[VKF_C_HAS_RESIDUAL] = vkf_vkop_has(in[VKF_MATMUL_RESIDUAL]);
    out->constants[VKF_C_IS_GATED] = p->is_gated;
  }
  out->constants[VKF_C_VEC] = p->k % 4 ? 1 : 4; /* rows of x and w begin at whole vectors, whatever their format */
  out->constants[VKF_C_SLICES] = view->variant->tile.gemm.slices;
  out->constants[VKF_C_SPLIT_K] = view->problem->split;
  if (view->variant->combine) out->constants[VKF_C_SPLIT_WIDTH] = view->problem->matmul.n;
  out->constants[VKF_C_OUT_PAIRS] = p->n % 2 == 0 && view->first % 2 == 0;
  VKF_CONSTANTS_END(out, VKF_C_MATRICES_AHEAD);
  if (view->variant->matrix.m && reads_w) {
    out->constants[VKF_C_MATRIX_M] = view->variant->matrix.m;
    out->constants[VKF_C_MATRIX_N] = view->variant->matrix.n;
    out->constants[VKF_C_MATRIX_K] = view->variant->matrix.k;
    out->constants[VKF_C_MATRICES_AHEAD] = view->problem->matrices_ahead;
  }
}

void vkf_vkop_describe_matmul(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_matmul_params *p = &view->node->params.matmul;
  const struct vkf_push_matmul push = {p->rows, p->n, p->k, p->scale == 0 ? 1 : p->scale};
  const bool rounds_x = vkf_kern_rounds_x(view->variant, view->problem), reads_w = view->stage == rounds_x;
  const bool leaves_partials = view->variant->combine && reads_w;
  vkf_vkop_dispatch_begin(view, out);
  if (view->stage < rounds_x) {
    rounding_operands(view, out);
  } else {
    matmul_operands(view, reads_w, leaves_partials, out);
    matmul_constants(view, reads_w, leaves_partials, out);
  }
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}
