/* cache_rows: where sequences of different lengths keep their keys and values.
 *
 * Pure host code. A cache has as many rows as there are slots, each for the longest sequence that may come. Sequences
 * that need less share a row, one behind the other, so that the last rows are never written: a CPU driver has no memory
 * for them then, and pages that are not there need not be cleared. Invariants: sequences that are placed do not
 * overlap, and there is a row for each, since an empty row is left whenever a slot is.
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
  uint32_t *ends, *users;  /* [n]: where the last sequence of a row ends, sequences in it */
  vkf_cache_place *places; /* [n], by slot */
} vkf_cache_rows;

/* Finish it in every case. */
vkf_status vkf_engine_cache_rows_init(vkf_cache_rows *rows, vkf_env *env, uint32_t n, uint32_t keys);
void vkf_engine_cache_rows_finish(vkf_cache_rows *rows, vkf_env *env);
/* A slot's sequence is gone, and one of 1 to `keys` tokens is about to come. */
void vkf_engine_cache_rows_want(vkf_cache_rows *rows, uint32_t slot, uint32_t tokens);
/* Places what is wanted, the longest first, each in the fullest row that has room behind its last sequence. */
void vkf_engine_cache_rows_place(vkf_cache_rows *rows);

#endif
