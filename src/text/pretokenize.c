/* pretokenize: the pre-tokenizers, which cut pieces of text into smaller ones.
 *
 * Refuses the kinds that are not in KINDS. Added tokens pass unchanged; empty pieces are dropped.
 */
#include "text/internal.h"

#include <string.h>

/* GPT-2's rule: contractions, runs of letters, digits or neither (with up to one space before), and white space. */
#define GPT2_REGEX "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* ---- cutting by a class of characters ---------------------------------------------------------------------------- */

static vkf_status cut_chars(const vkf_text_step *step, vkf_text_string text, bool (*is)(uint32_t code),
                            vkf_text_behavior behavior, bool first, vkf_text_pieces *out) {
  vkf_text_ranges ranges;
  vkf_text_ranges_init(&ranges, step->env);
  vkf_status st = vkf_text_ranges_of_chars(&ranges, text, is);
  if (st == VKF_OK) vkf_text_ranges_cut(&ranges, text, behavior, first, out);
  vkf_text_ranges_finish(&ranges);
  return st;
}

static vkf_status whitespace_split(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  return cut_chars(step, text, vkf_text_is_white, VKF_TEXT_REMOVED, first, out);
}

static vkf_status bert(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  vkf_status st = VKF_OK;
  vkf_text_pieces words;
  vkf_text_pieces_init(&words, step->env);
  VKF_TRY(whitespace_split(step, text, first, &words));
  VKF_TRY(vkf_text_status(&words.bytes));
  for (size_t i = 0; i < words.n; i++)
    VKF_TRY(cut_chars(step, vkf_text_pieces_get(&words, i), vkf_text_is_punctuation, VKF_TEXT_ISOLATED,
                      words.at[i].first, out));
done:
  vkf_text_pieces_finish(&words);
  return st;
}

/* Cuts out runs of word characters and runs of what is neither a word character nor white space: \w+|[^\w\s]+ */
static vkf_status whitespace(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  (void)step;
  enum { WHITE, WORD, OTHER } sort = WHITE, last = WHITE;
  size_t start = 0;
  for (size_t at = 0, next; at <= text.size; at = next, last = sort) {
    next = at + 1;
    sort = WHITE;
    if (at < text.size) {
      uint32_t code = vkf_text_char_at(text, at, &next);
      if (vkf_text_is_word(code))
        sort = WORD;
      else if (!vkf_text_is_white(code))
        sort = OTHER;
    }
    if (sort == last) continue;
    if (last != WHITE)
      vkf_text_pieces_push(out, (vkf_text_string){text.data + start, at - start}, -1, first && start == 0);
    start = at;
  }
  return VKF_OK;
}

static vkf_status load_behavior(vkf_text_loader *loader, const json_t *json, const char *fallback,
                                vkf_text_step *step) {
  static const char *const NAMES[] = {"Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
  const json_t *field = json_object_get(json, "behavior");
  const char *name = field == NULL ? fallback : json_string_value(field);
  for (size_t i = 0; name != NULL && i < VKF_COUNT(NAMES); i++) {
    if (strcmp(NAMES[i], name) != 0) continue;
    step->u.split.behavior = (vkf_text_behavior)i;
    return VKF_OK;
  }
  return vkf_text_load_fail(loader, VKF_ERROR_UNSUPPORTED, "behavior \"%s\" is not supported", name ? name : "");
}

static vkf_status load_punctuation(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  return load_behavior(loader, json, "Isolated", step);
}

static vkf_status punctuation(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  return cut_chars(step, text, vkf_text_is_punctuation, step->u.split.behavior, first, out);
}

static vkf_status load_digits(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  bool individual;
  vkf_status st = vkf_text_load_bool(loader, json, "individual_digits", false, &individual);
  step->u.split.behavior = individual ? VKF_TEXT_ISOLATED : VKF_TEXT_CONTIGUOUS;
  return st;
}

static vkf_status digits(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  return cut_chars(step, text, vkf_text_is_number, step->u.split.behavior, first, out);
}

/* ---- cutting by a pattern ---------------------------------------------------------------------------------------- */

static vkf_status cut_pattern(const vkf_text_step *step, vkf_text_string text, vkf_text_behavior behavior, bool invert,
                              bool first, vkf_text_pieces *out) {
  vkf_text_ranges ranges;
  vkf_text_ranges_init(&ranges, step->env);
  vkf_status st = vkf_text_pattern_ranges(step->pattern, text, &ranges);
  for (size_t i = 0; i < ranges.n; i++) ranges.at[i].match ^= invert;
  if (st == VKF_OK) vkf_text_ranges_cut(&ranges, text, behavior, first, out);
  vkf_text_ranges_finish(&ranges);
  return st;
}

static vkf_status load_split(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_pattern(loader, json, &step->pattern));
  VKF_CALL(load_behavior(loader, json, NULL, step));
  return vkf_text_load_bool(loader, json, "invert", false, &step->u.split.invert);
}

static vkf_status split(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  return cut_pattern(step, text, step->u.split.behavior, step->u.split.invert, first, out);
}

static vkf_status load_delimiter(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_status st = vkf_text_load_char(loader, json, "delimiter", &step->content);
  if (st == VKF_OK) st = vkf_text_load_literal(loader, step->content, &step->pattern);
  step->u.split.behavior = VKF_TEXT_REMOVED;
  return st;
}

static vkf_status load_byte_level(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  bool use_regex;
  VKF_CALL(vkf_text_load_bool(loader, json, "add_prefix_space", true, &step->u.bytes.prefix_space));
  VKF_CALL(vkf_text_load_bool(loader, json, "use_regex", true, &use_regex));
  if (use_regex)
    VKF_CALL(vkf_text_load_regex(loader, (vkf_text_string){GPT2_REGEX, sizeof(GPT2_REGEX) - 1}, &step->pattern));
  return VKF_OK;
}

static vkf_status byte_level(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  vkf_status st = VKF_OK;
  vkf_text whole, chars;
  vkf_text_pieces words;
  vkf_text_init(&whole, step->env);
  vkf_text_init(&chars, step->env);
  vkf_text_pieces_init(&words, step->env);
  if (step->u.bytes.prefix_space && text.size > 0 && text.data[0] != ' ') vkf_text_append(&whole, " ", 1);
  vkf_text_append(&whole, text.data, text.size);
  VKF_TRY(vkf_text_status(&whole));
  text = (vkf_text_string){whole.data, whole.size};
  if (step->pattern != NULL)
    VKF_TRY(cut_pattern(step, text, VKF_TEXT_ISOLATED, false, first, &words));
  else
    vkf_text_pieces_push(&words, text, -1, first);
  VKF_TRY(vkf_text_status(&words.bytes));
  for (size_t i = 0; i < words.n; i++) {
    vkf_text_string word = vkf_text_pieces_get(&words, i);
    chars.size = 0;
    for (size_t k = 0; k < word.size; k++) vkf_text_append_char(&chars, vkf_text_byte_to_char((uint8_t)word.data[k]));
    VKF_TRY(vkf_text_status(&chars));
    vkf_text_pieces_push(out, (vkf_text_string){chars.data, chars.size}, -1, words.at[i].first);
  }
done:
  vkf_text_pieces_finish(&words);
  vkf_text_finish(&chars);
  vkf_text_finish(&whole);
  return st;
}

static vkf_status load_metaspace(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_metaspace(loader, json, step));
  return vkf_text_load_literal(loader, step->content, &step->pattern);
}

static vkf_status metaspace(const vkf_text_step *step, vkf_text_string text, bool first, vkf_text_pieces *out) {
  vkf_status st = VKF_OK;
  vkf_text_string mark = step->content;
  vkf_text whole;
  vkf_text_init(&whole, step->env);
  bool marked = text.data[0] == ' ' || (text.size >= mark.size && memcmp(text.data, mark.data, mark.size) == 0);
  bool wanted = step->u.metaspace.prepend == VKF_TEXT_PREPEND_ALWAYS ||
                (step->u.metaspace.prepend == VKF_TEXT_PREPEND_FIRST && first);
  if (wanted && !marked) vkf_text_append(&whole, mark.data, mark.size);
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] == ' ')
      vkf_text_append(&whole, mark.data, mark.size);
    else
      vkf_text_append(&whole, text.data + i, 1);
  }
  VKF_TRY(vkf_text_status(&whole));
  text = (vkf_text_string){whole.data, whole.size};
  if (step->u.metaspace.split)
    VKF_TRY(cut_pattern(step, text, VKF_TEXT_MERGED_WITH_NEXT, false, first, out));
  else
    vkf_text_pieces_push(out, text, -1, first);
done:
  vkf_text_finish(&whole);
  return st;
}

static const vkf_text_kind KINDS[] = {
    {.type = "ByteLevel", .load = load_byte_level, .split = byte_level},
    {.type = "Metaspace", .load = load_metaspace, .split = metaspace},
    {.type = "BertPreTokenizer", .split = bert},
    {.type = "Whitespace", .split = whitespace},
    {.type = "WhitespaceSplit", .split = whitespace_split},
    {.type = "Split", .load = load_split, .split = split},
    {.type = "CharDelimiterSplit", .load = load_delimiter, .split = split},
    {.type = "Digits", .load = load_digits, .split = digits},
    {.type = "Punctuation", .load = load_punctuation, .split = punctuation},
};

vkf_status vkf_text_load_pretokenizers(vkf_text_loader *loader, const json_t *json, vkf_text_step **out) {
  return vkf_text_load_steps(loader, "pre-tokenizer", "pretokenizers", KINDS, VKF_COUNT(KINDS), json, out);
}

vkf_status vkf_text_pretokenize(const vkf_text_step *steps, vkf_text_pieces *pieces) {
  vkf_status st = VKF_OK;
  vkf_text_pieces next;
  vkf_text_pieces_init(&next, pieces->bytes.env);
  for (; steps != NULL; steps = steps->next) {
    vkf_text_pieces_clear(&next);
    for (size_t i = 0; i < pieces->n; i++) {
      vkf_text_piece piece = pieces->at[i];
      vkf_text_string text = vkf_text_pieces_get(pieces, i);
      if (piece.id >= 0)
        vkf_text_pieces_push(&next, text, piece.id, piece.first);
      else if (piece.size > 0)
        VKF_TRY(steps->kind->split(steps, text, piece.first, &next));
    }
    VKF_TRY(vkf_text_status(&next.bytes));
    vkf_text_pieces swap = *pieces;
    *pieces = next;
    next = swap;
  }
done:
  vkf_text_pieces_finish(&next);
  return st;
}
