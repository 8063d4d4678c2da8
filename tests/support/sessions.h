/* A session for each model that a test runs: made on first use, destroyed with its model. Each thread has its own
 * sessions. */
#ifndef VKF_TESTS_SUPPORT_SESSIONS_H
#define VKF_TESTS_SUPPORT_SESSIONS_H

#include <vkformer/vkformer.h>

enum { MAX_TEST_SESSIONS = 16 };
static _Thread_local struct {
  vkf_model *model;
  vkf_session *session;
} test_sessions[MAX_TEST_SESSIONS];

/* Returns the thread's session of a model. NULL: it cannot be made; the context has the message. */
static inline vkf_session *session_of(vkf_model *model) {
  int at = 0;
  while (at < MAX_TEST_SESSIONS - 1 && test_sessions[at].session && test_sessions[at].model != model) at++;
  if (!test_sessions[at].session && vkf_session_create(model, NULL, &test_sessions[at].session) == VKF_OK)
    test_sessions[at].model = model;
  return test_sessions[at].session;
}

static inline void close_model(vkf_model **model) {
  int at = 0, last = 0;
  while (last < MAX_TEST_SESSIONS && test_sessions[last].session) last++;
  while (at < last && test_sessions[at].model != *model) at++;
  if (at < last) {
    vkf_session_destroy(&test_sessions[at].session);
    test_sessions[at] = test_sessions[last - 1];
    test_sessions[last - 1].session = NULL;
  }
  vkf_model_close(model);
}

/* Returns the message of the last failure, from a session or from the context. */
static inline const char *last_message(const vkf_context *context) {
  for (int i = 0; i < MAX_TEST_SESSIONS && test_sessions[i].session; i++)
    if (vkf_session_message(test_sessions[i].session)[0]) return vkf_session_message(test_sessions[i].session);
  return vkf_context_message(context);
}

#endif
