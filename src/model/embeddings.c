/* embeddings: token ids and tables, as several families have them. See internal.h.
 *
 * Tied tables are one weight, whether they are stored once or twice. */
#include <math.h>

#include "model/internal.h"

vkf_status vkf_model_find_tokens(vkf_net *net, vkf_file_value config, int32_t usual_pad) {
  bool is_null = vkf_file_json_kind(vkf_file_json_member(config, "pad_token_id")) == VKF_FILE_NULL;
  vkf_file_value eos = vkf_file_json_member(config, "eos_token_id");
  int64_t first = -1;
  VKF_CALL(vkf_model_find_token(net, config, "pad_token_id", is_null ? -1 : usual_pad, &net->info.pad_id));
  VKF_CALL(vkf_model_find_token(net, config, "bos_token_id", -1, &net->info.bos_id));
  net->info.decoder_start_id = -1;
  if (vkf_file_json_kind(eos) != VKF_FILE_ARRAY) {
    VKF_CALL(vkf_model_find_token(net, config, "eos_token_id", -1, &net->info.eos_id));
  } else {
    if (vkf_file_json_count(eos) > 0) VKF_CALL(vkf_file_json_as_int64(vkf_file_json_at(eos, 0), &first));
    if (first < -1 || first > INT32_MAX)
      return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected token ids as eos_token_id, found %lld",
                          net->config_path, (long long)first);
    net->info.eos_id = (int32_t)first;
  }
  return VKF_OK;
}

/* ---- encoders with the names of BERT ----------------------------------------------------------------------------- */

vkf_status vkf_model_claim_bert_embeddings(vkf_net *net, vkf_file_value config, const char *prefix, uint32_t width,
                                           bool has_types, const vkf_model_encoder_heads *heads,
                                           vkf_model_stack *stack) {
  vkf_arena *arena = &net->arena;
  const char *words = vkf_arena_printf(arena, "%sword_embeddings.weight", prefix);
  const char *positions = vkf_arena_printf(arena, "%sposition_embeddings.weight", prefix);
  const char *types = vkf_arena_printf(arena, "%stoken_type_embeddings.weight", prefix);
  const char *norm = vkf_arena_printf(arena, "%sLayerNorm.", prefix);
  if (words == NULL || positions == NULL || types == NULL || norm == NULL) return VKF_ERROR_MEMORY;
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &stack->vocab));
  VKF_CALL(vkf_model_get_size(net, config, "max_position_embeddings", &stack->n_positions));
  if (has_types) VKF_CALL(vkf_model_find_size(net, config, "type_vocab_size", 2, &stack->n_types));
  VKF_CALL(vkf_model_claim_words(net, config, words, width, heads));
  VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, positions, stack->n_positions, width, "positions.weight",
                                &stack->position_table));
  if (has_types)
    VKF_CALL(
        vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, types, stack->n_types, width, "types.weight", &stack->type_table));
  VKF_CALL(vkf_model_add_norm(net, norm, width, "embed.norm", &stack->embed_norm));
  stack->positions = VKF_POSITION_LEARNED;
  stack->embed_scale = 1;
  net->info.max_positions = stack->n_positions;
  net->info.n_types = stack->n_types;
  return VKF_OK;
}

/* ---- encoder-decoders with the names of BART --------------------------------------------------------------------- */

enum { SHARED, OF_DECODER, OF_ENCODER, OF_HEAD, N_TABLES };
static const char *const TABLES[N_TABLES] = {"model.shared.weight", "model.decoder.embed_tokens.weight",
                                             "model.encoder.embed_tokens.weight", "lm_head.weight"};

/* Finds the tensor of each table, as transformers 5 does. Tied tables are the shared one, but a table that is stored
 * with other numbers keeps them. If no shared one is stored, the head's takes its place. If that is not stored either,
 * families differ in which table the head has, so all tables must be the same. */
static void tie_tables(vkf_net *net, const char *of[N_TABLES]) {
  const char *source = vkf_model_first_of(net, TABLES, N_TABLES);
  const bool has_head = net->info.has_head && vkf_model_has_tensor(net, TABLES[OF_HEAD], false);
  const bool is_clear = source == TABLES[SHARED] || has_head || !net->info.has_head;
  if (source != TABLES[SHARED] && has_head) source = TABLES[OF_HEAD];
  for (size_t i = 0; i < N_TABLES; i++)
    of[i] = is_clear && vkf_model_differ(net, TABLES[i], source) ? TABLES[i] : source;
}

/* Does the same for tables that are shared and not tied. */
static vkf_status part_tables(vkf_net *net, const char *of[N_TABLES]) {
  const bool are_apart = net->tensors == NULL || vkf_model_differ(net, TABLES[SHARED], TABLES[OF_DECODER]) ||
                         vkf_model_differ(net, TABLES[OF_DECODER], TABLES[OF_ENCODER]);
  if (are_apart) { /* transformers then keeps a table for each, and one that nothing reads */
    if (vkf_model_has_tensor(net, TABLES[OF_ENCODER], true))
      return vkf_model_claim_unread(net, TABLES[SHARED], net->encoder.vocab, net->info.d_model);
    of[OF_ENCODER] = TABLES[SHARED];
    return VKF_OK;
  }
  for (size_t i = 0; i < OF_HEAD; i++) of[i] = vkf_model_first_of(net, TABLES, OF_HEAD);
  return VKF_OK;
}

static vkf_status find_tables(vkf_net *net, vkf_file_value config, const char *of[N_TABLES], bool *is_shared) {
  const char *const apart[] = {TABLES[OF_DECODER], TABLES[OF_HEAD]};
  bool is_tied = true;
  for (size_t i = 0; i < N_TABLES; i++) of[i] = TABLES[i];
  VKF_CALL(vkf_file_json_find_bool(config, "share_encoder_decoder_embeddings", true, is_shared));
  VKF_CALL(vkf_file_json_find_bool(config, "tie_word_embeddings", true, &is_tied));
  if (*is_shared) net->decoder.vocab = net->encoder.vocab;
  if (*is_shared && !is_tied) return part_tables(net, of);
  if (*is_shared) tie_tables(net, of);
  if (*is_shared || !is_tied) return VKF_OK;
  of[OF_DECODER] = vkf_model_first_of(net, apart, VKF_COUNT(apart));
  if (!vkf_model_differ(net, of[OF_DECODER], TABLES[OF_HEAD])) of[OF_HEAD] = of[OF_DECODER];
  return VKF_OK;
}

static uint32_t use_of_table(const vkf_net *net, const vkf_model_tables *of, const char *tensor) {
  return VKF_WEIGHT_TABLE | (net->info.has_head && of->head == tensor ? VKF_WEIGHT_MATMUL : 0);
}

vkf_status vkf_model_claim_tables(vkf_net *net, const vkf_model_tables *of) {
  vkf_model_stack *encoder = &net->encoder, *decoder = &net->decoder;
  const uint32_t width = net->info.d_model;
  const bool is_one = of->encoder == of->decoder;
  VKF_CALL(vkf_model_add_matrix(net, use_of_table(net, of, of->encoder), of->encoder, encoder->vocab, width,
                                is_one ? "embed.weight" : "encoder.embed.weight", &encoder->table));
  decoder->table = encoder->table;
  if (!is_one)
    VKF_CALL(vkf_model_add_matrix(net, use_of_table(net, of, of->decoder), of->decoder, decoder->vocab, width,
                                  "decoder.embed.weight", &decoder->table));
  net->head.out.weight = of->head == of->encoder ? encoder->table : decoder->table;
  if (net->info.has_head && of->head != of->encoder && of->head != of->decoder)
    return vkf_model_add_matrix(net, VKF_WEIGHT_MATMUL, of->head, decoder->vocab, width, "head.weight",
                                &net->head.out.weight);
  vkf_model_mark_known(net, TABLES[OF_HEAD]);
  return VKF_OK;
}

static vkf_status pair_embeddings(vkf_net *net, vkf_file_value config, bool has_logits_bias) {
  const char *of[N_TABLES];
  const vkf_model_stack *decoder = &net->decoder;
  bool is_shared = true;
  VKF_CALL(find_tables(net, config, of, &is_shared));
  const vkf_model_tables read = {.encoder = of[OF_ENCODER], .decoder = of[OF_DECODER], .head = of[OF_HEAD]};
  VKF_CALL(vkf_model_claim_tables(net, &read));
  for (size_t i = 0; i < OF_HEAD && is_shared; i++) VKF_CALL(vkf_model_mark_same(net, TABLES[i], of[i]));
  if (vkf_model_has_tensor(net, "final_logits_bias", has_logits_bias)) {
    vkf_model_source bias = {.tensor = "final_logits_bias",
                             .rows = decoder->vocab,
                             .n_rows = decoder->vocab,
                             .stored_rank = 2,
                             .stored = {1, decoder->vocab}};
    VKF_CALL(vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &bias, 1, &net->head.out.bias, "head.bias"));
  }
  return VKF_OK;
}

static vkf_status pair_stack(vkf_net *net, vkf_file_value config, const vkf_model_pair_usual *usual,
                             const char *const keys[3], vkf_model_stack *stack) {
  bool is_scaled = false;
  VKF_CALL(vkf_model_get_size(net, config, keys[0], &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, keys[1], &stack->n_heads));
  VKF_CALL(vkf_model_get_size(net, config, keys[2], &stack->d_ff));
  VKF_CALL(vkf_model_split_heads(net, stack, keys[1]));
  VKF_CALL(vkf_model_find_activation(net, config, "activation_function", usual->activation, &stack->activation));
  VKF_CALL(vkf_file_json_find_bool(config, "scale_embedding", usual->is_scaled, &is_scaled));
  stack->qkv_bias = stack->out_bias = stack->ffn_bias = stack->norm_affine = true;
  stack->norm_eps = 1e-5f;
  stack->embed_scale = is_scaled ? (float)sqrt(net->info.d_model) : 1;
  return VKF_OK;
}

vkf_status vkf_model_claim_pair(vkf_net *net, vkf_file_value config, const vkf_model_pair_usual *usual) {
  static const char *const encoder_keys[] = {"encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"};
  static const char *const decoder_keys[] = {"decoder_layers", "decoder_attention_heads", "decoder_ffn_dim"};
  vkf_net_info *info = &net->info;
  vkf_model_stack *encoder = &net->encoder, *decoder = &net->decoder;
  vkf_model_head_kind kind;
  net->base = "model.";
  VKF_CALL(vkf_model_only_bool(net, config, "is_encoder_decoder", true));
  const uint32_t classes = usual->has_classes ? 1u << VKF_HEAD_SEQUENCE_CLASSIFICATION : 0;
  VKF_CALL(vkf_model_find_head(net, config, 1u << VKF_HEAD_NONE | 1u << VKF_HEAD_CAUSAL_LM | classes,
                               VKF_HEAD_CAUSAL_LM, &kind));
  VKF_CALL(vkf_model_get_size(net, config, "d_model", &info->d_model));
  VKF_CALL(vkf_model_find_tokens(net, config, usual->pad_id));
  VKF_CALL(vkf_model_find_token(net, config, "decoder_start_token_id", -1, &info->decoder_start_id));
  VKF_CALL(pair_stack(net, config, usual, encoder_keys, encoder));
  VKF_CALL(pair_stack(net, config, usual, decoder_keys, decoder));
  VKF_CALL(vkf_model_get_size(net, config, "vocab_size", &encoder->vocab));
  VKF_CALL(vkf_model_find_size(net, config, "decoder_vocab_size", encoder->vocab, &decoder->vocab));
  encoder->name = "encoder";
  decoder->name = "decoder";
  decoder->causal = decoder->has_cross = true;
  info->has_head = kind == VKF_HEAD_CAUSAL_LM;
  VKF_CALL(pair_embeddings(net, config, usual->has_logits_bias && info->has_head));
  return kind == VKF_HEAD_SEQUENCE_CLASSIFICATION ? vkf_model_claim_pair_classes(net, config) : VKF_OK;
}
