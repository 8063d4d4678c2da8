/* older: tokenizers of folders without a tokenizer.json.
 *
 * What the class of the tokenizer adds to the files (special tokens, what stands around a text) is a row of CLASSES.
 * vocab.json with merges.txt, and vocab.txt, are written as the tokenizer.json that they amount to and read as that;
 * a SentencePiece model brings its own steps. Refuses classes that are not in the table, by name.
 */
#include "text/spm.h"

#include <stdio.h>
#include <string.h>

enum { UNK, BOS, EOS, SEP, PAD, CLS, MASK, N_SPECIAL };
static const char *const KEYS[N_SPECIAL] = {"unk_token", "bos_token", "eos_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

typedef enum form { BYTE_BPE, WORDPIECE, SENTENCEPIECE, MARIAN } form;

typedef struct class_row {
  const char *class_name, *model_type; /* the class without "Tokenizer" and "Fast" */
  form form;
  const char *tokens[N_SPECIAL]; /* where tokenizer_config.json does not say */
  int before, after;             /* what stands around a text, -1: nothing */
} class_row;

#define BERT_TOKENS \
  { "[UNK]", NULL, NULL, "[SEP]", "[PAD]", "[CLS]", "[MASK]" }
#define ROBERTA_TOKENS \
  { "<unk>", "<s>", "</s>", "</s>", "<pad>", "<s>", "<mask>" }

static const class_row CLASSES[] = {
    {"Bert", "bert", WORDPIECE, BERT_TOKENS, CLS, SEP},
    {"DistilBert", "distilbert", WORDPIECE, BERT_TOKENS, CLS, SEP},
    {"Roberta", "roberta", BYTE_BPE, ROBERTA_TOKENS, CLS, SEP},
    {"Bart", "bart", BYTE_BPE, ROBERTA_TOKENS, CLS, SEP},
    {"GPT2", "gpt2", BYTE_BPE, {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}, -1, -1},
    {"T5", "t5", SENTENCEPIECE, {"<unk>", NULL, "</s>", NULL, "<pad>"}, -1, EOS},
    {"Llama", "llama", SENTENCEPIECE, {"<unk>", "<s>", "</s>"}, BOS, -1},
    {"Llama", "mistral", SENTENCEPIECE, {"<unk>", "<s>", "</s>"}, BOS, -1},
    {"Marian", "marian", MARIAN, {"<unk>", NULL, "</s>", NULL, "<pad>"}, -1, EOS},
};

/* What is known while a folder is read. */
typedef struct older {
  vkf_text_loader *loader;
  const vkf_text_files *files;
  json_t *config;       /* tokenizer_config.json, or an empty object */
  json_t *vocab;        /* piece to id; NULL: `spm` has the ids */
  vkf_text_spm *spm;    /* NULL: none */
  json_t *added, *post; /* for the tokenizer.json */
  size_t next_id;       /* behind the vocabulary and what was added */
  const class_row *row;
} older;

static vkf_status no_memory(older *o) {
  return vkf_env_fail(o->loader->env, VKF_ERROR_MEMORY, "no memory for a tokenizer");
}

/* The object in a file; an absent file is an empty one. */
static vkf_status read_object(older *o, const vkf_text_file *file, json_t **out) {
  json_error_t error;
  *out = file->data != NULL ? json_loadb(file->data, file->size, 0, &error) : json_object();
  if (json_is_object(*out)) return VKF_OK;
  if (file->data == NULL) return no_memory(o);
  if (*out == NULL)
    return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT, "%s: no JSON, line %d, column %d: %s", file->name, error.line,
                        error.column, error.text);
  return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT, "%s: expected a JSON object, found another value", file->name);
}

/* ---- the class --------------------------------------------------------------------------------------------------- */

/* "BertTokenizerFast" is "Bert". */
static bool is_class(const char *name, const char *wanted) {
  size_t n = strlen(wanted);
  if (strncmp(name, wanted, n) != 0) return false;
  return strcmp(name + n, "Tokenizer") == 0 || strcmp(name + n, "TokenizerFast") == 0;
}

/* o->row stays NULL where neither file names one. */
static vkf_status find_class(older *o) {
  vkf_status st = VKF_OK;
  json_t *config = NULL;
  VKF_TRY(read_object(o, &o->files->config, &config));
  const char *class_name = json_string_value(json_object_get(o->config, "tokenizer_class"));
  const char *model_type = json_string_value(json_object_get(config, "model_type"));
  for (size_t i = 0; i < VKF_COUNT(CLASSES) && o->row == NULL; i++) {
    bool found = class_name != NULL ? is_class(class_name, CLASSES[i].class_name)
                                    : model_type != NULL && strcmp(model_type, CLASSES[i].model_type) == 0;
    if (found) o->row = &CLASSES[i];
  }
  if (o->row != NULL || (class_name == NULL && model_type == NULL)) goto done;
  st = vkf_env_fail(o->loader->env, VKF_ERROR_UNSUPPORTED,
                    "%s \"%s\" is not supported without a tokenizer.json, which transformers writes with "
                    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                    class_name ? "tokenizer_class" : "the tokenizer of model_type",
                    class_name ? class_name : model_type);
done:
  json_decref(config);
  return st;
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static bool find_id(const older *o, const char *token, size_t *id) {
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

/* NULL: none. A token is a string or an object with "content". */
static const char *special_token(const older *o, int which) {
  const json_t *value = json_object_get(o->config, KEYS[which]);
  if (value == NULL) return o->row->tokens[which];
  return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static vkf_status add_token(older *o, const char *token, size_t id, bool lstrip) {
  for (size_t i = 0; i < json_array_size(o->added); i++) {
    const char *known = json_string_value(json_object_get(json_array_get(o->added, i), "content"));
    if (known != NULL && strcmp(known, token) == 0) return VKF_OK;
  }
  json_t *entry =
      json_pack("{s:s, s:I, s:b, s:b}", "content", token, "id", (json_int_t)id, "special", 1, "lstrip", lstrip);
  if (entry == NULL || json_array_append_new(o->added, entry) != 0) return no_memory(o);
  o->next_id = VKF_MAX(o->next_id, id + 1);
  return VKF_OK;
}

/* added_tokens_decoder: {"32000": {"content": ..., "special": ...}}; these come first, as they say most. */
static vkf_status add_decoder_tokens(older *o) {
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
    /* A SentencePiece normalizer puts a space before every text; the tokens are looked for without. */
    if (o->spm != NULL && entry != NULL && json_object_set_new(entry, "normalized", json_false()) != 0) {
      json_decref(entry);
      return no_memory(o);
    }
    if (entry == NULL || json_object_set_new(entry, "id", json_integer((json_int_t)id)) != 0 ||
        json_array_append_new(o->added, entry) != 0)
      return no_memory(o);
    o->next_id = VKF_MAX(o->next_id, (size_t)id + 1);
  }
  return VKF_OK;
}

/* The sentinels of T5: <extra_id_0> is the last id. */
static vkf_status add_extra_ids(older *o) {
  const json_t *field = json_object_get(o->config, "extra_ids");
  json_int_t n = json_is_integer(field) ? json_integer_value(field) : 100;
  if (strcmp(o->row->model_type, "t5") != 0 || json_object_get(o->config, "added_tokens_decoder") != NULL)
    return VKF_OK;
  vkf_status st = VKF_OK;
  for (json_int_t i = VKF_MIN(n, 1000) - 1; i >= 0 && st == VKF_OK; i--) {
    char name[40];
    snprintf(name, sizeof(name), "<extra_id_%d>", (int)i);
    st = add_token(o, name, o->next_id, false);
  }
  return st;
}

/* The codes that say which language is wanted, ">>es<<". */
static vkf_status add_language_codes(older *o) {
  const char *key;
  json_t *id;
  json_object_foreach(o->vocab, key, id) {
    size_t n = strlen(key);
    if (n < 5 || strncmp(key, ">>", 2) != 0 || strcmp(key + n - 2, "<<") != 0 || !json_is_integer(id)) continue;
    vkf_status st = add_token(o, key, (size_t)json_integer_value(id), false);
    if (st != VKF_OK) return st;
  }
  return VKF_OK;
}

static vkf_status add_special_tokens(older *o) {
  vkf_status st = VKF_OK;
  size_t id, i;
  const json_t *more;
  VKF_TRY(add_decoder_tokens(o));
  for (int which = 0; which < N_SPECIAL; which++) {
    const char *token = special_token(o, which);
    if (token != NULL && find_id(o, token, &id))
      VKF_TRY(add_token(o, token, id, which == MASK && o->row->form == BYTE_BPE));
  }
  VKF_TRY(add_extra_ids(o));
  json_array_foreach(json_object_get(o->config, "additional_special_tokens"), i, more) {
    const char *token = json_string_value(json_is_object(more) ? json_object_get(more, "content") : more);
    if (token != NULL) VKF_TRY(add_token(o, token, find_id(o, token, &id) ? id : o->next_id, false));
  }
  if (o->row->form == MARIAN) VKF_TRY(add_language_codes(o));
done:
  return st;
}

/* ---- what stands around a text ----------------------------------------------------------------------------------- */

static vkf_status append_around(older *o, json_t *single, json_t *ids, int which) {
  size_t id;
  const char *token = which >= 0 ? special_token(o, which) : NULL;
  if (which < 0) return VKF_OK;
  if (token == NULL || !find_id(o, token, &id))
    return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT, "%s \"%s\" of a %sTokenizer is not in its vocabulary",
                        KEYS[which], token ? token : "", o->row->class_name);
  if (json_array_append_new(single, json_pack("{s:{s:s}}", "SpecialToken", "id", token)) != 0 ||
      json_object_set_new(ids, token, json_pack("{s:[I]}", "ids", (json_int_t)id)) != 0)
    return no_memory(o);
  return VKF_OK;
}

static vkf_status make_postprocessor(older *o) {
  vkf_status st = VKF_OK;
  const json_t *bos = json_object_get(o->config, "add_bos_token"), *eos = json_object_get(o->config, "add_eos_token");
  int before = o->row->before, after = o->row->after;
  if (json_is_boolean(bos)) before = json_is_true(bos) ? BOS : -1;
  if (json_is_boolean(eos)) after = json_is_true(eos) ? EOS : -1;
  json_t *single = json_array(), *ids = json_object(), *text = json_pack("{s:{s:s}}", "Sequence", "id", "A");
  VKF_TRY(append_around(o, single, ids, before));
  if (json_array_append(single, text) != 0) VKF_TRY(no_memory(o));
  VKF_TRY(append_around(o, single, ids, after));
  o->post = json_pack("{s:s, s:O, s:O}", "type", "TemplateProcessing", "single", single, "special_tokens", ids);
  if (o->post == NULL) st = no_memory(o);
done:
  json_decref(text);
  json_decref(ids);
  json_decref(single);
  return st;
}

/* ---- byte-level BPE and WordPiece -------------------------------------------------------------------------------- */

/* The next line of a text, without its end; false: there is none. */
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

static vkf_status bad_line(older *o, const vkf_text_file *file, size_t number, const char *expected) {
  return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT, "%s: line %zu should be %s", file->name, number, expected);
}

static vkf_status read_merges(older *o, json_t *merges) {
  const vkf_text_file *file = &o->files->merges;
  vkf_text_string rest = {file->data, file->size}, line;
  for (size_t number = 1; next_line(&rest, &line); number++) {
    bool version = number == 1 && line.size >= 8 && memcmp(line.data, "#version", 8) == 0;
    if (version || line.size == 0) continue;
    json_t *text = json_stringn(line.data, line.size);
    if (text == NULL) return bad_line(o, file, number, "two pieces in UTF-8");
    if (json_array_append_new(merges, text) != 0) return no_memory(o);
  }
  return VKF_OK;
}

/* A piece on each line; the line's number is its id. */
static vkf_status read_words(older *o) {
  const vkf_text_file *file = &o->files->words;
  vkf_text_string rest = {file->data, file->size}, line;
  o->vocab = json_object();
  if (o->vocab == NULL) return no_memory(o);
  for (size_t number = 1; next_line(&rest, &line); number++) {
    if (number > VKF_TEXT_MAX_IDS) return bad_line(o, file, number, "the end, there are too many pieces");
    if (!vkf_utf8_check(line.data, line.size, NULL) || memchr(line.data, 0, line.size) != NULL)
      return bad_line(o, file, number, "a piece in UTF-8");
    vkf_text_string key;
    vkf_status st = vkf_text_load_copy(o->loader, line.data, line.size, &key);
    if (st != VKF_OK) return st;
    if (json_object_set_new(o->vocab, key.data, json_integer((json_int_t)number - 1)) != 0) return no_memory(o);
    o->next_id = number;
  }
  return VKF_OK;
}

static int config_flag(const older *o, const char *key, bool fallback) {
  const json_t *field = json_object_get(o->config, key);
  return json_is_boolean(field) ? json_is_true(field) : fallback;
}

/* NULL: no memory. */
static json_t *bpe_json(older *o, json_t *merges) {
  int prefix = config_flag(o, "add_prefix_space", false);
  return json_pack("{s:O, s:O, s:{s:s, s:O, s:O}, s:{s:s, s:b}, s:{s:s}}", "added_tokens", o->added, "post_processor",
                   o->post, "model", "type", "BPE", "vocab", o->vocab, "merges", merges, "pre_tokenizer", "type",
                   "ByteLevel", "add_prefix_space", prefix, "decoder", "type", "ByteLevel");
}

static json_t *wordpiece_json(older *o) {
  const json_t *accents = json_object_get(o->config, "strip_accents");
  json_t *strip = json_is_boolean(accents) ? json_boolean(json_is_true(accents)) : json_null();
  const char *unk = special_token(o, UNK);
  return json_pack("{s:O, s:O, s:{s:s, s:O, s:s, s:s}, s:{s:s, s:b, s:b, s:o}, s:{s:s}, s:{s:s, s:s, s:b}}",
                   "added_tokens", o->added, "post_processor", o->post, "model", "type", "WordPiece", "vocab", o->vocab,
                   "unk_token", unk ? unk : "[UNK]", "continuing_subword_prefix", "##", "normalizer", "type",
                   "BertNormalizer", "lowercase", config_flag(o, "do_lower_case", true), "handle_chinese_chars",
                   config_flag(o, "tokenize_chinese_chars", true), "strip_accents", strip, "pre_tokenizer", "type",
                   "BertPreTokenizer", "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1);
}

static vkf_status load_as_json(vkf_text_tokenizer *tokenizer, older *o) {
  vkf_status st = VKF_OK;
  json_t *merges = json_array(), *root = NULL;
  if (o->row->form == BYTE_BPE)
    VKF_TRY(read_merges(o, merges));
  else
    VKF_TRY(read_words(o));
  VKF_TRY(add_special_tokens(o));
  VKF_TRY(make_postprocessor(o));
  root = o->row->form == BYTE_BPE ? bpe_json(o, merges) : wordpiece_json(o);
  if (root == NULL) VKF_TRY(no_memory(o));
  VKF_TRY(vkf_text_tokenizer_load(tokenizer, o->loader, root));
done:
  json_decref(root);
  json_decref(merges);
  return st;
}

/* ---- SentencePiece ----------------------------------------------------------------------------------------------- */

static vkf_status read_spm(older *o, const vkf_text_file *file, vkf_text_spm *out) {
  o->loader->stage = file->name;
  o->loader->type = NULL;
  return vkf_text_spm_read(o->loader, (vkf_text_string){file->data, file->size}, out);
}

/* Marian: pieces from source.spm become the ids that vocab.json gives them. */
static vkf_status load_marian_ids(vkf_text_tokenizer *tokenizer, older *o) {
  vkf_status st = VKF_OK;
  vkf_text_model names = {.env = o->loader->env};
  size_t unk;
  const char *unk_token = special_token(o, UNK);
  json_t *json = json_pack("{s:O}", "vocab", o->vocab);
  int32_t *remap = vkf_arena_alloc(o->loader->arena, o->spm->n_pieces, sizeof(*remap));
  if (json == NULL || remap == NULL) VKF_TRY(no_memory(o));
  o->loader->stage = o->files->vocab.name;
  VKF_TRY(vkf_text_model_load_vocab(&names, o->loader, json)); /* every id is checked */
  if (unk_token == NULL || !find_id(o, unk_token, &unk))
    VKF_FAIL(o->loader->env, VKF_ERROR_FORMAT, "%s: the unknown token \"%s\" is missing", o->files->vocab.name,
             unk_token ? unk_token : "");
  for (size_t i = 0; i < o->spm->n_pieces; i++) {
    int32_t id = i == o->spm->unk_id ? -1 : vkf_text_vocab_find(&names.vocab, tokenizer->model.vocab.pieces[i]);
    remap[i] = id >= 0 ? id : (int32_t)unk;
  }
  tokenizer->remap = remap;
  tokenizer->names = names.vocab;
  o->next_id = names.vocab.size;
done:
  json_decref(json);
  return st;
}

/* Control pieces leave no text. */
static void mark_control_pieces(vkf_text_tokenizer *tokenizer, const vkf_text_spm *spm) {
  for (size_t i = 0; i < spm->n_pieces; i++) tokenizer->special[i] |= spm->pieces[i].type == VKF_TEXT_SPM_CONTROL;
}

static vkf_status load_spm(vkf_text_tokenizer *tokenizer, older *o) {
  vkf_status st = VKF_OK;
  vkf_text_spm spm, target;
  json_t *root = NULL;
  bool marian = o->row != NULL && o->row->form == MARIAN;
  VKF_TRY(read_spm(o, &o->files->spm, &spm));
  o->spm = &spm;
  o->next_id = spm.n_pieces;
  VKF_TRY(vkf_text_spm_load_model(o->loader, &spm, &tokenizer->model));
  VKF_TRY(vkf_text_spm_load_normalizer(o->loader, &spm, &tokenizer->normalizers));
  tokenizer->names = tokenizer->model.vocab;
  if (marian) {
    VKF_TRY(load_marian_ids(tokenizer, o));
    VKF_TRY(read_spm(o, &o->files->target_spm, &target));
  }
  VKF_TRY(vkf_text_spm_load_decoders(o->loader, marian ? &target : &spm, &tokenizer->decoders));
  if (o->row != NULL) {
    VKF_TRY(add_special_tokens(o));
    VKF_TRY(make_postprocessor(o));
  }
  root = json_pack("{s:O, s:O*}", "added_tokens", o->added, "post_processor", o->post);
  if (root == NULL) VKF_TRY(no_memory(o));
  VKF_TRY(vkf_text_tokenizer_load_tokens(tokenizer, o->loader, root));
  if (!marian) mark_control_pieces(tokenizer, &spm);
done:
  json_decref(root);
  return st;
}

/* ---- which files ------------------------------------------------------------------------------------------------- */

#define MAX_FILE_BYTES ((size_t)1 << 30)

/* Larger files are holes, or something else. */
static vkf_status check_sizes(vkf_env *env, const vkf_text_files *files) {
  const vkf_text_file *all[] = {&files->spm, &files->target_spm, &files->vocab, &files->merges, &files->words};
  for (size_t i = 0; i < VKF_COUNT(all); i++) {
    if (all[i]->data != NULL && all[i]->size > MAX_FILE_BYTES)
      return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected at most %zu bytes, found %zu", all[i]->name,
                          MAX_FILE_BYTES, all[i]->size);
  }
  return VKF_OK;
}

static vkf_status need(older *o, const vkf_text_file *file, const char *name) {
  if (file->data != NULL) return VKF_OK;
  return vkf_env_fail(o->loader->env, VKF_ERROR_FILE,
                      "expected tokenizer.json or, for a %sTokenizer, %s; found neither", o->row->class_name, name);
}

static vkf_status load_class(vkf_text_tokenizer *tokenizer, older *o) {
  vkf_status st = VKF_OK;
  const vkf_text_files *files = o->files;
  if (o->row->form == BYTE_BPE || o->row->form == MARIAN) {
    VKF_TRY(need(o, &files->vocab, "vocab.json"));
    VKF_TRY(read_object(o, &files->vocab, &o->vocab));
    o->next_id = json_object_size(o->vocab);
  }
  if (o->row->form == BYTE_BPE) VKF_TRY(need(o, &files->merges, "merges.txt"));
  if (o->row->form == WORDPIECE) VKF_TRY(need(o, &files->words, "vocab.txt"));
  if (o->row->form == MARIAN) VKF_TRY(need(o, &files->target_spm, "target.spm"));
  if (o->row->form == MARIAN) VKF_TRY(need(o, &files->spm, "source.spm"));
  if (o->row->form == SENTENCEPIECE) VKF_TRY(need(o, &files->spm, "a SentencePiece model"));
  bool json = o->row->form == BYTE_BPE || o->row->form == WORDPIECE;
  VKF_TRY(json ? load_as_json(tokenizer, o) : load_spm(tokenizer, o));
done:
  return st;
}

vkf_status vkf_text_tokenizer_load_older(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader,
                                         const vkf_text_files *files) {
  vkf_status st = VKF_OK;
  older o = {.loader = loader, .files = files, .added = json_array()};
  if (files->spm.data == NULL && files->vocab.data == NULL && files->words.data == NULL)
    VKF_FAIL(
        loader->env, VKF_ERROR_FILE,
        "expected tokenizer.json, a SentencePiece model, vocab.json and merges.txt, or vocab.txt; found none of them");
  VKF_TRY(check_sizes(loader->env, files));
  VKF_TRY(read_object(&o, &files->tokenizer_config, &o.config));
  VKF_TRY(find_class(&o));
  if (o.row == NULL && files->spm.data == NULL) /* the classes that these files began with */
    o.row = &CLASSES[files->vocab.data != NULL ? 4 : 0];
  VKF_TRY(o.row != NULL ? load_class(tokenizer, &o) : load_spm(tokenizer, &o));
done:
  json_decref(o.post);
  json_decref(o.added);
  json_decref(o.vocab);
  json_decref(o.config);
  return st;
}
