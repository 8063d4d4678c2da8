/* shape_rows: shape rules of rope, gate, relative bias and patches. */
#include "op/operand.h"

/* The columns [first, end) of some heads. */
typedef struct columns {
  uint32_t first, end;
} columns;

static columns heads_at(uint32_t column, uint32_t n, uint32_t width) {
  return (columns){column, reach(column, n, width)};
}

vkf_status vkf_op_shape_rope(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                             vkf_op_shapes *out) {
  const vkf_rope_params *p = &params->rope;
  VKF_CALL(positive(env, node, "width", p->width));
  VKF_CALL(positive(env, node, "head width", p->head_width));
  VKF_CALL(positive(env, node, "number of rotated columns", p->rotary));
  VKF_CALL(positive(env, node, "number of positions", p->n_positions));
  if (p->rotary % 2 != 0 || p->rotary > p->head_width)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: expected an even number of rotated columns up to the head width %u, found %u", node,
                        p->head_width, p->rotary);
  columns q = heads_at(p->q_column, p->n_heads, p->head_width), k = heads_at(p->k_column, p->n_kv_heads, p->head_width);
  if (q.end > p->width || k.end > p->width)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: heads end at column %u, expected at most %u", node,
                        VKF_MAX(q.end, k.end), p->width);
  if (q.first < k.end && k.first < q.end && p->n_heads > 0 && p->n_kv_heads > 0)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "node %s: queries in columns %u to %u overlap keys in columns %u to %u", node, q.first,
                        q.end - 1, k.first, k.end - 1);
  vkf_extent rows = along(p->rows, cap);
  out->in[VKF_ROPE_X] = loose(matrix("x", VKF_F32, rows, fixed(p->width)));
  out->in[VKF_ROPE_POSITIONS] = vector("positions", VKF_I32, rows);
  out->in[VKF_ROPE_TABLE] = matrix("table", VKF_F32, fixed(p->n_positions), fixed(p->rotary));
  out->out[0] = matrix("out", VKF_F32, rows, fixed(p->width));
  return VKF_OK;
}

vkf_status vkf_op_shape_gate(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                             vkf_op_shapes *out) {
  const vkf_gate_params *p = &params->gate;
  VKF_CALL(positive(env, node, "width", p->width));
  if ((unsigned)p->activation >= VKF_ACT_COUNT)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: there is no activation %d", node, (int)p->activation);
  vkf_extent rows = along(p->rows, cap), end = fixed(reach(VKF_MAX(p->gate_column, p->up_column), 1, p->width));
  out->in[VKF_GATE_X] = loose(matrix("x", VKF_F32, rows, end));
  out->out[0] = matrix("out", VKF_F32, rows, fixed(p->width));
  return VKF_OK;
}

vkf_status vkf_op_shape_relative_bias(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                                      vkf_op_shapes *out) {
  const vkf_relative_bias_params *p = &params->relative_bias;
  VKF_CALL(positive(env, node, "number of heads", p->n_heads));
  VKF_CALL(positive(env, node, "number of buckets", p->n_buckets));
  VKF_CALL(positive(env, node, "number of distances", p->n_distances));
  (void)cap;
  out->in[VKF_RELATIVE_BIAS_TABLE] =
      weight(matrix("table", VKF_F32, fixed(p->n_buckets), fixed(p->n_heads)), VKF_WEIGHT_TABLE);
  out->in[VKF_RELATIVE_BIAS_BUCKETS] = vector("buckets", VKF_I32, fixed(p->n_distances));
  out->out[0] = matrix("out", VKF_F32, fixed(p->n_heads), fixed(p->n_distances));
  return VKF_OK;
}

vkf_status vkf_op_shape_patches(vkf_env *env, const char *node, const vkf_params *params, const vkf_dims *cap,
                                vkf_op_shapes *out) {
  const vkf_patches_params *p = &params->patches;
  VKF_CALL(positive(env, node, "number of channels", p->channels));
  VKF_CALL(positive(env, node, "patch height", p->patch_height));
  VKF_CALL(positive(env, node, "patch width", p->patch_width));
  if (p->patch_height > p->height || p->patch_width > p->width)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: patches of %u x %u do not fit into images of %u x %u", node,
                        p->patch_height, p->patch_width, p->height, p->width);
  out->in[VKF_PATCHES_X] =
      matrix("x", VKF_F32, along(VKF_DIM_B, cap), fixed(reach(0, reach(0, p->channels, p->height), p->width)));
  out->out[0] = matrix("out", VKF_F32, along(VKF_DIM_BS, cap),
                       fixed(reach(0, reach(0, p->channels, p->patch_height), p->patch_width)));
  return VKF_OK;
}
