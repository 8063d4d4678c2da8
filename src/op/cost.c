/* cost: flops and bytes of a node at actual sizes.
 *
 * Flops are counted as usual: 2 for a product and its addition, 1 for any other operation. Bytes are those that must
 * move at least once: every operand is read once, every result is written once.
 */
#include "op/shape.h"

static double extent(const vkf_plan *plan, uint32_t slot, const vkf_dims *dims) {
  return slot == VKF_NO_SLOT ? 0 : (double)vkf_slot_elements_at(&plan->slots[slot], dims);
}

/* Returns the bytes of an operand as its slot stores it, with scales. */
static double stored_bytes(const vkf_plan *plan, uint32_t slot, const vkf_dims *dims) {
  if (slot == VKF_NO_SLOT) return 0;
  const vkf_slot *s = &plan->slots[slot];
  const double n = extent(plan, slot, dims), rows = vkf_slot_extent(s, 0, dims);
  return n * vkf_format_get(s->format)->bits / 8 + 4 * rows * vkf_format_scales(s->format, s->extent[s->rank - 1].cap);
}

/* Returns the bytes of n numbers of an operand in rows of `width` as its slot stores them, with scales. */
static double bytes_of(const vkf_plan *plan, uint32_t slot, double n, uint32_t width) {
  const vkf_format format = slot == VKF_NO_SLOT ? VKF_FORMAT_F32 : plan->slots[slot].format;
  return n * vkf_format_get(format)->bits / 8 + 4 * n / VKF_MAX(width, 1u) * vkf_format_scales(format, width);
}

/* Returns the bytes of all actual elements of all operands. */
static double all_bytes(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  double n = 0;
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) n += stored_bytes(plan, node->in[i], dims);
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) n += stored_bytes(plan, node->out[o], dims);
  return n;
}

vkf_cost vkf_op_cost_embed(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_embed_params *p = &node->params.embed;
  const double rows = dims->v[p->rows], n = rows * p->width;
  const int tables = 1 + (p->n_positions > 0) + (p->n_types > 0);
  return (vkf_cost){.flops = n * tables,
                    .bytes = bytes_of(plan, node->in[VKF_EMBED_TABLE], n, p->width) + 4 * (n + rows) * tables};
}

vkf_cost vkf_op_cost_matmul(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_matmul_params *p = &node->params.matmul;
  const double rows = dims->v[p->rows], gates = p->is_gated ? 2 * rows * vkf_matmul_width(p) : 0;
  return (vkf_cost){2 * rows * p->n * p->k + gates, all_bytes(plan, node, dims)};
}

static double query_rows(const vkf_attention_params *p, const vkf_dims *dims) {
  return dims->v[vkf_op_rows(p->seqs, p->queries)];
}

/* Counts the pairs of a query and a key that it may see, in all heads. In a packed batch each query counts as many keys
 * as the mean query of a sequence with the largest sizes. */
static double visible_pairs(const vkf_attention_params *p, const vkf_dims *dims) {
  double n = 0;
  uint32_t keys = dims->v[p->keys];
  for (uint32_t t = 0; t < dims->v[p->queries]; t++) {
    uint32_t seen = p->causal ? VKF_MIN(keys, dims->v[p->past] + t + 1) : keys;
    n += p->window > 0 ? VKF_MIN(seen, p->window) : seen;
  }
  return dims->v[p->queries] ? n / dims->v[p->queries] * query_rows(p, dims) * p->n_heads : 0;
}

static double kv_elements(const vkf_attention_params *p, const vkf_dims *dims, uint32_t width) {
  uint32_t seqs = p->shared == VKF_DIM_BEAMS ? dims->v[VKF_DIM_B] : dims->v[p->seqs];
  if (p->packed && p->seqs == VKF_DIM_B) return (double)dims->v[VKF_DIM_BS] * p->n_kv_heads * width;
  return (double)seqs * dims->v[p->keys] * p->n_kv_heads * width;
}

static double query_elements(const vkf_attention_params *p, const vkf_dims *dims, uint32_t width) {
  return query_rows(p, dims) * p->n_heads * width;
}

static double mask_elements(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  return extent(plan, node->in[VKF_ATTENTION_MASK], dims) + extent(plan, node->in[VKF_ATTENTION_BIAS], dims) +
         extent(plan, node->in[VKF_ATTENTION_ANCESTRY], dims);
}

vkf_cost vkf_op_cost_attention(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_attention_params *p = &node->params.attention;
  const double n = query_elements(p, dims, p->key_width + p->value_width) + mask_elements(plan, node, dims);
  const double keys = kv_elements(p, dims, p->key_width), values = kv_elements(p, dims, p->value_width);
  return (vkf_cost){2.0 * visible_pairs(p, dims) * (p->key_width + p->value_width),
                    4 * n + bytes_of(plan, node->in[VKF_ATTENTION_K], keys, p->key_width) +
                        bytes_of(plan, node->in[VKF_ATTENTION_V], values, p->value_width)};
}

vkf_cost vkf_op_cost_attention_weights(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_attention_params *p = &node->params.attention_weights;
  const double n = query_elements(p, dims, p->key_width + dims->v[p->keys]) + mask_elements(plan, node, dims);
  const double keys = kv_elements(p, dims, p->key_width);
  return (vkf_cost){2.0 * visible_pairs(p, dims) * p->key_width,
                    4 * n + bytes_of(plan, node->in[VKF_ATTENTION_K], keys, p->key_width)};
}

vkf_cost vkf_op_cost_norm(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_norm_params *p = &node->params.norm;
  int ops = (p->kind == VKF_NORM_LAYER ? 5 : 3) + (node->in[VKF_NORM_RESIDUAL] != VKF_NO_SLOT) +
            (node->in[VKF_NORM_WEIGHT] != VKF_NO_SLOT) + (node->in[VKF_NORM_BIAS] != VKF_NO_SLOT);
  double n = (double)VKF_MAX(p->groups, 1u) * p->width;
  return (vkf_cost){ops * dims->v[p->rows] * n, all_bytes(plan, node, dims)};
}

vkf_cost vkf_op_cost_append(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_append_params *p = &node->params.append;
  const double rows = dims->v[vkf_op_rows(p->seqs, p->tokens)], turned = rows * (p->n_heads + p->n_q_heads) * p->rotary;
  const double keys = rows * p->n_heads * p->key_width, values = rows * p->n_heads * p->value_width,
               queries = p->rotary ? rows * p->n_q_heads * p->key_width : 0;
  return (vkf_cost){3 * turned, 4 * (keys + values + 2 * queries) + (p->rotary ? 4 * rows * (p->rotary + 1) : 0) +
                                    bytes_of(plan, node->out[VKF_APPEND_K], keys, p->key_width) +
                                    bytes_of(plan, node->out[VKF_APPEND_V], values, p->value_width)};
}

vkf_cost vkf_op_cost_gather(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  (void)plan;
  const vkf_gather_params *p = &node->params.gather;
  return (vkf_cost){0, 4.0 * dims->v[p->rows] * (2.0 * p->width + 1)};
}

vkf_cost vkf_op_cost_log_softmax(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_log_softmax_params *p = &node->params.log_softmax;
  return (vkf_cost){5.0 * dims->v[p->rows] * p->width, all_bytes(plan, node, dims)};
}

vkf_cost vkf_op_cost_logit_edit(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  (void)plan;
  const vkf_logit_edit_params *p = &node->params.logit_edit;
  return (vkf_cost){0, 8.0 * dims->v[p->rows] * p->width};
}

vkf_cost vkf_op_cost_top_k(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  const vkf_top_k_params *p = &node->params.top_k;
  return (vkf_cost){(double)dims->v[p->rows] * p->width, all_bytes(plan, node, dims)};
}

/* Only the rows of these positions are read from the table. */
vkf_cost vkf_op_cost_rope(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  (void)plan;
  const vkf_rope_params *p = &node->params.rope;
  double rows = dims->v[p->rows], turned = (double)(p->n_heads + p->n_kv_heads) * p->rotary;
  return (vkf_cost){3 * rows * turned, 4 * rows * (2.0 * p->width + p->rotary + 1)};
}

vkf_cost vkf_op_cost_gate(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  (void)plan;
  const vkf_gate_params *p = &node->params.gate;
  double n = (double)dims->v[p->rows] * p->width;
  return (vkf_cost){2 * n, 12 * n};
}

vkf_cost vkf_op_cost_relative_bias(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  return (vkf_cost){0, all_bytes(plan, node, dims)};
}

vkf_cost vkf_op_cost_patches(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  return (vkf_cost){0, all_bytes(plan, node, dims)};
}

static vkf_cost (*const costs[VKF_OP_COUNT])(const vkf_plan *, const vkf_node *, const vkf_dims *) = {
#define X(NAME, name) vkf_op_cost_##name,
    VKF_OP_LIST(X)
#undef X
};

vkf_cost vkf_op_cost(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims) {
  return costs[node->op](plan, node, dims);
}
