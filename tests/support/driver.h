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

static inline vkf_status driver_try(driver *d, bool validation, vkf_log_fn log) {
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT,
                                     .log = log,
                                     .log_user = d,
                                     .log_level = VKF_LOG_WARNING,
                                     .limits = getenv("VKF_TEST_LIMITS"),
                                     .batch_invariant = getenv("VKF_TEST_BATCH_INVARIANT") != NULL};
  if (validation)
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
  vkf_status status = driver_try(d, true, log);
  if (status != VKF_ERROR_UNSUPPORTED) return status;
  vkf_context_destroy(&d->context);
  return driver_try(d, false, log);
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

static inline int driver_setup(void **state) {
  static driver d;
  driver_open(&d);
  *state = &d;
  return 0;
}

/* Without the layer, where a test submits too often for it and others show it the same commands. */
static inline int driver_setup_plain(void **state) {
  static driver d;
  memset(&d, 0, sizeof d);
  driver_ok(&d, driver_try(&d, false, driver_print));
  *state = &d;
  return 0;
}

static inline int driver_teardown(void **state) {
  driver_close(*state);
  return 0;
}
/* One device for all tests of a program, so that each kernel is compiled once. DRIVER_MAIN_SHARED closes it last. */
static inline driver *driver_shared(void) {
  static driver d;
  return &d;
}

static inline int driver_setup_shared(void **state) {
  if (!driver_shared()->device) driver_open(driver_shared());
  *state = driver_shared();
  return 0;
}

static inline void driver_closes(void **state) {
  (void)state;
  driver_close(driver_shared());
}

#define DRIVER_MAIN_SHARED(...) DRIVER_MAIN(__VA_ARGS__, cmocka_unit_test(driver_closes))
#define DRIVER_TEST(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)
#define DRIVER_TEST_PLAIN(name) cmocka_unit_test_setup_teardown(name, driver_setup_plain, driver_teardown)
#define DRIVER_MAIN(...)                                                  \
  int main(void) {                                                        \
    const struct CMUnitTest tests[] = {__VA_ARGS__};                      \
    int missing = driver_missing();                                       \
    return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL); \
  }

#endif
