/* sequences: keeps the results of requests (schedule.h) until all of a call are done, then adds them to its result. */
#ifndef VKF_TASK_SEQUENCES_H
#define VKF_TASK_SEQUENCES_H

#include "engine/generation.h"

/* A sequence. An arena owns its arrays. All 0: nothing was generated. */
typedef struct vkf_task_sequence {
  int32_t *ids; /* [n]: the last n_new of them were generated, the end id included */
  size_t n, n_new;
  float score;                          /* -infinity: the sequence is absent, n_new is 0 */
  const float *token_scores;            /* [n], 0 for ids that were not generated; NULL: not asked for */
  const float *logprobs, *top_logprobs; /* [n_new], [n_new][N]; NULL: not asked for */
  const int32_t *top_ids;               /* [n_new][N] */
  float *alignment; /* [n][n_source]: how much each id attends to each id of its source; NULL: not asked for */
  size_t n_source;
} vkf_task_sequence;

/* Whether a request has no such sequence: beams found fewer, or fewer alternatives may begin. */
bool vkf_task_sequence_is_absent(const vkf_task_sequence *sequence);

/* Which row of a request's results to keep, from id `first` on; ids before n_prompt were not generated. logprobs_row:
 * its row of the log-probabilities, if there are any. */
typedef struct vkf_task_sequence_source {
  const vkf_generation_config *config;
  const vkf_generated *results;
  const vkf_logprobs *logprobs;
  uint32_t row, logprobs_row, n_prompt, first;
} vkf_task_sequence_source;
/* Copies the row into the arena. */
vkf_status vkf_task_sequence_take(vkf_arena *arena, const vkf_task_sequence_source *source, vkf_task_sequence *out);

/* Adds `sequences`, padded with `fill`; if `scores`, `sequences_scores` and `token_scores`; if n_top > 0, `logprobs`,
 * `top_ids` and `top_logprobs`. */
vkf_status vkf_task_sequences_add(const vkf_task_sequence *sequences, size_t n, int32_t fill, bool scores, size_t n_top,
                                  vkf_result *result);
/* Adds `alignments` and `n_sources`. */
vkf_status vkf_task_sequences_add_alignments(const vkf_task_sequence *sequences, size_t n, vkf_result *result);

#endif
