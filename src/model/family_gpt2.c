/* gpt2: as transformers computes it (Radford et al. 2019). A pre-norm decoder with learned positions, whose matrices
 * are stored transposed, [K,N].
 *
 * Keys that cannot matter here: dropouts, initializer_range, use_cache, summary_*, n_ctx, task_specific_params, dtype,
 * reorder_and_upcast_attn (the same sum in another order).
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "transformer.h.",
    .self = {.packed = "attn.c_attn.", .out = "attn.c_proj.", .norm = "ln_1."},
    .ffn_in = "mlp.c_fc.",
    .ffn_out = "mlp.c_proj.",
    .ffn_norm = "ln_2.",
    .final_norm = "transformer.ln_f.",
    .is_transposed = true,
};

vkf_status vkf_model_map_gpt2(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->decoder;
  bool is_scaled = true;
  net->base = "transformer.";
  stack->name = "decoder";
  VKF_CALL(vkf_model_only_bool(net, config, "add_cross_attention", false));
  VKF_CALL(vkf_file_json_find_bool(config, "scale_attn_by_inverse_layer_idx", false, &stack->scales_by_layer));
  VKF_CALL(vkf_model_get_size(net, config, "n_embd", &net->info.d_model));
  VKF_CALL(vkf_model_get_size(net, config, "n_layer", &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, "n_head", &stack->n_heads));
  VKF_CALL(vkf_model_find_size(net, config, "n_inner", 4 * net->info.d_model, &stack->d_ff));
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(vkf_model_get_size(net, config, "n_positions", &stack->n_positions));
  VKF_CALL(vkf_model_split_heads(net, stack, "n_head"));
  VKF_CALL(vkf_file_json_find_bool(config, "scale_attn_weights", true, &is_scaled));
  VKF_CALL(vkf_model_find_activation(net, config, "activation_function", "gelu_new", &stack->activation));
  VKF_CALL(vkf_model_find_epsilon(net, config, "layer_norm_epsilon", 1e-5, &stack->norm_eps));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  if (!is_scaled) stack->scale = 1;
  stack->causal = stack->norm_first = stack->has_final_norm = true;
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  stack->positions = VKF_POSITION_LEARNED;
  stack->embed_scale = 1;
  net->info.max_positions = stack->n_positions;
  VKF_CALL(vkf_model_claim_language_model(net, config, stack, "transformer.wte.weight", net->info.d_model, true,
                                          "lm_head.weight"));
  VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, "transformer.wpe.weight", stack->n_positions, net->info.d_model,
                                "positions.weight", &stack->position_table));
  return vkf_model_claim_stack(net, stack, &names);
}
