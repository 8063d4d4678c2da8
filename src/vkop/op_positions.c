/* Dispatches of rope and relative_bias. */
#include "vkop/op_common.h"

VKF_PUSH_FITS(vkf_push_rope);
VKF_PUSH_FITS(vkf_push_relative_bias);

VKF_PROBLEM(rope, vkf_rope_params, .rows = {dims->v[p->rows], p->width})

void vkf_vkop_describe_rope(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_rope_params *p = &view->node->params.rope;
  const uint32_t *in = view->node->in;
  const struct vkf_push_rope push = {
      .rows = p->rows,
      .width = p->width,
      .x_stride = vkf_vkop_cap(view->plan, in[VKF_ROPE_X], 1),
      .q_column = p->q_column,
      .q_width = p->n_heads * p->head_width,
      .k_column = p->k_column,
      .k_width = p->n_kv_heads * p->head_width,
      .n_positions = p->n_positions,
  };
  vkf_vkop_dispatch_begin_all(view, out, 3);
  out->constants[VKF_C_ROPE_HEAD_WIDTH] = p->head_width;
  out->constants[VKF_C_ROPE_ROTARY] = p->rotary;
  out->constants[VKF_C_ROPE_INTERLEAVED] = p->pairs == VKF_ROPE_INTERLEAVED;
  VKF_CONSTANTS_END(out, VKF_C_ROPE_INTERLEAVED);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

VKF_PROBLEM(relative_bias, vkf_relative_bias_params, .rows = {p->n_heads, p->n_distances})

void vkf_vkop_describe_relative_bias(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_relative_bias_params *p = &view->node->params.relative_bias;
  const struct vkf_push_relative_bias push = {p->n_heads, p->n_distances};
  vkf_vkop_dispatch_begin_all(view, out, 2);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}
