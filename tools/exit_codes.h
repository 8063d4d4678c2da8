/* exit_codes: the exit codes of the program, and which one each status of the library gives. README.md has the same
 * table for users.
 */
#ifndef VKFORMER_TOOLS_EXIT_CODES_H
#define VKFORMER_TOOLS_EXIT_CODES_H

#include <vkformer/vkformer.h>

enum {
  TOOL_OK = 0,
  TOOL_WRONG = 1,     /* a result is wrong: over its bound, not finite, or not what another device gives */
  TOOL_USAGE = 2,     /* the command line cannot be understood */
  TOOL_NO_DEVICE = 3, /* no device or driver, or it failed, or its memory is too small */
  TOOL_FAILED = 4     /* a file, model or text cannot be read, is not as expected or not supported; a file cannot be
                         written; out of memory */
};

static inline int tool_exit_code(vkf_status status) {
  switch (status) {
    case VKF_OK:
      return TOOL_OK;
    case VKF_ERROR_NUMERIC:
      return TOOL_WRONG;
    case VKF_ERROR_NO_DEVICE:
    case VKF_ERROR_DEVICE:
    case VKF_ERROR_DEVICE_LOST:
    case VKF_ERROR_DEVICE_MEMORY:
      return TOOL_NO_DEVICE;
    default:
      return TOOL_FAILED;
  }
}

/* Combines the exit codes of two steps: the lower one that is not TOOL_OK, so a wrong result comes first. */
static inline int tool_both_exit_codes(int a, int b) {
  return a == TOOL_OK ? b : b == TOOL_OK ? a : a < b ? a : b;
}

#endif
