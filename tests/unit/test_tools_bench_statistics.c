/* What a driver reports about a kernel, as `vkformer bench` prints it and keeps it as JSON, with made-up numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../tools/bench_statistics.h"

static void names_and_numbers_stay_as_they_are(void **state) {
  (void)state;
  const vkf_bench_statistic all[] = {
      {"Register Count", 64}, {"Spilled VGPRs", 0}, {"Occupancy", 0.75}, {"Hash", 0x1p62}, {"odd", NAN}};
  const vkf_bench_row row = {.statistics = all, .n_statistics = 5}, none = {0};
  char text[256] = "";
  FILE *to = fmemopen(text, sizeof text, "w");
  bench_statistics_print(&row, to);
  bench_statistics_print(&none, to);
  fclose(to);
  assert_string_equal(text,
                      "  the driver: Register Count 64, Spilled VGPRs 0, Occupancy 0.75, "
                      "Hash 4.61168601843e+18, odd nan\n");
  json_t *json = bench_statistics_json(&row);
  assert_true(json_real_value(json_object_get(json, "Hash")) == 0x1p62);
  json_object_del(json, "Hash"); /* jansson writes e18 or e+18, depending on its version */
  char *dumped = json_dumps(json, JSON_COMPACT);
  assert_string_equal(dumped, "{\"Register Count\":64,\"Spilled VGPRs\":0,\"Occupancy\":0.75,\"odd\":null}");
  free(dumped);
  json_decref(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_numbers_stay_as_they_are)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
