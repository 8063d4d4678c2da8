/* postprocess: the post-processors, which put special tokens around the ids of a text.
 *
 * Each has a template of ids for one text, and mostly another for two texts that belong together. Refuses the kinds
 * that are not in KINDS, and templates that name an unknown special token or a text that is not there.
 */
#include "text/internal.h"

#include <string.h>

/* Adds the ids of `list` to ids[*n]. check_ids() refuses ids outside the vocabulary when everything is loaded. */
static vkf_status load_ids(vkf_text_loader *loader, const json_t *list, int32_t *ids, size_t *n) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *id = json_array_get(list, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VKF_TEXT_MAX_IDS)
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"ids\" should be token ids");
    ids[(*n)++] = (int32_t)json_integer_value(id);
  }
  return VKF_OK;
}

/* Reads a piece of a template: *id stands for a text, or *list (if not NULL) has the ids of a special token. */
static vkf_status read_piece(vkf_text_loader *loader, const json_t *specials, const char *form, const json_t *piece,
                             int32_t *id, const json_t **list) {
  const json_t *special = json_object_get(piece, "SpecialToken");
  const char *name = json_string_value(json_object_get(special ? special : json_object_get(piece, "Sequence"), "id"));
  const bool is_pair = strcmp(form, "pair") == 0;
  *list = NULL;
  if (name == NULL)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should be a list of SpecialToken and Sequence", form);
  if (special == NULL) {
    *id = strcmp(name, "A") == 0 ? VKF_TEXT_FIRST : VKF_TEXT_SECOND;
    if (*id == VKF_TEXT_FIRST || (is_pair && strcmp(name, "B") == 0)) return VKF_OK;
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should hold sequence A%s only, and names \"%s\"", form,
                              is_pair ? " and B" : "", name);
  }
  *list = json_object_get(json_object_get(specials, name), "ids");
  if (!json_is_array(*list))
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"special_tokens\" should have the ids of \"%s\"", name);
  return VKF_OK;
}

/* Reads the template for one text (form "single") or for two ("pair"). */
static vkf_status load_form(vkf_text_loader *loader, const json_t *json, const char *form, vkf_text_template *out) {
  const json_t *pieces = json_object_get(json, form), *specials = json_object_get(json, "special_tokens"), *list;
  if (!json_is_array(pieces)) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should be a list", form);
  size_t n = 0, at = 0;
  int32_t id = 0;
  for (size_t i = 0; i < json_array_size(pieces); i++) {
    VKF_CALL(read_piece(loader, specials, form, json_array_get(pieces, i), &id, &list));
    n += list == NULL ? 1 : json_array_size(list);
  }
  int32_t *ids = vkf_arena_alloc(loader->arena, n, sizeof(*ids)),
          *types = vkf_arena_alloc(loader->arena, n, sizeof(*types));
  if (ids == NULL || types == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < json_array_size(pieces); i++) {
    const json_t *piece = json_array_get(pieces, i), *special = json_object_get(piece, "SpecialToken");
    const json_t *type = json_object_get(special ? special : json_object_get(piece, "Sequence"), "type_id");
    const size_t first = at;
    VKF_CALL(read_piece(loader, specials, form, piece, &id, &list));
    if (list == NULL)
      ids[at++] = id;
    else
      VKF_CALL(load_ids(loader, list, ids, &at));
    for (size_t k = first; k < at; k++) types[k] = (int32_t)VKF_MIN(VKF_MAX(json_integer_value(type), 0), INT32_MAX);
  }
  *out = (vkf_text_template){ids, types, n};
  return VKF_OK;
}

static vkf_status load_template(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(load_form(loader, json, "single", &step->u.around.single));
  if (json_is_null(json_object_get(json, "pair")) || json_object_get(json, "pair") == NULL) return VKF_OK;
  return load_form(loader, json, "pair", &step->u.around.pair);
}

/* Reads the id of a token such as ["[CLS]", 101]. */
static vkf_status load_pair(vkf_text_loader *loader, const json_t *json, const char *key, int32_t *out) {
  const json_t *id = json_array_get(json_object_get(json, key), 1);
  if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VKF_TEXT_MAX_IDS)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should be a token and its id", key);
  *out = (int32_t)json_integer_value(id);
  return VKF_OK;
}

/* Makes the templates of BERT and RoBERTa. RoBERTa has its separator twice between two texts, and no types. */
static vkf_status load_around(vkf_text_loader *loader, const json_t *json, bool is_roberta, vkf_text_step *step) {
  static const int32_t bert_types[] = {0, 0, 0, 1, 1};
  int32_t cls = 0, sep = 0, *ids = vkf_arena_alloc(loader->arena, 6, sizeof(*ids));
  if (ids == NULL) return VKF_ERROR_MEMORY;
  VKF_CALL(load_pair(loader, json, "cls", &cls));
  VKF_CALL(load_pair(loader, json, "sep", &sep));
  const int32_t bert[] = {cls, VKF_TEXT_FIRST, sep, VKF_TEXT_SECOND, sep},
                roberta[] = {cls, VKF_TEXT_FIRST, sep, sep, VKF_TEXT_SECOND, sep};
  memcpy(ids, is_roberta ? roberta : bert, is_roberta ? sizeof roberta : sizeof bert);
  step->u.around.single = (vkf_text_template){.ids = ids, .n = 3};
  step->u.around.pair = (vkf_text_template){ids, is_roberta ? NULL : bert_types, is_roberta ? 6 : 5};
  return VKF_OK;
}

static vkf_status load_bert(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  return load_around(loader, json, false, step);
}

static vkf_status load_roberta(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  return load_around(loader, json, true, step);
}

static const int32_t both_texts[] = {VKF_TEXT_FIRST, VKF_TEXT_SECOND}, both_types[] = {0, 1};
static const vkf_text_template text_alone = {.ids = both_texts, .n = 1}, side_by_side = {both_texts, both_types, 2};

/* ByteLevel only corrects offsets into the text, which are not used here. */
static vkf_status load_nothing(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  (void)loader;
  (void)json;
  step->u.around.single = text_alone;
  step->u.around.pair = side_by_side;
  return VKF_OK;
}

static const vkf_text_kind KINDS[] = {
    {.type = "TemplateProcessing", .load = load_template},
    {.type = "BertProcessing", .load = load_bert},
    {.type = "RobertaProcessing", .load = load_roberta},
    {.type = "ByteLevel", .load = load_nothing},
};

static vkf_status check_ids(vkf_text_loader *loader, const vkf_text_template *form, const vkf_text_string *pieces,
                            size_t n_pieces) {
  for (size_t i = 0; i < form->n; i++) {
    const int32_t id = form->ids[i];
    if (id >= 0 && ((size_t)id >= n_pieces || pieces[id].data == NULL))
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "id %d is no token of the vocabulary, whose ids end at %zu",
                                id, n_pieces);
  }
  return VKF_OK;
}

vkf_status vkf_text_load_postprocessors(vkf_text_loader *loader, const json_t *json, const vkf_text_string *pieces,
                                        size_t n_pieces, vkf_text_step **out) {
  VKF_CALL(vkf_text_load_steps(loader, "post-processor", "processors", KINDS, VKF_COUNT(KINDS), json, out));
  for (const vkf_text_step *step = *out; step != NULL; step = step->next) {
    loader->type = step->kind->type;
    VKF_CALL(check_ids(loader, &step->u.around.single, pieces, n_pieces));
    VKF_CALL(check_ids(loader, &step->u.around.pair, pieces, n_pieces));
  }
  return VKF_OK;
}

/* types NULL: they are not wanted. */
static vkf_status fill(const vkf_text_template *form, const vkf_text_ids *first, const vkf_text_ids *second,
                       vkf_text_ids *ids, vkf_text_ids *types) {
  for (size_t i = 0; i < form->n; i++) {
    const int32_t id = form->ids[i], type = form->types ? form->types[i] : 0;
    if (id == VKF_TEXT_NO_ID) continue;
    const vkf_text_ids *text = id == VKF_TEXT_FIRST ? first : id == VKF_TEXT_SECOND ? second : NULL;
    const size_t n = text ? text->n : 1;
    VKF_CALL(vkf_text_ids_append(ids, text ? text->ids : &id, n));
    for (size_t k = 0; types && k < n; k++) VKF_CALL(vkf_text_ids_append(types, &type, 1));
  }
  return VKF_OK;
}

vkf_status vkf_text_postprocess(const vkf_text_step *steps, const vkf_text_ids *body, vkf_text_ids *out) {
  vkf_status st = VKF_OK;
  vkf_text_ids now, next;
  vkf_text_ids_init(&now, body->env);
  vkf_text_ids_init(&next, body->env);
  VKF_TRY(vkf_text_ids_append(&now, body->ids, body->n));
  for (; steps != NULL; steps = steps->next) {
    next.n = 0;
    VKF_TRY(fill(&steps->u.around.single, &now, NULL, &next, NULL));
    vkf_text_ids swap = now;
    now = next;
    next = swap;
  }
  VKF_TRY(vkf_text_ids_append(out, now.ids, now.n));
done:
  vkf_text_ids_finish(&next);
  vkf_text_ids_finish(&now);
  return st;
}

/* At most one step may put something around two texts. */
vkf_status vkf_text_postprocess_pair(const vkf_text_step *steps, const vkf_text_ids *first, const vkf_text_ids *second,
                                     vkf_text_ids *ids, vkf_text_ids *types) {
  const vkf_text_template *form = &side_by_side;
  for (; steps != NULL; steps = steps->next) {
    const vkf_text_template *pair = &steps->u.around.pair;
    if (pair->ids == both_texts) continue;
    if (pair->n == 0 || form != &side_by_side)
      return vkf_env_fail(first->env, VKF_ERROR_UNSUPPORTED,
                          "the tokenizer has no form for two texts that belong together");
    form = pair;
  }
  return fill(form, first, second, ids, types);
}
