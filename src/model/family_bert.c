/* bert: BERT, ELECTRA, RoBERTa (XLM-R) and MPNet as transformers computes them (Devlin et al. 2019, Clark et al. 2020,
 * Liu et al. 2019, Song et al. 2020).
 *
 * Post-norm encoders with learned positions, token types and a norm of the embeddings. ELECTRA's embeddings may have
 * another width than its layers; a linear layer is between them then. RoBERTa counts positions from the pad's id on and
 * skips pads. MPNet does so from id 1 on, has no types, and adds biases by distance to the scores.
 * Keys that cannot matter here: dropouts, initializer_range, use_cache, dtype, id2label, num_labels, pruned_heads, and
 * summary_type and its kin, because ELECTRA's class for choices alone reads them.
 */
#include "model/internal.h"

/* What differs between them, beside the positions. */
typedef struct variant {
  const char *base;    /* of the names of tensors */
  int32_t usual_pad;   /* if config.json has none */
  bool has_types;      /* of tokens */
  const char *buckets; /* the table of biases by distance; NULL: there are none */
  const char *widened; /* from the width of the embeddings to that of the layers; NULL: it is the same */
  const char *embeddings;
  vkf_model_stack_names names;
  vkf_model_encoder_heads heads;
} variant;

#define STACK_NAMES(base, ...)                                                               \
  {                                                                                          \
    .layers = base "encoder.layer.", .self = {__VA_ARGS__}, .ffn_in = "intermediate.dense.", \
    .ffn_out = "output.dense.", .ffn_norm = "output.LayerNorm."                              \
  }
#define BERT_ATTENTION                                                                    \
  .q = "attention.self.query.", .k = "attention.self.key.", .v = "attention.self.value.", \
  .out = "attention.output.dense.", .norm = "attention.output.LayerNorm."
#define MPNET_ATTENTION                                                                                     \
  .q = "attention.attn.q.", .k = "attention.attn.k.", .v = "attention.attn.v.", .out = "attention.attn.o.", \
  .norm = "attention.LayerNorm."

static const variant bert = {
    .base = "bert.",
    .usual_pad = -1,
    .has_types = true,
    .embeddings = "bert.embeddings.",
    .names = STACK_NAMES("bert.", BERT_ATTENTION),
    .heads = {.dense = "cls.predictions.transform.dense.",
              .norm = "cls.predictions.transform.LayerNorm.",
              .table = "cls.predictions.decoder.weight",
              .bias = "cls.predictions.bias",
              .bias_again = "cls.predictions.decoder.bias",
              .pooler = "bert.pooler.dense.",
              .pooler_activation = VKF_ACT_TANH,
              .sequence_dense = "bert.pooler.dense.",
              .sequence_activation = VKF_ACT_TANH,
              .sequence = "classifier.",
              .token = "classifier."},
};
static const variant electra = {
    .base = "electra.",
    .usual_pad = -1,
    .has_types = true,
    .widened = "electra.embeddings_project.",
    .embeddings = "electra.embeddings.",
    .names = STACK_NAMES("electra.", BERT_ATTENTION),
    .heads = {.dense = "generator_predictions.dense.",
              .norm = "generator_predictions.LayerNorm.",
              .dense_has_gelu = true,
              .table = "generator_lm_head.weight",
              .bias = "generator_lm_head.bias",
              .sequence_dense = "classifier.dense.",
              .sequence_activation = VKF_ACT_GELU,
              .sequence = "classifier.out_proj.",
              .token = "classifier.",
              .replaced_dense = "discriminator_predictions.dense.",
              .replaced = "discriminator_predictions.dense_prediction."},
};
#define ROBERTA_HEADS(base)                                                                                   \
  {                                                                                                           \
    .dense = "lm_head.dense.", .norm = "lm_head.layer_norm.", .dense_has_gelu = true,                         \
    .table = "lm_head.decoder.weight", .bias = "lm_head.bias", .bias_again = "lm_head.decoder.bias",          \
    .pooler = base "pooler.dense.", .pooler_activation = VKF_ACT_TANH, .sequence_dense = "classifier.dense.", \
    .sequence_activation = VKF_ACT_TANH, .sequence = "classifier.out_proj.", .token = "classifier."           \
  }
static const variant roberta = {
    .base = "roberta.",
    .usual_pad = 1,
    .has_types = true,
    .embeddings = "roberta.embeddings.",
    .names = STACK_NAMES("roberta.", BERT_ATTENTION),
    .heads = ROBERTA_HEADS("roberta."),
};
static const variant mpnet = {
    .base = "mpnet.",
    .usual_pad = 1,
    .buckets = "mpnet.encoder.relative_attention_bias.weight",
    .embeddings = "mpnet.embeddings.",
    .names = STACK_NAMES("mpnet.", MPNET_ATTENTION),
    .heads = ROBERTA_HEADS("mpnet."),
};

/* Claims the table of MPNet's biases. Its class counts 32 buckets up to a distance of 128, however many rows there are.
 */
static vkf_status claim_buckets(vkf_net *net, vkf_file_value config, const char *table, vkf_model_stack *stack) {
  enum { BUCKETS = 32, MAX_DISTANCE = 128 };
  vkf_model_source source = {.tensor = table, .n_rows = BUCKETS};
  VKF_CALL(vkf_model_find_size(net, config, "relative_attention_num_buckets", BUCKETS, &source.rows));
  if (source.rows < BUCKETS)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected at least %d as relative_attention_num_buckets, found %u", net->config_path,
                        BUCKETS, source.rows);
  stack->relative.n_buckets = BUCKETS;
  stack->relative.max_distance = MAX_DISTANCE;
  return vkf_model_add_weight(net, VKF_WEIGHT_TABLE, stack->n_heads, &source, 1, &stack->relative.table,
                              "encoder.relative.weight");
}

static vkf_status map(vkf_net *net, vkf_file_value config, const variant *v) {
  vkf_model_stack *stack = &net->encoder;
  uint32_t width = 0;
  net->base = v->base;
  stack->name = "encoder";
  VKF_CALL(vkf_model_only_bool(net, config, "is_decoder", false));
  VKF_CALL(vkf_model_only_bool(net, config, "add_cross_attention", false));
  VKF_CALL(vkf_model_only_string(net, config, "position_embedding_type", "absolute"));
  VKF_CALL(vkf_model_get_layers(net, config, "gelu", 1e-12, stack));
  VKF_CALL(vkf_model_find_tokens(net, config, v->usual_pad));
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  width = net->info.d_model;
  if (v->widened != NULL) VKF_CALL(vkf_model_find_size(net, config, "embedding_size", 128, &width));
  VKF_CALL(vkf_model_claim_bert_embeddings(net, config, v->embeddings, width, v->has_types, &v->heads, stack));
  if (width != net->info.d_model)
    VKF_CALL(vkf_model_add_linear(net, v->widened, net->info.d_model, width, true, "embed.in", &stack->embed_in));
  if (v->buckets != NULL) VKF_CALL(claim_buckets(net, config, v->buckets, stack));
  VKF_CALL(vkf_model_claim_stack(net, stack, &v->names));
  return vkf_model_claim_encoder_head(net, config, &v->heads);
}

/* Counts positions from the id `pad` on, without tokens of this id. */
static vkf_status skip_pads(vkf_net *net, int32_t pad) {
  if (pad < 0 || (uint32_t)pad + 1 >= net->encoder.n_positions)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected a pad_token_id below max_position_embeddings - 1, found %d", net->config_path,
                        (int)pad);
  net->encoder.position_ids = VKF_POSITION_IDS_NON_PADS;
  net->encoder.position_offset = (uint32_t)pad;
  net->info.max_positions -= (uint32_t)pad + 1;
  return VKF_OK;
}

vkf_status vkf_model_map_bert(vkf_net *net, vkf_file_value config) {
  return map(net, config, &bert);
}

vkf_status vkf_model_map_electra(vkf_net *net, vkf_file_value config) {
  return map(net, config, &electra);
}

vkf_status vkf_model_map_roberta(vkf_net *net, vkf_file_value config) {
  VKF_CALL(map(net, config, &roberta));
  return skip_pads(net, net->info.pad_id);
}

vkf_status vkf_model_map_mpnet(vkf_net *net, vkf_file_value config) {
  VKF_CALL(map(net, config, &mpnet));
  return skip_pads(net, 1); /* its class has this id, whatever pad_token_id says */
}
