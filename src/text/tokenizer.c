/* tokenizer: creates tokenizers and runs the whole pipeline of encoding and decoding.
 *
 * Owns the arena that holds everything loaded, and the few things outside it (regular expressions, scratch memory).
 * Checks texts and ids; the stages rely on that.
 */
#include "text/internal.h"

#include "base/json_memory.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

static vkf_status load_json(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const vkf_text_file *file) {
  vkf_status st = VKF_OK;
  json_error_t error = {0};
  json_t *root = json_loadb(file->data, file->size, JSON_ALLOW_NUL, &error);
  if (root == NULL) return vkf_json_refuse(loader->env, file->name, file->data, file->size, &error);
  if (!json_is_object(root)) VKF_FAIL(loader->env, VKF_ERROR_FORMAT, "expected a JSON object, found another value");
  VKF_TRY(vkf_text_tokenizer_load(tokenizer, loader, root));
done:
  json_decref(root);
  return st == VKF_OK ? st : vkf_env_prefix(loader->env, st, "%s: ", file->name);
}

/* Reads the options of tokenizer_config.json that every tokenizer has. As in transformers 5,
 * clean_up_tokenization_spaces does not apply to BPE of the tokenizers library, but does to classes that give the
 * pieces of a SentencePiece model ids of their own (Marian, M2M-100), and truncation_side overrides tokenizer.json. */
static vkf_status load_config(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const vkf_text_file *file) {
  vkf_status st = VKF_OK;
  json_t *config = NULL;
  bool is_asked = tokenizer->cleans_up;
  loader->stage = file->name;
  loader->type = NULL;
  VKF_TRY(vkf_text_load_object(loader, file, &config));
  VKF_TRY(vkf_text_load_choice(loader, config, "truncation_side", (const char *const[]){"right", "left"},
                               &tokenizer->cuts_left));
  VKF_TRY(vkf_text_load_bool(loader, config, "clean_up_tokenization_spaces", is_asked, &is_asked));
  tokenizer->cleans_up = is_asked && (tokenizer->model.merges == NULL || tokenizer->remap != NULL);
done:
  json_decref(config);
  return st;
}

vkf_status vkf_text_tokenizer_create(vkf_env *env, const vkf_text_files *files, vkf_text_tokenizer **out) {
  vkf_text_tokenizer *tokenizer = vkf_env_alloc(env, 1, sizeof(*tokenizer));
  if (tokenizer == NULL) return VKF_ERROR_MEMORY;
  tokenizer->env = env;
  vkf_arena_init(&tokenizer->arena, env);
  vkf_text_loader loader = {.env = env, .arena = &tokenizer->arena, .patterns = &tokenizer->patterns};
  vkf_status st = files->tokenizer.data != NULL ? load_json(tokenizer, &loader, &files->tokenizer)
                                                : vkf_text_tokenizer_load_legacy(tokenizer, &loader, files);
  if (st == VKF_OK) st = vkf_text_languages_load(tokenizer, &loader, files);
  if (st == VKF_OK) st = load_config(tokenizer, &loader, &files->tokenizer_config);
  if (st == VKF_OK)
    *out = tokenizer;
  else
    vkf_text_tokenizer_destroy(&tokenizer);
  return st;
}

void vkf_text_tokenizer_destroy(vkf_text_tokenizer **tokenizer) {
  vkf_text_tokenizer *dead = tokenizer != NULL ? *tokenizer : NULL;
  if (dead == NULL) return;
  for (vkf_text_pattern_list *link = dead->patterns; link != NULL; link = link->next)
    vkf_text_pattern_finish(link->pattern);
  vkf_text_tokenizer_destroy(&dead->of_targets);
  vkf_text_model_finish(&dead->model);
  vkf_arena_finish(&dead->arena);
  vkf_env_free(dead->env, dead);
  *tokenizer = NULL;
}

vkf_status vkf_text_tokenizer_of_targets(vkf_text_tokenizer *tokenizer, vkf_text_tokenizer **out) {
  const bool is_other = tokenizer->target_files.spm.data != NULL;
  if (is_other && tokenizer->of_targets == NULL)
    VKF_CALL(vkf_text_tokenizer_create(tokenizer->env, &tokenizer->target_files, &tokenizer->of_targets));
  *out = is_other ? tokenizer->of_targets : tokenizer;
  return VKF_OK;
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* Cuts a text into pieces that are added tokens or normalized text. */
static vkf_status cut_and_normalize(const vkf_text_tokenizer *tokenizer, vkf_text_string text, vkf_text_pieces *out) {
  vkf_status st = VKF_OK;
  vkf_text_pieces raw;
  vkf_text plain;
  vkf_text_pieces_init(&raw, tokenizer->env);
  vkf_text_init(&plain, tokenizer->env);
  vkf_text_added_cut(&tokenizer->added.raw, text, true, &raw);
  VKF_TRY(vkf_text_status(&raw.bytes));
  for (size_t i = 0; i < raw.n; i++) {
    vkf_text_piece piece = raw.at[i];
    if (piece.id >= 0) {
      vkf_text_pieces_push(out, vkf_text_pieces_get(&raw, i), piece.id, piece.first);
      continue;
    }
    plain.size = 0;
    VKF_TRY(vkf_text_normalize(tokenizer->normalizers, tokenizer->env, vkf_text_pieces_get(&raw, i), &plain));
    vkf_text_added_cut(&tokenizer->added.normalized, (vkf_text_string){plain.data, plain.size}, piece.first, out);
  }
  VKF_TRY(vkf_text_status(&out->bytes));
done:
  vkf_text_finish(&plain);
  vkf_text_pieces_finish(&raw);
  return st;
}

static vkf_status encode_piece(vkf_text_tokenizer *tokenizer, vkf_text_string text, vkf_text_ids *out) {
  size_t before = out->n;
  vkf_status st = tokenizer->model.encode(&tokenizer->model, text, out);
  for (size_t i = before; i < out->n && tokenizer->remap != NULL; i++) out->ids[i] = tokenizer->remap[out->ids[i]];
  return st;
}

/* Appends the ids of a text. words: if it is not NULL, where the ids of each word begin and end in `body`. An added
 * token is no word. */
static vkf_status encode_words(vkf_text_tokenizer *tokenizer, const char *utf8, size_t size, vkf_text_ids *body,
                               vkf_text_ids *words) {
  vkf_status st = VKF_OK;
  size_t bad = 0;
  if (size > INT32_MAX / 8)
    return vkf_env_fail(tokenizer->env, VKF_ERROR_ARGUMENT, "the text of %zu bytes is too long", size);
  if (!vkf_utf8_check(utf8, size, &bad))
    return vkf_env_fail(tokenizer->env, VKF_ERROR_ARGUMENT, "the text should be UTF-8, and is not from byte %zu on",
                        bad);
  vkf_text_pieces pieces;
  vkf_text_pieces_init(&pieces, tokenizer->env);
  VKF_TRY(cut_and_normalize(tokenizer, (vkf_text_string){utf8, size}, &pieces));
  VKF_TRY(vkf_text_pretokenize(tokenizer->pretokenizers, &pieces));
  for (size_t i = 0; i < pieces.n; i++) {
    vkf_text_piece piece = pieces.at[i];
    const size_t begin = body->n;
    if (piece.id >= 0)
      VKF_TRY(vkf_text_ids_append(body, &piece.id, 1));
    else if (piece.size > 0)
      VKF_TRY(encode_piece(tokenizer, vkf_text_pieces_get(&pieces, i), body));
    if (words != NULL && piece.id < 0 && piece.size > 0)
      VKF_TRY(vkf_text_ids_append(words, (const int32_t[]){(int32_t)begin, (int32_t)body->n}, 2));
  }
done:
  vkf_text_pieces_finish(&pieces);
  return st;
}

vkf_status vkf_text_tokenizer_encode(vkf_text_tokenizer *tokenizer, const char *utf8, size_t size, bool add_special,
                                     vkf_text_ids *out) {
  vkf_status st = VKF_OK;
  vkf_text_ids body;
  vkf_text_ids_init(&body, tokenizer->env);
  if (add_special && tokenizer->languages.before > 0)
    VKF_TRY(vkf_text_ids_append(&body, &tokenizer->languages.before, 1));
  VKF_TRY(encode_words(tokenizer, utf8, size, &body, NULL));
  if (add_special)
    VKF_TRY(vkf_text_postprocess(tokenizer->postprocessors, &body, out));
  else
    VKF_TRY(vkf_text_ids_append(out, body.ids, body.n));
done:
  vkf_text_ids_finish(&body);
  return st;
}

vkf_status vkf_text_tokenizer_encode_most(vkf_text_tokenizer *tokenizer, const char *utf8, size_t size, size_t most,
                                          vkf_text_ids *out) {
  vkf_status st = VKF_OK;
  vkf_text_ids body, words;
  vkf_text_ids_init(&body, tokenizer->env);
  vkf_text_ids_init(&words, tokenizer->env);
  VKF_TRY(encode_words(tokenizer, utf8, size, &body, &words));
  size_t from = 0, to = body.n;
  for (size_t i = 0; i < words.n && to == body.n && !tokenizer->cuts_left; i += 2)
    if ((size_t)words.ids[i + 1] >= most) to = (size_t)words.ids[i + 1];
  for (size_t i = words.n; i > 0 && from == 0 && tokenizer->cuts_left; i -= 2)
    if (body.n - (size_t)words.ids[i - 2] >= most) from = (size_t)words.ids[i - 2];
  VKF_TRY(vkf_text_ids_append(out, body.ids + from, to - from));
done:
  vkf_text_ids_finish(&words);
  vkf_text_ids_finish(&body);
  return st;
}

vkf_status vkf_text_tokenizer_join(const vkf_text_tokenizer *tokenizer, const vkf_text_ids *first,
                                   const vkf_text_ids *second, bool add_special, vkf_text_ids *ids,
                                   vkf_text_ids *types) {
  return vkf_text_postprocess_pair(add_special ? tokenizer->postprocessors : NULL, first, second, ids, types);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

struct vkf_text_stream {
  vkf_text_tokenizer *tokenizer;
  bool skip_special;
  size_t n_states;               /* of the decoders, then of the last stage */
  vkf_text_decode_state *states; /* [2][n_states]: the second set is scratch for vkf_text_stream_rest() */
};

vkf_status vkf_text_stream_create(vkf_text_tokenizer *tokenizer, bool skip_special, vkf_text_stream **out) {
  vkf_env *env = tokenizer->env;
  vkf_text_stream *stream = vkf_env_alloc(env, 1, sizeof(*stream));
  *out = NULL;
  if (stream == NULL) return VKF_ERROR_MEMORY;
  *stream = (vkf_text_stream){tokenizer, skip_special, VKF_TEXT_CLEAN_UP_RULES, NULL};
  for (const vkf_text_step *step = tokenizer->decoders; step != NULL; step = step->next) stream->n_states++;
  stream->states = vkf_env_alloc(env, 2 * stream->n_states, sizeof(*stream->states));
  if (stream->states == NULL) {
    vkf_env_free(env, stream);
    return VKF_ERROR_MEMORY;
  }
  for (size_t i = 0; i < 2 * stream->n_states; i++) {
    vkf_text_init(&stream->states[i].held, env);
    vkf_text_init(&stream->states[i].partial, env);
  }
  *out = stream;
  return VKF_OK;
}

void vkf_text_stream_destroy(vkf_text_stream **stream) {
  vkf_text_stream *dead = *stream;
  if (dead == NULL) return;
  for (size_t i = 0; i < 2 * dead->n_states; i++) {
    vkf_text_finish(&dead->states[i].held);
    vkf_text_finish(&dead->states[i].partial);
  }
  vkf_env *env = dead->tokenizer->env;
  vkf_env_free(env, dead->states);
  vkf_env_free(env, dead);
  *stream = NULL;
}

/* Replaces each zero byte from `begin` on by U+FFFD, because it would end a C string. */
static vkf_status show_zeros(vkf_text *out, size_t begin) {
  size_t n_zeros = 0;
  for (size_t i = begin; i < out->size; i++) n_zeros += out->data[i] == 0;
  size_t from = out->size;
  for (size_t i = 0; i < n_zeros; i++) vkf_text_append(out, "  ", 2); /* room */
  if (out->failed) return VKF_ERROR_MEMORY;
  for (size_t to = out->size; n_zeros > 0;) {
    const char byte = out->data[--from];
    if (byte) {
      out->data[--to] = byte;
      continue;
    }
    memcpy(out->data + (to -= 3), "\xEF\xBF\xBD", 3);
    n_zeros--;
  }
  return VKF_OK;
}

static vkf_status emit(const vkf_text_sink *sink, const vkf_text_chunk *chunk) {
  const size_t begin = sink->out->size;
  VKF_CALL(vkf_text_emit(sink, chunk));
  return show_zeros(sink->out, begin);
}

vkf_status vkf_text_stream_add(vkf_text_stream *stream, int32_t id, vkf_text *out) {
  vkf_text_tokenizer *tokenizer = stream->tokenizer;
  if (vkf_text_tokenizer_piece(tokenizer, id) == NULL) return VKF_OK;
  if (stream->skip_special && tokenizer->special[id]) return VKF_OK;
  const vkf_text_sink sink = {tokenizer, tokenizer->decoders, stream->states, out};
  return emit(&sink, &(vkf_text_chunk){tokenizer->pieces[id], true, true, false});
}

vkf_status vkf_text_stream_add_word(vkf_text_stream *stream, const char *utf8, size_t size, vkf_text *out) {
  const vkf_text_sink sink = {stream->tokenizer, stream->tokenizer->decoders, stream->states, out};
  return emit(&sink, &(vkf_text_chunk){{utf8, size}, true, true, false});
}

static vkf_status copy_state(const vkf_text_decode_state *from, vkf_text_decode_state *to) {
  const vkf_text held = to->held, partial = to->partial;
  *to = *from;
  to->held = held;
  to->partial = partial;
  to->held.size = to->partial.size = 0;
  vkf_text_append(&to->held, from->held.data, from->held.size);
  vkf_text_append(&to->partial, from->partial.data, from->partial.size);
  return to->held.failed || to->partial.failed ? VKF_ERROR_MEMORY : VKF_OK;
}

vkf_status vkf_text_stream_rest(vkf_text_stream *stream, vkf_text *out) {
  vkf_text_decode_state *spare = stream->states + stream->n_states;
  for (size_t i = 0; i < stream->n_states; i++) {
    VKF_CALL(copy_state(&stream->states[i], &spare[i]));
  }
  const vkf_text_sink sink = {stream->tokenizer, stream->tokenizer->decoders, spare, out};
  return emit(&sink, &(vkf_text_chunk){.is_end = true});
}

vkf_status vkf_text_tokenizer_decode(vkf_text_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special,
                                     vkf_text *out) {
  vkf_status st = VKF_OK;
  vkf_text_stream *stream = NULL;
  vkf_text text;
  vkf_text_init(&text, tokenizer->env);
  VKF_TRY(vkf_text_stream_create(tokenizer, skip_special, &stream));
  for (size_t i = 0; i < n; i++) VKF_TRY(vkf_text_stream_add(stream, ids[i], &text));
  VKF_TRY(vkf_text_stream_rest(stream, &text));
  vkf_text_append(out, text.data, text.size);
  VKF_TRY(vkf_text_status(out));
done:
  vkf_text_stream_destroy(&stream);
  vkf_text_finish(&text);
  return st;
}

bool vkf_text_tokenizer_cuts_left(const vkf_text_tokenizer *tokenizer) {
  return tokenizer->cuts_left;
}

bool vkf_text_tokenizer_marks_words(const vkf_text_tokenizer *tokenizer) {
  static const char *const marking[] = {"ByteLevel", "Metaspace", "SentencePiece"};
  for (const vkf_text_step *step = tokenizer->decoders; step != NULL; step = step->next)
    for (size_t i = 0; i < VKF_COUNT(marking); i++)
      if (strcmp(step->kind->type, marking[i]) == 0) return true;
  return false;
}

/* ---- vocabulary -------------------------------------------------------------------------------------------------- */

bool vkf_text_tokenizer_is_special(const vkf_text_tokenizer *tokenizer, int32_t id) {
  return id >= 0 && (size_t)id < tokenizer->n_pieces && tokenizer->special[id];
}

const char *vkf_text_tokenizer_piece(const vkf_text_tokenizer *tokenizer, int32_t id) {
  return id >= 0 && (size_t)id < tokenizer->n_pieces ? tokenizer->pieces[id].data : NULL;
}
