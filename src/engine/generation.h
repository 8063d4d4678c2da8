/* generation: sentences that generate side by side: searches in seats, and their steps on the device.
 *
 * A seat that is done may be given to another sentence while the others go on. What a sentence gets depends on no other
 * seat.
 */
#ifndef VKF_ENGINE_GENERATION_H
#define VKF_ENGINE_GENERATION_H

#include "decode/batch.h"
#include "engine/steps.h"

typedef struct vkf_generation_params {
  const vkf_generation_config *config;
  uint32_t n_seats;
  uint64_t limit;                 /* ids of the longest sequence: vkf_engine_length_limit() */
  uint32_t n_source;              /* ids of the longest source; of a decoder of the longest prompt */
  uint32_t top_logprobs;          /* over 0: `logprobs` is filled, a row a slot */
  const vkf_shortlist *shortlist; /* of models with an encoder; NULL: all ids may follow */
  bool has_holes;                 /* there may be holes between the tokens of a source */
  bool scores;                    /* without beams, too */
} vkf_generation_params;

typedef struct vkf_generation {
  vkf_session *session;
  vkf_generation_params params;
  vkf_batch batch;
  vkf_short_head short_head; /* with a short list */
  vkf_steps steps;
  float *logits; /* [slots][n_vocab]: logits of the last step; NULL: nobody reads them */
  vkf_logprobs logprobs;
} vkf_generation;

/* Whether the model generates with this configuration. */
vkf_status vkf_engine_generation_check(const vkf_session *session, const vkf_generation_config *config);
/* Ids of the longest sequence that begins with a prompt: as configured, else transformers' default of 20 new ids, or as
 * many as have positions, at least one; for translations the model's number of positions. ends_with_positions: at most
 * one id more than there are positions, which the model is not fed; else a sequence that goes on there is an error. */
uint64_t vkf_engine_length_limit(const vkf_session *session, const vkf_generation_config *config, bool translates,
                                 bool ends_with_positions, uint32_t n_prompt);

/* Takes memory on the host and on the device. Call finish in every case. A failure with env->too_large: fewer seats may
 * fit. */
vkf_status vkf_engine_generation_init(vkf_generation *g, vkf_session *session, const vkf_generation_params *params);
void vkf_engine_generation_finish(vkf_generation *g);
/* Starts sentences in seats [n], ascending, that are empty or done. Reads prompt, pull, mask, source, max_length and
 * line of inputs. source: a row for each of them if there is an encoder; else NULL. */
vkf_status vkf_engine_generation_put(vkf_generation *g, uint32_t n, const uint32_t *seats,
                                     const vkf_search_input *inputs, const vkf_encode_input *source);
/* Runs a step of everything that is not done: see vkf_decode_batch_ask(). */
vkf_status vkf_engine_generation_step(vkf_generation *g);
/* VKF_OK, or why the sentence of a seat failed, which then has no result: see vkf_decode_batch_failure(). */
vkf_status vkf_engine_generation_failure(const vkf_generation *g, uint32_t seat);

#endif
