/* short_head: the rows of the head that a short list leaves, and what is computed with them.
 *
 * Each place of a source has a set of ids that may follow there. The matrix holds the rows of all of them that a step
 * needs; what a place does not allow is taken out by a mask, which is added to the logits and holds the head's bias,
 * too.
 *
 * Invariant: what a place gets does not depend on the others. log_softmax adds up a row in n_classes partial sums,
 * column c in sum c modulo n_classes. So, where the logits go through it, the column of an id is congruent to the id,
 * and of ids in the same sum the lower comes first.
 */
#ifndef VKF_ENGINE_SHORT_HEAD_H
#define VKF_ENGINE_SHORT_HEAD_H

#include "decode/processors.h"
#include "decode/shortlist.h"
#include "engine/opened.h"

typedef struct vkf_short_head {
  vkf_session *session;
  const vkf_shortlist *list;
  const vkf_generation_config *config;
  uint32_t n_places, n_vocab, depth; /* depth: of a row */
  uint32_t least;                    /* ids that a place allows at least */
  uint64_t *allowed;                 /* [n_places][VKF_ID_WORDS(n_vocab)] */
  uint64_t *in_use;                  /* [VKF_ID_WORDS(n_vocab)]: those that have a column */
  bool is_stale;                     /* a place was set since the columns were made */
  uint32_t n_classes;                /* of ids, by the remainder by this; 1: columns are in the order of ids */
  uint32_t width;                    /* columns: a multiple of n_classes */
  int32_t *ids;                      /* [width]: of the columns; VKF_NO_TOKEN: of none */
  int32_t *columns;                  /* [n_vocab]: of the ids in use */
  float *bias;                       /* [n_vocab]: of the head */
  float *rows;                       /* [width][depth] */
  float *masks;                      /* [n_places][width] */
  size_t ids_capacity, rows_capacity, masks_capacity;
  float *numbers; /* of a submit: a mask for each row, scores as they are read */
  size_t numbers_capacity;
} vkf_short_head;

typedef struct vkf_short_head_params {
  const vkf_shortlist *list;
  const vkf_generation_config *config;
  uint32_t n_places;
  uint32_t k;       /* candidates that a search wants */
  bool log_softmax; /* of the logits */
} vkf_short_head_params;

/* VKF_ERROR_UNSUPPORTED: the list is of another vocabulary. Finish it in every case. */
vkf_status vkf_engine_short_head_init(vkf_short_head *head, vkf_session *session, const vkf_short_head_params *params);
void vkf_engine_short_head_finish(vkf_short_head *head);
/* Puts another source at a place: row i of the input. */
void vkf_engine_short_head_set(vkf_short_head *head, uint32_t place, const vkf_encode_input *input, uint32_t i);
/* Makes the columns again if a place of a step was set since. places [n] may repeat. */
vkf_status vkf_engine_short_head_ready(vkf_short_head *head, const uint32_t *places, uint32_t n);

/* Room for n rows of scores; NULL: there is no memory left. */
float *vkf_engine_short_head_room(vkf_short_head *head, size_t n);
/* The mask of each of n rows, in `room`. */
const float *vkf_engine_short_head_masks(vkf_short_head *head, const uint32_t *places, uint32_t n);
/* Edits by column; one of an id without a column does nothing. */
void vkf_engine_short_head_edits(const vkf_short_head *head, const vkf_logit_edit *edits, uint32_t n,
                                 vkf_logit_edit *out);
/* Columns to ids, in place. */
void vkf_engine_short_head_ids(const vkf_short_head *head, int32_t *columns, size_t n);
/* Rows [n][width] by column to [n][n_vocab] by id; -infinity where there is no column. */
void vkf_engine_short_head_scatter(const vkf_short_head *head, const float *rows, uint32_t n, float *out);

#endif
