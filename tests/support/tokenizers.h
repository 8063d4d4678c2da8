/* Reads files for tokenizers, and creates and uses a tokenizer while one allocation fails. */
#ifndef VKF_TESTS_SUPPORT_TOKENIZERS_H
#define VKF_TESTS_SUPPORT_TOKENIZERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "text/tokenizer.h"

static inline vkf_text_file file_of(const char *text, const char *name) {
  return (vkf_text_file){text, strlen(text), name};
}

/* Reads a file of the repository and puts a zero behind it; free() the data. */
static inline vkf_text_file read_file(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof path, VKF_SOURCE_DIR "/%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("cannot open %s", path);
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  char *data = malloc(size + 1);
  assert_int_equal(fread(data, 1, size, file), size);
  fclose(file);
  data[size] = '\0';
  return (vkf_text_file){data, size, name};
}

static inline vkf_status tokenizer_life(const vkf_text_files *files, const char *text, uint64_t fail_at,
                                        uint64_t *n_allocations) {
  vkf_env env;
  vkf_env_init(&env, NULL);
  env.fail_at = fail_at;
  vkf_text_tokenizer *tokenizer = NULL;
  vkf_text_ids ids;
  vkf_text out;
  vkf_text_ids_init(&ids, &env);
  vkf_text_init(&out, &env);
  vkf_status st = vkf_text_tokenizer_create(&env, files, &tokenizer);
  if (st == VKF_OK) st = vkf_text_tokenizer_encode(tokenizer, text, strlen(text), true, &ids);
  if (st == VKF_OK) assert_true(ids.n > 1);
  if (st == VKF_OK) st = vkf_text_tokenizer_decode(tokenizer, ids.ids, ids.n, false, &out);
  if (st != VKF_OK) assert_int_equal(env.first, VKF_ERROR_MEMORY);
  vkf_text_finish(&out);
  vkf_text_ids_finish(&ids);
  vkf_text_tokenizer_destroy(&tokenizer);
  assert_int_equal(env.live_bytes, 0);
  *n_allocations = env.n_allocations;
  return st;
}

/* Creates a tokenizer, encodes and decodes, once for each allocation with that one failing. */
static inline void tokenizer_lacks_memory(const vkf_text_files *files, const char *text) {
  uint64_t n = 0, ignored;
  assert_int_equal(tokenizer_life(files, text, 0, &n), VKF_OK);
  assert_true(n > 5);
  for (uint64_t at = 1; at <= n; at++) {
    vkf_status st = tokenizer_life(files, text, at, &ignored);
    if (st != VKF_ERROR_MEMORY) fail_msg("allocation %u: status %d", (unsigned)at, st);
  }
}

/* Writes ids as "1 2 3". */
static inline void list_ids(char *out, size_t size, const vkf_text_ids *ids) {
  size_t n = 0;
  out[0] = 0;
  for (size_t i = 0; i < ids->n && n < size; i++)
    n += (size_t)snprintf(out + n, size - n, "%s%d", i ? " " : "", (int)ids->ids[i]);
}

/* Checks the ids of a text, with special tokens, as "1 2 3". */
static inline void assert_ids_of(vkf_text_tokenizer *tokenizer, vkf_env *env, const char *text, const char *want) {
  char got[400];
  vkf_text_ids ids;
  vkf_text_ids_init(&ids, env);
  assert_int_equal(vkf_text_tokenizer_encode(tokenizer, text, strlen(text), true, &ids), VKF_OK);
  list_ids(got, sizeof got, &ids);
  vkf_text_ids_finish(&ids);
  assert_string_equal(got, want);
}

/* Checks two texts joined to one: the ids and their types. ids NULL: they must be refused with the words `types`. */
static inline void assert_pair_of(vkf_text_tokenizer *tokenizer, vkf_env *env, const char *const texts[2],
                                  const char *ids, const char *types) {
  vkf_text_ids of[2], found, found_types;
  char got[200];
  vkf_text_ids_init(&found, env);
  vkf_text_ids_init(&found_types, env);
  for (size_t i = 0; i < 2; i++) {
    vkf_text_ids_init(&of[i], env);
    if (vkf_text_tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), false, &of[i])) fail_msg("%s", env->message);
  }
  const vkf_status st = vkf_text_tokenizer_join(tokenizer, &of[0], &of[1], true, &found, &found_types);
  assert_int_equal(st, ids ? VKF_OK : VKF_ERROR_UNSUPPORTED);
  if (ids) {
    list_ids(got, sizeof got, &found);
    assert_string_equal(got, ids);
    list_ids(got, sizeof got, &found_types);
    assert_string_equal(got, types);
  } else if (!strstr(env->message, types)) {
    fail_msg("expected \"%s\" in \"%s\"", types, env->message);
  }
  vkf_text_ids_finish(&found_types);
  vkf_text_ids_finish(&found);
  for (size_t i = 0; i < 2; i++) vkf_text_ids_finish(&of[i]);
}

#endif
