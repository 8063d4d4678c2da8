/* Texts to ids and back, by the tokenizer of an opened model or of a folder; special ids. */
#include <string.h>

#include "engine/opened.h"

static void destroy(vkf_tokenizer **tokenizer) {
  if (!*tokenizer) return;
  vkf_env *env = (*tokenizer)->env;
  vkf_text_tokenizer_destroy(&(*tokenizer)->text);
  vkf_env_free(env, *tokenizer);
  *tokenizer = NULL;
}

vkf_status vkf_tokenizer_open(vkf_context *ctx, const char *folder, vkf_tokenizer **out) {
  vkf_status st = VKF_OK;
  vkf_env *env = &ctx->env;
  vkf_tokenizer *t = NULL;
  char *why = NULL;
  *out = NULL;
  vkf_env_clear(env);
  if (!folder) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected a folder, found NULL");
  t = vkf_env_alloc(env, 1, sizeof *t);
  if (!t) VKF_TRY(VKF_ERROR_MEMORY);
  t->env = env;
  VKF_TRY(vkf_engine_open_tokenizer(env, folder, &t->text, &why));
  if (why) VKF_FAIL(env, VKF_ERROR_UNSUPPORTED, "this needs a tokenizer: %s", why);
done:
  vkf_env_free(env, why);
  if (st) destroy(&t);
  *out = t;
  return st;
}

void vkf_tokenizer_close(vkf_tokenizer **tokenizer) {
  if (!tokenizer || !*tokenizer) return;
  if ((*tokenizer)->is_model_s)
    *tokenizer = NULL;
  else
    destroy(tokenizer);
}

vkf_tokenizer *vkf_model_tokenizer(vkf_model *m) {
  if (!m) return NULL;
  vkf_env_clear(m->env);
  if (m->tokenizer) return &m->handle;
  vkf_env_fail(m->env, VKF_ERROR_UNSUPPORTED, "this needs a tokenizer: %s", m->no_tokenizer);
  return NULL;
}

vkf_status vkf_tokenizer_encode(vkf_tokenizer *t, const char *text, const vkf_encode_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_encode_params p;
  vkf_result *r = NULL;
  vkf_text_languages_before before;
  vkf_text_ids ids;
  void *data = NULL;
  int32_t begin; /* of the model's configuration, which is not asked for here */
  *out = NULL;
  if (!t) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(t->env);
  vkf_text_ids_init(&ids, t->env);
  if (!text) VKF_FAIL(t->env, VKF_ERROR_ARGUMENT, "expected a text, found NULL");
  VKF_TRY(VKF_PARAMS_READ(t->env, vkf_encode_params, params, &p));
  VKF_TRY(vkf_text_languages_use(t->text, p.source_language, p.target_language, &before, &begin));
  st = vkf_text_tokenizer_encode(t->text, text, strlen(text), !p.no_special_tokens, &ids);
  vkf_text_languages_restore(t->text, &before);
  VKF_TRY(st);
  VKF_TRY(vkf_engine_result_create(t->env, &r));
  VKF_TRY(vkf_engine_result_add(r, "ids", VKF_I32, 1, (size_t[]){ids.n}, &data));
  if (ids.n) memcpy(data, ids.ids, ids.n * sizeof *ids.ids);
  for (size_t i = 0; i < ids.n; i++)
    VKF_TRY(vkf_engine_result_add_text(r, vkf_text_tokenizer_piece(t->text, ids.ids[i])));
done:
  vkf_text_ids_finish(&ids);
  if (st) vkf_engine_result_destroy(&r);
  *out = r;
  return st;
}

vkf_status vkf_tokenizer_decode(vkf_tokenizer *t, const int32_t *ids, size_t n, const vkf_decode_params *params,
                                vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_decode_params p;
  vkf_result *r = NULL;
  vkf_text text;
  *out = NULL;
  if (!t) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(t->env);
  vkf_text_init(&text, t->env);
  VKF_TRY(VKF_PARAMS_READ(t->env, vkf_decode_params, params, &p));
  VKF_TRY(vkf_text_tokenizer_decode(t->text, ids, n, !p.keep_special_tokens, &text));
  VKF_TRY(vkf_text_status(&text));
  VKF_TRY(vkf_engine_result_create(t->env, &r));
  VKF_TRY(vkf_engine_result_add_text(r, text.data));
done:
  vkf_text_finish(&text);
  if (st) vkf_engine_result_destroy(&r);
  *out = r;
  return st;
}

const char *vkf_tokenizer_piece(const vkf_tokenizer *t, int32_t id) {
  return t ? vkf_text_tokenizer_piece(t->text, id) : NULL;
}

int32_t vkf_tokenizer_find(const vkf_tokenizer *t, const char *piece) {
  return t && piece ? vkf_text_tokenizer_find(t->text, piece) : -1;
}

/* ---- special ids ------------------------------------------------------------------------------------------------- */

static vkf_special_ids special_of(const vkf_text_tokenizer *t) {
  const vkf_text_special s = t ? vkf_text_tokenizer_special(t) : (vkf_text_special){-1, -1, -1, -1, -1};
  return (vkf_special_ids){VKF_SPECIAL_IDS_INIT, .bos = s.bos, .eos = s.eos,       .pad = s.pad,
                           .mask = s.mask,       .unk = s.unk, .decoder_start = -1};
}

vkf_status vkf_tokenizer_get_special_ids(const vkf_tokenizer *t, vkf_special_ids *out) {
  const vkf_special_ids full = special_of(t->text);
  vkf_env_clear(t->env);
  return VKF_INFO_WRITE(t->env, vkf_special_ids, &full, out);
}

vkf_status vkf_model_get_special_ids(const vkf_model *m, vkf_special_ids *out) {
  vkf_special_ids full = special_of(m->tokenizer);
  const vkf_generation_config *config = &m->generation;
  if (config->bos != VKF_NO_TOKEN) full.bos = config->bos;
  if (config->eos.n) full.eos = config->eos.ids[0];
  if (config->pad != VKF_NO_TOKEN) full.pad = config->pad;
  full.decoder_start = config->decoder_start;
  vkf_env_clear(m->env);
  return VKF_INFO_WRITE(m->env, vkf_special_ids, &full, out);
}
