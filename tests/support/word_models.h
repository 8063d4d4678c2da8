/* Models whose tokens are words, for tests of the commands on texts: golden models with a word-level tokenizer, in
 * which id N is the word wN.
 *
 * In a command $T has the models gpt2, bytes (two of its tokens are bytes), marian, mbart, bert, labels (a label a
 * text), verdicts (the same, a decoder), inference (labels of pairs), words (a label a word) and vit (images; $I is the
 * folder tests/images). */
#ifndef VKF_TESTS_SUPPORT_WORD_MODELS_H
#define VKF_TESTS_SUPPORT_WORD_MODELS_H

#include <jansson.h>

#include "support/program.h"

static inline void must_print(const char *command, const char *expected) {
  if (program_run(command) != 0 || strcmp(program_out, expected) != 0 || program_err[0]) {
    fail_msg("%s\nexpected '%s'\nfound '%s'\nerr '%s'", command, expected, program_out, program_err);
  }
}

/* Runs a command and returns line `index` of what it printed, as JSON, for the caller to json_decref(). */
static inline json_t *line_of(const char *command, int index) {
  if (program_run(command) != 0) fail_msg("%s\n%s", command, program_err);
  char *line = program_out;
  for (int i = 0; i < index && line; i++) line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
  json_t *json = line ? json_loads(line, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  if (!json) fail_msg("%s\nexpected JSON in line %d, found '%s'", command, index, program_out);
  return json;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Writes a tokenizer of the words w0 .. w(n-1). `named` gives other names, "ID NAME" each: special tokens, the unknown
 * one first, or bytes. decoder, post: JSON; NULL: none. */
static inline void write_tokenizer(const char *model, int n, const char *const *named, int n_named, const char *decoder,
                                   const char *post) {
  char path[256], word[32];
  json_t *root = json_pack("{s:s, s:[], s:n, s:{s:s}, s:{s:s, s:{}, s:s}}", "version", "1.0", "added_tokens",
                           "normalizer", "pre_tokenizer", "type", "WhitespaceSplit", "model", "type", "WordLevel",
                           "vocab", "unk_token", strchr(named[0], ' ') + 1);
  assert_non_null(root);
  json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
  for (int id = 0; id < n; id++) {
    const char *name = NULL;
    for (int k = 0; k < n_named; k++)
      if (atoi(named[k]) == id) name = strchr(named[k], ' ') + 1;
    snprintf(word, sizeof word, "w%d", id);
    json_object_set_new(vocab, name ? name : word, json_integer(id));
    if (name && name[0] != '<' && name[0] != '[' && !strchr(name, '_')) name = NULL;
    if (name && strncmp(name, "<0x", 3) != 0)
      json_array_append_new(json_object_get(root, "added_tokens"),
                            json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", name, "single_word",
                                      0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
  }
  json_object_set_new(root, "decoder", decoder ? json_loads(decoder, 0, NULL) : json_null());
  json_object_set_new(root, "post_processor", post ? json_loads(post, 0, NULL) : json_null());
  snprintf(path, sizeof path, "%s/%s/tokenizer.json", program_folder, model);
  assert_int_equal(json_dump_file(root, path, 0), 0);
  json_decref(root);
}

static inline int word_models(void **state) {
  static const char *const end[] = {"0 <unk>", "158 <eos>"}, *const start[] = {"0 <pad>", "36 <eos>"};
  static const char *const bytes[] = {"0 <unk>", "158 <eos>", "125 <0xC3>", "30 <0xA9>"};
  static const char *const mbart[] = {"3 <unk>", "2 </s>", "17 en_XX", "18 fr_XX"};
  static const char *const bart[] = {"0 <s>", "1 <pad>", "2 </s>", "3 <unk>"};
  static const char *const bert[] = {"0 [PAD]", "1 [UNK]", "2 [CLS]", "3 [SEP]", "4 [MASK]"};
  static const char *const post =
      "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":"
      "{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"pair\":["
      "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
      "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"
      "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],\"special_tokens\":{\"[CLS]\":{"
      "\"id\":"
      "\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]},\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3],\"tokens\":[\"[SEP]\"]}}}";
  static const char *const around =
      "{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",2],\"cls\":[\"<s>\",0],\"trim_offsets\":true,"
      "\"add_prefix_space\":true}";
  (void)state;
  setenv("I", VKF_SOURCE_DIR "/tests/images", 1);
  if (program_setup(
          "cp -r $G/gpt2 $T/gpt2 && cp -r $G/gpt2 $T/bytes && cp -r $G/marian $T/marian && cp -r $G/mbart $T/mbart && "
          "cp -r $G/bert $T/bert && cp -r $G/vit $T/vit && "
          "cp -r $G/bert-sequence-classification $T/labels && cp -r $G/roberta-token-classification $T/words && "
          "cp -r $G/families/gpt2-sequence-classification $T/verdicts && "
          "cp -r $G/families/bart-sequence-classification $T/inference && "
          "chmod -R u+w $T && echo '{\"tokenizer_class\": \"MBartTokenizer\"}' > $T/mbart/tokenizer_config.json") != 0)
    return -1;
  write_tokenizer("gpt2", 160, end, 2, NULL, NULL);
  write_tokenizer("bytes", 160, bytes, 4,
                  "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}", NULL);
  write_tokenizer("marian", 150, start, 2, NULL, NULL);
  write_tokenizer("mbart", 150, mbart, 4, NULL, NULL);
  write_tokenizer("bert", 120, bert, 5, NULL, post);
  write_tokenizer("labels", 120, bert, 5, NULL, post);
  write_tokenizer("words", 120, bert, 5, NULL, post);
  write_tokenizer("verdicts", 100, start, 1, NULL, NULL);
  write_tokenizer("inference", 90, bart, 4, NULL, around);
  return 0;
}

#endif
