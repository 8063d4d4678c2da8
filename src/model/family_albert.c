/* albert: as transformers computes it (Lan et al. 2020). BERT with narrow embeddings, which a linear layer widens, and
 * with layers that share their weights.
 *
 * Keys that cannot matter here: dropouts, initializer_range, dtype, net_structure_type, gap_size, num_memory_blocks,
 * down_scale_factor (transformers reads none of the last four).
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "albert.encoder.albert_layer_groups.",
    .inner = "albert_layers.",
    .self = {.q = "attention.query.",
             .k = "attention.key.",
             .v = "attention.value.",
             .out = "attention.dense.",
             .norm = "attention.LayerNorm."},
    .ffn_in = "ffn.",
    .ffn_out = "ffn_output.",
    .ffn_norm = "full_layer_layer_norm.",
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
  uint32_t width = 0;
  net->base = "albert.";
  stack->name = "encoder";
  VKF_CALL(vkf_model_only_string(net, config, "position_embedding_type", "absolute"));
  VKF_CALL(vkf_model_find_size(net, config, "inner_group_num", 1, &stack->n_inner));
  VKF_CALL(vkf_model_get_layers(net, config, "gelu_new", 1e-12, stack));
  VKF_CALL(vkf_model_find_size(net, config, "num_hidden_groups", 1, &stack->n_stored));
  stack->n_layers = (uint32_t)VKF_MIN((uint64_t)stack->n_layers * stack->n_inner, (uint64_t)UINT32_MAX);
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  VKF_CALL(vkf_model_find_size(net, config, "embedding_size", 128, &width));
  VKF_CALL(vkf_model_claim_bert_embeddings(net, config, "albert.embeddings.", width, true, &heads, stack));
  VKF_CALL(vkf_model_add_linear(net, "albert.encoder.embedding_hidden_mapping_in.", net->info.d_model, width, true,
                                "embed.in", &stack->embed_in));
  VKF_CALL(vkf_model_claim_stack(net, stack, &names));
  return vkf_model_claim_encoder_head(net, config, &heads);
}
