/* attention_scores: the scores from which the weights of a page were made: the products of queries and keys that the
 * device computed.
 */
#include <stdlib.h>
#include <string.h>

#include "attention.h"

size_t tool_attention_head_width(const vkf_model_info *info) {
  static const char *const families[] = {"marian",  "bart",      "mbart",       "m2m_100",    "bert",
                                         "roberta", "camembert", "xlm-roberta", "distilbert", "albert",
                                         "gpt2",    "opt",       "gpt_neox",    "vit"};
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
    if (strcmp(info->family, families[i]) == 0) return info->d_model / info->n_heads;
  return 0;
}

int tool_attention_check_scores(const tool_session *session) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(session->model, &info);
  return tool_attention_head_width(&info)
             ? TOOL_OK
             : tool_error(
                   "--scores: expected a model with a key of its own for each head and scores divided by the "
                   "root of its width, found one of the family %s",
                   info.family);
}

/* The array NAME.LAYER of a pass, of rows of this width; NULL after a message. */
static const vkf_array *rows_of(const tool_attended *a, const char *name, size_t layer, size_t width) {
  char full[64];
  snprintf(full, sizeof full, "%s.%zu", name, layer);
  const vkf_array *array = vkf_result_find(a->pass, full);
  if (array && array->rank == 3 && array->shape[2] == width) return array;
  tool_error("--scores: expected %s with rows of %zu numbers, found %zu", full, width,
             array && array->rank == 3 ? array->shape[2] : 0);
  return NULL;
}

float *tool_attention_scores(const tool_attended *a, const tool_attention_map *map, size_t head, size_t head_width) {
  const size_t T = map->rows->n, S = map->columns->n, d = head_width, D = map->n_heads * d;
  const bool is_cross = strcmp(map->kind, "cross") == 0, is_alone = strcmp(map->kind, "self") == 0;
  char name[32];
  snprintf(name, sizeof name, "%s%sprojections", is_alone ? "" : map->kind, is_alone ? "" : "_");
  const vkf_array *queries = rows_of(a, is_cross ? "cross_queries" : name, map->layer, is_cross ? D : 3 * D),
                  *keys = is_cross ? rows_of(a, "cross_keys_values", map->layer, 2 * D) : queries;
  if (!queries || !keys) return NULL;
  float *out = calloc(T * S + 1, sizeof *out);
  if (!out) tool_error("out of memory");
  for (size_t t = 0; out && t < T; t++)
    for (size_t s = 0; s < S; s++) {
      const float *q = (const float *)queries->data + t * queries->shape[2] + head * d,
                  *k = (const float *)keys->data + s * keys->shape[2] + (is_cross ? 0 : D) + head * d;
      double sum = 0;
      for (size_t i = 0; i < d; i++) sum += (double)q[i] * k[i];
      out[t * S + s] = (float)sum;
    }
  return out;
}
