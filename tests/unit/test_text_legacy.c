/* Tokenizers of folders without a tokenizer.json: recorded ids, what each class adds, damaged files, lack of memory. */
#include "support/small_spm.h"
#include "support/tokenizers.h"

/* ---- recorded ids ------------------------------------------------------------------------------------------------ */

static void assert_line(vkf_text_tokenizer *tokenizer, vkf_env *env, const json_t *line) {
  const json_t *text = json_object_get(line, "text"), *want = json_object_get(line, "ids_plain");
  const json_t *decoded = json_object_get(line, "decoded");
  vkf_text_ids ids;
  vkf_text back;
  vkf_text_ids_init(&ids, env);
  vkf_text_init(&back, env);
  assert_true(json_is_array(want));
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), false, &ids),
                   VKF_OK);
  bool same = ids.n == json_array_size(want);
  for (size_t i = 0; i < ids.n && same; i++) same = ids.ids[i] == json_integer_value(json_array_get(want, i));
  if (!same) fail_msg("other ids than recorded for \"%s\"", json_string_value(text));
  assert_int_equal(vkf_text_tokenizer_decode(tokenizer, ids.ids, ids.n, true, &back), VKF_OK);
  vkf_text_append(&back, "", 0);
  assert_string_equal(back.data, json_string_value(decoded));
  vkf_text_finish(&back);
  vkf_text_ids_finish(&ids);
}

/* Checks all n lines of the vectors, which are cut apart. */
static void assert_lines(vkf_text_tokenizer *tokenizer, vkf_env *env, vkf_text_file *vectors, size_t n) {
  size_t n_lines = 0;
  for (char *line = strtok((char *)vectors->data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
    json_t *json = json_loads(line, JSON_ALLOW_NUL, NULL);
    assert_line(tokenizer, env, json);
    json_decref(json);
  }
  assert_int_equal(n_lines, n);
}

static void recorded_sentencepiece(void **state) {
  (void)state;
  static const char *const folders[] = {"tests/data/tokenizers/sentencepiece-bpe",
                                        "tests/data/tokenizers/sentencepiece-unigram"};
  for (size_t k = 0; k < VKF_COUNT(folders); k++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    vkf_text_tokenizer *tokenizer = NULL;
    vkf_text_files files = {.spm = read_file(folders[k], "spiece.model")};
    vkf_text_file vectors = read_file(folders[k], "vectors.jsonl");
    if (vkf_text_tokenizer_create(&env, &files, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
    assert_non_null(vkf_text_tokenizer_piece(tokenizer, 1199));
    assert_null(vkf_text_tokenizer_piece(tokenizer, 1200));
    assert_int_equal(vkf_text_tokenizer_find(tokenizer, "</s>"), 1);
    assert_lines(tokenizer, &env, &vectors, 40);
    vkf_text_tokenizer_destroy(&tokenizer);
    assert_int_equal(env.live_bytes, 0);
    free((char *)vectors.data);
    free((char *)files.spm.data);
  }
}

/* ---- small files ------------------------------------------------------------------------------------------------- */

static void assert_round(const vkf_text_files *files, const char *text, const char *ids_want, const char *back_want) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL;
  vkf_text_ids ids;
  vkf_text back;
  char got[200];
  vkf_text_ids_init(&ids, &env);
  vkf_text_init(&back, &env);
  if (vkf_text_tokenizer_create(&env, files, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, text, strlen(text), true, &ids), VKF_OK);
  list_ids(got, sizeof got, &ids);
  assert_string_equal(got, ids_want);
  assert_int_equal(vkf_text_tokenizer_decode(tokenizer, ids.ids, ids.n, true, &back), VKF_OK);
  vkf_text_append(&back, "", 0);
  assert_string_equal(back.data, back_want);
  vkf_text_finish(&back);
  vkf_text_ids_finish(&ids);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

/* "ab ab": _ab is no piece, so "ab" wins over "_a" by its score, in both models. */
static void sentencepiece_classes(void **state) {
  (void)state;
  bytes one = small_spm(unigram, 2), two = small_spm(bpe, 2);
  vkf_text_files files = {.spm = file_of_bytes(&one, "spiece.model")};
  assert_round(&files, " ab  a<s>", "3 6 7 0", "ab a \xE2\x81\x87 "); /* no class: <s> is unknown text */
  files.tokenizer_config = file_of("{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":2}", "tokenizer_config.json");
  assert_round(&files, "ab</s>a", "3 6 2 7 2", "ab a");
  assert_round(&files, "<extra_id_0><extra_id_1>", "9 8 2", "");
  static const char *const types[] = {"{\"model_type\":\"t5\"}", "{\"model_type\":\"mt5\"}",
                                      "{\"model_type\":\"umt5\"}"};
  files.tokenizer_config = (vkf_text_file){0};
  for (size_t i = 0; i < VKF_COUNT(types); i++) {
    files.config = file_of(types[i], "config.json");
    assert_round(&files, "ab</s>a<extra_id_0>", "3 6 2 7 107 2", "ab a");
  }
  files.spm = file_of_bytes(&two, "tokenizer.model");
  files.config = file_of("{\"model_type\":\"llama\"}", "config.json");
  assert_round(&files, "ab a", "1 3 6 7", "ab a");
  files.tokenizer_config = file_of(
      "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":false,\"add_eos_token\":"
      "true,\"eos_token\":{\"content\":\"</s>\"},\"additional_special_tokens\":[\"<t>\"],"
      "\"added_tokens_decoder\":{\"11\":{\"content\":\"<x>\",\"special\":false}}}",
      "tokenizer_config.json");
  assert_round(&files, "a<x>b<t>", "7 11 3 5 12 2", "a<x> b");
}

static void marian(void **state) {
  (void)state;
  bytes source = small_spm(unigram, 2), target = small_spm(unigram, 2);
  vkf_text_files files = {
      .spm = file_of_bytes(&source, "source.spm"),
      .target_spm = file_of_bytes(&target, "target.spm"),
      .config = file_of("{\"model_type\":\"marian\"}", "config.json"),
      .vocab = file_of("{\"</s>\":0,\"<unk>\":1,\"" MARK "a\":2,\"" MARK "\":3,\"ab\":4,\">>es<<\":5,\"<pad>\":6}",
                       "vocab.json")};
  assert_round(&files, ">>es<< ab a", "5 3 4 2 0", "ab a");
  assert_round(&files, "a b", "2 3 1 0", "a "); /* "b" is no entry of vocab.json */
  files.tokenizer_config = file_of("{\"separate_vocabs\":false}", "tokenizer_config.json");
  assert_round(&files, "ab", "3 4 0", "ab");
  /* Characters in a row that no piece has are looked up as one, here by a BPE. */
  source = small_spm(bpe, 2);
  files.spm = file_of_bytes(&source, "source.spm");
  files.vocab = file_of("{\"</s>\":0,\"<unk>\":1,\"" MARK "\":2,\"ab\":3,\"cc\":4,\"<pad>\":5}", "vocab.json");
  assert_round(&files, "ab cc c", "2 3 2 4 2 1 0", "ab cc ");
}

static void assert_target_ids(const vkf_text_files *files, const char *text, const char *want) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL, *target = NULL;
  if (vkf_text_tokenizer_create(&env, files, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
  for (int i = 0; i < 2; i++) { /* the first call makes it */
    assert_int_equal(vkf_text_tokenizer_of_targets(tokenizer, &target), VKF_OK);
    assert_ids_of(target, &env, text, want);
  }
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

/* Targets have the pieces of target.spm. What one of the two models lacks is unknown in its own texts only. */
static void marian_targets(void **state) {
  (void)state;
  bytes source = small_spm(unigram, 2), target = small_spm(unigram, 2);
  put_piece(&target, MARK "ab", 0, NORMAL);
  vkf_text_files files = {
      .spm = file_of_bytes(&source, "source.spm"),
      .target_spm = file_of_bytes(&target, "target.spm"),
      .config = file_of("{\"model_type\":\"marian\"}", "config.json"),
      .vocab = file_of("{\"</s>\":0,\"<unk>\":1,\"" MARK "\":2,\"ab\":3,\"" MARK "ab\":4,\">>es<<\":5,\"<pad>\":6}",
                       "vocab.json")};
  assert_round(&files, "ab", "2 3 0", "ab");
  assert_target_ids(&files, "ab", "4 0");
  files.spm = files.target_spm;
  files.target_spm = file_of_bytes(&source, "target.spm");
  assert_round(&files, "ab", "4 0", "ab");
  assert_target_ids(&files, "ab", "2 3 0");
  files.target_spm = files.spm;
  assert_target_ids(&files, "ab", "4 0");
}

static const char vocab_json[] =
    "{\"<s>\":0,\"</s>\":1,\"<unk>\":2,\"<pad>\":3,\"<mask>\":4,\"a\":5,\"b\":6,\"ab\":7,\"\xC4\xA0\":8,"
    "\"\xC4\xA0"
    "ab\":9,\"<|endoftext|>\":10}";
static const char merges_txt[] = "#version: 0.2\na b\n\xC4\xA0 ab\r\n\n";
static const char vocab_txt[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##b\nAb\n";

static void byte_level_and_wordpiece(void **state) {
  (void)state;
  vkf_text_files files = {.vocab = file_of(vocab_json, "vocab.json"), .merges = file_of(merges_txt, "merges.txt")};
  assert_round(&files, "ab ab<|endoftext|>", "7 9 10", "ab ab");
  files.tokenizer_config =
      file_of("{\"tokenizer_class\":\"RobertaTokenizerFast\",\"add_prefix_space\":true}", "tokenizer_config.json");
  assert_round(&files, "ab <mask>", "0 9 4 1", " ab");
  vkf_text_files words = {.words = file_of(vocab_txt, "vocab.txt")};
  assert_round(&words, "ABB [MASK] q", "2 5 6 4 1 3", "abb");
  words.config = file_of("{\"model_type\":\"electra\"}", "config.json");
  assert_round(&words, "ABB [MASK] q", "2 5 6 4 1 3", "abb");
  words.config = (vkf_text_file){0};
  words.tokenizer_config = file_of("{\"tokenizer_class\":\"ElectraTokenizerFast\"}", "tokenizer_config.json");
  assert_round(&words, "ABB [MASK] q", "2 5 6 4 1 3", "abb");
  files.config = file_of("{\"model_type\":\"bert\",\"tokenizer_class\":\"GPT2Tokenizer\"}", "config.json");
  files.tokenizer_config = (vkf_text_file){0};
  assert_round(&files, "ab ab<|endoftext|>", "7 9 10", "ab ab"); /* config.json: the class counts, not model_type */
  files.config = file_of("{\"model_type\":\"starcoder2\"}", "config.json");
  assert_round(&files, "ab ab<|endoftext|>", "7 9 10", "ab ab");
  files.config = file_of("{\"model_type\":\"phi\"}", "config.json");
  assert_round(&files, "ab ab<|endoftext|>", "7 9 10", "ab ab");
  files.tokenizer_config = file_of("{\"tokenizer_class\":\"CodeGenTokenizer\"}", "tokenizer_config.json");
  assert_round(&files, "ab ab<|endoftext|>", "7 9 10", "ab ab");
  files.tokenizer_config = (vkf_text_file){0};
  files.config = file_of("{\"model_type\":\"mvp\"}", "config.json");
  assert_round(&files, "ab <mask>", "0 7 4 1", "ab");
  words.tokenizer_config =
      file_of("{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}", "tokenizer_config.json");
  assert_round(&words, "Ab ab", "2 7 5 3", "Ab ab");
}

static void assert_pair(const vkf_text_files *files, const char *first, const char *second, const char *ids,
                        const char *types) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL;
  if (vkf_text_tokenizer_create(&env, files, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
  assert_pair_of(tokenizer, &env, (const char *const[]){first, second}, ids, types);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

/* The tokens that each class adds to two texts. */
static void pairs_of_texts(void **state) {
  (void)state;
  bytes spm = small_spm(unigram, 2);
  vkf_text_files words = {.words = file_of(vocab_txt, "vocab.txt")},
                 files = {.vocab = file_of(vocab_json, "vocab.json"), .merges = file_of(merges_txt, "merges.txt")};
  assert_pair(&words, "ab", "abb", "2 5 3 5 6 3", "0 0 0 1 1 1");
  assert_pair(&files, "ab", "a", "7 5", "0 1"); /* GPT-2 */
  files.tokenizer_config = file_of("{\"tokenizer_class\":\"BartTokenizer\"}", "tokenizer_config.json");
  assert_pair(&files, "ab", "a", "0 7 1 1 5 1", "0 0 0 0 0 0");
  files.tokenizer_config = file_of("{\"tokenizer_class\":\"BlenderbotTokenizer\"}", "tokenizer_config.json");
  assert_round(&files, "ab", "9 1", " ab");
  files = (vkf_text_files){.spm = file_of_bytes(&spm, "spiece.model"),
                           .config = file_of("{\"model_type\":\"t5\"}", "config.json")};
  assert_pair(&files, "ab", "a", "3 6 2 7 2", "0 0 0 0 0");
  files.config = file_of("{\"model_type\":\"llama\"}", "config.json");
  assert_pair(&files, "ab", "a", "1 3 6 1 7", "0 0 0 1 1");
}

/* MPNet has the words of BERT and the special tokens of RoBERTa. The ids are those of transformers 5.12. */
static void mpnet(void **state) {
  (void)state;
  vkf_text_files files = {.words = file_of("<s>\n<pad>\n</s>\n<unk>\n[PAD]\n[UNK]\nab\n##b\n<mask>\n", "vocab.txt"),
                          .config = file_of("{\"model_type\":\"mpnet\"}", "config.json")};
  assert_round(&files, "ABB <mask>  q", "0 6 7 8 5 2", "abb");
  assert_pair(&files, "ab", "abb", "0 6 2 2 6 7 2", "0 0 0 0 1 1 1");
  files.config = (vkf_text_file){0};
  files.tokenizer_config =
      file_of("{\"tokenizer_class\":\"MPNetTokenizerFast\",\"do_lower_case\":false}", "tokenizer_config.json");
  assert_round(&files, "ab AB", "0 6 5 2", "ab");
}

static void assert_refused(const vkf_text_files *files, vkf_status want, const char *words) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL;
  assert_int_equal(vkf_text_tokenizer_create(&env, files, &tokenizer), want);
  assert_null(tokenizer);
  if (!strstr(env.message, words)) fail_msg("expected \"%s\" in \"%s\"", words, env.message);
  assert_int_equal(env.live_bytes, 0);
}

/* Pegasus has 103 ids before those of the file. */
static void pegasus(void **state) {
  (void)state;
  bytes spm = {.n = 0}, other = small_spm(unigram, 2);
  put_piece(&spm, "<pad>", 0, CONTROL);
  put_piece(&spm, "</s>", 0, CONTROL);
  put_piece(&spm, "<unk>", 0, UNKNOWN);
  put_piece(&spm, MARK, -3, NORMAL);
  put_piece(&spm, "a", -4, NORMAL);
  put_piece(&spm, MARK "a", -2, NORMAL);
  put_field(&spm, 2, unigram, 2);
  vkf_text_files files = {.spm = file_of_bytes(&spm, "spiece.model"),
                          .config = file_of("{\"model_type\":\"pegasus\"}", "config.json")};
  assert_round(&files, "aa c", "108 107 106 105 1", "aa ");
  assert_round(&files, "<mask_1>a<mask_2><unk_2><unk_102>", "2 108 3 4 104 1", "a");
  assert_pair(&files, "a", "aa", "108 108 107 1", "0 0 0 0");
  files.tokenizer_config = file_of("{\"offset\":0}", "tokenizer_config.json");
  assert_refused(&files, VKF_ERROR_UNSUPPORTED, "offset: expected 103, found 0");
  files.tokenizer_config = (vkf_text_file){0};
  files.spm = file_of_bytes(&other, "spiece.model");
  assert_refused(&files, VKF_ERROR_FORMAT, "found <unk> with the id 0 of 8");
}

/* ByT5 has no file of pieces: they are bytes. The ids are those of transformers 5.12. */
static void pieces_are_bytes(void **state) {
  (void)state;
  vkf_text_files files = {.config =
                              file_of("{\"model_type\":\"t5\",\"tokenizer_class\":\"ByT5Tokenizer\"}", "config.json")};
  assert_round(&files, "h\xC3\xA9l", "107 198 172 111 1", "h\xC3\xA9l");
  assert_round(&files, " a  \n", "35 100 35 35 13 1", " a  \n");
  assert_round(&files, "a<extra_id_0><extra_id_124>", "100 259 383 1", "a");
  assert_pair(&files, "a", "b", "100 1 101 1", "0 0 0 0");
  /* As transformers 5 saves it: a token that has a role is marked as not special, but it is special. */
  files.tokenizer_config = file_of(
      "{\"tokenizer_class\":\"ByT5Tokenizer\",\"extra_ids\":0,\"eos_token\":\"</s>\",\"pad_token\":\"<pad>\","
      "\"added_tokens_decoder\":{\"1\":{\"content\":\"</s>\",\"lstrip\":true,\"rstrip\":true,\"special\":false},"
      "\"259\":{\"content\":\"<extra_id_0>\",\"special\":true}}}",
      "tokenizer_config.json");
  assert_round(&files, " a </s> b ", "35 100 1 101 35 1", " ab ");
  /* Bytes that form no whole character are left out. */
  static const int32_t broken[] = {200, 201, 68, 230, 69, 233, 154};
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL;
  vkf_text text;
  vkf_text_init(&text, &env);
  assert_int_equal(vkf_text_tokenizer_create(&env, &files, &tokenizer), VKF_OK);
  assert_int_equal(vkf_text_tokenizer_decode(tokenizer, broken, VKF_COUNT(broken), true, &text), VKF_OK);
  assert_int_equal(text.size, 2);
  assert_memory_equal(text.data, "AB", 2);
  vkf_text_finish(&text);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

static const char marked_json[] =
    "{\"__null__\":0,\"__start__\":1,\"__end__\":2,\"__unk__\":3,\"a@@\":4,\"bc\":5,\"c\":6}";
static const char marked_txt[] = "#version: 0.2\nb c</w>\na b\n";

/* The small Blenderbot's: the ids and texts are those of transformers' class (tokenizers/marked/make.py). */
static void marked_pieces(void **state) {
  (void)state;
  static const char folder[] = "tests/data/tokenizers/marked";
  vkf_text_file vectors = read_file(folder, "vectors.jsonl");
  vkf_text_files files = {.vocab = read_file(folder, "vocab.json"),
                          .merges = read_file(folder, "merges.txt"),
                          .config = file_of("{\"model_type\":\"blenderbot-small\"}", "config.json")};
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL;
  if (vkf_text_tokenizer_create(&env, &files, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
  assert_lines(tokenizer, &env, &vectors, 57);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
  free((char *)vectors.data);
  free((char *)files.vocab.data);
  free((char *)files.merges.data);
  files = (vkf_text_files){
      .vocab = file_of(marked_json, "vocab.json"),
      .merges = file_of(marked_txt, "merges.txt"),
      .tokenizer_config = file_of("{\"tokenizer_class\":\"BlenderbotSmallTokenizer\"}", "tokenizer_config.json")};
  assert_round(&files, "ABC bc__end__abb", "4 5 5 2 3 3", "abc bc"); /* "ab" is no piece of vocab.json */
  files.vocab = file_of("{\"__null__\":0,\"a\":1}", "vocab.json");
  assert_refused(&files, VKF_ERROR_FORMAT, "the unknown token \"__unk__\" is missing");
  files.vocab = file_of("{\"__unk__\":0,\"a\":\"1\"}", "vocab.json"); /* no id */
  assert_refused(&files, VKF_ERROR_FORMAT, "vocab.json");
  files.vocab = file_of(marked_json, "vocab.json");
  files.merges = file_of("#version: 0.2\na\n", "merges.txt");
  assert_refused(&files, VKF_ERROR_FORMAT, "merge 0");
  files.merges = (vkf_text_file){0};
  assert_refused(&files, VKF_ERROR_FILE, "merges.txt");
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* The defaults of a class for what tokenizer_config.json leaves out. */
static void defaults(void **state) {
  (void)state;
  bytes spm = small_spm(unigram, 2), target = small_spm(unigram, 2);
  vkf_text_files files = {
      .spm = file_of_bytes(&spm, "spiece.model"),
      .tokenizer_config = file_of("{\"tokenizer_class\":\"T5Tokenizer\"}", "tokenizer_config.json")};
  assert_round(&files, "<extra_id_0><extra_id_99>", "107 8 2", ""); /* 100 of them after 8 pieces */
  assert_round(&files, "ab<extra_id_100>", "3 6 0 4 0 2", "aba");   /* unknown ids have no text here */
  static const char with_han[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##b\n\xE4\xB8\xAD\n";
  files = (vkf_text_files){.words = file_of(with_han, "vocab.txt")};
  assert_round(&files, "ab\xE4\xB8\xAD", "2 5 7 3", "ab \xE4\xB8\xAD"); /* tokenize_chinese_chars */
  files.tokenizer_config = file_of("{\"tokenize_chinese_chars\":false}", "tokenizer_config.json");
  assert_round(&files, "ab\xE4\xB8\xAD", "2 1 3", "");
  files = (vkf_text_files){.vocab = file_of(vocab_json, "vocab.json"),
                           .merges = file_of("#version: 0.2\na b\n#version b\n", "merges.txt")};
  assert_refused(&files, VKF_ERROR_FORMAT, "merge 1"); /* only the first line can be the version */
  files = (vkf_text_files){.spm = file_of_bytes(&spm, "spiece.model"),
                           .tokenizer_config = file_of("{\"tokenizer_class\":\"T5Tokenizer\","
                                                       "\"added_tokens_decoder\":{\"12x\":{\"content\":\"<x>\"}}}",
                                                       "tokenizer_config.json")};
  assert_refused(&files, VKF_ERROR_FORMAT, "\"12x\"");
  /* Marian decodes a text as the target's model says, here with the space before it. */
  put_field(&target, 3, "\x18\x00\x20\x00", 4);
  files = (vkf_text_files){.spm = file_of_bytes(&spm, "source.spm"),
                           .target_spm = file_of_bytes(&target, "target.spm"),
                           .config = file_of("{\"model_type\":\"marian\"}", "config.json"),
                           .vocab = file_of("{\"</s>\":0,\"<unk>\":1,\"" MARK "\":2,\"ab\":3}", "vocab.json")};
  assert_round(&files, "ab", "2 3 0", " ab");
}

static void refused_by_name(void **state) {
  (void)state;
  vkf_text_files files = {0};
  assert_refused(&files, VKF_ERROR_FILE, "tokenizer.json");
  files.tokenizer_config = file_of("{\"tokenizer_class\":\"XLNetTokenizer\"}", "tokenizer_config.json");
  assert_refused(&files, VKF_ERROR_FILE, "XLNetTokenizer");
  files = (vkf_text_files){0};
  const struct {
    unsigned char trainer[3];
    size_t n;
    const char *words;
  } trainers[] = {
      {{0x18, 3}, 2, "\"word\""}, {{0x18, 4}, 2, "\"char\""}, {{0xC0, 1, 1}, 3, "treat_whitespace_as_suffix"}};
  for (size_t i = 0; i < VKF_COUNT(trainers); i++) {
    bytes spm = small_spm(trainers[i].trainer, trainers[i].n);
    files.spm = file_of_bytes(&spm, "spiece.model");
    assert_refused(&files, VKF_ERROR_UNSUPPORTED, trainers[i].words);
  }
  bytes spm = small_spm(unigram, 2);
  put_piece(&spm, "unused", 0, UNUSED);
  files.spm = file_of_bytes(&spm, "spiece.model");
  assert_refused(&files, VKF_ERROR_UNSUPPORTED, "UNUSED");
  spm = small_spm(unigram, 2);
  put_piece(&spm, "<0xG1>", 0, BYTE);
  files.spm = file_of_bytes(&spm, "spiece.model");
  assert_refused(&files, VKF_ERROR_FORMAT, "BYTE");
  spm = small_spm(unigram, 2);
  put_piece(&spm, "<unk2>", 0, UNKNOWN);
  files.spm = file_of_bytes(&spm, "spiece.model");
  assert_refused(&files, VKF_ERROR_FORMAT, "found 2");
  files.config = file_of("{\"model_type\":\"camembert\"}", "config.json");
  assert_refused(&files, VKF_ERROR_UNSUPPORTED, "camembert");
  files.target_spm = files.spm;
  files.vocab = file_of("{\"</s>\":0,\"<unk>\":1}", "vocab.json");
  files.config = file_of("{\"model_type\":\"marian\"}", "config.json");
  files.tokenizer_config = file_of("{\"separate_vocabs\":true}", "tokenizer_config.json");
  assert_refused(&files, VKF_ERROR_UNSUPPORTED, "separate_vocabs true");
  files = (vkf_text_files){.vocab = file_of(vocab_json, "vocab.json")};
  assert_refused(&files, VKF_ERROR_FILE, "merges.txt");
  files.merges = file_of("a\n", "merges.txt");
  assert_refused(&files, VKF_ERROR_FORMAT, "merge 0");
  files = (vkf_text_files){.words = file_of("a\n\xFF\n", "vocab.txt")};
  assert_refused(&files, VKF_ERROR_FORMAT, "line 2");
  files.words = file_of("a\n[UNK]\n", "vocab.txt");
  assert_refused(&files, VKF_ERROR_FORMAT, "cls_token");
  files.words.size = ((size_t)1 << 30) + 1; /* never read */
  assert_refused(&files, VKF_ERROR_FORMAT, "at most 1073741824 bytes");
}

/* Each prefix of a file, and the file with each byte changed in turn: it opens or is refused with a message. */
static void damaged_sentencepiece(void **state) {
  (void)state;
  bytes whole = small_spm(unigram, 2);
  size_t n_refused = 0;
  for (size_t i = 0; i < 2 * whole.n; i++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    bytes spm = whole;
    if (i < whole.n)
      spm.n = i;
    else
      spm.data[i - whole.n] = (char)(spm.data[i - whole.n] ^ 0x85);
    char *exact = malloc(spm.n > 0 ? spm.n : 1); /* so that a sanitizer notices reads beyond it */
    memcpy(exact, spm.data, spm.n);
    vkf_text_files files = {.spm = {exact, spm.n, "spiece.model"}};
    vkf_text_tokenizer *tokenizer = NULL;
    vkf_text_ids ids;
    vkf_text_ids_init(&ids, &env);
    if (vkf_text_tokenizer_create(&env, &files, &tokenizer) != VKF_OK) {
      assert_null(tokenizer);
      assert_non_null(strstr(env.message, "spiece.model"));
      n_refused++;
    } else {
      assert_int_equal(vkf_text_tokenizer_encode(tokenizer, "ab a", 4, true, &ids), VKF_OK);
    }
    vkf_text_ids_finish(&ids);
    vkf_text_tokenizer_destroy(&tokenizer);
    assert_int_equal(env.live_bytes, 0);
    free(exact);
  }
  assert_true(n_refused > whole.n);
}

/* ---- lack of memory ---------------------------------------------------------------------------------------------- */

static void lack_of_memory(void **state) {
  (void)state;
  bytes one = small_spm(unigram, 2), two = small_spm(bpe, 2);
  put_piece(&one, "user", 0, USER_DEFINED);
  const vkf_text_files folders[] = {
      {.spm = file_of_bytes(&one, "spiece.model"), .config = file_of("{\"model_type\":\"t5\"}", "config.json")},
      {.spm = file_of_bytes(&two, "spiece.model")},
      {.spm = file_of_bytes(&one, "source.spm"),
       .target_spm = file_of_bytes(&one, "target.spm"),
       .config = file_of("{\"model_type\":\"marian\"}", "config.json"),
       .vocab = file_of("{\"</s>\":0,\"<unk>\":1,\"ab\":2}", "vocab.json")},
      {.vocab = file_of(vocab_json, "vocab.json"), .merges = file_of(merges_txt, "merges.txt")},
      {.vocab = file_of(marked_json, "vocab.json"),
       .merges = file_of(marked_txt, "merges.txt"),
       .config = file_of("{\"model_type\":\"blenderbot-small\"}", "config.json")},
      {.words = file_of(vocab_txt, "vocab.txt")}};
  for (size_t i = 0; i < VKF_COUNT(folders); i++) tokenizer_lacks_memory(&folders[i], "ab a q");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recorded_sentencepiece),
      cmocka_unit_test(sentencepiece_classes),
      cmocka_unit_test(marian),
      cmocka_unit_test(marian_targets),
      cmocka_unit_test(byte_level_and_wordpiece),
      cmocka_unit_test(pairs_of_texts),
      cmocka_unit_test(defaults),
      cmocka_unit_test(mpnet),
      cmocka_unit_test(pegasus),
      cmocka_unit_test(pieces_are_bytes),
      cmocka_unit_test(marked_pieces),
      cmocka_unit_test(refused_by_name),
      cmocka_unit_test(damaged_sentencepiece),
      cmocka_unit_test(lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
