/* cut: finds where to cut a text that is too long.
 *
 * A part must be tokenized to know how many tokens it has. So the longest part that fits is found by doubling and then
 * bisection: cutting a text of a megabyte costs its length times the logarithm of a part's length.
 */
#include <string.h>

#include "task/parts.h"

bool vkf_task_is_space(char c) {
  return c != 0 && strchr(" \t\r\n\v\f", c) != NULL;
}

bool vkf_task_is_blank(const char *text) {
  while (vkf_task_is_space(*text)) text++;
  return *text == 0;
}

vkf_status vkf_task_part_ids(const vkf_parts *p, const char *text, size_t n, vkf_text_ids *out) {
  vkf_text_tokenizer *tokenizer = p->session->model->tokenizer.text; /* the caller has its lock */
  if (p->rules.are_targets) VKF_CALL(vkf_text_tokenizer_of_targets(tokenizer, &tokenizer));
  if (!p->rules.prefix) return vkf_text_tokenizer_encode(tokenizer, text, n, true, out);
  vkf_text whole;
  vkf_text_init(&whole, p->session->env);
  vkf_text_append(&whole, p->rules.prefix, strlen(p->rules.prefix));
  vkf_text_append(&whole, text, n);
  vkf_status st = vkf_text_status(&whole);
  if (st == VKF_OK) st = vkf_text_tokenizer_encode(tokenizer, whole.data, whole.size, true, out);
  vkf_text_finish(&whole);
  return st;
}

/* Truncates the ids of two texts to `room` together, as the tokenizers library does. */
static void shorten(vkf_text_ids of[2], size_t room, bool from_end) {
  size_t n[2] = {of[0].n, of[1].n};
  const size_t shorter = n[0] <= n[1] ? 0 : 1;
  if (n[0] + n[1] > room) {
    if (2 * n[shorter] > room) n[shorter] = room / 2;
    n[!shorter] = room - n[shorter];
  }
  for (size_t i = 0; i < 2; i++) {
    if (from_end && n[i] > 0) memmove(of[i].ids, of[i].ids + of[i].n - n[i], n[i] * sizeof *of[i].ids);
    of[i].n = n[i];
  }
}

vkf_status vkf_task_pair_ids(vkf_text_tokenizer *tokenizer, const char *const texts[2], bool add_special,
                             size_t max_ids, vkf_text_ids *ids, vkf_text_ids *types) {
  vkf_status st = VKF_OK;
  vkf_text_ids of[2];
  for (size_t i = 0; i < 2; i++) vkf_text_ids_init(&of[i], ids->env);
  VKF_TRY(vkf_text_tokenizer_join(tokenizer, &of[0], &of[1], add_special, ids, types));
  const size_t n_around = ids->n, most = max_ids > 0 ? max_ids : SIZE_MAX;
  ids->n = types->n = 0;
  for (size_t i = 0; i < 2; i++)
    VKF_TRY(vkf_text_tokenizer_encode_most(tokenizer, texts[i], strlen(texts[i]), most, &of[i]));
  if (max_ids) shorten(of, max_ids - VKF_MIN(max_ids, n_around), vkf_text_tokenizer_cuts_left(tokenizer));
  VKF_TRY(vkf_text_tokenizer_join(tokenizer, &of[0], &of[1], add_special, ids, types));
done:
  for (size_t i = 0; i < 2; i++) vkf_text_ids_finish(&of[i]);
  return st;
}

typedef struct cutter {
  const vkf_parts *parts;
  const char *text;
  size_t size, max;
  bool from_end;
  vkf_text_ids ids;
  vkf_status st; /* of the first call that failed */
} cutter;

static const char *part_of(const cutter *c, size_t n) {
  return c->from_end ? c->text + c->size - n : c->text;
}

/* Returns whether the part of n bytes fits. */
static bool fits(cutter *c, size_t n) {
  c->ids.n = 0;
  if (c->st == VKF_OK) c->st = vkf_task_part_ids(c->parts, part_of(c, n), n, &c->ids);
  return c->ids.n <= c->max;
}

static bool begins_character(const char *text, size_t at) {
  return ((unsigned char)text[at] & 0xc0) != 0x80;
}

/* Returns n or a little less, so that the part ends (from_end: begins) where a character does. */
static size_t whole(const cutter *c, size_t n) {
  while (n > 0 && n < c->size && !begins_character(c->text, c->from_end ? c->size - n : n)) n--;
  return n;
}

/* Returns the length of the longest part that fits, in bytes. */
static size_t longest(cutter *c) {
  size_t low = 0, high = whole(c, VKF_MIN(c->max * 8, c->size)); /* 5 bytes or more: twice that is another character */
  while (high < c->size && fits(c, high) && c->st == VKF_OK) {
    low = high;
    high = whole(c, VKF_MIN(2 * high, c->size));
  }
  if (high == c->size && fits(c, high)) return high;
  while (c->st == VKF_OK) {
    size_t middle = whole(c, low + (high - low) / 2);
    for (size_t n = low + 1; middle <= low && n <= high; n++) middle = whole(c, n); /* the next character */
    if (middle >= high) break;
    if (fits(c, middle))
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* ---- sentences and words ----------------------------------------------------------------------------------------- */

/* Returns whether a sentence ends at text[0, n): with its mark, closing quotes and brackets, and white space or the end
 * of the text behind them. The marks of Chinese and Japanese need no white space. */
static bool ends_sentence(const char *text, size_t n) {
  static const char *const marks[] = {".", "!", "?", "\xe2\x80\xa6", "\xd8\x9f", "\xe0\xa5\xa4"}, /* ... ? danda */
      *const wide[] = {"\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x9f"},                           /* ideographic */
          *const closing[] = {"\"", "'", ")", "]", "\xc2\xbb", "\xe2\x80\x9d", "\xe2\x80\x99", "\xe3\x80\x8d"};
  const bool spaced = text[n] == 0 || vkf_task_is_space(text[n]);
  for (size_t i = 0; i < VKF_COUNT(closing); i++) {
    const size_t k = strlen(closing[i]);
    if (n < k || memcmp(text + n - k, closing[i], k) != 0) continue;
    n -= k;
    i = (size_t)-1; /* look for another */
  }
  for (size_t i = 0; i < VKF_COUNT(marks) && spaced; i++)
    if (n >= strlen(marks[i]) && memcmp(text + n - strlen(marks[i]), marks[i], strlen(marks[i])) == 0) return true;
  for (size_t i = 0; i < VKF_COUNT(wide); i++)
    if (n >= 3 && memcmp(text + n - 3, wide[i], 3) == 0) return true;
  return false;
}

/* Returns whether a part may end (from_end: begin) at byte `at`. level: 2 between sentences, 1 between words. */
static bool is_boundary(const cutter *c, size_t at, int level) {
  if (!begins_character(c->text, at)) return false;
  if (level == 2) return ends_sentence(c->text, at);
  return vkf_task_is_space(c->text[c->from_end ? at - 1 : at]);
}

/* Returns whether the part of n bytes has more than white space. */
static bool has_word(const cutter *c, size_t n) {
  const char *text = part_of(c, n);
  for (size_t i = 0; i < n; i++)
    if (!vkf_task_is_space(text[i])) return true;
  return false;
}

vkf_status vkf_task_cut(const vkf_parts *parts, const char *text, bool sentences, bool from_end, size_t *n) {
  cutter c = {.parts = parts, .text = text, .size = strlen(text), .max = parts->rules.max_ids, .from_end = from_end};
  vkf_text_ids_init(&c.ids, parts->session->env);
  const size_t most = longest(&c);
  size_t found = most == c.size ? most : 0;
  for (int level = sentences ? 2 : 1; level > 0 && !found; level--)
    for (size_t part = most; part > 0 && c.st == VKF_OK && !found; part--) {
      if (!is_boundary(&c, from_end ? c.size - part : part, level) || !has_word(&c, part)) continue;
      if (part == most || fits(&c, part)) found = part; /* rarely, a shorter part has more tokens */
    }
  *n = found ? found : most;
  vkf_text_ids_finish(&c.ids);
  return c.st;
}
