/* texts: checks and mends UTF-8 that users give, and measures how wide it is on a terminal. The rules are utf8proc's.
 */
#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "lines.h"

int tool_copy(const char *text, char **out) {
  *out = strdup(text);
  return *out ? TOOL_OK : tool_error("out of memory");
}

static utf8proc_ssize_t decode(const char *text, size_t size, utf8proc_int32_t *code) {
  return utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, code);
}

/* Returns the offset of the first byte that is zero or not UTF-8, or `size`. */
static size_t fault_at(const char *text, size_t size) {
  size_t at = 0;
  utf8proc_int32_t code;
  while (at < size) {
    utf8proc_ssize_t n = decode(text + at, size - at, &code);
    if (n <= 0 || code == 0) break;
    at += (size_t)n;
  }
  return at;
}

bool tool_utf8_reason(const char *text, size_t size, char *reason, size_t capacity) {
  const size_t bad = fault_at(text, size);
  if (bad == size) return false;
  if (bad == 0 && size > 1 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
    snprintf(reason, capacity, "expected UTF-8, found UTF-16: `iconv -f UTF-16 -t UTF-8` converts a file");
  else if (text[bad])
    snprintf(reason, capacity, "expected UTF-8, found the byte 0x%02x after %zu bytes", (unsigned char)text[bad], bad);
  else
    snprintf(reason, capacity, "expected text, found a zero byte after %zu bytes", bad);
  return true;
}

char *tool_utf8_mend(const char *text, size_t size) {
  static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
  char *out = malloc(3 * size + 1);
  size_t n = 0;
  for (size_t at = 0; out && at < size;) {
    size_t good = fault_at(text + at, size - at);
    memcpy(out + n, text + at, good);
    n += good;
    at += good;
    if (at == size) break;
    memcpy(out + n, replacement, 3);
    n += 3;
    at++;
  }
  if (out) out[n] = 0;
  return out;
}

bool tool_pair_reason(const char *text, char *reason, size_t capacity) {
  size_t n_tabs = 0;
  for (const char *at = text; (at = strchr(at, '\t')) != NULL; at++) n_tabs++;
  if (n_tabs == 1) return false;
  snprintf(reason, capacity, "expected two texts with a tab between them, found %zu tabs", n_tabs);
  return true;
}

bool tool_pairs_part(tool_pairs *pairs, const char *const *texts, size_t n) {
  size_t size = 0, at = 0;
  for (size_t i = 0; i < n; i++) size += strlen(texts[i]) + 1;
  *pairs = (tool_pairs){calloc(n, sizeof *pairs->first), calloc(n, sizeof *pairs->second), malloc(size + 1)};
  if (!pairs->first || !pairs->second || !pairs->bytes) return false;
  for (size_t i = 0; i < n; i++) {
    char *copy = strcpy(pairs->bytes + at, texts[i]), *tab = strchr(copy, '\t');
    at += strlen(texts[i]) + 1;
    pairs->first[i] = copy;
    pairs->second[i] = tab ? tab + 1 : "";
    if (tab) *tab = 0;
  }
  return true;
}

void tool_pairs_finish(tool_pairs *pairs) {
  free(pairs->first);
  free(pairs->second);
  free(pairs->bytes);
}

bool tool_is_blank(const char *text) {
  while (isspace((unsigned char)*text)) text++;
  return *text == 0;
}

int tool_columns(const char *text) {
  size_t size = strlen(text), at = 0;
  int columns = 0;
  utf8proc_int32_t code;
  while (at < size) {
    utf8proc_ssize_t n = decode(text + at, size - at, &code);
    columns += n > 0 ? utf8proc_charwidth(code) : 1;
    at += n > 0 ? (size_t)n : 1;
  }
  return columns;
}

void tool_append_word(char *text, size_t size, const char *word) {
  size_t n = strlen(text);
  const bool plain = word[strcspn(word, " \t\n;|&<>()$`\"'*?~#\\[]{}!")] == 0 && word[0];
  n += (size_t)snprintf(text + n, size - n, plain ? " %s" : " '", word);
  for (const char *c = word; !plain && *c && n + 8 < size; c++)
    n += (size_t)snprintf(text + n, size - n, *c == '\'' ? "'\\''" : "%c", *c);
  if (!plain && n + 2 < size) snprintf(text + n, size - n, "'");
}

bool tool_ends_with(const char *name, const char *end) {
  const size_t n = strlen(name), m = strlen(end);
  return n > m && strcmp(name + n - m, end) == 0;
}

const char *tool_packing(const char *bytes, size_t n) {
  if (n >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0) return "gzip";
  if (n >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0) return "zstd";
  return n >= 5 && memcmp(bytes, "\xfd\x37zXZ", 5) == 0 ? "xz" : NULL;
}

const char *tool_without_bom(const char *text) {
  return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

void tool_drop_bom(const char **text, size_t *size) {
  const char *after = tool_without_bom(*text);
  *size -= (size_t)(after - *text);
  *text = after;
}
