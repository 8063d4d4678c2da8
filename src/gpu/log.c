/* Log: what happened on a device and in what order, for the hazard check (hazard.c).
 *
 * Owns events and their strings, so that buffers and blocks may be destroyed before the log is read. If an append
 * fails, the log keeps that status, and the check then reports it.
 */
#include <string.h>

#include "gpu/vk.h"

void vkf_gpu_log_init(vkf_gpu_log *log, vkf_env *env) {
  memset(log, 0, sizeof(*log));
  log->env = env;
  vkf_arena_init(&log->names, env);
}

void vkf_gpu_log_finish(vkf_gpu_log *log) {
  vkf_env_free(log->env, log->events);
  vkf_arena_finish(&log->names);
  vkf_gpu_log_init(log, log->env);
}

/* Returns the log's own copy of a name. Names repeat with every submit, so it searches the last 16 events before it
 * copies. */
static const char *intern(vkf_gpu_log *log, const char *name) {
  if (!name) return NULL;
  for (size_t i = log->n; i-- > 0 && log->n - i <= 16;) {
    const vkf_gpu_event *event = &log->events[i];
    const char *known[] = {event->block, event->name, event->buffer_name};
    for (size_t k = 0; k < VKF_COUNT(known); ++k)
      if (known[k] && strcmp(known[k], name) == 0) return known[k];
  }
  const char *copy = vkf_arena_strdup(&log->names, name);
  if (!copy) log->status = VKF_ERROR_MEMORY;
  return copy;
}

void vkf_gpu_log_append(vkf_gpu_log *log, const vkf_gpu_event *event) {
  if (log->status != VKF_OK) return;
  vkf_gpu_event *events = vkf_env_grow(log->env, log->events, &log->capacity, log->n + 1, sizeof(*events));
  if (!events) {
    log->status = VKF_ERROR_MEMORY;
    return;
  }
  log->events = events;
  vkf_gpu_event copy = *event;
  copy.block = intern(log, event->block);
  copy.name = intern(log, event->name);
  copy.buffer_name = intern(log, event->buffer_name);
  log->events[log->n++] = copy;
}

void vkf_gpu_log_append_all(vkf_gpu_log *log, const vkf_gpu_log *other) {
  for (size_t i = 0; i < other->n; ++i) vkf_gpu_log_append(log, &other->events[i]);
  if (log->status == VKF_OK) log->status = other->status;
}

void vkf_gpu_log_dispatch(vkf_gpu_log *log, const char *block, const char *name) {
  vkf_gpu_log_append(log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_DISPATCH, .block = block, .name = name});
}

void vkf_gpu_log_access(vkf_gpu_log *log, uint32_t by, const vkf_gpu_access *access) {
  vkf_gpu_log_append(log, &(vkf_gpu_event){.kind = VKF_GPU_EVENT_ACCESS,
                                           .by = by,
                                           .mode = access->mode,
                                           .buffer = access->buffer->id,
                                           .begin = access->begin,
                                           .end = access->end,
                                           .buffer_name = access->buffer->name});
}

void vkf_gpu_hazard_log(vkf_gpu_device *device, bool on) {
  vkf_gpu_log_finish(&device->log);
  device->logging = on;
}
