/* Dispatches of gate and patches. */
#include "vkop/op_common.h"

VKF_PUSH_FITS(vkf_push_gate);
VKF_PUSH_FITS(vkf_push_patches);

/* ---- gate -------------------------------------------------------------------------------------------------------- */

VKF_PROBLEM(gate, vkf_gate_params, .rows = {dims->v[p->rows], p->width})

void vkf_vkop_describe_gate(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_gate_params *p = &view->node->params.gate;
  const uint32_t x = view->node->in[VKF_GATE_X];
  const struct vkf_push_gate push = {p->rows, p->width, vkf_vkop_cap(view->plan, x, 1), p->gate_column, p->up_column};
  vkf_vkop_dispatch_begin_all(view, out, 1);
  out->operands[VKF_GATE_X].access = view->variant->access;
  out->constants[VKF_C_ACTIVATION] = p->activation;
  VKF_CONSTANTS_END(out, VKF_C_ACTIVATION);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- patches ----------------------------------------------------------------------------------------------------- */

VKF_PROBLEM(patches, vkf_patches_params, .rows = {dims->v[VKF_DIM_BS], p->channels * p->patch_height * p->patch_width})

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
  vkf_vkop_dispatch_begin_all(view, out, 1);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}
