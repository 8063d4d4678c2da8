/* The files of a folder that make a tokenizer, opened and handed over together. Files that are not there are none;
 * what is there and cannot be read is refused. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/opened.h"
#include "file/map.h"

enum { MAX_FILES = 12 };

typedef struct opened_files {
  vkf_env *env;
  const char *folder;
  vkf_file_map maps[MAX_FILES];
  vkf_text paths[MAX_FILES];
  size_t n;
} opened_files;

static void close_files(opened_files *files) {
  for (size_t i = 0; i < files->n; i++) {
    vkf_file_map_close(&files->maps[i]);
    vkf_text_finish(&files->paths[i]);
  }
}

/* Leaves `out` as it is where the folder has no such file. */
static vkf_status open_file(opened_files *files, const char *name, vkf_text_file *out) {
  vkf_status st = VKF_OK;
  size_t i = files->n++;
  vkf_text *path = &files->paths[i];
  vkf_text_init(path, files->env);
  vkf_text_printf(path, "%s/%s", files->folder, name);
  VKF_TRY(vkf_text_status(path));
  struct stat facts; /* a link to what is not there is there */
  if (lstat(path->data, &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) return VKF_OK;
  VKF_TRY(vkf_file_map_open(files->env, path->data, &files->maps[i]));
  *out = (vkf_text_file){(const char *)files->maps[i].data, files->maps[i].bytes, path->data};
done:
  return st;
}

/* The names under which folders have a SentencePiece model. */
static vkf_status open_spm(opened_files *files, vkf_text_files *out) {
  static const char *const names[] = {"source.spm", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model"};
  vkf_status st = VKF_OK;
  for (size_t i = 0; i < VKF_COUNT(names) && !out->spm.data; i++) VKF_TRY(open_file(files, names[i], &out->spm));
done:
  return st;
}

static vkf_status open_older(opened_files *files, vkf_text_files *out) {
  vkf_status st = VKF_OK;
  VKF_TRY(open_spm(files, out));
  VKF_TRY(open_file(files, "target.spm", &out->target_spm));
  VKF_TRY(open_file(files, "vocab.json", &out->vocab));
  VKF_TRY(open_file(files, "merges.txt", &out->merges));
  VKF_TRY(open_file(files, "vocab.txt", &out->words));
done:
  return st;
}

/* *why: the caller's; NULL: there is one. */
static vkf_status open_tokenizer(vkf_env *env, const char *folder, vkf_text_tokenizer **out, char **why) {
  vkf_status st = VKF_OK;
  opened_files opened = {.env = env, .folder = folder};
  vkf_text_files files = {0};
  VKF_TRY(open_file(&opened, "tokenizer.json", &files.tokenizer));
  VKF_TRY(open_file(&opened, "tokenizer_config.json", &files.tokenizer_config));
  VKF_TRY(open_file(&opened, "config.json", &files.config));
  if (!files.tokenizer.data) VKF_TRY(open_older(&opened, &files));
  st = vkf_text_tokenizer_create(env, &files, out);
  /* A model can be run on ids without its tokenizer, so what is absent or of an unknown class is told when texts come.
   */
  if (st == VKF_ERROR_FILE || (st == VKF_ERROR_UNSUPPORTED && !files.tokenizer.data)) {
    vkf_text text;
    char message[sizeof env->message];
    memcpy(message, env->message, sizeof message);
    vkf_env_clear(env); /* what fails from here on is the first cause */
    vkf_text_init(&text, env);
    vkf_text_printf(&text, "%s: %s", folder, message);
    *why = text.data;
    st = vkf_text_status(&text);
  }
done:
  close_files(&opened);
  return st;
}

vkf_status vkf_engine_tokenizer_open(vkf_env *env, const char *folder, vkf_shared_tokenizer *out) {
  *out = (vkf_shared_tokenizer){.is_open = true};
  vkf_env_init_child(&out->env, env);
  pthread_mutex_init(&out->lock, NULL);
  const vkf_status st = open_tokenizer(&out->env, folder, &out->text, &out->why);
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
