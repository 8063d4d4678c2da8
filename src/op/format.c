/* The one table of storage formats, and rounding to them. */
#include "op/backend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void f32_encode(const float *numbers, size_t n, float scale, void *elements) {
  (void)scale;
  memcpy(elements, numbers, n * sizeof *numbers);
}

static void f32_decode(const void *elements, size_t n, float scale, float *numbers) {
  (void)scale;
  memcpy(numbers, elements, n * sizeof *numbers);
}

static void f16_encode(const float *numbers, size_t n, float scale, void *elements) {
  (void)scale;
  vkf_f16_from_f32_all(numbers, n, elements);
}

static void f16_decode(const void *elements, size_t n, float scale, float *numbers) {
  (void)scale;
  vkf_f16_to_f32_all(elements, n, numbers);
}

static void bf16_encode(const float *numbers, size_t n, float scale, void *elements) {
  (void)scale;
  vkf_bf16_from_f32_all(numbers, n, elements);
}

static void bf16_decode(const void *elements, size_t n, float scale, float *numbers) {
  (void)scale;
  vkf_bf16_to_f32_all(elements, n, numbers);
}

/* Loops take numbers in blocks of constant size, because GCC's -O2 vectorises only loops whose length it knows. The
 * last block is filled up with zeros. */
enum { BLOCK = 32 };

static void take_block(const float *numbers, size_t n, void *block) {
  if (n >= BLOCK) {
    memcpy(block, numbers, BLOCK * sizeof *numbers);
  } else {
    memset(block, 0, BLOCK * sizeof *numbers);
    memcpy(block, numbers, n * sizeof *numbers);
  }
}

/* Returns the largest magnitude of the numbers. Without their signs, finite numbers have the order of their bits, and
 * compilers vectorise the loop over integers. */
static float largest_of(const float *numbers, size_t n) {
  int32_t bits[BLOCK], most[BLOCK] = {0};
  for (size_t i = 0; i < n; i += BLOCK) {
    take_block(numbers + i, n - i, bits);
    for (int j = 0; j < BLOCK; j++) most[j] = VKF_MAX(most[j], bits[j] & 0x7fffffff);
  }
  for (int j = 1; j < BLOCK; j++) most[0] = VKF_MAX(most[0], most[j]);
  float largest;
  memcpy(&largest, most, sizeof largest);
  return largest;
}

/* Returns max|w| / 127, rounded up to 17 significant bits, so that its product with a whole number of 7 bits is exact
 * in float32. Returns 0, which makes the row zeros, if the numbers are too small for that. */
static float int8_scale(const float *row, size_t n) {
  int exponent;
  double fraction = frexp((double)largest_of(row, n) / 127, &exponent);
  double scale = ldexp(ceil(ldexp(fraction, 17)), exponent - 17);
  return scale < 0x1p-109 ? 0 : (float)scale;
}

/* Rounds the quotients in double, to nearest even. Doubles around 1.5 * 2^52 are 1 apart, so adding it rounds as
 * nearbyint() does. */
static void int8_encode(const float *numbers, size_t n, float scale, void *elements) {
  const double divisor = scale, rounder = 0x1.8p52;
  float from[BLOCK];
  double quotients[BLOCK];
  int32_t whole[BLOCK];
  int8_t to[BLOCK];
  if (!(scale > 0)) {
    memset(elements, 0, n);
    return;
  }
  for (size_t i = 0; i < n; i += BLOCK) {
    take_block(numbers + i, n - i, from);
    for (int j = 0; j < BLOCK; j++) quotients[j] = (double)from[j] / divisor + rounder;
    for (int j = 0; j < BLOCK; j++) whole[j] = (int32_t)(quotients[j] - rounder);
    for (int j = 0; j < BLOCK; j++) to[j] = (int8_t)whole[j];
    memcpy((char *)elements + i, to, VKF_MIN(n - i, sizeof to));
  }
}

static void int8_decode(const void *elements, size_t n, float scale, float *numbers) {
  const int8_t *at = elements;
  for (size_t i = 0; i < n; i++) numbers[i] = (float)at[i] * scale;
}

static const vkf_format_row table[VKF_FORMAT_COUNT] = {
    [VKF_FORMAT_F32] = {.name = "f32",
                        .bits = 32,
                        .caches = true,
                        .dtype = VKF_F32,
                        .largest = 0x1.fffffep127,
                        .refused = INFINITY,
                        .encode = f32_encode,
                        .decode = f32_decode},
    [VKF_FORMAT_F16] = {.name = "f16",
                        .bits = 16,
                        .caches = true,
                        .dtype = VKF_F16,
                        .unit = 0x1p-11,
                        .largest = 65504,
                        .refused = 65520,
                        .encode = f16_encode,
                        .decode = f16_decode},
    [VKF_FORMAT_BF16] = {.name = "bf16",
                         .bits = 16,
                         .dtype = VKF_BF16,
                         .unit = 0x1p-8,
                         .largest = 0x1.fep127,
                         .refused = 0x1.ffp127,
                         .encode = bf16_encode,
                         .decode = bf16_decode},
    [VKF_FORMAT_INT8] = {.name = "int8",
                         .bits = 8,
                         .block = VKF_WHOLE_ROW,
                         .unit = 0.5 / 127 * (1 + 0x1p-16),
                         .largest = 0x1.fcp127,
                         .refused = 0x1.fc0002p127,
                         .scale = int8_scale,
                         .encode = int8_encode,
                         .decode = int8_decode},
    [VKF_FORMAT_Q8] = {.name = "q8",
                       .bits = 8,
                       .block = VKF_WHOLE_ROW,
                       .q8 = true,
                       .unit = 0.5 / 127 * (1 + 0x1p-16),
                       .largest = 0x1.fcp127,
                       .refused = 0x1.fc0002p127,
                       .scale = int8_scale,
                       .encode = int8_encode,
                       .decode = int8_decode},
};

const vkf_format_row *vkf_format_get(vkf_format format) {
  return &table[format];
}

uint32_t vkf_format_scales(vkf_format format, uint32_t k) {
  return table[format].block ? (uint32_t)VKF_CEIL_DIV((uint64_t)k, table[format].block) : 0;
}

vkf_format vkf_format_of(vkf_dtype dtype) {
  uint32_t i = 0;
  while (i < VKF_FORMAT_COUNT && (table[i].block || table[i].dtype != dtype)) i++;
  return i < VKF_FORMAT_COUNT ? (vkf_format)i : VKF_FORMAT_F32;
}

vkf_format vkf_format_find(const char *name) {
  uint32_t i = 0;
  while (i < VKF_FORMAT_COUNT && strcmp(table[i].name, name)) i++;
  return (vkf_format)i;
}

const char *vkf_format_names(bool caches, char *buffer, size_t size) {
  uint32_t last = 0;
  size_t n = 0;
  buffer[0] = 0;
  for (uint32_t i = 0; i < VKF_FORMAT_COUNT; i++)
    if (!caches || table[i].caches) last = i;
  for (uint32_t i = 0; i <= last && n < size; i++) {
    if (caches && !table[i].caches) continue;
    n += (size_t)snprintf(buffer + n, size - n, "%s%s", n == 0 ? "" : i == last ? " or " : ", ", table[i].name);
  }
  return buffer;
}

static vkf_status refuse(vkf_env *env, const char *name, const vkf_format_row *f, size_t row, size_t column,
                         float value) {
  return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                      "tensor \"%s\": element [%zu,%zu] is %g, expected %s numbers up to %g for %s weights", name, row,
                      column, (double)value, f->block ? "finite" : "finite or infinite", f->largest, f->name);
}

/* Compares bits without the sign: refuses from `refused` to the last finite number, with scales to the last NaN. */
bool vkf_format_holds(vkf_format format, const float *numbers, size_t n) {
  const vkf_format_row *f = &table[format];
  const int32_t last = f->block ? INT32_MAX : 0x7f7fffff;
  int32_t first, bits[BLOCK], found[BLOCK] = {0};
  if (format == VKF_FORMAT_F32) return true;
  memcpy(&first, &f->refused, sizeof first);
  for (size_t i = 0; i < n; i += BLOCK) {
    take_block(numbers + i, n - i, bits);
    for (int j = 0; j < BLOCK; j++) found[j] |= ((bits[j] & INT32_MAX) >= first) & ((bits[j] & INT32_MAX) <= last);
  }
  for (int j = 1; j < BLOCK; j++) found[0] |= found[j];
  return !found[0];
}

vkf_status vkf_format_check(vkf_env *env, const char *name, vkf_format format, size_t first, const float *rows,
                            size_t n, size_t k) {
  for (size_t r = 0; r < n; r++)
    for (size_t c = 0; c < k && !vkf_format_holds(format, rows + r * k, k); c++)
      if (!vkf_format_holds(format, rows + r * k + c, 1))
        return refuse(env, name, &table[format], first + r, c, rows[r * k + c]);
  return VKF_OK;
}

void vkf_format_round_held(vkf_format format, float *rows, size_t n, size_t k) {
  enum { CHUNK = 256 }; /* numbers that are rounded at a time */
  char elements[CHUNK * sizeof(uint32_t)];
  const vkf_format_row *f = &table[format];
  if (format == VKF_FORMAT_F32) return;
  const size_t block = f->block ? VKF_MIN(f->block, k) : k;
  for (size_t r = 0; r < n; r++)
    for (size_t begin = 0; begin < k; begin += block) {
      const size_t end = VKF_MIN(begin + block, k);
      float *row = rows + r * k;
      const float scale = f->scale ? f->scale(row + begin, end - begin) : 0;
      for (size_t c = begin, many; c < end; c += many) {
        many = VKF_MIN(end - c, (size_t)CHUNK);
        f->encode(row + c, many, scale, elements);
        f->decode(elements, many, scale, row + c);
      }
    }
}

vkf_status vkf_format_round(vkf_env *env, const char *name, vkf_format format, size_t first, float *rows, size_t n,
                            size_t k) {
  VKF_CALL(vkf_format_check(env, name, format, first, rows, n, k));
  vkf_format_round_held(format, rows, n, k);
  return VKF_OK;
}

float vkf_format_cached(vkf_format format, float value) {
  const vkf_format_row *f = &table[format];
  if (format == VKF_FORMAT_F32) return value;
  uint32_t element;
  float kept;
  f->encode(&value, 1, 0, &element);
  f->decode(&element, 1, 0, &kept);
  return isfinite(kept) ? kept : NAN;
}

/* Works on bits, because a host may have told its processor to take subnormal numbers for 0. */
void vkf_format_let_in(float *numbers, uint64_t n) {
  enum { TINY = 27 }; /* the exponent's bits of 2^-100 */
  for (uint64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &numbers[i], sizeof bits);
    if ((bits >> 23 & 255) >= TINY) continue;
    bits &= UINT32_C(0x80000000);
    memcpy(&numbers[i], &bits, sizeof bits);
  }
}

void vkf_format_let_out(float *numbers, uint64_t n) {
  static const uint32_t nan = UINT32_C(0x7fc00000);
  for (uint64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &numbers[i], sizeof bits);
    if ((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000)) memcpy(&numbers[i], &nan, sizeof nan);
  }
}

vkf_status vkf_weight_load(vkf_env *env, const vkf_weight_source *source, uint32_t index, float *dst) {
  const vkf_weight_info *info = &source->infos[index];
  source->load(source->user, index, 0, info->shape[0], dst);
  return vkf_format_round(env, info->name, info->format, 0, dst, info->shape[0], info->rank == 2 ? info->shape[1] : 1);
}
