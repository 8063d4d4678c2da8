/* pattern: literal texts and regular expressions.
 *
 * tokenizer.json has regular expressions in Oniguruma's Ruby syntax, and Oniguruma runs them, as it does in Hugging
 * Face's tokenizers. Its memory comes from malloc. Texts are well-formed UTF-8.
 */
#include "text/internal.h"

#include <oniguruma.h>
#include <pthread.h>
#include <string.h>

struct vkf_text_pattern {
  vkf_env *env;
  vkf_text_string literal; /* where regex is NULL */
  regex_t *regex;
  OnigRegion *match;
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Oniguruma fills tables of its own while it compiles, so one thread at a time does. */
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;

static vkf_status compile(vkf_text_pattern *pattern, vkf_text_string text) {
  OnigErrorInfo info;
  OnigEncoding utf8 = ONIG_ENCODING_UTF8;
  const UChar *from = (const UChar *)(text.size == 0 ? "" : text.data);
  pthread_mutex_lock(&compiling);
  int error = onig_initialize(&utf8, 1);
  if (error == ONIG_NORMAL)
    error = onig_new(&pattern->regex, from, from + text.size, ONIG_OPTION_NONE, utf8, ONIG_SYNTAX_RUBY, &info);
  pthread_mutex_unlock(&compiling);
  if (error == ONIG_NORMAL && (pattern->match = onig_region_new()) == NULL) error = ONIGERR_MEMORY;
  if (error == ONIG_NORMAL) return VKF_OK;
  if (error == ONIGERR_MEMORY)
    return vkf_env_fail(pattern->env, VKF_ERROR_MEMORY, "out of host memory for a regular expression");
  UChar words[ONIG_MAX_ERROR_MESSAGE_LEN] = "";
  onig_error_code_to_str(words, error, &info);
  return vkf_env_fail(pattern->env, VKF_ERROR_UNSUPPORTED, "the regular expression \"%.200s\" is not supported: %s",
                      text.data, (const char *)words);
}

vkf_status vkf_text_pattern_create(vkf_env *env, vkf_arena *arena, vkf_text_string text, bool is_regex,
                                   vkf_text_pattern **out) {
  vkf_status st = VKF_OK;
  vkf_text_pattern *pattern = vkf_arena_alloc(arena, 1, sizeof(*pattern));
  if (pattern == NULL) return VKF_ERROR_MEMORY;
  pattern->env = env;
  pattern->literal = text;
  if (is_regex) VKF_TRY(compile(pattern, text));
  *out = pattern;
  pattern = NULL;
done:
  vkf_text_pattern_finish(pattern);
  return st;
}

void vkf_text_pattern_finish(vkf_text_pattern *pattern) {
  if (pattern == NULL) return;
  if (pattern->match != NULL) onig_region_free(pattern->match, 1);
  if (pattern->regex != NULL) onig_free(pattern->regex);
  pattern->match = NULL;
  pattern->regex = NULL;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

static vkf_status match_error(vkf_text_pattern *pattern, int error) {
  if (error == ONIGERR_MEMORY) return vkf_env_fail(pattern->env, VKF_ERROR_MEMORY, "out of host memory for a match");
  UChar words[ONIG_MAX_ERROR_MESSAGE_LEN] = "";
  onig_error_code_to_str(words, error);
  return vkf_env_fail(pattern->env, VKF_ERROR_ARGUMENT,
                      "a regular expression of the tokenizer gives up on this text: %s", (const char *)words);
}

/* The first match at or after `from`; *start = SIZE_MAX: none. */
static vkf_status find(vkf_text_pattern *pattern, vkf_text_string text, size_t from, size_t *start, size_t *end) {
  *start = SIZE_MAX;
  if (pattern->regex == NULL) {
    vkf_text_string want = pattern->literal;
    for (size_t i = from; want.size > 0 && want.size <= text.size && i <= text.size - want.size; i++) {
      if (memcmp(text.data + i, want.data, want.size) != 0) continue;
      *start = i;
      *end = i + want.size;
      break;
    }
    return VKF_OK;
  }
  const UChar *begin = (const UChar *)text.data, *behind = begin + text.size;
  int at = onig_search(pattern->regex, begin, behind, begin + from, behind, pattern->match, ONIG_OPTION_NONE);
  if (at == ONIG_MISMATCH) return VKF_OK;
  if (at < 0) return match_error(pattern, at);
  *start = (size_t)pattern->match->beg[0]; /* not `at`: \K moves it */
  *end = (size_t)pattern->match->end[0];
  return VKF_OK;
}

vkf_status vkf_text_pattern_ranges(vkf_text_pattern *pattern, vkf_text_string text, vkf_text_ranges *out) {
  vkf_status st = VKF_OK;
  size_t between = 0, from = 0, last_end = SIZE_MAX;
  while (from <= text.size && text.size > 0) {
    size_t start, end = 0;
    VKF_TRY(find(pattern, text, from, &start, &end));
    if (start == SIZE_MAX) break;
    if (start == end && end == last_end) { /* nothing right behind a match is none: go on behind the next character */
      if (from == text.size) break;
      vkf_text_char_at(text, from, &from);
      continue;
    }
    if (between < start) VKF_TRY(vkf_text_ranges_push(out, between, start, false));
    VKF_TRY(vkf_text_ranges_push(out, start, end, true));
    between = from = last_end = end;
  }
  if (between < text.size) VKF_TRY(vkf_text_ranges_push(out, between, text.size, false));
done:
  return st;
}

vkf_status vkf_text_pattern_replace(vkf_text_pattern *pattern, vkf_text_string text, vkf_text_string content,
                                    vkf_text *out) {
  vkf_status st = VKF_OK;
  vkf_text_ranges ranges;
  vkf_text_ranges_init(&ranges, pattern->env);
  VKF_TRY(vkf_text_pattern_ranges(pattern, text, &ranges));
  for (size_t i = 0; i < ranges.n; i++) {
    vkf_text_range r = ranges.at[i];
    if (r.match)
      vkf_text_append(out, content.data, content.size);
    else
      vkf_text_append(out, text.data + r.start, r.end - r.start);
  }
  VKF_TRY(vkf_text_status(out));
done:
  vkf_text_ranges_finish(&ranges);
  return st;
}
