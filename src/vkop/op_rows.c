/* Dispatches of the ops that work row by row: embed, norm, gather, log_softmax, logit_edit, top_k. */
#include "vkop/op_common.h"

VKF_PUSH_FITS(vkf_push_embed);
VKF_PUSH_FITS(vkf_push_norm);
VKF_PUSH_FITS(vkf_push_gather);
VKF_PUSH_FITS(vkf_push_rows);
VKF_PUSH_FITS(vkf_push_logit_edit);
VKF_PUSH_FITS(vkf_push_top_k);

/* ---- embed ------------------------------------------------------------------------------------------------------- */

VKF_PROBLEM(embed, vkf_embed_params, .rows = {dims->v[p->rows], p->width})

void vkf_vkop_describe_embed(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_embed_params *p = &view->node->params.embed;
  const uint32_t *in = view->node->in;
  const struct vkf_push_embed push = {p->rows, p->width, view->rows, p->n_positions, p->n_types, p->scale};
  vkf_vkop_dispatch_begin_all(view, out, 6);
  out->operands[VKF_EMBED_TABLE].shard = true;
  out->operands[VKF_EMBED_TABLE].row = view->first;
  vkf_vkop_dispatch_scales(view, out, in[VKF_EMBED_TABLE]);
  out->last_is_unbound = out->operands[out->n_operands - 1].scales;
  out->constants[VKF_C_HAS_TABLE] = p->by_row ? VKF_TABLE_BY_ROW : vkf_vkop_has(in[VKF_EMBED_TABLE]);
  out->constants[VKF_C_HAS_POSITIONS] = vkf_vkop_has(in[VKF_EMBED_POSITION_TABLE]);
  out->constants[VKF_C_HAS_TYPES] = vkf_vkop_has(in[VKF_EMBED_TYPE_TABLE]);
  VKF_CONSTANTS_END(out, VKF_C_HAS_TYPES);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- norm -------------------------------------------------------------------------------------------------------- */

static uint32_t groups_of(const vkf_norm_params *p) {
  return VKF_MAX(p->groups, 1u);
}

static uint32_t whole_width(const vkf_norm_params *p) {
  return groups_of(p) * p->width + p->rest;
}

VKF_PROBLEM(norm, vkf_norm_params, .norm = {dims->v[p->rows] * groups_of(p), p->width, whole_width(p)})

void vkf_vkop_describe_norm(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_norm_params *p = &view->node->params.norm;
  const uint32_t *in = view->node->in;
  const struct vkf_push_norm push = {p->rows, p->width, p->eps, groups_of(p), whole_width(p)};
  vkf_vkop_dispatch_begin_all(view, out, 4);
  for (int i = VKF_NORM_X; i <= VKF_NORM_BIAS; i++)
    if (i != VKF_NORM_RESIDUAL || view->variant->access == VKF_ACCESS_ADDRESS)
      out->operands[i].access = view->variant->access;
  out->constants[VKF_C_IS_RMS] = p->kind == VKF_NORM_RMS;
  out->constants[VKF_C_NORM_HAS_RESIDUAL] = vkf_vkop_has(in[VKF_NORM_RESIDUAL]);
  out->constants[VKF_C_NORM_HAS_WEIGHT] = vkf_vkop_has(in[VKF_NORM_WEIGHT]);
  out->constants[VKF_C_NORM_HAS_BIAS] = vkf_vkop_has(in[VKF_NORM_BIAS]);
  if (view->variant->subgroup && view->variant->workgroup) /* a row in the registers of several subgroups */
    out->constants[VKF_C_NORM_VECTORS] = VKF_CEIL_DIV(p->width, 4 * view->variant->workgroup);
  VKF_CONSTANTS_END(out, VKF_C_NORM_VECTORS);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- gather ------------------------------------------------------------------------------------------------------ */

VKF_PROBLEM(gather, vkf_gather_params, .rows = {dims->v[p->rows], p->width})

void vkf_vkop_describe_gather(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_gather_params *p = &view->node->params.gather;
  const struct vkf_push_gather push = {p->rows, p->x_rows, p->width};
  vkf_vkop_dispatch_begin_all(view, out, 2);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- log_softmax ------------------------------------------------------------------------------------------------- */

VKF_PROBLEM(log_softmax, vkf_log_softmax_params, .rows = {dims->v[p->rows], p->width})

void vkf_vkop_describe_log_softmax(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_log_softmax_params *p = &view->node->params.log_softmax;
  const struct vkf_push_rows push = {p->rows, p->width};
  const bool leaves_partials = view->variant->combine && !view->stage;
  vkf_vkop_dispatch_begin(view, out);
  vkf_vkop_dispatch_read(out, view->node->in[VKF_LOG_SOFTMAX_X]);
  out->operands[VKF_LOG_SOFTMAX_X].access = view->variant->access;
  if (view->stage) vkf_vkop_dispatch_read(out, VKF_SCRATCH_SLOT);
  vkf_vkop_dispatch_write(out, leaves_partials ? VKF_SCRATCH_SLOT : view->node->out[0]);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- logit_edit -------------------------------------------------------------------------------------------------- */

VKF_PROBLEM(logit_edit, vkf_logit_edit_params,
            .logit_edit = {dims->v[p->rows], p->width, p->row_edits ? p->row_edits : p->max_edits})

void vkf_vkop_describe_logit_edit(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_logit_edit_params *p = &view->node->params.logit_edit;
  const struct vkf_push_logit_edit push = {p->rows, p->width, p->max_edits};
  vkf_vkop_dispatch_begin_all(view, out, 3);
  out->constants[VKF_C_LOGIT_EDIT_IN_PLACE] = view->in_place;
  VKF_CONSTANTS_END(out, VKF_C_LOGIT_EDIT_IN_PLACE);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

/* ---- top_k ------------------------------------------------------------------------------------------------------- */

VKF_PROBLEM(top_k, vkf_top_k_params, .top_k = {dims->v[p->rows], p->width, p->k})

void vkf_vkop_describe_top_k(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_top_k_params *p = &view->node->params.top_k;
  const struct vkf_push_top_k push = {p->rows, p->width, p->k};
  const bool leaves_partials = view->variant->combine && !view->stage;
  vkf_vkop_dispatch_begin(view, out);
  vkf_vkop_dispatch_read(out, view->stage ? VKF_SCRATCH_SLOT : view->node->in[VKF_TOP_K_X]);
  out->operands[VKF_TOP_K_X].access = view->variant->access;
  vkf_vkop_dispatch_write(out, leaves_partials ? VKF_SCRATCH_SLOT : view->node->out[VKF_TOP_K_VALUES]);
  if (!leaves_partials) vkf_vkop_dispatch_write(out, view->node->out[VKF_TOP_K_IDS]);
  out->constants[VKF_C_TOP_K_SPLIT] = VKF_MAX(view->problem->split, 1);
  VKF_CONSTANTS_END(out, VKF_C_TOP_K_SPLIT);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}
