/* internal: what the files of this room share; not for others. */
#ifndef VKF_IMAGE_INTERNAL_H
#define VKF_IMAGE_INTERNAL_H

#include "image/image.h"

/* Makes an image with all pixels zero. Refuses sizes of 0 and more than VKF_IMAGE_MAX_PIXELS. */
vkf_status vkf_image_create(vkf_env *env, const char *source, uint64_t width, uint64_t height, vkf_image *out);

/* Each sets *orientation if the file has EXIF data, else leaves it. */
vkf_status vkf_image_png(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out,
                         int *orientation);
vkf_status vkf_image_jpeg(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out,
                          int *orientation);

/* Returns 1 .. 8 from EXIF's TIFF structure (TIFF 6.0, section 2; EXIF 2.3, tag 0x0112); 1 if it gives none. */
int vkf_image_exif_orientation(const uint8_t *tiff, size_t n_bytes);

#endif
