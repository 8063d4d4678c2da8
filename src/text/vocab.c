/* vocab: pieces by id and ids by piece.
 *
 * One hash table with open addressing over strings of the arena, sized once. Refuses two pieces with one id.
 */
#include "text/internal.h"

#include <string.h>

static size_t slot_of(const vkf_text_vocab *vocab, uint64_t hash) {
  return (hash ^ (hash >> 32)) & (vocab->n_slots - 1);
}

vkf_status vkf_text_vocab_init(vkf_text_vocab *vocab, vkf_text_loader *loader, size_t size, size_t n_pieces) {
  memset(vocab, 0, sizeof(*vocab));
  vocab->n_slots = 16;
  while (vocab->n_slots < 2 * n_pieces) vocab->n_slots *= 2;
  vocab->pieces = vkf_arena_alloc(loader->arena, size, sizeof(*vocab->pieces));
  vocab->slots = vkf_arena_alloc(loader->arena, vocab->n_slots, sizeof(*vocab->slots));
  if (vocab->pieces == NULL || vocab->slots == NULL) return VKF_ERROR_MEMORY;
  vocab->size = size;
  return VKF_OK;
}

vkf_status vkf_text_vocab_add(vkf_text_vocab *vocab, vkf_text_loader *loader, size_t id, const char *data,
                              size_t size) {
  vkf_text_string *piece = &vocab->pieces[id];
  if (piece->data != NULL)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "id %zu belongs to \"%s\" and to \"%s\"", id, piece->data,
                              data);
  VKF_CALL(vkf_text_load_copy(loader, data, size, piece));
  vocab->longest = VKF_MAX(vocab->longest, size);
  const uint64_t hash = vkf_hash_bytes(VKF_HASH_START, data, size);
  size_t slot = slot_of(vocab, hash);
  while (vocab->slots[slot] != 0 && !vkf_text_string_equal(vocab->pieces[vocab->slots[slot] - 1], *piece))
    slot = (slot + 1) & (vocab->n_slots - 1);
  vocab->slots[slot] = (uint32_t)id + 1;
  return VKF_OK;
}

int32_t vkf_text_vocab_find_hashed(const vkf_text_vocab *vocab, vkf_text_string piece, uint64_t hash) {
  for (size_t slot = slot_of(vocab, hash); vocab->slots[slot] != 0; slot = (slot + 1) & (vocab->n_slots - 1)) {
    if (vkf_text_string_equal(vocab->pieces[vocab->slots[slot] - 1], piece)) return (int32_t)vocab->slots[slot] - 1;
  }
  return -1;
}

int32_t vkf_text_vocab_find(const vkf_text_vocab *vocab, vkf_text_string piece) {
  const uint64_t hash = vkf_hash_bytes(VKF_HASH_START, piece.data, piece.size);
  return vkf_text_vocab_find_hashed(vocab, piece, hash);
}
