/* Dispatches of attention, attention_weights and append: the ops on head-major keys and values. */
#include "vkop/op_common.h"

VKF_PUSH_FITS(vkf_push_attention);
VKF_PUSH_FITS(vkf_push_append);

/* ---- attention, attention_weights -------------------------------------------------------------------------------- */

#define ATTENTION_PROBLEM                       \
  .attention = {.batch = dims->v[p->seqs],      \
                .queries = dims->v[p->queries], \
                .keys = dims->v[p->keys],       \
                .key_width = p->key_width,      \
                .value_width = p->value_width,  \
                .heads = p->n_heads,            \
                .kv_heads = p->n_kv_heads}
VKF_PROBLEM(attention, vkf_attention_params, ATTENTION_PROBLEM)
VKF_PROBLEM(attention_weights, vkf_attention_params, ATTENTION_PROBLEM)

static bool gives_weights(const vkf_node_view *view) {
  return view->node->op == VKF_OP_ATTENTION_WEIGHTS;
}

static void attention_operands(const vkf_node_view *view, vkf_dispatch *out) {
  const uint32_t *in = view->node->in, to = view->node->out[0];
  if (view->stage) {
    vkf_vkop_dispatch_read(out, VKF_SCRATCH_SLOT);
  } else {
    for (int i = VKF_ATTENTION_Q; i <= VKF_ATTENTION_ANCESTRY; i++) vkf_vkop_dispatch_read(out, in[i]);
    for (int i = VKF_ATTENTION_K; i <= VKF_ATTENTION_V; i++) {
      out->operands[i].access = view->variant->access;
      out->operands[i].format = view->problem->packing.format;
    }
  }
  vkf_vkop_dispatch_write(out, view->variant->combine && !view->stage ? VKF_SCRATCH_SLOT : to);
  out->operands[out->n_operands - 1].read = gives_weights(view); /* it holds the scores before the weights */
  if (!view->stage) vkf_vkop_dispatch_spans(out, in[VKF_ATTENTION_SPANS]);
  if (view->variant->matrix.m) {
    if (!vkf_vkop_has(in[VKF_ATTENTION_SPANS])) vkf_vkop_dispatch_read(out, VKF_NO_SLOT);
    vkf_vkop_dispatch_write(out, VKF_FLAG_SLOT);
    out->last_is_unbound = false;
  }
}

static void attention_constants(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_attention_params *p = &view->node->params.attention;
  const uint32_t *in = view->node->in;
  out->constants[VKF_C_HEADS] = p->n_heads;
  out->constants[VKF_C_KV_HEADS] = p->n_kv_heads;
  out->constants[VKF_C_KEY_WIDTH] = p->key_width;
  out->constants[VKF_C_VALUE_WIDTH] = p->value_width;
  out->constants[VKF_C_HAS_MASK] = vkf_vkop_has(in[VKF_ATTENTION_MASK]);
  out->constants[VKF_C_HAS_SCORE_BIAS] = vkf_vkop_has(in[VKF_ATTENTION_BIAS]) ? 1 + p->bias_per_head : 0;
  out->constants[VKF_C_HAS_ANCESTRY] = vkf_vkop_has(in[VKF_ATTENTION_ANCESTRY]);
  out->constants[VKF_C_CAUSAL] = p->causal;
  out->constants[VKF_C_IS_PACKED] = p->packed;
  out->constants[VKF_C_BIAS_BY_DISTANCE] = p->bias_by_distance;
  memcpy(&out->constants[VKF_C_SOFTCAP], &p->softcap, sizeof p->softcap);
  out->constants[VKF_C_ATTENTION_MATRIX_M] = view->variant->matrix.m;
  out->constants[VKF_C_ATTENTION_MATRIX_N] = view->variant->matrix.n;
  out->constants[VKF_C_ATTENTION_MATRIX_K] = view->variant->matrix.k;
  VKF_CONSTANTS_END(out, VKF_C_ATTENTION_MATRIX_K);
}

void vkf_vkop_describe_attention(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_attention_params *p = &view->node->params.attention;
  const vkf_plan *plan = view->plan;
  const uint32_t *in = view->node->in, to = view->node->out[0];
  const bool weights = gives_weights(view);
  const struct vkf_push_attention push = {
      .rows = vkf_op_rows(p->seqs, p->queries),
      .queries = p->queries,
      .keys = p->keys,
      .past = p->past,
      .shared_by = p->shared,
      .q_stride = vkf_vkop_cap(plan, in[VKF_ATTENTION_Q], 1),
      .q_column = p->q_column,
      .key_capacity = vkf_vkop_cap(plan, in[VKF_ATTENTION_K], 2),
      .mask_stride = vkf_vkop_cap(plan, in[VKF_ATTENTION_MASK], 1),
      .ancestry_stride = vkf_vkop_cap(plan, in[VKF_ATTENTION_ANCESTRY], 1),
      .bias_queries = p->bias_by_distance ? p->bias_before : vkf_vkop_cap(plan, in[VKF_ATTENTION_BIAS], 1),
      .bias_keys = vkf_vkop_cap(plan, in[VKF_ATTENTION_BIAS], p->bias_by_distance ? 1 : 2),
      .out_queries = weights ? vkf_vkop_cap(plan, to, 2) : p->seqs,
      .out_keys = weights ? vkf_vkop_cap(plan, to, 3) : view->problem->split,
      .window = p->window,
      .scale = p->scale,
  };
  vkf_vkop_dispatch_begin(view, out);
  attention_operands(view, out);
  attention_constants(view, out);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}

void vkf_vkop_describe_attention_weights(const vkf_node_view *view, vkf_dispatch *out) {
  vkf_vkop_describe_attention(view, out);
}

/* ---- append ------------------------------------------------------------------------------------------------------ */

void vkf_vkop_problem_append(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out) {
  const vkf_append_params *p = &node->params.append;
  const uint32_t numbers =
      p->key_width | p->value_width | p->k_column | p->v_column | vkf_vkop_cap(plan, node->in[VKF_APPEND_X], 1);
  const bool has_halves = p->rotary != 0 && p->rotary == p->key_width && p->pairs != VKF_ROPE_INTERLEAVED &&
                          vkf_vkop_has(node->out[VKF_APPEND_K]);
  *out = (vkf_problem){
      .append = {.rows = dims->v[p->seqs] * dims->v[p->tokens],
                 .width = p->n_heads * (p->key_width + p->value_width) + (p->rotary ? p->n_q_heads * p->key_width : 0),
                 .multiple_of = numbers % 2 ? 1 : 2,
                 .turns = p->rotary != 0,
                 .half_width = has_halves ? p->key_width / 2 : 0,
                 .key_width = p->key_width,
                 .value_width = p->value_width}};
}

void vkf_vkop_describe_append(const vkf_node_view *view, vkf_dispatch *out) {
  const vkf_append_params *p = &view->node->params.append;
  const uint32_t *in = view->node->in, x = in[VKF_APPEND_X], *to = view->node->out;
  const struct vkf_push_append push = {
      .seqs = p->seqs,
      .tokens = p->tokens,
      .past = p->past,
      .x_stride = vkf_vkop_cap(view->plan, x, 1),
      .k_column = p->k_column,
      .v_column = p->v_column,
      .k_capacity = vkf_vkop_cap(view->plan, to[VKF_APPEND_K], 2),
      .v_capacity = vkf_vkop_cap(view->plan, to[VKF_APPEND_V], 2),
      .q_column = p->q_column,
      .q_width = p->n_q_heads * p->key_width,
      .n_positions = p->n_positions,
  };
  vkf_vkop_dispatch_begin(view, out);
  vkf_vkop_dispatch_read(out, x);
  out->operands[VKF_APPEND_X].access = view->variant->access;
  for (int i = VKF_APPEND_K; i <= VKF_APPEND_V; i++) {
    vkf_vkop_dispatch_write(out, to[i]);
    out->operands[out->n_operands - 1].read = true;
  }
  if (p->rotary) {
    vkf_vkop_dispatch_read(out, in[VKF_APPEND_POSITIONS]);
    vkf_vkop_dispatch_read(out, in[VKF_APPEND_TABLE]);
    out->operands[out->n_operands - 1].access = view->variant->access;
    vkf_vkop_dispatch_write(out, to[VKF_APPEND_Q]);
  }
  vkf_vkop_dispatch_spans(out, in[VKF_APPEND_SPANS]);
  out->constants[VKF_C_APPEND_HEADS] = p->n_heads;
  out->constants[VKF_C_APPEND_KEY_WIDTH] = vkf_vkop_has(to[VKF_APPEND_K]) ? p->key_width : 0;
  out->constants[VKF_C_APPEND_VALUE_WIDTH] = vkf_vkop_has(to[VKF_APPEND_V]) ? p->value_width : 0;
  out->constants[VKF_C_APPEND_IS_PACKED] = p->packed;
  out->constants[VKF_C_APPEND_ROTARY] = p->rotary;
  out->constants[VKF_C_APPEND_INTERLEAVED] = p->pairs == VKF_ROPE_INTERLEAVED;
  VKF_CONSTANTS_END(out, VKF_C_APPEND_INTERLEAVED);
  vkf_vkop_dispatch_params(out, &push, sizeof push);
}
