/* image: creates, frees and crops images, and reads EXIF's orientation. See image.h. */
#include "image/image.h"

#include <string.h>

#include "image/internal.h"

vkf_status vkf_image_create(vkf_env *env, const char *source, uint64_t width, uint64_t height, vkf_image *out) {
  *out = (vkf_image){.env = env};
  if (width == 0 || height == 0 || width > VKF_IMAGE_MAX_PIXELS || height > VKF_IMAGE_MAX_PIXELS / width)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected an image of 1 to %llu pixels, found %llu x %llu", source,
                        (unsigned long long)VKF_IMAGE_MAX_PIXELS, (unsigned long long)width,
                        (unsigned long long)height);
  out->width = (uint32_t)width;
  out->height = (uint32_t)height;
  out->pixels = vkf_env_alloc(env, (size_t)(width * height), 3);
  return out->pixels != NULL ? VKF_OK : VKF_ERROR_MEMORY;
}

void vkf_image_finish(vkf_image *image) {
  if (image->env != NULL) vkf_env_free(image->env, image->pixels);
  *image = (vkf_image){0};
}

/* ---- orientation ------------------------------------------------------------------------------------------------- */

static uint32_t number(const uint8_t *p, int n, bool is_little) {
  uint32_t value = 0;
  for (int i = 0; i < n; i++) value = value << 8 | p[is_little ? n - 1 - i : i];
  return value;
}

int vkf_image_exif_orientation(const uint8_t *tiff, size_t n_bytes) {
  enum { HEADER = 8, ENTRY = 12, TAG = 0x0112, SHORT = 3 };
  if (n_bytes < HEADER) return 1;
  bool is_little = memcmp(tiff, "II*\0", 4) == 0;
  if (!is_little && memcmp(tiff, "MM\0*", 4) != 0) return 1;
  size_t at = number(tiff + 4, 4, is_little);
  if (at > n_bytes || n_bytes - at < 2) return 1;
  uint32_t n_entries = number(tiff + at, 2, is_little);
  at += 2;
  for (uint32_t i = 0; i < n_entries && n_bytes - at >= ENTRY; i++, at += ENTRY) {
    if (number(tiff + at, 2, is_little) != TAG || number(tiff + at + 2, 2, is_little) != SHORT) continue;
    uint32_t value = number(tiff + at + 8, 2, is_little);
    return value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}

/* ---- crops ------------------------------------------------------------------------------------------------------- */

vkf_status vkf_image_crop(const vkf_image *image, uint32_t width, uint32_t height, vkf_image *out) {
  VKF_CALL(vkf_image_create(image->env, "crop", width, height, out));
  /* Where the image begins in the crop's coordinates; halves are rounded down, also below zero. */
  int64_t left = ((int64_t)image->width - width) >> 1, top = ((int64_t)image->height - height) >> 1;
  for (int64_t y = 0; y < height; y++) {
    if (y + top < 0 || y + top >= image->height) continue;
    for (int64_t x = 0; x < width; x++)
      if (x + left >= 0 && x + left < image->width)
        memcpy(out->pixels + 3 * (y * width + x), image->pixels + 3 * ((y + top) * image->width + x + left), 3);
  }
  return VKF_OK;
}
