/* generation_config: see generation_config.h. One table says of every key what it is and where its value goes. */
#define _POSIX_C_SOURCE 200809L
#include "engine/generation_config.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef enum key_kind {
  KEY_COUNT,  /* uint32_t, at least `least` */
  KEY_REAL,   /* double */
  KEY_FACTOR, /* double over 0 */
  KEY_EARLY,
  KEY_ID,    /* int32_t */
  KEY_IDS,   /* vkf_id_list, also written as one id */
  KEY_WORDS, /* bad_words, n_bad_words */
  KEY_BOOL,
  KEY_SEED,      /* uint64_t */
  KEY_SAMPLING,  /* not supported with do_sample, unless the number `least` */
  KEY_FREE,      /* changes no id: bookkeeping, caches, what is returned */
  KEY_NO_FALSE,  /* not supported, unless false */
  KEY_NO_NUMBER, /* not supported, unless the number `least` */
  KEY_NO         /* not supported, unless null or empty */
} key_kind;

typedef struct key_row {
  const char *name;
  key_kind kind;
  size_t offset;
  uint32_t least;
} key_row;

#define AT(field) offsetof(vkf_generation_config, field)
static const key_row keys[] = {
    {"num_beams", KEY_COUNT, AT(num_beams), 1},
    {"num_return_sequences", KEY_COUNT, AT(num_return_sequences), 1},
    {"max_new_tokens", KEY_COUNT, AT(max_new_tokens), 1},
    {"max_length", KEY_COUNT, AT(max_length), 1},
    {"min_new_tokens", KEY_COUNT, AT(min_new_tokens), 0},
    {"min_length", KEY_COUNT, AT(min_length), 0},
    {"no_repeat_ngram_size", KEY_COUNT, AT(no_repeat_ngram_size), 0},
    {"encoder_no_repeat_ngram_size", KEY_COUNT, AT(encoder_no_repeat_ngram_size), 0},
    {"length_penalty", KEY_REAL, AT(length_penalty), 0},
    {"repetition_penalty", KEY_FACTOR, AT(repetition_penalty), 0},
    {"encoder_repetition_penalty", KEY_FACTOR, AT(encoder_repetition_penalty), 0},
    {"early_stopping", KEY_EARLY, AT(early_stopping), 0},
    {"bos_token_id", KEY_ID, AT(bos), 0},
    {"pad_token_id", KEY_ID, AT(pad), 0},
    {"decoder_start_token_id", KEY_ID, AT(decoder_start), 0},
    {"forced_bos_token_id", KEY_ID, AT(forced_bos), 0},
    {"eos_token_id", KEY_IDS, AT(eos), 0},
    {"forced_eos_token_id", KEY_IDS, AT(forced_eos), 0},
    {"suppress_tokens", KEY_IDS, AT(suppress), 0},
    {"begin_suppress_tokens", KEY_IDS, AT(begin_suppress), 0},
    {"bad_words_ids", KEY_WORDS, 0, 0},
    {"do_sample", KEY_BOOL, AT(do_sample), 0},
    /* read by sampling only: their ranges are checked where do_sample is true */
    {"temperature", KEY_REAL, AT(temperature), 0},
    {"top_k", KEY_REAL, AT(top_k), 0},
    {"top_p", KEY_REAL, AT(top_p), 0},
    {"min_p", KEY_REAL, AT(min_p), 0},
    {"seed", KEY_SEED, AT(seed), 0},
    {"top_h", KEY_SAMPLING, 0, 0},
    {"typical_p", KEY_SAMPLING, 0, 1},
    {"epsilon_cutoff", KEY_SAMPLING, 0, 0},
    {"eta_cutoff", KEY_SAMPLING, 0, 0},
    {"transformers_version", KEY_FREE, 0, 0},
    {"_from_model_config", KEY_FREE, 0, 0},
    {"_commit_hash", KEY_FREE, 0, 0},
    {"use_cache", KEY_FREE, 0, 0},
    {"cache_implementation", KEY_FREE, 0, 0},
    {"cache_config", KEY_FREE, 0, 0},
    {"return_legacy_cache", KEY_FREE, 0, 0},
    {"prefill_chunk_size", KEY_FREE, 0, 0},
    {"compile_config", KEY_FREE, 0, 0},
    {"disable_compile", KEY_FREE, 0, 0},
    {"continuous_batching_config", KEY_FREE, 0, 0},
    {"output_attentions", KEY_FREE, 0, 0},
    {"output_hidden_states", KEY_FREE, 0, 0},
    {"output_scores", KEY_FREE, 0, 0},
    {"output_logits", KEY_FREE, 0, 0},
    {"return_dict_in_generate", KEY_FREE, 0, 0},
    /* read with an assistant model only, which no key of this file can name */
    {"num_assistant_tokens", KEY_FREE, 0, 0},
    {"num_assistant_tokens_schedule", KEY_FREE, 0, 0},
    {"assistant_confidence_threshold", KEY_FREE, 0, 0},
    {"max_matching_ngram_size", KEY_FREE, 0, 0},
    {"assistant_lookbehind", KEY_FREE, 0, 0},
    {"target_lookbehind", KEY_FREE, 0, 0},
    {"renormalize_logits", KEY_NO_FALSE, 0, 0},
    {"remove_invalid_values", KEY_NO_FALSE, 0, 0},
    {"low_memory", KEY_NO_FALSE, 0, 0},
    {"token_healing", KEY_NO_FALSE, 0, 0},
    {"is_assistant", KEY_NO_FALSE, 0, 0},
    {"num_beam_groups", KEY_NO_NUMBER, 0, 1},
    {"guidance_scale", KEY_NO_NUMBER, 0, 1},
    {"diversity_penalty", KEY_NO_NUMBER, 0, 0},
    {"penalty_alpha", KEY_NO_NUMBER, 0, 0},
    {"exponential_decay_length_penalty", KEY_NO, 0, 0},
    {"sequence_bias", KEY_NO, 0, 0},
    {"constraints", KEY_NO, 0, 0},
    {"force_words_ids", KEY_NO, 0, 0},
    {"forced_decoder_ids", KEY_NO, 0, 0},
    {"max_time", KEY_NO, 0, 0},
    {"stop_strings", KEY_NO, 0, 0},
    {"watermarking_config", KEY_NO, 0, 0},
    {"dola_layers", KEY_NO, 0, 0},
    {"prompt_lookup_num_tokens", KEY_NO, 0, 0},
    {"assistant_early_exit", KEY_NO, 0, 0},
    {"generation_kwargs", KEY_NO, 0, 0},
};
_Static_assert(VKF_COUNT(keys) <= VKF_GENERATION_MAX_KEYS, "refused[] has a place for every key");

/* The ids that config.json gives where generation_config.json is silent. */
static const char *const special_ids[] = {"bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id"};

/* What one source is: its name for messages, kept as long as the configuration. */
typedef struct reader {
  vkf_generation_config *config;
  const char *source;
} reader;

void vkf_engine_generation_init(vkf_generation_config *config, vkf_env *env) {
  *config = (vkf_generation_config){.num_beams = 1,
                                    .num_return_sequences = 1,
                                    .length_penalty = 1.0,
                                    .repetition_penalty = 1.0,
                                    .encoder_repetition_penalty = 1.0,
                                    .temperature = 1.0,
                                    .top_k = 50,
                                    .top_p = 1.0,
                                    .bos = VKF_NO_TOKEN,
                                    .pad = VKF_NO_TOKEN,
                                    .decoder_start = VKF_NO_TOKEN,
                                    .forced_bos = VKF_NO_TOKEN,
                                    .env = env};
  vkf_arena_init(&config->arena, env);
}

void vkf_engine_generation_derive(vkf_generation_config *config, const vkf_generation_config *base) {
  *config = *base;
  vkf_arena_init(&config->arena, base->env);
}

void vkf_engine_generation_finish(vkf_generation_config *config) {
  vkf_arena_finish(&config->arena);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static vkf_status read_id(reader *r, vkf_file_value value, int32_t *out) {
  int64_t id = 0;
  vkf_status st = vkf_file_json_as_int64(value, &id);
  if (st != VKF_OK) return st;
  if (id < 0 || id > INT32_MAX)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected an id from 0 to %d, found %lld",
                        r->source, value.path, INT32_MAX, (long long)id);
  *out = (int32_t)id;
  return VKF_OK;
}

static vkf_status read_ids(reader *r, vkf_file_value value, vkf_id_list *out) {
  bool single = vkf_file_json_kind(value) == VKF_FILE_INTEGER;
  if (!single) {
    vkf_status st = vkf_file_json_as_array(value, &value);
    if (st != VKF_OK) return st;
  }
  size_t n = single ? 1 : vkf_file_json_count(value);
  int32_t *ids = vkf_arena_alloc(&r->config->arena, n, sizeof(*ids));
  if (ids == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    vkf_status st = read_id(r, single ? value : vkf_file_json_at(value, i), &ids[i]);
    if (st != VKF_OK) return st;
  }
  *out = (vkf_id_list){ids, (uint32_t)n};
  return VKF_OK;
}

static vkf_status read_words(reader *r, vkf_file_value value) {
  vkf_status st = vkf_file_json_as_array(value, &value);
  if (st != VKF_OK) return st;
  size_t n = vkf_file_json_count(value);
  vkf_id_list *words = vkf_arena_alloc(&r->config->arena, n, sizeof(*words));
  if (words == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    vkf_file_value word;
    st = vkf_file_json_as_array(vkf_file_json_at(value, i), &word);
    if (st == VKF_OK) st = read_ids(r, word, &words[i]);
    if (st != VKF_OK) return st;
    if (words[i].n == 0)
      return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected at least one id, found none",
                          r->source, word.path);
  }
  r->config->bad_words = words;
  r->config->n_bad_words = (uint32_t)n;
  return VKF_OK;
}

static vkf_status read_count(reader *r, const key_row *key, vkf_file_value value, uint32_t *out) {
  int64_t count = 0;
  vkf_status st = vkf_file_json_as_int64(value, &count);
  if (st != VKF_OK) return st;
  if (count < key->least || count > INT32_MAX)
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected %u to %d, found %lld", r->source,
                        value.path, key->least, INT32_MAX, (long long)count);
  *out = (uint32_t)count;
  return VKF_OK;
}

static vkf_status read_real(reader *r, const key_row *key, vkf_file_value value, double *out) {
  double real = 0;
  vkf_status st = vkf_file_json_as_double(value, &real);
  if (st != VKF_OK) return st;
  if (key->kind == KEY_FACTOR && !(real > 0))
    return vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected a number over 0, found %g",
                        r->source, value.path, real);
  *out = real;
  return VKF_OK;
}

static vkf_status read_seed(reader *r, vkf_file_value value, uint64_t *out) {
  int64_t seed = 0;
  vkf_status st = vkf_file_json_as_int64(value, &seed);
  if (st == VKF_OK && seed < 0)
    st = vkf_env_fail(r->config->env, VKF_ERROR_FORMAT, "%s: key \"%s\": expected a number of at least 0, found %lld",
                      r->source, value.path, (long long)seed);
  if (st == VKF_OK) *out = (uint64_t)seed;
  return st;
}

static vkf_status read_early(reader *r, vkf_file_value value, vkf_early_stopping *out) {
  const char *word = "";
  bool yes = false;
  if (vkf_file_json_kind(value) == VKF_FILE_STRING) {
    vkf_status st = vkf_file_json_as_string(value, &word);
    if (st == VKF_OK && strcmp(word, "never") != 0)
      st = vkf_env_fail(r->config->env, VKF_ERROR_FORMAT,
                        "%s: key \"%s\": expected true, false or \"never\", found \"%s\"", r->source, value.path, word);
    if (st == VKF_OK) *out = VKF_EARLY_STOPPING_NEVER;
    return st;
  }
  vkf_status st = vkf_file_json_as_bool(value, &yes);
  if (st == VKF_OK) *out = yes ? VKF_EARLY_STOPPING_TRUE : VKF_EARLY_STOPPING_FALSE;
  return st;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The default of a key again. */
static void reset(vkf_generation_config *config, const key_row *key) {
  static const size_t sizes[] = {[KEY_COUNT] = sizeof(uint32_t),
                                 [KEY_REAL] = sizeof(double),
                                 [KEY_FACTOR] = sizeof(double),
                                 [KEY_BOOL] = sizeof(bool),
                                 [KEY_SEED] = sizeof(uint64_t),
                                 [KEY_ID] = sizeof(int32_t),
                                 [KEY_EARLY] = sizeof(vkf_early_stopping),
                                 [KEY_IDS] = sizeof(vkf_id_list)};
  vkf_generation_config defaults;
  vkf_engine_generation_init(&defaults, config->env);
  config->refused[key - keys] = NULL;
  if (key->kind == KEY_WORDS) config->n_bad_words = 0;
  if (key->kind < VKF_COUNT(sizes))
    memcpy((char *)config + key->offset, (char *)&defaults + key->offset, sizes[key->kind]);
}

static vkf_status read_key(reader *r, const key_row *key, vkf_file_value value) {
  vkf_generation_config *config = r->config;
  void *field = (char *)config + key->offset;
  bool neutral = true, yes = false;
  double number = 0;
  vkf_status st = VKF_OK;
  reset(config, key);
  if (vkf_file_json_kind(value) == VKF_FILE_NULL) return VKF_OK;
  switch (key->kind) {
    case KEY_COUNT:
      return read_count(r, key, value, field);
    case KEY_REAL:
    case KEY_FACTOR:
      return read_real(r, key, value, field);
    case KEY_EARLY:
      return read_early(r, value, field);
    case KEY_ID:
      return read_id(r, value, field);
    case KEY_IDS:
      return read_ids(r, value, field);
    case KEY_WORDS:
      return read_words(r, value);
    case KEY_BOOL:
      return vkf_file_json_as_bool(value, field);
    case KEY_SEED:
      return read_seed(r, value, field);
    case KEY_FREE:
      return VKF_OK;
    case KEY_NO_FALSE:
      st = vkf_file_json_as_bool(value, &yes);
      neutral = !yes;
      break;
    case KEY_SAMPLING:
    case KEY_NO_NUMBER:
      st = vkf_file_json_as_double(value, &number);
      neutral = number == key->least;
      break;
    case KEY_NO:
      neutral = vkf_file_json_kind(value) >= VKF_FILE_ARRAY && vkf_file_json_count(value) == 0;
      break;
  }
  config->refused[key - keys] = neutral ? NULL : r->source;
  return st;
}

static const key_row *find_key(const char *name) {
  for (size_t i = 0; i < VKF_COUNT(keys); i++)
    if (strcmp(keys[i].name, name) == 0) return &keys[i];
  return NULL;
}

/* Every key of a generation_config.json. strict: a key in no table counts as unknown, else it is somebody else's. */
static vkf_status read_object(reader *r, vkf_file_value object, bool strict) {
  vkf_generation_config *config = r->config;
  vkf_status st = vkf_file_json_as_object(object, &object);
  for (size_t i = 0; st == VKF_OK && i < vkf_file_json_count(object); i++) {
    const char *name = vkf_file_json_key(object, i);
    const key_row *key = find_key(name);
    if (key != NULL) {
      st = read_key(r, key, vkf_file_json_member(object, name));
    } else if (strict && config->unknown == NULL) {
      config->unknown = vkf_arena_strdup(&config->arena, name);
      config->unknown_source = r->source;
      if (config->unknown == NULL) st = VKF_ERROR_MEMORY;
    }
  }
  return st;
}

static vkf_status read_special_ids(reader *r, vkf_file_value object) {
  vkf_status st = vkf_file_json_as_object(object, &object);
  for (size_t i = 0; st == VKF_OK && i < VKF_COUNT(special_ids); i++) {
    vkf_file_value value = vkf_file_json_member(object, special_ids[i]);
    if (vkf_file_json_kind(value) != VKF_FILE_ABSENT) st = read_key(r, find_key(special_ids[i]), value);
  }
  return st;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

vkf_status vkf_engine_generation_read(vkf_generation_config *config, const char *folder) {
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  reader model = {config, vkf_arena_printf(&config->arena, "%s/config.json", folder)};
  reader generation = {config, vkf_arena_printf(&config->arena, "%s/generation_config.json", folder)};
  if (model.source == NULL || generation.source == NULL) return VKF_ERROR_MEMORY;
  struct stat facts;
  bool is_there = stat(generation.source, &facts) == 0 || errno != ENOENT; /* what cannot be read is an error below */

  VKF_TRY(vkf_file_json_read(config->env, model.source, &document));
  if (!is_there) {
    VKF_TRY(read_object(&model, vkf_file_json_root(document), false));
    goto done;
  }
  VKF_TRY(read_special_ids(&model, vkf_file_json_root(document)));
  vkf_file_json_destroy(&document);
  VKF_TRY(vkf_file_json_read(config->env, generation.source, &document));
  VKF_TRY(read_object(&generation, vkf_file_json_root(document), true));
done:
  vkf_file_json_destroy(&document);
  return st;
}

vkf_status vkf_engine_generation_apply(vkf_generation_config *config, const char *source, const char *json) {
  if (json == NULL) return VKF_OK;
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  reader r = {config, vkf_arena_strdup(&config->arena, source)};
  if (r.source == NULL) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_file_json_parse(config->env, source, json, strlen(json), &document));
  VKF_TRY(read_object(&r, vkf_file_json_root(document), true));
done:
  vkf_file_json_destroy(&document);
  return st;
}

/* ---- what stands ------------------------------------------------------------------------------------------------- */

static vkf_status check_id(const vkf_generation_config *config, const char *name, int32_t id, uint32_t n_vocab) {
  if (id == VKF_NO_TOKEN || (uint32_t)id < n_vocab) return VKF_OK;
  return vkf_env_fail(config->env, VKF_ERROR_ARGUMENT,
                      "generation configuration: \"%s\": expected ids below the vocabulary's size %u, found %d", name,
                      n_vocab, id);
}

static vkf_status check_ids(const vkf_generation_config *config, uint32_t n_vocab) {
  vkf_status st = VKF_OK;
  for (size_t i = 0; i < VKF_COUNT(keys) && st == VKF_OK; i++) {
    const void *field = (const char *)config + keys[i].offset;
    if (keys[i].kind == KEY_ID) st = check_id(config, keys[i].name, *(const int32_t *)field, n_vocab);
    if (keys[i].kind != KEY_IDS) continue;
    const vkf_id_list *list = field;
    for (uint32_t j = 0; j < list->n && st == VKF_OK; j++) st = check_id(config, keys[i].name, list->ids[j], n_vocab);
  }
  for (uint32_t i = 0; i < config->n_bad_words && st == VKF_OK; i++)
    for (uint32_t j = 0; j < config->bad_words[i].n && st == VKF_OK; j++)
      st = check_id(config, "bad_words_ids", config->bad_words[i].ids[j], n_vocab);
  return st;
}

static const char *neutral_text(const key_row *key) {
  if (key->kind == KEY_NO_FALSE) return "false";
  if (key->kind == KEY_NO_NUMBER || key->kind == KEY_SAMPLING) return key->least == 1 ? "1" : "0";
  return "null";
}

static vkf_status check_sampling(const vkf_generation_config *c) {
  const struct {
    const char *name, *expected;
    double value;
    bool fits;
  } rows[] = {
      {"temperature", "a number over 0", c->temperature, c->temperature > 0},
      {"top_k", "a whole number of at least 0", c->top_k, c->top_k >= 0 && c->top_k == floor(c->top_k)},
      {"top_p", "a number from 0 to 1", c->top_p, c->top_p >= 0 && c->top_p <= 1},
      {"min_p", "a number from 0 to 1", c->min_p, c->min_p >= 0 && c->min_p <= 1},
  };
  if (c->num_beams > 1)
    return vkf_env_fail(c->env, VKF_ERROR_UNSUPPORTED,
                        "generation configuration: \"do_sample\" with num_beams %u is not supported: expected 1 beam",
                        c->num_beams);
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    if (!rows[i].fits)
      return vkf_env_fail(c->env, VKF_ERROR_ARGUMENT, "generation configuration: \"%s\": expected %s, found %g",
                          rows[i].name, rows[i].expected, rows[i].value);
  return VKF_OK;
}

vkf_status vkf_engine_generation_check(const vkf_generation_config *config, uint32_t n_vocab) {
  vkf_env *env = config->env;
  for (size_t i = 0; i < VKF_COUNT(keys); i++)
    if (config->refused[i] != NULL && (keys[i].kind != KEY_SAMPLING || config->do_sample))
      return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\" is not supported: expected no such key, or %s",
                          config->refused[i], keys[i].name, neutral_text(&keys[i]));
  if (config->unknown != NULL)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\" is not supported: no such key is known",
                        config->unknown_source, config->unknown);
  if (config->do_sample) {
    vkf_status st = check_sampling(config);
    if (st != VKF_OK) return st;
  } else if (config->num_return_sequences > config->num_beams)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected num_return_sequences of at most num_beams %u, found %u",
                        config->num_beams, config->num_return_sequences);
  return check_ids(config, n_vocab);
}

uint64_t vkf_engine_generation_length(const vkf_generation_config *config, uint32_t prompt, uint64_t fallback) {
  if (config->max_new_tokens > 0) return (uint64_t)prompt + config->max_new_tokens;
  return config->max_length > 0 ? config->max_length : fallback;
}

bool vkf_engine_id_in(const vkf_id_list *list, int32_t id) {
  for (uint32_t i = 0; i < list->n; i++)
    if (list->ids[i] == id) return true;
  return false;
}
