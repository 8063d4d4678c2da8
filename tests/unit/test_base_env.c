/* The environment: first cause, prefix, log levels; memory with fault injection; arena; text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/range.h"

static void first_cause_is_kept(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  assert_string_equal(env.message, "");
  assert_int_equal(vkf_env_fail(&env, VKF_ERROR_FORMAT, "expected %d, found %d", 3, 4), VKF_ERROR_FORMAT);
  assert_int_equal(vkf_env_fail(&env, VKF_ERROR_MEMORY, "later"), VKF_ERROR_MEMORY);
  assert_string_equal(env.message, "expected 3, found 4");
  assert_int_equal(env.first, VKF_ERROR_FORMAT);
  assert_int_equal(vkf_env_prefix(&env, VKF_ERROR_FORMAT, "%s: ", "a.json"), VKF_ERROR_FORMAT);
  assert_string_equal(env.message, "a.json: expected 3, found 4");
  vkf_env_clear(&env);
  assert_string_equal(env.message, "");
  vkf_env_fail(&env, VKF_ERROR_FILE, "new");
  assert_string_equal(env.message, "new");
}

static void long_messages_are_cut(void **state) {
  (void)state;
  vkf_env env;
  char text[3000];
  memset(text, 'x', sizeof(text));
  text[sizeof(text) - 1] = '\0';
  vkf_env_init(&env, NULL);
  vkf_env_fail(&env, VKF_ERROR_FILE, "%s", text);
  assert_int_equal(strlen(env.message), sizeof(env.message) - 1);
  vkf_env_prefix(&env, VKF_ERROR_FILE, "%s", "before: ");
  assert_int_equal(strlen(env.message), sizeof(env.message) - 1);
  assert_memory_equal(env.message, "before: xxx", 11);
  vkf_env_prefix(&env, VKF_ERROR_FILE, "%s", text);
  assert_int_equal(strlen(env.message), sizeof(env.message) - 1);
}

static void count_lines(void *user, vkf_log_level level, const char *line) {
  (void)level;
  (*(int *)user)++;
  assert_string_equal(line, "line 7");
}

static void log_passes_what_is_important(void **state) {
  (void)state;
  vkf_env env;
  int n = 0;
  vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .log = count_lines, .log_user = &n, .log_level = VKF_LOG_INFO};
  vkf_env_init(&env, &params);
  vkf_env_log(&env, VKF_LOG_DEBUG, "line %d", 7);
  assert_int_equal(n, 0);
  vkf_env_log(&env, VKF_LOG_INFO, "line %d", 7);
  vkf_env_log(&env, VKF_LOG_ERROR, "line %d", 7);
  assert_int_equal(n, 2);
}

static void memory_is_counted_and_zeroed(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  unsigned char *a = vkf_env_alloc(&env, 10, 7);
  assert_non_null(a);
  assert_int_equal((uintptr_t)a % 16, 0);
  for (int i = 0; i < 70; i++) assert_int_equal(a[i], 0);
  memset(a, 5, 70);
  assert_int_equal(env.live_bytes, 70);
  a = vkf_env_realloc(&env, a, 1, 200);
  assert_int_equal(env.live_bytes, 200);
  for (int i = 0; i < 70; i++) assert_int_equal(a[i], 5);
  a = vkf_env_realloc(&env, a, 1, 30);
  assert_int_equal(env.live_bytes, 30);
  char *b = vkf_env_strdup(&env, "hello");
  assert_string_equal(b, "hello");
  void *empty = vkf_env_alloc(&env, 0, 4);
  assert_non_null(empty);
  assert_int_equal(env.n_allocations, 5);
  vkf_env_free(&env, empty);
  vkf_env_free(&env, b);
  vkf_env_free(&env, a);
  vkf_env_free(&env, NULL);
  assert_int_equal(env.live_bytes, 0);
}

static void arrays_grow_twofold(void **state) {
  (void)state;
  vkf_env env;
  size_t capacity = 0;
  uint64_t *numbers = NULL;
  vkf_env_init(&env, NULL);
  for (uint64_t i = 0; i < 1000; i++) {
    const bool is_full = capacity == i;
    const uint64_t *before = numbers, n = env.n_allocations;
    numbers = vkf_env_grow(&env, numbers, &capacity, i + 1, sizeof *numbers);
    assert_non_null(numbers);
    assert_true(is_full || (numbers == before && env.n_allocations == n)); /* there was room */
    numbers[i] = i;
  }
  for (uint64_t i = 0; i < 1000; i++) assert_int_equal(numbers[i], i);
  assert_between(capacity, 1000, 2000);
  assert_between(env.n_allocations, 1, 10);
  env.fail_at = env.n_allocations + 1;
  assert_null(vkf_env_grow(&env, numbers, &capacity, 5000, sizeof *numbers));
  assert_between(capacity, 1000, 2000);
  assert_int_equal(numbers[999], 999);
  numbers = vkf_env_grow(&env, numbers, &capacity, 5000, sizeof *numbers);
  assert_int_equal(capacity, 5000);
  vkf_env_free(&env, numbers);
  assert_int_equal(env.live_bytes, 0);
}

static void memory_failures_are_recorded(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_init(&env, NULL);
  char *a = vkf_env_strdup(&env, "stays");
  env.fail_at = env.n_allocations + 1;
  assert_null(vkf_env_realloc(&env, a, 100, 1));
  assert_int_equal(env.first, VKF_ERROR_MEMORY);
  assert_string_equal(a, "stays");
  assert_int_equal(env.live_bytes, 6);
  vkf_env_clear(&env);
  assert_null(vkf_env_alloc(&env, SIZE_MAX / 2, 3));
  assert_int_equal(env.first, VKF_ERROR_MEMORY);
  assert_null(vkf_env_alloc(&env, SIZE_MAX, 1));
  vkf_env_free(&env, a);
  assert_int_equal(env.live_bytes, 0);
}

static void arena_gives_aligned_zeroed_memory(void **state) {
  (void)state;
  vkf_env env;
  vkf_arena arena;
  vkf_env_init(&env, NULL);
  vkf_arena_init(&arena, &env);
  unsigned char *pieces[300];
  /* Sizes 0..89700: small ones share a block, large ones get their own. */
  for (size_t i = 0; i < VKF_COUNT(pieces); i++) {
    pieces[i] = vkf_arena_alloc(&arena, i, 300);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    for (size_t j = 0; j < i * 300; j++)
      if (pieces[i][j] != 0) fail_msg("piece %zu is not zero at %zu", i, j);
    memset(pieces[i], (int)(i % 251) + 1, i * 300);
  }
  for (size_t i = 0; i < VKF_COUNT(pieces); i++)
    for (size_t j = 0; j < i * 300; j += 50)
      if (pieces[i][j] != i % 251 + 1) fail_msg("piece %zu was overwritten at %zu", i, j);
  assert_string_equal(vkf_arena_strdup(&arena, "abc"), "abc");
  assert_string_equal(vkf_arena_printf(&arena, "%s-%d", "abc", 12), "abc-12");
  assert_null(vkf_arena_alloc(&arena, SIZE_MAX, 2));
  assert_null(vkf_arena_alloc(&arena, SIZE_MAX, 1));
  assert_null(vkf_arena_alloc(&arena, SIZE_MAX - 64, 1));
  assert_int_equal(env.first, VKF_ERROR_MEMORY);
  vkf_arena_finish(&arena);
  vkf_arena_finish(&arena);
  assert_int_equal(env.live_bytes, 0);
}

static void text_grows_and_remembers_failure(void **state) {
  (void)state;
  vkf_env env;
  vkf_text text;
  vkf_env_init(&env, NULL);
  vkf_text_init(&text, &env);
  vkf_text_append(&text, "", 0);
  assert_string_equal(text.data, "");
  for (int i = 0; i < 1000; i++) vkf_text_printf(&text, "%03d,", i);
  assert_int_equal(text.size, 4000);
  assert_int_equal(strlen(text.data), 4000);
  assert_memory_equal(text.data + 4 * 999, "999,", 4);
  assert_int_equal(vkf_text_status(&text), VKF_OK);
  env.fail_at = env.n_allocations + 1;
  while (!text.failed) vkf_text_append(&text, "0123456789", 10);
  size_t size = text.size;
  vkf_text_append(&text, "x", 1);
  assert_int_equal(text.size, size);
  assert_int_equal(vkf_text_status(&text), VKF_ERROR_MEMORY);
  vkf_text_finish(&text);
  assert_int_equal(env.live_bytes, 0);
}

/* too_large (the caller may try again in parts) belongs to the first cause and is cleared with it. */
static void too_large_belongs_to_the_first_cause(void **state) {
  (void)state;
  vkf_env env;
  vkf_env_failure failure;
  vkf_env_init(&env, NULL);
  vkf_env_fail(&env, VKF_ERROR_FORMAT, "first");
  vkf_env_fail_too_large(&env, VKF_ERROR_MEMORY, "later");
  assert_false(env.too_large);
  assert_string_equal(env.message, "first");
  vkf_env_clear(&env);
  vkf_env_fail_too_large(&env, VKF_ERROR_DEVICE_MEMORY, "large");
  vkf_env_fail(&env, VKF_ERROR_FORMAT, "later");
  assert_true(env.too_large);
  vkf_env_save_failure(&env, &failure);
  vkf_env_clear(&env);
  assert_false(env.too_large);
  vkf_env_restore_failure(&env, &failure);
  assert_true(env.too_large && env.first == VKF_ERROR_DEVICE_MEMORY);
  assert_string_equal(env.message, "large");
}

static size_t n_reallocations;

static void *reallocate(void *user, void *old, size_t size) {
  (void)user;
  n_reallocations++;
  if (size) return realloc(old, size);
  free(old);
  return NULL;
}

/* A session's environment uses the memory and the log of its context, but has failures of its own. */
static void a_child_has_what_its_parent_has(void **state) {
  (void)state;
  int n = 0;
  const vkf_allocator allocator = {.reallocate = reallocate};
  vkf_env parent, child;
  vkf_env_init(&parent, &(vkf_context_params){VKF_CONTEXT_PARAMS_INIT, .log = count_lines, .log_user = &n,
                                              .log_level = VKF_LOG_INFO, .allocator = &allocator});
  vkf_env_init_child(&child, &parent);
  vkf_env_log(&child, VKF_LOG_DEBUG, "line %d", 7);
  vkf_env_log(&child, VKF_LOG_INFO, "line %d", 7);
  assert_int_equal(n, 1);
  void *memory = vkf_env_alloc(&child, 40, 1);
  assert_true(parent.live_bytes == 40 && child.live_bytes == 0 && n_reallocations == 1);
  memory = vkf_env_realloc(&child, memory, 50, 1);
  assert_int_equal(parent.live_bytes, 50);
  vkf_env_free(&child, memory);
  assert_true(parent.live_bytes == 0 && n_reallocations == 3);
  vkf_env_fail(&child, VKF_ERROR_FILE, "of the child");
  assert_int_equal(parent.first, VKF_OK);
  child.listener = &parent;
  vkf_env_clear(&child);
  vkf_env_fail(&child, VKF_ERROR_FILE, "told to the parent");
  assert_string_equal(parent.message, "told to the parent");
  parent.log_level = VKF_LOG_DEBUG;
  vkf_env_log(&child, VKF_LOG_DEBUG, "line %d", 7);
  assert_int_equal(n, 2);
}

/* Callbacks of different contexts nest. A session's callback is also its context's, and a context's also that of each
 * of its sessions; sessions of one context do not share theirs. */
static void callbacks_nest(void **state) {
  (void)state;
  vkf_env one, two, child, sibling;
  vkf_env_callback outer, inner;
  vkf_env_init(&one, NULL);
  vkf_env_init(&two, NULL);
  vkf_env_init_child(&child, &one);
  vkf_env_init_child(&sibling, &one);
  vkf_env_callback_begin(&one, &outer);
  vkf_env_callback_begin(&two, &inner);
  assert_true(vkf_env_callback_runs(&one) && vkf_env_callback_runs(&two) && vkf_env_callback_runs(&child));
  vkf_env_fail(&two, VKF_ERROR_FILE, "inside");
  vkf_env_callback_end(&inner);
  assert_int_equal(two.first, VKF_OK); /* a callback's failure is forgotten when it ends */
  assert_true(vkf_env_callback_runs(&one) && !vkf_env_callback_runs(&two));
  vkf_env_callback_end(&outer);
  assert_false(vkf_env_callback_runs(&one));
  vkf_env_callback_begin(&child, &outer);
  assert_true(vkf_env_refuses(&one, "call"));
  assert_non_null(strstr(one.message, "same context"));
  assert_false(vkf_env_callback_runs(&sibling));
  assert_true(vkf_env_refuses(&child, "call"));
  assert_non_null(strstr(child.message, "same session"));
  vkf_env_callback_end(&outer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_cause_is_kept),
      cmocka_unit_test(long_messages_are_cut),
      cmocka_unit_test(log_passes_what_is_important),
      cmocka_unit_test(memory_is_counted_and_zeroed),
      cmocka_unit_test(arrays_grow_twofold),
      cmocka_unit_test(memory_failures_are_recorded),
      cmocka_unit_test(arena_gives_aligned_zeroed_memory),
      cmocka_unit_test(text_grows_and_remembers_failure),
      cmocka_unit_test(too_large_belongs_to_the_first_cause),
      cmocka_unit_test(a_child_has_what_its_parent_has),
      cmocka_unit_test(callbacks_nest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
