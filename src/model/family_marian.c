/* marian: translation models as transformers' MarianMTModel computes them (Junczys-Dowmunt et al. 2018).
 *
 * Post-norm, sinusoids in halves, embeddings of both sides shared or apart, logits with a bias that is no parameter.
 * Keys that cannot matter here: dropouts, layerdrops, init_std, use_cache, dtype. Refuses the keys of Marian's own
 * configuration that transformers leaves unread but that say that the weights were trained for something else.
 */
#include <math.h>

#include "model/internal.h"

static const vkf_model_stack_names encoder_names = {
    .layers = "model.encoder.layers.",
    .self = {.q = "self_attn.q_proj.",
             .k = "self_attn.k_proj.",
             .v = "self_attn.v_proj.",
             .out = "self_attn.out_proj.",
             .norm = "self_attn_layer_norm."},
    .ffn_in = "fc1.",
    .ffn_out = "fc2.",
    .ffn_norm = "final_layer_norm.",
};
static const vkf_model_stack_names decoder_names = {
    .layers = "model.decoder.layers.",
    .self = {.q = "self_attn.q_proj.",
             .k = "self_attn.k_proj.",
             .v = "self_attn.v_proj.",
             .out = "self_attn.out_proj.",
             .norm = "self_attn_layer_norm."},
    .cross = {.q = "encoder_attn.q_proj.",
              .k = "encoder_attn.k_proj.",
              .v = "encoder_attn.v_proj.",
              .out = "encoder_attn.out_proj.",
              .norm = "encoder_attn_layer_norm."},
    .ffn_in = "fc1.",
    .ffn_out = "fc2.",
    .ffn_norm = "final_layer_norm.",
};

static vkf_status refuse_unsupported(vkf_net *net, vkf_file_value config) {
  vkf_status st = VKF_OK;
  VKF_TRY(vkf_model_only_bool(net, config, "normalize_before", false));
  VKF_TRY(vkf_model_only_bool(net, config, "normalize_embedding", false));
  VKF_TRY(vkf_model_only_bool(net, config, "add_final_layer_norm", false));
  VKF_TRY(vkf_model_only_bool(net, config, "static_position_embeddings", true));
  VKF_TRY(vkf_model_only_bool(net, config, "is_encoder_decoder", true));
done:
  return st;
}

/* What both stacks have in common. */
static vkf_status stack_numbers(vkf_net *net, vkf_file_value config, vkf_model_stack *stack) {
  vkf_status st = VKF_OK;
  bool is_scaled = false;
  VKF_TRY(vkf_model_find_activation(net, config, "activation_function", "gelu", &stack->activation));
  VKF_TRY(vkf_file_json_find_bool(config, "scale_embedding", false, &is_scaled));
  stack->attention_bias = stack->ffn_bias = stack->norm_affine = true;
  stack->norm_eps = 1e-5f;
  stack->embed_scale = is_scaled ? (float)sqrt(net->info.d_model) : 1;
  stack->positions = VKF_POSITION_HALVES;
done:
  return st;
}

/* Sinusoids that are stored are read, as transformers does; each side has its own name for them. */
static vkf_status positions(vkf_net *net, vkf_model_stack *stack, const char *tensor, const char *name) {
  if (!vkf_model_has_tensor(net, tensor)) return VKF_OK;
  stack->positions = VKF_POSITION_LEARNED;
  stack->n_positions = net->info.max_positions;
  return vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, tensor, stack->n_positions, net->info.d_model, name,
                              &stack->position_table);
}

static vkf_status embeddings(vkf_net *net, vkf_file_value config) {
  static const char *const shared[] = {"model.shared.weight", "model.decoder.embed_tokens.weight",
                                       "model.encoder.embed_tokens.weight", "lm_head.weight"};
  static const char *const apart[] = {"model.decoder.embed_tokens.weight", "lm_head.weight"};
  vkf_status st = VKF_OK;
  vkf_model_stack *encoder = &net->encoder, *decoder = &net->decoder;
  uint32_t width = net->info.d_model;
  bool is_shared = true, is_tied = true;
  VKF_TRY(vkf_file_json_find_bool(config, "share_encoder_decoder_embeddings", true, &is_shared));
  VKF_TRY(vkf_file_json_find_bool(config, "tie_word_embeddings", true, &is_tied));
  uint32_t use = VKF_WEIGHT_TABLE | (is_tied ? VKF_WEIGHT_MATMUL : 0);
  if (is_shared) {
    decoder->vocab = encoder->vocab;
    const char *tensor = vkf_model_first_of(net, shared, VKF_COUNT(shared) - (is_tied ? 0 : 1));
    VKF_TRY(vkf_model_add_matrix(net, use, tensor, encoder->vocab, width, "embed.weight", &encoder->table));
    decoder->table = encoder->table;
    for (size_t i = 0; i < VKF_COUNT(shared) - 1; i++) vkf_model_mark_known(net, shared[i]);
  } else {
    const char *tensor = vkf_model_first_of(net, apart, is_tied ? 2 : 1);
    VKF_TRY(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, "model.encoder.embed_tokens.weight", encoder->vocab, width,
                                 "encoder.embed.weight", &encoder->table));
    VKF_TRY(vkf_model_add_matrix(net, use, tensor, decoder->vocab, width, "decoder.embed.weight", &decoder->table));
  }
  net->head = (vkf_model_linear){decoder->table, VKF_NO_WEIGHT};
  if (is_tied)
    vkf_model_mark_known(net, "lm_head.weight");
  else
    VKF_TRY(vkf_model_add_matrix(net, VKF_WEIGHT_MATMUL, "lm_head.weight", decoder->vocab, width, "head.weight",
                                 &net->head.weight));
  net->info.has_head = true;
  if (vkf_model_has_tensor(net, "final_logits_bias")) {
    vkf_model_source bias = {"final_logits_bias", decoder->vocab, 0, decoder->vocab, true};
    VKF_TRY(vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &bias, 1, &net->head.bias, "head.bias"));
  }
done:
  return st;
}

vkf_status vkf_model_map_marian(vkf_net *net, vkf_file_value config) {
  vkf_status st = VKF_OK;
  vkf_net_info *info = &net->info;
  vkf_model_stack *encoder = &net->encoder, *decoder = &net->decoder;
  VKF_TRY(refuse_unsupported(net, config));
  VKF_TRY(vkf_model_get_size(net, config, "d_model", &info->d_model));
  VKF_TRY(vkf_model_get_size(net, config, "max_position_embeddings", &info->max_positions));
  VKF_TRY(vkf_model_find_token(net, config, "pad_token_id", -1, &info->pad_id));
  VKF_TRY(vkf_model_find_token(net, config, "bos_token_id", -1, &info->bos_id));
  VKF_TRY(vkf_model_find_token(net, config, "eos_token_id", -1, &info->eos_id));
  VKF_TRY(vkf_model_find_token(net, config, "decoder_start_token_id", info->pad_id, &info->decoder_start_id));
  VKF_TRY(stack_numbers(net, config, encoder));
  *decoder = *encoder;
  encoder->name = "encoder";
  VKF_TRY(vkf_model_get_size(net, config, "vocab_size", &encoder->vocab));
  VKF_TRY(vkf_model_get_size(net, config, "encoder_layers", &encoder->n_layers));
  VKF_TRY(vkf_model_get_size(net, config, "encoder_attention_heads", &encoder->n_heads));
  VKF_TRY(vkf_model_get_size(net, config, "encoder_ffn_dim", &encoder->d_ff));
  VKF_TRY(vkf_model_split_heads(net, encoder, "encoder_attention_heads"));
  decoder->name = "decoder";
  decoder->causal = decoder->has_cross = true;
  VKF_TRY(vkf_model_find_size(net, config, "decoder_vocab_size", encoder->vocab, &decoder->vocab));
  VKF_TRY(vkf_model_get_size(net, config, "decoder_layers", &decoder->n_layers));
  VKF_TRY(vkf_model_get_size(net, config, "decoder_attention_heads", &decoder->n_heads));
  VKF_TRY(vkf_model_get_size(net, config, "decoder_ffn_dim", &decoder->d_ff));
  VKF_TRY(vkf_model_split_heads(net, decoder, "decoder_attention_heads"));
  VKF_TRY(embeddings(net, config));
  VKF_TRY(positions(net, encoder, "model.encoder.embed_positions.weight", "encoder.positions.weight"));
  VKF_TRY(positions(net, decoder, "model.decoder.embed_positions.weight", "decoder.positions.weight"));
  VKF_TRY(vkf_model_claim_stack(net, encoder, &encoder_names));
  VKF_TRY(vkf_model_claim_stack(net, decoder, &decoder_names));
done:
  return st;
}
