/* image: pictures as bytes: decoded from PNG and JPEG, scaled and cropped.
 *
 * Owns the calls to libpng and libjpeg, and resampling in the integer arithmetic of Pillow, so that a model gets the
 * same bits as in training. Refuses, by name, what it does not decode, and pictures over VKF_IMAGE_MAX_PIXELS. Knows
 * no models. Invariant: an image that was made has all its pixels. libjpeg allocates for itself, so its working memory
 * is not counted in vkf_env.
 */
#ifndef VKF_IMAGE_IMAGE_H
#define VKF_IMAGE_IMAGE_H

#include "base/base.h"

/* More than cameras give, and 400 MB. */
#define VKF_IMAGE_MAX_PIXELS (UINT64_C(1) << 27)

typedef struct vkf_image {
  vkf_env *env;
  uint32_t width, height;
  uint8_t *pixels; /* [height][width][3]: red, green, blue */
} vkf_image;

/* A PNG or JPEG file in memory, turned as its EXIF orientation says. Gray becomes three equal channels, alpha is
 * dropped, 16 bits become the upper 8; gray of 16 bits without alpha becomes min(value, 255), as Pillow has it. source:
 * what messages call the file. VKF_ERROR_FORMAT (no image, damaged, truncated, too large), VKF_ERROR_UNSUPPORTED by
 * name (CMYK, a library that the build lacks). Finish it also after a failure. */
vkf_status vkf_image_decode(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out);
void vkf_image_finish(vkf_image *image);

typedef enum vkf_image_filter { VKF_IMAGE_NEAREST, VKF_IMAGE_BILINEAR, VKF_IMAGE_BICUBIC } vkf_image_filter;
/* To this size, at least 1 x 1. Bilinear and bicubic widen their support when they shrink (no aliasing). out: another
 * image; finish it also after a failure. */
vkf_status vkf_image_resize(const vkf_image *image, uint32_t width, uint32_t height, vkf_image_filter filter,
                            vkf_image *out);
/* The middle, with zeros where the image is smaller. */
vkf_status vkf_image_crop(const vkf_image *image, uint32_t width, uint32_t height, vkf_image *out);

#endif
