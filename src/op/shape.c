/* shape: the shapes that each op expects of its operands, and the parameters that it allows.
 *
 * One function for each op of the list; those of positions, gates and patches are in shape_rows.c. They depend on the
 * parameters and the capacity alone, so the builder of a plan can call them before it has made the slots.
 */
#include "op/shape.h"

#include <float.h>

#include "op/operand.h"

vkf_status vkf_op_shape_embed(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                              vkf_op_shapes *out) {
  const vkf_embed_params *p = &params->embed;
  VKF_CALL(positive(env, node, "width", p->width));
  VKF_CALL(positive(env, node, "number of rows in all tables", p->n_ids + p->n_positions + p->n_types));
  if (p->by_row && p->n_ids > 0)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected no ids, because rows are taken in order, found %u",
                        node, p->n_ids);
  vkf_extent rows = along(p->rows, cap), width = fixed(p->width);
  if (p->by_row) out->in[VKF_EMBED_TABLE] = matrix("table", VKF_F32, rows, width);
  if (p->n_ids > 0) {
    out->in[VKF_EMBED_IDS] = vector("ids", VKF_I32, rows);
    out->in[VKF_EMBED_TABLE] = stored(weight(matrix("table", VKF_F32, fixed(p->n_ids), width), VKF_WEIGHT_TABLE));
  }
  if (p->n_positions > 0) {
    out->in[VKF_EMBED_POSITIONS] = vector("positions", VKF_I32, rows);
    out->in[VKF_EMBED_POSITION_TABLE] =
        weight(matrix("position table", VKF_F32, fixed(p->n_positions), width), VKF_WEIGHT_TABLE);
  }
  if (p->n_types > 0) {
    out->in[VKF_EMBED_TYPES] = vector("types", VKF_I32, rows);
    out->in[VKF_EMBED_TYPE_TABLE] = weight(matrix("type table", VKF_F32, fixed(p->n_types), width), VKF_WEIGHT_TABLE);
  }
  out->out[0] = matrix("out", VKF_F32, rows, width);
  return VKF_OK;
}

vkf_status vkf_op_shape_matmul(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                               vkf_op_shapes *out) {
  const vkf_matmul_params *p = &params->matmul;
  VKF_CALL(positive(env, node, "N", p->n));
  VKF_CALL(positive(env, node, "K", p->k));
  if ((unsigned)p->activation >= VKF_ACT_COUNT)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: there is no activation %d", node, (int)p->activation);
  if (p->is_gated && p->n % 2 != 0)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected an even number of gated columns, found %u", node,
                        p->n);
  vkf_extent rows = along(p->rows, cap), n = fixed(p->n);
  out->in[VKF_MATMUL_X] = matrix("x", VKF_F32, rows, fixed(p->k));
  out->in[VKF_MATMUL_W] = stored(weight(matrix("w", VKF_F32, n, fixed(p->k)), VKF_WEIGHT_MATMUL));
  out->in[VKF_MATMUL_BIAS] = optional(weight(vector("bias", VKF_F32, n), VKF_WEIGHT_VECTOR));
  if (!p->is_gated) out->in[VKF_MATMUL_RESIDUAL] = optional(matrix("residual", VKF_F32, rows, n));
  out->out[0] = matrix("out", VKF_F32, rows, fixed(vkf_matmul_width(p)));
  return VKF_OK;
}

static vkf_status attention_params(vkf_env *env, const char *node, const vkf_attention_params *p) {
  VKF_CALL(positive(env, node, "number of heads", p->n_heads));
  VKF_CALL(positive(env, node, "number of key and value heads", p->n_kv_heads));
  VKF_CALL(positive(env, node, "key width", p->key_width));
  VKF_CALL(positive(env, node, "value width", p->value_width));
  if (p->n_heads % p->n_kv_heads != 0)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: %u heads cannot be shared out among %u key and value heads",
                        node, p->n_heads, p->n_kv_heads);
  if (p->window > 0 && !p->causal)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: a window of %u keys needs a causal mask", node, p->window);
  /* Nearer to 0 than 2^-100 it would be 0 in the reproducible mode. */
  if (p->softcap != 0 && !(p->softcap >= 0x1p-100f && p->softcap <= FLT_MAX))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected 0 or a finite soft cap from 2^-100 up, found %g",
                        node, (double)p->softcap);
  if (p->past != VKF_DIM_ZERO && p->past != VKF_DIM_PAST)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected the past to be PAST or ZERO, found dimension %d",
                        node, (int)p->past);
  if (p->shared != VKF_DIM_ONE && p->packed)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: the spans of a packed batch say which keys are shared, found dimension %d", node,
                        (int)p->shared);
  if (p->shared != VKF_DIM_ONE && !(p->shared == VKF_DIM_BEAMS && p->seqs == VKF_DIM_R))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: keys are shared by BEAMS of R sequences or by ONE, found dimension %d", node,
                        (int)p->shared);
  return VKF_OK;
}

static vkf_status attention_inputs(vkf_env *env, const char *node, const vkf_attention_params *p, const vkf_dims *cap,
                                   vkf_op_shapes *out) {
  VKF_CALL(attention_params(env, node, p));
  vkf_extent rows = along(vkf_op_rows(p->seqs, p->queries), cap);
  if (rows.dim == VKF_DIM_ZERO)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: expected B sequences of S queries or R of T, found dimensions %d and %d", node,
                        (int)p->seqs, (int)p->queries);
  vkf_extent kv_seqs = along(p->shared == VKF_DIM_BEAMS ? VKF_DIM_B : p->seqs, cap), keys = along(p->keys, cap);
  vkf_extent seqs = along(p->seqs, cap), heads = fixed(p->bias_per_head ? p->n_heads : 1);
  if (p->packed) {
    kv_seqs = fixed(p->seqs == VKF_DIM_B ? 1 : along(p->keys == VKF_DIM_S ? VKF_DIM_B : p->seqs, cap).cap);
    if (p->seqs == VKF_DIM_B) keys = along(VKF_DIM_BS, cap);
    out->in[VKF_ATTENTION_SPANS] = spans(seqs);
  }
  out->in[VKF_ATTENTION_Q] = loose(matrix("q", VKF_F32, rows, fixed(reach(p->q_column, p->n_heads, p->key_width))));
  out->in[VKF_ATTENTION_K] = (vkf_operand_shape){
      .name = "k",
      .rank = 4,
      .extent = {kv_seqs, fixed(p->n_kv_heads), keys, fixed(p->key_width)},
      .loose = true,
      .stored = true,
  };
  out->in[VKF_ATTENTION_MASK] = optional(loose(matrix("mask", VKF_I32, kv_seqs, keys)));
  out->in[VKF_ATTENTION_BIAS] = (vkf_operand_shape){
      .name = "bias",
      .rank = 3,
      .extent = {heads, along(p->queries, cap), along(p->keys, cap)},
      .optional = true,
      .loose = true,
  };
  if (p->bias_by_distance)
    out->in[VKF_ATTENTION_BIAS] =
        optional(matrix("bias", VKF_F32, heads, fixed(reach(reach(1, 1, p->bias_before), 1, p->bias_after))));
  if (p->shared == VKF_DIM_ONE)
    out->in[VKF_ATTENTION_ANCESTRY] = optional(loose(matrix("ancestry", VKF_I32, seqs, along(p->keys, cap))));
  return VKF_OK;
}

vkf_status vkf_op_shape_attention(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                                  vkf_op_shapes *out) {
  const vkf_attention_params *p = &params->attention;
  VKF_CALL(attention_inputs(env, node, p, cap, out));
  out->in[VKF_ATTENTION_V] = out->in[VKF_ATTENTION_K];
  out->in[VKF_ATTENTION_V].name = "v";
  out->in[VKF_ATTENTION_V].extent[3] = fixed(p->value_width);
  out->out[0] =
      matrix("out", VKF_F32, along(vkf_op_rows(p->seqs, p->queries), cap), fixed(reach(0, p->n_heads, p->value_width)));
  return VKF_OK;
}

vkf_status vkf_op_shape_attention_weights(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                                          vkf_op_shapes *out) {
  const vkf_attention_params *p = &params->attention_weights;
  VKF_CALL(attention_inputs(env, node, p, cap, out));
  out->out[0] = (vkf_operand_shape){
      .name = "out",
      .rank = 4,
      .extent = {along(p->seqs, cap), fixed(p->n_heads), along(p->queries, cap), along(p->keys, cap)},
  };
  return VKF_OK;
}

vkf_status vkf_op_shape_norm(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                             vkf_op_shapes *out) {
  const vkf_norm_params *p = &params->norm;
  VKF_CALL(positive(env, node, "width", p->width));
  if (!(p->eps >= 0))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected an eps of 0 or more, found %g", node,
                        (double)p->eps);
  uint32_t n = reach(0, VKF_MAX(p->groups, 1u), p->width);
  vkf_extent rows = along(p->rows, cap), width = fixed(reach(n, 1, p->rest)), normed = fixed(n);
  out->in[VKF_NORM_X] = matrix("x", VKF_F32, rows, width);
  out->in[VKF_NORM_RESIDUAL] = optional(matrix("residual", VKF_F32, rows, width));
  out->in[VKF_NORM_WEIGHT] = optional(weight(vector("weight", VKF_F32, normed), VKF_WEIGHT_VECTOR));
  out->in[VKF_NORM_BIAS] = optional(weight(vector("bias", VKF_F32, normed), VKF_WEIGHT_VECTOR));
  out->out[0] = matrix("out", VKF_F32, rows, width);
  return VKF_OK;
}

/* Sets the operands of an append that turns keys and queries. */
static vkf_status turned_heads(vkf_env *env, const char *node, const vkf_append_params *p, vkf_extent rows,
                               vkf_op_shapes *out) {
  VKF_CALL(positive(env, node, "number of query heads", p->n_q_heads));
  VKF_CALL(positive(env, node, "number of positions", p->n_positions));
  if (p->rotary % 2 != 0 || p->rotary > p->key_width)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: expected an even number of rotated columns up to the key width %u, found %u", node,
                        p->key_width, p->rotary);
  const uint32_t end = VKF_MAX(out->in[VKF_APPEND_X].extent[1].cap, reach(p->q_column, p->n_q_heads, p->key_width));
  out->in[VKF_APPEND_X].extent[1] = fixed(end);
  out->in[VKF_APPEND_POSITIONS] = vector("positions", VKF_I32, rows);
  out->in[VKF_APPEND_TABLE] = matrix("table", VKF_F32, fixed(p->n_positions), fixed(p->rotary));
  out->out[VKF_APPEND_Q] = matrix("q", VKF_F32, rows, fixed(p->n_q_heads * p->key_width));
  return VKF_OK;
}

vkf_status vkf_op_shape_append(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                               vkf_op_shapes *out) {
  const vkf_append_params *p = &params->append;
  VKF_CALL(positive(env, node, "number of heads", p->n_heads));
  VKF_CALL(positive(env, node, "key width", p->key_width));
  VKF_CALL(positive(env, node, "value width", p->value_width));
  vkf_dim rows = p->seqs == VKF_DIM_B && p->tokens == VKF_DIM_S   ? VKF_DIM_BS
                 : p->seqs == VKF_DIM_R && p->tokens == VKF_DIM_T ? VKF_DIM_RT
                                                                  : VKF_DIM_ZERO;
  if (rows == VKF_DIM_ZERO)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: expected B sequences of S tokens or R of T, found dimensions %d and %d", node,
                        (int)p->seqs, (int)p->tokens);
  if (p->past != VKF_DIM_ZERO && (p->past != VKF_DIM_PAST || p->tokens != VKF_DIM_T))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: expected the past to be ZERO, or PAST for T tokens, found dimension %d", node,
                        (int)p->past);
  uint32_t k_end = reach(p->k_column, p->n_heads, p->key_width), v_end = reach(p->v_column, p->n_heads, p->value_width);
  vkf_extent keys = along(p->past == VKF_DIM_ZERO ? p->tokens : VKF_DIM_KEYS, cap), slots = along(p->seqs, cap);
  if (p->packed) {
    out->in[VKF_APPEND_SPANS] = spans(slots);
    if (p->seqs == VKF_DIM_B && !p->to_slots) {
      slots = fixed(1);
      keys = along(VKF_DIM_BS, cap);
    } else {
      slots = fixed(slots.cap);
    }
  }
  out->in[VKF_APPEND_X] = loose(matrix("x", VKF_F32, along(rows, cap), fixed(VKF_MAX(k_end, v_end))));
  for (int o = VKF_APPEND_K; o <= VKF_APPEND_V; o++) {
    out->out[o] = (vkf_operand_shape){
        .name = o == VKF_APPEND_K ? "k" : "v",
        .rank = 4,
        .extent = {slots, fixed(p->n_heads), keys, fixed(o == VKF_APPEND_K ? p->key_width : p->value_width)},
        .loose = true,
        .stored = true,
    };
  }
  return p->rotary ? turned_heads(env, node, p, along(rows, cap), out) : VKF_OK;
}

vkf_status vkf_op_shape_gather(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                               vkf_op_shapes *out) {
  const vkf_gather_params *p = &params->gather;
  VKF_CALL(positive(env, node, "width", p->width));
  out->in[VKF_GATHER_X] = matrix("x", VKF_F32, along(p->x_rows, cap), fixed(p->width));
  out->in[VKF_GATHER_INDEX] = vector("index", VKF_I32, along(p->rows, cap));
  out->out[0] = matrix("out", VKF_F32, along(p->rows, cap), fixed(p->width));
  return VKF_OK;
}

vkf_status vkf_op_shape_log_softmax(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                                    vkf_op_shapes *out) {
  const vkf_log_softmax_params *p = &params->log_softmax;
  VKF_CALL(positive(env, node, "width", p->width));
  out->in[VKF_LOG_SOFTMAX_X] = matrix("x", VKF_F32, along(p->rows, cap), fixed(p->width));
  out->out[0] = matrix("out", VKF_F32, along(p->rows, cap), fixed(p->width));
  return VKF_OK;
}

/* The list of offsets is one longer than the rows, so its extent is fixed: extents are numbers or dimensions. */
vkf_status vkf_op_shape_logit_edit(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                                   vkf_op_shapes *out) {
  const vkf_logit_edit_params *p = &params->logit_edit;
  VKF_CALL(positive(env, node, "width", p->width));
  VKF_CALL(positive(env, node, "number of edits", p->max_edits));
  out->in[VKF_LOGIT_EDIT_X] = matrix("x", VKF_F32, along(p->rows, cap), fixed(p->width));
  out->in[VKF_LOGIT_EDIT_OFFSETS] = loose(vector("offsets", VKF_I32, fixed(cap->v[p->rows] + 1)));
  out->in[VKF_LOGIT_EDIT_EDITS] = loose(matrix("edits", VKF_I32, fixed(p->max_edits), fixed(4)));
  out->out[0] = matrix("out", VKF_F32, along(p->rows, cap), fixed(p->width));
  return VKF_OK;
}

vkf_status vkf_op_shape_top_k(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                              vkf_op_shapes *out) {
  const vkf_top_k_params *p = &params->top_k;
  VKF_CALL(positive(env, node, "width", p->width));
  if (p->k < 1 || p->k > p->width)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected k from 1 to the width %u, found %u", node, p->width,
                        p->k);
  vkf_extent rows = along(p->rows, cap);
  out->in[VKF_TOP_K_X] = matrix("x", VKF_F32, rows, fixed(p->width));
  out->out[VKF_TOP_K_VALUES] = matrix("values", VKF_F32, rows, fixed(p->k));
  out->out[VKF_TOP_K_IDS] = matrix("ids", VKF_I32, rows, fixed(p->k));
  return VKF_OK;
}

/* ---- through the list -------------------------------------------------------------------------------------------- */

typedef vkf_status (*shape_fn)(vkf_env *, const char *, const vkf_params *, const vkf_dims *, vkf_op_shapes *);
static const shape_fn shapes[VKF_OP_COUNT] = {
#define X(NAME, name) vkf_op_shape_##name,
    VKF_OP_LIST(X)
#undef X
};

vkf_status vkf_op_shapes_of(vkf_env *env, const vkf_plan *plan, const vkf_node *node, vkf_op_shapes *out) {
  if ((unsigned)node->op >= VKF_OP_COUNT)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: there is no op %d", node->name, (int)node->op);
  vkf_dims cap = vkf_dims_make(&plan->capacity);
  *out = (vkf_op_shapes){0};
  return shapes[node->op](env, node->name, &node->params, &cap, out);
}
