/* legacy_spm: loads SentencePiece models, also those whose ids come from another file or are numbered anew. */
#include "text/legacy.h"

#include <string.h>

static vkf_status read_spm(vkf_text_legacy *o, const vkf_text_file *file, vkf_text_spm *out) {
  o->loader->stage = file->name;
  o->loader->type = NULL;
  return vkf_text_spm_read(o->loader, (vkf_text_string){file->data, file->size}, out);
}

/* Maps the pieces of the SentencePiece model to the ids that o->vocab gives them. */
static vkf_status load_ids(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  vkf_status st = VKF_OK;
  size_t n = o->spm->n_pieces;
  vkf_text_model names = {.env = o->loader->env};
  size_t unk;
  const char *unk_token = vkf_text_legacy_special_token(o, VKF_LEGACY_UNK);
  json_t *json = json_pack("{s:O}", "vocab", o->vocab);
  int32_t *remap = NULL;
  if (json == NULL) VKF_TRY(vkf_text_legacy_no_memory(o));
  const char *name = o->files->vocab.data != NULL ? o->files->vocab.name : o->files->spm.name;
  o->loader->stage = name;
  VKF_TRY(vkf_text_model_load_vocab(&names, o->loader, json)); /* every id is checked */
  if (unk_token == NULL || !vkf_text_legacy_find_id(o, unk_token, &unk))
    VKF_FAIL(o->loader->env, VKF_ERROR_FORMAT, "%s: the unknown token \"%s\" is missing", name,
             unk_token ? unk_token : "");
  remap = vkf_arena_alloc(o->loader->arena, n + names.vocab.size, sizeof(*remap));
  if (remap == NULL) VKF_TRY(vkf_text_legacy_no_memory(o));
  for (size_t i = 0; i < n; i++) {
    int32_t id = i == o->spm->unk_id ? -1 : vkf_text_vocab_find(&names.vocab, tokenizer->model.vocab.pieces[i]);
    remap[i] = id >= 0 ? id : (int32_t)unk;
  }
  for (size_t i = 0; i < names.vocab.size; i++) remap[n + i] = (int32_t)i;
  tokenizer->remap = remap;
  tokenizer->names = names.vocab;
  /* transformers looks up pieces by their text, and the text of an unknown piece is the original text */
  if (o->row->form == VKF_LEGACY_MARIAN || o->row->form == VKF_LEGACY_M2M)
    tokenizer->model.surfaces = &tokenizer->names;
  o->next_id = names.vocab.size;
done:
  json_decref(json);
  return st;
}

/* Makes control pieces special, because they leave no text. */
static void mark_control_pieces(vkf_text_tokenizer *tokenizer, const vkf_text_spm *spm) {
  for (size_t i = 0; i < spm->n_pieces; i++) tokenizer->special[i] |= spm->pieces[i].type == VKF_TEXT_SPM_CONTROL;
}

/* Returns whether target.spm differs from source.spm. */
static bool have_two_models(const vkf_text_files *files) {
  const vkf_text_file *source = &files->spm, *target = &files->target_spm;
  return source->size != target->size || memcmp(source->data, target->data, target->size) != 0;
}

static vkf_status copy_file(vkf_arena *arena, const vkf_text_file *file, vkf_text_file *out) {
  char *data = vkf_arena_alloc(arena, file->size, 1), *name = vkf_arena_strdup(arena, file->name);
  if (data == NULL || name == NULL) return VKF_ERROR_MEMORY;
  memcpy(data, file->data, file->size);
  *out = (vkf_text_file){data, file->size, name};
  return VKF_OK;
}

/* Keeps copies of the files from which the tokenizer of targets is made. */
static vkf_status keep_target_files(vkf_text_tokenizer *tokenizer, const vkf_text_files *files) {
  vkf_text_files *kept = &tokenizer->target_files;
  const vkf_text_file *const from[] = {&files->target_spm, &files->vocab, &files->tokenizer_config, &files->config};
  vkf_text_file *const to[] = {&kept->target_spm, &kept->vocab, &kept->tokenizer_config, &kept->config};
  for (size_t i = 0; i < VKF_COUNT(from); i++)
    if (from[i]->data != NULL) VKF_CALL(copy_file(&tokenizer->arena, from[i], to[i]));
  kept->spm = kept->target_spm;
  return VKF_OK;
}

vkf_status vkf_text_legacy_load_spm(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  vkf_status st = VKF_OK;
  vkf_text_spm spm, target;
  json_t *root = NULL;
  bool marian = o->row != NULL && o->row->form == VKF_LEGACY_MARIAN;
  bool numbered = o->row != NULL && o->row->form != VKF_LEGACY_SENTENCEPIECE;
  if (marian && json_is_true(json_object_get(o->config, "separate_vocabs")))
    VKF_FAIL(o->loader->env, VKF_ERROR_UNSUPPORTED, "%s: separate_vocabs true is not supported",
             o->files->tokenizer_config.name);
  VKF_TRY(read_spm(o, &o->files->spm, &spm));
  o->spm = &spm;
  o->next_id = spm.n_pieces;
  VKF_TRY(vkf_text_spm_load_model(o->loader, &spm, &tokenizer->model));
  VKF_TRY(vkf_text_spm_load_normalizer(o->loader, &spm, &tokenizer->normalizers));
  tokenizer->names = tokenizer->model.vocab;
  if (numbered) {
    VKF_TRY(vkf_text_legacy_number_pieces(o));
    VKF_TRY(load_ids(tokenizer, o));
  }
  if (marian) VKF_TRY(read_spm(o, &o->files->target_spm, &target));
  if (o->row != NULL && strcmp(o->row->class_name, "PLBart") == 0) {
    tokenizer->cleans_up = true; /* if tokenizer_config.json does not say */
    VKF_TRY(vkf_text_spm_load_join(o->loader, &tokenizer->decoders));
  } else {
    VKF_TRY(vkf_text_spm_load_decoders(o->loader, marian ? &target : &spm, &tokenizer->decoders));
  }
  if (o->row != NULL) {
    VKF_TRY(vkf_text_legacy_add_tokens(o));
    VKF_TRY(vkf_text_legacy_add_languages(o));
    VKF_TRY(vkf_text_legacy_make_postprocessor(o));
  }
  root = json_pack("{s:O, s:O*}", "added_tokens", o->added, "post_processor", o->post);
  if (root == NULL) VKF_TRY(vkf_text_legacy_no_memory(o));
  VKF_TRY(vkf_text_tokenizer_load_tokens(tokenizer, o->loader, root));
  if (!numbered) mark_control_pieces(tokenizer, &spm);
  if (marian && have_two_models(o->files)) VKF_TRY(keep_target_files(tokenizer, o->files));
done:
  json_decref(root);
  return st;
}
