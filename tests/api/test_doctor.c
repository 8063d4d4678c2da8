/* What `doctor` says if something is missing or broken: no loader, no driver, broken manifests, a driver that crashes,
 * a check that fails, wrong results, nowhere to write. In a command $L is the manifest of the driver under test.
 */
#include "support/documented.h"

static int prepare(void **state) {
  (void)state;
  const char *manifest = getenv("VK_DRIVER_FILES");
  setenv("L", manifest ? manifest : "", 1);
  setenv("CRASHING", VKF_CRASHING, 1);
  return program_setup(
      "mkdir $T/loader && for n in libvulkan.so libvulkan.so.1; do " /* a library, but no loader */
      "cp $(ldd $V | sed -n 's/.*libm[.]so.* => \\([^ ]*\\).*/\\1/p') $T/loader/$n || exit 1; done\n"
      "echo '{' > $T/syntax.json; echo '{\"ICD\": {}}' > $T/empty.json\n"
      "echo '{\"ICD\": {\"library_path\": \"./nosuch.so\", \"api_version\": \"1.1.0\"}}' > $T/library.json\n"
      "echo '{\"ICD\": {\"library_path\": \"./loader/libvulkan.so.1\", \"api_version\": \"1.1.0\"}}' > $T/other.json\n"
      "echo \"{\\\"file_format_version\\\": \\\"1.0.0\\\", \\\"ICD\\\": {\\\"library_path\\\": \\\"$CRASHING\\\", "
      "\\\"api_version\\\": \\\"1.1.0\\\"}}\" > $T/crash.json");
}

#define ONLY(files) "VK_DRIVER_FILES=" files " VK_ICD_FILENAMES=" files " $V doctor"

/* With a loader and one driver that computes on the CPU nothing is wrong. */
static void test_one_driver(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V doctor --report $T/report > $T/text && cat $T/text", 0, "results are within their bounds", ""},
      {"cat $T/text", 0, "the Vulkan loader lists 1 device\n", ""},
      {"cat $T/text", 0, "the CPU computes", ""},
      {"cat $T/text", 0, "checks of the driver passed", ""},
      {"cat $T/text", 0, "nothing is kept between runs", ""}, /* VKF_CACHE_DIR is "" in tests */
      {"cat $T/text", 0, "\nNothing is wrong.\n\nWhat could be better:\n  1. ", ""},
      {"grep -c '^fault\\|^warning' $T/text", 1, "0\n", ""},
      {"head -n $(wc -l < $T/text) $T/report | cmp - $T/text && grep -c 'vkformer-doctor/1\\|max_shared_bytes' "
       "$T/report",
       0, "2\n", ""},
      {"$V doctor --report $T/nosuch/report", 4, "", "nosuch/report"},
      {"$V doctor more", 2, "", "expected no arguments"},
  };
  PROGRAM_ROWS(rows);
  assert_int_equal(program_run("$V doctor --json"), 0);
  program_must_be_documented();
}

/* Colours are printed only to a terminal, and not with NO_COLOR; the progress bar of a model only to a terminal. */
static void test_terminal(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"TERM=xterm script -qec '$V doctor' /dev/null | grep -c '^.\\[32mok      .\\[0m device '", 0, "1\n", ""},
      {"TERM=xterm NO_COLOR=1 script -qec '$V doctor' /dev/null | grep -c '\\[32m'", 1, "0\n", ""},
      {"script -qec '$V translate hello' /dev/null | grep -c '\\[####.* MB'", 0, "1\n", ""},
      {"$V translate hello 2>&1 | grep -c MB", 1, "0\n", ""},
  };
  if (program_run("script -qec true /dev/null") != 0) skip(); /* a container without pseudo-terminals */
  PROGRAM_ROWS(rows);
}

static void test_no_loader_or_driver(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"LD_LIBRARY_PATH=$T/loader $V doctor", 3, "apt install libvulkan1", ""},
      {"LD_LIBRARY_PATH=$T/loader $V doctor --json | grep -A1 -B1 '\"fault\"' | grep -c 'loader\"\\|Vulkan loader'", 0,
       "2\n", ""},
      {"LD_LIBRARY_PATH=$T/loader $V doctor | grep -A1 'What to do'", 0, "  1. loader: install it", ""},
      {"LD_LIBRARY_PATH=$T/loader $V doctor | grep -c '^fault    loader .*Vulkan loader'", 0, "1\n", ""},
      {ONLY("/nosuch.json"), 3, "/nosuch.json: cannot be read", ""},
      {ONLY("/nosuch.json"), 3, "no Vulkan device can be used", ""},
      /* If the variables are empty, most loaders look nowhere; doctor must not report drivers that they do not find. */
      {"export VK_DRIVER_FILES= VK_ICD_FILENAMES=; if $V devices --json | grep -q '\"kind\": \"software\"'; then echo "
       "looks elsewhere; else $V doctor > $T/text; test $? = 3 && cat $T/text; fi | "
       "grep -c 'looks elsewhere\\|^fault    driver .*is set and empty: expected a driver manifest'",
       0, "1\n", ""},
      {"mkdir $T/none; " ONLY("$T/none") " --report $T/text > /dev/null; s=$?; cat $T/text; exit $s", 3,
       "/none: expected a driver manifest (.json), found none, and the Vulkan loader looks nowhere else\n", ""},
      {"grep -A1 'What to do' $T/text", 0, "  1. driver: unset VK_DRIVER_FILES and VK_ICD_FILENAMES, and the loader",
       ""},
      {"grep -c '\"text\": \".*none: expected a driver manifest' $T/text", 0, "1\n", ""},
      {"cd /; env -u VK_DRIVER_FILES -u VK_ICD_FILENAMES -u HOME XDG_CONFIG_DIRS=$T/none XDG_DATA_DIRS=$T/none "
       "$V doctor | grep 'apt install mesa-vulkan-drivers' || ls /etc/vulkan/icd.d /usr/local/etc/vulkan/icd.d",
       0, NULL, NULL},
      {ONLY("$T/none") " > /dev/null; VK_DRIVER_FILES=$T/none VK_ICD_FILENAMES=$T/none $V translate hello", 3, "",
       "`vkformer doctor` says why"},
  };
  PROGRAM_ROWS(rows);
}

/* Says what is wrong with a manifest, also if it keeps the loader from listing the other driver. */
static void test_broken_manifests(void **state) {
  (void)state;
  static const program_row rows[] = {
      {ONLY("$T/syntax.json:$L") " > $T/text; cat $T/text", 0, "syntax.json: expected JSON, found at line ", NULL},
      {"grep -c '^ok       device' $T/text", 0, "1\n", ""},
      {ONLY("$T/empty.json"), 3, "empty.json: expected ICD.library_path, found none", NULL},
      {ONLY("$T/syntax.json") " --report $T/text", 3, "syntax.json: expected JSON, found at line ", ""},
      /* Newer loaders make an instance even without a device. */
      {"grep 'the Vulkan loader is there and lists no device' $T/text || "
       "grep 'the devices cannot be listed, so no command works: vkCreateInstance returned VK_ERROR_' $T/text",
       0, NULL, NULL},
      {"if grep -q 'lists no device' $T/text; then a='driver: reinstall the package of'; else "
       "a='loader: repair or remove the drivers that are at fault below$'; fi; "
       "grep -A1 'What to do' $T/text | grep \"^  1. $a\"",
       0, NULL, NULL},
      {"grep -c '\"advice\": \"reinstall the package of .*/syntax.json (Debian: `dpkg -S .*/syntax.json`' $T/text", 0,
       "1\n", ""},
      /* Only files are read: reading a pipe that nobody writes to would never end. */
      {"mkfifo $T/pipe.json; mkdir $T/folder.json; timeout 60 $V doctor --icd $T/pipe.json --icd $T/folder.json > "
       "$T/text; echo $?",
       0, "3\n", ""},
      {"grep '^fault' $T/text", 0, "pipe.json: expected a driver manifest, found a pipe\n", ""},
      {"grep '^fault' $T/text", 0, "folder.json: expected a driver manifest, found a folder\n", ""},
      /* A path must have no ':', because the loader splits its list there. */
      {"mkdir $T/a:b && cp $L $T/a:b/ && $V doctor --icd $T/a:b/${L##*/} > $T/text; echo $?", 0, "3\n", ""},
      {"grep '^fault    driver .*/a:b/.*: expected a driver manifest whose path has no' $T/text", 0, "found one\n", ""},
      {"$V devices --icd $T/a:b/${L##*/}", 4, "", "expected a driver manifest whose path has no ':', at which"},
      {ONLY("$T/library.json"), 3, "library.json: its library cannot be used: ", NULL},
      {ONLY("$T/other.json"), 3, "other.json: its library cannot be used: it is no Vulkan driver", NULL},
      {ONLY("$T/crash.json:$L") " > $T/text; s=$?; cat $T/text; exit $s", 3,
       "crash.json: it ended the process by signal 6", NULL},
      {"cat $T/text", 0, "fault    loader       the devices cannot be listed, so no command works: it ended", ""},
      {"grep -c '^ok       device' $T/text", 0, "1\n", ""},
  };
  PROGRAM_ROWS(rows);
}

static void test_two_drivers(void **state) {
  (void)state;
  if (!VKF_ICD_SECOND[0] || strstr(VKF_ICD_SECOND, "NOTFOUND")) skip();
  program_must(ONLY("$L:" VKF_ICD_SECOND) " | grep -c '^ok       driver\\|^ok       device\\|^ok       kernels'", 0,
               "6\n", "");
  program_must("$V doctor --icd " VKF_ICD_SECOND " > $T/text; grep -c '^ok       device' $T/text", 0, "2\n", "");
  program_must("cat $T/text", 0, "the Vulkan loader lists 2 devices\n", "");
}

/* A failed check is reported with what it found; the device is used without the feature. */
static void test_failed_check(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"VKF_CACHE_DIR=$T/cache $V devices -v > $T/o && "
       "sed -i '/\"check\": \"subgroup_shuffle/{n;s/\"\"/\"lane 3 was 9, expected 4\"/}' $T/cache/tuned.json && "
       "VKF_CACHE_DIR=$T/cache $V doctor --report $T/report > $T/text && cat $T/text",
       0, "lane 3 was 9, expected 4", NULL},
      {"grep -A1 'What to do' $T/text", 0, "  1. check: results are right all the same", ""},
      {"grep -B1 '\"text\": \".*lane 3 was 9' $T/report", 0, "\"state\": \"warning\"", ""},
      {"grep -c '^warning  check' $T/text", 0, "1\n", ""},
      {"grep -c '^ok       cache .*/cache$' $T/text", 0, "1\n", ""},
  };
  PROGRAM_ROWS(rows);
}

/* Wrong results are a fault with exit code 1. Here the reference is made wrong instead, which has the same effect. */
static void test_wrong_results(void **state) {
  (void)state;
  program_must("LD_PRELOAD=" VKF_WRONG_EXP " $V doctor", 1, "results are wrong, the first one: ", NULL);
}

static void test_nowhere_to_write(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"env -u VKF_CACHE_DIR -u XDG_CACHE_HOME HOME=/proc $V doctor --report $T/text > /dev/null 2> $T/log; cat "
       "$T/text",
       0, "/proc/.cache/vkformer: cannot be written: checks and the probe run at each start", ""},
      {"grep -A1 'What to do' $T/text", 0, "  1. cache: set VKF_CACHE_DIR to a folder", ""},
      {"grep -c '\"advice\": \"set VKF_CACHE_DIR to a folder' $T/text", 0, "1\n", ""},
      {"(trap '' XFSZ; ulimit -f 0; VKF_CACHE_DIR=$T/full $V doctor 2>/dev/null) | cat", 0,
       "/full: cannot be written (the disk is full, or nearly): checks and the probe run at each start", ""},
      {"VKF_CACHE_DIR=$T/room $V doctor 2>/dev/null; ls $T/room | grep -c trial", 1, "/room\n", ""},
      {"mkdir $T/open && chmod 777 $T/open && VKF_CACHE_DIR=$T/open $V doctor 2>/dev/null", 0,
       "another user could have written it, so it is not used", ""},
      {"VKF_CACHE_DIR=$T/text $V doctor 2>/dev/null", 0, "/text: it is no folder, or another user could", ""},
  };
  PROGRAM_ROWS(rows);
}

PROGRAM_MAIN(prepare, cmocka_unit_test(test_one_driver), cmocka_unit_test(test_terminal),
             cmocka_unit_test(test_no_loader_or_driver), cmocka_unit_test(test_broken_manifests),
             cmocka_unit_test(test_two_drivers), cmocka_unit_test(test_failed_check),
             cmocka_unit_test(test_wrong_results), cmocka_unit_test(test_nowhere_to_write))
