/* llama: Llama, Mistral, Qwen2, Qwen3, Gemma, Phi, Phi-3, OLMo, Granite, StableLM and StarCoder2 as transformers
 * computes them (Touvron et al. 2023, Jiang et al. 2023, Yang et al. 2024 and 2025, Gemma Team 2024, Gunasekar et al.
 * 2023, Abdin et al. 2024, Groeneveld et al. 2024, Granite Team 2024, Bellagente et al. 2024, Lozhkov et al. 2024).
 *
 * Pre-norm decoders with rotary positions, grouped queries and, most of them, a gated feed-forward layer. They differ
 * in biases, in norms, in which layers have a window and in which matrices are stored together.
 *
 * Keys that cannot matter here: dropouts, initializer_range, use_cache, pretraining_tp, rope_interleaved (false),
 * dtype.
 */
#include <math.h>
#include <string.h>

#include "model/internal.h"

static const vkf_model_stack_names usual_names = {
    .layers = "model.layers.",
    .self = {.q = "self_attn.q_proj.",
             .k = "self_attn.k_proj.",
             .v = "self_attn.v_proj.",
             .out = "self_attn.o_proj.",
             .norm = "input_layernorm.",
             .q_norm = "self_attn.q_norm.",
             .k_norm = "self_attn.k_norm."},
    .ffn_gate = "mlp.gate_proj.",
    .ffn_in = "mlp.up_proj.",
    .ffn_out = "mlp.down_proj.",
    .ffn_norm = "post_attention_layernorm.",
    .final_norm = "model.norm.",
};

typedef struct variant {
  const char *model_type;
  uint32_t head_width; /* default of head_dim; 0: D/H */
  uint32_t n_kv_heads; /* default of num_key_value_heads; 0 (and if it is null): as many as heads */
  double norm_eps;     /* default of rms_norm_eps; 0: the norms are not RMS norms */
  double part;         /* of a head that turns, unless the folder says otherwise; 0: whole heads, whatever it says */
  bool turns_pairs;    /* as vkf_model_rotary_rules */
  bool is_tied;        /* the head, unless the folder says otherwise */
  bool qkv_bias;
  bool reads_bias;     /* the key attention_bias says whether q, k, v and out have biases */
  bool reads_ffn_bias; /* and mlp_bias the feed-forward layer */
  bool has_head_norm, has_head_bias;
  enum { WINDOW_NONE, WINDOW_ALL, WINDOW_WRITTEN, WINDOW_SOME } window; /* WRITTEN: all, if the folder has one */
  /* Sets what else differs in net->decoder and in the names; NULL: nothing. */
  vkf_status (*map)(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names);
} variant;

static vkf_status heads(vkf_net *net, vkf_file_value config, const variant *v, vkf_model_stack *stack) {
  uint32_t d_model = net->info.d_model;
  VKF_CALL(vkf_model_get_size(net, config, "num_attention_heads", &stack->n_heads));
  bool is_null = vkf_file_json_kind(vkf_file_json_member(config, "num_key_value_heads")) == VKF_FILE_NULL;
  uint32_t usual_kv = v->n_kv_heads > 0 && !is_null ? v->n_kv_heads : stack->n_heads;
  VKF_CALL(vkf_model_find_size(net, config, "num_key_value_heads", usual_kv, &stack->n_kv_heads));
  if (stack->n_heads % stack->n_kv_heads != 0)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected a divisor of num_attention_heads %u as num_key_value_heads, found %u",
                        net->config_path, stack->n_heads, stack->n_kv_heads);
  uint32_t usual = v->head_width > 0 ? v->head_width : VKF_MAX(d_model / stack->n_heads, 1u);
  VKF_CALL(vkf_model_find_size(net, config, "head_dim", usual, &stack->key_width));
  stack->value_width = stack->key_width;
  stack->scale = (float)(1 / sqrt(stack->key_width));
  return VKF_OK;
}

/* Finds the layers with a window: all (Mistral), or those in layer_types, else those from max_window_layers on. */
static vkf_status windows(vkf_net *net, vkf_file_value config, const variant *v, vkf_model_stack *stack) {
  vkf_file_value types = {0}; /* Mistral reads none */
  uint32_t window = 0;
  int64_t first = 0;
  const vkf_file_kind kind = vkf_file_json_kind(vkf_file_json_member(config, "sliding_window"));
  bool is_used = v->window == WINDOW_ALL || (v->window == WINDOW_WRITTEN && kind != VKF_FILE_ABSENT);
  if (v->window == WINDOW_NONE) return VKF_OK;
  if (v->window == WINDOW_SOME) {
    VKF_CALL(vkf_file_json_find_array(config, "layer_types", &types));
    VKF_CALL(vkf_file_json_find_bool(config, "use_sliding_window", false, &is_used));
    VKF_CALL(vkf_file_json_find_int64(config, "max_window_layers", 28, &first));
  }
  is_used = is_used && kind != VKF_FILE_NULL;
  if (is_used) VKF_CALL(vkf_model_find_size(net, config, "sliding_window", 4096, &window));
  for (uint32_t i = 0; i < stack->n_layers; i++) {
    const char *type = i >= first ? "sliding_attention" : "full_attention";
    if (i < vkf_file_json_count(types)) VKF_CALL(vkf_file_json_as_string(vkf_file_json_at(types, i), &type));
    if (strcmp(type, "sliding_attention") == 0)
      stack->layers[i].window = window;
    else if (strcmp(type, "full_attention") != 0)
      return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: layer_types \"%s\" is not supported", net->config_path,
                          type);
  }
  return VKF_OK;
}

/* Norms' scales are stored minus 1; embeddings are scaled. hidden_activation, if it is there, is the one that the model
 * was trained with, whatever hidden_act says. */
static vkf_status map_gemma(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  vkf_model_stack *stack = &net->decoder;
  (void)names;
  VKF_CALL(vkf_model_only_bool(net, config, "use_bidirectional_attention", false));
  VKF_CALL(vkf_model_find_activation(net, config, "hidden_act", "gelu_pytorch_tanh", &stack->activation));
  if (vkf_file_json_kind(vkf_file_json_member(config, "hidden_activation")) > VKF_FILE_NULL)
    VKF_CALL(vkf_model_find_activation(net, config, "hidden_activation", NULL, &stack->activation));
  stack->norm_plus = 1;
  stack->embed_scale = (float)sqrt(net->info.d_model);
  return VKF_OK;
}

/* Sets layer norms, whose epsilon has a key of its own. */
static vkf_status find_layer_norms(vkf_net *net, vkf_file_value config, const char *key) {
  net->decoder.norm_kind = VKF_NORM_LAYER;
  return vkf_model_find_epsilon(net, config, key, 1e-5, &net->decoder.norm_eps);
}

/* Attention and feed-forward layer side by side, of the same normed states; biases everywhere. */
static vkf_status map_phi(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  vkf_model_stack *stack = &net->decoder;
  names->self.out = "self_attn.dense.";
  names->ffn_gate = names->ffn_norm = NULL;
  names->ffn_in = "mlp.fc1.";
  names->ffn_out = "mlp.fc2.";
  names->final_norm = "model.final_layernorm.";
  stack->is_gated = false;
  stack->is_parallel = stack->has_one_norm = stack->out_bias = stack->ffn_bias = true;
  VKF_CALL(vkf_model_only_bool(net, config, "qk_layernorm", false));
  VKF_CALL(vkf_model_find_activation(net, config, "hidden_act", "gelu_new", &stack->activation));
  return find_layer_norms(net, config, "layer_norm_eps");
}

/* Queries, keys and values are one tensor; gates and what they multiply are another. */
static vkf_status map_phi3(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  (void)net, (void)config;
  names->self.packed = "self_attn.qkv_proj.";
  names->ffn_gate = names->ffn_in = "mlp.gate_up_proj.";
  return VKF_OK;
}

/* Layer norms; sub-layers one after the other, or side by side as Phi's. */
static vkf_status map_stablelm(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  vkf_model_stack *stack = &net->decoder;
  const uint32_t d_model = net->info.d_model;
  (void)names;
  if ((uint64_t)stack->n_heads * stack->key_width != d_model)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected heads that fill hidden_size %u, found %u of width %u",
                        net->config_path, d_model, stack->n_heads, stack->key_width);
  VKF_CALL(vkf_model_only_bool(net, config, "qk_layernorm", false));
  VKF_CALL(vkf_file_json_find_bool(config, "use_qkv_bias", false, &stack->qkv_bias));
  VKF_CALL(vkf_file_json_find_bool(config, "use_parallel_residual", false, &stack->is_parallel));
  stack->has_one_norm = stack->is_parallel;
  return find_layer_norms(net, config, "layer_norm_eps");
}

/* Layer norms, biases everywhere or nowhere, no gates. */
static vkf_status map_starcoder2(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  vkf_model_stack *stack = &net->decoder;
  names->ffn_gate = NULL;
  names->ffn_in = "mlp.c_fc.";
  names->ffn_out = "mlp.c_proj.";
  stack->is_gated = false;
  VKF_CALL(vkf_file_json_find_bool(config, "use_bias", true, &stack->qkv_bias));
  stack->out_bias = stack->ffn_bias = stack->qkv_bias;
  VKF_CALL(vkf_model_find_activation(net, config, "hidden_act", "gelu_pytorch_tanh", &stack->activation));
  return find_layer_norms(net, config, "norm_epsilon");
}

/* Factors of embeddings, of scores, of what each sub-layer adds, and of logits. */
static vkf_status map_granite(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  vkf_model_stack *stack = &net->decoder;
  double embeddings = 0, scores = 0, residual = 0, divisor = 0;
  vkf_model_head_kind kind; /* classes of texts, which transformers does not have, would need a rule for the factor */
  const uint32_t kinds = 1u << VKF_HEAD_NONE | 1u << VKF_HEAD_CAUSAL_LM;
  (void)names;
  VKF_CALL(vkf_model_find_head(net, config, kinds, VKF_HEAD_CAUSAL_LM, &kind));
  VKF_CALL(vkf_model_find_number(net, config, "embedding_multiplier", 1, 1e-9, 1e9, &embeddings));
  VKF_CALL(vkf_model_find_number(net, config, "attention_multiplier", 1, 1e-9, 1e9, &scores));
  VKF_CALL(vkf_model_find_number(net, config, "residual_multiplier", 1, 1e-9, 1e9, &residual));
  VKF_CALL(vkf_model_find_number(net, config, "logits_scaling", 1, 1e-9, 1e9, &divisor));
  if (residual != 1) {
    VKF_CALL(vkf_model_only_bool(net, config, "attention_bias", false)); /* the factor is of biases, too */
    VKF_CALL(vkf_model_only_bool(net, config, "mlp_bias", false));
  }
  stack->embed_scale = (float)embeddings;
  stack->scale = (float)scores;
  stack->residual_scale = (float)residual;
  net->head.scale = (float)(1 / divisor);
  return VKF_OK;
}

/* Layer norms without parameters. */
static vkf_status map_olmo(vkf_net *net, vkf_file_value config, vkf_model_stack_names *names) {
  vkf_model_stack *stack = &net->decoder;
  (void)names;
  stack->norm_kind = VKF_NORM_LAYER;
  stack->norm_affine = false;
  stack->norm_eps = 1e-5f;
  return vkf_model_only_absent(net, config, "clip_qkv");
}

/* The logits have a bias, whether or not their matrix is tied. */
static vkf_status claim_head_bias(vkf_net *net) {
  const uint32_t vocab = net->decoder.vocab;
  const vkf_model_source bias = {.tensor = "lm_head.bias", .rows = vocab, .n_rows = vocab};
  if (net->info.has_head && net->head.reads == VKF_HEAD_READS_ALL)
    return vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &bias, 1, &net->head.out.bias, "head.bias");
  vkf_model_mark_known(net, bias.tensor);
  return VKF_OK;
}

static const variant variants[] = {
    {"llama", .norm_eps = 1e-6, .reads_bias = true, .reads_ffn_bias = true},
    {"mistral", .norm_eps = 1e-6, .n_kv_heads = 8, .window = WINDOW_ALL},
    {"qwen2", .norm_eps = 1e-6, .n_kv_heads = 32, .window = WINDOW_SOME, .qkv_bias = true},
    {"qwen3", .norm_eps = 1e-6, .n_kv_heads = 32, .window = WINDOW_SOME, .head_width = 128, .reads_bias = true,
     .has_head_norm = true},
    {"gemma", .norm_eps = 1e-6, .n_kv_heads = 16, .head_width = 256, .reads_bias = true, .is_tied = true,
     .map = map_gemma},
    {"phi", .part = 0.5, .turns_pairs = true, .qkv_bias = true, .has_head_bias = true, .map = map_phi},
    {"phi3", .norm_eps = 1e-5, .part = 1, .window = WINDOW_WRITTEN, .map = map_phi3},
    {"olmo", .reads_bias = true, .map = map_olmo},
    {"granite", .norm_eps = 1e-6, .reads_bias = true, .reads_ffn_bias = true, .map = map_granite},
    {"stablelm", .n_kv_heads = 32, .part = 0.25, .turns_pairs = true, .map = map_stablelm},
    {"starcoder2", .n_kv_heads = 2, .window = WINDOW_WRITTEN, .is_tied = true, .map = map_starcoder2},
};

vkf_status vkf_model_map_llama(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->decoder;
  vkf_model_stack_names names = usual_names;
  const variant *v = variants;
  while (strcmp(v->model_type, net->info.family) != 0) v++;
  net->base = "model.";
  stack->name = "decoder";
  VKF_CALL(vkf_model_get_size(net, config, "hidden_size", &net->info.d_model));
  VKF_CALL(vkf_model_get_size(net, config, "num_hidden_layers", &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, "intermediate_size", &stack->d_ff));
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &net->info.max_positions));
  VKF_CALL(heads(net, config, v, stack));
  VKF_CALL(vkf_model_find_activation(net, config, "hidden_act", "silu", &stack->activation));
  if (v->norm_eps > 0) VKF_CALL(vkf_model_find_epsilon(net, config, "rms_norm_eps", v->norm_eps, &stack->norm_eps));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  const vkf_model_rotary_rules rotary = {.theta = 10000,
                                         .part = v->part,
                                         .turns_whole_heads = v->part == 0,
                                         .is_phi3 = v->map == map_phi3,
                                         .turns_pairs = v->turns_pairs};
  VKF_CALL(vkf_model_find_rotary(net, config, &rotary, stack));
  stack->qkv_bias = v->qkv_bias;
  if (v->reads_bias) VKF_CALL(vkf_file_json_find_bool(config, "attention_bias", false, &stack->qkv_bias));
  stack->out_bias = v->reads_bias && stack->qkv_bias;
  if (v->reads_ffn_bias) VKF_CALL(vkf_file_json_find_bool(config, "mlp_bias", false, &stack->ffn_bias));
  stack->causal = stack->norm_first = stack->has_final_norm = stack->norm_affine = stack->is_gated = true;
  stack->has_head_norm = v->has_head_norm;
  stack->norm_kind = VKF_NORM_RMS;
  stack->embed_scale = 1;
  if (v->map) VKF_CALL(v->map(net, config, &names));
  VKF_CALL(vkf_model_claim_language_model(net, config, stack, "model.embed_tokens.weight", net->info.d_model,
                                          v->is_tied, "lm_head.weight"));
  if (v->has_head_bias) VKF_CALL(claim_head_bias(net));
  VKF_CALL(vkf_model_claim_stack(net, stack, &names));
  return windows(net, config, v, stack);
}
