/* arrays: converts arrays from and to JSON, and prints them. Refuses lists of unequal lengths and what is no number. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

bool tool_array_is_integer(const char *name) {
  static const char *const names[] = {"ids",
                                      "positions",
                                      "mask",
                                      "self_mask",
                                      "input_ids",
                                      "attention_mask",
                                      "token_type_ids",
                                      "decoder_input_ids",
                                      "decoder_attention_mask"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

size_t tool_array_elements(const vkf_array *array) {
  size_t n = 1;
  for (size_t i = 0; i < array->rank; i++) n *= array->shape[i];
  return n;
}

double tool_array_value(const vkf_array *array, size_t i) {
  if (array->dtype == VKF_F64) return ((const double *)array->data)[i];
  return array->dtype == VKF_I32 ? ((const int32_t *)array->data)[i] : (double)((const float *)array->data)[i];
}

bool tool_is_found(const vkf_result *result, size_t row) {
  const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
  return row == 0 || !scores || !isinf(scores[row]);
}

double tool_array_largest(const vkf_array *array) {
  double most = 0;
  for (size_t i = 0; i < tool_array_elements(array); i++)
    if (!(tool_array_value(array, i) <= most)) most = tool_array_value(array, i); /* NaN stays */
  return most;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Fills the array from `depth` on. Returns the value that does not fit, or NULL. */
static const json_t *fill(const json_t *json, vkf_array *a, size_t depth, size_t *at) {
  if (depth < a->rank) {
    if (!json_is_array(json) || json_array_size(json) != a->shape[depth]) return json;
    for (size_t i = 0; i < a->shape[depth]; i++) {
      const json_t *wrong = fill(json_array_get(json, i), a, depth + 1, at);
      if (wrong) return wrong;
    }
    return NULL;
  }
  if (a->dtype == VKF_I32 ? !json_is_integer(json) : !json_is_number(json)) return json;
  if (a->dtype == VKF_I32 && json_integer_value(json) != (int32_t)json_integer_value(json)) return json;
  if (a->dtype == VKF_F32 && !isfinite((float)json_number_value(json))) return json;
  if (a->dtype == VKF_I32)
    ((int32_t *)a->data)[(*at)++] = (int32_t)json_integer_value(json);
  else
    ((float *)a->data)[(*at)++] = (float)json_number_value(json);
  return NULL;
}

int tool_array_from_json(const json_t *json, const char *name, bool integers, vkf_array *out) {
  size_t n = 1, at = 0;
  *out = (vkf_array){.name = name, .dtype = integers ? VKF_I32 : VKF_F32};
  for (const json_t *j = json; json_is_array(j) && out->rank < VKF_MAX_RANK; j = json_array_get(j, 0)) {
    out->shape[out->rank++] = json_array_size(j);
    n *= json_array_size(j);
  }
  out->data = calloc(n ? n : 1, 4);
  if (!out->data) return tool_error("out of memory");
  const json_t *wrong = n > 0 ? fill(json, out, 0, &at) : json;
  if (!wrong) return TOOL_OK;
  free(out->data);
  out->data = NULL;
  char *found = json_dumps(wrong, JSON_COMPACT | JSON_ENCODE_ANY);
  tool_error("%s: expected %s or nested lists of them, equally long, found %.60s%s", name,
             integers ? "whole numbers of 32 bits" : "numbers of float32", found ? found : "something else",
             found && strlen(found) > 60 ? "..." : "");
  free(found);
  return TOOL_FAILED;
}

static json_t *to_json(const vkf_array *a, size_t depth, size_t *at) {
  if (depth == a->rank) {
    double value = tool_array_value(a, (*at)++);
    return a->dtype == VKF_I32   ? json_integer((json_int_t)value)
           : a->dtype == VKF_F32 ? tool_json_float((float)value)
                                 : tool_json_real(value);
  }
  json_t *list = json_array();
  for (size_t i = 0; i < a->shape[depth]; i++) json_array_append_new(list, to_json(a, depth + 1, at));
  return list;
}

json_t *tool_array_to_json(const vkf_array *array) {
  size_t at = 0;
  return to_json(array, 0, &at);
}

/* ---- the terminal ------------------------------------------------------------------------------------------------ */

void tool_array_print(const vkf_array *array) {
  enum { MAX_ROWS = 12, MAX_COLUMNS = 8 };
  size_t width = array->rank ? array->shape[array->rank - 1] : 1, n_rows = tool_array_elements(array) / width;
  for (size_t r = 0; r < n_rows && r < MAX_ROWS; r++) {
    printf("      ");
    for (size_t c = 0; c < width && c < MAX_COLUMNS; c++) {
      double value = tool_array_value(array, r * width + c);
      printf(" %11.6g", value == 0 ? 0 : value); /* no -0 */
    }
    printf("%s\n", width > MAX_COLUMNS ? " ..." : "");
  }
  if (n_rows > MAX_ROWS) printf("       ... (%zu rows)\n", n_rows);
}
