/* short_head: the rows of the head that a short list leaves, and what is computed with them.
 *
 * Each place, one for each source, has a set of allowed ids. The matrix holds the rows of all ids that a step's places
 * allow. A mask for each place takes out the other ids; it is added to the logits and holds the head's bias, too.
 *
 * Invariant: the scores of a place do not depend on other places. log_softmax adds up a row in n_classes partial sums,
 * column c in sum c modulo n_classes. So with log_softmax the column of an id is congruent to the id, and of ids in the
 * same sum the lower comes first.
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
  uint32_t least;                    /* columns at least: as many as a search wants candidates */
  uint64_t *allowed;                 /* [n_places][VKF_ID_WORDS(n_vocab)] */
  uint64_t *in_use;                  /* [VKF_ID_WORDS(n_vocab)]: those that have a column */
  bool is_stale;                     /* a place was set since the columns were made */
  uint32_t n_classes;                /* of ids, by their remainder; 1: columns are in the order of ids */
  uint32_t width;                    /* columns: a multiple of n_classes */
  int32_t *ids;                      /* [width]: the id of each column; VKF_NO_TOKEN: it has none */
  int32_t *columns;                  /* [n_vocab]: the column of each id; VKF_NO_TOKEN: it has none */
  float *bias;                       /* [n_vocab]: of the head */
  float *rows;                       /* [width][depth] */
  float *masks;                      /* [n_places][width] */
  size_t ids_capacity, rows_capacity, masks_capacity;
  float *numbers; /* of a submit: a mask for each row, or scores as they are read */
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
/* Puts another source, row i of the input, at a place, and makes the set of ids that it allows. */
void vkf_engine_short_head_set(vkf_short_head *head, uint32_t place, const vkf_encode_input *input, uint32_t i);
/* Makes the columns for a step again if a place was set since. places [n]: of the step's rows; they may repeat. */
vkf_status vkf_engine_short_head_ready(vkf_short_head *head, const uint32_t *places, uint32_t n);

/* Returns room for n rows of scores; NULL: out of memory. */
float *vkf_engine_short_head_room(vkf_short_head *head, size_t n);
/* Returns the mask of each of n rows, in the memory of room(); NULL: out of memory. */
const float *vkf_engine_short_head_masks(vkf_short_head *head, const uint32_t *places, uint32_t n);
/* Changes the ids of edits to columns. An edit of an id without a column becomes one that does nothing. */
void vkf_engine_short_head_edits(const vkf_short_head *head, const vkf_logit_edit *edits, uint32_t n,
                                 vkf_logit_edit *out);
/* Changes columns to ids, in place. A column without an id becomes id 0. */
void vkf_engine_short_head_ids(const vkf_short_head *head, int32_t *columns, size_t n);
/* Copies rows [n][width] by column to out [n][n_vocab] by id; -infinity for ids without a column. */
void vkf_engine_short_head_scatter(const vkf_short_head *head, const float *rows, uint32_t n, float *out);

#endif
