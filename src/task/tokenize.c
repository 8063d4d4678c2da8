/* tokenize: turns texts into ids and back with the tokenizer of an opened model or of a folder; gives special ids. */
#include <string.h>

#include "task/parts.h"

static void destroy(vkf_tokenizer **tokenizer) {
  if (!*tokenizer) return;
  vkf_env *env = (*tokenizer)->env;
  vkf_engine_tokenizer_close(env, &(*tokenizer)->own);
  vkf_env_free(env, *tokenizer);
  *tokenizer = NULL;
}

vkf_status vkf_tokenizer_open(vkf_context *ctx, const char *folder, vkf_tokenizer **out) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(&ctx->env, "out");
  vkf_status st = VKF_OK;
  vkf_env *env = &ctx->env;
  vkf_tokenizer *t = NULL;
  *out = NULL;
  vkf_env_clear(env);
  if (!folder) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected a folder, found NULL");
  t = vkf_env_alloc(env, 1, sizeof *t);
  if (!t) VKF_TRY(VKF_ERROR_MEMORY);
  t->env = env;
  t->shared = &t->own;
  VKF_TRY(vkf_engine_tokenizer_open(env, &(vkf_file_source){.folder = folder}, &t->own));
  if (t->own.why) VKF_FAIL(env, VKF_ERROR_UNSUPPORTED, "this needs a tokenizer: %s", t->own.why);
done:
  if (st) destroy(&t);
  *out = t;
  return st;
}

void vkf_tokenizer_close(vkf_tokenizer **tokenizer) {
  if (!tokenizer || !*tokenizer) return;
  if ((*tokenizer)->own.is_open)
    destroy(tokenizer);
  else
    *tokenizer = NULL;
}

/* Returns t; NULL, with the reason recorded, if the folder has no tokenizer. */
static vkf_tokenizer *given(vkf_tokenizer *t) {
  if (t->shared->text) return t;
  vkf_env_fail(t->env, VKF_ERROR_UNSUPPORTED, "this needs a tokenizer: %s", t->shared->why);
  return NULL;
}

vkf_tokenizer *vkf_model_tokenizer(vkf_model *m) {
  if (!m) return NULL;
  vkf_env_clear(m->env);
  return given(&m->handle);
}

/* Returns whether a callback of the session runs, which is inside a call that holds the session. */
static bool is_in_call(const vkf_session *session) {
  return session && vkf_env_callback_runs(&session->own);
}

vkf_tokenizer *vkf_session_tokenizer(vkf_session *session) {
  if (is_in_call(session)) return given(&session->tokenizer);
  if (vkf_engine_session_begin(session, "vkf_session_tokenizer")) return NULL;
  vkf_tokenizer *t = given(&session->tokenizer);
  vkf_engine_session_end(session, VKF_OK, NULL);
  return t;
}

/* Begins a call. A session's tokenizer is used only by a call that holds the session. */
static vkf_status begin(const vkf_tokenizer *t, const char *call) {
  if (t->session && !is_in_call(t->session)) return vkf_engine_session_begin(t->session, call);
  vkf_env_clear(t->env);
  return VKF_OK;
}

static vkf_status end(const vkf_tokenizer *t, vkf_status st, vkf_result **out) {
  if (t->session && !is_in_call(t->session)) return vkf_engine_session_end(t->session, st, out);
  if (t->session && out && *out) (*out)->env = &t->session->ctx->env;
  return st;
}

static vkf_status encode(vkf_tokenizer *t, const char *text, const vkf_encode_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_encode_params p;
  vkf_result *r = NULL;
  vkf_text_languages_before before;
  vkf_text_ids ids, types;
  void *data = NULL;
  int32_t start; /* not used here */
  vkf_text_ids_init(&ids, t->env);
  vkf_text_ids_init(&types, t->env);
  if (!text) VKF_FAIL(t->env, VKF_ERROR_ARGUMENT, "expected a text, found NULL");
  VKF_TRY(VKF_PARAMS_READ(t->env, vkf_encode_params, params, &p));
  vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(t);
  st = vkf_text_languages_use(tokenizer, p.source_language, p.target_language, &before, &start);
  if (!st) {
    const char *const pair[] = {text, p.text_pair};
    st = p.text_pair ? vkf_task_pair_ids(tokenizer, pair, !p.no_special_tokens, 0, &ids, &types)
                     : vkf_text_tokenizer_encode(tokenizer, text, strlen(text), !p.no_special_tokens, &ids);
    vkf_text_languages_restore(tokenizer, &before);
  }
  vkf_engine_tokenizer_unlock(t);
  VKF_TRY(st);
  VKF_TRY(vkf_engine_result_create(t->env, &r));
  VKF_TRY(vkf_engine_result_add(r, "ids", VKF_I32, 1, (size_t[]){ids.n}, &data));
  if (ids.n) memcpy(data, ids.ids, ids.n * sizeof *ids.ids);
  if (p.text_pair) VKF_TRY(vkf_engine_result_add(r, "token_type_ids", VKF_I32, 1, (size_t[]){types.n}, &data));
  if (types.n) memcpy(data, types.ids, types.n * sizeof *types.ids);
  for (size_t i = 0; i < ids.n; i++)
    VKF_TRY(vkf_engine_result_add_text(r, vkf_text_tokenizer_piece(t->shared->text, ids.ids[i])));
done:
  vkf_text_ids_finish(&types);
  vkf_text_ids_finish(&ids);
  if (st) vkf_engine_result_destroy(&r);
  *out = r;
  return st;
}

vkf_status vkf_tokenizer_encode(vkf_tokenizer *t, const char *text, const vkf_encode_params *params, vkf_result **out) {
  if (!t) return VKF_ERROR_ARGUMENT;
  if (out) *out = NULL;
  const vkf_status begun = begin(t, "vkf_tokenizer_encode");
  if (begun) return begun;
  return end(t, out ? encode(t, text, params, out) : vkf_engine_null(t->env, "out"), out);
}

static vkf_status decode(vkf_tokenizer *t, const int32_t *ids, size_t n, const vkf_decode_params *params,
                         vkf_result **out) {
  if (n && !ids) return vkf_engine_null(t->env, "ids");
  vkf_status st = VKF_OK;
  vkf_decode_params p;
  vkf_result *r = NULL;
  vkf_text text;
  vkf_text_init(&text, t->env);
  VKF_TRY(VKF_PARAMS_READ(t->env, vkf_decode_params, params, &p));
  for (size_t i = 0; i < n; i++)
    if (!vkf_text_tokenizer_piece(t->shared->text, ids[i]))
      VKF_FAIL(t->env, VKF_ERROR_ARGUMENT, "expected ids of the tokenizer's vocabulary, found %d", ids[i]);
  st = vkf_text_tokenizer_decode(vkf_engine_tokenizer_lock(t), ids, n, !p.keep_special_tokens, &text);
  vkf_engine_tokenizer_unlock(t);
  VKF_TRY(st);
  VKF_TRY(vkf_text_status(&text));
  VKF_TRY(vkf_engine_result_create(t->env, &r));
  VKF_TRY(vkf_engine_result_add_text(r, text.data));
done:
  vkf_text_finish(&text);
  if (st) vkf_engine_result_destroy(&r);
  *out = r;
  return st;
}

vkf_status vkf_tokenizer_decode(vkf_tokenizer *t, const int32_t *ids, size_t n, const vkf_decode_params *params,
                                vkf_result **out) {
  if (!t) return VKF_ERROR_ARGUMENT;
  if (out) *out = NULL;
  const vkf_status begun = begin(t, "vkf_tokenizer_decode");
  if (begun) return begun;
  return end(t, out ? decode(t, ids, n, params, out) : vkf_engine_null(t->env, "out"), out);
}

const char *vkf_tokenizer_piece(const vkf_tokenizer *t, int32_t id) {
  return t && t->shared ? vkf_text_tokenizer_piece(t->shared->text, id) : NULL;
}

int32_t vkf_tokenizer_find(const vkf_tokenizer *t, const char *piece) {
  return t && t->shared && piece ? vkf_text_tokenizer_find(t->shared->text, piece) : -1;
}

/* ---- special ids ------------------------------------------------------------------------------------------------- */

static vkf_special_ids special_of(const vkf_text_tokenizer *t) {
  const vkf_text_special s = t ? vkf_text_tokenizer_special(t) : (vkf_text_special){-1, -1, -1, -1, -1};
  return (vkf_special_ids){VKF_SPECIAL_IDS_INIT, .bos = s.bos, .eos = s.eos,       .pad = s.pad,
                           .mask = s.mask,       .unk = s.unk, .decoder_start = -1};
}

vkf_status vkf_tokenizer_get_special_ids(const vkf_tokenizer *t, vkf_special_ids *out) {
  if (!t) return VKF_ERROR_ARGUMENT;
  const vkf_status begun = begin(t, "vkf_tokenizer_get_special_ids");
  if (begun) return begun;
  const vkf_special_ids full = special_of(t->shared->text);
  return end(t, out ? VKF_INFO_WRITE(t->env, vkf_special_ids, &full, out) : vkf_engine_null(t->env, "out"), NULL);
}

vkf_status vkf_model_get_special_ids(const vkf_model *m, vkf_special_ids *out) {
  if (!m) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(m->env, "out");
  vkf_special_ids full = special_of(m->tokenizer.text);
  const vkf_generation_config *config = &m->generation;
  if (config->bos != VKF_NO_TOKEN) full.bos = config->bos;
  if (config->eos.n) full.eos = config->eos.ids[0];
  if (config->pad != VKF_NO_TOKEN) full.pad = config->pad;
  full.decoder_start = config->decoder_start;
  vkf_env_clear(m->env);
  return VKF_INFO_WRITE(m->env, vkf_special_ids, &full, out);
}
