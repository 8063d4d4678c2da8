/* batch: the searches that share the steps of a model.
 *
 * Pure host code. A step has the rows of the searches that are not done, side by side in the order of the searches; the
 * rows of a search that is done are gone from the next step on. Each search has slots of its own, a slot a row, where a
 * model keeps what it knows of the row's ids: the row of a slot changes, the slot of a search does not. Invariant:
 * a step allocates nothing.
 */
#ifndef VKF_DECODE_BATCH_H
#define VKF_DECODE_BATCH_H

#include "decode/search.h"

typedef struct vkf_batch_input {
  const vkf_generation_config *config;
  uint32_t B, n_vocab;
  const int32_t *prompt; /* [B][n_prompt], or NULL: see vkf_search_input */
  uint32_t n_prompt;
  const int32_t *source; /* [B][n_source], or NULL */
  uint32_t n_source;
  uint64_t max_length, n_positions; /* as of a search */
  const uint64_t *lines;            /* [B]; NULL: 0, 1, .. */
  bool scores;
} vkf_batch_input;

/* What a model is to compute: for each row the ids to feed, and the edits of the scores of the id that follows. */
typedef struct vkf_batch_step {
  uint32_t n_rows, n_tokens;
  uint32_t k;                   /* candidates wanted for each row; 0: all scores, by id */
  const int32_t *tokens;        /* [n_rows][n_tokens]: the prompt, later the last id of each row */
  const uint32_t *slots;        /* [n_rows], ascending */
  const uint32_t *order;        /* [n_rows]: slot slots[r] goes on as what slot order[r] was after the last step */
  const vkf_edit *edits;        /* row r has edits[edit_offsets[r]] .. edits[edit_offsets[r+1]-1] */
  const uint32_t *edit_offsets; /* [n_rows+1] */
} vkf_batch_step;

typedef struct vkf_batch {
  vkf_env *env;
  vkf_search_scratch scratch;
  vkf_search *searches; /* [n] */
  uint32_t n, each;     /* each: rows of a search */
  uint32_t n_steps;
  int32_t *tokens; /* [slots][n_prompt] */
  uint32_t *slots, *order, *edit_offsets;
  vkf_edit *edits;
  uint32_t *live; /* [n]: the searches of the last step */
  uint32_t n_live;
  int32_t *got; /* [n_live]: the id that each got in the last step; with beams VKF_NO_TOKEN */
} vkf_batch;

typedef struct vkf_generated {
  vkf_env *env;
  uint32_t n_rows; /* B * num_return_sequences, best first within a sentence */
  uint32_t length;
  int32_t *sequences; /* [n_rows][length], prompt included; padded after the end */
  float *scores;      /* [n_rows] with beams or if requested, else NULL */
} vkf_generated;

/* As vkf_decode_search_init(). Finish it in every case. */
vkf_status vkf_decode_batch_init(vkf_batch *batch, vkf_env *env, const vkf_batch_input *input);
void vkf_decode_batch_finish(vkf_batch *batch);

/* Slots that the searches of B sentences have together. */
uint32_t vkf_decode_batch_slots(const vkf_generation_config *config, uint32_t B);
bool vkf_decode_batch_is_done(const vkf_batch *batch);
/* The next step of a batch that is not done; valid until the next call. */
vkf_status vkf_decode_batch_ask(vkf_batch *batch, vkf_batch_step *step);
/* Its answer, row by row: see vkf_decode_search_take(). VKF_ERROR_NUMERIC names sentence, beam and step. */
vkf_status vkf_decode_batch_take(vkf_batch *batch, const float *values, const int32_t *ids);
/* Tells of the last step: without beams of the id that each row got, also of those behind a row for which on_token asks
 * to stop; with beams once, with row 0 and VKF_NO_TOKEN. A row counts in all searches, as a slot does. Returns whether
 * it asked to stop. */
bool vkf_decode_batch_tell(const vkf_batch *batch, vkf_token_fn on_token, void *user);
/* Ends what is not done with what there is. */
void vkf_decode_batch_stop(vkf_batch *batch);

/* The results of all searches. *out needs vkf_decode_generated_finish() in every case. */
vkf_status vkf_decode_batch_result(const vkf_batch *batch, vkf_generated *out);
void vkf_decode_generated_finish(vkf_generated *generated);

#endif
