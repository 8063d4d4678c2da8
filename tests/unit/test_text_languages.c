/* Multilingual tokenizers: the ids that transformers' classes give with the same files, unknown languages, templates of
 * tokenizer.json, Marian's tokens before the text, lack of memory. */
#include "support/tokenizers.h"
#include "text/internal.h"

#define FOLDER "tests/data/tokenizers/languages"

static vkf_text_tokenizer *open_files(vkf_env *env, const vkf_text_files *files) {
  vkf_text_tokenizer *tokenizer = NULL;
  vkf_env_init(env, NULL);
  if (vkf_text_tokenizer_create(env, files, &tokenizer) != VKF_OK) fail_msg("%s", env->message);
  return tokenizer;
}

static void close_tokenizer(vkf_env *env, vkf_text_tokenizer *tokenizer) {
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env->live_bytes, 0);
}

static vkf_text_files files_of(const char *class_name, char *config, size_t size) {
  snprintf(config, size,
           "{\"tokenizer_class\": \"%sTokenizer\", \"model_max_length\": 1000000000000000019884624838656}", class_name);
  vkf_text_files files = {.spm = read_file(FOLDER, "sentencepiece.bpe.model"),
                          .tokenizer_config = file_of(config, "tokenizer_config.json")};
  if (strcmp(class_name, "M2M100") == 0) files.vocab = read_file(FOLDER, "vocab.json");
  return files;
}

static void free_files(vkf_text_files *files) {
  free((char *)files->spm.data);
  free((char *)files->vocab.data);
}

/* Prints ids of JSON with spaces between them, as assert_ids_of() takes them. */
static void print_ids(const json_t *ids, char *out, size_t size) {
  json_t *id;
  size_t i, n = 0;
  *out = 0;
  json_array_foreach(ids, i, id) n +=
      (size_t)snprintf(out + n, size - n, "%s%d", i ? " " : "", (int)json_integer_value(id));
}

static void assert_decoded(vkf_text_tokenizer *tokenizer, vkf_env *env, const int32_t *ids, size_t n,
                           const char *want) {
  vkf_text text;
  vkf_text_init(&text, env);
  assert_int_equal(vkf_text_tokenizer_decode(tokenizer, ids, n, true, &text), VKF_OK);
  vkf_text_append(&text, "", 0);
  assert_string_equal(text.data, want);
  vkf_text_finish(&text);
}

/* Sets the languages of all later texts. begin may be NULL. */
static vkf_status choose(vkf_text_tokenizer *tokenizer, const char *source, const char *target, int32_t *begin) {
  vkf_text_languages_before before;
  int32_t none;
  return vkf_text_languages_use(tokenizer, source, target, &before, begin ? begin : &none);
}

static void assert_line(const json_t *line) {
  char config[200], want[400] = "";
  const char *class_name, *text, *language = NULL;
  json_t *ids;
  assert_int_equal(json_unpack((json_t *)line, "{s:s, s:s, s:o, s?s}", "class", &class_name, "text", &text, "ids", &ids,
                               "language", &language),
                   0);
  print_ids(ids, want, sizeof want);
  vkf_env env;
  vkf_text_files files = files_of(class_name, config, sizeof config);
  vkf_text_tokenizer *tokenizer = open_files(&env, &files);
  if (language) assert_int_equal(choose(tokenizer, language, NULL, NULL), VKF_OK);
  assert_ids_of(tokenizer, &env, text, want);
  close_tokenizer(&env, tokenizer);
  free_files(&files);
}

static void recorded(void **state) {
  (void)state;
  vkf_text_file vectors = read_file(FOLDER, "vectors.jsonl");
  size_t n_lines = 0;
  for (char *line = strtok((char *)vectors.data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
    json_t *json = json_loads(line, 0, NULL);
    if (json_is_null(json_object_get(json, "language"))) json_object_del(json, "language");
    assert_line(json);
    json_decref(json);
  }
  assert_int_equal(n_lines, 53);
  free((char *)vectors.data);
}

/* The ids that PLBartTokenizer gives for texts, and the texts that it gives for these ids (plbart/make.py). */
static void plbart(void **state) {
  (void)state;
  vkf_text_file vectors = read_file("tests/data/tokenizers/plbart", "vectors.jsonl");
  size_t n_lines = 0;
  for (char *line = strtok((char *)vectors.data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
    char config[200], want[400] = "";
    json_t *json = json_loads(line, 0, NULL), *id;
    const char *language = json_string_value(json_object_get(json, "language"));
    int32_t list[100];
    size_t i;
    json_array_foreach(json_object_get(json, "ids"), i, id) {
      assert_true(i < VKF_COUNT(list));
      list[i] = (int32_t)json_integer_value(id);
    }
    print_ids(json_object_get(json, "ids"), want, sizeof want);
    snprintf(config, sizeof config, "{\"tokenizer_class\": \"PLBartTokenizer\", \"language_codes\": \"%s\"}",
             json_string_value(json_object_get(json, "codes")));
    vkf_text_files files = {.spm = read_file(FOLDER, "sentencepiece.bpe.model"),
                            .tokenizer_config = file_of(config, "tokenizer_config.json")};
    vkf_env env;
    vkf_text_languages_before before;
    int32_t begin = 0;
    vkf_text_tokenizer *tokenizer = open_files(&env, &files);
    assert_int_equal(vkf_text_languages_use(tokenizer, language, NULL, &before, &begin), VKF_OK);
    assert_ids_of(tokenizer, &env, json_string_value(json_object_get(json, "text")), want);
    assert_decoded(tokenizer, &env, list, i, json_string_value(json_object_get(json, "decoded")));
    if (n_lines == 0) {
      assert_int_equal(vkf_text_languages_use(tokenizer, "java", "python", &before, &begin), VKF_OK);
      assert_int_equal(begin, 152);
      assert_ids_of(tokenizer, &env, "", "2 151");
      vkf_text_languages_restore(tokenizer, &before);
      assert_ids_of(tokenizer, &env, "", "2");
    }
    close_tokenizer(&env, tokenizer);
    json_decref(json);
    free_files(&files);
  }
  assert_int_equal(n_lines, 74);
  free((char *)vectors.data);
}

/* Options in the files of a PLBart tokenizer: the language, and whether texts are cleaned up. */
static void plbart_config(void **state) {
  (void)state;
  static const struct {
    const char *config, *ids, *decoded;
  } rows[] = {
      {"{}", "26 4 5 2", "the."},
      {"{\"src_lang\": \"java\"}", "26 4 5 2 151", "the."},
      {"{\"src_lang\": \"__en_XX__\", \"language_codes\": \"base\"}", "26 4 5 2 153", "the."},
      {"{\"src_lang\": \"php\", \"language_codes\": \"multi\"}", "26 4 5 2 155", "the."},
      {"{\"clean_up_tokenization_spaces\": false}", "26 4 5 2", "the ."},
  };
  vkf_text_file spm = read_file(FOLDER, "sentencepiece.bpe.model");
  vkf_text_files files = {.spm = spm, .config = file_of("{\"model_type\": \"plbart\"}", "config.json")};
  vkf_env env;
  vkf_text_tokenizer *tokenizer = NULL;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    files.tokenizer_config = file_of(rows[i].config, "tokenizer_config.json");
    tokenizer = open_files(&env, &files);
    assert_ids_of(tokenizer, &env, "the .", rows[i].ids);
    assert_decoded(tokenizer, &env, (int32_t[]){4, 26, 4, 5, 4, 2}, 6, rows[i].decoded);
    close_tokenizer(&env, tokenizer);
  }
  files.tokenizer_config = file_of("{\"language_codes\": \"m2m100\"}", "tokenizer_config.json");
  tokenizer = NULL;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_text_tokenizer_create(&env, &files, &tokenizer), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message, "language_codes \"m2m100\""));
  close_tokenizer(&env, tokenizer);
  free((char *)spm.data);
}

/* Pieces that vocab.json has and the SentencePiece model does not are found as they are written (surfaces/make.py). */
static void surfaces(void **state) {
  (void)state;
  static const char folder[] = "tests/data/tokenizers/surfaces", beside[] = "tests/data/tokenizers";
  vkf_text_file vectors = read_file(folder, "vectors.jsonl"), vocab = read_file(folder, "vocab.json");
  vkf_text_file marian_spm = read_file(beside, "sentencepiece-unigram/spiece.model"),
                m2m_spm = read_file(FOLDER, "sentencepiece.bpe.model");
  size_t n_lines = 0;
  for (char *line = strtok((char *)vectors.data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
    char config[100], want[400] = "";
    json_t *json = json_loads(line, 0, NULL);
    const char *type = json_string_value(json_object_get(json, "model_type"));
    print_ids(json_object_get(json, "ids"), want, sizeof want);
    snprintf(config, sizeof config, "{\"model_type\": \"%s\"}", type);
    const bool is_marian = strcmp(type, "marian") == 0;
    vkf_text_files files = {.spm = is_marian ? marian_spm : m2m_spm,
                            .target_spm = marian_spm,
                            .vocab = vocab,
                            .config = file_of(config, "config.json")};
    vkf_env env;
    vkf_text_tokenizer *tokenizer = open_files(&env, &files);
    if (!is_marian) assert_int_equal(choose(tokenizer, "en", NULL, NULL), VKF_OK);
    assert_ids_of(tokenizer, &env, json_string_value(json_object_get(json, "text")), want);
    close_tokenizer(&env, tokenizer);
    json_decref(json);
  }
  assert_int_equal(n_lines, 20);
  free((char *)m2m_spm.data);
  free((char *)marian_spm.data);
  free((char *)vocab.data);
  free((char *)vectors.data);
}

/* The ids that transformers gives these languages, and the message for an unknown language. */
static void targets(void **state) {
  (void)state;
  static const struct {
    const char *class_name, *language;
    int32_t id;
    const char *unknown, *message;
  } rows[] = {
      {"MBart", "ar_AR", 151, "fr", "such as fr_XX, ar_AR, cs_CZ, de_DE, en_XX, es_XX, et_EE, fi_FI; found \"fr\""},
      {"MBart50", "sl_SI", 202, "xx_XX", "found \"xx_XX\""},
      {"M2M100", "zu", 250, "fr_XX", "such as fr, af, am, "},
      {"M2M100", "__af__", 151, "", "found \"\""},
      {"XLMRoberta", NULL, 0, "fr", "no languages"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    char config[200];
    int32_t begin = -2;
    vkf_text_files files = files_of(rows[i].class_name, config, sizeof config);
    vkf_text_tokenizer *tokenizer = open_files(&env, &files);
    if (rows[i].language) {
      assert_int_equal(choose(tokenizer, NULL, rows[i].language, &begin), VKF_OK);
      assert_int_equal(begin, rows[i].id);
    }
    assert_int_equal(choose(tokenizer, NULL, rows[i].unknown, &begin), VKF_ERROR_ARGUMENT);
    if (!strstr(env.message, rows[i].message)) fail_msg("%s", env.message);
    vkf_env_clear(&env);
    assert_int_equal(choose(tokenizer, rows[i].unknown, NULL, NULL), VKF_ERROR_ARGUMENT);
    close_tokenizer(&env, tokenizer);
    free_files(&files);
  }
}

/* A tokenizer.json with the language after the text. Without a class it stays there; NLLB's class puts it before the
 * text, or after it with legacy_behaviour. */
static void templates(void **state) {
  (void)state;
  static const char json[] =
      "{\"added_tokens\": [{\"id\": 2, \"content\": \"</s>\", \"special\": true},"
      "{\"id\": 3, \"content\": \"eng_Latn\", \"special\": true}, {\"id\": 4, \"content\": \"zho_Hans\", \"special\": "
      "true}],"
      "\"pre_tokenizer\": {\"type\": \"Whitespace\"},"
      "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}},"
      "{\"SpecialToken\": {\"id\": \"</s>\"}}, {\"SpecialToken\": {\"id\": \"eng_Latn\"}}],"
      "\"special_tokens\": {\"</s>\": {\"ids\": [2]}, \"eng_Latn\": {\"ids\": [3]}}},"
      "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"<unk>\": 0, \"a\": 1}, \"unk_token\": \"<unk>\"}}";
  static const struct {
    const char *config, *before, *after, *model; /* ids without and with a language; config.json */
  } rows[] = {
      {"{}", "1 2 3", "1 2 4", "{}"},
      {"{}", "3 1 2", "4 1 2", "{\"model_type\": \"m2m_100\", \"tokenizer_class\": \"NllbTokenizer\"}"},
      {"{\"tokenizer_class\": \"NllbTokenizer\"}", "3 1 2", "4 1 2", "{}"},
      {"{\"tokenizer_class\": \"NllbTokenizerFast\", \"src_lang\": \"zho_Hans\"}", "4 1 2", "4 1 2", "{}"},
      {"{\"tokenizer_class\": \"NllbTokenizer\", \"legacy_behaviour\": true}", "1 2 3", "1 2 4", "{}"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    int32_t begin;
    vkf_text_files files = {.tokenizer = file_of(json, "tokenizer.json"),
                            .tokenizer_config = file_of(rows[i].config, "tokenizer_config.json"),
                            .config = file_of(rows[i].model, "config.json")};
    vkf_text_tokenizer *tokenizer = open_files(&env, &files);
    assert_ids_of(tokenizer, &env, "a", rows[i].before);
    assert_int_equal(choose(tokenizer, "zho_Hans", NULL, NULL), VKF_OK);
    assert_ids_of(tokenizer, &env, "a", rows[i].after);
    assert_int_equal(choose(tokenizer, NULL, "eng_Latn", &begin), VKF_OK);
    assert_int_equal(begin, 3);
    close_tokenizer(&env, tokenizer);
  }
}

/* Marian puts the target language before the text; its token may also be written there. */
static void marian(void **state) {
  (void)state;
  vkf_env env;
  int32_t begin = 0;
  char vocab[400], longest[193] = ""; /* one character too many for the list */
  memset(longest, 'a', sizeof longest - 1);
  snprintf(vocab, sizeof vocab, "{\"</s>\":0,\"<unk>\":1,\">>fr<<\":2,\">>es<<\":3,\"\xE2\x96\x81\":4,\">>%s<<\":5}",
           longest);
  vkf_text_files files = {.spm = read_file(FOLDER, "sentencepiece.bpe.model"),
                          .target_spm = read_file(FOLDER, "sentencepiece.bpe.model"),
                          .vocab = file_of(vocab, "v"),
                          .config = file_of("{\"model_type\":\"marian\"}", "config.json")};
  vkf_text_tokenizer *tokenizer = open_files(&env, &files);
  assert_int_equal(vkf_text_tokenizer_special(tokenizer).unk, 1); /* that of vocab.json */
  assert_ids_of(tokenizer, &env, ">>es<< Z", "3 4 1 0");
  assert_int_equal(choose(tokenizer, "fr", NULL, NULL), VKF_ERROR_ARGUMENT);
  if (!strstr(env.message, "target languages only")) fail_msg("%s", env.message);
  vkf_env_clear(&env);
  assert_int_equal(choose(tokenizer, NULL, "xx", NULL), VKF_ERROR_ARGUMENT);
  if (!strstr(env.message, "such as fr, es; found \"xx\"")) fail_msg("%s", env.message);
  vkf_env_clear(&env);
  assert_int_equal(choose(tokenizer, NULL, "fr", &begin), VKF_OK);
  assert_int_equal(begin, -1);
  assert_ids_of(tokenizer, &env, "Z", "2 4 1 0");
  close_tokenizer(&env, tokenizer);
  free((char *)files.spm.data);
  free((char *)files.target_spm.data);
}

/* Which tokens are languages, by their characters. */
static void forms(void **state) {
  (void)state;
  static const struct {
    const char *piece;
    vkf_text_language_form form;
  } rows[] = {
      {"en_XX", VKF_TEXT_LANGUAGE_CODE},         {"zho_Hans", VKF_TEXT_LANGUAGE_CODE},
      {"e_XX", VKF_TEXT_LANGUAGE_NONE},          {"engl_XX", VKF_TEXT_LANGUAGE_NONE},
      {"en-XX", VKF_TEXT_LANGUAGE_NONE},         {"en_XXX", VKF_TEXT_LANGUAGE_NONE},
      {"en_X", VKF_TEXT_LANGUAGE_NONE},          {"zho_H4ns", VKF_TEXT_LANGUAGE_NONE},
      {"zho_HANS", VKF_TEXT_LANGUAGE_NONE},      {"eng", VKF_TEXT_LANGUAGE_NONE},
      {"__en__", VKF_TEXT_LANGUAGE_UNDERSCORES}, {"____", VKF_TEXT_LANGUAGE_NONE},
      {"__e1__", VKF_TEXT_LANGUAGE_NONE},        {">>fra<<", VKF_TEXT_LANGUAGE_ARROWS},
      {">><<", VKF_TEXT_LANGUAGE_NONE},          {"__en_XX__", VKF_TEXT_LANGUAGE_UNDERSCORES},
      {"__en_X__", VKF_TEXT_LANGUAGE_NONE},      {">>fra>>", VKF_TEXT_LANGUAGE_NONE},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    if (vkf_text_language_form_of((vkf_text_string){rows[i].piece, strlen(rows[i].piece)}) != rows[i].form)
      fail_msg("%s", rows[i].piece);
}

/* A token that looks like a language but is not special is none. If one language of a pair is unknown, none is set. */
static void what_is_refused_changes_nothing(void **state) {
  (void)state;
  static const char json[] =
      "{\"added_tokens\": [{\"id\": 2, \"content\": \"</s>\", \"special\": true},"
      "{\"id\": 3, \"content\": \"eng_Latn\", \"special\": true},"
      "{\"id\": 4, \"content\": \"zho_Hans\", \"special\": true},"
      "{\"id\": 5, \"content\": \"fra_Latn\", \"special\": false}],"
      "\"pre_tokenizer\": {\"type\": \"Whitespace\"},"
      "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"<unk>\": 0, \"a\": 1}, \"unk_token\": \"<unk>\"}}";
  vkf_env env;
  int32_t begin;
  vkf_text_languages_before before;
  vkf_text_files files = {
      .tokenizer = file_of(json, "tokenizer.json"),
      .tokenizer_config = file_of("{\"tokenizer_class\": \"NllbTokenizer\", \"mask_token\": \"a\"}", "c")};
  vkf_text_tokenizer *tokenizer = open_files(&env, &files);
  assert_int_equal(vkf_text_tokenizer_special(tokenizer).mask, -1); /* no special token */
  assert_int_equal(vkf_text_tokenizer_special(tokenizer).unk, 0);
  assert_int_equal(choose(tokenizer, "fra_Latn", NULL, NULL), VKF_ERROR_ARGUMENT);
  vkf_env_clear(&env);
  assert_int_equal(vkf_text_languages_use(tokenizer, "zho_Hans", "xxx_Latn", &before, &begin), VKF_ERROR_ARGUMENT);
  vkf_env_clear(&env);
  assert_ids_of(tokenizer, &env, "a", "3 1 2");
  assert_int_equal(vkf_text_languages_use(tokenizer, "zho_Hans", "eng_Latn", &before, &begin), VKF_OK);
  assert_ids_of(tokenizer, &env, "a", "4 1 2");
  vkf_text_languages_restore(tokenizer, &before);
  assert_ids_of(tokenizer, &env, "a", "3 1 2");
  close_tokenizer(&env, tokenizer);
}

static void lack_of_memory(void **state) {
  (void)state;
  static const char *const classes[] = {"MBart50", "M2M100", "PLBart"};
  for (size_t i = 0; i < VKF_COUNT(classes); i++) {
    char config[200];
    vkf_text_files files = files_of(classes[i], config, sizeof config);
    vkf_status st = VKF_ERROR_MEMORY;
    uint64_t at = 0;
    for (; st != VKF_OK; at++) {
      vkf_env env;
      vkf_env_init(&env, NULL);
      env.fail_at = at + 1;
      vkf_text_tokenizer *tokenizer = NULL;
      st = vkf_text_tokenizer_create(&env, &files, &tokenizer);
      if (st != VKF_OK) assert_int_equal(env.first, VKF_ERROR_MEMORY);
      close_tokenizer(&env, tokenizer);
    }
    assert_true(at > 2);
    free_files(&files);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recorded),  cmocka_unit_test(targets),
      cmocka_unit_test(templates), cmocka_unit_test(marian),
      cmocka_unit_test(plbart),    cmocka_unit_test(plbart_config),
      cmocka_unit_test(surfaces),  cmocka_unit_test(lack_of_memory),
      cmocka_unit_test(forms),     cmocka_unit_test(what_is_refused_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
