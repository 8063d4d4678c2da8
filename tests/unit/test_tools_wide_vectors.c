/* When the program asks for vectors of 512 bits, and that it asks by what the processor says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/wide_vectors.h"

static void wide_vectors_need_the_processor_and_nobody_against(void **state) {
  (void)state;
  assert_true(tool_wants_wide_vectors(true, NULL, false));
  assert_false(tool_wants_wide_vectors(false, NULL, false));
  assert_false(tool_wants_wide_vectors(true, NULL, true));
  assert_false(tool_wants_wide_vectors(true, "256", false)); /* what stands in the environment stays */
  assert_false(tool_wants_wide_vectors(true, "", false));
}

/* A folder in the one that Mesa would take. */
static void wide_vectors_have_a_cache_of_their_own(void **state) {
  (void)state;
  char parent[32], folder[32];
  volatile size_t small = 16; /* a number that no compiler warns of */
  assert_true(tool_wide_vectors_cache("/m", "/x", "/h", parent, folder, sizeof folder));
  assert_string_equal(parent, "/m");
  assert_string_equal(folder, "/m/mesa-512-bits");
  assert_true(tool_wide_vectors_cache(NULL, "/x", "/h", parent, folder, sizeof folder));
  assert_string_equal(folder, "/x/mesa-512-bits");
  assert_true(tool_wide_vectors_cache("", "", "/h", parent, folder, sizeof folder));
  assert_string_equal(parent, "/h/.cache");
  assert_string_equal(folder, "/h/.cache/mesa-512-bits");
  assert_false(tool_wide_vectors_cache(NULL, NULL, NULL, parent, folder, sizeof folder));
  assert_false(tool_wide_vectors_cache("/m", NULL, NULL, parent, folder, small));
}

/* The kernel's own list of what the processor has. */
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
  if (!found) skip();
  assert_int_equal(tool_cpu_has_avx512(), listed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wide_vectors_need_the_processor_and_nobody_against),
      cmocka_unit_test(wide_vectors_have_a_cache_of_their_own),
      cmocka_unit_test(the_processor_is_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
