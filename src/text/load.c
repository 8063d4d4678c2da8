/* load: reads the fields and the lists of steps of a tokenizer.json.
 *
 * Refuses a step whose type is not in the stage's table, and a field of the wrong type. Messages name the stage, the
 * step and the field.
 */
#include "text/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/json_memory.h"

vkf_status vkf_text_load_fail(vkf_text_loader *loader, vkf_status status, const char *fmt, ...) {
  char words[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(words, sizeof(words), fmt, args);
  va_end(args);
  if (loader->type == NULL) return vkf_env_fail(loader->env, status, "%s: %s", loader->stage, words);
  return vkf_env_fail(loader->env, status, "%s \"%s\": %s", loader->stage, loader->type, words);
}

static vkf_status wrong_field(vkf_text_loader *loader, const char *key, const char *expected) {
  return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should be %s", key, expected);
}

vkf_status vkf_text_load_copy(vkf_text_loader *loader, const char *data, size_t size, vkf_text_string *out) {
  char *copy = vkf_arena_alloc(loader->arena, size + 1, 1);
  if (copy == NULL) return VKF_ERROR_MEMORY;
  memcpy(copy, data, size);
  *out = (vkf_text_string){copy, size};
  return VKF_OK;
}

vkf_status vkf_text_load_object(vkf_text_loader *loader, const vkf_text_file *file, json_t **out) {
  json_error_t error = {0};
  bool only_reals;
  *out = file->data != NULL ? vkf_json_load(file->data, file->size, 0, &only_reals, &error) : json_object();
  if (json_is_object(*out)) return VKF_OK;
  if (file->data == NULL) return vkf_env_fail(loader->env, VKF_ERROR_MEMORY, "no memory for a tokenizer");
  if (*out == NULL) return vkf_json_refuse(loader->env, file->name, file->data, file->size, &error);
  return vkf_env_fail(loader->env, VKF_ERROR_FORMAT, "%s: expected a JSON object, found another value", file->name);
}

vkf_status vkf_text_load_string(vkf_text_loader *loader, const json_t *json, const char *key, vkf_text_string *out) {
  const json_t *field = json_object_get(json, key);
  if (!json_is_string(field)) return wrong_field(loader, key, "a string");
  return vkf_text_load_copy(loader, json_string_value(field), json_string_length(field), out);
}

const char *vkf_text_load_token(const json_t *token) {
  return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

vkf_status vkf_text_load_char(vkf_text_loader *loader, const json_t *json, const char *key, vkf_text_string *out) {
  vkf_status st = vkf_text_load_string(loader, json, key, out);
  if (st == VKF_OK && vkf_text_char_count(*out) != 1) return wrong_field(loader, key, "one character");
  return st;
}

vkf_status vkf_text_load_bool(vkf_text_loader *loader, const json_t *json, const char *key, bool fallback, bool *out) {
  const json_t *field = json_object_get(json, key);
  *out = fallback;
  if (field == NULL || json_is_null(field)) return VKF_OK;
  if (!json_is_boolean(field)) return wrong_field(loader, key, "true or false");
  *out = json_is_true(field);
  return VKF_OK;
}

vkf_status vkf_text_load_choice(vkf_text_loader *loader, const json_t *json, const char *key, const char *const of[2],
                                bool *is_second) {
  const json_t *field = json_object_get(json, key);
  const char *word = json_string_value(field);
  if (field == NULL || json_is_null(field)) return VKF_OK;
  if (word == NULL || (strcmp(word, of[0]) != 0 && strcmp(word, of[1]) != 0))
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should be \"%s\" or \"%s\"", key, of[0], of[1]);
  *is_second = strcmp(word, of[1]) == 0;
  return VKF_OK;
}

vkf_status vkf_text_load_size(vkf_text_loader *loader, const json_t *json, const char *key, size_t fallback,
                              size_t *out) {
  const json_t *field = json_object_get(json, key);
  *out = fallback;
  if (field == NULL || json_is_null(field)) return VKF_OK;
  if (!json_is_integer(field) || json_integer_value(field) < 0)
    return wrong_field(loader, key, "a number of 0 or more");
  *out = (size_t)json_integer_value(field);
  return VKF_OK;
}

static vkf_status load_pattern(vkf_text_loader *loader, vkf_text_string text, bool is_regex, vkf_text_pattern **out) {
  vkf_text_pattern_list *link = vkf_arena_alloc(loader->arena, 1, sizeof(*link));
  if (link == NULL) return VKF_ERROR_MEMORY;
  vkf_status st = vkf_text_pattern_create(loader->env, loader->arena, text, is_regex, &link->pattern);
  if (st != VKF_OK) return vkf_env_prefix(loader->env, st, "%s \"%s\": ", loader->stage, loader->type);
  link->next = *loader->patterns;
  *loader->patterns = link;
  *out = link->pattern;
  return VKF_OK;
}

vkf_status vkf_text_load_regex(vkf_text_loader *loader, vkf_text_string text, vkf_text_pattern **out) {
  return load_pattern(loader, text, true, out);
}

vkf_status vkf_text_load_literal(vkf_text_loader *loader, vkf_text_string text, vkf_text_pattern **out) {
  return load_pattern(loader, text, false, out);
}

vkf_status vkf_text_load_pattern(vkf_text_loader *loader, const json_t *json, vkf_text_pattern **out) {
  const json_t *pattern = json_object_get(json, "pattern");
  bool is_regex = json_object_get(pattern, "Regex") != NULL;
  const char *key = is_regex ? "Regex" : "String";
  if (!json_is_string(json_object_get(pattern, key)))
    return wrong_field(loader, "pattern", "{\"String\": ...} or {\"Regex\": ...}");
  vkf_text_string text;
  VKF_CALL(vkf_text_load_string(loader, pattern, key, &text));
  return load_pattern(loader, text, is_regex, out);
}

vkf_status vkf_text_load_replace(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_pattern(loader, json, &step->pattern));
  return vkf_text_load_string(loader, json, "content", &step->content);
}

vkf_status vkf_text_load_metaspace(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  bool prefix_space;
  VKF_CALL(vkf_text_load_char(loader, json, "replacement", &step->content));
  VKF_CALL(vkf_text_load_bool(loader, json, "split", true, &step->u.metaspace.split));
  /* Files of older versions have add_prefix_space and no scheme; false wins over a scheme. */
  VKF_CALL(vkf_text_load_bool(loader, json, "add_prefix_space", true, &prefix_space));
  const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
  if (!prefix_space) scheme = "never";
  if (scheme == NULL) scheme = "always";
  if (strcmp(scheme, "always") == 0)
    step->u.metaspace.prepend = VKF_TEXT_PREPEND_ALWAYS;
  else if (strcmp(scheme, "first") == 0)
    step->u.metaspace.prepend = VKF_TEXT_PREPEND_FIRST;
  else if (strcmp(scheme, "never") == 0)
    step->u.metaspace.prepend = VKF_TEXT_PREPEND_NEVER;
  else
    return vkf_text_load_fail(loader, VKF_ERROR_UNSUPPORTED, "prepend_scheme \"%s\" is not supported", scheme);
  return VKF_OK;
}

/* ---- lists of steps ---------------------------------------------------------------------------------------------- */

typedef struct step_reader {
  vkf_text_loader *loader;
  const char *sequence_key;
  const vkf_text_kind *kinds;
  size_t n_kinds;
  vkf_text_step **tail;
} step_reader;

static vkf_status read_step(step_reader *reader, const json_t *json) {
  vkf_text_loader *loader = reader->loader;
  const char *type = json_string_value(json_object_get(json, "type"));
  loader->type = NULL;
  if (type == NULL) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "a step should be an object with a \"type\"");
  if (strcmp(type, "Sequence") == 0) {
    const json_t *list = json_object_get(json, reader->sequence_key);
    if (!json_is_array(list)) {
      loader->type = type;
      return wrong_field(loader, reader->sequence_key, "a list");
    }
    for (size_t i = 0; i < json_array_size(list); i++) VKF_CALL(read_step(reader, json_array_get(list, i)));
    return VKF_OK;
  }
  const vkf_text_kind *kind = NULL;
  for (size_t i = 0; i < reader->n_kinds && kind == NULL; i++) {
    if (strcmp(reader->kinds[i].type, type) == 0) kind = &reader->kinds[i];
  }
  if (kind == NULL)
    return vkf_env_fail(loader->env, VKF_ERROR_UNSUPPORTED, "%s of type \"%s\" is not supported", loader->stage, type);
  vkf_text_step *step = vkf_arena_alloc(loader->arena, 1, sizeof(*step));
  if (step == NULL) return VKF_ERROR_MEMORY;
  step->kind = kind;
  step->env = loader->env;
  loader->type = kind->type;
  if (kind->load != NULL) VKF_CALL(kind->load(loader, json, step));
  *reader->tail = step;
  reader->tail = &step->next;
  return VKF_OK;
}

vkf_status vkf_text_load_steps(vkf_text_loader *loader, const char *stage, const char *sequence_key,
                               const vkf_text_kind *kinds, size_t n_kinds, const json_t *json, vkf_text_step **out) {
  *out = NULL;
  if (json == NULL || json_is_null(json)) return VKF_OK;
  loader->stage = stage;
  step_reader reader = {loader, sequence_key, kinds, n_kinds, out};
  vkf_status st = read_step(&reader, json);
  loader->type = NULL;
  return st;
}
