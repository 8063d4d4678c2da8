/* SentencePiece models of a few pieces, written field by field. */
#ifndef VKF_TESTS_SUPPORT_SMALL_SPM_H
#define VKF_TESTS_SUPPORT_SMALL_SPM_H

#include "support/tokenizers.h"

typedef struct bytes {
  char data[1024];
  size_t n;
} bytes;

static inline void put(bytes *out, const void *data, size_t n) {
  assert_true(out->n + n <= sizeof out->data);
  memcpy(out->data + out->n, data, n);
  out->n += n;
}

/* Writes a field that is a message or a string, shorter than 128 bytes. */
static inline void put_field(bytes *out, int number, const void *data, size_t n) {
  const unsigned char head[] = {(unsigned char)(number << 3 | 2), (unsigned char)n};
  put(out, head, 2);
  put(out, data, n);
}

static inline void put_piece_bytes(bytes *out, const char *text, size_t n, float score, unsigned char type) {
  bytes piece = {.n = 0};
  uint32_t bits;
  memcpy(&bits, &score, 4);
  const unsigned char tail[] = {0x15, bits & 255, bits >> 8 & 255, bits >> 16 & 255, bits >> 24, 0x18, type};
  put_field(&piece, 1, text, n);
  put(&piece, tail, sizeof tail);
  put_field(out, 1, piece.data, piece.n);
}

static inline void put_piece(bytes *out, const char *text, float score, unsigned char type) {
  put_piece_bytes(out, text, strlen(text), score, type);
}

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
#define MARK "\xE2\x96\x81"
static const unsigned char unigram[] = {0x18, 1}, bpe[] = {0x18, 2};

/* Makes a model: <unk> 0, <s> 1, </s> 2, then pieces; `trainer` is the trainer_spec at its end. */
static inline bytes small_spm(const unsigned char *trainer, size_t n_trainer) {
  bytes out = {.n = 0};
  put_piece(&out, "<unk>", 0, UNKNOWN);
  put_piece(&out, "<s>", 0, CONTROL);
  put_piece(&out, "</s>", 0, CONTROL);
  put_piece(&out, MARK, -3, NORMAL);
  put_piece(&out, "a", -4, NORMAL);
  put_piece(&out, "b", -5, NORMAL);
  put_piece(&out, "ab", -1, NORMAL);
  put_piece(&out, MARK "a", -2, NORMAL);
  put_field(&out, 2, trainer, n_trainer);
  return out;
}

static inline vkf_text_file file_of_bytes(const bytes *b, const char *name) {
  return (vkf_text_file){b->data, b->n, name};
}

#endif
