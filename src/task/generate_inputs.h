/* generate_inputs: checks the arrays that a caller gives to generate, and prepares them for the search. */
#ifndef VKF_TASK_GENERATE_INPUTS_H
#define VKF_TASK_GENERATE_INPUTS_H

#include "engine/opened.h"

typedef struct vkf_generate_arrays {
  size_t shape[2];     /* [B,S] */
  int32_t *ids, *mask; /* [B][S]; mask NULL: all 1 */
  size_t prefix[2];    /* [B,T] */
  int32_t *prefix_ids; /* [B][T]: the target's first ids, with its start id; NULL: the start id alone */
} vkf_generate_arrays;

/* Refuses, by name, arrays that the model does not take. Call finish even if this fails. */
vkf_status vkf_task_generate_arrays_init(vkf_session *session, const vkf_generation_config *config,
                                         const vkf_array *inputs, size_t n_inputs, vkf_generate_arrays *out);
void vkf_task_generate_arrays_finish(vkf_env *env, vkf_generate_arrays *arrays);

#endif
