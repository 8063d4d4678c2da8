/* preprocess: see preprocess.h. */
#include "task/preprocess.h"

#include <string.h>

#include "file/map.h"

enum { MAX_SIDE = 1 << 14 };

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static const char *const read_keys[] = {
    "do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale", "rescale_factor", "do_normalize",
    "image_mean", "image_std", "image_processor_type", "feature_extractor_type",
    "default_to_square", /* true: an integer as size is a square; else the shortest edge */
    "do_convert_rgb",    /* every image becomes RGB, as transformers' load_image() does it */
    /* do not change the numbers */
    "processor_class", "_valid_processor_keys", "return_tensors", "data_format", "input_data_format", "device",
    "disable_grouping", "use_fast", "_name_or_path", "name_or_path", "pad_size"};

static bool is_read(const char *key) {
  for (size_t i = 0; i < VKF_COUNT(read_keys); i++)
    if (strcmp(key, read_keys[i]) == 0) return true;
  return false;
}

/* Refuses unknown keys, unless they are null or false. */
static vkf_status refuse_unknown(vkf_env *env, vkf_file_value config, const char *path) {
  const char *key;
  for (size_t i = 0; (key = vkf_file_json_key(config, i)) != NULL; i++) {
    vkf_file_value value = vkf_file_json_member(config, key);
    vkf_file_kind kind = vkf_file_json_kind(value);
    bool is_on = kind != VKF_FILE_NULL;
    if (kind == VKF_FILE_BOOL && vkf_file_json_as_bool(value, &is_on) != VKF_OK) return VKF_ERROR_FORMAT;
    if (is_on && !is_read(key))
      return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\" is not supported", path, key);
  }
  return VKF_OK;
}

/* The defaults of the classes that prepare images. */
static const struct {
  const char *prefix;
  vkf_preprocess preprocess;
} classes[] = {{"ViT",
                {.width = 224,
                 .height = 224,
                 .filter = VKF_IMAGE_BILINEAR,
                 .mean = {0.5f, 0.5f, 0.5f},
                 .std = {0.5f, 0.5f, 0.5f}}},
               {"DeiT",
                {.do_center_crop = true,
                 .width = 256,
                 .height = 256,
                 .crop_width = 224,
                 .crop_height = 224,
                 .filter = VKF_IMAGE_BICUBIC,
                 .mean = {0.5f, 0.5f, 0.5f},
                 .std = {0.5f, 0.5f, 0.5f}}}};

/* *out: the defaults of the class that the key names; unchanged if the key is missing. */
static vkf_status find_class(vkf_env *env, vkf_file_value config, const char *key, const char *path,
                             vkf_preprocess *out) {
  static const char *const endings[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil",
                                        "FeatureExtractor"};
  const char *name = NULL;
  vkf_status st = vkf_file_json_find_string(config, key, NULL, &name);
  if (st != VKF_OK || name == NULL) return st;
  for (size_t i = 0; i < VKF_COUNT(classes); i++) {
    const size_t prefix = strlen(classes[i].prefix);
    for (size_t e = 0; e < VKF_COUNT(endings) && strncmp(name, classes[i].prefix, prefix) == 0; e++) {
      if (strcmp(name + prefix, endings[e]) != 0) continue;
      *out = classes[i].preprocess;
      return VKF_OK;
    }
  }
  return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                      "%s: expected ViTImageProcessor or DeiTImageProcessor as %s, found \"%s\"", path, key, name);
}

static vkf_status read_side(vkf_env *env, vkf_file_value value, const char *path, uint32_t *out) {
  int64_t number = 0;
  VKF_CALL(vkf_file_json_as_int64(value, &number));
  if (number < 1 || number > MAX_SIDE)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected 1 .. %d as %s, found %lld", path, MAX_SIDE, value.path,
                        (long long)number);
  *out = (uint32_t)number;
  return VKF_OK;
}

/* Reads a number (a square), [height, width], {height, width} or, if `edge` is not NULL, {shortest_edge}. */
static vkf_status find_size(vkf_env *env, vkf_file_value config, const char *key, const char *path, uint32_t *height,
                            uint32_t *width, uint32_t *edge) {
  vkf_file_value size = vkf_file_json_member(config, key);
  vkf_file_value h = vkf_file_json_member(size, "height"), w = vkf_file_json_member(size, "width");
  vkf_file_value shortest = vkf_file_json_member(size, "shortest_edge");
  vkf_file_kind kind = vkf_file_json_kind(size);
  size_t n = vkf_file_json_count(size);
  if (kind == VKF_FILE_ABSENT || kind == VKF_FILE_NULL) return VKF_OK;
  if (kind == VKF_FILE_INTEGER) h = w = size;
  if (kind == VKF_FILE_ARRAY && n == 2) {
    h = vkf_file_json_at(size, 0);
    w = vkf_file_json_at(size, 1);
  }
  if (kind == VKF_FILE_OBJECT && edge != NULL && n == 1 && vkf_file_json_kind(shortest) != VKF_FILE_ABSENT) {
    VKF_CALL(read_side(env, shortest, path, edge));
  } else if (vkf_file_json_kind(h) == VKF_FILE_ABSENT || vkf_file_json_kind(w) == VKF_FILE_ABSENT ||
             (kind == VKF_FILE_OBJECT && n != 2)) {
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected a number, [height, width] or {\"height\", \"width\"}%s as %s", path,
                        edge != NULL ? " or {\"shortest_edge\"}" : "", key);
  } else {
    if (edge != NULL) *edge = 0;
    VKF_CALL(read_side(env, h, path, height));
    VKF_CALL(read_side(env, w, path, width));
  }
  return VKF_OK;
}

static vkf_status find_filter(vkf_env *env, vkf_file_value config, const char *path, vkf_image_filter *out) {
  static const struct {
    const char *name;
    int64_t number; /* of PIL.Image.Resampling */
    vkf_image_filter filter;
  } rows[] = {
      {"nearest", 0, VKF_IMAGE_NEAREST}, {"bilinear", 2, VKF_IMAGE_BILINEAR}, {"bicubic", 3, VKF_IMAGE_BICUBIC}};
  int64_t number = -1;
  vkf_status st = vkf_file_json_find_int64(config, "resample", number, &number);
  if (st != VKF_OK || number == -1) return st;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    if (rows[i].number != number) continue;
    *out = rows[i].filter;
    return VKF_OK;
  }
  return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                      "%s: expected 0 (nearest), 2 (bilinear) or 3 (bicubic) as resample, found %lld", path,
                      (long long)number);
}

/* Reads three numbers, or one for all channels. */
static vkf_status find_channels(vkf_env *env, vkf_file_value config, const char *key, const char *path, float out[3]) {
  vkf_file_value value = vkf_file_json_member(config, key);
  vkf_file_kind kind = vkf_file_json_kind(value);
  bool is_list = kind == VKF_FILE_ARRAY;
  if (kind == VKF_FILE_ABSENT || kind == VKF_FILE_NULL) return VKF_OK;
  if (is_list && vkf_file_json_count(value) != 3)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected three numbers as %s, found %zu", path, key,
                        vkf_file_json_count(value));
  for (size_t i = 0; i < 3; i++) {
    double number = 0;
    VKF_CALL(vkf_file_json_as_double(is_list ? vkf_file_json_at(value, i) : value, &number));
    out[i] = (float)number;
  }
  return VKF_OK;
}

vkf_status vkf_task_preprocess_read(vkf_env *env, vkf_file_value config, const char *path, vkf_preprocess *out) {
  vkf_preprocess *p = out;
  bool is_square = true;
  *p = classes[0].preprocess;
  VKF_CALL(refuse_unknown(env, config, path));
  VKF_CALL(find_class(env, config, "feature_extractor_type", path, p));
  VKF_CALL(find_class(env, config, "image_processor_type", path, p)); /* the newer key wins */
  VKF_CALL(vkf_file_json_find_bool(config, "do_resize", true, &p->do_resize));
  VKF_CALL(vkf_file_json_find_bool(config, "do_center_crop", p->do_center_crop, &p->do_center_crop));
  VKF_CALL(vkf_file_json_find_bool(config, "do_rescale", true, &p->do_rescale));
  VKF_CALL(vkf_file_json_find_bool(config, "do_normalize", true, &p->do_normalize));
  VKF_CALL(find_size(env, config, "size", path, &p->height, &p->width, &p->shortest_edge));
  VKF_CALL(find_size(env, config, "crop_size", path, &p->crop_height, &p->crop_width, NULL));
  if (p->do_center_crop && p->crop_width == 0)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected crop_size, which do_center_crop needs, found none", path);
  VKF_CALL(vkf_file_json_find_bool(config, "default_to_square", true, &is_square));
  if (!is_square && vkf_file_json_kind(vkf_file_json_member(config, "size")) == VKF_FILE_INTEGER)
    p->shortest_edge = p->width;
  VKF_CALL(find_filter(env, config, path, &p->filter));
  VKF_CALL(vkf_file_json_find_double(config, "rescale_factor", 1 / 255.0, &p->rescale_factor));
  VKF_CALL(find_channels(env, config, "image_mean", path, p->mean));
  VKF_CALL(find_channels(env, config, "image_std", path, p->std));
  for (size_t i = 0; i < 3; i++)
    if (!(p->std[i] > 0))
      return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected numbers over 0 as image_std, found %g", path, p->std[i]);
  return VKF_OK;
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Computes the size after do_resize. */
static vkf_status scaled_size(vkf_env *env, const vkf_preprocess *p, const vkf_image *image, uint32_t *width,
                              uint32_t *height) {
  *width = image->width;
  *height = image->height;
  if (!p->do_resize) return VKF_OK;
  *width = p->width;
  *height = p->height;
  if (p->shortest_edge == 0) return VKF_OK;
  uint32_t shorter = VKF_MIN(image->width, image->height), longer = VKF_MAX(image->width, image->height);
  uint64_t stretched = (uint64_t)p->shortest_edge * longer / shorter;
  if (stretched > MAX_SIDE)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "an image of %u x %u would be %llu wide or high, expected at most %d",
                        image->width, image->height, (unsigned long long)stretched, MAX_SIDE);
  *width = image->width <= image->height ? p->shortest_edge : (uint32_t)stretched;
  *height = image->width <= image->height ? (uint32_t)stretched : p->shortest_edge;
  return VKF_OK;
}

vkf_status vkf_task_preprocess_size(vkf_env *env, const vkf_preprocess *p, const vkf_image *image, uint32_t *width,
                                    uint32_t *height) {
  vkf_status st = scaled_size(env, p, image, width, height);
  if (p->do_center_crop) *width = p->crop_width;
  if (p->do_center_crop) *height = p->crop_height;
  return st;
}

/* Returns the number of a byte. Rounds as numpy does: the product in double, all else in float. */
static float number(const vkf_preprocess *p, uint8_t byte, size_t channel) {
  float value = p->do_rescale ? (float)(byte * p->rescale_factor) : byte;
  return p->do_normalize ? (value - p->mean[channel]) / p->std[channel] : value;
}

vkf_status vkf_task_preprocess_apply(const vkf_preprocess *p, const vkf_image *image, float *pixels) {
  vkf_status st = VKF_OK;
  vkf_image scaled = {0}, cropped = {0};
  uint32_t width = 0, height = 0;
  const vkf_image *last = image;
  VKF_TRY(scaled_size(image->env, p, image, &width, &height));
  if (p->do_resize) {
    VKF_TRY(vkf_image_resize(last, width, height, p->filter, &scaled));
    last = &scaled;
  }
  if (p->do_center_crop) {
    VKF_TRY(vkf_image_crop(last, p->crop_width, p->crop_height, &cropped));
    last = &cropped;
  }
  size_t n = (size_t)last->width * last->height;
  for (size_t c = 0; c < 3; c++)
    for (size_t i = 0; i < n; i++) pixels[c * n + i] = number(p, last->pixels[3 * i + c], c);
done:
  vkf_image_finish(&cropped);
  vkf_image_finish(&scaled);
  return st;
}

/* ---- the public door --------------------------------------------------------------------------------------------- */

/* Reads an image file into pixels [3][height][width] of the model's size. */
static vkf_status read_one(vkf_session *session, const vkf_preprocess *p, const char *path, float *pixels) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_file_map file = {0};
  vkf_image image = {0};
  uint32_t width = 0, height = 0;
  VKF_TRY(vkf_file_map_read(session->env, path, &file)); /* read, not mapped: others may write to an image */
  VKF_TRY(vkf_image_decode(session->env, path, file.data, file.bytes, &image));
  st = vkf_task_preprocess_size(session->env, p, &image, &width, &height);
  if (st != VKF_OK) VKF_TRY(vkf_env_prefix(session->env, st, "%s: ", path));
  if (height != info->image[1] || width != info->image[2])
    VKF_FAIL(session->env, VKF_ERROR_FORMAT,
             "%s: expected images of %u x %u, as the model has them, found %u x %u after preprocessor_config.json",
             path, info->image[2], info->image[1], width, height);
  VKF_TRY(vkf_task_preprocess_apply(p, &image, pixels));
done:
  vkf_image_finish(&image);
  vkf_file_map_close(&file);
  return st;
}

vkf_status vkf_task_read_images(vkf_session *session, const char *const *paths, size_t n, vkf_result **out) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_file_json *json = NULL;
  vkf_result *r = NULL;
  void *data = NULL;
  vkf_preprocess p;
  vkf_arena arena;
  *out = NULL;
  vkf_arena_init(&arena, session->env);
  if (!paths) VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected paths of images, found NULL");
  if (n == 0 || n > UINT16_MAX)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected 1 to %d images, found %zu", UINT16_MAX, n);
  for (size_t i = 0; i < n; i++)
    if (!paths[i]) VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected a path as image %zu, found NULL", i);
  if (info->image[0] != 3)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED, "%s: expected a model of images with three channels, found %s",
             info->name, info->image[0] ? "another number of channels" : "a model of token ids");
  VKF_TRY(vkf_file_source_json(session->env, &info->source, "preprocessor_config.json", &json));
  vkf_file_value root = vkf_file_json_root(json);
  VKF_TRY(vkf_file_json_as_object(root, &root));
  const char *path = vkf_file_source_path(&info->source, &arena, "preprocessor_config.json");
  if (!path) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_task_preprocess_read(session->env, root, path, &p));
  VKF_TRY(vkf_engine_result_create(session->env, &r));
  size_t one = (size_t)3 * info->image[1] * info->image[2];
  VKF_TRY(
      vkf_engine_result_add(r, "pixel_values", VKF_F32, 4, (size_t[]){n, 3, info->image[1], info->image[2]}, &data));
  for (size_t i = 0; i < n; i++) VKF_TRY(read_one(session, &p, paths[i], (float *)data + i * one));
done:
  vkf_arena_finish(&arena);
  vkf_file_json_destroy(&json);
  if (st) vkf_engine_result_destroy(&r);
  *out = r;
  return st;
}

vkf_status vkf_session_read_images(vkf_session *session, const char *const *paths, size_t n, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, vkf_task_read_images(session, paths, n, out));
}
