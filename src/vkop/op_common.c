/* Builds dispatches operand by operand, for the descriptions of all ops. */
#include "vkop/op_common.h"

void vkf_vkop_dispatch_begin(const vkf_node_view *view, vkf_dispatch *out) {
  memset(out, 0, sizeof *out);
  out->n_constants = vkf_kern_constants(view->variant, view->problem, out->constants);
}

void vkf_vkop_dispatch_read(vkf_dispatch *out, uint32_t slot) {
  out->operands[out->n_operands++] = (vkf_operand){.slot = slot, .access = VKF_ACCESS_STORAGE};
}

void vkf_vkop_dispatch_begin_all(const vkf_node_view *view, vkf_dispatch *out, uint32_t n_in) {
  vkf_vkop_dispatch_begin(view, out);
  for (uint32_t i = 0; i < n_in; i++) vkf_vkop_dispatch_read(out, view->node->in[i]);
  vkf_vkop_dispatch_write(out, view->node->out[0]);
}

void vkf_vkop_dispatch_spans(vkf_dispatch *out, uint32_t slot) {
  if (slot == VKF_NO_SLOT) return;
  vkf_vkop_dispatch_read(out, slot);
  out->operands[out->n_operands - 1].access = VKF_ACCESS_STEP;
  out->last_is_unbound = true;
}

void vkf_vkop_dispatch_write(vkf_dispatch *out, uint32_t slot) {
  out->operands[out->n_operands++] = (vkf_operand){.slot = slot, .write = true, .access = VKF_ACCESS_STORAGE};
}

void vkf_vkop_dispatch_scales(const vkf_node_view *view, vkf_dispatch *out, uint32_t slot) {
  if (!vkf_format_get(view->problem->packing.format)->block) return;
  vkf_vkop_dispatch_read(out, slot);
  out->operands[out->n_operands - 1].scales = true;
  out->operands[out->n_operands - 1].shard = true;
}

void vkf_vkop_dispatch_params(vkf_dispatch *out, const void *params, size_t bytes) {
  memcpy(out->params, params, bytes);
  out->params_bytes = (uint32_t)bytes;
}
