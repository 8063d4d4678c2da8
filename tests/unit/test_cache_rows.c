/* The places of sequences of different lengths in the cache: no two ever overlap, whichever sequences come and go, and
 * short ones share rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/cache_rows.h"

enum { SLOTS = 7, KEYS = 20 };

/* Fails if a place is outside the rows or two places overlap. */
static void check(const vkf_cache_rows *c, const uint32_t *tokens) {
  for (uint32_t i = 0; i < c->n; i++) {
    const vkf_cache_place *a = &c->places[i];
    if (!tokens[i]) continue;
    assert_true(a->is_placed);
    assert_int_equal(a->tokens, tokens[i]);
    assert_true(a->row < c->n && a->first + a->tokens <= c->keys);
    for (uint32_t j = 0; j < i; j++) {
      const vkf_cache_place *b = &c->places[j];
      if (tokens[j] && a->row == b->row)
        assert_true(a->first + a->tokens <= b->first || b->first + b->tokens <= a->first);
    }
  }
}

static void sequences_come_and_go(void **state) {
  (void)state;
  vkf_env env;
  vkf_cache_rows c;
  uint32_t tokens[SLOTS] = {0}, random = 1;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_engine_cache_rows_init(&c, &env, SLOTS, KEYS), VKF_OK);
  for (int round = 0; round < 20000; round++) {
    for (uint32_t i = 0; i < SLOTS; i++) {
      random = random * 1664525u + 1013904223u;
      if (random >> 30) continue; /* three of four stay as they are */
      tokens[i] = 1 + (random >> 16) % (round % 2 ? KEYS : KEYS / 3);
      vkf_engine_cache_rows_want(&c, i, tokens[i]);
    }
    vkf_engine_cache_rows_place(&c);
    check(&c, tokens);
  }
  vkf_engine_cache_rows_finish(&c, &env);
}

/* The longest are placed first, each in the fullest row that has room: 20, 12 + 8, 11 + 9, 7 in rows of 20. */
static void short_ones_share(void **state) {
  (void)state;
  static const uint32_t tokens[SLOTS] = {7, 8, 9, 11, 12, 20, 0}, first[SLOTS] = {0, 12, 11, 0, 0, 0, 0},
                        row[SLOTS] = {3, 1, 2, 2, 1, 0, 0};
  vkf_env env;
  vkf_cache_rows c;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_engine_cache_rows_init(&c, &env, SLOTS, KEYS), VKF_OK);
  for (uint32_t i = 0; tokens[i]; i++) vkf_engine_cache_rows_want(&c, i, tokens[i]);
  vkf_engine_cache_rows_place(&c);
  check(&c, tokens);
  for (uint32_t i = 0; tokens[i]; i++) {
    assert_int_equal(c.places[i].row, row[i]);
    assert_int_equal(c.places[i].first, first[i]);
  }
  /* Row 1 is free once both of its sequences have left, not before. */
  vkf_engine_cache_rows_want(&c, 4, 20);
  vkf_engine_cache_rows_place(&c);
  assert_int_equal(c.places[4].row, 4);
  vkf_engine_cache_rows_want(&c, 1, 20);
  vkf_engine_cache_rows_place(&c);
  assert_int_equal(c.places[1].row, 1);
  assert_int_equal(c.places[1].first, 0);
  vkf_engine_cache_rows_finish(&c, &env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sequences_come_and_go),
      cmocka_unit_test(short_ones_share),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
