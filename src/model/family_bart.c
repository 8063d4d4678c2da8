/* bart: BART and what has its names, as transformers computes them: mBART, PLBART, Blenderbot (also the small one),
 * M2M-100 (NLLB), Marian, MVP, PEGASUS (Lewis et al. 2020, Liu et al. 2020, Ahmad et al. 2021, Roller et al. 2021, Fan
 * et al. 2021, Junczys-Dowmunt et al. 2018, Tang et al. 2023, Zhang et al. 2020).
 *
 * They differ in where norms are and in positions: each has a row in `variants`.
 * Keys that cannot matter here: dropouts, layerdrops, init_std, use_cache, dtype, id2label, num_labels, is_decoder,
 * extra_pos_embeddings, layernorm_variant, add_bias_logits and others of fairseq and ParlAI, which transformers leaves
 * unread. Refuses those of them that say that the weights were trained for something else, and MVP's prompts.
 */
#include <string.h>

#include "model/internal.h"

static const vkf_model_stack_names encoder_names = {
    .layers = "model.encoder.layers.",
    VKF_MODEL_FAIRSEQ_LAYER,
    .final_norm = "model.encoder.layer_norm.",
};
static const vkf_model_stack_names decoder_names = {
    .layers = "model.decoder.layers.",
    VKF_MODEL_FAIRSEQ_LAYER,
    .cross = VKF_MODEL_FAIRSEQ_ATTENTION("encoder_attn"),
    .final_norm = "model.decoder.layer_norm.",
};

/* Where the stacks differ. */
typedef struct variant {
  const char *model_type;
  bool norm_first; /* and there is a final norm */
  bool embed_norm;
  vkf_model_position_kind positions;
  uint32_t first_row;    /* of learned positions */
  bool stores_sinusoids; /* transformers writes them into folders; they are read if they are stored */
  bool starts_with_pad;  /* the decoder does, if the folder does not say */
  bool norms_words;      /* of the decoder: as vkf_model_stack, and they are not scaled */
  vkf_model_pair_usual usual;
} variant;
#define USUAL \
  { "gelu", false, true, false, -1 }
static const variant variants[] = {
    {"bart", false, true, VKF_POSITION_LEARNED, 2, false, false, false, {"gelu", false, true, true, -1}},
    {"blenderbot", true, false, VKF_POSITION_LEARNED, 0, false, false, false, USUAL},
    {"blenderbot-small", false, true, VKF_POSITION_LEARNED, 0, false, false, true, USUAL},
    {"m2m_100", true, false, VKF_POSITION_STRETCHED, 0, false, false, false, {"relu", true, false, false, 1}},
    {"marian", false, false, VKF_POSITION_HALVES, 0, false, true, false, USUAL},
    {"mbart", true, true, VKF_POSITION_LEARNED, 2, false, false, false, USUAL},
    {"mvp", false, true, VKF_POSITION_LEARNED, 2, false, false, false, {"gelu", false, true, true, -1}},
    {"pegasus", true, false, VKF_POSITION_HALVES, 0, true, false, false, USUAL},
    {"plbart", false, true, VKF_POSITION_LEARNED, 2, false, false, false, {"gelu", true, true, false, -1}},
};
#undef USUAL

static vkf_status map_positions(vkf_net *net, const variant *v, vkf_model_stack *stack, const char *prefix) {
  const char *table = vkf_arena_printf(&net->arena, "%sembed_positions.weight", prefix);
  const char *stored = vkf_arena_printf(&net->arena, "%sembed_positions.weights", prefix); /* older M2M-100 */
  const char *name = vkf_arena_printf(&net->arena, "%s.positions.weight", stack->name);
  if (table == NULL || stored == NULL || name == NULL) return VKF_ERROR_MEMORY;
  stack->positions = v->positions;
  if (v->positions == VKF_POSITION_STRETCHED) {
    stack->position_ids = VKF_POSITION_IDS_NON_PADS;
    stack->position_offset = (uint32_t)net->info.pad_id;
    vkf_model_mark_known(net, stored);
    return VKF_OK;
  }
  if (v->positions == VKF_POSITION_HALVES && !vkf_model_has_tensor(net, table, v->stores_sinusoids)) return VKF_OK;
  stack->positions = VKF_POSITION_LEARNED;
  stack->position_offset = v->first_row;
  stack->n_positions = net->info.max_positions + v->first_row;
  return vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, table, stack->n_positions, net->info.d_model, name,
                              &stack->position_table);
}

static vkf_status map_stack(vkf_net *net, const variant *v, vkf_model_stack *stack, const char *prefix,
                            const vkf_model_stack_names *names) {
  const char *norm = vkf_arena_printf(&net->arena, "%slayernorm_embedding.", prefix);
  const char *norm_name = vkf_arena_printf(&net->arena, "%s.embed.norm", stack->name);
  if (norm == NULL || norm_name == NULL) return VKF_ERROR_MEMORY;
  stack->norm_first = stack->has_final_norm = v->norm_first;
  VKF_CALL(map_positions(net, v, stack, prefix));
  if (v->embed_norm) VKF_CALL(vkf_model_add_norm(net, norm, net->info.d_model, norm_name, &stack->embed_norm));
  return vkf_model_claim_stack(net, stack, names);
}

vkf_status vkf_model_map_bart(vkf_net *net, vkf_file_value config) {
  const variant *v = variants;
  while (strcmp(v->model_type, net->info.family) != 0) v++;
  vkf_net_info *info = &net->info;
  const bool is_stretched = v->positions == VKF_POSITION_STRETCHED;
  /* keys of fairseq and Marian */
  VKF_CALL(vkf_model_only_bool(net, config, "normalize_before", v->norm_first));
  VKF_CALL(vkf_model_only_bool(net, config, "normalize_embedding", v->embed_norm));
  VKF_CALL(vkf_model_only_bool(net, config, "add_final_layer_norm", v->norm_first));
  VKF_CALL(vkf_model_only_bool(net, config, "static_position_embeddings", v->positions != VKF_POSITION_LEARNED));
  VKF_CALL(vkf_model_only_bool(net, config, "use_prompt", false));
  VKF_CALL(vkf_model_claim_pair(net, config, &v->usual));
  if (v->norms_words) net->decoder.norms_words = true, net->decoder.embed_scale = 1;
  if (v->starts_with_pad && info->decoder_start_id < 0) info->decoder_start_id = info->pad_id;
  if (!is_stretched) VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &info->max_positions));
  if (is_stretched && (info->pad_id < 0 || (uint32_t)info->pad_id >= net->encoder.vocab))
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected an id of the vocabulary as pad_token_id, on which positions depend, found %d",
                        net->config_path, (int)info->pad_id);
  VKF_CALL(map_stack(net, v, &net->encoder, "model.encoder.", &encoder_names));
  return map_stack(net, v, &net->decoder, "model.decoder.", &decoder_names);
}
