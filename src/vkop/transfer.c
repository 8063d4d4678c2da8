/* Writes and reads a program's slots, and fills its memory with poison for validation.
 *
 * Slots of rank 3 and more, and masks, have capacity strides on the device and are dense at actual sizes when read.
 */
#include <string.h>

#include "op/compare.h"
#include "vkop/internal.h"

/* Encodes keys and values of fewer than 32 bits as rows of whole words. */
static void to_words(const vkf_slot *slot, const float *numbers, uint32_t *words) {
  const vkf_format_row *f = vkf_format_get(slot->format);
  const uint32_t width = slot->extent[slot->rank - 1].cap, per_word = 32 / f->bits;
  const uint64_t row_words = VKF_CEIL_DIV(width, per_word), n_rows = vkf_slot_elements(slot) / width;
  memset(words, 0, vkf_slot_stored_bytes(slot));
  for (uint64_t r = 0; r < n_rows; r++) f->encode(numbers + r * width, width, 0, words + r * row_words);
}

static void from_words(const vkf_slot *slot, const uint32_t *words, float *numbers) {
  const vkf_format_row *f = vkf_format_get(slot->format);
  const uint32_t width = slot->extent[slot->rank - 1].cap, per_word = 32 / f->bits;
  const uint64_t row_words = VKF_CEIL_DIV(width, per_word), n_rows = vkf_slot_elements(slot) / width;
  for (uint64_t r = 0; r < n_rows; r++) f->decode(words + r * row_words, width, 0, numbers + r * width);
}

static vkf_status write_stored(vkf_program *p, const vkf_slot *slot, const vkop_place *place, uint64_t offset,
                               const float *data) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  const uint64_t bytes = vkf_slot_stored_bytes(slot);
  uint32_t *words = vkf_env_alloc(env, bytes, 1);
  if (!words) VKF_TRY(VKF_ERROR_MEMORY);
  to_words(slot, data, words);
  VKF_TRY(vkf_gpu_buffer_write(vkf_vkop_place_buffer(place), place->offset + offset, words, bytes));
done:
  vkf_env_free(env, words);
  return st;
}

/* Writes a matrix in the packing of its slot. */
static vkf_status write_packed(vkf_program *p, const vkf_weight_packing *packing, const vkf_slot *slot,
                               const vkop_place *place, const float *data) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  const uint32_t n = slot->extent[0].cap, k = slot->extent[1].cap;
  const uint64_t bytes = vkf_kern_packed_bytes(packing, n, k);
  void *packed = vkf_env_alloc(env, bytes, 1);
  if (!packed) VKF_TRY(VKF_ERROR_MEMORY);
  vkf_kern_pack(packing, n, k, VKF_FORMAT_F32, data, packed);
  VKF_TRY(vkf_gpu_buffer_write(vkf_vkop_place_buffer(place), place->offset, packed, bytes));
done:
  vkf_env_free(env, packed);
  return st;
}

/* Writes what the sizes cover of a matrix with capacity strides, so a step with a large capacity writes no more than it
 * uses. */
static vkf_status write_covered(const vkop_place *place, const vkf_slot *slot, const vkf_dims *dims, const char *data) {
  const uint64_t stride = (uint64_t)slot->extent[1].cap * vkf_dtype_bytes(slot->dtype),
                 bytes = (uint64_t)vkf_slot_extent(slot, 1, dims) * vkf_dtype_bytes(slot->dtype);
  for (uint32_t r = 0; r < vkf_slot_extent(slot, 0, dims); r++)
    VKF_CALL(vkf_gpu_buffer_write(vkf_vkop_place_buffer(place), place->offset + r * stride, data + r * stride, bytes));
  return VKF_OK;
}

vkf_status vkf_vkop_write(vkf_program *p, uint32_t slot, const vkf_dims *dims, const void *data) {
  vkf_status st = VKF_OK;
  const vkf_slot *s = &p->plan->slots[slot];
  const vkop_place *place = &p->places[slot];
  vkf_env *env = p->backend->base.env;
  uint64_t elements = vkf_slot_is_packed(s) ? vkf_slot_elements_at(s, dims) : vkf_slot_elements(s);
  float *let_in = NULL;
  if (!elements) goto done;
  if (s->kind != VKF_SLOT_CONSTANT) VKF_TRY(vkf_vkop_settle(p));
  if (p->backend->base.reproducible && s->dtype == VKF_F32) {
    let_in = vkf_env_alloc(env, elements, sizeof *let_in);
    if (!let_in) VKF_TRY(VKF_ERROR_MEMORY);
    memcpy(let_in, data, elements * sizeof *let_in);
    vkf_format_let_in(let_in, elements);
    data = let_in;
  }
  if (s->format != VKF_FORMAT_F32)
    VKF_TRY(write_stored(p, s, place, 0, data));
  else if (p->packings[slot].layout != VKF_LAYOUT_W_ROWS)
    VKF_TRY(write_packed(p, &p->packings[slot], s, place, data));
  else if (s->rank == 2 && !vkf_slot_is_packed(s))
    VKF_TRY(write_covered(place, s, dims, data));
  else
    VKF_TRY(
        vkf_gpu_buffer_write(vkf_vkop_place_buffer(place), place->offset, data, elements * vkf_dtype_bytes(s->dtype)));
done:
  vkf_env_free(env, let_in);
  return st;
}

vkf_status vkf_vkop_write_rows(vkf_program *p, uint32_t slot, uint32_t n, const void *data) {
  const vkf_slot *s = &p->plan->slots[slot];
  const vkop_place *place = &p->places[slot];
  if (!n) return VKF_OK;
  VKF_CALL(vkf_vkop_settle(p));
  return vkf_gpu_buffer_write(vkf_vkop_place_buffer(place), place->offset, data,
                              (uint64_t)n * s->extent[1].cap * vkf_dtype_bytes(s->dtype));
}

vkf_status vkf_vkop_write_one(vkf_program *p, uint32_t slot, uint32_t at, const vkf_dims *dims, const float *data) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  const vkf_slot one = vkf_slot_one(&p->plan->slots[slot]);
  float *strided = vkf_env_alloc(env, vkf_slot_elements(&one), sizeof *strided);
  if (!strided) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_slot_scatter(env, &one, dims, data, strided));
  if (p->backend->base.reproducible) vkf_format_let_in(strided, vkf_slot_elements(&one));
  VKF_TRY(write_stored(p, &one, &p->places[slot], at * vkf_slot_stored_bytes(&one), strided));
done:
  vkf_env_free(env, strided);
  return st;
}

/* Returns whether what the sizes cover is contiguous on the device, as the caller gets it. */
static bool is_dense(const vkf_slot *s, const vkf_dims *dims) {
  if (vkf_slot_is_packed(s)) return true;
  for (uint32_t i = 1; i < s->rank; i++)
    if (vkf_slot_extent(s, i, dims) != s->extent[i].cap) return false;
  return s->format == VKF_FORMAT_F32;
}

/* Reads a slot, or a part of one, `s`, that begins `offset` bytes behind its place. */
static vkf_status read_slot(vkf_program *p, const vkf_slot *s, const vkop_place *place, uint64_t offset,
                            const vkf_dims *dims, void *data) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  uint64_t actual = vkf_slot_elements_at(s, dims);
  char *all = NULL, *stored = NULL;
  if (!actual) goto done;
  if (is_dense(s, dims)) {
    VKF_TRY(vkf_gpu_buffer_read(vkf_vkop_place_buffer(place), place->offset + offset, data,
                                actual * vkf_dtype_bytes(s->dtype)));
  } else {
    uint64_t bytes = vkf_slot_elements(s) * vkf_dtype_bytes(s->dtype);
    all = vkf_env_alloc(env, bytes, 1);
    if (!all) VKF_TRY(VKF_ERROR_MEMORY);
    stored = s->format == VKF_FORMAT_F32 ? all : vkf_env_alloc(env, vkf_slot_stored_bytes(s), 1);
    if (!stored) VKF_TRY(VKF_ERROR_MEMORY);
    VKF_TRY(
        vkf_gpu_buffer_read(vkf_vkop_place_buffer(place), place->offset + offset, stored, vkf_slot_stored_bytes(s)));
    if (stored != all) from_words(s, (const uint32_t *)stored, (float *)all);
    VKF_TRY(vkf_slot_compact(env, s, dims, all, data));
  }
  if (p->backend->base.reproducible && s->dtype == VKF_F32) vkf_format_let_out(data, actual);
done:
  if (stored != all) vkf_env_free(env, stored);
  vkf_env_free(env, all);
  return st;
}

vkf_status vkf_vkop_read(vkf_program *p, uint32_t slot, const vkf_dims *dims, void *data) {
  return read_slot(p, &p->plan->slots[slot], &p->places[slot], 0, dims, data);
}

vkf_status vkf_vkop_read_one(vkf_program *p, uint32_t slot, uint32_t at, const vkf_dims *dims, float *data) {
  const vkf_slot one = vkf_slot_one(&p->plan->slots[slot]);
  return read_slot(p, &one, &p->places[slot], at * vkf_slot_stored_bytes(&one), dims, data);
}

vkf_status vkf_vkop_poison(vkf_program *p) {
  VKF_CALL(vkf_vkop_pools_fill(&p->temps, VKF_POISON));
  return vkf_vkop_pools_fill(&p->results, VKF_POISON);
}
