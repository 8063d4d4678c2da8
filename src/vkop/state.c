/* States, and the memory that programs and states of a session use in turn.
 *
 * A new state is not filled, so pages of caches that nobody writes cost a CPU driver nothing. That is safe, because no
 * kernel lets a key that it does not see touch its result. Caches of long sequences are in large pages. Short ones are
 * not: many share a large page, and one of them would make all of it resident. With 128 sentences at a
 * time that took half as much memory again.
 */
#include "vkop/internal.h"

/* A cache is in large pages if a sequence takes at least this much of it: half a large page of x86-64. */
#define LONG_BYTES (UINT64_C(1) << 20)

vkf_status vkf_vkop_state_create(vkf_backend *backend, const vkf_plan *plan, vkf_memory *memory, vkf_state **out) {
  vkf_status st = VKF_OK;
  vkop_backend *b = (vkop_backend *)backend;
  vkf_state *s = vkf_env_alloc(backend->env, 1, sizeof *s);
  if (!s) VKF_TRY(VKF_ERROR_MEMORY);
  s->backend = b;
  vkf_vkop_pools_init(&s->pools, memory ? &memory->states : NULL, b->device, VKF_STATE_POOLS,
                      vkf_vkop_pools_limit(b->device));
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind == VKF_SLOT_STATE) s->n = VKF_MAX(s->n, plan->slots[i].index + 1);
  s->places = vkf_env_alloc(backend->env, s->n, sizeof *s->places);
  if (!s->places) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < plan->n_slots; i++) {
    const vkf_slot *slot = &plan->slots[i];
    if (slot->kind != VKF_SLOT_STATE || s->places[slot->index].bytes) continue;
    uint64_t bytes = VKF_ROUND_UP(vkf_slot_stored_bytes(slot) + VKF_GUARD_BYTES, VKF_PLACE_ALIGNMENT);
    VKF_TRY(vkf_vkop_fits(b, slot->name, bytes));
    if (bytes / slot->extent[0].cap >= LONG_BYTES)
      (s->pools.lender ? s->pools.lender : &s->pools)->memory = VKF_GPU_MEMORY_LARGE;
    s->places[slot->index].bytes = bytes;
    VKF_TRY(vkf_vkop_pools_add(&s->pools, bytes, &s->places[slot->index].offset));
  }
  VKF_TRY(vkf_vkop_pools_make(&s->pools));
  for (uint32_t i = 0; i < s->n; i++)
    if (s->places[i].bytes) vkf_vkop_pools_find(&s->pools, &s->places[i]);
done:
  if (st) vkf_vkop_state_destroy(&s);
  *out = s;
  return st;
}

void vkf_vkop_state_destroy(vkf_state **state) {
  vkf_state *s = *state;
  if (!s) return;
  vkf_env *env = s->backend->base.env;
  vkf_vkop_pools_finish(&s->pools);
  vkf_env_free(env, s->places);
  vkf_env_free(env, s);
  *state = NULL;
}

uint64_t vkf_vkop_state_bytes(const vkf_state *s) {
  return vkf_vkop_pools_bytes(&s->pools);
}

vkf_status vkf_vkop_state_poison(vkf_state *s) {
  return vkf_vkop_pools_fill(&s->pools, VKF_POISON);
}

vkf_status vkf_vkop_memory_create(vkf_backend *backend, vkf_memory **out) {
  vkf_gpu_device *device = ((vkop_backend *)backend)->device;
  const uint64_t most = vkf_vkop_pools_limit(device);
  vkf_memory *m = *out = vkf_env_alloc(backend->env, 1, sizeof *m);
  if (!m) return VKF_ERROR_MEMORY;
  m->env = backend->env;
  vkf_vkop_pools_init(&m->states, NULL, device, VKF_STATE_POOLS, most);
  vkf_vkop_pools_init(&m->inputs, NULL, device, VKF_STEP_POOLS, most);
  vkf_vkop_pools_init(&m->results, NULL, device, VKF_RESULT_POOLS, most);
  vkf_vkop_pools_init(&m->temps, NULL, device, VKF_ACTIVATION_POOLS, most);
  return VKF_OK;
}

void vkf_vkop_memory_destroy(vkf_memory **memory) {
  vkf_memory *m = *memory;
  if (!m) return;
  vkop_pools *all[] = {&m->states, &m->inputs, &m->results, &m->temps};
  for (size_t i = 0; i < VKF_COUNT(all); i++) vkf_vkop_pools_finish(all[i]);
  vkf_env_free(m->env, m);
  *memory = NULL;
}

void vkf_vkop_memory_bytes(const vkf_memory *m, uint64_t *caches, uint64_t *step) {
  *caches = vkf_vkop_pools_bytes(&m->states);
  *step = vkf_vkop_pools_bytes(&m->inputs) + vkf_vkop_pools_bytes(&m->results) + vkf_vkop_pools_bytes(&m->temps);
}
