/* generation_config: how sequences are decoded, with the keys and the meaning of Hugging Face's generation_config.json.
 *
 * Owns the values and their lists. Reads config.json, generation_config.json and a caller's JSON, each over the one
 * before. Refuses keys that would change the result and are not supported, by name, once the values are complete: a
 * later source may take a refused value back (do_sample: false over a folder's true). Invariant: a configuration that
 * passed vkf_decode_generation_check() has no key with an effect that is not applied.
 */
#ifndef VKF_DECODE_GENERATION_CONFIG_H
#define VKF_DECODE_GENERATION_CONFIG_H

#include "file/source.h"

typedef enum vkf_early_stopping {
  VKF_EARLY_STOPPING_FALSE, /* stop when the best running beam at its present length cannot beat the worst finished one
                             */
  VKF_EARLY_STOPPING_TRUE,  /* stop when num_beams sequences have finished */
  VKF_EARLY_STOPPING_NEVER  /* as FALSE, but a running beam counts with the score of its most favourable length */
} vkf_early_stopping;

typedef struct vkf_id_list {
  const int32_t *ids;
  uint32_t n;
} vkf_id_list;

/* Of a list that is not empty. */
static inline int32_t vkf_decode_last_id(const vkf_id_list *ids) {
  return ids->ids[ids->n - 1];
}

typedef struct vkf_id_lists {
  const vkf_id_list *lists; /* none empty */
  uint32_t n;
  const float *biases; /* [n], of sequence_bias alone; its lists are in the order of their last ids */
} vkf_id_lists;

/* With n ids more than `start` new ones, an end's score grows by the part factor^n - 1 of itself. */
typedef struct vkf_length_decay {
  uint32_t start;
  double factor; /* 1: none */
} vkf_length_decay;

#define VKF_NO_TOKEN (-1)
#define VKF_NOT_GIVEN UINT32_MAX
#define VKF_GENERATION_MAX_KEYS 96

typedef struct vkf_generation_config {
  uint32_t num_beams, num_return_sequences;
  uint32_t num_beam_groups; /* num_beams is a multiple of it */
  double diversity_penalty; /* what an id loses in a group for each time that an earlier group has taken it */
  uint32_t max_new_tokens, max_length; /* 0: not given; max_new_tokens has precedence */
  uint32_t min_new_tokens, min_length; /* min_new_tokens has precedence, also where it is 0, unless VKF_NOT_GIVEN */
  double length_penalty;
  vkf_early_stopping early_stopping;
  double patience;          /* key "patience", which transformers does not have; 0: none, early_stopping decides */
  double prefix_bias_beta;  /* CTranslate2's key: how strongly a beginning pulls; 0: it is forced */
  double coverage_penalty;  /* CTranslate2's key: what a hypothesis loses where its source is not looked at; 0: none */
  bool return_alternatives; /* CTranslate2's key: the sequences differ in the id after the prompt */
  double repetition_penalty, encoder_repetition_penalty;       /* 1: none */
  vkf_length_decay length_decay;                               /* key "exponential_decay_length_penalty" */
  uint32_t no_repeat_ngram_size, encoder_no_repeat_ngram_size; /* 0: none */
  vkf_id_list eos, forced_eos, suppress, begin_suppress;       /* n 0: none */
  vkf_id_lists bad_words, force_words, sequence_bias;          /* n 0: none */
  bool renormalize_logits;                             /* makes edited log-probabilities of beams sum to one again */
  bool do_sample;                                      /* the numbers below and the seed are for sampling alone */
  double temperature, top_k, top_p, min_p;             /* neutral: 1, 0, 1, 0 */
  double top_h, typical_p, epsilon_cutoff, eta_cutoff; /* neutral: 0, 1, 0, 0 */
  uint64_t seed;                                       /* key "seed", which transformers does not have */
  int32_t bos, pad, decoder_start, forced_bos;         /* VKF_NO_TOKEN: none */

  /* For each row of the key table, the source that set it to an unsupported value; NULL: not refused. */
  const char *refused[VKF_GENERATION_MAX_KEYS];
  const char *unknown, *unknown_source; /* the first key that is in no table, and its source; or NULL */
  vkf_env *env;
  vkf_arena arena; /* lists and names that this configuration read itself */
} vkf_generation_config;

/* The defaults: greedy, no limit, no special ids. */
void vkf_decode_generation_init(vkf_generation_config *config, vkf_env *env);
void vkf_decode_generation_finish(vkf_generation_config *config);

/* config.json and, if it is there, generation_config.json of a folder. Without generation_config.json the generation
 * keys of config.json count; with it only the special ids that generation_config.json does not mention. Types are
 * checked (VKF_ERROR_FORMAT); nothing is refused yet, so that such a model can be run. config must be fresh. */
vkf_status vkf_decode_generation_read(vkf_generation_config *config, const vkf_file_source *source);

/* Drops bos, pad and the ends that are no ids of a vocabulary, so that no search meets them: a GPT-2 with a small
 * vocabulary of its own keeps the usual ids in its files. */
vkf_status vkf_decode_generation_fit(vkf_generation_config *config, uint32_t n_vocab);

/* Reads a caller's object of keys, which override the present ones; NULL: none. null gives a key its default. source:
 * for messages. */
vkf_status vkf_decode_generation_apply(vkf_generation_config *config, const char *source, const char *json);

/* A copy of `base` with its own arena, for the thread of `env`. Lists are shared, so `base` must outlive it. */
void vkf_decode_generation_derive(vkf_generation_config *config, vkf_env *env, const vkf_generation_config *base);

/* VKF_ERROR_UNSUPPORTED names a key that is not supported; VKF_ERROR_ARGUMENT: values that contradict each other, or
 * ids that are not in [0, n_vocab). */
vkf_status vkf_decode_generation_check(const vkf_generation_config *config, uint32_t n_vocab);

/* Ids of the longest sequence, prompt included: prompt + max_new_tokens, else max_length, else `fallback`. */
uint64_t vkf_decode_generation_length(const vkf_generation_config *config, uint32_t prompt, uint64_t fallback);

/* The id that a target begins with; VKF_NO_TOKEN: there is none. */
static inline int32_t vkf_decode_generation_start(const vkf_generation_config *config) {
  return config->decoder_start != VKF_NO_TOKEN ? config->decoder_start : config->bos;
}

/* Hypotheses that must finish before a search with patience stops. */
double vkf_decode_generation_patience(const vkf_generation_config *config);

bool vkf_decode_id_in(const vkf_id_list *list, int32_t id);

#endif
