/* beam: the beam search of one group of beams of a sentence: how hypotheses continue and finish, and when it stops.
 *
 * Pure arithmetic on candidates in float32, as in transformers 5.12 (generation/utils.py, _beam_search): scores are
 * compared in the same precision as there. With patience the search ignores early_stopping and stops as soon as
 * round(num_beams * patience) hypotheses have finished (Kasai et al. 2022, "A Call for Clarity in Beam Search: How It
 * Works and When It Stops"). It keeps the best of them: num_beams, or num_return_sequences if that is more. With
 * phrases that must appear, candidates are sorted into banks by the number of ids of the phrases that they have, and
 * the banks share the beams: grid beam search (see phrases.h) with the even shares of Post & Vilar (2018, "Fast
 * Lexically Constrained Decoding with Dynamic Beam Allocation"). Knows neither devices nor processors.
 *
 * Invariant: running and finished hypotheses are in descending order of their scores.
 */
#ifndef VKF_DECODE_BEAM_H
#define VKF_DECODE_BEAM_H

#include "decode/phrases.h"

/* The running hypotheses (n_beams are used) or the finished ones. Both pools have n_kept places. */
typedef struct vkf_beam_pool {
  int32_t *tokens; /* [n_kept][capacity] */
  float *logprobs; /* [n_kept][capacity]: of each id in its step; 0 in the prompt */
  float *scores;   /* [n_kept]: sum of log-probabilities; if finished, divided by n_generated^length_penalty */
  uint32_t *lengths;
  bool *finished; /* [n_kept]; false in the finished pool: the place is still empty */
} vkf_beam_pool;

typedef struct vkf_beams {
  vkf_env *env;
  const vkf_generation_config *config;
  uint32_t n_beams, n_keep; /* n_keep: candidates of a step */
  uint32_t n_kept;          /* places for finished hypotheses */
  uint32_t n_banks;         /* of candidates; 1: there are no phrases */
  uint32_t phrases_from;    /* the first id that can belong to a phrase */
  uint32_t prompt, length, max_length, capacity;
  uint32_t n_ended;                       /* hypotheses that have finished, also those that were not kept */
  vkf_beam_pool running, finished, spare; /* spare: the next state of either is written here */
  uint32_t *order;                        /* [n_beams]: the row that each running hypothesis continues */
  uint32_t *cursors;                      /* [n_beams], or [n_banks] */
  uint32_t *picked;                       /* [n_kept] */
  float *ranks;                           /* [n_kept + n_keep] */
  vkf_beam_candidate *candidates;         /* [n_keep], of the last step, descending; the first n_candidates count */
  uint32_t n_candidates;
} vkf_beams;

/* Returns the number of beams in a group. */
uint32_t vkf_decode_beams_each(const vkf_generation_config *config);
/* Returns the number of candidates that a group needs in a step: enough to fill its beams even if every row offers all
 * end ids, and to return as many sequences as are asked for if all end at the length limit. */
uint64_t vkf_decode_beams_keep(const vkf_generation_config *config);

/* Starts a group. ids [prompt]: the prompt. capacity: ids that a row can hold, at most max_length. k: candidates of a
 * row in a step; read only if there are phrases. phrases_from: index of the first id that can belong to a phrase. Call
 * finish even if this fails. */
vkf_status vkf_decode_beams_init(vkf_beams *beams, vkf_env *env, const vkf_generation_config *config,
                                 const int32_t *ids, uint32_t prompt, uint32_t max_length, uint32_t capacity,
                                 uint32_t k, uint32_t phrases_from);
void vkf_decode_beams_finish(vkf_beams *beams);

/* Adds an id to every hypothesis. values, ids [n_beams][k]: the best candidates of each row, descending; with phrases
 * in any order, and a value of -inf is no candidate. only: index of the one candidate of row 0 that counts; NULL: all
 * count. Returns false if the search is over. */
bool vkf_decode_beams_step(vkf_beams *beams, const float *values, const int32_t *ids, uint32_t k, const uint32_t *only);

/* Appends `id` to every hypothesis of a group that is done, so that it keeps step with the other groups. */
void vkf_decode_beams_idle(vkf_beams *beams, int32_t id);

/* Stops a search early: its running hypotheses compete with the finished ones. */
void vkf_decode_beams_stop(vkf_beams *beams);

#endif
