/* slots: sequences of a decoder that a caller feeds, one step at a time.
 *
 * Owns the ids of each slot, its bucket of the plan cache (caches of keys and values, programs) and its logits.
 * Invariant: the caches of a slot have the keys and values of its first n_done ids; behind them they have nothing that
 * is read.
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
/* The bytes that they hold on the device. */
vkf_plan_cache_bytes vkf_engine_slots_bytes(const vkf_slots *slots);

#endif
