/* ref: the scalar path, with which everything else is compared.
 *
 * Plain loops in the order of the equation, which you can read beside the paper: sums in double, rounded once to
 * float32. On request they also give the exact values and the derived bounds of another device's result
 * (docs/numerics.md). They need no Vulkan and no threads.
 */
#ifndef VKF_REF_REF_H
#define VKF_REF_REF_H

#include <math.h>

#include "op/compare.h"

/* One op on host views. Writes call->out, and exact and bound where they are given. VKF_ERROR_ARGUMENT for an index
 * (id, position, row) outside its table; VKF_ERROR_MEMORY. */
#define X(NAME, name) vkf_status vkf_ref_##name(vkf_env *env, const vkf_call *call);
VKF_OP_LIST(X)
#undef X

/* The op that call->op names. */
vkf_status vkf_ref_run(vkf_env *env, const vkf_call *call);

/* How far each float output of the exact op can move where the float inputs are off by at most errors[i], laid out as
 * call->in[i] (data NULL where the input is absent or int32). out[o]: laid out as call->out[o], whose data are not
 * looked at; NULL where there is none. VKF_ERROR_UNSUPPORTED for edits; else as vkf_ref_run. */
vkf_status vkf_ref_propagate_error(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *const *out);

/* A bound that is at least 0 as float32: rounded up, with room for a few roundings on the way. */
static inline float vkf_ref_up(double bound) {
  float up = (float)(bound * (1 + 0x1p-20));
  return (double)up < bound ? nextafterf(up, INFINITY) : up;
}

/* The backend "ref": every slot an array of its own at capacity, run node by node. */
vkf_status vkf_ref_backend_create(vkf_env *env, vkf_backend **out);

#endif
