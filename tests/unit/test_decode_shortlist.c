/* Short lists: which lines of a table are refused, and which target ids a source allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/shortlist.h"

enum { SOURCES = 200, TARGETS = 30 };

static vkf_env env;

/* A token is its id, without leading zeros. Returns the id, or VKF_NO_TOKEN. */
static int32_t find(const void *user, const char *piece) {
  char *end = NULL;
  (void)user;
  const long id = strtol(piece, &end, 10);
  return *piece > '0' && !*end ? (int32_t)id : VKF_NO_TOKEN;
}

static vkf_status make(const char *text, vkf_shortlist *list) {
  vkf_env_clear(&env);
  return vkf_decode_shortlist_init(list, &env,
                                   &(vkf_shortlist_input){.text = text,
                                                          .size = strlen(text),
                                                          .name = "list",
                                                          .n_sources = SOURCES,
                                                          .n_targets = TARGETS,
                                                          .n_best = 2,
                                                          .is_shared = true,
                                                          .special = {VKF_NO_TOKEN, 3, TARGETS, VKF_NO_TOKEN},
                                                          .find = find});
}

static void lines_that_are_none_are_refused(void **state) {
  static const char *const lines[] = {"1 2", "1 2 x", "1 2 0.5 3", "1 2 0.5x", "1 2 -0.5", "1 2 nan", "1 2 inf"};
  vkf_shortlist list;
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(lines); i++) {
    char text[64];
    snprintf(text, sizeof text, "1 2 0.5\n\n%s\n", lines[i]);
    if (make(text, &list) != VKF_ERROR_FORMAT) fail_msg("\"%s\" was read", lines[i]);
    assert_non_null(strstr(env.message, "line 3"));
    vkf_decode_shortlist_finish(&list);
  }
}

/* A field that is too long is no token; the fields after it are still read. */
static void a_long_field_is_no_token(void **state) {
  char text[2000];
  vkf_shortlist list;
  uint64_t allowed[VKF_ID_WORDS(TARGETS)] = {0};
  (void)state;
  const int n = snprintf(text, sizeof text, "%0700d 2 0.5\n5 %0700d 0.5\n", 4, 2);
  snprintf(text + n, sizeof text - (size_t)n, "6 7 0.5");
  assert_int_equal(make(text, &list), VKF_OK);
  vkf_decode_shortlist_allow(&list, (const int32_t[]){2, 7}, NULL, 2, allowed);
  vkf_decode_shortlist_finish(&list);
  assert_int_equal(allowed[0], 1u << 2 | 1u << 3 | 1u << 6 | 1u << 7);
}

/* A model may have more source ids than target ids. */
static void ids_of_sources_alone_are_not_allowed(void **state) {
  vkf_shortlist list;
  uint64_t allowed[4] = {0}; /* more words than the list may write */
  (void)state;
  assert_true(VKF_ID_WORDS(TARGETS) == 1);
  assert_int_equal(make("1 150 0.2\n9 150 0.7\n8 150 0.6\n2 29 0.5\n", &list), VKF_OK);
  vkf_decode_shortlist_allow(&list, (const int32_t[]){150, TARGETS, 29, 11}, (const int32_t[]){1, 1, 1, 0}, 4, allowed);
  vkf_decode_shortlist_finish(&list);
  assert_int_equal(allowed[0], 1u << 9 | 1u << 8 | 1u << 3 | 1u << 2 | 1u << 29);
  for (size_t i = 1; i < VKF_COUNT(allowed); i++) assert_int_equal(allowed[i], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_that_are_none_are_refused),
      cmocka_unit_test(a_long_field_is_no_token),
      cmocka_unit_test(ids_of_sources_alone_are_not_allowed),
  };
  vkf_env_init(&env, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
