/* The program's exit code for each status of the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../tools/exit_codes.h"

static void every_status_has_its_code(void **state) {
  (void)state;
  static const struct {
    vkf_status status;
    int code;
  } rows[] = {
      {VKF_OK, 0},           {VKF_ERROR_ARGUMENT, 4},    {VKF_ERROR_MEMORY, 4},      {VKF_ERROR_DEVICE_MEMORY, 3},
      {VKF_ERROR_FILE, 4},   {VKF_ERROR_FORMAT, 4},      {VKF_ERROR_UNSUPPORTED, 4}, {VKF_ERROR_NO_DEVICE, 3},
      {VKF_ERROR_DEVICE, 3}, {VKF_ERROR_DEVICE_LOST, 3}, {VKF_ERROR_NUMERIC, 1},     {VKF_ERROR_STOPPED, 4}};
  const size_t n = sizeof rows / sizeof rows[0];
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(rows[i].status, i); /* no status is missing */
    assert_int_equal(tool_exit_code(rows[i].status), rows[i].code);
  }
  assert_string_equal(vkf_status_name((vkf_status)n), vkf_status_name((vkf_status)1000)); /* nor is there one more */
}

static void a_wrong_result_comes_first(void **state) {
  (void)state;
  assert_int_equal(tool_both_exit_codes(TOOL_OK, TOOL_OK), TOOL_OK);
  assert_int_equal(tool_both_exit_codes(TOOL_OK, TOOL_FAILED), TOOL_FAILED);
  assert_int_equal(tool_both_exit_codes(TOOL_NO_DEVICE, TOOL_OK), TOOL_NO_DEVICE);
  assert_int_equal(tool_both_exit_codes(TOOL_FAILED, TOOL_WRONG), TOOL_WRONG);
  assert_int_equal(tool_both_exit_codes(TOOL_WRONG, TOOL_NO_DEVICE), TOOL_WRONG);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_status_has_its_code),
                                     cmocka_unit_test(a_wrong_result_comes_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
