/* generation_config: how sequences are decoded, with the keys and meanings of Hugging Face's generation_config.json.
 *
 * Owns the values and their lists. Reads config.json, generation_config.json and a caller's JSON; a later source
 * overrides an earlier one. vkf_decode_generation_check() refuses, by name, keys that would change the result but are
 * not supported. It runs after all sources are read, because a later one may take such a value back (low_memory: false
 * over a folder's true). Invariant: in a checked configuration, every key that has an effect is applied.
 */
#ifndef VKF_DECODE_GENERATION_CONFIG_H
#define VKF_DECODE_GENERATION_CONFIG_H

#include "file/source.h"

typedef enum vkf_early_stopping {
  VKF_EARLY_STOPPING_FALSE, /* stop if the best running beam, at its length now, cannot beat the worst finished one */
  VKF_EARLY_STOPPING_TRUE,  /* stop when num_beams sequences have finished */
  VKF_EARLY_STOPPING_NEVER  /* as FALSE, but a running beam is scored at its most favourable length */
} vkf_early_stopping;

typedef struct vkf_id_list {
  const int32_t *ids;
  uint32_t n;
} vkf_id_list;

/* The list must not be empty. */
static inline int32_t vkf_decode_last_id(const vkf_id_list *ids) {
  return ids->ids[ids->n - 1];
}

typedef struct vkf_id_lists {
  const vkf_id_list *lists; /* none empty */
  uint32_t n;
  const float *biases; /* [n], for sequence_bias only; its lists are sorted by their last ids */
} vkf_id_lists;

/* Once there are start + n new ids, the score x of an end id becomes x + |x| (factor^n - 1). */
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
  double diversity_penalty; /* an id loses this for each beam of an earlier group that has taken it in the step */
  uint32_t max_new_tokens, max_length; /* 0: not given; max_new_tokens has precedence */
  uint32_t min_new_tokens, min_length; /* min_new_tokens has precedence, even if 0, unless VKF_NOT_GIVEN */
  double length_penalty;
  vkf_early_stopping early_stopping;
  double patience;          /* key "patience", not in transformers; 0: early_stopping decides */
  double prefix_bias_beta;  /* CTranslate2's key: how much more likely a given prefix becomes; 0: it is forced */
  double coverage_penalty;  /* CTranslate2's key: weight of the penalty for source tokens not attended to; 0: none */
  bool return_alternatives; /* CTranslate2's key: the results differ in the first id after the prompt */
  double min_alternative_expansion_prob; /* CTranslate2's key: least probability of that id; result 0 needs none */
  double repetition_penalty, encoder_repetition_penalty;       /* 1: none */
  vkf_length_decay length_decay;                               /* key "exponential_decay_length_penalty" */
  uint32_t no_repeat_ngram_size, encoder_no_repeat_ngram_size; /* 0: none */
  vkf_id_list eos, forced_eos, suppress, begin_suppress;       /* n 0: none */
  vkf_id_lists bad_words, force_words, sequence_bias;          /* n 0: none */
  bool renormalize_logits;                 /* beams: edited probabilities are normalised to sum to one again */
  bool do_sample;                          /* the numbers below and the seed are for sampling only */
  double temperature, top_k, top_p, min_p; /* neutral: 1, 0, 1, 0 */
  double top_h, typical_p, epsilon_cutoff, eta_cutoff; /* neutral: 0, 1, 0, 0 */
  uint64_t seed;                                       /* key "seed", not in transformers */
  int32_t bos, pad, decoder_start, forced_bos;         /* VKF_NO_TOKEN: none */

  /* For each row of the key table, the source that set an unsupported value; NULL: none did. */
  const char *refused[VKF_GENERATION_MAX_KEYS];
  const char *unknown, *unknown_source; /* the first key that is not in the table, and its source; or NULL */
  vkf_env *env;
  vkf_arena arena; /* lists and names that this configuration has read itself */
} vkf_generation_config;

/* Sets the defaults: greedy, no limit, no special ids. */
void vkf_decode_generation_init(vkf_generation_config *config, vkf_env *env);
void vkf_decode_generation_finish(vkf_generation_config *config);

/* Reads config.json of a folder and, if there is one, generation_config.json. With the latter, config.json gives
 * only the special ids that are missing there; without it, all generation keys. Checks types (VKF_ERROR_FORMAT), but
 * refuses nothing yet, so that a model with such keys can be run. config must be fresh. */
vkf_status vkf_decode_generation_read(vkf_generation_config *config, const vkf_file_source *source);

/* Drops bos, pad and eos ids that are not in the vocabulary, so that no search meets them: a GPT-2 trained with a small
 * vocabulary still has the usual ids in its files. */
vkf_status vkf_decode_generation_fit(vkf_generation_config *config, uint32_t n_vocab);

/* Reads a JSON object of keys from a caller (NULL: none). They override the present values; null gives a key its
 * default. source: name of the object in messages. */
vkf_status vkf_decode_generation_apply(vkf_generation_config *config, const char *source, const char *json);

/* Copies `base`, for the thread of `env`. It has its own arena but shares the lists, so `base` must outlive it. */
void vkf_decode_generation_derive(vkf_generation_config *config, vkf_env *env, const vkf_generation_config *base);

/* VKF_ERROR_UNSUPPORTED: names a key, or a combination of keys, that is not supported. VKF_ERROR_ARGUMENT: values out
 * of range or in contradiction, or ids outside [0, n_vocab). */
vkf_status vkf_decode_generation_check(const vkf_generation_config *config, uint32_t n_vocab);

/* Returns the length of the longest sequence, prompt included: prompt + max_new_tokens, else max_length, else
 * `fallback`. */
uint64_t vkf_decode_generation_length(const vkf_generation_config *config, uint32_t prompt, uint64_t fallback);

/* Returns the id that a target begins with; VKF_NO_TOKEN: there is none. */
static inline int32_t vkf_decode_generation_start(const vkf_generation_config *config) {
  return config->decoder_start != VKF_NO_TOKEN ? config->decoder_start : config->bos;
}

/* Returns how many hypotheses must finish before a search with patience stops. */
double vkf_decode_generation_patience(const vkf_generation_config *config);

bool vkf_decode_id_in(const vkf_id_list *list, int32_t id);

#endif
