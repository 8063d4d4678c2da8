/* queue: the callbacks of vkf_text_queue, by which texts of the caller come while others run. */
#ifndef VKF_TASK_QUEUE_H
#define VKF_TASK_QUEUE_H

#include "engine/opened.h"

/* Reads a caller's queue. VKF_ERROR_ARGUMENT: a function is missing. */
vkf_status vkf_task_queue_read(vkf_env *env, const vkf_text_queue *given, vkf_text_queue *out);
/* Asks for the next text; out->text NULL: there is none now. Returns true if the caller asks to stop. */
bool vkf_task_queue_next(vkf_env *env, const vkf_text_queue *queue, bool busy, vkf_queued_text *out);
/* Gives the caller the result of a text. Returns true if the caller asks to stop. */
bool vkf_task_queue_done(vkf_env *env, const vkf_text_queue *queue, void *tag, const vkf_result *result);

#endif
