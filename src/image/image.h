/* image: decodes images from PNG and JPEG, scales and crops them.
 *
 * Owns the calls to libpng and libjpeg, and resampling in the integer arithmetic of Pillow, so that a model gets the
 * same bits as in training. Refuses by name what it cannot decode, and images over VKF_IMAGE_MAX_PIXELS. Knows no
 * models. Invariant: an image that was made has all its pixels. libjpeg allocates its working memory itself, so vkf_env
 * does not count it.
 */
#ifndef VKF_IMAGE_IMAGE_H
#define VKF_IMAGE_IMAGE_H

#include "base/base.h"

/* More than cameras have; 400 MB. */
#define VKF_IMAGE_MAX_PIXELS (UINT64_C(1) << 27)

typedef struct vkf_image {
  vkf_env *env;
  uint32_t width, height;
  uint8_t *pixels; /* [height][width][3]: red, green, blue */
} vkf_image;

/* Decodes a PNG or JPEG file in memory and turns the image as EXIF's orientation says. Gray becomes three equal
 * channels, alpha is dropped, 16 bits become the upper 8; gray of 16 bits without alpha becomes min(value, 255), as in
 * Pillow. source: the file's name in messages. Returns VKF_ERROR_FORMAT (no image, damaged, truncated, too large) or
 * VKF_ERROR_UNSUPPORTED (CMYK, a library that the build lacks). Call finish() even if this fails. */
vkf_status vkf_image_decode(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out);
void vkf_image_finish(vkf_image *image);

typedef enum vkf_image_filter { VKF_IMAGE_NEAREST, VKF_IMAGE_BILINEAR, VKF_IMAGE_BICUBIC } vkf_image_filter;
/* Scales to a size of at least 1 x 1. To shrink without aliasing, bilinear and bicubic widen their support. out:
 * another image; call finish() even if this fails. */
vkf_status vkf_image_resize(const vkf_image *image, uint32_t width, uint32_t height, vkf_image_filter filter,
                            vkf_image *out);
/* Crops the middle; where the image is smaller, there are zeros. */
vkf_status vkf_image_crop(const vkf_image *image, uint32_t width, uint32_t height, vkf_image *out);

#endif
