/* bert: BERT and RoBERTa (XLM-R) as transformers computes them (Devlin et al. 2019, Liu et al. 2019).
 *
 * Post-norm encoders with learned positions, token types and a norm of the embeddings. RoBERTa counts positions from
 * the pad's id on and skips pads.
 * Keys that cannot matter here: dropouts, initializer_range, use_cache, dtype, id2label, num_labels, pruned_heads.
 */
#include "model/internal.h"

#define STACK_NAMES(base)                                                                        \
  {                                                                                              \
    .layers = base ".encoder.layer.",                                                            \
    .self = {.q = "attention.self.query.",                                                       \
             .k = "attention.self.key.",                                                         \
             .v = "attention.self.value.",                                                       \
             .out = "attention.output.dense.",                                                   \
             .norm = "attention.output.LayerNorm."},                                             \
    .ffn_in = "intermediate.dense.", .ffn_out = "output.dense.", .ffn_norm = "output.LayerNorm." \
  }
static const vkf_model_stack_names bert_names = STACK_NAMES("bert");
static const vkf_model_stack_names roberta_names = STACK_NAMES("roberta");

static const vkf_model_encoder_heads bert_heads = {
    .dense = "cls.predictions.transform.dense.",
    .norm = "cls.predictions.transform.LayerNorm.",
    .table = "cls.predictions.decoder.weight",
    .bias = "cls.predictions.bias",
    .bias_again = "cls.predictions.decoder.bias",
    .pooler = "bert.pooler.dense.",
    .pooler_activation = VKF_ACT_TANH,
    .sequence_dense = "bert.pooler.dense.",
    .sequence_activation = VKF_ACT_TANH,
    .sequence = "classifier.",
    .token = "classifier.",
};
static const vkf_model_encoder_heads roberta_heads = {
    .dense = "lm_head.dense.",
    .norm = "lm_head.layer_norm.",
    .dense_has_gelu = true,
    .table = "lm_head.decoder.weight",
    .bias = "lm_head.bias",
    .bias_again = "lm_head.decoder.bias",
    .pooler = "roberta.pooler.dense.",
    .pooler_activation = VKF_ACT_TANH,
    .sequence_dense = "classifier.dense.",
    .sequence_activation = VKF_ACT_TANH,
    .sequence = "classifier.out_proj.",
    .token = "classifier.",
};

static vkf_status map(vkf_net *net, vkf_file_value config, int32_t usual_pad, const char *prefix,
                      const vkf_model_stack_names *names, const vkf_model_encoder_heads *heads) {
  vkf_model_stack *stack = &net->encoder;
  stack->name = "encoder";
  VKF_CALL(vkf_model_only_bool(net, config, "is_decoder", false));
  VKF_CALL(vkf_model_only_bool(net, config, "add_cross_attention", false));
  VKF_CALL(vkf_model_only_string(net, config, "position_embedding_type", "absolute"));
  VKF_CALL(vkf_model_get_layers(net, config, "gelu", 1e-12, stack));
  VKF_CALL(vkf_model_find_tokens(net, config, usual_pad));
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  VKF_CALL(vkf_model_claim_bert_embeddings(net, config, prefix, net->info.d_model, heads, stack));
  VKF_CALL(vkf_model_claim_stack(net, stack, names));
  return vkf_model_claim_encoder_head(net, config, heads);
}

vkf_status vkf_model_map_bert(vkf_net *net, vkf_file_value config) {
  net->base = "bert.";
  return map(net, config, -1, "bert.embeddings.", &bert_names, &bert_heads);
}

vkf_status vkf_model_map_roberta(vkf_net *net, vkf_file_value config) {
  vkf_net_info *info = &net->info;
  net->base = "roberta.";
  VKF_CALL(map(net, config, 1, "roberta.embeddings.", &roberta_names, &roberta_heads));
  if (info->pad_id < 0 || (uint32_t)info->pad_id + 1 >= net->encoder.n_positions)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected a pad_token_id below max_position_embeddings - 1, found %d", net->config_path,
                        (int)info->pad_id);
  net->encoder.position_ids = VKF_POSITION_IDS_NON_PADS;
  net->encoder.position_offset = (uint32_t)info->pad_id;
  info->max_positions -= (uint32_t)info->pad_id + 1;
  return VKF_OK;
}
