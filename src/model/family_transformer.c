/* transformer: the layouts of the tutorials on Vaswani et al. 2017, with torch.nn's tensor names.
 *
 * One stack (encoder or decoder) or both, norm before or after, and every bias, scale and head on or off; keys and
 * tensor names are in docs/transformer-format.md. The format is this project's own, so a key that is not in that
 * document is refused by name, not ignored.
 */
#include <math.h>
#include <string.h>

#include "model/internal.h"

static const char *const known_keys[] = {
    "model_type", "architecture", "vocab_size", "d_model", "nhead", "num_layers", "num_encoder_layers",
    "num_decoder_layers", "dim_feedforward", "activation", "norm_first", "norm_affine", "layer_norm_eps",
    "attention_bias", "ffn_bias", "scale_embedding", "positional_encoding", "max_position_embeddings", "final_norm",
    "lm_head", "lm_head_bias", "tie_word_embeddings", "pad_token_id", "bos_token_id", "eos_token_id",
    "decoder_start_token_id",
    /* do not change what is computed */
    "parameters", "dropout", "attention_dropout", "initializer_range", "init_std", "use_cache", "is_encoder_decoder",
    "architectures", "dtype", "torch_dtype", "transformers_version", "name", "description", "_name_or_path"};

/* One stack has its tensors at the top; two have the names of torch.nn.Transformer. */
static const vkf_model_stack_names one_stack_names = {
    .layers = "layers.",
    .self = {.packed = "self_attn.in_proj_", .out = "self_attn.out_proj.", .norm = "norm1."},
    .ffn_in = "linear1.",
    .ffn_out = "linear2.",
    .ffn_norm = "norm2.",
    .final_norm = "norm.",
};
static const vkf_model_stack_names encoder_names = {
    .layers = "core.encoder.layers.",
    .self = {.packed = "self_attn.in_proj_", .out = "self_attn.out_proj.", .norm = "norm1."},
    .ffn_in = "linear1.",
    .ffn_out = "linear2.",
    .ffn_norm = "norm2.",
    .final_norm = "core.encoder.norm.",
};
static const vkf_model_stack_names decoder_names = {
    .layers = "core.decoder.layers.",
    .self = {.packed = "self_attn.in_proj_", .out = "self_attn.out_proj.", .norm = "norm1."},
    .cross = {.packed = "multihead_attn.in_proj_", .out = "multihead_attn.out_proj.", .norm = "norm2."},
    .ffn_in = "linear1.",
    .ffn_out = "linear2.",
    .ffn_norm = "norm3.",
    .final_norm = "core.decoder.norm.",
};

static vkf_status refuse_unknown_keys(vkf_net *net, vkf_file_value config) {
  vkf_status st = VKF_OK;
  vkf_text unknown;
  vkf_text_init(&unknown, net->env);
  size_t n = vkf_file_json_unknown(config, known_keys, VKF_COUNT(known_keys), &unknown);
  VKF_TRY(vkf_text_status(&unknown));
  if (n > 0)
    VKF_FAIL(net->env, VKF_ERROR_UNSUPPORTED, "%s: expected keys of the transformer format, found also %s",
             net->config_path, unknown.data);
done:
  vkf_text_finish(&unknown);
  return st;
}

static vkf_status find_architecture(vkf_net *net, vkf_file_value config, vkf_architecture *out) {
  const char *name = NULL;
  VKF_CALL(vkf_file_json_find_string(config, "architecture", "encoder-decoder", &name));
  for (int a = VKF_ARCHITECTURE_ENCODER_DECODER; a <= VKF_ARCHITECTURE_DECODER; a++) {
    if (strcmp(name, vkf_model_architecture_name((vkf_architecture)a)) != 0) continue;
    *out = (vkf_architecture)a;
    return VKF_OK;
  }
  return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED,
                      "%s: expected encoder-decoder, encoder or decoder as architecture, found \"%s\"",
                      net->config_path, name);
}

static vkf_status find_positions(vkf_net *net, vkf_file_value config, vkf_model_stack *stack) {
  const char *kind = NULL;
  VKF_CALL(vkf_file_json_find_string(config, "positional_encoding", "sinusoidal", &kind));
  if (strcmp(kind, "sinusoidal") == 0) {
    stack->positions = VKF_POSITION_INTERLEAVED;
  } else if (strcmp(kind, "none") == 0) {
    stack->positions = VKF_POSITION_NONE;
  } else if (strcmp(kind, "learned") == 0) {
    stack->positions = VKF_POSITION_LEARNED;
    VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &stack->n_positions));
    net->info.max_positions = stack->n_positions;
    VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, "positions.weight", stack->n_positions, net->info.d_model,
                                  "positions.weight", &stack->position_table));
  } else {
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected sinusoidal, learned or none as positional_encoding, found \"%s\"",
                        net->config_path, kind);
  }
  return VKF_OK;
}

/* Reads what all stacks have in common. */
static vkf_status stack_numbers(vkf_net *net, vkf_file_value config, vkf_model_stack *stack) {
  bool is_scaled = false;
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(vkf_model_get_size(net, config, "nhead", &stack->n_heads));
  VKF_CALL(vkf_model_get_size(net, config, "dim_feedforward", &stack->d_ff));
  VKF_CALL(vkf_model_split_heads(net, stack, "nhead"));
  VKF_CALL(vkf_model_find_activation(net, config, "activation", "relu", &stack->activation));
  VKF_CALL(vkf_file_json_find_bool(config, "norm_first", false, &stack->norm_first));
  VKF_CALL(vkf_file_json_find_bool(config, "norm_affine", true, &stack->norm_affine));
  VKF_CALL(vkf_file_json_find_bool(config, "final_norm", stack->norm_first, &stack->has_final_norm));
  VKF_CALL(vkf_file_json_find_bool(config, "attention_bias", true, &stack->qkv_bias));
  stack->out_bias = stack->qkv_bias;
  VKF_CALL(vkf_file_json_find_bool(config, "ffn_bias", true, &stack->ffn_bias));
  VKF_CALL(vkf_model_find_epsilon(net, config, "layer_norm_eps", 1e-5, &stack->norm_eps));
  VKF_CALL(vkf_file_json_find_bool(config, "scale_embedding", false, &is_scaled));
  stack->embed_scale = is_scaled ? (float)sqrt(net->info.d_model) : 1;
  return VKF_OK;
}

/* Claims the table of the embeddings, which all stacks share, and the head. */
static vkf_status embeddings(vkf_net *net, vkf_file_value config, bool is_pair, vkf_model_stack *stack) {
  uint32_t vocab = stack->vocab, width = net->info.d_model;
  bool is_tied = false, has_bias = false;
  VKF_CALL(vkf_file_json_find_bool(config, "lm_head", is_pair, &net->info.has_head));
  VKF_CALL(vkf_file_json_find_bool(config, "tie_word_embeddings", is_pair, &is_tied));
  VKF_CALL(vkf_file_json_find_bool(config, "lm_head_bias", !is_pair || vkf_model_has_tensor(net, "lm_head.bias", false),
                                   &has_bias));
  is_tied = is_tied && net->info.has_head;
  VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE | (is_tied ? VKF_WEIGHT_MATMUL : 0), "embed.weight", vocab, width,
                                "embed.weight", &stack->table));
  if (!net->info.has_head) return VKF_OK;
  net->head.out.weight = stack->table;
  if (is_tied)
    VKF_CALL(vkf_model_mark_same(net, "lm_head.weight", "embed.weight"));
  else
    VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_MATMUL, "lm_head.weight", vocab, width, "head.weight",
                                  &net->head.out.weight));
  if (has_bias) {
    vkf_model_source bias = {.tensor = "lm_head.bias", .rows = vocab, .n_rows = vocab};
    VKF_CALL(vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &bias, 1, &net->head.out.bias, "head.bias"));
  }
  return VKF_OK;
}

/* Sets up the stacks from `common` and claims their layers. */
static vkf_status stacks(vkf_net *net, vkf_file_value config, vkf_architecture architecture,
                         const vkf_model_stack *common) {
  bool is_pair = architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  if (architecture != VKF_ARCHITECTURE_DECODER) {
    net->encoder = *common;
    net->encoder.name = "encoder";
    VKF_CALL(vkf_model_get_size(net, config, is_pair ? "num_encoder_layers" : "num_layers", &net->encoder.n_layers));
    VKF_CALL(vkf_model_claim_stack(net, &net->encoder, is_pair ? &encoder_names : &one_stack_names));
  }
  if (architecture != VKF_ARCHITECTURE_ENCODER) {
    net->decoder = *common;
    net->decoder.name = "decoder";
    net->decoder.causal = true;
    net->decoder.has_cross = is_pair;
    VKF_CALL(vkf_model_get_size(net, config, is_pair ? "num_decoder_layers" : "num_layers", &net->decoder.n_layers));
    VKF_CALL(vkf_model_claim_stack(net, &net->decoder, is_pair ? &decoder_names : &one_stack_names));
  }
  return VKF_OK;
}

vkf_status vkf_model_map_transformer(vkf_net *net, vkf_file_value config) {
  vkf_net_info *info = &net->info;
  vkf_model_stack common = vkf_model_no_stack;
  vkf_architecture architecture = VKF_ARCHITECTURE_ENCODER_DECODER;
  VKF_CALL(refuse_unknown_keys(net, config));
  VKF_CALL(find_architecture(net, config, &architecture));
  bool is_pair = architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  VKF_CALL(vkf_model_get_size(net, config, "d_model", &info->d_model));
  VKF_CALL(vkf_model_find_token(net, config, "pad_token_id", -1, &info->pad_id));
  VKF_CALL(vkf_model_find_token(net, config, "bos_token_id", -1, &info->bos_id));
  VKF_CALL(vkf_model_find_token(net, config, "eos_token_id", -1, &info->eos_id));
  VKF_CALL(vkf_model_find_token(net, config, "decoder_start_token_id", is_pair ? info->bos_id : -1,
                                &info->decoder_start_id));
  VKF_CALL(stack_numbers(net, config, &common));
  VKF_CALL(find_positions(net, config, &common));
  VKF_CALL(embeddings(net, config, is_pair, &common));
  return stacks(net, config, architecture, &common);
}
