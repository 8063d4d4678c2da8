/* albert: as transformers computes it (Lan et al. 2020). BERT with narrow embeddings, which a linear layer widens, and
 * with layers that share their weights.
 *
 * Keys that cannot matter here: dropouts, initializer_range, dtype, net_structure_type, gap_size, num_memory_blocks,
 * down_scale_factor (transformers reads none of the last four).
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "albert.encoder.albert_layer_groups.",
    .self = {.q = "albert_layers.0.attention.query.",
             .k = "albert_layers.0.attention.key.",
             .v = "albert_layers.0.attention.value.",
             .out = "albert_layers.0.attention.dense.",
             .norm = "albert_layers.0.attention.LayerNorm."},
    .ffn_in = "albert_layers.0.ffn.",
    .ffn_out = "albert_layers.0.ffn_output.",
    .ffn_norm = "albert_layers.0.full_layer_layer_norm.",
};
static const vkf_model_encoder_heads heads = {
    .dense = "predictions.dense.",
    .norm = "predictions.LayerNorm.",
    .table = "predictions.decoder.weight",
    .bias = "predictions.bias",
    .bias_again = "predictions.decoder.bias",
    .pooler = "albert.pooler.",
    .pooler_activation = VKF_ACT_TANH,
    .sequence_dense = "albert.pooler.",
    .sequence_activation = VKF_ACT_TANH,
    .sequence = "classifier.",
    .token = "classifier.",
};

vkf_status vkf_model_map_albert(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->encoder;
  uint32_t inner = 0, width = 0;
  net->base = "albert.";
  stack->name = "encoder";
  VKF_CALL(vkf_model_only_string(net, config, "position_embedding_type", "absolute"));
  VKF_CALL(vkf_model_find_size(net, config, "inner_group_num", 1, &inner));
  if (inner != 1)
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: inner_group_num %u is not supported", net->config_path,
                        inner);
  VKF_CALL(vkf_model_get_layers(net, config, "gelu_new", 1e-12, stack));
  VKF_CALL(vkf_model_find_size(net, config, "num_hidden_groups", 1, &stack->n_stored));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  VKF_CALL(vkf_model_find_size(net, config, "embedding_size", 128, &width));
  VKF_CALL(vkf_model_claim_bert_embeddings(net, config, "albert.embeddings.", width, &heads, stack));
  VKF_CALL(vkf_model_add_linear(net, "albert.encoder.embedding_hidden_mapping_in.", net->info.d_model, width, true,
                                "embed.in", &stack->embed_in));
  VKF_CALL(vkf_model_claim_stack(net, stack, &names));
  return vkf_model_claim_encoder_head(net, config, &heads);
}
