/* vit: as transformers computes it (Dosovitskiy et al. 2021). A pre-norm encoder of image patches behind a class token,
 * with learned positions, and a classifier of the class token.
 *
 * Keys that cannot matter here: dropouts, initializer_range, encoder_stride (of masked images), dtype.
 */
#include "model/internal.h"

static const vkf_model_stack_names names = {
    .layers = "vit.encoder.layer.",
    .self = {.q = "attention.attention.query.",
             .k = "attention.attention.key.",
             .v = "attention.attention.value.",
             .out = "attention.output.dense.",
             .norm = "layernorm_before."},
    .ffn_in = "intermediate.dense.",
    .ffn_out = "output.dense.",
    .ffn_norm = "layernorm_after.",
    .final_norm = "vit.layernorm.",
};

/* Claims patches as rows of a matrix; the class token and the convolution's bias are the rows of a table of types. */
static vkf_status embeddings(vkf_net *net, vkf_file_value config, vkf_model_stack *stack) {
  enum { MAX_IMAGE = 4096, MAX_PATCH = 256, MAX_CHANNELS = 64 };
  uint32_t image = 0, patch = 0, channels = 0, width = net->info.d_model;
  VKF_CALL(vkf_model_find_size(net, config, "image_size", 224, &image));
  VKF_CALL(vkf_model_find_size(net, config, "patch_size", 16, &patch));
  VKF_CALL(vkf_model_find_size(net, config, "num_channels", 3, &channels));
  if (patch > image || image > MAX_IMAGE || channels > MAX_CHANNELS || patch > MAX_PATCH)
    return vkf_env_fail(
        net->env, VKF_ERROR_FORMAT,
        "%s: expected patches that fit into images, of at most %d pixels a side, images of %d and %d channels, "
        "found %u, %u and %u",
        net->config_path, MAX_PATCH, MAX_IMAGE, MAX_CHANNELS, patch, image, channels);
  uint32_t n_tokens = 1 + (image / patch) * (image / patch), columns = channels * patch * patch;
  vkf_model_source kernel = {.tensor = "vit.embeddings.patch_embeddings.projection.weight",
                             .rows = width,
                             .n_rows = width,
                             .stored_rank = 4,
                             .stored = {width, channels, patch, patch}};
  vkf_model_source types[] = {
      {.tensor = "vit.embeddings.cls_token", .rows = 1, .n_rows = 1, .stored_rank = 3, .stored = {1, 1, width}},
      {.tensor = "vit.embeddings.patch_embeddings.projection.bias",
       .rows = 1,
       .n_rows = 1,
       .stored_rank = 1,
       .stored = {width}}};
  vkf_model_source positions = {.tensor = "vit.embeddings.position_embeddings",
                                .rows = n_tokens,
                                .n_rows = n_tokens,
                                .stored_rank = 3,
                                .stored = {1, n_tokens, width}};
  VKF_CALL(vkf_model_add_weight(net, VKF_WEIGHT_MATMUL, columns, &kernel, 1, &stack->patches.weight, "patches.weight"));
  VKF_CALL(vkf_model_add_weight(net, VKF_WEIGHT_TABLE, width, types, 2, &stack->type_table, "types.weight"));
  VKF_CALL(
      vkf_model_add_weight(net, VKF_WEIGHT_TABLE, width, &positions, 1, &stack->position_table, "positions.weight"));
  vkf_model_mark_known(net, "vit.embeddings.mask_token");
  stack->patch = (vkf_patches_params){channels, image, image, patch, patch, 1};
  stack->positions = VKF_POSITION_LEARNED;
  stack->n_positions = net->info.max_positions = n_tokens;
  stack->n_types = 2;
  net->info.image[0] = channels;
  net->info.image[1] = net->info.image[2] = image;
  return VKF_OK;
}

vkf_status vkf_model_map_vit(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->encoder;
  net->base = "vit.";
  stack->name = "encoder";
  vkf_model_encoder_heads heads = {.pooler = "vit.pooler.dense.", .sequence = "classifier."};
  VKF_CALL(vkf_model_find_activation(net, config, "pooler_act", "tanh", &heads.pooler_activation));
  VKF_CALL(vkf_model_get_layers(net, config, "gelu", 1e-12, stack));
  VKF_CALL(vkf_file_json_find_bool(config, "qkv_bias", true, &stack->qkv_bias));
  stack->out_bias = stack->ffn_bias = stack->norm_affine = stack->norm_first = stack->has_final_norm = true;
  net->info.pad_id = net->info.bos_id = net->info.eos_id = net->info.decoder_start_id = -1;
  net->is_last_apart = true;
  VKF_CALL(embeddings(net, config, stack));
  VKF_CALL(vkf_model_claim_stack(net, stack, &names));
  return vkf_model_claim_encoder_head(net, config, &heads);
}
