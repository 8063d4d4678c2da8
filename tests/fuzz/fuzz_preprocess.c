/* Takes any bytes as preprocessor_config.json: a configuration that is read prepares images and writes as many pixels
 * as it says.
 *
 * For large pictures only the size is computed, because scaling them would only take time.
 */
#include "fuzz.h"

#include "task/preprocess.h"

static void apply(vkf_env *env, const vkf_preprocess *p, const vkf_image *image) {
  enum { LARGE = 128 };
  uint32_t width = 0, height = 0;
  const bool sized = fuzz_check_status(env, vkf_task_preprocess_size(env, p, image, &width, &height)) == VKF_OK;
  vkf_env_clear(env);
  if (!sized || p->width > LARGE || p->height > LARGE || p->shortest_edge > LARGE || width > LARGE || height > LARGE)
    return;
  float *pixels = vkf_env_alloc(env, (size_t)3 * width * height, sizeof *pixels); /* a sanitizer guards its end */
  FUZZ_CHECK(pixels && width > 0 && height > 0);
  FUZZ_CHECK(fuzz_check_status(env, vkf_task_preprocess_apply(p, image, pixels)) == VKF_OK);
  vkf_env_free(env, pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct { uint32_t width, height; } sizes[] = {{5, 7}, {1, 300}, {64, 2}};
  vkf_env env;
  vkf_file_json *json = NULL;
  vkf_file_value root;
  vkf_preprocess p;
  vkf_env_init(&env, NULL);
  if (fuzz_check_status(&env, vkf_file_json_parse(&env, "input", (const char *)data, size, &json)) == VKF_OK &&
      fuzz_check_status(&env, vkf_file_json_as_object(vkf_file_json_root(json), &root)) == VKF_OK &&
      fuzz_check_status(&env, vkf_task_preprocess_read(&env, root, "input", &p)) == VKF_OK)
    for (size_t i = 0; i < VKF_COUNT(sizes); i++) {
      uint8_t *bytes = vkf_env_alloc(&env, (size_t)3 * sizes[i].width * sizes[i].height, 1);
      FUZZ_CHECK(bytes);
      const vkf_image image = {.env = &env, .width = sizes[i].width, .height = sizes[i].height, .pixels = bytes};
      apply(&env, &p, &image);
      vkf_env_free(&env, bytes);
    }
  vkf_file_json_destroy(&json);
  fuzz_end(&env);
  return 0;
}
