/* One op on host arrays: a plan of one node, run on the production path.
 *
 * Each public op is a function that reads its arrays into slots; packing, variants and barriers are those of models.
 */
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "file/json.h"

enum { MAX_SLOTS = VKF_MAX_INPUTS + VKF_MAX_OUTPUTS };

/* The plan under construction. */
typedef struct one_op {
  vkf_env *env;
  const vkf_array *inputs;
  size_t n_inputs;
  vkf_file_value params;
  vkf_arena arena;
  vkf_slot slots[MAX_SLOTS];
  vkf_node node;
  vkf_block block;
  vkf_plan plan;
  vkf_sizes sizes;
  vkf_weight_info weight;
  const float *weight_data;
  size_t out_shape[4], out_rank;
} one_op;

static vkf_extent fixed(size_t n) {
  return (vkf_extent){VKF_DIM_ONE, (uint32_t)n};
}

static uint32_t add_slot(one_op *o, const char *name, vkf_slot_kind kind, vkf_dtype dtype, uint32_t rank,
                         const vkf_extent *extent, const void *data) {
  vkf_slot *s = &o->slots[o->plan.n_slots];
  *s = (vkf_slot){.name = name, .kind = kind, .dtype = dtype, .rank = rank, .data = data};
  memcpy(s->extent, extent, rank * sizeof *extent);
  return o->plan.n_slots++;
}

/* A float32 array of the given rank; *out NULL if it is optional and not there. */
static vkf_status find_input(one_op *o, const char *name, vkf_dtype dtype, size_t rank, bool optional,
                             const vkf_array **out) {
  const vkf_array *a = vkf_engine_array_find(o->inputs, o->n_inputs, name);
  *out = a;
  if (!a)
    return optional ? VKF_OK
                    : vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "expected an input called %s, found none", name);
  if (a->dtype != dtype || a->rank != rank || !a->data)
    return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s: expected %s of %zu dimensions, found %s of %zu", name,
                        vkf_dtype_name(dtype), rank, vkf_dtype_name(a->dtype), a->rank);
  for (size_t i = 0; i < rank; i++)
    if (!a->shape[i] || a->shape[i] > UINT32_MAX / 4)
      return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s: extent %zu is %zu, expected 1 to 2^30", name, i,
                          a->shape[i]);
  return VKF_OK;
}

static vkf_status expect_shape(one_op *o, const vkf_array *a, size_t rank, const size_t *shape) {
  for (size_t i = 0; a && i < rank; i++)
    if (a->shape[i] != shape[i])
      return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s: extent %zu is %zu, expected %zu", a->name, i, a->shape[i],
                          shape[i]);
  return VKF_OK;
}

/* A vector of n numbers as input i of the node; nothing where it is not there. */
static vkf_status add_vector(one_op *o, const char *name, size_t n, uint32_t i) {
  const vkf_array *a;
  vkf_status st = find_input(o, name, VKF_F32, 1, true, &a);
  if (!st) st = expect_shape(o, a, 1, &n);
  if (!st && a) o->node.in[i] = add_slot(o, name, VKF_SLOT_CONSTANT, VKF_F32, 1, (vkf_extent[]){fixed(n)}, a->data);
  return st;
}

/* A matrix of R rows as input i of the node. */
static vkf_status add_rows(one_op *o, const char *name, bool optional, size_t rows, size_t width, uint32_t i) {
  const vkf_array *a;
  vkf_status st = find_input(o, name, VKF_F32, 2, optional, &a);
  if (!st) st = expect_shape(o, a, 2, (size_t[]){rows, width});
  if (!st && a)
    o->node.in[i] = add_slot(o, name, VKF_SLOT_CONSTANT, VKF_F32, 2,
                             (vkf_extent[]){{VKF_DIM_R, (uint32_t)rows}, fixed(width)}, a->data);
  return st;
}

/* The rows and width of x, which set the sizes. */
static vkf_status take_x(one_op *o, size_t shape[2]) {
  const vkf_array *x;
  vkf_status st = find_input(o, "x", VKF_F32, 2, false, &x);
  if (st) return st;
  shape[0] = x->shape[0];
  shape[1] = x->shape[1];
  o->sizes = (vkf_sizes){.B = 1, .S = 1, .R = (uint32_t)shape[0], .T = 1, .out = 1};
  return add_rows(o, "x", false, shape[0], shape[1], 0);
}

static void set_out(one_op *o, size_t rows, size_t width) {
  o->node.out[0] =
      add_slot(o, "out", VKF_SLOT_TEMP, VKF_F32, 2, (vkf_extent[]){{VKF_DIM_R, (uint32_t)rows}, fixed(width)}, NULL);
  o->slots[o->node.out[0]].output = "out";
  o->out_rank = 2;
  o->out_shape[0] = rows;
  o->out_shape[1] = width;
}

static vkf_status make_matmul(one_op *o) {
  vkf_status st = VKF_OK;
  const vkf_array *w;
  const char *activation = NULL;
  size_t x[2];
  vkf_matmul_params *p = &o->node.params.matmul;
  VKF_TRY(take_x(o, x));
  VKF_TRY(find_input(o, "w", VKF_F32, 2, false, &w));
  VKF_TRY(expect_shape(o, w, 2, (size_t[]){w->shape[0], x[1]}));
  o->weight = (vkf_weight_info){
      .name = "w", .rank = 2, .shape = {(uint32_t)w->shape[0], (uint32_t)w->shape[1]}, .use = VKF_WEIGHT_MATMUL};
  o->weight_data = w->data;
  o->node.in[VKF_MATMUL_W] =
      add_slot(o, "w", VKF_SLOT_WEIGHT, VKF_F32, 2, (vkf_extent[]){fixed(w->shape[0]), fixed(w->shape[1])}, NULL);
  VKF_TRY(add_vector(o, "bias", w->shape[0], VKF_MATMUL_BIAS));
  VKF_TRY(add_rows(o, "residual", true, x[0], w->shape[0], VKF_MATMUL_RESIDUAL));
  VKF_TRY(vkf_file_json_find_string(o->params, "activation", "none", &activation));
  *p = (vkf_matmul_params){
      .rows = VKF_DIM_R, .n = (uint32_t)w->shape[0], .k = (uint32_t)x[1], .activation = VKF_ACT_COUNT};
  for (uint32_t a = 0; a < VKF_ACT_COUNT; a++)
    if (!strcmp(activation, vkf_activation_name(a))) p->activation = a;
  if (p->activation == VKF_ACT_COUNT)
    VKF_FAIL(
        o->env, VKF_ERROR_ARGUMENT,
        "activation: expected none, relu, gelu, gelu_tanh, swish, tanh, sigmoid, quick_gelu or relu2, found \"%s\"",
        activation);
  set_out(o, x[0], w->shape[0]);
done:
  return st;
}

static vkf_status make_norm(one_op *o) {
  vkf_status st = VKF_OK;
  size_t x[2];
  double eps;
  bool rms;
  VKF_TRY(take_x(o, x));
  VKF_TRY(add_rows(o, "residual", true, x[0], x[1], VKF_NORM_RESIDUAL));
  VKF_TRY(add_vector(o, "weight", x[1], VKF_NORM_WEIGHT));
  VKF_TRY(add_vector(o, "bias", x[1], VKF_NORM_BIAS));
  VKF_TRY(vkf_file_json_find_double(o->params, "eps", 1e-5, &eps));
  VKF_TRY(vkf_file_json_find_bool(o->params, "rms", false, &rms));
  if (!(eps >= 0) || !isfinite((float)eps))
    VKF_FAIL(o->env, VKF_ERROR_ARGUMENT, "eps: expected a number of at least 0, found %g", eps);
  o->node.params.norm = (vkf_norm_params){
      .rows = VKF_DIM_R, .width = (uint32_t)x[1], .kind = rms ? VKF_NORM_RMS : VKF_NORM_LAYER, .eps = (float)eps};
  set_out(o, x[0], x[1]);
done:
  return st;
}

static vkf_status make_log_softmax(one_op *o) {
  vkf_status st = VKF_OK;
  size_t x[2];
  VKF_TRY(take_x(o, x));
  o->node.params.log_softmax = (vkf_log_softmax_params){VKF_DIM_R, (uint32_t)x[1]};
  set_out(o, x[0], x[1]);
done:
  return st;
}

/* [B,S,H,K] as callers have it to [B][H][S][K]. */
static float *head_major(one_op *o, const vkf_array *a) {
  size_t B = a->shape[0], S = a->shape[1], H = a->shape[2], K = a->shape[3];
  float *out = vkf_arena_alloc(&o->arena, B * S * H * K, sizeof *out);
  const float *in = a->data;
  if (!out) return NULL;
  for (size_t b = 0; b < B; b++)
    for (size_t s = 0; s < S; s++)
      for (size_t h = 0; h < H; h++)
        memcpy(out + ((b * H + h) * S + s) * K, in + ((b * S + s) * H + h) * K, K * sizeof *out);
  return out;
}

static vkf_status make_attention(one_op *o) {
  vkf_status st = VKF_OK;
  const vkf_array *q, *k, *v, *mask;
  double scale;
  bool causal;
  VKF_TRY(find_input(o, "q", VKF_F32, 4, false, &q));
  VKF_TRY(find_input(o, "k", VKF_F32, 4, false, &k));
  VKF_TRY(find_input(o, "v", VKF_F32, 4, false, &v));
  size_t B = q->shape[0], T = q->shape[1], H = q->shape[2], K = q->shape[3], S = k->shape[1], kv = k->shape[2],
         V = v->shape[3];
  VKF_TRY(expect_shape(o, k, 4, (size_t[]){B, S, kv, K}));
  VKF_TRY(expect_shape(o, v, 4, (size_t[]){B, S, kv, V}));
  if (H % kv) VKF_FAIL(o->env, VKF_ERROR_ARGUMENT, "q has %zu heads, expected a multiple of the %zu heads of k", H, kv);
  VKF_TRY(find_input(o, "mask", VKF_I32, 2, true, &mask));
  VKF_TRY(expect_shape(o, mask, 2, (size_t[]){B, S}));
  VKF_TRY(vkf_file_json_find_double(o->params, "scale", 1 / sqrt((double)K), &scale));
  VKF_TRY(vkf_file_json_find_bool(o->params, "causal", false, &causal));
  if (causal && S < T)
    VKF_FAIL(o->env, VKF_ERROR_ARGUMENT,
             "causal attention expects at least as many keys as queries, found %zu keys and %zu queries", S, T);
  /* With a cache of S - T earlier tokens the last query sees every key. */
  o->sizes = (vkf_sizes){.B = (uint32_t)B,
                         .S = (uint32_t)S,
                         .R = (uint32_t)B,
                         .T = (uint32_t)T,
                         .past = (uint32_t)(causal ? S - T : 0),
                         .out = 1};
  const float *k_heads = head_major(o, k), *v_heads = head_major(o, v);
  if (!k_heads || !v_heads) VKF_FAIL(o->env, VKF_ERROR_MEMORY, "no memory for keys and values");
  vkf_extent seqs = {VKF_DIM_R, (uint32_t)B}, keys = {VKF_DIM_S, (uint32_t)S};
  o->node.in[VKF_ATTENTION_Q] = add_slot(o, "q", VKF_SLOT_CONSTANT, VKF_F32, 2,
                                         (vkf_extent[]){{VKF_DIM_RT, (uint32_t)(B * T)}, fixed(H * K)}, q->data);
  o->node.in[VKF_ATTENTION_K] =
      add_slot(o, "k", VKF_SLOT_CONSTANT, VKF_F32, 4, (vkf_extent[]){seqs, fixed(kv), keys, fixed(K)}, k_heads);
  o->node.in[VKF_ATTENTION_V] =
      add_slot(o, "v", VKF_SLOT_CONSTANT, VKF_F32, 4, (vkf_extent[]){seqs, fixed(kv), keys, fixed(V)}, v_heads);
  if (mask)
    o->node.in[VKF_ATTENTION_MASK] =
        add_slot(o, "mask", VKF_SLOT_CONSTANT, VKF_I32, 2, (vkf_extent[]){seqs, keys}, mask->data);
  o->node.params.attention = (vkf_attention_params){.seqs = VKF_DIM_R,
                                                    .queries = VKF_DIM_T,
                                                    .keys = VKF_DIM_S,
                                                    .past = VKF_DIM_PAST,
                                                    .shared = VKF_DIM_ONE,
                                                    .n_heads = (uint32_t)H,
                                                    .n_kv_heads = (uint32_t)kv,
                                                    .key_width = (uint32_t)K,
                                                    .value_width = (uint32_t)V,
                                                    .causal = causal,
                                                    .scale = (float)scale};
  o->node.out[0] = add_slot(o, "out", VKF_SLOT_TEMP, VKF_F32, 2,
                            (vkf_extent[]){{VKF_DIM_RT, (uint32_t)(B * T)}, fixed(H * V)}, NULL);
  o->slots[o->node.out[0]].output = "out";
  o->out_rank = 4;
  memcpy(o->out_shape, (size_t[]){B, T, H, V}, sizeof o->out_shape);
done:
  return st;
}

static const struct {
  vkf_op op;
  vkf_status (*make)(one_op *);
  const char *inputs, *params; /* the names that it knows, each between spaces */
} public_ops[] = {
    {VKF_OP_MATMUL, make_matmul, " x w bias residual ", " activation "},
    {VKF_OP_ATTENTION, make_attention, " q k v mask ", " scale causal "},
    {VKF_OP_NORM, make_norm, " x residual weight bias ", " eps rms "},
    {VKF_OP_LOG_SOFTMAX, make_log_softmax, " x ", " "},
};

static bool has_word(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *at = words; (at = strstr(at, word)); at++)
    if (at > words && at[-1] == ' ' && at[n] == ' ') return true;
  return false;
}

static vkf_status check_names(one_op *o, size_t i) {
  for (size_t a = 0; a < o->n_inputs; a++)
    if (!o->inputs[a].name || !has_word(public_ops[i].inputs, o->inputs[a].name))
      return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s has no input called %s; expected%s",
                          vkf_op_name(public_ops[i].op), o->inputs[a].name ? o->inputs[a].name : "NULL",
                          public_ops[i].inputs);
  for (size_t k = 0; k < vkf_file_json_count(o->params); k++)
    if (!has_word(public_ops[i].params, vkf_file_json_key(o->params, k)))
      return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s has no parameter called %s; expected%s",
                          vkf_op_name(public_ops[i].op), vkf_file_json_key(o->params, k), public_ops[i].params);
  return VKF_OK;
}

static vkf_status load_weight(void *user, uint32_t index, float *dst) {
  const one_op *o = user;
  (void)index;
  memcpy(dst, o->weight_data, (size_t)o->weight.shape[0] * o->weight.shape[1] * sizeof *dst);
  return VKF_OK;
}

static vkf_status run_plan(one_op *o, vkf_backend *backend, const char *variant, vkf_result *result) {
  vkf_status st = VKF_OK;
  const vkf_backend_table *b = backend->table;
  const vkf_weight_source source = {o, o->weight_data ? 1 : 0, &o->weight, load_weight};
  const vkf_program_options options = {.variant = variant};
  vkf_weights *weights = NULL;
  vkf_program *program = NULL;
  vkf_dims dims = vkf_dims_make(&o->sizes);
  void *data = NULL;
  VKF_TRY(vkf_plan_check(o->env, &o->plan));
  VKF_TRY(b->weights_create(backend, &source, variant, &weights));
  VKF_TRY(b->program_create(backend, &o->plan, weights, NULL, &options, &program));
  VKF_TRY(b->run(program, &dims, 0, 1));
  VKF_TRY(vkf_engine_result_add(result, "out", VKF_F32, o->out_rank, o->out_shape, &data));
  VKF_TRY(b->read(program, o->node.out[0], &dims, data));
done:
  if (program) b->program_destroy(&program);
  if (weights) b->weights_destroy(&weights);
  return st;
}

vkf_status vkf_device_run_op(vkf_device *dev, const char *op, const char *params_json, const vkf_array *inputs,
                             size_t n_inputs, const char *variant, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_env *env = &dev->ctx->env;
  vkf_file_json *json = NULL;
  vkf_result *result = NULL;
  size_t i = 0;
  one_op o = {.env = env, .inputs = inputs, .n_inputs = n_inputs, .node = {.name = op}, .block = {op, 0, 1}};
  *out = NULL;
  vkf_env_clear(env);
  vkf_arena_init(&o.arena, env);
  if (!params_json) params_json = "{}";
  while (i < VKF_COUNT(public_ops) && (!op || strcmp(op, vkf_op_name(public_ops[i].op)))) i++;
  if (i == VKF_COUNT(public_ops))
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected the op matmul, attention, norm or log_softmax, found %s",
             op ? op : "NULL");
  VKF_TRY(vkf_file_json_parse(env, "the op's parameters", params_json, strlen(params_json), &json));
  VKF_TRY(vkf_file_json_as_object(vkf_file_json_root(json), &o.params));
  for (size_t s = 0; s < VKF_MAX_INPUTS; s++) o.node.in[s] = VKF_NO_SLOT;
  for (size_t s = 0; s < VKF_MAX_OUTPUTS; s++) o.node.out[s] = VKF_NO_SLOT;
  o.node.op = public_ops[i].op;
  VKF_TRY(check_names(&o, i));
  VKF_TRY(public_ops[i].make(&o));
  o.plan = (vkf_plan){o.slots, o.plan.n_slots, &o.node, 1, &o.block, 1, o.sizes};
  VKF_TRY(vkf_engine_result_create(env, &result));
  VKF_TRY(run_plan(&o, dev->backend, variant, result));
done:
  vkf_file_json_destroy(&json);
  vkf_arena_finish(&o.arena);
  if (st) vkf_result_destroy(&result);
  *out = result;
  return st;
}
