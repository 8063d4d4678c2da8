/* pieces: growing lists of pieces of text and of ids.
 *
 * Invariant: pieces hold offsets, never addresses, so a list may grow while it is read by index.
 */
#include "text/internal.h"

#include <string.h>

void vkf_text_pieces_init(vkf_text_pieces *pieces, vkf_env *env) {
  memset(pieces, 0, sizeof(*pieces));
  vkf_text_init(&pieces->bytes, env);
}

void vkf_text_pieces_finish(vkf_text_pieces *pieces) {
  vkf_env *env = pieces->bytes.env;
  vkf_env_free(env, pieces->at);
  vkf_text_finish(&pieces->bytes);
  vkf_text_pieces_init(pieces, env);
}

void vkf_text_pieces_clear(vkf_text_pieces *pieces) {
  pieces->n = 0;
  pieces->bytes.size = 0;
}

void vkf_text_pieces_push(vkf_text_pieces *pieces, vkf_text_string text, int32_t id, bool first) {
  if (pieces->bytes.failed) return;
  vkf_text_piece *at = vkf_env_grow(pieces->bytes.env, pieces->at, &pieces->capacity, pieces->n + 1, sizeof(*at));
  if (at == NULL) {
    pieces->bytes.failed = true;
    return;
  }
  pieces->at = at;
  pieces->at[pieces->n++] = (vkf_text_piece){.offset = pieces->bytes.size, .size = text.size, .id = id, .first = first};
  vkf_text_append(&pieces->bytes, text.data, text.size);
}

vkf_text_string vkf_text_pieces_get(const vkf_text_pieces *pieces, size_t i) {
  return (vkf_text_string){pieces->bytes.data + pieces->at[i].offset, pieces->at[i].size};
}

void vkf_text_ids_init(vkf_text_ids *ids, vkf_env *env) {
  memset(ids, 0, sizeof(*ids));
  ids->env = env;
}

void vkf_text_ids_finish(vkf_text_ids *ids) {
  vkf_env_free(ids->env, ids->ids);
  vkf_text_ids_init(ids, ids->env);
}

vkf_status vkf_text_ids_append(vkf_text_ids *ids, const int32_t *more, size_t n) {
  int32_t *grown = vkf_env_grow(ids->env, ids->ids, &ids->capacity, ids->n + n, sizeof(*grown));
  if (grown == NULL && n > 0) return VKF_ERROR_MEMORY;
  ids->ids = grown;
  if (n > 0) memcpy(ids->ids + ids->n, more, n * sizeof(*more));
  ids->n += n;
  return VKF_OK;
}
