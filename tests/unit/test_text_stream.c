/* Text of ids that come one by one. After each id, the text that was appended plus the rest must be the text of all ids
 * so far, and appended text must consist of whole characters. Checked with random ids of every tokenizer of tests/data
 * and of the shipped model, and with pieces that a later one changes. */
#include "support/tokenizers.h"

#include "text/internal.h"

typedef struct bench {
  vkf_env env;
  vkf_text_tokenizer *tokenizer;
  vkf_text_stream *stream;
  vkf_text settled, now, whole;
} bench;

static void bench_begin(bench *b, bool skip_special) {
  assert_int_equal(vkf_text_stream_create(b->tokenizer, skip_special, &b->stream), VKF_OK);
  vkf_text_init(&b->settled, &b->env);
  vkf_text_init(&b->now, &b->env);
  vkf_text_init(&b->whole, &b->env);
}

static void bench_end(bench *b) {
  vkf_text_stream_destroy(&b->stream);
  vkf_text_finish(&b->settled);
  vkf_text_finish(&b->now);
  vkf_text_finish(&b->whole);
}

/* Adds ids[n - 1] and compares the stream with the text of ids [n]. */
static void add(bench *b, const char *name, const int32_t *ids, size_t n, bool skip_special) {
  const size_t before = b->settled.size;
  assert_int_equal(vkf_text_stream_add(b->stream, ids[n - 1], &b->settled), VKF_OK);
  b->now.size = b->whole.size = 0;
  vkf_text_append(&b->now, b->settled.size ? b->settled.data : "", b->settled.size);
  assert_int_equal(vkf_text_stream_rest(b->stream, &b->now), VKF_OK);
  assert_int_equal(vkf_text_tokenizer_decode(b->tokenizer, ids, n, skip_special, &b->whole), VKF_OK);
  if (b->settled.size > before && !vkf_utf8_check(b->settled.data + before, b->settled.size - before, NULL))
    fail_msg("%s: id %zu: expected whole characters, found '%s'", name, n, b->settled.data + before);
  if (b->now.size != b->whole.size || (b->whole.size && memcmp(b->now.data, b->whole.data, b->whole.size) != 0))
    fail_msg("%s: after %zu ids: expected '%s', found '%s'", name, n, b->whole.data, b->now.data);
}

static vkf_text_file optional(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof path, VKF_SOURCE_DIR "/%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file) return (vkf_text_file){0};
  fclose(file);
  return read_file(folder, name);
}

static const char clean_up[] = "{\"clean_up_tokenization_spaces\": true}";

/* cleans_up: spaces before punctuation are removed (clean_up_tokenization_spaces). */
static void check_folder(const char *folder, bool cleans_up) {
  enum { RUNS = 40, LENGTH = 40 };
  vkf_text_files files = {
      .tokenizer = optional(folder, "tokenizer.json"),
      .spm = optional(folder, "spiece.model"),
      .tokenizer_config = cleans_up ? file_of(clean_up, "tokenizer_config.json") : (vkf_text_file){0}};
  bench b = {0};
  vkf_env_init(&b.env, NULL);
  if (vkf_text_tokenizer_create(&b.env, &files, &b.tokenizer) != VKF_OK) fail_msg("%s: %s", folder, b.env.message);
  const size_t vocab = b.tokenizer->n_pieces;
  size_t n_settled = 0, n_whole = 0;
  for (uint64_t run = 0; run < RUNS; run++) {
    int32_t ids[LENGTH];
    const bool skip_special = run % 2;
    bench_begin(&b, skip_special);
    const uint64_t range = VKF_MIN(run % 4 < 2 ? vocab : 300, vocab); /* the first ids are often bytes and signs */
    for (uint64_t n = 0, draw = 0; n < LENGTH; draw++) {
      ids[n] = (int32_t)(vkf_rng_u64(7, run, draw) % range);
      if (vkf_text_tokenizer_piece(b.tokenizer, ids[n])) add(&b, folder, ids, ++n, skip_special);
    }
    n_settled += b.settled.size;
    n_whole += b.whole.size;
    bench_end(&b);
  }
  if (n_settled * 10 < n_whole * 9) fail_msg("%s: of %zu bytes %zu were shown", folder, n_whole, n_settled);
  vkf_text_tokenizer_destroy(&b.tokenizer);
  free((void *)(uintptr_t)files.tokenizer.data);
  free((void *)(uintptr_t)files.spm.data);
}

static void every_tokenizer(void **state) {
  (void)state;
  static const char *const folders[] = {"tests/data/tokenizers/byte-fallback-bpe",
                                        "tests/data/tokenizers/byte-level-bpe",
                                        "tests/data/tokenizers/regex-byte-bpe",
                                        "tests/data/tokenizers/sentencepiece-bpe",
                                        "tests/data/tokenizers/sentencepiece-unigram",
                                        "tests/data/tokenizers/unigram",
                                        "tests/data/tokenizers/word-level",
                                        "tests/data/tokenizers/wordpiece-cased",
                                        "tests/data/tokenizers/wordpiece-uncased",
                                        "models/en-es"};
  for (size_t i = 0; i < VKF_COUNT(folders); i++) check_folder(folders[i], false);
}

static void cleaned_up(void **state) {
  (void)state;
  check_folder("tests/data/tokenizers/word-level", true);
  check_folder("tests/data/tokenizers/wordpiece-cased", true);
}

/* ---- what a later piece changes ---------------------------------------------------------------------------------- */

typedef struct row {
  const char *decoder, *pieces; /* pieces with a bar between them */
  const char *shown;            /* what each piece appends, and the rest */
  bool clean_up;
} row;

static const row rows[] = {
    /* bytes of an incomplete character wait; bytes that cannot become one do not */
    {"{\"type\":\"ByteLevel\"}", "a|\u00c3|\u00a9|\u00e2|b", "a||\u00e9||\ufffdb|", false},
    /* bytes in a row are text as a whole, or not at all */
    {"{\"type\":\"ByteFallback\"}", "a|<0xC3>|<0xA9>|b|<0xA9>", "a|||\u00e9b||\ufffd", false},
    {"{\"type\":\"ByteFallback\"}", "<0xC3>|<0xA9>|<0xC3>", "|||\ufffd\ufffd\ufffd", false},
    /* zero bytes would end a C string */
    {"{\"type\":\"ByteFallback\"}", "<0x00>|<0x00>|a|<0xC3>|<0x00>|b|<0x00>", "||\ufffd\ufffda|||\ufffd\ufffdb||\ufffd",
     false},
    {"{\"type\":\"ByteLevel\"}", "\u0100a|b\u0100\u0100|c", "\ufffda|b\ufffd\ufffd|c|", false},
    {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", "ab</w>|c|d</w>", "|ab |c|d", false},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", "do|##ne|not|.", "do|ne| not|.|", false},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
     "\",\"start\":1,\"stop\":1}]}",
     " |a| | |b | ", "|a|| | b| |", false},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Metaspace\",\"replacement\":\"_\","
     "\"prepend_scheme\":\"always\"}]}",
     "_a|_b", "||ab", false}, /* a step after Fuse that takes whole pieces waits for the end */
    /* a space is removed before some words and signs */
    {"null", "do|n't|know|.", "do|n't| know|.|", true},
    {"null", "a|'|s|'", "a||'s|| '", true},
    {"{\"type\":\"Fuse\"}", "a |. b| ,c", "a|. b|,c|", true},
};

static void pieces_that_wait(void **state) {
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    bench b = {0};
    char file[2048], shown[256] = "";
    int32_t ids[16];
    size_t n = 0, at = 0;
    json_t *root =
        json_pack("{s:s, s:{s:s, s:{}, s:n}}", "version", "1.0", "model", "type", "WordLevel", "vocab", "unk_token");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_object_set_new(root, "decoder", json_loads(rows[i].decoder, JSON_DECODE_ANY, NULL));
    for (const char *piece = rows[i].pieces; piece; n++) {
      const char *bar = strchr(piece, '|');
      json_t *key = json_stringn(piece, bar ? (size_t)(bar - piece) : strlen(piece));
      const json_t *known = json_object_get(vocab, json_string_value(key));
      ids[n] = known ? (int32_t)json_integer_value(known) : (int32_t)json_object_size(vocab);
      if (!known) json_object_set_new(vocab, json_string_value(key), json_integer(ids[n]));
      json_decref(key);
      piece = bar ? bar + 1 : NULL;
    }
    const size_t size = json_dumpb(root, file, sizeof file, 0);
    assert_true(size < sizeof file);
    json_decref(root);
    vkf_env_init(&b.env, NULL);
    const vkf_text_files files = {
        .tokenizer = {file, size, "tokenizer.json"},
        .tokenizer_config = rows[i].clean_up ? file_of(clean_up, "tokenizer_config.json") : (vkf_text_file){0}};
    if (vkf_text_tokenizer_create(&b.env, &files, &b.tokenizer) != VKF_OK) fail_msg("%s", b.env.message);
    bench_begin(&b, false);
    for (size_t k = 0; k < n; k++) {
      add(&b, rows[i].decoder, ids, k + 1, false);
      strncat(shown, b.settled.size ? b.settled.data + at : "", b.settled.size - at);
      strcat(shown, "|");
      at = b.settled.size;
    }
    strcat(shown, b.now.data ? b.now.data + at : "");
    if (strcmp(shown, rows[i].shown) != 0)
      fail_msg("%s of %s: expected %s, found %s", rows[i].decoder, rows[i].pieces, rows[i].shown, shown);
    bench_end(&b);
    vkf_text_tokenizer_destroy(&b.tokenizer);
    assert_int_equal(b.env.live_bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_tokenizer), cmocka_unit_test(cleaned_up),
                                     cmocka_unit_test(pieces_that_wait)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
