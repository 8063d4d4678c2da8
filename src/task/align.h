/* align: how much each id of a translation looks at each id of its source. */
#ifndef VKF_TASK_ALIGN_H
#define VKF_TASK_ALIGN_H

#include "task/parts.h"
#include "task/sequences.h"

/* Sets the alignment of each of the translations [n] of a source: one forward pass, in which their ids are fed. */
vkf_status vkf_task_align(vkf_session *session, vkf_arena *arena, const vkf_part *source, vkf_kept *targets, size_t n);

#endif
