/* generate: ids from ids, in batches whose sentences begin together. */
#ifndef VKF_TASK_GENERATE_H
#define VKF_TASK_GENERATE_H

#include "engine/generation.h"

typedef struct vkf_generate_input {
  vkf_encode_input source; /* the prompt where there is no encoder */
  const int32_t *prefix;   /* [B][n_prefix]: of the target, behind an encoder; NULL: the start id alone */
  uint32_t n_prefix;
  const vkf_generation_config *config;
  const uint64_t *lines;  /* [B]: the number of each row for random numbers; NULL: 0, 1, .. */
  uint32_t top_logprobs;  /* over 0: `logprobs` is filled, see vkf_decode_logprobs_add() */
  vkf_logprobs *logprobs; /* the caller finishes it */
  bool scores;            /* without beams, too */
  vkf_token_fn on_token;
  void *user;
} vkf_generate_input;

vkf_status vkf_task_generate(vkf_session *session, const vkf_generate_input *input, vkf_generated *out);

/* vkf_session_generate(). A batch that the device has no room for is split. */
vkf_status vkf_task_generate_arrays(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                    const vkf_generate_params *params, vkf_result **out);

#endif
