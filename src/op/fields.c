#include "op/fields.h"

#define FIELD(op, member, kind) \
  { #member, offsetof(vkf_params, op.member), VKF_FIELD_##kind }

#define ATTENTION_FIELDS(op)                                                                                         \
  FIELD(op, seqs, DIM), FIELD(op, queries, DIM), FIELD(op, keys, DIM), FIELD(op, past, DIM), FIELD(op, shared, DIM), \
      FIELD(op, n_heads, COUNT), FIELD(op, n_kv_heads, COUNT), FIELD(op, key_width, COUNT),                          \
      FIELD(op, value_width, COUNT), FIELD(op, q_column, COUNT), FIELD(op, window, COUNT), FIELD(op, causal, FLAG),  \
      FIELD(op, bias_per_head, FLAG), FIELD(op, bias_by_distance, FLAG), FIELD(op, bias_before, COUNT),              \
      FIELD(op, bias_after, COUNT), FIELD(op, packed, FLAG), FIELD(op, scale, NUMBER), FIELD(op, softcap, NUMBER)

static const vkf_field embed_fields[] = {
    FIELD(embed, rows, DIM),          FIELD(embed, width, COUNT),   FIELD(embed, n_ids, COUNT),
    FIELD(embed, n_positions, COUNT), FIELD(embed, n_types, COUNT), FIELD(embed, scale, NUMBER),
    FIELD(embed, by_row, FLAG),
};
static const vkf_field matmul_fields[] = {
    FIELD(matmul, rows, DIM),     FIELD(matmul, n, COUNT),
    FIELD(matmul, k, COUNT),      FIELD(matmul, activation, ACTIVATION),
    FIELD(matmul, scale, NUMBER), FIELD(matmul, is_gated, FLAG),
};
static const vkf_field attention_fields[] = {ATTENTION_FIELDS(attention)};
static const vkf_field attention_weights_fields[] = {ATTENTION_FIELDS(attention_weights)};
static const vkf_field norm_fields[] = {
    FIELD(norm, rows, DIM),   FIELD(norm, width, COUNT),  FIELD(norm, kind, NORM),
    FIELD(norm, eps, NUMBER), FIELD(norm, groups, COUNT), FIELD(norm, rest, COUNT),
};
static const vkf_field append_fields[] = {
    FIELD(append, seqs, DIM),       FIELD(append, tokens, DIM),        FIELD(append, past, DIM),
    FIELD(append, n_heads, COUNT),  FIELD(append, key_width, COUNT),   FIELD(append, value_width, COUNT),
    FIELD(append, k_column, COUNT), FIELD(append, v_column, COUNT),    FIELD(append, packed, FLAG),
    FIELD(append, to_slots, FLAG),  FIELD(append, n_q_heads, COUNT),   FIELD(append, q_column, COUNT),
    FIELD(append, rotary, COUNT),   FIELD(append, n_positions, COUNT), FIELD(append, pairs, PAIRS),
};
static const vkf_field gather_fields[] = {
    FIELD(gather, rows, DIM),
    FIELD(gather, x_rows, DIM),
    FIELD(gather, width, COUNT),
};
static const vkf_field log_softmax_fields[] = {FIELD(log_softmax, rows, DIM), FIELD(log_softmax, width, COUNT)};
static const vkf_field logit_edit_fields[] = {
    FIELD(logit_edit, rows, DIM),
    FIELD(logit_edit, width, COUNT),
    FIELD(logit_edit, max_edits, COUNT),
    FIELD(logit_edit, row_edits, COUNT),
};
static const vkf_field top_k_fields[] = {FIELD(top_k, rows, DIM), FIELD(top_k, width, COUNT), FIELD(top_k, k, COUNT)};
static const vkf_field rope_fields[] = {
    FIELD(rope, rows, DIM),         FIELD(rope, width, COUNT),      FIELD(rope, n_heads, COUNT),
    FIELD(rope, q_column, COUNT),   FIELD(rope, n_kv_heads, COUNT), FIELD(rope, k_column, COUNT),
    FIELD(rope, head_width, COUNT), FIELD(rope, rotary, COUNT),     FIELD(rope, n_positions, COUNT),
    FIELD(rope, pairs, PAIRS),
};
static const vkf_field gate_fields[] = {
    FIELD(gate, rows, DIM),        FIELD(gate, width, COUNT),           FIELD(gate, gate_column, COUNT),
    FIELD(gate, up_column, COUNT), FIELD(gate, activation, ACTIVATION),
};
static const vkf_field relative_bias_fields[] = {
    FIELD(relative_bias, n_heads, COUNT),
    FIELD(relative_bias, n_buckets, COUNT),
    FIELD(relative_bias, n_distances, COUNT),
};
static const vkf_field patches_fields[] = {
    FIELD(patches, channels, COUNT),     FIELD(patches, height, COUNT),      FIELD(patches, width, COUNT),
    FIELD(patches, patch_height, COUNT), FIELD(patches, patch_width, COUNT), FIELD(patches, leading, COUNT),
};
const vkf_field *vkf_op_fields(vkf_op op, size_t *n) {
  static const struct {
    const vkf_field *fields;
    size_t n;
  } table[VKF_OP_COUNT] = {
#define X(NAME, name) {name##_fields, VKF_COUNT(name##_fields)},
      VKF_OP_LIST(X)
#undef X
  };
  *n = table[op].n;
  return table[op].fields;
}

const char *vkf_field_word(vkf_field_kind kind, uint32_t value) {
  static const char *const norms[] = {"layer", "rms"}, *const pairs[] = {"halves", "interleaved"};
  switch (kind) {
    case VKF_FIELD_DIM:
      return value < VKF_DIM_COUNT ? vkf_dim_name((vkf_dim)value) : NULL;
    case VKF_FIELD_ACTIVATION:
      return value < VKF_ACT_COUNT ? vkf_activation_name((vkf_activation)value) : NULL;
    case VKF_FIELD_NORM:
      return value < VKF_COUNT(norms) ? norms[value] : NULL;
    case VKF_FIELD_PAIRS:
      return value < VKF_COUNT(pairs) ? pairs[value] : NULL;
    default:
      return NULL;
  }
}
