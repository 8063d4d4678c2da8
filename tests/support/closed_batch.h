/* A batch of sentences that all begin together, with prompts of one length. */
#ifndef VKF_TESTS_SUPPORT_CLOSED_BATCH_H
#define VKF_TESTS_SUPPORT_CLOSED_BATCH_H

#include "decode/batch.h"

typedef struct closed_batch {
  const vkf_generation_config *config;
  uint32_t B, n_vocab;
  const int32_t *prompt; /* [B][n_prompt], or NULL */
  uint32_t n_prompt;
  const int32_t *source; /* [B][n_source], or NULL */
  uint32_t n_source;
  uint64_t max_length, n_positions;
  const uint64_t *lines; /* [B]; NULL: 0, 1, .. */
  bool scores;
  const int32_t *pull; /* [n_pull], of every sentence */
  uint32_t n_pull;
} closed_batch;

static inline vkf_status closed_batch_begin(vkf_batch *batch, vkf_env *env, const closed_batch *in) {
  const uint32_t n_prompt = in->prompt ? in->n_prompt : 1;
  const uint32_t longest = vkf_decode_search_longest(in->max_length, in->n_positions, n_prompt);
  const vkf_batch_input input = {
      .config = in->config,
      .n_seats = in->B,
      .n_vocab = in->n_vocab,
      .edits = vkf_decode_max_edits(in->config, longest, in->source ? in->n_source : n_prompt)};
  vkf_status st = vkf_decode_batch_init(batch, env, &input);
  for (uint32_t b = 0; b < in->B && !st; b++)
    st = vkf_decode_batch_put(batch, b,
                              &(vkf_search_input){.prompt = in->prompt ? in->prompt + (size_t)b * n_prompt : NULL,
                                                  .n_prompt = n_prompt,
                                                  .source = in->source ? in->source + (size_t)b * in->n_source : NULL,
                                                  .n_source = in->n_source,
                                                  .max_length = in->max_length,
                                                  .n_positions = in->n_positions,
                                                  .line = in->lines ? in->lines[b] : b,
                                                  .pull = in->pull,
                                                  .n_pull = in->n_pull,
                                                  .scores = in->scores});
  return st;
}

static inline bool closed_batch_is_done(const vkf_batch *batch) {
  for (uint32_t seat = 0; seat < batch->n_seats; seat++)
    if (!vkf_decode_batch_seat_is_done(batch, seat)) return false;
  return true;
}

#endif
