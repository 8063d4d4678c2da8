/* generate: ids from ids. */
#ifndef VKF_TASK_GENERATE_H
#define VKF_TASK_GENERATE_H

#include "engine/opened.h"

/* vkf_session_generate() of a session that the caller holds. */
vkf_status vkf_task_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                             const vkf_generate_params *params, vkf_result **out);

#endif
