/* Where a text that is too long is cut: of the longest part that fits, the last sentence, else word, else character.
 * The tokenizer gives each letter and each mark an id, and white space none. */
#include <unistd.h>

#include "engine/opened.h"
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
      {"a. b cde", 5, true, false, "a."}, /* a sentence before a longer part of words */
      {"a. b cde", 5, false, false, "a. b"},
      {"a.b cde", 5, true, false, "a.b"}, /* no space behind the mark */
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cuts)};
  alarm(60); /* a cut that does not end */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
