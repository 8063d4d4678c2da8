/* queue: the caller's texts that come while others run (vkf_text_queue). */
#ifndef VKF_TASK_QUEUE_H
#define VKF_TASK_QUEUE_H

#include "engine/opened.h"

/* VKF_ERROR_ARGUMENT: a function is missing. */
vkf_status vkf_task_queue_read(vkf_env *env, const vkf_text_queue *given, vkf_text_queue *out);
/* Asks for the next text; out->text NULL: there is none now. true: the caller asks to stop. */
bool vkf_task_queue_next(vkf_env *env, const vkf_text_queue *queue, bool busy, vkf_queued_text *out);
/* Tells of a text that is done; the same answer. */
bool vkf_task_queue_done(vkf_env *env, const vkf_text_queue *queue, void *tag, const vkf_result *result);

#endif
