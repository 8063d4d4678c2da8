/* generation_config: see generation_config.h. The keys are in generation_keys.c. */
#include <math.h>
#include <string.h>

#include "decode/generation_keys.h"

/* The keys that config.json gives if generation_config.json does not have them. */
static const char *const special_ids[] = {"bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id"};

void vkf_decode_generation_derive(vkf_generation_config *config, vkf_env *env, const vkf_generation_config *base) {
  *config = *base;
  config->env = env;
  vkf_arena_init(&config->arena, env);
}

/* Reads the generation keys of an object. strict: remembers a key that is not in the table as unknown; else such a key
 * belongs to another reader. */
static vkf_status read_object(vkf_generation_reader *r, vkf_file_value object, bool strict) {
  vkf_generation_config *config = r->config;
  vkf_status st = vkf_file_json_as_object(object, &object);
  for (size_t i = 0; st == VKF_OK && i < vkf_file_json_count(object); i++) {
    const char *name = vkf_file_json_key(object, i);
    const vkf_generation_key *key = vkf_decode_generation_find_key(name);
    if (key != NULL) {
      st = vkf_decode_generation_read_key(r, key, vkf_file_json_member(object, name));
    } else if (strict && config->unknown == NULL) {
      config->unknown = vkf_arena_strdup(&config->arena, name);
      config->unknown_source = r->source;
      if (config->unknown == NULL) st = VKF_ERROR_MEMORY;
    }
  }
  return st;
}

static vkf_status read_special_ids(vkf_generation_reader *r, vkf_file_value object) {
  vkf_status st = vkf_file_json_as_object(object, &object);
  for (size_t i = 0; st == VKF_OK && i < VKF_COUNT(special_ids); i++) {
    vkf_file_value value = vkf_file_json_member(object, special_ids[i]);
    if (vkf_file_json_kind(value) != VKF_FILE_ABSENT)
      st = vkf_decode_generation_read_key(r, vkf_decode_generation_find_key(special_ids[i]), value);
  }
  return st;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

vkf_status vkf_decode_generation_read(vkf_generation_config *config, const vkf_file_source *source) {
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  vkf_generation_reader model = {config, vkf_file_source_path(source, &config->arena, "config.json")};
  vkf_generation_reader generation = {config, vkf_file_source_path(source, &config->arena, "generation_config.json")};
  if (model.source == NULL || generation.source == NULL) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_file_source_json(config->env, source, "config.json", &document));
  if (!vkf_file_source_has(source, "generation_config.json")) {
    bool forces_bos = false; /* early BART folders have this key instead */
    VKF_TRY(read_object(&model, vkf_file_json_root(document), false));
    VKF_TRY(
        vkf_file_json_find_bool(vkf_file_json_root(document), "force_bos_token_to_be_generated", false, &forces_bos));
    if (forces_bos) config->forced_bos = config->bos;
    goto done;
  }
  VKF_TRY(read_special_ids(&model, vkf_file_json_root(document)));
  vkf_file_json_destroy(&document);
  VKF_TRY(vkf_file_source_json(config->env, source, "generation_config.json", &document));
  VKF_TRY(read_object(&generation, vkf_file_json_root(document), true));
done:
  vkf_file_json_destroy(&document);
  return st;
}

vkf_status vkf_decode_generation_fit(vkf_generation_config *config, uint32_t n_vocab) {
  const vkf_id_list all = config->eos;
  if (config->bos != VKF_NO_TOKEN && (uint32_t)config->bos >= n_vocab) config->bos = VKF_NO_TOKEN;
  if (config->pad != VKF_NO_TOKEN && (uint32_t)config->pad >= n_vocab) config->pad = VKF_NO_TOKEN;
  if (all.n == 0) return VKF_OK;
  int32_t *ids = vkf_arena_alloc(&config->arena, all.n, sizeof *ids);
  if (ids == NULL) return VKF_ERROR_MEMORY;
  config->eos = (vkf_id_list){.ids = ids};
  for (uint32_t i = 0; i < all.n; i++)
    if ((uint32_t)all.ids[i] < n_vocab) ids[config->eos.n++] = all.ids[i];
  return VKF_OK;
}

vkf_status vkf_decode_generation_apply(vkf_generation_config *config, const char *source, const char *json) {
  if (json == NULL) return VKF_OK;
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  vkf_generation_reader r = {config, vkf_arena_strdup(&config->arena, source)};
  if (r.source == NULL) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_file_json_parse(config->env, source, json, strlen(json), &document));
  VKF_TRY(read_object(&r, vkf_file_json_root(document), true));
done:
  vkf_file_json_destroy(&document);
  return st;
}

/* ---- checks of the final values ---------------------------------------------------------------------------------- */

static vkf_status check_id(const vkf_generation_config *config, const char *name, int32_t id, uint32_t n_vocab) {
  if (id == VKF_NO_TOKEN || (uint32_t)id < n_vocab) return VKF_OK;
  return vkf_env_fail(config->env, VKF_ERROR_ARGUMENT,
                      "generation configuration: \"%s\": expected ids below the vocabulary's size %u, found %d", name,
                      n_vocab, id);
}

static vkf_status check_list(const vkf_generation_config *config, const char *name, const vkf_id_list *list,
                             uint32_t n_vocab) {
  vkf_status st = VKF_OK;
  for (uint32_t i = 0; i < list->n && st == VKF_OK; i++) st = check_id(config, name, list->ids[i], n_vocab);
  return st;
}

static vkf_status check_ids(const vkf_generation_config *config, uint32_t n_vocab) {
  vkf_status st = VKF_OK;
  const vkf_generation_key *keys = vkf_decode_generation_keys;
  for (size_t i = 0; i < vkf_decode_generation_n_keys && st == VKF_OK; i++) {
    const void *field = (const char *)config + keys[i].offset;
    if (keys[i].kind == VKF_KEY_ID) st = check_id(config, keys[i].name, *(const int32_t *)field, n_vocab);
    if (keys[i].kind == VKF_KEY_IDS) st = check_list(config, keys[i].name, field, n_vocab);
    if (keys[i].kind != VKF_KEY_WORDS && keys[i].kind != VKF_KEY_BIASES) continue;
    const vkf_id_lists *words = field;
    for (uint32_t j = 0; j < words->n && st == VKF_OK; j++)
      st = check_list(config, keys[i].name, &words->lists[j], n_vocab);
  }
  return st;
}

static const char *neutral_text(const vkf_generation_key *key) {
  if (key->kind == VKF_KEY_NO_FALSE) return "false";
  if (key->kind == VKF_KEY_NO_0) return "0";
  return key->kind == VKF_KEY_NO_1 ? "1" : "null";
}

/* Checks the ranges of all numbers of a kind. */
static vkf_status check_numbers(const vkf_generation_config *c, vkf_generation_kind kind) {
  for (size_t i = 0; i < vkf_decode_generation_n_keys; i++) {
    const vkf_generation_key *key = &vkf_decode_generation_keys[i];
    if (key->kind != kind) continue;
    const double x = *(const double *)(const void *)((const char *)c + key->offset);
    const char *expected = vkf_decode_generation_expects(key, x);
    if (expected)
      return vkf_env_fail(c->env, VKF_ERROR_ARGUMENT, "generation configuration: \"%s\": expected %s, found %g",
                          key->name, expected, x);
  }
  return VKF_OK;
}

static vkf_status check_sampling(const vkf_generation_config *c) {
  if (c->num_beams > 1)
    return vkf_env_fail(
        c->env, VKF_ERROR_UNSUPPORTED,
        "generation configuration: \"do_sample\" with num_beams %u is not supported: expected num_beams 1",
        c->num_beams);
  return check_numbers(c, VKF_KEY_DRAW);
}

/* Refuses two ways to choose ids at once. */
static vkf_status check_ways(const vkf_generation_config *c) {
  const struct {
    const char *name;
    bool is_on;
  } ways[] = {{"prefix_bias_beta", c->prefix_bias_beta > 0},
              {"do_sample", c->do_sample},
              {"return_alternatives", c->return_alternatives},
              {"num_beam_groups", c->num_beam_groups > 1},
              {"force_words_ids", c->force_words.n > 0}};
  const char *first = NULL;
  for (size_t i = 0; i < VKF_COUNT(ways); i++) {
    if (first && ways[i].is_on)
      return vkf_env_fail(c->env, VKF_ERROR_UNSUPPORTED,
                          "generation configuration: \"%s\" with \"%s\" is not supported: expected one of the two",
                          first, ways[i].name);
    if (ways[i].is_on) first = ways[i].name;
  }
  return VKF_OK;
}

static vkf_status check_groups(const vkf_generation_config *c) {
  if (c->num_beams % c->num_beam_groups != 0)
    return vkf_env_fail(c->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected num_beams to be a multiple of num_beam_groups %u, found %u",
                        c->num_beam_groups, c->num_beams);
  if (c->num_beam_groups > 1 ? !(c->diversity_penalty > 0) : c->diversity_penalty != 0)
    return vkf_env_fail(
        c->env, VKF_ERROR_ARGUMENT,
        "generation configuration: \"diversity_penalty\": expected %s with num_beam_groups %u, found %g",
        c->num_beam_groups > 1 ? "a number over 0" : "0", c->num_beam_groups, c->diversity_penalty);
  if (c->num_beam_groups > 1 && c->patience > 0)
    return vkf_env_fail(
        c->env, VKF_ERROR_UNSUPPORTED,
        "generation configuration: \"patience\" with \"num_beam_groups\" is not supported: expected one of the two");
  return VKF_OK;
}

static vkf_status check_force_words(const vkf_generation_config *c) {
  for (uint32_t i = 0; i < c->force_words.n; i++)
    for (uint32_t j = 0; j < c->force_words.lists[i].n; j++)
      if (vkf_decode_id_in(&c->eos, c->force_words.lists[i].ids[j]))
        return vkf_env_fail(
            c->env, VKF_ERROR_ARGUMENT,
            "generation configuration: \"force_words_ids\": expected no id that ends a sequence, found %d",
            c->force_words.lists[i].ids[j]);
  if (c->force_words.n > 0 && c->num_beams == 1)
    return vkf_env_fail(c->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected num_beams over 1 with \"force_words_ids\", found 1");
  return VKF_OK;
}

static vkf_status check_beams(const vkf_generation_config *c) {
  if (c->return_alternatives) return VKF_OK; /* each alternative has a search of its own */
  const double enough = vkf_decode_generation_patience(c);
  const bool has_patience = c->num_beams > 1 && c->patience > 0;
  if (c->num_return_sequences > c->num_beams && !has_patience)
    return vkf_env_fail(c->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected num_return_sequences of at most num_beams %u, found %u",
                        c->num_beams, c->num_return_sequences);
  if (has_patience && c->num_return_sequences > enough)
    return vkf_env_fail(c->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: with patience %g and num_beams %u a search ends after %g sequences: "
                        "expected num_return_sequences of at most so many, found %u",
                        c->patience, c->num_beams, enough, c->num_return_sequences);
  return VKF_OK;
}

vkf_status vkf_decode_generation_check(const vkf_generation_config *config, uint32_t n_vocab) {
  vkf_env *env = config->env;
  const vkf_generation_key *keys = vkf_decode_generation_keys;
  for (size_t i = 0; i < vkf_decode_generation_n_keys; i++)
    if (config->refused[i] != NULL)
      return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\" is not supported: expected no such key, or %s",
                          config->refused[i], keys[i].name, neutral_text(&keys[i]));
  if (config->unknown != NULL)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\" is not supported: no such key is known",
                        config->unknown_source, config->unknown);
  VKF_CALL(check_numbers(config, VKF_KEY_REAL));
  VKF_CALL(check_ways(config));
  VKF_CALL(check_groups(config));
  VKF_CALL(check_force_words(config));
  VKF_CALL(config->do_sample ? check_sampling(config) : check_beams(config));
  return check_ids(config, n_vocab);
}

uint64_t vkf_decode_generation_length(const vkf_generation_config *config, uint32_t prompt, uint64_t fallback) {
  if (config->max_new_tokens > 0) return (uint64_t)prompt + config->max_new_tokens;
  return config->max_length > 0 ? config->max_length : fallback;
}

double vkf_decode_generation_patience(const vkf_generation_config *config) {
  return round(config->num_beams * config->patience);
}

bool vkf_decode_id_in(const vkf_id_list *list, int32_t id) {
  for (uint32_t i = 0; i < list->n; i++)
    if (list->ids[i] == id) return true;
  return false;
}
