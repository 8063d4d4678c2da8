/* legacy: loads tokenizers from folders without a tokenizer.json.
 *
 * A row of CLASSES says what the class of the tokenizer adds to the files (special tokens, what is around a text).
 * vocab.json with merges.txt, vocab.txt, and the bytes of ByT5, which have no file, are rewritten as an equivalent
 * tokenizer.json, which is then read (legacy_json.c). A SentencePiece model has steps of its own (legacy_spm.c).
 * Refuses, by name, classes that are not in the table.
 */
#include "text/legacy.h"

#include <string.h>

#define BERT_TOKENS \
  { "[UNK]", NULL, NULL, "[SEP]", "[PAD]", "[CLS]", "[MASK]" }
#define ROBERTA_TOKENS \
  { "<unk>", "<s>", "</s>", "</s>", "<pad>", "<s>", "<mask>" }
#define MPNET_TOKENS \
  { "[UNK]", "<s>", "</s>", "</s>", "<pad>", "<s>", "<mask>" }
#define PARLAI_TOKENS \
  { "__unk__", "__start__", "__end__", NULL, "__null__" }
#define T5_TOKENS \
  { "<unk>", NULL, "</s>", NULL, "<pad>" }
#define PEGASUS_TOKENS \
  { "<unk>", NULL, "</s>", NULL, "<pad>", NULL, "<mask_2>" }

static const vkf_text_legacy_class CLASSES[] = {
    {"Bert", "bert", VKF_LEGACY_WORDPIECE, BERT_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"DistilBert", "distilbert", VKF_LEGACY_WORDPIECE, BERT_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"Electra", "electra", VKF_LEGACY_WORDPIECE, BERT_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"MPNet", "mpnet", VKF_LEGACY_WORDPIECE, MPNET_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"Roberta", "roberta", VKF_LEGACY_BYTE_BPE, ROBERTA_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"Bart", "bart", VKF_LEGACY_BYTE_BPE, ROBERTA_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"Blenderbot", "blenderbot", VKF_LEGACY_BYTE_BPE, ROBERTA_TOKENS, -1, VKF_LEGACY_EOS},
    {"BlenderbotSmall", "blenderbot-small", VKF_LEGACY_MARKED, PARLAI_TOKENS, -1, -1},
    {"Mvp", "mvp", VKF_LEGACY_BYTE_BPE, ROBERTA_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"GPT2", "gpt2", VKF_LEGACY_BYTE_BPE, {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}, -1, -1},
    {"GPT2", "phi", VKF_LEGACY_BYTE_BPE, {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}, -1, -1},
    {"GPT2", "starcoder2", VKF_LEGACY_BYTE_BPE, {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}, -1, -1},
    {"CodeGen", NULL, VKF_LEGACY_BYTE_BPE, {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}, -1, -1}, /* Phi's */
    {"T5", "t5", VKF_LEGACY_SENTENCEPIECE, T5_TOKENS, -1, VKF_LEGACY_EOS},
    {"T5", "mt5", VKF_LEGACY_SENTENCEPIECE, T5_TOKENS, -1, VKF_LEGACY_EOS},
    {"T5", "umt5", VKF_LEGACY_SENTENCEPIECE, T5_TOKENS, -1, VKF_LEGACY_EOS},
    {"ByT5", NULL, VKF_LEGACY_BYTES, T5_TOKENS, -1, VKF_LEGACY_EOS}, /* its model_type is T5's, "t5" */
    {"Pegasus", "pegasus", VKF_LEGACY_PEGASUS, PEGASUS_TOKENS, -1, VKF_LEGACY_EOS},
    {"Llama", "llama", VKF_LEGACY_SENTENCEPIECE, {"<unk>", "<s>", "</s>"}, VKF_LEGACY_BOS, -1},
    {"Llama", "mistral", VKF_LEGACY_SENTENCEPIECE, {"<unk>", "<s>", "</s>"}, VKF_LEGACY_BOS, -1},
    {"Marian", "marian", VKF_LEGACY_MARIAN, T5_TOKENS, -1, VKF_LEGACY_EOS},
    {"MBart", "mbart", VKF_LEGACY_FAIRSEQ, ROBERTA_TOKENS, -1, VKF_LEGACY_EOS},
    {"MBart50", "mbart", VKF_LEGACY_FAIRSEQ, ROBERTA_TOKENS, -1, VKF_LEGACY_EOS},
    {"PLBart", "plbart", VKF_LEGACY_FAIRSEQ, ROBERTA_TOKENS, -1, VKF_LEGACY_EOS},
    {"XLMRoberta", "xlm-roberta", VKF_LEGACY_FAIRSEQ, ROBERTA_TOKENS, VKF_LEGACY_CLS, VKF_LEGACY_SEP},
    {"M2M100", "m2m_100", VKF_LEGACY_M2M, {"<unk>", "<s>", "</s>", "</s>", "<pad>"}, -1, VKF_LEGACY_EOS},
};

/* ---- the class --------------------------------------------------------------------------------------------------- */

/* Finds the class in the table. Refuses a folder without files of a tokenizer, unless its class needs none. o->row
 * stays NULL if neither file names a class or a model_type. */
static vkf_status find_class(vkf_text_legacy *o) {
  vkf_status st = VKF_OK;
  json_t *config = NULL;
  VKF_TRY(vkf_text_load_object(o->loader, &o->files->config, &config));
  const char *class_name = vkf_text_class_name(o->config, config);
  const char *model_type = json_string_value(json_object_get(config, "model_type"));
  for (size_t i = 0; i < VKF_COUNT(CLASSES) && o->row == NULL; i++) {
    bool found = class_name != NULL ? vkf_text_is_class(class_name, CLASSES[i].class_name)
                                    : model_type != NULL && CLASSES[i].model_type != NULL &&
                                          strcmp(model_type, CLASSES[i].model_type) == 0;
    if (found) o->row = &CLASSES[i];
  }
  const vkf_text_files *files = o->files;
  const bool needs_none = o->row != NULL && o->row->form == VKF_LEGACY_BYTES;
  if (!needs_none && files->spm.data == NULL && files->vocab.data == NULL && files->words.data == NULL)
    VKF_FAIL(o->loader->env, VKF_ERROR_FILE,
             "expected tokenizer.json, a SentencePiece model, vocab.json and merges.txt, or vocab.txt; found "
             "%s%s%snone of them",
             class_name ? "tokenizer_class \"" : "", class_name ? class_name : "", class_name ? "\" and " : "");
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

/* ---- which files ------------------------------------------------------------------------------------------------- */

#define MAX_FILE_BYTES ((size_t)1 << 30)

/* Refuses larger files, which are sparse or not a tokenizer's. */
static vkf_status check_sizes(vkf_env *env, const vkf_text_files *files) {
  const vkf_text_file *all[] = {&files->spm, &files->target_spm, &files->vocab, &files->merges, &files->words};
  for (size_t i = 0; i < VKF_COUNT(all); i++) {
    if (all[i]->data != NULL && all[i]->size > MAX_FILE_BYTES)
      return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected at most %zu bytes, found %zu", all[i]->name,
                          MAX_FILE_BYTES, all[i]->size);
  }
  return VKF_OK;
}

static vkf_status need(vkf_text_legacy *o, const vkf_text_file *file, const char *name) {
  if (file->data != NULL) return VKF_OK;
  return vkf_env_fail(o->loader->env, VKF_ERROR_FILE,
                      "expected tokenizer.json or, for a %sTokenizer, %s; found neither", o->row->class_name, name);
}

/* Returns the row of a class that is in the table. */
static const vkf_text_legacy_class *row_of(const char *class_name) {
  const vkf_text_legacy_class *row = CLASSES;
  while (strcmp(row->class_name, class_name) != 0) row++;
  return row;
}

static vkf_status load_class(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  const vkf_text_files *files = o->files;
  vkf_text_legacy_form form = o->row->form;
  const bool has_merges = form == VKF_LEGACY_BYTE_BPE || form == VKF_LEGACY_MARKED;
  if (has_merges || form == VKF_LEGACY_MARIAN || form == VKF_LEGACY_M2M) {
    VKF_CALL(need(o, &files->vocab, "vocab.json"));
    VKF_CALL(vkf_text_load_object(o->loader, &files->vocab, &o->vocab));
    o->next_id = json_object_size(o->vocab);
  }
  if (has_merges) VKF_CALL(need(o, &files->merges, "merges.txt"));
  if (form == VKF_LEGACY_WORDPIECE) VKF_CALL(need(o, &files->words, "vocab.txt"));
  if (form == VKF_LEGACY_MARIAN) VKF_CALL(need(o, &files->target_spm, "target.spm"));
  if (form == VKF_LEGACY_MARIAN) VKF_CALL(need(o, &files->spm, "source.spm"));
  if (form == VKF_LEGACY_MARKED) return vkf_text_legacy_load_marked(tokenizer, o);
  bool json = form == VKF_LEGACY_BYTE_BPE || form == VKF_LEGACY_WORDPIECE || form == VKF_LEGACY_BYTES;
  if (!json) VKF_CALL(need(o, &files->spm, "a SentencePiece model"));
  return json ? vkf_text_legacy_load_json(tokenizer, o) : vkf_text_legacy_load_spm(tokenizer, o);
}

vkf_status vkf_text_tokenizer_load_legacy(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader,
                                          const vkf_text_files *files) {
  vkf_status st = VKF_OK;
  vkf_text_legacy o = {.loader = loader, .files = files, .added = json_array()};
  VKF_TRY(vkf_text_load_object(o.loader, &files->tokenizer_config, &o.config));
  VKF_TRY(find_class(&o));
  VKF_TRY(check_sizes(loader->env, files));
  if (o.row == NULL && files->spm.data == NULL) /* the first classes that had these files */
    o.row = row_of(files->vocab.data != NULL ? "GPT2" : "Bert");
  VKF_TRY(o.row != NULL ? load_class(tokenizer, &o) : vkf_text_legacy_load_spm(tokenizer, &o));
done:
  json_decref(o.post);
  json_decref(o.added);
  json_decref(o.vocab);
  json_decref(o.config);
  return st;
}
