/* The device for tests that run once per driver: the one that VKF_DEVICE names, opened through the public interface,
 * with the validation layer on if it is installed.
 *
 * driver_close() fails the test if the layer reported anything, even while the device was destroyed, or if the device
 * still holds memory. */
#ifndef VKF_TESTS_SUPPORT_DRIVER_H
#define VKF_TESTS_SUPPORT_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
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

/* Fails the test with the message of the call if the status is not VKF_OK. */
static inline void driver_ok(const driver *d, vkf_status status) {
  if (status != VKF_OK) fail_msg("%s: %s", vkf_status_name(status), last_message(d->context));
}

/* Opens the device with the validation layer if that is installed, else without. */
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

/* Closes the device and checks that everything on it was closed and that the layer said nothing. */
static inline void driver_close(driver *d) {
  uint64_t now = 1, peak = 0;
  vkf_device_memory(d->device, &now, &peak);
  vkf_device_close(&d->device);
  vkf_context_destroy(&d->context);
  assert_int_equal(d->n_messages, 0);
  assert_int_equal(now, 0);
}

/* Returns the devices by kind. The tests of a program share them, so that each kernel is compiled once. */
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

/* Without the layer: for a test that submits too often for it, if other tests show it the same commands. */
static inline int driver_setup_plain(void **state) {
  *state = driver_shared(DRIVER_PLAIN);
  return 0;
}

static inline int driver_setup_reproducible(void **state) {
  *state = driver_shared(DRIVER_REPRODUCIBLE);
  return 0;
}

/* Asserts what driver_close() asserts, but does not destroy the device. If a failed test left something open, the
 * device is left to it and the next test opens another. */
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
