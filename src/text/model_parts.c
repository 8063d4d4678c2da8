/* model_parts: what the models share: scratch memory, the vocabulary, the unknown token. */
#include <stdio.h>
#include <string.h>

#include "text/internal.h"

void *vkf_text_model_scratch(vkf_text_model *model, size_t bytes) {
  void *grown = vkf_env_grow(model->env, model->scratch, &model->scratch_bytes, bytes, 1);
  if (grown != NULL) model->scratch = grown;
  return grown;
}

void vkf_text_model_finish(vkf_text_model *model) {
  if (model->env == NULL) return;
  vkf_env_free(model->env, model->scratch);
  model->scratch = NULL;
  model->scratch_bytes = 0;
}

void vkf_text_model_find_bytes(vkf_text_model *model) {
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte & 0xFF);
    model->byte_ids[byte] = vkf_text_vocab_find(&model->vocab, (vkf_text_string){name, 6});
  }
}

vkf_status vkf_text_model_load_vocab(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  json_t *vocab = json_object_get(json, "vocab"), *value;
  const char *key;
  size_t size = 0;
  if (!json_is_object(vocab)) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"vocab\" should be an object");
  json_object_foreach(vocab, key, value) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= VKF_TEXT_MAX_IDS)
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "the id of \"%s\" should be a number from 0 to %d", key,
                                VKF_TEXT_MAX_IDS - 1);
    size = VKF_MAX(size, (size_t)id + 1);
  }
  VKF_CALL(vkf_text_vocab_init(&model->vocab, loader, size, json_object_size(vocab)));
  json_object_foreach(vocab, key, value) {
    VKF_CALL(vkf_text_vocab_add(&model->vocab, loader, (size_t)json_integer_value(value), key, strlen(key)));
  }
  return VKF_OK;
}

vkf_status vkf_text_model_load_unknown(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  const json_t *field = json_object_get(json, "unk_token");
  if (field == NULL || json_is_null(field)) return VKF_OK;
  vkf_text_string unk;
  VKF_CALL(vkf_text_load_string(loader, json, "unk_token", &unk));
  model->unk_id = vkf_text_vocab_find(&model->vocab, unk);
  model->unk_missing = model->unk_id < 0;
  return VKF_OK;
}

int32_t vkf_text_model_unknown_id(const vkf_text_model *model, vkf_text_string run) {
  int32_t surface = model->surfaces != NULL ? vkf_text_vocab_find(model->surfaces, run) : -1;
  return surface >= 0 ? (int32_t)model->vocab.size + surface : model->unk_id;
}

vkf_status vkf_text_model_append_unknown(vkf_text_model *model, vkf_text_string word, vkf_text_ids *out) {
  if (model->unk_id < 0)
    return vkf_env_fail(model->env, VKF_ERROR_ARGUMENT,
                        "the vocabulary has no token for \"%.*s\", and the tokenizer no unknown token",
                        (int)VKF_MIN(word.size, 100), word.data);
  int32_t id = vkf_text_model_unknown_id(model, word);
  return vkf_text_ids_append(out, &id, 1);
}
