/* env: records failures as sentences and passes log lines on.
 *
 * Owns vkf_env's message and log. It never prints: log lines go to the caller's callback or nowhere. Invariant: a
 * recorded failure stays until vkf_env_clear(); later ones do not replace it.
 */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *reallocate_by_libc(void *user, void *old, size_t size) {
  (void)user;
  if (size == 0) {
    free(old);
    return NULL;
  }
  return realloc(old, size);
}

void vkf_env_init(vkf_env *env, const vkf_context_params *params) {
  memset(env, 0, sizeof(*env));
  env->allocator.reallocate = reallocate_by_libc;
  if (params == NULL) return;
  env->log = params->log;
  env->log_user = params->log_user;
  env->log_level = params->log_level;
  if (params->allocator != NULL) env->allocator = *params->allocator;
}

void vkf_env_init_child(vkf_env *env, vkf_env *parent) {
  memset(env, 0, sizeof(*env));
  env->parent = parent;
  env->allocator = parent->allocator;
  env->log = parent->log;
  env->log_user = parent->log_user;
  env->log_level = parent->log_level;
}

static vkf_env *listener_of(vkf_env *env) {
  return env->listener != NULL ? env->listener : env;
}

void vkf_env_clear(vkf_env *env) {
  env->first = VKF_OK;
  env->message[0] = '\0';
  env->too_large = false;
}

void vkf_env_save_failure(const vkf_env *env, vkf_env_failure *out) {
  out->first = env->first;
  out->too_large = env->too_large;
  memcpy(out->message, env->message, sizeof out->message);
}

void vkf_env_restore_failure(vkf_env *env, const vkf_env_failure *failure) {
  env->first = failure->first;
  env->too_large = failure->too_large;
  memcpy(env->message, failure->message, sizeof env->message);
}

static void keep(vkf_env *env, vkf_status status, bool too_large, const char *fmt, va_list args) {
  /* Formats into a copy, because the arguments may point into the message. */
  char sentence[sizeof(env->message)];
  vsnprintf(sentence, sizeof(sentence), fmt, args);
  memcpy(env->message, sentence, strlen(sentence) + 1);
  env->first = status;
  env->too_large = too_large;
}

vkf_status vkf_env_fail(vkf_env *env, vkf_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  env = listener_of(env);
  if (env->first == VKF_OK) keep(env, status, false, fmt, args);
  va_end(args);
  return status;
}

vkf_status vkf_env_fail_too_large(vkf_env *env, vkf_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  env = listener_of(env);
  if (env->first == VKF_OK) keep(env, status, true, fmt, args);
  va_end(args);
  return status;
}

vkf_status vkf_env_prefix(vkf_env *env, vkf_status status, const char *fmt, ...) {
  char joined[sizeof(env->message)];
  va_list args;
  env = listener_of(env);
  va_start(args, fmt);
  int n = vsnprintf(joined, sizeof(joined), fmt, args);
  va_end(args);
  if (n < 0) return status;
  if ((size_t)n < sizeof(joined)) snprintf(joined + n, sizeof(joined) - (size_t)n, "%s", env->message);
  memcpy(env->message, joined, strlen(joined) + 1);
  return status;
}

/* The innermost callback that this thread is in; NULL: none. */
static _Thread_local const vkf_env_callback *innermost;

void vkf_env_callback_begin(vkf_env *env, vkf_env_callback *callback) {
  callback->env = env;
  callback->outer = innermost;
  vkf_env_save_failure(env, &callback->before);
  innermost = callback;
}

void vkf_env_callback_end(const vkf_env_callback *callback) {
  innermost = callback->outer;
  vkf_env_restore_failure(callback->env, &callback->before);
}

bool vkf_env_callback_runs(const vkf_env *env) {
  for (const vkf_env_callback *c = innermost; c != NULL; c = c->outer)
    if (c->env == env || c->env->parent == env || c->env == env->parent) return true;
  return false;
}

bool vkf_env_in_child(vkf_env *env, const char *call) {
  const pid_t process = env->parent != NULL ? env->parent->process : env->process;
  if (process == 0 || process == getpid()) return false;
  vkf_env_clear(env);
  vkf_env_fail(env, VKF_ERROR_ARGUMENT,
               "%s() cannot be called in a child process: open a context, a device and a model of its own there", call);
  return true;
}

bool vkf_env_refuses(vkf_env *env, const char *call) {
  if (vkf_env_in_child(env, call)) return true;
  if (!vkf_env_callback_runs(env)) return false;
  vkf_env_clear(env);
  vkf_env_fail(env, VKF_ERROR_ARGUMENT,
               "%s() cannot be called inside a callback of the same %s: call it when the "
               "call that the callback belongs to has returned",
               call, env->parent != NULL ? "session" : "context");
  return true;
}

void vkf_env_log(vkf_env *env, vkf_log_level level, const char *fmt, ...) {
  env = listener_of(env);
  if (env->log == NULL || level > env->log_level) return;
  char line[2048];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  VKF_CALLBACK(env, env->log(env->log_user, level, line));
}
