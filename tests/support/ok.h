/* ok: fails a test with the message of a call that failed. */
#ifndef VKF_TESTS_SUPPORT_OK_H
#define VKF_TESTS_SUPPORT_OK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

static inline void ok(const vkf_env *env, vkf_status status) {
  if (status != VKF_OK) fail_msg("status %d: %s", (int)status, env->message);
}

#endif
