/* queue: see queue.h. */
#include "task/queue.h"

vkf_status vkf_task_queue_read(vkf_env *env, const vkf_text_queue *given, vkf_text_queue *out) {
  VKF_CALL(VKF_PARAMS_READ(env, vkf_text_queue, given, out));
  if (!out->next || !out->done)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected a queue with `next` and `done`, found one without");
  return VKF_OK;
}

bool vkf_task_queue_next(vkf_env *env, const vkf_text_queue *queue, bool busy, vkf_queued_text *out) {
  int stop = 0;
  *out = (vkf_queued_text){.size = sizeof *out};
  VKF_CALLBACK(env, stop = queue->next(queue->user, busy, out));
  if (stop) out->text = NULL;
  return stop != 0;
}

bool vkf_task_queue_done(vkf_env *env, const vkf_text_queue *queue, void *tag, const vkf_result *result) {
  int stop = 0;
  VKF_CALLBACK(env, stop = queue->done(queue->user, tag, result));
  return stop != 0;
}
