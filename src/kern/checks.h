/* checks: the list of what kernels depend on and a driver may get wrong. tune/checks.h runs them; selection (select.c)
 * knows which of a device's features have failed.
 */
#ifndef VKF_KERN_CHECKS_H
#define VKF_KERN_CHECKS_H

typedef enum vkf_check {
  VKF_CHECK_OF_SUBGROUP_SIZE,
  VKF_CHECK_OF_SHUFFLE,
  VKF_CHECK_OF_BALLOT, /* and broadcast */
  VKF_CHECK_OF_ARITHMETIC,
  VKF_CHECK_OF_SHARED, /* memory, and barriers */
  VKF_CHECK_OF_ADDRESS,
  VKF_CHECK_OF_HALF, /* 16-bit numbers taken out of words: kernels do it themselves where it failed */
  VKF_CHECK_OF_FLOAT16,
  VKF_CHECK_OF_STORAGE16,
  VKF_CHECK_OF_STORAGE8,
  VKF_CHECK_OF_MATRIX, /* cooperative ones */
  VKF_CHECK_OF_INTEGER_DOT,
  VKF_CHECK_OF_TIMESTAMPS,
  VKF_CHECK_OF_ROUNDING,     /* arithmetic of the reproducible mode */
  VKF_CHECK_OF_REPRODUCIBLE, /* its kernels */
  VKF_CHECK_OF_LOOPS,      /* as many turns as max_loop_turns says, as far as kernels are written for any such limit */
  VKF_CHECK_OF_LONG_LOOPS, /* far more than that, where no limit is known */
  VKF_N_CHECKS
} vkf_check;

#endif
