/* Runs the program by shell commands and checks their exit codes and what they print.
 *
 * In a command $V is the program, $G the golden folders and $T a fresh folder, which is removed when the tests have
 * run. */
#ifndef VKF_TESTS_SUPPORT_PROGRAM_H
#define VKF_TESTS_SUPPORT_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/missing.h"
#include "support/sessions.h"

static char program_folder[] = "/tmp/vkformer-test-XXXXXX"; /* $T */
static char program_out[1 << 16], program_err[1 << 16];     /* what the last command printed */

static inline void program_read(const char *name, char *text, size_t size) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", program_folder, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t n = fread(text, 1, size - 1, file);
  text[n] = 0;
  fclose(file);
}

/* Reads $T/out and $T/err of a command and returns its exit code, or 1000 if it did not exit by itself. */
static inline int program_ended(int status) {
  program_read("out", program_out, sizeof program_out);
  program_read("err", program_err, sizeof program_err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static inline int program_run(const char *command) {
  char line[4096];
  assert_true(snprintf(line, sizeof line, "( %s ) >$T/out 2>$T/err </dev/null", command) < (int)sizeof line);
  return program_ended(system(line));
}

static inline int program_holds(const char *text, const char *piece) {
  return !piece || (piece[0] ? strstr(text, piece) != NULL : text[0] == 0);
}

/* Runs a command and checks its exit code. out and err are pieces of what it prints; NULL: anything, "": nothing. */
static inline void program_must(const char *command, int exit_code, const char *out, const char *err) {
  int found = program_run(command);
  if (found != exit_code || !program_holds(program_out, out) || !program_holds(program_err, err))
    fail_msg("%s\nexpected exit %d, out '%s', err '%s'\nfound exit %d\n--- out\n%s--- err\n%s---", command, exit_code,
             out ? out : "...", err ? err : "...", found, program_out, program_err);
}

/* A command with the other arguments of program_must(). */
typedef struct program_row {
  const char *command;
  int exit_code;
  const char *out, *err;
} program_row;

static inline void program_rows(const program_row *rows, size_t n) {
  for (size_t i = 0; i < n; i++) program_must(rows[i].command, rows[i].exit_code, rows[i].out, rows[i].err);
}
#define PROGRAM_ROWS(rows) program_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static inline void program_ok(vkf_context *context, vkf_status status) {
  if (status != VKF_OK) fail_msg("%s", last_message(context));
}

/* Sets the variables of commands and runs `script`, which fills $T. Returns 0 on success. */
static inline int program_setup(const char *script) {
  if (!mkdtemp(program_folder)) return -1;
  setenv("T", program_folder, 1);
  setenv("V", VKF_BINARY_DIR "/vkformer", 1);
  setenv("G", VKF_SOURCE_DIR "/tests/golden", 1);
  setenv("INVARIANT", driver_is_gpu() ? "--batch-invariant" : "", 1); /* of commands whose bits are compared */
  return system(script);
}

static inline int program_teardown(void **state) {
  (void)state;
  return system("rm -rf $T");
}

#define PROGRAM_MAIN(prepare, ...)                                                       \
  int main(void) {                                                                       \
    const struct CMUnitTest tests[] = {__VA_ARGS__};                                     \
    int missing = driver_missing();                                                      \
    return missing ? missing : cmocka_run_group_tests(tests, prepare, program_teardown); \
  }

#endif
