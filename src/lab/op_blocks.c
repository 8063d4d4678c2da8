/* op_blocks: builds multi_head_attention, ffn, encoder_block and decoder_block from the sub-layers of op/transformer.h,
 * as models do, with the caller's weights.
 *
 * Weights are [out, in] as in PyTorch's linear layers. Keys and values share a matmul, and so do gate and up, row by
 * row. x [B,T,D] (or [T,D]) is R sequences of T rows; a memory [B,S,Dm] is B sequences of S rows.
 */
#include <math.h>
#include <string.h>

#include "lab/op.h"

/* The sizes and slots of x and of the memory, if there is one. */
typedef struct streams {
  const vkf_array *array; /* x */
  size_t x[3], memory[3];
  uint32_t x_slot, memory_slot;
} streams;

static streams take_streams(vkf_op_build *o, bool has_memory, bool memory_optional) {
  streams s = {.memory_slot = VKF_NO_SLOT};
  s.array = vkf_lab_op_batch(o, "x", false, s.x);
  if (has_memory) vkf_lab_op_batch(o, "memory", memory_optional, s.memory);
  if (s.memory[0] && s.memory[0] != s.x[0])
    vkf_lab_op_fail(o, "memory: expected a batch of %zu as x has, found %zu", s.x[0], s.memory[0]);
  o->b.plan.capacity = (vkf_sizes){.B = (uint32_t)s.x[0],
                                   .S = (uint32_t)VKF_MAX(s.memory[1], (size_t)1),
                                   .R = (uint32_t)s.x[0],
                                   .T = (uint32_t)s.x[1],
                                   .out = 1};
  s.x_slot = vkf_lab_op_rows(o, "x", false, VKF_DIM_RT, s.x[0] * s.x[1], s.x[2]);
  if (s.memory[0])
    s.memory_slot = vkf_lab_op_rows(o, "memory", true, VKF_DIM_BS, s.memory[0] * s.memory[1], s.memory[2]);
  return s;
}

static void give(vkf_op_build *o, const streams *s, uint32_t slot, size_t width) {
  size_t shape[3] = {s->x[0], s->x[1], width};
  if (!o->b.st) vkf_lab_op_output(o, "out", slot, s->array->rank, shape + 3 - s->array->rank);
}

static uint32_t mask_slot(vkf_op_build *o, const char *name, vkf_extent seqs, vkf_extent keys) {
  const vkf_array *mask = vkf_lab_op_input(o, name, VKF_I32, 2, true);
  vkf_lab_op_expect(o, mask, 2, (size_t[]){seqs.cap, keys.cap});
  return vkf_lab_op_constant(o, name, VKF_I32, 2, (vkf_extent[]){seqs, keys}, mask ? mask->data : NULL);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Returns the name of a block's node in traces; names of a decoder's attentions begin with "self_" or "cross_". */
static const char *trace_name(void *user, const char *name) {
  static const char *const names[][2] = {
      {"q", "q"},        {"kv", "kv"},           {"append", "append"},          {"append.k", "k"},
      {"append.v", "v"}, {"weights", "weights"}, {"attention", "concatenated"}, {"out", "projected"}};
  vkf_op_build *o = user;
  const char *tail = strchr(name, '.') + 1, *found = tail;
  if (!strcmp(tail, "norm")) {
    const int number = *name == 's' ? 1 : *name == 'c' || !o->is_decoder ? 2 : 3;
    return vkf_arena_printf(&o->arena, "norm%d", number);
  }
  if (*name == 'f') return !strcmp(tail, "out") ? "fed_forward" : "inner";
  for (size_t i = 0; i < VKF_COUNT(names); i++)
    if (!strcmp(tail, names[i][0])) found = names[i][1];
  return vkf_arena_printf(&o->arena, "%.*s%s%s", o->is_decoder ? (int)(tail - 1 - name) : 0, name,
                          o->is_decoder ? "_" : "", found);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static vkf_linear linear(uint32_t w, uint32_t bias, size_t n, size_t k) {
  return (vkf_linear){vkf_build_slot_operand(w), vkf_build_slot_operand(bias), (uint32_t)n, (uint32_t)k};
}

/* Takes the weight and bias of norm1, norm2 or norm3: norm1_weight, norm1_bias and so on. */
static vkf_block_norm norm(vkf_op_build *o, const char *name, const streams *s) {
  const uint32_t weight = vkf_lab_op_vector(o, vkf_lab_op_name(o, name, "_weight"), s->x[2]);
  const uint32_t bias = vkf_lab_op_vector(o, vkf_lab_op_name(o, name, "_bias"), s->x[2]);
  return (vkf_block_norm){vkf_build_slot_operand(weight), vkf_build_slot_operand(bias), (uint32_t)s->x[2]};
}

/* Reads the parameters of all sub-layers. post: norm(x + sub(x)); pre: x + sub(norm(x)). */
static vkf_block_form take_form(vkf_op_build *o, bool has_norms) {
  static const char *const words[] = {"post", "pre"};
  vkf_block_form form = {.n_heads = 1};
  o->b.label = trace_name;
  if (!has_norms) return form;
  form.norm_first = vkf_lab_op_word(o, "norm", words, 2, 0) == 1;
  vkf_lab_op_norm_kind(o, &form.norm_kind, &form.norm_eps);
  return form;
}

/* Adds a multi-head attention over x, or over the memory if `cross`. The inputs' names begin with `prefix`. *width: of
 * the output. */
static uint32_t attend(vkf_op_build *o, vkf_block_form *form, const char *prefix, const streams *s, bool cross,
                       const vkf_block_norm *norm, uint32_t x, uint32_t residual, size_t *width) {
  static const char *const names[] = {"wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"};
  const char *n[8];
  for (int i = 0; i < 8; i++) n[i] = vkf_lab_op_name(o, prefix, names[i]);
  const size_t source_width = cross ? s->memory[2] : s->x[2], queries = vkf_lab_op_weight_rows(o, n[0], s->x[2]);
  const size_t kv[2] = {vkf_lab_op_weight_rows(o, n[1], source_width), vkf_lab_op_weight_rows(o, n[2], source_width)};
  const uint32_t H = vkf_lab_op_count(o, "heads", 1), n_kv = vkf_lab_op_count(o, "kv_heads", H);
  if (o->b.st) return VKF_NO_SLOT;
  if (queries % H || H % n_kv || kv[0] % n_kv || kv[1] % n_kv || queries / H != kv[0] / n_kv)
    vkf_lab_op_fail(o, "%s has %zu rows and %s %zu, expected the same whole number for each of %u and %u heads", n[0],
                    queries, n[1], kv[0], H, n_kv);
  form->n_heads = H;
  form->n_kv_heads = n_kv;
  form->key_width = (uint32_t)queries / H;
  form->value_width = (uint32_t)kv[1] / n_kv;
  form->scale = (float)(1 / sqrt((double)form->key_width));
  const size_t heads_width = (size_t)H * form->value_width;
  *width = vkf_lab_op_weight_rows(o, n[3], heads_width);
  if (residual != VKF_NO_SLOT && *width != s->x[2])
    vkf_lab_op_fail(o, "%s has %zu rows, expected the width %zu of x", n[3], *width, s->x[2]);
  const vkf_extent seqs = {cross ? VKF_DIM_B : VKF_DIM_R, (uint32_t)s->x[0]};
  const vkf_extent keys = {cross ? VKF_DIM_S : VKF_DIM_KEYS, (uint32_t)(cross ? s->memory[1] : s->x[1])};
  const uint32_t mask = mask_slot(o, cross || !*prefix ? "mask" : vkf_lab_op_name(o, prefix, "mask"), seqs, keys);
  const uint32_t wq = vkf_lab_op_weight(o, &n[0], &queries, 1, s->x[2], VKF_WEIGHT_MATMUL);
  const uint32_t wkv = vkf_lab_op_weight(o, &n[1], kv, 2, source_width, VKF_WEIGHT_MATMUL);
  const uint32_t wo = vkf_lab_op_weight(o, &n[3], width, 1, heads_width, VKF_WEIGHT_MATMUL);
  vkf_attention_layer layer = {.q = linear(wq, vkf_lab_op_vector(o, n[4], queries), queries, s->x[2])};
  layer.kv = linear(wkv, vkf_lab_op_vectors(o, &n[5], kv, 2), kv[0] + kv[1], source_width);
  layer.out = linear(wo, vkf_lab_op_vector(o, n[7], *width), *width, heads_width);
  if (norm) layer.norm = *norm;
  const vkf_block_stream stream = {
      .seqs = VKF_DIM_R, .tokens = VKF_DIM_T, .rows = VKF_DIM_RT, .keys = VKF_DIM_KEYS, .past = VKF_DIM_PAST};
  vkf_attention_inputs inputs = {.mask = vkf_build_slot_operand(mask)};
  if (o->trace) inputs.weights_output = vkf_lab_op_name(o, prefix, "weights");
  if (!cross) return vkf_block_self_attention(&o->b, form, &stream, &layer, &inputs, x, residual);
  const vkf_block_stream memory = {
      .seqs = VKF_DIM_B, .tokens = VKF_DIM_S, .rows = VKF_DIM_BS, .keys = VKF_DIM_S, .past = VKF_DIM_ZERO};
  const uint32_t rows =
      vkf_block_matmul(&o->b, "cross.kv", memory.rows, s->memory_slot, &layer.kv, VKF_ACT_NONE, VKF_NO_SLOT);
  const uint32_t k = vkf_block_append(&o->b, form, "cross.append", &memory, rows, 0, inputs.k, inputs.v);
  inputs.k = vkf_build_slot_operand(k);
  inputs.v = vkf_build_slot_operand(k + 1);
  return vkf_block_cross_attention(&o->b, form, &stream, &layer, &inputs, x, residual);
}

/* Interleaves wg and w1, or their biases (columns 1, rank 1), row by row: [2 n, columns]. NULL: both are absent. */
static const float *gate_and_up(vkf_op_build *o, const char *const names[2], size_t rank, size_t n, size_t columns) {
  const vkf_array *parts[2];
  for (size_t i = 0; i < 2; i++) {
    parts[i] = vkf_lab_op_input(o, names[i], VKF_F32, rank, rank == 1);
    vkf_lab_op_expect(o, parts[i], rank, (size_t[]){n, columns});
  }
  float *rows = parts[0] || parts[1] ? vkf_lab_op_alloc(o, 2 * n * columns, sizeof *rows) : NULL; /* zeroed */
  for (size_t row = 0; rows && row < 2 * n; row++)
    if (parts[row % 2])
      memcpy(rows + row * columns, (const float *)parts[row % 2]->data + row / 2 * columns, columns * sizeof *rows);
  return rows;
}

/* Makes the linear layer of both, to F columns each. */
static vkf_linear gate_and_up_linear(vkf_op_build *o, size_t F, size_t width) {
  static const char *const names[] = {"wg", "w1"}, *const biases[] = {"bg", "b1"};
  const uint32_t index = o->n_weights;
  const float *weight = gate_and_up(o, names, 2, F, width), *bias = gate_and_up(o, biases, 1, F, 1);
  const uint32_t w = vkf_lab_op_weight_slot(o, "wg", 2 * F, width, VKF_WEIGHT_MATMUL);
  if (!o->b.st) o->parts[index] = (vkf_op_weight){.part = {weight}, .n_elements = {2 * F * width}};
  const vkf_extent rows = vkf_lab_op_fixed(2 * F);
  return linear(w, vkf_lab_op_constant(o, "bg", VKF_F32, 1, &rows, bias), 2 * F, width);
}

/* Adds act(x w1 + b1) w2 + b2 + residual or, with wg, (act(x wg + bg) * (x w1 + b1)) w2 + b2 + residual. */
static uint32_t feed_forward(vkf_op_build *o, vkf_block_form *form, const streams *s, const vkf_block_norm *norm,
                             uint32_t x, uint32_t residual, size_t *width) {
  static const char *const w1_name = "w1", *const w2_name = "w2";
  const size_t F = vkf_lab_op_weight_rows(o, "w1", s->x[2]);
  form->is_gated = vkf_engine_array_find(o->inputs, o->n_inputs, "wg") != NULL;
  if (!form->is_gated && vkf_engine_array_find(o->inputs, o->n_inputs, "bg"))
    vkf_lab_op_fail(o, "bg: expected wg as well, found none");
  form->activation = vkf_lab_op_activation(o, form->is_gated ? "swish" : "relu");
  *width = vkf_lab_op_weight_rows(o, "w2", F);
  if (o->b.st) return VKF_NO_SLOT;
  if (residual != VKF_NO_SLOT && *width != s->x[2])
    vkf_lab_op_fail(o, "w2 has %zu rows, expected the width %zu of x", *width, s->x[2]);
  vkf_linear in;
  if (form->is_gated) {
    in = gate_and_up_linear(o, F, s->x[2]);
  } else {
    const uint32_t w1 = vkf_lab_op_weight(o, &w1_name, &F, 1, s->x[2], VKF_WEIGHT_MATMUL);
    in = linear(w1, vkf_lab_op_vector(o, "b1", F), F, s->x[2]);
  }
  const uint32_t w2 = vkf_lab_op_weight(o, &w2_name, width, 1, F, VKF_WEIGHT_MATMUL);
  const vkf_linear out = linear(w2, vkf_lab_op_vector(o, "b2", *width), *width, F);
  const vkf_block_norm none = {.width = 0};
  return vkf_block_feed_forward(&o->b, form, VKF_DIM_RT, &in, &out, norm ? norm : &none, x, residual);
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

void vkf_lab_op_multi_head_attention(vkf_op_build *o) {
  streams s = take_streams(o, true, true);
  vkf_block_form form = take_form(o, false);
  size_t width;
  form.causal = vkf_lab_op_flag(o, "causal");
  if (form.causal && s.memory[0]) vkf_lab_op_fail(o, "causal: expected self-attention, found a memory");
  uint32_t out = attend(o, &form, "", &s, s.memory[0] > 0, NULL, s.x_slot, VKF_NO_SLOT, &width);
  give(o, &s, out, width);
}

void vkf_lab_op_ffn(vkf_op_build *o) {
  streams s = take_streams(o, false, false);
  vkf_block_form form = take_form(o, false);
  size_t width;
  uint32_t out = feed_forward(o, &form, &s, NULL, s.x_slot, VKF_NO_SLOT, &width);
  give(o, &s, out, width);
}

void vkf_lab_op_encoder_block(vkf_op_build *o) {
  streams s = take_streams(o, false, false);
  vkf_block_form form = take_form(o, true);
  const vkf_block_norm norms[] = {norm(o, "norm1", &s), norm(o, "norm2", &s)};
  size_t width;
  form.causal = vkf_lab_op_flag(o, "causal");
  uint32_t x = attend(o, &form, "", &s, false, &norms[0], s.x_slot, s.x_slot, &width);
  give(o, &s, feed_forward(o, &form, &s, &norms[1], x, x, &width), s.x[2]);
}

void vkf_lab_op_decoder_block(vkf_op_build *o) {
  streams s = take_streams(o, true, false);
  vkf_block_form form = take_form(o, true);
  const vkf_block_norm norms[] = {norm(o, "norm1", &s), norm(o, "norm2", &s), norm(o, "norm3", &s)};
  size_t width;
  o->is_decoder = form.causal = true;
  uint32_t x = attend(o, &form, "self_", &s, false, &norms[0], s.x_slot, s.x_slot, &width);
  x = attend(o, &form, "cross_", &s, true, &norms[1], x, x, &width);
  give(o, &s, feed_forward(o, &form, &s, &norms[2], x, x, &width), s.x[2]);
}
