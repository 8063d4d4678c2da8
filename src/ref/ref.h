/* ref: the scalar path, with which everything else is compared.
 *
 * Plain loops in the order of the equation, which you can read beside the paper: sums in double, rounded once to
 * float32. On request they also give the exact values and the derived bounds of another device's result
 * (docs/numerics.md). They need no Vulkan. Only matmul uses threads, for the bounds of large products.
 */
#ifndef VKF_REF_REF_H
#define VKF_REF_REF_H

#include <math.h>

#include "op/compare.h"

/* Computes one op on host views. Writes call->out, and exact and bound if they are given. VKF_ERROR_ARGUMENT for an
 * index (id, position, row) outside its table; VKF_ERROR_MEMORY. */
#define X(NAME, name) vkf_status vkf_ref_##name(vkf_env *env, const vkf_call *call);
VKF_OP_LIST(X)
#undef X

/* Computes the op that call->op names. */
vkf_status vkf_ref_run(vkf_env *env, const vkf_call *call);

/* Computes how far each float output of the exact op can move if the float inputs are off by at most errors[i], laid
 * out as call->in[i] (data NULL if the input is absent or int32). out[o]: laid out as call->out[o], whose data are not
 * read; NULL if there is none. VKF_ERROR_UNSUPPORTED for logit edits; other errors as vkf_ref_run(). */
vkf_status vkf_ref_propagate_error(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *const *out);

/* Returns a bound of at least 0 as float32, rounded up, with room for a few roundings on the way. */
static inline float vkf_ref_up(double bound) {
  float up = (float)(bound * (1 + 0x1p-20));
  return (double)up < bound ? nextafterf(up, INFINITY) : up;
}

/* Creates the backend "ref", which runs node by node. Every slot is an array of its own at capacity. */
vkf_status vkf_ref_backend_create(vkf_env *env, vkf_backend **out);

#endif
