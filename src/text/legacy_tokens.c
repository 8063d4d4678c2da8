/* legacy_tokens: the special tokens of a folder without a tokenizer.json, and the template of those around a text. */
#include "text/legacy.h"

#include <stdio.h>
#include <string.h>

static const char *const KEYS[VKF_LEGACY_N_SPECIAL] = {"unk_token", "bos_token", "eos_token", "sep_token",
                                                       "pad_token", "cls_token", "mask_token"};

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

bool vkf_text_legacy_find_id(const vkf_text_legacy *o, const char *token, size_t *id) {
  if (o->vocab != NULL) {
    const json_t *value = json_object_get(o->vocab, token);
    *id = (size_t)json_integer_value(value);
    return json_is_integer(value);
  }
  vkf_text_string want = {token, strlen(token)};
  for (*id = 0; *id < o->spm->n_pieces; ++*id)
    if (vkf_text_string_equal(o->spm->pieces[*id].text, want)) return true;
  return false;
}

const char *vkf_text_legacy_special_token(const vkf_text_legacy *o, int which) {
  const json_t *value = json_object_get(o->config, KEYS[which]);
  if (value == NULL) return o->row->tokens[which];
  return vkf_text_load_token(value);
}

vkf_status vkf_text_legacy_add_token(vkf_text_legacy *o, const char *token, size_t id, bool lstrip) {
  for (size_t i = 0; i < json_array_size(o->added); i++) {
    const char *known = json_string_value(json_object_get(json_array_get(o->added, i), "content"));
    if (known != NULL && strcmp(known, token) == 0) return VKF_OK;
  }
  json_t *entry =
      json_pack("{s:s, s:I, s:b, s:b}", "content", token, "id", (json_int_t)id, "special", 1, "lstrip", lstrip);
  if (entry == NULL || json_array_append_new(o->added, entry) != 0) return vkf_text_legacy_no_memory(o);
  o->next_id = VKF_MAX(o->next_id, id + 1);
  return VKF_OK;
}

/* Returns whether a token is used as bos_token, pad_token and so on. Then it is special, whatever added_tokens_decoder
 * says (ByT5, as transformers 5 saves it). */
static bool has_role(const vkf_text_legacy *o, const json_t *token) {
  const char *content = json_string_value(json_object_get(token, "content"));
  for (int which = 0; content != NULL && which < VKF_LEGACY_N_SPECIAL; which++) {
    const char *special = vkf_text_legacy_special_token(o, which);
    if (special != NULL && strcmp(special, content) == 0) return true;
  }
  return false;
}

/* Adds added_tokens_decoder: {"32000": {"content": ..., "special": ...}}. These come first, as they say the most. */
static vkf_status add_decoder_tokens(vkf_text_legacy *o) {
  const char *key;
  json_t *token;
  json_object_foreach(json_object_get(o->config, "added_tokens_decoder"), key, token) {
    unsigned long id;
    char rest;
    if (sscanf(key, "%7lu%c", &id, &rest) != 1 || !json_is_object(token))
      return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT,
                          "%s: added_tokens_decoder \"%.40s\" should be an id and a token",
                          o->files->tokenizer_config.name, key);
    json_t *entry = json_copy(token);
    /* A SentencePiece normalizer puts a space before every text, so tokens are looked for in the raw text. */
    if ((o->spm != NULL && json_object_set_new(entry, "normalized", json_false()) != 0) ||
        (has_role(o, token) && json_object_set_new(entry, "special", json_true()) != 0)) {
      json_decref(entry);
      return vkf_text_legacy_no_memory(o);
    }
    if (entry == NULL || json_object_set_new(entry, "id", json_integer((json_int_t)id)) != 0 ||
        json_array_append_new(o->added, entry) != 0)
      return vkf_text_legacy_no_memory(o);
    o->next_id = VKF_MAX(o->next_id, (size_t)id + 1);
  }
  return VKF_OK;
}

/* Adds the sentinels of T5, where <extra_id_0> has the last id, or of ByT5, where it has the first one. */
static vkf_status add_extra_ids(vkf_text_legacy *o) {
  const bool is_bytes = o->row->form == VKF_LEGACY_BYTES, is_t5 = strcmp(o->row->class_name, "T5") == 0;
  const json_t *field = json_object_get(o->config, "extra_ids");
  json_int_t n = is_bytes ? 125 : 100;
  if (json_is_number(field)) n = (json_int_t)VKF_MAX(VKF_MIN(json_number_value(field), 1000.0), 0.0);
  if ((!is_t5 && !is_bytes) || json_object_get(o->config, "added_tokens_decoder") != NULL) return VKF_OK;
  vkf_status st = VKF_OK;
  for (json_int_t i = 0; i < n && st == VKF_OK; i++) {
    char name[40];
    snprintf(name, sizeof(name), "<extra_id_%d>", (int)(is_bytes ? i : n - 1 - i));
    st = vkf_text_legacy_add_token(o, name, o->next_id, false);
  }
  return st;
}

vkf_status vkf_text_legacy_add_tokens(vkf_text_legacy *o) {
  size_t id, i;
  const json_t *more;
  VKF_CALL(add_decoder_tokens(o));
  for (int which = 0; which < VKF_LEGACY_N_SPECIAL; which++) {
    const char *token = vkf_text_legacy_special_token(o, which);
    if (token != NULL && vkf_text_legacy_find_id(o, token, &id))
      VKF_CALL(
          vkf_text_legacy_add_token(o, token, id, which == VKF_LEGACY_MASK && o->row->form != VKF_LEGACY_WORDPIECE));
  }
  VKF_CALL(add_extra_ids(o));
  json_array_foreach(json_object_get(o->config, "additional_special_tokens"), i, more) {
    const char *token = vkf_text_load_token(more);
    if (token != NULL)
      VKF_CALL(vkf_text_legacy_add_token(o, token, vkf_text_legacy_find_id(o, token, &id) ? id : o->next_id, false));
  }
  return VKF_OK;
}

/* ---- what is around a text --------------------------------------------------------------------------------------- */

/* Appends a special token to a form; which < 0: none. */
static vkf_status append_token(vkf_text_legacy *o, json_t *form, json_t *ids, int which, int type) {
  size_t id;
  const char *token = which >= 0 ? vkf_text_legacy_special_token(o, which) : NULL;
  if (which < 0) return VKF_OK;
  if (token == NULL || !vkf_text_legacy_find_id(o, token, &id))
    return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT, "%s \"%s\" of a %sTokenizer is not in its vocabulary",
                        KEYS[which], token ? token : "", o->row->class_name);
  if (json_array_append_new(form, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token, "type_id", type)) != 0 ||
      json_object_set_new(ids, token, json_pack("{s:[I]}", "ids", (json_int_t)id)) != 0)
    return vkf_text_legacy_no_memory(o);
  return VKF_OK;
}

static vkf_status append_text(vkf_text_legacy *o, json_t *form, const char *name, int type) {
  json_t *piece = json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", type);
  return json_array_append_new(form, piece) == 0 ? VKF_OK : vkf_text_legacy_no_memory(o);
}

/* Makes the form for two texts: [CLS] A [SEP] B [SEP] of BERT, <s> A </s></s> B </s> of RoBERTa and MPNet, A B </s> of
 * Pegasus, else each text with what is around one. */
static vkf_status append_pair(vkf_text_legacy *o, json_t *pair, json_t *ids, int before, int after) {
  const bool has_words = o->row->form == VKF_LEGACY_WORDPIECE,
             is_bert = has_words && strcmp(o->row->class_name, "MPNet") != 0,
             is_roberta = !is_bert && before == VKF_LEGACY_CLS;
  const int between = is_bert ? -1 : is_roberta ? after : before;
  const int type = has_words || before == VKF_LEGACY_BOS || after < 0; /* those of T5 and Marian are all 0 */
  VKF_CALL(append_token(o, pair, ids, before, 0));
  VKF_CALL(append_text(o, pair, "A", 0));
  if (o->row->form != VKF_LEGACY_PEGASUS) VKF_CALL(append_token(o, pair, ids, after, 0));
  VKF_CALL(append_token(o, pair, ids, between, is_roberta ? 0 : type));
  VKF_CALL(append_text(o, pair, "B", type));
  return append_token(o, pair, ids, after, type);
}

vkf_status vkf_text_legacy_make_postprocessor(vkf_text_legacy *o) {
  vkf_status st = VKF_OK;
  const json_t *bos = json_object_get(o->config, "add_bos_token"), *eos = json_object_get(o->config, "add_eos_token");
  int before = o->row->before, after = o->row->after;
  if (json_is_boolean(bos)) before = json_is_true(bos) ? VKF_LEGACY_BOS : -1;
  if (json_is_boolean(eos)) after = json_is_true(eos) ? VKF_LEGACY_EOS : -1;
  json_t *single = json_array(), *pair = json_array(), *ids = json_object();
  VKF_TRY(append_token(o, single, ids, before, 0));
  VKF_TRY(append_text(o, single, "A", 0));
  VKF_TRY(append_token(o, single, ids, after, 0));
  VKF_TRY(append_pair(o, pair, ids, before, after));
  o->post = json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single", single, "pair", pair,
                      "special_tokens", ids);
  if (o->post == NULL) st = vkf_text_legacy_no_memory(o);
done:
  json_decref(ids);
  json_decref(pair);
  json_decref(single);
  return st;
}

vkf_status vkf_text_legacy_no_memory(vkf_text_legacy *o) {
  return vkf_env_fail(o->loader->env, VKF_ERROR_MEMORY, "no memory for a tokenizer");
}
