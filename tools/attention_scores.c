/* attention_scores: computes the scores behind the weights of a page, from the queries and keys of the device, and
 * finds the bias that is added to them.
 */
#include <stdlib.h>
#include <string.h>

#include "attention.h"

int tool_attention_rule(const tool_session *session, const tool_attention_map *map, vkf_attention_info *out) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_attention_kind kind = VKF_ATTENTION_ENCODER;
  vkf_model_get_info(session->model, &info);
  if (strcmp(map->kind, "cross") == 0) kind = VKF_ATTENTION_CROSS;
  if (strcmp(map->kind, "decoder") == 0 || info.architecture == VKF_ARCHITECTURE_DECODER) kind = VKF_ATTENTION_DECODER;
  *out = (vkf_attention_info){VKF_ATTENTION_INFO_INIT};
  vkf_status status = vkf_model_get_attention(session->model, kind, map->layer, out);
  return status == VKF_OK ? TOOL_OK : tool_error("%s", vkf_context_message(session->context));
}

/* Returns an array of a pass with rows of this width; NULL after a message. */
static const vkf_array *rows_of(const tool_attended *a, const char *name, size_t rank, size_t width) {
  const vkf_array *array = vkf_result_find(a->pass, name);
  if (array && array->rank == rank && array->shape[rank - 1] == width) return array;
  tool_error("--scores: expected %s with rows of %zu numbers, found %zu", name, width,
             array && array->rank == rank ? array->shape[rank - 1] : 0);
  return NULL;
}

float *tool_attention_scores(const tool_attended *a, const tool_attention_map *map, size_t head,
                             const vkf_attention_info *rule) {
  const size_t T = map->rows->n, S = map->columns->n, d = rule->key_width, q_width = rule->n_heads * d,
               kv_width = (size_t)rule->n_kv_heads * (d + rule->value_width);
  const bool is_cross = strcmp(map->kind, "cross") == 0, is_alone = strcmp(map->kind, "self") == 0;
  char names[2][64];
  snprintf(names[0], sizeof names[0], "%s%s%s.%zu", is_alone ? "" : map->kind, is_alone ? "" : "_",
           is_cross ? "queries" : "projections", map->layer);
  snprintf(names[1], sizeof names[1], "cross_keys_values.%zu", map->layer);
  const vkf_array *queries = rows_of(a, names[0], 3, is_cross ? q_width : q_width + kv_width),
                  *keys = is_cross && queries ? rows_of(a, names[1], 3, kv_width) : queries;
  if (!queries || !keys) return NULL;
  const size_t k_column = (is_cross ? 0 : q_width) + head / (rule->n_heads / rule->n_kv_heads) * d;
  float *out = calloc(T * S + 1, sizeof *out);
  if (!out) tool_error("out of memory");
  for (size_t t = 0; out && t < T; t++)
    for (size_t s = 0; s < S; s++) {
      const float *q = (const float *)queries->data + t * queries->shape[2] + head * d,
                  *k = (const float *)keys->data + s * keys->shape[2] + k_column;
      double sum = 0;
      for (size_t i = 0; i < d; i++) sum += (double)q[i] * k[i];
      out[t * S + s] = (float)sum;
    }
  return out;
}

const float *tool_attention_bias(const tool_attended *a, const tool_attention_map *map, size_t head) {
  const bool is_alone = strcmp(map->kind, "self") == 0;
  char name[64];
  int end = snprintf(name, sizeof name, "%s%sposition_bias", is_alone ? "" : map->kind, is_alone ? "" : "_");
  if (!vkf_result_find(a->pass, name)) snprintf(name + end, sizeof name - end, ".%zu", map->layer); /* a layer's own */
  const vkf_array *bias = rows_of(a, name, 4, map->columns->n);
  return bias ? (const float *)bias->data + head * map->rows->n * map->columns->n : NULL;
}
