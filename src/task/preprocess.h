/* preprocess: images as a model wants them. Keys and their meaning are those of transformers' ViTImageProcessor and
 * DeiTImageProcessor; a folder of model_type vit has one of the two.
 *
 * Owns the values of preprocessor_config.json. Refuses, by name, keys that would change the result and are not known.
 */
#ifndef VKF_TASK_PREPROCESS_H
#define VKF_TASK_PREPROCESS_H

#include "engine/opened.h"
#include "file/json.h"
#include "image/image.h"

typedef struct vkf_preprocess {
  bool do_resize, do_center_crop, do_rescale, do_normalize;
  uint32_t width, height; /* of do_resize; 0: shortest_edge says the size, and the shape stays */
  uint32_t shortest_edge;
  vkf_image_filter filter;
  uint32_t crop_width, crop_height;
  double rescale_factor;
  float mean[3], std[3];
} vkf_preprocess;

/* config: preprocessor_config.json; path: for messages. What it does not say is as in the class that it names, else as
 * in ViTImageProcessor. */
vkf_status vkf_task_preprocess_read(vkf_env *env, vkf_file_value config, const char *path, vkf_preprocess *out);
/* The size that this image gets. VKF_ERROR_FORMAT: a side is over 2^14. */
vkf_status vkf_task_preprocess_size(vkf_env *env, const vkf_preprocess *p, const vkf_image *image, uint32_t *width,
                                    uint32_t *height);
/* pixels [3][height][width], as vkf_task_preprocess_size() says. */
vkf_status vkf_task_preprocess_apply(const vkf_preprocess *p, const vkf_image *image, float *pixels);
/* vkf_session_read_images(). */
vkf_status vkf_task_read_images(vkf_session *session, const char *const *paths, size_t n, vkf_result **out);

#endif
