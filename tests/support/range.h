/* An assertion on a range of integers. cmocka 2 deprecates assert_in_range() in favour of functions that cmocka 1 does
 * not have, and the tests are built with both. */
#ifndef VKF_TESTS_SUPPORT_RANGE_H
#define VKF_TESTS_SUPPORT_RANGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* low <= value <= high */
#define assert_between(value, low, high)                                                                              \
  do {                                                                                                                \
    const intmax_t between_value = (intmax_t)(value), between_low = (intmax_t)(low), between_high = (intmax_t)(high); \
    if (between_value < between_low || between_value > between_high)                                                  \
      fail_msg("%s: expected %jd to %jd, found %jd", #value, between_low, between_high, between_value);               \
  } while (0)

#endif
