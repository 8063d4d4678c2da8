/* batch: runs several searches in the same steps of a model.
 *
 * Pure host code. A batch has seats. Each seat holds one sentence, which has vkf_decode_search_copies() searches. A
 * step contains the rows of all searches that are not done, in the order of the seats. When all searches of a seat are
 * done, the seat can take another sentence while the others continue. Each row of a search has a slot, where the model
 * keeps its state for the row's ids (keys and values). Invariants: a step allocates nothing; the result of a sentence
 * does not depend on the other seats.
 */
#ifndef VKF_DECODE_BATCH_H
#define VKF_DECODE_BATCH_H

#include "decode/search.h"

typedef struct vkf_batch_input {
  const vkf_generation_config *config;
  uint32_t n_seats, n_vocab;
  uint32_t edits; /* most edits of a row: vkf_decode_max_edits() of the longest sequence and source */
} vkf_batch_input;

/* One step of the model: for each row the ids to feed, and edits of the scores of the next id. */
typedef struct vkf_batch_step {
  uint32_t n_rows;
  vkf_search_row *rows;  /* [n_rows], by ascending slot */
  const uint32_t *order; /* [n_rows]: the slot that row r continues from the last step, or forks from in this one */
  const vkf_logit_edit *edits;  /* row r has edits[edit_offsets[r]] .. edits[edit_offsets[r+1]-1] */
  const uint32_t *edit_offsets; /* [n_rows+1] */
} vkf_batch_step;

typedef struct vkf_batch {
  vkf_env *env;
  const vkf_generation_config *config;
  vkf_search_scratch scratch;
  vkf_search *searches;  /* [n] */
  uint32_t n, n_seats;   /* n: n_seats * copies */
  uint32_t copies, each; /* searches per seat; rows per search */
  vkf_search_row *rows;
  uint32_t *order, *edit_offsets;
  vkf_logit_edit *edits;
  uint32_t *live; /* [n_live], room for n: the searches of the last step */
  uint32_t n_live;
  int32_t *got; /* [n_live]: the new id of each of these searches; VKF_NO_TOKEN with beams, or if it ended without */
  vkf_env_failure *failures; /* [n_seats] */
} vkf_batch;

typedef struct vkf_generated {
  vkf_env *env;
  uint32_t n_rows; /* sentences * num_return_sequences; the best of a sentence first */
  uint32_t length;
  int32_t *sequences; /* [n_rows][length], prompt included; padded after the end */
  float *scores;      /* [n_rows] with beams or if requested, else NULL */
  float *logprobs;    /* [n_rows][length]: of each generated id, else 0; NULL if scores is */
} vkf_generated;

/* Makes a batch whose seats are empty. Call finish even if this fails. */
vkf_status vkf_decode_batch_init(vkf_batch *batch, vkf_env *env, const vkf_batch_input *input);
void vkf_decode_batch_finish(vkf_batch *batch);
/* Puts a sentence into a seat that is empty or done. Ignores the input's config and copy: they are the batch's.
 * Fails as vkf_decode_search_init() does; the seat is then empty. */
vkf_status vkf_decode_batch_put(vkf_batch *batch, uint32_t seat, const vkf_search_input *input);

/* Returns the number of slots of B seats, at most UINT32_MAX. */
uint32_t vkf_decode_batch_slots(const vkf_generation_config *config, uint32_t B);
/* Returns whether a seat is empty or all its searches are done. */
bool vkf_decode_batch_seat_is_done(const vkf_batch *batch, uint32_t seat);
/* Makes the next step of a batch that is not done. *step is valid until the next call. */
vkf_status vkf_decode_batch_ask(vkf_batch *batch, vkf_batch_step *step);
/* Takes the answer to a step, row by row: see vkf_decode_search_take(). If a search fails, all searches of its seat
 * stop; the other seats continue. */
void vkf_decode_batch_take(vkf_batch *batch, const float *values, const int32_t *ids);
/* Returns why a seat failed (it then has no results), or NULL. Valid until the seat gets another sentence. */
const vkf_env_failure *vkf_decode_batch_failure(const vkf_batch *batch, uint32_t seat);
/* Stop the searches of a seat, or all, that are not done. They keep what they have found. */
void vkf_decode_batch_stop_seat(vkf_batch *batch, uint32_t seat);
void vkf_decode_batch_stop(vkf_batch *batch);

/* Copies the results of n seats, from `seat` on. Call vkf_decode_generated_finish() on *out even if this fails. */
vkf_status vkf_decode_batch_result(const vkf_batch *batch, uint32_t seat, uint32_t n, vkf_generated *out);
void vkf_decode_generated_finish(vkf_generated *generated);

#endif
