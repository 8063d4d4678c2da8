/* search: greedy decoding, sampling or beam search of one sentence over a model that answers with candidates.
 *
 * Pure host code: keeps the hypotheses of a sentence, says what to compute next for each of them, receives candidates.
 * The rules are those of transformers 5.12 (generation/utils.py, _sample and _beam_search). Refuses candidates that are
 * NaN or +inf. Invariants: a search knows nothing of the other searches of a batch; asking and taking allocate nothing.
 */
#ifndef VKF_DECODE_SEARCH_H
#define VKF_DECODE_SEARCH_H

#include "decode/beam.h"
#include "decode/processors.h"
#include "decode/sample.h"

/* Memory that searches share, one after the other. */
typedef struct vkf_search_scratch {
  vkf_id_marks marks;
  vkf_sample_candidate *candidates; /* [n_vocab]; NULL: no search ranks all ids */
} vkf_search_scratch;

/* A row of a step: ids that follow those in its slot. */
typedef struct vkf_search_row {
  uint32_t slot;      /* where the model keeps what it knows of the row's ids */
  uint32_t past;      /* ids that are in the slot, or, where it forks, in that of the row that it forks from */
  bool is_fork;       /* the row that `order` names feeds these ids in this step, too */
  uint32_t n;         /* ids to feed: */
  const int32_t *ids; /* [n], valid until the step is answered */
  uint32_t n_out;     /* of the last so many of them scores are wanted */
  float *logits;      /* [n_out][n_vocab]: where the logits of these go, too; NULL: nowhere */
} vkf_search_row;

/* What a search searches. Everything that is pointed to outlives the search. */
typedef struct vkf_search_input {
  const vkf_generation_config *config; /* that passed vkf_decode_generation_check() */
  const int32_t *prompt; /* [n_prompt]; NULL: decoder_start_token_id (else bos_token_id) alone, n_prompt ignored */
  uint32_t n_prompt;
  const int32_t *pull; /* [n_pull], with prefix_bias_beta: what is more likely to follow the prompt; see rank_all() */
  uint32_t n_pull;
  const int32_t *mask;   /* [n_prompt], 0: an id of the prompt that the model is not fed; NULL: it is fed all */
  const int32_t *source; /* [n_source]: what the encoder read; NULL for decoders */
  uint32_t n_source;
  uint64_t max_length;  /* ids of the longest sequence, prompt included: vkf_decode_generation_length() */
  uint64_t n_positions; /* ids that the model can be fed in one sequence; 0: no limit */
  uint64_t line;        /* the number of the sentence for random numbers */
  uint32_t copy;        /* which of the sentence's searches: each is drawn, or begins with an id of its own */
  bool scores;          /* without beams, too; the host then reads all scores of a step */
} vkf_search_input;

/* A search has one row of a step, or with beams num_beams. */
typedef struct vkf_search {
  vkf_env *env;
  vkf_search_input input;
  vkf_search_scratch *scratch;
  vkf_processors processors;
  uint32_t n_rows, k, prompt, max_length, capacity;
  uint32_t length; /* ids of every running sequence now */
  int32_t start;   /* the prompt, where the input has none */
  int32_t *fed;    /* [n_fed]: the part of the prompt that the model is fed; NULL: all of it */
  uint32_t n_fed;
  vkf_beams *groups; /* [n_groups], num_beams > 1; the rows of a group are one after the other */
  uint32_t n_groups;
  bool *group_is_done; /* [n_groups] before the step that is made, behind them [n_groups] after it */
  int32_t *ids;        /* [capacity], else */
  float *logprobs;     /* [capacity]: of each id in its step; 0 in the prompt; NULL: no scores are wanted */
  float *best; /* [n_rows][n_best]: the best candidates of rows that read all scores, and their ids; NULL: others do */
  int32_t *best_ids;
  uint32_t n_best;
  double sum; /* of the log-probabilities of its generated ids */
  bool is_done;
} vkf_search;

/* config: of the searches. Finish it in every case. */
vkf_status vkf_decode_scratch_init(vkf_search_scratch *scratch, vkf_env *env, const vkf_generation_config *config,
                                   uint32_t n_vocab);
void vkf_decode_scratch_finish(vkf_search_scratch *scratch);

/* How many searches a sentence has: num_return_sequences if each is drawn or begins with an id of its own, else 1; and
 * how many rows and results each of them has. */
uint32_t vkf_decode_search_copies(const vkf_generation_config *config);
uint32_t vkf_decode_search_rows(const vkf_generation_config *config);
uint32_t vkf_decode_search_results(const vkf_generation_config *config);
/* Whether the rows of a sentence fork from the first one, which alone is fed the prompt but for its last id. A model
 * that feeds a row to another needs an ancestry of slots. has_source: of a model with an encoder. */
bool vkf_decode_search_forks(const vkf_generation_config *config, bool has_source);
/* Whether the host ranks all ids of a row, because it changes their scores. */
bool vkf_decode_search_ranks_all(const vkf_generation_config *config);
/* Candidates that a search wants for each row; 0: all scores. scores: as in its input. */
uint32_t vkf_decode_search_k(const vkf_generation_config *config, uint32_t n_vocab, bool scores);
/* Ids of the longest sequence that a search can reach: one more than can be fed. n_positions 0: no limit. */
uint32_t vkf_decode_search_longest(uint64_t max_length, uint64_t n_positions, uint32_t n_prompt);
/* The id that fills sequences up that are shorter than others. */
int32_t vkf_decode_search_fill(const vkf_generation_config *config);

/* VKF_ERROR_ARGUMENT: no start id, a prompt as long as max_length, too few ids for the candidates. Finish it in every
 * case. */
vkf_status vkf_decode_search_init(vkf_search *search, vkf_env *env, vkf_search_scratch *scratch,
                                  const vkf_search_input *input);
void vkf_decode_search_finish(vkf_search *search);

/* The next step of a search that is not done: feeds the prompt, later one id. rows [n_rows]; their slots are the
 * caller's. order [n_rows]: row r continues what row order[r] of this search was in its last step; if it forks, what
 * row 0 of copy 0 is in this step. Row r has edits[edit_offsets[r]] .. edits[edit_offsets[r+1]-1]; the caller gives
 * edit_offsets[0], behind the edits of other searches. VKF_ERROR_ARGUMENT: the model has not enough positions. */
vkf_status vkf_decode_search_ask(vkf_search *search, vkf_search_row *rows, uint32_t *order, vkf_logit_edit *edits,
                                 uint32_t *edit_offsets);
/* Refuses scores that no search can use: VKF_ERROR_NUMERIC names beam and step. */
vkf_status vkf_decode_search_check(const vkf_search *search, const float *values, const int32_t *ids);
/* The step's answer, of the search's rows: the k largest edited scores of the id after the row's last token, values
 * [n_rows][k] descending, and their ids; of equals the lower id first. k 0: all scores [n_rows][n_vocab], and no ids.
 * Scores are logits; with beams log-probabilities. *id: the id that the row got, with beams VKF_NO_TOKEN.
 * VKF_ERROR_ARGUMENT: every id is forbidden, or no sequence is allowed or has all words that must appear. */
vkf_status vkf_decode_search_take(vkf_search *search, const float *values, const int32_t *ids, int32_t *id);
/* Ends a search that is not done with what there is. */
void vkf_decode_search_stop(vkf_search *search);

/* Sequence i of the search's results, best first, those of all groups together: its ids with the prompt, and its score
 * (NULL: not wanted). If beams found fewer, it has the prompt alone and -infinity. Valid until the search is finished.
 */
const int32_t *vkf_decode_search_result(const vkf_search *search, uint32_t i, uint32_t *length, float *score);
/* Its log-probabilities, an id each, 0 in the prompt; NULL: not wanted. Valid as its ids. */
const float *vkf_decode_search_logprobs(const vkf_search *search, uint32_t i);

#endif
