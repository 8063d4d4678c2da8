/* decode: the decoders, from a list of pieces to a list of pieces; the text is what they make one after another.
 *
 * Refuses the kinds that are not in KINDS.
 */
#include "text/internal.h"

#include <string.h>
#include <utf8proc.h>

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

static vkf_text_string whole_of(const vkf_text *text) {
  return (vkf_text_string){text->data, text->size};
}

static bool starts_with(vkf_text_string text, vkf_text_string prefix) {
  return text.size >= prefix.size && memcmp(text.data, prefix.data, prefix.size) == 0;
}

/* Appends `text` with every `want`, which is not empty, replaced by `put`. */
static void append_replaced(vkf_text *out, vkf_text_string text, vkf_text_string want, vkf_text_string put) {
  for (size_t i = 0; i < text.size;) {
    if (starts_with((vkf_text_string){text.data + i, text.size - i}, want)) {
      vkf_text_append(out, put.data, put.size);
      i += want.size;
    } else {
      vkf_text_append(out, text.data + i++, 1);
    }
  }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* The length of the longest beginning of `text` that could still have become a character, at least 1 (Unicode 15,
 * section 3.9, "maximal subpart"). Only for text that does not begin with a whole character. */
static size_t broken_length(vkf_text_string text) {
  uint8_t lead = (uint8_t)text.data[0], low = 0x80, high = 0xBF;
  size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                  : lead >= 0xE0 && lead <= 0xEF ? 3
                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                 : 1;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  size_t n = 1;
  for (; n < length && n < text.size; n++, low = 0x80, high = 0xBF) {
    if ((uint8_t)text.data[n] < low || (uint8_t)text.data[n] > high) break;
  }
  return n;
}

static void append_lossy(vkf_text *out, vkf_text_string bytes) {
  for (size_t at = 0; at < bytes.size;) {
    vkf_text_string rest = {bytes.data + at, bytes.size - at};
    utf8proc_int32_t code;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)rest.data, (utf8proc_ssize_t)rest.size, &code);
    if (n > 0)
      vkf_text_append(out, rest.data, (size_t)n);
    else
      vkf_text_append(out, REPLACEMENT, 3);
    at += n > 0 ? (size_t)n : broken_length(rest);
  }
}

/* Appends the bytes that a piece of the byte alphabet stands for; a piece with another character stands for itself. */
static void append_bytes(vkf_text *out, vkf_text_string piece) {
  size_t start = out->size;
  for (size_t at = 0; at < piece.size;) {
    int byte = vkf_text_char_to_byte(vkf_text_char_at(piece, at, &at));
    if (byte < 0) {
      out->size = start;
      vkf_text_append(out, piece.data, piece.size);
      return;
    }
    vkf_text_append(out, &(char){(char)byte}, 1);
  }
}

static vkf_status byte_level(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  vkf_text bytes, text;
  vkf_text_init(&bytes, step->env);
  vkf_text_init(&text, step->env);
  for (size_t i = 0; i < in->n; i++) append_bytes(&bytes, vkf_text_pieces_get(in, i));
  append_lossy(&text, whole_of(&bytes));
  vkf_text_pieces_push(out, whole_of(&text), -1, true);
  vkf_status st = bytes.failed || text.failed ? VKF_ERROR_MEMORY : VKF_OK;
  vkf_text_finish(&text);
  vkf_text_finish(&bytes);
  return st;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of "<0x41>"; -1: the piece is none of these. */
static int byte_of_piece(vkf_text_string piece) {
  if (piece.size != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
  int high = hex_digit(piece.data[3]), low = hex_digit(piece.data[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* A run of byte pieces is one piece of text if it is well-formed, else one U+FFFD for each byte. */
static vkf_status byte_fallback(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  vkf_text run;
  vkf_text_init(&run, step->env);
  for (size_t i = 0; i <= in->n; i++) {
    int byte = i < in->n ? byte_of_piece(vkf_text_pieces_get(in, i)) : -1;
    if (byte >= 0) {
      vkf_text_append(&run, &(char){(char)byte}, 1);
      continue;
    }
    if (run.size > 0 && vkf_utf8_check(run.data, run.size, NULL)) {
      vkf_text_pieces_push(out, whole_of(&run), -1, false);
    } else {
      for (size_t k = 0; k < run.size; k++) vkf_text_pieces_push(out, (vkf_text_string){REPLACEMENT, 3}, -1, false);
    }
    run.size = 0;
    if (i < in->n) vkf_text_pieces_push(out, vkf_text_pieces_get(in, i), -1, false);
  }
  vkf_status st = vkf_text_status(&run);
  vkf_text_finish(&run);
  return st;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static vkf_status metaspace(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  const vkf_text_string space = {" ", 1}, nothing = {"", 0};
  vkf_text text;
  vkf_text_init(&text, step->env);
  for (size_t i = 0; i < in->n; i++) {
    bool drop = i == 0 && step->u.metaspace.prepend != VKF_TEXT_PREPEND_NEVER;
    text.size = 0;
    append_replaced(&text, vkf_text_pieces_get(in, i), step->content, drop ? nothing : space);
    vkf_text_pieces_push(out, whole_of(&text), -1, false);
  }
  vkf_status st = vkf_text_status(&text);
  vkf_text_finish(&text);
  return st;
}

static vkf_status load_wordpiece(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_status st = vkf_text_load_string(loader, json, "prefix", &step->content);
  if (st == VKF_OK) st = vkf_text_load_bool(loader, json, "cleanup", true, &step->u.wordpiece.cleanup);
  return st;
}

void vkf_text_clean_up(vkf_text *text, vkf_text *spare, bool of_wordpiece) {
  static const char *const RULES[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                         {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                         {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  enum { DO_NOT = 7 }; /* which WordPiece alone has */
  for (size_t i = 0; i < VKF_COUNT(RULES); i++) {
    if (i == DO_NOT && !of_wordpiece) continue;
    spare->size = 0;
    append_replaced(spare, whole_of(text), (vkf_text_string){RULES[i][0], strlen(RULES[i][0])},
                    (vkf_text_string){RULES[i][1], strlen(RULES[i][1])});
    vkf_text swap = *text;
    *text = *spare;
    *spare = swap;
  }
}

static vkf_status wordpiece(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  vkf_text text, spare;
  vkf_text_init(&text, step->env);
  vkf_text_init(&spare, step->env);
  for (size_t i = 0; i < in->n; i++) {
    vkf_text_string piece = vkf_text_pieces_get(in, i);
    text.size = 0;
    if (i > 0 && starts_with(piece, step->content)) {
      piece = (vkf_text_string){piece.data + step->content.size, piece.size - step->content.size};
    } else if (i > 0) {
      vkf_text_append(&text, " ", 1);
    }
    vkf_text_append(&text, piece.data, piece.size);
    if (step->u.wordpiece.cleanup) vkf_text_clean_up(&text, &spare, true);
    vkf_text_pieces_push(out, whole_of(&text), -1, false);
  }
  vkf_status st = text.failed || spare.failed ? VKF_ERROR_MEMORY : VKF_OK;
  vkf_text_finish(&spare);
  vkf_text_finish(&text);
  return st;
}

static vkf_status load_bpe(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_status st = vkf_text_load_string(loader, json, "suffix", &step->content);
  if (st == VKF_OK && step->content.size == 0)
    st = vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"suffix\" should not be empty");
  return st;
}

static vkf_status bpe(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  vkf_text text;
  vkf_text_init(&text, step->env);
  for (size_t i = 0; i < in->n; i++) {
    text.size = 0;
    append_replaced(&text, vkf_text_pieces_get(in, i), step->content, (vkf_text_string){" ", i + 1 < in->n});
    vkf_text_pieces_push(out, whole_of(&text), -1, false);
  }
  vkf_status st = vkf_text_status(&text);
  vkf_text_finish(&text);
  return st;
}

/* ---- any text ---------------------------------------------------------------------------------------------------- */

static vkf_status fuse(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  (void)step;
  vkf_text_pieces_push(out, whole_of(&in->bytes), -1, true); /* pieces lie one behind the other */
  return VKF_OK;
}

static vkf_status load_strip(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_status st = vkf_text_load_char(loader, json, "content", &step->content);
  if (st == VKF_OK) st = vkf_text_load_size(loader, json, "start", 0, &step->u.trim.start);
  if (st == VKF_OK) st = vkf_text_load_size(loader, json, "stop", 0, &step->u.trim.stop);
  return st;
}

static vkf_status strip(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  vkf_text_string cut = step->content;
  for (size_t i = 0; i < in->n; i++) {
    vkf_text_string text = vkf_text_pieces_get(in, i);
    for (size_t k = 0; k < step->u.trim.start && starts_with(text, cut); k++)
      text = (vkf_text_string){text.data + cut.size, text.size - cut.size};
    for (size_t k = 0; k < step->u.trim.stop && text.size >= cut.size; k++) {
      if (memcmp(text.data + text.size - cut.size, cut.data, cut.size) != 0) break;
      text.size -= cut.size;
    }
    vkf_text_pieces_push(out, text, -1, false);
  }
  return VKF_OK;
}

static vkf_status load_replace(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_status st = vkf_text_load_pattern(loader, json, &step->pattern);
  if (st == VKF_OK) st = vkf_text_load_string(loader, json, "content", &step->content);
  return st;
}

static vkf_status replace(const vkf_text_step *step, const vkf_text_pieces *in, vkf_text_pieces *out) {
  vkf_status st = VKF_OK;
  vkf_text text;
  vkf_text_init(&text, step->env);
  for (size_t i = 0; i < in->n; i++) {
    text.size = 0;
    VKF_TRY(vkf_text_pattern_replace(step->pattern, vkf_text_pieces_get(in, i), step->content, &text));
    vkf_text_pieces_push(out, whole_of(&text), -1, false);
  }
done:
  vkf_text_finish(&text);
  return st;
}

static const vkf_text_kind KINDS[] = {
    {.type = "ByteLevel", .decode = byte_level},
    {.type = "ByteFallback", .decode = byte_fallback},
    {.type = "Metaspace", .load = vkf_text_load_metaspace, .decode = metaspace},
    {.type = "WordPiece", .load = load_wordpiece, .decode = wordpiece},
    {.type = "BPEDecoder", .load = load_bpe, .decode = bpe},
    {.type = "Fuse", .decode = fuse},
    {.type = "Strip", .load = load_strip, .decode = strip},
    {.type = "Replace", .load = load_replace, .decode = replace},
};

vkf_status vkf_text_load_decoders(vkf_text_loader *loader, const json_t *json, vkf_text_step **out) {
  return vkf_text_load_steps(loader, "decoder", "decoders", KINDS, VKF_COUNT(KINDS), json, out);
}

vkf_status vkf_text_decode_steps(const vkf_text_step *steps, vkf_text_pieces *pieces) {
  vkf_status st = VKF_OK;
  vkf_text_pieces next;
  vkf_text_pieces_init(&next, pieces->bytes.env);
  for (; steps != NULL; steps = steps->next) {
    vkf_text_pieces_clear(&next);
    VKF_TRY(steps->kind->decode(steps, pieces, &next));
    VKF_TRY(vkf_text_status(&next.bytes));
    vkf_text_pieces swap = *pieces;
    *pieces = next;
    next = swap;
  }
done:
  vkf_text_pieces_finish(&next);
  return st;
}
