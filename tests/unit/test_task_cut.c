/* Where a text that is too long is cut: at the last end of a sentence in the longest part that fits, else of a word,
 * else of a character. The tokenizer gives each letter and each mark an id, and white space none. */
#include <unistd.h>

#include "engine/opened.h"
#include "model/internal.h"
#include "support/tokenizers.h"
#include "task/parts.h"

static const char tokenizer_json[] =
    "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, {\"type\": "
    "\"Split\", \"pattern\": {\"Regex\": \".\"}, \"behavior\": \"Isolated\", \"invert\": false}]},"
    "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"<unk>\": 0, \"a\": 1}, \"unk_token\": \"<unk>\"}}";

static void cuts(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t max;
    bool sentences, from_end;
    const char *part;
  } rows[] = {
      {"ab cd", 4, false, false, "ab cd"}, /* all of it */
      {"ab cd", 3, false, false, "ab"},
      {"abcd", 3, false, false, "abc"},
      {"ab cd ef", 6, false, true, "ab cd ef"},
      {"ab cd ef", 5, false, true, "cd ef"},
      {"abc def", 4, false, true, "def"}, /* not the space before it */
      {"abcd", 3, false, true, "bcd"},
      {"a. b. cd", 5, true, false, "a. b."},
      {"a. b. cd", 5, false, false, "a. b."},
      {"a. b cde", 5, true, false, "a."}, /* a sentence rather than a longer part of words */
      {"a. b cde", 5, false, false, "a. b"},
      {"a.b cde", 5, true, false, "a.b"}, /* a mark without a space ends no sentence */
      {"a! b cde", 5, true, false, "a!"},
      {"a.\") b cde", 6, true, false, "a.\")"}, /* closing marks in any order */
      {"a.)\" b cde", 6, true, false, "a.)\""},
      {"\xE5\xA5\xBD\xE3\x80\x82\xE5\xA5\xBD\xE5\xA5\xBD", 3, true, false, "\xE5\xA5\xBD\xE3\x80\x82"}, /* wide: none */
      {"\xC3\xA9\xC3\xA9\xC3\xA9", 2, false, false, "\xC3\xA9\xC3\xA9"},
      {"\xC3\xA9\xC3\xA9\xC3\xA9", 2, false, true, "\xC3\xA9\xC3\xA9"},
      {"  abcdef", 3, false, false, "  abc"},                        /* white space alone is no part */
      {"\xE5\xA5\xBD\xE5\xA5\xBD", 1, false, false, "\xE5\xA5\xBD"}, /* one id, three bytes */
      {"a\xF0\x9F\x98\x80"
       "bbbbbbbb",
       2, false, false, "a\xF0\x9F\x98\x80"},
  };
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_model model = {0};
  vkf_session session = {.env = &env, .model = &model};
  const vkf_text_files files = {.tokenizer = file_of(tokenizer_json, "tokenizer.json")};
  if (vkf_text_tokenizer_create(&env, &files, &model.tokenizer.text)) fail_msg("%s", env.message);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    const vkf_parts parts = {.session = &session, .rules = {.max_ids = rows[i].max}};
    size_t n = 99;
    assert_int_equal(vkf_task_cut(&parts, rows[i].text, rows[i].sentences, rows[i].from_end, &n), VKF_OK);
    const char *part = rows[i].text + (rows[i].from_end ? strlen(rows[i].text) - n : 0);
    if (n != strlen(rows[i].part) || memcmp(part, rows[i].part, n))
      fail_msg("row %zu: expected \"%s\", found \"%.*s\"", i, rows[i].part, (int)n, part);
  }
  vkf_text_tokenizer_destroy(&model.tokenizer.text);
  assert_int_equal(env.live_bytes, 0);
}

/* If a character of a text fits in no part, the whole text is skipped. */
static void a_character_that_is_too_long(void **state) {
  (void)state;
  static const char json[] =
      "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"%\"}, \"content\": \"aaaaa\"},"
      "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \".\"}, \"behavior\": \"Isolated\", "
      "\"invert\": false}, \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"<unk>\": 0, \"a\": 1}, \"unk_token\": "
      "\"<unk>\"}}";
  static const char *const texts[] = {"aaa", "aaa a%", "aaa aa"};
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_net net = {0};
  vkf_model model = {.net = &net};
  vkf_session session = {.env = &env, .model = &model, .tokenizer = {.env = &env, .shared = &model.tokenizer}};
  const vkf_text_files files = {.tokenizer = file_of(json, "tokenizer.json")};
  const vkf_part_rules rules = {.max_ids = 4, .long_texts = VKF_LONG_SPLIT, .skip_refused = true};
  vkf_parts parts;
  pthread_mutex_init(&model.tokenizer.lock, NULL);
  if (vkf_text_tokenizer_create(&env, &files, &model.tokenizer.text)) fail_msg("%s", env.message);
  if (vkf_task_parts_make(&session, texts, 3, &rules, &parts)) fail_msg("%s", env.message);
  assert_int_equal(parts.n, 3);
  for (size_t i = 0; i < 3; i++) assert_int_equal(parts.at[i].text, i == 0 ? 0 : 2);
  assert_int_equal(parts.skipped[1], VKF_SKIP_LONG);
  vkf_task_parts_finish(&parts);
  vkf_text_tokenizer_destroy(&model.tokenizer.text);
  pthread_mutex_destroy(&model.tokenizer.lock);
  assert_int_equal(env.live_bytes, 0);
}

/* How many ids of two texts are kept, as by tokenizers 0.23.1 ("longest_first"). */
static void pairs_are_shortened(void **state) {
  (void)state;
  static const struct {
    size_t first, second, max, left[2];
  } rows[] = {{1, 9, 3, {1, 2}}, {2, 9, 3, {1, 2}}, {9, 1, 3, {2, 1}}, {9, 3, 3, {1, 2}}, {5, 4, 3, {1, 2}},
              {1, 9, 5, {1, 4}}, {2, 9, 5, {2, 3}}, {3, 9, 5, {2, 3}}, {9, 3, 5, {3, 2}}, {5, 4, 5, {3, 2}},
              {6, 5, 5, {2, 3}}, {4, 5, 8, {4, 4}}, {9, 3, 8, {5, 3}}, {4, 4, 8, {4, 4}}, {9, 9, 0, {9, 9}},
              {9, 8, 9, {5, 4}}, {9, 8, 8, {4, 4}}, {9, 7, 7, {3, 4}}, {9, 9, 9, {4, 5}}, {8, 9, 9, {4, 5}},
              {1, 2, 9, {1, 2}}};
  static const char as[] = "aaaaaaaaa", bs[] = "bbbbbbbbb";
  vkf_env env;
  vkf_env_init(&env, NULL);
  vkf_text_tokenizer *tokenizer = NULL;
  const vkf_text_files files = {.tokenizer = file_of(tokenizer_json, "tokenizer.json")};
  if (vkf_text_tokenizer_create(&env, &files, &tokenizer)) fail_msg("%s", env.message);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_text_ids ids, types;
    const char *const texts[] = {as + 9 - rows[i].first, bs + 9 - rows[i].second};
    size_t left[2] = {0};
    vkf_text_ids_init(&ids, &env);
    vkf_text_ids_init(&types, &env);
    assert_int_equal(vkf_task_pair_ids(tokenizer, texts, true, rows[i].max, &ids, &types), VKF_OK);
    assert_int_equal(types.n, ids.n);
    for (size_t k = 0; k < ids.n; k++) left[types.ids[k]]++;
    if (left[0] != rows[i].left[0] || left[1] != rows[i].left[1])
      fail_msg("row %zu: expected %zu and %zu ids, found %zu and %zu", i, rows[i].left[0], rows[i].left[1], left[0],
               left[1]);
    vkf_text_ids_finish(&types);
    vkf_text_ids_finish(&ids);
  }
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
}

/* The same where words have several ids: of each text the tokenizers library reads the words up to the one with which
 * it has `max` ids, which added tokens are not, and then the shorter text is the one with fewer of these ids. */
static void pairs_of_words_are_shortened(void **state) {
  (void)state;
  static const char json[] =
      "{\"added_tokens\": [{\"id\": 3, \"content\": \"<x>\"}, {\"id\": 4, \"content\": \"<y>\"}],"
      "\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"<unk>\": 0, "
      "\"a\": 1, \"b\": 2}, \"merges\": [], \"unk_token\": \"<unk>\"}}";
  static const struct {
    const char *texts[2];
    bool left;
    size_t n[2]; /* of 3 */
  } rows[] = {{{"aaaa", "bbb b"}, false, {2, 1}},      {{"aaa a", "bbb"}, false, {1, 2}},
              {{"aa <x> a", "bbb"}, false, {2, 1}},    {{"aaaa", "bb <y> b"}, false, {1, 2}},
              {{"a a <x> a", "bbb b"}, false, {2, 1}}, {{"aaaa", "b bbb"}, true, {2, 1}},
              {{"a aaa", "bbb"}, true, {1, 2}},        {{"a <x> aa", "bbb"}, true, {2, 1}},
              {{"aaaa", "b <y> bb"}, true, {1, 2}},    {{"a <x> aa", "b bbb"}, true, {2, 1}}};
  vkf_env env;
  vkf_env_init(&env, NULL);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_text_tokenizer *tokenizer = NULL;
    const vkf_text_files files = {
        .tokenizer = file_of(json, "tokenizer.json"),
        .tokenizer_config = file_of(rows[i].left ? "{\"truncation_side\": \"left\"}" : "{}", "tokenizer_config.json")};
    vkf_text_ids ids, types;
    size_t n[2] = {0};
    vkf_text_ids_init(&ids, &env);
    vkf_text_ids_init(&types, &env);
    if (vkf_text_tokenizer_create(&env, &files, &tokenizer)) fail_msg("%s", env.message);
    assert_int_equal(vkf_task_pair_ids(tokenizer, rows[i].texts, true, 3, &ids, &types), VKF_OK);
    for (size_t k = 0; k < ids.n; k++) n[types.ids[k]]++;
    if (n[0] != rows[i].n[0] || n[1] != rows[i].n[1])
      fail_msg("row %zu: expected %zu and %zu ids, found %zu and %zu", i, rows[i].n[0], rows[i].n[1], n[0], n[1]);
    vkf_text_ids_finish(&types);
    vkf_text_ids_finish(&ids);
    vkf_text_tokenizer_destroy(&tokenizer);
  }
  assert_int_equal(env.live_bytes, 0);
}

/* Which ids of two texts are kept: the first ones or, if truncation_side is "left", the last ones. */
static void sides(void **state) {
  (void)state;
  static const char abc[] =
      "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", "
      "\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"e\": 4}, \"unk_token\": \"a\"}}";
  static const char *const texts[] = {"a b c", "b c d e"};
  static const int32_t left[2][4] = {{0, 1, 1, 2}, {1, 2, 3, 4}};
  vkf_env env;
  vkf_env_init(&env, NULL);
  for (int side = 0; side < 2; side++) {
    vkf_text_tokenizer *tokenizer = NULL;
    const vkf_text_files files = {
        .tokenizer = file_of(abc, "tokenizer.json"),
        .tokenizer_config = file_of(side ? "{\"truncation_side\": \"left\"}" : "{}", "tokenizer_config.json")};
    vkf_text_ids ids, types;
    vkf_text_ids_init(&ids, &env);
    vkf_text_ids_init(&types, &env);
    if (vkf_text_tokenizer_create(&env, &files, &tokenizer)) fail_msg("%s", env.message);
    assert_int_equal(vkf_task_pair_ids(tokenizer, texts, true, 4, &ids, &types), VKF_OK);
    assert_int_equal(ids.n, 4);
    for (size_t i = 0; i < 4; i++) assert_int_equal(ids.ids[i], left[side][i]);
    vkf_text_ids_finish(&types);
    vkf_text_ids_finish(&ids);
    vkf_text_tokenizer_destroy(&tokenizer);
  }
  assert_int_equal(env.live_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cuts), cmocka_unit_test(a_character_that_is_too_long),
                                     cmocka_unit_test(pairs_are_shortened),
                                     cmocka_unit_test(pairs_of_words_are_shortened), cmocka_unit_test(sides)};
  alarm(60); /* in case a cut does not end */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
