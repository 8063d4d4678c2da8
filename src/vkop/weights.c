/* Weights and states on the device: packed once, at load, into pools.
 *
 * A weight lies in the packing that the kernels of this device like best; one that is both a table and a matmul operand
 * (tied embeddings) lies there once. States start as zeros.
 */
#include "vkop/internal.h"

/* Rows of a part are a multiple of this, the columns of the largest tile, and of those that are packed together. */
#define VKF_PART_ROWS 128
/* Pools are as large as this or as their one weight; small enough for devices that limit an allocation. */
#define POOL_BYTES (UINT64_C(64) << 20)

static vkf_weight_packing choose_packing(const vkop_backend *b, const vkf_weight_info *info,
                                         const vkf_variant *forced) {
  vkf_weight_packing rows = {VKF_LAYOUT_W_ROWS, 1, 1, info->format};
  if (!(info->use & VKF_WEIGHT_MATMUL) || info->rank != 2) return rows;
  return vkf_kern_weight_packing(vkf_gpu_device_caps(b->device), b->tuned, info->shape[0], info->shape[1], info->format,
                                 forced);
}

static uint32_t columns_of(const vkf_weight_info *info) {
  return info->rank == 2 ? info->shape[1] : 1;
}

static uint64_t part_bytes(const vkf_weights *w, uint32_t i, uint32_t rows, uint64_t align) {
  return VKF_ROUND_UP(vkf_kern_packed_bytes(&w->packings[i], rows, columns_of(&w->infos[i])) + VKF_GUARD_BYTES, align);
}

/* Rows of weight i in a part: all, where one binding and one allocation hold it, else as many whole groups as they
 * hold. */
static vkf_status cut_weight(const vkf_weights *w, uint32_t i, uint64_t most, uint64_t align, uint32_t *rows) {
  const vkf_weight_info *info = &w->infos[i];
  const uint32_t n = info->shape[0], group = VKF_ROUND_UP(VKF_PART_ROWS, w->packings[i].columns);
  const uint64_t bytes = part_bytes(w, i, n, align);
  *rows = n;
  if (bytes <= most) return VKF_OK;
  for (*rows = 0; *rows + group < n && part_bytes(w, i, *rows + group, align) <= most;) *rows += group;
  if (*rows && info->use != VKF_WEIGHT_VECTOR) return VKF_OK;
  return vkf_env_fail(w->backend->base.env, VKF_ERROR_UNSUPPORTED,
                      "weight %s takes %llu bytes, expected at most %llu: one storage binding of %s%s", info->name,
                      (unsigned long long)bytes, (unsigned long long)most,
                      vkf_gpu_device_caps(w->backend->device)->device_name,
                      info->use == VKF_WEIGHT_VECTOR ? "" : ", which holds not even one group of its rows");
}

/* Cuts all weights and counts their parts. */
static vkf_status cut_weights(vkf_weights *w, uint64_t align) {
  vkf_status st = VKF_OK;
  vkf_env *env = w->backend->base.env;
  const vkf_caps *caps = vkf_gpu_device_caps(w->backend->device);
  const uint64_t most = VKF_MIN(caps->max_storage_range_bytes, caps->max_allocation_bytes);
  uint32_t *rows = vkf_env_alloc(env, w->n, sizeof *rows);
  if (!rows) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    VKF_TRY(cut_weight(w, i, most, align, &rows[i]));
    w->first_part[i + 1] = w->first_part[i] + VKF_CEIL_DIV(w->infos[i].shape[0], rows[i]);
  }
  w->parts = vkf_env_alloc(env, w->first_part[w->n], sizeof *w->parts);
  if (!w->parts) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    const uint32_t n = w->infos[i].shape[0];
    uint32_t first = 0;
    for (uint32_t p = w->first_part[i]; p < w->first_part[i + 1]; first += w->parts[p++].rows)
      w->parts[p] = (vkop_part){.first = VKF_MIN(first, n - rows[i]), .rows = rows[i]};
  }
done:
  vkf_env_free(env, rows);
  return st;
}

/* Places all parts; creates the pools. */
static vkf_status place_weights(vkf_weights *w) {
  vkf_status st = VKF_OK;
  vkf_env *env = w->backend->base.env;
  const vkf_caps *caps = vkf_gpu_device_caps(w->backend->device);
  uint64_t align = VKF_MAX(VKF_PLACE_ALIGNMENT, caps->storage_offset_alignment), used = 0, pool_start = 0;
  uint32_t *pool_of = NULL;
  uint64_t *pool_bytes = NULL;
  VKF_TRY(cut_weights(w, align));
  const uint32_t n_parts = w->first_part[w->n];
  pool_of = vkf_env_alloc(env, n_parts, sizeof *pool_of);
  pool_bytes = vkf_env_alloc(env, n_parts, sizeof *pool_bytes);
  if (!pool_of || !pool_bytes) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0, p = 0; i < w->n; i++) {
    for (; p < w->first_part[i + 1]; p++) {
      const uint32_t rows = w->parts[p].rows;
      const uint64_t bytes = part_bytes(w, i, rows, align);
      const uint64_t scales = vkf_kern_scales_offset(&w->packings[i], rows, columns_of(&w->infos[i]));
      if (w->n_pools == 0 || used + bytes - pool_start > VKF_MIN(POOL_BYTES, caps->max_allocation_bytes)) {
        pool_start = used;
        w->n_pools++;
      }
      pool_of[p] = w->n_pools - 1;
      w->parts[p].place = (vkop_place){NULL, used - pool_start, bytes, scales, VKF_LAYOUT_ROWS};
      pool_bytes[pool_of[p]] = used - pool_start + bytes;
      used += bytes;
    }
  }
  w->pools = vkf_env_alloc(env, VKF_MAX(w->n_pools, 1), sizeof *w->pools);
  if (!w->pools) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t p = 0; p < w->n_pools; p++)
    VKF_TRY(vkf_gpu_buffer_create(w->backend->device, "weights", VKF_GPU_MEMORY_DEVICE, pool_bytes[p], &w->pools[p]));
  for (uint32_t p = 0; p < n_parts; p++) w->parts[p].place.buffer = w->pools[pool_of[p]];
  w->bytes = used;
done:
  vkf_env_free(env, pool_of);
  vkf_env_free(env, pool_bytes);
  return st;
}

/* rows: of the part, as float32. */
static vkf_status upload_part(vkf_weights *w, uint32_t i, const vkop_part *part, const float *rows) {
  vkf_status st = VKF_OK;
  vkf_env *env = w->backend->base.env;
  const vkf_weight_packing *packing = &w->packings[i];
  const vkop_place *place = &part->place;
  const uint32_t k = columns_of(&w->infos[i]);
  const void *from = rows;
  void *packed = NULL;
  size_t bytes = vkf_kern_packed_bytes(packing, part->rows, k);
  if (packing->layout != VKF_LAYOUT_W_ROWS || packing->format != VKF_FORMAT_F32) {
    from = packed = vkf_env_alloc(env, bytes, 1);
    if (!packed) VKF_TRY(VKF_ERROR_MEMORY);
    vkf_kern_pack(packing, part->rows, k, rows, packed);
  } else {
    bytes = (size_t)part->rows * k * sizeof *rows;
  }
  VKF_TRY(vkf_gpu_buffer_write(place->buffer, place->offset, from, bytes));
  VKF_TRY(vkf_gpu_buffer_fill(place->buffer, place->offset + bytes, place->bytes - bytes, 0));
done:
  vkf_env_free(env, packed);
  return st;
}

static vkf_status upload_weight(vkf_weights *w, const vkf_weight_source *source, uint32_t i) {
  vkf_status st = VKF_OK;
  vkf_env *env = w->backend->base.env;
  const vkf_weight_info *info = &w->infos[i];
  const uint32_t k = columns_of(info);
  float *rows = vkf_env_alloc(env, (size_t)info->shape[0] * k, sizeof *rows);
  if (!rows) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_weight_load(env, source, i, rows));
  for (uint32_t p = w->first_part[i]; p < w->first_part[i + 1]; p++)
    VKF_TRY(upload_part(w, i, &w->parts[p], rows + (size_t)w->parts[p].first * k));
done:
  vkf_env_free(env, rows);
  return st;
}

vkf_status vkf_vkop_weights_create(vkf_backend *backend, const vkf_weight_source *source, const char *variant,
                                   vkf_weights **out) {
  vkf_status st = VKF_OK;
  vkop_backend *b = (vkop_backend *)backend;
  const vkf_variant *forced = variant ? vkf_vkop_find_variant(backend, variant) : NULL;
  vkf_weights *w = vkf_env_alloc(backend->env, 1, sizeof *w);
  if (!w) VKF_TRY(VKF_ERROR_MEMORY);
  w->backend = b;
  w->n = source->n_weights;
  w->infos = vkf_env_alloc(backend->env, w->n, sizeof *w->infos);
  w->packings = vkf_env_alloc(backend->env, w->n, sizeof *w->packings);
  w->first_part = vkf_env_alloc(backend->env, (size_t)w->n + 1, sizeof *w->first_part);
  if (!w->infos || !w->packings || !w->first_part) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    w->infos[i] = source->infos[i];
    w->packings[i] = choose_packing(b, &w->infos[i], forced);
  }
  VKF_TRY(place_weights(w));
  for (uint32_t i = 0; i < w->n; i++) VKF_TRY(upload_weight(w, source, i));
done:
  if (st) vkf_vkop_weights_destroy(&w);
  *out = w;
  return st;
}

void vkf_vkop_weights_destroy(vkf_weights **weights) {
  vkf_weights *w = *weights;
  if (!w) return;
  vkf_env *env = w->backend->base.env;
  for (uint32_t p = 0; w->pools && p < w->n_pools; p++) vkf_gpu_buffer_destroy(&w->pools[p]);
  vkf_env_free(env, w->pools);
  vkf_env_free(env, w->infos);
  vkf_env_free(env, w->packings);
  vkf_env_free(env, w->parts);
  vkf_env_free(env, w->first_part);
  vkf_env_free(env, w);
  *weights = NULL;
}

uint64_t vkf_vkop_weights_bytes(const vkf_weights *weights) {
  return weights->bytes;
}

vkf_status vkf_vkop_state_create(vkf_backend *backend, const vkf_plan *plan, vkf_state **out) {
  vkf_status st = VKF_OK;
  vkop_backend *b = (vkop_backend *)backend;
  uint64_t used = 0;
  vkf_state *s = vkf_env_alloc(backend->env, 1, sizeof *s);
  if (!s) VKF_TRY(VKF_ERROR_MEMORY);
  s->backend = b;
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind == VKF_SLOT_STATE) s->n = VKF_MAX(s->n, plan->slots[i].index + 1);
  s->places = vkf_env_alloc(backend->env, s->n, sizeof *s->places);
  if (!s->places) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    const vkf_slot *slot = &plan->slots[i];
    if (slot->kind != VKF_SLOT_STATE || s->places[slot->index].bytes) continue;
    uint64_t bytes = VKF_ROUND_UP(vkf_slot_stored_bytes(slot) + VKF_GUARD_BYTES, VKF_PLACE_ALIGNMENT);
    s->places[slot->index] = (vkop_place){NULL, used, bytes, 0, VKF_LAYOUT_ROWS};
    used += bytes;
  }
  if (used) {
    VKF_TRY(vkf_gpu_buffer_create(b->device, "state", VKF_GPU_MEMORY_DEVICE, used, &s->pool));
    VKF_TRY(vkf_gpu_buffer_fill(s->pool, 0, used, 0));
  }
  for (uint32_t i = 0; i < s->n; i++) s->places[i].buffer = s->pool;
done:
  if (st) vkf_vkop_state_destroy(&s);
  *out = s;
  return st;
}

void vkf_vkop_state_destroy(vkf_state **state) {
  vkf_state *s = *state;
  if (!s) return;
  vkf_env *env = s->backend->base.env;
  vkf_gpu_buffer_destroy(&s->pool);
  vkf_env_free(env, s->places);
  vkf_env_free(env, s);
  *state = NULL;
}
