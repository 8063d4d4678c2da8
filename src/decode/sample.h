/* sample: draws an id from a row of scores.
 *
 * Pure arithmetic on the host. The rules are those of transformers 5.12 (generation/logits_process.py), in its order:
 * temperature, top_h, top_k, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff; then an id is drawn with the
 * probabilities of the softmax of what is left. The random number is a function of (seed, line, copy, step) alone.
 * Invariant: the id depends on the row, the configuration and that number, never on the other rows of a batch.
 */
#ifndef VKF_DECODE_SAMPLE_H
#define VKF_DECODE_SAMPLE_H

#include "decode/generation_config.h"

typedef struct vkf_sample_candidate {
  float score;
  double weight; /* exp((score - the largest) / temperature) */
  int32_t id;
} vkf_sample_candidate;

/* Draws an id. scores [n_vocab]: none NaN or +inf; -inf: never drawn. unit: a random number in [0,1). scratch
 * [n_vocab]. *log_prob: of the id among those that were left. Returns VKF_NO_TOKEN if every score is -inf. */
int32_t vkf_decode_sample(const vkf_generation_config *config, const float *scores, uint32_t n_vocab, double unit,
                          vkf_sample_candidate *scratch, double *log_prob);

/* Moves the k best of c [n] to its front, best first, ties by the lower id; 1 <= k <= n. */
void vkf_decode_best(vkf_sample_candidate *c, uint32_t n, uint32_t k);

/* Returns the random number in [0,1) of a step of a line. copy: number of the sequence among num_return_sequences. */
double vkf_decode_sample_unit(uint64_t seed, uint64_t line, uint32_t copy, uint32_t step);

#endif
