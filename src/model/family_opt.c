/* opt: as transformers computes it (Zhang et al. 2022). A decoder, pre-norm or post-norm, whose learned positions count
 * unmasked tokens and begin at row 2; embeddings may be narrower than D.
 *
 * Keys that cannot matter here: dropouts, layerdrop, init_std, use_cache, dtype.
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "model.decoder.layers.",
    VKF_MODEL_FAIRSEQ_LAYER,
    .final_norm = "model.decoder.final_layer_norm.",
};

/* Claims the layers from the width of the embeddings to D and back, if that is not D. */
static vkf_status project(vkf_net *net, vkf_model_stack *stack, uint32_t width) {
  if (width == net->info.d_model) return VKF_OK;
  VKF_CALL(vkf_model_add_linear(net, "model.decoder.project_in.", net->info.d_model, width, false, "embed.in",
                                &stack->embed_in));
  return vkf_model_add_linear(net, "model.decoder.project_out.", width, net->info.d_model, false, "head.in",
                              &stack->embed_out);
}

vkf_status vkf_model_map_opt(vkf_net *net, vkf_file_value config) {
  enum { POSITION_OFFSET = 2 };
  vkf_model_stack *stack = &net->decoder;
  uint32_t width = 0;
  bool has_bias = true, has_no_final_norm = false;
  net->base = "model.";
  stack->name = "decoder";
  VKF_CALL(vkf_model_get_size(net, config, "hidden_size", &net->info.d_model));
  VKF_CALL(vkf_model_get_size(net, config, "num_hidden_layers", &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, "num_attention_heads", &stack->n_heads));
  VKF_CALL(vkf_model_get_size(net, config, "ffn_dim", &stack->d_ff));
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &net->info.max_positions));
  VKF_CALL(vkf_model_find_size(net, config, "word_embed_proj_dim", net->info.d_model, &width));
  VKF_CALL(vkf_model_split_heads(net, stack, "num_attention_heads"));
  VKF_CALL(vkf_model_find_activation(net, config, "activation_function", "relu", &stack->activation));
  VKF_CALL(vkf_file_json_find_bool(config, "do_layer_norm_before", true, &stack->norm_first));
  VKF_CALL(vkf_file_json_find_bool(config, "_remove_final_layer_norm", false, &has_no_final_norm));
  VKF_CALL(vkf_file_json_find_bool(config, "layer_norm_elementwise_affine", true, &stack->norm_affine));
  VKF_CALL(vkf_file_json_find_bool(config, "enable_bias", true, &has_bias));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  stack->causal = true;
  stack->has_final_norm = stack->norm_first && !has_no_final_norm;
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = has_bias;
  stack->norm_eps = 1e-5f;
  stack->embed_scale = 1;
  stack->positions = VKF_POSITION_LEARNED;
  stack->position_ids = VKF_POSITION_IDS_UNMASKED;
  stack->position_offset = POSITION_OFFSET;
  stack->n_positions = net->info.max_positions + POSITION_OFFSET;
  VKF_CALL(vkf_model_claim_language_model(net, config, stack, "model.decoder.embed_tokens.weight", width, true,
                                          "lm_head.weight"));
  VKF_CALL(project(net, stack, width));
  VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, "model.decoder.embed_positions.weight", stack->n_positions,
                                net->info.d_model, "positions.weight", &stack->position_table));
  return vkf_model_claim_stack(net, stack, &names);
}
