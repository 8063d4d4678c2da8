/* The file of compiled kernels: it is used only if it is whole, and a driver is given only bytes that it wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tune/compiled.h"
#include "gpu/vk.h"

static void a_file_is_whole_or_not_used(void **state) {
  (void)state;
  vkf_env env;
  size_t n_file = 0, n = 0;
  const char bytes[] = "what the driver wrote";
  vkf_env_init(&env, NULL);
  char *file = vkf_tune_compiled_wrap(&env, bytes, sizeof bytes, &n_file);
  const void *back = vkf_tune_compiled_unwrap(file, n_file, &n);
  assert_non_null(back);
  assert_int_equal(n, sizeof bytes);
  assert_memory_equal(back, bytes, n);
  for (size_t cut = 0; cut < n_file; cut++) {
    assert_null(vkf_tune_compiled_unwrap(file, cut, &n));
    assert_int_equal(n, 0);
  }
  for (size_t i = 0; i < n_file; i++) { /* one flipped bit */
    file[i] ^= 4;
    assert_null(vkf_tune_compiled_unwrap(file, n_file, &n));
    file[i] ^= 4;
  }
  vkf_env_free(&env, file);
  assert_int_equal(env.live_bytes, 0);
}

static void a_driver_gets_what_it_wrote_itself(void **state) {
  (void)state;
  const vkf_caps caps = {.vendor_id = 0x1002, .device_id = 0x73bf, .pipeline_cache_uuid = "0123456789abcde"};
  uint32_t words[10] = {32, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, 0x1002, 0x73bf};
  memcpy(words + 4, caps.pipeline_cache_uuid, 16);
  assert_true(vkf_gpu_pipeline_cache_fits(&caps, words, sizeof words));
  assert_true(vkf_gpu_pipeline_cache_fits(&caps, words, 32));
  assert_false(vkf_gpu_pipeline_cache_fits(&caps, words, 31));
  assert_false(vkf_gpu_pipeline_cache_fits(&caps, NULL, 0));
  for (size_t i = 0; i < 8; i++) { /* version, vendor, device, UUID; and a header longer than the bytes */
    const uint32_t kept = words[i];
    words[i] = i ? kept ^ 1 : sizeof words + 1;
    assert_false(vkf_gpu_pipeline_cache_fits(&caps, words, sizeof words));
    words[i] = kept;
  }
  words[0] = 16;
  assert_false(vkf_gpu_pipeline_cache_fits(&caps, words, sizeof words));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_is_whole_or_not_used),
      cmocka_unit_test(a_driver_gets_what_it_wrote_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
