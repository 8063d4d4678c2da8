/* SentencePiece models field by field: what each field changes in the ids of a text, and what is refused. */
#include <math.h>

#include "support/small_spm.h"

#define BYTES(text) \
  { text, sizeof(text) - 1 }
typedef struct string {
  const char *data;
  size_t n;
} string;
typedef struct piece {
  string text;
  float score;
  unsigned char type;
} piece;

/* Makes a model of <unk>, the pieces and the specs. all: with the pieces of small_spm() before these. */
static bytes spm_of(bool all, const piece *pieces, size_t n, string trainer, string normalizer) {
  bytes out = {.n = 0};
  const string spec = trainer.n ? trainer : (string)BYTES("\x18\x01");
  if (all)
    out = small_spm((const unsigned char *)spec.data, spec.n);
  else
    put_piece(&out, "<unk>", 0, UNKNOWN);
  for (size_t i = 0; i < n && pieces[i].type; i++)
    put_piece_bytes(&out, pieces[i].text.data, pieces[i].text.n, pieces[i].score, pieces[i].type);
  if (normalizer.n) put_field(&out, 3, normalizer.data, normalizer.n);
  return out;
}

/* In all but the last row the ids are: <unk> 0, <s> 1, </s> 2, the space mark 3, a 4, b 5, ab 6, the mark and a 7; then
 * the row's pieces. */
static void what_fields_change(void **state) {
  (void)state;
  static const struct {
    const char *why, *text, *ids;
    piece pieces[5];
    string trainer, normalizer;
    bool is_bare;
  } rows[] = {
      {.why = "spaces are cut and a mark is put before", .text = "  ab  ab ", .ids = "3 6 3 6"},
      {.why = "add_dummy_prefix false", .text = "ab ab", .ids = "6 3 6", .normalizer = BYTES("\x18\x00")},
      {.why = "remove_extra_whitespaces false", .text = " ab  ", .ids = "3 3 6 3 3", .normalizer = BYTES("\x20\x00")},
      {.why = "escape_whitespaces false: no piece has a space",
       .text = "ab ab",
       .ids = "0 6 0 6",
       .normalizer = BYTES("\x28\x00")},
      {.why = "of merges with one score the leftmost is first, whatever its id",
       .text = "cab",
       .ids = "3 9 5",
       .pieces = {{BYTES("c"), -8, NORMAL}, {BYTES("ca"), -1, NORMAL}},
       .trainer = BYTES("\x18\x02")},
      {.why = "a merge of a higher score is first",
       .text = "cab",
       .ids = "3 8 6",
       .pieces = {{BYTES("c"), -8, NORMAL}, {BYTES("ca"), -2, NORMAL}},
       .trainer = BYTES("\x18\x02")},
      {.why = "what is unknown costs 10 more than the worst normal piece, whatever a user's symbol costs",
       .text = "xyc",
       .ids = "3 8 0",
       .pieces = {{BYTES("xy"), -1, NORMAL},
                  {BYTES("x"), -20, NORMAL},
                  {BYTES("yc"), -20, NORMAL},
                  {BYTES("uuuu"), -100, USER_DEFINED}}},
      {.why = "the longest of the user's symbols keeps its spaces",
       .text = "x  y",
       .ids = "3 9 3 3 0",
       .pieces = {{BYTES("x  y"), 0, USER_DEFINED}, {BYTES("x"), 0, USER_DEFINED}}},
      {.why = "the user's symbols are cut out before the merges, and are no part of any",
       .text = "cabab",
       .ids = "3 0 4 8 5",
       .pieces = {{BYTES("ba"), 0, USER_DEFINED}, {BYTES("aba"), -1, NORMAL}},
       .trainer = BYTES("\x18\x02")},
      {.why = "the longest of them",
       .text = "bbabba a",
       .ids = "3 5 8 9 7",
       .pieces = {{BYTES("bab"), 0, USER_DEFINED}, {BYTES("ba"), 0, USER_DEFINED}},
       .trainer = BYTES("\x18\x02")},
      {.why = "bytes where there is no piece",
       .text = "ac",
       .ids = "7 8",
       .pieces = {{BYTES("<0x63>"), 0, BYTE}},
       .trainer = BYTES("\x18\x01\x98\x02\x01")},
      {.why = "without byte_fallback bytes are never taken",
       .text = "ac",
       .ids = "7 0",
       .pieces = {{BYTES("<0x63>"), 0, BYTE}}},
      {.why = "no normal piece",
       .text = "uu",
       .ids = "1",
       .pieces = {{BYTES("uu"), 0, USER_DEFINED}},
       .normalizer = BYTES("\x18\x00"),
       .is_bare = true},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    bytes spm =
        spm_of(!rows[i].is_bare, rows[i].pieces, VKF_COUNT(rows[i].pieces), rows[i].trainer, rows[i].normalizer);
    const vkf_text_files files = {.spm = file_of_bytes(&spm, "spiece.model")};
    vkf_env env;
    vkf_env_init(&env, NULL);
    vkf_text_tokenizer *tokenizer = NULL;
    vkf_text_ids ids;
    char got[200];
    vkf_text_ids_init(&ids, &env);
    if (vkf_text_tokenizer_create(&env, &files, &tokenizer)) fail_msg("%s: %s", rows[i].why, env.message);
    assert_int_equal(vkf_text_tokenizer_encode(tokenizer, rows[i].text, strlen(rows[i].text), true, &ids), VKF_OK);
    list_ids(got, sizeof got, &ids);
    if (strcmp(got, rows[i].ids)) fail_msg("%s: expected %s, found %s", rows[i].why, rows[i].ids, got);
    vkf_text_ids_finish(&ids);
    vkf_text_tokenizer_destroy(&tokenizer);
  }
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *words; /* in the message; NULL: accepted */
    piece piece;
    string trainer;
    int number; /* of a field that is added to the model; 0: none */
    string field;
  } rows[] = {
      {.words = NULL},
      {.words = "UTF-8 without zero bytes", .piece = {{"", 0}, 0, NORMAL}},
      {.words = "UTF-8 without zero bytes", .piece = {BYTES("a\0b"), 0, NORMAL}},
      {.words = "UTF-8 without zero bytes", .piece = {BYTES("\xff"), 0, NORMAL}},
      {.words = "is no number", .piece = {BYTES("n"), NAN, NORMAL}},
      {.words = "is no number", .piece = {BYTES("n"), INFINITY, NORMAL}},
      {.words = "unknown type", .piece = {BYTES("n"), 0, 9}},
      {.words = "BYTE", .piece = {BYTES("<0x1>"), 0, BYTE}},
      {.words = "model_type", .trainer = BYTES("\x18\x00")},
      {.words = "model_type", .trainer = BYTES("\x18\x05")},
      {.words = "trainer_spec", .trainer = BYTES("\x98\x02\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")}, /* 71 bits */
      {.words = "trainer_spec", .trainer = BYTES("\x00\x01")},                                             /* field 0 */
      {.words = "trainer_spec", .trainer = BYTES("\x1b")},                                                 /* a group */
      {.words = "unk_surface", .trainer = BYTES("\xe2\x02\x01\xff")},
      {.words = NULL, .number = 5, .field = BYTES("\x12\x00")},
      {.words = "denormalizer_spec", .number = 5, .field = BYTES("\x12\x01x")},
      {.words = "normalizer_spec", .number = 3, .field = BYTES("\x12\x05x")},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    bytes spm = spm_of(true, &rows[i].piece, 1, rows[i].trainer, (string){NULL, 0});
    if (rows[i].number) put_field(&spm, rows[i].number, rows[i].field.data, rows[i].field.n);
    const vkf_text_files files = {.spm = file_of_bytes(&spm, "spiece.model")};
    vkf_env env;
    vkf_env_init(&env, NULL);
    vkf_text_tokenizer *tokenizer = NULL;
    const vkf_status st = vkf_text_tokenizer_create(&env, &files, &tokenizer);
    if (!rows[i].words != !st) fail_msg("row %zu: %s", i, env.message);
    if (rows[i].words && !strstr(env.message, rows[i].words)) fail_msg("row %zu: %s", i, env.message);
    vkf_text_tokenizer_destroy(&tokenizer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_fields_change), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
