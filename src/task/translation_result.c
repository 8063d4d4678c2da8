/* translation_result: makes the result of a group: see translation.h.
 *
 * An unknown token of a translation is replaced by the source word that it attends to most. Tokenizers do not say where
 * a token is in its text, so longer and longer prefixes of the text are tokenized until one contains the token.
 */
#include "task/translation.h"

#include <ctype.h>
#include <string.h>

/* ---- unknown tokens ---------------------------------------------------------------------------------------------- */

/* *bytes: length of the shortest prefix of the part's text whose ids begin with the part's first n ids. */
static vkf_status beginning_with(const vkf_parts *p, const vkf_part *part, size_t n, size_t *bytes) {
  vkf_status st = VKF_OK;
  vkf_text_ids ids;
  vkf_text_ids_init(&ids, p->session->env);
  for (*bytes = 0; *bytes < part->size; ++*bytes) {
    if (((unsigned char)part->start[*bytes] & 0xC0) == 0x80) continue; /* inside a character */
    ids.n = 0;
    VKF_TRY(vkf_task_part_ids(p, part->start, *bytes, &ids));
    if (ids.n >= n && !memcmp(ids.ids, part->ids, n * sizeof *ids.ids)) break;
  }
done:
  vkf_text_ids_finish(&ids);
  return st;
}

static bool is_of_word(char c) {
  return !isspace((unsigned char)c) && (!ispunct((unsigned char)c) || c == '-');
}

/* Finds the word, or punctuation mark, of the part's text that contains token `at`. *size 0: the token has no text. */
static vkf_status word_of(const vkf_parts *p, const vkf_part *part, size_t at, const char **word, size_t *size) {
  const char *text = part->start;
  size_t end = 0;
  VKF_CALL(beginning_with(p, part, at + 1, &end)); /* the prefix ends with a character of the token */
  size_t begin = end > 0 && !vkf_task_is_space(text[end - 1]) ? end - 1 : end;
  if (begin < end && is_of_word(text[begin])) {
    while (begin > 0 && is_of_word(text[begin - 1])) begin--;
    while (end < part->size && is_of_word(text[end])) end++;
  }
  *word = text + begin;
  *size = end - begin;
  return VKF_OK;
}

/* Returns the source token that token `at` of a target attends to most, special ones left out; n_source: none. */
static size_t most_looked_at(const vkf_text_tokenizer *tokenizer, const vkf_part *part, const vkf_task_sequence *target,
                             size_t at) {
  const int32_t unknown = vkf_text_tokenizer_special(tokenizer).unk;
  const float *weights = target->alignment + at * target->n_source;
  size_t best = target->n_source;
  for (size_t s = 0; s < target->n_source; s++) {
    if (part->ids[s] != unknown && vkf_text_tokenizer_is_special(tokenizer, part->ids[s])) continue;
    if (best == target->n_source || weights[s] > weights[best]) best = s;
  }
  return best;
}

/* Appends the text of a target. The caller has locked the tokenizer and set its languages. */
static vkf_status replace_unknowns(vkf_text_tokenizer *tokenizer, const vkf_sentence *s,
                                   const vkf_task_sequence *target, vkf_text *out) {
  vkf_status st = VKF_OK;
  const int32_t unknown = vkf_text_tokenizer_special(tokenizer).unk;
  vkf_text_stream *stream = NULL;
  VKF_TRY(vkf_text_stream_create(tokenizer, true, &stream));
  for (size_t i = 0; i < target->n; i++) {
    const bool is_unknown = target->ids[i] == unknown && i >= target->n - target->n_new;
    const size_t at = is_unknown ? most_looked_at(tokenizer, s->part, target, i) : target->n_source;
    const char *word = NULL;
    size_t size = 0;
    if (at < target->n_source) VKF_TRY(word_of(&s->group->parts, s->part, at, &word, &size));
    VKF_TRY(size ? vkf_text_stream_add_word(stream, word, size, out)
                 : vkf_text_stream_add(stream, target->ids[i], out));
  }
  VKF_TRY(vkf_text_stream_rest(stream, out));
done:
  vkf_text_stream_destroy(&stream);
  return st;
}

static vkf_status decode(const vkf_translator *t, const vkf_sentence *s, const vkf_task_sequence *target,
                         vkf_text *out) {
  vkf_text_languages_before before;
  int32_t begin;
  if (!t->params.replace_unknowns) return vkf_engine_decode_ids(t->session, target->ids, target->n, true, out);
  vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&t->session->tokenizer);
  vkf_status st =
      vkf_text_languages_use(tokenizer, t->params.source_language, t->params.target_language, &before, &begin);
  if (!st) {
    st = replace_unknowns(tokenizer, s, target, out);
    vkf_text_languages_restore(tokenizer, &before);
  }
  vkf_engine_tokenizer_unlock(&t->session->tokenizer);
  return st;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Returns the text without white space at its ends, which tokenizers leave there. Cuts the end off in place. */
static const char *trim(char *text, size_t size) {
  static const char spaces[] = " \t\r\n\v\f";
  while (size > 0 && strchr(spaces, text[size - 1])) size--;
  text[size] = 0;
  return text + strspn(text, spaces);
}

/* Joins translation `row` of a text's sentences [n], with a space where the text had white space. "": it is absent. */
static vkf_status join_parts(const vkf_translator *t, const vkf_sentence *s, size_t n, size_t row, vkf_text *part,
                             vkf_text *whole) {
  bool is_absent = false;
  whole->size = 0;
  for (size_t i = 0; i < n; i++) is_absent |= vkf_task_sequence_is_absent(&s[i].targets[row]);
  for (; n > 0 && !is_absent; n--, s++) {
    part->size = 0;
    VKF_CALL(decode(t, s, &s->targets[row], part));
    VKF_CALL(vkf_text_end(part));
    const char *trimmed = trim(part->data, part->size);
    if (whole->size > 0 && s->part->spaced) vkf_text_append(whole, " ", 1);
    vkf_text_append(whole, trimmed, strlen(trimmed));
  }
  return vkf_text_end(whole);
}

static vkf_status add_texts(const vkf_translator *t, const vkf_text_group *g, vkf_result *result) {
  vkf_status st = VKF_OK;
  vkf_text part, whole;
  vkf_text_init(&part, t->session->env);
  vkf_text_init(&whole, t->session->env);
  for (size_t i = 0, first = 0, end; i < g->parts.n_texts; i++, first = end) {
    for (end = first; end < g->n && g->sentences[end].part->text == i;) end++;
    for (size_t row = 0; row < t->each; row++) {
      VKF_TRY(join_parts(t, &g->sentences[first], end - first, row, &part, &whole));
      VKF_TRY(vkf_engine_result_add_text(result, whole.data));
    }
  }
  VKF_TRY(vkf_task_parts_report(&g->parts, result));
done:
  vkf_text_finish(&whole);
  vkf_text_finish(&part);
  return st;
}

static vkf_status add_results(const vkf_translator *t, const vkf_text_group *g, vkf_result *result) {
  const size_t rows = g->n * t->each;
  const int32_t pad = t->config.pad == VKF_NO_TOKEN ? 0 : t->config.pad;
  void *data = NULL;
  VKF_CALL(
      vkf_task_sequences_add(g->targets, rows, pad, vkf_decode_search_scores(&t->config, t->params.scores), 0, result));
  if (t->params.alignments) VKF_CALL(vkf_task_sequences_add_alignments(g->targets, rows, result));
  VKF_CALL(vkf_engine_result_add(result, "texts", VKF_I32, 1, &rows, &data));
  for (size_t i = 0; i < rows; i++) ((int32_t *)data)[i] = (int32_t)g->sentences[i / t->each].part->text;
  VKF_CALL(vkf_engine_result_add(result, "n_tokens", VKF_I32, 1, &g->parts.n_texts, &data));
  for (size_t i = 0; i < g->n; i++) ((int32_t *)data)[g->sentences[i].part->text] += (int32_t)g->sentences[i].part->n;
  VKF_CALL(vkf_engine_result_add(result, "cut", VKF_I32, 1, &g->parts.n_texts, &data));
  for (size_t i = 0; i < g->n; i++) ((int32_t *)data)[g->sentences[i].part->text] |= g->sentences[i].part->is_cut;
  return add_texts(t, g, result);
}

vkf_status vkf_task_translation_result(const vkf_translator *t, const vkf_text_group *g, vkf_result **out) {
  vkf_status st = VKF_OK;
  VKF_TRY(vkf_engine_result_create(t->session->env, out));
  VKF_TRY(add_results(t, g, *out));
done:
  if (st) vkf_engine_result_destroy(out);
  return st;
}
