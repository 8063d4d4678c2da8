/* postprocess: the post-processors, which put special tokens around the ids of a text.
 *
 * Each is a template of ids, with -1 in place of the text's own ids and VKF_TEXT_NO_ID where there is nothing. Refuses
 * the kinds that are not in KINDS, and templates that name an unknown special token or the second text of a pair.
 */
#include "text/internal.h"

#include <string.h>

/* loader->stage is set; ids outside the vocabulary are refused when everything is loaded. */
static vkf_status load_ids(vkf_text_loader *loader, const json_t *list, int32_t *ids, size_t *n) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *id = json_array_get(list, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VKF_TEXT_MAX_IDS)
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"ids\" should be token ids");
    ids[(*n)++] = (int32_t)json_integer_value(id);
  }
  return VKF_OK;
}

/* The ids of a piece of a template, NULL for the text itself. */
static vkf_status ids_of_piece(vkf_text_loader *loader, const json_t *specials, const json_t *piece,
                               const json_t **out) {
  *out = NULL;
  const json_t *special = json_object_get(piece, "SpecialToken");
  const char *id = json_string_value(json_object_get(special ? special : json_object_get(piece, "Sequence"), "id"));
  if (id == NULL)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"single\" should be a list of SpecialToken and Sequence");
  if (special == NULL && strcmp(id, "A") == 0) return VKF_OK;
  if (special == NULL)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"single\" should hold sequence A only, and names \"%s\"", id);
  *out = json_object_get(json_object_get(specials, id), "ids");
  if (!json_is_array(*out))
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"special_tokens\" should have the ids of \"%s\"", id);
  return VKF_OK;
}

static vkf_status load_template(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  const json_t *single = json_object_get(json, "single"), *specials = json_object_get(json, "special_tokens"), *list;
  if (!json_is_array(single)) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"single\" should be a list");
  size_t n = 0;
  for (size_t i = 0; i < json_array_size(single); i++) {
    VKF_CALL(ids_of_piece(loader, specials, json_array_get(single, i), &list));
    n += list == NULL ? 1 : json_array_size(list);
  }
  int32_t *ids = vkf_arena_alloc(loader->arena, n, sizeof(*ids));
  if (ids == NULL) return VKF_ERROR_MEMORY;
  size_t at = 0;
  for (size_t i = 0; i < json_array_size(single); i++) {
    VKF_CALL(ids_of_piece(loader, specials, json_array_get(single, i), &list));
    if (list == NULL)
      ids[at++] = -1;
    else
      VKF_CALL(load_ids(loader, list, ids, &at));
  }
  step->u.around.ids = ids;
  step->u.around.n = n;
  return VKF_OK;
}

/* ["[CLS]", 101] */
static vkf_status load_pair(vkf_text_loader *loader, const json_t *json, const char *key, int32_t *out) {
  const json_t *id = json_array_get(json_object_get(json, key), 1);
  if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VKF_TEXT_MAX_IDS)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"%s\" should be a token and its id", key);
  *out = (int32_t)json_integer_value(id);
  return VKF_OK;
}

static vkf_status load_bert(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  int32_t *ids = vkf_arena_alloc(loader->arena, 3, sizeof(*ids));
  if (ids == NULL) return VKF_ERROR_MEMORY;
  ids[1] = -1;
  VKF_CALL(load_pair(loader, json, "cls", &ids[0]));
  VKF_CALL(load_pair(loader, json, "sep", &ids[2]));
  step->u.around.ids = ids;
  step->u.around.n = 3;
  return VKF_OK;
}

/* ByteLevel corrects offsets into the text, which are not used here: its template is the text's ids alone. */
static vkf_status load_nothing(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  static const int32_t TEXT_ALONE[] = {-1};
  (void)loader;
  (void)json;
  step->u.around.ids = TEXT_ALONE;
  step->u.around.n = 1;
  return VKF_OK;
}

static const vkf_text_kind KINDS[] = {
    {.type = "TemplateProcessing", .load = load_template},
    {.type = "BertProcessing", .load = load_bert},
    {.type = "RobertaProcessing", .load = load_bert},
    {.type = "ByteLevel", .load = load_nothing},
};

vkf_status vkf_text_load_postprocessors(vkf_text_loader *loader, const json_t *json, const vkf_text_string *pieces,
                                        size_t n_pieces, vkf_text_step **out) {
  vkf_status st = vkf_text_load_steps(loader, "post-processor", "processors", KINDS, VKF_COUNT(KINDS), json, out);
  for (const vkf_text_step *step = *out; st == VKF_OK && step != NULL; step = step->next) {
    for (size_t i = 0; i < step->u.around.n; i++) {
      int32_t id = step->u.around.ids[i];
      if (id < 0 || ((size_t)id < n_pieces && pieces[id].data != NULL)) continue;
      loader->type = step->kind->type;
      return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "id %d is no token of the vocabulary, whose ids end at %zu",
                                id, n_pieces);
    }
  }
  return st;
}

vkf_status vkf_text_postprocess(const vkf_text_step *steps, const vkf_text_ids *body, vkf_text_ids *out) {
  vkf_status st = VKF_OK;
  vkf_text_ids now, next;
  vkf_text_ids_init(&now, body->env);
  vkf_text_ids_init(&next, body->env);
  VKF_TRY(vkf_text_ids_append(&now, body->ids, body->n));
  for (; steps != NULL; steps = steps->next) {
    next.n = 0;
    for (size_t i = 0; i < steps->u.around.n; i++) {
      const int32_t *id = &steps->u.around.ids[i];
      if (*id == -1)
        VKF_TRY(vkf_text_ids_append(&next, now.ids, now.n));
      else if (*id != VKF_TEXT_NO_ID)
        VKF_TRY(vkf_text_ids_append(&next, id, 1));
    }
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
