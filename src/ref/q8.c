/* q8: see q8.h. */
#include "ref/q8.h"

#include "ref/internal.h"
#include "shared/constants.h"

static void round_block(const vkf_format_row *f, const float *x, uint32_t n, float *rounded) {
  int8_t numbers[VKF_Q8_BLOCK];
  double largest = 0;
  for (uint32_t i = 0; i < n; i++) largest = VKF_MAX(largest, fabs((double)x[i]));
  const bool held = vkf_format_holds(VKF_FORMAT_Q8, x, n);
  const float scale = largest < 0x1p-100 ? 0 : f->scale(x, n);
  for (uint32_t i = 0; i < n; i++) rounded[i] = NAN;
  if (!held) return;
  f->encode(x, n, scale, numbers);
  f->decode(numbers, n, scale, rounded);
}

void vkf_ref_q8_round(const float *x, uint32_t k, float *rounded) {
  const vkf_format_row *f = vkf_format_get(VKF_FORMAT_Q8);
  for (uint32_t from = 0; from < k; from += VKF_Q8_BLOCK)
    round_block(f, x + from, VKF_MIN(k - from, (uint32_t)VKF_Q8_BLOCK), rounded + from);
}

vkf_status vkf_ref_q8_rows(vkf_env *env, const vkf_view *x, uint32_t rows, uint32_t k, vkf_view *out) {
  float *data = vkf_env_alloc(env, VKF_MAX((size_t)rows * k, 1), sizeof *data);
  *out = (vkf_view){.data = data, .rank = 2, .extent = {rows, k}, .stride = {k, 1}};
  if (!data) return VKF_ERROR_MEMORY;
  for (uint32_t m = 0; m < rows; m++) vkf_ref_q8_round(vkf_ref_row(x, m), k, data + (size_t)m * k);
  return VKF_OK;
}
