/* ref: the scalar path, the judge of everything else.
 *
 * Plain loops in the order of the equation, accumulated in double, rounded once to float32: to be read against the
 * paper. On request also the exact values and the derived bounds of somebody else's result (docs/numerics.md). Needs no
 * Vulkan and no threads.
 */
#ifndef VKF_REF_REF_H
#define VKF_REF_REF_H

#include "op/judge.h"

/* One op on host views. Writes call->out, and exact and bound where they are given. VKF_ERROR_ARGUMENT for an index
 * (id, position, row) outside its table; VKF_ERROR_MEMORY. */
#define X(NAME, name) vkf_status vkf_ref_##name(vkf_env *env, const vkf_call *call);
VKF_OP_LIST(X)
#undef X

/* The op that call->op names. */
vkf_status vkf_ref_run(vkf_env *env, const vkf_call *call);

/* The backend "ref": every slot an array of its own at capacity, run node by node. */
vkf_status vkf_ref_backend_create(vkf_env *env, vkf_backend **out);

#endif
