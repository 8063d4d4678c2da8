/* decode: the decoders. Each piece passes through all of them in order; the output of the last one is the text.
 *
 * A decoder emits what no later piece can change and keeps the rest, so that a text can be shown while it is generated.
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

/* Appends `text` with every `want`, which is not empty, replaced by `put`. Unless is_last, stops where the rest could
 * begin a `want`. Returns how many bytes of `text` it took. */
static size_t append_settled(vkf_text *out, vkf_text_string text, vkf_text_string want, vkf_text_string put,
                             bool is_last) {
  size_t i = 0;
  while (i < text.size) {
    const vkf_text_string rest = {text.data + i, text.size - i};
    if (starts_with(rest, want)) {
      vkf_text_append(out, put.data, put.size);
      i += want.size;
    } else if (!is_last && starts_with(want, rest)) {
      break;
    } else {
      vkf_text_append(out, text.data + i++, 1);
    }
  }
  return i;
}

static void append_replaced(vkf_text *out, vkf_text_string text, vkf_text_string want, vkf_text_string put) {
  append_settled(out, text, want, put, true);
}

/* Removes the first n bytes. */
static void drop(vkf_text *text, size_t n) {
  if (n > 0) memmove(text->data, text->data + n, text->size - n);
  text->size -= n;
}

/* ---- from step to step ------------------------------------------------------------------------------------------- */

/* Removes the spaces that English spelling does not have, rule by rule. Each rule keeps in its state what the next
 * bytes could complete to a match; is_last: it keeps nothing. of_wordpiece: with the rule that only the WordPiece
 * decoder has. */
static vkf_status clean_up(vkf_text_decode_state *states, vkf_text_string text, bool is_last, bool of_wordpiece,
                           vkf_text *out);

/* Appends a chunk of the last step to the text. */
static vkf_status finish_chunk(const vkf_text_sink *sink, const vkf_text_chunk *chunk) {
  vkf_text_decode_state *state = sink->state;
  const bool is_apart = !sink->tokenizer->decoders && chunk->begins && state->n++ > 0; /* words, without a decoder */
  if (!sink->tokenizer->cleans_up) {
    if (is_apart) vkf_text_append(sink->out, " ", 1);
    vkf_text_append(sink->out, chunk->text.data, chunk->text.size);
    return vkf_text_status(sink->out);
  }
  vkf_status st = VKF_OK;
  if (is_apart) st = clean_up(state, (vkf_text_string){" ", 1}, false, false, sink->out);
  return st != VKF_OK ? st : clean_up(state, chunk->text, chunk->is_end, false, sink->out);
}

vkf_status vkf_text_emit(const vkf_text_sink *sink, const vkf_text_chunk *chunk) {
  if (!sink->step) return finish_chunk(sink, chunk);
  const vkf_text_kind *kind = sink->step->kind;
  const vkf_text_sink next = {sink->tokenizer, sink->step->next, sink->state + 1, sink->out};
  vkf_text *partial = &sink->state->partial;
  if (chunk->is_end || kind->takes_parts || (chunk->begins && chunk->ends))
    return kind->decode(sink->step, sink->state, chunk, &next);
  if (chunk->begins) partial->size = 0;
  vkf_text_append(partial, chunk->text.data, chunk->text.size);
  vkf_status st = vkf_text_status(partial);
  const vkf_text_chunk whole = {whole_of(partial), true, true, false};
  return st != VKF_OK || !chunk->ends ? st : kind->decode(sink->step, sink->state, &whole, &next);
}

vkf_status vkf_text_emit_piece(const vkf_text_sink *sink, vkf_text_string text) {
  return vkf_text_emit(sink, &(vkf_text_chunk){text, true, true, false});
}

vkf_status vkf_text_emit_part(const vkf_text_sink *sink, vkf_text_decode_state *state, vkf_text_string text,
                              bool is_last) {
  const vkf_text_chunk part = {text, state->count++ == 0, is_last, false};
  vkf_status st = vkf_text_emit(sink, &part);
  return st != VKF_OK || !is_last ? st : vkf_text_emit(sink, &(vkf_text_chunk){.is_end = true});
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Returns the length of the longest prefix of `text` that could begin a character, at least 1 (Unicode 15, section 3.9,
 * "maximal subpart"). `text` does not begin with a whole character. *may_grow: more bytes could make it one. */
static size_t broken_length(vkf_text_string text, bool *may_grow) {
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
  *may_grow = n == text.size && n < length;
  return n;
}

/* Appends the characters of `bytes`, and for invalid bytes U+FFFD, or nothing if skips_broken. Unless is_last, stops at
 * bytes that can still become a character. Returns how many bytes it took. */
static size_t append_lossy(vkf_text *out, vkf_text_string bytes, bool skips_broken, bool is_last) {
  size_t at = 0;
  while (at < bytes.size) {
    vkf_text_string rest = {bytes.data + at, bytes.size - at};
    utf8proc_int32_t code;
    bool may_grow = false;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)rest.data, (utf8proc_ssize_t)rest.size, &code);
    const size_t size = n > 0 ? (size_t)n : broken_length(rest, &may_grow);
    if (may_grow && !is_last) break;
    if (n > 0)
      vkf_text_append(out, rest.data, size);
    else if (!skips_broken)
      vkf_text_append(out, REPLACEMENT, 3);
    at += size;
  }
  return at;
}

/* Appends the bytes that a piece of the byte alphabet means. Appends a piece with any other character as it is. */
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

/* Files of the tokenizers library have no "skips_broken"; legacy_json.c sets it. */
static vkf_status load_byte_level(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  return vkf_text_load_bool(loader, json, "skips_broken", false, &step->u.bytes.skips_broken);
}

static vkf_status byte_level(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                             const vkf_text_sink *out) {
  vkf_text text;
  vkf_text_init(&text, step->env);
  if (!in->is_end) append_bytes(&state->held, in->text);
  vkf_status st = vkf_text_status(&state->held);
  if (st == VKF_OK)
    drop(&state->held, append_lossy(&text, whole_of(&state->held), step->u.bytes.skips_broken, in->is_end));
  if (st == VKF_OK) st = vkf_text_status(&text);
  if (st == VKF_OK) st = vkf_text_emit_part(out, state, whole_of(&text), in->is_end);
  vkf_text_finish(&text);
  return st;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the byte of a piece such as "<0x41>"; -1: it is no such piece. */
static int byte_of_piece(vkf_text_string piece) {
  if (piece.size != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
  int high = hex_digit(piece.data[3]), low = hex_digit(piece.data[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Emits a run of byte pieces as one piece of text if it is well-formed, else as one U+FFFD for each byte. */
static vkf_status end_run(vkf_text *run, const vkf_text_sink *out) {
  vkf_status st = VKF_OK;
  const bool is_text = run->size > 0 && vkf_utf8_check(run->data, run->size, NULL);
  if (is_text) st = vkf_text_emit_piece(out, whole_of(run));
  for (size_t k = 0; k < run->size && !is_text && st == VKF_OK; k++)
    st = vkf_text_emit_piece(out, (vkf_text_string){REPLACEMENT, 3});
  run->size = 0;
  return st;
}

static vkf_status byte_fallback(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                                const vkf_text_sink *out) {
  (void)step;
  const int byte = in->is_end ? -1 : byte_of_piece(in->text);
  if (byte >= 0) {
    vkf_text_append(&state->held, &(char){(char)byte}, 1);
    return vkf_text_status(&state->held);
  }
  VKF_CALL(end_run(&state->held, out));
  return vkf_text_emit(out, in);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static vkf_status metaspace(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                            const vkf_text_sink *out) {
  if (in->is_end) return vkf_text_emit(out, in);
  const bool drop_it = state->n++ == 0 && step->u.metaspace.prepend != VKF_TEXT_PREPEND_NEVER;
  vkf_text text;
  vkf_text_init(&text, step->env);
  append_replaced(&text, in->text, step->content, (vkf_text_string){" ", !drop_it});
  vkf_status st = vkf_text_status(&text);
  if (st == VKF_OK) st = vkf_text_emit_piece(out, whole_of(&text));
  vkf_text_finish(&text);
  return st;
}

static vkf_status load_wordpiece(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_string(loader, json, "prefix", &step->content));
  return vkf_text_load_bool(loader, json, "cleanup", true, &step->u.wordpiece.cleanup);
}

static vkf_status clean_up(vkf_text_decode_state *states, vkf_text_string text, bool is_last, bool of_wordpiece,
                           vkf_text *out) {
  static const char *const RULES[VKF_TEXT_CLEAN_UP_RULES][2] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  enum { DO_NOT = 7 }; /* only WordPiece has it */
  vkf_status st = VKF_OK;
  vkf_text now, next;
  vkf_text_init(&now, out->env);
  vkf_text_init(&next, out->env);
  vkf_text_append(&now, text.data, text.size);
  for (size_t i = 0; i < VKF_COUNT(RULES); i++) {
    if (i == DO_NOT && !of_wordpiece) continue;
    vkf_text *held = &states[i].held;
    vkf_text_append(held, now.data, now.size);
    VKF_TRY(vkf_text_status(held));
    next.size = 0;
    drop(held, append_settled(&next, whole_of(held), (vkf_text_string){RULES[i][0], strlen(RULES[i][0])},
                              (vkf_text_string){RULES[i][1], strlen(RULES[i][1])}, is_last));
    VKF_TRY(vkf_text_status(&next));
    const vkf_text swap = now;
    now = next;
    next = swap;
  }
  vkf_text_append(out, now.data, now.size);
  VKF_TRY(vkf_text_status(out));
done:
  vkf_text_finish(&next);
  vkf_text_finish(&now);
  return st;
}

static vkf_status clean_up_piece(vkf_env *env, vkf_text_string text, vkf_text *out) {
  vkf_text_decode_state states[VKF_TEXT_CLEAN_UP_RULES] = {0};
  for (size_t i = 0; i < VKF_COUNT(states); i++) vkf_text_init(&states[i].held, env);
  vkf_status st = clean_up(states, text, true, true, out);
  for (size_t i = 0; i < VKF_COUNT(states); i++) vkf_text_finish(&states[i].held);
  return st;
}

static vkf_status wordpiece(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                            const vkf_text_sink *out) {
  vkf_status st = VKF_OK;
  vkf_text text, clean;
  if (in->is_end) return vkf_text_emit(out, in);
  const bool is_first = state->n++ == 0, goes_on = !is_first && starts_with(in->text, step->content);
  const size_t cut = goes_on ? step->content.size : 0;
  vkf_text_init(&text, step->env);
  vkf_text_init(&clean, step->env);
  if (!is_first && !goes_on) vkf_text_append(&text, " ", 1);
  vkf_text_append(&text, in->text.data + cut, in->text.size - cut);
  VKF_TRY(vkf_text_status(&text));
  if (step->u.wordpiece.cleanup) VKF_TRY(clean_up_piece(step->env, whole_of(&text), &clean));
  VKF_TRY(vkf_text_emit_piece(out, whole_of(step->u.wordpiece.cleanup ? &clean : &text)));
done:
  vkf_text_finish(&clean);
  vkf_text_finish(&text);
  return st;
}

static vkf_status load_bpe(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_status st = vkf_text_load_string(loader, json, "suffix", &step->content);
  if (st == VKF_OK && step->content.size == 0)
    st = vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"suffix\" should not be empty");
  return st;
}

/* Replaces the suffix of a piece by a space, or by nothing in the last piece, so it holds a piece until the next. */
static vkf_status bpe(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                      const vkf_text_sink *out) {
  vkf_status st = VKF_OK;
  vkf_text text;
  vkf_text_init(&text, step->env);
  if (state->n++ > 0) {
    append_replaced(&text, whole_of(&state->held), step->content, (vkf_text_string){" ", !in->is_end});
    VKF_TRY(vkf_text_status(&text));
    VKF_TRY(vkf_text_emit_piece(out, whole_of(&text)));
  }
  state->held.size = 0;
  vkf_text_append(&state->held, in->text.data, in->text.size);
  VKF_TRY(vkf_text_status(&state->held));
  if (in->is_end) VKF_TRY(vkf_text_emit(out, in));
done:
  vkf_text_finish(&text);
  return st;
}

/* ---- any text ---------------------------------------------------------------------------------------------------- */

static vkf_status fuse(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                       const vkf_text_sink *out) {
  (void)step;
  return vkf_text_emit_part(out, state, in->text, in->is_end);
}

static vkf_status load_strip(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_char(loader, json, "content", &step->content));
  VKF_CALL(vkf_text_load_size(loader, json, "start", 0, &step->u.trim.start));
  return vkf_text_load_size(loader, json, "stop", 0, &step->u.trim.stop);
}

/* Takes parts of a piece. Holds the end so far, because it may be cut off. */
static vkf_status strip(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                        const vkf_text_sink *out) {
  const vkf_text_string cut = step->content;
  vkf_text_string text = in->text;
  vkf_text whole;
  if (in->is_end) return vkf_text_emit(out, in);
  if (in->begins) { /* n: times it was cut off the beginning; flag: the beginning is over; count: parts emitted */
    state->n = state->count = 0;
    state->flag = false;
  }
  while (!state->flag && state->n < step->u.trim.start && starts_with(text, cut)) {
    text = (vkf_text_string){text.data + cut.size, text.size - cut.size};
    state->n++;
  }
  state->flag = state->flag || text.size > 0 || state->n == step->u.trim.start;
  vkf_text_init(&whole, step->env);
  vkf_text_append(&whole, state->held.data, state->held.size);
  vkf_text_append(&whole, text.data, text.size);
  size_t size = whole.size;
  for (size_t k = 0; k < step->u.trim.stop && size >= cut.size; k++) {
    if (memcmp(whole.data + size - cut.size, cut.data, cut.size) != 0) break;
    size -= cut.size;
  }
  state->held.size = 0;
  if (!in->ends) vkf_text_append(&state->held, whole.data + size, whole.size - size);
  vkf_status st = whole.failed || state->held.failed ? VKF_ERROR_MEMORY : VKF_OK;
  const vkf_text_chunk part = {{whole.data, size}, state->count++ == 0, in->ends, false};
  if (st == VKF_OK) st = vkf_text_emit(out, &part);
  vkf_text_finish(&whole);
  return st;
}

static vkf_status replace(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                          const vkf_text_sink *out) {
  (void)state;
  if (in->is_end) return vkf_text_emit(out, in);
  vkf_text text;
  vkf_text_init(&text, step->env);
  vkf_status st = vkf_text_pattern_replace(step->pattern, in->text, step->content, &text);
  if (st == VKF_OK) st = vkf_text_emit_piece(out, whole_of(&text));
  vkf_text_finish(&text);
  return st;
}

static const vkf_text_kind KINDS[] = {
    {.type = "ByteLevel", .load = load_byte_level, .decode = byte_level},
    {.type = "ByteFallback", .decode = byte_fallback},
    {.type = "Metaspace", .load = vkf_text_load_metaspace, .decode = metaspace},
    {.type = "WordPiece", .load = load_wordpiece, .decode = wordpiece},
    {.type = "BPEDecoder", .load = load_bpe, .decode = bpe},
    {.type = "Fuse", .decode = fuse, .takes_parts = true},
    {.type = "Strip", .load = load_strip, .decode = strip, .takes_parts = true},
    {.type = "Replace", .load = vkf_text_load_replace, .decode = replace},
};

vkf_status vkf_text_load_decoders(vkf_text_loader *loader, const json_t *json, vkf_text_step **out) {
  return vkf_text_load_steps(loader, "decoder", "decoders", KINDS, VKF_COUNT(KINDS), json, out);
}
