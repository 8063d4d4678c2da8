/* pools: see pools.h. */
#include "vkop/pools.h"

#include <string.h>

#include "op/plan.h"

uint64_t vkf_vkop_pools_limit(const vkf_gpu_device *device) {
  const uint64_t most = vkf_gpu_device_caps(device)->max_allocation_bytes;
  return VKF_MAX(most / VKF_PLACE_ALIGNMENT, 1) * VKF_PLACE_ALIGNMENT;
}

void vkf_vkop_pools_init(vkop_pools *p, vkop_pools *lender, vkf_gpu_device *device, const char *name,
                         vkf_gpu_memory memory, uint64_t most) {
  *p = (vkop_pools){.lender = lender, .device = device, .name = name, .memory = memory, .most = most};
}

void vkf_vkop_pools_finish(vkop_pools *p) {
  if (!p->device) return;
  vkf_env *env = vkf_gpu_device_env(p->device);
  for (size_t i = 0; i < p->n_buffers; i++) vkf_gpu_buffer_destroy(&p->buffers[i]);
  vkf_env_free(env, p->buffers);
  vkf_env_free(env, p->used);
  *p = (vkop_pools){0};
}

vkf_status vkf_vkop_pools_put(vkop_pools *p, uint64_t offset, uint64_t bytes) {
  const size_t i = (size_t)(offset / p->most);
  uint64_t *used = vkf_env_grow(vkf_gpu_device_env(p->device), p->used, &p->capacity, i + 1, sizeof *used);
  if (!used) return VKF_ERROR_MEMORY;
  p->used = used;
  while (p->n <= i) p->used[p->n++] = 0;
  p->used[i] = VKF_MAX(p->used[i], offset % p->most + bytes);
  p->end = VKF_MAX(p->end, offset + bytes);
  return VKF_OK;
}

vkf_status vkf_vkop_pools_add(vkop_pools *p, uint64_t bytes, uint64_t *offset) {
  *offset = vkf_place_whole(p->end, bytes, p->most);
  return vkf_vkop_pools_put(p, *offset, bytes);
}

/* Makes room for n buffers. */
static vkf_status make_room(vkop_pools *to, size_t n) {
  vkf_gpu_buffer **buffers =
      vkf_env_grow(vkf_gpu_device_env(to->device), to->buffers, &to->buffers_capacity, VKF_MAX(n, 1), sizeof *buffers);
  if (!buffers) return VKF_ERROR_MEMORY;
  to->buffers = buffers;
  while (to->n_buffers < n) to->buffers[to->n_buffers++] = NULL;
  return VKF_OK;
}

vkf_status vkf_vkop_pools_make(vkop_pools *p) {
  vkop_pools *to = p->lender ? p->lender : p;
  VKF_CALL(make_room(to, p->n));
  vkf_gpu_buffer **buffers = to->buffers;
  for (size_t i = 0; i < p->n; i++) {
    if (p->used[i] <= (buffers[i] ? vkf_gpu_buffer_bytes(buffers[i]) : 0)) continue;
    vkf_gpu_buffer_destroy(&buffers[i]); /* first, so that both are never held at once */
    to->n_made++;
    VKF_CALL(vkf_gpu_buffer_create(to->device, to->name, to->memory, p->used[i], &buffers[i]));
  }
  return VKF_OK;
}

vkf_status vkf_vkop_pools_share(vkop_pools *p, const vkop_pools *of, bool *shared) {
  *shared = p->n == of->n && p->most == of->most && !memcmp(p->used, of->used, p->n * sizeof *p->used);
  VKF_CALL(make_room(p, p->n));
  for (size_t i = 0; i < p->n && *shared; i++) {
    VKF_CALL(vkf_gpu_buffer_share(p->device, of->buffers[i], &p->buffers[i]));
    *shared = p->buffers[i] != NULL;
  }
  for (size_t i = 0; i < p->n && !*shared; i++) vkf_gpu_buffer_destroy(&p->buffers[i]);
  return VKF_OK;
}

void vkf_vkop_pools_find(const vkop_pools *p, vkop_place *place) {
  place->pools = p->lender ? p->lender : p;
  place->piece = (size_t)(place->offset / p->most);
  place->offset %= p->most;
}

vkf_gpu_buffer *vkf_vkop_place_buffer(const vkop_place *place) {
  return place->pools->buffers[place->piece];
}

vkf_status vkf_vkop_pools_fill(const vkop_pools *p, uint32_t word) {
  for (size_t i = 0; i < p->n_buffers; i++)
    if (p->buffers[i]) VKF_CALL(vkf_gpu_buffer_fill(p->buffers[i], 0, vkf_gpu_buffer_bytes(p->buffers[i]), word));
  return VKF_OK;
}

uint64_t vkf_vkop_pools_bytes(const vkop_pools *p) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < p->n_buffers; i++) bytes += vkf_gpu_buffer_held(p->buffers[i]);
  return bytes;
}
