/* op_attention: builds the plans of one attention on given queries, keys and values: softmax, attention,
 * attention_weights. */
#include <math.h>
#include <string.h>

#include "lab/op.h"

/* Transposes the caller's [B,S,H,K] to [B][H][S][K]. */
static float *head_major(vkf_op_build *o, const vkf_array *a) {
  if (!a) return NULL;
  size_t B = a->shape[0], S = a->shape[1], H = a->shape[2], K = a->shape[3];
  float *out = vkf_lab_op_alloc(o, B * S * H * K, sizeof *out);
  const float *in = a->data;
  for (size_t b = 0; out && b < B; b++)
    for (size_t s = 0; s < S; s++)
      for (size_t h = 0; h < H; h++)
        memcpy(out + ((b * H + h) * S + s) * K, in + ((b * S + s) * H + h) * K, K * sizeof *out);
  return out;
}

/* The arrays as they were given, and their sizes. */
typedef struct inputs {
  const vkf_array *q, *k, *v, *mask, *bias; /* NULL: absent */
  bool causal;
  uint32_t window; /* 0: none */
  size_t B, T, H, K, S, kv, V;
} inputs;

static void take_inputs(vkf_op_build *o, bool weights, inputs *a) {
  const vkf_array *q = vkf_lab_op_input(o, "q", VKF_F32, 4, false), *k = vkf_lab_op_input(o, "k", VKF_F32, 4, false);
  const vkf_array *v = weights ? NULL : vkf_lab_op_input(o, "v", VKF_F32, 4, false);
  const vkf_array *mask = vkf_lab_op_input(o, "mask", VKF_I32, 2, true);
  const vkf_array *bias = vkf_lab_op_input(o, "bias", VKF_F32, 3, true);
  const bool causal = vkf_lab_op_flag(o, "causal"),
             has_window = vkf_file_json_kind(vkf_file_json_member(o->params, "window")) != VKF_FILE_ABSENT;
  const uint32_t window = has_window ? vkf_lab_op_count(o, "window", 1) : 0;
  if (o->b.st) return;
  const size_t B = q->shape[0], T = q->shape[1], H = q->shape[2], K = q->shape[3], S = k->shape[1], kv = k->shape[2],
               V = v ? v->shape[3] : K;
  *a = (inputs){q, k, v, mask, bias, causal, window, B, T, H, K, S, kv, V};
  vkf_lab_op_expect(o, k, 4, (size_t[]){B, S, kv, K});
  vkf_lab_op_expect(o, v, 4, (size_t[]){B, S, kv, V});
  vkf_lab_op_expect(o, mask, 2, (size_t[]){B, S});
  if (bias) vkf_lab_op_expect(o, bias, 3, (size_t[]){bias->shape[0] == 1 ? 1 : H, T, S});
  if (H % kv) vkf_lab_op_fail(o, "q has %zu heads, expected a multiple of the %zu heads of k", H, kv);
  if (window && !causal) vkf_lab_op_fail(o, "window: expected causal attention, found one that sees all keys");
  if (causal && S < T)
    vkf_lab_op_fail(o, "causal attention expects at least as many keys as queries, found %zu keys and %zu queries", S,
                    T);
}

/* Makes the slots and sets the capacity. If causal, S - T tokens count as the past, so that the last query sees every
 * key. */
static void make_slots(vkf_op_build *o, const inputs *a, uint32_t in[VKF_MAX_INPUTS]) {
  o->b.plan.capacity = (vkf_sizes){.B = (uint32_t)a->B,
                                   .S = (uint32_t)a->S,
                                   .R = (uint32_t)a->B,
                                   .T = (uint32_t)a->T,
                                   .past = (uint32_t)(a->causal && a->S > a->T ? a->S - a->T : 0),
                                   .out = 1};
  const vkf_extent seqs = {VKF_DIM_R, (uint32_t)a->B}, keys = {VKF_DIM_S, (uint32_t)a->S},
                   queries = {VKF_DIM_T, (uint32_t)a->T}, rows = {VKF_DIM_RT, (uint32_t)(a->B * a->T)};
  const vkf_extent kv = vkf_lab_op_fixed(a->kv), K = vkf_lab_op_fixed(a->K), V = vkf_lab_op_fixed(a->V),
                   all = vkf_lab_op_fixed(a->H * a->K), heads = vkf_lab_op_fixed(a->bias ? a->bias->shape[0] : 1);
  in[VKF_ATTENTION_Q] = vkf_lab_op_constant(o, "q", VKF_F32, 2, (vkf_extent[]){rows, all}, a->q->data);
  in[VKF_ATTENTION_K] = vkf_lab_op_constant(o, "k", VKF_F32, 4, (vkf_extent[]){seqs, kv, keys, K}, head_major(o, a->k));
  in[VKF_ATTENTION_V] = vkf_lab_op_constant(o, "v", VKF_F32, 4, (vkf_extent[]){seqs, kv, keys, V}, head_major(o, a->v));
  in[VKF_ATTENTION_MASK] =
      vkf_lab_op_constant(o, "mask", VKF_I32, 2, (vkf_extent[]){seqs, keys}, a->mask ? a->mask->data : NULL);
  in[VKF_ATTENTION_BIAS] =
      vkf_lab_op_constant(o, "bias", VKF_F32, 3, (vkf_extent[]){heads, queries, keys}, a->bias ? a->bias->data : NULL);
  in[VKF_ATTENTION_ANCESTRY] = in[VKF_ATTENTION_SPANS] = VKF_NO_SLOT;
}

static void attention(vkf_op_build *o, bool weights) {
  inputs a = {0};
  uint32_t in[VKF_MAX_INPUTS];
  take_inputs(o, weights, &a);
  if (!a.q) return;
  make_slots(o, &a, in);
  const vkf_params p = {.attention = {.seqs = VKF_DIM_R,
                                      .queries = VKF_DIM_T,
                                      .keys = VKF_DIM_S,
                                      .past = VKF_DIM_PAST,
                                      .shared = VKF_DIM_ONE,
                                      .n_heads = (uint32_t)a.H,
                                      .n_kv_heads = (uint32_t)a.kv,
                                      .key_width = (uint32_t)a.K,
                                      .value_width = (uint32_t)a.V,
                                      .window = a.window,
                                      .causal = a.causal,
                                      .bias_per_head = a.bias && a.bias->shape[0] > 1,
                                      .scale = (float)vkf_lab_op_number(o, "scale", 1 / sqrt((double)a.K)),
                                      .softcap = (float)vkf_lab_op_number(o, "softcap", 0)}};
  if (weights || o->trace) {
    uint32_t v_slot = in[VKF_ATTENTION_V];
    in[VKF_ATTENTION_V] = VKF_NO_SLOT;
    uint32_t w = vkf_lab_op_node(o, VKF_OP_ATTENTION_WEIGHTS, "weights", NULL, &p, in, VKF_MAX_INPUTS);
    in[VKF_ATTENTION_V] = v_slot;
    if (weights) vkf_lab_op_output(o, "out", w, 4, (size_t[]){a.B, a.H, a.T, a.S});
  }
  if (weights) return;
  uint32_t out = vkf_lab_op_node(o, VKF_OP_ATTENTION, "attention", NULL, &p, in, VKF_MAX_INPUTS);
  vkf_lab_op_output(o, "out", out, 4, (size_t[]){a.B, a.T, a.H, a.V});
}

void vkf_lab_op_attention(vkf_op_build *o) {
  attention(o, false);
}

void vkf_lab_op_attention_weights(vkf_op_build *o) {
  attention(o, true);
}

/* Makes softmax an attention in which each row of x has one query, 1, and keys of width 1, which are the scores. */
void vkf_lab_op_softmax(vkf_op_build *o) {
  const vkf_array *x = vkf_lab_op_input(o, "x", VKF_F32, 2, false);
  const vkf_array *mask = vkf_lab_op_input(o, "mask", VKF_I32, 2, true);
  if (!x) return;
  size_t M = x->shape[0], N = x->shape[1];
  vkf_lab_op_expect(o, mask, 2, x->shape);
  float *ones = vkf_lab_op_alloc(o, M, sizeof *ones);
  for (size_t i = 0; ones && i < M; i++) ones[i] = o->errors ? 0 : 1;
  o->b.plan.capacity = (vkf_sizes){.B = (uint32_t)M, .S = (uint32_t)N, .R = (uint32_t)M, .T = 1, .out = 1};
  vkf_extent rows = {VKF_DIM_R, (uint32_t)M}, keys = {VKF_DIM_S, (uint32_t)N}, one = vkf_lab_op_fixed(1);
  uint32_t in[VKF_ATTENTION_MASK + 1];
  in[VKF_ATTENTION_Q] = vkf_lab_op_constant(o, "one", VKF_F32, 2, (vkf_extent[]){{VKF_DIM_RT, (uint32_t)M}, one}, ones);
  in[VKF_ATTENTION_K] = vkf_lab_op_constant(o, "x", VKF_F32, 4, (vkf_extent[]){rows, one, keys, one}, x->data);
  in[VKF_ATTENTION_V] = VKF_NO_SLOT;
  in[VKF_ATTENTION_MASK] =
      vkf_lab_op_constant(o, "mask", VKF_I32, 2, (vkf_extent[]){rows, keys}, mask ? mask->data : NULL);
  const vkf_params p = {.attention = {.seqs = VKF_DIM_R,
                                      .queries = VKF_DIM_T,
                                      .keys = VKF_DIM_S,
                                      .past = VKF_DIM_ZERO,
                                      .shared = VKF_DIM_ONE,
                                      .n_heads = 1,
                                      .n_kv_heads = 1,
                                      .key_width = 1,
                                      .value_width = 1,
                                      .scale = 1}};
  uint32_t out = vkf_lab_op_node(o, VKF_OP_ATTENTION_WEIGHTS, "softmax", NULL, &p, in, VKF_COUNT(in));
  vkf_lab_op_output(o, "out", out, 2, (size_t[]){M, N});
}
