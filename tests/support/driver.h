/* A device of the public interface for the tests that run once per driver: the device that VKF_DEVICE names, with the
 * validation layer on wherever it is installed.
 *
 * driver_close() fails the test if the layer reported anything, the device's destruction included, or if the device
 * still holds memory.
 */
#ifndef VKF_TESTS_SUPPORT_DRIVER_H
#define VKF_TESTS_SUPPORT_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/missing.h"
#include "support/sessions.h"

typedef struct driver {
  vkf_context *context;
  vkf_device *device;
  unsigned n_messages; /* of the validation layer */
} driver;

static inline void driver_print(void *user, vkf_log_level level, const char *line) {
  (void)level;
  if (!strncmp(line, "validation: ", 12)) ((driver *)user)->n_messages++;
  fprintf(stderr, "%s\n", line);
}

/* How the device of a test is opened. */
typedef enum driver_kind {
  DRIVER_PLAIN,
  DRIVER_WITH_LAYER,
  DRIVER_REPRODUCIBLE, /* in that mode, plain otherwise */
  DRIVER_KINDS
} driver_kind;

static inline vkf_status driver_try(driver *d, driver_kind kind, vkf_log_fn log) {
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT,
                                     .log = log,
                                     .log_user = d,
                                     .log_level = VKF_LOG_WARNING,
                                     .limits = getenv("VKF_TEST_LIMITS"),
                                     .deterministic = kind == DRIVER_REPRODUCIBLE,
                                     .batch_invariant = getenv("VKF_TEST_BATCH_INVARIANT") != NULL};
  if (kind == DRIVER_WITH_LAYER)
    setenv("VKF_VALIDATION", "1", 1);
  else
    unsetenv("VKF_VALIDATION");
  if (vkf_context_create(&params, &d->context) != VKF_OK) return VKF_ERROR_MEMORY;
  return vkf_device_open(d->context, NULL, &d->device);
}

/* The message stands in the assertion that fails. */
static inline void driver_ok(const driver *d, vkf_status status) {
  if (status != VKF_OK) fail_msg("%s: %s", vkf_status_name(status), last_message(d->context));
}

/* With validation where the layer is installed. */
static inline vkf_status driver_try_any(driver *d, vkf_log_fn log) {
  vkf_status status = driver_try(d, DRIVER_WITH_LAYER, log);
  if (status != VKF_ERROR_UNSUPPORTED) return status;
  vkf_context_destroy(&d->context);
  return driver_try(d, DRIVER_PLAIN, log);
}

static inline void driver_open(driver *d) {
  memset(d, 0, sizeof *d);
  driver_ok(d, driver_try_any(d, driver_print));
}

/* Everything on it was closed, and the layer said nothing. */
static inline void driver_close(driver *d) {
  uint64_t now = 1, peak = 0;
  vkf_device_memory(d->device, &now, &peak);
  vkf_device_close(&d->device);
  vkf_context_destroy(&d->context);
  assert_int_equal(d->n_messages, 0);
  assert_int_equal(now, 0);
}

/* By kind: one device for the tests of a program, so that each kernel is compiled once. */
static inline driver *driver_all(void) {
  static driver drivers[DRIVER_KINDS];
  return drivers;
}

static inline driver *driver_shared(driver_kind kind) {
  driver *d = &driver_all()[kind];
  if (d->device) return d;
  *d = (driver){0};
  if (kind == DRIVER_WITH_LAYER)
    driver_open(d);
  else
    driver_ok(d, driver_try(d, kind, driver_print));
  return d;
}

static inline int driver_setup(void **state) {
  *state = driver_shared(DRIVER_WITH_LAYER);
  return 0;
}

/* Without the layer, where a test submits too often for it and others show it the same commands. */
static inline int driver_setup_plain(void **state) {
  *state = driver_shared(DRIVER_PLAIN);
  return 0;
}

static inline int driver_setup_reproducible(void **state) {
  *state = driver_shared(DRIVER_REPRODUCIBLE);
  return 0;
}

/* What driver_close() asserts, but for the device's destruction. A test that failed and left something open leaves it
 * its device, and the next one opens another. */
static inline int driver_teardown(void **state) {
  driver *shared = *state;
  const driver d = *shared;
  uint64_t now = 1, peak = 0;
  vkf_device_memory(d.device, &now, &peak);
  shared->n_messages = 0;
  if (now != 0) *shared = (driver){0};
  assert_int_equal(d.n_messages, 0);
  assert_int_equal(now, 0);
  return 0;
}

/* The last test of each program. */
static inline void driver_closes(void **state) {
  (void)state;
  for (int kind = 0; kind < DRIVER_KINDS; kind++)
    if (driver_all()[kind].device) driver_close(&driver_all()[kind]);
}

#define DRIVER_TEST(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)
#define DRIVER_TEST_PLAIN(name) cmocka_unit_test_setup_teardown(name, driver_setup_plain, driver_teardown)
#define DRIVER_TEST_REPRODUCIBLE(name) cmocka_unit_test_setup_teardown(name, driver_setup_reproducible, driver_teardown)
#define DRIVER_MAIN(...)                                                              \
  int main(void) {                                                                    \
    const struct CMUnitTest tests[] = {__VA_ARGS__, cmocka_unit_test(driver_closes)}; \
    int missing = driver_missing();                                                   \
    return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL);             \
  }

#endif
