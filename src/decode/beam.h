/* beam: the hypotheses of the beam search of one sentence and the rules by which they go on, finish and stop.
 *
 * Pure arithmetic on candidates in float32, as transformers 5.12 does it (generation/utils.py, _beam_search): a score
 * is never compared in another precision than there. With patience the search stops as Kasai et al. (2022, "A Call for
 * Clarity in Beam Search: How It Works and When It Stops") say: as soon as round(num_beams * patience) hypotheses have
 * finished, whatever early_stopping says. The best of them are kept: num_beams, or as many as are asked for. With
 * phrases that must appear, candidates are sorted into banks by how many ids of the phrases they have, and the banks
 * share the beams: grid beam search (see phrases.h), with the even shares of Post & Vilar (2018, "Fast Lexically
 * Constrained Decoding with Dynamic Beam Allocation"). Knows neither devices nor processors.
 *
 * Invariant: running and finished hypotheses are in descending order of their scores.
 */
#ifndef VKF_DECODE_BEAM_H
#define VKF_DECODE_BEAM_H

#include "decode/phrases.h"

/* Running hypotheses, n_beams of them, or finished ones; both have n_kept places. */
typedef struct vkf_beam_pool {
  int32_t *tokens; /* [n_kept][capacity] */
  float *logprobs; /* the same: of each id in its step; 0 in the prompt */
  float *scores;   /* [n_kept]: running: sum of log-probabilities; finished: that over length^length_penalty */
  uint32_t *lengths;
  bool *finished; /* a place in the pool of finished hypotheses may still be empty */
} vkf_beam_pool;

typedef struct vkf_beams {
  vkf_env *env;
  const vkf_generation_config *config;
  uint32_t n_beams, n_keep; /* n_keep: candidates */
  uint32_t n_kept;          /* places for finished hypotheses */
  uint32_t n_banks;         /* with phrases: banks of candidates; else 1 */
  uint32_t phrases_from;    /* the first id that can belong to a phrase */
  uint32_t prompt, length, max_length, capacity;
  uint32_t n_ended;                       /* hypotheses that have finished, those that were not kept included */
  vkf_beam_pool running, finished, spare; /* spare: where the next state of either is written */
  uint32_t *order;                        /* [n_beams]: the row that each running hypothesis continues */
  uint32_t *cursors;                      /* [n_beams], or [n_banks] */
  uint32_t *picked;                       /* [n_kept] */
  float *ranks;                           /* [n_kept + n_keep] */
  vkf_beam_candidate *candidates; /* [n_keep], of the last step; n_candidates continue a hypothesis, descending */
  uint32_t n_candidates;
} vkf_beams;

/* Beams of a group. */
uint32_t vkf_decode_beams_each(const vkf_generation_config *config);
/* Candidates of a step of a group: enough to go on with all its hypotheses when all ends are among them. */
uint64_t vkf_decode_beams_keep(const vkf_generation_config *config);

/* One group. ids [prompt]: the prompt. capacity: ids that a row can hold, at most max_length. k: with phrases, the
 * candidates that each row of a step has. phrases_from: the first id that can belong to a phrase. */
vkf_status vkf_decode_beams_init(vkf_beams *beams, vkf_env *env, const vkf_generation_config *config,
                                 const int32_t *ids, uint32_t prompt, uint32_t max_length, uint32_t capacity,
                                 uint32_t k, uint32_t phrases_from);
void vkf_decode_beams_finish(vkf_beams *beams);

/* One more id for every hypothesis. values, ids [n_beams][k]: the best ids of each row, descending; with phrases in any
 * order, and -inf is none. only: the one candidate of the first row that counts; NULL: all do. False: the search is
 * over. */
bool vkf_decode_beams_step(vkf_beams *beams, const float *values, const int32_t *ids, uint32_t k, const uint32_t *only);

/* One more id for every hypothesis of a search that is over, while others of its sentence go on. */
void vkf_decode_beams_idle(vkf_beams *beams, int32_t id);

/* Ends a search that could go on: its running hypotheses compete with the finished ones. */
void vkf_decode_beams_stop(vkf_beams *beams);

#endif
