/* format: how numbers are stored: weights on a device, keys and values in a cache.
 *
 * One table (format.c) has a descriptor for each format; packing, sizes, kernels and the scalar path read it and know
 * no format by themselves. On a device a weight is two planes: elements of `bits` bits in 32-bit words, in the order of
 * its packing, then the scales of each row; shaders/lib/format.glsl reads the words. Kernels compute with the decoded
 * numbers and add up in float32. Invariant: decoded numbers are exact in float32, and encoding them again gives the
 * same bits, so all readers see the same numbers.
 */
#ifndef VKF_OP_FORMAT_H
#define VKF_OP_FORMAT_H

#include "base/base.h"

/* In the order of vkf_storage, which has VKF_STORAGE_AUTO before them. */
typedef enum vkf_format {
  VKF_FORMAT_F32,
  VKF_FORMAT_F16,  /* IEEE 754 binary16 */
  VKF_FORMAT_BF16, /* the upper half of a float32 */
  VKF_FORMAT_INT8, /* -127 .. 127 times a scale for each row */
  VKF_FORMAT_Q8,   /* the same numbers; a matmul rounds its activations to 8 bits, too (vkf_format_row.q8) */
  VKF_FORMAT_COUNT
} vkf_format;

typedef struct vkf_format_row {
  const char *name;
  uint32_t bits;   /* of an element; 8, 16 or 32 */
  uint32_t block;  /* elements of a row that share a scale, a float32 factor; 0: no scales */
  bool q8;         /* a matmul rounds its activations to 8 bits first (ref/q8.h); kernels read the weight as int8 */
  bool caches;     /* keys and values may be stored in it */
  vkf_dtype dtype; /* without scales: of tensors in files that have the same elements */
  double unit;     /* largest error of rounding: relative to the number, with scales to the largest of its block */
  double largest;  /* magnitude that can be stored */
  float refused;   /* the least magnitude that rounds to no stored number; with scales, the least above `largest` */
  float (*scale)(const float *block, size_t n); /* NULL without scales */
  /* Round n numbers to adjacent elements of `bits` bits, to nearest even; and back. Elements need no alignment. */
  void (*encode)(const float *numbers, size_t n, float scale, void *elements);
  void (*decode)(const void *elements, size_t n, float scale, float *numbers);
} vkf_format_row;

#define VKF_WHOLE_ROW UINT32_MAX /* as a block */

/* format < VKF_FORMAT_COUNT. */
const vkf_format_row *vkf_format_get(vkf_format format);
/* Counts the scales of a row of k elements. */
uint32_t vkf_format_scales(vkf_format format, uint32_t k);
/* Returns the format that stores tensors of this type as a file does; VKF_FORMAT_F32 if there is none. */
vkf_format vkf_format_of(vkf_dtype dtype);
/* Finds a format by name ("bf16"); VKF_FORMAT_COUNT if there is none. */
vkf_format vkf_format_find(const char *name);
/* Writes the names of all formats, or of those for caches, "f32, f16, bf16 or int8", to buffer. Returns buffer. */
const char *vkf_format_names(bool caches, char *buffer, size_t size);

/* Returns whether the format can hold all the numbers. It cannot hold a finite number that would become infinite; with
 * scales it holds finite numbers only. */
bool vkf_format_holds(vkf_format format, const float *numbers, size_t n);
/* VKF_ERROR_UNSUPPORTED names the tensor and the first number of rows [n][k] that the format cannot hold. first: the
 * tensor's row that is rows[0]. */
vkf_status vkf_format_check(vkf_env *env, const char *name, vkf_format format, size_t first, const float *rows,
                            size_t n, size_t k);
/* Rounds rows [n][k], which the format can hold, to what it stores, in place. Encoding the result gives the elements
 * and scales that encoding the rows gives. */
void vkf_format_round_held(vkf_format format, float *rows, size_t n, size_t k);
/* The same for any rows; refuses, as vkf_format_check() does, those that the format cannot hold. */
vkf_status vkf_format_round(vkf_env *env, const char *name, vkf_format format, size_t first, float *rows, size_t n,
                            size_t k);

/* Returns a key or value as a cache in this format stores it. A cache of fewer than 32 bits has no infinities: what is
 * or would become infinite is NaN, which reaches the scores of words and is found there (an infinite score would only
 * take a key out). */
float vkf_format_cached(vkf_format format, float value);

/* In the reproducible mode every backend applies the first to numbers on their way in (weights, constants, writes), and
 * the second to those on their way out (reads). No kernel meets a subnormal number, and NaN always has the same bits.
 * let_in makes what is nearer to 0 than 2^-100 a 0 of the same sign; let_out makes any NaN 0x7fc00000. */
void vkf_format_let_in(float *numbers, uint64_t n);
void vkf_format_let_out(float *numbers, uint64_t n);

#endif
