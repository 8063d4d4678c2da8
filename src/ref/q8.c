/* q8: see q8.h. */
#include "ref/q8.h"

#include <string.h>

#include "ref/internal.h"
#include "shared/constants.h"

float vkf_ref_q8_block(const float *x, uint32_t n, int8_t *numbers) {
  double largest = 0;
  bool finite = true;
  for (uint32_t i = 0; i < n; i++) {
    finite &= isfinite(x[i]) != 0;
    largest = VKF_MAX(largest, fabs((double)x[i]));
  }
  memset(numbers, 0, n);
  if (!finite) return NAN;
  if (largest < 0x1p-100) return 0;
  int exponent;
  const double fraction = frexp(largest, &exponent);
  const double scale = ldexp(ceil(ldexp(fraction, 24) / 127), exponent - 24);
  for (uint32_t i = 0; i < n; i++) numbers[i] = (int8_t)nearbyint((double)x[i] / scale);
  return (float)scale;
}

vkf_status vkf_ref_q8_begin(vkf_env *env, const vkf_view *x, uint32_t rows, uint32_t k, vkf_ref_q8 *out) {
  const uint32_t n_blocks = VKF_CEIL_DIV(k, VKF_Q8_BLOCK);
  const size_t width = (size_t)n_blocks * VKF_Q8_BLOCK;
  *out = (vkf_ref_q8){.k = k, .n_blocks = n_blocks};
  out->scales = vkf_env_alloc(env, (size_t)rows * n_blocks, sizeof *out->scales);
  out->x = vkf_env_alloc(env, rows * width, 1);
  out->w = vkf_env_alloc(env, width, 1);
  out->dots = vkf_env_alloc(env, n_blocks, sizeof *out->dots);
  if (!out->scales || !out->x || !out->w || !out->dots) return VKF_ERROR_MEMORY;
  for (uint32_t m = 0; m < rows; m++) {
    for (uint32_t b = 0; b < n_blocks; b++) {
      const uint32_t from = b * VKF_Q8_BLOCK;
      out->scales[(size_t)m * n_blocks + b] = vkf_ref_q8_block(
          vkf_ref_row(x, m) + from, VKF_MIN(k - from, (uint32_t)VKF_Q8_BLOCK), out->x + m * width + from);
    }
  }
  return VKF_OK;
}

void vkf_ref_q8_weight(vkf_ref_q8 *q8, const float *w) {
  const vkf_format_row *f = vkf_format_get(VKF_FORMAT_Q8);
  q8->weight_scale = f->scale(w, q8->k);
  f->encode(w, q8->k, q8->weight_scale, q8->w);
}

const float *vkf_ref_q8_dots(vkf_ref_q8 *q8, uint32_t m) {
  const int8_t *x = q8->x + (size_t)m * q8->n_blocks * VKF_Q8_BLOCK;
  for (uint32_t b = 0; b < q8->n_blocks; b++) {
    int32_t sum = 0;
    for (uint32_t i = b * VKF_Q8_BLOCK; i < (b + 1) * VKF_Q8_BLOCK; i++) sum += x[i] * q8->w[i];
    q8->dots[b] = (float)sum;
  }
  return q8->dots;
}

void vkf_ref_q8_finish(vkf_env *env, vkf_ref_q8 *q8) {
  vkf_env_free(env, q8->dots);
  vkf_env_free(env, q8->w);
  vkf_env_free(env, q8->x);
  vkf_env_free(env, q8->scales);
}
