/* format: how numbers are stored: weights on a device, keys and values in a cache.
 *
 * One table (format.c), a descriptor a format; packing, sizes, kernels and the scalar path read it and know no format
 * by themselves. On a device a weight is two planes: elements of `bits` bits in 32-bit words, in the order of its
 * packing, then the scales of each row; shaders/lib/format.glsl says how words are read. Whoever computes gets float32
 * back and adds up in float32. Invariant: what is decoded is exact in float32, and encoding it again gives the same
 * bits, so everybody who asks sees the same stored numbers.
 */
#ifndef VKF_OP_FORMAT_H
#define VKF_OP_FORMAT_H

#include "base/base.h"

/* In the order of vkf_storage, which has VKF_STORAGE_AUTO before them. */
typedef enum vkf_format {
  VKF_FORMAT_F32,
  VKF_FORMAT_F16,  /* IEEE 754 binary16 */
  VKF_FORMAT_BF16, /* the upper half of a float32 */
  VKF_FORMAT_INT8, /* -127 .. 127 times a scale a row */
  VKF_FORMAT_Q8,   /* the same numbers; a matmul rounds its activations to 8 bits, too (vkf_format_row.q8) */
  VKF_FORMAT_COUNT
} vkf_format;

typedef struct vkf_format_row {
  const char *name;
  uint32_t bits;   /* of an element; 8, 16 or 32 */
  uint32_t block;  /* elements of a row that share a scale, a float32 that they are multiplied with; 0: no scales */
  bool q8;         /* a matmul rounds its activations to 8 bits first (ref/q8.h); kernels read the weight as int8 */
  bool caches;     /* keys and values may be kept so */
  vkf_dtype dtype; /* of tensors in files whose elements are these, without scales */
  double unit;     /* largest error of rounding: relative to the number, with scales to the largest of its block */
  double largest;  /* magnitude that can be stored */
  float refused;   /* the least magnitude that rounds to none of them; with scales, the least above `largest` */
  float (*scale)(const float *block, size_t n); /* NULL without scales */
  /* n numbers to elements of `bits` bits side by side, to nearest even; and back. Elements may be at any address. */
  void (*encode)(const float *numbers, size_t n, float scale, void *elements);
  void (*decode)(const void *elements, size_t n, float scale, float *numbers);
} vkf_format_row;

#define VKF_WHOLE_ROW UINT32_MAX /* as a block */

/* format < VKF_FORMAT_COUNT. */
const vkf_format_row *vkf_format_get(vkf_format format);
/* Scales of a row of k elements. */
uint32_t vkf_format_scales(vkf_format format, uint32_t k);
/* The format that keeps tensors of this type as they are in a file; VKF_FORMAT_F32 where none does. */
vkf_format vkf_format_of(vkf_dtype dtype);
/* By name ("bf16"); VKF_FORMAT_COUNT if there is none. */
vkf_format vkf_format_find(const char *name);
/* The names, "f32, f16, bf16 or int8", of all formats or of those for caches. Returns buffer. */
const char *vkf_format_names(bool caches, char *buffer, size_t size);

/* Whether the format can hold all the numbers. It cannot hold one that is finite and would become infinite; with scales
 * none that is not finite. */
bool vkf_format_holds(vkf_format format, const float *numbers, size_t n);
/* VKF_ERROR_UNSUPPORTED names the tensor and the first number of rows [n][k] that the format cannot hold. */
vkf_status vkf_format_check(vkf_env *env, const char *name, vkf_format format, size_t first, const float *rows,
                            size_t n, size_t k);
/* Rounds rows [n][k], which the format can hold, to what it stores, in place. Encoding the result gives the elements
 * and scales that encoding the rows gives. */
void vkf_format_round_held(vkf_format format, float *rows, size_t n, size_t k);
/* The same for any rows: those that the format cannot hold are refused as by vkf_format_check(). */
vkf_status vkf_format_round(vkf_env *env, const char *name, vkf_format format, size_t first, float *rows, size_t n,
                            size_t k);

/* A key or value as a cache in this format keeps it. In fewer bits a cache has no infinity: what is one, or would
 * become one, is NaN, which reaches the scores of words and is found there (an infinite score would only take a key
 * out). */
float vkf_format_cached(vkf_format format, float value);

/* The door of the reproducible mode: every backend lets numbers in (weights, constants, what is written) and out (what
 * is read) through these two, so no kernel meets a subnormal number, and a NaN has one set of bits. Let in: 0 of the
 * same sign instead of what is nearer to 0 than 2^-100. Let out: 0x7fc00000 instead of any NaN. */
void vkf_format_let_in(float *numbers, uint64_t n);
void vkf_format_let_out(float *numbers, uint64_t n);

#endif
