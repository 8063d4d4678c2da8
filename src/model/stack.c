/* stack: claims the tensors of a stack's layers, by the stems of its family. See internal.h.
 *
 * Decides what is one matmul: queries, keys and values of self-attention; keys and values of cross-attention. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"

const vkf_model_stack vkf_model_no_stack = {
    .table = VKF_NO_WEIGHT,
    .position_table = VKF_NO_WEIGHT,
    .type_table = VKF_NO_WEIGHT,
    .embed_norm = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
    .embed_in = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
    .embed_out = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
    .patches = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
    .relative = {.table = VKF_NO_WEIGHT},
    .final_norm = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
};

/* Far more than any model has, yet little memory: layers are allocated before their tensors are looked for. */
#define MAX_LAYERS 4096
#define MAX_WIDTH (1 << 24) /* of all heads together: sums of three such widths fit into 32 bits */

typedef struct claimer {
  vkf_net *net;
  const vkf_model_stack *stack;
  const char *prefix; /* of the tensors */
  bool is_transposed; /* matrices are stored as [K,N] */
  char block[48];     /* "encoder.0" */
  char names[VKF_MODEL_MAX_PARTS][256];
} claimer;

/* The parts of one linear layer: `tensor` is a stem here. */
typedef struct linear_parts {
  vkf_model_source sources[VKF_MODEL_MAX_PARTS];
  size_t n;
} linear_parts;

static vkf_model_source whole(const char *stem, uint32_t rows) {
  return (vkf_model_source){.tensor = stem, .rows = rows, .n_rows = rows};
}

static vkf_status add(claimer *c, const linear_parts *parts, const char *kind, uint32_t use, uint32_t columns,
                      const char *name, uint32_t *out) {
  vkf_model_source sources[VKF_MODEL_MAX_PARTS] = {{0}};
  for (size_t i = 0; i < parts->n; i++) {
    snprintf(c->names[i], sizeof c->names[i], "%s%s%s", c->prefix, parts->sources[i].tensor, kind);
    sources[i] = parts->sources[i];
    sources[i].tensor = c->names[i];
    sources[i].is_transposed = c->is_transposed;
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
  linear_parts parts = {{whole(stem, c->net->info.d_model)}, 1};
  vkf_status st = add(c, &parts, "weight", VKF_WEIGHT_VECTOR, 0, name, &out->weight);
  if (st == VKF_OK) c->net->weights[out->weight].plus = c->stack->norm_plus;
  if (st == VKF_OK && c->stack->norm_kind == VKF_NORM_LAYER)
    st = add(c, &parts, "bias", VKF_WEIGHT_VECTOR, 0, name, &out->bias);
  return st;
}

/* Claims one scale, repeated for every head of the queries, and one, repeated for every head of the keys. */
static vkf_status head_norm(claimer *c, const vkf_model_attention_names *names, const char *name, uint32_t *out) {
  const vkf_model_stack *s = c->stack;
  vkf_model_source q = whole(names->q_norm, s->key_width), k = whole(names->k_norm, s->key_width);
  q.group_rows = k.group_rows = s->key_width; /* a stride of 0 repeats them */
  q.n_rows = s->n_heads * s->key_width;
  k.n_rows = s->n_kv_heads * s->key_width;
  return add(c, &(linear_parts){{q, k}, 2}, "weight", VKF_WEIGHT_VECTOR, 0, name, out);
}

/* Returns the parts of queries, keys and values, stored as three tensors or as one. */
static linear_parts qkv_parts(const vkf_model_stack *s, const vkf_model_attention_names *names) {
  uint32_t rows[3] = {s->n_heads * s->key_width, s->n_kv_heads * s->key_width, s->n_kv_heads * s->value_width};
  uint32_t widths[3] = {s->key_width, s->key_width, s->value_width};
  const char *stems[3] = {names->q, names->k, names->v};
  linear_parts parts = {.n = 3};
  uint32_t before = 0, before_in_head = 0;
  for (size_t i = 0; i < 3; i++) {
    vkf_model_source source = whole(stems[i], rows[i]);
    if (names->packed != NULL) {
      source.tensor = names->packed;
      source.rows = rows[0] + rows[1] + rows[2];
      source.first_row = names->packed_by_head ? before_in_head : before;
    }
    if (names->packed_by_head) {
      source.group_rows = widths[i];
      source.group_stride = widths[0] + widths[1] + widths[2];
    }
    before += rows[i];
    before_in_head += widths[i];
    parts.sources[i] = source;
  }
  return parts;
}

static vkf_status attention(claimer *c, const vkf_model_attention_names *names, bool is_cross, const char *name,
                            vkf_model_attention *out) {
  const vkf_model_stack *s = c->stack;
  uint32_t d_model = c->net->info.d_model;
  linear_parts all = qkv_parts(s, names);
  linear_parts q = {{all.sources[0]}, 1}, kv = {{all.sources[1], all.sources[2]}, 2};
  linear_parts out_parts = {{whole(names->out, d_model)}, 1};
  char part_name[32];
  snprintf(part_name, sizeof part_name, "%s.%s", name, is_cross ? "q" : "qkv");
  VKF_CALL(linear(c, is_cross ? q : all, d_model, s->qkv_bias, part_name, &out->q));
  snprintf(part_name, sizeof part_name, "%s.kv", name);
  if (is_cross) VKF_CALL(linear(c, kv, d_model, s->qkv_bias, part_name, &out->kv));
  snprintf(part_name, sizeof part_name, "%s.head_norm", name);
  out->head_norm = VKF_NO_WEIGHT;
  if (s->has_head_norm) VKF_CALL(head_norm(c, names, part_name, &out->head_norm));
  snprintf(part_name, sizeof part_name, "%s.out", name);
  VKF_CALL(linear(c, out_parts, s->n_heads * s->value_width, s->out_bias, part_name, &out->out));
  snprintf(part_name, sizeof part_name, "%s.norm", name);
  return norm(c, s->norm_affine, names->norm, part_name, &out->norm);
}

/* Claims act(gate) * up as one weight: a row of the gate, then one of up, as vkf_matmul_params.is_gated needs them. */
static vkf_status gated_linear(claimer *c, const vkf_model_stack_names *names, vkf_model_linear *out) {
  const vkf_model_stack *s = c->stack;
  linear_parts parts = {{whole(names->ffn_gate, s->d_ff), whole(names->ffn_in, s->d_ff)}, 2};
  if (strcmp(names->ffn_gate, names->ffn_in) == 0) {
    parts.sources[0].rows = parts.sources[1].rows = 2 * s->d_ff;
    parts.sources[1].first_row = s->d_ff;
  }
  VKF_CALL(linear(c, parts, c->net->info.d_model, s->ffn_bias, "ffn.in", out));
  c->net->weights[out->weight].takes_turns = true;
  if (out->bias != VKF_NO_WEIGHT) c->net->weights[out->bias].takes_turns = true;
  return VKF_OK;
}

static vkf_status layer(claimer *c, const vkf_model_stack_names *names, vkf_model_layer *out) {
  const vkf_model_stack *s = c->stack;
  uint32_t d_model = c->net->info.d_model;
  linear_parts in = {{whole(names->ffn_in, s->d_ff)}, 1};
  linear_parts back = {{whole(names->ffn_out, d_model)}, 1};
  linear_parts relative = {{whole(names->self.relative, s->relative.n_buckets)}, 1};
  VKF_CALL(attention(c, &names->self, false, "self", &out->self));
  out->relative = VKF_NO_WEIGHT;
  if (names->self.relative != NULL)
    VKF_CALL(add(c, &relative, "weight", VKF_WEIGHT_TABLE, s->n_heads, "self.relative", &out->relative));
  if (s->has_cross) VKF_CALL(attention(c, &names->cross, true, "cross", &out->cross));
  if (s->is_gated)
    VKF_CALL(gated_linear(c, names, &out->ffn_in));
  else
    VKF_CALL(linear(c, in, d_model, s->ffn_bias, "ffn.in", &out->ffn_in));
  VKF_CALL(linear(c, back, s->d_ff, s->ffn_bias, "ffn.out", &out->ffn_out));
  out->ffn_norm = (vkf_model_norm){VKF_NO_WEIGHT, VKF_NO_WEIGHT};
  return s->has_one_norm ? VKF_OK : norm(c, s->norm_affine, names->ffn_norm, "ffn.norm", &out->ffn_norm);
}

/* Refuses layers that are stored behind the last one: the configuration contradicts the files. */
static vkf_status refuse_more_layers(vkf_net *net, const vkf_model_stack *stack, const char *layers,
                                     uint32_t n_stored) {
  const char *const prefixes[] = {layers, net->base != NULL && strncmp(layers, net->base, strlen(net->base)) == 0
                                              ? layers + strlen(net->base)
                                              : layers};
  unsigned long most = 0;
  const char *tensor = NULL;
  for (size_t i = 0; net->tensors != NULL && i < vkf_file_tensors_count(net->tensors); i++) {
    const char *name = vkf_file_tensors_at(net->tensors, i)->name;
    for (size_t k = 0; k < VKF_COUNT(prefixes); k++) {
      size_t length = strlen(prefixes[k]);
      char *end = NULL;
      if (strncmp(name, prefixes[k], length) != 0 || name[length] < '0' || name[length] > '9') continue;
      unsigned long layer = strtoul(name + length, &end, 10);
      if (*end != '.' || layer < n_stored || layer < most) continue;
      most = layer;
      tensor = name;
    }
  }
  if (tensor == NULL) return VKF_OK;
  return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                      "%s: expected %u layers of the %s to be stored, found %lu: tensor \"%s\"", net->config_path,
                      n_stored, stack->name, most + 1, tensor);
}

vkf_status vkf_model_claim_stack(vkf_net *net, vkf_model_stack *stack, const vkf_model_stack_names *names) {
  char prefix[128];
  claimer c = {.net = net, .stack = stack, .prefix = prefix, .is_transposed = names->is_transposed};
  uint32_t n_stored = stack->n_stored > 0 ? stack->n_stored : stack->n_layers;
  if (stack->n_layers > MAX_LAYERS)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected at most %d layers in the %s, found %u",
                        net->config_path, MAX_LAYERS, stack->name, stack->n_layers);
  if ((uint64_t)stack->n_heads * VKF_MAX(stack->key_width, stack->value_width) > MAX_WIDTH)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected heads of at most %d numbers together, found %u of %u",
                        net->config_path, MAX_WIDTH, stack->n_heads, VKF_MAX(stack->key_width, stack->value_width));
  VKF_CALL(refuse_more_layers(net, stack, names->layers, n_stored));
  stack->layers = vkf_arena_alloc(&net->arena, stack->n_layers, sizeof *stack->layers);
  if (stack->layers == NULL) return VKF_ERROR_MEMORY;
  const uint32_t n_inner = VKF_MAX(stack->n_inner, 1u), n_turns = stack->n_layers / n_inner;
  for (uint32_t i = 0, last = UINT32_MAX; i < stack->n_layers; i++) {
    const uint32_t stored = (uint32_t)((uint64_t)(i / n_inner) * n_stored / n_turns);
    if (stored == last && i % n_inner == 0) {
      for (uint32_t k = 0; k < n_inner; k++) stack->layers[i + k] = stack->layers[i + k - n_inner];
      i += n_inner - 1;
      continue;
    }
    last = stored;
    snprintf(prefix, sizeof prefix, "%s%u.", names->layers, stored);
    if (names->inner) snprintf(prefix, sizeof prefix, "%s%u.%s%u.", names->layers, stored, names->inner, i % n_inner);
    snprintf(c.block, sizeof c.block, "%s.%u", stack->name, i);
    VKF_CALL(layer(&c, names, &stack->layers[i]));
  }
  if (stack->has_final_norm) {
    snprintf(prefix, sizeof prefix, "%sweight", names->final_norm);
    bool is_affine = stack->norm_affine || vkf_model_has_tensor(net, prefix, false);
    prefix[0] = 0;
    snprintf(c.block, sizeof c.block, "%s", stack->name);
    VKF_CALL(norm(&c, is_affine, names->final_norm, "norm", &stack->final_norm));
  }
  return VKF_OK;
}
