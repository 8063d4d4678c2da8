/* JSON: typed getters, and messages that name source, line, key, expected and found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/json_memory.h"
#include "file/json.h"

static vkf_env env;

static vkf_file_value parse(const char *text, vkf_file_json **document) {
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_json_parse(&env, "c.json", text, strlen(text), document), VKF_OK);
  return vkf_file_json_root(*document);
}

static void expect_message(vkf_status status, const char *message) {
  assert_int_equal(status, VKF_ERROR_FORMAT);
  assert_string_equal(env.message, message);
  vkf_env_clear(&env);
}

static void values_of_each_type(void **state) {
  (void)state;
  vkf_file_json *d = NULL;
  vkf_file_value root = parse(
      "{\"s\":\"x\",\"b\":true,\"f\":false,\"i\":-9007199254740993,\"r\":0.5,\"a\":[1,[2,3]],\"o\":{\"p\":{\"q\":7}}}",
      &d);
  const char *s;
  bool b;
  int64_t i;
  double r;
  vkf_file_value v;
  assert_int_equal(vkf_file_json_get_string(root, "s", &s), VKF_OK);
  assert_string_equal(s, "x");
  assert_int_equal(vkf_file_json_get_bool(root, "b", &b), VKF_OK);
  assert_true(b);
  assert_int_equal(vkf_file_json_get_bool(root, "f", &b), VKF_OK);
  assert_false(b);
  assert_int_equal(vkf_file_json_get_int64(root, "i", &i), VKF_OK);
  assert_true(i == -9007199254740993);
  assert_int_equal(vkf_file_json_get_double(root, "r", &r), VKF_OK);
  assert_true(r == 0.5);
  assert_int_equal(vkf_file_json_get_array(root, "a", &v), VKF_OK);
  assert_int_equal(vkf_file_json_count(v), 2);
  assert_int_equal(vkf_file_json_get_double(root, "i", &r), VKF_OK);
  assert_int_equal(vkf_file_json_as_int64(vkf_file_json_at(vkf_file_json_at(v, 1), 0), &i), VKF_OK);
  assert_int_equal(i, 2);
  assert_int_equal(vkf_file_json_get_object(root, "o", &v), VKF_OK);
  assert_int_equal(vkf_file_json_get_int64(vkf_file_json_member(v, "p"), "q", &i), VKF_OK);
  assert_int_equal(i, 7);
  assert_string_equal(vkf_file_json_key(root, 0), "s");
  assert_string_equal(vkf_file_json_key(root, 6), "o");
  assert_null(vkf_file_json_key(root, 7));
  vkf_file_json_destroy(&d);
  assert_null(d);
  assert_int_equal(env.live_bytes, 0);
}

/* The large number is 1e30, which tokenizers write if they have no limit. */
static void an_integer_is_too_large(void **state) {
  (void)state;
  vkf_file_json *d = NULL;
  vkf_file_value root = parse("{\"most\":1000000000000000019884624838656,\"i\":-7,\"r\":2.5}", &d);
  int64_t i = 0;
  double r = 0;
  assert_int_equal(vkf_file_json_kind(vkf_file_json_member(root, "i")), VKF_FILE_INTEGER);
  assert_int_equal(vkf_file_json_kind(vkf_file_json_member(root, "r")), VKF_FILE_REAL);
  assert_int_equal(vkf_file_json_get_int64(root, "i", &i), VKF_OK);
  assert_int_equal(i, -7);
  assert_int_equal(vkf_file_json_get_double(root, "most", &r), VKF_OK);
  assert_true(r == 1e30);
  assert_int_equal(vkf_file_json_get_int64(root, "r", &i), VKF_ERROR_FORMAT);
  vkf_env_clear(&env);
  expect_message(vkf_file_json_get_int64(root, "most", &i),
                 "c.json: key \"most\": expected an integer, found a number of more than 53 bits");
  vkf_file_json_destroy(&d);
  assert_int_equal(env.live_bytes, 0);
}

static void missing_keys_and_null_give_the_fallback(void **state) {
  (void)state;
  vkf_file_json *d = NULL;
  vkf_file_value root = parse("{\"n\":null,\"i\":4}", &d), v;
  static const char *const keys[] = {"n", "missing"};
  for (size_t k = 0; k < 2; k++) {
    const char *s;
    bool b;
    int64_t i;
    double r;
    assert_int_equal(vkf_file_json_find_string(root, keys[k], "d", &s), VKF_OK);
    assert_string_equal(s, "d");
    assert_int_equal(vkf_file_json_find_bool(root, keys[k], true, &b), VKF_OK);
    assert_true(b);
    assert_int_equal(vkf_file_json_find_int64(root, keys[k], 12, &i), VKF_OK);
    assert_int_equal(i, 12);
    assert_int_equal(vkf_file_json_find_double(root, keys[k], 1.5, &r), VKF_OK);
    assert_true(r == 1.5);
    assert_int_equal(vkf_file_json_find_array(root, keys[k], &v), VKF_OK);
    assert_int_equal(vkf_file_json_kind(v), VKF_FILE_ABSENT);
    assert_int_equal(vkf_file_json_find_object(root, keys[k], &v), VKF_OK);
    assert_int_equal(vkf_file_json_kind(v), VKF_FILE_ABSENT);
  }
  int64_t i;
  assert_int_equal(vkf_file_json_find_int64(root, "i", 12, &i), VKF_OK);
  assert_int_equal(i, 4);
  vkf_file_json_destroy(&d);
}

static void wrong_types_are_named(void **state) {
  (void)state;
  vkf_file_json *d = NULL;
  vkf_file_value root = parse("{\"i\":1.0,\"o\":{\"list\":[1,\"x\"]},\"n\":null,\"t\":true}", &d), v;
  int64_t i = 5;
  const char *s;
  bool b;
  double r;
  expect_message(vkf_file_json_get_int64(root, "i", &i), "c.json: key \"i\": expected an integer, found a real number");
  expect_message(vkf_file_json_find_int64(root, "i", 0, &i),
                 "c.json: key \"i\": expected an integer, found a real number");
  expect_message(vkf_file_json_get_string(root, "none", &s), "c.json: key \"none\": expected a string, found nothing");
  expect_message(vkf_file_json_get_bool(root, "n", &b), "c.json: key \"n\": expected a boolean, found null");
  expect_message(vkf_file_json_get_double(root, "t", &r), "c.json: key \"t\": expected a number, found a boolean");
  expect_message(vkf_file_json_find_array(root, "o", &v), "c.json: key \"o\": expected an array, found an object");
  expect_message(vkf_file_json_as_array(root, &v), "c.json: expected an array, found an object");
  v = vkf_file_json_member(vkf_file_json_member(root, "o"), "list");
  expect_message(vkf_file_json_as_int64(vkf_file_json_at(v, 1), &i),
                 "c.json: key \"o.list[1]\": expected an integer, found a string");
  expect_message(vkf_file_json_as_object(v, &v), "c.json: key \"o.list\": expected an object, found an array");
  vkf_file_json_destroy(&d);
}

static void text_that_is_not_json(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"", "line 1"},
      {"{\n\"a\": 1,\n\"b\": }", "c.json: expected JSON, found at line 3"},
      {"{\"a\":1} x", "end of file"},
      {"{\"a\":1,\"a\":2}", "duplicate"},
      {"{\"a\":NaN}", "line 1"},
      {"{\"a\":\"\xff\"}", "unable to decode byte"},
      {"[1,2", "line 1"},
      {"\xef\xbb\xbf{}", "c.json: expected JSON, found a byte-order mark of UTF-8 before it"},
      {"\x1f\x8b\x08", "c.json: expected JSON, found what gzip compressed: decompress it by gzip -dc < FILE"},
      {"\x28\xb5\x2f\xfd", "c.json: expected JSON, found what zstd compressed"},
      {"\xfd\x37zXZ", "c.json: expected JSON, found what xz compressed"},
  };
  for (size_t i = 0; i < VKF_COUNT(cases); i++) {
    vkf_file_json *d = NULL;
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_json_parse(&env, "c.json", cases[i].text, strlen(cases[i].text), &d), VKF_ERROR_FORMAT);
    assert_null(d);
    if (strstr(env.message, cases[i].part) == NULL) fail_msg("case %zu: \"%s\"", i, env.message);
  }
  vkf_file_json *d = NULL;
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_json_read(&env, "/nowhere/config.json", &d), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "/nowhere/config.json"));
  assert_int_equal(env.live_bytes, 0);
}

static void unknown_keys_are_listed(void **state) {
  (void)state;
  vkf_file_json *d = NULL;
  vkf_file_value root = parse("{\"a\":1,\"z\":2,\"b\":3,\"y\":4}", &d);
  static const char *const known[] = {"b", "a", "other"};
  vkf_text text;
  vkf_text_init(&text, &env);
  assert_int_equal(vkf_file_json_unknown(root, known, 3, &text), 2);
  assert_string_equal(text.data, "z, y");
  vkf_text_finish(&text);
  vkf_file_json_destroy(&d);
}

/* White space and the order of keys do not change the hash; values and the order of elements do. */
static void hashes(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\"a\":[1,2.5],\"b\":{\"c\":null,\"d\":\"x\"}}", "{ \"b\": {\"d\": \"x\",\n\"c\": null}, \"a\": [1, 2.5] }",
      "{\"a\":[2.5,1],\"b\":{\"c\":null,\"d\":\"x\"}}", "{\"a\":[1,2.5],\"b\":{\"c\":null,\"d\":\"y\"}}"};
  uint64_t found[4];
  for (int i = 0; i < 4; i++) {
    vkf_file_json *d = NULL;
    assert_int_equal(vkf_file_json_hash(parse(texts[i], &d), &found[i]), VKF_OK);
    vkf_file_json_destroy(&d);
  }
  assert_true(found[0] == found[1]);
  assert_true(found[0] != found[2] && found[0] != found[3] && found[2] != found[3]);
}

/* Each allocation fails once: the call returns the right value or VKF_ERROR_MEMORY, and nothing leaks. */
static void memory_may_fail(void **state) {
  (void)state;
  static const char text[] = "{\"o\":{\"i\":3}}";
  uint64_t n_failures = 0;
  for (uint64_t n = 1;; n++) {
    vkf_env_init(&env, NULL);
    env.fail_at = n;
    vkf_file_json *d = NULL;
    int64_t i = 0;
    vkf_status st = vkf_file_json_parse(&env, "c.json", text, sizeof(text) - 1, &d);
    if (st == VKF_OK) {
      vkf_file_value o = vkf_file_json_member(vkf_file_json_root(d), "o");
      assert_int_equal(vkf_file_json_get_int64(o, "i", &i), VKF_OK);
      assert_int_equal(i, 3);
      assert_int_equal(env.first, VKF_OK);
    } else {
      assert_int_equal(st, VKF_ERROR_MEMORY);
      n_failures++;
    }
    vkf_file_json_destroy(&d);
    assert_int_equal(env.live_bytes, 0);
    if (env.n_allocations < n) break;
  }
  assert_true(n_failures >= 2);
}

/* After so many more allocations both jansson, which has an allocator of its own, and the environment get no more. */
static size_t n_until_end = SIZE_MAX;
static void *ending_malloc(size_t size) {
  if (n_until_end == 0) return NULL;
  n_until_end--;
  return malloc(size);
}

static void *ending_realloc(void *user, void *old, size_t size) {
  (void)user;
  if (size > 0 && n_until_end == 0) return NULL;
  if (size > 0) return realloc(old, size);
  free(old);
  return NULL;
}

static void memory_of_jansson_may_fail(void **state) {
  (void)state;
  static const char text[] = "{\"a\":[1,2.5,\"three\",{\"b\":null}]}";
  const vkf_allocator ending = {ending_realloc, NULL};
  size_t n = 0;
  vkf_status st = VKF_ERROR_MEMORY;
  vkf_env_init(&env, &(vkf_context_params){VKF_CONTEXT_PARAMS_INIT, .allocator = &ending});
  json_set_alloc_funcs(ending_malloc, free);
  for (; st != VKF_OK && n < 1000; n++) {
    vkf_file_json *d = NULL;
    vkf_env_clear(&env);
    n_until_end = n;
    st = vkf_file_json_parse(&env, "c.json", text, strlen(text), &d);
    const bool is_said = st == VKF_OK || (st == VKF_ERROR_MEMORY && strstr(env.message, "memory"));
    vkf_file_json_destroy(&d);
    n_until_end = SIZE_MAX;
    if (!is_said) fail_msg("allocation %zu: status %d, \"%s\"", n, (int)st, env.message);
    assert_int_equal(env.live_bytes, 0);
  }
  vkf_text quoted;
  vkf_text_init(&quoted, &env);
  n_until_end = 0;
  vkf_json_append(&quoted, json_string("word"), JSON_ENCODE_ANY);
  n_until_end = SIZE_MAX;
  json_set_alloc_funcs(malloc, free);
  assert_true(quoted.failed);
  vkf_text_finish(&quoted);
  assert_int_equal(st, VKF_OK);
  assert_true(n > 10);
}

static int set_up(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(values_of_each_type, set_up),
      cmocka_unit_test_setup(an_integer_is_too_large, set_up),
      cmocka_unit_test_setup(missing_keys_and_null_give_the_fallback, set_up),
      cmocka_unit_test_setup(wrong_types_are_named, set_up),
      cmocka_unit_test_setup(text_that_is_not_json, set_up),
      cmocka_unit_test_setup(unknown_keys_are_listed, set_up),
      cmocka_unit_test_setup(hashes, set_up),
      cmocka_unit_test_setup(memory_may_fail, set_up),
      cmocka_unit_test_setup(memory_of_jansson_may_fail, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
