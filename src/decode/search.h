/* search: greedy decoding, sampling or beam search of one sentence.
 *
 * Pure host code: keeps the hypotheses of a sentence, says what the model must compute next for each of them, and takes
 * the candidates that it answers with. The rules are those of transformers 5.12 (generation/utils.py, _sample and
 * _beam_search). Refuses candidates that are NaN or +inf. Invariants: a search knows nothing of the other searches of a
 * batch; asking and taking allocate nothing.
 */
#ifndef VKF_DECODE_SEARCH_H
#define VKF_DECODE_SEARCH_H

#include "decode/beam.h"
#include "decode/processors.h"
#include "decode/sample.h"

/* Scratch memory that the searches of a batch share, one call at a time. */
typedef struct vkf_search_scratch {
  vkf_id_marks marks;
  vkf_sample_candidate *candidates; /* [n_vocab]; NULL: no search draws from or ranks all ids */
} vkf_search_scratch;

/* A row of a step: the ids to feed after those in its slot. */
typedef struct vkf_search_row {
  uint32_t slot;      /* where the model keeps its state for the row's ids */
  uint32_t past;      /* number of ids already in the slot; of a fork, in the slot that it forks from */
  bool is_fork;       /* order names a row that is fed the ids before these in this same step */
  uint32_t n;         /* number of ids to feed */
  const int32_t *ids; /* [n], valid until the step is answered */
  uint32_t n_out;     /* scores are wanted for the last n_out ids */
  float *logits;      /* [n_out][n_vocab]: the logits are written here, too; NULL: not wanted */
} vkf_search_row;

/* The sentence of a search. Everything that it points to must outlive the search. */
typedef struct vkf_search_input {
  const vkf_generation_config *config; /* has passed vkf_decode_generation_check() */
  const int32_t *prompt; /* [n_prompt]; NULL: decoder_start_token_id (else bos_token_id) alone, n_prompt ignored */
  uint32_t n_prompt;
  const int32_t *pull; /* [n_pull]: with prefix_bias_beta, ids made more likely after the prompt; see rank_all() */
  uint32_t n_pull;
  const int32_t *mask;   /* [n_prompt], 0: the model is not fed this id of the prompt; NULL: it is fed all */
  const int32_t *source; /* [n_source]: the ids that the encoder read; NULL for decoders */
  uint32_t n_source;
  uint64_t max_length;  /* ids of the longest sequence, prompt included: vkf_decode_generation_length() */
  uint64_t n_positions; /* most ids that the model can be fed in one sequence; 0: no limit */
  uint64_t line;        /* number of the sentence, for random numbers */
  uint32_t copy;        /* number of this search among those of the sentence: see vkf_decode_search_copies() */
  bool scores;          /* see vkf_decode_search_scores(); without beams the host then reads all scores of a step */
} vkf_search_input;

/* A search has num_beams rows in each step. */
typedef struct vkf_search {
  vkf_env *env;
  vkf_search_input input;
  vkf_search_scratch *scratch;
  vkf_processors processors;
  uint32_t n_rows, k, prompt, max_length, capacity;
  uint32_t length; /* ids of every running sequence now */
  int32_t start;   /* the prompt if the input has none */
  int32_t *fed;    /* [n_fed]: the part of the prompt that the model is fed; NULL: all of it */
  uint32_t n_fed;
  vkf_beams *groups; /* [n_groups], if num_beams > 1; the rows of a group are adjacent */
  uint32_t n_groups;
  bool *group_is_done; /* [2][n_groups]: before the present step; after it */
  int32_t *ids;        /* [capacity]; NULL with beams */
  float *logprobs;     /* [capacity]: of each id in its step; 0 in the prompt; NULL: no scores are wanted */
  float *best;         /* [n_rows][n_best]: scores of the best candidates if beams read all scores; else NULL */
  int32_t *best_ids;
  uint32_t n_best;
  double sum; /* of the log-probabilities of the generated ids */
  bool is_done;
} vkf_search;

/* Allocates what searches with `config` need. Call finish even if this fails. */
vkf_status vkf_decode_scratch_init(vkf_search_scratch *scratch, vkf_env *env, const vkf_generation_config *config,
                                   uint32_t n_vocab);
void vkf_decode_scratch_finish(vkf_search_scratch *scratch);

/* Return the number of searches of a sentence, and of the rows and results of each. A sentence has num_return_sequences
 * searches if they draw or are alternatives (each begins with another id), else one. */
uint32_t vkf_decode_search_copies(const vkf_generation_config *config);
uint32_t vkf_decode_search_rows(const vkf_generation_config *config);
uint32_t vkf_decode_search_results(const vkf_generation_config *config);
/* Returns whether the rows of a sentence fork from the first one: only that is fed the whole prompt, the others its
 * last id. Rows that continue other rows need an ancestry of slots. has_source: the model has an encoder. */
bool vkf_decode_search_forks(const vkf_generation_config *config, bool has_source);
/* Returns whether the host needs all scores of each row to rank its ids: with prefix_bias_beta, groups of beams or
 * force_words. */
bool vkf_decode_search_ranks_all(const vkf_generation_config *config);
/* Returns whether results have scores: if they are wanted, and if a result may be absent, whose score is -infinity. */
bool vkf_decode_search_scores(const vkf_generation_config *config, bool wanted);
/* Returns how many candidates a search wants for each row; 0: all scores. scores: as in its input. */
uint32_t vkf_decode_search_k(const vkf_generation_config *config, uint32_t n_vocab, bool scores);
/* Returns the length of the longest sequence that a search can reach: max_length, but at most one id more than the
 * model can be fed. n_positions 0: no limit. */
uint32_t vkf_decode_search_longest(uint64_t max_length, uint64_t n_positions, uint32_t n_prompt);
/* Returns the id that pads shorter sequences. */
int32_t vkf_decode_search_fill(const vkf_generation_config *config);

/* Starts a search. VKF_ERROR_ARGUMENT: no start id; a prompt as long as max_length; too few ids for the candidates.
 * Call finish even if this fails. */
vkf_status vkf_decode_search_init(vkf_search *search, vkf_env *env, vkf_search_scratch *scratch,
                                  const vkf_search_input *input);
void vkf_decode_search_finish(vkf_search *search);

/* Makes the next step of a search that is not done: feeds the prompt, later one id. rows [n_rows]: the caller sets
 * their slots. order [n_rows]: row r continues row order[r] of this search's last step; if it forks, row 0 of copy 0 in
 * this step (order[r] is 0). Row r has edits[edit_offsets[r]] .. edits[edit_offsets[r+1]-1]; the caller sets
 * edit_offsets[0], behind the edits of other searches. VKF_ERROR_ARGUMENT: the model has too few positions. */
vkf_status vkf_decode_search_ask(vkf_search *search, vkf_search_row *rows, uint32_t *order, vkf_logit_edit *edits,
                                 uint32_t *edit_offsets);
/* Refuses NaN and +inf among the scores: VKF_ERROR_NUMERIC names beam and step. */
vkf_status vkf_decode_search_check(const vkf_search *search, const float *values, const int32_t *ids);
/* Takes the answer to a step. values, ids [n_rows][k]: the k largest edited scores of the next id of each row,
 * descending, and their ids; ties by the lower id. k 0: values [n_rows][n_vocab] are all scores, ids is NULL. Scores
 * are logits; with beams log-probabilities. *id: the new id, or VKF_NO_TOKEN with beams and if the search ends without
 * a result: an alternative does, unless it is the first (copy 0), if its first id is forbidden or too improbable, or if
 * no id is allowed later. VKF_ERROR_ARGUMENT: no id may be drawn, or follow in the first alternative; beams found no
 * sequence that is allowed and has all words that must appear. */
vkf_status vkf_decode_search_take(vkf_search *search, const float *values, const int32_t *ids, int32_t *id);
/* Stops a search that is not done. It keeps what it has found. */
void vkf_decode_search_stop(vkf_search *search);

/* Returns the ids of result i, prompt included, with their number and score (NULL: not wanted). The best result comes
 * first, over all groups. A result that is absent is the prompt alone with score -infinity: beams found fewer, or the
 * sentence has no such alternative. Valid until vkf_decode_search_finish(). */
const int32_t *vkf_decode_search_result(const vkf_search *search, uint32_t i, uint32_t *length, float *score);
/* Returns the log-probability of each id of result i, 0 in the prompt; NULL: there are no scores. Valid as long as the
 * ids. */
const float *vkf_decode_search_logprobs(const vkf_search *search, uint32_t i);

#endif
