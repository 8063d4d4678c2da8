/* stack: the tensors of a stack's layers, by the stems that its family gives. See internal.h.
 *
 * Decides what is one matmul: queries, keys and values of self-attention; keys and values of cross-attention. */
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

typedef struct claimer {
  vkf_net *net;
  const vkf_model_stack *stack;
  const char *prefix; /* of the tensors */
  char block[48];     /* "encoder.0" */
  char names[VKF_MODEL_MAX_PARTS][256];
} claimer;

/* The parts of one linear: stems, and rows of each. A packed tensor is one part with a window of rows. */
typedef struct linear_parts {
  const char *stems[VKF_MODEL_MAX_PARTS];
  uint32_t n_rows[VKF_MODEL_MAX_PARTS];
  size_t n;
  uint32_t first_row, all_rows; /* of a packed tensor; all_rows 0: each part is a whole tensor */
} linear_parts;

static vkf_status add(claimer *c, const linear_parts *parts, const char *kind, uint32_t use, uint32_t columns,
                      const char *name, uint32_t *out) {
  vkf_model_source sources[VKF_MODEL_MAX_PARTS] = {{0}};
  for (size_t i = 0; i < parts->n; i++) {
    snprintf(c->names[i], sizeof c->names[i], "%s%s%s", c->prefix, parts->stems[i], kind);
    sources[i] = (vkf_model_source){.tensor = c->names[i],
                                    .rows = parts->all_rows > 0 ? parts->all_rows : parts->n_rows[i],
                                    .first_row = parts->first_row,
                                    .n_rows = parts->n_rows[i]};
  }
  return vkf_model_add_weight(c->net, use, columns, sources, parts->n, out, "%s.%s.%s", c->block, name, kind);
}

static vkf_status linear(claimer *c, linear_parts parts, uint32_t columns, bool has_bias, const char *name,
                         vkf_model_linear *out) {
  *out = (vkf_model_linear){VKF_NO_WEIGHT, VKF_NO_WEIGHT};
  vkf_status st = add(c, &parts, "weight", VKF_WEIGHT_MATMUL, columns, name, &out->weight);
  if (st == VKF_OK && has_bias) st = add(c, &parts, "bias", VKF_WEIGHT_VECTOR, 0, name, &out->bias);
  return st;
}

static vkf_status norm(claimer *c, bool is_affine, const char *stem, const char *name, vkf_model_norm *out) {
  *out = (vkf_model_norm){VKF_NO_WEIGHT, VKF_NO_WEIGHT};
  if (!is_affine) return VKF_OK;
  linear_parts parts = {.stems = {stem}, .n_rows = {c->net->info.d_model}, .n = 1};
  vkf_status st = add(c, &parts, "weight", VKF_WEIGHT_VECTOR, 0, name, &out->weight);
  if (st == VKF_OK && c->stack->norm_kind == VKF_NORM_LAYER)
    st = add(c, &parts, "bias", VKF_WEIGHT_VECTOR, 0, name, &out->bias);
  return st;
}

static vkf_status attention(claimer *c, const vkf_model_attention_names *names, bool is_cross, const char *name,
                            vkf_model_attention *out) {
  vkf_status st = VKF_OK;
  const vkf_model_stack *s = c->stack;
  uint32_t d_model = c->net->info.d_model;
  uint32_t q = s->n_heads * s->key_width, k = s->n_kv_heads * s->key_width, v = s->n_kv_heads * s->value_width;
  uint32_t all = q + k + v;
  linear_parts qkv_parts, q_parts, kv_parts;
  if (names->packed != NULL) {
    qkv_parts = (linear_parts){.stems = {names->packed}, .n_rows = {all}, .n = 1, .all_rows = all};
    q_parts = (linear_parts){.stems = {names->packed}, .n_rows = {q}, .n = 1, .all_rows = all};
    kv_parts = (linear_parts){.stems = {names->packed}, .n_rows = {k + v}, .n = 1, .first_row = q, .all_rows = all};
  } else {
    qkv_parts = (linear_parts){.stems = {names->q, names->k, names->v}, .n_rows = {q, k, v}, .n = 3};
    q_parts = (linear_parts){.stems = {names->q}, .n_rows = {q}, .n = 1};
    kv_parts = (linear_parts){.stems = {names->k, names->v}, .n_rows = {k, v}, .n = 2};
  }
  linear_parts out_parts = {.stems = {names->out}, .n_rows = {d_model}, .n = 1};
  char part_name[32];
  bool bias = s->attention_bias;
  snprintf(part_name, sizeof part_name, "%s.%s", name, is_cross ? "q" : "qkv");
  VKF_TRY(linear(c, is_cross ? q_parts : qkv_parts, d_model, bias, part_name, &out->q));
  snprintf(part_name, sizeof part_name, "%s.kv", name);
  if (is_cross) VKF_TRY(linear(c, kv_parts, d_model, bias, part_name, &out->kv));
  snprintf(part_name, sizeof part_name, "%s.out", name);
  VKF_TRY(linear(c, out_parts, s->n_heads * s->value_width, bias, part_name, &out->out));
  snprintf(part_name, sizeof part_name, "%s.norm", name);
  VKF_TRY(norm(c, s->norm_affine, names->norm, part_name, &out->norm));
done:
  return st;
}

static vkf_status layer(claimer *c, const vkf_model_stack_names *names, vkf_model_layer *out) {
  vkf_status st = VKF_OK;
  const vkf_model_stack *s = c->stack;
  uint32_t d_model = c->net->info.d_model;
  linear_parts in = {.stems = {names->ffn_in}, .n_rows = {s->d_ff}, .n = 1};
  linear_parts back = {.stems = {names->ffn_out}, .n_rows = {d_model}, .n = 1};
  VKF_TRY(attention(c, &names->self, false, "self", &out->self));
  if (s->has_cross) VKF_TRY(attention(c, &names->cross, true, "cross", &out->cross));
  VKF_TRY(linear(c, in, d_model, s->ffn_bias, "ffn.in", &out->ffn_in));
  VKF_TRY(linear(c, back, s->d_ff, s->ffn_bias, "ffn.out", &out->ffn_out));
  VKF_TRY(norm(c, s->norm_affine, names->ffn_norm, "ffn.norm", &out->ffn_norm));
done:
  return st;
}

vkf_status vkf_model_claim_stack(vkf_net *net, vkf_model_stack *stack, const vkf_model_stack_names *names) {
  vkf_status st = VKF_OK;
  char prefix[128];
  claimer c = {.net = net, .stack = stack, .prefix = prefix};
  stack->layers = vkf_arena_alloc(&net->arena, stack->n_layers, sizeof *stack->layers);
  if (stack->layers == NULL) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < stack->n_layers; i++) {
    snprintf(prefix, sizeof prefix, "%s%u.", names->layers, i);
    snprintf(c.block, sizeof c.block, "%s.%u", stack->name, i);
    VKF_TRY(layer(&c, names, &stack->layers[i]));
  }
  if (stack->has_final_norm) {
    snprintf(prefix, sizeof prefix, "%sweight", names->final_norm);
    bool is_affine = stack->norm_affine || vkf_model_has_tensor(net, prefix);
    prefix[0] = 0;
    snprintf(c.block, sizeof c.block, "%s", stack->name);
    VKF_TRY(norm(&c, is_affine, names->final_norm, "norm", &stack->final_norm));
  }
done:
  return st;
}
