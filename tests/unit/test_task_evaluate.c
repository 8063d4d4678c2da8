/* Counts of BLEU and chrF for sentences that differ much: sacreBLEU's rules for these, which sums alone do not show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "task/evaluate.h"

static vkf_env env;

static void count(const char *const *texts, size_t n_references, vkf_bleu_counts *bleu, vkf_chrf_counts *chrf) {
  vkf_evaluator e;
  assert_int_equal(vkf_task_evaluator_init(&e, &env, n_references), VKF_OK);
  assert_int_equal(vkf_task_evaluator_count(&e, texts, bleu, chrf), VKF_OK);
  vkf_task_evaluator_finish(&e);
}

/* If two references are equally near in length, the shorter one counts, whichever comes first. */
static void the_shorter_of_near_references_counts(void **state) {
  vkf_bleu_counts bleu;
  vkf_chrf_counts chrf;
  (void)state;
  count((const char *const[]){"a b c", "a b c d", "a b"}, 2, &bleu, &chrf);
  assert_true(bleu.length == 3 && bleu.reference_length == 2);
  count((const char *const[]){"a b c", "a b", "a b c d"}, 2, &bleu, &chrf);
  assert_true(bleu.reference_length == 2);
}

/* n-grams of a hypothesis count only if the reference is long enough to have n-grams of this order. */
static void orders_that_a_reference_lacks_do_not_count(void **state) {
  vkf_bleu_counts bleu;
  vkf_chrf_counts chrf;
  (void)state;
  count((const char *const[]){"abcdefgh", "ab"}, 1, &bleu, &chrf);
  assert_true(chrf.of[0].hypothesis == 8 && chrf.of[1].hypothesis == 7);
  for (int n = 2; n < VKF_CHRF_ORDER; n++) assert_true(chrf.of[n].hypothesis == 0 && chrf.of[n].reference == 0);
}

/* More words than the table has room for at first. */
static void words_stay_known_when_the_table_grows(void **state) {
  enum { WORDS = 3000 };
  static char text[8 * WORDS];
  vkf_bleu_counts bleu;
  vkf_chrf_counts chrf;
  size_t n = 0;
  (void)state;
  for (int i = 0; i < WORDS; i++) n += (size_t)snprintf(text + n, sizeof text - n, "w%d ", i);
  count((const char *const[]){text, text}, 1, &bleu, &chrf);
  assert_true(bleu.length == WORDS);
  for (int i = 0; i < VKF_BLEU_ORDER; i++) assert_true(bleu.match[i] == WORDS - i && bleu.total[i] == WORDS - i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_shorter_of_near_references_counts),
      cmocka_unit_test(orders_that_a_reference_lacks_do_not_count),
      cmocka_unit_test(words_stay_known_when_the_table_grows),
  };
  vkf_env_init(&env, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
