/* Takes any bytes as a PNG or JPEG file: what decodes has all its pixels and can be scaled and cropped.
 *
 * A large picture is only decoded, because scaling it would only take time.
 */
#include "fuzz.h"

#include "image/image.h"

static void scale_and_crop(vkf_env *env, const vkf_image *image) {
  static const vkf_image_filter filters[] = {VKF_IMAGE_NEAREST, VKF_IMAGE_BILINEAR, VKF_IMAGE_BICUBIC};
  vkf_image scaled = {0}, cropped = {0};
  for (size_t i = 0; i < VKF_COUNT(filters); i++) {
    FUZZ_CHECK(fuzz_check_status(env, vkf_image_resize(image, 7, 5, filters[i], &scaled)) == VKF_OK);
    FUZZ_CHECK(scaled.width == 7 && scaled.height == 5 && scaled.pixels);
    vkf_image_finish(&scaled);
  }
  FUZZ_CHECK(fuzz_check_status(env, vkf_image_crop(image, 9, 3, &cropped)) == VKF_OK);
  FUZZ_CHECK(cropped.width == 9 && cropped.height == 3);
  vkf_image_finish(&cropped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { LARGE = 1 << 16 };
  static const uint8_t empty = 0;
  volatile uint8_t last;
  vkf_env env;
  vkf_image image = {0};
  vkf_env_init(&env, NULL);
  if (fuzz_check_status(&env, vkf_image_decode(&env, "input", size ? data : &empty, size, &image)) == VKF_OK) {
    FUZZ_CHECK(image.width > 0 && image.height > 0);
    last = image.pixels[(size_t)image.width * image.height * 3 - 1];
    (void)last;
    if ((uint64_t)image.width * image.height <= LARGE) scale_and_crop(&env, &image);
  }
  vkf_image_finish(&image);
  fuzz_end(&env);
  return 0;
}
