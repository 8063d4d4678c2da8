/* preprocess: prepares images for a model, with the keys and meanings of transformers' ViTImageProcessor and
 * DeiTImageProcessor. A folder of model_type vit has one of the two.
 *
 * Owns the values of preprocessor_config.json. Refuses unknown keys by name, since they could change the result.
 */
#ifndef VKF_TASK_PREPROCESS_H
#define VKF_TASK_PREPROCESS_H

#include "engine/opened.h"
#include "file/json.h"
#include "image/image.h"

typedef struct vkf_preprocess {
  bool do_resize, do_center_crop, do_rescale, do_normalize;
  uint32_t width, height; /* of do_resize; not used if shortest_edge > 0 */
  uint32_t shortest_edge; /* of do_resize, which keeps the shape; 0: width and height */
  vkf_image_filter filter;
  uint32_t crop_width, crop_height;
  double rescale_factor;
  float mean[3], std[3];
} vkf_preprocess;

/* Reads config, the object of preprocessor_config.json. path: its name in messages. Missing keys have the defaults of
 * the class that it names, else of ViTImageProcessor. */
vkf_status vkf_task_preprocess_read(vkf_env *env, vkf_file_value config, const char *path, vkf_preprocess *out);
/* Computes the size that this image gets. VKF_ERROR_FORMAT: a side would be over 2^14. */
vkf_status vkf_task_preprocess_size(vkf_env *env, const vkf_preprocess *p, const vkf_image *image, uint32_t *width,
                                    uint32_t *height);
/* Computes pixels [3][height][width], of the size that vkf_task_preprocess_size() gives. */
vkf_status vkf_task_preprocess_apply(const vkf_preprocess *p, const vkf_image *image, float *pixels);
/* vkf_session_read_images() for a caller that holds the session. */
vkf_status vkf_task_read_images(vkf_session *session, const char *const *paths, size_t n, vkf_result **out);

#endif
