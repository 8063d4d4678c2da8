/* cache_rows: places sequences of different lengths in the rows of a cache of keys and values.
 *
 * Pure host code. A cache has as many rows as there are slots, each long enough for the longest sequence. Shorter
 * sequences share a row, one behind the other, so that the last rows are never written: under a CPU driver such pages
 * take no memory, and no time to be cleared. Invariants: placed sequences do not overlap; each finds room, because
 * while a slot is free, a row is empty.
 */
#ifndef VKF_ENGINE_CACHE_ROWS_H
#define VKF_ENGINE_CACHE_ROWS_H

#include "base/base.h"

/* The keys [first, first + tokens) of a row. */
typedef struct vkf_cache_place {
  uint32_t row, first, tokens;
  bool is_placed;
} vkf_cache_place;

typedef struct vkf_cache_rows {
  uint32_t n, keys;        /* rows; keys of each */
  uint32_t *ends, *users;  /* [n], by row: the end of its last sequence, its number of sequences */
  vkf_cache_place *places; /* [n], by slot */
} vkf_cache_rows;

/* Finish it in every case. */
vkf_status vkf_engine_cache_rows_init(vkf_cache_rows *rows, vkf_env *env, uint32_t n, uint32_t keys);
void vkf_engine_cache_rows_finish(vkf_cache_rows *rows, vkf_env *env);
/* Frees the place of a slot's sequence, and requests one for its next sequence, of 1 to `keys` tokens. */
void vkf_engine_cache_rows_want(vkf_cache_rows *rows, uint32_t slot, uint32_t tokens);
/* Places the requested sequences, the longest first, each in the fullest row with room behind its last sequence. */
void vkf_engine_cache_rows_place(vkf_cache_rows *rows);

#endif
