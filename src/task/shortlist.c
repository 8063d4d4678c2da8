/* shortlist: opens a file of a short list for a model. decode/shortlist.h has the table. */
#include "decode/shortlist.h"

#include "engine/opened.h"

static int32_t find(const void *tokenizer, const char *piece) {
  return vkf_text_tokenizer_find(tokenizer, piece);
}

static vkf_status read_list(vkf_model *model, const char *path, size_t n_first, size_t n_best, vkf_shortlist *list) {
  const vkf_net_info *info = vkf_model_net_info(model->net);
  vkf_file_map file = {0};
  VKF_CALL(vkf_file_map_open(model->env, path, &file));
  const vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&model->handle);
  const vkf_text_special special = vkf_text_tokenizer_special(tokenizer);
  const vkf_shortlist_input input = {.text = (const char *)file.data,
                                     .size = file.bytes,
                                     .name = path,
                                     .n_sources = info->vocab,
                                     .n_targets = info->target_vocab,
                                     .n_first = (uint32_t)VKF_MIN(n_first, UINT32_MAX),
                                     .n_best = (uint32_t)VKF_MIN(n_best, UINT32_MAX),
                                     .is_shared = true, /* a folder has one vocabulary */
                                     .special = {special.bos, special.eos, special.pad, special.unk},
                                     .find = find,
                                     .user = tokenizer};
  const vkf_status st = vkf_decode_shortlist_init(list, model->env, &input);
  vkf_engine_tokenizer_unlock(&model->handle);
  vkf_file_map_close(&file);
  return st;
}

static void destroy(vkf_shortlist *list) {
  if (!list) return;
  vkf_env *env = list->env;
  vkf_decode_shortlist_finish(list);
  vkf_env_free(env, list);
}

vkf_status vkf_shortlist_open(vkf_model *model, const char *path, size_t n_first, size_t n_best, vkf_shortlist **out) {
  vkf_status st = VKF_OK;
  vkf_shortlist *list = NULL;
  if (!model || !out) return VKF_ERROR_ARGUMENT;
  *out = NULL;
  if (vkf_env_refuses(model->env, "vkf_shortlist_open")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(model->env);
  if (!path) return vkf_engine_null(model->env, "path");
  if (!model->tokenizer.text)
    return vkf_env_fail(model->env, VKF_ERROR_UNSUPPORTED, "a short list needs a tokenizer: %s", model->tokenizer.why);
  list = vkf_env_alloc(model->env, 1, sizeof *list);
  if (!list) return VKF_ERROR_MEMORY;
  list->env = model->env;
  VKF_TRY(read_list(model, path, n_first, n_best, list));
  *out = list;
  list = NULL;
done:
  destroy(list);
  return st;
}

void vkf_shortlist_close(vkf_shortlist **shortlist) {
  if (!shortlist || !*shortlist || vkf_env_refuses((*shortlist)->env, "vkf_shortlist_close")) return;
  destroy(*shortlist);
  *shortlist = NULL;
}
