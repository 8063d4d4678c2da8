/* text: a growing byte string, and two tests of byte strings.
 *
 * Owns its buffer. An append without memory sets `failed`, and later appends do nothing, so a caller may append many
 * times and check once. Invariant: data is NULL before the first append, then data[size] is 0.
 */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

void vkf_text_init(vkf_text *text, vkf_env *env) {
  memset(text, 0, sizeof(*text));
  text->env = env;
}

void vkf_text_finish(vkf_text *text) {
  vkf_env_free(text->env, text->data);
  vkf_text_init(text, text->env);
}

/* Makes room for `size` more bytes and the zero byte; false: there is no memory. */
static bool reserve(vkf_text *text, size_t size) {
  if (text->failed) return false;
  size_t need;
  if (!vkf_size_add(text->size, size, &need) || !vkf_size_add(need, 1, &need)) need = SIZE_MAX;
  char *data = vkf_env_grow(text->env, text->data, &text->capacity, need, 1);
  text->failed = data == NULL;
  if (data != NULL) text->data = data;
  return !text->failed;
}

void vkf_text_append(vkf_text *text, const char *bytes, size_t size) {
  if (!reserve(text, size)) return;
  if (size > 0) memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void vkf_text_printf(vkf_text *text, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0 || !reserve(text, (size_t)n)) return;
  va_start(args, fmt);
  vsnprintf(text->data + text->size, (size_t)n + 1, fmt, args);
  va_end(args);
  text->size += (size_t)n;
}

vkf_status vkf_text_status(const vkf_text *text) {
  return text->failed ? VKF_ERROR_MEMORY : VKF_OK;
}

vkf_status vkf_text_end(vkf_text *text) {
  vkf_text_append(text, "", 0);
  return vkf_text_status(text);
}

const char *vkf_packed(const void *bytes, size_t n) {
  static const struct {
    const char *begin, *what;
    size_t n;
  } rows[] = {{"\x1f\x8b", "what gzip compressed: decompress it by gzip -dc < FILE", 2},
              {"\x28\xb5\x2f\xfd", "what zstd compressed: decompress it by zstd -dc < FILE", 4},
              {"\xfd\x37zXZ", "what xz compressed: decompress it by xz -dc < FILE", 5}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    if (n >= rows[i].n && memcmp(bytes, rows[i].begin, rows[i].n) == 0) return rows[i].what;
  return NULL;
}

bool vkf_ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}
