/* batch: the searches that share the steps of a model.
 *
 * Pure host code. A batch has seats; in each is a sentence, with as many searches as copies of it are drawn. A step has
 * the rows of the searches that are not done, side by side in the order of the seats; the rows of a search that is done
 * are gone from the next step on, and its seat may be given to another sentence while the others go on. Each search has
 * slots of its own, a slot a row, where a model keeps what it knows of the row's ids. Invariants: a step allocates
 * nothing; what a sentence gets depends on no other seat.
 */
#ifndef VKF_DECODE_BATCH_H
#define VKF_DECODE_BATCH_H

#include "decode/search.h"

typedef struct vkf_batch_input {
  const vkf_generation_config *config;
  uint32_t n_seats, n_vocab;
  uint32_t edits; /* edits that a row has at most: vkf_decode_max_edits() of the longest sequence and source */
} vkf_batch_input;

/* One step for a model: for each row the ids to feed, and the edits of the scores of the id that follows. */
typedef struct vkf_batch_step {
  uint32_t n_rows;
  vkf_search_row *rows;         /* [n_rows], their slots ascending */
  const uint32_t *order;        /* [n_rows]: row r continues slot order[r] of the last step, or forks from it */
  const vkf_logit_edit *edits;  /* row r has edits[edit_offsets[r]] .. edits[edit_offsets[r+1]-1] */
  const uint32_t *edit_offsets; /* [n_rows+1] */
} vkf_batch_step;

typedef struct vkf_batch {
  vkf_env *env;
  const vkf_generation_config *config;
  vkf_search_scratch scratch;
  vkf_search *searches;  /* [n] */
  uint32_t n, n_seats;   /* n: n_seats * copies */
  uint32_t copies, each; /* searches of a seat; rows of a search */
  vkf_search_row *rows;
  uint32_t *order, *edit_offsets;
  vkf_logit_edit *edits;
  uint32_t *live; /* [n]: the searches of the last step */
  uint32_t n_live;
  int32_t *got; /* [n_live]: the id that each row got in the last step; with beams, and where it failed, VKF_NO_TOKEN */
  vkf_env_failure *failures; /* [n_seats] */
} vkf_batch;

typedef struct vkf_generated {
  vkf_env *env;
  uint32_t n_rows; /* sentences * num_return_sequences, best first within a sentence */
  uint32_t length;
  int32_t *sequences; /* [n_rows][length], prompt included; padded after the end */
  float *scores;      /* [n_rows] with beams or if requested, else NULL */
  float *logprobs;    /* [n_rows][length]: of each id that was generated, else 0; NULL as scores */
} vkf_generated;

/* All seats are empty. Finish it in every case. */
vkf_status vkf_decode_batch_init(vkf_batch *batch, vkf_env *env, const vkf_batch_input *input);
void vkf_decode_batch_finish(vkf_batch *batch);
/* Puts a sentence into a seat that is empty or done. input->config and copy are the batch's. Fails as
 * vkf_decode_search_init() does; then the seat is empty. */
vkf_status vkf_decode_batch_put(vkf_batch *batch, uint32_t seat, const vkf_search_input *input);

/* Slots that a seat has, and those of B of them. */
uint32_t vkf_decode_batch_slots(const vkf_generation_config *config, uint32_t B);
/* Whether a seat is empty or all its searches are done. */
bool vkf_decode_batch_seat_is_done(const vkf_batch *batch, uint32_t seat);
/* The next step of a batch that is not done; valid until the next call. */
vkf_status vkf_decode_batch_ask(vkf_batch *batch, vkf_batch_step *step);
/* Takes the answer to a step, row by row: see vkf_decode_search_take(). A search that fails ends those of its seat; the
 * other seats go on. */
void vkf_decode_batch_take(vkf_batch *batch, const float *values, const int32_t *ids);
/* Why the searches of a seat failed, which then have no results; NULL: they did not. Valid until the
 * seat is given to another sentence. */
const vkf_env_failure *vkf_decode_batch_failure(const vkf_batch *batch, uint32_t seat);
/* Ends the searches that are not done, with what they have: those of a seat, or all. */
void vkf_decode_batch_stop_seat(vkf_batch *batch, uint32_t seat);
void vkf_decode_batch_stop(vkf_batch *batch);

/* The results of n seats, the first of which is `seat`. Call vkf_decode_generated_finish() on *out in every case. */
vkf_status vkf_decode_batch_result(const vkf_batch *batch, uint32_t seat, uint32_t n, vkf_generated *out);
void vkf_decode_generated_finish(vkf_generated *generated);

#endif
