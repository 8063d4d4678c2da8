/* generation: generates for several sentences side by side: searches in seats, and their steps on the device.
 *
 * A seat that is done may be given to another sentence while the others go on. The result of a sentence does not depend
 * on the other seats.
 */
#ifndef VKF_ENGINE_GENERATION_H
#define VKF_ENGINE_GENERATION_H

#include "decode/batch.h"
#include "engine/steps.h"

typedef struct vkf_generation_params {
  const vkf_generation_config *config;
  uint32_t n_seats;
  uint64_t limit;                 /* ids of the longest sequence: vkf_engine_length_limit() */
  uint32_t n_source;              /* ids of the longest source; without an encoder, of the longest prompt */
  uint32_t top_logprobs;          /* over 0: that many are kept in `logprobs`, a row for each slot */
  const vkf_shortlist *shortlist; /* for models with an encoder; NULL: all ids may follow */
  bool has_holes;                 /* a source may have masked tokens between others */
  bool scores;                    /* scores are wanted even without beams */
} vkf_generation_params;

typedef struct vkf_generation {
  vkf_session *session;
  vkf_generation_params params;
  vkf_batch batch;
  vkf_short_head short_head; /* used if there is a short list */
  vkf_steps steps;
  float *logits; /* [slots][n_vocab]: logits of the last step; NULL: nobody reads them */
  vkf_logprobs logprobs;
} vkf_generation;

/* Checks that the model can generate with this configuration. */
vkf_status vkf_engine_generation_check(const vkf_session *session, const vkf_generation_config *config);
/* Returns the most ids of a sequence whose prompt has n_prompt ids: as configured, else transformers' default of 20 new
 * ids, fewer if positions end but at least one; for translations the model's number of positions, or 512.
 * ends_with_positions: at most one id more than there are positions, which the model is not fed; else a longer sequence
 * fails. */
uint64_t vkf_engine_length_limit(const vkf_session *session, const vkf_generation_config *config, bool translates,
                                 bool ends_with_positions, uint32_t n_prompt);

/* Allocates memory on the host and on the device. Call finish in every case. If it fails with env->too_large set, fewer
 * seats may fit. */
vkf_status vkf_engine_generation_init(vkf_generation *g, vkf_session *session, const vkf_generation_params *params);
void vkf_engine_generation_finish(vkf_generation *g);
/* Starts sentences in seats [n], which are ascending and are empty or done. Reads prompt, pull, mask, source,
 * max_length and line of inputs [n]. source: a row for each of them if there is an encoder; else NULL. */
vkf_status vkf_engine_generation_put(vkf_generation *g, uint32_t n, const uint32_t *seats,
                                     const vkf_search_input *inputs, const vkf_encode_input *source);
/* Runs a step of all searches that are not done: see vkf_decode_batch_ask(). */
vkf_status vkf_engine_generation_step(vkf_generation *g);
/* Returns VKF_OK, or why the sentence of a seat failed; it then has no result: see vkf_decode_batch_failure(). */
vkf_status vkf_engine_generation_failure(const vkf_generation *g, uint32_t seat);

#endif
