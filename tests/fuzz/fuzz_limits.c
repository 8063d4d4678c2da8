/* Takes any bytes as a file of limits: no fact of a device may become larger. */
#include "fuzz.h"

#include "tune/limits.h"

static vkf_caps a_device(void) {
  return (vkf_caps){.max_shared_bytes = 32768,
                    .max_invocations = 1024,
                    .max_workgroup_size = {1024, 1024, 64},
                    .max_texel_elements = 1 << 27,
                    .max_loop_turns = UINT32_MAX,
                    .max_push_bytes = 256,
                    .max_allocation_bytes = UINT64_C(1) << 31,
                    .max_storage_range_bytes = 1 << 27,
                    .subgroup_size = 8,
                    .subgroup_min = 4,
                    .subgroup_max = 16,
                    .subgroup_size_control = true,
                    .subgroup_shuffle = true,
                    .storage16 = true};
}

static void check(const vkf_caps *before, const vkf_caps *after) {
  FUZZ_CHECK(after->max_shared_bytes <= before->max_shared_bytes);
  FUZZ_CHECK(after->max_invocations <= before->max_invocations && after->max_invocations > 0);
  for (int i = 0; i < 3; i++) FUZZ_CHECK(after->max_workgroup_size[i] <= before->max_workgroup_size[i]);
  FUZZ_CHECK(after->max_texel_elements <= before->max_texel_elements);
  FUZZ_CHECK(after->max_loop_turns <= before->max_loop_turns);
  FUZZ_CHECK(after->max_push_bytes <= before->max_push_bytes);
  FUZZ_CHECK(after->max_allocation_bytes <= before->max_allocation_bytes);
  FUZZ_CHECK(after->max_storage_range_bytes <= before->max_storage_range_bytes);
  FUZZ_CHECK(after->subgroup_min >= before->subgroup_min && after->subgroup_max <= before->subgroup_max);
  FUZZ_CHECK(!after->float16 && !after->timestamps && !after->int64); /* which it does not have */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[512];
  vkf_env env;
  const vkf_caps before = a_device();
  vkf_caps caps = before;
  vkf_env_init(&env, NULL);
  FUZZ_CHECK(tiny_put(fuzz_folder(), "config.json", data, size));
  snprintf(path, sizeof path, "%s/config.json", fuzz_folder());
  if (fuzz_check_status(&env, vkf_tune_limits_apply(&env, path, &caps)) == VKF_OK) check(&before, &caps);
  fuzz_end(&env);
  return 0;
}
