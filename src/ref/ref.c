/* ref: the table of the references, one for each op. */
#include "ref/internal.h"

static vkf_status (*const references[VKF_OP_COUNT])(vkf_env *, const vkf_call *) = {
#define X(NAME, name) vkf_ref_##name,
    VKF_OP_LIST(X)
#undef X
};

vkf_status vkf_ref_run(vkf_env *env, const vkf_call *call) {
  return references[call->op](env, call);
}
