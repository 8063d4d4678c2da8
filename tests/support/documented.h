/* Checks the keys of the program's JSON: each must be in docs/json.md, in backquotes, or be a field or a word of the
 * public headers, to which that page points.
 */
#ifndef VKF_TESTS_SUPPORT_DOCUMENTED_H
#define VKF_TESTS_SUPPORT_DOCUMENTED_H

#include <ctype.h>

#include <jansson.h>

#include "support/headers.h"
#include "support/program.h"
#include "support/range.h"

static inline char *documented_text(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_between(fread(text, 1, (1 << 20) - 1, file), 100, (1 << 20) - 2);
  fclose(file);
  return text;
}

static inline int documented_word(const char *text, const char *word) {
  const size_t n = strlen(word);
  for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
    if (!isalnum((unsigned char)at[-1]) && at[-1] != '_' && !isalnum((unsigned char)at[n]) && at[n] != '_') return 1;
  return 0;
}

/* Returns whether any of the public headers has the word. */
static inline int documented_name(char *const *headers, const char *word) {
  for (int i = 0; i < N_PUBLIC_HEADERS; i++)
    if (documented_word(headers[i], word)) return 1;
  return 0;
}

static inline size_t documented_keys(const json_t *json, const char *page, char *const *headers) {
  size_t n = 0, i;
  const char *key;
  json_t *value;
  if (json_is_object(json)) {
    json_object_foreach((json_t *)json, key, value) {
      char quoted[80], feature[80];
      snprintf(quoted, sizeof quoted, "`%s`", key);
      snprintf(feature, sizeof feature, "has_%s", key); /* those of a device */
      if (!strstr(page, quoted) && !documented_name(headers, key) && !documented_name(headers, feature))
        fail_msg("expected the key \"%s\" in docs/json.md, found none", key);
      n++;
      if (strcmp(key, "statistics") != 0) n += documented_keys(value, page, headers); /* those are a driver's names */
    }
  }
  json_array_foreach((json_t *)json, i, value) {
    n += documented_keys(value, page, headers);
  }
  return n;
}

/* Checks what the last command printed: one document, or the first line of several. */
static inline void program_must_be_documented(void) {
  json_t *root = json_loads(program_out, JSON_DISABLE_EOF_CHECK, NULL);
  char *page = documented_text(VKF_SOURCE_DIR "/docs/json.md"), *headers[N_PUBLIC_HEADERS];
  char section[80];
  for (int i = 0; i < N_PUBLIC_HEADERS; i++) headers[i] = documented_text(public_headers[i]);
  if (!json_is_object(root) || !json_is_string(json_object_get(root, "format")))
    fail_msg("expected JSON with a format, found\n%s", program_out);
  snprintf(section, sizeof section, "%s", json_string_value(json_object_get(root, "format")));
  if (!strstr(page, section)) fail_msg("expected %s in docs/json.md, found none", section);
  assert_true(documented_keys(root, page, headers) > 1);
  json_decref(root);
  free(page);
  for (int i = 0; i < N_PUBLIC_HEADERS; i++) free(headers[i]);
}

#endif
