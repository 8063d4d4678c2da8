/* The texts of tour/tour.json: every name is explained where it first appears, no heading says the same twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "file/json.h"

static vkf_env env;
static vkf_file_json *file;

static int setup(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  return vkf_file_json_read(&env, VKF_SOURCE_DIR "/tour/tour.json", &file) != VKF_OK;
}

static int teardown(void **state) {
  (void)state;
  vkf_file_json_destroy(&file);
  return env.live_bytes != 0;
}

/* Returns NULL if there is none. */
static const char *text_of(vkf_file_value object, const char *key) {
  const char *text = NULL;
  vkf_file_value value = vkf_file_json_member(object, key);
  if (vkf_file_json_kind(value) == VKF_FILE_STRING) assert_int_equal(vkf_file_json_as_string(value, &text), VKF_OK);
  return text;
}

static bool has(vkf_file_value object, const char *key) {
  return vkf_file_json_kind(vkf_file_json_member(object, key)) != VKF_FILE_ABSENT;
}

static vkf_file_value topics(void) {
  return vkf_file_json_member(vkf_file_json_root(file), "topics");
}

/* Inputs must have a text, results of ops and views that are shown an equation. */
static void names_are_explained(void **state) {
  (void)state;
  size_t n = 0;
  for (size_t i = 0; i < vkf_file_json_count(topics()); i++) {
    vkf_file_value topic = vkf_file_json_at(topics(), i), steps = vkf_file_json_member(topic, "steps");
    for (size_t k = 0; k < vkf_file_json_count(steps); k++) {
      vkf_file_value step = vkf_file_json_at(steps, k);
      const bool is_input = has(step, "let") || has(step, "fill");
      const bool is_shown = has(step, "op") || (has(step, "view") && has(step, "expect"));
      if (!is_input && !is_shown) continue;
      const char *text = text_of(step, is_input ? "text" : "equation");
      if (!text || !text[0])
        fail_msg("%s, step %zu: expected \"%s\", found nothing", text_of(topic, "name"), k + 1,
                 is_input ? "text" : "equation");
      n++;
    }
  }
  assert_true(n > 100);
}

static void assert_not_repeated(const char *topic, const char *first, const char *second) {
  if (strncasecmp(first, second, strlen(first)) == 0) fail_msg("%s: '%s' and again '%s'", topic, first, second);
}

/* A heading is "== NAME: TITLE". The title must not begin with the name, nor the text below with the title. */
static void headings_do_not_stammer(void **state) {
  (void)state;
  assert_true(vkf_file_json_count(topics()) > 20);
  for (size_t i = 0; i < vkf_file_json_count(topics()); i++) {
    vkf_file_value topic = vkf_file_json_at(topics(), i);
    const char *name = text_of(topic, "name"), *title = text_of(topic, "title"), *text = text_of(topic, "text");
    assert_true(name && title && text);
    assert_not_repeated(name, name, title);
    assert_not_repeated(name, title, text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_explained),
      cmocka_unit_test(headings_do_not_stammer),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
