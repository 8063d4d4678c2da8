/* unigram: finds the most likely segmentation in the unigram language model (Kudo 2018, "Subword Regularization").
 *
 * The score of a segmentation is the sum of its pieces' log-probabilities. The best segmentation up to each byte is
 * found from left to right (Viterbi), then that of the whole word is followed back. A character without a piece is
 * unknown and has the lowest score minus 10; adjacent unknown ones become one. Refuses a vocabulary that is no list of
 * [piece, score].
 */
#include "text/internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0

/* The best segmentation of the text before a byte: where its last piece starts (-1: none yet), and the piece's id. */
typedef struct node {
  double score;
  int32_t start, id;
} node;

static void keep_best(node *end, size_t start, int32_t id, double score) {
  if (end->start < 0 || score > end->score) *end = (node){score, (int32_t)start, id};
}

static void find_best(const vkf_text_model *model, vkf_text_string word, node *nodes) {
  nodes[0] = (node){0, 0, -1};
  for (size_t i = 1; i <= word.size; i++) nodes[i] = (node){0, -1, -1};
  for (size_t at = 0, next; at < word.size; at = next) {
    vkf_text_char_at(word, at, &next);
    bool single = false; /* a piece is this one character */
    uint64_t hash = VKF_HASH_START;
    size_t longest = VKF_MIN(model->vocab.longest, word.size - at);
    for (size_t n = 1; n <= longest; n++) {
      hash = vkf_hash_step(hash, (uint8_t)word.data[at + n - 1]);
      int32_t id = vkf_text_vocab_find_hashed(&model->vocab, (vkf_text_string){word.data + at, n}, hash);
      if (id < 0) continue;
      keep_best(&nodes[at + n], at, id, model->scores[id] + nodes[at].score);
      single |= at + n == next;
    }
    if (!single) keep_best(&nodes[next], at, model->unk_id, model->unk_score + nodes[at].score);
  }
}

/* Appends a piece of the best segmentation, or a run of unknown ones, as its token, its bytes' or the unknown token. */
static vkf_status append_piece(vkf_text_model *model, vkf_text_string piece, vkf_text_ids *out) {
  int32_t id = vkf_text_vocab_find(&model->vocab, piece);
  if (id >= 0) return vkf_text_ids_append(out, &id, 1);
  bool bytes = model->byte_fallback;
  for (size_t i = 0; i < piece.size && bytes; i++) bytes = model->byte_ids[(uint8_t)piece.data[i]] >= 0;
  if (!bytes) return vkf_text_model_append_unknown(model, piece, out);
  vkf_status st = VKF_OK;
  for (size_t i = 0; i < piece.size && st == VKF_OK; i++)
    st = vkf_text_ids_append(out, &model->byte_ids[(uint8_t)piece.data[i]], 1);
  return st;
}

static vkf_status unigram_encode(vkf_text_model *model, vkf_text_string word, vkf_text_ids *out) {
  size_t bytes;
  if (!vkf_size_mul(word.size + 1, sizeof(node) + sizeof(int32_t), &bytes)) bytes = SIZE_MAX;
  node *nodes = vkf_text_model_scratch(model, bytes);
  if (nodes == NULL) return VKF_ERROR_MEMORY;
  find_best(model, word, nodes);
  /* Follows the nodes back: then ends[k] ... ends[word.size - 1] are the ends of the pieces from left to right. */
  int32_t *ends = (int32_t *)(nodes + word.size + 1);
  size_t k = word.size;
  for (int32_t end = (int32_t)word.size; end > 0; end = nodes[end].start) ends[--k] = end;
  vkf_status st = VKF_OK;
  for (size_t start = 0, end; k < word.size && st == VKF_OK; start = end) {
    end = (size_t)ends[k++];
    while (nodes[end].id == model->unk_id && k < word.size && nodes[ends[k]].id == model->unk_id)
      end = (size_t)ends[k++];
    st = append_piece(model, (vkf_text_string){word.data + start, end - start}, out);
  }
  return st;
}

void vkf_text_unigram_init(vkf_text_model *model, const double *scores, double lowest) {
  model->encode = unigram_encode;
  model->scores = scores;
  model->unk_score = lowest - UNKNOWN_PENALTY;
}

/* Returns the score with which the tokenizers library computes. serde_json reads the digits of a number as an integer,
 * rounds it to double and divides by a power of ten, so numbers of more than 15 digits can be an ulp off. This matters:
 * sums of the same pieces in another order differ only by such errors, which then choose between them. */
static double score_of(double exact) {
  char digits[32], power[16];
  uint64_t whole = 0;
  int n = 0, exponent = 0;
  for (int precision = 14; precision <= 16; precision++) { /* the shortest that give the number */
    snprintf(digits, sizeof digits, "%.*e", precision, fabs(exact));
    if (strtod(digits, NULL) == fabs(exact)) break;
  }
  for (const char *at = digits; *at != 'e' && *at != 0; at++)
    if (*at >= '0' && *at <= '9') whole = 10 * whole + (uint64_t)(*at - '0'), n++;
  if (whole == 0 || strchr(digits, 'e') == NULL) return exact;
  exponent = atoi(strchr(digits, 'e') + 1) - (n - 1);
  for (; whole % 10 == 0; exponent++) whole /= 10;
  if (exponent < -300 || exponent > 300) return exact;
  snprintf(power, sizeof power, "1e%d", abs(exponent));
  const double scale = strtod(power, NULL), value = exponent < 0 ? (double)whole / scale : (double)whole * scale;
  return exact < 0 ? -value : value;
}

vkf_status vkf_text_unigram_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  const json_t *vocab = json_object_get(json, "vocab"), *unk = json_object_get(json, "unk_id");
  size_t size = json_array_size(vocab);
  if (size == 0 || size > VKF_TEXT_MAX_IDS)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"vocab\" should be a list of 1 to %d pieces",
                              VKF_TEXT_MAX_IDS);
  if (json_is_integer(unk)) {
    if (json_integer_value(unk) < 0 || json_integer_value(unk) >= (json_int_t)size)
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"unk_id\" is outside the vocabulary of %zu pieces", size);
    model->unk_id = (int32_t)json_integer_value(unk);
  }
  double *scores = vkf_arena_alloc(loader->arena, size, sizeof(*scores)), lowest = DBL_MAX;
  if (scores == NULL) return VKF_ERROR_MEMORY;
  VKF_CALL(vkf_text_vocab_init(&model->vocab, loader, size, size));
  for (size_t i = 0; i < size; i++) {
    const json_t *row = json_array_get(vocab, i), *piece = json_array_get(row, 0), *score = json_array_get(row, 1);
    if (!json_is_string(piece) || !json_is_number(score))
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "piece %zu of \"vocab\" should be [piece, score]", i);
    VKF_CALL(vkf_text_vocab_add(&model->vocab, loader, i, json_string_value(piece), json_string_length(piece)));
    scores[i] = score_of(json_number_value(score));
    lowest = VKF_MIN(lowest, scores[i]);
  }
  vkf_text_unigram_init(model, scores, lowest);
  VKF_CALL(vkf_text_load_bool(loader, json, "byte_fallback", false, &model->byte_fallback));
  if (model->byte_fallback) vkf_text_model_find_bytes(model);
  return VKF_OK;
}
