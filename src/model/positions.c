/* positions: sinusoidal tables (Vaswani et al. 2017, section 3.5) and position ids. */
#include <math.h>

#include "model/internal.h"

void vkf_model_sinusoids(vkf_model_position_kind kind, uint32_t n, uint32_t width, float *table) {
  uint32_t n_sines = VKF_CEIL_DIV(width, 2);
  for (uint32_t position = 0; position < n; position++) {
    float *row = table + (size_t)position * width;
    for (uint32_t c = 0; c < width; c++) {
      uint32_t pair = c / 2;
      double angle = position / pow(10000, 2.0 * pair / width);
      bool is_cosine = c % 2 == 1;
      uint32_t column = kind == VKF_POSITION_HALVES ? pair + (is_cosine ? n_sines : 0) : c;
      row[column] = (float)(is_cosine ? cos(angle) : sin(angle));
    }
  }
}

void vkf_model_positions(const vkf_net *net, uint32_t rows, uint32_t length, uint32_t past, int32_t *out) {
  (void)net;
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t t = 0; t < length; t++) *out++ = (int32_t)(past + t);
}
