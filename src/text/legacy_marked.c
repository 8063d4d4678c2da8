/* legacy_marked: loads vocab.json and merges.txt of the small Blenderbot, whose words are pieces marked "@@", except
 * the last one of each word.
 *
 * The model is BPE whose last piece of a word ends in "</w>", as in merges.txt. Merges may lead through pieces that
 * vocab.json lacks: they have ids of their own here, and a word that ends with one has an unknown token for it.
 */
#include "text/legacy.h"

#include <string.h>

#define MARK "@@"
#define END "</w>"

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Gives a piece of the model an id, `next` if it has none. */
static vkf_status number_piece(vkf_text_legacy *o, json_t *pieces, vkf_text_string piece, json_int_t *next) {
  vkf_text_string key;
  VKF_CALL(vkf_text_load_copy(o->loader, piece.data, piece.size, &key));
  if (json_object_get(pieces, key.data) != NULL) return VKF_OK;
  return json_object_set_new(pieces, key.data, json_integer((*next)++)) == 0 ? VKF_OK : vkf_text_legacy_no_memory(o);
}

/* Gives the pieces of vocab.json the names that they have in merges.txt. *next: one more than the largest id. */
static vkf_status rename_pieces(vkf_text_legacy *o, json_t *pieces, json_int_t *next) {
  vkf_status st = VKF_OK;
  const char *name;
  json_t *id;
  vkf_text key;
  vkf_text_init(&key, o->loader->env);
  json_object_foreach(o->vocab, name, id) {
    const size_t size = strlen(name);
    const bool goes_on = vkf_ends_with(name, MARK);
    key.size = 0;
    vkf_text_append(&key, name, goes_on ? size - strlen(MARK) : size);
    vkf_text_append(&key, END, goes_on ? 0 : strlen(END));
    vkf_text_append(&key, "", 1);
    VKF_TRY(vkf_text_status(&key));
    if (json_object_set(pieces, key.data, id) != 0) VKF_TRY(vkf_text_legacy_no_memory(o));
    *next = VKF_MAX(*next, json_integer_value(id) + 1);
  }
done:
  vkf_text_finish(&key);
  return st;
}

/* Gives an id to what a merge joins and becomes, where vocab.json has none. */
static vkf_status add_between(vkf_text_legacy *o, json_t *pieces, const json_t *merges, json_int_t *next) {
  size_t i;
  const json_t *merge;
  json_array_foreach(merges, i, merge) {
    const char *text = json_string_value(merge), *space = strchr(text, ' ');
    if (space == NULL) continue; /* the model refuses it */
    const size_t left = (size_t)(space - text), right = json_string_length(merge) - left - 1;
    vkf_text_string joined;
    VKF_CALL(vkf_text_load_copy(o->loader, text, left + 1 + right, &joined));
    memmove((char *)(uintptr_t)joined.data + left, space + 1, right);
    VKF_CALL(number_piece(o, pieces, (vkf_text_string){text, left}, next));
    VKF_CALL(number_piece(o, pieces, (vkf_text_string){space + 1, right}, next));
    VKF_CALL(number_piece(o, pieces, (vkf_text_string){joined.data, left + right}, next));
  }
  return VKF_OK;
}

/* Checks the ids of vocab.json. */
static vkf_status load_names(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  vkf_text_model names = {.env = o->loader->env};
  json_t *json = json_pack("{s:O}", "vocab", o->vocab);
  o->loader->stage = o->files->vocab.name;
  o->loader->type = NULL;
  vkf_status st = json == NULL ? vkf_text_legacy_no_memory(o) : vkf_text_model_load_vocab(&names, o->loader, json);
  tokenizer->names = names.vocab;
  json_decref(json);
  return st;
}

/* Maps the ids of the model to those of vocab.json. */
static vkf_status map_ids(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  const vkf_text_vocab *names = &tokenizer->names;
  const size_t n = tokenizer->model.vocab.size;
  int32_t *remap = vkf_arena_alloc(o->loader->arena, n, sizeof *remap);
  if (remap == NULL) return vkf_text_legacy_no_memory(o);
  for (size_t i = 0; i < n; i++)
    remap[i] = i < names->size && names->pieces[i].data != NULL ? (int32_t)i : tokenizer->model.unk_id;
  tokenizer->remap = remap;
  return VKF_OK;
}

/* ---- the decoder ------------------------------------------------------------------------------------------------- */

/* Puts spaces between words, and holds a mark until the next piece shows that it is one. */
static vkf_status join_marked(const vkf_text_step *step, vkf_text_decode_state *state, const vkf_text_chunk *in,
                              const vkf_text_sink *out) {
  vkf_text text;
  vkf_text_init(&text, step->env);
  if (in->is_end) {
    vkf_text_append(&text, state->held.data, state->held.size);
  } else {
    const size_t mark = strlen(MARK), size = in->text.size;
    const bool goes_on = size >= mark && memcmp(in->text.data + size - mark, MARK, mark) == 0;
    if (state->n++ > 0 && state->held.size == 0) vkf_text_append(&text, " ", 1);
    vkf_text_append(&text, in->text.data, goes_on ? size - mark : size);
    state->held.size = 0;
    vkf_text_append(&state->held, MARK, goes_on ? mark : 0);
  }
  vkf_status st = vkf_text_status(&state->held);
  if (st == VKF_OK) st = vkf_text_status(&text);
  if (st == VKF_OK) st = vkf_text_emit_part(out, state, (vkf_text_string){text.data, text.size}, in->is_end);
  vkf_text_finish(&text);
  return st;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Splits a text as the class does: at white space, before marks of punctuation and around apostrophes. A line end right
 * behind a word, but not behind an apostrophe, is a word. NULL: no memory. */
static json_t *stages_json(vkf_text_legacy *o, json_t *pieces, json_t *merges, const char *unk) {
  return json_pack(
      "{s:O, s:O, s:{s:s, s:O, s:O, s:s, s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}]}, "
      "s:{s:s, s:[{s:s}, {s:s, s:{s:s}, s:s}, {s:s, s:{s:s}, s:s}]}}",
      "added_tokens", o->added, "post_processor", o->post, "model", "type", "BPE", "vocab", pieces, "merges", merges,
      "unk_token", unk, "end_of_word_suffix", END, "normalizer", "type", "Sequence", "normalizers", "type", "Replace",
      "pattern", "Regex", "(?<=[^\\s'])\\n", "content", " __newln__ ", "type", "Lowercase", "pre_tokenizer", "type",
      "Sequence", "pretokenizers", "type", "WhitespaceSplit", "type", "Split", "pattern", "Regex", "[.,!?()]",
      "behavior", "MergedWithNext", "type", "Split", "pattern", "String", "'", "behavior", "Isolated");
}

vkf_status vkf_text_legacy_load_marked(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o) {
  static const vkf_text_kind KIND = {.type = "JoinMarked", .decode = join_marked};
  vkf_status st = VKF_OK;
  json_int_t next = 0;
  json_t *pieces = json_object(), *merges = json_array(), *root = NULL;
  vkf_text_step *decoder = vkf_arena_alloc(o->loader->arena, 1, sizeof *decoder);
  const char *token = vkf_text_legacy_special_token(o, VKF_LEGACY_UNK);
  const char *unk = vkf_arena_printf(o->loader->arena, "%s" END, token != NULL ? token : "");
  if (pieces == NULL || merges == NULL || decoder == NULL || unk == NULL) VKF_TRY(vkf_text_legacy_no_memory(o));
  VKF_TRY(vkf_text_legacy_read_merges(o, merges));
  VKF_TRY(load_names(tokenizer, o));
  VKF_TRY(rename_pieces(o, pieces, &next));
  if (json_object_get(pieces, unk) == NULL)
    VKF_FAIL(o->loader->env, VKF_ERROR_FORMAT, "%s: the unknown token \"%s\" is missing", o->files->vocab.name,
             token != NULL ? token : "");
  VKF_TRY(add_between(o, pieces, merges, &next));
  VKF_TRY(vkf_text_legacy_add_tokens(o));
  VKF_TRY(vkf_text_legacy_make_postprocessor(o));
  root = stages_json(o, pieces, merges, unk);
  if (root == NULL) VKF_TRY(vkf_text_legacy_no_memory(o));
  VKF_TRY(vkf_text_model_load(&tokenizer->model, o->loader, json_object_get(root, "model")));
  VKF_TRY(map_ids(tokenizer, o));
  VKF_TRY(vkf_text_load_normalizers(o->loader, json_object_get(root, "normalizer"), &tokenizer->normalizers));
  VKF_TRY(vkf_text_tokenizer_load_tokens(tokenizer, o->loader, root));
  decoder->kind = &KIND;
  decoder->env = o->loader->env;
  tokenizer->decoders = decoder;
done:
  json_decref(root);
  json_decref(merges);
  json_decref(pieces);
  return st;
}
