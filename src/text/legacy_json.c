/* legacy_json: rewrites vocab.json with merges.txt, vocab.txt, and ByT5's bytes, which have no file, as an equivalent
 * tokenizer.json, and loads it. */
#include "text/legacy.h"

#include <string.h>

/* Takes the next line off `rest`, without its line end; false: there is none. */
static bool next_line(vkf_text_string *rest, vkf_text_string *line) {
  if (rest->size == 0) return false;
  const char *end = memchr(rest->data, '\n', rest->size);
  line->data = rest->data;
  line->size = end != NULL ? (size_t)(end - rest->data) : rest->size;
  size_t used = line->size + (end != NULL);
  *rest = (vkf_text_string){rest->data + used, rest->size - used};
  if (line->size > 0 && line->data[line->size - 1] == '\r') line->size--;
  return true;
}

static vkf_status bad_line(vkf_text_legacy *o, const vkf_text_file *file, size_t number, const char *expected) {
  return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT, "%s: line %zu should be %s", file->name, number, expected);
}

vkf_status vkf_text_legacy_read_merges(vkf_text_legacy *o, json_t *merges) {
  const vkf_text_file *file = &o->files->merges;
  vkf_text_string rest = {file->data, file->size}, line;
  for (size_t number = 1; next_line(&rest, &line); number++) {
    bool version = number == 1 && line.size >= 8 && memcmp(line.data, "#version", 8) == 0;
    if (version || line.size == 0) continue;
    json_t *text = json_stringn(line.data, line.size);
    if (text == NULL) return bad_line(o, file, number, "two pieces in UTF-8");
    if (json_array_append_new(merges, text) != 0) return vkf_text_legacy_no_memory(o);
  }
  return VKF_OK;
}

/* Reads a piece from each line; its id is the line's number, from 0. */
static vkf_status read_words(vkf_text_legacy *o) {
  const vkf_text_file *file = &o->files->words;
  vkf_text_string rest = {file->data, file->size}, line;
  o->vocab = json_object();
  if (o->vocab == NULL) return vkf_text_legacy_no_memory(o);
  for (size_t number = 1; next_line(&rest, &line); number++) {
    if (number > VKF_TEXT_MAX_IDS) return bad_line(o, file, number, "the end, there are too many pieces");
    if (!vkf_utf8_check(line.data, line.size, NULL) || memchr(line.data, 0, line.size) != NULL)
      return bad_line(o, file, number, "a piece in UTF-8");
    vkf_text_string key;
    VKF_CALL(vkf_text_load_copy(o->loader, line.data, line.size, &key));
    if (json_object_set_new(o->vocab, key.data, json_integer((json_int_t)number - 1)) != 0)
      return vkf_text_legacy_no_memory(o);
    o->next_id = number;
  }
  return VKF_OK;
}

/* Makes the vocabulary of ByT5: three special tokens, then the bytes (Xue et al. 2021, section 3.1). */
static vkf_status number_bytes(vkf_text_legacy *o) {
  static const int special[] = {VKF_LEGACY_PAD, VKF_LEGACY_EOS, VKF_LEGACY_UNK};
  vkf_status st = VKF_OK;
  vkf_text name;
  vkf_text_init(&name, o->loader->env);
  o->vocab = json_object();
  for (o->next_id = 0; o->next_id < VKF_COUNT(special) + 256; o->next_id++) {
    const bool is_byte = o->next_id >= VKF_COUNT(special);
    const char *token = is_byte ? NULL : vkf_text_legacy_special_token(o, special[o->next_id]);
    name.size = 0;
    if (is_byte)
      vkf_text_append_char(&name, vkf_text_byte_to_char((uint8_t)(o->next_id - VKF_COUNT(special))));
    else if (token != NULL)
      vkf_text_append(&name, token, strlen(token));
    vkf_text_append(&name, "", 1);
    VKF_TRY(vkf_text_status(&name));
    if (json_object_set_new(o->vocab, name.data, json_integer((json_int_t)o->next_id)) != 0)
      VKF_TRY(vkf_text_legacy_no_memory(o));
  }
done:
  vkf_text_finish(&name);
  return st;
}

static int config_flag(const vkf_text_legacy *o, const char *key, bool fallback) {
  const json_t *field = json_object_get(o->config, key);
  return json_is_boolean(field) ? json_is_true(field) : fallback;
}

/* NULL: no memory. ByT5 has no merges, so each byte is a piece; transformers leaves out bytes that are no character. */
static json_t *bpe_json(vkf_text_legacy *o, json_t *merges) {
  const bool is_bytes = o->row->form == VKF_LEGACY_BYTES;
  const bool is_blenderbot = strcmp(o->row->class_name, "Blenderbot") == 0;
  int prefix = !is_bytes && config_flag(o, "add_prefix_space", is_blenderbot);
  return json_pack("{s:O, s:O, s:{s:s, s:O, s:O}, s:{s:s, s:b, s:b}, s:{s:s, s:b}}", "added_tokens", o->added,
                   "post_processor", o->post, "model", "type", "BPE", "vocab", o->vocab, "merges", merges,
                   "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", prefix, "use_regex", !is_bytes, "decoder",
                   "type", "ByteLevel", "skips_broken", is_bytes);
}

static json_t *wordpiece_json(vkf_text_legacy *o) {
  const json_t *accents = json_object_get(o->config, "strip_accents");
  json_t *strip = json_is_boolean(accents) ? json_boolean(json_is_true(accents)) : json_null();
  const char *unk = vkf_text_legacy_special_token(o, VKF_LEGACY_UNK);
  return json_pack("{s:O, s:O, s:{s:s, s:O, s:s, s:s}, s:{s:s, s:b, s:b, s:o}, s:{s:s}, s:{s:s, s:s, s:b}}",
                   "added_tokens", o->added, "post_processor", o->post, "model", "type", "WordPiece", "vocab", o->vocab,
                   "unk_token", unk ? unk : "[UNK]", "continuing_subword_prefix", "##", "normalizer", "type",
                   "BertNormalizer", "lowercase", config_flag(o, "do_lower_case", true), "handle_chinese_chars",
                   config_flag(o, "tokenize_chinese_chars", true), "strip_accents", strip, "pre_tokenizer", "type",
                   "BertPreTokenizer", "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1);
}

vkf_status vkf_text_legacy_load_json(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  vkf_status st = VKF_OK;
  json_t *merges = json_array(), *root = NULL;
  if (o->row->form == VKF_LEGACY_BYTE_BPE)
    VKF_TRY(vkf_text_legacy_read_merges(o, merges));
  else if (o->row->form == VKF_LEGACY_BYTES)
    VKF_TRY(number_bytes(o));
  else
    VKF_TRY(read_words(o));
  VKF_TRY(vkf_text_legacy_add_tokens(o));
  VKF_TRY(vkf_text_legacy_add_languages(o));
  VKF_TRY(vkf_text_legacy_make_postprocessor(o));
  root = o->row->form == VKF_LEGACY_WORDPIECE ? wordpiece_json(o) : bpe_json(o, merges);
  if (root == NULL) VKF_TRY(vkf_text_legacy_no_memory(o));
  VKF_TRY(vkf_text_tokenizer_load(tokenizer, o->loader, root));
done:
  json_decref(root);
  json_decref(merges);
  return st;
}
