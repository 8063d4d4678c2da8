/* heads: which head a folder has, and its tensors. See internal.h.
 *
 * A head that is tied is one weight with the table of the embeddings, whether it is stored once or twice. */
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

vkf_status vkf_model_find_head(vkf_net *net, vkf_file_value config, uint32_t kinds, vkf_model_head_kind fallback,
                               vkf_model_head_kind *out) {
  static const struct {
    const char *ending;
    vkf_model_head_kind kind;
  } endings[] = {{"LMHeadModel", VKF_HEAD_CAUSAL_LM},
                 {"ForCausalLM", VKF_HEAD_CAUSAL_LM},
                 {"ForConditionalGeneration", VKF_HEAD_CAUSAL_LM},
                 {"MTModel", VKF_HEAD_CAUSAL_LM},
                 {"ForMaskedLM", VKF_HEAD_MASKED_LM},
                 {"ElectraForPreTraining", VKF_HEAD_REPLACED_TOKENS},
                 {"ForPreTraining", VKF_HEAD_MASKED_LM},
                 {"ForSequenceClassification", VKF_HEAD_SEQUENCE_CLASSIFICATION},
                 {"ForImageClassification", VKF_HEAD_SEQUENCE_CLASSIFICATION},
                 {"ForTokenClassification", VKF_HEAD_TOKEN_CLASSIFICATION},
                 {"ForQuestionAnswering", VKF_HEAD_QUESTION_ANSWERING},
                 {"EncoderModel", VKF_HEAD_ENCODER_ALONE},
                 {"Model", VKF_HEAD_NONE}};
  vkf_file_value names = {0};
  const char *name = NULL;
  VKF_CALL(vkf_file_json_find_array(config, "architectures", &names));
  *out = fallback;
  if (vkf_file_json_count(names) == 0) return VKF_OK;
  VKF_CALL(vkf_file_json_as_string(vkf_file_json_at(names, 0), &name));
  for (size_t i = 0; i < VKF_COUNT(endings); i++) {
    if (!vkf_ends_with(name, endings[i].ending)) continue;
    if ((kinds >> endings[i].kind & 1) == 0) break;
    *out = endings[i].kind;
    return VKF_OK;
  }
  return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: the architecture \"%s\" is not supported for model_type %s",
                      net->config_path, name, net->info.family);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* Counts the classes of a folder that is still to be made, as transformers does: id2label, num_labels, or 2. */
static vkf_status count_labels(vkf_net *net, vkf_file_value config, uint32_t *out) {
  vkf_file_value labels;
  VKF_CALL(vkf_file_json_find_object(config, "id2label", &labels));
  *out = (uint32_t)vkf_file_json_count(labels);
  return *out > 0 ? VKF_OK : vkf_model_find_size(net, config, "num_labels", 2, out);
}

/* Claims a classifier with as many classes as its tensor has rows. */
static vkf_status claim_classifier(vkf_net *net, vkf_file_value config, const char *stem, uint32_t columns,
                                   bool has_bias) {
  vkf_status st = VKF_OK;
  vkf_text name;
  vkf_text_init(&name, net->env);
  vkf_text_printf(&name, "%sweight", stem);
  VKF_TRY(vkf_text_status(&name));
  const vkf_file_tensor *tensor = vkf_model_find_tensor(net, name.data);
  uint32_t n_labels = 1;
  if (net->tensors == NULL)
    VKF_TRY(count_labels(net, config, &n_labels));
  else if (tensor != NULL && tensor->rank == 2 && tensor->shape[0] < UINT32_MAX)
    n_labels = (uint32_t)tensor->shape[0];
  VKF_TRY(vkf_model_add_linear(net, stem, n_labels, columns, has_bias, "head", &net->head.out));
  net->info.has_head = true;
done:
  vkf_text_finish(&name);
  return st;
}

/* Claims the layer before the projection. stem NULL: there is none. */
static vkf_status claim_dense(vkf_net *net, const char *stem, uint32_t rows, vkf_activation activation) {
  if (stem == NULL) return VKF_OK;
  net->head.activation = activation;
  return vkf_model_add_linear(net, stem, rows, net->info.d_model, true, "head.dense", &net->head.dense);
}

/* Returns whether the weights are a base model's, with names that lack net->base and without a head, although the
 * folder names a class with a head (Qwen3-Embedding). */
static bool is_base_model(const vkf_net *net, const char *table, const char *head) {
  const vkf_file_tensor *found = vkf_model_find_tensor(net, table);
  return found != NULL && strcmp(found->name, table) != 0 && vkf_model_find_tensor(net, head) == NULL;
}

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

vkf_status vkf_model_claim_language_model(vkf_net *net, vkf_file_value config, vkf_model_stack *stack,
                                          const char *table, uint32_t width, bool is_tied_by_default,
                                          const char *head) {
  vkf_model_head_kind kind;
  bool is_tied = is_tied_by_default;
  uint32_t kinds = 1u << VKF_HEAD_NONE | 1u << VKF_HEAD_CAUSAL_LM | 1u << VKF_HEAD_MASKED_LM;
  if (stack == &net->decoder) kinds |= 1u << VKF_HEAD_SEQUENCE_CLASSIFICATION;
  VKF_CALL(vkf_model_find_head(net, config, kinds, VKF_HEAD_CAUSAL_LM, &kind));
  if (kind == VKF_HEAD_SEQUENCE_CLASSIFICATION) {
    net->head.reads = VKF_HEAD_READS_LAST;
    net->info.is_pooled = true;
    VKF_CALL(vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, table, stack->vocab, width, "embed.weight", &stack->table));
    return claim_classifier(net, config, "score.", width, false);
  }
  VKF_CALL(vkf_file_json_find_bool(config, "tie_word_embeddings", is_tied_by_default, &is_tied));
  if (!is_tied && is_base_model(net, table, head)) kind = VKF_HEAD_NONE;
  net->info.has_head = kind != VKF_HEAD_NONE;
  is_tied = is_tied && !vkf_model_differ(net, table, head);
  uint32_t use = VKF_WEIGHT_TABLE | (is_tied && net->info.has_head ? VKF_WEIGHT_MATMUL : 0);
  const char *const either[] = {table, head}; /* what is tied may be stored under either name */
  const char *stored = vkf_model_first_of(net, either, is_tied ? 2 : 1);
  VKF_CALL(vkf_model_add_matrix(net, use, stored, stack->vocab, width, "embed.weight", &stack->table));
  net->head.out.weight = stack->table;
  if (is_tied || !net->info.has_head)
    vkf_model_mark_known(net, head);
  else
    VKF_CALL(
        vkf_model_add_matrix(net, VKF_WEIGHT_MATMUL, head, stack->vocab, width, "head.weight", &net->head.out.weight));
  return VKF_OK;
}

/* ---- encoder-decoders -------------------------------------------------------------------------------------------- */

vkf_status vkf_model_claim_pair_classes(vkf_net *net, vkf_file_value config) {
  net->head.reads = VKF_HEAD_READS_LAST;
  net->info.is_pooled = true;
  VKF_CALL(claim_dense(net, "classification_head.dense.", net->info.d_model, VKF_ACT_TANH));
  return claim_classifier(net, config, "classification_head.out_proj.", net->info.d_model, true);
}

/* ---- encoders ---------------------------------------------------------------------------------------------------- */

vkf_status vkf_model_claim_words(vkf_net *net, vkf_file_value config, const char *table, uint32_t width,
                                 const vkf_model_encoder_heads *names) {
  vkf_model_stack *stack = &net->encoder;
  bool is_tied = true;
  VKF_CALL(vkf_file_json_find_bool(config, "tie_word_embeddings", true, &is_tied));
  const char *const either[] = {table, names->table};
  const char *stored = vkf_model_first_of(net, either, is_tied ? 2 : 1);
  return vkf_model_add_matrix(net, VKF_WEIGHT_TABLE, stored, stack->vocab, width, "embed.weight", &stack->table);
}

static vkf_status claim_masked_lm(vkf_net *net, vkf_file_value config, const vkf_model_encoder_heads *names) {
  vkf_model_head *head = &net->head;
  const vkf_model_stack *stack = &net->encoder;
  uint32_t vocab = stack->vocab, width = net->infos[stack->table].shape[1];
  bool is_tied = true;
  VKF_CALL(vkf_file_json_find_bool(config, "tie_word_embeddings", true, &is_tied));
  is_tied = is_tied && !vkf_model_differ(net, net->weights[stack->table].parts[0].tensor->name, names->table);
  VKF_CALL(claim_dense(net, names->dense, width, names->dense_has_gelu ? VKF_ACT_GELU : stack->activation));
  VKF_CALL(vkf_model_add_norm(net, names->norm, width, "head.norm", &head->norm));
  head->out.weight = stack->table;
  if (is_tied) {
    net->infos[stack->table].use |= VKF_WEIGHT_MATMUL;
    vkf_model_mark_known(net, names->table);
  } else {
    VKF_CALL(
        vkf_model_add_matrix(net, VKF_WEIGHT_MATMUL, names->table, vocab, width, "head.weight", &head->out.weight));
  }
  bool is_again = names->bias_again != NULL && vkf_model_has_tensor(net, names->bias_again, !is_tied);
  vkf_model_source bias = {.tensor = is_again ? names->bias_again : names->bias, .rows = vocab, .n_rows = vocab};
  VKF_CALL(vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &bias, 1, &head->out.bias, "head.bias"));
  if (is_again) VKF_CALL(vkf_model_claim_unread(net, names->bias, vocab, 0));
  net->info.has_head = true;
  return VKF_OK;
}

/* Returns whether the head of the folder's class is not stored, as in all-distilroberta-v1. */
static bool lacks_head(const vkf_net *net, const vkf_model_encoder_heads *names, vkf_model_head_kind kind) {
  const bool is_masked = kind == VKF_HEAD_MASKED_LM;
  const char *const stems[] = {is_masked ? names->dense : names->replaced_dense,
                               is_masked ? names->norm : names->replaced};
  char name[256];
  if ((!is_masked && kind != VKF_HEAD_REPLACED_TOKENS) || net->tensors == NULL) return false;
  if (is_masked && vkf_model_find_tensor(net, names->bias) != NULL) return false;
  for (size_t i = 0; i < VKF_COUNT(stems); i++) {
    snprintf(name, sizeof name, "%sweight", stems[i]);
    if (vkf_model_find_tensor(net, name) != NULL) return false;
  }
  return true;
}

vkf_status vkf_model_claim_encoder_head(vkf_net *net, vkf_file_value config, const vkf_model_encoder_heads *names) {
  vkf_model_head *head = &net->head;
  vkf_model_head_kind kind;
  uint32_t kinds = 1u << VKF_HEAD_NONE, d_model = net->info.d_model;
  if (names->dense != NULL) kinds |= 1u << VKF_HEAD_MASKED_LM;
  if (names->sequence != NULL) kinds |= 1u << VKF_HEAD_SEQUENCE_CLASSIFICATION;
  if (names->token != NULL) kinds |= 1u << VKF_HEAD_TOKEN_CLASSIFICATION | 1u << VKF_HEAD_QUESTION_ANSWERING;
  if (names->replaced != NULL) kinds |= 1u << VKF_HEAD_REPLACED_TOKENS;
  bool has_bias = names->bias != NULL && vkf_model_has_tensor(net, names->bias, false);
  VKF_CALL(vkf_model_find_head(net, config, kinds, has_bias ? VKF_HEAD_MASKED_LM : VKF_HEAD_NONE, &kind));
  if (lacks_head(net, names, kind)) kind = VKF_HEAD_NONE;
  if (kind == VKF_HEAD_MASKED_LM) VKF_CALL(claim_masked_lm(net, config, names));
  if (kind == VKF_HEAD_TOKEN_CLASSIFICATION) VKF_CALL(claim_classifier(net, config, names->token, d_model, true));
  if (kind == VKF_HEAD_REPLACED_TOKENS) {
    net->info.has_head = net->info.is_flat = true;
    VKF_CALL(claim_dense(net, names->replaced_dense, d_model, net->encoder.activation));
    VKF_CALL(vkf_model_add_linear(net, names->replaced, 1, d_model, true, "head", &head->out));
  }
  if (kind == VKF_HEAD_QUESTION_ANSWERING) {
    net->info.has_head = net->info.is_span = true;
    VKF_CALL(vkf_model_add_linear(net, "qa_outputs.", 2, d_model, true, "head", &head->out));
  }
  if (kind == VKF_HEAD_SEQUENCE_CLASSIFICATION) {
    head->reads = VKF_HEAD_READS_FIRST;
    net->info.reads_first = net->info.is_pooled = true;
    VKF_CALL(claim_dense(net, names->sequence_dense, d_model, names->sequence_activation));
    VKF_CALL(claim_classifier(net, config, names->sequence, d_model, true));
  }
  if (kind == VKF_HEAD_NONE && names->pooler != NULL) {
    const char *weight = vkf_arena_printf(&net->arena, "%sweight", names->pooler);
    if (weight == NULL) return VKF_ERROR_MEMORY;
    if (!vkf_model_has_tensor(net, weight, true)) return VKF_OK; /* the model was saved without it */
    head->reads = VKF_HEAD_READS_FIRST;
    net->info.reads_first = true;
    head->dense_output = "pooler_output";
    VKF_CALL(claim_dense(net, names->pooler, d_model, names->pooler_activation));
  }
  return VKF_OK;
}
