/* bart: BART, mBART and M2M-100 (NLLB) as transformers computes them (Lewis et al. 2020, Liu et al. 2020, Fan et al.
 * 2021).
 *
 * BART is post-norm and norms its embeddings; mBART is pre-norm and does so too, with norms after both stacks; M2M-100
 * is pre-norm with sinusoids whose positions skip pads. Learned positions begin at row 2.
 * Keys that cannot matter here: dropouts, layerdrops, init_std, use_cache, dtype, id2label, num_labels, is_decoder.
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

/* Where the stacks of the three differ. */
typedef struct variant {
  const char *model_type;
  bool norm_first; /* and a final norm */
  bool embed_norm;
  bool is_learned;
  bool has_logits_bias; /* folders that transformers writes do */
} variant;
static const variant variants[] = {
    {"bart", false, true, true, true},
    {"mbart", true, true, true, true},
    {"m2m_100", true, false, false, false},
};

static vkf_status map_stack(vkf_net *net, const variant *v, vkf_model_stack *stack, const char *prefix,
                            const vkf_model_stack_names *names) {
  enum { POSITION_OFFSET = 2 };
  const char *table = vkf_arena_printf(&net->arena, "%sembed_positions.weight", prefix);
  const char *norm = vkf_arena_printf(&net->arena, "%slayernorm_embedding.", prefix);
  const char *stored = vkf_arena_printf(&net->arena, "%sembed_positions.weights", prefix); /* sinusoids, of old */
  const char *table_name = vkf_arena_printf(&net->arena, "%s.positions.weight", stack->name);
  const char *norm_name = vkf_arena_printf(&net->arena, "%s.embed.norm", stack->name);
  if (table == NULL || norm == NULL || stored == NULL || table_name == NULL || norm_name == NULL)
    return VKF_ERROR_MEMORY;
  stack->norm_first = stack->has_final_norm = v->norm_first;
  if (v->is_learned) {
    stack->positions = VKF_POSITION_LEARNED;
    stack->position_offset = POSITION_OFFSET;
    stack->n_positions = net->info.max_positions + POSITION_OFFSET;
    VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, table, stack->n_positions, net->info.d_model, table_name,
                                  &stack->position_table));
  } else {
    stack->positions = VKF_POSITION_STRETCHED;
    stack->position_ids = VKF_POSITION_IDS_NON_PADS;
    stack->position_offset = (uint32_t)net->info.pad_id;
    vkf_model_mark_known(net, stored);
  }
  if (v->embed_norm)
    VKF_CALL(vkf_model_add_norm(net, norm, net->info.d_model, VKF_NORM_LAYER, norm_name, &stack->embed_norm));
  return vkf_model_claim_stack(net, stack, names);
}

vkf_status vkf_model_map_bart(vkf_net *net, vkf_file_value config) {
  const variant *v = variants;
  while (strcmp(v->model_type, net->info.family) != 0) v++;
  /* of old configurations of BART */
  VKF_CALL(vkf_model_only_bool(net, config, "normalize_before", v->norm_first));
  VKF_CALL(vkf_model_only_bool(net, config, "normalize_embedding", v->embed_norm));
  VKF_CALL(vkf_model_only_bool(net, config, "add_final_layer_norm", v->norm_first));
  VKF_CALL(vkf_model_only_bool(net, config, "static_position_embeddings", !v->is_learned));
  VKF_CALL(vkf_model_claim_pair(net, config, v->has_logits_bias));
  if (v->is_learned) VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &net->info.max_positions));
  if (!v->is_learned && (net->info.pad_id < 0 || (uint32_t)net->info.pad_id >= net->encoder.vocab))
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected an id of the vocabulary as pad_token_id, on which positions depend, found %d",
                        net->config_path, (int)net->info.pad_id);
  VKF_CALL(map_stack(net, v, &net->encoder, "model.encoder.", &encoder_names));
  return map_stack(net, v, &net->decoder, "model.decoder.", &decoder_names);
}
