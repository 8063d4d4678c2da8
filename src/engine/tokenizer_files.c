/* Opens the tokenizer of a model folder from its files. A missing file is left out; a file that cannot be read is an
 * error. */
#include <string.h>

#include "engine/opened.h"

enum { MAX_FILES = 12 };

typedef struct opened_files {
  vkf_env *env;
  const vkf_file_source *source;
  vkf_arena arena; /* paths */
  vkf_file_map maps[MAX_FILES];
  size_t n;
} opened_files;

static void close_files(opened_files *files) {
  for (size_t i = 0; i < files->n; i++) vkf_file_map_close(&files->maps[i]);
  vkf_arena_finish(&files->arena);
}

/* Leaves `out` as it is if the source has no such file. */
static vkf_status open_file(opened_files *files, const char *name, vkf_text_file *out) {
  vkf_file_map *map = &files->maps[files->n];
  if (!vkf_file_source_has(files->source, name)) return VKF_OK;
  const char *path = vkf_file_source_path(files->source, &files->arena, name);
  if (!path) return VKF_ERROR_MEMORY;
  VKF_CALL(vkf_file_source_open(files->env, files->source, name, map));
  files->n++;
  *out = (vkf_text_file){(const char *)map->data, map->bytes, path};
  return VKF_OK;
}

/* Opens the first SentencePiece model that there is, by the names that they have in model folders. */
static vkf_status open_spm(opened_files *files, vkf_text_files *out) {
  static const char *const names[] = {"source.spm", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model"};
  for (size_t i = 0; i < VKF_COUNT(names) && !out->spm.data; i++) VKF_CALL(open_file(files, names[i], &out->spm));
  return VKF_OK;
}

static vkf_status open_older(opened_files *files, vkf_text_files *out) {
  VKF_CALL(open_spm(files, out));
  VKF_CALL(open_file(files, "target.spm", &out->target_spm));
  VKF_CALL(open_file(files, "vocab.json", &out->vocab));
  VKF_CALL(open_file(files, "merges.txt", &out->merges));
  return open_file(files, "vocab.txt", &out->words);
}

/* *why: why there is none, freed by the caller; NULL: there is one. */
static vkf_status open_tokenizer(vkf_env *env, const vkf_file_source *source, vkf_text_tokenizer **out, char **why) {
  vkf_status st = VKF_OK;
  opened_files opened = {.env = env, .source = source};
  vkf_text_files files = {0};
  vkf_arena_init(&opened.arena, env);
  VKF_TRY(open_file(&opened, "tokenizer.json", &files.tokenizer));
  VKF_TRY(open_file(&opened, "tokenizer_config.json", &files.tokenizer_config));
  VKF_TRY(open_file(&opened, "config.json", &files.config));
  if (!files.tokenizer.data) VKF_TRY(open_older(&opened, &files));
  st = vkf_text_tokenizer_create(env, &files, out);
  /* A model can run on ids alone, so a missing tokenizer, or an older one that is not supported, is an error only when
   * texts come. */
  if (st == VKF_ERROR_FILE || (st == VKF_ERROR_UNSUPPORTED && !files.tokenizer.data)) {
    vkf_text text;
    char message[sizeof env->message];
    memcpy(message, env->message, sizeof message);
    vkf_env_clear(env); /* a failure from here on counts as the first */
    vkf_text_init(&text, env);
    vkf_text_printf(&text, "%s: %s", vkf_file_source_name(source), message);
    *why = text.data;
    st = vkf_text_status(&text);
  }
done:
  close_files(&opened);
  return st;
}

vkf_status vkf_engine_tokenizer_open(vkf_env *env, const vkf_file_source *source, vkf_shared_tokenizer *out) {
  *out = (vkf_shared_tokenizer){.is_open = true};
  vkf_env_init_child(&out->env, env);
  pthread_mutex_init(&out->lock, NULL);
  const vkf_status st = open_tokenizer(&out->env, source, &out->text, &out->why);
  return st ? vkf_env_fail(env, st, "%s", out->env.message) : VKF_OK;
}

void vkf_engine_tokenizer_close(vkf_env *env, vkf_shared_tokenizer *t) {
  if (!t->is_open) return;
  vkf_text_tokenizer_destroy(&t->text);
  vkf_env_free(env, t->why);
  pthread_mutex_destroy(&t->lock);
  t->is_open = false;
}

vkf_text_tokenizer *vkf_engine_tokenizer_lock(vkf_tokenizer *t) {
  pthread_mutex_lock(&t->shared->lock);
  t->shared->env.listener = t->env;
  return t->shared->text;
}

void vkf_engine_tokenizer_unlock(vkf_tokenizer *t) {
  t->shared->env.listener = NULL;
  pthread_mutex_unlock(&t->shared->lock);
}

vkf_status vkf_engine_decode_ids(vkf_session *session, const int32_t *ids, size_t n, bool skip_special, vkf_text *out) {
  vkf_text_tokenizer *text = vkf_engine_tokenizer_lock(&session->tokenizer);
  const vkf_status st = vkf_text_tokenizer_decode(text, ids, n, skip_special, out);
  vkf_engine_tokenizer_unlock(&session->tokenizer);
  return st;
}
