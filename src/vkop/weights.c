/* Weights on the device: packed once, at load, into pools.
 *
 * A weight has the packing whose kernels are the best on this device; one that is both a table and a matmul operand
 * (tied embeddings) is stored once.
 */
#include <string.h>

#include "vkop/internal.h"

/* A shard's rows are a multiple of this, the columns of the largest tile, and of those that are packed together. */
#define VKF_PART_ROWS 128
/* The size of a pool, unless a shard is larger; small enough for devices that limit an allocation. */
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

static uint64_t shard_bytes(const vkf_weights *w, uint32_t i, uint32_t rows, uint64_t align) {
  return VKF_ROUND_UP(vkf_kern_packed_bytes(&w->packings[i], rows, columns_of(&w->infos[i])) + VKF_GUARD_BYTES, align);
}

/* Finds the rows of weight i in a shard: all, if one binding and one allocation hold them, else as many whole groups as
 * they hold. */
static vkf_status cut_weight(const vkf_weights *w, uint32_t i, uint64_t most, uint64_t align, uint32_t *rows) {
  const vkf_weight_info *info = &w->infos[i];
  const uint32_t n = info->shape[0], group = VKF_ROUND_UP(VKF_PART_ROWS, w->packings[i].columns);
  const uint64_t bytes = shard_bytes(w, i, n, align);
  *rows = n;
  if (bytes <= most) return VKF_OK;
  for (*rows = 0; *rows + group < n && shard_bytes(w, i, *rows + group, align) <= most;) *rows += group;
  if (*rows && info->use != VKF_WEIGHT_VECTOR) return VKF_OK;
  return vkf_env_fail(w->backend->base.env, VKF_ERROR_UNSUPPORTED,
                      "weight %s takes %llu bytes, expected at most %llu: one storage binding of %s%s", info->name,
                      (unsigned long long)bytes, (unsigned long long)most,
                      vkf_gpu_device_caps(w->backend->device)->device_name,
                      info->use == VKF_WEIGHT_VECTOR ? "" : ", which holds not even one group of its rows");
}

/* Cuts all weights and counts their shards. */
static vkf_status cut_weights(vkf_weights *w, uint64_t align) {
  vkf_status st = VKF_OK;
  vkf_env *env = w->backend->base.env;
  const vkf_caps *caps = vkf_gpu_device_caps(w->backend->device);
  const uint64_t most = VKF_MIN(caps->max_storage_range_bytes, vkf_vkop_pools_limit(w->backend->device));
  uint32_t *rows = vkf_env_alloc(env, w->n, sizeof *rows);
  if (!rows) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    VKF_TRY(cut_weight(w, i, most, align, &rows[i]));
    w->first_shard[i + 1] = w->first_shard[i] + VKF_CEIL_DIV(w->infos[i].shape[0], rows[i]);
  }
  w->shards = vkf_env_alloc(env, w->first_shard[w->n], sizeof *w->shards);
  if (!w->shards) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    const uint32_t n = w->infos[i].shape[0];
    uint32_t first = 0;
    for (uint32_t p = w->first_shard[i]; p < w->first_shard[i + 1]; first += w->shards[p++].rows)
      w->shards[p] = (vkop_shard){.first = VKF_MIN(first, n - rows[i]), .rows = rows[i]};
  }
done:
  vkf_env_free(env, rows);
  return st;
}

static vkf_status place_shards(vkf_weights *w, uint64_t align) {
  for (uint32_t i = 0, p = 0; i < w->n; i++) {
    for (; p < w->first_shard[i + 1]; p++) {
      const uint32_t rows = w->shards[p].rows;
      const uint64_t scales = vkf_kern_scales_offset(&w->packings[i], rows, columns_of(&w->infos[i]));
      w->shards[p].place = (vkop_place){.bytes = shard_bytes(w, i, rows, align), .scales_offset = scales};
      VKF_CALL(vkf_vkop_pools_add(&w->pools, w->shards[p].place.bytes, &w->shards[p].place.offset));
    }
  }
  return VKF_OK;
}

/* Returns whether both are stored alike. The reproducible mode stores tiny numbers as 0. */
static bool is_stored_as(const vkf_weights *w, const vkf_weights *other) {
  if (w->n != other->n || w->backend->base.reproducible != other->backend->base.reproducible) return false;
  for (uint32_t i = 0; i < w->n; i++) {
    const vkf_weight_packing *a = &w->packings[i], *b = &other->packings[i];
    if (a->layout != b->layout || a->columns != b->columns || a->k_align != b->k_align || a->format != b->format)
      return false;
    if (memcmp(w->infos[i].shape, other->infos[i].shape, sizeof w->infos[i].shape) != 0) return false;
  }
  return true;
}

/* Cuts weights and places all shards; creates the pools, if possible in the memory of `same` (may be NULL). */
static vkf_status place_weights(vkf_weights *w, const vkf_weights *same, bool *shared) {
  vkf_gpu_device *device = w->backend->device;
  const uint64_t align = VKF_MAX(VKF_PLACE_ALIGNMENT, vkf_gpu_device_caps(device)->storage_offset_alignment);
  uint64_t most = VKF_MIN(POOL_BYTES, vkf_vkop_pools_limit(device));
  VKF_CALL(cut_weights(w, align));
  for (uint32_t i = 0; i < w->n; i++) most = VKF_MAX(most, shard_bytes(w, i, w->shards[w->first_shard[i]].rows, align));
  vkf_vkop_pools_init(&w->pools, NULL, device, "weights", VKF_GPU_MEMORY_LARGE, most);
  VKF_CALL(place_shards(w, align));
  *shared = same && is_stored_as(w, same);
  if (*shared) VKF_CALL(vkf_vkop_pools_share(&w->pools, &same->pools, shared));
  if (!*shared) VKF_CALL(vkf_vkop_pools_make(&w->pools));
  for (uint32_t p = 0; p < w->first_shard[w->n]; p++) vkf_vkop_pools_find(&w->pools, &w->shards[p].place);
  return VKF_OK;
}

/* A few rows of a weight on their way from the file to the device, so that no copy of a whole weight is in host memory.
 * Several chunks are made ready at once, each by a core; only the caller's thread allocates memory, calls the device
 * and reports failures. */
typedef struct chunk {
  const vkop_shard *shard;
  uint32_t weight, first, n; /* rows [first, first + n) of the shard, `first` a multiple of what is packed together */
  bool is_packed;            /* `rows` has the elements of the packing: `packed` is not used */
  bool is_held;              /* the format can hold its numbers */
} chunk;
#define CHUNK_BYTES (UINT64_C(1) << 19) /* of rows as float32: they and their packed form stay in a cache */

/* The memory in which a chunk is made ready. */
typedef struct room {
  float *rows; /* as loaded, or as copied from the file */
  char *packed;
} room;

/* The chunks that are made ready together; enough of them that starting threads costs little. If all device memory is
 * mapped, a thread writes its chunks to the device itself and uses one room for all. If not, each chunk has a room of
 * its own until it is uploaded. */
typedef struct window {
  const vkf_weights *w;
  const vkf_weight_source *source;
  chunk *chunks;
  uint32_t n, most;
  room *rooms;
  uint32_t n_rooms, n_threads;
  bool is_mapped;
  size_t rows_bytes, packed_bytes; /* of each room */
} window;

/* Returns the rows of weight i in a chunk. */
static uint32_t chunk_rows(const vkf_weights *w, uint32_t i) {
  const vkf_weight_packing *packing = &w->packings[i];
  const uint32_t most = w->shards[w->first_shard[i]].rows;
  const uint32_t group = packing->layout == VKF_LAYOUT_W_ROWS ? 4 : packing->columns; /* whole words, whole packs */
  const uint64_t fit = CHUNK_BYTES / (columns_of(&w->infos[i]) * sizeof(float)) / group * group;
  return (uint32_t)VKF_MIN(VKF_MAX(fit, group), (uint64_t)most);
}

static void window_finish(window *all) {
  vkf_env *env = all->w->backend->base.env;
  for (uint32_t i = 0; all->rooms && i < all->n_rooms; i++) {
    vkf_env_free(env, all->rooms[i].rows);
    vkf_env_free(env, all->rooms[i].packed);
  }
  vkf_env_free(env, all->rooms);
  vkf_env_free(env, all->chunks);
}

static vkf_status window_init(window *all, const vkf_weights *w, const vkf_weight_source *source) {
  enum { SLICES_MAPPED = 64, SLICES = 4 }; /* chunks for each thread */
  vkf_env *env = w->backend->base.env;
  *all = (window){.w = w, .source = source, .n_threads = vkf_cores(), .is_mapped = true};
  for (uint32_t p = 0; p < w->first_shard[w->n]; p++)
    all->is_mapped = all->is_mapped && vkf_gpu_buffer_mapped(vkf_vkop_place_buffer(&w->shards[p].place));
  all->most = all->n_threads * (all->is_mapped ? SLICES_MAPPED : SLICES);
  all->n_rooms = all->is_mapped ? all->n_threads : all->most;
  for (uint32_t i = 0; i < w->n; i++) {
    const uint32_t n = chunk_rows(w, i), k = columns_of(&w->infos[i]);
    all->rows_bytes = VKF_MAX(all->rows_bytes, (size_t)n * k * sizeof(float));
    all->packed_bytes = VKF_MAX(all->packed_bytes, vkf_kern_packed_bytes(&w->packings[i], n, k));
  }
  all->chunks = vkf_env_alloc(env, all->most, sizeof *all->chunks);
  all->rooms = vkf_env_alloc(env, all->n_rooms, sizeof *all->rooms);
  if (!all->chunks || !all->rooms) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < all->n_rooms; i++) {
    all->rooms[i].rows = vkf_env_alloc(env, all->rows_bytes, 1);
    all->rooms[i].packed = vkf_env_alloc(env, all->packed_bytes, 1);
    if (!all->rooms[i].rows || !all->rooms[i].packed) return VKF_ERROR_MEMORY;
  }
  return VKF_OK;
}

/* Returns where on the device the words of a chunk are; *bytes: how many. */
static uint64_t words_at(const vkf_weights *w, const chunk *c, uint64_t *bytes) {
  const vkf_weight_packing *packing = &w->packings[c->weight];
  const uint32_t k = columns_of(&w->infos[c->weight]), bits = vkf_format_get(packing->format)->bits;
  *bytes = VKF_CEIL_DIV(vkf_kern_packed_elements(packing, c->n, k) * bits, 32) * 4;
  return c->shard->place.offset + vkf_kern_packed_elements(packing, c->first, k) * bits / 8;
}

/* Loads rows, or copies them if the source has them in the packing's format. Returns their format. */
static vkf_format load_rows(const window *all, chunk *c, float *rows) {
  const vkf_weight_packing *packing = &all->w->packings[c->weight];
  const vkf_weight_source *source = all->source;
  const bool is_reproducible = all->w->backend->base.reproducible;
  const uint32_t k = columns_of(&all->w->infos[c->weight]), first = c->shard->first + c->first;
  c->is_held = true;
  if (!is_reproducible && source->copy && source->copy(source->user, c->weight, first, c->n, rows))
    return packing->format;
  source->load(source->user, c->weight, first, c->n, rows);
  c->is_held = vkf_format_holds(packing->format, rows, (size_t)c->n * k);
  if (c->is_held && is_reproducible) { /* let in after rounding, as on every backend */
    vkf_format_round_held(packing->format, rows, c->n, k);
    vkf_format_let_in(rows, (uint64_t)c->n * k);
  }
  return VKF_FORMAT_F32;
}

static room *room_of(const window *all, uint32_t thread, size_t i) {
  return &all->rooms[all->is_mapped ? thread : i];
}

/* Returns where on the device the scales of a chunk are. */
static uint64_t scales_at(const vkf_weights *w, const chunk *c) {
  const uint64_t n =
      c->first * (uint64_t)vkf_format_scales(w->packings[c->weight].format, columns_of(&w->infos[c->weight]));
  return c->shard->place.offset + c->shard->place.scales_offset + n * sizeof(float);
}

static void make_ready(void *user, uint32_t thread, size_t i) {
  const window *all = user;
  chunk *c = &all->chunks[i];
  const vkf_weight_packing *packing = &all->w->packings[c->weight];
  const uint32_t k = columns_of(&all->w->infos[c->weight]);
  const size_t scales = vkf_kern_scales_offset(packing, c->n, k), end = vkf_kern_packed_bytes(packing, c->n, k);
  room *room = room_of(all, thread, i);
  uint64_t bytes, at = words_at(all->w, c, &bytes);
  const vkf_format from = load_rows(all, c, room->rows);
  if (!c->is_held) return;
  /* Rows in the packing's format need no packing if they end with a whole word. */
  c->is_packed = packing->layout == VKF_LAYOUT_W_ROWS && from == packing->format &&
                 bytes == (uint64_t)c->n * k * vkf_format_get(from)->bits / 8;
  if (!c->is_packed) vkf_kern_pack(packing, c->n, k, from, room->rows, room->packed);
  if (!all->is_mapped) return;
  char *mapped = vkf_gpu_buffer_mapped(vkf_vkop_place_buffer(&c->shard->place));
  memcpy(mapped + at, c->is_packed ? (const char *)room->rows : room->packed, bytes);
  memcpy(mapped + scales_at(all->w, c), room->packed + scales, end - scales);
}

/* Does what is left for the caller's thread when a chunk is ready. */
static vkf_status finish_chunk(const window *all, uint32_t i) {
  const chunk *c = &all->chunks[i];
  const vkf_weight_info *info = &all->w->infos[c->weight];
  const vkf_weight_packing *packing = &all->w->packings[c->weight];
  const uint32_t k = columns_of(info), first = c->shard->first + c->first;
  const size_t scales = vkf_kern_scales_offset(packing, c->n, k), end = vkf_kern_packed_bytes(packing, c->n, k);
  vkf_gpu_buffer *buffer = vkf_vkop_place_buffer(&c->shard->place);
  const room *room = room_of(all, 0, i);
  uint64_t bytes, at = words_at(all->w, c, &bytes);
  if (!c->is_held) {
    all->source->load(all->source->user, c->weight, first, c->n, room->rows);
    VKF_CALL(vkf_format_check(all->w->backend->base.env, info->name, packing->format, first, room->rows, c->n, k));
  }
  if (all->is_mapped) {
    vkf_gpu_buffer_touch(buffer, at, bytes, VKF_GPU_WRITE);
    vkf_gpu_buffer_touch(buffer, scales_at(all->w, c), end - scales, VKF_GPU_WRITE);
    return VKF_OK;
  }
  VKF_CALL(vkf_gpu_buffer_upload(buffer, at, c->is_packed ? (const char *)room->rows : room->packed, bytes));
  return vkf_gpu_buffer_upload(buffer, scales_at(all->w, c), room->packed + scales, end - scales);
}

static vkf_status upload_window(window *all) {
  vkf_status st = VKF_OK;
  vkf_parallel(all->n, all->n_threads, make_ready, all);
  for (uint32_t i = 0; i < all->n; i++) {
    VKF_TRY(finish_chunk(all, i));
    if (all->source->loaded)
      VKF_TRY(all->source->loaded(all->source->watcher, all->chunks[i].weight, all->chunks[i].n));
  }
done:
  all->n = 0;
  return st;
}

/* Adds the shard's chunks to the window and fills its gaps with zeros. */
static vkf_status upload_shard(window *all, uint32_t i, const vkop_shard *shard) {
  static const char zeros[4096];
  const vkf_weight_packing *packing = &all->w->packings[i];
  const uint32_t k = columns_of(&all->w->infos[i]), step = chunk_rows(all->w, i);
  for (uint32_t first = 0; first < shard->rows; first += step) {
    if (all->n == all->most) VKF_CALL(upload_window(all));
    all->chunks[all->n++] =
        (chunk){.shard = shard, .weight = i, .first = first, .n = VKF_MIN(step, shard->rows - first)};
  }
  /* The gap before the scales, and the bytes behind them. */
  const uint64_t words = vkf_kern_packed_elements(packing, shard->rows, k) * vkf_format_get(packing->format)->bits,
                 words_end = VKF_CEIL_DIV(words, 32) * 4, scales = vkf_kern_scales_offset(packing, shard->rows, k),
                 bytes = vkf_kern_packed_bytes(packing, shard->rows, k);
  vkf_gpu_buffer *buffer = vkf_vkop_place_buffer(&shard->place);
  VKF_CALL(vkf_gpu_buffer_upload(buffer, shard->place.offset + words_end, zeros, scales - words_end));
  for (uint64_t at = bytes, n; at < shard->place.bytes; at += n) {
    n = VKF_MIN(shard->place.bytes - at, sizeof zeros);
    VKF_CALL(vkf_gpu_buffer_upload(buffer, shard->place.offset + at, zeros, n));
  }
  return VKF_OK;
}

static vkf_status upload_weights(vkf_weights *w, const vkf_weight_source *source) {
  vkf_status st = VKF_OK;
  window all;
  VKF_TRY(window_init(&all, w, source));
  for (uint32_t i = 0; i < w->n; i++)
    for (uint32_t p = w->first_shard[i]; p < w->first_shard[i + 1]; p++) VKF_TRY(upload_shard(&all, i, &w->shards[p]));
  VKF_TRY(upload_window(&all));
done:
  if (st == VKF_OK)
    st = vkf_gpu_upload_finish(w->backend->device);
  else
    vkf_gpu_upload_finish(w->backend->device); /* uploads must end before the pools are destroyed */
  window_finish(&all);
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
  w->first_shard = vkf_env_alloc(backend->env, (size_t)w->n + 1, sizeof *w->first_shard);
  if (!w->infos || !w->packings || !w->first_shard) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    w->infos[i] = source->infos[i];
    w->packings[i] = choose_packing(b, &w->infos[i], forced);
  }
  bool shared = false;
  VKF_TRY(place_weights(w, source->same, &shared));
  if (!shared) VKF_TRY(upload_weights(w, source));
done:
  if (st) vkf_vkop_weights_destroy(&w);
  *out = w;
  return st;
}

void vkf_vkop_weights_destroy(vkf_weights **weights) {
  vkf_weights *w = *weights;
  if (!w) return;
  vkf_env *env = w->backend->base.env;
  vkf_vkop_pools_finish(&w->pools);
  vkf_env_free(env, w->infos);
  vkf_env_free(env, w->packings);
  vkf_env_free(env, w->shards);
  vkf_env_free(env, w->first_shard);
  vkf_env_free(env, w);
  *weights = NULL;
}

uint64_t vkf_vkop_weights_bytes(const vkf_weights *weights) {
  return vkf_vkop_pools_bytes(&weights->pools);
}

vkf_status vkf_vkop_fits(vkop_backend *b, const char *name, uint64_t bytes) {
  const vkf_caps *caps = vkf_gpu_device_caps(b->device);
  const uint64_t allocation = vkf_vkop_pools_limit(b->device),
                 most = VKF_MIN(caps->max_storage_range_bytes, allocation);
  if (bytes <= most) return VKF_OK;
  return vkf_env_fail_too_large(
      b->base.env, VKF_ERROR_DEVICE_MEMORY,
      "%s takes %llu bytes, expected at most %llu: one %s of %s; a smaller batch, fewer beams or a shorter text fits",
      name, (unsigned long long)bytes, (unsigned long long)most, most == allocation ? "allocation" : "storage binding",
      caps->device_name);
}

const vkf_variant *vkf_vkop_find_variant(const vkf_backend *backend, const char *name) {
  char own[128];
  const vkf_variant *found = vkf_kern_find(name);
  for (const vkop_extra *e = ((const vkop_backend *)backend)->extras; e && !found; e = e->next)
    if (!strcmp(vkf_kern_name(&e->row, own, sizeof own), name)) found = &e->row;
  return found;
}
