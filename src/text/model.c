/* model: loads the model that a file has, and implements the two simple models: WordPiece and word level.
 *
 * Refuses, by name, types that are not in MODELS.
 */
#include "text/internal.h"

#include <string.h>

/* ---- word level -------------------------------------------------------------------------------------------------- */

static vkf_status word_encode(vkf_text_model *model, vkf_text_string word, vkf_text_ids *out) {
  int32_t id = vkf_text_vocab_find(&model->vocab, word);
  return id < 0 ? vkf_text_model_append_unknown(model, word, out) : vkf_text_ids_append(out, &id, 1);
}

static vkf_status word_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  model->encode = word_encode;
  vkf_status st = vkf_text_model_load_vocab(model, loader, json);
  return st == VKF_OK ? vkf_text_model_load_unknown(model, loader, json) : st;
}

/* ---- WordPiece --------------------------------------------------------------------------------------------------- */

/* Returns the longest piece at `start` and sets *end to its end; -1: none. Tries the rest of the word, then one
 * character less each time. scratch has room for the prefix and the word. */
static int32_t wordpiece_longest(const vkf_text_model *model, vkf_text_string word, size_t start, char *scratch,
                                 size_t *end) {
  size_t n_prefix = start > 0 ? model->prefix.size : 0;
  if (n_prefix > 0) memcpy(scratch, model->prefix.data, n_prefix);
  memcpy(scratch + n_prefix, word.data + start, word.size - start);
  for (*end = word.size; *end > start; *end = vkf_text_char_before(word, *end)) {
    size_t size = n_prefix + *end - start;
    if (size > model->vocab.longest) continue;
    int32_t id = vkf_text_vocab_find(&model->vocab, (vkf_text_string){scratch, size});
    if (id >= 0) return id;
  }
  return -1;
}

/* Takes the longest piece each time. A word with a part that no piece covers is unknown as a whole. */
static vkf_status wordpiece_encode(vkf_text_model *model, vkf_text_string word, vkf_text_ids *out) {
  if (vkf_text_char_count(word) > model->max_chars) return vkf_text_model_append_unknown(model, word, out);
  char *scratch = vkf_text_model_scratch(model, model->prefix.size + word.size);
  if (scratch == NULL) return VKF_ERROR_MEMORY;
  size_t before = out->n;
  for (size_t start = 0, end; start < word.size; start = end) {
    int32_t id = wordpiece_longest(model, word, start, scratch, &end);
    if (id < 0) {
      out->n = before;
      return vkf_text_model_append_unknown(model, word, out);
    }
    VKF_CALL(vkf_text_ids_append(out, &id, 1));
  }
  return VKF_OK;
}

static vkf_status wordpiece_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  VKF_CALL(word_load(model, loader, json));
  model->encode = wordpiece_encode;
  VKF_CALL(vkf_text_load_string(loader, json, "continuing_subword_prefix", &model->prefix));
  return vkf_text_load_size(loader, json, "max_input_chars_per_word", 100, &model->max_chars);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
  const char *type;
  vkf_status (*load)(vkf_text_model *model, vkf_text_loader *loader, const json_t *json);
} MODELS[] = {
    {"BPE", vkf_text_bpe_load},
    {"Unigram", vkf_text_unigram_load},
    {"WordPiece", wordpiece_load},
    {"WordLevel", word_load},
};

/* Returns the type of a model. Files of older versions do not name it; then it follows from the fields. */
static const char *type_of(const json_t *json) {
  const json_t *type = json_object_get(json, "type");
  if (type != NULL) return json_string_value(type);
  if (json_object_get(json, "merges") != NULL) return "BPE";
  if (json_object_get(json, "max_input_chars_per_word") != NULL) return "WordPiece";
  return json_is_array(json_object_get(json, "vocab")) ? "Unigram" : "WordLevel";
}

vkf_status vkf_text_model_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  loader->stage = "model";
  loader->type = NULL;
  model->env = loader->env;
  model->unk_id = -1;
  const char *type = json_is_object(json) ? type_of(json) : NULL;
  if (type == NULL) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"model\" should be an object with a type");
  for (size_t i = 0; i < VKF_COUNT(MODELS); i++) {
    if (strcmp(MODELS[i].type, type) != 0) continue;
    loader->type = MODELS[i].type;
    return MODELS[i].load(model, loader, json);
  }
  return vkf_env_fail(loader->env, VKF_ERROR_UNSUPPORTED, "model of type \"%s\" is not supported", type);
}
