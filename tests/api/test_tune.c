/* The command `tune` from outside, with its own cache folder: the times that it keeps and that later runs use, a child
 * that hangs, export and import, caches that are damaged or open to other users, and several tuners at once.
 *
 * In a command $V is the program, $T a fresh folder and $VKF_CACHE_DIR the cache folder $T/cache.
 */
#include <signal.h>
#include <time.h>

#include "support/program.h"
#include "support/range.h"

#define PROBLEMS "--problem matmul:4,32,64 --problem norm:8,64 --seconds 0.001 "

static int prepare(void **state) {
  (void)state;
  if (program_setup(":") != 0) return -1;
  char cache[64];
  snprintf(cache, sizeof cache, "%s/cache", program_folder);
  return setenv("VKF_CACHE_DIR", cache, 1);
}

static void times_are_kept_and_used(void **state) {
  (void)state;
  program_must("$V kernels norm:8,64", 0, "* 1", NULL);
  assert_null(strstr(program_out, "measured on"));
  program_must("$V tune " PROBLEMS, 0, "2 problems, ", NULL);
  if (!strstr(program_out, "matmul:4,32,64 ") || !strstr(program_out, "norm:8,64 ") ||
      !strstr(program_out, " 0 s left"))
    fail_msg("expected a line a problem with the time left, found\n%s", program_out);
  program_must("grep -c '\"by\": \"tune\"' $T/cache/tuned.json", 0, NULL, NULL);
  assert_between(atoi(program_out), 4, 100); /* every candidate, not the best alone */
  program_must("$V kernels norm:8,64", 0, "us, measured on this device", NULL);
  program_must("$V kernels --problem matmul:4,32,64", 0, "us, measured on this device", NULL);
  program_must("n=$(grep -c '\"by\": \"tune\"' $T/cache/tuned.json); $V doctor | grep \"tuning .* $n measured times\"",
               0, "measured times of kernels", NULL);
  /* Measured times decide: here the slowest kernel is made the fastest by hand. */
  program_must(
      "k=$(grep -o 'norm-[a-z0-9-]*' $T/cache/tuned.json | sort -u | tail -1); cp $T/cache/tuned.json $T/kept.json; "
      "sed -i -z \"s/\\(\\\"$k\\\",\\s*\\\"ns\\\": \\)[0-9]*/\\11/g\" $T/cache/tuned.json; "
      "$V kernels norm:8,64 | grep \"[*] 1  $k \"; cp $T/kept.json $T/cache/tuned.json",
      0, "0.0 us, measured on this device", NULL);
}

/* The child gets the options of the device, too, so that every kernel fits there. */
static void the_child_has_the_options(void **state) {
  (void)state;
  static const char *const options[] = {"--no-wide-vectors", "--deterministic"};
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    char command[200];
    snprintf(command, sizeof command, "export VKF_CACHE_DIR=$T/options%zu; $V tune %s " PROBLEMS, i, options[i]);
    program_must(command, 0, " 0 s left", NULL);
    if (strstr(program_err, "left out") || strstr(program_err, "no GPU was found"))
      fail_msg("%s: expected that the child measures the same device, found\n%s", options[i], program_err);
  }
}

static void checks_run_once(void **state) {
  (void)state;
  program_must("export VKF_CACHE_DIR=$T/checks; $V kernels -v norm:8,64", 0, "* 1",
               "running the checks of the driver, once");
  program_must("export VKF_CACHE_DIR=$T/checks; $V kernels -v norm:8,64", 0, "* 1", "chosen");
  assert_null(strstr(program_err, "running the checks"));
  program_must("export VKF_CACHE_DIR=$T/checks; $V devices -v --json", 0, "\"check\": \"subgroup_shuffle\"", NULL);
  assert_null(strstr(program_out, "failed"));
  program_must("export VKF_CACHE_DIR=$T/checks; $V kernels norm:8,64 --deterministic; cat $T/checks/tuned.json", 0,
               "\"check\": \"reproducible:", NULL);
  /* A failure that is kept in the cache counts: kernels that need the feature do not fit, and the messages say so. */
  program_must(
      "export VKF_CACHE_DIR=$T/checks; sed -i -z 's/\\(\"subgroup_shuffle:[0-9,x]*\",\\s*\"found\": \"\\)/\\1as "
      "planted/; "
      "s/\\(\"rounding\",\\s*\"found\": \"\\)/\\1other bits/' $T/checks/tuned.json; $V kernels norm:8,64",
      0, "does not fit: the device has no subgroup shuffle that passes its check",
      "subgroup shuffle failed its check and is not used: as planted");
  program_must("export VKF_CACHE_DIR=$T/checks; $V devices -v", 0, "failed: as planted", NULL);
  program_must("export VKF_CACHE_DIR=$T/checks; $V kernels norm:8,64 --deterministic", 4, "",
               "the reproducible mode is refused on ");
}

static void files_travel(void **state) {
  (void)state;
  program_must("$V tune --export $T/mine.json", 0, NULL, NULL);
  program_must("export VKF_CACHE_DIR=$T/other; $V tune --export $T/none.json", 4, NULL, "nothing was measured");
  program_must("export VKF_CACHE_DIR=$T/other; $V tune --import $T/mine.json && $V kernels norm:8,64", 0,
               "measured on this device", NULL);
  program_must(
      "sed 's/\"driver_version\": [0-9]*/\"driver_version\": 77777/' $T/mine.json > $T/older.json; "
      "export VKF_CACHE_DIR=$T/third; $V tune --import $T/older.json && $V kernels norm:8,64",
      0, "of the same architecture", NULL);
  program_must("export VKF_CACHE_DIR=$T/third; $V doctor", 0, "not tuned, kernels are chosen by rules", NULL);
  program_must(
      "sed 's/\"table\": \"[0-9a-f]*/\"table\": \"1/' $T/mine.json > $T/table.json; "
      "export VKF_CACHE_DIR=$T/fourth; $V tune --import $T/table.json && $V kernels norm:8,64",
      0, "0 times taken in", "other kernels");
  assert_null(strstr(program_out, "measured on"));
  program_must("export VKF_CACHE_DIR=; $V tune --import $T/mine.json", 4, "",
               "that measured times can be kept in, found none");
  program_must("echo '{' > $T/broken.json; $V tune --import $T/broken.json", 4, NULL, "expected JSON");
}

static void a_bad_cache_is_no_error(void **state) {
  (void)state;
  program_must(
      "mkdir $T/bad; chmod 700 $T/bad; echo '{' > $T/bad/tuned.json; export VKF_CACHE_DIR=$T/bad; $V kernels norm:8,64",
      0, "* 1", "tuned times are not used");
  /* The file is read once more before it is replaced, but only one warning is printed. */
  program_must(
      "rm -r $T/bad/*; echo '{' > $T/bad/tuned.json; export VKF_CACHE_DIR=$T/bad; $V kernels norm:8,64 2>&1 | "
      "grep -c 'tuned times are not used'; grep -c '\"format\"' $T/bad/tuned.json",
      0, "1\n1\n", "");
  program_must(
      "cp $T/kept.json $T/bad/tuned.json; chmod 666 $T/bad/tuned.json; export VKF_CACHE_DIR=$T/bad; "
      "$V kernels norm:8,64",
      0, "* 1", "other users may write it");
  assert_null(strstr(program_out, "measured on"));
  /* A folder that other users may write: one warning. */
  program_must(
      "mkdir $T/others; chmod 777 $T/others; export VKF_CACHE_DIR=$T/others; $V kernels norm:8,64 2>&1 | "
      "grep -c 'not used as a cache'",
      0, "1", NULL);
  program_must("touch $T/none; export VKF_CACHE_DIR=$T/none/cache; $V kernels norm:8,64 -v", 0, "* 1", "chosen");
  assert_null(strstr(program_err, "running the checks"));
  program_must("export VKF_CACHE_DIR=$T/none/cache; $V devices -v | grep ' ok$'", 0, "shared memory", NULL);
  program_must("touch $T/file; export VKF_CACHE_DIR=$T/file/cache; $V kernels norm:8,64 -v", 0, "* 1",
               "cannot be created");
}

/* A cache of a later version is neither used nor changed. */
static void a_later_format_is_left_alone(void **state) {
  (void)state;
  program_must(
      "mkdir -m 700 $T/later; sed 's/tuned kernels 1/tuned kernels 2/' $T/kept.json > $T/later/tuned.json; "
      "cp $T/later/tuned.json $T/later.json; export VKF_CACHE_DIR=$T/later; $V kernels norm:8,64",
      0, "* 1", "tuned times are not used, and none are kept: tuned.json: expected the format");
  program_must("export VKF_CACHE_DIR=$T/later; $V tune --problem norm:8,64 --seconds 0.001", 4, "",
               "/later, whose tuned.json is of a later version");
  program_must("cmp $T/later/tuned.json $T/later.json", 0, "", "");
}

/* A limit on the size of files stands for a full disk. Newer lavapipe (Mesa 26) keeps its memory in files and dies of a
 * bus error (135) under such a limit, which is accepted only there. unit.tune_tuned tests the same without a driver. */
static void a_full_disk_is_named(void **state) {
  (void)state;
  program_must(
      "(trap '' XFSZ; ulimit -f 0; VKF_CACHE_DIR=$T/full $V tune --problem norm:8,64 --seconds 0.001; "
      "echo exit $?) 2>&1 | cat",
      0, NULL, NULL);
  if (strstr(program_out, "exit 135")) {
    program_must("$V devices | grep -c 'Mesa 22'", 1, "0\n", NULL);
    return;
  }
  assert_non_null(strstr(program_out, "tuned.json: cannot be written: File too large"));
  assert_non_null(strstr(program_out, "exit 4"));
}

/* Nothing is measured if the times could not be kept. */
static void tuning_needs_a_place_for_its_times(void **state) {
  (void)state;
  program_must("export VKF_CACHE_DIR=$T/file/cache; $V tune --problem norm:8,64 --seconds 0.001", 4, "",
               "expected a cache folder that measured times can be kept in, found ");
  program_must("export VKF_CACHE_DIR=; $V tune --problem norm:8,64 --seconds 0.001", 4, "", "found none");
  program_must("export VKF_CACHE_DIR=$T/file/cache; $V tune --problem norm:8,64 --seconds 0.001 --export $T/e.json", 0,
               "norm-", NULL);
  assert_non_null(strstr(program_out, "\n1 problem, "));
  program_must("grep -c '\"by\": \"tune\"' $T/e.json", 0, NULL, "");
}

/* Tuners that run at the same time lose no times. Compiled kernels may be in the folder, too. */
static void two_tuners_keep_both(void **state) {
  (void)state;
  program_must(
      "export VKF_CACHE_DIR=$T/two; for p in norm:8,64 norm:4,64 norm:2,64 norm:1,64; do "
      "$V tune --problem $p --seconds 0.001 & done; wait; grep -o 'norm:[0-9]*,64' $T/two/tuned.json | sort -u | wc "
      "-l; ls --ignore='pipelines-*' $T/two",
      0, "4\nlock\ntuned.json\n", NULL);
}

/* Returns the first child of `parent`; 0: it has none. */
static pid_t child_of(pid_t parent) {
  char path[64];
  int child = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%d", &child) != 1) child = 0;
  if (file) fclose(file);
  return child;
}

/* Stops the first child before it can answer, as if its kernel never ended. */
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
  if (program_ended(status) || !strstr(program_err, "gave no answer within 3 s") || !strstr(program_out, "norm:8,64"))
    fail_msg("expected what it measured left out, found status %d\n--- out\n%s--- err\n%s---", status, program_out,
             program_err);
  assert_int_equal(kill(child, 0), -1); /* it is gone */
}

PROGRAM_MAIN(prepare, cmocka_unit_test(times_are_kept_and_used), cmocka_unit_test(the_child_has_the_options),
             cmocka_unit_test(checks_run_once), cmocka_unit_test(files_travel),
             cmocka_unit_test(a_bad_cache_is_no_error), cmocka_unit_test(a_later_format_is_left_alone),
             cmocka_unit_test(a_full_disk_is_named), cmocka_unit_test(tuning_needs_a_place_for_its_times),
             cmocka_unit_test(two_tuners_keep_both), cmocka_unit_test(a_child_that_hangs_is_left_behind))
