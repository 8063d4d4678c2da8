/* Packings of weights: where an element lies, and the repacking at load. Padding is zero, so that a kernel may multiply
 * with it. shaders/lib/weights.glsl has the same index function. */
#include <string.h>

#include "kern/kern.h"

static uint32_t depth(vkf_weight_layout layout) {
  return layout == VKF_LAYOUT_W_LANE ? 4 : layout == VKF_LAYOUT_W_DIRECT ? 2 : 1;
}

size_t vkf_kern_packed_elements(const vkf_weight_packing *p, uint32_t n, uint32_t k) {
  if (p->layout == VKF_LAYOUT_W_ROWS) return (size_t)n * k;
  return (size_t)VKF_ROUND_UP(n, p->columns) * VKF_ROUND_UP(k, p->k_align);
}

size_t vkf_kern_packed_index(const vkf_weight_packing *p, uint32_t n, uint32_t k, uint32_t row, uint32_t column) {
  (void)n;
  if (p->layout == VKF_LAYOUT_W_ROWS) return (size_t)row * k + column;
  const uint32_t v = depth(p->layout);
  const size_t padded = VKF_ROUND_UP(k, p->k_align);
  return (row / p->columns * padded + column / v * v) * p->columns + row % p->columns * v + column % v;
}

void vkf_kern_pack(const vkf_weight_packing *p, uint32_t n, uint32_t k, const float *rows, float *packed) {
  memset(packed, 0, vkf_kern_packed_elements(p, n, k) * sizeof *packed);
  for (uint32_t r = 0; r < n; r++)
    for (uint32_t c = 0; c < k; c++) packed[vkf_kern_packed_index(p, n, k, r, c)] = rows[(size_t)r * k + c];
}
