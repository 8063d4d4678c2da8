/* checks: what kernels depend on and a driver may get wrong. tune/checks.c checks it; when select.c refuses a kernel,
 * it says if a check had failed (vkf_caps.failed_checks).
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
  VKF_CHECK_OF_HALF, /* unpacking of 16-bit numbers from words: if it failed, kernels do it themselves */
  VKF_CHECK_OF_FLOAT16,
  VKF_CHECK_OF_STORAGE16,
  VKF_CHECK_OF_STORAGE8,
  VKF_CHECK_OF_MATRIX, /* cooperative matrices */
  VKF_CHECK_OF_INTEGER_DOT,
  VKF_CHECK_OF_TIMESTAMPS,
  VKF_CHECK_OF_ROUNDING,     /* arithmetic of the reproducible mode */
  VKF_CHECK_OF_REPRODUCIBLE, /* its kernels */
  VKF_CHECK_OF_LOOPS,        /* max_loop_turns turns, at most LOOP_TURNS (tune/checks.c) */
  VKF_CHECK_OF_LONG_LOOPS,   /* many more, if max_loop_turns is over LOOP_TURNS */
  VKF_N_CHECKS
} vkf_check;

#endif
