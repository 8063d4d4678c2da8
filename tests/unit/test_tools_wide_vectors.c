/* When the program asks for vectors of 512 bits, what it knows of the processor, and the cache of each width. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/wide_vectors.h"

static void wide_vectors_need_the_processor_and_nobody_against(void **state) {
  (void)state;
  assert_int_equal(tool_vector_width(true, NULL, false), 512);
  assert_int_equal(tool_vector_width(false, NULL, false), 0);
  assert_int_equal(tool_vector_width(true, NULL, true), 0);
  assert_int_equal(tool_vector_width(true, "256", false), 256); /* what the environment has stays */
  assert_int_equal(tool_vector_width(false, "128", true), 128);
  assert_int_equal(tool_vector_width(true, "", false), 0);
}

/* The cache is a folder in the one that Mesa would take. */
static void every_width_has_a_cache_of_its_own(void **state) {
  (void)state;
  char parent[32], folder[32];
  volatile size_t small = 16; /* volatile, so that no compiler warns */
  assert_true(tool_vectors_cache(512, "/m", "/x", "/h", parent, folder, sizeof folder));
  assert_string_equal(parent, "/m");
  assert_string_equal(folder, "/m/lavapipe-512-bits");
  assert_true(tool_vectors_cache(128, NULL, "/x", "/h", parent, folder, sizeof folder));
  assert_string_equal(folder, "/x/lavapipe-128-bits");
  assert_true(tool_vectors_cache(512, "", "", "/h", parent, folder, sizeof folder));
  assert_string_equal(parent, "/h/.cache");
  assert_string_equal(folder, "/h/.cache/lavapipe-512-bits");
  assert_false(tool_vectors_cache(512, NULL, NULL, NULL, parent, folder, sizeof folder));
  assert_false(tool_vectors_cache(512, "/m", NULL, NULL, parent, folder, small));
}

/* The processes that `tune` starts inherit the environment, so it may already have the folder of a width. */
static void a_cache_is_put_into_no_other(void **state) {
  (void)state;
  char parent[64], folder[64];
  assert_true(tool_vectors_cache(512, "/m/lavapipe-512-bits", NULL, NULL, parent, folder, sizeof folder));
  assert_string_equal(parent, "/m");
  assert_string_equal(folder, "/m/lavapipe-512-bits");
  assert_true(tool_vectors_cache(256, "/m/lavapipe-512-bits", NULL, NULL, parent, folder, sizeof folder));
  assert_string_equal(folder, "/m/lavapipe-512-bits/lavapipe-256-bits");
}

/* /proc stands for a full disk. A folder that does not exist has no index, so it counts as having room. */
static void a_full_disk_has_no_cache(void **state) {
  (void)state;
  assert_false(tool_cache_has_room("/proc"));
  assert_true(tool_cache_has_room("/nowhere"));
}

/* Compares with the kernel's list of what the processor has; under qemu-user that is another processor's. */
static void the_processor_is_asked(void **state) {
  (void)state;
  static char line[1 << 14];
  FILE *file = fopen("/proc/cpuinfo", "r");
  bool found = false, listed = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    found = strncmp(line, "flags", 5) == 0;
    listed = found && strstr(line, " avx512f") != NULL;
  }
  if (file) fclose(file);
#if !defined(__x86_64__) && !defined(__i386__)
  found = false;
#endif
  if (!found) skip();
  assert_int_equal(tool_cpu_has_avx512(), listed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wide_vectors_need_the_processor_and_nobody_against),
      cmocka_unit_test(every_width_has_a_cache_of_its_own),
      cmocka_unit_test(a_cache_is_put_into_no_other),
      cmocka_unit_test(a_full_disk_has_no_cache),
      cmocka_unit_test(the_processor_is_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
