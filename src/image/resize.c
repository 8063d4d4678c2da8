/* resize: scales images in the arithmetic of Pillow (src/libImaging/Resample.c and Geometry.c): coefficients in double,
 * rounded to 22 bits behind the point; first the width, rounded to bytes, then the height. See image.h.
 *
 * Pillow 13.0 scales the height of some images first (tall ones, and some that become wider), so that a few of their
 * bytes differ by one step. This file scales every image as older versions of Pillow do.
 */
#include <math.h>
#include <string.h>

#include "image/internal.h"

#define PRECISION_BITS (32 - 8 - 2) /* so that sums of bytes times coefficients fit into int32_t */

/* The inputs and factors of each output along one axis. */
typedef struct axis {
  uint32_t n_taps;  /* the most inputs of an output */
  uint32_t *first;  /* [n] the first input */
  uint32_t *count;  /* [n] how many */
  int32_t *factors; /* [n][n_taps] */
} axis;

static double bilinear(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

/* Keys (1981), with a = -1/2. */
static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void axis_finish(vkf_env *env, axis *a) {
  vkf_env_free(env, a->first);
  vkf_env_free(env, a->count);
  vkf_env_free(env, a->factors);
}

/* Computes the inputs of output i and their factors, which sum to 1, before rounding. */
static void weigh(axis *a, uint32_t n_in, uint32_t i, double scale, double support, bool is_cubic, double *weights) {
  double stretch = fmax(scale, 1), center = (i + 0.5) * scale, sum = 0;
  double low = center - support + 0.5, high = center + support + 0.5;
  uint32_t first = low > 0 ? (uint32_t)low : 0, end = high < n_in ? (uint32_t)high : n_in;
  a->first[i] = first;
  a->count[i] = end - first;
  for (uint32_t k = 0; k < a->count[i]; k++) {
    double x = ((double)(k + first) - center + 0.5) * (1 / stretch);
    weights[k] = is_cubic ? bicubic(x) : bilinear(x);
    sum += weights[k];
  }
  for (uint32_t k = 0; k < a->count[i] && sum != 0; k++) weights[k] /= sum;
}

static vkf_status axis_init(vkf_env *env, uint32_t n_in, uint32_t n_out, bool is_cubic, axis *a) {
  double scale = (double)n_in / n_out, support = (is_cubic ? 2 : 1) * fmax(scale, 1);
  a->n_taps = (uint32_t)ceil(support) * 2 + 1;
  a->first = vkf_env_alloc(env, n_out, sizeof *a->first);
  a->count = vkf_env_alloc(env, n_out, sizeof *a->count);
  a->factors = vkf_env_alloc(env, (size_t)n_out * a->n_taps, sizeof *a->factors);
  double *weights = vkf_env_alloc(env, a->n_taps, sizeof *weights);
  bool is_complete = a->first != NULL && a->count != NULL && a->factors != NULL && weights != NULL;
  for (uint32_t i = 0; i < n_out && is_complete; i++) {
    weigh(a, n_in, i, scale, support, is_cubic, weights);
    for (uint32_t k = 0; k < a->count[i]; k++)
      a->factors[(size_t)i * a->n_taps + k] =
          (int32_t)((weights[k] < 0 ? -0.5 : 0.5) + weights[k] * (1 << PRECISION_BITS));
  }
  vkf_env_free(env, weights);
  return is_complete ? VKF_OK : VKF_ERROR_MEMORY;
}

/* Returns output i of inputs that are `stride` bytes apart. */
static uint8_t blend(const axis *a, uint32_t i, const uint8_t *in, size_t stride) {
  const int32_t *factors = a->factors + (size_t)i * a->n_taps;
  int32_t sum = 1 << (PRECISION_BITS - 1);
  in += a->first[i] * stride;
  for (uint32_t k = 0; k < a->count[i]; k++) sum += in[k * stride] * factors[k];
  sum >>= PRECISION_BITS;
  return sum < 0 ? 0 : sum > 255 ? 255 : (uint8_t)sum;
}

static vkf_status resample(const vkf_image *image, bool is_cubic, vkf_image *out) {
  vkf_status st = VKF_OK;
  vkf_env *env = image->env;
  axis x_axis = {0}, y_axis = {0};
  vkf_image narrow = {.env = env};
  size_t w = out->width;
  VKF_TRY(axis_init(env, image->width, out->width, is_cubic, &x_axis));
  VKF_TRY(axis_init(env, image->height, out->height, is_cubic, &y_axis));
  VKF_TRY(vkf_image_create(env, "resize", w, image->height, &narrow));
  for (size_t y = 0; y < image->height; y++)
    for (size_t i = 0; i < 3 * w; i++)
      narrow.pixels[y * 3 * w + i] = blend(&x_axis, (uint32_t)(i / 3), image->pixels + y * 3 * image->width + i % 3, 3);
  for (size_t y = 0; y < out->height; y++)
    for (size_t i = 0; i < 3 * w; i++)
      out->pixels[y * 3 * w + i] = blend(&y_axis, (uint32_t)y, narrow.pixels + i, 3 * w);
done:
  vkf_image_finish(&narrow);
  axis_finish(env, &x_axis);
  axis_finish(env, &y_axis);
  return st;
}

/* Copies the nearest input to each output. Adds up the steps in double, as Pillow does. */
static vkf_status nearest(const vkf_image *image, vkf_image *out) {
  double step_x = (double)image->width / out->width, step_y = (double)image->height / out->height;
  size_t *columns = vkf_env_alloc(image->env, out->width, sizeof *columns);
  if (columns == NULL) return VKF_ERROR_MEMORY;
  double at = 0.5 * step_x;
  for (uint32_t x = 0; x < out->width; x++, at += step_x) columns[x] = VKF_MIN((size_t)at, image->width - 1u);
  at = 0.5 * step_y;
  for (size_t y = 0; y < out->height; y++, at += step_y) {
    const uint8_t *row = image->pixels + VKF_MIN((size_t)at, image->height - 1u) * 3 * image->width;
    for (size_t x = 0; x < out->width; x++) memcpy(out->pixels + 3 * (y * out->width + x), row + 3 * columns[x], 3);
  }
  vkf_env_free(image->env, columns);
  return VKF_OK;
}

vkf_status vkf_image_resize(const vkf_image *image, uint32_t width, uint32_t height, vkf_image_filter filter,
                            vkf_image *out) {
  VKF_CALL(vkf_image_create(image->env, "resize", width, height, out));
  if (width != image->width || height != image->height)
    return filter == VKF_IMAGE_NEAREST ? nearest(image, out) : resample(image, filter == VKF_IMAGE_BICUBIC, out);
  memcpy(out->pixels, image->pixels, (size_t)3 * width * height);
  return VKF_OK;
}
