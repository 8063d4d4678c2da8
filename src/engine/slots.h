/* slots: sequences of a decoder that a caller feeds, one step at a time.
 *
 * Owns the ids and logits of each slot, and one bucket of the plan cache (caches of keys and values, programs) for all
 * slots. Invariant: the caches of a slot have the keys and values of its first n_done ids; nothing behind them is read.
 */
#ifndef VKF_ENGINE_SLOTS_H
#define VKF_ENGINE_SLOTS_H

#include "engine/plan_cache.h"

typedef struct vkf_slots vkf_slots;

/* Makes the slots that vkf_session_params asks for. *out NULL: n_slots is 0. VKF_ERROR_UNSUPPORTED: the model has no
 * decoder with a head. */
vkf_status vkf_engine_slots_create(vkf_session *session, const vkf_session_params *params, vkf_slots **out);
/* *slots may be NULL. */
void vkf_engine_slots_destroy(vkf_slots **slots);
/* Returns the bytes that they hold on the device. slots may be NULL. */
vkf_plan_cache_bytes vkf_engine_slots_bytes(const vkf_slots *slots);

#endif
