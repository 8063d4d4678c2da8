/* generation_keys: see generation_keys.h. */
#include "decode/generation_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(vkf_generation_config, field)
const vkf_generation_key vkf_decode_generation_keys[] = {
    {"num_beams", VKF_KEY_COUNT, AT(num_beams), VKF_RANGE_COUNT},
    {"num_return_sequences", VKF_KEY_COUNT, AT(num_return_sequences), VKF_RANGE_COUNT},
    {"num_beam_groups", VKF_KEY_COUNT, AT(num_beam_groups), VKF_RANGE_COUNT},
    {"diversity_penalty", VKF_KEY_REAL, AT(diversity_penalty), VKF_RANGE_FROM_0},
    {"max_new_tokens", VKF_KEY_COUNT, AT(max_new_tokens), VKF_RANGE_COUNT},
    {"max_length", VKF_KEY_COUNT, AT(max_length), VKF_RANGE_COUNT},
    {"min_new_tokens", VKF_KEY_COUNT, AT(min_new_tokens), VKF_RANGE_WHOLE},
    {"min_length", VKF_KEY_COUNT, AT(min_length), VKF_RANGE_WHOLE},
    {"no_repeat_ngram_size", VKF_KEY_COUNT, AT(no_repeat_ngram_size), VKF_RANGE_WHOLE},
    {"encoder_no_repeat_ngram_size", VKF_KEY_COUNT, AT(encoder_no_repeat_ngram_size), VKF_RANGE_WHOLE},
    {"length_penalty", VKF_KEY_REAL, AT(length_penalty), VKF_RANGE_ANY},
    {"repetition_penalty", VKF_KEY_FACTOR, AT(repetition_penalty), VKF_RANGE_OVER_0},
    {"encoder_repetition_penalty", VKF_KEY_FACTOR, AT(encoder_repetition_penalty), VKF_RANGE_OVER_0},
    {"early_stopping", VKF_KEY_EARLY, AT(early_stopping), VKF_RANGE_NONE},
    {"patience", VKF_KEY_FACTOR, AT(patience), VKF_RANGE_OVER_0},
    {"prefix_bias_beta", VKF_KEY_REAL, AT(prefix_bias_beta), VKF_RANGE_BELOW_1},
    {"coverage_penalty", VKF_KEY_REAL, AT(coverage_penalty), VKF_RANGE_FROM_0},
    {"return_alternatives", VKF_KEY_BOOL, AT(return_alternatives), VKF_RANGE_NONE},
    {"min_alternative_expansion_prob", VKF_KEY_REAL, AT(min_alternative_expansion_prob), VKF_RANGE_FROM_0_TO_1},
    {"bos_token_id", VKF_KEY_ID, AT(bos), VKF_RANGE_NONE},
    {"pad_token_id", VKF_KEY_ID, AT(pad), VKF_RANGE_NONE},
    {"decoder_start_token_id", VKF_KEY_ID, AT(decoder_start), VKF_RANGE_NONE},
    {"forced_bos_token_id", VKF_KEY_ID, AT(forced_bos), VKF_RANGE_NONE},
    {"eos_token_id", VKF_KEY_IDS, AT(eos), VKF_RANGE_NONE},
    {"forced_eos_token_id", VKF_KEY_IDS, AT(forced_eos), VKF_RANGE_NONE},
    {"suppress_tokens", VKF_KEY_IDS, AT(suppress), VKF_RANGE_NONE},
    {"begin_suppress_tokens", VKF_KEY_IDS, AT(begin_suppress), VKF_RANGE_NONE},
    {"bad_words_ids", VKF_KEY_WORDS, AT(bad_words), VKF_RANGE_NONE},
    {"sequence_bias", VKF_KEY_BIASES, AT(sequence_bias), VKF_RANGE_NONE},
    {"exponential_decay_length_penalty", VKF_KEY_DECAY, AT(length_decay), VKF_RANGE_NONE},
    {"force_words_ids", VKF_KEY_WORDS, AT(force_words), VKF_RANGE_NONE},
    {"do_sample", VKF_KEY_BOOL, AT(do_sample), VKF_RANGE_NONE},
    {"renormalize_logits", VKF_KEY_BOOL, AT(renormalize_logits), VKF_RANGE_NONE},
    {"temperature", VKF_KEY_DRAW, AT(temperature), VKF_RANGE_OVER_0},
    {"top_k", VKF_KEY_DRAW, AT(top_k), VKF_RANGE_WHOLE},
    {"top_p", VKF_KEY_DRAW, AT(top_p), VKF_RANGE_FROM_0_TO_1},
    {"min_p", VKF_KEY_DRAW, AT(min_p), VKF_RANGE_FROM_0_TO_1},
    {"top_h", VKF_KEY_DRAW, AT(top_h), VKF_RANGE_FROM_0_TO_1},
    {"typical_p", VKF_KEY_DRAW, AT(typical_p), VKF_RANGE_OVER_0_TO_1},
    {"epsilon_cutoff", VKF_KEY_DRAW, AT(epsilon_cutoff), VKF_RANGE_BELOW_1},
    {"eta_cutoff", VKF_KEY_DRAW, AT(eta_cutoff), VKF_RANGE_BELOW_1},
    {"seed", VKF_KEY_SEED, AT(seed), VKF_RANGE_NONE},
    {"transformers_version", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"_from_model_config", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"_commit_hash", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"use_cache", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"cache_implementation", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"cache_config", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"return_legacy_cache", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"prefill_chunk_size", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"compile_config", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"disable_compile", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"continuous_batching_config", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"output_attentions", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"output_hidden_states", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"output_scores", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"output_logits", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"return_dict_in_generate", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    /* used only with an assistant model, which no key of this file can name */
    {"num_assistant_tokens", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"num_assistant_tokens_schedule", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"assistant_confidence_threshold", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"max_matching_ngram_size", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"assistant_lookbehind", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    {"target_lookbehind", VKF_KEY_FREE, 0, VKF_RANGE_NONE},
    /* would change all scores of a row, which no kind of edit does */
    {"remove_invalid_values", VKF_KEY_NO_FALSE, 0, VKF_RANGE_NONE},
    {"low_memory", VKF_KEY_NO_FALSE, 0, VKF_RANGE_NONE},
    {"token_healing", VKF_KEY_NO_FALSE, 0, VKF_RANGE_NONE},
    {"is_assistant", VKF_KEY_NO_FALSE, 0, VKF_RANGE_NONE},
    {"guidance_scale", VKF_KEY_NO_1, 0, VKF_RANGE_NONE},
    {"penalty_alpha", VKF_KEY_NO_0, 0, VKF_RANGE_NONE},
    {"constraints", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"forced_decoder_ids", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"max_time", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"stop_strings", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"watermarking_config", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"dola_layers", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"prompt_lookup_num_tokens", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"assistant_early_exit", VKF_KEY_NO, 0, VKF_RANGE_NONE},
    {"generation_kwargs", VKF_KEY_NO, 0, VKF_RANGE_NONE},
};
const size_t vkf_decode_generation_n_keys = VKF_COUNT(vkf_decode_generation_keys);
_Static_assert(VKF_COUNT(vkf_decode_generation_keys) <= VKF_GENERATION_MAX_KEYS, "refused[] has a place for every key");

const char *vkf_decode_generation_expects(const vkf_generation_key *key, double x) {
  switch (key->range) {
    case VKF_RANGE_NONE:
      break;
#define X(name, words, test) \
  case VKF_RANGE_##name:     \
    return test ? NULL : words;
      VKF_GENERATION_RANGES(X)
#undef X
  }
  return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static vkf_status read_id(vkf_generation_reader *r, vkf_file_value value, int32_t *out) {
  int64_t id = 0;
  VKF_CALL(vkf_file_json_as_int64(value, &id));
  if (id < 0 || id > INT32_MAX)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected an id from 0 to %d, found %lld",
                        r->source, value.path, INT32_MAX, (long long)id);
  *out = (int32_t)id;
  return VKF_OK;
}

static vkf_status read_ids(vkf_generation_reader *r, vkf_file_value value, vkf_id_list *out) {
  bool single = vkf_file_json_kind(value) == VKF_FILE_INTEGER;
  if (!single) VKF_CALL(vkf_file_json_as_array(value, &value));
  size_t n = single ? 1 : vkf_file_json_count(value);
  int32_t *ids = vkf_arena_alloc(&r->config->arena, n, sizeof(*ids));
  if (ids == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) VKF_CALL(read_id(r, single ? value : vkf_file_json_at(value, i), &ids[i]));
  *out = (vkf_id_list){ids, (uint32_t)n};
  return VKF_OK;
}

static vkf_status read_words(vkf_generation_reader *r, vkf_file_value value, vkf_id_lists *out) {
  VKF_CALL(vkf_file_json_as_array(value, &value));
  size_t n = vkf_file_json_count(value);
  vkf_id_list *words = vkf_arena_alloc(&r->config->arena, n, sizeof(*words));
  if (words == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    vkf_file_value word;
    VKF_CALL(vkf_file_json_as_array(vkf_file_json_at(value, i), &word));
    VKF_CALL(read_ids(r, word, &words[i]));
    if (words[i].n == 0)
      return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected at least one id, found none",
                          r->source, word.path);
  }
  *out = (vkf_id_lists){.lists = words, .n = (uint32_t)n};
  return VKF_OK;
}

typedef struct biased {
  vkf_id_list ids;
  double bias;
  uint32_t at;
} biased;

static bool is_same(const vkf_id_list *a, const vkf_id_list *b) {
  return a->n == b->n && memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0;
}

static int by_last_id(const void *a, const void *b) {
  const biased *x = a, *y = b;
  if (vkf_decode_last_id(&x->ids) != vkf_decode_last_id(&y->ids))
    return vkf_decode_last_id(&x->ids) < vkf_decode_last_id(&y->ids) ? -1 : 1;
  if ((x->ids.n == 1) != (y->ids.n == 1)) return x->ids.n == 1 ? -1 : 1;
  return x->at < y->at ? -1 : 1;
}

/* Reads [[ids, number], ...] and sorts it by last ids, in the order in which transformers adds the biases of an id:
 * that of the id alone, then those of sequences in file order. A repeated sequence keeps its first place and last
 * number. */
static vkf_status read_biases(vkf_generation_reader *r, vkf_file_value value, vkf_id_lists *out) {
  VKF_CALL(vkf_file_json_as_array(value, &value));
  const size_t n = vkf_file_json_count(value);
  uint32_t kept = 0;
  biased *all = vkf_arena_alloc(&r->config->arena, n, sizeof *all);
  vkf_id_list *lists = vkf_arena_alloc(&r->config->arena, n, sizeof *lists);
  float *biases = vkf_arena_alloc(&r->config->arena, n, sizeof *biases);
  if (!all || !lists || !biases) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    vkf_file_value pair, ids;
    VKF_CALL(vkf_file_json_as_array(vkf_file_json_at(value, i), &pair));
    if (vkf_file_json_count(pair) != 2)
      return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT,
                          "%s: key \"%s\": expected a pair [[id, ...], number], found %zu elements", r->source,
                          pair.path, vkf_file_json_count(pair));
    all[i].at = (uint32_t)i;
    VKF_CALL(vkf_file_json_as_array(vkf_file_json_at(pair, 0), &ids));
    VKF_CALL(read_ids(r, ids, &all[i].ids));
    VKF_CALL(vkf_file_json_as_double(vkf_file_json_at(pair, 1), &all[i].bias));
    if (all[i].ids.n == 0)
      return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected at least one id, found none",
                          r->source, ids.path);
  }
  if (n > 1) qsort(all, n, sizeof *all, by_last_id);
  for (size_t i = 0, first = 0; i < n; i++) { /* lists from `first` on have the same last id */
    if (i > 0 && vkf_decode_last_id(&all[i].ids) != vkf_decode_last_id(&all[i - 1].ids)) first = kept;
    size_t same = first;
    while (same < kept && !is_same(&lists[same], &all[i].ids)) same++;
    lists[same] = all[i].ids;
    biases[same] = (float)all[i].bias;
    kept += same == kept;
  }
  *out = (vkf_id_lists){lists, kept, biases};
  return VKF_OK;
}

static vkf_status read_count(vkf_generation_reader *r, const vkf_generation_key *key, vkf_file_value value,
                             uint32_t *out) {
  int64_t count = 0;
  VKF_CALL(vkf_file_json_as_int64(value, &count));
  if (vkf_decode_generation_expects(key, (double)count) || count > INT32_MAX)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected %d to %d, found %lld", r->source,
                        value.path, key->range == VKF_RANGE_COUNT, INT32_MAX, (long long)count);
  *out = (uint32_t)count;
  return VKF_OK;
}

static vkf_status read_real(vkf_generation_reader *r, const vkf_generation_key *key, vkf_file_value value,
                            double *out) {
  double real = 0;
  VKF_CALL(vkf_file_json_as_double(value, &real));
  const char *expected = key->kind == VKF_KEY_FACTOR ? vkf_decode_generation_expects(key, real) : NULL;
  if (expected)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected %s, found %g", r->source,
                        value.path, expected, real);
  *out = real;
  return VKF_OK;
}

/* Reads [start, factor]. */
static vkf_status read_decay(vkf_generation_reader *r, vkf_file_value value, vkf_length_decay *out) {
  static const vkf_generation_key start = {.kind = VKF_KEY_COUNT, .range = VKF_RANGE_WHOLE};
  static const vkf_generation_key factor = {.kind = VKF_KEY_FACTOR, .range = VKF_RANGE_OVER_0};
  VKF_CALL(vkf_file_json_as_array(value, &value));
  if (vkf_file_json_count(value) != 2)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT,
                        "%s: key \"%s\": expected a pair [start, factor], found %zu elements", r->source, value.path,
                        vkf_file_json_count(value));
  VKF_CALL(read_count(r, &start, vkf_file_json_at(value, 0), &out->start));
  return read_real(r, &factor, vkf_file_json_at(value, 1), &out->factor);
}

static vkf_status read_seed(vkf_generation_reader *r, vkf_file_value value, uint64_t *out) {
  int64_t seed = 0;
  VKF_CALL(vkf_file_json_as_int64(value, &seed));
  if (seed < 0)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected a number of at least 0, found %lld",
                        r->source, value.path, (long long)seed);
  *out = (uint64_t)seed;
  return VKF_OK;
}

static vkf_status read_early(vkf_generation_reader *r, vkf_file_value value, vkf_early_stopping *out) {
  const char *word = "";
  bool yes = false;
  if (vkf_file_json_kind(value) == VKF_FILE_STRING) {
    VKF_CALL(vkf_file_json_as_string(value, &word));
    if (strcmp(word, "never") != 0)
      return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT,
                          "%s: key \"%s\": expected true, false or \"never\", found \"%s\"", r->source, value.path,
                          word);
    *out = VKF_EARLY_STOPPING_NEVER;
    return VKF_OK;
  }
  VKF_CALL(vkf_file_json_as_bool(value, &yes));
  *out = yes ? VKF_EARLY_STOPPING_TRUE : VKF_EARLY_STOPPING_FALSE;
  return VKF_OK;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Gives a key its default again. */
static void reset(vkf_generation_config *config, const vkf_generation_key *key) {
  static const size_t sizes[] = {[VKF_KEY_COUNT] = sizeof(uint32_t),      [VKF_KEY_REAL] = sizeof(double),
                                 [VKF_KEY_DRAW] = sizeof(double),         [VKF_KEY_FACTOR] = sizeof(double),
                                 [VKF_KEY_BOOL] = sizeof(bool),           [VKF_KEY_SEED] = sizeof(uint64_t),
                                 [VKF_KEY_ID] = sizeof(int32_t),          [VKF_KEY_EARLY] = sizeof(vkf_early_stopping),
                                 [VKF_KEY_IDS] = sizeof(vkf_id_list),     [VKF_KEY_WORDS] = sizeof(vkf_id_lists),
                                 [VKF_KEY_BIASES] = sizeof(vkf_id_lists), [VKF_KEY_DECAY] = sizeof(vkf_length_decay)};
  vkf_generation_config defaults;
  vkf_decode_generation_init(&defaults, config->env);
  config->refused[key - vkf_decode_generation_keys] = NULL;
  if (key->kind < VKF_COUNT(sizes))
    memcpy((char *)config + key->offset, (char *)&defaults + key->offset, sizes[key->kind]);
}

vkf_status vkf_decode_generation_read_key(vkf_generation_reader *r, const vkf_generation_key *key,
                                          vkf_file_value value) {
  vkf_generation_config *config = r->config;
  void *field = (char *)config + key->offset;
  bool neutral = true, yes = false;
  double number = 0;
  int64_t id = 0;
  vkf_status st = VKF_OK;
  reset(config, key);
  if (vkf_file_json_kind(value) == VKF_FILE_NULL) return VKF_OK;
  switch (key->kind) {
    case VKF_KEY_COUNT:
      return read_count(r, key, value, field);
    case VKF_KEY_REAL:
    case VKF_KEY_DRAW:
    case VKF_KEY_FACTOR:
      return read_real(r, key, value, field);
    case VKF_KEY_EARLY:
      return read_early(r, value, field);
    case VKF_KEY_ID: /* old conversions of LLaMA write -1 for none */
      st = vkf_file_json_as_int64(value, &id);
      return st != VKF_OK || id == VKF_NO_TOKEN ? st : read_id(r, value, field);
    case VKF_KEY_IDS:
      return read_ids(r, value, field);
    case VKF_KEY_WORDS:
      return read_words(r, value, field);
    case VKF_KEY_BIASES:
      return read_biases(r, value, field);
    case VKF_KEY_DECAY:
      return read_decay(r, value, field);
    case VKF_KEY_BOOL:
      return vkf_file_json_as_bool(value, field);
    case VKF_KEY_SEED:
      return read_seed(r, value, field);
    case VKF_KEY_FREE:
      return VKF_OK;
    case VKF_KEY_NO_FALSE:
      st = vkf_file_json_as_bool(value, &yes);
      neutral = !yes;
      break;
    case VKF_KEY_NO_0:
    case VKF_KEY_NO_1:
      st = vkf_file_json_as_double(value, &number);
      neutral = number == (key->kind == VKF_KEY_NO_1);
      break;
    case VKF_KEY_NO:
      neutral = vkf_file_json_kind(value) >= VKF_FILE_ARRAY && vkf_file_json_count(value) == 0;
      break;
  }
  config->refused[key - vkf_decode_generation_keys] = neutral ? NULL : r->source;
  return st;
}

const vkf_generation_key *vkf_decode_generation_find_key(const char *name) {
  for (size_t i = 0; i < vkf_decode_generation_n_keys; i++)
    if (strcmp(vkf_decode_generation_keys[i].name, name) == 0) return &vkf_decode_generation_keys[i];
  return NULL;
}

void vkf_decode_generation_init(vkf_generation_config *config, vkf_env *env) {
  *config = (vkf_generation_config){.num_beams = 1,
                                    .num_return_sequences = 1,
                                    .num_beam_groups = 1,
                                    .min_new_tokens = VKF_NOT_GIVEN,
                                    .length_penalty = 1.0,
                                    .repetition_penalty = 1.0,
                                    .encoder_repetition_penalty = 1.0,
                                    .length_decay.factor = 1.0,
                                    .temperature = 1.0,
                                    .top_k = 50,
                                    .top_p = 1.0,
                                    .typical_p = 1.0,
                                    .bos = VKF_NO_TOKEN,
                                    .pad = VKF_NO_TOKEN,
                                    .decoder_start = VKF_NO_TOKEN,
                                    .forced_bos = VKF_NO_TOKEN,
                                    .env = env};
  vkf_arena_init(&config->arena, env);
}

void vkf_decode_generation_finish(vkf_generation_config *config) {
  vkf_arena_finish(&config->arena);
}
