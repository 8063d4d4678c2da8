/* align: how much each id of a translation looks at each id of its source. */
#ifndef VKF_TASK_ALIGN_H
#define VKF_TASK_ALIGN_H

#include "task/parts.h"
#include "task/sequences.h"

/* Makes *out a session for vkf_task_align() alone: its passes come between the steps of `session`, so they have memory
 * of their own. Call finish in every case. */
void vkf_task_aligner_init(vkf_session *out, const vkf_session *session);
void vkf_task_aligner_finish(vkf_session *aligner);

/* Sets the alignment of each of the translations [n] of a source: one forward pass, in which their ids are fed. */
vkf_status vkf_task_align(vkf_session *aligner, vkf_arena *arena, const vkf_part *source, vkf_kept *targets, size_t n);

#endif
