/* generate: generates ids that follow ids. */
#ifndef VKF_TASK_GENERATE_H
#define VKF_TASK_GENERATE_H

#include "engine/opened.h"

/* vkf_session_generate() for a caller that holds the session. */
vkf_status vkf_task_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                             const vkf_generate_params *params, vkf_result **out);

#endif
