/* The command tune from outside, with a cache folder of its own: what it keeps and what runs make of it, a child that
 * hangs, files that go from machine to machine, caches that are damaged or somebody else's, and two tuners at once.
 *
 * In a command $V is the program, $T a fresh folder and $VKF_CACHE_DIR the cache folder $T/cache.
 */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <vkformer/vkformer.h>

static char folder[] = "/tmp/vkformer-tune-XXXXXX", out[1 << 16], err[1 << 16];

#define PROBLEMS "--problem matmul:4,32,64 --problem norm:8,64 --seconds 0.001 "

static void read_file(const char *name, char *text, size_t size) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t n = fread(text, 1, size - 1, file);
  text[n] = 0;
  fclose(file);
}

static int run(const char *command) {
  char line[4096];
  assert_true(snprintf(line, sizeof line, "( %s ) >$T/out 2>$T/err </dev/null", command) < (int)sizeof line);
  int status = system(line);
  read_file("out", out, sizeof out);
  read_file("err", err, sizeof err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void must(const char *command, int exit_code, const char *in_out, const char *in_err) {
  int found = run(command);
  if (found != exit_code || !strstr(out, in_out) || !strstr(err, in_err))
    fail_msg("%s\nexpected exit %d, '%s' and '%s'\nfound exit %d\n--- out\n%s--- err\n%s---", command, exit_code,
             in_out, in_err, found, out, err);
}

static int prepare(void **state) {
  char cache[64];
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(cache, sizeof cache, "%s/cache", folder);
  setenv("T", folder, 1);
  setenv("V", VKF_BINARY_DIR "/vkformer", 1);
  return setenv("VKF_CACHE_DIR", cache, 1);
}

static int clean(void **state) {
  (void)state;
  return system("rm -rf $T");
}

static void times_are_kept_and_used(void **state) {
  (void)state;
  must("$V kernels norm:8,64", 0, "* 1", "");
  assert_null(strstr(out, "measured on"));
  must("$V tune " PROBLEMS, 0, "2 problems, ", "");
  if (!strstr(out, "matmul:4,32,64 ") || !strstr(out, "norm:8,64 ") || !strstr(out, " 0 s left"))
    fail_msg("expected a line a problem with the time left, found\n%s", out);
  must("grep -c '\"by\": \"tune\"' $T/cache/tuned.json", 0, "", "");
  assert_in_range(atoi(out), 4, 100); /* every candidate, not the best alone */
  must("$V kernels norm:8,64", 0, "us, measured on this device", "");
  must("$V kernels --problem matmul:4,32,64", 0, "us, measured on this device", "");
  /* What was measured decides: the slowest is made the fastest by hand. */
  must(
      "k=$(grep -o 'norm-[a-z0-9-]*' $T/cache/tuned.json | sort -u | tail -1); cp $T/cache/tuned.json $T/kept.json; "
      "sed -i \"/$k/s/\\\"ns\\\": [0-9]*/\\\"ns\\\": 1/\" $T/cache/tuned.json; "
      "$V kernels norm:8,64 | grep \"[*] 1  $k \"; cp $T/kept.json $T/cache/tuned.json",
      0, "0.0 us, measured on this device", "");
}

static void files_travel(void **state) {
  (void)state;
  must("$V tune --export $T/mine.json", 0, "", "");
  must("export VKF_CACHE_DIR=$T/other; $V tune --export $T/none.json", 1, "", "nothing was measured");
  must("export VKF_CACHE_DIR=$T/other; $V tune --import $T/mine.json && $V kernels norm:8,64", 0,
       "measured on this device", "");
  must(
      "sed 's/\"driver_version\": [0-9]*/\"driver_version\": 77777/' $T/mine.json > $T/older.json; "
      "export VKF_CACHE_DIR=$T/third; $V tune --import $T/older.json && $V kernels norm:8,64",
      0, "of the same architecture", "");
  must(
      "sed 's/\"table\": \"[0-9a-f]*/\"table\": \"1/' $T/mine.json > $T/table.json; "
      "export VKF_CACHE_DIR=$T/fourth; $V tune --import $T/table.json && $V kernels norm:8,64",
      0, "0 times taken in", "other kernels");
  assert_null(strstr(out, "measured on"));
  must("echo '{' > $T/broken.json; $V tune --import $T/broken.json", 1, "", "expected JSON");
}

static void a_bad_cache_is_no_error(void **state) {
  (void)state;
  must(
      "mkdir $T/bad; chmod 700 $T/bad; echo '{' > $T/bad/tuned.json; export VKF_CACHE_DIR=$T/bad; $V kernels norm:8,64",
      0, "* 1", "tuned times are not used");
  must(
      "cp $T/kept.json $T/bad/tuned.json; chmod 666 $T/bad/tuned.json; export VKF_CACHE_DIR=$T/bad; "
      "$V kernels norm:8,64",
      0, "* 1", "other users may write it");
  assert_null(strstr(out, "measured on"));
  must("touch $T/file; export VKF_CACHE_DIR=$T/file/cache; $V tune --problem norm:8,64 --seconds 0.001 -v", 0, "norm-",
       "cannot be made");
}

static void two_tuners_keep_both(void **state) {
  (void)state;
  must(
      "export VKF_CACHE_DIR=$T/two; for p in norm:8,64 norm:4,64 norm:2,64 norm:1,64; do "
      "$V tune --problem $p --seconds 0.001 & done; wait; grep -o 'norm:[0-9]*,64' $T/two/tuned.json | sort -u | wc "
      "-l; "
      "ls $T/two",
      0, "4\nlock\ntuned.json\n", "");
}

/* The child of `parent`, 0 if it has none. */
static pid_t child_of(pid_t parent) {
  char path[64];
  int child = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%d", &child) != 1) child = 0;
  if (file) fclose(file);
  return child;
}

/* The first child is stopped before it can answer, as if its kernel never ended. */
static void a_child_that_hangs_is_left_behind(void **state) {
  (void)state;
  const struct timespec pause = {0, 1000 * 1000};
  pid_t child = 0, tuner = fork();
  if (!tuner) {
    execl("/bin/sh", "sh", "-c", "exec \"$V\" tune --limit 3 " PROBLEMS ">$T/out 2>$T/err", (char *)NULL);
    _exit(127);
  }
  assert_true(tuner > 0);
  for (int i = 0; i < 20000 && !child; i++) {
    child = child_of(tuner);
    nanosleep(&pause, NULL);
  }
  assert_true(child > 0);
  assert_int_equal(kill(child, SIGSTOP), 0);
  int status = 0;
  assert_int_equal(waitpid(tuner, &status, 0), tuner);
  read_file("out", out, sizeof out);
  read_file("err", err, sizeof err);
  if (!WIFEXITED(status) || WEXITSTATUS(status) || !strstr(err, "gave no answer within 3 s") ||
      !strstr(out, "norm:8,64"))
    fail_msg("expected one candidate left out, found status %d\n--- out\n%s--- err\n%s---", status, out, err);
  assert_int_equal(kill(child, 0), -1); /* it is gone */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_are_kept_and_used),           cmocka_unit_test(files_travel),
      cmocka_unit_test(a_bad_cache_is_no_error),           cmocka_unit_test(two_tuners_keep_both),
      cmocka_unit_test(a_child_that_hangs_is_left_behind),
  };
  const char *driver = getenv("VKF_DEVICE");
  char command[512];
  if (driver) { /* a driver that is missing is a skip, or a failure where it is required */
    snprintf(command, sizeof command, "%s/vkformer devices --json | grep -q '\"alias\": \"%s\"'", VKF_BINARY_DIR,
             driver);
    if (system(command) != 0) return getenv("VKF_REQUIRE_DRIVERS") ? 1 : 77;
  }
  return cmocka_run_group_tests_name("tune", tests, prepare, clean);
}
