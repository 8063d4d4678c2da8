/* pattern: literal texts and regular expressions.
 *
 * tokenizer.json has regular expressions in Oniguruma's Ruby syntax; PCRE2 runs them. The two agree on most of what
 * such files use; translate() rewrites the rest (\s, \w, \v, \uHHHH, {,n}, (?i), scripts, [:alpha:]) and refuses what
 * PCRE2 would read as something else (\h, \b, nested classes, && in a class, the flags m and s). Texts are well-formed
 * UTF-8.
 *
 * Oniguruma itself was tried. Debian's shared library exports POSIX names (regcomp, regexec), which replace libc's in
 * Mesa's drivers; under AddressSanitizer a process then hangs while it creates the Vulkan instance.
 */
#include "text/internal.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct vkf_text_pattern {
  vkf_env *env;
  vkf_text_string literal; /* used if code is NULL */
  pcre2_general_context *general;
  pcre2_code *code;
  pcre2_match_data *match;
};

static void *allocate(size_t size, void *user) {
  return vkf_env_realloc(user, NULL, size, 1);
}

static void release(void *memory, void *user) {
  vkf_env_free(user, memory);
}

/* ---- Oniguruma's syntax to PCRE2's ------------------------------------------------------------------------------- */

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Outside a class Oniguruma's \w also has these numeric characters below U+0100. */
#define WORD_ALONE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* Everything but white space, controls, surrogates and unassigned characters. */
#define GRAPH "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"

/* Returns whether NAME is a script: only then PCRE2 compiles \p{sc:NAME}. */
static bool is_script(const char *name, size_t n) {
  char regex[64];
  int error = 0;
  PCRE2_SIZE offset = 0;
  snprintf(regex, sizeof regex, "\\p{sc:%.*s}", (int)VKF_MIN(n, 40u), name);
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &offset, NULL);
  pcre2_code_free(code);
  return code != NULL;
}

/* Translates \p{NAME}, \p{^NAME} and \P{NAME}. The name of a script alone means the script to Oniguruma, but to PCRE2
 * the script with its extensions, such as the punctuation of Han. PCRE2 lacks the long names of categories. Returns how
 * many characters it took; 0: it is none of these. */
static size_t translate_property(vkf_text_string text, size_t at, vkf_text *out) {
  static const char *const categories[][2] = {{"Letter", "L"},      {"Mark", "M"},   {"Number", "N"},
                                              {"Punctuation", "P"}, {"Symbol", "S"}, {"Separator", "Z"},
                                              {"Other", "C"}};
  size_t from = at + 2, to = from;
  if (text.size - at < 4 || text.data[at + 1] != '{') return 0;
  if (text.data[from] == '^') to = ++from;
  while (to < text.size && text.data[to] != '}') to++;
  if (to == text.size) return 0;
  const char *name = text.data + from, *scope = is_script(name, to - from) ? "sc:" : "";
  size_t n = to - from;
  for (size_t i = 0; i < VKF_COUNT(categories); i++)
    if (n == strlen(categories[i][0]) && !memcmp(name, categories[i][0], n)) name = categories[i][1], n = 1;
  vkf_text_printf(out, "\\%c{%s%s%.*s}", text.data[at], from > at + 2 ? "^" : "", scope, (int)n, name);
  return to + 1 - at;
}

/* Returns what Oniguruma means by a POSIX class inside brackets, [:name:]; NULL: the same as in PCRE2. */
static const char *posix_class(const char *name, size_t n) {
  static const char *const classes[][2] = {{"[:alpha:]", "\\p{Alphabetic}"}, {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
                                           {"[:blank:]", "\\p{Zs}\\t"},      {"[:lower:]", "\\p{Lowercase}"},
                                           {"[:punct:]", "\\p{P}\\p{S}"},    {"[:space:]", "\\p{White_Space}"},
                                           {"[:upper:]", "\\p{Uppercase}"},  {"[:word:]", WORD},
                                           {"[:xdigit:]", "0-9A-Fa-f"},      {"[:graph:]", GRAPH},
                                           {"[:print:]", GRAPH "\\p{Zs}"}};
  for (size_t i = 0; i < VKF_COUNT(classes); i++)
    if (n == strlen(classes[i][0]) && !memcmp(name, classes[i][0], n)) return classes[i][1];
  return NULL;
}

/* Translates an escape; text.data[at] is the character after the backslash. Returns how many characters it took; 0: it
 * is refused. */
static size_t translate_escape(vkf_text_string text, size_t at, bool in_class, vkf_text *out) {
  char c = text.data[at];
  switch (c) {
    case 's':
      vkf_text_printf(out, "\\p{White_Space}");
      return 1;
    case 'S':
      vkf_text_printf(out, "\\P{White_Space}");
      return 1;
    case 'v':
      vkf_text_printf(out, "\\x0b");
      return 1;
    case 'w':
      vkf_text_printf(out, in_class ? WORD : "[" WORD_ALONE "]");
      return 1;
    case 'W':
      if (in_class) return 0;
      vkf_text_printf(out, "[^" WORD_ALONE "]");
      return 1;
    case 'u': {
      if (text.size - at < 5) return 0;
      vkf_text_printf(out, "\\x{%.4s}", text.data + at + 1);
      return 5;
    }
    case 'p':
    case 'P': {
      const size_t n = translate_property(text, at, out);
      if (n > 0) return n;
    } /* fall through */
    default:
      if (strchr("hHbByYKGQENOgkCRX", c) != NULL) return 0;
      vkf_text_append(out, "\\", 1);
      vkf_text_append(out, &c, 1);
      return 1;
  }
}

/* Copies {n,m}, turns {,m} into {0,m} and refuses {n,m}+, which repeats in Oniguruma and is possessive in PCRE2. */
static bool translate_brace(vkf_text_string text, size_t *at, vkf_text *out) {
  size_t i = *at + 1;
  while (i < text.size && ((text.data[i] >= '0' && text.data[i] <= '9') || text.data[i] == ',')) i++;
  bool interval = i < text.size && text.data[i] == '}' && i > *at + 1;
  if (interval && i + 1 < text.size && text.data[i + 1] == '+') return false;
  vkf_text_append(out, "{", 1);
  if (interval && text.data[*at + 1] == ',') vkf_text_append(out, "0", 1);
  ++*at;
  return true;
}

/* Returns false if (?flags) or (?flags:...) has m, which means another thing in PCRE2, or s, which Ruby lacks. */
static bool flags_are_known(vkf_text_string text, size_t at) {
  if (text.size - at < 3 || text.data[at + 1] != '?') return true;
  for (size_t i = at + 2; i < text.size; i++) {
    char c = text.data[i];
    if (c == 'm' || c == 's') return false;
    if (c != 'i' && c != 'x' && c != '-') return true;
  }
  return true;
}

enum { MAX_DEPTH = 64 /* of groups */ };

/* Returns the length of (?i) or (?-i) at `at`; 0: something else is there. */
static size_t flags_alone(vkf_text_string text, size_t at) {
  size_t n = 2;
  if (text.size - at < 4 || text.data[at + 1] != '?') return 0;
  while (at + n < text.size && strchr("i-", text.data[at + n]) != NULL) n++;
  return n > 2 && at + n < text.size && text.data[at + n] == ')' ? n + 1 : 0;
}

typedef struct translation {
  vkf_text_string text;
  size_t at; /* of the current character */
  vkf_text *out;
  bool in_class;
  size_t depth;                    /* of groups */
  uint32_t n_flags[MAX_DEPTH + 1]; /* groups opened for flags, which end with the group of each depth */
} translation;

/* Returns the next character; 0: the end. */
static char next_of(const translation *t) {
  return t->at + 1 < t->text.size ? t->text.data[t->at + 1] : 0;
}

static void copy(translation *t, size_t n) {
  vkf_text_append(t->out, t->text.data + t->at, n);
  t->at += n;
}

static void end_flags(translation *t) {
  for (; t->n_flags[t->depth] > 0; t->n_flags[t->depth]--) vkf_text_append(t->out, ")", 1);
}

/* Translates what comes next inside [ and ]. Returns NULL, or what is not supported. */
static const char *translate_in_class(translation *t) {
  const char *at = t->text.data + t->at;
  size_t n = 1;
  if (*at == '&' && next_of(t) == '&') return "an intersection of classes";
  if (*at == '[' && next_of(t) != ':') return "a class within a class";
  if (*at == '[') { /* [:name:] */
    while (t->at + n < t->text.size && at[n] != ']') n++;
    if (t->at + n < t->text.size) n++;
    const char *class = posix_class(at, n);
    if (class != NULL) {
      vkf_text_printf(t->out, "%s", class);
      t->at += n;
      return NULL;
    }
  }
  if (*at == ']') t->in_class = false;
  copy(t, n);
  return NULL;
}

/* The same for the beginning of a group, or flags alone. */
static const char *open_group(translation *t) {
  if (!flags_are_known(t->text, t->at)) return "the flag m or s";
  /* In a(?i)b|c the flag holds to the end of the group around it, as in a(?i:b|c). */
  const size_t n_alone = flags_alone(t->text, t->at);
  if (n_alone > 0) {
    vkf_text_printf(t->out, "%.*s:", (int)n_alone - 1, t->text.data + t->at);
    t->n_flags[t->depth]++;
    t->at += n_alone;
    return NULL;
  }
  if (t->depth == MAX_DEPTH) return "a group of this depth";
  t->n_flags[++t->depth] = 0;
  copy(t, 1);
  return NULL;
}

/* The same outside of classes. */
static const char *translate_outside(translation *t) {
  size_t n = 1;
  switch (t->text.data[t->at]) {
    case '(':
      return open_group(t);
    case ')':
      end_flags(t);
      t->depth -= t->depth > 0;
      break;
    case '{':
      return translate_brace(t->text, &t->at, t->out) ? NULL : "an interval with a plus after it";
    case '[':
      t->in_class = true;
      if (next_of(t) == '^') n++;
      break;
    default:
      break;
  }
  copy(t, n);
  return NULL;
}

/* Translates a regular expression. Returns NULL, or what is not supported. */
static const char *translate(vkf_text_string text, vkf_text *out) {
  translation t = {.text = text, .out = out};
  while (t.at < text.size) {
    const char *why = NULL;
    if (text.data[t.at] == '\\' && t.at + 1 < text.size) {
      const size_t n = translate_escape(text, t.at + 1, t.in_class, out);
      if (n == 0) why = "an escape";
      t.at += 1 + n;
    } else {
      why = t.in_class ? translate_in_class(&t) : translate_outside(&t);
    }
    if (why != NULL) return why;
  }
  end_flags(&t);
  return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static vkf_status compile(vkf_text_pattern *pattern, vkf_text_string text) {
  vkf_status st = VKF_OK;
  vkf_env *env = pattern->env;
  vkf_text regex;
  vkf_text_init(&regex, env);
  const char *why = translate(text, &regex);
  if (why != NULL)
    VKF_FAIL(env, VKF_ERROR_UNSUPPORTED, "the regular expression \"%.200s\" has %s that is not supported", text.data,
             why);
  VKF_TRY(vkf_text_status(&regex));

  pattern->general = pcre2_general_context_create(allocate, release, env);
  pcre2_compile_context *context = pattern->general == NULL ? NULL : pcre2_compile_context_create(pattern->general);
  if (context == NULL) VKF_FAIL(env, VKF_ERROR_MEMORY, "out of host memory for a regular expression");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pattern->code =
      pcre2_compile((PCRE2_SPTR)(regex.data != NULL ? regex.data : ""), regex.size,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (pattern->code == NULL) {
    if (error == PCRE2_ERROR_HEAP_FAILED || env->first == VKF_ERROR_MEMORY)
      VKF_FAIL(env, VKF_ERROR_MEMORY, "out of host memory for a regular expression");
    char words[160] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)words, sizeof(words));
    VKF_FAIL(env, VKF_ERROR_UNSUPPORTED, "the regular expression \"%.200s\" is not supported: %s", text.data, words);
  }
  pattern->match = pcre2_match_data_create_from_pattern(pattern->code, pattern->general);
  if (pattern->match == NULL) VKF_FAIL(env, VKF_ERROR_MEMORY, "out of host memory for a regular expression");
done:
  vkf_text_finish(&regex);
  return st;
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
  pcre2_match_data_free(pattern->match);
  pcre2_code_free(pattern->code);
  pcre2_general_context_free(pattern->general);
  pattern->match = NULL;
  pattern->code = NULL;
  pattern->general = NULL;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

static vkf_status match_error(vkf_text_pattern *pattern, int error) {
  if (error == PCRE2_ERROR_NOMEMORY)
    return vkf_env_fail(pattern->env, VKF_ERROR_MEMORY, "out of host memory for a match");
  char words[160] = "";
  pcre2_get_error_message(error, (PCRE2_UCHAR *)words, sizeof(words));
  return vkf_env_fail(pattern->env, VKF_ERROR_ARGUMENT,
                      "a regular expression of the tokenizer gives up on this text: %s", words);
}

/* Finds the first match at or after `from`; *start = SIZE_MAX: there is none. */
static vkf_status find(vkf_text_pattern *pattern, vkf_text_string text, size_t from, size_t *start, size_t *end) {
  *start = SIZE_MAX;
  if (pattern->code == NULL) {
    vkf_text_string want = pattern->literal;
    for (size_t i = from; want.size <= text.size && i <= text.size - want.size; i++) {
      if (want.size > 0 && memcmp(text.data + i, want.data, want.size) != 0) continue;
      *start = i;
      *end = i + want.size;
      break;
    }
    return VKF_OK;
  }
  int n = pcre2_match(pattern->code, (PCRE2_SPTR)text.data, text.size, from, PCRE2_NO_UTF_CHECK, pattern->match, NULL);
  if (n == PCRE2_ERROR_NOMATCH) return VKF_OK;
  if (n < 0) return match_error(pattern, n);
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(pattern->match);
  *start = ends[0];
  *end = ends[1];
  return VKF_OK;
}

vkf_status vkf_text_pattern_ranges(vkf_text_pattern *pattern, vkf_text_string text, vkf_text_ranges *out) {
  size_t between = 0, from = 0, last_end = SIZE_MAX;
  while (from <= text.size && text.size > 0) {
    size_t start, end = 0;
    VKF_CALL(find(pattern, text, from, &start, &end));
    if (start == SIZE_MAX) break;
    /* An empty match right behind a match does not count: go on behind the next character. */
    if (start == end && end == last_end) {
      if (from == text.size) break;
      vkf_text_char_at(text, from, &from);
      continue;
    }
    if (between < start) VKF_CALL(vkf_text_ranges_push(out, between, start, false));
    VKF_CALL(vkf_text_ranges_push(out, start, end, true));
    between = from = last_end = end;
  }
  if (between < text.size) VKF_CALL(vkf_text_ranges_push(out, between, text.size, false));
  return VKF_OK;
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
