/* Whole tokenizers: recorded ids and texts of every kind, added tokens, corner cases of models, bad input, lack of
 * memory. */
#include "support/tokenizers.h"

/* ---- recorded ids ------------------------------------------------------------------------------------------------ */

static vkf_text_tokenizer *open_tokenizer(vkf_env *env, const char *folder) {
  vkf_text_tokenizer *tokenizer = NULL;
  vkf_text_file json = read_file(folder, "tokenizer.json");
  if (vkf_text_tokenizer_create(env, &(vkf_text_files){.tokenizer = json}, &tokenizer) != VKF_OK)
    fail_msg("%s: %s", folder, env->message);
  free((char *)json.data);
  return tokenizer;
}

static void assert_ids(vkf_text_tokenizer *tokenizer, vkf_env *env, const json_t *line, const char *text_key,
                       const char *ids_key, bool add_special) {
  const json_t *text = json_object_get(line, text_key), *want = json_object_get(line, ids_key);
  assert_non_null(text);
  assert_true(json_is_array(want));
  vkf_text_ids ids;
  vkf_text_ids_init(&ids, env);
  if (vkf_text_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), add_special, &ids) !=
      VKF_OK)
    fail_msg("%s", env->message);
  bool same = ids.n == json_array_size(want);
  for (size_t i = 0; i < ids.n && same; i++) same = ids.ids[i] == json_integer_value(json_array_get(want, i));
  if (!same) fail_msg("other ids than recorded for \"%s\"", json_string_value(text));
  vkf_text_ids_finish(&ids);
}

static void assert_text(vkf_text_tokenizer *tokenizer, vkf_env *env, const json_t *line, const char *ids_key,
                        const char *text_key) {
  const json_t *list = json_object_get(line, ids_key), *want = json_object_get(line, text_key);
  int32_t ids[1000];
  assert_true(json_is_array(list) && json_array_size(list) <= VKF_COUNT(ids));
  for (size_t i = 0; i < json_array_size(list); i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
  vkf_text text;
  vkf_text_init(&text, env);
  if (vkf_text_tokenizer_decode(tokenizer, ids, json_array_size(list), true, &text) != VKF_OK)
    fail_msg("%s", env->message);
  vkf_text_append(&text, "", 0);
  if (text.size != json_string_length(want) || memcmp(text.data, json_string_value(want), text.size) != 0)
    fail_msg("expected the text \"%s\", found \"%s\"", json_string_value(want), text.data);
  vkf_text_finish(&text);
}

static void vectors_of_every_kind(void **state) {
  (void)state;
  static const char *const kinds[] = {"byte-level-bpe", "regex-byte-bpe",  "byte-fallback-bpe", "unigram",
                                      "word-level",     "wordpiece-cased", "wordpiece-uncased"};
  for (size_t k = 0; k < VKF_COUNT(kinds); k++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    char folder[64];
    snprintf(folder, sizeof folder, "tests/data/tokenizers/%s", kinds[k]);
    vkf_text_tokenizer *tokenizer = open_tokenizer(&env, folder);
    size_t n_lines = 0;
    char *lines = (char *)read_file(folder, "vectors.jsonl").data;
    for (char *line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n"), n_lines++) {
      json_t *json = json_loads(line, JSON_ALLOW_NUL, NULL);
      assert_ids(tokenizer, &env, json, "text", "ids", true);
      assert_ids(tokenizer, &env, json, "text", "ids_plain", false);
      assert_text(tokenizer, &env, json, "ids", "decoded");
      json_decref(json);
    }
    assert_int_equal(n_lines, 40);
    free(lines);
    vkf_text_tokenizer_destroy(&tokenizer);
    assert_null(tokenizer);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* clean_up_tokenization_spaces, as transformers applies it to each kind of model. */
static void cleaned_up(void **state) {
  (void)state;
  static const char text[] = "Hello , you ! I do not ' know ' it 's .";
  static const char *const rows[][3] = {
      {"unigram", "false", "Hello , you ! I do not ' know ' it 's ."},
      {"unigram", "true", "Hello, you! I do not'know'it's."},
      {"unigram", "null", "Hello , you ! I do not ' know ' it 's ."},
      {"word-level", "true", ", you! I do not'know'it's."}, /* without <unk>, which is special */
      {"wordpiece-cased", "false", "Hello, you! I do not ' know ' it ' s."},
      {"wordpiece-cased", "true", "Hello, you! I do not'know'it's."},
      {"byte-fallback-bpe", "true", "Hello , you ! I do not ' know ' it 's ."},
      {"byte-level-bpe", "true", "Hello , you ! I do not ' know ' it 's ."}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    char folder[64], config[64];
    snprintf(folder, sizeof folder, "tests/data/tokenizers/%s", rows[i][0]);
    snprintf(config, sizeof config, "{\"clean_up_tokenization_spaces\": %s}", rows[i][1]);
    vkf_text_tokenizer *tokenizer = NULL;
    vkf_text_files files = {.tokenizer = read_file(folder, "tokenizer.json"),
                            .tokenizer_config = file_of(config, "tokenizer_config.json")};
    vkf_text_ids ids;
    vkf_text found;
    vkf_text_ids_init(&ids, &env);
    vkf_text_init(&found, &env);
    assert_int_equal(vkf_text_tokenizer_create(&env, &files, &tokenizer), VKF_OK);
    assert_int_equal(vkf_text_tokenizer_encode(tokenizer, text, strlen(text), false, &ids), VKF_OK);
    assert_int_equal(vkf_text_tokenizer_decode(tokenizer, ids.ids, ids.n, true, &found), VKF_OK);
    if (strcmp(found.data, rows[i][2]) != 0)
      fail_msg("%s, %s: expected \"%s\", found \"%s\"", rows[i][0], rows[i][1], rows[i][2], found.data);
    vkf_text_finish(&found);
    vkf_text_ids_finish(&ids);
    vkf_text_tokenizer_destroy(&tokenizer);
    free((char *)files.tokenizer.data);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* The side on which texts are cut: tokenizer_config.json takes precedence over tokenizer.json, as in transformers 5. */
static void side_that_is_cut(void **state) {
  (void)state;
  static const struct {
    const char *direction, *config;
    bool is_left;
    const char *refused;
  } rows[] = {
      {"null", NULL, false, NULL},
      {"null", "{}", false, NULL},
      {"null", "{\"truncation_side\": \"left\"}", true, NULL},
      {"{\"direction\": \"Left\"}", NULL, true, NULL},
      {"{\"direction\": \"Left\"}", "{\"truncation_side\": \"right\"}", false, NULL},
      {"{\"direction\": \"Right\"}", "{\"truncation_side\": \"left\"}", true, NULL},
      {"{\"max_length\": 8}", NULL, false, NULL}, /* older files */
      {"null", "{\"truncation_side\": \"Left\"}", false,
       "tokenizer_config.json: \"truncation_side\" should be \"right\" or \"left\""},
      {"{\"direction\": 1}", NULL, false, "tokenizer.json: truncation: \"direction\" should be \"Right\" or \"Left\""}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    char json[256];
    vkf_text_tokenizer *tokenizer = NULL;
    snprintf(json, sizeof json, "{\"truncation\": %s, \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}, %s",
             rows[i].direction, "\"unk_token\": \"a\"}}");
    vkf_text_files files = {.tokenizer = file_of(json, "tokenizer.json")};
    if (rows[i].config) files.tokenizer_config = file_of(rows[i].config, "tokenizer_config.json");
    const vkf_status st = vkf_text_tokenizer_create(&env, &files, &tokenizer);
    if (rows[i].refused) {
      assert_int_equal(st, VKF_ERROR_FORMAT);
      assert_string_equal(env.message, rows[i].refused);
    } else {
      if (st) fail_msg("row %zu: %s", i, env.message);
      assert_int_equal(vkf_text_tokenizer_cuts_left(tokenizer), rows[i].is_left);
    }
    vkf_text_tokenizer_destroy(&tokenizer);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* The model that comes with the project. */
static void shipped_model(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = open_tokenizer(&env, "models/en-es");
  assert_non_null(vkf_text_tokenizer_piece(tokenizer, 7999));
  assert_null(vkf_text_tokenizer_piece(tokenizer, 8000));
  assert_int_equal(vkf_text_tokenizer_find(tokenizer, "</s>"), 1);
  assert_string_equal(vkf_text_tokenizer_piece(tokenizer, 1), "</s>");
  size_t n_lines = 0;
  char *lines = (char *)read_file("models/en-es", "golden.jsonl").data;
  for (char *line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n"), n_lines++) {
    json_t *json = json_loads(line, 0, NULL);
    assert_ids(tokenizer, &env, json, "source", "input_ids", true);
    assert_text(tokenizer, &env, json, "greedy", "greedy_text");
    assert_text(tokenizer, &env, json, "beam4", "beam4_text");
    json_decref(json);
  }
  assert_int_equal(n_lines, 40);
  free(lines);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

/* ---- small tokenizers -------------------------------------------------------------------------------------------- */

static vkf_status create(vkf_env *env, const char *json, vkf_text_tokenizer **out) {
  vkf_env_init(env, NULL);
  *out = NULL;
  return vkf_text_tokenizer_create(env, &(vkf_text_files){.tokenizer = file_of(json, "tokenizer.json")}, out);
}

/* want: the ids as text, such as "1 2 3". */
static void assert_encoded(const char *json, const char *text, const char *want) {
  vkf_env env;
  vkf_text_tokenizer *tokenizer;
  if (create(&env, json, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
  vkf_text_ids ids;
  vkf_text_ids_init(&ids, &env);
  if (vkf_text_tokenizer_encode(tokenizer, text, strlen(text), true, &ids) != VKF_OK) fail_msg("%s", env.message);
  char got[200] = "";
  size_t n = 0;
  for (size_t i = 0; i < ids.n; i++)
    n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%d", i > 0 ? " " : "", ids.ids[i]);
  if (strcmp(got, want) != 0) fail_msg("\"%s\": expected ids %s, found %s", text, want, got);
  vkf_text_ids_finish(&ids);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

#define WORDS                                                                                                       \
  "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\" \":3,\"  b\":4,\"a " \
  "\":5,\"xb\":6,\"A\":7}}"
#define ADDED(fields) "{\"added_tokens\":[{\"id\":9,\"content\":\"<m>\"," fields "}]," WORDS "}"

/* Added tokens of white space after one that strips it: they are found, unless they have lstrip. */
static void added_white_space(void **state) {
  (void)state;
#define SPACES(fields) \
  "{\"added_tokens\":[{\"id\":2,\"content\":\"b\",\"rstrip\":true},{\"id\":3,\"content\":\" \"" fields "}]," WORDS "}"
  assert_encoded(SPACES(""), "b  a", "2 3 3 1");
  assert_encoded(SPACES(",\"rstrip\":true"), "b a", "2 3 1");
  assert_encoded(SPACES(",\"lstrip\":true"), "a b a", "1 3 2 1");
  assert_encoded(SPACES(",\"lstrip\":true"), "b  a", "2 1");
  assert_encoded(SPACES(",\"lstrip\":true,\"rstrip\":true"), "b   ", "2");
  assert_encoded(SPACES(",\"lstrip\":true,\"rstrip\":true"), "a  a", "1 3 1");
#undef SPACES
}

static void added_tokens(void **state) {
  (void)state;
  assert_encoded(ADDED("\"single_word\":true"), "<m>", "9");
  assert_encoded(ADDED("\"single_word\":true"), "<m>b", "0");
  assert_encoded(ADDED("\"single_word\":true"), "a<m>", "0");
  assert_encoded(ADDED("\"special\":true"), "a<m>b<m>", "1 9 2 9");
  assert_encoded(ADDED("\"special\":true"), "a <m>  b", "5 9 4");
  assert_encoded(ADDED("\"special\":true,\"lstrip\":true"), "a <m>  b", "1 9 4");
  assert_encoded(ADDED("\"special\":true,\"rstrip\":true"), "a <m>  b", "5 9 2");
  assert_encoded(ADDED("\"special\":true,\"single_word\":true"), "a<m>b", "0");
  assert_encoded(ADDED("\"special\":true,\"single_word\":true"), "a <m>  b", "5 9 4");
  /* The longest token at a place wins, whatever the order in the file. */
  assert_encoded(
      "{\"added_tokens\":[{\"id\":9,\"content\":\"<m\",\"special\":true},"
      "{\"id\":10,\"content\":\"<m>\",\"special\":true}]," WORDS "}",
      "<m><m", "10 9");
  /* A token with an empty text is never found. */
  assert_encoded("{\"added_tokens\":[{\"id\":9,\"content\":\"\",\"special\":true}]," WORDS "}", "a", "1");
  /* Text between tokens or after them is not the beginning of the text. */
  assert_encoded(
      "{\"added_tokens\":[{\"id\":6,\"content\":\"[A]\",\"special\":true}],"
      "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"},"
      "\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"_x\",-1],[\"y\",-1],[\"z\",-1],[\"_y\",-1],[\"_z\",-1],[\"x\",-1]]"
      "}}",
      "x[A]y[A]z", "0 6 1 6 2");
  assert_encoded(
      "{\"added_tokens\":[{\"id\":6,\"content\":\"[A]\",\"special\":true},{\"id\":7,\"content\":\"[b]\",\"normalized\":"
      "true}],"
      "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"},"
      "\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"_x\",-1],[\"y\",-1],[\"z\",-1],[\"_y\",-1],[\"_z\",-1],[\"x\",-1]]"
      "}}",
      "[A]y[b]z", "6 1 7 2");
  /* A normalized token is found in the normalized text, any other only in the raw text. */
  assert_encoded(
      "{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":9,\"content\":\"<M>\","
      "\"normalized\":true}]," WORDS "}",
      "A<m>B<M>", "1 9 2 9");
  assert_encoded(
      "{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":9,\"content\":\"<M>\","
      "\"normalized\":false}]," WORDS "}",
      "A<M>B", "1 9 2");
  assert_encoded(
      "{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":9,\"content\":\"<M>\","
      "\"normalized\":false}]," WORDS "}",
      "<m>", "0");
}

static void special_tokens_in_texts(void **state) {
  (void)state;
  static const char json[] =
      "{\"added_tokens\":[{\"id\":9,\"content\":\"<m>\",\"special\":true},"
      "{\"id\":10,\"content\":\"<n>\",\"special\":false}]," WORDS "}";
  static const int32_t ids[] = {9, 1, 10, 9, 2};
  vkf_env env;
  vkf_text_tokenizer *tokenizer;
  assert_int_equal(create(&env, json, &tokenizer), VKF_OK);
  assert_non_null(vkf_text_tokenizer_piece(tokenizer, 10));
  assert_null(vkf_text_tokenizer_piece(tokenizer, 11));
  assert_int_equal(vkf_text_tokenizer_find(tokenizer, "<n>"), 10);
  assert_string_equal(vkf_text_tokenizer_piece(tokenizer, 9), "<m>");
  vkf_text text;
  vkf_text_init(&text, &env);
  assert_int_equal(vkf_text_tokenizer_decode(tokenizer, ids, VKF_COUNT(ids), true, &text), VKF_OK);
  assert_string_equal(text.data, "a <n> b");
  assert_int_equal(vkf_text_tokenizer_decode(tokenizer, ids, VKF_COUNT(ids), false, &text), VKF_OK);
  assert_string_equal(text.data, "a <n> b<m> a <n> <m> b");
  vkf_text_finish(&text);
  vkf_text_tokenizer_destroy(&tokenizer);
}

static void post_processors(void **state) {
  (void)state;
  static const char bert[] =
      "{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1]}," WORDS "}";
  assert_encoded(bert, "b", "1 2 2");
  assert_encoded(bert, "", "1 2");
  assert_encoded(
      "{\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1],"
      "\"trim_offsets\":true,\"add_prefix_space\":true}," WORDS "}",
      "a", "1 1 2");
  assert_encoded(
      "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"
      "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\",\"type_id\":0}},"
      "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[5,6]}}},"
      "{\"type\":\"BertProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1]}]}," WORDS "}",
      "a", "1 5 6 1 2");
}

/* Checks the ids of two texts and their types. ids NULL: the texts are refused with the words `types`. */
static void assert_pair(const char *json, const char *first, const char *second, const char *ids, const char *types) {
  vkf_env env;
  vkf_text_tokenizer *tokenizer;
  if (create(&env, json, &tokenizer) != VKF_OK) fail_msg("%s", env.message);
  assert_pair_of(tokenizer, &env, (const char *const[]){first, second}, ids, types);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

#define TEMPLATE(pair) \
  "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]" pair "}"
#define PAIR_OF(pieces) TEMPLATE(",\"pair\":[" pieces "],\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[5,6]}}")
#define B_X_A                                                                                                   \
  "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},{\"SpecialToken\":{\"id\":\"x\",\"type_id\":2}},{\"Sequence\":{" \
  "\"id\":\"A\",\"type_id\":0}}"
#define STEPS(steps) "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" steps "]}," WORDS "}"
#define BERT "{\"type\":\"BertProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1]}"

/* Two texts are joined as by the tokenizers library. */
static void pairs_of_texts(void **state) {
  (void)state;
  assert_pair(STEPS(BERT), "A", "xb", "1 7 2 6 2", "0 0 0 1 1");
  assert_pair(STEPS(BERT), "", "xb", "1 2 6 2", "0 0 1 1");
  assert_pair(STEPS("{\"type\":\"RobertaProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1]}"), "A", "xb", "1 7 2 2 6 2",
              "0 0 0 0 0 0");
  assert_pair(STEPS(PAIR_OF(B_X_A)), "A", "xb", "6 5 6 7", "1 2 2 0");
  assert_pair(STEPS("{\"type\":\"ByteLevel\"}"), "A", "xb", "7 6", "0 1");
  assert_pair("{" WORDS "}", "A", "xb", "7 6", "0 1");
  assert_pair(STEPS("{\"type\":\"ByteLevel\"}," BERT ",{\"type\":\"ByteLevel\"}"), "A", "xb", "1 7 2 6 2", "0 0 0 1 1");
  assert_pair(STEPS(TEMPLATE("")), "A", "xb", NULL, "no form for two texts");
  assert_pair(STEPS(TEMPLATE(",\"pair\":null")), "A", "xb", NULL, "no form for two texts");
  assert_pair(STEPS(TEMPLATE(",\"pair\":[]")), "A", "xb", NULL, "no form for two texts");
  assert_pair(STEPS(BERT "," PAIR_OF(B_X_A)), "A", "xb", NULL, "no form for two texts");
}

#define BPE(fields)                                                          \
  "{\"model\":{\"type\":\"BPE\"," fields                                     \
  ",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5,\"?\":6," \
  "\"<0xC3>\":7,\"<0xA9>\":8},\"merges\":[\"b c\",\"a b\",\"a bc\"]}}"

static void byte_pairs(void **state) {
  (void)state;
  assert_encoded(BPE("\"unk_token\":null"), "abc", "5");
  assert_encoded(BPE("\"unk_token\":null"), "aab", "0 3");
  assert_encoded(BPE("\"unk_token\":null"), "bcbcab", "4 4 3");
  assert_encoded(BPE("\"unk_token\":null"), "axxb", "3"); /* characters without a piece vanish, and a meets b */
  assert_encoded(BPE("\"unk_token\":\"?\""), "axyb", "0 6 6 1");
  assert_encoded(BPE("\"unk_token\":\"?\",\"fuse_unk\":true"), "axyb", "0 6 1");
  assert_encoded(BPE("\"unk_token\":\"?\",\"byte_fallback\":true"), "a\u00e9\u00ea", "0 7 8 6");
  /* Of two pairs of the same rank, the leftmost is merged first. */
  assert_encoded("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\"]}}", "aaa", "1 0");
  assert_encoded("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\"]}}", "aaaaa", "1 1 0");
  /* A search ends, although tables of 16 places hold 16 things. */
  assert_encoded(
      "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1,\"b\":2,\"ab\":3,\"ba\":4,\"bb\":5,\"aaa\":6,\"aab\":7,"
      "\"aba\":8,\"abb\":9,\"baa\":10,\"bab\":11,\"bba\":12,\"bbb\":13,\"aaaa\":14,\"bbbb\":15},"
      "\"merges\":[\"a a\",\"a b\",\"b a\",\"b b\",\"aa a\",\"aa b\",\"ab a\",\"ab b\",\"ba a\",\"ba b\",\"bb a\",\"bb "
      "b\","
      "\"aa aa\",\"bb bb\",\"a aa\",\"b bb\"]}}",
      "xbabax", "2 8");
  /* The same two merges in the other order of rank. */
  assert_encoded(
      "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},"
      "\"merges\":[[\"a\",\"b\"],[\"b\",\"c\"]]}}",
      "abc", "3 2");
  /* With ignore_merges, a word of the vocabulary is found although no merge makes it. */
  assert_encoded(
      "{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[]}}", "ab",
      "2");
  assert_encoded("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[]}}", "ab", "0 1");
  /* A prefix within words and a suffix at their end. */
  assert_encoded(
      "{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"#\",\"end_of_word_suffix\":\"$\","
      "\"vocab\":{\"a\":0,\"#b\":1,\"#c$\":2,\"ab\":3,\"abc$\":4},\"merges\":[\"a #b\",\"ab #c$\"]}}",
      "abc", "4");
}

static void most_likely_pieces(void **state) {
  (void)state;
  static const char json[] =
      "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":%s,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-1],"
      "[\"ab\",-3],[\"aa\",-1.5],[\"bab\",-2],[\"<0xC3>\",-9],[\"<0xA9>\",-9]]}}";
  char plain[400], bytes[400];
  snprintf(plain, sizeof(plain), json, "false");
  snprintf(bytes, sizeof(bytes), json, "true");
  assert_encoded(plain, "ab", "1 2");     /* -2 beats -3 */
  assert_encoded(plain, "aaa", "1 4");    /* the first of two segmentations with -2.5 */
  assert_encoded(plain, "abab", "1 5");   /* -3 beats a b a b */
  assert_encoded(plain, "axyb", "1 0 2"); /* unknown neighbours are one id */
  assert_encoded(bytes, "a\u00e9", "1 6 7");
  assert_encoded(bytes, "a\u00ea", "1 0");
  /* An unknown character has the lowest score minus 10: "ab", c unknown and "def" sum to -18, the other pieces to
   * -17.6, and then to -18.4. */
  static const char costs[] =
      "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"ab\",-1],[\"cd\",%s],[\"e\",-6],[\"f\",-6]"
      ","
      "[\"def\",-1]]}}";
  snprintf(plain, sizeof plain, costs, "-4.6");
  assert_encoded(plain, "abcdef", "1 2 3 4");
  snprintf(plain, sizeof plain, costs, "-5.4");
  assert_encoded(plain, "abcdef", "1 0 5");
}

static void word_pieces(void **state) {
  (void)state;
  static const char json[] =
      "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\","
      "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":4,"
      "\"vocab\":{\"?\":0,\"a\":1,\"##b\":2,\"ab\":3,\"##bc\":4,\"\u00e9\":5}}}";
  assert_encoded(json, "abbc a \u00e9b", "3 4 1 5 2");
  assert_encoded(json, "abx abbbb \u00e9bbb", "0 0 5 2 2 2");
}

/* Older files do not name the type: it follows from merges, a longest word or a list of pieces. */
static void types_that_are_not_named(void **state) {
  (void)state;
  assert_encoded("{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}", "ab", "2");
  assert_encoded("{\"model\":{\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-1]]}}", "ab", "1 2");
  assert_encoded(
      "{\"model\":{\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":9,"
      "\"vocab\":{\"?\":0,\"a\":1,\"##b\":2}}}",
      "ab", "1 2");
  assert_encoded("{\"model\":{\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"ab\":1}}}", "ab", "1");
}

/* Defaults: words of up to 100 characters are looked up, and there is no byte fallback. */
static void usual_options(void **state) {
  (void)state;
  static const char words[] =
      "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"\","
      "\"vocab\":{\"?\":0,\"a\":1,\"aaaaaaaaaaaaaaaaaaaaaaaaa\":2}}}";
  char text[102];
  memset(text, 'a', sizeof text);
  text[100] = 0;
  assert_encoded(words, text, "2 2 2 2");
  text[100] = 'a';
  text[101] = 0;
  assert_encoded(words, text, "0");
  assert_encoded("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"<0x62>\",-9]]}}",
                 "ab", "1 0");
  assert_encoded(BPE("\"unk_token\":\"?\""), "a\u00e9", "0 6");
  assert_encoded("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\\u0000\",-1],[\"a\",-2]]}}", "a",
                 "1"); /* a zero byte */
}

/* Sums of the same scores in another order differ only by rounding, so the best segmentation depends on how a score is
 * read. The ids are those of the tokenizers library, 0.23.1. */
static void scores_are_read_as_the_library_does(void **state) {
  (void)state;
  assert_encoded(
      "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"e\",-9.822216987609863],"
      "[\"ee\",-5.768942356109619],[\"eee\",-3.7895171642303467],[\"eeee\",-5.774620532989502]]}}",
      "eeeeeeeeeeeeeeeeeeeeeeeee", "3 3 3 3 3 3 4 3");
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

#define MODEL "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}"

static void malformed_files(void **state) {
  (void)state;
  static const struct {
    const char *json;
    vkf_status status;
    const char *says;
  } rows[] = {
      {"", VKF_ERROR_FORMAT, "tokenizer.json: expected JSON, found at line 1"},
      {"{\"model\":", VKF_ERROR_FORMAT, "expected JSON, found at line 1"},
      {"[]", VKF_ERROR_FORMAT, "expected a JSON object"},
      {"{}", VKF_ERROR_FORMAT, "\"model\" should be an object"},
      {"{\"model\":{\"type\":\"Neural\"}}", VKF_ERROR_UNSUPPORTED,
       "tokenizer.json: model of type \"Neural\" is not supported"},
      {"{\"normalizer\":{\"type\":\"X\"}," MODEL "}", VKF_ERROR_UNSUPPORTED,
       "tokenizer.json: normalizer of type \"X\" is not supported"},
      {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Y\"}]}," MODEL "}",
       VKF_ERROR_UNSUPPORTED, "normalizer of type \"Y\" is not supported"},
      {"{\"normalizer\":{\"type\":\"Sequence\"}," MODEL "}", VKF_ERROR_FORMAT, "\"normalizers\" should be a list"},
      {"{\"normalizer\":{\"type\":\"Prepend\"}," MODEL "}", VKF_ERROR_FORMAT,
       "normalizer \"Prepend\": \"prepend\" should be a string"},
      {"{\"normalizer\":{\"type\":\"Strip\",\"strip_left\":1}," MODEL "}", VKF_ERROR_FORMAT,
       "\"strip_left\" should be true"},
      {"{\"normalizer\":7," MODEL "}", VKF_ERROR_FORMAT, "normalizer: a step should be an object"},
      {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL "}", VKF_ERROR_UNSUPPORTED,
       "pre-tokenizer of type \"UnicodeScripts\" is not supported"},
      {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}," MODEL "}", VKF_ERROR_FORMAT,
       "one character"},
      {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"a\",\"prepend_scheme\":\"last\"}," MODEL "}",
       VKF_ERROR_UNSUPPORTED, "prepend_scheme \"last\""},
      {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}," MODEL "}",
       VKF_ERROR_UNSUPPORTED, "behavior \"Odd\""},
      {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":5}," MODEL "}", VKF_ERROR_FORMAT, "\"pattern\" should be"},
      {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}}," MODEL "}", VKF_ERROR_UNSUPPORTED,
       "behavior \"\""},
      {"{\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"\"}," MODEL "}", VKF_ERROR_FORMAT,
       "\"suffix\" should not be empty"},
      {"{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",1],\"cls\":[\"a\",0]}," MODEL "}",
       VKF_ERROR_FORMAT, "id 1 is no token of the vocabulary, whose ids end at 1"},
      {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],"
       "\"special_tokens\":{\"x\":{\"ids\":[-1]}}}," MODEL "}",
       VKF_ERROR_FORMAT, "\"ids\" should be token ids"},
      {"{\"added_tokens\":[{\"content\":\"x\",\"id\":4000000}]," MODEL "}", VKF_ERROR_FORMAT, "from 0 to 3999999"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\",\"a\",\"a\"]]}}", VKF_ERROR_FORMAT,
       "merge 0 should be two"},
      {"{\"post_processor\":{\"type\":\"Z\"}," MODEL "}", VKF_ERROR_UNSUPPORTED, "post-processor of type \"Z\""},
      {"{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",0]}," MODEL "}",
       VKF_ERROR_FORMAT, "id 2 is no token of the vocabulary, whose ids end at 1"},
      {"{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",1],\"cls\":[\"a\",0]},"
       "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"c\":2}}}",
       VKF_ERROR_FORMAT, "id 1 is no token of the vocabulary, whose ids end at 3"},
      {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}," MODEL "}",
       VKF_ERROR_FORMAT, "names \"B\""},
      {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}," MODEL
       "}",
       VKF_ERROR_FORMAT, "ids of \"x\""},
      {STEPS(PAIR_OF("{\"Sequence\":{\"id\":\"C\"}}")), VKF_ERROR_FORMAT, "sequence A and B only, and names \"C\""},
      {STEPS(PAIR_OF("{\"SpecialToken\":{\"id\":\"y\"}}")), VKF_ERROR_FORMAT, "ids of \"y\""},
      {STEPS(TEMPLATE(",\"pair\":5")), VKF_ERROR_FORMAT, "\"pair\" should be a list"},
      {"{\"post_processor\":" PAIR_OF(B_X_A) "," MODEL "}", VKF_ERROR_FORMAT, "id 5 is no token"},
      {"{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", VKF_ERROR_UNSUPPORTED, "decoder of type \"CTC\" is not supported"},
      {"{\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1}," MODEL "}", VKF_ERROR_FORMAT,
       "decoder \"Strip\": \"start\" should be a number of 0 or more"},
      {"{\"added_tokens\":[{\"id\":5}]," MODEL "}", VKF_ERROR_FORMAT, "\"content\" should be a string"},
      {"{\"added_tokens\":[{\"content\":\"x\"}]," MODEL "}", VKF_ERROR_FORMAT, "the id of \"x\""},
      {"{\"added_tokens\":[{\"content\":\"x\",\"id\":0}]," MODEL "}", VKF_ERROR_FORMAT, "\"x\" has the id 0"},
      {"{\"added_tokens\":[{\"content\":\"a\",\"id\":1}]," MODEL "}", VKF_ERROR_FORMAT, "\"a\" has the id 1"},
      {"{\"added_tokens\":5," MODEL "}", VKF_ERROR_FORMAT, "\"added_tokens\" should be a list"},
      {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}}", VKF_ERROR_FORMAT, "the id of \"a\""},
      {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":99999999999}}}", VKF_ERROR_FORMAT, "the id of \"a\""},
      {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":1,\"b\":1}}}", VKF_ERROR_FORMAT, "id 1 belongs to"},
      {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", VKF_ERROR_FORMAT, "\"vocab\" should be an object"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", VKF_ERROR_FORMAT, "\"merges\" should be a list"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", VKF_ERROR_FORMAT,
       "merge 0 should be two pieces"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]}}", VKF_ERROR_FORMAT,
       "merge 0 should be two"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", VKF_ERROR_FORMAT,
       "should join pieces"},
      {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", VKF_ERROR_UNSUPPORTED, "dropout"},
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", VKF_ERROR_FORMAT, "\"vocab\" should be a list"},
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", VKF_ERROR_FORMAT, "piece 0 of \"vocab\""},
      {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", VKF_ERROR_FORMAT,
       "\"unk_id\" is outside"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    vkf_text_tokenizer *tokenizer;
    vkf_status status = create(&env, rows[i].json, &tokenizer);
    if (status != rows[i].status || strstr(env.message, rows[i].says) == NULL)
      fail_msg("%s: status %d, message \"%s\"", rows[i].json, status, env.message);
    assert_null(tokenizer);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* If the unknown token is not in the vocabulary, a text with unknown characters is refused, and others are encoded. */
static void the_unknown_token_is_missing(void **state) {
  (void)state;
  vkf_env env;
  vkf_text_tokenizer *tokenizer;
  vkf_text_ids ids;
  assert_int_equal(create(&env, BPE("\"unk_token\":\"#\""), &tokenizer), VKF_OK);
  vkf_text_ids_init(&ids, &env);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, "abc", 3, true, &ids), VKF_OK);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, "axb", 3, true, &ids), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "no token for \"x\", and not the unknown token either"));
  vkf_text_ids_finish(&ids);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

static void bad_texts_and_ids(void **state) {
  (void)state;
  vkf_env env;
  vkf_text_tokenizer *tokenizer;
  assert_int_equal(create(&env, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":2}}}", &tokenizer),
                   VKF_OK);
  vkf_text_ids ids;
  vkf_text_ids_init(&ids, &env);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, "a", 1, true, &ids), VKF_OK);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, "ab\xC3(", 4, true, &ids), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "byte 2"));
  vkf_env_clear(&env);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, "c", 1, true, &ids), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "no token for \"c\""));
  assert_int_equal(ids.n, 1);
  vkf_text_ids_finish(&ids);

  vkf_text text;
  vkf_text_init(&text, &env);
  static const int32_t bad[] = {-1, 1, 3, INT32_MAX};
  for (size_t i = 0; i < VKF_COUNT(bad); i++) {
    const int32_t two[] = {0, bad[i]};
    text.size = 0; /* a model may have more ids than its tokenizer: they have no text */
    assert_int_equal(vkf_text_tokenizer_decode(tokenizer, two, 2, true, &text), VKF_OK);
    assert_string_equal(text.data, "a");
    assert_null(vkf_text_tokenizer_piece(tokenizer, bad[i]));
  }
  assert_int_equal(vkf_text_tokenizer_find(tokenizer, "c"), -1);
  assert_int_equal(vkf_text_tokenizer_find(tokenizer, "b"), 2);
  vkf_text_finish(&text);
  vkf_text_tokenizer_destroy(&tokenizer);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

/* ---- lack of memory ---------------------------------------------------------------------------------------------- */

static void lack_of_memory(void **state) {
  (void)state;
  static const char *const files[] = {
      "{\"added_tokens\":[{\"id\":20,\"content\":\"<m>\",\"special\":true},{\"id\":21,\"content\":\"[X]\","
      "\"normalized\":true}],"
      "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"BertNormalizer\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":\" \"}]},"
      "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"BertPreTokenizer\"},{\"type\":"
      "\"Digits\"}]},"
      "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",1],\"cls\":[\"a\",0]},"
      "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
      "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
      "\"vocab\":{\"a\":0,\"b\":1,\"?\":2,\"cafe\":3,\",\":4}}}",
      "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w+"
      "\"},"
      "\"behavior\":\"MergedWithNext\"},{\"type\":\"ByteLevel\"}]},"
      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
      "\"content\":\"b\"},"
      "{\"type\":\"ByteFallback\"},{\"type\":\"ByteLevel\"}]},"
      "\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"$\",\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"c\":1,\"ca\":"
      "2,\"?\":3},"
      "\"merges\":[\"c a\"]}}",
      "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"decoder\":{\"type\":\"Sequence\","
      "\"decoders\":["
      "{\"type\":\"Metaspace\",\"replacement\":\"_\"},{\"type\":\"BPEDecoder\",\"suffix\":\"a\"},{\"type\":\"Fuse\"}]},"
      "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"_c\",-1],[\"a\",-2]]}}"};
  for (size_t i = 0; i < VKF_COUNT(files); i++)
    tokenizer_lacks_memory(&(vkf_text_files){.tokenizer = file_of(files[i], "tokenizer.json")},
                           "caf\u00e9 <m> cafe\u0301, 1a [x] y");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_of_every_kind),
      cmocka_unit_test(cleaned_up),
      cmocka_unit_test(side_that_is_cut),
      cmocka_unit_test(shipped_model),
      cmocka_unit_test(added_tokens),
      cmocka_unit_test(added_white_space),
      cmocka_unit_test(special_tokens_in_texts),
      cmocka_unit_test(post_processors),
      cmocka_unit_test(pairs_of_texts),
      cmocka_unit_test(byte_pairs),
      cmocka_unit_test(most_likely_pieces),
      cmocka_unit_test(word_pieces),
      cmocka_unit_test(types_that_are_not_named),
      cmocka_unit_test(usual_options),
      cmocka_unit_test(scores_are_read_as_the_library_does),
      cmocka_unit_test(malformed_files),
      cmocka_unit_test(the_unknown_token_is_missing),
      cmocka_unit_test(bad_texts_and_ids),
      cmocka_unit_test(lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
