/* Data in and out of a program's slots, and the poison that validation fills memory with.
 *
 * Outside everything is rows; panels are made and unmade here. Slots of rank 3 and more, and masks, have capacity
 * strides on the device and are dense at actual sizes when read.
 */
#include <string.h>

#include "op/judge.h"
#include "vkop/internal.h"

static uint64_t packed_elements(const vkf_slot *slot, const vkf_dims *dims) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < slot->rank; i++) n *= vkf_slot_extent(slot, i, dims);
  return n;
}

static vkf_status write_panels(vkf_program *p, const vkop_place *place, uint32_t rows, uint32_t width,
                               const float *data) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  size_t panels = VKF_CEIL_DIV((size_t)rows, VKF_PANEL_ROWS), elements = panels * VKF_PANEL_ROWS * width;
  float *packed = vkf_env_alloc(env, elements, sizeof *packed);
  if (!packed) VKF_FAIL(env, VKF_ERROR_MEMORY, "no memory to pack %u rows into panels", rows);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < width; c++)
      packed[(r / VKF_PANEL_ROWS * width + c) * VKF_PANEL_ROWS + r % VKF_PANEL_ROWS] = data[r * width + c];
  VKF_TRY(vkf_gpu_buffer_write(place->buffer, place->offset + place->panels_offset, packed, elements * 4));
done:
  vkf_env_free(env, packed);
  return st;
}

vkf_status vkf_vkop_write(vkf_program *p, uint32_t slot, const vkf_dims *dims, const void *data) {
  vkf_status st = VKF_OK;
  const vkf_slot *s = &p->plan->slots[slot];
  const vkop_place *place = &p->places[slot];
  uint64_t elements = vkf_slot_packed(s) ? packed_elements(s, dims) : vkf_slot_elements(s);
  if (!elements) goto done;
  if (place->layouts & VKF_LAYOUT_ROWS)
    VKF_TRY(vkf_gpu_buffer_write(place->buffer, place->offset, data, elements * vkf_dtype_bytes(s->dtype)));
  if (place->layouts & VKF_LAYOUT_PANELS)
    VKF_TRY(write_panels(p, place, vkf_slot_extent(s, 0, dims), s->extent[1].cap, data));
done:
  return st;
}

vkf_status vkf_vkop_read(vkf_program *p, uint32_t slot, const vkf_dims *dims, void *data) {
  vkf_status st = VKF_OK;
  vkf_env *env = p->backend->base.env;
  const vkf_slot *s = &p->plan->slots[slot];
  const vkop_place *place = &p->places[slot];
  uint64_t actual = packed_elements(s, dims);
  char *all = NULL;
  if (!actual) goto done;
  if (vkf_slot_packed(s) && (place->layouts & VKF_LAYOUT_ROWS)) {
    VKF_TRY(vkf_gpu_buffer_read(place->buffer, place->offset, data, actual * vkf_dtype_bytes(s->dtype)));
  } else if (vkf_slot_packed(s)) {
    size_t rows = vkf_slot_extent(s, 0, dims), width = s->extent[1].cap,
           elements = VKF_ROUND_UP(rows, VKF_PANEL_ROWS) * width;
    all = vkf_env_alloc(env, elements, 4);
    if (!all) VKF_FAIL(env, VKF_ERROR_MEMORY, "no memory to read %s", s->name);
    VKF_TRY(vkf_gpu_buffer_read(place->buffer, place->offset + place->panels_offset, all, elements * 4));
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < width; c++)
        ((float *)data)[r * width + c] =
            ((const float *)all)[(r / VKF_PANEL_ROWS * width + c) * VKF_PANEL_ROWS + r % VKF_PANEL_ROWS];
  } else {
    uint64_t bytes = vkf_slot_elements(s) * vkf_dtype_bytes(s->dtype);
    all = vkf_env_alloc(env, bytes, 1);
    if (!all) VKF_FAIL(env, VKF_ERROR_MEMORY, "no memory to read %s", s->name);
    VKF_TRY(vkf_gpu_buffer_read(place->buffer, place->offset, all, bytes));
    VKF_TRY(vkf_slot_compact(env, s, dims, all, data));
  }
done:
  vkf_env_free(env, all);
  return st;
}

vkf_status vkf_vkop_poison(vkf_program *p) {
  vkf_status st = VKF_OK;
  vkf_gpu_buffer *pools[] = {p->temps, p->results};
  for (size_t i = 0; i < VKF_COUNT(pools); i++)
    if (pools[i]) VKF_TRY(vkf_gpu_buffer_fill(pools[i], 0, vkf_gpu_buffer_bytes(pools[i]), UINT32_C(0x7fc00000)));
done:
  return st;
}
