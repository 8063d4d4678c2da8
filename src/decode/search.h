/* search: greedy decoding, sampling and beam search over a model that answers with candidates.
 *
 * Pure host code: keeps the hypotheses, sends ids, beam order and edits, receives candidates. The rules are those of
 * transformers 5.12 (generation/utils.py, _sample and _beam_search). Refuses candidates that are NaN
 * or +inf. Invariant: after the first step nothing is allocated.
 */
#ifndef VKF_DECODE_SEARCH_H
#define VKF_DECODE_SEARCH_H

#include "decode/processors.h"

/* One decoding step of all R rows. */
typedef struct vkf_step_request {
  const int32_t *tokens; /* [R][n_tokens]: the prompt, later the last id of each row */
  uint32_t n_tokens;
  const int32_t *mask;          /* [R][n_tokens], 1 keep, 0 pad, or NULL (all kept); never after the first step */
  const uint32_t *order;        /* [R]: row r continues what row order[r] was after the last step; NULL: itself */
  const vkf_edit *edits;        /* row r has edits[edit_offsets[r]] .. edits[edit_offsets[r+1]-1] */
  const uint32_t *edit_offsets; /* [R+1] */
  uint32_t k;                   /* candidates wanted per row; 0: all scores, by id */
} vkf_step_request;

/* The model behind the search. step() gives, per row, the k largest edited scores of the id after the row's last token:
 * values [R][k] descending and their ids; equal values: the lower id first; valid until the next step. k 0: all scores
 * [R][n_vocab], and no ids. */
typedef struct vkf_stepper {
  void *user;
  uint32_t n_vocab;
  uint32_t n_rows; /* R = B * num_beams, or sampling: B * num_return_sequences; rows of a sentence are neighbours */
  bool log_probs;  /* scores are float32 log-softmax values (beams), not logits */
  vkf_status (*step)(void *user, const vkf_step_request *request, const float **values, const int32_t **ids);
} vkf_stepper;

typedef struct vkf_search_input {
  uint32_t B;
  const int32_t *prompt; /* [B][n_prompt]; NULL: decoder_start_token_id (else bos_token_id) alone, n_prompt ignored */
  const int32_t *prompt_mask; /* [B][n_prompt] or NULL */
  uint32_t n_prompt;
  const int32_t *source; /* [B][n_source]: what the encoder read; NULL for decoders */
  uint32_t n_source;
  uint64_t max_length;   /* ids of the longest sequence, prompt included: vkf_decode_generation_length() */
  const uint64_t *lines; /* [B]: number of each sentence for random numbers; NULL: 0, 1, .. */
  bool scores;           /* without beams, too; the host then reads all scores of a step */
  uint64_t n_positions;  /* ids that the model can be fed in one sequence; 0: no limit */
  /* NULL: none. Without beams: for every row that goes on, the rest of a step included when one has asked to stop;
   * beams: once a step, row 0, token -1 */
  vkf_token_fn on_token;
  void *user;
} vkf_search_input;

typedef struct vkf_generated {
  vkf_env *env;
  uint32_t n_rows; /* B * num_return_sequences, best first within a sentence */
  uint32_t length;
  int32_t *sequences; /* [n_rows][length], prompt included; padded after the end */
  float *scores;      /* [n_rows] with beams or if requested, else NULL */
} vkf_generated;

/* Rows and candidates per row (0: all scores) that the search will ask the stepper for; scores: as in the input. */
uint32_t vkf_decode_search_rows(const vkf_generation_config *config, uint32_t B);
uint32_t vkf_decode_search_k(const vkf_generation_config *config, uint32_t n_vocab, bool scores);
/* Ids of the longest sequence that the search can reach: one more than can be fed. n_positions 0: no limit. */
uint32_t vkf_decode_search_longest(uint64_t max_length, uint64_t n_positions, uint32_t n_prompt);
/* What follows the end of a sequence that is shorter than others. */
int32_t vkf_decode_search_fill(const vkf_generation_config *config);

/* config passed vkf_decode_generation_check(). VKF_ERROR_NUMERIC names row and step; VKF_ERROR_ARGUMENT: no start id, a
 * prompt as long as max_length, too few ids for the candidates, more positions needed than there are. VKF_ERROR_STOPPED
 * (the callback): *out holds what was generated until then. *out needs vkf_decode_generated_finish() in every case. */
vkf_status vkf_decode_search(vkf_env *env, const vkf_generation_config *config, const vkf_stepper *stepper,
                             const vkf_search_input *input, vkf_generated *out);
void vkf_decode_generated_finish(vkf_generated *generated);

#endif
