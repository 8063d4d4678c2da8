/* pack: where an element of a packed weight is, and the repacking at load. Padding is zero, so that a kernel may
 * multiply with it. shaders/lib/weights.glsl has the same index function. */
#include <string.h>

#include "kern/kern.h"

size_t vkf_kern_packed_elements(const vkf_weight_packing *p, uint32_t n, uint32_t k) {
  if (p->layout == VKF_LAYOUT_W_ROWS) return (size_t)n * k;
  return (size_t)VKF_ROUND_UP(n, p->columns) * VKF_ROUND_UP(k, p->k_align);
}

size_t vkf_kern_packed_index(const vkf_weight_packing *p, uint32_t k, uint32_t row, uint32_t column) {
  if (p->layout == VKF_LAYOUT_W_ROWS) return (size_t)row * k + column;
  const uint32_t v = p->k_align;
  const size_t padded = VKF_ROUND_UP(k, v);
  uint32_t place = row % p->columns;
  if (p->layout == VKF_LAYOUT_W_COLUMNS) place = place % 2 * (p->columns / 2) + place / 2;
  return (row / p->columns * padded + column / v * v) * p->columns + place * v + column % v;
}

size_t vkf_kern_scales_offset(const vkf_weight_packing *p, uint32_t n, uint32_t k) {
  const size_t per_word = 128 / vkf_format_get(p->format)->bits;
  return VKF_CEIL_DIV(vkf_kern_packed_elements(p, n, k), per_word) * 16;
}

size_t vkf_kern_packed_bytes(const vkf_weight_packing *p, uint32_t n, uint32_t k) {
  const size_t scales = (size_t)VKF_ROUND_UP(n, p->columns) * vkf_format_scales(p->format, k);
  return vkf_kern_scales_offset(p, n, k) + scales * sizeof(float);
}

/* Copies adjacent runs of `run` bytes; each lands `jump` bytes after the one before. The sizes that occur are constants
 * here, so that a copy is one load and one store. */
static void scatter(const char *from, size_t n_runs, size_t run, size_t jump, char *to) {
  switch (run) {
    case 4:
      for (size_t i = 0; i < n_runs; i++) memcpy(to + i * jump, from + i * 4, 4);
      return;
    case 8:
      for (size_t i = 0; i < n_runs; i++) memcpy(to + i * jump, from + i * 8, 8);
      return;
    case 16:
      for (size_t i = 0; i < n_runs; i++) memcpy(to + i * jump, from + i * 16, 16);
      return;
    default:
      for (size_t i = 0; i < n_runs; i++) memcpy(to + i * jump, from + i * run, run);
  }
}

/* Places n elements of a row, the first of which begins a run. */
static void place(const vkf_weight_packing *p, size_t size, const char *from, size_t n, char *to) {
  const size_t v = p->layout == VKF_LAYOUT_W_ROWS ? n : p->k_align; /* elements of a run */
  const size_t jump = v * p->columns * size, n_runs = n / v;
  scatter(from, n_runs, v * size, jump, to);
  memcpy(to + n_runs * jump, from + n_runs * v * size, n % v * size);
}

/* Packs a group of rows a few columns at a time, so that what it reads and writes stays in the L1 cache. */
void vkf_kern_pack(const vkf_weight_packing *p, uint32_t n, uint32_t k, vkf_format from, const void *rows,
                   void *packed) {
  enum { CHUNK = 64 }; /* a multiple of every k_align */
  const vkf_format_row *f = vkf_format_get(p->format);
  const uint32_t n_scales = vkf_format_scales(p->format, k), block = VKF_MIN(f->block, k);
  const uint32_t step = block && block < CHUNK ? block : CHUNK;
  const size_t size = f->bits / 8, from_size = vkf_format_get(from)->bits / 8;
  float *scales = (float *)((char *)packed + vkf_kern_scales_offset(p, n, k));
  char elements[CHUNK * sizeof(uint32_t)];
  memset(packed, 0, vkf_kern_packed_bytes(p, n, k));
  for (uint32_t r = 0; r < n; r++)
    for (uint32_t b = 0; b < n_scales; b++)
      scales[r * n_scales + b] =
          f->scale((const float *)rows + (size_t)r * k + b * block, VKF_MIN(k - b * block, block));
  for (uint32_t group = 0; group < n; group += p->columns) {
    const uint32_t end = VKF_MIN(n, group + p->columns);
    for (uint32_t c = 0; c < k; c += step) {
      const uint32_t many = VKF_MIN(k - c, step);
      for (uint32_t r = group; r < end; r++) {
        const char *at = (const char *)rows + ((size_t)r * k + c) * from_size;
        char *to = (char *)packed + vkf_kern_packed_index(p, k, r, c) * size;
        if (from != p->format)
          f->encode((const void *)at, many, n_scales ? scales[r * n_scales + c / block] : 0, elements);
        place(p, size, from != p->format ? elements : at, many, to);
      }
    }
  }
}

vkf_weight_packing vkf_kern_packing_of(const vkf_variant *v, vkf_format format) {
  vkf_weight_packing p = {VKF_LAYOUT_W_ROWS, 1, 1, format};
  if (v->weights == VKF_LAYOUT_W_LANE) p = (vkf_weight_packing){VKF_LAYOUT_W_LANE, v->tile.gemm.bn, 4, format};
  if (v->weights == VKF_LAYOUT_W_COLUMNS)
    p = (vkf_weight_packing){VKF_LAYOUT_W_COLUMNS, v->tile.gemm.bn, 32 / vkf_format_get(format)->bits, format};
  return p;
}
