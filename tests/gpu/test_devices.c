/* Tests the list of devices, their facts, additional manifests, and making a device. */
#include "fixture.h"

static void facts_are_plausible(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  const vkf_caps *caps = vkf_gpu_device_caps(g->device);
  assert_true(caps->is_cpu == (caps->kind == VKF_DEVICE_CPU));
  assert_true(caps->is_cpu == !driver_is_gpu());
  assert_true(strlen(caps->device_name) > 0 && strlen(caps->driver_name) > 0);
  assert_true(caps->host_visible || !caps->is_cpu);
  /* What Vulkan promises at least. */
  assert_true(caps->max_shared_bytes >= 16384);
  assert_true(caps->max_invocations >= 128);
  assert_true(caps->max_workgroup_size[0] >= 128 && caps->max_workgroup_count[0] >= 65535);
  assert_true(caps->max_storage_bindings >= 4);
  assert_true(caps->max_push_bytes >= 128);
  assert_true(caps->max_storage_range_bytes >= 1u << 27);
  assert_true(caps->max_allocation_bytes >= 1u << 30);
  assert_true(caps->max_texel_elements >= 65536);
  assert_true(caps->storage_offset_alignment > 0 && caps->storage_offset_alignment <= 256);
  assert_true(caps->memory_bytes > 1u << 28);
  assert_true(caps->subgroup_min <= caps->subgroup_size && caps->subgroup_size <= caps->subgroup_max);
  if (caps->driver_id == VKF_DRIVER_ID_LAVAPIPE) {
    assert_true(caps->vector_bits >= 128);
    assert_int_equal(caps->subgroup_size, caps->vector_bits / 32);
    assert_true(caps->int64 && caps->buffer_address && caps->storage16);
  }
  if (caps->driver_id == VKF_DRIVER_ID_SWIFTSHADER) {
    assert_int_equal(caps->vector_bits, 0);
    assert_int_equal(caps->subgroup_size, 4);
    assert_false(caps->int64 || caps->storage16 || caps->storage8);
  }
  close_gpu(g);
}

/* A program that opens the driver for every request. */
static void one_after_another(void **state) {
  (void)state;
  enum { MANY = 64 };
  for (int i = 0; i < MANY; ++i) {
    gpu fixture, *g = &fixture;
    memset(g, 0, sizeof(*g));
    init_env(&g->env, true);
    open_instance(g, false);
    if (find_device(g->instance) == SIZE_MAX) fail_msg("instance %d has no device", i);
    OK(vkf_gpu_device_create(g->instance, find_device(g->instance), NULL, &g->device));
    close_gpu(g);
  }
}

static void an_index_past_the_list(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  init_env(&g->env, false);
  open_instance(g, false);
  size_t n = vkf_gpu_instance_count(g->instance);
  REFUSED(VKF_ERROR_NO_DEVICE, "device index", vkf_gpu_device_create(g->instance, n, NULL, &g->device));
  assert_null(g->device);
  vkf_gpu_instance_destroy(&g->instance);
  assert_int_equal(g->env.live_bytes, 0);
}

/* The variables by which CTest names the driver. hide_driver() lets both point to nothing until restore_driver(). */
typedef struct driver_variables {
  char files[1024], names[1024];
} driver_variables;

static void hide_driver(driver_variables *kept) {
  const char *files = getenv("VK_DRIVER_FILES"), *names = getenv("VK_ICD_FILENAMES");
  snprintf(kept->files, sizeof(kept->files), "%s", files ? files : "");
  snprintf(kept->names, sizeof(kept->names), "%s", names ? names : "");
  setenv("VK_DRIVER_FILES", "/no/such/manifest.json", 1);
  setenv("VK_ICD_FILENAMES", "/no/such/manifest.json", 1);
}

static void restore_driver(const driver_variables *kept) {
  kept->files[0] ? setenv("VK_DRIVER_FILES", kept->files, 1) : unsetenv("VK_DRIVER_FILES");
  kept->names[0] ? setenv("VK_ICD_FILENAMES", kept->names, 1) : unsetenv("VK_ICD_FILENAMES");
}

/* A loader without any driver gives an empty list, not an error; an additional manifest fills it. */
static void a_manifest_adds_devices(void **state) {
  (void)state;
  if (!getenv("VK_DRIVER_FILES")) skip(); /* no manifest is known by name */
  driver_variables kept;
  hide_driver(&kept);
  gpu fixture = {0}, *g = &fixture;
  init_env(&g->env, false);
  vkf_status bare = vkf_gpu_instance_create(&g->env, NULL, &g->instance);
  size_t n_bare = bare == VKF_OK ? vkf_gpu_instance_count(g->instance) : SIZE_MAX;
  vkf_gpu_instance_destroy(&g->instance);

  const char *files[] = {kept.files};
  vkf_gpu_instance_params params = {.icd_files = files, .n_icd_files = 1};
  vkf_status added = vkf_gpu_instance_create(&g->env, &params, &g->instance);
  size_t found = added == VKF_OK ? find_device(g->instance) : SIZE_MAX;
  vkf_gpu_instance_destroy(&g->instance);
  char after[64];
  snprintf(after, sizeof(after), "%s", getenv("VK_DRIVER_FILES"));
  restore_driver(&kept);

  ok(&g->env, bare);
  ok(&g->env, added);
  assert_int_equal(n_bare, 0);
  assert_int_not_equal(found, SIZE_MAX);
  assert_string_equal(after, "/no/such/manifest.json"); /* put back */
  assert_int_equal(g->env.live_bytes, 0);
}

/* Every host allocation of opening and closing may fail: a status, no leak. */
static void host_memory_runs_out(void **state) {
  (void)state;
  gpu fixture = {0}, *g = &fixture;
  init_env(&g->env, true);
  vkf_status st = VKF_ERROR_MEMORY;
  for (uint64_t i = 1; st != VKF_OK; ++i) {
    vkf_env_clear(&g->env);
    g->env.n_allocations = 0;
    g->env.fail_at = i;
    st = vkf_gpu_instance_create(&g->env, NULL, &g->instance);
    if (st == VKF_OK) st = vkf_gpu_device_create(g->instance, 0, NULL, &g->device);
    if (st != VKF_OK) assert_int_equal(st, VKF_ERROR_MEMORY);
    if (st == VKF_OK) assert_int_equal(g->env.first, VKF_OK);
    vkf_gpu_device_destroy(&g->device);
    vkf_gpu_instance_destroy(&g->instance);
    assert_int_equal(g->env.live_bytes, 0);
    assert_true(i < 100);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(facts_are_plausible),    cmocka_unit_test(one_after_another),
      cmocka_unit_test(an_index_past_the_list), cmocka_unit_test(a_manifest_adds_devices),
      cmocka_unit_test(host_memory_runs_out),
  };
  return RUN(tests);
}
