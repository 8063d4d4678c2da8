/* distilbert: as transformers computes it (Sanh et al. 2019). BERT without token types and pooler.
 *
 * Keys that cannot matter here: dropouts, initializer_range, sinusoidal_pos_embds (the table is stored), dtype.
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "distilbert.transformer.layer.",
    .self = {.q = "attention.q_lin.",
             .k = "attention.k_lin.",
             .v = "attention.v_lin.",
             .out = "attention.out_lin.",
             .norm = "sa_layer_norm."},
    .ffn_in = "ffn.lin1.",
    .ffn_out = "ffn.lin2.",
    .ffn_norm = "output_layer_norm.",
};
static const vkf_model_encoder_heads heads = {
    .dense = "vocab_transform.",
    .norm = "vocab_layer_norm.",
    .table = "vocab_projector.weight",
    .bias = "vocab_projector.bias",
    .sequence_dense = "pre_classifier.",
    .sequence_activation = VKF_ACT_RELU,
    .sequence = "classifier.",
    .token = "classifier.",
};

vkf_status vkf_model_map_distilbert(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->encoder;
  uint32_t width = 0;
  net->base = "distilbert.";
  stack->name = "encoder";
  VKF_CALL(vkf_model_get_size(net, config, "dim", &width));
  net->info.d_model = width;
  VKF_CALL(vkf_model_get_size(net, config, "n_layers", &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, "n_heads", &stack->n_heads));
  VKF_CALL(vkf_model_get_size(net, config, "hidden_dim", &stack->d_ff));
  VKF_CALL(vkf_model_split_heads(net, stack, "n_heads"));
  VKF_CALL(vkf_model_find_activation(net, config, "activation", "gelu", &stack->activation));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  stack->norm_eps = 1e-12f;
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  VKF_CALL(vkf_model_claim_bert_embeddings(net, config, "distilbert.embeddings.", width, false, &heads, stack));
  VKF_CALL(vkf_model_claim_stack(net, stack, &names));
  return vkf_model_claim_encoder_head(net, config, &heads);
}
