/* spm_steps: builds SentencePiece from the steps of this room.
 *
 * The normalizer repeatedly replaces the longest prefix that the charsmap has, and treats spaces as the file says. The
 * models are those of bpe.c and unigram.c. BPE's merges are all pairs of pieces that make a third, ranked by the
 * third's score; the user's symbols are cut out before. Invariant: text never becomes a control piece, whatever it
 * looks like.
 */
#include "text/spm.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define SPACE_MARK "\xE2\x96\x81" /* U+2581 */

/* ---- model ------------------------------------------------------------------------------------------------------- */

static bool is_text(const vkf_text_spm_piece *piece) {
  return piece->type == VKF_TEXT_SPM_NORMAL || piece->type == VKF_TEXT_SPM_USER_DEFINED;
}

static vkf_status load_unigram(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_model *model) {
  double *scores = vkf_arena_alloc(loader->arena, spm->n_pieces, sizeof(*scores)), lowest = DBL_MAX, highest = -DBL_MAX;
  if (scores == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < spm->n_pieces; i++) {
    if (spm->pieces[i].type != VKF_TEXT_SPM_NORMAL) continue;
    lowest = VKF_MIN(lowest, (double)spm->pieces[i].score);
    highest = VKF_MAX(highest, (double)spm->pieces[i].score);
  }
  if (lowest > highest) lowest = highest = 0; /* no normal piece */
  for (size_t i = 0; i < spm->n_pieces; i++) {
    const vkf_text_spm_piece *piece = &spm->pieces[i];
    /* A user's symbol beats every segmentation of its bytes. */
    bool user = piece->type == VKF_TEXT_SPM_USER_DEFINED;
    scores[i] = user ? (double)piece->text.size * highest - 0.1 : (double)piece->score;
  }
  vkf_text_unigram_init(model, scores, lowest);
  return VKF_OK;
}

typedef struct ranked {
  float score;
  size_t id;
} ranked;

static int compare_ranked(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Returns whether a piece takes part in merges: it exists and is none of the user's symbols. */
static bool is_part(const vkf_text_model *model, vkf_text_string piece) {
  const int32_t id = vkf_text_vocab_find(&model->vocab, piece);
  return id >= 0 && !model->is_whole[id];
}

/* Adds a merge for every way to cut a piece into two pieces; `count`: only counts them. Merges of equal score have one
 * rank: the leftmost is done first. */
static vkf_status add_merges(vkf_text_loader *loader, vkf_text_model *model, const ranked *order, size_t n, bool count,
                             size_t *n_merges) {
  size_t rank = 0;
  for (size_t i = 0; i < n; i++) {
    vkf_text_string text = model->vocab.pieces[order[i].id];
    if (i > 0 && order[i].score != order[i - 1].score) rank++;
    for (size_t cut = 0; cut < text.size;) {
      vkf_text_char_at(text, cut, &cut);
      vkf_text_string left = {text.data, cut}, right = {text.data + cut, text.size - cut};
      if (cut == text.size || !is_part(model, left) || !is_part(model, right)) continue;
      if (count) {
        ++*n_merges;
        continue;
      }
      VKF_CALL(vkf_text_bpe_add_merge(model, loader, rank, left, right));
    }
  }
  return VKF_OK;
}

static vkf_status load_bpe(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_model *model) {
  vkf_status st = VKF_OK;
  size_t n = 0, n_merges = 0;
  ranked *order = vkf_env_alloc(loader->env, spm->n_pieces, sizeof(*order));
  bool *is_whole = vkf_arena_alloc(loader->arena, spm->n_pieces, sizeof(*is_whole));
  if (order == NULL || is_whole == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t i = 0; i < spm->n_pieces; i++) {
    is_whole[i] = spm->pieces[i].type == VKF_TEXT_SPM_USER_DEFINED;
    if (spm->pieces[i].type == VKF_TEXT_SPM_NORMAL) order[n++] = (ranked){spm->pieces[i].score, i};
  }
  model->is_whole = is_whole;
  if (n > 1) qsort(order, n, sizeof(*order), compare_ranked);
  VKF_TRY(add_merges(loader, model, order, n, true, &n_merges));
  VKF_TRY(vkf_text_bpe_init(model, loader, n_merges));
  VKF_TRY(add_merges(loader, model, order, n, false, NULL));
  model->fuse_unk = true;
done:
  vkf_env_free(loader->env, order);
  return st;
}

static vkf_status find_byte(vkf_text_loader *loader, const vkf_text_spm_piece *piece, int32_t id, int32_t *byte_ids) {
  char hex[3] = {0}, *end = hex;
  if (piece->text.size == 6 && memcmp(piece->text.data, "<0x", 3) == 0 && piece->text.data[5] == '>')
    memcpy(hex, piece->text.data + 3, 2);
  unsigned long byte = strtoul(hex, &end, 16);
  if (end != hex + 2 || byte > 255)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "piece %d of type BYTE should be <0x00> to <0xFF>", (int)id);
  byte_ids[byte] = id;
  return VKF_OK;
}

vkf_status vkf_text_spm_load_model(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_model *model) {
  model->env = loader->env;
  model->unk_id = (int32_t)spm->unk_id;
  model->byte_fallback = spm->byte_fallback;
  for (int byte = 0; byte < 256; byte++) model->byte_ids[byte] = -1;
  VKF_CALL(vkf_text_vocab_init(&model->vocab, loader, spm->n_pieces, spm->n_pieces));
  for (size_t i = 0; i < spm->n_pieces; i++) {
    const vkf_text_spm_piece *piece = &spm->pieces[i];
    if (is_text(piece))
      VKF_CALL(vkf_text_vocab_add(&model->vocab, loader, i, piece->text.data, piece->text.size));
    else
      VKF_CALL(vkf_text_load_copy(loader, piece->text.data, piece->text.size, &model->vocab.pieces[i]));
    if (piece->type == VKF_TEXT_SPM_BYTE) VKF_CALL(find_byte(loader, piece, (int32_t)i, model->byte_ids));
  }
  return spm->bpe ? load_bpe(loader, spm, model) : load_unigram(loader, spm, model);
}

/* ---- normalizer -------------------------------------------------------------------------------------------------- */

/* Returns what replaces a prefix of `text`, and sets *size to the prefix's size. */
static vkf_text_string replace_prefix(const vkf_text_step *step, vkf_text_string text, size_t *size) {
  vkf_text_string out;
  *size = 0;
  for (size_t i = 0; i < step->u.spm.n_symbols; i++) { /* the user's symbols do not change */
    vkf_text_string symbol = step->u.spm.symbols[i];
    if (symbol.size > *size && symbol.size <= text.size && memcmp(symbol.data, text.data, symbol.size) == 0)
      *size = symbol.size;
  }
  if (*size > 0) return (vkf_text_string){text.data, *size};
  if (step->u.spm.map != NULL && vkf_text_charsmap_longest(step->u.spm.map, text, size, &out)) {
    bool whole = *size == text.size || ((uint8_t)text.data[*size] & 0xC0) != 0x80; /* no character is cut */
    if (whole) return out;
  }
  vkf_text_char_at(text, 0, size);
  return (vkf_text_string){text.data, *size};
}

static vkf_status normalize(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  vkf_text_string space = step->content;
  bool after_space = step->u.spm.remove_extra, started = false;
  size_t end = out->size; /* of what is not space */
  for (size_t at = 0, size; at < text.size; at += size) {
    vkf_text_string put = replace_prefix(step, (vkf_text_string){text.data + at, text.size - at}, &size);
    while (after_space && put.size > 0 && put.data[0] == ' ') put = (vkf_text_string){put.data + 1, put.size - 1};
    if (put.size == 0) continue;
    if (!started && step->u.spm.dummy_prefix) vkf_text_append(out, space.data, space.size);
    started = true;
    for (size_t i = 0; i < put.size; i++) {
      if (put.data[i] == ' ') {
        vkf_text_append(out, space.data, space.size);
      } else {
        vkf_text_append(out, put.data + i, 1);
        end = out->size;
      }
    }
    after_space = step->u.spm.remove_extra && put.data[put.size - 1] == ' ';
  }
  if (step->u.spm.remove_extra) out->size = VKF_MIN(out->size, end);
  vkf_status st = vkf_text_status(out);
  if (st == VKF_OK && !vkf_utf8_check(out->data, out->size, NULL))
    st = vkf_env_fail(step->env, VKF_ERROR_FORMAT, "the tokenizer's precompiled_charsmap makes text that is not UTF-8");
  return st;
}

vkf_status vkf_text_spm_load_normalizer(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_step **out) {
  static const vkf_text_kind KIND = {.type = "SentencePiece", .normalize = normalize};
  vkf_text_step *step = vkf_arena_alloc(loader->arena, 1, sizeof(*step));
  vkf_text_string *symbols = vkf_arena_alloc(loader->arena, spm->n_pieces, sizeof(*symbols));
  if (step == NULL || symbols == NULL) return VKF_ERROR_MEMORY;
  step->kind = &KIND;
  step->env = loader->env;
  step->content = spm->escape_spaces ? (vkf_text_string){SPACE_MARK, 3} : (vkf_text_string){" ", 1};
  step->u.spm.dummy_prefix = spm->dummy_prefix;
  step->u.spm.remove_extra = spm->remove_extra_spaces;
  for (size_t i = 0; i < spm->n_pieces; i++) {
    if (spm->pieces[i].type != VKF_TEXT_SPM_USER_DEFINED) continue;
    VKF_CALL(vkf_text_load_copy(loader, spm->pieces[i].text.data, spm->pieces[i].text.size,
                                &symbols[step->u.spm.n_symbols++]));
  }
  step->u.spm.symbols = symbols;
  *out = step;
  return spm->charsmap.size > 0 ? vkf_text_charsmap_init(loader, spm->charsmap, &step->u.spm.map) : VKF_OK;
}

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

/* Turns space marks into spaces. Leaves out those that the normalizer adds before the text, or would remove. */
static vkf_status decode(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                         const vkf_text_sink *out) {
  vkf_text_string piece = in->text;
  vkf_text text;
  vkf_text_init(&text, step->env);
  bool start = state->n++ == 0 ? step->u.spm.dummy_prefix || step->u.spm.remove_extra : state->flag;
  if (!in->is_end && vkf_text_string_equal(piece, step->u.spm.unknown)) {
    vkf_text_append(&text, step->content.data, step->content.size);
    piece.size = 0;
    start = false;
  }
  if (start && piece.size >= 3 && memcmp(piece.data, SPACE_MARK, 3) == 0) {
    piece = (vkf_text_string){piece.data + 3, piece.size - 3};
    start = step->u.spm.remove_extra;
  }
  state->flag = start && piece.size == 0;
  for (size_t at = 0; at < piece.size;) {
    bool mark = piece.size - at >= 3 && memcmp(piece.data + at, SPACE_MARK, 3) == 0;
    vkf_text_append(&text, mark ? " " : piece.data + at, 1);
    at += mark ? 3 : 1;
  }
  vkf_status st = vkf_text_status(&text);
  if (st == VKF_OK) st = vkf_text_emit_part(out, state, (vkf_text_string){text.data, text.size}, in->is_end);
  vkf_text_finish(&text);
  return st;
}

/* Joins all pieces as they are, without the spaces around the whole text. Holds spaces until something follows. */
static vkf_status join(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                       const vkf_text_sink *out) {
  vkf_text text;
  vkf_text_init(&text, step->env);
  for (size_t at = 0; !in->is_end && at < in->text.size;) {
    const char *c = in->text.data + at;
    const bool is_mark = in->text.size - at >= 3 && memcmp(c, SPACE_MARK, 3) == 0;
    at += is_mark ? 3 : 1;
    if (is_mark || *c == ' ') {
      if (state->flag) vkf_text_append(&state->held, " ", 1);
      continue;
    }
    vkf_text_append(&text, state->held.data, state->held.size);
    vkf_text_append(&text, c, 1);
    state->held.size = 0;
    state->flag = true;
  }
  vkf_status st = vkf_text_status(&state->held);
  if (st == VKF_OK) st = vkf_text_status(&text);
  if (st == VKF_OK) st = vkf_text_emit_part(out, state, (vkf_text_string){text.data, text.size}, in->is_end);
  vkf_text_finish(&text);
  return st;
}

vkf_status vkf_text_spm_load_join(vkf_text_loader *loader, vkf_text_step **out) {
  static const vkf_text_kind KIND = {.type = "Join", .decode = join};
  vkf_text_step *step = vkf_arena_alloc(loader->arena, 1, sizeof(*step));
  if (step == NULL) return VKF_ERROR_MEMORY;
  step->kind = &KIND;
  step->env = loader->env;
  *out = step;
  return VKF_OK;
}

vkf_status vkf_text_spm_load_decoders(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_step **out) {
  static const vkf_text_kind KIND = {.type = "SentencePiece", .decode = decode};
  vkf_status st = VKF_OK;
  vkf_text_string unknown = spm->pieces[spm->unk_id].text;
  vkf_text_step *step = vkf_arena_alloc(loader->arena, 1, sizeof(*step));
  json_t *bytes = json_pack("{s:s}", "type", "ByteFallback");
  if (step == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  if (bytes == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  step->kind = &KIND;
  step->env = loader->env;
  step->u.spm.dummy_prefix = spm->dummy_prefix;
  step->u.spm.remove_extra = spm->remove_extra_spaces;
  VKF_TRY(vkf_text_load_copy(loader, unknown.data, unknown.size, &step->u.spm.unknown));
  VKF_TRY(vkf_text_load_copy(loader, spm->unk_surface.data, spm->unk_surface.size, &step->content));
  VKF_TRY(vkf_text_load_decoders(loader, bytes, out));
  (*out)->next = step;
done:
  json_decref(bytes);
  return st;
}
