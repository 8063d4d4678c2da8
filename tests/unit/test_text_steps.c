/* The stages of a tokenizer one by one: what each kind of step does to a text. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "text/internal.h"

/* A loader with its own memory. */
typedef struct bench {
  vkf_env env;
  vkf_arena arena;
  vkf_text_pattern_list *patterns;
  vkf_text_loader loader;
} bench;

static void bench_init(bench *b) {
  memset(b, 0, sizeof(*b));
  vkf_env_init(&b->env, NULL);
  vkf_arena_init(&b->arena, &b->env);
  b->loader = (vkf_text_loader){.env = &b->env, .arena = &b->arena, .patterns = &b->patterns};
}

static void bench_finish(bench *b) {
  for (vkf_text_pattern_list *link = b->patterns; link != NULL; link = link->next)
    vkf_text_pattern_finish(link->pattern);
  vkf_arena_finish(&b->arena);
  assert_int_equal(b->env.live_bytes, 0);
}

static vkf_text_string string_of(const char *text) {
  return (vkf_text_string){text, strlen(text)};
}

static json_t *json_of(const char *text) {
  json_t *json = json_loads(text, 0, NULL);
  if (json == NULL) fail_msg("no JSON: %s", text);
  return json;
}

/* want: the pieces with a bar between them. */
static void assert_pieces(const vkf_text_pieces *pieces, const char *want, const char *what) {
  char got[512] = "";
  size_t n = 0;
  for (size_t i = 0; i < pieces->n; i++) {
    vkf_text_string piece = vkf_text_pieces_get(pieces, i);
    n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%.*s", i > 0 ? "|" : "", (int)piece.size, piece.data);
  }
  if (strcmp(got, want) != 0) fail_msg("%s: expected \"%s\", found \"%s\"", what, want, got);
}

static void assert_normalized(const char *step, const char *text, const char *want) {
  bench b;
  bench_init(&b);
  json_t *json = json_of(step);
  vkf_text_step *steps;
  vkf_text out;
  vkf_text_init(&out, &b.env);
  if (vkf_text_load_normalizers(&b.loader, json, &steps) != VKF_OK) fail_msg("%s", b.env.message);
  assert_int_equal(vkf_text_normalize(steps, &b.env, string_of(text), &out), VKF_OK);
  if (strcmp(out.data, want) != 0) fail_msg("%s of \"%s\": expected \"%s\", found \"%s\"", step, text, want, out.data);
  vkf_text_finish(&out);
  json_decref(json);
  bench_finish(&b);
}

static void assert_pretokenized(const char *step, const char *text, const char *want) {
  bench b;
  bench_init(&b);
  json_t *json = json_of(step);
  vkf_text_step *steps;
  vkf_text_pieces pieces;
  vkf_text_pieces_init(&pieces, &b.env);
  vkf_text_pieces_push(&pieces, string_of(text), -1, true);
  if (vkf_text_load_pretokenizers(&b.loader, json, &steps) != VKF_OK) fail_msg("%s", b.env.message);
  assert_int_equal(vkf_text_pretokenize(steps, &pieces), VKF_OK);
  assert_pieces(&pieces, want, step);
  vkf_text_pieces_finish(&pieces);
  json_decref(json);
  bench_finish(&b);
}

static vkf_text_pieces *collected;

/* A decoder after the others, which collects their pieces. */
static vkf_status collect(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                          const vkf_text_sink *out) {
  (void)step, (void)state, (void)out;
  if (in->begins) vkf_text_pieces_push(collected, (vkf_text_string){"", 0}, -1, true);
  if (!in->is_end) vkf_text_append(&collected->bytes, in->text.data, in->text.size);
  if (!in->is_end) collected->at[collected->n - 1].size += in->text.size;
  return VKF_OK;
}

/* text: pieces with a bar between them. */
static void assert_decoded(const char *step, const char *text, const char *want) {
  bench b;
  bench_init(&b);
  json_t *json = json_of(step);
  enum { MAX_STEPS = 8 };
  static const vkf_text_kind kind = {.decode = collect, .takes_parts = true};
  vkf_text_step *steps, last = {.kind = &kind};
  vkf_text_decode_state states[MAX_STEPS] = {0};
  vkf_text_pieces pieces;
  vkf_text_pieces_init(&pieces, &b.env);
  collected = &pieces;
  if (vkf_text_load_decoders(&b.loader, json, &steps) != VKF_OK) fail_msg("%s", b.env.message);
  vkf_text_step **end = &steps;
  while (*end != NULL) end = &(*end)->next;
  *end = &last;
  for (size_t i = 0; i < MAX_STEPS; i++) {
    vkf_text_init(&states[i].held, &b.env);
    vkf_text_init(&states[i].partial, &b.env);
  }
  const vkf_text_sink sink = {.step = steps, .state = states};
  for (const char *at = text; at != NULL;) {
    const char *bar = strchr(at, '|');
    const vkf_text_string piece = {at, bar != NULL ? (size_t)(bar - at) : strlen(at)};
    assert_int_equal(vkf_text_emit_piece(&sink, piece), VKF_OK);
    at = bar != NULL ? bar + 1 : NULL;
  }
  assert_int_equal(vkf_text_emit(&sink, &(vkf_text_chunk){.is_end = true}), VKF_OK);
  assert_pieces(&pieces, want, step);
  for (size_t i = 0; i < MAX_STEPS; i++) {
    vkf_text_finish(&states[i].held);
    vkf_text_finish(&states[i].partial);
  }
  vkf_text_pieces_finish(&pieces);
  json_decref(json);
  bench_finish(&b);
}

/* ---- normalizers ------------------------------------------------------------------------------------------------- */

static void normal_forms(void **state) {
  (void)state;
  assert_normalized("{\"type\":\"NFC\"}", "cafe\u0301 \ufb01", "caf\u00e9 \ufb01");
  assert_normalized("{\"type\":\"NFD\"}", "caf\u00e9 \ufb01", "cafe\u0301 \ufb01");
  assert_normalized("{\"type\":\"NFKC\"}", "cafe\u0301 \ufb01 \u00bd", "caf\u00e9 fi 1\u20442");
  assert_normalized("{\"type\":\"NFKD\"}", "caf\u00e9 \ufb01", "cafe\u0301 fi");
  assert_normalized("{\"type\":\"NFC\"}", "", "");
}

static void characters(void **state) {
  (void)state;
  assert_normalized("{\"type\":\"Lowercase\"}", "\u0130STANBUL \u00c9\u03a3", "i\u0307stanbul \u00e9\u03c3");
  assert_normalized("{\"type\":\"StripAccents\"}", "cafe\u0301 caf\u00e9", "cafe caf\u00e9");
  assert_normalized("{\"type\":\"StripAccents\"}", "\u0915\u093e\u20dd\u0301", "\u0915"); /* marks of every kind */
  assert_normalized("{\"type\":\"Nmt\"}",
                    "a\x01\x0b"
                    "b\tc\u200bd",
                    "ab c d");
  /* Every control character, and the neighbours of the ranges, by SentencePiece's nmt_nfkc rules. */
  char control[4] = {0};
  for (int c = 1; c < 128; c++) {
    snprintf(control, sizeof control, "a%cb", c);
    bool space = c == 9 || c == 10 || c == 12 || c == 13, dropped = !space && (c < 32 || c == 0x7f);
    assert_normalized("{\"type\":\"Nmt\"}", control, space ? "a b" : dropped ? "ab" : control);
  }
  assert_normalized("{\"type\":\"Nmt\"}",
                    "a\xc2\x8f"
                    "\xc2\x9f"
                    "b\xc2\x8e"
                    "\xc2\x90"
                    "\xc2\x9e"
                    "\u00a0",
                    "ab\xc2\x8e"
                    "\xc2\x90"
                    "\xc2\x9e"
                    "\u00a0");
  assert_normalized("{\"type\":\"Nmt\"}", "\u1680\u200b\u200f\u2028\u2029\u2581\ufeff\ufffd", "        ");
  assert_normalized("{\"type\":\"Nmt\"}", "\u200a\u2010\u2027\u202a\u2580\ufefe",
                    "\u200a\u2010\u2027\u202a\u2580\ufefe");
  assert_normalized("{\"type\":\"ByteLevel\"}", "a \u00e9", "a\u0120\u00c3\u00a9");
  assert_normalized("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}",
                    " \u2003"
                    "a ",
                    "a ");
  assert_normalized("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " a\t\u00a0", " a");
  assert_normalized("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", " \t ", "");
  assert_normalized("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " ", "");
  assert_normalized("{\"type\":\"Prepend\",\"prepend\":\"_\"}", "a", "_a");
  assert_normalized("{\"type\":\"Prepend\",\"prepend\":\"_\"}", "", "");
  assert_normalized("{\"type\":\"Replace\",\"pattern\":{\"String\":\".\"},\"content\":\"dot\"}", "a.b.", "adotbdot");
  assert_normalized("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":\"_\"}", "a \u2003b", "a_b");
}

/* Empty matches count, also at the end, but not directly after a match. */
static void empty_matches(void **state) {
  (void)state;
  static const char *const rows[][3] = {{"a*", "aab", "XbX"},
                                        {"a*", "baa", "XbX"},
                                        {"$", "aab", "aabX"},
                                        {"^", "aab", "Xaab"},
                                        {"\\\\s*", "ab ab", "XaXbXaXbX"},
                                        {"b*$", "baa", "baaX"},
                                        {"x?", "\u00e9x", "X\u00e9X"},
                                        {"$", "a\nb\n", "aX\nbX\nX"},
                                        {"a*", "", ""}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    char step[160];
    snprintf(step, sizeof step, "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"%s\"},\"content\":\"X\"}", rows[i][0]);
    assert_normalized(step, rows[i][1], rows[i][2]);
  }
  assert_normalized("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"X\"}", "a\u00e9", "XaX\u00e9X");
  assert_pretokenized("{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}", "a\u00e9 ",
                      "a|\u00e9| ");
  static const char *const cuts[][3] = {{"a*", "Isolated", "c|aa|c"},
                                        {"a*", "Removed", "c|c"},
                                        {"a*", "MergedWithPrevious", "caa|c"},
                                        {"b*", "Isolated", "c|a|a|c"},
                                        {"b*", "MergedWithPrevious", "c|a|a|c"},
                                        {"$", "Isolated", "caac"}};
  for (size_t i = 0; i < VKF_COUNT(cuts); i++) {
    char step[160];
    snprintf(step, sizeof step,
             "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"%s\",\"invert\":false}", cuts[i][0],
             cuts[i][1]);
    assert_pretokenized(step, "caac", cuts[i][2]);
  }
}

static void bert_options(void **state) {
  (void)state;
  assert_normalized(
      "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
      "\"strip_accents\":null,\"lowercase\":true}",
      "\u00c9t\u00e9\ta\u4f60\ufffd\u200e", "ete a \u4f60 ");
  assert_normalized(
      "{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":false,"
      "\"strip_accents\":null,\"lowercase\":false}",
      "\u00c9t\u00e9\ta\u4f60", "\u00c9t\u00e9\ta\u4f60");
  assert_normalized("{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":false}", "\u00c9", "\u00e9");
  assert_normalized("{\"type\":\"BertNormalizer\",\"lowercase\":false,\"strip_accents\":true}", "\u00c9", "E");
  assert_normalized("{\"type\":\"BertNormalizer\"}", "\u0915\u093e\u20dd\u0301", "\u0915\u093e\u20dd"); /* only Mn */
}

/* Options that a file leaves out have the defaults of the steps' constructors. */
static void usual_options(void **state) {
  (void)state;
  assert_normalized("{\"type\":\"BertNormalizer\"}", "\u00c9\ta\u4f60\u200e", "e a \u4f60 ");
  assert_normalized("{\"type\":\"Strip\"}", " a ", "a");
  assert_pretokenized("{\"type\":\"ByteLevel\"}", "a b", "\u0120a|\u0120b");
  assert_pretokenized("{\"type\":\"Digits\"}", "a12", "a|12");
  assert_pretokenized("{\"type\":\"Punctuation\"}", "a.b", "a|.|b");
  assert_pretokenized("{\"type\":\"Split\",\"pattern\":{\"String\":\",\"},\"behavior\":\"Removed\"}", "a,b", "a|b");
  assert_pretokenized(
      "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"Metaspace\",\"replacement\":\"_\"}]"
      "}",
      "a1b", "_a|_1|_b"); /* "always" */
  assert_decoded("{\"type\":\"WordPiece\",\"prefix\":\"##\"}", "a|.", "a|.");
}

/* A sequence runs in order, and a nested one too. */
static void sequences(void **state) {
  (void)state;
  assert_normalized(
      "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"A\"},"
      "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]},"
      "{\"type\":\"Prepend\",\"prepend\":\"B\"}]}",
      "X", "Bax");
  assert_normalized("{\"type\":\"Sequence\",\"normalizers\":[]}", "X", "X");
}

/* ---- the precompiled table --------------------------------------------------------------------------------------- */

static void put_u32(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static void base64_encode(const uint8_t *bytes, size_t size, char *out) {
  static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) { /* size is a multiple of 3 */
    uint32_t bits = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
    for (int k = 18; k >= 0; k -= 6) *out++ = DIGITS[bits >> k & 63];
  }
  *out = '\0';
}

/* Makes a trie with one key. Its unit for byte i is in block i + 1 of 256 units, and the value in the block after
 * these. With is_wide the offsets are multiples of 256, as units of large tries store them. */
static void charsmap_with(const char *key, const char *replacement, size_t cut_bytes, bool is_wide, char *base64) {
  static uint8_t bytes[4 + 4 * 256 * 8 + 32];
  memset(bytes, 0, sizeof(bytes));
  size_t n = strlen(key), n_units = 256 * (n + 2), at = 256;
  put_u32(bytes, (uint32_t)(4 * n_units));
  put_u32(bytes + 4, 256u << 10);
  for (size_t i = 0; i < n; i++) {
    uint8_t byte = (uint8_t)key[i];
    at ^= byte;
    size_t base = 256 * (i + 2 <= n ? i + 2 : n + 1) + (is_wide ? at % 256 : 0), offset = at ^ base;
    put_u32(bytes + 4 + 4 * at, (uint32_t)(is_wide ? offset >> 8 : offset) << 10 | (is_wide ? 1u << 9 : 0) |
                                    (i + 1 == n ? 1u << 8 : 0) | byte);
    at = base;
  }
  put_u32(bytes + 4 + 4 * at, 1u << 31 | 1); /* the replacement follows one zero byte */
  memcpy(bytes + 4 + 4 * n_units + 1, replacement, strlen(replacement) + 1);
  base64_encode(bytes, (4 + 4 * n_units + 1 + strlen(replacement) + 1 - cut_bytes + 2) / 3 * 3, base64);
}

static void charsmap_of(const char *key, const char *replacement, size_t cut_bytes, char *base64) {
  charsmap_with(key, replacement, cut_bytes, false, base64);
}

static void precompiled_table(void **state) {
  (void)state;
  static char base64[20000], step[21000];
  charsmap_of("\ufb01", "fi", 0, base64);
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "\ufb01ne \ufb01 \ufb02", "fine fi \ufb02");
  charsmap_of("e\u0301", "\u00e9", 0, base64); /* a cluster of two characters */
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "cafe\u0301 e", "caf\u00e9 e");
  /* Clusters of up to five bytes are looked up as a whole: e with two accents. */
  charsmap_of("e\u0301\u0302", "E", 0, base64);
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "e\u0301\u0302 e\u0301", "E e\u0301");
  charsmap_of("\u00e9\u0301\u0302", "E", 0, base64); /* six bytes: only its characters are looked up */
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "\u00e9\u0301\u0302", "\u00e9\u0301\u0302");
  charsmap_of("a", "", 0, base64);
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "banana", "bnn");
  charsmap_with("\ufb01", "fi", 0, true, base64);
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "\ufb01ne \ufb01 \ufb02", "fine fi \ufb02");
  /* A value that points at the last byte, which is zero, is an empty text; one that points beyond it is none. */
  charsmap_of("ab", "", 1, base64);
  snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", base64);
  assert_normalized(step, "cab", "cab");
  vkf_text_string cluster = {"ab", 2}, found;
  size_t size = 0;
  for (int cut = 0; cut < 2; cut++) { /* a base64 digit less is a byte less */
    const vkf_text_charsmap *map = NULL;
    bench b;
    bench_init(&b);
    charsmap_of("ab", "", 1, base64);
    if (vkf_text_charsmap_create(&b.loader, (vkf_text_string){base64, strlen(base64) - (size_t)cut}, &map) != VKF_OK)
      fail_msg("%s", b.env.message);
    assert_int_equal(vkf_text_charsmap_longest(map, cluster, &size, &found), cut == 0);
    if (cut == 0) assert_int_equal(found.size, 0);
    bench_finish(&b);
  }
}

static void damaged_tables(void **state) {
  (void)state;
  static char base64[20000], step[21000];
  charsmap_of("a", "b", 0, base64);
  base64[400] = '\0'; /* the trie is longer than what is there */
  /* the fifth: eight bytes that say that eight bytes of trie follow their first four */
  static char other[20000]; /* whole, but one character is no digit */
  charsmap_of("a", "b", 0, other);
  other[100] = '*';
  /* the last two: a trie of no byte, and one of six */
  const char *const tables[] = {base64, "", "AAAA", "*AAA", "CAAAAAAAAAA=", other, "AAAAAGEA", "BgAAAAAAAAAAAAAA"};
  for (size_t i = 0; i < VKF_COUNT(tables); i++) {
    bench b;
    bench_init(&b);
    snprintf(step, sizeof(step), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", tables[i]);
    json_t *json = json_of(step);
    vkf_text_step *steps;
    assert_int_equal(vkf_text_load_normalizers(&b.loader, json, &steps), VKF_ERROR_FORMAT);
    assert_non_null(strstr(b.env.message, "precompiled_charsmap"));
    json_decref(json);
    bench_finish(&b);
  }
}

/* ---- pre-tokenizers ---------------------------------------------------------------------------------------------- */

static void behaviors(void **state) {
  (void)state;
  static const char *const rows[][2] = {{"Removed", "the|final|countdown"},
                                        {"Isolated", "the|-|final|-|-|countdown"},
                                        {"MergedWithPrevious", "the-|final-|-|countdown"},
                                        {"MergedWithNext", "the|-final|-|-countdown"},
                                        {"Contiguous", "the|-|final|--|countdown"}};
  char step[200];
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    snprintf(step, sizeof(step),
             "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"%s\",\"invert\":false}", rows[i][0]);
    assert_pretokenized(step, "the-final--countdown", rows[i][1]);
  }
  assert_pretokenized(
      "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z]+\"},\"behavior\":\"Removed\",\"invert\":true}",
      "the-final--countdown", "the|final|countdown");
  assert_pretokenized(
      "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?=b)\"},\"behavior\":\"Isolated\",\"invert\":false}", "abab",
      "a|ba|b");
  assert_pretokenized("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"|\"}", "ab|c", "ab|c");
  assert_pretokenized("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"x\"}", "abxxc", "ab|c");
}

static void classes_of_characters(void **state) {
  (void)state;
  assert_pretokenized("{\"type\":\"Whitespace\"}", "Hey man, h\u00e9!?  x_1 \u4f60", "Hey|man|,|h\u00e9|!?|x_1|\u4f60");
  assert_pretokenized("{\"type\":\"WhitespaceSplit\"}", " Hey  man,\u00a0x\u200b\u3000", "Hey|man,|x\u200b");
  assert_pretokenized("{\"type\":\"BertPreTokenizer\"}", "Hey, it's $5--\u00bfs\u00ed?",
                      "Hey|,|it|'|s|$|5|-|-|\u00bf|s\u00ed|?");
  assert_pretokenized("{\"type\":\"Digits\",\"individual_digits\":false}", "a12b\u00b23",
                      "a|12|b|\u00b2"
                      "3");
  assert_pretokenized("{\"type\":\"Digits\",\"individual_digits\":true}", "a12b", "a|1|2|b");
  assert_pretokenized("{\"type\":\"Punctuation\"}", "a?! b", "a|?|!| b");
  assert_pretokenized("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "a?! b", "a|?!| b");
  assert_pretokenized(
      "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
      "{\"type\":\"Digits\",\"individual_digits\":true}]}",
      "a1 2b", "a|1|2|b");
}

/* Every later step knows which piece is the first of a text. */
static void first_pieces(void **state) {
  (void)state;
  static const char *const steps[] = {"BertPreTokenizer", "Whitespace"};
  char step[200];
  for (size_t i = 0; i < VKF_COUNT(steps); i++) {
    snprintf(step, sizeof(step),
             "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"%s\"},"
             "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}]}",
             steps[i]);
    assert_pretokenized(step, "a b,c", "_a|b|,|c");
  }
}

/* White space and ideographs among all characters of Unicode; other classes by examples. */
static void characters_by_class(void **state) {
  (void)state;
  static const struct {
    uint32_t first, last;
  } white[] = {{9, 13},          {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
               {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}},
    ideographs[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                    {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  for (uint32_t code = 0; code < 0x110000; code++) {
    bool is_white = false, is_ideograph = false;
    for (size_t i = 0; i < VKF_COUNT(white); i++) is_white |= code >= white[i].first && code <= white[i].last;
    for (size_t i = 0; i < VKF_COUNT(ideographs); i++)
      is_ideograph |= code >= ideographs[i].first && code <= ideographs[i].last;
    if (vkf_text_is_white(code) != is_white || vkf_text_is_ideograph(code) != is_ideograph)
      fail_msg("U+%04X: white space %d, ideograph %d", (unsigned)code, is_white, is_ideograph);
  }
  for (uint32_t code = 0; code < 0x80; code++)
    assert_int_equal(vkf_text_is_punctuation(code), code > ' ' && code < 0x7f && !isalnum((int)code));
  /* Cc, Cf and Co, but not tab and line ends */
  static const uint32_t controls[] = {0, 1, 0x0b, 0x7f, 0x85, 0xad, 0x200e, 0xe000}, none[] = {9, 10, 13, 'a', 0x300};
  for (size_t i = 0; i < VKF_COUNT(controls); i++) assert_true(vkf_text_is_control(controls[i]));
  for (size_t i = 0; i < VKF_COUNT(none); i++) assert_false(vkf_text_is_control(none[i]));
  /* Pc, Pd, Ps, Pe, Pi, Pf and Po; symbols are no punctuation */
  static const uint32_t marks[] = {0x203f, 0x2013, 0x2045, 0x2046, 0xab, 0xbb, 0xbf}, symbols[] = {0x2b9, 0xd7, 0x20ac};
  for (size_t i = 0; i < VKF_COUNT(marks); i++) assert_true(vkf_text_is_punctuation(marks[i]));
  for (size_t i = 0; i < VKF_COUNT(symbols); i++) assert_false(vkf_text_is_punctuation(symbols[i]));
  /* Lu Ll Lt Lm Lo, Mn Mc Me, Nd, Nl, Pc, the joiners, circled and squared letters */
  static const uint32_t words[] = {'A',    'a',    0x1c5,  0x2b0,  0x4f60, 0x301,   0x93e,   0x20dd,  0x663,   0x2160,
                                   0x203f, 0x200c, 0x200d, 0x24b6, 0x24e9, 0x1f130, 0x1f149, 0x1f150, 0x1f169, 0x1f189},
                        others[] = {0xb2, '-', ' ', 0x200b, 0x24ea, 0x1f14a, 0x1f16a, 0x1f18a, 0x20ac};
  for (size_t i = 0; i < VKF_COUNT(words); i++) assert_true(vkf_text_is_word(words[i]));
  for (size_t i = 0; i < VKF_COUNT(others); i++) assert_false(vkf_text_is_word(others[i]));
  assert_true(vkf_text_is_number(0xb2) && vkf_text_is_number(0x2160) && vkf_text_is_number(0x663));
  assert_true(vkf_text_is_mark(0x301) && vkf_text_is_mark(0x93e) && vkf_text_is_mark(0x20dd));
}

static void byte_level(void **state) {
  (void)state;
  assert_pretokenized("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", "we'll I'm he'd I've you're can't it's",
                      "we|'ll|\u0120I|'m|\u0120he|'d|\u0120I|'ve|\u0120you|'re|\u0120can|'t|\u0120it|'s");
  assert_pretokenized("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}", "it's  \u00e9 1a\n",
                      "it|'s|\u0120|\u0120\u00c3\u00a9|\u0120"
                      "1|a|\u010a");
  assert_pretokenized("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}", "a",
                      "\u0120"
                      "a");
  assert_pretokenized("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}", "a b",
                      "\u0120"
                      "a\u0120"
                      "b");
  assert_pretokenized("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", " a",
                      "\u0120"
                      "a");
}

static void byte_alphabet(void **state) {
  (void)state;
  for (int byte = 0; byte < 256; byte++) {
    uint32_t code = vkf_text_byte_to_char((uint8_t)byte);
    assert_true(code > 32 && code != 127 && code < 324);
    assert_int_equal(vkf_text_char_to_byte(code), byte);
  }
  assert_int_equal(vkf_text_byte_to_char(' '), 0x120);
  assert_int_equal(vkf_text_byte_to_char(173), 0x143);
  assert_int_equal(vkf_text_char_to_byte(' '), -1);
  assert_int_equal(vkf_text_char_to_byte(324), -1);
}

static void metaspace(void **state) {
  (void)state;
  assert_pretokenized("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":true}",
                      "a  b", "_a|_|_b");
  assert_pretokenized("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":true}",
                      " a", "_a");
  assert_pretokenized("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}", "_a", "_a");
  assert_pretokenized("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\",\"split\":true}",
                      "a b", "a|_b");
  assert_pretokenized("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":true,\"split\":false}", "a b",
                      "_a_b");
  assert_pretokenized("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false}", "a b", "a|_b");
  assert_pretokenized(
      "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false,"
      "\"prepend_scheme\":\"always\"}",
      "a b", "a|_b");
  /* "first": the piece where the text begins gets the mark, a later one does not. */
  assert_pretokenized(
      "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
      "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}]}",
      "a1b", "_a|1|b");
}

/* Regular expressions with Ruby's meaning, where PCRE2 has another; what has no equivalent is refused. */
static void regular_expressions(void **state) {
  (void)state;
  static const char *const rows[][3] = {
      {"\\\\w+", "a\u0301\u4f60_1-b", "a\u0301\u4f60_1|-|b"},
      {"[\\\\w]+", "e\u0301-b", "e\u0301|-|b"},
      {"\\\\W", "a b", "a| |b"},
      {"[^\\\\s]+", "a\u2003b", "a|\u2003|b"},
      {"\\\\s", "a\u180e b", "a\u180e| |b"},
      {"\\\\v", "a\u2028\x0b", "a\u2028|\x0b"},
      {"\\\\u0062", "abc", "a|b|c"},
      {"x{,2}y", "axxyb", "a|xxy|b"},
      {"^b", "a\nb", "a\n|b"},
      {"(?i:'S)", "it's", "it|'s"},
      {"a(?i)b|c", "CaCaB", "C|aC|aB"}, /* the flag opens a group that ends with the one around it */
      {"(a(?i)b|c)D|e(?i)", "aCDaCdDe", "aCD|aCdD|e"},
      {"a(?=(?i)b|c)b", "aBacab", "aBac|ab"},
      {"[[:digit:]]+", "a12", "a|12"},
      {"[[:digit:]\\\\w]+", "a1-b", "a1|-|b"},
      {"\\\\d+",
       "a\u0663"
       "1-b",
       "a|\u0663"
       "1|-b"},
      {"a++b", "aab", "aab"},
      {"\\\\w+", "x\u00b2-", "x\u00b2|-"},
      {"[\\\\w]+", "x\u00b2-", "x|\u00b2-"},
      {"\\\\p{Han}+", "\u4e2d\u3001\u56fd", "\u4e2d|\u3001|\u56fd"},
      {"\\\\p{^Han}+", "\u4e2d\u3001\u56fd", "\u4e2d|\u3001|\u56fd"},
      {"\\\\P{Han}", "\u4e2d\u3001\u56fd", "\u4e2d|\u3001|\u56fd"},
      {"\\\\p{^Han}", "\u4e2d\u56fd\u3001!", "\u4e2d\u56fd|\u3001|!"},
      {"\\\\P{Han}", "\u4e2d\u56fd\u3001!", "\u4e2d\u56fd|\u3001|!"},
      {"\\\\p{Letter}+", "1ab2", "1|ab|2"},
      {"[[:punct:]]", "a\u20acb", "a|\u20ac|b"},
      {"[[:blank:]]", "a\u180e b", "a\u180e| |b"},
      {"[[:xdigit:]]+", "\uff21bx", "\uff21|b|x"},
      {"[[:^alpha:]]+", "a1", "a|1"},
      {"[[:graph:]]+", "a\u00ad\x01 \u3000\ue000\u2028\xc2\x85", "a\u00ad|\x01 \u3000|\ue000|\u2028\xc2\x85"},
      {"[[:print:]]+", "a\u00ad\x01 \u3000\ue000\u2028\xc2\x85", "a\u00ad|\x01| \u3000\ue000|\u2028\xc2\x85"},
      {"[^[:print:]]", "a\tb\u200b", "a|\t|b\u200b"}};
  char step[200];
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    snprintf(step, sizeof(step), "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"}",
             rows[i][0]);
    assert_pretokenized(step, rows[i][1], rows[i][2]);
  }
  static const char *const refused[] = {"\\\\h",   "a\\\\b",  "[a[bc]]", "[a&&b]", "(?m:.)",
                                        "(?i-s)x", "a{1,2}+", "[\\\\W]", "(",      "\\\\p{NoSuchThing}",
                                        "\\\\u006"};
  static const char letters[] = "hHbByYKGQENOgkCRX"; /* of escapes that mean something else, or nothing, in PCRE2 */
  for (size_t i = 0; i < VKF_COUNT(refused) + strlen(letters); i++) {
    bench b;
    bench_init(&b);
    char escape[] = "\\\\?";
    escape[2] = i < VKF_COUNT(refused) ? '?' : letters[i - VKF_COUNT(refused)];
    snprintf(step, sizeof(step), "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"}",
             i < VKF_COUNT(refused) ? refused[i] : escape);
    json_t *json = json_of(step);
    vkf_text_step *steps;
    if (vkf_text_load_pretokenizers(&b.loader, json, &steps) != VKF_ERROR_UNSUPPORTED) fail_msg("taken: %s", step);
    assert_non_null(strstr(b.env.message, "pre-tokenizer \"Split\": the regular expression"));
    json_decref(json);
    bench_finish(&b);
  }
}

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

static void decoders(void **state) {
  (void)state;
  /* Bytes that begin no character (E0 80, F0 80, F4 90, ED A0), and E1 80, which could still become one. */
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00e0\u0122A", "\ufffd\ufffdA");
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00f0\u0122A", "\ufffd\ufffdA");
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00f4\u0132A", "\ufffd\ufffdA");
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00ed\u0142A", "\ufffd\ufffdA");
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00e1\u0122A", "\ufffdA");
  assert_decoded("{\"type\":\"ByteLevel\"}",
                 "\u0120"
                 "a|\u00c3|\u00a9",
                 " a\u00e9");
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00e2\u0124|a",
                 "\ufffd"
                 "a"); /* E2 82: one beginning of a character */
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00e2|\u00ed\u0142", "\ufffd\ufffd\ufffd"); /* E2, ED, A0 */
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u4f60|a",
                 "\u4f60"
                 "a");                                                          /* no character of the byte alphabet */
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00c0\u0122A", "\ufffd\ufffdA"); /* C0 and F5 begin none at all */
  assert_decoded("{\"type\":\"ByteLevel\"}", "\u00f5\u0122A", "\ufffd\ufffdA");
  assert_decoded("{\"type\":\"ByteLevel\"}", "a\u4f60|b",
                 "a\u4f60"
                 "b"); /* as a whole */
  assert_decoded("{\"type\":\"ByteFallback\"}", "a|<0xC3>|<0xA9>|b", "a|\u00e9|b");
  assert_decoded("{\"type\":\"ByteFallback\"}", "<0x41>x|<0x41x|<0xc3>|<0xa9>", "<0x41>x|<0x41x|\u00e9");
  assert_decoded("{\"type\":\"ByteFallback\"}", "<0xC3>|<0xC3>|b|<0x41>|<0x4>", "\ufffd|\ufffd|b|A|<0x4>");
  assert_decoded("{\"type\":\"Fuse\"}", "a|b", "ab");
  assert_decoded("{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", "  a |b", " a |b");
  assert_decoded("{\"type\":\"Strip\",\"content\":\"_\",\"start\":0,\"stop\":2}", "a___|_|", "a_||");
  assert_decoded("{\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":0}", "ab|ab", "b|b");
  assert_decoded(
      "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
      "{\"type\":\"Strip\",\"content\":\"a\",\"start\":2,\"stop\":0}]}",
      "ab|ab", "bab"); /* the cut ends at another character */
  assert_decoded("{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"}", "_a|b_", " a|b ");
  assert_decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}", "_a|_b", "a| b");
  assert_decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}", "_a|_b", " a| b");
  assert_decoded("{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", "a|b</w>|c</w>", "a|b |c");
  assert_decoded("{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false}", "##a|b|##c|.", "##a| b|c| .");
  assert_decoded("{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", "a|n't|.", "a|n't|.");
  assert_decoded(
      "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
      "{\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":0}]}",
      "a|ab", "ab");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(normal_forms),      cmocka_unit_test(characters),
      cmocka_unit_test(empty_matches),     cmocka_unit_test(bert_options),
      cmocka_unit_test(usual_options),     cmocka_unit_test(sequences),
      cmocka_unit_test(precompiled_table), cmocka_unit_test(damaged_tables),
      cmocka_unit_test(behaviors),         cmocka_unit_test(classes_of_characters),
      cmocka_unit_test(byte_level),        cmocka_unit_test(byte_alphabet),
      cmocka_unit_test(metaspace),         cmocka_unit_test(regular_expressions),
      cmocka_unit_test(first_pieces),      cmocka_unit_test(characters_by_class),
      cmocka_unit_test(decoders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
