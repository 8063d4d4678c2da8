/* sequences: what requests got (schedule.h), kept until all of a call are done, and then put into its result. */
#ifndef VKF_TASK_SEQUENCES_H
#define VKF_TASK_SEQUENCES_H

#include "engine/generation.h"

/* Its pointers are an arena's. All 0: nothing was generated. */
typedef struct vkf_kept {
  int32_t *ids; /* [n]: the last n_new of them were generated, the end id is one of these */
  size_t n, n_new;
  float score;                          /* -infinity, with n_new 0: beams found fewer sequences */
  const float *token_scores;            /* [n], 0 of what was not generated; NULL: not asked for */
  const float *logprobs, *top_logprobs; /* [n_new], [n_new][N]; NULL: not asked for */
  const int32_t *top_ids;
  float *alignment; /* [n][n_source]: how much each id looks at each id of its source; NULL: not asked for */
  size_t n_source;
} vkf_kept;

/* Which row of the results of a request is kept: its ids from number `first` on, of which those before number
 * n_prompt were not generated; and its row of the log-probabilities, where there are any. */
typedef struct vkf_keep {
  const vkf_generation_config *config;
  const vkf_generated *results;
  const vkf_logprobs *logprobs;
  uint32_t row, logprobs_row, n_prompt, first;
} vkf_keep;
vkf_status vkf_task_keep(vkf_arena *arena, const vkf_keep *keep, vkf_kept *out);

/* Adds `sequences`, behind whose ends is `fill`; with `scores` `sequences_scores` and `token_scores`; with n_top over 0
 * `logprobs`, `top_ids` and `top_logprobs`. */
vkf_status vkf_task_kept_add(const vkf_kept *kept, size_t n, int32_t fill, bool scores, size_t n_top,
                             vkf_result *result);
/* Adds `alignments` and `n_sources`. */
vkf_status vkf_task_kept_add_alignments(const vkf_kept *kept, size_t n, vkf_result *result);

#endif
