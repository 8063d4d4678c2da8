/* The order of the sequences of a step: each is there once, and both halves have about as many keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/deal.h"

enum { MOST = 70 };

static uint32_t keys_of(const vkf_span *spans, uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += spans[i].keys;
  return sum;
}

static void each_is_there_once(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= MOST; n++) {
    vkf_span spans[MOST], dealt[MOST];
    bool seen[MOST] = {false};
    for (uint32_t i = 0; i < n; i++)
      spans[i] = (vkf_span){.row = i, .queries = 1, .past = i, .keys = 1 + i * 37 % 11, .slot = n - i, .first = 2 * i};
    vkf_engine_deal(spans, n, dealt);
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t row = dealt[i].row;
      assert_true(row < n && !seen[row]);
      seen[row] = true;
      assert_true(dealt[i].past == row && dealt[i].keys == 1 + row * 37 % 11 && dealt[i].slot == n - row &&
                  dealt[i].first == 2 * row);
    }
  }
}

/* Unsorted, the second half of these growing sequences has over 0.65 of the keys; sorted, 0.48 to 0.52. */
static void halves_are_balanced(void **state) {
  (void)state;
  for (uint32_t n = 4; n <= 64; n *= 2) {
    vkf_span spans[MOST], dealt[MOST];
    for (uint32_t i = 0; i < n; i++) spans[i] = (vkf_span){.row = i, .keys = 74 + i * 490 / (n - 1)};
    const uint32_t all = keys_of(spans, n);
    assert_true(keys_of(spans + n / 2, n / 2) > 0.65 * all);
    vkf_engine_deal(spans, n, dealt);
    const double half = keys_of(dealt, n / 2);
    assert_true(half > 0.48 * all && half < 0.52 * all);
    /* with 16 or more sequences, four neighbours have similar lengths */
    for (uint32_t i = 0; n >= 16 && i < n; i += 4)
      assert_true(dealt[i].keys >= dealt[i + 3].keys && dealt[i].keys - dealt[i + 3].keys <= 3 * 490 / (n - 1) + 3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_is_there_once),
      cmocka_unit_test(halves_are_balanced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
