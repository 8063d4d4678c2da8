/* Dispatches of gate, patches and pool. */
#include "vkop/op_common.h"

VKF_PUSH_FITS(vkf_push_gate);
VKF_PUSH_FITS(vkf_push_patches);
VKF_PUSH_FITS(vkf_push_pool);

/* ---- gate -------------------------------------------------------------------------------------------------------- */

void vkf_vkop_problem_gate(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out) {
  (void)plan;
  *out = (vkf_problem){.rows = {dims->v[node->params.gate.rows], node->params.gate.width}};
}

void vkf_vkop_describe_gate(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_gate_params *p = &view->node->params.gate;
  const uint32_t x = view->node->in[VKF_GATE_X];
  const struct vkf_push_gate push = {p->rows, p->width, vkf_vkop_cap(view->plan, x, 1), p->gate_column, p->up_column};
  vkf_vkop_dispatch_begin(view, out);
  vkf_vkop_dispatch_read(out, x);
  vkf_vkop_dispatch_write(out, view->node->out[0]);
  out->constants[VKF_C_ACTIVATION] = p->activation;
  out->n_constants = VKF_C_ACTIVATION + 1;
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- patches ----------------------------------------------------------------------------------------------------- */

void vkf_vkop_problem_patches(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out) {
  const vkf_patches_params *p = &node->params.patches;
  (void)plan;
  *out = (vkf_problem){.rows = {dims->v[VKF_DIM_BS], p->channels * p->patch_height * p->patch_width}};
}

void vkf_vkop_describe_patches(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_patches_params *p = &view->node->params.patches;
  const struct vkf_push_patches push = {
      .rows = VKF_DIM_BS,
      .tokens = VKF_DIM_S,
      .channels = p->channels,
      .height = p->height,
      .width = p->width,
      .patch_height = p->patch_height,
      .patch_width = p->patch_width,
      .leading = p->leading,
  };
  vkf_vkop_dispatch_begin(view, out);
  vkf_vkop_dispatch_read(out, view->node->in[VKF_PATCHES_X]);
  vkf_vkop_dispatch_write(out, view->node->out[0]);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- pool -------------------------------------------------------------------------------------------------------- */

void vkf_vkop_problem_pool(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out) {
  (void)plan;
  const vkf_pool_params *p = &node->params.pool;
  *out = (vkf_problem){.pool = {dims->v[p->seqs], p->width, dims->v[p->tokens]}};
}

void vkf_vkop_describe_pool(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_pool_params *p = &view->node->params.pool;
  const uint32_t *in = view->node->in;
  const struct vkf_push_pool push = {p->seqs, p->tokens, p->width, vkf_vkop_cap(view->plan, in[VKF_POOL_MASK], 1)};
  vkf_vkop_dispatch_begin(view, out);
  vkf_vkop_dispatch_read(out, in[VKF_POOL_X]);
  vkf_vkop_dispatch_read(out, in[VKF_POOL_MASK]);
  vkf_vkop_dispatch_write(out, view->node->out[0]);
  out->constants[VKF_C_POOL_HAS_MASK] = vkf_vkop_has(in[VKF_POOL_MASK]);
  out->constants[VKF_C_POOL_IS_MAX] = p->kind == VKF_POOL_MAX;
  out->n_constants = VKF_C_POOL_IS_MAX + 1;
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}
