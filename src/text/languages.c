/* languages: the tokens for the source and target languages of translations, and the special tokens by their use.
 *
 * The source language is before or behind the text. The target language begins the translation; Marian's is before the
 * text. SCHEMES says where transformers' tokenizers have them, whatever the template of a tokenizer.json says. If a
 * class is not in the table, the language in the template is the source language.
 */
#include "text/internal.h"

#include <stdio.h>
#include <string.h>

typedef struct scheme {
  const char *class_name, *model_type; /* model_type: if no class is named */
  vkf_text_language_form form;
  bool is_first;      /* the source language is before the text and the end token behind it; else: end, language */
  const char *source; /* if there is no src_lang; NULL: none */
  const char *codes;  /* only with these language_codes; NULL: with any */
} scheme;

static const scheme SCHEMES[] = {
    {"MBart", "mbart", VKF_TEXT_LANGUAGE_CODE, false, "en_XX", NULL},
    {"MBart50", NULL, VKF_TEXT_LANGUAGE_CODE, true, "en_XX", NULL},
    {"Nllb", NULL, VKF_TEXT_LANGUAGE_CODE, true, "eng_Latn", NULL},
    {"M2M100", "m2m_100", VKF_TEXT_LANGUAGE_UNDERSCORES, true, "en", NULL},
    {"Marian", "marian", VKF_TEXT_LANGUAGE_ARROWS, true, NULL, NULL},
    {"PLBart", "plbart", VKF_TEXT_LANGUAGE_UNDERSCORES, false, "en_XX", "multi"},
    {"PLBart", "plbart", VKF_TEXT_LANGUAGE_UNDERSCORES, false, NULL, NULL},
};

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Returns how many characters in a row, from `at` on, are in [first, last]. */
static size_t span(vkf_text_string text, size_t at, char first, char last) {
  size_t n = 0;
  while (at + n < text.size && text.data[at + n] >= first && text.data[at + n] <= last) n++;
  return n;
}

static bool is_code(vkf_text_string t) {
  size_t lower = span(t, 0, 'a', 'z');
  if (lower < 2 || lower > 3 || lower == t.size || t.data[lower] != '_') return false;
  size_t upper = span(t, lower + 1, 'A', 'Z'), rest = t.size - lower - 1;
  return (upper == 2 && rest == 2) || (upper == 1 && rest == 4 && span(t, lower + 2, 'a', 'z') == 3);
}

vkf_text_language_form vkf_text_language_form_of(vkf_text_string t) {
  if (is_code(t)) return VKF_TEXT_LANGUAGE_CODE;
  if (t.size < 5) return VKF_TEXT_LANGUAGE_NONE;
  const char *end = t.data + t.size - 2;
  if (memcmp(t.data, "__", 2) == 0 && memcmp(end, "__", 2) == 0 &&
      (span(t, 2, 'a', 'z') == t.size - 4 || is_code((vkf_text_string){t.data + 2, t.size - 4})))
    return VKF_TEXT_LANGUAGE_UNDERSCORES;
  return memcmp(t.data, ">>", 2) == 0 && memcmp(end, "<<", 2) == 0 ? VKF_TEXT_LANGUAGE_ARROWS : VKF_TEXT_LANGUAGE_NONE;
}

static bool is_language(const vkf_text_tokenizer *t, size_t id) {
  if (t->pieces[id].data == NULL || vkf_text_language_form_of(t->pieces[id]) != t->languages.form) return false;
  return t->special[id] || t->languages.form == VKF_TEXT_LANGUAGE_ARROWS;
}

/* Returns the name of a token's language: the token without underscores or arrows. */
static vkf_text_string name_of(const vkf_text_tokenizer *t, size_t id) {
  size_t around = t->languages.form == VKF_TEXT_LANGUAGE_CODE ? 0 : 2;
  return (vkf_text_string){t->pieces[id].data + around, t->pieces[id].size - 2 * around};
}

/* Returns the token of a language, given by its name or as the token is written; -1: none. */
static int32_t find_language(const vkf_text_tokenizer *t, const char *name) {
  vkf_text_string want = {name, strlen(name)};
  for (size_t id = 0; id < t->n_pieces && t->languages.form != VKF_TEXT_LANGUAGE_NONE; id++) {
    if (!is_language(t, id)) continue;
    if (vkf_text_string_equal(name_of(t, id), want) || vkf_text_string_equal(t->pieces[id], want)) return (int32_t)id;
  }
  return -1;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

bool vkf_text_is_class(const char *name, const char *wanted) {
  size_t n = strlen(wanted);
  if (strncmp(name, wanted, n) != 0) return false;
  return strcmp(name + n, "Tokenizer") == 0 || strcmp(name + n, "TokenizerFast") == 0;
}

const char *vkf_text_class_name(const json_t *tokenizer_config, const json_t *config) {
  const char *name = json_string_value(json_object_get(tokenizer_config, "tokenizer_class"));
  return name != NULL ? name : json_string_value(json_object_get(config, "tokenizer_class"));
}

static const scheme *find_scheme(const json_t *tokenizer_config, const json_t *config) {
  const char *class_name = vkf_text_class_name(tokenizer_config, config);
  const char *model_type = json_string_value(json_object_get(config, "model_type"));
  const char *codes = json_string_value(json_object_get(tokenizer_config, "language_codes"));
  for (size_t i = 0; i < VKF_COUNT(SCHEMES); i++) {
    const scheme *s = &SCHEMES[i];
    if (s->codes != NULL && (codes == NULL || strcmp(codes, s->codes) != 0)) continue;
    if (class_name != NULL && vkf_text_is_class(class_name, s->class_name)) return s;
    if (class_name == NULL && model_type != NULL && s->model_type != NULL && strcmp(model_type, s->model_type) == 0)
      return s;
  }
  return NULL;
}

/* Replaces the post-processors by a template of these ids. Returns the template's ids; NULL: no memory. */
static int32_t *set_template(vkf_text_tokenizer *t, vkf_arena *arena, const int32_t *ids, size_t n) {
  int32_t *copy = vkf_arena_alloc(arena, n, sizeof(*copy));
  vkf_text_step *step = vkf_arena_alloc(arena, 1, sizeof(*step));
  if (copy == NULL || step == NULL) return NULL;
  memcpy(copy, ids, n * sizeof(*ids));
  step->u.around.single = (vkf_text_template){.ids = copy, .n = n};
  t->postprocessors = step;
  return copy;
}

/* Sets the template that a scheme demands. */
static vkf_status load_scheme(vkf_text_tokenizer *t, vkf_arena *arena, const scheme *s, const json_t *config) {
  const char *eos = vkf_text_load_token(json_object_get(config, "eos_token"));
  const char *source = json_string_value(json_object_get(config, "src_lang"));
  int32_t end = vkf_text_tokenizer_find(t, eos != NULL ? eos : "</s>");
  t->languages.form = s->form;
  if (s->form == VKF_TEXT_LANGUAGE_ARROWS || end < 0) return VKF_OK;
  if (source == NULL) source = s->source;
  int32_t language = source != NULL ? find_language(t, source) : VKF_TEXT_NO_ID;
  if (language < 0 && source != NULL) return VKF_OK;
  bool is_first = s->is_first && !json_is_true(json_object_get(config, "legacy_behaviour"));
  const int32_t first[] = {language, VKF_TEXT_FIRST, end}, last[] = {VKF_TEXT_FIRST, end, language};
  int32_t *ids = set_template(t, arena, is_first ? first : last, 3);
  t->languages.source = ids != NULL ? &ids[is_first ? 0 : 2] : NULL;
  return ids != NULL ? VKF_OK : VKF_ERROR_MEMORY;
}

/* Finds the source language in a template of the file, and copies the template's ids so that they can change. */
static vkf_status find_in_template(vkf_text_tokenizer *t, vkf_arena *arena) {
  for (vkf_text_step *step = t->postprocessors; step != NULL; step = step->next) {
    vkf_text_template *form = &step->u.around.single;
    for (size_t i = 0; i < form->n; i++) {
      int32_t id = form->ids[i];
      if (id < 0) continue;
      vkf_text_language_form language = vkf_text_language_form_of(t->pieces[id]);
      if (language == VKF_TEXT_LANGUAGE_NONE || language == VKF_TEXT_LANGUAGE_ARROWS || !t->special[id]) continue;
      int32_t *copy = vkf_arena_alloc(arena, form->n, sizeof(*copy));
      if (copy == NULL) return VKF_ERROR_MEMORY;
      memcpy(copy, form->ids, form->n * sizeof(*copy));
      form->ids = copy;
      step->u.around.pair.n = 0; /* it would keep its language */
      t->languages.form = language;
      t->languages.source = &copy[i];
      return VKF_OK;
    }
  }
  return VKF_OK;
}

/* Returns the token that tokenizer_config.json names under `key`; -1: none. */
static int32_t find_named(const vkf_text_tokenizer *t, const json_t *config, const char *key) {
  const char *piece = vkf_text_load_token(json_object_get(config, key));
  return piece != NULL ? vkf_text_tokenizer_find(t, piece) : -1;
}

static void load_special(vkf_text_tokenizer *t, const json_t *config) {
  static const char *const masks[] = {"[MASK]", "<mask>"};
  vkf_text_special *s = &t->uses;
  *s = (vkf_text_special){.bos = find_named(t, config, "bos_token"),
                          .eos = find_named(t, config, "eos_token"),
                          .pad = find_named(t, config, "pad_token"),
                          .mask = find_named(t, config, "mask_token"),
                          .unk = find_named(t, config, "unk_token")};
  for (size_t i = 0; i < VKF_COUNT(masks) && s->mask < 0; i++) s->mask = vkf_text_tokenizer_find(t, masks[i]);
  if (s->mask >= 0 && !t->special[s->mask]) s->mask = -1;
  if (s->unk < 0 && t->model.unk_id >= 0) s->unk = t->remap != NULL ? t->remap[t->model.unk_id] : t->model.unk_id;
}

vkf_text_special vkf_text_tokenizer_special(const vkf_text_tokenizer *t) {
  return t->uses;
}

vkf_status vkf_text_languages_load(vkf_text_tokenizer *t, vkf_text_loader *loader, const vkf_text_files *files) {
  vkf_status st = VKF_OK;
  json_t *tokenizer_config = NULL, *config = NULL;
  VKF_TRY(vkf_text_load_object(loader, &files->tokenizer_config, &tokenizer_config));
  VKF_TRY(vkf_text_load_object(loader, &files->config, &config));
  load_special(t, tokenizer_config);
  const scheme *s = find_scheme(tokenizer_config, config);
  if (s != NULL) VKF_TRY(load_scheme(t, loader->arena, s, tokenizer_config));
  if (t->languages.source == NULL && t->languages.form != VKF_TEXT_LANGUAGE_ARROWS)
    VKF_TRY(find_in_template(t, loader->arena));
done:
  json_decref(config);
  json_decref(tokenizer_config);
  return st;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Lists some languages of the tokenizer, first those that begin with the same two letters as `name`. */
static void list_some(const vkf_text_tokenizer *t, const char *name, char *out, size_t size) {
  enum { MOST = 8 };
  size_t n = 0, n_listed = 0;
  out[0] = 0;
  for (int pass = 0; pass < 2; pass++)
    for (size_t id = 0; id < t->n_pieces && n_listed < MOST; id++) {
      if (!is_language(t, id)) continue;
      vkf_text_string language = name_of(t, id);
      bool is_like = strncmp(language.data, name, 2) == 0;
      if (is_like != (pass == 0) || n + language.size + 3 > size) continue;
      n += (size_t)snprintf(out + n, size - n, "%s%.*s", n_listed++ > 0 ? ", " : "", (int)language.size, language.data);
    }
}

static vkf_status get_language(const vkf_text_tokenizer *t, const char *which, const char *name, int32_t *id) {
  char some[200] = "";
  *id = find_language(t, name);
  if (*id >= 0) return VKF_OK;
  if (t->languages.form != VKF_TEXT_LANGUAGE_NONE) list_some(t, name, some, sizeof(some));
  if (some[0] == 0)
    return vkf_env_fail(t->env, VKF_ERROR_ARGUMENT, "%s language \"%s\": this model's tokenizer has no languages",
                        which, name);
  return vkf_env_fail(t->env, VKF_ERROR_ARGUMENT,
                      "%s language: expected one of the tokenizer's, such as %s; found \"%s\"", which, some, name);
}

static vkf_status set_source(vkf_text_tokenizer *t, const char *name) {
  int32_t id;
  VKF_CALL(get_language(t, "source", name, &id));
  if (t->languages.source == NULL)
    return vkf_env_fail(t->env, VKF_ERROR_ARGUMENT,
                        "source language \"%s\": this model's tokenizer marks target languages only", name);
  *t->languages.source = id;
  return VKF_OK;
}

static vkf_status set_target(vkf_text_tokenizer *t, const char *name, int32_t *begin) {
  int32_t id;
  VKF_CALL(get_language(t, "target", name, &id));
  bool is_before = t->languages.form == VKF_TEXT_LANGUAGE_ARROWS;
  if (is_before) t->languages.before = id;
  *begin = is_before ? -1 : id;
  return VKF_OK;
}

vkf_status vkf_text_languages_use(vkf_text_tokenizer *t, const char *source, const char *target,
                                  vkf_text_languages_before *before, int32_t *begin) {
  vkf_status st = VKF_OK;
  *before = (vkf_text_languages_before){t->languages.source != NULL ? *t->languages.source : -1, t->languages.before};
  *begin = -1;
  if (source != NULL) st = set_source(t, source);
  if (st == VKF_OK && target != NULL) st = set_target(t, target, begin);
  if (st != VKF_OK) vkf_text_languages_restore(t, before);
  return st;
}

void vkf_text_languages_restore(vkf_text_tokenizer *t, const vkf_text_languages_before *before) {
  if (t->languages.source != NULL) *t->languages.source = before->source;
  t->languages.before = before->before;
}
