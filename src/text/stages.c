/* stages: loads the stages of a tokenizer from the values of a tokenizer.json, and finds pieces by name. */
#include <string.h>

#include "text/internal.h"

static vkf_status join_pieces(vkf_text_tokenizer *tokenizer) {
  const vkf_text_vocab *vocab = &tokenizer->names;
  size_t n = vocab->size;
  for (size_t i = 0; i < tokenizer->added.n; i++) n = VKF_MAX(n, (size_t)tokenizer->added.tokens[i].id + 1);
  tokenizer->n_pieces = n;
  tokenizer->pieces = vkf_arena_alloc(&tokenizer->arena, n, sizeof(*tokenizer->pieces));
  tokenizer->special = vkf_arena_alloc(&tokenizer->arena, n, sizeof(*tokenizer->special));
  if (tokenizer->pieces == NULL || tokenizer->special == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < vocab->size; i++) tokenizer->pieces[i] = vocab->pieces[i];
  for (size_t i = 0; i < tokenizer->added.n; i++) {
    const vkf_text_added_token *token = &tokenizer->added.tokens[i];
    tokenizer->pieces[token->id] = token->content;
    tokenizer->special[token->id] = token->special;
  }
  return VKF_OK;
}

vkf_status vkf_text_tokenizer_load_tokens(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const json_t *json) {
  VKF_CALL(vkf_text_added_load(&tokenizer->added, loader, json_object_get(json, "added_tokens"), &tokenizer->names,
                               tokenizer->normalizers));
  VKF_CALL(join_pieces(tokenizer));
  VKF_CALL(vkf_text_load_pretokenizers(loader, json_object_get(json, "pre_tokenizer"), &tokenizer->pretokenizers));
  return vkf_text_load_postprocessors(loader, json_object_get(json, "post_processor"), tokenizer->pieces,
                                      tokenizer->n_pieces, &tokenizer->postprocessors);
}

vkf_status vkf_text_tokenizer_load(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const json_t *json) {
  VKF_CALL(vkf_text_model_load(&tokenizer->model, loader, json_object_get(json, "model")));
  tokenizer->names = tokenizer->model.vocab;
  VKF_CALL(vkf_text_load_normalizers(loader, json_object_get(json, "normalizer"), &tokenizer->normalizers));
  VKF_CALL(vkf_text_tokenizer_load_tokens(tokenizer, loader, json));
  VKF_CALL(vkf_text_load_decoders(loader, json_object_get(json, "decoder"), &tokenizer->decoders));
  loader->stage = "truncation";
  loader->type = NULL;
  return vkf_text_load_choice(loader, json_object_get(json, "truncation"), "direction",
                              (const char *const[]){"Right", "Left"}, &tokenizer->cuts_left);
}

int32_t vkf_text_tokenizer_find(const vkf_text_tokenizer *tokenizer, const char *piece) {
  vkf_text_string want = {piece, strlen(piece)};
  for (size_t i = 0; i < tokenizer->added.n; i++) {
    if (vkf_text_string_equal(tokenizer->added.tokens[i].content, want)) return tokenizer->added.tokens[i].id;
  }
  int32_t id = vkf_text_vocab_find(&tokenizer->names, want);
  for (size_t i = 0; i < tokenizer->n_pieces && id < 0; i++) { /* pieces that text never becomes */
    if (tokenizer->special[i] && vkf_text_string_equal(tokenizer->pieces[i], want)) id = (int32_t)i;
  }
  return id;
}
