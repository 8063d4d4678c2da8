/* Reads the worked numbers of tour/tour.json, the only place that has them, for tests of the scalar path.
 *
 * A number in text was printed, so it may be off by half a unit of its last digit; any other is exact.
 */
#ifndef VKF_TESTS_SUPPORT_WORKED_H
#define VKF_TESTS_SUPPORT_WORKED_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/json.h"

typedef struct worked {
  double value[128], half[128];
  size_t n;
} worked;

static inline void worked_leaves(vkf_file_value v, worked *w) {
  const char *text = NULL;
  if (vkf_file_json_kind(v) == VKF_FILE_ARRAY) {
    for (size_t i = 0; i < vkf_file_json_count(v); i++) worked_leaves(vkf_file_json_at(v, i), w);
    return;
  }
  assert_true(w->n < VKF_COUNT(w->value));
  if (vkf_file_json_kind(v) == VKF_FILE_STRING) {
    assert_int_equal(vkf_file_json_as_string(v, &text), VKF_OK);
    const char *point = strchr(text, '.'), *e = strchr(text, 'e'), *end = e ? e : text + strlen(text);
    w->value[w->n] = atof(text);
    w->half[w->n] = 0.5 * pow(10, (e ? atoi(e + 1) : 0) - (point ? (double)(end - point - 1) : 0));
  } else {
    assert_int_equal(vkf_file_json_as_double(v, &w->value[w->n]), VKF_OK);
  }
  w->n++;
}

static inline bool worked_is(vkf_file_value step, const char *key, const char *name) {
  const char *text = "";
  return vkf_file_json_find_string(step, key, "", &text) == VKF_OK && strcmp(text, name) == 0;
}

/* Returns the input `name` of a topic, or what its step `name` expects. */
static inline worked worked_get(const char *topic, const char *name) {
  vkf_env env;
  vkf_file_json *file = NULL;
  vkf_file_value topics, steps, numbers;
  worked w = {.n = 0};
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_file_json_read(&env, VKF_SOURCE_DIR "/tour/tour.json", &file), VKF_OK);
  assert_int_equal(vkf_file_json_get_array(vkf_file_json_root(file), "topics", &topics), VKF_OK);
  for (size_t i = 0; i < vkf_file_json_count(topics); i++) {
    if (!worked_is(vkf_file_json_at(topics, i), "name", topic)) continue;
    assert_int_equal(vkf_file_json_get_array(vkf_file_json_at(topics, i), "steps", &steps), VKF_OK);
    for (size_t k = 0; k < vkf_file_json_count(steps) && w.n == 0; k++) {
      vkf_file_value step = vkf_file_json_at(steps, k);
      bool input = worked_is(step, "let", name);
      if (!input && !worked_is(step, "as", name)) continue;
      assert_int_equal(vkf_file_json_get_array(step, input ? "value" : "expect", &numbers), VKF_OK);
      worked_leaves(numbers, &w);
    }
  }
  vkf_file_json_destroy(&file);
  if (w.n == 0) fail_msg("tour/tour.json has no numbers %s in the topic %s", name, topic);
  return w;
}

static inline void worked_input(const char *topic, const char *name, float *out, size_t n) {
  worked w = worked_get(topic, name);
  assert_int_equal(w.n, n);
  for (size_t i = 0; i < n; i++) out[i] = (float)w.value[i];
}

/* Checks `got`, which the scalar path computed from exact inputs and rounded once. */
static inline void assert_worked(const char *topic, const char *name, const float *got, size_t n) {
  worked w = worked_get(topic, name);
  assert_int_equal(w.n, n);
  for (size_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - w.value[i]) <= w.half[i] + 0x1p-24 * fabs((double)got[i])))
      fail_msg("%s, element %zu: %.9g, expected %.9g", name, i, (double)got[i], w.value[i]);
}

#endif
