/* Begins and ends every call on a session, and returns its message. Invariant: a call holds `busy`, so a second thread
 * is refused, and changes nothing. */
#include <stdatomic.h>

#include "engine/opened.h"

/* The session that refused this thread's last call on it, because another thread used it; NULL: there is none. */
static _Thread_local struct {
  const vkf_session *session;
  uint64_t created; /* its `created`: a later session may have the same address */
} refusal;

static bool has_refused_me(const vkf_session *s) {
  return refusal.session == s && refusal.created == s->created;
}

static const char BUSY[] =
    "expected a session that no other thread uses, found one that runs a call of another thread: create a session for "
    "each thread";
static const char CLOSED[] = "expected a session of a model that is open, found one whose model was closed";

/* Returns why another thread has the lock: it runs a call, or closes the model. */
static const char *why_busy(vkf_session *s) {
  return atomic_load(&s->is_closing) ? CLOSED : BUSY;
}

/* Takes the lock, or notes that another thread has it. */
static bool take(vkf_session *s) {
  if (!pthread_mutex_trylock(&s->busy)) return true;
  refusal.session = s;
  refusal.created = s->created;
  return false;
}

vkf_status vkf_engine_session_begin(vkf_session *s, const char *call) {
  if (!s) return VKF_ERROR_ARGUMENT;
  vkf_status st = VKF_OK;
  if (vkf_env_refuses(&s->own, call)) return VKF_ERROR_ARGUMENT;
  if (!take(s)) return VKF_ERROR_ARGUMENT;
  if (has_refused_me(s)) refusal.session = NULL;
  vkf_env_clear(&s->own);
  if (!s->model || atomic_load(&s->is_closing)) VKF_FAIL(&s->own, VKF_ERROR_ARGUMENT, "%s: %s", call, CLOSED);
done:
  if (st) pthread_mutex_unlock(&s->busy);
  return st;
}

vkf_status vkf_engine_session_end(vkf_session *s, vkf_status st, vkf_result **result) {
  if (result && *result) (*result)->env = &s->ctx->env; /* it may outlive the session, not the context */
  pthread_mutex_unlock(&s->busy);
  return st;
}

vkf_session *vkf_engine_session_look(const vkf_session *session) {
  vkf_session *s = (vkf_session *)session; /* callers do not see its lock */
  return s && !vkf_env_callback_runs(&s->own) && take(s) ? s : NULL;
}

const char *vkf_session_message(vkf_session *s) {
  if (!s) return "";
  if (has_refused_me(s)) return why_busy(s);
  if (vkf_env_callback_runs(&s->own)) return s->own.message;
  if (pthread_mutex_trylock(&s->busy)) return why_busy(s);
  pthread_mutex_unlock(&s->busy);
  return s->own.message;
}
