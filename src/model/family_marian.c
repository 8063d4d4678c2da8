/* marian: translation models as transformers' MarianMTModel computes them (Junczys-Dowmunt et al. 2018).
 *
 * Post-norm, sinusoids in halves, embeddings of both sides shared or apart, logits with a bias that is no parameter.
 * Keys that cannot matter here: dropouts, layerdrops, init_std, use_cache, dtype. Refuses the keys of Marian's own
 * configuration that transformers leaves unread but that say that the weights were trained for something else.
 */
#include "model/internal.h"

static const vkf_model_stack_names encoder_names = {
    .layers = "model.encoder.layers.",
    VKF_MODEL_FAIRSEQ_LAYER,
};
static const vkf_model_stack_names decoder_names = {
    .layers = "model.decoder.layers.",
    VKF_MODEL_FAIRSEQ_LAYER,
    .cross = VKF_MODEL_FAIRSEQ_ATTENTION("encoder_attn"),
};

static vkf_status refuse_unsupported(vkf_net *net, vkf_file_value config) {
  VKF_CALL(vkf_model_only_bool(net, config, "normalize_before", false));
  VKF_CALL(vkf_model_only_bool(net, config, "normalize_embedding", false));
  VKF_CALL(vkf_model_only_bool(net, config, "add_final_layer_norm", false));
  return vkf_model_only_bool(net, config, "static_position_embeddings", true);
}

/* Sinusoids that are stored are read, as transformers does; each side has its own name for them. */
static vkf_status positions(vkf_net *net, vkf_model_stack *stack, const char *tensor, const char *name) {
  stack->positions = VKF_POSITION_HALVES;
  if (!vkf_model_has_tensor(net, tensor, false)) return VKF_OK;
  stack->positions = VKF_POSITION_LEARNED;
  stack->n_positions = net->info.max_positions;
  return vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, tensor, stack->n_positions, net->info.d_model, name,
                              &stack->position_table);
}

vkf_status vkf_model_map_marian(vkf_net *net, vkf_file_value config) {
  vkf_net_info *info = &net->info;
  VKF_CALL(refuse_unsupported(net, config));
  VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &info->max_positions));
  VKF_CALL(vkf_model_claim_pair(net, config, true));
  if (info->decoder_start_id < 0) info->decoder_start_id = info->pad_id;
  VKF_CALL(positions(net, &net->encoder, "model.encoder.embed_positions.weight", "encoder.positions.weight"));
  VKF_CALL(positions(net, &net->decoder, "model.decoder.embed_positions.weight", "decoder.positions.weight"));
  VKF_CALL(vkf_model_claim_stack(net, &net->encoder, &encoder_names));
  return vkf_model_claim_stack(net, &net->decoder, &decoder_names);
}
