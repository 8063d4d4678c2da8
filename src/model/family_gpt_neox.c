/* gpt_neox: GPT-NeoX and Pythia as transformers computes them (Black et al. 2022). A pre-norm decoder whose attention
 * and feed-forward layer run side by side, with rotary positions on a part of each head and queries, keys and values
 * stored head by head.
 *
 * Keys that cannot matter here: dropouts, initializer_range, use_cache, dtype.
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "gpt_neox.layers.",
    .self = {.packed = "attention.query_key_value.",
             .packed_by_head = true,
             .out = "attention.dense.",
             .norm = "input_layernorm."},
    .ffn_in = "mlp.dense_h_to_4h.",
    .ffn_out = "mlp.dense_4h_to_h.",
    .ffn_norm = "post_attention_layernorm.",
    .final_norm = "gpt_neox.final_layer_norm.",
};

vkf_status vkf_model_map_gpt_neox(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->decoder;
  vkf_model_rotary_rules rotary = {0};
  net->base = "gpt_neox.";
  stack->name = "decoder";
  VKF_CALL(vkf_model_get_layers(net, config, "gelu", 1e-5, stack));
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &net->info.max_positions));
  VKF_CALL(vkf_model_find_tokens(net, config, -1));
  VKF_CALL(vkf_model_find_number(net, config, "rotary_pct", 0.25, 0, 1, &rotary.part));
  VKF_CALL(vkf_model_find_number(net, config, "rotary_emb_base", 10000, 1, 1e15, &rotary.theta));
  VKF_CALL(vkf_model_find_rotary(net, config, &rotary, stack));
  VKF_CALL(vkf_file_json_find_bool(config, "use_parallel_residual", true, &stack->is_parallel));
  VKF_CALL(vkf_file_json_find_bool(config, "attention_bias", true, &stack->qkv_bias));
  stack->out_bias = stack->qkv_bias;
  stack->causal = stack->norm_first = stack->has_final_norm = stack->norm_affine = stack->ffn_bias = true;
  stack->embed_scale = 1;
  VKF_CALL(vkf_model_claim_language_model(net, config, stack, "gpt_neox.embed_in.weight", net->info.d_model, false,
                                          "embed_out.weight"));
  return vkf_model_claim_stack(net, stack, &names);
}
