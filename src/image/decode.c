/* decode: picks the decoder for a file and turns the image upright. */
#include <string.h>

#include "image/internal.h"

/* Turns and mirrors an image upright, and replaces its pixels. */
static vkf_status turn(vkf_image *image, int orientation) {
  if (orientation == 1) return VKF_OK;
  vkf_image turned;
  bool is_swapped = orientation >= 5;                                         /* rows become columns */
  bool from_right = orientation == 2 || orientation == 3 || orientation >= 7; /* of the stored image */
  bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  uint32_t w = image->width, h = image->height;
  VKF_CALL(vkf_image_create(image->env, "turn", is_swapped ? h : w, is_swapped ? w : h, &turned));
  for (size_t y = 0; y < turned.height; y++) {
    for (size_t x = 0; x < turned.width; x++) {
      size_t sx = is_swapped ? y : x, sy = is_swapped ? x : y;
      if (from_right) sx = w - 1 - sx;
      if (from_bottom) sy = h - 1 - sy;
      memcpy(turned.pixels + 3 * (y * turned.width + x), image->pixels + 3 * (sy * w + sx), 3);
    }
  }
  vkf_image_finish(image);
  *image = turned;
  return VKF_OK;
}

vkf_status vkf_image_decode(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out) {
  static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[] = {0xff, 0xd8, 0xff};
  int orientation = 1;
  *out = (vkf_image){.env = env};
  if (n_bytes >= sizeof png && memcmp(bytes, png, sizeof png) == 0)
    VKF_CALL(vkf_image_png(env, source, bytes, n_bytes, out, &orientation));
  else if (n_bytes >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
    VKF_CALL(vkf_image_jpeg(env, source, bytes, n_bytes, out, &orientation));
  else
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected a PNG or JPEG image, found something else", source);
  return turn(out, orientation);
}
