/* added: cuts added tokens out of the text before the other steps.
 *
 * Tokens that are not `normalized` are looked for in the raw text, the others in the normalized text, by their
 * normalized content. At each place the longest one wins. single_word tokens match only between non-word characters;
 * lstrip and rstrip tokens take the white space beside them. Refuses an id that belongs to another piece of the
 * vocabulary.
 */
#include "text/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- looking for them -------------------------------------------------------------------------------------------- */

static const vkf_text_added_token *match_at(const vkf_text_added_set *set, vkf_text_string text, size_t at) {
  uint8_t byte = (uint8_t)text.data[at];
  for (size_t i = set->start[byte]; i < set->start[byte + 1]; i++) {
    vkf_text_string want = set->tokens[i]->pattern;
    if (want.size <= text.size - at && memcmp(text.data + at, want.data, want.size) == 0) return set->tokens[i];
  }
  return NULL;
}

static bool stands_alone(vkf_text_string text, size_t start, size_t end) {
  size_t next;
  if (start > 0 && vkf_text_is_word(vkf_text_char_at(text, vkf_text_char_before(text, start), &next))) return false;
  return end == text.size || !vkf_text_is_word(vkf_text_char_at(text, end, &next));
}

static size_t space_before(vkf_text_string text, size_t at, size_t limit) {
  while (at > limit) {
    size_t before = vkf_text_char_before(text, at), next;
    if (!vkf_text_is_white(vkf_text_char_at(text, before, &next))) break;
    at = before;
  }
  return at;
}

static size_t space_after(vkf_text_string text, size_t at) {
  for (size_t next; at < text.size && vkf_text_is_white(vkf_text_char_at(text, at, &next)); at = next) {
  }
  return at;
}

void vkf_text_added_cut(const vkf_text_added_set *set, vkf_text_string text, bool first, vkf_text_pieces *out) {
  size_t done = 0; /* everything before it is in `out` */
  for (size_t at = 0; at < text.size;) {
    const vkf_text_added_token *token = match_at(set, text, at);
    if (token == NULL) {
      at++;
      continue;
    }
    size_t start = at, end = at + token->pattern.size;
    at = end;
    if (token->single_word && !stands_alone(text, start, end)) continue;
    if (token->lstrip) start = VKF_MAX(space_before(text, start, done), done);
    if (token->rstrip) end = space_after(text, end);
    if (start >= end) continue; /* the token before it took it as white space */
    if (done < start)
      vkf_text_pieces_push(out, (vkf_text_string){text.data + done, start - done}, -1, first && done == 0);
    vkf_text_pieces_push(out, (vkf_text_string){text.data + start, end - start}, token->id, first && start == 0);
    done = end;
  }
  if (done < text.size)
    vkf_text_pieces_push(out, (vkf_text_string){text.data + done, text.size - done}, -1, first && done == 0);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static vkf_status load_token(vkf_text_loader *loader, const json_t *json, const vkf_text_vocab *vocab,
                             vkf_text_added_token *token) {
  size_t id;
  VKF_CALL(vkf_text_load_string(loader, json, "content", &token->content));
  VKF_CALL(vkf_text_load_size(loader, json, "id", SIZE_MAX, &id));
  VKF_CALL(vkf_text_load_bool(loader, json, "special", false, &token->special));
  VKF_CALL(vkf_text_load_bool(loader, json, "single_word", false, &token->single_word));
  VKF_CALL(vkf_text_load_bool(loader, json, "lstrip", false, &token->lstrip));
  VKF_CALL(vkf_text_load_bool(loader, json, "rstrip", false, &token->rstrip));
  VKF_CALL(vkf_text_load_bool(loader, json, "normalized", !token->special, &token->normalized));
  if (id >= VKF_TEXT_MAX_IDS)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "the id of \"%s\" should be a number from 0 to %d",
                              token->content.data, VKF_TEXT_MAX_IDS - 1);
  token->id = (int32_t)id;
  int32_t known = vkf_text_vocab_find(vocab, token->content);
  bool taken =
      id < vocab->size && vocab->pieces[id].data != NULL && !vkf_text_string_equal(vocab->pieces[id], token->content);
  if ((known >= 0 && known != token->id) || taken)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" has the id %zu, which is not what the vocabulary says",
                              token->content.data, id);
  return VKF_OK;
}

static int compare_tokens(const void *left, const void *right) {
  const vkf_text_added_token *a = *(const vkf_text_added_token *const *)left;
  const vkf_text_added_token *b = *(const vkf_text_added_token *const *)right;
  uint8_t first_a = (uint8_t)a->pattern.data[0], first_b = (uint8_t)b->pattern.data[0];
  if (first_a != first_b) return first_a < first_b ? -1 : 1;
  if (a->pattern.size != b->pattern.size) return a->pattern.size > b->pattern.size ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

static vkf_status build_set(vkf_text_added_set *set, vkf_text_loader *loader, const vkf_text_added *added,
                            bool normalized) {
  set->tokens = vkf_arena_alloc(loader->arena, added->n, sizeof(*set->tokens));
  if (set->tokens == NULL) return VKF_ERROR_MEMORY;
  size_t n = 0;
  for (size_t i = 0; i < added->n; i++) {
    const vkf_text_added_token *token = &added->tokens[i];
    if (token->normalized == normalized && token->pattern.size > 0) set->tokens[n++] = token;
  }
  if (n > 1) qsort(set->tokens, n, sizeof(*set->tokens), compare_tokens);
  for (size_t i = 0; i < n; i++) set->start[(uint8_t)set->tokens[i]->pattern.data[0] + 1]++;
  for (size_t byte = 0; byte < 256; byte++) set->start[byte + 1] += set->start[byte];
  return VKF_OK;
}

vkf_status vkf_text_added_load(vkf_text_added *added, vkf_text_loader *loader, const json_t *json,
                               const vkf_text_vocab *vocab, const vkf_text_step *normalizers) {
  vkf_status st = VKF_OK;
  vkf_text pattern;
  vkf_text_init(&pattern, loader->env);
  loader->stage = "added_tokens";
  loader->type = NULL;
  if (json != NULL && !json_is_null(json) && !json_is_array(json))
    VKF_FAIL(loader->env, VKF_ERROR_FORMAT, "\"added_tokens\" should be a list");
  added->n = json_array_size(json);
  added->tokens = vkf_arena_alloc(loader->arena, added->n, sizeof(*added->tokens));
  if (added->tokens == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < added->n; i++) {
    vkf_text_added_token *token = &added->tokens[i];
    VKF_TRY(load_token(loader, json_array_get(json, i), vocab, token));
    token->pattern = token->content;
    if (!token->normalized || token->content.size == 0) continue;
    pattern.size = 0;
    VKF_TRY(vkf_text_normalize(normalizers, loader->env, token->content, &pattern));
    VKF_TRY(vkf_text_load_copy(loader, pattern.data, pattern.size, &token->pattern));
  }
  VKF_TRY(build_set(&added->raw, loader, added, false));
  VKF_TRY(build_set(&added->normalized, loader, added, true));
done:
  vkf_text_finish(&pattern);
  return st;
}
