/* t5: T5 1.0 and 1.1 (mT5, FLAN), UMT5 and their encoders alone, as transformers computes them (Raffel et al. 2020;
 * Shazeer 2020 for the gates; Chung et al. 2023).
 *
 * Pre-norm with RMS norms, no biases, scores that are not scaled, and positions as biases of the scores, which UMT5 has
 * in each layer. The width of a head does not depend on D.
 * Keys that cannot matter here: dropouts, initializer_factor, n_positions, use_cache, task_specific_params, dtype, and
 * is_gated_act, because feed_forward_proj says the same.
 */
#include <math.h>
#include <string.h>

#include "model/internal.h"

#define ATTENTION(layer, module)                                                                          \
  {                                                                                                       \
    .q = layer module ".q.", .k = layer module ".k.", .v = layer module ".v.", .out = layer module ".o.", \
    .norm = layer "layer_norm."                                                                           \
  }
/* The names of gated layers; map_stack() changes ffn_in if there is no gate. */
static const vkf_model_stack_names encoder_names = {
    .layers = "encoder.block.",
    .self = ATTENTION("layer.0.", "SelfAttention"),
    .ffn_gate = "layer.1.DenseReluDense.wi_0.",
    .ffn_in = "layer.1.DenseReluDense.wi_1.",
    .ffn_out = "layer.1.DenseReluDense.wo.",
    .ffn_norm = "layer.1.layer_norm.",
    .final_norm = "encoder.final_layer_norm.",
};
static const vkf_model_stack_names decoder_names = {
    .layers = "decoder.block.",
    .self = ATTENTION("layer.0.", "SelfAttention"),
    .cross = ATTENTION("layer.1.", "EncDecAttention"),
    .ffn_gate = "layer.2.DenseReluDense.wi_0.",
    .ffn_in = "layer.2.DenseReluDense.wi_1.",
    .ffn_out = "layer.2.DenseReluDense.wo.",
    .ffn_norm = "layer.2.layer_norm.",
    .final_norm = "decoder.final_layer_norm.",
};

/* Reads feed_forward_proj: "relu", "gated-gelu" (which means the tanh form), "gated-silu"; then the activation
 * dense_act_fn, which wins if it is there. */
static vkf_status find_feed_forward(vkf_net *net, vkf_file_value config, vkf_model_stack *stack) {
  static const char gated[] = "gated-";
  const char *text = NULL, *usual = strcmp(net->info.family, "t5") == 0 ? "relu" : "gated-gelu";
  VKF_CALL(vkf_file_json_find_string(config, "feed_forward_proj", usual, &text));
  stack->is_gated = strncmp(text, gated, sizeof gated - 1) == 0;
  const char *name = stack->is_gated ? text + sizeof gated - 1 : text;
  if (strcmp(text, "gated-gelu") == 0) name = "gelu_new";
  if (vkf_file_json_kind(vkf_file_json_member(config, "dense_act_fn")) <= VKF_FILE_NULL &&
      !vkf_model_activation_of(name, &stack->activation))
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: feed_forward_proj \"%s\" is not supported",
                        net->config_path, text);
  return vkf_model_find_activation(net, config, "dense_act_fn", name, &stack->activation);
}

static vkf_status numbers(vkf_net *net, vkf_file_value config, vkf_model_stack *stack) {
  VKF_CALL(vkf_model_get_size(net, config, "num_layers", &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, "num_heads", &stack->n_heads));
  VKF_CALL(vkf_model_get_size(net, config, "d_kv", &stack->key_width));
  VKF_CALL(vkf_model_get_size(net, config, "d_ff", &stack->d_ff));
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(find_feed_forward(net, config, stack));
  VKF_CALL(vkf_model_find_epsilon(net, config, "layer_norm_epsilon", 1e-6, &stack->norm_eps));
  VKF_CALL(vkf_model_find_size(net, config, "relative_attention_num_buckets", 32, &stack->relative.n_buckets));
  VKF_CALL(vkf_model_find_size(net, config, "relative_attention_max_distance", 128, &stack->relative.max_distance));
  if (stack->relative.n_buckets < 4 || stack->relative.max_distance <= stack->relative.n_buckets / 2)
    return vkf_env_fail(
        net->env, VKF_ERROR_FORMAT,
        "%s: expected at least 4 relative_attention_num_buckets and a relative_attention_max_distance over half of "
        "them, found %u and %u",
        net->config_path, stack->relative.n_buckets, stack->relative.max_distance);
  stack->n_kv_heads = stack->n_heads;
  stack->value_width = stack->key_width;
  stack->scale = stack->embed_scale = 1;
  stack->norm_kind = VKF_NORM_RMS;
  stack->norm_first = stack->norm_affine = stack->has_final_norm = true;
  return VKF_OK;
}

enum { SHARED, OF_ENCODER, OF_DECODER, OF_HEAD, N_TABLES };
static const char *const TABLES[N_TABLES] = {"shared.weight", "encoder.embed_tokens.weight",
                                             "decoder.embed_tokens.weight", "lm_head.weight"};

/* Returns the tensor of table i: its own, if it is stored with other numbers than the shared one. */
static const char *own_or(const vkf_net *net, int i, const char *shared) {
  return vkf_model_differ(net, TABLES[i], shared) ? TABLES[i] : shared;
}

/* Finds the tensor of each table, as transformers 5 does. If no shared one is stored, the first of the others takes its
 * place; in T5 the head's is before them. */
static vkf_model_tables find_tables(const vkf_net *net, bool is_tied) {
  const bool has_head = net->info.has_head;
  const char *const of_t5[] = {TABLES[SHARED], TABLES[OF_HEAD], TABLES[OF_ENCODER], TABLES[OF_DECODER]};
  const char *shared = has_head && strcmp(net->info.family, "t5") == 0
                           ? vkf_model_first_of(net, of_t5, VKF_COUNT(of_t5))
                           : vkf_model_first_of(net, TABLES, has_head ? N_TABLES : OF_HEAD);
  return (vkf_model_tables){.encoder = own_or(net, OF_ENCODER, shared),
                            .decoder = own_or(net, OF_DECODER, shared),
                            .head = is_tied ? own_or(net, OF_HEAD, shared) : TABLES[OF_HEAD]};
}

static vkf_status embeddings(vkf_net *net, vkf_file_value config) {
  bool says_tied = true;
  VKF_CALL(vkf_file_json_find_bool(config, "tie_word_embeddings", true, &says_tied));
  /* a head that is not stored is tied all the same in transformers 5 */
  const bool is_tied = says_tied || !vkf_model_has_tensor(net, TABLES[OF_HEAD], true);
  bool is_scaled = strcmp(net->info.family, "umt5") == 0 ? is_tied : says_tied;
  if (strcmp(net->info.family, "t5") == 0)
    VKF_CALL(vkf_file_json_find_bool(config, "scale_decoder_outputs", is_scaled, &is_scaled));
  if (strcmp(net->info.family, "mt5") == 0) is_scaled = false; /* its states go to the head as they are, always */
  const vkf_model_tables of = find_tables(net, is_tied);
  VKF_CALL(vkf_model_claim_tables(net, &of));
  for (size_t i = 0; i < OF_HEAD; i++) vkf_model_mark_known(net, TABLES[i]);
  if (is_scaled) net->head.scale = (float)(1 / sqrt(net->info.d_model));
  return VKF_OK;
}

static vkf_status map_stack(vkf_net *net, vkf_model_stack *stack, vkf_model_stack_names names) {
  const char *relative =
      vkf_arena_printf(&net->arena, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight", stack->name);
  const char *plain = vkf_arena_printf(&net->arena, "layer.%d.DenseReluDense.wi.", stack->has_cross ? 2 : 1);
  const char *name = vkf_arena_printf(&net->arena, "%s.relative.weight", stack->name);
  if (relative == NULL || plain == NULL || name == NULL) return VKF_ERROR_MEMORY;
  if (!stack->is_gated) names.ffn_in = plain;
  if (strcmp(net->info.family, "umt5") == 0)
    names.self.relative = "layer.0.SelfAttention.relative_attention_bias.";
  else
    VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, relative, stack->relative.n_buckets, stack->n_heads, name,
                                  &stack->relative.table));
  return vkf_model_claim_stack(net, stack, &names);
}

static vkf_status map_encoder_alone(vkf_net *net) {
  const char *table = own_or(net, OF_ENCODER, vkf_model_first_of(net, TABLES, OF_DECODER));
  VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, table, net->encoder.vocab, net->info.d_model, "embed.weight",
                                &net->encoder.table));
  for (size_t i = 0; i < OF_DECODER; i++) vkf_model_mark_known(net, TABLES[i]);
  return map_stack(net, &net->encoder, encoder_names);
}

vkf_status vkf_model_map_t5(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *encoder = &net->encoder, *decoder = &net->decoder;
  vkf_model_head_kind kind;
  VKF_CALL(vkf_model_find_head(net, config,
                               1u << VKF_HEAD_NONE | 1u << VKF_HEAD_CAUSAL_LM | 1u << VKF_HEAD_ENCODER_ALONE,
                               VKF_HEAD_CAUSAL_LM, &kind));
  VKF_CALL(vkf_model_get_size(net, config, "d_model", &net->info.d_model));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  VKF_CALL(numbers(net, config, encoder));
  encoder->name = "encoder";
  if (kind == VKF_HEAD_ENCODER_ALONE) return map_encoder_alone(net); /* is_encoder_decoder has either value there */
  VKF_CALL(vkf_model_only_bool(net, config, "is_encoder_decoder", true));
  VKF_CALL(vkf_model_find_token(net, config, "decoder_start_token_id", net->info.pad_id, &net->info.decoder_start_id));
  VKF_CALL(numbers(net, config, decoder));
  decoder->name = "decoder";
  decoder->causal = decoder->has_cross = true;
  VKF_CALL(vkf_model_find_size(net, config, "num_decoder_layers", encoder->n_layers, &decoder->n_layers));
  net->info.has_head = kind == VKF_HEAD_CAUSAL_LM;
  VKF_CALL(embeddings(net, config));
  VKF_CALL(map_stack(net, encoder, encoder_names));
  VKF_CALL(map_stack(net, decoder, decoder_names));
  /* stored in old folders, never read */
  vkf_model_mark_known(net, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  return VKF_OK;
}
